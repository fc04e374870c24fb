/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: entry header. What a thread owns: its heap, with a bin (a stack of free blocks) for each
 * class, its slabs, an outbox for blocks of other threads' slabs and an inbox of its own slabs that
 * others have freed into.
 *
 *   bin of a class:   [NULL][NULL][oldest] ... [newest][    ][    ]
 *                           ^ stack            ^ top           ^ limit
 *                     empty: top is at the upper NULL; full: top == limit
 *
 * The fast paths (hak_cache_pop, hak_cache_push) use only the calling thread's bins: no atomic
 * read-modify-write, no test for "no heap yet": a thread without one looks at a front in which
 * every bin is both empty and full.
 *
 * There is one bin more than classes, which is always empty: the tables of kinds name it for the
 * sizes that somebody watches, and so malloc takes the slow path for those. And there are metered
 * bins, through which what malloc hands out can be counted (meter.c), or put in order (order.c).
 * free knows neither.
 *
 * The heap's lock is taken once a batch by the owner, and by others that look or adopt. Called by
 * the heap layer. */
#pragma once

#include "pool/pool.h"
#include "slab/slab.h"

_Static_assert(HAK_CLASSES == HAK_POOL_LABEL_RUN, "slots of slabs are labelled with the class");

#define HAK_OUTBOXES 16u
#define HAK_MESSAGE_BLOCKS 62u
#define HAK_OUTBOX_MAX_BYTES ((uint32_t)64 << 10) /* then all of it is sent */
/* Lists of slabs of a class: from nearly full to nearly empty, and the full ones. */
#define HAK_LISTS 5u
#define HAK_LIST_FULL 4u
/* Below the blocks of a stack, so that one comparison tells malloc that the upper two cells of a
 * bin are the same: it is empty, or a block was freed twice in a row. A bin's stack is where the
 * upper NULL is. */
#define HAK_BIN_NULLS 2u
#define HAK_STACK_ARENA_BYTES 8384u
#define HAK_FEW_STACKS_BYTES 1024u

/* Beyond so many threads, whatever the settings, all share others' slabs. */
#define HAK_HOMES_MOST 128u

/* What a policy may turn; see struct hak_pool_knobs. */
struct hak_cache_knobs {
    _Atomic(uint64_t) spare_bytes; /* of free blocks in a heap's slabs: see purge.c */
    _Atomic(uint64_t) idle_ticks;  /* a slab is idle if nothing has changed in it for so long */
    _Atomic(uint32_t) homes;       /* heaps that have slabs of their own, HAK_HOMES_MOST at most;
                                    * 0: by the number of processors. See homes.c */
    _Atomic(uint64_t) exchange_blocks; /* so many, sent to others, are weighed: see homes.c */
    _Atomic(uint64_t) refine_slots;    /* in a class, from which on the fine one below it is used */
    _Atomic(uint16_t) bin_blocks[HAK_CLASSES]; /* a class's first bin of more than the smallest
                                                * capacity; 0: it grows as it is used */
};
extern HAK_HIDDEN struct hak_cache_knobs hak_cache_knobs;

struct hak_bin {
    _Atomic(void **) top; /* written by the owner only; others may look */
    void **limit;         /* owner */
};

/* Blocks that come and go together, by how long blocks of their call sites live. Each group has
 * slabs of its own, so that a few long-lived blocks do not pin the memory of many short-lived ones.
 */
enum hak_group { HAK_GROUP_SHORT, HAK_GROUP_MEDIUM, HAK_GROUP_LONG, HAK_GROUPS };
struct hak_meter;

/* What the fast paths touch, all of it the owner's. The window's figures are copies: `slots` may
 * lag behind, which sends a free to the slow path, where it is brought up to date. A thread without
 * a heap has slots 0 and only bins that are closed. */
struct hak_front {
    struct hak_bin bins[HAK_BINS]; /* first: addressed by front and kind alone */
    uintptr_t base;
    size_t slots;
    _Atomic(uint32_t) *map;
    uint32_t tag;              /* the home's, as in map entries: number << HAK_TAG_SHIFT */
    _Atomic(uint32_t) ordered; /* a bit for each metered class: see order.c. Written under the
                                  heap's lock, by others too */
    /* This thread's own: see place.c. Written under the heap's lock, by others too; what malloc
     * looks at may be closed, the true one is not. */
    _Atomic(uint8_t) tiny_kind[HAK_TINY_KINDS];
    _Atomic(uint8_t) tiny_true[HAK_TINY_KINDS];
    struct hak_meter *meter; /* NULL: it was never metered */
};

