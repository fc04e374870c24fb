/* Conformance support: a pattern that shows whose bytes these are.
 *
 * Every 8-byte word of a block depends on the block's seed and the word's place, so a block that
 * was moved, shifted, mixed up with another or partly lost does not match.
 *
 * Any test may call these. They touch only the bytes they are given.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_PATTERN_H
#define HAK_TEST_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "support/bytes.h"

static inline uint64_t pattern_word(uint64_t seed, size_t index)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 29);
}

static inline void pattern_fill(void *block, size_t size, uint64_t seed)
{
    unsigned char *p = (unsigned char *)block;
    size_t words = size / 8;
    for (size_t i = 0; i < words; i++)
        bytes_store(p + i * 8, pattern_word(seed, i));
    uint64_t tail = pattern_word(seed, words);
    memcpy(p + words * 8, &tail, size % 8);
}

/* The place of the first wrong byte, or `size` if all are right. */
static inline size_t pattern_check(const void *block, size_t size, uint64_t seed)
{
    const unsigned char *p = (const unsigned char *)block;
    size_t i = 0;
    while (i + 8 <= size && bytes_load(p + i) == pattern_word(seed, i / 8))
        i += 8;
    uint64_t word = pattern_word(seed, i / 8);
    const unsigned char *expected = (const unsigned char *)&word;
    for (size_t k = 0; k < 8 && i + k < size; k++)
        if (p[i + k] != expected[k])
            return i + k;
    return size;
}

static inline bool pattern_holds(const void *block, size_t size, uint64_t seed)
{
    return pattern_check(block, size, seed) == size;
}

static inline bool all_zero(const void *block, size_t size)
{
    return bytes_all(block, size, 0);
}

/* xorshift64*: small, seeded, the same everywhere. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

#endif
