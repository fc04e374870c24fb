/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * policy: the bandit's arithmetic, in integers, so that every machine chooses alike. Pure. See
 * policy.h. */
#include "policy/policy.h"

#define BASE_LEAST 3u /* runs with the defaults first, */
#define BASE_SHARE 4u /* and then one in so many: the machine and the work change */

/* UCB1's bonus is for rewards all over [0, 1]; a knob moves them by a few hundredths. */
#define BONUS_SHARE 16u
#define FRACTION_BITS 16u
#define LN2_PPM UINT64_C(693147)

/* log2(x), x > 0, in 2^-16: the digits come from squaring the mantissa (D. E. Knuth, The Art of
 * Computer Programming, vol. 1, 1.2.2, exercise 25 on). */
static uint64_t bandit_log2(uint64_t x)
{
    unsigned whole = 63u - (unsigned)__builtin_clzll(x);
    uint64_t mantissa = x << (63u - whole) >> 32; /* [2^31, 2^32) stands for [1, 2) */
    uint64_t log = whole;
    for (unsigned i = 0; i < FRACTION_BITS; i++) {
        mantissa = mantissa * mantissa >> 31;
        log <<= 1;
        if (mantissa >= UINT64_C(1) << 32) {
            mantissa >>= 1;
            log |= 1;
        }
    }
    return log;
}

uint64_t hak_square_root(uint64_t x)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit != 0; bit >>= 1)
        if ((root | bit) * (root | bit) <= x)
            root |= bit;
    return root;
}

uint64_t hak_bandit_bound(const struct hak_arm_evidence *arm, uint64_t all_plays)
{
    if (arm->plays == 0)
        return UINT64_MAX;
    uint64_t all = all_plays < arm->plays ? arm->plays : all_plays;
    uint64_t ln = (bandit_log2(all + 1) * LN2_PPM) >> FRACTION_BITS; /* millionths */
    uint64_t bonus = hak_square_root(2 * ln / arm->plays * HAK_PPM);
    uint64_t mean = arm->reward / arm->plays;
    return mean - hak_min(mean, hak_arm_loss(arm)) + bonus / BONUS_SHARE;
}

bool hak_bandit_pick(const struct hak_evidence *e, const bool fixed[HAK_KNOBS], unsigned *knob,
                     unsigned *arm)
{
    uint64_t plays = 0;
    uint64_t best = HAK_PPM / 2; /* with less not even luck would make it better than the default */
    bool found = false;
    for (unsigned k = 0; k < HAK_KNOBS; k++)
        for (unsigned a = 1; a < HAK_ARMS; a++)
            plays += e->arm[k][a].plays;
    if (e->base_plays < BASE_LEAST || e->base_plays < plays / BASE_SHARE)
        return false;
    for (unsigned k = 0; k < HAK_KNOBS; k++) {
        for (unsigned a = 1; a < HAK_ARMS && !fixed[k]; a++) {
            const struct hak_arm_evidence *candidate = &e->arm[k][a];
            uint64_t bound = hak_bandit_bound(candidate, plays);
            if (candidate->hints == 0 || bound <= best)
                continue;
            best = bound;
            *knob = k;
            *arm = a;
            found = true;
        }
    }
    return found;
}
