/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: hakmem_ctl, mallopt, malloc_trim: reading and setting by name or number. */
#include "api/api_internal.h"

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
    {"huge.cached_bytes", FROM_SNAPSHOT(large.cached_bytes)},
    {"huge.cache_hits", FROM_SNAPSHOT(large.cache_hits)},
    {"huge.cache_misses", FROM_SNAPSHOT(large.cache_misses)},
    {"pool.mapped_superslabs", FROM_SNAPSHOT(pool.mapped_superslabs)},
    {"pool.unmapped_superslabs", FROM_SNAPSHOT(pool.unmapped_superslabs)},
    {"pool.retired_superslabs", FROM_SNAPSHOT(pool.retired_now)},
    {"pool.released_slots", FROM_SNAPSHOT(pool.released)},
    {"pool.acquired.adopt", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_ADOPT])},
    {"pool.acquired.warm", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_WARM])},
    {"pool.acquired.empty", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_EMPTY])},
    {"pool.acquired.unused", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_UNUSED])},
    {"pool.acquired.retired", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_RETIRED])},
    {"pool.acquired.fresh", FROM_SNAPSHOT(pool.acquired[HAK_STAGE_FRESH])},
};
#define CONTROLS (sizeof controls / sizeof controls[0])
_Static_assert(sizeof(size_t) == sizeof(uint64_t),
               "the members of a snapshot are all read as 64 bits");

HAK_PUBLIC const char *hakmem_ctl_name(unsigned index)
{
    return index < CONTROLS ? controls[index].name : NULL;
}

HAK_PUBLIC int hakmem_ctl(const char *name, uint64_t *value, const uint64_t *new_value)
{
    for (size_t i = 0; i < CONTROLS; i++) {
        if (strcmp(controls[i].name, name) != 0)
            continue;
        if (new_value != NULL)
            return EPERM;
        struct hak_snapshot s;
        hak_snapshot_take(&s);
        if (value != NULL)
            memcpy(value, (const char *)&s + controls[i].offset, sizeof *value);
        return 0;
    }
    return ENOENT;
}

HAK_PUBLIC int hakmem_malloc_trim(size_t pad)
{
    (void)pad; /* there is no top of a heap at which a pad could be left */
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
        struct hak_pool_config config = {
            .retired_max_count = hak_options.superslab_max_cached,
            .retired_max_bytes = value < 0 ? SIZE_MAX : hak_max((size_t)value, 1),
            .retired_max_age_ns = hak_options.superslab_ttl_sec * 1000000000u,
        };
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
