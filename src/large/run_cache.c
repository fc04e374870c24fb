/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * large: runs that were freed lately and wait for the next request of about their length.
 *
 * A run that goes through the pool takes a dozen atomic operations on words that all threads share.
 * So shorter ones wait in a small cache first, each thread in one of a few, found by the number of
 * its heap; the cache belongs to nobody, so a thread's end or a fork leaves nothing to be done. To
 * the pool and to the counters of large blocks such a run is still in use (hak_large_stats
 * subtracts what waits here), its map entry is 0, and its pages are as the program left them.
 *
 * A run in a cache is one word; whoever takes the word out owns the run. Of those of about the
 * length the one that was put here last is taken first, as far as that is known: the processor's
 * caches have what the thread has written to it. The oldest make room. Only lengths wait that were
 * asked for since the last tick, so that what realloc leaves behind on its way takes no room. Runs
 * that nobody takes between two ticks go back to the pool, and all of them before memory is taken
 * that is not in use yet: a heap of 9 MiB had two in runs that waited, and grew. */
#include "large/large_internal.h"

/* All that wait in a cache: an eighth of what the process has in runs, 2 MiB at least, 4 at most.
 */
#define CACHE_LEAST_SLOTS 32u
#define CACHE_MOST_SLOTS 64u
#define CACHE_SHARE 8u

#define RUN_RESTED (UINT64_C(1) << 63)

static size_t run_slot(uint64_t run)
{
    return (uint32_t)run - 1u;
}

static unsigned run_slots(uint64_t run)
{
    return (uint8_t)(run >> HAK_RUN_SLOTS_SHIFT);
}

/* May serve a request for `slots`: it is not more than a quarter longer. */
static bool run_serves(uint64_t run, unsigned slots)
{
    return run_slots(run) - slots <= slots / 4; /* modulo 2^32: not if it is shorter */
}

static struct run_cache *run_cache_of(unsigned number)
{
    return &hak_large_counters.caches[number % HAK_RUN_CACHES];
}

/* All places of all caches: i < RUN_PLACES. */
#define RUN_PLACES (HAK_RUN_CACHES * HAK_RUN_CACHE_RUNS)
static _Atomic(uint64_t) *run_place(unsigned i)
{
    return &run_cache_of(i)->runs[i / HAK_RUN_CACHES];
}

static bool run_try_take(_Atomic(uint64_t) *place, uint64_t run)
{
    /* ORDER: [cached-run] what was done in the run before it was put here is over */
    return hak_cas_acquire(place, &run, UINT64_C(0));
}

static void run_cache_want(struct run_cache *c, unsigned slots)
{
    uint32_t wanted = hak_load_relaxed(&c->wanted);
    if (HAK_UNLIKELY((wanted >> slots & 1) == 0))
        hak_store_relaxed(&c->wanted, wanted | UINT32_C(1) << slots);
}

/* A length that a run of so many slots serves was asked for. */
static bool run_cache_wants(const struct run_cache *c, unsigned slots)
{
    unsigned least = (slots * 4 + 4) / 5;
    uint32_t lengths = (UINT32_C(2) << slots) - (UINT32_C(1) << least);
    return (hak_load_relaxed(&c->wanted) & lengths) != 0;
}

/* The pool knows how many slots wait, to within so many for each cache. */
#define TOLD_SLOTS 8u

static void run_cache_tell(struct run_cache *c, uint32_t held)
{
    hak_store_relaxed(&c->held, held);
    if (HAK_LIKELY(held - hak_load_relaxed(&c->told) + TOLD_SLOTS - 1 < 2 * TOLD_SLOTS - 1))
        return;
    uint32_t told = hak_exchange_relaxed(&c->told, held);
    hak_pool_count_waiting((ptrdiff_t)held - (ptrdiff_t)told);
}

/* What `held` should be: threads that share the cache, and ticks, leave it behind. */
static uint32_t run_cache_count(struct run_cache *c)
{
    uint32_t held = 0;
    for (unsigned i = 0; i < HAK_RUN_CACHE_RUNS; i++)
        held += run_slots(hak_load_relaxed(&c->runs[i]));
    run_cache_tell(c, held);
    return held;
}

static void run_cache_hold(struct run_cache *c, uint32_t more)
{
    uint32_t held = hak_load_relaxed(&c->held) + more;
    if (HAK_LIKELY(held <= CACHE_MOST_SLOTS))
        run_cache_tell(c, held);
    else
        run_cache_count(c);
}

unsigned hak_run_cache_try_take(unsigned number, unsigned slots, size_t *slot)
{
    struct run_cache *c = run_cache_of(number);
    uint32_t newest = hak_load_relaxed(&c->newest);
    run_cache_want(c, slots);
    for (unsigned age = 0; age < HAK_RUN_CACHE_RUNS; age++) {
        _Atomic(uint64_t) *place = &c->runs[(newest - age) % HAK_RUN_CACHE_RUNS];
        uint64_t run = hak_load_relaxed(place);
        if (!run_serves(run, slots) || !run_try_take(place, run))
            continue;
        if (age == 0)
            hak_store_relaxed(&c->newest, newest - 1);
        run_cache_hold(c, 0 - run_slots(run));
        hak_count_owner(&c->taken, 1u);
        *slot = run_slot(run);
        return run_slots(run);
    }
    return 0;
}

