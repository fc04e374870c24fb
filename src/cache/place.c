/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: place: in which class a thread places sizes up to 1 KiB.
 *
 * Each class in use costs a page at least, and more: what several classes need at most, each at its
 * own time, is more than what they need at most together. A class for each eighth of a doubling
 * wastes 3% less in its blocks than one for each quarter, and held more in most programs with less
 * than 20 MB in such blocks (docs/performance.md). So there are three levels. A thread begins with
 * powers of two, as most threads use little. When it has taken fresh memory for one of them a few
 * times, the sizes get the classes of a quarter; and when nearly all that is asked of one of those
 * would fit into an eighth less, these sizes get a class of their own, as in programs with many
 * objects of one size. A guest (homes.c) begins with the classes of a quarter: of a class in use it
 * has a few blocks in a bin, and no page.
 */
#include "cache/cache_internal.h"

#define COARSE_CARVINGS 8u

/* Sizes that are placed in the class and belong to `from` go to what `to` has for them. */
static void place_move_locked(struct hak_heap *heap, unsigned cls, const uint8_t *from,
                              const uint8_t *to)
{
    for (size_t i = 0; i < HAK_TINY_KINDS; i++)
        if (hak_load_relaxed(&heap->front.tiny_true[i]) == cls * 2 && from[i] == cls * 2)
            hak_store_relaxed(&heap->front.tiny_true[i], to[i]);
    hak_heap_show_kinds_locked(heap);
}

void hak_heap_carved_locked(struct hak_heap *heap, unsigned cls)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    if (ch->carvings < COARSE_CARVINGS && ++ch->carvings == COARSE_CARVINGS)
        place_move_locked(heap, cls, hak_tables.coarse_kind, hak_tables.tiny_kind);
}

void hak_heap_place_quarters_locked(struct hak_heap *heap)
{
    for (size_t i = 0; i < HAK_TINY_KINDS; i++)
        if (hak_load_relaxed(&heap->front.tiny_true[i]) == hak_tables.coarse_kind[i])
            hak_store_relaxed(&heap->front.tiny_true[i], hak_tables.tiny_kind[i]);
    hak_heap_show_kinds_locked(heap);
}

/* With more than three of four it goes up, with one of two it hardly ever comes so far: one time in
 * 300 million that it has begun. */
#define NARROW_WANTS 32u
#define NARROW_AGAINST 3u

void hak_cache_note_size(struct hak_heap *heap, unsigned cls, size_t size_bytes)
{
    size_t i = (size_bytes + 15) / 16;
    if (size_bytes > HAK_TINY_MAX || hak_tables.tiny_kind[i] != cls * 2) /* or still coarse */
        return;
    uint8_t *wants = &heap->classes[cls].narrow_wants;
    if (hak_tables.narrow_kind[i] == cls * 2) {
        *wants = (uint8_t)(*wants - hak_min(*wants, NARROW_AGAINST));
    } else if (++*wants == NARROW_WANTS) {
        *wants = 0;
        struct hak_heap *home = hak_heap_lock_owner(heap);
        place_move_locked(heap, cls, hak_tables.tiny_kind, hak_tables.narrow_kind);
        hak_unlock(&home->lock);
    }
}
