/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: free pages inside slabs that are used in part. Nothing is stored in free blocks, so pages
 * full of them can go back to the system while the slab stays: what a few long-lived blocks would
 * pin is a page each, not a slab each.
 *
 * A heap does this before it takes memory from the pool when the free blocks in its slabs exceed a
 * quarter of what is in use (4 MiB at least; a knob), and again when they have grown by as much;
 * while it only frees, when they exceed three times what is in use; and for slabs in which nothing
 * has changed for some seconds. Who frees all that it has will soon have slabs that are free as a
 * whole, and nothing grows meanwhile. (Without this difference 1,600 blocks of 16 KiB, allocated
 * and freed again and again, take ten times as long, as half of them was given back each time.)
 * Blocks that are replaced by larger ones leave a few behind in each slab of the size before:
 * 20,000 arrays that double held 49 MB when the heap waited until as much was free as in use, and
 * hold 38, in the same time.
 *
 * Slabs that are used again after that were purged wrongly: both thresholds rise by their size. So
 * were slabs that were free as a whole soon afterwards, as far as heaps take memory from the pool
 * again: they would have been kept as they were. For those the threshold of a heap that frees
 * rises, and that of one that grows by a quarter as much. (By as much a program with phases held a
 * fifth more. By nothing one that frees seven eighths of its 20 MB, in random order, and fills up
 * with blocks of the next of four sizes, again and again, took 343,000 page faults instead of
 * 18,000, and six times as long.) The rises are halved every few seconds.
 *
 * A page costs a call to give back and a page fault to have again, so one that lies alone between
 * pages in use goes only when its slab is idle or malloc_trim asks for it. (With single pages that
 * program takes 39,000 calls instead of 20,000 and an eighth more time, and holds 3% less, and 22%
 * less when it has freed everything and makes no more calls.)
 *
 * Everything here runs under the heap's lock. */
#include "cache/cache_internal.h"

#define SPARE_LITTLE_BYTES ((size_t)1 << 20)
#define GROWING_SHARE 4u    /* of what is in use */
#define BUSY_LEAST_PAGES 2u /* side by side */
#define STEPS_TO_FREE 3u    /* before a heap that only frees does it */
#define GROWING_HASTE 4u    /* the share of the haste by which a heap that grows waits longer */

/* All heaps': a purged slab may change its owner. */
static _Atomic(size_t) purge_regret_bytes;
static _Atomic(size_t) purge_emptied_bytes; /* slabs that were free as a whole soon afterwards */
static _Atomic(size_t) purge_haste_bytes;   /* of those, what heaps have taken again */

void hak_heap_regret_purge(const struct hak_slab *s)
{
    hak_add_relaxed(&purge_regret_bytes, hak_class(s->cls)->slots * HAK_SLOT_BYTES);
}

void hak_heap_emptied_purged(const struct hak_slab *s)
{
    hak_add_relaxed(&purge_emptied_bytes, hak_class(s->cls)->slots * HAK_SLOT_BYTES);
}

static void purge_regret_haste(size_t bytes)
{
    size_t emptied = hak_load_relaxed(&purge_emptied_bytes);
    if (HAK_LIKELY(emptied == 0))
        return;
    size_t again = hak_min(emptied, bytes);
    hak_store_relaxed(&purge_emptied_bytes, emptied - again); /* hints: one may get lost */
    hak_add_relaxed(&purge_haste_bytes, again);
}

void hak_heap_forget_regret(void)
{
    hak_store_relaxed(&purge_emptied_bytes, (size_t)0);
    hak_store_relaxed(&purge_haste_bytes, hak_load_relaxed(&purge_haste_bytes) / 2);
    hak_store_relaxed(&purge_regret_bytes, hak_load_relaxed(&purge_regret_bytes) / 2);
}

/* So many bytes, or one `share`-th of what is in use, whichever is more. */
static size_t purge_step(const struct hak_heap *heap, size_t share)
{
    size_t spare = hak_load_relaxed(&hak_cache_knobs.spare_bytes);
    size_t used = heap->slab_bytes - heap->free_bytes;
    if (HAK_UNLIKELY(spare < SPARE_LITTLE_BYTES)) /* a policy knows that it pays */
        return hak_max(spare, used / GROWING_SHARE);
    return hak_max(spare, used / share) + hak_load_relaxed(&purge_regret_bytes);
}

