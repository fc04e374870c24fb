/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: retired superslabs, and how what is kept goes back.
 *
 * Retired superslabs are mapped, all 32 slots claimed; a bit each beside the window, in which runs
 * of neighbours are found. Whoever clears the bit owns the superslab. Runs of slots, slabs and huge
 * blocks all take from them. The newest and the oldest are searched for: there are hardly ever
 * many, and what is done with one takes longer.
 *
 * What is over the limit (kept.c) goes back at once, whole superslabs first, the oldest first; then
 * EMPTY slots, from the highest address down (they are acquired from the lowest up). The rest goes
 * when it is older than the configured age (EMPTY slots: four times that, while no experience is
 * needed to keep so much), at the next tick.
 *
 * Nothing here takes a lock. See pool.h. */
#include "os/probes.h"
#include "os/trace.h"
#include "pool/pool_internal.h"

/* A slot in use again costs less than a superslab in use again. But what is kept beyond what may be
 * without experience grows old like that. */
#define EMPTY_AGE_FACTOR 4
#define TICKS_IN_AGE 4
/* So that superslabs are not looked through for each slot that is too much. A share of what may be
 * kept would be large where much may, and what is learned of it late: evidence of how little was in
 * use then comes with the last such purge. */
#define PURGE_MORE_SLOTS 32u
/* What is old goes in portions: a call gives back so many, which takes half a millisecond, and the
 * next slow paths see to the rest. (What is over the limit goes at once: there may be no next.) */
#define AT_ONCE_SUPERSLABS ((size_t)4)
#define AT_ONCE_SLOTS (AT_ONCE_SUPERSLABS * HAK_SLOTS)

/* Of as many runs of one length is looked at how much of them is in memory. */
#define RETIRED_LOOKS 8u

/* --- which ones are retired: a bit each --- */

static _Atomic(uint64_t) *retired_word(size_t superslab)
{
    return &hak_space_groups()[superslab / 64].retired;
}

static uint32_t retired_order(size_t superslab)
{
    return hak_load_relaxed(&hak_superslab(superslab)->retired_order);
}

