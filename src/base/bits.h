/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base: bits and rounding. Pure functions; any layer may call them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Undefined for 0, as the instruction is. */
static inline unsigned hak_ctz64(uint64_t x)
{
    return (unsigned)__builtin_ctzll(x);
}

static inline unsigned hak_log2_floor(uint64_t x)
{
    return 63u - (unsigned)__builtin_clzll(x);
}

static inline unsigned hak_log2_ceil(uint64_t x)
{
    return x <= 1 ? 0 : hak_log2_floor(x - 1) + 1;
}

/* In pairs, fours and bytes, then summed up by a multiplication: without the instruction, which not
 * every x86-64 has, the compiler calls a function that is slower. Often there is one bit, or none.
 */
static inline unsigned hak_popcount64(uint64_t x)
{
    if ((x & (x - 1)) == 0)
        return x != 0;
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)(x * 0x0101010101010101u >> 56);
}

static inline uint64_t hak_rotate_right64(uint64_t x, unsigned by)
{
    return x >> (by % 64) | x << (-by % 64);
}

/* Sets bit `at` % 64; true if it was set before. One instruction and the flag that it leaves, which
 * compilers do not think of: they make a mask in a register, test it and or it. */
static inline bool hak_test_and_set64(uint64_t *x, uint64_t at)
{
#if defined(__x86_64__)
    bool was;
    __asm__("btsq %2, %0" : "+r"(*x), "=@ccc"(was) : "r"(at));
    return was;
#else
    uint64_t bit = UINT64_C(1) << (at % 64);
    bool was = *x & bit;
    *x |= bit;
    return was;
#endif
}

/* x * hak_inverse64(x) == 1 modulo 2^64 for odd x. Newton's iteration; each step doubles the number
 * of right bits, of which x itself has three. */
static inline uint64_t hak_inverse64(uint64_t x)
{
    uint64_t y = x;
    for (unsigned bits = 3; bits < 64; bits *= 2)
        y *= 2 - x * y;
    return y;
}

static inline bool hak_is_pow2(size_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

/* `to` is a power of two; the caller has excluded overflow. */
static inline size_t hak_round_up(size_t x, size_t to)
{
    return (x + to - 1) & ~(to - 1);
}

static inline size_t hak_round_down(size_t x, size_t to)
{
    return x & ~(to - 1);
}

static inline size_t hak_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t hak_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* A mask of n low bits, 0 <= n <= 32. */
static inline uint32_t hak_low_bits32(unsigned n)
{
    return n >= 32 ? UINT32_MAX : (1u << n) - 1;
}

/* The positions at which a run of n set bits of `set` begins, 1 <= n <= 32: and-ing with shifted
 * copies, doubling. */
static inline uint32_t hak_run_starts32(uint32_t set, unsigned n)
{
    unsigned have = 1;
    while (have < n && set != 0) {
        unsigned step = n - have < have ? n - have : have;
        set &= set >> step;
        have += step;
    }
    return set;
}

/* The positions that are multiples of n, n a power of two up to 32: a one in each n digits. (Not
 * from a table, which would keep a page of constants in memory.) */
static inline uint32_t hak_aligned_starts32(unsigned n)
{
    return UINT32_MAX / (UINT32_MAX >> (32 - n));
}
