/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: which libraries a program will have in its process. */
#pragma once

#include "elf_file.h"
#include "util.h"

#include <stdbool.h>

struct hak_loaded {
    struct hak_strings files; /* paths, or names that were not found */
    bool has_library;         /* the loader itself put the library to be preloaded among them */
    char *complaint;          /* what the loader says against that library, or NULL */
    char *failure;            /* the first other thing that it says, or NULL */
};

/* Asks the program's own loader (`LOADER --list PROGRAM`, glibc's, with the given LD_PRELOAD). It
 * maps the files and resolves names, but runs nothing of them. False when it cannot be asked or
 * does not answer: nothing is known. */
bool hak_loader_ask(struct hak_loaded *loaded, const char *loader, const char *program,
                    const char *library, const char *preload);

/* Adds what the loader answered, line by line; cuts the text up. */
void hak_loader_understand(struct hak_loaded *loaded, char *text, const char *library);

/* Without the loader's help: follows DT_NEEDED as glibc's loader would, but without its cache. */
void hak_loader_walk(struct hak_loaded *loaded, const char *program,
                     const struct hak_strings *preloaded);

/* The directories that a file like ld.so.conf names, appended to a colon-separated list. */
void hak_loader_read_conf(char **list, const char *path);

void hak_loaded_free(struct hak_loaded *loaded);
