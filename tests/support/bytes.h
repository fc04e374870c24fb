/* Tests: memory is looked at by whole words. A test reads far more than the allocator, and under
 * ThreadSanitizer each access costs alike, however wide it is, unless it is not aligned: then many
 * times as much.
 *
 * Any test may call these. They touch only the bytes they are given.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_BYTES_H
#define HAK_TEST_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t __attribute__((may_alias)) bytes_word;

#ifdef __SANITIZE_THREAD__
#define BYTES_BY_ALIGNMENT true
#else
#define BYTES_BY_ALIGNMENT false /* the test would cost more than it gives */
#endif

static inline uint64_t bytes_load(const void *p)
{
    uint64_t word;
    if (BYTES_BY_ALIGNMENT && (uintptr_t)p % sizeof word == 0)
        return *(const bytes_word *)p;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline void bytes_store(void *p, uint64_t word)
{
    if (BYTES_BY_ALIGNMENT && (uintptr_t)p % sizeof word == 0)
        *(bytes_word *)p = word;
    else
        memcpy(p, &word, sizeof word);
}

/* How many bytes from the first on have that value. */
static inline size_t bytes_alike(const void *block, size_t bytes, unsigned char value)
{
    const unsigned char *p = (const unsigned char *)block;
    const uint64_t all = value * (uint64_t)0x0101010101010101;
    size_t i = 0;
    while (i < bytes && (uintptr_t)(p + i) % 8 != 0 && p[i] == value)
        i++;
    for (; i + 64 <= bytes && (uintptr_t)(p + i) % 8 == 0; i += 64) {
        const bytes_word *words = (const bytes_word *)(const void *)(p + i);
        uint64_t others = 0;
        for (unsigned k = 0; k < 8; k++)
            others |= words[k] ^ all;
        if (others != 0)
            break;
    }
    while (i + 8 <= bytes && bytes_load(p + i) == all)
        i += 8;
    while (i < bytes && p[i] == value)
        i++;
    return i;
}

static inline bool bytes_all(const void *block, size_t bytes, unsigned char value)
{
    return bytes_alike(block, bytes, value) == bytes;
}

#endif