/* Nothing has changed in the slab since this was asked last. */
static bool purge_is_idle(struct hak_slab *s)
{
    uint16_t seen = s->seen_free_blocks;
    s->seen_free_blocks = hak_load_relaxed(&s->free_blocks);
    return seen == s->seen_free_blocks;
}

/* What goes of a slab that is hardly used may have been the most of its superslab. */
static size_t purge_slab(struct hak_slab *s, unsigned least_pages)
{
    size_t gone = hak_slab_purge_owner(s, least_pages);
    if (gone >= hak_class(s->cls)->slots * HAK_SLOT_BYTES / 2)
        hak_pool_pages_went(hak_slab_slot(s));
    return gone;
}

/* --- Portions: who waits for one call waits for so many slabs at most, not for all that the heap
 * has (1,400 calls of the system, 4 ms). The next calls that take the lock see to the rest, the
 * slabs with the most room first. --- */

#define PORTION_SLABS 16u /* of which pages go: two to four calls each */
#define PORTION_LOOKS 128u

static void walk_set_next(struct hak_slab_walk *w, const struct hak_slab *s)
{
    w->slot = s == NULL ? 0 : (uint32_t)hak_slab_slot(s) + 1;
}

static void walk_leave_out(struct hak_slab_walk *w, const struct hak_slab *s)
{
    if (HAK_UNLIKELY(w->slot != 0) && w->slot == hak_slab_slot(s) + 1)
        walk_set_next(w, s->next);
}

void hak_heap_leaves_walks_locked(struct hak_heap *heap, const struct hak_slab *s)
{
    walk_leave_out(&heap->purge, s);
    walk_leave_out(&heap->idle, s);
}

static bool walk_has_more(const struct hak_slab_walk *w)
{
    return w->slot != 0 || w->lists != 0;
}

/* From the highest class down, of `stride` classes one; of each the slabs with the most room first.
 */
static struct hak_slab *walk_next_locked(const struct hak_heap *heap, struct hak_slab_walk *w,
                                         unsigned stride)
{
    while (w->slot == 0 && w->lists != 0) {
        unsigned list = --w->lists;
        unsigned cls = list / HAK_LIST_FULL;
        if (list % HAK_LIST_FULL == 0)
            w->lists = (uint16_t)(list - hak_min(list, (stride - 1) * HAK_LIST_FULL));
        if (hak_heap_next_used_locked(heap, cls) == cls)
            walk_set_next(w, heap->classes[cls].lists[list % HAK_LIST_FULL]);
    }
    if (w->slot == 0)
        return NULL;
    struct hak_slab *s = hak_slab_record(w->slot - 1);
    walk_set_next(w, s->next);
    return s;
}

static void purge_portion_locked(struct hak_heap *heap)
{
    size_t bytes = 0;
    unsigned purged = 0;
    for (unsigned i = 0; i < PORTION_LOOKS && purged < PORTION_SLABS; i++) {
        struct hak_slab *s = walk_next_locked(heap, &heap->purge, 1);
        if (s == NULL)
            break;
        size_t gone = purge_slab(s, BUSY_LEAST_PAGES);
        purged += gone != 0;
        bytes += gone;
    }
    hak_count_owner(&heap->stats.purged_bytes, bytes);
}

/* --- Slabs in which nothing changes: every slab is looked at once a round of ticks, those of some
 * classes with each tick, so many at most. The owner's next calls and the next ticks see to the
 * rest, and then to the next classes. (All of a tick's at once was 32 ms of one call with 2.5 GB of
 * small blocks, half of them freed here and there.) --- */

#define IDLE_BITS_LOOKS 16u /* a slab whose bits are read counts as so many that are not */
#define IDLE_TICK_LOOKS 2048u
#define IDLE_CALL_LOOKS 128u