/* Owner, under the heap's lock. */
struct hak_class_heap {
    void **stack; /* NULL until the class is used */
    uint16_t capacity;
    uint16_t stack_blocks;  /* for which the stack has room; more than the capacity where slabs are
                               thin */
    bool overflowed;        /* since the last underflow */
    uint8_t carvings;       /* times it took fresh memory, up to the number at which coarse classes
                               are left */
    uint8_t narrow_wants;   /* see place.c */
    uint8_t volume;         /* refills without an overflow, modulo 256 */
    int8_t slabs_taken;     /* from the pool, that tell whether more of them will be used up; see
                               slabs_expects_use */
    uint8_t begun;          /* refills of the heap's present thread, up to the number from which on
                               they are whole */
    uint8_t falls;          /* overflows without a refill, modulo 256 */
    bool refilled;          /* since the last look for bins that rest */
    uint16_t borrow_blocks; /* so many may be taken of larger classes before memory is carved */
    uint16_t turns;         /* overflows followed by an underflow, since the bin has its size */
    struct hak_slab *lists[HAK_LISTS];
};

/* The blocks that a refill or an overflow moves at a time. */
static inline unsigned hak_bin_batch(const struct hak_class_heap *ch)
{
    return ch->capacity / 2 + 1u;
}

/* Counted on slow paths by the owner, read by any thread. */
struct hak_heap_stats {
    _Atomic(uint64_t) refills, drains, drained_blocks, grown_bins;
    _Atomic(uint64_t) borrowed_blocks; /* of a larger class than was asked for */
    _Atomic(uint64_t) remote_frees, remote_sends, collected_blocks, adopted_slabs;
    _Atomic(uint64_t) purged_bytes;
    _Atomic(uint64_t) collected_for_others; /* times that this thread did it for another */
    _Atomic(uint64_t) large_requests;       /* for large and huge blocks */
};

/* Blocks that were freed by another thread than their slab's owner. */
struct hak_message {
    _Atomic(struct hak_message *) next; /* in an inbox */
    uint32_t free; /* blocks[free] and those behind it are in use; what a sender fills is in its
                      outbox */
    void *blocks[HAK_MESSAGE_BLOCKS];
};
_Static_assert(sizeof(struct hak_message) == 512, "a record of a power of two");

/* What a thread has freed of another heap's blocks and not sent yet. */
struct hak_outbox {
    struct hak_message *message; /* NULL: nothing waits, and free is 0 */
    uint32_t tag;                /* the heap's number */
    uint32_t free;               /* of the message, so many blocks more fit */
};

#define HAK_METER_BLOCKS 121u

/* What is counted of a class, or of all that has no metered bin. What is handed over ends before
 * the class's next sample point, and is counted before it is allocated: with one count for all,
 * whatever is allocated meanwhile would take the point away. */
struct hak_metered {
    int64_t left_bytes;     /* to the next sample point */
    uint32_t size_bytes;    /* the class's */
    uint8_t most;           /* blocks that are handed over at a time */
    uint8_t least;          /* fewer are few */
    uint8_t thin;           /* times that there were few, since the bin was supplied */
    bool begun;             /* it has a sample point */
    bool counted;           /* what is in the bin was taken off the way to it */
    uint16_t blocks_before; /* see order.c: in the bin when it was judged last */
    uint8_t trust;          /* in the order of what is freed */
};

/* A thread's metered bins, and what the profiler keeps of the thread. The owner's alone; made when
 * profiling or an order begins, kept for the heap's next thread. */
struct hak_meter {
    struct hak_metered of[HAK_METERED_CLASSES + 1];
    uint64_t random;
    void *stacks[HAK_METERED_CLASSES][HAK_BIN_NULLS + HAK_METER_BLOCKS]; /* as a bin's */
};
_Static_assert(sizeof(struct hak_meter) <= 32768, "records are powers of two");

static inline void **hak_metered_stack(struct hak_meter *m, unsigned cls)
{
    return &m->stacks[cls][HAK_BIN_NULLS - 1];
}

/* Through a heap's slabs with free blocks, in portions. See purge.c. */
struct hak_slab_walk {
    uint32_t slot;  /* the next one's + 1; 0: the first of the next list */
    uint16_t lists; /* of all classes, that are left */
};

