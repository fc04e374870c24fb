/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * policy: what was learned: sums, how they are added, and what they are evidence for. Pure. See
 * policy.h. */
#include "policy/policy.h"

/* Sums stop at HAK_SUM_MOST: adding stays associative. */
static void evidence_add(uint64_t *to, uint64_t from)
{
    uint64_t room = HAK_SUM_MOST - *to;
    *to += from < room ? from : room;
}

static void evidence_add_arm(struct hak_arm_evidence *to, const struct hak_arm_evidence *from)
{
    evidence_add(&to->plays, from->plays);
    evidence_add(&to->reward, from->reward);
    evidence_add(&to->squares, from->squares);
    evidence_add(&to->time, from->time);
    evidence_add(&to->memory, from->memory);
    evidence_add(&to->hints, from->hints);
}

void hak_evidence_add(struct hak_evidence *to, const struct hak_evidence *from)
{
    evidence_add(&to->runs, from->runs);
    evidence_add(&to->ticks, from->ticks);
    evidence_add(&to->base_plays, from->base_plays);
    evidence_add(&to->base_us, from->base_us);
    evidence_add(&to->base_cpu_us, from->base_cpu_us);
    evidence_add(&to->base_kib, from->base_kib);
    for (unsigned k = 0; k < HAK_KNOBS; k++)
        for (unsigned a = 0; a < HAK_ARMS; a++)
            evidence_add_arm(&to->arm[k][a], &from->arm[k][a]);
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        evidence_add(&to->bin[cls].weight, from->bin[cls].weight);
        evidence_add(&to->bin[cls].sum, from->bin[cls].sum);
    }
}

uint64_t hak_evidence_mean(uint64_t sum, uint64_t weight)
{
    return weight == 0 ? 0 : sum / weight;
}

/* The cost is C = time + memory / 2, both against the default's, for which it is 1.5; the reward is
 * 0.5 + (1.5 - C), within 0 and 1. */
void hak_arm_play(struct hak_arm_evidence *arm, uint64_t time, uint64_t memory)
{
    uint64_t cost = time + memory / 2;
    uint64_t reward = cost >= 2 * HAK_PPM ? 0 : hak_min(HAK_PPM, 2 * HAK_PPM - cost);
    evidence_add(&arm->plays, 1);
    evidence_add(&arm->reward, reward);
    evidence_add(&arm->squares, reward / 100 * (reward / 100));
    evidence_add(&arm->time, time);
    evidence_add(&arm->memory, memory);
}

/* The mean reward less two standard errors: with normal errors one arm in forty would be taken for
 * better than it is. */
static uint64_t evidence_lower(const struct hak_arm_evidence *arm)
{
    uint64_t mean = arm->reward / arm->plays;
    uint64_t mean_square = arm->squares / arm->plays;
    uint64_t square = mean / 100 * (mean / 100);
    uint64_t variance = mean_square - hak_min(mean_square, square); /* 10^-8 */
    uint64_t error = 2 * 100 * hak_square_root(variance / (arm->plays - 1));
    return mean - hak_min(mean, error);
}

static uint64_t evidence_more(uint64_t sum, uint64_t plays)
{
    return sum / plays - hak_min(sum / plays, HAK_PPM);
}

uint64_t hak_arm_loss(const struct hak_arm_evidence *arm)
{
    return evidence_more(arm->time, arm->plays) + evidence_more(arm->memory, arm->plays) / 2;
}

unsigned hak_evidence_choose(const struct hak_evidence *e, enum hak_knob knob, uint64_t *worth)
{
    unsigned best = 0;
    uint64_t best_reward = HAK_CHOOSE_REWARD - 1;
    for (unsigned a = 1; a < HAK_ARMS; a++) {
        const struct hak_arm_evidence *arm = &e->arm[knob][a];
        if (arm->plays < HAK_CHOOSE_PLAYS)
            continue;
        uint64_t lower = evidence_lower(arm);
        uint64_t reward = lower - hak_min(lower, hak_arm_loss(arm));
        if (reward > best_reward) {
            best = a;
            best_reward = reward;
        }
    }
    *worth = best == 0 ? 0 : best_reward;
    return best;
}
