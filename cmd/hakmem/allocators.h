/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: what is known about other allocators, and the list in LD_PRELOAD. Pure
 * functions of names and files; they never change the environment and never end the command. */
#pragma once

#include "elf_file.h"
#include "util.h"

/* The allocator in a library of this file name ("jemalloc"); NULL: none known by name. */
const char *hak_allocator_name(const char *file_name);

/* The first of malloc, free, calloc and realloc that the file defines for others, or NULL. */
const char *hak_allocator_symbol(const struct hak_elf *elf);

/* LD_PRELOAD with the library in front: a new string. What `existing` (may be NULL) names stays
 * behind it in its order and is put in `kept`; any libhakmem among it is dropped, since only one
 * can be first. */
char *hak_preload_value(const char *library, const char *existing, struct hak_strings *kept);