struct hak_heap {
    struct hak_front front; /* first: a front of a heap is the heap */
    struct hak_lock lock;
    _Atomic(struct hak_message *) inbox; /* any thread pushes, whoever holds the lock takes all */
    _Atomic(uint32_t) inbox_messages;    /* in it, about: tells others when to collect */
    /* Owns the slabs that the thread's blocks are from: the heap itself or, among many threads,
     * another heap, whose lock then takes the place of this one's: see homes.c. Changes under
     * both locks. */
    _Atomic(struct hak_heap *) home;
    uint32_t tag;             /* the heap's own number; front.tag is the home's */
    _Atomic(unsigned) guests; /* heaps of which this is the home; these three are written under
                                 the registry's lock */
    bool is_home, vacant;     /* has slabs; has no thread, but guests */
    /* Its slabs have gone to this home; those who were here follow when they next come by, and are
     * its guests until then. NULL: nowhere. Under the lock. */
    struct hak_heap *moved_to;
    uint32_t exchanged_blocks;  /* owner: sent to other homes since that was last weighed, and */
    uint32_t exchange_calls;    /* refills and overflows until then */
    uint8_t exchange_refused;   /* times that it was for nothing: twice as many the next time */
    bool can_do_without;        /* owner: see hak_heap_can_do_without */
    uint32_t home_refills;      /* of all threads out of this heap's slabs; under the lock */
    struct hak_heap *next_heap; /* all heaps; constant once in the list */
    struct hak_heap *next_free; /* under the registry's lock */
    struct hak_heap *next_of_bucket; /* the same; see by_thread.c */
    struct hak_heap *looked_at;      /* the last in which a slab to take over was looked for */
    _Atomic(uintptr_t) thread;       /* whose it is, hak_os_this_thread(); 0: nobody's */
    bool dead;                       /* its thread stayed behind in the parent of a fork */
    _Atomic(bool) lost;              /* half changed when the process forked: left alone for good */
    uint8_t end_rounds;
    _Atomic(uint8_t) group;  /* HAK_GROUP_SHORT for the heap of a thread itself */
    uint32_t looked_refills; /* home_refills when somebody last looked for a slab to take over */
    /* The thread's heaps for the other groups, NULL until one is asked for; owner. Blocks come from
     * them; to their own thread's frees they are another heap's, as they are rare. */
    struct hak_heap *group_heaps[HAK_GROUPS - 1];
    int64_t unwatched_bytes; /* owner: refilled before somebody looks at a call site again */
    uint16_t arena_used_bytes, few_used_bytes;
    uint8_t watch_turn;    /* owner: which refill is counted next: hak_sites_is_turn_owner */
    uint8_t spare_wanted;  /* owner; messages taken at a time */
    uint32_t outbox_bytes; /* owner, as the outbox itself */
    struct hak_meta_free *spare_messages;         /* owner */
    struct hak_meta_free *done_first, *done_last; /* messages to be given back, so many; these
                                                   * three under the heap's lock */
    uint32_t done_count;
    uint32_t idle_turn; /* which classes are next looked at for idle slabs; under the lock */
    struct hak_outbox outbox[HAK_OUTBOXES];
    struct hak_heap_stats stats;
    _Atomic(size_t) slabs;    /* owned */
    size_t slab_bytes;        /* theirs; this and the next two under the heap's lock */
    size_t free_bytes;        /* free blocks in them */
    size_t purged_free_bytes; /* free_bytes when free pages were given back last: see purge.c */
    /* What is left of that, and of a look for slabs in which nothing changes. */
    struct hak_slab_walk purge, idle;
    struct hak_class_set used; /* classes that have or had a stack or a slab; under the lock */
    char *few_stacks;          /* HAK_FEW_STACKS_BYTES of a page of several heaps; NULL: none */
    struct hak_class_heap classes[HAK_CLASSES];
    /* The first, small stacks of all classes; in pages of its own, so that a thread that uses a few
     * small classes touches the first of those and the heap's first, and no more. */
    char apart[3904];
    char stack_arena[HAK_STACK_ARENA_BYTES];
};
_Static_assert(offsetof(struct hak_heap, stack_arena) == 3 * HAK_PAGE_BYTES,
               "`apart` fills the page before");

/* The calling thread's front: its heap's, or one of the two below. One pointer, initial-exec. */
extern HAK_HIDDEN __thread struct hak_front *hak_self;
extern HAK_HIDDEN struct hak_front hak_front_none; /* no heap yet */
extern HAK_HIDDEN struct hak_front
    hak_front_shared; /* starting or ended: works on the shared heap */

