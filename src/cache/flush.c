/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: all that a heap holds beside its slabs goes back to them: malloc_trim, the end of a
 * thread, a request that would be refused.
 */
#include "cache/cache_internal.h"

/* Also what hak_heap_drain_locked could not send. */
static void flush_bin_locked(struct hak_heap *heap, unsigned cls)
{
    hak_heap_drain_locked(heap, cls, hak_bin_blocks(heap, cls));
    struct hak_heap *home = hak_home(heap);
    void *p;
    while (HAK_UNLIKELY(hak_bin_blocks(heap, cls) != 0) &&
           (p = hak_bin_take(heap, cls * 2u)) != NULL) {
        hak_unlock(&home->lock);
        hak_cache_free_direct(cls, p);
        hak_lock(&home->lock);
    }
}

void hak_cache_flush(struct hak_heap *heap)
{
    struct hak_heap *home = hak_heap_lock_owner(heap);
    for (unsigned cls = 0; (cls = hak_heap_next_used_locked(heap, cls)) < HAK_CLASSES; cls++) {
        do
            flush_bin_locked(heap, cls);
        while (HAK_UNLIKELY(hak_heap_unmeter_owner(heap, cls)));
    }
    hak_unlock(&home->lock);
    hak_outbox_flush(heap); /* what was in bins, of slabs that were taken over, too */
    home = hak_heap_lock_owner(heap);
    hak_heap_collect_locked(home);
    hak_unlock(&home->lock);
}

void hak_cache_flush_groups(struct hak_heap *heap)
{
    hak_cache_flush(heap); /* first: it sends the outbox, to the others too */
    for (unsigned i = 0; i < HAK_GROUPS - 1; i++)
        if (heap->group_heaps[i] != NULL)
            hak_cache_flush(heap->group_heaps[i]);
}

/* A program may go on asking for what there is not: with 4,000 threads a look at all of their heaps
 * takes 0.4 ms. So much of the time is spent on that at most. */
#define LOOKS_SHARE 8u
static void flush_look_at_heaps(void)
{
    static _Atomic(uint64_t) next_ns;
    uint64_t began = hak_os_now_ns();
    if (began < hak_load_relaxed(&next_ns))
        return;
    hak_heaps_try_collect_any();
    uint64_t ended = hak_os_now_ns();
    hak_store_relaxed(&next_ns, ended + (ended - began) * LOOKS_SHARE);
}

void hak_cache_relieve(struct hak_heap *heap)
{
    if (heap != NULL)
        hak_cache_flush_groups(heap);
    hak_registry_give_kept();
    hak_cache_collect_orphans();
    flush_look_at_heaps();
}
