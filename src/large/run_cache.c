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
 * A run in a cache is one word; whoever takes the word out owns the run. There are a few places for
 * each length; from those from which nothing was taken between two ticks the runs go back to the
 * pool. */
#include "large/large_internal.h"

#define RUN_LENGTHS (HAK_RUN_CACHE_MOST_SLOTS - HAK_RUN_CACHE_LEAST_SLOTS + 1)
#define RUN_ROWS (HAK_RUN_CACHES * RUN_LENGTHS)

/* All rows of all caches: i < RUN_ROWS. */
static struct run_row *run_row_at(unsigned i, unsigned *slots)
{
    *slots = HAK_RUN_CACHE_LEAST_SLOTS + i % RUN_LENGTHS;
    return &hak_large_counters.caches[i / RUN_LENGTHS].rows[i % RUN_LENGTHS];
}

static struct run_row *run_row_of(unsigned number, unsigned slots)
{
    return &hak_large_counters.caches[number % HAK_RUN_CACHES]
                .rows[slots - HAK_RUN_CACHE_LEAST_SLOTS];
}

static bool run_row_try_take(struct run_row *row, size_t *slot)
{
    for (unsigned i = 0; i < HAK_RUN_ROW_RUNS; i++) {
        uint32_t run = hak_load_relaxed(&row->runs[i]);
        /* ORDER: [cached-run] what was done in the run before it was put here is over */
        if (run != 0 && hak_cas_acquire(&row->runs[i], &run, 0u)) {
            *slot = run - 1;
            return true;
        }
    }
    return false;
}

unsigned hak_run_cache_try_take(unsigned number, unsigned slots, size_t *slot)
{
    unsigned most = (unsigned)hak_min(slots + slots / 4, HAK_RUN_CACHE_MOST_SLOTS);
    for (unsigned length = slots; length <= most; length++) {
        struct run_row *row = run_row_of(number, length);
        if (run_row_try_take(row, slot)) {
            hak_store_relaxed(&row->used, true);
            hak_count_owner(&hak_large_counters.caches[number % HAK_RUN_CACHES].taken, 1u);
            return length;
        }
    }
    return 0;
}

bool hak_run_cache_try_put(unsigned number, size_t slot, unsigned slots)
{
    struct run_row *row = run_row_of(number, slots);
    for (unsigned i = 0; i < HAK_RUN_ROW_RUNS; i++) {
        uint32_t run = hak_load_relaxed(&row->runs[i]);
        /* ORDER: [cached-run] all that was done in the run */
        if (run == 0 && hak_cas_release(&row->runs[i], &run, (uint32_t)slot + 1))
            return true;
    }
    return false;
}

static size_t run_row_flush(struct run_row *row)
{
    size_t slot;
    size_t runs = 0;
    for (; run_row_try_take(row, &slot); runs++)
        hak_run_release(slot);
    return runs;
}

size_t hak_large_flush_any(void)
{
    size_t flushed = 0;
    for (unsigned i = 0, slots; i < RUN_ROWS; i++) {
        struct run_row *row = run_row_at(i, &slots);
        flushed += run_row_flush(row) * slots;
    }
    return flushed * HAK_SLOT_BYTES;
}

bool hak_large_try_acquire_any(unsigned slots, unsigned align_slots, unsigned label, size_t *slot,
                               bool *zero)
{
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
    for (unsigned i = 0, slots; i < RUN_ROWS; i++) {
        struct run_row *row = run_row_at(i, &slots);
        if (!hak_load_relaxed(&row->used))
            run_row_flush(row);
        hak_store_relaxed(&row->used, false);
    }
    uint64_t now = hak_os_now_ns();
    hak_slack_give_back(now - hak_min(now, hak_pool_age_ns()));
}

void hak_run_cache_each(void (*visit)(size_t slot, unsigned slots, void *arg), void *arg)
{
    for (unsigned i = 0, slots; i < RUN_ROWS; i++) {
        struct run_row *row = run_row_at(i, &slots);
        for (unsigned place = 0; place < HAK_RUN_ROW_RUNS; place++) {
            uint32_t run = hak_load_relaxed(&row->runs[place]);
            if (run != 0)
                visit(run - 1, slots, arg);
        }
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
