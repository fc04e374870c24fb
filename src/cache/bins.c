/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: bins: refill when one is empty, overflow when one is full, and how large it is. Runs on
 * the owning thread, under its home's lock once a batch.
 *
 * A bin grows when overflows are followed by underflows: the blocks that it could not hold were
 * wanted again. The more bytes it may hold already, the more such turns it takes. A thread that
 * only allocates gets larger batches too, after every 16 refills, but only up to 16 KiB; so does
 * one that only frees, in a home of several, after every 16 overflows. (Of a thread by itself
 * larger bins keep slabs from becoming empty: cxx_maps 1.18 of the memory, in the same time.) */
#include "cache/cache_internal.h"
#include "os/probes.h"
#include "os/trace.h"

#include <string.h>

#define BIN_MAX_BYTES ((size_t)256 << 10)
#define BIN_MAX_BLOCKS (BIN_MAX_BYTES / 256u) /* their stack shares the first cache */
#define BIN_FEW_FROM_BYTES ((size_t)9 << 10)  /* the class of 8 KiB is a little longer */
#define BIN_TURN_BYTES ((size_t)2 << 10)
#define BIN_VOLUME_BYTES ((size_t)16 << 10)
#define BIN_VOLUME_MOST_BYTES ((size_t)64 << 10)
#define BIN_VOLUME_SHARE 256u
#define BIN_VOLUME_REFILLS 16u
#define BIN_STREAK 2u
#define BIN_BEGINNING 13u
#define BIN_FIRST_BLOCKS 16u
#define REFILL_MAX_SLABS 4u
#define BORROW_BELOW_BYTES ((size_t)8 << 20) /* in slabs of the heap */
#define BORROW_CLASSES 2u                    /* in use, next to the class */
#define SPARING_BLOCKS 16u                   /* of fresh memory: see slab_take_fresh */
/* With so many refills without an overflow it is not a swing of the class: nothing is borrowed, and
 * more is carved at a time. */
#define SPARING_REFILLS 16u

struct hak_cache_knobs hak_cache_knobs = {
    .spare_bytes = (size_t)4 << 20, .idle_ticks = 16, .exchange_blocks = 4096, .refine_slots = 64};

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
static void bins_shrink(struct hak_heap *heap, unsigned cls)
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

static bool bins_is_thin_locked(const struct hak_heap *heap, unsigned cls)
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
    return !bins_is_thin_locked(heap, cls);
}

static size_t bins_volume_bytes_locked(const struct hak_heap *heap)
{
    size_t share = hak_home(heap)->slab_bytes / BIN_VOLUME_SHARE;
    return hak_min(hak_max(BIN_VOLUME_BYTES, share), BIN_VOLUME_MOST_BYTES);
}

void hak_bins_grow_owner(struct hak_heap *heap, unsigned cls)
{
    struct hak_heap *home = hak_heap_lock_owner(heap);
    if (heap->classes[cls].stack != NULL)
        bins_grow(heap, cls, bins_volume_bytes_locked(heap));
    hak_unlock(&home->lock);
}

/* The hardened library hands blocks out in an order that cannot be foreseen, but what is allocated
 * together stays near each other: so many at a time are shuffled. (All of a batch: lua takes 1.58
 * of its time, 64 at a time 1.35, 16 1.21, none 1.11. See docs/hardened.md.) */
#define SHUFFLE_BLOCKS 16u

/* --- Borrowing: blocks of larger classes for requests of this one. A class whose blocks come and
 * go at random has, over a long time, a peak of about n + 3 sqrt(n) blocks, and each class has it
 * at another time. At its peak a class takes what the next ones have too much of, one block at a
 * time, instead of memory that nobody has touched. Evidence that it goes up and down is a turn: an
 * overflow that is followed by an underflow. Each turn is worth a batch, so that what allocates and
 * frees in bulk, which turns once in thousands of blocks, does not come here for each of them. In
 * large heaps peaks are small beside what is in use. (Figures in docs/performance.md, "Why small
 * heaps with random sizes are a fifth larger than glibc's".) --- */

