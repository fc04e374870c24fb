/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: the child of a fork. Heaps that somebody was changing are lost, those of other threads are
 * noted to be taken over later (hak_registry_bury). How forks are noticed: heap/start.c. */
#include "cache/cache_internal.h"

/* Heaps of groups are taken over by themselves, so their threads' own heaps lead nowhere any more;
 * nor does that of the thread that forked to one that is lost, or that it was changing itself. */
static void fork_forget_group_heaps(struct hak_heap *mine)
{
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap)
        for (unsigned i = 0; i < HAK_GROUPS - 1; i++)
            if (h != mine ||
                (h->group_heaps[i] != NULL && (hak_load_relaxed(&h->group_heaps[i]->lost) ||
                                               hak_lock_is_mine(&h->group_heaps[i]->lock))))
                h->group_heaps[i] = NULL;
}

/* Its thread may have stayed behind. */
static void fork_note_heap(struct hak_heap *h, bool others_are_gone)
{
    bool lost = hak_load_relaxed(&h->lost);
    if (h->dead && lost) { /* not taken over since an earlier fork */
        h->dead = false;
        hak_sub_relaxed(&hak_registry.dead, 1u);
    }
    uintptr_t thread = hak_load_relaxed(&h->thread);
    if (!others_are_gone || thread == 0 || thread == hak_os_this_thread() || lost || h->dead)
        return;
    h->dead = true; /* taken over when memory is next needed, not in the midst of a fork */
    hak_add_relaxed(&hak_registry.dead, 1u);
}

/* True when `mine` is lost. */
static bool fork_note_heaps(const struct hak_heap *mine)
{
    bool mine_is_lost = false;
    /* A thread that the child has begun cannot tell whose heap is that of the thread that forked,
     * which goes on using it: none is taken over then. */
    bool others_are_gone = mine != NULL || hak_os_is_first_thread();
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        struct hak_heap *home = hak_home(h);
        if (hak_lock_is_mine(&home->lock)) {
            mine_is_lost |= h == mine; /* a signal handler forked in the midst of it, and may want
                                        * memory before that goes on */
            continue;
        }
        if (hak_load_relaxed(&home->lost)) { /* its guests' blocks with it */
            hak_store_relaxed(&h->lost, true);
            mine_is_lost |= h == mine; /* somebody was collecting for it */
        }
        fork_note_heap(h, others_are_gone);
    }
    return mine_is_lost;
}

static void fork_replace_shared_heaps(void)
{
    struct hak_heap *fresh =
        hak_load_relaxed(&hak_orphans->lost) ? hak_registry_new_heap_locked() : NULL;
    if (fresh != NULL)
        hak_orphans = fresh;
    for (unsigned i = 0; i < HAK_GROUPS - 1; i++) {
        const struct hak_heap *orphans = hak_load_relaxed(&hak_group_orphans[i]);
        if (orphans != NULL && hak_load_relaxed(&orphans->lost))
            hak_store_relaxed(&hak_group_orphans[i], NULL);
    }
}

/* Without locks: there is one thread, or the others wait. */
bool hak_cache_fork_child(struct hak_heap *mine)
{
    if (hak_lock_recover(&hak_registry.lock)) /* its lists change by single stores */
        hak_registry.few_left_bytes = 0;
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap)
        if (hak_lock_recover(&h->lock))
            hak_store_relaxed(&h->lost, true);
    bool mine_is_lost = fork_note_heaps(mine);
    hak_homes_fork_child();
    fork_forget_group_heaps(mine);
    hak_watch_close_locked(); /* another thread may have been at it */
    if (mine != NULL)
        hak_heap_show_kinds_locked(mine);
    fork_replace_shared_heaps();
    return mine_is_lost;
}