static bool run_cache_has_room(struct run_cache *c, unsigned slots)
{
    size_t share = hak_load_relaxed(&hak_large_counters.large_bytes) / CACHE_SHARE;
    size_t most = hak_max(CACHE_LEAST_SLOTS, hak_min(share / HAK_SLOT_BYTES, CACHE_MOST_SLOTS));
    return HAK_LIKELY(hak_load_relaxed(&c->held) + slots <= most) ||
           run_cache_count(c) + slots <= most;
}

static bool run_try_flush(_Atomic(uint64_t) *place, uint64_t run)
{
    bool taken = run != 0 && run_try_take(place, run);
    if (taken)
        hak_run_release(run_slot(run));
    return taken;
}

static bool run_cache_try_flush_at(struct run_cache *c, uint32_t at)
{
    _Atomic(uint64_t) *place = &c->runs[at % HAK_RUN_CACHE_RUNS];
    return run_try_flush(place, hak_load_relaxed(place));
}

static bool run_cache_try_fill(struct run_cache *c, size_t slot, unsigned slots)
{
    uint32_t newest = hak_load_relaxed(&c->newest);
    for (unsigned i = 1; i <= HAK_RUN_CACHE_RUNS; i++) {
        _Atomic(uint64_t) *place = &c->runs[(newest + i) % HAK_RUN_CACHE_RUNS];
        uint64_t run = hak_load_relaxed(place);
        /* ORDER: [cached-run] all that was done in the run */
        if (run == 0 &&
            hak_cas_release(place, &run, (uint64_t)slots << HAK_RUN_SLOTS_SHIFT | (slot + 1))) {
            hak_store_relaxed(&c->newest, newest + i);
            run_cache_hold(c, slots);
            return true;
        }
    }
    return false;
}

bool hak_run_cache_try_put(unsigned number, size_t slot, unsigned slots)
{
    struct run_cache *c = run_cache_of(number);
    if (!run_cache_wants(c, slots))
        return false;
    uint32_t oldest = hak_load_relaxed(&c->newest) + 1; /* or what has come to its place */
    for (unsigned i = 0; i < HAK_RUN_CACHE_RUNS && !run_cache_has_room(c, slots); i++)
        (void)run_cache_try_flush_at(c, oldest + i);
    return run_cache_try_fill(c, slot, slots) ||
           (run_cache_try_flush_at(c, oldest) && run_cache_try_fill(c, slot, slots));
}

static void run_caches_count(void)
{
    for (unsigned i = 0; i < HAK_RUN_CACHES; i++)
        run_cache_count(run_cache_of(i));
}

/* All of them, or those that have rested; marks the others. Returns their slots. */
static size_t run_caches_flush(bool all)
{
    size_t flushed = 0;
    for (unsigned i = 0; i < RUN_PLACES; i++) {
        _Atomic(uint64_t) *place = run_place(i);
        uint64_t run = hak_load_relaxed(place);
        if (run != 0 && !all && (run & RUN_RESTED) == 0)
            hak_cas_relaxed(place, &run, run | RUN_RESTED);
        else if (run_try_flush(place, run))
            flushed += run_slots(run);
    }
    run_caches_count();
    return flushed;
}

bool hak_run_cache_flush_among(size_t slot, unsigned slots)
{
    bool flushed = false;
    for (unsigned i = 0; i < RUN_PLACES; i++) {
        _Atomic(uint64_t) *place = run_place(i);
        uint64_t run = hak_load_relaxed(place);
        if (run_slot(run) - slot < slots && run_try_flush(place, run))
            flushed = true;
    }
    if (flushed)
        run_caches_count();
    return flushed;
}

size_t hak_large_flush_any(void)
{
    return run_caches_flush(true) * HAK_SLOT_BYTES;
}

bool hak_large_try_acquire_any(unsigned slots, unsigned align_slots, unsigned label, size_t *slot,
                               bool *zero)
{
    if (hak_pool_has_waiting()) {
        if (hak_pool_try_empty(slots, align_slots, label, slot, zero))
            return true;
        hak_large_flush_any();
    }
    return hak_pool_acquire_any(slots, align_slots, label, slot, zero) == 0 ||
           (hak_large_flush_any() != 0 &&
            hak_pool_acquire_any(slots, align_slots, label, slot, zero) == 0);
}

size_t hak_large_trim(void)
{
    hak_large_flush_any();
    return hak_slack_give_back(UINT64_MAX) + hak_pool_trim();
}

void hak_large_tick_any(void)
{
    for (unsigned i = 0; i < HAK_RUN_CACHES; i++)
        hak_store_relaxed(&run_cache_of(i)->wanted, 0u);
    run_caches_flush(false);
    uint64_t now = hak_os_now_ns();
    hak_slack_give_back(now - hak_min(now, hak_pool_age_ns()));
}

void hak_run_cache_each(void (*visit)(size_t slot, unsigned slots, void *arg), void *arg)
{
    for (unsigned i = 0; i < RUN_PLACES; i++) {
        uint64_t run = hak_load_relaxed(run_place(i));
        if (run != 0)
            visit(run_slot(run), run_slots(run), arg);
    }
}

struct cached_search {
    size_t slot;
    unsigned slots;
};

static void cached_compare(size_t slot, unsigned slots, void *arg)
{
    struct cached_search *search = arg;
    if (slot == search->slot)
        search->slots = slots;
}

unsigned hak_large_cached_slots(size_t slot)
{
    struct cached_search search = {slot, 0};
    hak_run_cache_each(cached_compare, &search);
    return search.slots;
}