static bool bins_may_borrow_locked(const struct hak_heap *heap, unsigned cls)
{
    return heap->classes[cls].borrow_blocks != 0 && hak_home(heap)->slab_bytes < BORROW_BELOW_BYTES;
}

/* The next blocks from here come from memory that nobody has touched. */
static bool bins_is_fresh(const struct hak_slab *s)
{
    return s->zero && hak_load_relaxed(&s->free_blocks) == 0;
}

static bool bins_is_at_peak_locked(const struct hak_heap *heap, unsigned cls)
{
    const struct hak_heap *home = hak_home(heap);
    const struct hak_slab *s = hak_heap_pick_locked(home, cls);
    return s != NULL ? bins_is_fresh(s) : hak_load_relaxed(&home->inbox) == NULL;
}

/* --- Many threads. Most of them want few blocks of a class: a guest's first batches of one are
 * small. (What is left of a home's page is there for its other guests.) --- */

#define FEW_REFILLS 12u
#define FEW_BYTES 512u /* a batch */
_Static_assert(FEW_REFILLS < BIN_BEGINNING, "begun counts so far");

/* The refills of a class with which a thread begins: the bin may be as large as a thread before has
 * made it. */
static unsigned bins_first_blocks(const struct hak_heap *heap, unsigned cls, unsigned begun)
{
    if (begun < FEW_REFILLS && hak_home(heap) != heap)
        return (unsigned)hak_max(FEW_BYTES / hak_class(cls)->size_bytes, 1);
    return BIN_FIRST_BLOCKS << begun;
}

/* Fills the bin that malloc pops from, which is empty; returns how many blocks it got. Sparing:
 * with as little memory that nobody has touched as possible. *zero is about the block that is
 * popped first. */
static unsigned bins_fill_locked(struct hak_heap *heap, unsigned cls, bool sparing, bool *zero)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    struct hak_heap *home = hak_home(heap);
    bool ordered = hak_cache_is_ordered(&heap->front, cls);
    struct hak_bin *bin = ordered ? hak_metered_bin(heap, cls) : &heap->front.bins[cls];
    void **stack = hak_load_relaxed(&bin->top); /* at the NULL, as it is empty */
    unsigned want = ch->volume < BIN_STREAK ? hak_bin_batch(ch) : ch->capacity;
    if (ch->begun < BIN_BEGINNING)
        want = (unsigned)hak_min(want, bins_first_blocks(heap, cls, ch->begun++));
    if (ordered)
        want = (unsigned)hak_min(want, HAK_METER_BLOCKS);
    void **out = stack + want + 1;
    unsigned got = 0;
    for (unsigned i = 0; i < REFILL_MAX_SLABS && got * 2 < want; i++) {
        struct hak_slab *s =
            got == 0 ? hak_heap_find_slab_locked(home, cls) : hak_heap_pick_locked(home, cls);
        if (s == NULL || (sparing && got != 0 && bins_is_fresh(s)))
            break;
        unsigned most = want - got;
        if (sparing && bins_is_fresh(s))
            most = (unsigned)hak_min(most, SPARING_BLOCKS << ch->volume / SPARING_REFILLS);
        bool fresh_zero;
        unsigned carved = hak_load_relaxed(&s->carved);
        if (HAK_UNLIKELY(s->purged_free_blocks != 0))
            hak_heap_regret_purge(s);
        unsigned n = hak_heap_take_locked(home, s, out - got, most, &fresh_zero);
        if (got == 0)
            *zero = fresh_zero;
        got += n;
        hak_heap_settle_locked(home, s);
        if (hak_load_relaxed(&s->carved) != carved) { /* fresh memory: a page at a time */
            hak_heap_carved_locked(heap, cls);
            break;
        }
    }
    if (got < want)
        memmove(stack + 1, out - got, got * sizeof(void *));
    for (unsigned i = 0; HAK_HARDENED && i < got; i += SHUFFLE_BLOCKS)
        hak_os_shuffle(stack + 1 + i, (unsigned)hak_min(SHUFFLE_BLOCKS, got - i));
    hak_store_relaxed(&bin->top, stack + got);
    return got;
}

