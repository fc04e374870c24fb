/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: becomes another program with a library preloaded; what `hakmem run` and
 * `hakmem record` share. */
#pragma once

#include "find.h"
#include "script.h"
#include "target.h"
#include "util.h"

#include <stdbool.h>

struct hak_takeover {
    const char *given; /* the library's path, or NULL: as hak_library_find */
    const char *name;  /* of the library: HAK_LIBRARY_* */
    bool force;        /* start also what cannot be taken over */
    bool passes_on;    /* the library has no allocator: calls go on to the one behind it */
    char **command;    /* the program and its arguments, up to NULL */

    /* Answers: */
    char *path; /* of the command */
    char *preload;
    struct hak_start start;
    struct hak_library library;
    struct hak_strings kept; /* what LD_PRELOAD names besides the library */
    struct hak_target target;
};

/* Finds program and library, and proves that the one will use the other. Ends the command with the
 * reason where not. */
void hak_takeover_prepare(struct hak_takeover *takeover);
_Noreturn void hak_takeover_start(const struct hak_takeover *takeover);
void hak_takeover_free(struct hak_takeover *takeover);

/* As hak_library_find, or ends the command with the problem and what to do about it. */
void hak_takeover_find_library(struct hak_library *library, const char *given, const char *name);
/* Sets a variable of the environment, or ends the command. */
void hak_takeover_set(const char *name, const char *value);
