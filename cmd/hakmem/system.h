/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: what the system says of itself and of a process, in /proc and /sys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A folder that stands for the root of all paths here: of a container, or of a test. */
void hak_system_set_root(const char *folder);

/* A file for reading, or NULL. */
FILE *hak_system_open(const char *path);
/* All of a small file, without the last newline: a new string, or NULL. */
char *hak_system_text(const char *path);
/* The first word, a number; UINT64_MAX: no such file, or no number ("max" is none). */
uint64_t hak_system_number(const char *path);
/* A line "NAME: 12 kB" of a file, in bytes; UINT64_MAX: there is none. */
uint64_t hak_system_line(const char *path, const char *name);
/* The soft limit of a process in its row of FOLDER/limits; UINT64_MAX: unlimited or unknown. */
uint64_t hak_system_limit(const char *folder, const char *name);
uint64_t hak_system_meminfo(const char *name);
bool hak_system_exists(const char *path);
/* The target of a symbolic link: a new string, or NULL. */
char *hak_system_link(const char *path);
