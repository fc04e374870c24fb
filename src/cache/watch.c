/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: watched classes, and what malloc's fast path looks up in place of the true kinds: the
 * closed kind for those, that of the metered bin for classes that are counted or in order. Each
 * thread has a table of its own for sizes up to 1 KiB; that of the larger ones is all threads'
 * (slab/classes.h). */
#include "cache/cache_internal.h"

_Atomic(uint64_t) hak_watched[HAK_WATCHERS][2];

void hak_heap_show_kinds_locked(struct hak_heap *heap)
{
    bool as_they_are = hak_kinds_are_shown() && hak_load_relaxed(&heap->front.ordered) == 0;
    for (size_t i = 0; i < HAK_TINY_KINDS; i++) {
        uint8_t kind = hak_load_relaxed(&heap->front.tiny_true[i]);
        hak_store_relaxed(&heap->front.tiny_kind[i],
                          as_they_are ? kind : hak_front_kind(&heap->front, kind));
    }
}

void hak_watch_close_locked(void)
{
    struct hak_class_set all = {{0}};
    for (unsigned w = 0; w < HAK_WATCHERS; w++)
        for (unsigned i = 0; i < 2; i++)
            all.bits[i] |= hak_load_relaxed(&hak_watched[w][i]);
    hak_classes_close(all);
}

void hak_cache_set_metered(bool on)
{
    struct hak_class_set others = {{0}};
    for (unsigned cls = HAK_METERED_CLASSES; on && cls < HAK_CLASSES; cls++)
        others.bits[cls / 64] |= UINT64_C(1) << cls % 64;
    hak_store_relaxed(&hak_tables.metered, on);
    hak_cache_watch(HAK_WATCHER_METER, others);
}

void hak_cache_watch(enum hak_watcher watcher, struct hak_class_set classes)
{
    for (unsigned i = 0; i < 2; i++)
        hak_store_relaxed(&hak_watched[watcher][i], classes.bits[i]);
    /* A heap that is made meanwhile is in the list already, or is made with the new set: both
     * happen under the registry's lock. */
    hak_lock(&hak_registry.lock);
    hak_watch_close_locked();
    hak_unlock(&hak_registry.lock);
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        struct hak_heap *home = hak_heap_lock_home(h);
        if (home == NULL)
            continue;
        if (hak_load_relaxed(&hak_tables.metered))
            hak_store_relaxed(&h->front.ordered, 0u);
        hak_heap_show_kinds_locked(h);
        hak_unlock(&home->lock);
    }
}