/* The class's first stack, or a larger one where a policy knows that it will be wanted. */
static void bins_begin(struct hak_heap *heap, unsigned cls)
{
    bins_open(heap, cls);
    unsigned wanted = hak_load_relaxed(&hak_cache_knobs.bin_blocks[cls]);
    for (unsigned before = 0, now; (now = heap->classes[cls].capacity) < wanted && now != before;
         before = now)
        bins_grow(heap, cls, BIN_MAX_BYTES);
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

#define REST_REFILLS 256u /* of the thread, between two looks for bins that it has left */

/* Blocks in a bin that has not been empty since the last look wait for nobody, whatever has been
 * freed meanwhile: they go back to their slabs, where their pages may be given back, and the bin
 * becomes smaller. If they are wanted after all, one refill more in so many brings them back. */
static void bins_rest_locked(struct hak_heap *heap)
{
    for (unsigned cls = 0; (cls = hak_heap_next_used_locked(heap, cls)) < HAK_CLASSES; cls++) {
        struct hak_class_heap *ch = &heap->classes[cls];
        if (!ch->refilled && hak_cache_is_ordered(&heap->front, cls))
            hak_heap_unmeter_owner(heap, cls);
        unsigned blocks = hak_bin_blocks(heap, cls);
        if (blocks != 0 && !ch->refilled) {
            hak_heap_drain_locked(heap, cls, blocks);
            if (hak_bin_blocks(heap, cls) == 0)
                bins_shrink(heap, cls);
        }
        ch->refilled = false;
    }
}

/* A heap collects when it finds no room in its slabs, after so many refills, and when so many
 * messages wait: the bins have room for most of what comes out of those. Sooner than that, blocks
 * come back while the other thread's cache has them (see "Who has the line" in
 * docs/performance.md). */
#define COLLECT_REFILLS 16u
#define COLLECT_MESSAGES 8u

static bool bins_collect_is_due(const struct hak_heap *heap)
{
    return hak_load_relaxed(&hak_home(heap)->inbox_messages) >= COLLECT_MESSAGES ||
           hak_load_relaxed(&heap->stats.refills) % COLLECT_REFILLS == 0;
}

/* A free block of one of the next classes. NULL: there is none, or the class itself has free ones.
 */
static void *bins_try_borrow_locked(struct hak_heap *heap, unsigned cls)
{
    if (!bins_is_at_peak_locked(heap, cls))
        return NULL;
    unsigned next = cls;
    for (unsigned i = 0; i < BORROW_CLASSES; i++) {
        next = hak_heap_next_used_locked(heap, next + 1);
        if (next >= HAK_CLASS_ALIGNED ||
            hak_class(next)->size_bytes * 2 > hak_class(cls)->size_bytes * 3)
            return NULL;
        bool unused;
        const struct hak_slab *s = hak_heap_pick_locked(hak_home(heap), next);
        if (heap->classes[next].stack != NULL && hak_bin_blocks(heap, next) == 0 && s != NULL &&
            !bins_is_fresh(s) && !hak_cache_is_ordered(&heap->front, next))
            (void)bins_fill_locked(heap, next, true, &unused);
        void *p = hak_bin_take(heap, next * 2u);
        if (p != NULL) {
            heap->classes[cls].borrow_blocks--;
            hak_count_owner(&heap->stats.borrowed_blocks, 1u);
            return p;
        }
    }
    return NULL;
}

/* Out of the bin that malloc pops from. */
static void *bins_pop(struct hak_heap *heap, unsigned cls)
{
    return hak_bin_take(heap, cls * 2u +
                                  (hak_cache_is_ordered(&heap->front, cls) ? HAK_KIND_METERED : 0));
}

static void *bins_refill(struct hak_heap *heap, unsigned cls, bool larger_will_do, bool *zero)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    *zero = false;
    void *p = bins_pop(heap, cls); /* starting the thread may have filled the bin */
    if (p != NULL)
        return p;
    if (HAK_UNLIKELY(hak_heap_unmeter_owner(heap, cls)))
        return hak_bin_take(heap, cls * 2u);
    hak_registry_bury();
    struct hak_heap *home = hak_heap_lock_owner(heap);
    home->home_refills++;
    if (ch->stack == NULL)
        bins_begin(heap, cls);
    else if (ch->overflowed && bins_turns_will_do_locked(heap, cls))
        bins_grow(heap, cls, BIN_MAX_BYTES);
    else if (++ch->volume % BIN_VOLUME_REFILLS == 0)
        bins_grow(heap, cls, bins_volume_bytes_locked(heap));
    if (ch->overflowed)
        ch->borrow_blocks = (uint16_t)hak_min(ch->borrow_blocks + hak_bin_batch(ch), UINT16_MAX);
    ch->overflowed = false;
    ch->falls = 0;
    ch->refilled = true;
    if (bins_collect_is_due(heap))
        hak_heap_collect_owner_locked(heap);
    if (HAK_UNLIKELY(hak_load_relaxed(&heap->stats.refills) % REST_REFILLS == REST_REFILLS - 1))
        bins_rest_locked(heap);
    unsigned blocks = hak_bin_blocks(heap, cls);
    bool borrows = larger_will_do && bins_may_borrow_locked(heap, cls);
    if (blocks == 0 && borrows && ch->volume < SPARING_REFILLS)
        p = bins_try_borrow_locked(heap, cls);
    hak_order_note_refill_locked(heap, cls);
    if ((blocks == 0 || hak_cache_is_ordered(&heap->front, cls)) && p == NULL)
        blocks = bins_fill_locked(heap, cls, borrows, zero);
    HAK_PROBE2(refill, cls, blocks);
    hak_count_owner(&heap->stats.refills, 1u);
    if (p == NULL) /* with the lock held: no other thread changes which bin it is */
        p = bins_pop(heap, cls);
    if (p == NULL)
        p = hak_bin_take(heap, cls * 2u);
    hak_unlock(&home->lock);
    return p;
}

