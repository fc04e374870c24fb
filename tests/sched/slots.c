/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: slots that the program holds, and what must hold of the pool when nobody
 * runs. See scenarios.h. */
#include "scenarios.h"

#include "pool/pool_internal.h"

#define SLOTS_MAX (64u * HAK_SLOTS)
#define NOBODY 200u

static uint8_t owners[SLOTS_MAX];

/* --- who holds what --- */

static void slots_on_discard(const char *at, size_t bytes)
{
    size_t first = hak_slot_of(at);
    for (size_t i = 0; i < bytes / HAK_SLOT_BYTES; i++)
        SCHED_CHECK(owners[first + i] == 0, "slot %zu is %u's and the system takes it", first + i,
                    owners[first + i] - 1);
}

void slots_claim(size_t slot, unsigned count, bool zero)
{
    sched_note("holds slots %zu to %zu", slot, slot + count - 1);
    for (size_t i = slot; i < slot + count; i++) {
        SCHED_CHECK(sim_os_is_mapped(i), "slot %zu", i);
        SCHED_CHECK(!sim_os_is_discarding(i), "slot %zu", i);
        SCHED_CHECK(owners[i] == 0, "slot %zu has two owners: %u and %u", i, owners[i] - 1,
                    sched_self());
        SCHED_CHECK(!zero || !sim_os_is_used(i), "slot %zu does not read as zero", i);
        memory_plain(hak_slot_address(i), HAK_SLOT_BYTES, true, NULL);
        owners[i] = (uint8_t)(sched_self() + 1);
        sim_os_use(i);
    }
}

void slots_give_up(size_t slot, unsigned count)
{
    sched_note("gives up slots %zu to %zu", slot, slot + count - 1);
    for (size_t i = slot; i < slot + count; i++) {
        SCHED_CHECK(owners[i] != 0, "slot %zu", i);
        memory_plain(hak_slot_address(i), HAK_SLOT_BYTES, true, NULL);
        owners[i] = 0;
    }
}

size_t slots_acquire(unsigned count, unsigned label)
{
    size_t slot = SIZE_MAX;
    bool zero = false;
    int error = hak_pool_acquire_any(count, 1, label, &slot, &zero);
    SCHED_CHECK(error == 0, "error %d", error);
    slots_claim(slot, count, zero);
    return slot;
}

void slots_release(size_t slot, unsigned count, unsigned label)
{
    slots_give_up(slot, count);
    hak_pool_release_any(slot, count, label, false);
}

void slots_keep_busy(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        owners[slots_acquire(1, HAK_POOL_LABEL_RUN)] = NOBODY;
}

/* --- what must hold --- */

static bool pool_has_retired(size_t superslab)
{
    return hak_load_relaxed(&hak_space_groups()[superslab / 64].retired) >> (superslab % 64) & 1;
}

static size_t pool_count_retired(void)
{
    size_t retired = 0;
    for (size_t i = 0; i < hak_space_high_water(); i++) {
        if (!pool_has_retired(i))
            continue;
        retired++;
        SCHED_CHECK(pool_busy(hak_load_relaxed(&hak_superslab(i)->state)) == POOL_ALL,
                    "superslab %zu is retired, and slots are free", i);
    }
    return retired;
}

static bool pool_is_indexed(size_t superslab, uint64_t state)
{
    const struct hak_space_group *g = &hak_space_groups()[superslab / 64];
    for (unsigned room = 0; room < HAK_SPACE_ROOMS; room++)
        if (hak_pool_rooms(state) >> room & 1 &&
            !(hak_load_relaxed(&g->avail[room]) >> (superslab % 64) & 1))
            return false;
    return true;
}

void pool_verify(size_t in_use)
{
    size_t retired = pool_count_retired();
    size_t empty = 0;
    size_t busy = 0;
    SCHED_CHECK(retired == hak_load_relaxed(&hak_pool.retired_now), "%zu are retired", retired);
    for (size_t i = 0; i < hak_space_high_water(); i++) {
        if (!hak_space_is_taken(i) || pool_has_retired(i))
            continue;
        uint64_t state = hak_load_relaxed(&hak_superslab(i)->state);
        uint32_t missing = hak_load_relaxed(&hak_superslab(i)->missing);
        SCHED_CHECK(pool_is_indexed(i, state), "superslab %zu has room: state %llx", i,
                    (unsigned long long)state);
        SCHED_CHECK((pool_busy(state) & missing) == missing, "superslab %zu", i);
        SCHED_CHECK(pool_busy(state) != 0 || sim_os_refuses(),
                    "superslab %zu was emptied and not retired: state %llx", i,
                    (unsigned long long)state);
        empty += hak_popcount64(pool_dirty(state) & ~pool_busy(state));
        busy += hak_popcount64(pool_busy(state) & ~missing);
    }
    SCHED_CHECK(empty == hak_load_relaxed(&hak_pool.empty_now), "%zu EMPTY, counted %zu", empty,
                hak_load_relaxed(&hak_pool.empty_now));
    SCHED_CHECK(busy == in_use, "%zu busy, %zu in use", busy, in_use);
}

void slots_verify(void)
{
    size_t held = 0;
    for (size_t i = 0; i < SLOTS_MAX; i++)
        held += owners[i] != 0;
    pool_verify(held);
}

/* --- the beginning --- */

void slots_configure(size_t max_count, uint64_t max_age_ns)
{
    hak_pool_configure(&(struct hak_pool_config){max_count, 4 << 20, max_age_ns, SIZE_MAX});
}

void slots_start_empty(void)
{
    SCHED_CHECK(hak_space_start() == 0, "the window");
    slots_configure(4, UINT64_MAX / 8);
    sim_os_on_discard(slots_on_discard);
}

/* With one superslab, mapped as a whole: slots that are not mapped yet count as in use. */
void slots_start(void)
{
    slots_start_empty();
    size_t slot = slots_acquire(HAK_SLOTS, HAK_POOL_LABEL_RUN);
    slots_give_up(slot, HAK_SLOTS);
    SCHED_CHECK(hak_os_purge(hak_slot_address(slot), HAK_SUPERSLAB_BYTES) == 0, "refused");
    hak_pool_release_any(slot, HAK_SLOTS, HAK_POOL_LABEL_RUN, true);
}
