/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: the proof that a program can be taken over, made before it starts. */
#pragma once

#include "find.h"
#include "util.h"

struct hak_target {
    const char *command;                 /* the file to execute, as messages name it */
    const char *program;                 /* the ELF file that the kernel will start for it */
    const struct hak_library *library;   /* without a problem */
    const char *preload;                 /* what LD_PRELOAD will be */
    const struct hak_strings *preloaded; /* what it names besides the library */
    bool passes_on; /* the library has no allocator, so that there may be another one */
    bool force;     /* a refusal becomes a warning */

    /* Answers: */
    char *loader;     /* a new string; NULL: the program names none */
    unsigned refused; /* how many refusals were overridden by force */
};

/* Of which libc a loader is ("musl", "glibc" and others), and for which one a library is made. */
const char *hak_target_libc_of_loader(const char *loader);
const char *hak_target_libc_of_library(const struct hak_elf *elf);

/* Returns when the library will be the program's allocator, or when it may not be but `force` is
 * set; else ends the command with the reason and what to do about it. */
void hak_target_prove(struct hak_target *target);
