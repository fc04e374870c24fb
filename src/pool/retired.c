/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: what is kept although nobody uses it, how much that may be, and how it goes back.
 *
 * - Retired superslabs: mapped, all 32 slots claimed; one list, newest first, and a bit each beside
 *   the window, in which runs of neighbours are found. Runs of slots, slabs and huge blocks all
 * take from them.
 * - EMPTY slots of superslabs in which other slots are in use.
 *
 * Both together may be an eighth of what is in use, at least 1 MiB, and what experience adds to
 * that: memory that was given back for the limit's sake and is wanted again within two seconds was
 * given back wrongly, and the limit rises by as much, to a quarter of the most that was in use (32
 * MiB at least; a knob), and to all of that when as much has been given back wrongly. It rises for
 * as much in use as there was when that memory was given back; with less in use, by less. Memory
 * that grew old unused was kept wrongly, and the limit falls by as much. What is over the limit
 * goes back at once, whole superslabs first, the oldest first; then EMPTY slots, from the highest
 * address down (slots are acquired from the lowest up). The rest goes when it is older than the
 * configured age (EMPTY slots: four times that, while no experience is needed to keep so much), at
 * the next tick.
 *
 * Whoever takes a superslab out of the list owns it alone, so the system is called without a lock.
 * See pool.h. */
#include "os/probes.h"
#include "os/trace.h"
#include "pool/pool_internal.h"

#define KEPT_MIN_SLOTS (HAK_SLOTS / 2)
#define KEPT_SHARE 8
#define EXTRA_MIN_SLOTS_A_PERCENT ((size_t)(32 << 20) / HAK_SLOT_BYTES / 25) /* 32 MiB in all */
#define REGRET_NS 2000000000u
/* A slot in use again costs less than a superslab in use again. But what is kept beyond what may be
 * without experience grows old like that. */
#define EMPTY_AGE_FACTOR 4
#define TICKS_IN_AGE 4
/* So that superslabs are not looked through for each slot that is too much. A share of what may be
 * kept would be large where much may, and what is learned of it late: evidence of how little was in
 * use then comes with the last such purge. */
#define PURGE_MORE_SLOTS 32u

void hak_pool_configure(const struct hak_pool_config *config)
{
    hak_store_relaxed(&hak_pool.config.max_count, config->retired_max_count);
    hak_store_relaxed(&hak_pool.config.max_bytes, config->retired_max_bytes);
    hak_store_relaxed(&hak_pool.config.max_age_ns, config->retired_max_age_ns);
    hak_store_relaxed(&hak_pool.config.huge_pages_from_bytes, config->huge_pages_from_bytes);
}

void hak_pool_set_age(uint64_t retired_max_age_ns)
{
    hak_store_relaxed(&hak_pool.config.max_age_ns, retired_max_age_ns);
}

void hak_pool_set_huge_pages_from(size_t bytes)
{
    hak_store_relaxed(&hak_pool.config.huge_pages_from_bytes, bytes);
}

/* --- the limit --- */

static size_t kept_slots(void)
{
    return hak_load_relaxed(&hak_pool.retired_now) * HAK_SLOTS +
           hak_load_relaxed(&hak_pool.empty_now);
}

static size_t kept_in_use_slots(void)
{
    size_t mapped = hak_load_relaxed(&hak_pool.mapped_now) * HAK_SLOTS;
    return mapped - hak_min(mapped, kept_slots());
}

/* Superslabs that may be kept, prewarmed ones on top of what was configured. */
static size_t kept_most(void)
{
    return hak_load_relaxed(&hak_pool.config.max_count) + hak_load_relaxed(&hak_pool.prewarmed);
}

/* What experience adds to the limit was learned while so much and more was in use; with less in use
 * less of it holds. */
static size_t kept_extra_slots(size_t in_use)
{
    size_t extra = hak_load_relaxed(&hak_pool.extra_slots);
    size_t from = hak_load_relaxed(&hak_pool.extra_from_slots);
    return in_use >= from ? extra : extra * in_use / from;
}

/* What may be kept without experience. */
static size_t kept_always_slots(size_t in_use)
{
    return hak_max(KEPT_MIN_SLOTS, in_use / KEPT_SHARE);
}

