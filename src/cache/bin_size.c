/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: how large a bin is, and where its stack lies.
 *
 * A bin grows when overflows are followed by underflows: the blocks that it could not hold were
 * wanted again. The more bytes it may hold already, the more such turns it takes. A thread that
 * only allocates gets larger batches too, after every 16 refills, but only up to 16 KiB; so does
 * one that only frees, in a home of several, after every 16 overflows. (Of a thread by itself
 * larger bins keep slabs from becoming empty: cxx_maps 1.18 of the memory, in the same time.) */
#include "cache/cache_internal.h"

#include <string.h>

#define BIN_MAX_BYTES ((size_t)256 << 10)
#define BIN_MAX_BLOCKS (BIN_MAX_BYTES / 256u) /* their stack shares the first cache */
#define BIN_FEW_FROM_BYTES ((size_t)9 << 10)  /* the class of 8 KiB is a little longer */
#define BIN_TURN_BYTES ((size_t)2 << 10)
#define BIN_VOLUME_BYTES ((size_t)16 << 10)
#define BIN_VOLUME_MOST_BYTES ((size_t)64 << 10)
#define BIN_VOLUME_SHARE 256u
#define BIN_VOLUME_REFILLS 16u

/* Capacities are one less than a power of two, those of tiny blocks two less: with the NULLs below
 * them their stacks are powers of two long, as the records are that large stacks are made of. */
static unsigned bins_gap(unsigned cls)
{
    return hak_class(cls)->size_bytes <= HAK_TINY_MAX ? HAK_BIN_NULLS : 1;
}

static unsigned bins_least_capacity(unsigned cls)
{
    return 4 - bins_gap(cls);
}

static unsigned bins_first_capacity(unsigned cls)
{
    size_t size = hak_class(cls)->size_bytes;
    unsigned power = size <= 128                 ? 32
                     : size <= HAK_TINY_MAX      ? 16
                     : size < BIN_FEW_FROM_BYTES ? 8
                                                 : 4;
    return power - bins_gap(cls);
}

static unsigned bins_next_capacity(unsigned cls, unsigned capacity)
{
    return capacity * 2 + bins_gap(cls);
}

static size_t bins_stack_bytes(unsigned capacity)
{
    return (HAK_BIN_NULLS + capacity) * sizeof(void *);
}

/* The stack has room for it, and the bin has no more. */
static void bins_set_capacity(struct hak_heap *heap, unsigned cls, unsigned capacity)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    ch->capacity = (uint16_t)capacity;
    ch->turns = 0;
    heap->front.bins[cls].limit = ch->stack + capacity;
}

/* The bin has what it had, for which there is room. */
static void bins_install(struct hak_heap *heap, unsigned cls, void **cells, unsigned capacity)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    unsigned blocks = hak_bin_blocks(heap, cls);
    void **stack = cells + HAK_BIN_NULLS - 1;
    if (blocks != 0)
        memcpy(stack + 1, ch->stack + 1, blocks * sizeof(void *));
    stack[-1] = stack[0] = NULL;
    ch->stack = stack;
    ch->stack_blocks = (uint16_t)capacity;
    bins_set_capacity(heap, cls, capacity);
    hak_store_relaxed(&heap->front.bins[cls].top, stack + blocks);
}

/* A stack from the heap's own arena, which has room for one of each class. */
static void bins_install_first(struct hak_heap *heap, unsigned cls)
{
    unsigned capacity = bins_first_capacity(cls);
    void **cells = (void **)(void *)(heap->stack_arena + heap->arena_used_bytes);
    heap->arena_used_bytes = (uint16_t)(heap->arena_used_bytes + bins_stack_bytes(capacity));
    bins_install(heap, cls, cells, capacity);
}

/* A guest's first stack of a class is a smaller one, with those of other guests in a page, until it
 * has to grow. */
static bool bins_try_install_few(struct hak_heap *heap, unsigned cls)
{
    unsigned capacity = (unsigned)hak_min(bins_first_capacity(cls), 8 - bins_gap(cls));
    size_t end = heap->few_used_bytes + bins_stack_bytes(capacity);
    if (heap->few_stacks == NULL || end > HAK_FEW_STACKS_BYTES)
        return false;
    bins_install(heap, cls, (void **)(void *)(heap->few_stacks + heap->few_used_bytes), capacity);
    heap->few_used_bytes = (uint16_t)end;
    return true;
}

static void bins_open(struct hak_heap *heap, unsigned cls)
{
    hak_heap_use_class_locked(heap, cls);
    if (!bins_try_install_few(heap, cls))
        bins_install_first(heap, cls);
}

/* False: there is no memory, and the bin is as it was. */
static bool bins_try_resize(struct hak_heap *heap, unsigned cls, unsigned capacity)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    unsigned old = ch->stack_blocks;
    void **before = ch->stack;
    void **cells = hak_meta_alloc(bins_stack_bytes(capacity));
    if (cells == NULL)
        return false;
    bins_install(heap, cls, cells, capacity);
    if (old > bins_first_capacity(cls))
        hak_meta_free(before + 1 - HAK_BIN_NULLS, bins_stack_bytes(old));
    return true;
}

/* The stack has room for twice as many: it was made for a larger bin. */
static bool bins_try_widen(struct hak_heap *heap, unsigned cls)
{
    unsigned capacity = bins_next_capacity(cls, heap->classes[cls].capacity);
    if (capacity > heap->classes[cls].stack_blocks)
        return false;
    bins_set_capacity(heap, cls, capacity);
    return true;
}

