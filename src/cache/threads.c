/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: heaps and threads: start and end. Heaps are never unmapped: when a thread ends, its
 * slabs go to the shared heap and the heap itself waits for the next thread, so a late visitor
 * always reads a valid heap.
 *
 * The last few keep their slabs at first, small ones their full bins too, and the next threads go
 * on with them: to empty and fill them again for each thread costs more than a short task's own
 * blocks, and what threads with many sizes leave behind would be moved slab by slab, and in memory
 * several times. A thread that finds no slab takes one of theirs before it takes one from the pool.
 * The oldest goes to the shared heap when there are too many, and at each tick.
 *
 * Lock order: heaps (the shared ones last), then the registry's, the pool's, the window's, the
 * records'. */
#include "cache/cache_internal.h"
#include "large/large.h"

#include <errno.h>
#include <string.h>

#define TAG_MAX 0xFFFFF0u
#define KEPT_HEAPS 4u
/* A heap that is kept has no more in its bins, and nothing if it has more in slabs: each block in a
 * bin may pin a slab. */
#define KEPT_MOST_BIN_BYTES ((size_t)256 << 10)
#define KEPT_MOST_SLAB_BYTES ((size_t)8 << 20)

static void *no_blocks[2];

#define BIN_CLOSED {.top = &no_blocks[1], .limit = NULL} /* top >= limit: full */
/* The kinds that malloc finds for a thread without a heap: 0 for tiny sizes, as its own table of
 * those is empty, and what the table of all threads names for the others. (Each bin more is a
 * relocation when the library is loaded.) */
#define BINS_CLOSED {[0] = BIN_CLOSED, [HAK_METERED_CLASSES... HAK_CLASSES] = BIN_CLOSED}

/* Tags that no heap has. */
struct hak_front hak_front_none HAK_RELOCATED = {.tag = 0xFFFFFFu << HAK_TAG_SHIFT,
                                                 .bins = BINS_CLOSED};
struct hak_front hak_front_shared HAK_RELOCATED = {.tag = 0xFFFFFEu << HAK_TAG_SHIFT,
                                                   .bins = BINS_CLOSED};
__thread struct hak_front *hak_self __attribute__((tls_model("initial-exec"))) = &hak_front_none;
struct hak_heap *hak_orphans;
_Atomic(struct hak_heap *) hak_group_orphans[HAK_GROUPS - 1];

struct hak_registry hak_registry;

struct hak_heap *hak_registry_new_heap_locked(void)
{
    uint32_t tag = hak_load_relaxed(&hak_registry.last_tag) + 1;
    if (tag > TAG_MAX)
        return NULL;
    bool fresh;
    struct hak_heap *heap = hak_meta_alloc_or_fresh(sizeof *heap, &fresh);
    if (heap == NULL)
        return NULL;
    memset(heap, 0,
           fresh ? offsetof(struct hak_heap, classes) : offsetof(struct hak_heap, stack_arena));
    heap->tag = heap->front.tag = tag << HAK_TAG_SHIFT;
    hak_store_relaxed(&heap->home, heap);
    hak_store_relaxed(&hak_registry.last_tag, tag);
    for (size_t i = 0; i < HAK_TINY_KINDS; i++)
        hak_store_relaxed(&heap->front.tiny_true[i], hak_tables.coarse_kind[i]);
    hak_heap_show_kinds_locked(heap); /* nobody else knows the heap */
    for (unsigned cls = 0; cls < HAK_BINS; cls++)
        heap->front.bins[cls] = (struct hak_bin)BIN_CLOSED;
    heap->next_heap = hak_load_relaxed(&hak_registry.all);
    hak_store_release(&hak_registry.all, heap); /* ORDER: [heap-list] walkers see a whole heap */
    return heap;
}

void hak_cache_refresh(struct hak_heap *heap)
{
    heap->front.base = hak_load_relaxed(&hak_space.base);
    heap->front.map = hak_load_relaxed(&hak_space.map);
    heap->front.slots = hak_load_relaxed(&hak_space.slots);
}

