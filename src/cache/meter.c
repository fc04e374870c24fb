/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: metered bins. While they are in use, malloc pops from a bin into which nobody frees, and
 * which the slow path fills, from the class's own bin, with a few blocks at a time. So all that
 * malloc hands out can be counted, and stopped at any block, for the cost of one slow path in many
 * calls; free does what it always does. (That is the heap profile's use; order.c has another.)
 *
 *   free pushes ->  bin of the class  -- slow path, counted -->  metered bin  -> malloc pops
 *
 * Only the owning thread touches any of it. Called by the slow paths of heap. */
#include "cache/cache_internal.h"

#include <string.h>

#define METER_MOST_BYTES 16384u
#define METER_LEAST_PART 4u

static unsigned meter_most_blocks(unsigned cls)
{
    return (unsigned)hak_min(HAK_METER_BLOCKS, METER_MOST_BYTES / hak_class(cls)->size_bytes);
}

struct hak_meter *hak_cache_meter(struct hak_heap *heap)
{
    struct hak_meter *m = heap->front.meter;
    if (HAK_LIKELY(m != NULL))
        return m;
    m = hak_meta_alloc(sizeof *m);
    if (m == NULL)
        return NULL;
    memset(m, 0, offsetof(struct hak_meter, stacks));
    for (unsigned cls = 0; cls < HAK_METERED_CLASSES; cls++) {
        void **stack = hak_metered_stack(m, cls);
        stack[-1] = stack[0] = NULL;
        m->of[cls].size_bytes = hak_class(cls)->size_bytes;
        m->of[cls].most = (uint8_t)meter_most_blocks(cls);
        m->of[cls].least = (uint8_t)(m->of[cls].most / METER_LEAST_PART);
        hak_metered_bin(heap, cls)->limit = stack; /* always full: nobody pushes */
        hak_store_relaxed(&hak_metered_bin(heap, cls)->top, stack);
    }
    heap->front.meter = m;
    return m;
}

unsigned hak_metered_blocks(struct hak_heap *heap, unsigned cls)
{
    if (cls >= HAK_METERED_CLASSES || heap->front.meter == NULL)
        return 0;
    void **top = hak_load_acquire(&hak_metered_bin(heap, cls)->top); /* ORDER: [metered] */
    return (unsigned)(top - hak_metered_stack(heap->front.meter, cls));
}

/* A fork may copy a thread's memory between any two stores, and the blocks are then freed in the
 * child for a thread that is no more: so they are in neither bin for a moment, never in both. */
void *hak_cache_meter_take(struct hak_heap *heap, unsigned cls)
{
    struct hak_meter *m = heap->front.meter;
    struct hak_metered *of = &m->of[cls];
    void **top = hak_load_relaxed(&heap->front.bins[cls].top);
    void **to = hak_metered_stack(m, cls);
    if (HAK_UNLIKELY(*top == NULL)) /* the class may have no stack yet */
        return NULL;
    size_t blocks = hak_min((size_t)(top - heap->classes[cls].stack), of->most);
    int64_t bytes = (int64_t)(blocks * of->size_bytes);
    if (HAK_UNLIKELY(bytes > of->left_bytes)) {
        blocks = of->left_bytes < 0 ? 0 : (size_t)of->left_bytes / of->size_bytes;
        bytes = (int64_t)(blocks * of->size_bytes);
    }
    if (HAK_UNLIKELY(blocks < of->least)) {
        if (blocks == 0)
            return NULL;
        of->thin++;
    }
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_metered_bin(heap, cls)->top) != to)) {
        hak_bin_refuse_twice(heap, HAK_KIND_METERED + cls * 2u);
        return NULL;
    }
    of->left_bytes -= bytes;
    of->counted = true;
    hak_store_relaxed(&heap->front.bins[cls].top, top - blocks);
    memcpy(to + 1, top + 1 - blocks, (blocks - 1) * sizeof(void *));
    hak_store_release(&hak_metered_bin(heap, cls)->top, to + blocks - 1); /* ORDER: [metered] */
    return *top;
}

/* What a thread frees and allocates in turn keeps its number: a few blocks go round for ever, and
 * the slow path comes every few calls. Then more are put into circulation. */
void hak_cache_meter_supply(struct hak_heap *heap, unsigned cls)
{
    void *few[HAK_METER_BLOCKS + 1];
    unsigned count = 0;
    bool zero;
    heap->front.meter->of[cls].thin = 0;
    if (hak_bin_blocks(heap, cls) >= heap->front.meter->of[cls].least)
        return;
    while ((few[count] = hak_bin_take(heap, cls * 2u)) != NULL)
        count++;
    hak_bin_grow_owner(heap, cls);
    few[count] = hak_cache_refill(heap, cls, &zero);
    count += few[count] != NULL;
    while (count-- > 0)
        hak_cache_overflow(heap, cls, few[count]);
}

bool hak_heap_unmeter_owner(struct hak_heap *heap, unsigned cls)
{
    void **top = hak_load_relaxed(&heap->front.bins[cls].top);
    size_t blocks = hak_metered_blocks(heap, cls);
    if (HAK_LIKELY(blocks == 0))
        return false;
    /* The bin may have become smaller since the blocks left it. */
    blocks = hak_min(blocks, (size_t)(heap->front.bins[cls].limit - top));
    void **from = hak_load_relaxed(&hak_metered_bin(heap, cls)->top) - blocks;
    struct hak_metered *of = &heap->front.meter->of[cls];
    if (of->counted) /* they were not allocated */
        of->left_bytes += (int64_t)(blocks * of->size_bytes);
    hak_store_relaxed(&hak_metered_bin(heap, cls)->top, from);
    memcpy(top + 1, from + 1, blocks * sizeof(void *));
    hak_store_release(&heap->front.bins[cls].top, top + blocks); /* ORDER: [metered] */
    return blocks != 0;
}