static void bins_grow(struct hak_heap *heap, unsigned cls, size_t max_bytes)
{
    unsigned capacity = bins_next_capacity(cls, heap->classes[cls].capacity);
    if (bins_try_widen(heap, cls))
        return;
    if (capacity <= bins_first_capacity(cls))
        bins_install_first(heap, cls);
    else if (capacity <= BIN_MAX_BLOCKS &&
             (size_t)capacity * hak_class(cls)->size_bytes <= max_bytes &&
             bins_try_resize(heap, cls, capacity))
        hak_count_owner(&heap->stats.grown_bins, 1u);
}

/* To the smallest capacity that has a stack of its own. */
void hak_bin_shrink_locked(struct hak_heap *heap, unsigned cls)
{
    unsigned capacity = bins_next_capacity(cls, bins_first_capacity(cls));
    if (heap->classes[cls].stack_blocks > capacity)
        (void)bins_try_resize(heap, cls, capacity);
}

/* --- Where slabs are thin. A bin hands a block that was freed to the next who asks, wherever it
 * lies: of a class that becomes rarer all slabs get thin together, and none empties. So while much
 * of the heap is free, and several slabs of a class are thin, the class's bin is small: most of its
 * blocks go back to their slabs, and what is handed out instead is from the fullest. (Blocks freed
 * at random while sizes drift from 64 bytes to 6 kB: docs/performance.md.) --- */

#define THIN_SHARE 4u /* of the heap's slabs is free */
#define THIN_SLABS 8u /* of the class, of which a quarter is */
#define THIN_LIST 2u  /* the first list of those */
#define THIN_FALLS 4u /* overflows in a row: it is only freed, and nothing handed out instead */

bool hak_bin_is_thin_locked(const struct hak_heap *heap, unsigned cls)
{
    const struct hak_heap *home = hak_home(heap);
    if (home->free_bytes * THIN_SHARE < home->slab_bytes)
        return false;
    unsigned slabs = 0;
    for (unsigned list = HAK_LIST_FULL - 1; list >= THIN_LIST; list--)
        for (const struct hak_slab *s = home->classes[cls].lists[list]; s != NULL; s = s->next)
            if (++slabs == THIN_SLABS)
                return true;
    return false;
}

/* An empty bin. */
static void bins_narrow_locked(struct hak_heap *heap, unsigned cls)
{
    if (heap->classes[cls].capacity > bins_least_capacity(cls) && hak_bin_blocks(heap, cls) == 0)
        bins_set_capacity(heap, cls, bins_least_capacity(cls));
}

/* Overflows that were followed by underflows are enough for the bin to grow. */
static bool bins_turns_will_do_locked(struct hak_heap *heap, unsigned cls)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    if (++ch->turns * BIN_TURN_BYTES <= ch->capacity * (size_t)hak_class(cls)->size_bytes)
        return false;
    ch->turns = 0;
    return !hak_bin_is_thin_locked(heap, cls);
}

static size_t bins_volume_bytes_locked(const struct hak_heap *heap)
{
    size_t share = hak_home(heap)->slab_bytes / BIN_VOLUME_SHARE;
    return hak_min(hak_max(BIN_VOLUME_BYTES, share), BIN_VOLUME_MOST_BYTES);
}

void hak_bin_grow_owner(struct hak_heap *heap, unsigned cls)
{
    struct hak_heap *home = hak_heap_lock_owner(heap);
    if (heap->classes[cls].stack != NULL)
        bins_grow(heap, cls, bins_volume_bytes_locked(heap));
    hak_unlock(&home->lock);
}

/* The class's first stack, or a larger one where a policy knows that it will be wanted. */
void hak_bin_begin_locked(struct hak_heap *heap, unsigned cls)
{
    bins_open(heap, cls);
    unsigned wanted = hak_load_relaxed(&hak_cache_knobs.bin_blocks[cls]);
    for (unsigned before = 0, now; (now = heap->classes[cls].capacity) < wanted && now != before;
         before = now)
        bins_grow(heap, cls, BIN_MAX_BYTES);
}

void hak_bin_fit_refill_locked(struct hak_heap *heap, unsigned cls)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    if (ch->stack == NULL)
        hak_bin_begin_locked(heap, cls);
    else if (ch->overflowed && bins_turns_will_do_locked(heap, cls))
        bins_grow(heap, cls, BIN_MAX_BYTES);
    else if (++ch->volume % BIN_VOLUME_REFILLS == 0)
        bins_grow(heap, cls, bins_volume_bytes_locked(heap));
}

void hak_bin_fit_overflow_locked(struct hak_heap *heap, unsigned cls, bool thin)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    if (thin)
        bins_narrow_locked(heap, cls);
    else if (ch->falls % THIN_FALLS == THIN_FALLS - 1)
        (void)bins_try_widen(heap, cls);
    ch->overflowed = true;
    ch->volume = 0;
    if (++ch->falls % BIN_VOLUME_REFILLS == 0 && hak_bin_blocks(heap, cls) == 0 &&
        hak_home_is_shared(hak_home(heap)))
        bins_grow(heap, cls, bins_volume_bytes_locked(heap));
}

unsigned hak_cache_bin_capacity(unsigned cls)
{
    unsigned most = 0;
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        struct hak_heap *home = hak_heap_try_lock_home(h);
        if (home == NULL)
            continue;
        if (h->classes[cls].stack != NULL)
            most = (unsigned)hak_max(most, h->classes[cls].stack_blocks);
        hak_unlock(&home->lock);
    }
    return most;
}