size_t hak_retired_budget_slots(void)
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
        slots = kept_always_slots(in_use) + kept_extra_slots(in_use);
    }
    return (slots >> give_back) + prewarmed;
}

size_t hak_retired_room(void)
{
    return hak_min(hak_retired_budget_slots() / HAK_SLOTS, kept_most());
}

size_t hak_pool_mapped_superslabs(void)
{
    return hak_load_relaxed(&hak_pool.mapped_now);
}

size_t hak_pool_kept_bytes(void)
{
    return kept_slots() * HAK_SLOT_BYTES;
}

/* Takes up to `slots` off a counter that others may lower too. Returns how many. */
static size_t kept_lower(_Atomic(size_t) *counter, size_t slots)
{
    size_t now = hak_load_relaxed(counter);
    size_t taken;
    do {
        taken = hak_min(now, slots);
    } while (taken != 0 && !hak_cas_relaxed(counter, &now, now - taken));
    return taken;
}

void hak_retired_evicted(size_t slots)
{
    size_t in_use = kept_in_use_slots();
    if (hak_load_relaxed(&hak_pool.evicted_slots) == 0 ||
        in_use < hak_load_relaxed(&hak_pool.evicted_at_slots))
        hak_store_relaxed(&hak_pool.evicted_at_slots, in_use);
    hak_store_relaxed(&hak_pool.evicted_ns, hak_os_now_ns());
    hak_add_relaxed(&hak_pool.evicted_slots, slots);
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

void hak_retired_regret(size_t slots)
{
    if (hak_load_relaxed(&hak_pool.evicted_slots) == 0)
        return;
    if (hak_os_now_ns() - hak_load_relaxed(&hak_pool.evicted_ns) > REGRET_NS) {
        hak_store_relaxed(&hak_pool.evicted_slots, (size_t)0);
        return;
    }
    size_t most = hak_max(hak_load_relaxed(&hak_pool.most_in_use_slots), kept_in_use_slots());
    size_t extra = hak_load_relaxed(&hak_pool.extra_slots);
    size_t regretted = kept_lower(&hak_pool.evicted_slots, slots);
    size_t all_regretted = hak_load_relaxed(&hak_pool.regretted_lately_slots) + regretted;
    size_t at = hak_load_relaxed(&hak_pool.evicted_at_slots);
    if (extra == 0 || at < hak_load_relaxed(&hak_pool.extra_from_slots))
        hak_store_relaxed(&hak_pool.extra_from_slots, at);
    extra = hak_max(extra + regretted, all_regretted);
    hak_add_relaxed(&hak_pool_knobs.regretted_slots, regretted);
    /* Hints: of two threads' stores one may get lost. */
    hak_store_relaxed(&hak_pool.regretted_lately_slots, all_regretted);
    hak_store_relaxed(&hak_pool.most_in_use_slots, most);
    hak_store_relaxed(&hak_pool.extra_slots,
                      hak_min(extra, kept_extra_most_slots(most, all_regretted)));
}

/* --- the list --- */

static _Atomic(uint64_t) *retired_word(size_t superslab)
{
    return &hak_space_groups()[superslab / 64].retired;
}

static void retired_link_locked(size_t superslab, uint64_t now)
{
    struct hak_superslab *s = hak_superslab(superslab);
    hak_store_relaxed(&s->released_ns, now);
    s->newer = 0;
    s->older = hak_pool.newest;
    if (hak_pool.newest != 0)
        hak_superslab(hak_pool.newest - 1)->newer = (uint32_t)superslab + 1;
    else
        hak_pool.oldest = (uint32_t)superslab + 1;
    hak_pool.newest = (uint32_t)superslab + 1;
    hak_count_owner(retired_word(superslab), 1ull << (superslab % 64));
    hak_count_owner(&hak_pool.retired_now, (size_t)1);
}

static void retired_unlink_locked(size_t superslab)
{
    struct hak_superslab *s = hak_superslab(superslab);
    if (s->newer != 0)
        hak_superslab(s->newer - 1)->older = s->older;
    else
        hak_pool.newest = s->older;
    if (s->older != 0)
        hak_superslab(s->older - 1)->newer = s->newer;
    else
        hak_pool.oldest = s->newer;
    hak_count_owner(retired_word(superslab), -(1ull << (superslab % 64)));
    hak_count_owner(&hak_pool.retired_now, (size_t)-1);
}

void hak_retired_put(size_t first, size_t superslabs)
{
    hak_retired_put_at(first, superslabs, hak_os_now_ns());
}

void hak_retired_put_at(size_t first, size_t superslabs, uint64_t time_ns)
{
    HAK_PROBE2(retire, first, superslabs);
    HAK_TRACE(HAK_TRACE_LRU, "event", "keep", {"superslab", first}, {"count", superslabs});
    hak_lock(&hak_pool.retired_lock);
    for (size_t i = superslabs; i-- > 0;)
        retired_link_locked(first + i, time_ns);
    hak_unlock(&hak_pool.retired_lock);
    hak_add_relaxed(&hak_pool.retired_total, superslabs);
    hak_pool_tick_any();
    hak_retired_enforce();
}

bool hak_retired_try_take_newest(size_t *superslab)
{
    if (hak_load_relaxed(&hak_pool.retired_now) == 0)
        return false;
    hak_lock(&hak_pool.retired_lock);
    bool found = hak_pool.newest != 0;
    if (found) {
        *superslab = hak_pool.newest - 1;
        retired_unlink_locked(*superslab);
    }
    hak_unlock(&hak_pool.retired_lock);
    if (!found)
        return false;
    hak_add_relaxed(&hak_pool.revived_total, 1u);
    HAK_TRACE(HAK_TRACE_LRU, "event", "reuse", {"superslab", *superslab}, {"count", 1});
    return true;
}

/* The length of the run of retired superslabs that begins at `first`. */
static size_t retired_run_locked(size_t first, size_t end)
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

/* The first retired superslab at or after `from`; `end` if there is none. */
static size_t retired_next_locked(size_t from, size_t end)
{
    while (from < end) {
        uint64_t bits = hak_load_relaxed(retired_word(from)) >> (from % 64);
        if (bits != 0)
            return hak_min(from + hak_ctz64(bits), end);
        from += 64 - from % 64;
    }
    return end;
}

/* The shortest run of at least `want`, else the longest. Returns its length. */
static size_t retired_best_locked(size_t want, size_t *first)
{
    size_t best = 0;
    size_t end = hak_space_high_water();
    for (size_t at = retired_next_locked(0, end); at < end;) {
        size_t run = retired_run_locked(at, end);
        if (best < want ? run > best : run >= want && run < best) {
            best = run;
            *first = at;
        }
        at = retired_next_locked(at + run, end);
    }
    return best;
}

size_t hak_retired_take_run(size_t want, size_t least, size_t *first)
{
    if (hak_load_relaxed(&hak_pool.retired_now) < least)
        return 0;
    hak_lock(&hak_pool.retired_lock);
    size_t run = hak_min(retired_best_locked(want, first), want);
    if (run < least)
        run = 0;
    for (size_t i = 0; i < run; i++)
        retired_unlink_locked(*first + i);
    hak_unlock(&hak_pool.retired_lock);
    hak_retired_forget_slabs(*first, run);
    hak_add_relaxed(&hak_pool.revived_total, run);
    return run;
}

/* --- back to the system --- */

/* Takes the oldest superslab out, and neighbours that came with it, `most` at most. Returns how
 * many. */
static size_t retired_take_oldest(size_t most, uint64_t before_ns, size_t *first)
{
    hak_lock(&hak_pool.retired_lock);
    size_t run = 0;
    uint32_t oldest = hak_pool.oldest;
    while (oldest != 0 && before_ns < POOL_NEVER_USED_NS &&
           hak_load_relaxed(&hak_superslab(oldest - 1)->released_ns) == POOL_NEVER_USED_NS)
        oldest = hak_superslab(oldest - 1)->newer;
    if (oldest != 0 && most != 0) {
        *first = oldest - 1;
        uint64_t since = hak_load_relaxed(&hak_superslab(*first)->released_ns);
        size_t end = *first + hak_min(hak_space_high_water() - *first, most);
        size_t all = since < before_ns ? retired_run_locked(*first, end) : 0;
        while (run < all && hak_load_relaxed(&hak_superslab(*first + run)->released_ns) == since)
            retired_unlink_locked(*first + run++);
    }
    hak_unlock(&hak_pool.retired_lock);
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

/* A program that was large once would hold up to a fiftieth of its peak otherwise. */
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
    kept_lower(&hak_pool.moved_pieces, 1);
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

/* Superslabs that are over a limit. */
static size_t retired_excess(void)
{
    size_t now = hak_load_relaxed(&hak_pool.retired_now);
    size_t budget = hak_retired_budget_slots();
    size_t kept = kept_slots();
    size_t over = kept > budget ? (kept - budget + HAK_SLOTS - 1) / HAK_SLOTS : 0;
    size_t most = kept_most();
    return hak_min(now, hak_max(over, now > most ? now - most : 0));
}

/* So little is kept that no limit can be exceeded but one that was configured. */
static bool retired_is_little(void)
{
    return hak_load_relaxed(&hak_pool.retired_now) == 0 &&
           hak_load_relaxed(&hak_pool.empty_now) <= KEPT_MIN_SLOTS &&
           hak_load_relaxed(&hak_pool.config.max_bytes) == 0;
}

void hak_retired_enforce(void)
{
    if (retired_is_little())
        return;
    size_t excess;
    while ((excess = retired_excess()) != 0) {
        size_t first;
        size_t run = retired_take_oldest(excess, UINT64_MAX, &first);
        if (run == 0)
            break;
        retired_unmap(first, run);
        hak_retired_evicted(run * HAK_SLOTS);
    }
    size_t budget = hak_retired_budget_slots();
    size_t empty = hak_load_relaxed(&hak_pool.empty_now);
    if (empty > budget)
        hak_retired_evicted(hak_pool_purge_empty(empty - budget + PURGE_MORE_SLOTS, UINT64_MAX));
}

void hak_retired_tick(uint64_t now)
{
    uint64_t next = hak_load_relaxed(&hak_pool.next_tick_ns);
    uint64_t age = hak_load_relaxed(&hak_pool.config.max_age_ns);
    if (now < next || !hak_cas_relaxed(&hak_pool.next_tick_ns, &next, now + age / TICKS_IN_AGE))
        return;
    hak_whole_unmap_postponed();
    size_t first;
    size_t run;
    size_t aged = 0;
    while ((run = retired_take_oldest(SIZE_MAX, now - hak_min(now, age), &first)) != 0) {
        retired_unmap(first, run);
        aged += run * HAK_SLOTS;
    }
    bool much = kept_slots() > kept_always_slots(kept_in_use_slots());
    uint64_t empty_age = much ? age : age * EMPTY_AGE_FACTOR;
    aged += hak_pool_purge_empty(SIZE_MAX, now - hak_min(now, empty_age));
    kept_lower(&hak_pool.extra_slots, aged);
    hak_add_relaxed(&hak_pool_knobs.aged_slots, aged);
    if (aged != 0) {
        hak_store_relaxed(&hak_pool.most_in_use_slots, kept_in_use_slots());
        hak_store_relaxed(&hak_pool.regretted_lately_slots, (size_t)0);
    }
}

void hak_pool_tick_any(void)
{
    hak_retired_tick(hak_os_now_ns());
}

size_t hak_pool_trim(void)
{
    size_t bytes = hak_whole_unmap_postponed();
    hak_pool_retire_free(); /* mapped ahead and never used, perhaps */
    size_t first;
    size_t run;
    while ((run = retired_take_oldest(SIZE_MAX, UINT64_MAX, &first)) != 0)
        bytes += retired_unmap(first, run);
    return bytes + hak_pool_purge_empty(SIZE_MAX, UINT64_MAX) * HAK_SLOT_BYTES;
}

void hak_pool_fork_child(void)
{
    if (hak_lock_recover(&hak_pool.grow_lock))
        hak_pool.partial = 0;
    if (!hak_lock_recover(&hak_pool.retired_lock))
        return;
    hak_pool.newest = hak_pool.oldest = 0;
    hak_store_relaxed(&hak_pool.postponed, 0u);
    hak_store_relaxed(&hak_pool.retired_now, (size_t)0);
    for (size_t g = 0; g * 64 < hak_space_high_water(); g++)
        hak_store_relaxed(&hak_space_groups()[g].retired, (uint64_t)0);
}
