/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the arithmetic of sampling, in whole numbers: a program may have made inexact results
 * of floating point arithmetic an error. See prof.h. */
#include "telemetry/prof.h"

/* G. Marsaglia, "Xorshift RNGs", 2003, and a multiplication for its low bits (S. Vigna, "An
 * experimental exploration of Marsaglia's xorshift generators, scrambled", 2016). */
static uint64_t prof_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

uint64_t hak_prof_seed(void)
{
    return hak_os_random() | 1;
}

/* log2 of x / 2^64, negated, with 32 bits behind the point; x > 0. Bit by bit: squaring a number
 * doubles its logarithm. */
static uint64_t prof_minus_log2(uint64_t x)
{
    unsigned whole = hak_log2_floor(x);
    uint64_t m = x << (63 - whole); /* 1 <= m < 2, with 63 bits behind the point */
    uint64_t fraction = 0;
    for (int bit = 31; bit >= 0; bit--) {
        m = (uint64_t)((unsigned __int128)m * m >> 64); /* 62 bits behind the point */
        if (m >> 63 != 0)
            fraction |= UINT64_C(1) << bit;
        else
            m <<= 1;
    }
    return ((uint64_t)64 << 32) - ((uint64_t)whole << 32 | fraction);
}

/* An exponentially distributed number is minus the logarithm of a uniformly distributed one. */
int64_t hak_prof_distance(uint64_t *random)
{
    const uint64_t ln2 = UINT64_C(0xb17217f7d1cf79ac); /* 64 bits behind the point */
    uint64_t x = prof_random(random);
    unsigned __int128 nats = (unsigned __int128)prof_minus_log2(x == 0 ? 1 : x) * ln2 >> 64;
    return (int64_t)(nats * hak_prof_period() >> 32);
}

#define ONE_SHIFT 62 /* bits behind the point */

static uint64_t prof_times(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> ONE_SHIFT);
}

/* 1 - exp(-bytes / period). The series where it is good, for a part of x; then by doubling: with
 * y = 1 - exp(-x), 1 - exp(-2x) is 2y - y * y. */
static uint64_t prof_probability(uint64_t bytes, uint64_t period_bytes)
{
    unsigned doublings = 0;
    if (bytes / period_bytes >= 40)
        return UINT64_C(1) << ONE_SHIFT;
    unsigned __int128 scaled = (unsigned __int128)bytes << ONE_SHIFT;
    unsigned __int128 most = (unsigned __int128)period_bytes << (ONE_SHIFT - 3); /* x <= 1/8 */
    for (; scaled > most; doublings++)
        scaled >>= 1;
    uint64_t x = (uint64_t)(scaled / period_bytes);
    uint64_t term = x;
    uint64_t y = x;
    for (uint64_t n = 2; term != 0 && n < 20; n++) {
        term = prof_times(term, x) / n;
        y = n % 2 == 0 ? y - term : y + term;
    }
    for (; doublings > 0; doublings--)
        y = 2 * y - prof_times(y, y);
    return y;
}

struct hak_prof_weight hak_prof_weigh(uint64_t bytes, uint64_t period_bytes)
{
    struct hak_prof_weight w = {0, 0};
    uint64_t p = prof_probability(bytes, period_bytes);
    if (p == 0)
        return w;
    unsigned __int128 one = (unsigned __int128)1 << (ONE_SHIFT + HAK_PROF_OBJECT_SHIFT);
    w.objects = (uint64_t)((one + p / 2) / p);
    w.bytes = (uint64_t)(((unsigned __int128)w.objects * bytes) >> HAK_PROF_OBJECT_SHIFT);
    return w;
}
