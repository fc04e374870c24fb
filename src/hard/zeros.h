/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: looks whether memory is zero, and makes it so. In files that are compiled for machines with
 * AVX2 a vector is twice as long. */
#pragma once

#include "base/base.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

static inline uint64_t hard_load(const void *at)
{
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

typedef uint64_t hard_pair __attribute__((vector_size(16), may_alias));
#ifdef __AVX2__
typedef long long hard_vector __attribute__((vector_size(32), aligned(16), may_alias));
#else
typedef hard_pair hard_vector;
#endif
#define HARD_VECTOR_BYTES sizeof(hard_vector)
#define HARD_STEP_BYTES (4 * HARD_VECTOR_BYTES) /* a turn of the loops below */

HAK_ALWAYS_INLINE hard_pair hard_pair_at(const char *p)
{
    return *(const hard_pair *)(const void *)p;
}

HAK_ALWAYS_INLINE bool hard_pair_is_zero(hard_pair v)
{
    return (v[0] | v[1]) == 0;
}

HAK_ALWAYS_INLINE hard_vector hard_vector_at(const char *p)
{
    return *(const hard_vector *)(const void *)p;
}

HAK_ALWAYS_INLINE bool hard_vector_is_zero(hard_vector v)
{
#ifdef __AVX2__
    return _mm256_testz_si256((__m256i)v, (__m256i)v);
#else
    return hard_pair_is_zero(v);
#endif
}

typedef uint64_t hard_loose_pair __attribute__((vector_size(16), aligned(1), may_alias));
typedef __typeof__(hard_vector) hard_loose_vector __attribute__((aligned(1)));

HAK_ALWAYS_INLINE void hard_pair_clear(char *p)
{
    *(hard_loose_pair *)(void *)p = (hard_loose_pair){0, 0};
}

HAK_ALWAYS_INLINE void hard_vector_clear(char *p)
{
    *(hard_loose_vector *)(void *)p = (hard_loose_vector){0, 0};
}

/* So many vectors side by side. */
HAK_ALWAYS_INLINE hard_vector hard_vectors_at(const char *p, unsigned count)
{
    hard_vector any = hard_vector_at(p);
#pragma GCC unroll 8
    for (unsigned i = 1; i < count; i++)
        any |= hard_vector_at(p + i * HARD_VECTOR_BYTES);
    return any;
}

HAK_ALWAYS_INLINE void hard_vectors_clear(char *p, unsigned count)
{
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; i++)
        hard_vector_clear(p + i * HARD_VECTOR_BYTES);
}

HAK_ALWAYS_INLINE hard_vector hard_vector_of_pair(hard_pair v)
{
#ifdef __AVX2__
    return (hard_vector)_mm256_zextsi128_si256((__m128i)v);
#else
    return v;
#endif
}

/* All vectors or-ed. p and bytes are multiples of 16, bytes > 0. What is no multiple of a turn is
 * looked at in part twice, which takes fewer branches: few of them are foreseen where lengths
 * change. */
HAK_ALWAYS_INLINE hard_vector hard_any(const char *p, size_t bytes)
{
    const char *end = p + bytes;
    if (bytes < 64)
        return hard_vector_of_pair(hard_pair_at(p) | hard_pair_at(end - 16) |
                                   hard_pair_at(p + (bytes / 2 & ~(size_t)15)));
    hard_vector any = hard_vectors_at(end - 2 * HARD_VECTOR_BYTES, 2);
    if (bytes <= HARD_STEP_BYTES)
        return any | hard_vectors_at(p, 2);
    any |= hard_vectors_at(end - HARD_STEP_BYTES, 2);
    if (bytes <= 2 * HARD_STEP_BYTES)
        return any | hard_vectors_at(p, 4);
    end -= 2 * HARD_STEP_BYTES;
    any |= hard_vectors_at(end, 4);
    for (; p < end; p += 2 * HARD_STEP_BYTES)
        any |= hard_vectors_at(p, 8);
    return any;
}

HAK_ALWAYS_INLINE bool hard_is_zero(const char *p, size_t bytes)
{
    return hard_vector_is_zero(hard_any(p, bytes));
}

