/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: superslabs from the system and back: growth steps, and the LRU cache of retired superslabs.
 * Whoever calls owns all slots of the superslab that it hands over. See pool.h. */
#include "pool/pool_internal.h"

#include <errno.h>

/* The first superslab is mapped in steps, so that a small program neither holds 2 MiB of address
 * space and commit charge that it will not use nor fails to start under a small limit. Later, an
 * eighth of what is mapped at once. */
#define GROW_FIRST_STEP_SLOTS 8u
#define GROW_MOST_SUPERSLABS ((size_t)16)
#define RETIRED_MIN_BYTES ((size_t)8 << 20)
#define RETIRED_SHARE 8

void hak_pool_configure(const struct hak_pool_config *config)
{
    hak_lock(&hak_pool.retired_lock);
    hak_pool.config = *config;
    hak_unlock(&hak_pool.retired_lock);
}

/* Claims the first `count` slots of a superslab that nobody else knows yet, and offers the rest.
 * `mapped` of its slots are there. */
static void grow_publish(size_t superslab, unsigned mapped, unsigned count)
{
    struct hak_superslab *s = hak_superslab(superslab);
    uint32_t missing = ~hak_low_bits32(mapped);
    uint64_t taken = hak_low_bits32(count);
    hak_store_relaxed(&s->missing, missing);
    /* ORDER: [slot-state] the superslab's memory is mapped */
    hak_store_release(&s->state, taken | missing | (taken << 32));
    if (count < mapped)
        hak_pool_offer(superslab);
}

/* Maps more of a superslab that was begun. */
static int grow_extend_locked(size_t superslab, unsigned count, unsigned align, size_t *slot)
{
    struct hak_superslab *s = hak_superslab(superslab);
    unsigned have = hak_ctz64(hak_load_relaxed(&s->missing));
    unsigned at = (unsigned)hak_round_up(have, align);
    if (at + count > HAK_SLOTS)
        return ENOMEM;
    unsigned end = (unsigned)hak_min(HAK_SLOTS, hak_round_up(at + count, GROW_FIRST_STEP_SLOTS));
    char *from = hak_superslab_address(superslab) + have * HAK_SLOT_BYTES;
    int error = hak_os_map_at(from, (end - have) * HAK_SLOT_BYTES);
    if (error != 0)
        return error;
    uint32_t fresh = hak_low_bits32(end) & ~hak_low_bits32(have);
    uint32_t taken = hak_low_bits32(count) << at;
    hak_store_relaxed(&s->missing, ~hak_low_bits32(end));
    hak_or_relaxed(&s->state, (uint64_t)taken << 32);
    hak_and_seq_cst(&s->state, ~(uint64_t)(fresh & ~taken)); /* ORDER: [slot-state] */
    hak_pool_offer(superslab);
    *slot = superslab * HAK_SLOTS + at;
    return 0;
}

/* Maps more of one of the superslabs that were begun; usually there is one at most. */
static bool grow_try_partial_locked(unsigned count, unsigned align, size_t *slot)
{
    for (uint32_t *link = &hak_pool.partial; *link != 0; link = &hak_superslab(*link - 1)->older) {
        struct hak_superslab *s = hak_superslab(*link - 1);
        if (grow_extend_locked(*link - 1, count, align, slot) != 0)
            continue;
        if (hak_load_relaxed(&s->missing) == 0)
            *link = s->older;
        return true;
    }
    return false;
}

/* Takes `superslabs` new ones of which `slots` (all of them, or some of the only one) are mapped.
 */
static int grow_take_locked(size_t superslabs, unsigned slots, unsigned count, size_t *slot)
{
    size_t first;
    size_t bytes = (superslabs - 1) * HAK_SUPERSLAB_BYTES + slots * HAK_SLOT_BYTES;
    int error = hak_space_take(superslabs, 1, bytes, true, &first);
    if (error != 0)
        return error;
    hak_add_relaxed(&hak_pool.mapped_now, superslabs);
    hak_add_relaxed(&hak_pool.mapped_total, superslabs);
    if (slots < HAK_SLOTS) {
        hak_superslab(first)->older = hak_pool.partial;
        hak_pool.partial = (uint32_t)first + 1;
    }
    grow_publish(first, superslabs > 1 ? HAK_SLOTS : slots, count);
    for (size_t i = 1; i < superslabs; i++)
        grow_publish(first + i, HAK_SLOTS, 0);
    *slot = first * HAK_SLOTS;
    return 0;
}

