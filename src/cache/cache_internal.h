/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: what its files share. `_locked`: the caller holds the heap's lock. */
#pragma once

#include "cache/cache.h"

#define HAK_THREAD_BUCKET_BITS 6u

/* All heaps: threads.c. */
struct hak_registry {
    struct hak_lock lock;
    _Atomic(struct hak_heap *) all;
    _Atomic(struct hak_heap *) free;
    _Atomic(struct hak_heap *) kept;   /* newest first */
    _Atomic(struct hak_heap *) vacant; /* homes: see homes.c */
    _Atomic(uint32_t) last_tag;        /* so many heaps there are */
    _Atomic(unsigned) dead;            /* heaps whose threads a fork left behind */
    char *few_stacks;                  /* of the next guests, so many bytes */
    size_t few_left_bytes;
    _Atomic(struct hak_heap *) by_thread[1u << HAK_THREAD_BUCKET_BITS]; /* see by_thread.c */
};
extern HAK_HIDDEN struct hak_registry hak_registry;

/* The list for a slab: by the share of its blocks that it could give. */
static inline unsigned hak_heap_list_for(const struct hak_slab *s)
{
    unsigned blocks = hak_class(s->cls)->blocks;
    unsigned room = hak_slab_room_blocks(s);
    if (room * 4 < blocks)
        return room == 0 ? HAK_LIST_FULL : room * 8 >= blocks;
    return room * 2 < blocks ? 2 : 3;
}

/* The most blocks in use with which a slab of a list belongs into another one. */
static inline unsigned hak_heap_list_until(unsigned list, unsigned blocks)
{
    if (list == HAK_LIST_FULL)
        return blocks - 1;
    return list == HAK_LIST_FULL - 1 ? 0 : blocks - ((blocks + (8u >> list) - 1) >> (3 - list));
}

static inline void hak_heap_use_class_locked(struct hak_heap *heap, unsigned cls)
{
    heap->used.bits[cls / 64] |= UINT64_C(1) << cls % 64;
}

/* The first used class from `cls` on; HAK_CLASSES if there is none. Most heaps use few, and what a
 * heap knows of a class is a cache line. */
static inline unsigned hak_heap_next_used_locked(const struct hak_heap *heap, unsigned cls)
{
    for (; cls < HAK_CLASSES; cls = (cls / 64 + 1) * 64) {
        uint64_t used = heap->used.bits[cls / 64] >> cls % 64;
        if (used != 0)
            return cls + hak_ctz64(used);
    }
    return HAK_CLASSES;
}

/* The heap's lock, unless what it guards is beyond repair: see hak_cache_fork_child. */
static inline bool hak_heap_lock_whole(struct hak_heap *heap)
{
    if (hak_load_relaxed(&heap->lost))
        return false;
    hak_lock(&heap->lock);
    return true;
}

static inline bool hak_heap_try_lock_whole(struct hak_heap *heap)
{
    return !hak_load_relaxed(&heap->lost) && hak_try_lock(&heap->lock);
}

static inline struct hak_heap *hak_home(const struct hak_heap *heap)
{
    return hak_load_relaxed(&heap->home);
}

static inline bool hak_home_is_shared(const struct hak_heap *home)
{
    return hak_load_relaxed(&home->guests) != 0;
}

/* The lock that guards the heap's bins and its choice of classes: its home's, which is returned;
 * NULL: what that guards is beyond repair. The home may change until the lock is held. */
struct hak_heap *hak_heap_lock_home(struct hak_heap *heap);
/* NULL also when somebody holds the lock. */
struct hak_heap *hak_heap_try_lock_home(struct hak_heap *heap);

/* The same for the heap's own thread, which moves on if its home has moved. */
struct hak_heap *hak_homes_follow_slow_locked(struct hak_heap *heap, struct hak_heap *home);

static inline struct hak_heap *hak_heap_lock_owner(struct hak_heap *heap)
{
    struct hak_heap *home = hak_home(heap);
    hak_lock(&home->lock);
    return HAK_LIKELY(home->moved_to == NULL) ? home : hak_homes_follow_slow_locked(heap, home);
}

