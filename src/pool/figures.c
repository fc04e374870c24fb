/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pool: what is counted, by class and in all, and soft caps, which are compared with that. See
 * pool.h. */
#include "pool/pool_internal.h"

void hak_pool_count_adoption(unsigned label)
{
    hak_add_relaxed(&hak_pool.acquired[HAK_STAGE_ADOPT][label], 1u);
}

/* --- soft caps --- */

void hak_pool_set_soft_cap(unsigned label, size_t slots)
{
    hak_store_relaxed(&hak_pool.soft_cap[label], slots);
}

size_t hak_pool_soft_cap(unsigned label)
{
    return hak_load_relaxed(&hak_pool.soft_cap[label]);
}

size_t hak_pool_slots_in_use(unsigned label)
{
    return hak_load_relaxed(&hak_pool.in_use[label]);
}

bool hak_pool_is_over_cap(unsigned label, unsigned count)
{
    size_t cap = hak_pool_soft_cap(label);
    return HAK_UNLIKELY(cap != 0) && hak_pool_slots_in_use(label) + count > cap;
}

void hak_pool_count_reclaim(void)
{
    hak_add_relaxed(&hak_pool.soft_cap_reclaims, 1u);
}

/* --- figures --- */

size_t hak_pool_mapped_superslabs(void)
{
    return hak_load_relaxed(&hak_pool.mapped_now);
}

uint64_t hak_pool_unmapped(void)
{
    return hak_load_relaxed(&hak_pool.unmapped_total);
}

uint64_t hak_pool_acquired(enum hak_stage stage, unsigned label)
{
    return hak_load_relaxed(&hak_pool.acquired[stage][label]);
}

const char *hak_stage_name(enum hak_stage stage)
{
    static const char *const names[HAK_STAGE_COUNT] = {"adopt",  "warm",    "empty",
                                                       "unused", "retired", "fresh"};
    return names[stage];
}

void hak_pool_stats(struct hak_pool_stats *out)
{
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++) {
        out->acquired[stage] = 0;
        for (unsigned label = 0; label < HAK_POOL_LABELS; label++)
            out->acquired[stage] += hak_pool_acquired(stage, label);
    }
    out->released = hak_load_relaxed(&hak_pool.released);
    out->mapped_superslabs = hak_load_relaxed(&hak_pool.mapped_total);
    out->unmapped_superslabs = hak_load_relaxed(&hak_pool.unmapped_total);
    out->retired_now = hak_load_relaxed(&hak_pool.retired_now);
    out->retired_total = hak_load_relaxed(&hak_pool.retired_total);
    out->revived_total = hak_load_relaxed(&hak_pool.revived_total);
    out->empty_slots_now = hak_load_relaxed(&hak_pool.empty_now);
    out->purged_slots_total = hak_load_relaxed(&hak_pool.purged_total);
    out->soft_cap_reclaims = hak_load_relaxed(&hak_pool.soft_cap_reclaims);
    hak_lock_add_counts(&hak_pool.grow_lock, &out->grow_lock);
    out->budget_bytes = hak_kept_budget_slots() * HAK_SLOT_BYTES;
    out->moved_pieces_total = hak_load_relaxed(&hak_pool.moved_total);
    out->huge_asked_total = hak_load_relaxed(&hak_pool.huge_asked_total);
    out->huge_dear_total = hak_load_relaxed(&hak_pool.huge_dear_total);
}