/* A heap nobody runs: owns the slabs of ended threads and serves threads without a heap. */
extern HAK_HIDDEN struct hak_heap *hak_orphans;
/* The same for the slabs of the threads' heaps for other groups, and for nothing else; NULL until a
 * thread ends that had one, or when there was no memory for it. */
extern HAK_HIDDEN _Atomic(struct hak_heap *) hak_group_orphans[HAK_GROUPS - 1];

/* The shared heap for the slabs of a group's heaps, or NULL. */
static inline struct hak_heap *hak_orphans_of_group(unsigned group)
{
    return group == HAK_GROUP_SHORT
               ? hak_orphans
               : hak_load_acquire(&hak_group_orphans[group - 1]); /* ORDER: [group-orphans] */
}

HAK_ALWAYS_INLINE struct hak_bin *hak_bin_of_kind(struct hak_front *front, uint64_t kind)
{
    return (struct hak_bin *)(void *)((char *)front->bins + kind * (sizeof(struct hak_bin) / 2));
}

/* The bin's address stands in a register (HAK_OPAQUE) and is not computed by each access, though
 * that would save an instruction: newer processors pass what was stored on to the next load without
 * delay, but only where both name one register and a displacement. A pair of malloc and free in a
 * loop takes 0.57 of the time on an Intel Xeon with AMX (see docs/performance.md). */

/* The newest block of the bin of a kind. NULL: there is none, or it was freed twice in a row, which
 * hak_bin_take tells apart. */
HAK_ALWAYS_INLINE void *hak_cache_pop(struct hak_front *front, uint64_t kind)
{
    struct hak_bin *bin = hak_bin_of_kind(front, kind);
    HAK_OPAQUE(bin);
    void **top = hak_load_relaxed(&bin->top);
    void *p = *top;
    if (HAK_UNLIKELY(p == top[-1]))
        return NULL;
    HAK_ASSUME(p != NULL);
    hak_store_relaxed(&bin->top, top - 1);
    return p;
}

/* False when the bin is full. */
HAK_ALWAYS_INLINE bool hak_cache_push(struct hak_front *front, uint64_t kind, void *p)
{
    struct hak_bin *bin = hak_bin_of_kind(front, kind);
    HAK_OPAQUE(bin);
    void **top = hak_load_relaxed(&bin->top);
    if (HAK_UNLIKELY(top >= bin->limit))
        return false;
    *++top = p;
    hak_store_relaxed(&bin->top, top);
    return true;
}

static inline struct hak_outbox *hak_outbox_of(struct hak_heap *heap, uint32_t entry)
{
    return &heap->outbox[(entry >> HAK_TAG_SHIFT) % HAK_OUTBOXES];
}

/* Writes what is there anyway, so that the block's first cache line is in the cache of this thread
 * alone. Whoever gets the block next stores into it: a line that is not in the storing thread's
 * cache is fetched ahead of time, one that this thread has read too is not, and each store waits
 * for it by itself. (A producer and a consumer of 64-byte objects on an AMD EPYC: 72 instead of
 * 152 ms, see docs/performance.md; a prefetch for writing does nothing there.) The thread that
 * frees a block has most often just read it. */
HAK_ALWAYS_INLINE void hak_cache_take_line(void *p)
{
    volatile unsigned char *byte = p;
    *byte = *byte;
}

/* hak_cache_free_remote where the block joins others that wait already. False: nothing was done.
 * The entry may be any: only slabs have an owner's number, and no outbox in use is for number 0 or
 * the heap's own. */
HAK_ALWAYS_INLINE bool hak_cache_try_free_remote(struct hak_heap *heap, uint32_t entry, void *p)
{
    struct hak_outbox *o = hak_outbox_of(heap, entry);
    if (HAK_UNLIKELY(o->tag != entry >> HAK_TAG_SHIFT || o->free == 0))
        return false;
    uint32_t size_bytes = hak_class((entry & HAK_KIND_MASK) / 2)->size_bytes;
    uint32_t bytes = heap->outbox_bytes + size_bytes;
    if (HAK_UNLIKELY(bytes >= HAK_OUTBOX_MAX_BYTES))
        return false;
    o->message->blocks[--o->free] = p;
    heap->outbox_bytes = bytes;
    if (HAK_LIKELY(size_bytes <= HAK_TINY_MAX))
        hak_cache_take_line(p);
    return true;
}