/* Orders are modulo 2^32. */
static bool retired_is_later(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

/* The caller owns all slots, and does not any more. Whoever clears the bit does. */
static void retired_set(size_t superslab)
{
    hak_add_relaxed(&hak_pool.retired_now, (size_t)1); /* first: never less than there are bits */
    /* ORDER: [retired] what the caller did to the superslab is over */
    hak_or_release(retired_word(superslab), 1ull << (superslab % 64));
}

static bool retired_try_claim(size_t superslab)
{
    uint64_t bit = 1ull << (superslab % 64);
    /* ORDER: [retired] */
    if (!(hak_and_acquire(retired_word(superslab), ~bit) & bit))
        return false;
    hak_sub_relaxed(&hak_pool.retired_now, (size_t)1);
    return true;
}

/* The first retired superslab at or after `from`; `end` if there is none. */
static size_t retired_next(size_t from, size_t end)
{
    while (from < end) {
        uint64_t bits = hak_load_relaxed(retired_word(from)) >> (from % 64);
        if (bits != 0)
            return hak_min(from + hak_ctz64(bits), end);
        from += 64 - from % 64;
    }
    return end;
}

/* The length of the run of retired superslabs that begins at `first`. */
static size_t retired_run(size_t first, size_t end)
{
    size_t at = first;
    while (at < end) {
        uint64_t gaps = ~hak_load_relaxed(retired_word(at)) >> (at % 64);
        if (gaps != 0)
            return hak_min(at + hak_ctz64(gaps), end) - first;
        at += 64 - at % 64;
    }
    return end - first;
}

/* A comes before B where the newest are looked for, or the oldest. */
static bool retired_is_better(uint32_t a, uint32_t b, bool last)
{
    return last ? retired_is_later(a, b) : !retired_is_later(a, b);
}

/* The one that was retired last, or first; of those that were together the lowest, or the highest.
 * False: there is none. Only groups are looked at that may have a better one than was found. */
static bool retired_find(bool last, size_t *superslab)
{
    bool found = false;
    uint32_t best = 0;
    size_t end = hak_space_high_water();
    for (size_t first = 0; first < end; first += 64) {
        struct hak_space_group *group = &hak_space_groups()[first / 64];
        _Atomic(uint32_t) *hint = last ? &group->retired_newest : &group->retired_oldest;
        uint64_t bits = hak_load_relaxed(&group->retired);
        if (bits == 0 || (found && !retired_is_better(hak_load_relaxed(hint), best, last)))
            continue;
        size_t here = first + hak_ctz64(bits);
        while ((bits &= bits - 1) != 0) {
            size_t other = first + hak_ctz64(bits);
            if (retired_is_better(retired_order(other), retired_order(here), last))
                here = other;
        }
        hak_store_relaxed(hint, retired_order(here)); /* a better one has been taken */
        if (found && !retired_is_better(retired_order(here), best, last))
            continue;
        found = true;
        best = retired_order(here);
        *superslab = here;
    }
    return found;
}

void hak_retired_put(size_t first, size_t superslabs)
{
    hak_retired_put_at(first, superslabs, hak_os_now_ns());
}

void hak_retired_put_at(size_t first, size_t superslabs, uint64_t time_ns)
{
    HAK_PROBE2(retire, first, superslabs);
    HAK_TRACE(HAK_TRACE_LRU, "event", "keep", {"superslab", first}, {"count", superslabs});
    uint32_t order = (uint32_t)hak_add_relaxed(&hak_pool.retired_total, superslabs);
    for (size_t i = first; i < first + superslabs; i++) {
        struct hak_space_group *group = &hak_space_groups()[i / 64];
        hak_store_relaxed(&group->retired_newest, order);
        if (hak_load_relaxed(&group->retired) == 0)
            hak_store_relaxed(&group->retired_oldest, order);
        hak_store_relaxed(&hak_superslab(i)->released_ns, time_ns);
        hak_store_relaxed(&hak_superslab(i)->retired_order, order);
        retired_set(i);
    }
    hak_pool_tick_any();
    hak_retired_enforce();
}

bool hak_retired_try_take_newest(size_t *superslab)
{
    if (hak_load_relaxed(&hak_pool.retired_now) == 0)
        return false;
    do {
        if (!retired_find(true, superslab))
            return false;
    } while (!retired_try_claim(*superslab));
    hak_add_relaxed(&hak_pool.revived_total, 1u);
    HAK_TRACE(HAK_TRACE_LRU, "event", "reuse", {"superslab", *superslab}, {"count", 1});
    return true;
}

/* How many slots of the last one of those of the run that a caller would take, who wants so many,
 * would be missed, or left unused with memory. */
static unsigned retired_misfit(size_t first, size_t run, size_t want, unsigned last_slots)
{
    size_t last = first + hak_min(run, want) - 1;
    unsigned use = run < want ? HAK_SLOTS : last_slots;
    unsigned have =
        (unsigned)hak_popcount64(pool_dirty(hak_load_relaxed(&hak_superslab(last)->state)));
    return have > use ? have - use : use - have;
}

/* The shortest run of at least `want`, else the longest. Returns its length. */
static size_t retired_best(size_t want, unsigned last_slots, size_t *first)
{
    size_t best = 0;
    unsigned misfit = 0, looks = 0;
    size_t end = hak_space_high_water();
    for (size_t at = retired_next(0, end); at < end && (best != want || misfit != 0);) {
        size_t run = retired_run(at, end); /* 0: somebody has taken it meanwhile */
        bool better = best < want ? run > best : run >= want && run < best;
        if (better)
            looks = 0;
        if (better || (run != 0 && run == best && looks < RETIRED_LOOKS)) {
            unsigned now = retired_misfit(at, run, want, last_slots);
            looks++;
            if (better || now < misfit) {
                best = run;
                misfit = now;
                *first = at;
            }
        } else if (best == want && looks == RETIRED_LOOKS) {
            break;
        }
        at = retired_next(at + run, end);
    }
    return best;
}

size_t hak_retired_take_run(size_t want, unsigned last_slots, size_t least, size_t *first)
{
    if (hak_load_relaxed(&hak_pool.retired_now) < least)
        return 0;
    size_t run = hak_min(retired_best(want, last_slots, first), want);
    if (run < least)
        return 0;
    size_t have = 0;
    while (have < run && retired_try_claim(*first + have))
        have++;
    if (have < least) /* others have taken of it meanwhile */
        while (have != 0)
            retired_set(*first + --have);
    hak_retired_forget_slabs(*first, have);
    hak_add_relaxed(&hak_pool.revived_total, have);
    return have;
}

/* --- back to the system --- */

bool hak_retired_begin_leaving(void)
{
    if (!hak_pool_has_limit() || hak_lock_is_mine(&hak_pool.leave_lock))
        return false;
    hak_lock(&hak_pool.leave_lock);
    return true;
}

/* Takes the oldest superslab, and those below it that came with it, `most` at most. Returns how
 * many. */
static size_t retired_take_oldest(size_t most, size_t *first)
{
    size_t last = 0;
    size_t run = 0;
    while (run == 0 && most != 0 && retired_find(false, &last)) {
        uint32_t order = retired_order(last);
        while (run < most && run <= last && retired_order(last - run) == order &&
               retired_try_claim(last - run))
            run++;
        *first = last + 1 - run;
    }
    return run;
}

/* The system is out of mappings: keeps the addresses, gives the pages back, offers the slots. */
void hak_retired_offer_slots(size_t superslab, unsigned slots)
{
    struct hak_superslab *s = hak_superslab(superslab);
    uint32_t mapped = hak_low_bits32(slots);
    bool clean = hak_os_purge(hak_superslab_address(superslab), slots * HAK_SLOT_BYTES) == 0;
    if (!clean)
        hak_add_relaxed(&hak_pool.empty_now, (size_t)slots);
    hak_store_relaxed(&s->missing, ~mapped);
    /* ORDER: [slot-state] the purge is over; seq_cst for [slot-avail]: before offering looks at the
     * index, where the superslab may be from earlier, about to be withdrawn as full */
    hak_store_seq_cst(&s->state, ~mapped | (clean ? 0 : (uint64_t)mapped << 32));
    hak_pool_offer(superslab);
}

/* A program that was large once would hold up to an 85th of its peak otherwise. */
void hak_retired_forget_slabs(size_t first, size_t superslabs)
{
    for (size_t i = first; i < first + superslabs; i++)
        if (hak_load_relaxed(&hak_superslab(i)->has_bits) && hak_space_try_forget_meta(i))
            hak_store_relaxed(&hak_superslab(i)->has_bits, false);
}

static size_t retired_unmap(size_t first, size_t superslabs)
{
    size_t bytes = superslabs * HAK_SUPERSLAB_BYTES;
    HAK_TRACE(HAK_TRACE_LRU, "event", "unmap", {"superslab", first}, {"count", superslabs});
    pool_lower(&hak_pool.moved_pieces, 1);
    if (hak_os_unmap(hak_superslab_address(first), bytes) != 0) {
        for (size_t i = 0; i < superslabs; i++)
            hak_retired_offer_slots(first + i, HAK_SLOTS);
        return 0;
    }
    hak_sub_relaxed(&hak_pool.mapped_now, superslabs);
    hak_add_relaxed(&hak_pool.unmapped_total, superslabs);
    hak_retired_forget_slabs(first, superslabs);
    hak_space_give(first, superslabs);
    return bytes;
}

/* Locked pages are not given back. Where all are (mlockall) each release would look through all
 * superslabs in vain. */
#define REFUSED_NS 10000000u
static bool retired_is_refused(void)
{
    uint64_t refused_ns = hak_load_relaxed(&hak_pool.refused_ns);
    return refused_ns != 0 && hak_os_now_ns() - refused_ns < REFUSED_NS;
}

static void retired_purge(size_t slots)
{
    size_t purged = hak_pool_purge_empty(slots, UINT64_MAX, true);
    hak_store_relaxed(&hak_pool.refused_ns, purged == 0 ? hak_os_now_ns() : 0);
    hak_kept_evicted(purged);
}

/* Some of what is over a limit goes. */
static bool retired_try_evict(void)
{
    if (hak_kept_excess_superslabs() == 0)
        return false;
    bool is_leaving = hak_retired_begin_leaving();
    size_t first;
    size_t run = retired_take_oldest(hak_kept_excess_superslabs(), &first);
    if (run != 0)
        retired_unmap(first, run);
    if (is_leaving)
        hak_unlock(&hak_pool.leave_lock);
    if (run != 0)
        hak_kept_evicted(run * HAK_SLOTS);
    return run != 0;
}

void hak_retired_enforce(void)
{
    if (hak_kept_is_little())
        return;
    while (retired_try_evict())
        continue;
    size_t budget = hak_kept_budget_slots();
    size_t empty = hak_load_relaxed(&hak_pool.empty_now);
    if (empty > budget && !retired_is_refused())
        retired_purge(empty - budget + PURGE_MORE_SLOTS);
}

/* Those that were retired before, `most` at most. Returns the bytes. */
static size_t retired_unmap_older(uint64_t before_ns, size_t most)
{
    size_t bytes = 0;
    size_t end = hak_space_high_water();
    bool is_leaving = hak_retired_begin_leaving();
    for (size_t at = retired_next(0, end); at < end && most != 0; at = retired_next(at, end)) {
        size_t run = 0;
        while (at + run < end && run < most &&
               hak_load_relaxed(&hak_superslab(at + run)->released_ns) < before_ns &&
               retired_try_claim(at + run))
            run++;
        if (run != 0)
            bytes += retired_unmap(at, run);
        most -= run;
        at += run + 1;
    }
    if (is_leaving)
        hak_unlock(&hak_pool.leave_lock);
    return bytes;
}

void hak_retired_tick(uint64_t now)
{
    uint64_t next = hak_load_relaxed(&hak_pool.next_tick_ns);
    uint64_t age = hak_load_relaxed(&hak_pool.config.max_age_ns);
    if ((now < next && !hak_load_relaxed(&hak_pool_knobs.behind)) ||
        !hak_cas_relaxed(&hak_pool.next_tick_ns, &next, now + age / TICKS_IN_AGE))
        return;
    hak_whole_unmap_postponed();
    size_t aged = retired_unmap_older(now - hak_min(now, age), AT_ONCE_SUPERSLABS) / HAK_SLOT_BYTES;
    uint64_t empty_age = hak_kept_is_learned() ? age : age * EMPTY_AGE_FACTOR;
    uint64_t grown_ns = hak_load_relaxed(&hak_pool.grown_ns); /* by another thread since, perhaps */
    bool grows = now - hak_min(now, grown_ns) <= age * EMPTY_AGE_FACTOR;
    aged += hak_pool_purge_empty(AT_ONCE_SLOTS - aged, now - hak_min(now, empty_age), grows);
    hak_store_relaxed(&hak_pool_knobs.behind, aged >= AT_ONCE_SLOTS);
    if (aged != 0)
        hak_kept_wrongly(aged);
}

void hak_pool_tick_any(void)
{
    hak_retired_tick(hak_os_now_ns());
}

size_t hak_pool_trim(void)
{
    size_t bytes = hak_whole_unmap_postponed();
    hak_pool_retire_free(); /* mapped ahead and never used, perhaps */
    bytes += retired_unmap_older(UINT64_MAX, SIZE_MAX);
    return bytes + hak_pool_purge_empty(SIZE_MAX, UINT64_MAX, false) * HAK_SLOT_BYTES;
}

void hak_pool_fork_child(void)
{
    if (hak_lock_recover(&hak_pool.grow_lock))
        hak_pool.partial = 0;
    hak_lock_recover(&hak_pool.leave_lock);
    hak_store_relaxed(&hak_pool.child_least_slots, hak_load_relaxed(&hak_pool.in_use_now));
    size_t retired = 0; /* other threads may have been about to count */
    for (size_t g = 0; g * 64 < hak_space_high_water(); g++)
        retired += hak_popcount64(hak_load_relaxed(&hak_space_groups()[g].retired));
    hak_store_relaxed(&hak_pool.retired_now, retired);
}
