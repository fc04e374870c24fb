/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: bins: refill when one is empty, overflow when one is full. Runs on the owning thread,
 * under its home's lock once a batch. How large they are: bin_size.c. */
#include "cache/cache_internal.h"
#include "os/probes.h"
#include "os/trace.h"

#include <string.h>

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
                hak_bin_shrink_locked(heap, cls);
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
    hak_bin_fit_refill_locked(heap, cls);
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
            hak_bin_shrink_locked(heap, cls);
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
        hak_bin_begin_locked(heap, cls);
    } else {
        bool thin = !ch->overflowed && hak_bin_is_thin_locked(heap, cls);
        hak_heap_drain_locked(heap, cls, ch->overflowed || thin ? ch->capacity : hak_bin_batch(ch));
        hak_bin_fit_overflow_locked(heap, cls, thin);
        hak_count_owner(&heap->stats.drains, 1u);
    }
    hak_unlock(&home->lock);
    if (HAK_UNLIKELY(!hak_cache_push(&heap->front, cls * 2u, p)))
        hak_cache_free_direct(cls, p);
}
