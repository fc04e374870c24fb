/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: the names of a snapshot's figures, see snapshot.h. */
#include "api/snapshot.h"

#include <string.h>

struct control {
    const char *name;
    size_t offset; /* in a snapshot */
};

#define FROM_SNAPSHOT(member) offsetof(struct hak_snapshot, member)

/* Sorted by meaning, not by letter: the order in which a reader wants them. */
static const struct control controls[] = {
    {"live.bytes", FROM_SNAPSHOT(live_bytes)},
    {"live.blocks", FROM_SNAPSHOT(live_blocks)},
    {"held.bytes", FROM_SNAPSHOT(held_bytes)},
    {"bins.bytes", FROM_SNAPSHOT(cache.bin_bytes)},
    {"bins.blocks", FROM_SNAPSHOT(cache.bin_blocks)},
    {"bins.drained", FROM_SNAPSHOT(cache.drained_blocks)},
    {"slabs.count", FROM_SNAPSHOT(cache.slabs)},
    {"slabs.bytes", FROM_SNAPSHOT(cache.slab_bytes)},
    {"heaps.count", FROM_SNAPSHOT(cache.heaps)},
    {"remote.freed", FROM_SNAPSHOT(cache.remote_frees)},
    {"remote.collected", FROM_SNAPSHOT(cache.collected_blocks)},
    {"large.bytes", FROM_SNAPSHOT(large.large_bytes)},
    {"large.blocks", FROM_SNAPSHOT(large.large_blocks)},
    {"large.cached_bytes", FROM_SNAPSHOT(large.cached_bytes)},
    {"large.cached_taken", FROM_SNAPSHOT(large.cached_taken)},
    {"huge.bytes", FROM_SNAPSHOT(large.huge_bytes)},
    {"huge.blocks", FROM_SNAPSHOT(large.huge_blocks)},
    {"huge.reused", FROM_SNAPSHOT(large.huge_reused)},
    {"huge.fresh", FROM_SNAPSHOT(large.huge_fresh)},
    {"pool.mapped_superslabs", FROM_SNAPSHOT(pool.mapped_superslabs)},
    {"pool.unmapped_superslabs", FROM_SNAPSHOT(pool.unmapped_superslabs)},
    {"pool.retired_superslabs", FROM_SNAPSHOT(pool.retired_now)},
    {"pool.retired_total", FROM_SNAPSHOT(pool.retired_total)},
    {"pool.revived_total", FROM_SNAPSHOT(pool.revived_total)},
    {"pool.empty_slots", FROM_SNAPSHOT(pool.empty_slots_now)},
    {"pool.purged_slots", FROM_SNAPSHOT(pool.purged_slots_total)},
    {"pool.budget_bytes", FROM_SNAPSHOT(pool.budget_bytes)},
    {"pool.moved_pieces", FROM_SNAPSHOT(pool.moved_pieces_total)},
    {"pool.huge_pages_asked", FROM_SNAPSHOT(pool.huge_asked_total)},
    {"pool.huge_pages_dear", FROM_SNAPSHOT(pool.huge_dear_total)},
    {"pool.released_slots", FROM_SNAPSHOT(pool.released)},
    {"pool.acquired.adopt", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_ADOPT])},
    {"pool.acquired.warm", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_WARM])},
    {"pool.acquired.empty", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_EMPTY])},
    {"pool.acquired.unused", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_UNUSED])},
    {"pool.acquired.retired", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_RETIRED])},
    {"pool.acquired.fresh", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_FRESH])},
    {"pool.soft_cap_reclaims", FROM_SNAPSHOT(pool.soft_cap_reclaims)},
    {"policy.mode", FROM_SNAPSHOT(policy.mode)},
    {"policy.ticks", FROM_SNAPSHOT(policy.ticks)},
    {"policy.decisions", FROM_SNAPSHOT(policy.decisions)},
    {"policy.give_back", FROM_SNAPSHOT(policy.knobs.give_back)},
    {"policy.classes", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_CLASSES])},
    {"policy.keep", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_KEEP])},
    {"policy.age", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_AGE])},
    {"policy.grow", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_GROW])},
    {"policy.huge_pages", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_HUGE_PAGES])},
    {"policy.prefault", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_PREFAULT])},
    {"policy.huge_keep", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_HUGE_KEEP])},
    {"policy.spare", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_SPARE])},
    {"policy.prewarm", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_PREWARM])},
    {"failures.threshold", FROM_SNAPSHOT(failures[HAK_FAILURE_THRESHOLD])},
    {"failures.exhaustion", FROM_SNAPSHOT(failures[HAK_FAILURE_EXHAUSTION])},
    {"failures.map", FROM_SNAPSHOT(failures[HAK_FAILURE_MAP])},
    {"locks.pool_grow.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_POOL_GROW].acquired)},
    {"locks.pool_grow.contended", FROM_SNAPSHOT(locks[HAK_LOCK_POOL_GROW].contended)},
    {"locks.window.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_WINDOW].acquired)},
    {"locks.window.contended", FROM_SNAPSHOT(locks[HAK_LOCK_WINDOW].contended)},
    {"locks.records.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_RECORDS].acquired)},
    {"locks.records.contended", FROM_SNAPSHOT(locks[HAK_LOCK_RECORDS].contended)},
    {"locks.registry.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_REGISTRY].acquired)},
    {"locks.registry.contended", FROM_SNAPSHOT(locks[HAK_LOCK_REGISTRY].contended)},
    {"locks.heaps.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_HEAPS].acquired)},
    {"locks.heaps.contended", FROM_SNAPSHOT(locks[HAK_LOCK_HEAPS].contended)},
};
#define CONTROLS (sizeof controls / sizeof controls[0])
_Static_assert(sizeof(size_t) == sizeof(uint64_t),
               "the members of a snapshot are all read as 64 bits");

const char *const hak_lock_names[HAK_LOCK_COUNT] = {"pool_grow", "window", "records", "registry",
                                                    "heaps"};

const char *hak_control_name(unsigned index)
{
    return index < CONTROLS ? controls[index].name : NULL;
}

uint64_t hak_control_value(const struct hak_snapshot *s, unsigned index)
{
    uint64_t value;
    memcpy(&value, (const char *)s + controls[index].offset, sizeof value);
    return value;
}

void hak_snapshot_sum(struct hak_snapshot *s)
{
    s->locks[HAK_LOCK_POOL_GROW] = s->pool.grow_lock;
    s->locks[HAK_LOCK_REGISTRY] = s->cache.registry_lock;
    s->locks[HAK_LOCK_HEAPS] = s->cache.heap_locks;
    s->live_bytes = s->cache.used_bytes + s->large.large_bytes + s->large.huge_bytes;
    s->live_blocks = s->cache.used_blocks + s->large.large_blocks + s->large.huge_blocks;
    s->held_bytes = s->cache.slab_bytes + s->large.large_bytes + s->large.huge_bytes +
                    s->large.cached_bytes + s->pool.retired_now * HAK_SUPERSLAB_BYTES;
}