HAK_ALWAYS_INLINE void hard_zero_few(char *p, size_t bytes)
{
    const uint64_t zero = 0;
    if (bytes < 16) {
        __builtin_memcpy(p, &zero, sizeof zero);
        __builtin_memcpy(p + bytes - sizeof zero, &zero, sizeof zero);
        return;
    }
    size_t last = bytes - 16, second = hak_min(16, last);
    hard_pair_clear(p);
    hard_pair_clear(p + second);
    hard_pair_clear(p + last - second);
    hard_pair_clear(p + last);
}

/* The same way; not a byte more. bytes >= 8, and any number. */
HAK_ALWAYS_INLINE void hard_zero(char *p, size_t bytes)
{
    char *end = p + bytes;
    if (bytes < 64) {
        hard_zero_few(p, bytes);
        return;
    }
    if (bytes <= HARD_STEP_BYTES) {
        hard_vectors_clear(p, 2);
        hard_vectors_clear(end - 2 * HARD_VECTOR_BYTES, 2);
        return;
    }
    hard_vectors_clear(end - HARD_STEP_BYTES, 4);
    if (bytes <= 2 * HARD_STEP_BYTES) {
        hard_vectors_clear(p, 4);
        return;
    }
    end -= 2 * HARD_STEP_BYTES;
    hard_vectors_clear(end, 4);
    for (; p < end; p += 2 * HARD_STEP_BYTES) {
        HAK_OPAQUE(p); /* or the compiler makes a call of memset of it */
        hard_vectors_clear(p, 8);
    }
}

/* The same for many bytes, of which the program may have written few: what is zero is only looked
 * at, so that it need not go back to memory, and pages that were never written to get none. */
HAK_ALWAYS_INLINE void hard_zero_written(char *p, size_t bytes)
{
    char *last = p + bytes - HARD_STEP_BYTES;
    for (;; p = p + HARD_STEP_BYTES < last ? p + HARD_STEP_BYTES : last) {
        hard_vector any = hard_vector_at(p) | hard_vector_at(p + HARD_VECTOR_BYTES) |
                          hard_vector_at(p + 2 * HARD_VECTOR_BYTES) |
                          hard_vector_at(p + 3 * HARD_VECTOR_BYTES);
        if (!hard_vector_is_zero(any)) {
            hard_vector_clear(p);
            hard_vector_clear(p + HARD_VECTOR_BYTES);
            hard_vector_clear(p + 2 * HARD_VECTOR_BYTES);
            hard_vector_clear(p + 3 * HARD_VECTOR_BYTES);
        }
        if (p == last)
            return;
    }
}

/* All from `at` to `end` is zero; the 8 bytes before `at` can be read. How much it is changes from
 * block to block, so that the end of a loop could not be predicted: up to 64 bytes, and up to four
 * vectors, are looked at without one, some of them more than once. */
HAK_ALWAYS_INLINE bool hard_rest_is_zero(const char *at, const char *end)
{
    size_t bytes = (size_t)(end - at);
    if (bytes < 16) {
        uint64_t last = hard_load(end - sizeof last);
        return bytes >= 8 ? (hard_load(at) | last) == 0 : last >> 8 >> (56 - 8 * bytes) == 0;
    }
    if (bytes <= 64) {
        hard_pair any = *(const hard_loose_pair *)(const void *)at;
        for (size_t i = 1; i <= 3; i++)
            any |= *(const hard_loose_pair *)(const void *)(end - hak_min(16 * i, bytes));
        return hard_pair_is_zero(any);
    }
    hard_vector any = *(const hard_loose_vector *)(const void *)at;
    for (; bytes > 4 * HARD_VECTOR_BYTES; bytes -= HARD_VECTOR_BYTES)
        any |= *(const hard_loose_vector *)(const void *)(at + bytes - HARD_VECTOR_BYTES);
    for (size_t i = 1; i <= 3; i++)
        any |= *(const hard_loose_vector *)(const void *)(at + bytes -
                                                          hak_min(i * HARD_VECTOR_BYTES, bytes));
    return hard_vector_is_zero(any);
}