struct hak_heap *hak_cache_first_heap(void)
{
    return hak_load_acquire(&hak_registry.all); /* ORDER: [heap-list] */
}

int hak_cache_start(void)
{
    if (hak_orphans == NULL)
        hak_orphans = hak_registry_new_heap_locked();
    return hak_orphans == NULL ? ENOMEM : 0;
}

/* Takes the first heap out of a list, `last` the last one; NULL if there is none. A fork may come
 * between any two steps here: in its child a heap is then in no list, and what it holds is lost.
 * What a fork has left half changed is left alone. */
static struct hak_heap *registry_take_locked(_Atomic(struct hak_heap *) *list, bool last)
{
    struct hak_heap *before = NULL;
    struct hak_heap *heap = hak_load_relaxed(list);
    for (; last && heap != NULL && heap->next_free != NULL; heap = heap->next_free)
        before = heap;
    if (heap == NULL)
        return NULL;
    if (before != NULL)
        before->next_free = heap->next_free;
    else
        hak_store_relaxed(list, heap->next_free);
    return hak_load_relaxed(&heap->lost) ? registry_take_locked(list, last) : heap;
}

static void threads_begin(struct hak_heap *heap, enum hak_group group)
{
    hak_cache_refresh(heap);
    heap->end_rounds = 0;
    heap->can_do_without = false;
    hak_store_relaxed(&heap->group, (uint8_t)group);
    heap->unwatched_bytes = 0;
    struct hak_heap *home = hak_heap_lock_home(heap);
    if (home != NULL) { /* a fork may have come between a change and this heap */
        hak_heap_show_kinds_locked(heap);
        hak_unlock(&home->lock);
    }
}

static struct hak_heap *registry_take_heap(enum hak_group group)
{
    bool alone = group != HAK_GROUP_SHORT;
    struct hak_heap *home = NULL;
    hak_lock(&hak_registry.lock);
    struct hak_heap *heap = alone ? NULL : registry_take_locked(&hak_registry.kept, false);
    if (heap == NULL && !alone)
        heap = registry_take_locked(&hak_registry.vacant, false);
    if (heap == NULL)
        heap = registry_take_locked(&hak_registry.free, false);
    if (heap == NULL)
        heap = hak_registry_new_heap_locked();
    if (heap != NULL) {
        hak_store_relaxed(&heap->thread, hak_os_this_thread());
        if (!alone) {
            hak_by_thread_add_locked(heap);
            home = hak_homes_find_locked(heap);
        }
    }
    hak_unlock(&hak_registry.lock);
    if (heap == NULL)
        return NULL;
    if (home != NULL)
        hak_homes_move_in(heap, home);
    threads_begin(heap, group);
    return heap;
}

struct hak_heap *hak_cache_thread_start(void)
{
    return registry_take_heap(HAK_GROUP_SHORT);
}

struct hak_heap *hak_cache_thread_take_over(void)
{
    uintptr_t thread = hak_os_this_thread();
    if (!hak_by_thread_may_have(thread))
        return NULL;
    hak_lock(&hak_registry.lock);
    struct hak_heap *heap = hak_by_thread_find_locked(thread);
    hak_unlock(&hak_registry.lock);
    if (heap != NULL)
        threads_begin(heap, HAK_GROUP_SHORT);
    return heap;
}

HAK_COLD struct hak_heap *hak_cache_group_heap_slow(struct hak_heap *heap, enum hak_group group)
{
    heap->group_heaps[group - 1] = registry_take_heap(group);
    return heap->group_heaps[group - 1];
}

void hak_heap_move_slabs_locked(struct hak_heap *from, struct hak_heap *to)
{
    for (unsigned cls = 0; (cls = hak_heap_next_used_locked(from, cls)) < HAK_CLASSES; cls++) {
        for (unsigned list = 0; list < HAK_LISTS; list++) {
            struct hak_slab *s;
            while ((s = from->classes[cls].lists[list]) != NULL) {
                hak_heap_disown_locked(from, s);
                hak_heap_own_locked(to, s);
            }
        }
    }
}

