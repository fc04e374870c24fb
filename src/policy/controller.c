/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * policy: the decisions of a run. At its start: the arm that a file is evidence for, or one that
 * the bandit wants to know about. At each tick: a limit that is near makes everybody give back, and
 * counters name the arms that may pay. At its end: what it has cost. Pure: state and snapshot in,
 * state and knobs out. See policy.h. */
#include "policy/policy.h"

const struct hak_knob_info hak_knob_info[HAK_KNOBS] = {
    [HAK_KNOB_CLASSES] = {"classes", {{"fine", 64}, {"coarse", SIZE_MAX}}},
    [HAK_KNOB_KEEP] = {"keep", {{"quarter", 25}, {"all", 100}}},
    [HAK_KNOB_AGE] = {"age", {{"1s", 1000000000}, {"100ms", 100000000}}},
    [HAK_KNOB_GROW] = {"grow", {{"eighth", 8}, {"double", 1}}},
    [HAK_KNOB_HUGE_PAGES] = {"huge_pages",
                             {{"late", HAK_POOL_HUGE_PAGES_FROM_MB << 20}, {"early", 0}}},
    [HAK_KNOB_PREFAULT] = {"prefault",
                           {{"none", HAK_PREFAULT_NONE}, {"slabs", HAK_PREFAULT_SLABS}}},
    [HAK_KNOB_HUGE_KEEP] = {"huge_keep", {{"any", UINT64_MAX}, {"none", 0}}},
    [HAK_KNOB_SPARE] = {"spare", {{"4m", 4 << 20}, {"512k", 512 << 10}, {"32m", 32 << 20}}},
    [HAK_KNOB_PREWARM] = {"prewarm", {{"none", 0}, {"64m", 32}}},
};

#define RATIO_MOST 4u

/* What makes an arm promising, in one tick. */
#define MANY_FAULTS 512u
#define MANY_HEAPS 4u
#define KEPT_SHARE 20u /* of what is resident */
#define MANY_SLOTS HAK_SLOTS

static const char *const rule_names[] = {"loaded", "try", "hint", "near", "stall", "far", "ended"};
static const char *const counter_names[HAK_COUNTERS] = {
    "reward",          "plays", "percent",    "stalled_us",  "mapped_superslabs", "faults",
    "regretted_slots", "heaps", "kept_bytes", "spare_bytes", "purged_bytes"};

static void policy_note(struct hak_policy_state *s, unsigned knob, enum hak_policy_rule rule,
                        enum hak_policy_counter counter, uint64_t count, uint64_t before,
                        uint64_t after)
{
    s->decisions[s->decided++ % HAK_DECISIONS_KEPT] = (struct hak_policy_decision){
        s->ticks, (uint8_t)knob, (uint8_t)rule, (uint8_t)counter, count, before, after};
}

static void policy_set(struct hak_policy_state *s, unsigned knob, unsigned arm,
                       enum hak_policy_rule rule, enum hak_policy_counter counter, uint64_t count)
{
    const struct hak_knob_info *k = &hak_knob_info[knob];
    policy_note(s, knob, rule, counter, count, k->arm[s->arm[knob]].value, k->arm[arm].value);
    s->arm[knob] = (uint8_t)arm;
}

/* The best arm of all: each was measured alone, and two that save memory may cost twice the time.
 */
static void policy_load(struct hak_policy_state *s)
{
    unsigned knob = HAK_KNOBS;
    unsigned arm = 0;
    uint64_t most = 0;
    for (unsigned k = 0; k < HAK_KNOBS; k++) {
        uint64_t worth;
        unsigned chosen = hak_evidence_choose(&s->before, k, &worth);
        if (worth <= most || s->fixed[k])
            continue;
        most = worth;
        knob = k;
        arm = chosen;
    }
    if (knob == HAK_KNOBS)
        return;
    const struct hak_arm_evidence *a = &s->before.arm[knob][arm];
    policy_set(s, knob, arm, HAK_RULE_LOADED, HAK_COUNTER_REWARD,
               hak_evidence_mean(a->reward, a->plays));
}

