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

/* Sorted by meaning, not by letter: the order in which a reader wants them. docs/control.md is made
 * of this table by tools/options_md.py: name, comment. */
/* clang-format off */
static const struct control controls[] = {
    {"live.bytes", FROM_SNAPSHOT(live_bytes)}, /* what the program holds, in blocks as they are given out */
    {"live.blocks", FROM_SNAPSHOT(live_blocks)}, /* how many blocks that is */
    {"held.bytes", FROM_SNAPSHOT(held_bytes)}, /* memory of slabs, large and huge blocks, and runs that wait */
    {"bins.bytes", FROM_SNAPSHOT(cache.bin_bytes)}, /* free blocks in threads' bins */
    {"bins.blocks", FROM_SNAPSHOT(cache.bin_blocks)}, /* how many blocks that is */
    {"bins.drained", FROM_SNAPSHOT(cache.drained_blocks)}, /* blocks that left bins for their slabs, since the start */
    {"slabs.count", FROM_SNAPSHOT(cache.slabs)}, /* slabs that all heaps hold */
    {"slabs.bytes", FROM_SNAPSHOT(cache.slab_bytes)}, /* their memory */
    {"heaps.count", FROM_SNAPSHOT(cache.heaps)}, /* heaps that threads have */
    {"remote.freed", FROM_SNAPSHOT(cache.remote_frees)}, /* blocks that threads have sent to their owners, since the start */
    {"remote.collected", FROM_SNAPSHOT(cache.collected_blocks)}, /* blocks that owners, or others for them, have taken in, since the start */
    {"large.bytes", FROM_SNAPSHOT(large.large_bytes)}, /* live blocks of 64 KiB to 1.94 MiB */
    {"large.blocks", FROM_SNAPSHOT(large.large_blocks)}, /* how many blocks that is */
    {"large.cached_bytes", FROM_SNAPSHOT(large.cached_bytes)}, /* freed ones that wait in the small caches */
    {"large.cached_taken", FROM_SNAPSHOT(large.cached_taken)}, /* allocations served out of those, since the start */
    {"huge.bytes", FROM_SNAPSHOT(large.huge_bytes)}, /* live blocks above 1.94 MiB */
    {"huge.blocks", FROM_SNAPSHOT(large.huge_blocks)}, /* how many blocks that is */
    {"huge.reused", FROM_SNAPSHOT(large.huge_reused)}, /* of their allocations those that kept memory served, since the start */
    {"huge.fresh", FROM_SNAPSHOT(large.huge_fresh)}, /* those that the system served, since the start */
    {"pool.mapped_superslabs", FROM_SNAPSHOT(pool.mapped_superslabs)}, /* superslabs of 2 MiB mapped, since the start */
    {"pool.unmapped_superslabs", FROM_SNAPSHOT(pool.unmapped_superslabs)}, /* superslabs unmapped, since the start */
    {"pool.retired_superslabs", FROM_SNAPSHOT(pool.retired_now)}, /* superslabs that are kept although no slot is in use */
    {"pool.retired_total", FROM_SNAPSHOT(pool.retired_total)}, /* superslabs that came to be kept so, since the start */
    {"pool.revived_total", FROM_SNAPSHOT(pool.revived_total)}, /* of those the ones that were used again, since the start */
    {"pool.empty_slots", FROM_SNAPSHOT(pool.empty_slots_now)}, /* slots of 64 KiB that are free and keep their pages */
    {"pool.purged_slots", FROM_SNAPSHOT(pool.purged_slots_total)}, /* slots whose pages went back to the system, since the start */
    {"pool.budget_bytes", FROM_SNAPSHOT(pool.budget_bytes)}, /* how much memory without use may be kept at the moment */
    {"pool.moved_pieces", FROM_SNAPSHOT(pool.moved_pieces_total)}, /* pieces of kept memory that were moved together for huge blocks, since the start */
    {"pool.huge_pages_asked", FROM_SNAPSHOT(pool.huge_asked_total)}, /* superslabs for which huge pages were asked for, since the start */
    {"pool.huge_pages_dear", FROM_SNAPSHOT(pool.huge_dear_total)}, /* of those the ones that took 2 ms or more, since the start */
    {"pool.released_slots", FROM_SNAPSHOT(pool.released)}, /* slots that were given back to the pool, since the start */
    {"pool.acquired.adopt", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_ADOPT])}, /* times that this stage served somebody, since the start: see architecture.md */
    {"pool.acquired.warm", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_WARM])}, /* the same */
    {"pool.acquired.empty", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_EMPTY])}, /* the same */
    {"pool.acquired.unused", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_UNUSED])}, /* the same */
    {"pool.acquired.retired", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_RETIRED])}, /* the same */
    {"pool.acquired.fresh", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_FRESH])}, /* the same */
    {"pool.soft_cap_reclaims", FROM_SNAPSHOT(pool.soft_cap_reclaims)}, /* times that a class was over its cap when it wanted more */
    {"policy.mode", FROM_SNAPSHOT(policy.mode)}, /* 0: the defaults, 1: FILE, 2: learn:FILE, 3: try:FILE */
    {"policy.ticks", FROM_SNAPSHOT(policy.ticks)}, /* ticks of the policy, since the start */
    {"policy.decisions", FROM_SNAPSHOT(policy.decisions)}, /* decisions of the policy, since the start */
    {"policy.give_back", FROM_SNAPSHOT(policy.knobs.give_back)}, /* because of the control group: 0 as usual, 1 keep half, 2 keep nothing */
    {"policy.classes", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_CLASSES])}, /* slots in a class from which on it is divided more finely */
    {"policy.keep", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_KEEP])}, /* percent of the most that was in use, which experience may add to what is kept */
    {"policy.age", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_AGE])}, /* nanoseconds after which what is kept goes back */
    {"policy.grow", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_GROW])}, /* what is mapped, divided by this, is the next step of growth */
    {"policy.huge_pages", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_HUGE_PAGES])}, /* bytes in use from which on huge pages are asked for */
    {"policy.prefault", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_PREFAULT])}, /* 1: pages of slabs are faulted in ahead */
    {"policy.huge_keep", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_HUGE_KEEP])}, /* larger huge blocks, in bytes, go straight back to the system */
    {"policy.spare", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_SPARE])}, /* bytes of free blocks in a heap's slabs before their pages go back */
    {"policy.prewarm", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_PREWARM])}, /* superslabs mapped and touched at the start */
    {"failures.threshold", FROM_SNAPSHOT(failures[HAK_FAILURE_THRESHOLD])}, /* allocations that no block can serve: too large, or a product that overflows */
    {"failures.exhaustion", FROM_SNAPSHOT(failures[HAK_FAILURE_EXHAUSTION])}, /* allocations beyond HAKMEM_LIMIT_MB or the window of addresses */
    {"failures.map", FROM_SNAPSHOT(failures[HAK_FAILURE_MAP])}, /* allocations for which the system refused memory */
    {"failures.averted", FROM_SNAPSHOT(failures_averted)}, /* allocations that would have failed if the thread had not emptied its caches */
    {"locks.pool_grow.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_POOL_GROW].acquired)}, /* times that it was taken, since the start */
    {"locks.pool_grow.contended", FROM_SNAPSHOT(locks[HAK_LOCK_POOL_GROW].contended)}, /* times that it was not free, since the start */
    {"locks.window.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_WINDOW].acquired)}, /* times that it was taken, since the start */
    {"locks.window.contended", FROM_SNAPSHOT(locks[HAK_LOCK_WINDOW].contended)}, /* times that it was not free, since the start */
    {"locks.records.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_RECORDS].acquired)}, /* times that it was taken, since the start */
    {"locks.records.contended", FROM_SNAPSHOT(locks[HAK_LOCK_RECORDS].contended)}, /* times that it was not free, since the start */
    {"locks.registry.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_REGISTRY].acquired)}, /* times that it was taken, since the start */
    {"locks.registry.contended", FROM_SNAPSHOT(locks[HAK_LOCK_REGISTRY].contended)}, /* times that it was not free, since the start */
    {"locks.heaps.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_HEAPS].acquired)}, /* times that it was taken, since the start */
    {"locks.heaps.contended", FROM_SNAPSHOT(locks[HAK_LOCK_HEAPS].contended)}, /* times that it was not free, since the start */
};
/* clang-format on */
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