/* For the heap's next thread. */
static void threads_begin_anew_locked(struct hak_heap *heap)
{
    for (unsigned cls = 0; (cls = hak_heap_next_used_locked(heap, cls)) < HAK_CLASSES; cls++) {
        heap->classes[cls].begun = heap->classes[cls].volume = 0;
        heap->classes[cls].borrow_blocks = 0;
    }
}

/* Nobody's: it has no thread, and is in no list of those that wait for one. */
static struct hak_heap *registry_make_group_orphans(unsigned group)
{
    hak_lock(&hak_registry.lock);
    struct hak_heap *orphans = hak_orphans_of_group(group); /* somebody else may have made it */
    if (orphans == NULL)
        orphans = registry_take_locked(&hak_registry.free, false);
    if (orphans == NULL)
        orphans = hak_registry_new_heap_locked();
    if (orphans != NULL) {
        hak_store_relaxed(&orphans->group, (uint8_t)group);
        /* ORDER: [group-orphans] the heap is whole */
        hak_store_release(&hak_group_orphans[group - 1], orphans);
    }
    hak_unlock(&hak_registry.lock);
    return orphans;
}

static struct hak_heap *threads_orphans_for(const struct hak_heap *heap)
{
    unsigned group = hak_load_relaxed(&heap->group);
    struct hak_heap *orphans = hak_orphans_of_group(group);
    if (orphans == NULL)
        orphans = registry_make_group_orphans(group);
    return orphans != NULL ? orphans : hak_orphans;
}

/* To the shared heap of the group. */
static void threads_give_slabs(struct hak_heap *heap)
{
    struct hak_heap *orphans = threads_orphans_for(heap);
    hak_lock(&heap->lock);
    hak_lock(&orphans->lock);
    hak_heap_move_slabs_locked(heap, orphans);
    hak_unlock(&orphans->lock);
    hak_unlock(&heap->lock);
    hak_inbox_forward_any(heap); /* what was sent before the slabs had their new owner */
    hak_cache_collect_orphans();
}

void hak_registry_put_locked(_Atomic(struct hak_heap *) *list, struct hak_heap *heap)
{
    hak_by_thread_remove_locked(heap);
    hak_store_relaxed(&heap->thread, (uintptr_t)0);
    heap->next_free = hak_load_relaxed(list);
    hak_store_relaxed(list, heap);
}

static void registry_free_heap(struct hak_heap *heap)
{
    if (heap == NULL)
        return;
    threads_give_slabs(heap);
    hak_lock(&hak_registry.lock);
    hak_registry_put_locked(&hak_registry.free, heap);
    hak_unlock(&hak_registry.lock);
}

static void registry_give_heap(struct hak_heap *heap)
{
    hak_cache_flush(heap);
    struct hak_heap *home = hak_heap_lock_owner(heap);
    threads_begin_anew_locked(heap);
    hak_heap_free_messages_owner_locked(heap);
    hak_unlock(&home->lock);
    struct hak_homes_left left = hak_homes_leave(heap);
    registry_free_heap(left.heap);
    registry_free_heap(left.home);
}

static void registry_give_oldest_kept(void)
{
    hak_lock(&hak_registry.lock);
    struct hak_heap *heap = registry_take_locked(&hak_registry.kept, true);
    if (heap != NULL) /* as in registry_next_dead */
        hak_store_relaxed(&heap->thread, hak_os_this_thread());
    hak_unlock(&hak_registry.lock);
    if (heap != NULL)
        registry_give_heap(heap);
}

