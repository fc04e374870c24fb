/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: homes: whose slabs a thread uses. A heap with slabs of its own is a home. The first
 * threads of a process have one each; when there are twice as many as processors (see
 * homes_may_be_more_locked), the next ones are guests of these: their bins are their own, but are
 * filled from the home's slabs, under its lock, and what is freed of those goes back there the same
 * way. A slab and the free blocks in it then wait for whichever of some threads runs, not for one
 * among many that do not.
 *
 *   thread 1   thread 2   thread 3   thread 4        2 homes, so that a lock has 2 threads
 *    bins       bins       bins       bins           of which one runs
 *      \         /           \         /
 *       home 1's slabs        home 2's slabs
 *
 * A home's thread may end before its guests do. Then the heap waits for the next thread with its
 * slabs; when its last guest goes first, the slabs go to the shared heap.
 *
 * Threads that free each other's blocks all the time are better off in one home, where no block is
 * another's: no messages, and what is free is there for all of them. So a thread that sends more
 * than a few blocks to another home for each time that it refills or empties a bin makes both homes
 * one, as long as not too many threads that run at once would share a lock. (Threads that exchange
 * nothing are better off apart: they wait for each other's locks and cache lines otherwise.) The
 * slabs move at once, those who were at the home when they next come by. */
#include "cache/cache_internal.h"

#define HOMES_MANY 32u    /* on many processors one of them each will do */
#define HOMES_ANYWAY 2u   /* so many need not know how many processors there are */
#define HOME_RUNNING 4u   /* threads of one home that run at once, when homes become one */
#define EXCHANGE_SHARE 4u /* blocks sent, for each time that a bin is refilled or emptied */
#define EXCHANGE_REFUSED_MOST 10u

/* Under the registry's lock. */
static struct {
    unsigned count, merged, processors;
    struct hak_heap *of[HAK_HOMES_MOST];
} homes;

static unsigned homes_processors_locked(void)
{
    if (homes.processors == 0)
        homes.processors = hak_os_processors();
    return homes.processors;
}

/* Those that became one count as before, so that threads that begin do not make new ones. */
static bool homes_may_be_more_locked(void)
{
    unsigned count = homes.count + homes.merged;
    unsigned set = hak_load_relaxed(&hak_cache_knobs.homes);
    if (homes.count == 0 || (set == 0 && count < HOMES_ANYWAY))
        return true;
    if (set != 0)
        return count < hak_min(set, HAK_HOMES_MOST);
    homes.processors = hak_os_processors(); /* each thread may be bound to one of its own */
    size_t some = hak_min(homes.processors * 2, HOMES_MANY);
    return count < hak_min(hak_max(homes.processors, some), HAK_HOMES_MOST);
}

/* A quarter of a page. NULL: there is no memory for it. */
static char *homes_few_stacks_locked(void)
{
    struct hak_registry *r = &hak_registry;
    if (r->few_left_bytes == 0) {
        char *page = hak_meta_alloc(HAK_PAGE_BYTES);
        if (page == NULL)
            return NULL;
        r->few_stacks = page;
        r->few_left_bytes = HAK_PAGE_BYTES;
    }
    r->few_left_bytes -= HAK_FEW_STACKS_BYTES;
    return r->few_stacks + r->few_left_bytes;
}

static unsigned homes_threads_locked(const struct hak_heap *home)
{
    return hak_load_relaxed(&home->guests) + !home->vacant;
}

static void homes_add_guests_locked(struct hak_heap *home, unsigned count)
{
    hak_count_owner(&home->guests, count);
}

/* The one with the fewest threads. Not one that a signal handler which forked has interrupted. */
static struct hak_heap *homes_choose_locked(void)
{
    struct hak_heap *best = NULL;
    for (unsigned i = 0; i < homes.count; i++) {
        struct hak_heap *h = homes.of[i];
        if ((best == NULL || homes_threads_locked(h) < homes_threads_locked(best)) &&
            !hak_lock_is_mine(&h->lock))
            best = h;
    }
    return best;
}

struct hak_heap *hak_homes_find_locked(struct hak_heap *heap)
{
    heap->vacant = false;
    if (heap->is_home || hak_home(heap) != heap || heap->moved_to != NULL) /* kept as it was */
        return NULL;
    struct hak_heap *home = homes_may_be_more_locked() ? NULL : homes_choose_locked();
    if (home != NULL) {
        homes_add_guests_locked(home, 1);
        if (heap->arena_used_bytes == 0 && heap->few_stacks == NULL)
            heap->few_stacks = homes_few_stacks_locked();
        return home;
    }
    if (homes.count < HAK_HOMES_MOST) {
        homes.of[homes.count++] = heap;
        heap->is_home = true;
    }
    return NULL;
}

/* Whoever looks at the bins holds the old home's lock, or the new one's; so does the caller, with
 * the old one's. */
static void homes_change_locked(struct hak_heap *heap, struct hak_heap *to)
{
    heap->front.tag = to->tag;
    /* ORDER: [heap-home] who finds this under the new home's lock sees what was written under the
     * old one's */
    hak_store_release(&heap->home, to);
}

/* The lock of what was the heap's home is held, and is let go if that is another one now. */
static bool homes_is_still_home(struct hak_heap *heap, struct hak_heap *home)
{
    bool still = hak_load_acquire(&heap->home) == home; /* ORDER: [heap-home] */
    if (!still)
        hak_unlock(&home->lock);
    return still;
}

struct hak_heap *hak_heap_lock_home(struct hak_heap *heap)
{
    struct hak_heap *home;
    do {
        home = hak_home(heap);
        if (!hak_heap_lock_whole(home))
            return NULL;
    } while (!homes_is_still_home(heap, home));
    return home;
}

struct hak_heap *hak_heap_try_lock_home(struct hak_heap *heap)
{
    struct hak_heap *home = hak_home(heap);
    return hak_heap_try_lock_whole(home) && homes_is_still_home(heap, home) ? home : NULL;
}

void hak_homes_move_in(struct hak_heap *heap, struct hak_heap *home)
{
    hak_lock(&heap->lock);
    hak_heap_place_quarters_locked(heap);
    homes_change_locked(heap, home);
    hak_unlock(&heap->lock);
}

static void homes_remove_locked(struct hak_heap *home)
{
    home->is_home = false;
    for (unsigned i = 0; i < homes.count; i++)
        if (homes.of[i] == home)
            homes.of[i--] = homes.of[--homes.count];
}

/* Takes it out of the list of those that wait for a thread. */
static void homes_forget_vacant_locked(const struct hak_heap *home)
{
    _Atomic(struct hak_heap *) *at = &hak_registry.vacant;
    struct hak_heap *h = hak_load_relaxed(at);
    if (h == home) {
        hak_store_relaxed(at, h->next_free);
        return;
    }
    for (; h != NULL; h = h->next_free)
        if (h->next_free == home)
            h->next_free = home->next_free;
}

/* --- two homes become one --- */

/* Both homes' locks and the registry's are held. */
static bool homes_may_merge_locked(const struct hak_heap *a, const struct hak_heap *b)
{
    if (hak_load_relaxed(&hak_cache_knobs.homes) != 0 || !a->is_home || !b->is_home ||
        a->moved_to != NULL || b->moved_to != NULL)
        return false;
    unsigned threads = 0;
    for (unsigned i = 0; i < homes.count; i++)
        threads += homes_threads_locked(homes.of[i]);
    size_t for_each = hak_max(threads / homes_processors_locked(), 1);
    return homes_threads_locked(a) + homes_threads_locked(b) <= HOME_RUNNING * for_each;
}

/* Both homes' locks are held. */
static bool homes_try_merge_locked(struct hak_heap *to, struct hak_heap *from)
{
    hak_lock(&hak_registry.lock);
    bool may = homes_may_merge_locked(to, from);
    if (may) {
        homes_remove_locked(from);
        if (from->vacant)
            homes_forget_vacant_locked(from);
        homes.merged++;
        homes_add_guests_locked(to, homes_threads_locked(from));
        from->moved_to = to;
    }
    hak_unlock(&hak_registry.lock);
    if (may)
        hak_heap_move_slabs_locked(from, to);
    return may;
}

/* Of two homes the older one stays. The second lock is not waited for: `other` of the caller may be
 * a shared heap or no home any more, whose lock comes behind others' elsewhere. False: they stay
 * apart. */
static bool homes_try_merge(struct hak_heap *a, struct hak_heap *b)
{
    struct hak_heap *to = a->tag < b->tag ? a : b;
    struct hak_heap *from = to == a ? b : a;
    if (hak_lock_is_mine(&a->lock) || hak_lock_is_mine(&b->lock))
        return false; /* a signal handler forked while it was held */
    if (!hak_heap_lock_whole(to))
        return false;
    bool merged = false;
    if (hak_heap_try_lock_whole(from)) {
        merged = homes_try_merge_locked(to, from);
        hak_unlock(&from->lock);
    }
    hak_unlock(&to->lock);
    if (merged)
        hak_inbox_forward_any(from); /* what was sent before the slabs had their new owner */
    return merged;
}

/* A thread that frees others' blocks and does nothing else comes by nowhere but here. */
static void homes_follow_owner(struct hak_heap *heap)
{
    if (hak_lock_is_mine(&hak_home(heap)->lock))
        return; /* a signal handler forked while it was held */
    struct hak_heap *home = hak_heap_lock_owner(heap);
    hak_unlock(&home->lock);
}

void hak_homes_weigh_owner(struct hak_heap *heap, struct hak_heap *other)
{
    homes_follow_owner(heap);
    uint32_t calls =
        (uint32_t)(hak_load_relaxed(&heap->stats.refills) + hak_load_relaxed(&heap->stats.drains));
    uint32_t blocks = heap->exchanged_blocks, since = calls - heap->exchange_calls;
    heap->exchange_calls = calls;
    heap->exchanged_blocks = 0;
    if (blocks / EXCHANGE_SHARE < since || other == NULL || other == hak_home(heap))
        return;
    bool merged = homes_try_merge(hak_home(heap), other);
    if (merged)
        homes_follow_owner(heap);
    heap->exchange_refused =
        (uint8_t)(merged ? 0 : hak_min(heap->exchange_refused + 1u, EXCHANGE_REFUSED_MOST));
}

void hak_homes_forget(void)
{
    hak_lock(&hak_registry.lock);
    homes.merged /= 2;
    hak_unlock(&hak_registry.lock);
}

/* Nobody is to follow any more, and the heap's own thread is elsewhere or ended. */
static void homes_done_moving_locked(struct hak_heap *home)
{
    home->moved_to = NULL;
    if (home->vacant)
        hak_registry_put_locked(&hak_registry.free, home);
    home->vacant = false;
}

struct hak_heap *hak_homes_follow_slow_locked(struct hak_heap *heap, struct hak_heap *home)
{
    while (home->moved_to != NULL) {
        struct hak_heap *to = home->moved_to;
        homes_change_locked(heap, to);
        hak_lock(&hak_registry.lock);
        if (home != heap)
            homes_add_guests_locked(home, -1u);
        if (hak_load_relaxed(&home->guests) == 0 && (home->vacant || hak_home(home) != home))
            homes_done_moving_locked(home);
        hak_unlock(&hak_registry.lock);
        hak_unlock(&home->lock);
        hak_lock(&to->lock);
        home = to;
    }
    return home;
}

/* --- ends --- */

static struct hak_heap *homes_leave_guest_locked(struct hak_heap *heap, struct hak_heap *home)
{
    homes_change_locked(heap, heap);
    homes_add_guests_locked(home, -1u);
    if (hak_load_relaxed(&home->guests) != 0 || !home->vacant)
        return NULL;
    homes_forget_vacant_locked(home);
    homes_remove_locked(home);
    home->vacant = false;
    return home;
}

struct hak_homes_left hak_homes_leave(struct hak_heap *heap)
{
    struct hak_homes_left left = {heap, NULL};
    struct hak_heap *home = hak_heap_lock_owner(heap);
    hak_lock(&hak_registry.lock);
    if (home != heap)
        left.home = homes_leave_guest_locked(heap, home);
    heap->vacant = hak_load_relaxed(&heap->guests) != 0;
    if (heap->vacant) {
        left.heap = NULL;
        if (home == heap)
            hak_registry_put_locked(&hak_registry.vacant, heap);
    } else {
        heap->moved_to = NULL;
        homes_remove_locked(heap);
    }
    hak_unlock(&hak_registry.lock);
    hak_unlock(&home->lock);
    return left;
}

void hak_homes_fork_child(void)
{
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        hak_store_relaxed(&h->guests, 0u);
        if (h->moved_to != NULL && hak_load_relaxed(&h->moved_to->lost)) {
            h->moved_to = NULL; /* what it had is lost, and it begins anew */
            h->is_home = true;
        }
    }
    homes.count = 0;
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        bool lost = hak_load_relaxed(&h->lost); /* and nobody will end what it began */
        struct hak_heap *home = hak_home(h);
        if (home != h && !lost)
            homes_add_guests_locked(home, 1);
        for (; home->moved_to != NULL && !lost && !h->vacant; home = home->moved_to)
            homes_add_guests_locked(home->moved_to, 1);
        h->is_home &= !lost;
        if (h->is_home && homes.count < HAK_HOMES_MOST)
            homes.of[homes.count++] = h;
    }
}