static int grow_locked(unsigned count, unsigned align, size_t *slot, bool *zero)
{
    /* Somebody may have grown the pool, or released, while this thread waited for the lock. */
    if (hak_pool_try_in_use(count, align, false, slot, zero))
        return 0;
    *zero = true;
    if (grow_try_partial_locked(count, align, slot))
        return 0;
    size_t mapped = hak_load_relaxed(&hak_pool.mapped_now);
    size_t step = hak_min(mapped / 8, GROW_MOST_SUPERSLABS);
    unsigned first_step = (unsigned)hak_round_up(count, GROW_FIRST_STEP_SLOTS);
    int error = ENOMEM;
    if (step > 1)
        error = grow_take_locked(step, HAK_SLOTS, count, slot);
    if (error != 0 && mapped > 0)
        error = grow_take_locked(1, HAK_SLOTS, count, slot);
    if (error != 0)
        error = grow_take_locked(1, first_step, count, slot);
    if (error != 0 && count < first_step)
        error = grow_take_locked(1, count, count, slot);
    return error;
}

int hak_pool_grow(unsigned count, unsigned align, size_t *slot, bool *zero)
{
    hak_lock(&hak_pool.grow_lock);
    int error = grow_locked(count, align, slot, zero);
    hak_unlock(&hak_pool.grow_lock);
    return error;
}

/* --- retired superslabs: a list, newest first --- */

static void retired_push_locked(size_t superslab)
{
    struct hak_superslab *s = hak_superslab(superslab);
    s->retired_ns = hak_os_now_ns();
    s->newer = 0;
    s->older = hak_pool.newest;
    if (hak_pool.newest != 0)
        hak_superslab(hak_pool.newest - 1)->newer = (uint32_t)superslab + 1;
    else
        hak_pool.oldest = (uint32_t)superslab + 1;
    hak_pool.newest = (uint32_t)superslab + 1;
    hak_count_owner(&hak_pool.retired_now, 1u);
}

static size_t retired_remove_locked(uint32_t link)
{
    struct hak_superslab *s = hak_superslab(link - 1);
    if (s->newer != 0)
        hak_superslab(s->newer - 1)->older = s->older;
    else
        hak_pool.newest = s->older;
    if (s->older != 0)
        hak_superslab(s->older - 1)->newer = s->newer;
    else
        hak_pool.oldest = s->newer;
    hak_count_owner(&hak_pool.retired_now, (size_t)-1);
    return link - 1;
}

static size_t retired_budget_count(void)
{
    size_t in_use =
        hak_load_relaxed(&hak_pool.mapped_now) - hak_load_relaxed(&hak_pool.retired_now);
    size_t bytes = hak_pool.config.retired_max_bytes;
    if (bytes == 0)
        bytes = hak_max(RETIRED_MIN_BYTES, in_use / RETIRED_SHARE * HAK_SUPERSLAB_BYTES);
    return hak_min(bytes / HAK_SUPERSLAB_BYTES, hak_pool.config.retired_max_count);
}

/* The oldest superslab that a limit no longer allows; false when all are within the limits. */
static bool retired_try_evict(size_t keep_count, uint64_t keep_since_ns, size_t *superslab)
{
    hak_lock(&hak_pool.retired_lock);
    uint32_t link = hak_pool.oldest;
    bool evict = link != 0 && (hak_load_relaxed(&hak_pool.retired_now) >
                                   hak_min(keep_count, retired_budget_count()) ||
                               hak_superslab(link - 1)->retired_ns < keep_since_ns);
    if (evict)
        *superslab = retired_remove_locked(link);
    hak_unlock(&hak_pool.retired_lock);
    return evict;
}