/* Moves a slab to the list that fits its room, or releases it when no block is in use. */
void hak_heap_settle_slow_locked(struct hak_heap *heap, struct hak_slab *s);

static inline void hak_heap_settle_locked(struct hak_heap *heap, struct hak_slab *s)
{
    if (hak_slab_used_blocks(s) == 0 || hak_heap_list_for(s) != s->list)
        hak_heap_settle_slow_locked(heap, s);
}

/* The same where blocks have only become free. */
static inline void hak_heap_settle_freed_locked(struct hak_heap *heap, struct hak_slab *s)
{
    if (hak_load_relaxed(&s->free_blocks) >= s->settle_free)
        hak_heap_settle_slow_locked(heap, s);
}

/* The next block, if there is one, is of the same slab. */
static inline bool hak_heap_is_streak(void *const *at, void *const *end, uintptr_t slab_mask)
{
    return at + 1 < end && (((uintptr_t)at[0] ^ (uintptr_t)at[1]) & slab_mask) == 0;
}

/* The block at `at`, of class c, goes back to its slab, and those behind it, up to `end`, that are
 * the slab's too; how many those are. */
HAK_ALWAYS_INLINE unsigned hak_heap_put_locked(struct hak_heap *heap, struct hak_slab *s,
                                               const struct hak_class *c, uintptr_t slab_mask,
                                               void **at, void **end)
{
    unsigned put = 1;
    if (hak_heap_is_streak(at, end, slab_mask))
        put = hak_slab_put_streak_owner(s, c, at, (unsigned)(end - at));
    else
        hak_slab_put_owner(s, c, *at);
    if (HAK_UNLIKELY(put == 0))
        hak_slab_no_block(s->cls, *at);
    hak_heap_settle_freed_locked(heap, s);
    return put;
}

/* hak_slab_take_owner for a slab of the heap. */
static inline unsigned hak_heap_take_locked(struct hak_heap *heap, struct hak_slab *s, void **out,
                                            unsigned most, bool *fresh_zero)
{
    heap->free_bytes -= hak_slab_free_bytes(s);
    unsigned blocks = hak_slab_take_owner(s, out, most, fresh_zero);
    heap->free_bytes += hak_slab_free_bytes(s);
    return blocks;
}

/* Makes the heap the owner of a slab that nobody owns or whose owner's lock is held too. */
void hak_heap_own_locked(struct hak_heap *heap, struct hak_slab *s);
/* The slab leaves the heap's lists; the caller gives it its next owner, or none. */
void hak_heap_disown_locked(struct hak_heap *heap, struct hak_slab *s);
/* The fullest slab of a class that has room; NULL if there is none. */
struct hak_slab *hak_heap_pick_locked(const struct hak_heap *heap, unsigned cls);
/* A slab with room from the heap itself, from an ended thread, or from the pool. NULL: out of
 * memory. */
struct hak_slab *hak_heap_find_slab_locked(struct hak_heap *heap, unsigned cls);
/* Takes the inbox and returns its blocks to their slabs. */
void hak_heap_collect_locked(struct hak_heap *heap);
/* The same of the heap's home by the owner, whose bins, if the home has no guests, take what has no
 * neighbour, as far as they have room. */
