/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: where programs and the library are. Reads the file system and the
 * environment; never changes either, never ends the command for what is missing. */
#pragma once

#include "elf_file.h"
#include "util.h"

#include <stdbool.h>

/* The directory that holds this command: a new string, or NULL where the system does not tell. */
char *hak_find_own_directory(void);

/* 0 if this is a file that the caller may execute, else the errno that exec would give (EISDIR for
 * a directory). */
int hak_find_executable_error(const char *path);

/* As execvp(3) looks for it: a name with a slash is a path, any other is searched in `search_path`.
 * A new string, or NULL with errno set: ENOENT, EACCES, EISDIR or what else the system said. */
char *hak_find_program(const char *name, const char *search_path);

/* A new string, since the program may change its directory before it opens a file or starts others;
 * NULL with errno set: its directory is not there. Links within the last part stay: they are there
 * so that the file behind them can be replaced. */
char *hak_find_absolute(const char *path);

/* PATH, or what execvp(3) takes in its place where it is not set. */
const char *hak_find_search_path(void);

/* Calls `visit` for each directory of a colon-separated list; an empty one is ".". Stops when it
 * returns true. */
bool hak_find_each_directory(const char *list, bool (*visit)(const char *directory, void *context),
                             void *context);

/* The library to put before a program. */
struct hak_library {
    char *path;         /* absolute, or NULL: none found */
    struct hak_elf elf; /* open when there is no problem */
    char *problem;      /* NULL: it can be used. Else a sentence without a full stop */
    const char *hint;   /* what to do about the problem */
};

/* LD_PRELOAD is a list without quoting, in which $ORIGIN and the like are replaced. */
bool hak_library_can_be_named(const char *path);

#define HAK_LIBRARY_DEFAULT "libhakmem.so"
#define HAK_LIBRARY_HARDENED "libhakmem-hardened.so"
#define HAK_LIBRARY_RECORD "libhakmem-record.so"

/* From `given` (--lib) if not NULL, else from HAKMEM_LIBRARY, else the one with this name beside
 * this command, else where it is installed. HAKMEM_LIBRARY is for HAK_LIBRARY_DEFAULT alone. */
void hak_library_find(struct hak_library *library, const char *given, const char *name);
void hak_library_close(struct hak_library *library);
