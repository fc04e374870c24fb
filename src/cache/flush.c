/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: all that a heap holds beside its slabs goes back to them: malloc_trim, the end of a
 * thread.
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