void *hak_cache_refill(struct hak_heap *heap, unsigned cls, bool *zero)
{
    return bins_refill(heap, cls, false, zero);
}

void *hak_cache_refill_or_larger(struct hak_heap *heap, unsigned cls, bool *zero)
{
    return bins_refill(heap, cls, !HAK_HARDENED, zero);
}

/* A block of a bin whose slab was taken over by another heap. False: there is no memory for a
 * message. */
static bool bins_return_foreign(struct hak_heap *heap, unsigned cls, void *p)
{
    uint32_t entry = hak_load_relaxed(hak_map_entry(hak_slot_of(p)));
    hak_bin_refuse_gone(p, cls, entry);
    return hak_outbox_try_add(heap, entry, p);
}

/* Returns the `count` oldest blocks of a bin. How many bytes that were. */
static size_t bins_drain_locked(struct hak_heap *heap, unsigned cls, unsigned count)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    struct hak_heap *home = hak_home(heap);
    const struct hak_class c = *hak_class(cls); /* a copy: no store below changes it */
    uint32_t entry = heap->front.tag | cls * 2;
    void **end = ch->stack + 1 + count;
    void **kept = ch->stack; /* the last of those that stay */
    uintptr_t slab_mask = ~(uintptr_t)c.offset_mask;
    uintptr_t window = hak_load_relaxed(&hak_space.base); /* copies: see `c` */
    _Atomic(uint32_t) *map = hak_load_relaxed(&hak_space.map);
    char *meta = hak_space_meta();
    size_t slab_slots = ~(size_t)(c.slots - 1u);
    unsigned freed = count;
    if (count == 0)
        return 0; /* the class may have no stack yet */
    for (void **at = ch->stack + 1; at < end;) {
        size_t slot = ((uintptr_t)*at - window) >> HAK_SLOT_SHIFT;
        if (HAK_UNLIKELY(hak_load_relaxed(&map[slot]) != entry)) {
            if (HAK_UNLIKELY(!bins_return_foreign(heap, cls, *at)))
                *++kept = *at;
            at++, freed--;
            continue;
        }
        struct hak_slab *s = hak_slab_record_in(meta, slot & slab_slots);
        at += hak_heap_put_locked(home, s, &c, slab_mask, at, end);
    }
    void **top = hak_load_relaxed(&heap->front.bins[cls].top);
    memmove(kept + 1, end, (size_t)(top + 1 - end) * sizeof(void *));
    hak_store_relaxed(&heap->front.bins[cls].top, top - (end - kept - 1));
    hak_count_owner(&heap->stats.drained_blocks, count);
    HAK_PROBE2(drain, cls, count);
    HAK_TRACE(HAK_TRACE_DRAIN, "to", "slabs", {"class", cls}, {"blocks", count},
              {"left", hak_bin_blocks(heap, cls)});
    return freed * c.size_bytes;
}