struct hak_heap *hak_registry_lock_kept_with(unsigned cls)
{
    struct hak_heap *found = NULL;
    if (!hak_registry_has_kept() || !hak_try_lock(&hak_registry.lock))
        return NULL;
    for (struct hak_heap *h = hak_load_relaxed(&hak_registry.kept); h != NULL && found == NULL;
         h = h->next_free) {
        if (hak_load_relaxed(&h->slabs) == 0 || !hak_heap_try_lock_whole(h))
            continue;
        /* No thread can have the heap, and touch its bins, while it is in the list. */
        hak_heap_drain_locked(h, cls, hak_bin_blocks(h, cls));
        hak_heap_collect_locked(h);
        if (hak_heap_pick_locked(h, cls) != NULL)
            found = h;
        else
            hak_unlock(&h->lock);
    }
    hak_unlock(&hak_registry.lock);
    return found;
}

void hak_registry_give_kept(void)
{
    for (unsigned i = 0; i < KEPT_HEAPS && hak_registry_has_kept(); i++)
        registry_give_oldest_kept();
}

static size_t threads_bin_bytes(struct hak_heap *heap)
{
    size_t bytes = 0;
    for (unsigned cls = 0; (cls = hak_heap_next_used_locked(heap, cls)) < HAK_CLASSES; cls++)
        bytes += hak_bin_blocks(heap, cls) * (size_t)hak_class(cls)->size_bytes;
    return bytes;
}

static void threads_make_ready(struct hak_heap *heap)
{
    struct hak_heap *home = hak_heap_lock_owner(heap);
    bool holds_much = (home == heap && home->slab_bytes > KEPT_MOST_SLAB_BYTES) ||
                      threads_bin_bytes(heap) > KEPT_MOST_BIN_BYTES;
    threads_begin_anew_locked(heap);
    hak_unlock(&home->lock);
    if (holds_much)
        hak_cache_flush(heap);
}

static void registry_keep_heap(struct hak_heap *heap)
{
    unsigned kept = 1;
    hak_outbox_flush(heap);
    hak_lock(&hak_registry.lock);
    hak_registry_put_locked(&hak_registry.kept, heap);
    for (const struct hak_heap *h = heap->next_free; h != NULL; h = h->next_free)
        kept++;
    hak_unlock(&hak_registry.lock);
    if (kept > KEPT_HEAPS)
        registry_give_oldest_kept();
}

static void threads_give_group_heaps(struct hak_heap *heap)
{
    for (unsigned i = 0; i < HAK_GROUPS - 1; i++) {
        if (heap->group_heaps[i] != NULL)
            registry_give_heap(heap->group_heaps[i]);
        heap->group_heaps[i] = NULL;
    }
}

void hak_cache_thread_end(struct hak_heap *heap)
{
    threads_give_group_heaps(heap);
    threads_make_ready(heap);
    registry_keep_heap(heap);
}

void hak_cache_tick_any(void)
{
    static _Atomic(uint64_t) next_ns;
    hak_pool_tick_any();
    uint64_t now = hak_os_now_ns();
    uint64_t next = hak_load_relaxed(&next_ns);
    if (now < next || !hak_cas_relaxed(&next_ns, &next, now + HAK_TICK_NS) || next == 0)
        return; /* 0: the first look at the clock */
    static _Atomic(uint32_t) ticks;
    uint64_t ticks_a_round = hak_load_relaxed(&hak_cache_knobs.idle_ticks);
    if (hak_add_relaxed(&ticks, 1u) % ticks_a_round == 0) {
        hak_heap_forget_regret();
        hak_homes_forget();
    }
    if (hak_registry_has_kept())
        registry_give_oldest_kept();
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        hak_heap_try_collect_any(h);
        if (hak_load_relaxed(&h->slabs) != 0 && hak_heap_try_lock_whole(h)) {
            hak_heap_purge_idle_locked(h);
            hak_unlock(&h->lock);
        }
    }
    hak_large_tick_any();
}

