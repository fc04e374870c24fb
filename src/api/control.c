/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: hakmem_ctl, mallopt, malloc_trim: reading and setting by name or number. */
#include "api/api_internal.h"
#include "hard/hard.h"

#include "hakmem.h"

#include <errno.h>
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
    {"slabs.count", FROM_SNAPSHOT(cache.slabs)},
    {"slabs.bytes", FROM_SNAPSHOT(cache.slab_bytes)},
    {"heaps.count", FROM_SNAPSHOT(cache.heaps)},
    {"large.bytes", FROM_SNAPSHOT(large.large_bytes)},
    {"large.blocks", FROM_SNAPSHOT(large.large_blocks)},
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
    {"policy.bins", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_BINS])},
    {"policy.keep", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_KEEP])},
    {"policy.age", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_AGE])},
    {"policy.grow", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_GROW])},
    {"policy.huge_pages", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_HUGE_PAGES])},
    {"policy.prefault", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_PREFAULT])},
    {"policy.slack", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_SLACK])},
    {"policy.huge_keep", FROM_SNAPSHOT(policy.knobs.value[HAK_KNOB_HUGE_KEEP])},
    {"failures.threshold", FROM_SNAPSHOT(failures[HAK_FAILURE_THRESHOLD])},
    {"failures.exhaustion", FROM_SNAPSHOT(failures[HAK_FAILURE_EXHAUSTION])},
    {"failures.map", FROM_SNAPSHOT(failures[HAK_FAILURE_MAP])},
    {"locks.pool_grow.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_POOL_GROW].acquired)},
    {"locks.pool_grow.contended", FROM_SNAPSHOT(locks[HAK_LOCK_POOL_GROW].contended)},
    {"locks.pool_retired.acquired", FROM_SNAPSHOT(locks[HAK_LOCK_POOL_RETIRED].acquired)},
    {"locks.pool_retired.contended", FROM_SNAPSHOT(locks[HAK_LOCK_POOL_RETIRED].contended)},
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

HAK_PUBLIC const char *hakmem_ctl_name(unsigned index)
{
    return index < CONTROLS ? controls[index].name : NULL;
}

uint64_t hak_control_value(const struct hak_snapshot *s, unsigned index)
{
    uint64_t value;
    memcpy(&value, (const char *)s + controls[index].offset, sizeof value);
    return value;
}

bool hak_control_set_soft_cap(uint64_t size_bytes, uint64_t cap_bytes)
{
    hak_heap_self_slow(); /* the tables of classes are filled at the start */
    if (size_bytes == 0 || size_bytes > HAK_SMALL_MAX || !hak_heap_started())
        return false;
    size_t slots = cap_bytes / HAK_SLOT_BYTES;
    hak_pool_set_soft_cap(hak_class_of(size_bytes), cap_bytes == 0 ? 0 : hak_max(slots, 1));
    return true;
}

/* "class.SIZE.soft_cap_bytes" */
static int control_soft_cap(const char *name, uint64_t *value, const uint64_t *new_value)
{
    static const char head[] = "class.";
    static const char tail[] = ".soft_cap_bytes";
    uint64_t size;
    if (strncmp(name, head, sizeof head - 1) != 0)
        return ENOENT;
    const char *digits = name + sizeof head - 1;
    size_t length = strcspn(digits, ".");
    if (strcmp(digits + length, tail) != 0 || !hak_text_parse_size(digits, length, &size))
        return ENOENT;
    if (size == 0 || size > HAK_SMALL_MAX)
        return EINVAL;
    if (value != NULL)
        *value = hak_pool_soft_cap(hak_class_of(size)) * HAK_SLOT_BYTES;
    return new_value == NULL || hak_control_set_soft_cap(size, *new_value) ? 0 : EINVAL;
}

HAK_PUBLIC int hakmem_ctl(const char *name, uint64_t *value, const uint64_t *new_value)
{
    if (strcmp(name, "policy.write") == 0)
        return new_value == NULL ? EINVAL : hak_policy_write(false);
    for (unsigned i = 0; i < CONTROLS; i++) {
        if (strcmp(controls[i].name, name) != 0)
            continue;
        if (new_value != NULL)
            return EPERM;
        struct hak_snapshot s;
        hak_snapshot_take(&s);
        if (value != NULL)
            *value = hak_control_value(&s, i);
        return 0;
    }
    return control_soft_cap(name, value, new_value);
}

HAK_PUBLIC int hakmem_malloc_trim(size_t pad)
{
    (void)pad; /* there is no top of a heap at which a pad could be left */
    if (HAK_HARDENED)
        hak_hard_flush();
    return hak_heap_trim() > 0;
}

/* M_TRIM_THRESHOLD bounds what is kept, as in glibc. The others tune mechanisms that hakmem does
 * not have, and are accepted as glibc accepts them; a value out of glibc's own range is refused,
 * and so is M_PERTURB. */
HAK_PUBLIC int hakmem_mallopt(int parameter, int value)
{
    enum { MXFAST_MOST = 80 * (int)sizeof(size_t) / 4, MMAP_THRESHOLD_MOST = 32 << 20 };
    switch (parameter) {
    case M_TRIM_THRESHOLD: {
        struct hak_pool_config config = hak_options_pool_config();
        config.retired_max_bytes = value < 0 ? SIZE_MAX : hak_max((size_t)value, 1);
        hak_pool_configure(&config);
        return 1;
    }
    case M_MXFAST:
        return value >= 0 && value <= MXFAST_MOST;
    case M_MMAP_THRESHOLD:
        return value >= 0 && value <= MMAP_THRESHOLD_MOST;
    case M_PERTURB: /* the fast paths do not look: refused rather than ignored */
        return value == 0;
    default:
        return 1;
    }
}

HAK_PUBLIC const char *hakmem_version(void)
{
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
    return TEXT(HAKMEM_VERSION_MAJOR) "." TEXT(HAKMEM_VERSION_MINOR) "." TEXT(HAKMEM_VERSION_PATCH);
}

HAK_ALSO(int, malloc_trim, (size_t), hakmem_malloc_trim)
HAK_ALSO(int, mallopt, (int, int), hakmem_mallopt)
