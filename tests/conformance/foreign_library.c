/* Conformance: a library with an allocator of its own, as one that a program might load beside
 * ours. It hands out memory of its own mapping and keeps a word before each block.
 *
 * Loaded by foreign_heap with RTLD_LOCAL. Never frees.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <sys/mman.h>

void *malloc(size_t size);

void *malloc(size_t size)
{
    static char *next, *end;
    size = (size + 31) & ~(size_t)15;
    if (next == NULL || size > (size_t)(end - next)) {
        size_t bytes = (size + (8u << 20)) & ~(size_t)4095;
        next = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (next == MAP_FAILED)
            return next = NULL;
        end = next + bytes;
    }
    char *block = next + 16;
    next += size;
    *(size_t *)(void *)(block - 8) = size;
    return block;
}