/* The class in which this thread places a size up to HAK_SMALL_MAX. */
static inline unsigned hak_front_class(const struct hak_front *front, size_t size_bytes)
{
    return size_bytes <= HAK_TINY_MAX
               ? hak_load_relaxed(&front->tiny_true[(size_bytes + 15) / 16]) / 2u
               : hak_class_of(size_bytes);
}

static inline struct hak_heap *hak_heap_of_front(struct hak_front *front)
{
    return (struct hak_heap *)(void *)front;
}

/* --- blocks; the calling thread owns the heap --- */

/* A block of a class whose bin is empty; fills the bin as well. *zero says that the block reads as
 * zero. NULL: out of memory. */
void *hak_cache_refill(struct hak_heap *heap, unsigned cls, bool *zero);
/* The same, or a block of one of the next larger classes, for a request without an alignment. */
void *hak_cache_refill_or_larger(struct hak_heap *heap, unsigned cls, bool *zero);
/* A request of so many bytes has found the class's bin empty: evidence for the thread's choice of
 * classes. Owner. */
void hak_cache_note_size(struct hak_heap *heap, unsigned cls, size_t size_bytes);
/* Brings the front's copies of the window's figures up to date. */
void hak_cache_refresh(struct hak_heap *heap);
/* Frees p, a block of a class of this heap's home, whose bin may be full. */
void hak_cache_overflow(struct hak_heap *heap, unsigned cls, void *p);
/* Frees p, a block of another heap's slab, whose slot has this map entry. */
void hak_cache_free_remote(struct hak_heap *heap, uint32_t entry, void *p);
/* Gives free pages of all heaps' slabs back to the system. Returns the bytes. */
size_t hak_cache_purge(void);
/* Returns everything that waits in the bins and the outbox to the slabs, and collects the inbox. */
void hak_cache_flush(struct hak_heap *heap);

/* The same for all heaps of the calling thread. */
void hak_cache_flush_groups(struct hak_heap *heap);
/* The same (unless heap is NULL), for heaps that are kept for threads to come too; and what others
 * freed of any heap's blocks is collected. The caller holds no lock. */
void hak_cache_relieve(struct hak_heap *heap);

/* Looks at all that is in the bins of the calling thread's heaps, if it has any, and of those that
 * are kept for threads to come: a block that is free already, or none, ends the process as it would
 * when it left the bin. `look`, if not NULL, sees each. Does nothing where a lock is held. */
typedef void hak_cache_look(const void *p, unsigned cls);
void hak_cache_audit(struct hak_heap *heap, hak_cache_look *look);

/* --- for threads without a heap (starting, ended) --- */
void *hak_cache_shared_alloc(unsigned cls, bool *zero);
/* Returns a block to its slab under the lock of the heap that owns it. Any thread that holds no
 * lock. */
void hak_cache_free_direct(unsigned cls, void *p);

/* --- threads --- */

/* Makes the shared heap. Once, under the start lock. Returns 0 or an errno. */
int hak_cache_start(void);
/* Gives the calling thread a heap; NULL when there is no memory for one. hak_self is set by the
 * caller. */
struct hak_heap *hak_cache_thread_start(void);
/* The heap of a thread that has ended and could not say so, and was known by the same pointer as
 * the caller, who has none; NULL: there was none. hak_self is set by the caller. */
struct hak_heap *hak_cache_thread_take_over(void);
/* The heap of the same thread for a group; NULL: no memory for one. The calling thread owns it. */
struct hak_heap *hak_cache_group_heap_slow(struct hak_heap *heap, enum hak_group group);

static inline struct hak_heap *hak_cache_group_heap(struct hak_heap *heap, enum hak_group group)
{
    struct hak_heap *found = group == HAK_GROUP_SHORT ? heap : heap->group_heaps[group - 1];
    return HAK_LIKELY(found != NULL) ? found : hak_cache_group_heap_slow(heap, group);
}

/* The thread ends. A small heap is kept as it is for the next thread that starts, for a while; of
 * others the slabs go to the shared heap first. */
void hak_cache_thread_end(struct hak_heap *heap);

/* Collects what others freed into the slabs of ended threads, if nobody is at it. */
void hak_cache_collect_orphans(void);
#define HAK_TICK_NS 250000000u
/* Of this thread's slow paths, so many lie between two looks at the clock. With four times as many
 * what a program has freed that then needs few blocks at a time went back a tenth of a second and
 * more after its time; a look costs 3 ns. */
