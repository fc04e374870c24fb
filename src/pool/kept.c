/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: how much may be kept although nobody uses it: retired superslabs (retired.c), and EMPTY
 * slots of superslabs in which other slots are in use.
 *
 * Both together may be an eighth of what is in use, at least 1 MiB, and what experience adds to
 * that: memory that was given back for the limit's sake and is wanted again within two seconds was
 * given back wrongly (unless a huge block grows by it, which nothing that is kept could serve), and
 * the limit rises by as much, to a quarter of the most that was in use (32 MiB at least; a knob),
 * and to all of that when as much has been given back wrongly. It rises for as much in use as there
 * was at least between that memory's going and its coming back, and for more; so a program that is
 * done keeps what it has missed when it had as little, not what it has missed at work. (Levels:
 * each is twice the one below it.) Memory that grew old unused was kept wrongly, and the limit
 * falls by as much.
 *
 * Nothing here takes a lock. See pool.h. */
#include "pool/pool_internal.h"

#define KEPT_MIN_SLOTS (HAK_SLOTS / 2)
#define KEPT_SHARE 8
#define EXTRA_MIN_SLOTS_A_PERCENT ((size_t)(32 << 20) / HAK_SLOT_BYTES / 25) /* 32 MiB in all */
#define REGRET_NS 2000000000u

void hak_pool_configure(const struct hak_pool_config *config)
{
    hak_pool_set_kept(config->retired_max_count, config->retired_max_bytes);
    hak_pool_set_age(config->retired_max_age_ns);
    hak_pool_set_huge_pages_from(config->huge_pages_from_bytes);
}

void hak_pool_set_kept(size_t most_count, size_t most_bytes)
{
    hak_store_relaxed(&hak_pool.config.max_count, most_count);
    hak_store_relaxed(&hak_pool.config.max_bytes, most_bytes);
}

void hak_pool_set_age(uint64_t retired_max_age_ns)
{
    hak_store_relaxed(&hak_pool.config.max_age_ns, retired_max_age_ns);
}

void hak_pool_set_huge_pages_from(size_t bytes)
{
    hak_store_relaxed(&hak_pool.config.huge_pages_from_bytes, bytes);
}

static size_t kept_slots(void)
{
    return hak_load_relaxed(&hak_pool.retired_now) * HAK_SLOTS +
           hak_load_relaxed(&hak_pool.empty_now);
}

static size_t kept_in_use_slots(void)
{
    ptrdiff_t slots = (ptrdiff_t)(hak_load_relaxed(&hak_pool.in_use_now) -
                                  hak_load_relaxed(&hak_pool.waiting_now));
    return (size_t)(slots > 0 ? slots : 0) + hak_load_relaxed(&hak_pool.whole_now) * HAK_SLOTS;
}

void hak_pool_count_waiting(ptrdiff_t slots)
{
    hak_add_relaxed(&hak_pool.waiting_now, (size_t)slots);
}

bool hak_pool_has_waiting(void)
{
    return (ptrdiff_t)hak_load_relaxed(&hak_pool.waiting_now) > 0;
}

/* Superslabs that may be kept, prewarmed ones on top of what was configured. */
static size_t kept_most(void)
{
    return hak_load_relaxed(&hak_pool.config.max_count) + hak_load_relaxed(&hak_pool.prewarmed);
}

#define KEPT_TOP_LEVEL (POOL_LEVELS - 1u)
/* How much is in use: 0 below 512 KiB, and one more for each doubling. */
static unsigned kept_level(size_t in_use)
{
    unsigned level = hak_log2_floor(hak_max(in_use / (KEPT_MIN_SLOTS / 4), 1u));
    return (unsigned)hak_min(level, KEPT_TOP_LEVEL);
}

/* What was learned with as much in use as at `top`, or less. */
static size_t kept_extra_slots(unsigned top)
{
    size_t extra = 0;
    for (unsigned level = 0; level <= top; level++)
        extra += hak_load_relaxed(&hak_pool.levels[level].extra_slots);
    return extra;
}

/* What may be kept without experience. */
static size_t kept_always_slots(size_t in_use)
{
    return hak_max(KEPT_MIN_SLOTS, in_use / KEPT_SHARE);
}

bool hak_kept_is_learned(void)
{
    return kept_slots() > kept_always_slots(kept_in_use_slots());
}

size_t hak_kept_budget_slots(void)
{
    size_t prewarmed = hak_load_relaxed(&hak_pool.prewarmed) * HAK_SLOTS;
    size_t max_bytes = hak_load_relaxed(&hak_pool.config.max_bytes);
    uint64_t give_back = hak_load_relaxed(&hak_pool_knobs.give_back);
    size_t slots;
    if (HAK_UNLIKELY(give_back == HAK_GIVE_BACK_ALL))
        return 0;
    if (max_bytes != 0)
        slots = max_bytes / HAK_SLOT_BYTES;
    else {
        size_t in_use = kept_in_use_slots();
        slots = kept_always_slots(in_use) + kept_extra_slots(kept_level(in_use));
    }
    return (slots >> give_back) + prewarmed;
}

size_t hak_kept_room_superslabs(void)
{
    return hak_min(hak_kept_budget_slots() / HAK_SLOTS, kept_most());
}

size_t hak_pool_kept_bytes(void)
{
    return kept_slots() * HAK_SLOT_BYTES;
}

