/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: what they share. */
#pragma once

#include "../unit.h"

#include "fake_os.h"
#include "pool/pool_internal.h"

#include <errno.h>
#include <sys/mman.h>

#define RUN HAK_POOL_LABEL_RUN
#define SECOND_NS 1000000000u

static inline void start(void)
{
    assert_int_equal(hak_space_start(), 0);
}

/* Acquires slots that must be there to be had. */
static inline size_t acquire(unsigned count, unsigned align, unsigned label, bool *zero)
{
    size_t slot = SIZE_MAX;
    bool ignored;
    assert_int_equal(
        hak_pool_acquire_any(count, align, label, &slot, zero != NULL ? zero : &ignored), 0);
    return slot;
}

/* A huge block of so many superslabs. */
static inline struct hak_whole take(size_t superslabs, bool *zero)
{
    struct hak_whole w;
    assert_int_equal(hak_whole_take(superslabs * HAK_SUPERSLAB_BYTES, 1, 0, &w, zero), 0);
    assert_int_equal(w.superslabs, superslabs);
    return w;
}

static inline void release(size_t slot, unsigned count, unsigned label)
{
    hak_pool_release_any(slot, count, label, false);
}

static inline void configure(size_t count, size_t bytes, uint64_t age_ns)
{
    struct hak_pool_config config = {
        .retired_max_count = count, .retired_max_bytes = bytes, .retired_max_age_ns = age_ns};
    hak_pool_configure(&config);
}

/* What is old goes in portions. */
static inline void tick_until_done(void)
{
    do
        hak_pool_tick_any();
    while (hak_load_relaxed(&hak_pool_knobs.behind));
}

/* Nothing that is freed goes back for a limit's sake. */
static inline void keep_everything(void)
{
    configure(1000, SIZE_MAX, UINT64_MAX);
}

static inline void fill_slots(size_t slot, unsigned count)
{
    memset(hak_slot_address(slot), 1, count * HAK_SLOT_BYTES);
}

static inline size_t resident_slots(size_t slot, unsigned count)
{
    unsigned char pages[HAK_SLOTS * HAK_SLOT_BYTES / HAK_PAGE_BYTES];
    size_t resident = 0;
    assert_int_equal(mincore(hak_slot_address(slot), count * HAK_SLOT_BYTES, pages), 0);
    for (size_t i = 0; i < count * HAK_SLOT_BYTES / HAK_PAGE_BYTES; i++)
        resident += pages[i] & 1;
    return resident * HAK_PAGE_BYTES / HAK_SLOT_BYTES;
}

/* Bytes of the window that are mapped. */
static inline size_t window_bytes(void)
{
    return fake_os_mapped_bytes() - hak_space_meta_bytes();
}

static inline struct hak_pool_stats stats(void)
{
    struct hak_pool_stats s;
    hak_pool_stats(&s);
    return s;
}

static inline bool is_offered(size_t superslab, unsigned room)
{
    const struct hak_space_group *g = &hak_space_groups()[superslab / 64];
    return hak_load_relaxed(&g->avail[room]) >> (superslab % 64) & 1;
}

/* Superslabs that are. */
static inline unsigned offered(unsigned room)
{
    unsigned superslabs = 0;
    for (size_t i = 0; i < hak_space_high_water(); i++)
        superslabs += is_offered(i, room);
    return superslabs;
}

/* What must hold whenever no thread is in the pool: a superslab is mapped as far as it is not
 * missing, what is busy was used, and what has room is found. Returns the busy slots of superslabs
 * that are not retired. */
static inline unsigned verify_pool(void)
{
    unsigned busy = 0;
    size_t bytes = 0;
    size_t retired = 0;
    for (size_t g = 0; g * 64 < hak_space_high_water(); g++)
        retired += hak_popcount64(hak_load_relaxed(&hak_space_groups()[g].retired));
    assert_int_equal(retired, stats().retired_now);
    for (size_t i = 0; i < hak_space_high_water(); i++) {
        if (!hak_space_is_taken(i))
            continue;
        struct hak_superslab *s = hak_superslab(i);
        uint64_t state = hak_load_relaxed(&s->state);
        uint32_t missing = hak_load_relaxed(&s->missing);
        CHECK((pool_busy(state) & missing) == missing, "superslab %zu: missing slots are free", i);
        for (unsigned room = 0; room < HAK_SPACE_ROOMS; room++)
            CHECK(!(hak_pool_rooms(state) >> room & 1) || is_offered(i, room),
                  "superslab %zu has room that nobody finds", i);
        bytes += (HAK_SLOTS - hak_popcount64(missing)) * HAK_SLOT_BYTES;
        busy += hak_popcount64(pool_busy(state) & ~missing);
    }
    assert_int_equal(bytes, window_bytes());
    busy -= (unsigned)retired * HAK_SLOTS;
    assert_int_equal(busy, hak_load_relaxed(&hak_pool.in_use_now));
    return busy;
}

/* n superslabs, acquired whole. */
static inline void acquire_whole(size_t *slots, size_t n)
{
    for (size_t i = 0; i < n; i++)
        slots[i] = acquire(32, 1, RUN, NULL);
}
