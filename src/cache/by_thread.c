/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: which heap is whose, by the pointer that a thread is known by. A thread whose first call
 * comes late in its end, from another library's destructor, is never told that it ends: no round of
 * destructors is left in which it could be. Its heap is found by the next thread that has the same
 * pointer, as the C library uses stacks again: so no more heaps wait for that than there are
 * pointers. Called by threads.c, under the registry's lock. */
#include "cache/cache_internal.h"

static unsigned by_thread_bucket(uintptr_t thread)
{
    return (unsigned)(thread * UINT64_C(0x9e3779b97f4a7c15) >> (64 - HAK_THREAD_BUCKET_BITS));
}

/* A fork may come between any two steps: the chain is whole all the time, and a heap that is in it
 * says so first. */
void hak_by_thread_add_locked(struct hak_heap *heap)
{
    unsigned bucket = by_thread_bucket(hak_load_relaxed(&heap->thread));
    _Atomic(struct hak_heap *) *at = &hak_registry.by_thread[bucket];
    heap->thread_bucket = (uint8_t)(bucket + 1);
    heap->next_of_bucket = hak_load_relaxed(at);
    hak_store_relaxed(at, heap);
}

void hak_by_thread_remove_locked(struct hak_heap *heap)
{
    if (heap->thread_bucket == 0)
        return;
    _Atomic(struct hak_heap *) *at = &hak_registry.by_thread[heap->thread_bucket - 1];
    struct hak_heap *h = hak_load_relaxed(at);
    if (h == heap)
        hak_store_relaxed(at, heap->next_of_bucket);
    for (; h != NULL; h = h->next_of_bucket)
        if (h->next_of_bucket == heap)
            h->next_of_bucket = heap->next_of_bucket;
    heap->thread_bucket = 0;
}

bool hak_by_thread_may_have(uintptr_t thread)
{
    return hak_load_relaxed(&hak_registry.by_thread[by_thread_bucket(thread)]) != NULL;
}

/* Not one that was half changed when the process forked, by another thread, or by this one: then a
 * signal handler goes on in the child, and after it what it has interrupted. */
struct hak_heap *hak_by_thread_find_locked(uintptr_t thread)
{
    struct hak_heap *h = hak_load_relaxed(&hak_registry.by_thread[by_thread_bucket(thread)]);
    while (h != NULL && (hak_load_relaxed(&h->thread) != thread || h->dead ||
                         hak_load_relaxed(&h->lost) || hak_lock_is_mine(&hak_home(h)->lock)))
        h = h->next_of_bucket;
    return h;
}