void hak_policy_init(struct hak_policy_state *state, enum hak_policy_mode mode,
                     const struct hak_evidence *before, const bool fixed[HAK_KNOBS])
{
    unsigned knob = 0;
    unsigned arm = 0;
    *state = (struct hak_policy_state){.mode = mode, .before = *before};
    for (unsigned k = 0; k < HAK_KNOBS; k++)
        state->fixed[k] = fixed[k];
    if (mode == HAK_POLICY_FROZEN || mode == HAK_POLICY_LEARN)
        policy_load(state);
    if (mode != HAK_POLICY_TRY || !hak_bandit_pick(before, fixed, &knob, &arm))
        return;
    state->tried_knob = (uint8_t)knob;
    state->tried_arm = (uint8_t)arm;
    policy_set(state, knob, arm, HAK_RULE_TRY, HAK_COUNTER_PLAYS, before->arm[knob][arm].plays);
}

struct hak_knobs hak_policy_knobs(const struct hak_policy_state *state)
{
    struct hak_knobs knobs = {.give_back = state->give_back};
    for (unsigned k = 0; k < HAK_KNOBS; k++)
        knobs.value[k] = hak_knob_info[k].arm[state->arm[k]].value;
    return knobs;
}

/* --- the control group --- */

/* A group that is short of memory stalls now and then, not all the time: kept memory is not to come
 * and go with it. */
#define CALM_TICKS 8u

static unsigned group_level(unsigned now, uint64_t percent, bool stalled)
{
    if (stalled || percent >= 90 || (now == HAK_GIVE_BACK_ALL && percent >= 85))
        return HAK_GIVE_BACK_ALL;
    if (percent >= 80 || (now != HAK_GIVE_BACK_NONE && percent >= 75))
        return HAK_GIVE_BACK_HALF;
    return HAK_GIVE_BACK_NONE;
}

static void policy_group(struct hak_policy_state *s, const struct hak_policy_snapshot *n,
                         uint64_t elapsed_ns)
{
    uint64_t percent =
        n->group_max_bytes == 0 ? 0 : n->group_used_bytes / (n->group_max_bytes / 100 + 1);
    uint64_t stalled_us =
        n->group_stalled_us - hak_min(n->group_stalled_us, s->last.group_stalled_us);
    bool stalled = s->ticks > 1 && n->group_max_bytes != 0 && stalled_us >= elapsed_ns / 1000 / 10;
    unsigned level = group_level(s->give_back, percent, stalled && elapsed_ns != 0);
    if (stalled)
        s->calm_ticks = CALM_TICKS;
    else if (s->calm_ticks != 0)
        s->calm_ticks--;
    if (level == s->give_back || (level < s->give_back && s->calm_ticks != 0))
        return;
    if (level < s->give_back)
        policy_note(s, HAK_KNOB_GIVE_BACK, HAK_RULE_FAR, HAK_COUNTER_PERCENT, percent, s->give_back,
                    level);
    else if (stalled)
        policy_note(s, HAK_KNOB_GIVE_BACK, HAK_RULE_STALL, HAK_COUNTER_STALLED_US, stalled_us,
                    s->give_back, level);
    else
        policy_note(s, HAK_KNOB_GIVE_BACK, HAK_RULE_NEAR, HAK_COUNTER_PERCENT, percent,
                    s->give_back, level);
    s->give_back = (uint8_t)level;
}

/* --- hints --- */

struct hint {
    bool promising;
    enum hak_policy_counter counter;
    uint64_t count;
};

static struct hint hint_if(bool promising, enum hak_policy_counter counter, uint64_t count)
{
    return (struct hint){promising, counter, count};
}

