/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Tests: what makes libhakmem-sites.so of libhakmem's objects: a library in which call sites are at
 * work everywhere. Every class is watched and each site has a group by its address alone; with
 * SITES_FORCED=learn every third refill is a sample instead. The programs of the other test folders
 * run under it. The linker's --wrap puts these functions in the place of the library's. */
#include "heap/heap.h"

#include <stdlib.h>
#include <string.h>

unsigned __wrap_hak_site_rule_group(uintptr_t address);
bool __wrap_hak_sites_count_refill(struct hak_heap *heap, size_t bytes);
bool __real_hak_sites_count_refill(struct hak_heap *heap, size_t bytes);

unsigned __wrap_hak_site_rule_group(uintptr_t address)
{
    return (unsigned)((address >> 2) % HAK_GROUPS);
}

bool __wrap_hak_sites_count_refill(struct hak_heap *heap, size_t bytes)
{
    static _Atomic(unsigned) count;
    __real_hak_sites_count_refill(heap, bytes);
    bool samples = hak_add_relaxed(&count, 1u) % 3 == 0;
    /* The next one is this one's again, or the one after. */
    heap->watch_turn = (uint8_t)(hak_load_relaxed(&heap->stats.refills) + !samples);
    return samples;
}

__attribute__((constructor)) static void forced_begin(void)
{
    const char *what = getenv("SITES_FORCED");
    if (what != NULL && strcmp(what, "learn") == 0) {
        hak_sites_learn(true);
        return;
    }
    free(malloc(1)); /* the size classes are known from the first call on */
    hak_cache_watch(HAK_WATCHER_SITES, (struct hak_class_set){{UINT64_MAX, UINT64_MAX}});
}
