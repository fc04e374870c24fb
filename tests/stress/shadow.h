/* Stress: the shadow record of a block, and the pattern that says whose bytes these are.
 *
 *   word i of a block   =   mix( serial number of the block << 24 | i )
 *
 * A wrong word can be turned back into the block that wrote it, so an overlap is named as such.
 * Blocks over a limit are written at the start and end of every page only: two blocks that overlap
 * by a page still meet.
 *
 * Used by stress.c and shadow.c. A record belongs to the thread that holds it; nothing here locks.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_STRESS_SHADOW_H
#define HAK_STRESS_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block {
    unsigned char *p;   /* NULL: no block here */
    size_t size;        /* as asked for */
    size_t usable;      /* as told by malloc_usable_size when it was new */
    size_t align;       /* as promised */
    uint64_t serial;    /* never twice in a run */
    unsigned owner;     /* lane that allocated it */
    bool sized;         /* may be given to free_sized (malloc, calloc, realloc) */
    bool aligned_sized; /* may be given to free_aligned_sized (aligned_alloc) */
};

/* Fills in what can be measured, checks address, alignment and usable size, and writes the pattern.
 */
void shadow_begin(struct block *b, void *p, size_t size, size_t align, uint64_t serial,
                  unsigned owner);

/* Checks usable size and pattern; `bytes` of it (after a realloc: what must have been kept). */
void shadow_check(const struct block *b, const void *p, size_t bytes);

/* All of it, at its own address. */
void shadow_check_all(const struct block *b);

/* Prints what is wrong with which block, then seed and command line, and ends the process. */
_Noreturn void shadow_fail(const struct block *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The command line to print on failure. */
void shadow_set_command(int argc, char **argv, uint64_t seed);

#endif