static void idle_portion_locked(struct hak_heap *heap, unsigned looks)
{
    size_t bytes = 0;
    uint64_t ticks = hak_load_relaxed(&hak_cache_knobs.idle_ticks);
    for (unsigned looked = 0; looked < looks; looked++) {
        struct hak_slab *s =
            walk_next_locked(heap, &heap->idle, (unsigned)hak_min(ticks, HAK_CLASSES));
        if (s == NULL)
            break;
        if (!purge_is_idle(s))
            continue;
        bytes += purge_slab(s, 1);
        looked += IDLE_BITS_LOOKS;
    }
    hak_count_owner(&heap->stats.purged_bytes, bytes);
}

void hak_heap_purge_idle_locked(struct hak_heap *heap)
{
    if (!walk_has_more(&heap->idle)) {
        uint64_t ticks = hak_load_relaxed(&hak_cache_knobs.idle_ticks);
        uint64_t first = heap->idle_turn++ % ticks;
        if (first >= HAK_CLASSES)
            return;
        uint64_t last = first + (HAK_CLASSES - 1 - first) / ticks * ticks;
        heap->idle.lists = (uint16_t)((last + 1) * HAK_LIST_FULL);
    }
    idle_portion_locked(heap, IDLE_TICK_LOOKS);
}

static bool purge_is_due_locked(struct hak_heap *heap, size_t from_bytes)
{
    heap->purged_free_bytes = hak_min(heap->purged_free_bytes, heap->free_bytes);
    return heap->free_bytes - heap->purged_free_bytes > from_bytes;
}

void hak_heap_purge_busy_locked(struct hak_heap *heap, bool due)
{
    if (HAK_UNLIKELY(due)) {
        heap->purged_free_bytes = heap->free_bytes;
        heap->purge = (struct hak_slab_walk){.lists = HAK_CLASSES * HAK_LIST_FULL};
    }
    if (HAK_UNLIKELY(walk_has_more(&heap->purge)))
        purge_portion_locked(heap);
    if (HAK_UNLIKELY(walk_has_more(&heap->idle)))
        idle_portion_locked(heap, IDLE_CALL_LOOKS);
}

bool hak_heap_is_emptying_locked(struct hak_heap *heap)
{
    return purge_is_due_locked(heap, STEPS_TO_FREE * purge_step(heap, 1) +
                                         hak_load_relaxed(&purge_haste_bytes));
}

void hak_heap_freed_locked(struct hak_heap *heap, size_t bytes)
{
    heap->free_bytes += bytes;
    hak_heap_purge_busy_locked(heap, hak_heap_is_emptying_locked(heap));
}

void hak_heap_grows_locked(struct hak_heap *heap, size_t bytes)
{
    purge_regret_haste(bytes);
    size_t haste = hak_load_relaxed(&purge_haste_bytes) / GROWING_HASTE;
    hak_heap_purge_busy_locked(heap,
                               purge_is_due_locked(heap, purge_step(heap, GROWING_SHARE) + haste));
}

/* A heap without slabs may be a guest: what else it knows is guarded by its home's lock. */
static size_t purge_whole_locked(struct hak_heap *heap)
{
    size_t bytes = 0;
    if (hak_load_relaxed(&heap->slabs) == 0)
        return 0;
    for (unsigned cls = 0; (cls = hak_heap_next_used_locked(heap, cls)) < HAK_CLASSES; cls++)
        for (unsigned list = 0; list < HAK_LIST_FULL; list++)
            for (struct hak_slab *s = heap->classes[cls].lists[list]; s != NULL; s = s->next)
                bytes += purge_slab(s, 1);
    hak_count_owner(&heap->stats.purged_bytes, bytes);
    return bytes;
}

size_t hak_cache_purge(void)
{
    size_t bytes = 0;
    hak_registry_give_kept();
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        if (!hak_heap_lock_whole(h))
            continue;
        hak_heap_collect_locked(h); /* what was in bins of kept heaps, too */
        bytes += purge_whole_locked(h);
        hak_unlock(&h->lock);
    }
    return bytes;
}
