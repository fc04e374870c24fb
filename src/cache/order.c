/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: order. A bin hands out what was freed last, which the processor's caches have. But where
 * blocks of several classes are freed in the order in which they were allocated (queues, windows of
 * the newest events, caches that give up the oldest), a bin rises and falls at random, and each of
 * its blocks waits for another time: after a few rounds blocks that are allocated one after the
 * other lie anywhere, and each is a cache miss that nothing foresees. Side by side the processor
 * reads them ahead: a window of the last 100,000 blocks of 16 to 400 bytes takes three fifths of
 * the time (see docs/performance.md).
 *
 * So where a heap that no second-level cache holds is about to carve memory for a class, in which
 * blocks lie in order, malloc pops from the class's metered bin. That is filled with a batch of
 * what was freed first, or from slabs where that is little; and what is freed meanwhile gathers in
 * the class's own bin. It ends where blocks are not freed in order, or come back as they go.
 *
 *   free pushes ->  bin of the class: [oldest] ... [newest]
 *                                     | a batch
 *                                     v
 *                   slabs   ->        metered bin  -> malloc pops, the oldest first
 *
 * The hardened library wants no order that can be foreseen. */
#include "cache/cache_internal.h"

#include <string.h>

/* In the heap's own slabs, so that a guest has none. */
#define ORDER_HEAP_BYTES ((size_t)4 << 20)
#define ORDER_BATCH_BYTES 4096u
#define ORDER_SAMPLE 8 /* blocks that are looked at, and the fewest that are taken */
#define ORDER_PAIRS 2u /* of the seven, that lie as they were freed */
#define ORDER_TRUST 8u /* judgements against it, more than for it, that end it */

static void order_set_locked(struct hak_heap *heap, unsigned cls, bool on)
{
    uint32_t bit = UINT32_C(1) << cls, all = hak_load_relaxed(&heap->front.ordered);
    heap->front.meter->of[cls].trust = ORDER_TRUST;
    hak_store_relaxed(&heap->front.ordered, on ? all | bit : all & ~bit);
    hak_heap_show_kinds_locked(heap);
}

void hak_order_note_refill_locked(struct hak_heap *heap, unsigned cls)
{
    if (HAK_HARDENED || heap->slab_bytes < ORDER_HEAP_BYTES || cls >= HAK_METERED_CLASSES ||
        hak_cache_is_ordered(&heap->front, cls) || hak_load_relaxed(&hak_tables.metered))
        return;
    const struct hak_slab *s = hak_heap_pick_locked(heap, cls);
    if ((s == NULL || hak_load_relaxed(&s->free_blocks) == 0) && hak_cache_meter(heap) != NULL)
        order_set_locked(heap, cls, true);
}

/* Enough of the newest blocks of a bin were freed in the order in which they lie. In any other
 * order hardly one pair does. */
static bool order_rises(void *const *top)
{
    unsigned rising = 0;
    for (int i = 1; i < ORDER_SAMPLE; i++)
        rising += (uintptr_t)top[1 - i] - (uintptr_t)top[-i] - 1 < HAK_PAGE_BYTES;
    return rising >= ORDER_PAIRS;
}

/* One of those that malloc took last. */
static bool order_is_recent(void *const *went, const void *p)
{
    return p == went[1] || p == went[2] || p == went[3] || p == went[4];
}

/* Before a batch leaves a bin of so many blocks. Where as many have come back as went, or what went
 * last has, the newest block is next in any order, and it is in the caches. */
static void order_judge_locked(struct hak_heap *heap, unsigned cls, unsigned blocks)
{
    struct hak_metered *of = &heap->front.meter->of[cls];
    void *const *went = hak_metered_stack(heap->front.meter, cls);
    void *const *top = hak_load_relaxed(&heap->front.bins[cls].top);
    bool newest_will_do = blocks == of->blocks_before || order_is_recent(went, *top);
    of->blocks_before = (uint16_t)blocks;
    if (!newest_will_do && order_rises(top))
        of->trust = (uint8_t)hak_min(of->trust + 1u, ORDER_TRUST);
    else if (--of->trust == 0)
        order_set_locked(heap, cls, false);
}

void *hak_cache_take_ordered(struct hak_heap *heap, unsigned cls)
{
    unsigned blocks = hak_bin_blocks(heap, cls);
    struct hak_bin *metered = hak_metered_bin(heap, cls);
    void **to = hak_metered_stack(heap->front.meter, cls);
    if (blocks < ORDER_SAMPLE || hak_load_relaxed(&metered->top) != to)
        return NULL;
    /* The lock tells a fork that something is half done. */
    struct hak_heap *home = hak_heap_lock_owner(heap);
    order_judge_locked(heap, cls, blocks);
    void **from = heap->classes[cls].stack;
    unsigned most = (unsigned)hak_max(ORDER_BATCH_BYTES / hak_class(cls)->size_bytes, ORDER_SAMPLE);
    unsigned batch = (unsigned)hak_min(hak_min(most, HAK_METER_BLOCKS), blocks);
    for (unsigned i = 1; i <= batch; i++)
        to[batch + 1 - i] = from[i];
    memmove(from + 1, from + 1 + batch, (blocks - batch) * sizeof(void *));
    hak_store_relaxed(&heap->front.bins[cls].top, from + blocks - batch);
    hak_store_relaxed(&metered->top, to + batch - 1);
    heap->front.meter->of[cls].counted = false;
    heap->classes[cls].refilled = true;
    hak_unlock(&home->lock);
    return to[batch];
}
