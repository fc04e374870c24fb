/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: homes: whose slabs a thread uses. A heap with slabs of its own is a home. The first
 * threads of a process have one each; when there are twice as many as processors (see
 * homes_most_locked), the next ones are guests of these: their bins are their own, but are filled
 * from the home's slabs, under its lock, and what is freed of those goes back there the same way. A
 * slab and the free blocks in it then wait for whichever of some threads runs, not for one among
 * many that do not.
 *
 *   thread 1   thread 2   thread 3   thread 4        2 homes, so that a lock has 2 threads
 *    bins       bins       bins       bins           of which one runs
 *      \         /           \         /
 *       home 1's slabs        home 2's slabs
 *
 * A home's thread may end before its guests do. Then the heap waits for the next thread with its
 * slabs; when its last guest goes first, the slabs go to the shared heap. */
#include "cache/cache_internal.h"

#define HOMES_MANY 32u  /* on many processors one of them each will do */
#define HOMES_ANYWAY 2u /* so many need not know how many processors there are */

/* Under the registry's lock. */
static struct {
    unsigned count, most;
    struct hak_heap *of[HAK_HOMES_MOST];
} homes;

static unsigned homes_most_locked(void)
{
    unsigned set = hak_load_relaxed(&hak_cache_knobs.homes);
    if (set != 0)
        return (unsigned)hak_min(set, HAK_HOMES_MOST);
    if (homes.most == 0 && homes.count >= HOMES_ANYWAY) {
        unsigned processors = hak_os_processors();
        size_t some = hak_min(processors * 2, HOMES_MANY);
        homes.most = (unsigned)hak_min(hak_max(processors, some), HAK_HOMES_MOST);
    }
    return homes.most == 0 ? HOMES_ANYWAY : homes.most;
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
    if (heap->is_home || hak_home(heap) != heap) /* kept as it was */
        return NULL;
    struct hak_heap *home = NULL;
    if (!HAK_HARDENED && homes.count >= homes_most_locked())
        home = homes_choose_locked();
    if (home != NULL) {
        hak_count_owner(&home->guests, 1u);
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

/* Under both locks: whoever looks at the bins holds one of them, and sees under it whether that is
 * the one. Nobody who holds a guest's own lock waits for another. */
static void homes_change(struct hak_heap *heap, struct hak_heap *home, struct hak_heap *to)
{
    hak_lock(&home->lock);
    hak_lock(&heap->lock);
    heap->front.tag = to->tag;
    hak_store_relaxed(&heap->home, to);
    if (to == home)
        hak_heap_place_quarters_locked(heap);
    hak_unlock(&heap->lock);
    hak_unlock(&home->lock);
}

void hak_homes_move_in(struct hak_heap *heap, struct hak_heap *home)
{
    homes_change(heap, home, home);
}

static void homes_remove_locked(struct hak_heap *home)
{
    home->is_home = home->vacant = false;
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

struct hak_heap *hak_homes_leave(struct hak_heap *heap)
{
    struct hak_heap *home = hak_home(heap);
    if (home == heap)
        return NULL;
    homes_change(heap, home, heap);
    hak_lock(&hak_registry.lock);
    hak_count_owner(&home->guests, -1u);
    bool empty = hak_load_relaxed(&home->guests) == 0 && home->vacant;
    if (empty) {
        homes_forget_vacant_locked(home);
        homes_remove_locked(home);
    }
    hak_unlock(&hak_registry.lock);
    return empty ? home : NULL;
}

bool hak_homes_try_close_locked(struct hak_heap *heap)
{
    heap->vacant = hak_load_relaxed(&heap->guests) != 0;
    if (!heap->vacant && heap->is_home)
        homes_remove_locked(heap);
    return !heap->vacant;
}

void hak_homes_fork_child(void)
{
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap)
        hak_store_relaxed(&h->guests, 0u);
    homes.count = 0;
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        bool lost = hak_load_relaxed(&h->lost); /* and nobody will end what it began */
        if (hak_home(h) != h && !lost)
            hak_count_owner(&hak_home(h)->guests, 1u);
        h->is_home &= !lost;
        if (h->is_home && homes.count < HAK_HOMES_MOST)
            homes.of[homes.count++] = h;
    }
}