#define HAK_TICK_CALLS 16u
static inline bool hak_cache_is_tick_due(const struct hak_heap *heap)
{
    return (hak_load_relaxed(&heap->stats.refills) + hak_load_relaxed(&heap->stats.drains)) %
                   HAK_TICK_CALLS ==
               0 ||
           HAK_UNLIKELY(hak_load_relaxed(&hak_pool_knobs.behind));
}
/* Slow paths call it now and then. Gives back what has been kept for too long, and every
 * HAK_TICK_NS collects for all threads that do not come to it. */
void hak_cache_tick_any(void);

/* --- watched classes: every request for one of them comes to the slow path --- */

enum hak_watcher { HAK_WATCHER_SITES, HAK_WATCHER_METER, HAK_WATCHER_PERTURB, HAK_WATCHERS };

/* From now on this watcher sees the requests for these classes and no others. Any thread that
 * holds no lock. */
void hak_cache_watch(enum hak_watcher watcher, struct hak_class_set classes);

extern HAK_HIDDEN _Atomic(uint64_t) hak_watched[HAK_WATCHERS][2];

static inline bool hak_cache_is_watched(enum hak_watcher watcher, unsigned cls)
{
    return hak_load_relaxed(&hak_watched[watcher][cls / 64]) >> cls % 64 & 1;
}

/* From now on the classes with metered bins go by those, unless they are watched; the others are
 * watched. Any thread that holds no lock. */
void hak_cache_set_metered(bool on);
/* The heap's meter; made if need be. NULL: no memory. */
struct hak_meter *hak_cache_meter(struct hak_heap *heap);
/* A block of a class, and others from the class's bin to its metered bin, all of them counted.
 * NULL: the bin is empty, or a sample point lies in the next block, and nothing was done. The heap
 * has a meter. */
void *hak_cache_meter_take(struct hak_heap *heap, unsigned cls);
/* The bins of a class hand out first what was freed first: see order.c. */
static inline bool hak_cache_is_ordered(const struct hak_front *front, unsigned cls)
{
    return cls < HAK_METERED_CLASSES && (hak_load_relaxed(&front->ordered) >> cls & 1) != 0;
}
/* The kind of the bin that malloc looks into for a class's kind. */
static inline uint8_t hak_front_kind(const struct hak_front *front, uint8_t kind)
{
    uint8_t shown = hak_kind_shown(kind);
    return shown == kind && hak_cache_is_ordered(front, kind / 2u)
               ? (uint8_t)(HAK_KIND_METERED + kind)
               : shown;
}
/* A block of such a class; malloc has found its metered bin empty. NULL: it is to be refilled. */
void *hak_cache_take_ordered(struct hak_heap *heap, unsigned cls);
/* So often few blocks were handed over that it is time for hak_cache_meter_supply. */
#define HAK_METER_THIN_TURNS 8u
/* Sees to it that the bin has some more blocks to hand over. The caller holds no lock. */
void hak_cache_meter_supply(struct hak_heap *heap, unsigned cls);
/* The largest capacity of the class's bin that a heap has, in blocks; 0: no thread used it. */
unsigned hak_cache_bin_capacity(unsigned cls);

/* All heaps, for walks: hak_cache_first_heap(), then next_heap. Heaps are never unmapped. */
struct hak_heap *hak_cache_first_heap(void);

/* Bytes in use by the program and bytes free in slabs, summed over all heaps; takes each heap's
 * lock in turn. */
struct hak_cache_usage {
    size_t used_bytes, used_blocks; /* bins not counted */
    size_t bin_bytes, bin_blocks;
    size_t slab_bytes, slabs, heaps;
    size_t class_used_blocks[HAK_CLASSES], class_slabs[HAK_CLASSES];
    struct hak_lock_counts registry_lock, heap_locks;
    uint64_t drained_blocks, remote_frees, collected_blocks; /* since the start */
};

/* What a heap has counted; any thread, no lock. */
static inline void hak_cache_add_counts(const struct hak_heap *heap, struct hak_cache_usage *out)
{
    out->drained_blocks += hak_load_relaxed(&heap->stats.drained_blocks);
    out->remote_frees += hak_load_relaxed(&heap->stats.remote_frees);
    out->collected_blocks += hak_load_relaxed(&heap->stats.collected_blocks);
}

void hak_cache_usage(struct hak_cache_usage *out);

/* In the child of a fork; `mine` is the heap of the only thread, or NULL. A heap that somebody was
 * changing is lost, blocks and all: nobody takes its lock again but a call of this thread that a
 * signal handler interrupted. The heaps of the other threads are taken over later. True when `mine`
 * has to be given up. */
bool hak_cache_fork_child(struct hak_heap *mine);