/* Whether an arm may pay, by what has happened since the last tick. */
static struct hint policy_hint(const struct hak_policy_snapshot *n,
                               const struct hak_policy_snapshot *l, unsigned knob, unsigned arm)
{
    uint64_t mapped = n->mapped_superslabs - l->mapped_superslabs;
    uint64_t faults = n->faults - l->faults;
    uint64_t regretted = n->regretted_slots - l->regretted_slots;
    uint64_t huge = n->huge_blocks - l->huge_blocks;
    uint64_t purged = n->purged_bytes - l->purged_bytes;
    bool keeps = n->kept_bytes > n->resident_bytes / KEPT_SHARE;
    switch (knob) {
    case HAK_KNOB_CLASSES:
        return hint_if(n->heaps >= MANY_HEAPS, HAK_COUNTER_HEAPS, n->heaps);
    case HAK_KNOB_KEEP:
        return hint_if(regretted >= MANY_SLOTS, HAK_COUNTER_REGRETTED, regretted);
    case HAK_KNOB_AGE:
        return hint_if(keeps, HAK_COUNTER_KEPT, n->kept_bytes);
    case HAK_KNOB_PREWARM:
        return hint_if(mapped > 0 && n->mapped_superslabs >= hak_knob_info[knob].arm[arm].value,
                       HAK_COUNTER_MAPPED, n->mapped_superslabs);
    case HAK_KNOB_GROW:
        return hint_if(mapped > 1, HAK_COUNTER_MAPPED, mapped);
    case HAK_KNOB_HUGE_PAGES:
    case HAK_KNOB_PREFAULT:
        return hint_if(mapped > 0 && faults >= MANY_FAULTS, HAK_COUNTER_FAULTS, faults);
    case HAK_KNOB_SPARE:
        return arm == 1
                   ? hint_if(n->spare_bytes > n->resident_bytes / KEPT_SHARE, HAK_COUNTER_SPARE,
                             n->spare_bytes)
                   : hint_if(purged >= MANY_SLOTS * HAK_SLOT_BYTES, HAK_COUNTER_PURGED, purged);
    default:
        return hint_if(huge > 0 && keeps, HAK_COUNTER_KEPT, n->kept_bytes);
    }
}

/* Counts the hints; the first one of an arm is a decision to be explained. */
static void policy_watch(struct hak_policy_state *s, const struct hak_policy_snapshot *n)
{
    s->learned.ticks++;
    for (unsigned k = 0; k < HAK_KNOBS; k++) {
        for (unsigned a = 1; a < HAK_ARMS && hak_knob_info[k].arm[a].name != NULL; a++) {
            struct hint hint = policy_hint(n, &s->last, k, a);
            const struct hak_knob_info *info = &hak_knob_info[k];
            if (!hint.promising || s->arm[k] == a)
                continue;
            if (s->learned.arm[k][a].hints++ == 0)
                policy_note(s, k, HAK_RULE_HINT, hint.counter, hint.count,
                            info->arm[s->arm[k]].value, info->arm[a].value);
        }
    }
}

/* Half of the time since the last look as it was then, half as it is now. */
void hak_policy_look(struct hak_policy_state *s, uint64_t now_ns, uint64_t resident_bytes)
{
    uint64_t kib = resident_bytes >> 10;
    if (s->looked_ns != 0 && now_ns > s->looked_ns) {
        uint64_t elapsed_ns = now_ns - s->looked_ns;
        s->watched_ns += elapsed_ns;
        s->kib_us += (unsigned __int128)((s->looked_kib + kib) / 2) * (elapsed_ns / 1000);
    }
    s->looked_ns = now_ns;
    s->looked_kib = kib;
}

/* In millionths. */
static uint64_t policy_ratio(uint64_t value, uint64_t mean)
{
    mean = hak_max(mean, 1);
    return value / mean >= RATIO_MOST ? RATIO_MOST * HAK_PPM
                                      : (uint64_t)((unsigned __int128)value * HAK_PPM / mean);
}

/* Of processor time alone, as it is what allocation costs: whether the program waits besides says
 * nothing of what its time is worth. */
static uint64_t policy_time_ratio(const struct hak_evidence *b, uint64_t cpu_us)
{
    return policy_ratio(cpu_us, b->base_cpu_us / b->base_plays);
}

static uint64_t policy_memory_ratio(const struct hak_evidence *b, uint64_t kib)
{
    return policy_ratio(kib, b->base_kib / b->base_plays);
}

static uint64_t policy_mean_kib(const struct hak_policy_state *s)
{
    return (uint64_t)(s->kib_us / hak_max(s->watched_ns / 1000, 1));
}

#define RUN_LEAST_TICKS 3u /* with less there is little to learn from */