void hak_heap_collect_owner_locked(struct hak_heap *heap);
/* Gives back all messages that do not hold blocks. */
void hak_heap_free_messages_owner_locked(struct hak_heap *heap);
/* Any thread: the same for a heap that has something in its inbox and is not locked. */
bool hak_heap_try_collect_any(struct hak_heap *heap);
/* The same for each heap. */
void hak_heaps_try_collect_any(void);
/* Blocks have become free in the heap's slabs. Gives back what is too much. */
void hak_heap_freed_locked(struct hak_heap *heap, size_t bytes);
/* So many blocks are free that pages go back. */
bool hak_heap_is_emptying_locked(struct hak_heap *heap);
/* Gives back a portion of the pages that are free, if there is one left or it is due again. */
void hak_heap_purge_busy_locked(struct hak_heap *heap, bool due);
/* The heap is about to take so much from the pool. Gives back what is too much. */
void hak_heap_grows_locked(struct hak_heap *heap, size_t bytes);
/* A slab that was purged is used again; any thread. */
void hak_heap_regret_purge(const struct hak_slab *s);
/* A slab that was purged is free as a whole; any thread. */
void hak_heap_emptied_purged(const struct hak_slab *s);
void hak_heap_forget_regret(void);
/* A tick: gives back free pages of slabs in which nothing has changed since they were looked at
 * last, those of some classes in turn, a portion of them. */
void hak_heap_purge_idle_locked(struct hak_heap *heap);
/* A slab leaves its list: no walk goes on with it. */
void hak_heap_leaves_walks_locked(struct hak_heap *heap, const struct hak_slab *s);
/* Returns the `count` oldest blocks of a bin to their slabs. Those of slabs that were taken over by
 * another heap are sent there; they stay if there is no memory for that. */
void hak_heap_drain_locked(struct hak_heap *heap, unsigned cls, unsigned count);

/* Any thread: takes a heap's inbox and sends each message anew. */
void hak_inbox_forward_any(struct hak_heap *heap);
void hak_outbox_flush(struct hak_heap *heap);
/* Owner, the lock may be held: a block of another heap's slab joins those that wait to be sent.
 * False: there is no memory. */
bool hak_outbox_try_add(struct hak_heap *heap, uint32_t entry, void *p);

/* Ends the process if the newest block of a bin is in it twice in a row. */
static inline void hak_bin_refuse_twice(struct hak_heap *heap, unsigned kind)
{
    void *const *top = hak_load_relaxed(&hak_bin_of_kind(&heap->front, kind)->top);
    if (HAK_UNLIKELY(*top != NULL) && *top == top[-1])
        hak_misuse(HAK_DOUBLE_FREE, *top,
                   (kind >= HAK_KIND_METERED ? kind - HAK_KIND_METERED : kind) / 2);
}

/* Of a block in a bin whose slab is not of the heap's home: what the map says there. Ends the
 * process if the slab went, which it does not while one of its blocks is in a bin once. */
static inline void hak_bin_refuse_gone(const void *p, unsigned cls, uint32_t entry)
{
    if (HAK_UNLIKELY(entry >> HAK_TAG_SHIFT == 0 || (entry & HAK_KIND_MASK) != cls * 2))
        hak_misuse(HAK_DOUBLE_FREE, p, cls);
}

/* Of a class of the first HAK_METERED_CLASSES. */
static inline struct hak_bin *hak_metered_bin(struct hak_heap *heap, unsigned cls)
{
    return &heap->front.bins[HAK_KIND_METERED / 2 + cls];
}

/* The newest block of a bin, or NULL: there is none. */
static inline void *hak_bin_take(struct hak_heap *heap, unsigned kind)
{
    void *p = hak_cache_pop(&heap->front, kind);
    if (HAK_UNLIKELY(p == NULL))
        hak_bin_refuse_twice(heap, kind);
    return p;
}

/* Returns what a metered bin holds to the bin of the class, as far as that has room. True: the bin
 * has got some. */
bool hak_heap_unmeter_owner(struct hak_heap *heap, unsigned cls);
unsigned hak_metered_blocks(struct hak_heap *heap, unsigned cls);

/* The bin that malloc pops from is empty: see order.c. */
void hak_order_note_refill_locked(struct hak_heap *heap, unsigned cls);

/* --- how large a bin is: bin_size.c --- */

/* The class's first stack. */
void hak_bin_begin_locked(struct hak_heap *heap, unsigned cls);
/* The bin is empty, or has just been drained: it begins or grows, or becomes small where slabs are
 * thin. */