static size_t retired_unmap(size_t keep_count, uint64_t keep_since_ns)
{
    size_t bytes = 0;
    size_t superslab;
    while (retired_try_evict(keep_count, keep_since_ns, &superslab)) {
        if (hak_os_unmap(hak_superslab_address(superslab), HAK_SUPERSLAB_BYTES) != 0) {
            /* Too many mappings: keep the addresses, give the pages back, use it again. */
            bool clean = hak_os_purge(hak_superslab_address(superslab), HAK_SUPERSLAB_BYTES) == 0;
            /* ORDER: [slot-state] the purge is over */
            hak_store_release(&hak_superslab(superslab)->state,
                              clean ? 0 : (uint64_t)POOL_ALL << 32);
            hak_pool_offer(superslab);
            continue;
        }
        hak_sub_relaxed(&hak_pool.mapped_now, 1u);
        hak_add_relaxed(&hak_pool.unmapped_total, 1u);
        hak_space_give(superslab, 1);
        bytes += HAK_SUPERSLAB_BYTES;
    }
    return bytes;
}

void hak_pool_retire(size_t superslab)
{
    hak_lock(&hak_pool.retired_lock);
    retired_push_locked(superslab);
    uint64_t now = hak_superslab(superslab)->retired_ns;
    uint64_t age = hak_pool.config.retired_max_age_ns;
    hak_unlock(&hak_pool.retired_lock);
    hak_add_relaxed(&hak_pool.retired_total, 1u);
    retired_unmap(SIZE_MAX, now > age ? now - age : 0);
}

bool hak_pool_try_revive(size_t *superslab)
{
    if (hak_load_relaxed(&hak_pool.retired_now) == 0)
        return false;
    hak_lock(&hak_pool.retired_lock);
    bool found = hak_pool.newest != 0;
    if (found)
        *superslab = retired_remove_locked(hak_pool.newest);
    hak_unlock(&hak_pool.retired_lock);
    if (found)
        hak_add_relaxed(&hak_pool.revived_total, 1u);
    return found;
}

/* Purges the EMPTY slots of a superslab that is in use: claims them, purges, and only then makes
 * them UNUSED. */
static size_t trim_slots(size_t superslab)
{
    struct hak_superslab *s = hak_superslab(superslab);
    uint64_t state = hak_load_relaxed(&s->state);
    uint32_t empty;
    do {
        empty = ~pool_busy(state) & pool_dirty(state);
        if (empty == 0)
            return 0;
    } while (!hak_cas_acq_rel(&s->state, &state, state | empty)); /* ORDER: [slot-state] */
    size_t bytes = 0;
    for (uint32_t left = empty; left != 0;) {
        unsigned at = hak_ctz64(left);
        unsigned count = hak_ctz64(~((uint64_t)left >> at));
        uint32_t run = hak_low_bits32(count) << at;
        left &= ~run;
        if (hak_os_purge(hak_superslab_address(superslab) + at * HAK_SLOT_BYTES,
                         count * HAK_SLOT_BYTES) != 0)
            continue;
        hak_and_relaxed(&s->state, ~((uint64_t)run << 32));
        bytes += count * HAK_SLOT_BYTES;
    }
    hak_and_seq_cst(&s->state, ~(uint64_t)empty); /* ORDER: [slot-state] the purge is over */
    hak_pool_offer(superslab);
    return bytes;
}

size_t hak_pool_trim(void)
{
    size_t bytes = 0;
    for (size_t superslab = 0; superslab < hak_space_high_water(); superslab++) {
        if (!(hak_load_relaxed(&hak_space_groups()[superslab / 64].avail) >> superslab % 64 & 1))
            continue;
        uint64_t state = hak_load_relaxed(&hak_superslab(superslab)->state);
        /* ORDER: [slot-state] a superslab without any slot in use, mapped ahead and never used
         * perhaps */
        if (pool_busy(state) == 0 &&
            hak_cas_acq_rel(&hak_superslab(superslab)->state, &state, state | POOL_ALL))
            hak_pool_retire(superslab);
        else
            bytes += trim_slots(superslab);
    }
    return bytes + retired_unmap(0, 0);
}

void hak_pool_fork_child(void)
{
    if (hak_lock_recover(&hak_pool.grow_lock))
        hak_pool.partial = 0;
    if (hak_lock_recover(&hak_pool.retired_lock)) {
        hak_pool.newest = hak_pool.oldest = 0;
        hak_store_relaxed(&hak_pool.retired_now, (size_t)0);
    }
}