void hak_policy_end(struct hak_policy_state *s, const struct hak_policy_snapshot *now)
{
    if (s->ticks < RUN_LEAST_TICKS)
        return;
    hak_policy_look(s, now->now_ns, now->resident_bytes);
    uint64_t cpu_us = now->cpu_ns / 1000;
    uint64_t kib = policy_mean_kib(s);
    const struct hak_evidence *b = &s->before;
    s->learned.runs = 1;
    if (s->mode != HAK_POLICY_TRY)
        return;
    if (s->tried_arm == 0) {
        s->learned.base_plays = 1;
        s->learned.base_us = s->watched_ns / 1000;
        s->learned.base_cpu_us = cpu_us;
        s->learned.base_kib = kib;
    } else {
        hak_arm_play(&s->learned.arm[s->tried_knob][s->tried_arm], policy_time_ratio(b, cpu_us),
                     policy_memory_ratio(b, kib));
    }
}

/* An arm may be a bad one, and is not to ruin the run that finds that out. The run counts for the
 * arm as it is: with so much it is tried no more. Not in a program that has just begun: its memory
 * is small then, and so is the default's processor time. */
#define TRIED_TIME_MOST (HAK_PPM * 5 / 4)
#define TRIED_MEMORY_MOST (HAK_PPM * 3 / 2)

static void policy_guard(struct hak_policy_state *s, const struct hak_policy_snapshot *now)
{
    const struct hak_evidence *b = &s->before;
    if (s->tried_arm == 0 || s->arm[s->tried_knob] != s->tried_arm || b->base_plays == 0)
        return;
    uint64_t time = policy_time_ratio(b, now->cpu_ns / 1000);
    uint64_t us = hak_max(s->watched_ns / 1000, 1);
    bool long_enough = us >= b->base_us / b->base_plays / 2;
    uint64_t memory = long_enough ? policy_memory_ratio(b, policy_mean_kib(s)) : 0;
    if (time > TRIED_TIME_MOST || memory > TRIED_MEMORY_MOST)
        policy_set(s, s->tried_knob, 0, HAK_RULE_ENDED, HAK_COUNTER_PERCENT,
                   hak_max(time, memory) / (HAK_PPM / 100));
}

struct hak_knobs hak_policy_step(struct hak_policy_state *state,
                                 const struct hak_policy_snapshot *now)
{
    uint64_t elapsed_ns = now->now_ns - hak_min(now->now_ns, state->last.now_ns);
    state->ticks++;
    policy_group(state, now, elapsed_ns);
    if (state->mode >= HAK_POLICY_LEARN) {
        hak_policy_look(state, now->now_ns, now->resident_bytes);
        policy_guard(state, now);
        if (state->ticks > 1)
            policy_watch(state, now);
    }
    state->last = *now;
    return hak_policy_knobs(state);
}

void hak_policy_summarize(const struct hak_policy_state *state, struct hak_policy_summary *out)
{
    *out = (struct hak_policy_summary){.mode = state->mode,
                                       .ticks = state->ticks,
                                       .decisions = state->decided,
                                       .knobs = hak_policy_knobs(state)};
}

void hak_policy_explain(const struct hak_policy_state *state, struct hak_text *text,
                        const char *before, const char *after, const char *between)
{
    uint64_t first = state->decided - hak_min(state->decided, HAK_DECISIONS_KEPT);
    for (uint64_t i = first; i < state->decided; i++) {
        const struct hak_policy_decision *d = &state->decisions[i % HAK_DECISIONS_KEPT];
        hak_text_string(text, i == first ? "" : between);
        hak_text_string(text, before);
        hak_text_string(text, "tick ");
        hak_text_decimal(text, d->tick);
        hak_text_string(text, ": ");
        hak_text_string(text, d->knob < HAK_KNOBS ? hak_knob_info[d->knob].name : "give_back");
        hak_text_string(text, " ");
        hak_text_decimal(text, d->before);
        hak_text_string(text, " -> ");
        hak_text_decimal(text, d->after);
        hak_text_string(text, ", rule ");
        hak_text_string(text, rule_names[d->rule]);
        hak_text_string(text, ", ");
        hak_text_string(text, counter_names[d->counter]);
        hak_text_string(text, " ");
        hak_text_decimal(text, d->count);
        hak_text_string(text, after);
    }
}