void hak_bin_fit_refill_locked(struct hak_heap *heap, unsigned cls);
void hak_bin_fit_overflow_locked(struct hak_heap *heap, unsigned cls, bool thin);
/* Much of the heap is free, and several slabs of the class are thin. */
bool hak_bin_is_thin_locked(const struct hak_heap *heap, unsigned cls);
/* An empty bin: to the smallest capacity that has a stack of its own. */
void hak_bin_shrink_locked(struct hak_heap *heap, unsigned cls);
/* The bin may become larger: as if much was allocated in a row. */
void hak_bin_grow_owner(struct hak_heap *heap, unsigned cls);

/* Sizes that are still in classes of powers of two go to those of a quarter of a doubling. */
void hak_heap_place_quarters_locked(struct hak_heap *heap);
/* The class has taken fresh memory. */
void hak_heap_carved_locked(struct hak_heap *heap, unsigned cls);
/* Brings what malloc looks at in line with the true kinds and the watched classes. */
void hak_heap_show_kinds_locked(struct hak_heap *heap);
/* Brings the table of all threads in line with the watched classes. The registry's lock is held. */
void hak_watch_close_locked(void);

/* A thread starts with the heap: makes it a home, or says whose guest it shall be
 * (hak_homes_move_in). The registry's lock is held. */
struct hak_heap *hak_homes_find_locked(struct hak_heap *heap);
/* The heap has no slabs and its bins are empty. The caller holds no lock; as below. */
void hak_homes_move_in(struct hak_heap *heap, struct hak_heap *home);
/* The heap's thread has ended, and its bins are empty: it is nobody's guest any more. Returns the
 * heaps that are nobody's home now and may be given away with their slabs: the heap itself, and the
 * one whose last guest it was; NULL: none. */
struct hak_homes_left {
    struct hak_heap *heap, *home;
};
struct hak_homes_left hak_homes_leave(struct hak_heap *heap);
/* The heap's thread frees many blocks of this home's: if they exchange so many that it pays, both
 * homes become one. */
void hak_homes_weigh_owner(struct hak_heap *heap, struct hak_heap *other);
/* Homes that became one are not held against threads that begin for ever. */
void hak_homes_forget(void);
void hak_homes_fork_child(void);

/* Abandons the heaps whose threads a fork left behind. The caller holds no lock. */
void hak_registry_bury(void);

/* Both heaps' locks are held. */
void hak_heap_move_slabs_locked(struct hak_heap *from, struct hak_heap *to);
/* A thread's own heap, from its start to its end: heap->thread is set. */
void hak_by_thread_add_locked(struct hak_heap *heap);
/* Before heap->thread changes; nothing, of a heap that was not added. */
void hak_by_thread_remove_locked(struct hak_heap *heap);
/* False: no thread with this pointer has a heap. */
bool hak_by_thread_may_have(uintptr_t thread);
struct hak_heap *hak_by_thread_find_locked(uintptr_t thread);

/* NULL: there is no memory, or there are too many. */
struct hak_heap *hak_registry_new_heap_locked(void);
/* Puts a heap that has no thread into one of the registry's lists, whose lock is held. */
void hak_registry_put_locked(_Atomic(struct hak_heap *) *list, struct hak_heap *heap);

/* Heaps of threads that ended are kept as they are for the next threads: see threads.c. */
static inline bool hak_registry_has_kept(void)
{
    return hak_load_relaxed(&hak_registry.kept) != NULL;
}

/* Locks one of them that has room in a slab of the class, after what their bins have of it went
 * back. NULL: there is none, or somebody changes the list. It may have a thread again meanwhile. */
struct hak_heap *hak_registry_lock_kept_with(unsigned cls);
/* Abandons all of them. The caller holds no lock. */
void hak_registry_give_kept(void);

static inline unsigned hak_bin_blocks(struct hak_heap *heap, unsigned cls)
{
    void **stack = heap->classes[cls].stack;
    return stack == NULL ? 0 : (unsigned)(hak_load_relaxed(&heap->front.bins[cls].top) - stack);
}
