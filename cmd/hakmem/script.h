/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: from a file that can be executed to the program that the kernel will start
 * for it. */
#pragma once

#include <stdbool.h>

struct hak_start {
    char *program; /* the file without a `#!` line that the kernel starts in the end */
    bool by_shell; /* text without a `#!` line: exec(2) refuses it, execvp(3) gives it to /bin/sh */
    unsigned steps; /* how many `#!` lines lead there */
};

/* Follows `#!` lines, and `env NAME` in them, as far as the kernel does. Ends the command with a
 * message when the chain leads nowhere, or through something that takes LD_PRELOAD away. */
void hak_script_follow(struct hak_start *start, const char *path);
void hak_start_free(struct hak_start *start);