size_t hak_pool_kept_room_slots(void)
{
    size_t budget = hak_kept_budget_slots();
    return budget - hak_min(budget, kept_slots());
}

uint64_t hak_pool_age_ns(void)
{
    return hak_load_relaxed(&hak_pool.config.max_age_ns);
}

/* What went with more in use, and is not back yet, would have had to be kept until now. */
void hak_kept_evicted(size_t slots)
{
    unsigned level = kept_level(kept_in_use_slots());
    for (unsigned above = level + 1; above < POOL_LEVELS; above++)
        slots += pool_lower(&hak_pool.levels[above].evicted_slots, SIZE_MAX);
    hak_add_relaxed(&hak_pool.levels[level].evicted_slots, slots);
    hak_store_relaxed(&hak_pool.evicted_ns, hak_os_now_ns());
}

/* To how much the limit may rise: to the knob's share of the most that was in use, to twice that
 * once half of it has been given back wrongly, and to all once all of it has. */
static size_t kept_extra_most_slots(size_t most, size_t regretted)
{
    size_t share = hak_load_relaxed(&hak_pool_knobs.keep_percent);
    size_t percent = regretted >= most       ? 100
                     : regretted >= most / 2 ? hak_min(share * 2, 100)
                                             : share;
    return hak_max(EXTRA_MIN_SLOTS_A_PERCENT * share, most * percent / 100);
}

/* Takes so much off what was learned with as much in use as at `level`, or less, the lowest last:
 * what is kept with little in use is kept with more, too. */
static void kept_unlearn(unsigned level, size_t slots)
{
    for (unsigned i = level + 1; i-- > 0 && slots != 0;)
        slots -= pool_lower(&hak_pool.levels[i].extra_slots, slots);
}

/* `slots` that went are wanted again, with as much in use since as at `level`. Counts are hints: of
 * two threads' stores one may get lost. */
static void kept_learn(unsigned level, size_t slots)
{
    struct pool_level *l = &hak_pool.levels[level];
    size_t regretted = hak_add_relaxed(&l->regretted_lately_slots, slots) + slots;
    size_t all_regretted = 0;
    for (unsigned i = 0; i < POOL_LEVELS; i++)
        all_regretted += hak_load_relaxed(&hak_pool.levels[i].regretted_lately_slots);
    size_t most = hak_load_relaxed(&hak_pool.most_in_use_slots);
    hak_store_relaxed(&l->extra_slots,
                      hak_max(hak_load_relaxed(&l->extra_slots) + slots, regretted));
    size_t extra = kept_extra_slots(KEPT_TOP_LEVEL);
    size_t extra_most = kept_extra_most_slots(most, all_regretted);
    kept_unlearn(KEPT_TOP_LEVEL, extra - hak_min(extra, extra_most));
}

static void kept_forget_evicted(void)
{
    hak_store_relaxed(&hak_pool.evicted_ns, (uint64_t)0);
    for (unsigned i = 0; i < POOL_LEVELS; i++)
        hak_store_relaxed(&hak_pool.levels[i].evicted_slots, (size_t)0);
}

void hak_kept_regret(size_t slots)
{
    size_t in_use = kept_in_use_slots() + slots;
    if (in_use > hak_load_relaxed(&hak_pool.most_in_use_slots))
        hak_store_relaxed(&hak_pool.most_in_use_slots, in_use);
    uint64_t evicted_ns = hak_load_relaxed(&hak_pool.evicted_ns);
    if (evicted_ns == 0)
        return;
    if (hak_os_now_ns() - evicted_ns > REGRET_NS) {
        kept_forget_evicted();
        return;
    }
    /* What went last comes back first. */
    for (unsigned level = POOL_LEVELS; level-- > 0 && slots != 0;) {
        size_t evicted = pool_lower(&hak_pool.levels[level].evicted_slots, slots);
        if (evicted == 0)
            continue;
        slots -= evicted;
        hak_add_relaxed(&hak_pool_knobs.regretted_slots, evicted);
        kept_learn(level, evicted);
    }
}

/* Superslabs that are over a limit. */
size_t hak_kept_excess_superslabs(void)
{
    size_t now = hak_load_relaxed(&hak_pool.retired_now);
    size_t budget = hak_kept_budget_slots();
    size_t kept = kept_slots();
    size_t over = kept > budget ? (kept - budget + HAK_SLOTS - 1) / HAK_SLOTS : 0;
    size_t most = kept_most();
    return hak_min(now, hak_max(over, now > most ? now - most : 0));
}

/* So little is kept that no limit can be exceeded but one that was configured. */
bool hak_kept_is_little(void)
{
    return hak_load_relaxed(&hak_pool.retired_now) == 0 &&
           hak_load_relaxed(&hak_pool.empty_now) <= KEPT_MIN_SLOTS &&
           hak_load_relaxed(&hak_pool.config.max_bytes) == 0;
}

/* So many grew old. */
void hak_kept_wrongly(size_t slots)
{
    size_t in_use = kept_in_use_slots();
    kept_unlearn(kept_level(in_use), slots);
    hak_add_relaxed(&hak_pool_knobs.aged_slots, slots);
    hak_store_relaxed(&hak_pool.most_in_use_slots, in_use);
    for (unsigned i = 0; i < POOL_LEVELS; i++)
        hak_store_relaxed(&hak_pool.levels[i].regretted_lately_slots, (size_t)0);
}