/* Little of what the heap has is in use: what lies in the bins would pin a page for each block, and
 * as much again would when the bins are full once more. */
static void bins_retreat_locked(struct hak_heap *heap)
{
    for (unsigned cls = 0; (cls = hak_heap_next_used_locked(heap, cls)) < HAK_CLASSES; cls++) {
        do
            hak_home(heap)->free_bytes += bins_drain_locked(heap, cls, hak_bin_blocks(heap, cls));
        while (hak_cache_is_ordered(&heap->front, cls) && hak_heap_unmeter_owner(heap, cls));
        if (heap->classes[cls].stack != NULL && hak_bin_blocks(heap, cls) == 0)
            bins_shrink(heap, cls);
    }
}

void hak_heap_drain_locked(struct hak_heap *heap, unsigned cls, unsigned count)
{
    struct hak_heap *home = hak_home(heap);
    home->free_bytes += bins_drain_locked(heap, cls, count);
    bool emptying = hak_heap_is_emptying_locked(home);
    if (HAK_UNLIKELY(emptying))
        bins_retreat_locked(heap);
    hak_heap_purge_busy_locked(home, emptying);
}

/* What a thread of a shared home only frees, others of the home get next: see hak_cache_take_line.
 * Before the lock is taken, for which those others may wait. */
static void bins_take_lines(struct hak_heap *heap, unsigned cls)
{
    const struct hak_class_heap *ch = &heap->classes[cls];
    if (ch->stack == NULL || !ch->overflowed || hak_class(cls)->size_bytes > HAK_TINY_MAX ||
        !hak_home_is_shared(hak_home(heap)))
        return;
    void **top = hak_load_relaxed(&heap->front.bins[cls].top);
    for (void **at = ch->stack + 1; at <= top; at++)
        hak_cache_take_line(*at);
}

void hak_cache_overflow(struct hak_heap *heap, unsigned cls, void *p)
{
    struct hak_class_heap *ch = &heap->classes[cls];
    /* The bin may have room: another thread has made the block's home one with this thread's since
     * the fast path took the block for another's. */
    if (HAK_UNLIKELY(hak_cache_push(&heap->front, cls * 2u, p)))
        return;
    bins_take_lines(heap, cls);
    struct hak_heap *home = hak_heap_lock_owner(heap);
    if (ch->stack == NULL) {
        bins_begin(heap, cls);
    } else {
        bool thin = !ch->overflowed && bins_is_thin_locked(heap, cls);
        hak_heap_drain_locked(heap, cls, ch->overflowed || thin ? ch->capacity : hak_bin_batch(ch));
        if (thin)
            bins_narrow_locked(heap, cls);
        else if (ch->falls % THIN_FALLS == THIN_FALLS - 1)
            (void)bins_try_widen(heap, cls);
        ch->overflowed = true;
        ch->volume = 0;
        if (++ch->falls % BIN_VOLUME_REFILLS == 0 && hak_bin_blocks(heap, cls) == 0 &&
            hak_home_is_shared(home))
            bins_grow(heap, cls, bins_volume_bytes_locked(heap));
        hak_count_owner(&heap->stats.drains, 1u);
    }
    hak_unlock(&home->lock);
    if (HAK_UNLIKELY(!hak_cache_push(&heap->front, cls * 2u, p)))
        hak_cache_free_direct(cls, p);
}