/* NULL: from the last one that was found on there is none; the next time the search begins anew. */
static struct hak_heap *registry_next_dead(void)
{
    static struct hak_heap *from; /* under the registry's lock; NULL: the first */
    hak_lock(&hak_registry.lock);
    struct hak_heap *h = from != NULL ? from : hak_cache_first_heap();
    while (h != NULL && !h->dead)
        h = h->next_heap;
    from = h;
    if (h != NULL) {
        /* This thread's from now on: if a signal handler forks before it is buried, the heap
         * counts as one that the child's own thread was working on, and is left alone there. */
        hak_by_thread_remove_locked(h);
        hak_store_relaxed(&h->thread, hak_os_this_thread());
        h->dead = false;
        hak_sub_relaxed(&hak_registry.dead, 1u);
    }
    hak_unlock(&hak_registry.lock);
    return h;
}

void hak_registry_bury(void)
{
    while (HAK_UNLIKELY(hak_load_relaxed(&hak_registry.dead) != 0)) {
        struct hak_heap *heap = registry_next_dead();
        if (heap == NULL)
            return;
        /* It may have been sent in part when the process forked: what waits there is lost, at most
         * 64 KiB. */
        memset(heap->outbox, 0, sizeof heap->outbox);
        threads_give_group_heaps(heap);
        registry_give_heap(heap);
    }
}

void *hak_cache_shared_alloc(unsigned cls, bool *zero)
{
    void *out[1] = {NULL};
    hak_registry_bury();
    hak_lock(&hak_orphans->lock);
    hak_heap_collect_locked(hak_orphans);
    struct hak_slab *s = hak_heap_find_slab_locked(hak_orphans, cls);
    if (s != NULL) {
        hak_heap_take_locked(hak_orphans, s, out + 1, 1, zero);
        hak_heap_settle_locked(hak_orphans, s);
    }
    hak_unlock(&hak_orphans->lock);
    return out[0];
}

/* --- what is in use --- */

static void threads_add_usage_locked(struct hak_heap *heap, struct hak_cache_usage *u,
                                     size_t class_bin_blocks[HAK_CLASSES])
{
    for (unsigned cls = 0; (cls = hak_heap_next_used_locked(heap, cls)) < HAK_CLASSES; cls++) {
        size_t size = hak_class(cls)->size_bytes;
        size_t in_bin = hak_bin_blocks(heap, cls) + hak_metered_blocks(heap, cls);
        size_t used = 0;
        for (unsigned list = 0; list < HAK_LISTS; list++) {
            for (struct hak_slab *s = heap->classes[cls].lists[list]; s != NULL; s = s->next) {
                used += hak_slab_used_blocks(s);
                u->class_slabs[cls]++;
                u->slabs++;
                u->slab_bytes += hak_class(cls)->slots * HAK_SLOT_BYTES;
            }
        }
        u->bin_blocks += in_bin;
        u->bin_bytes += in_bin * size;
        class_bin_blocks[cls] += in_bin;
        u->class_used_blocks[cls] += used;
    }
}

void hak_cache_usage(struct hak_cache_usage *out)
{
    size_t class_bin_blocks[HAK_CLASSES] = {0};
    memset(out, 0, sizeof *out);
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        struct hak_heap *home = hak_heap_lock_home(h);
        if (home == NULL)
            continue;
        threads_add_usage_locked(h, out, class_bin_blocks);
        hak_unlock(&home->lock);
        out->heaps += hak_load_relaxed(&h->thread) != 0;
        hak_lock_add_counts(&h->lock, &out->heap_locks);
        hak_cache_add_counts(h, out);
    }
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) { /* bins are read while their threads run */
        out->class_used_blocks[cls] -= hak_min(class_bin_blocks[cls], out->class_used_blocks[cls]);
        out->used_blocks += out->class_used_blocks[cls];
        out->used_bytes += out->class_used_blocks[cls] * hak_class(cls)->size_bytes;
    }
    hak_lock_add_counts(&hak_registry.lock, &out->registry_lock);
}
