/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cache: which heap is whose, by the pointer that a thread is known by. Some threads are never told
 * that they end: those for which there was no key, and those whose first call comes late in their
 * end, from another library's destructor, when no round of destructors is left. Their heaps are
 * found by the next thread that has the same pointer, as the C library uses stacks again: so no
 * more heaps wait for that than there are pointers. Called by threads.c, under the registry's lock.
 */
#include "cache/cache_internal.h"

static _Atomic(struct hak_heap *) *by_thread_chain(uintptr_t thread)
{
    return &hak_registry
                .by_thread[thread * UINT64_C(0x9e3779b97f4a7c15) >> (64 - HAK_THREAD_BUCKET_BITS)];
}

/* A fork may come between any two steps: the chain is whole all the time. */
void hak_by_thread_add_locked(struct hak_heap *heap)
{
    _Atomic(struct hak_heap *) *at = by_thread_chain(hak_load_relaxed(&heap->thread));
    heap->next_of_bucket = hak_load_relaxed(at);
    hak_store_relaxed(at, heap);
}

void hak_by_thread_remove_locked(struct hak_heap *heap)
{
    _Atomic(struct hak_heap *) *at = by_thread_chain(hak_load_relaxed(&heap->thread));
    struct hak_heap *h = hak_load_relaxed(at);
    if (h == heap) {
        hak_store_relaxed(at, heap->next_of_bucket);
        return;
    }
    while (h != NULL && h->next_of_bucket != heap)
        h = h->next_of_bucket;
    if (h != NULL)
        h->next_of_bucket = heap->next_of_bucket;
}

bool hak_by_thread_may_have(uintptr_t thread)
{
    return hak_load_relaxed(by_thread_chain(thread)) != NULL;
}

/* Not one that was half changed when the process forked, by another thread, or by this one: then a
 * signal handler goes on in the child, and after it what it has interrupted. */
struct hak_heap *hak_by_thread_find_locked(uintptr_t thread)
{
    struct hak_heap *h = hak_load_relaxed(by_thread_chain(thread));
    while (h != NULL && (hak_load_relaxed(&h->thread) != thread || h->dead ||
                         hak_load_relaxed(&h->lost) || hak_lock_is_mine(&hak_home(h)->lock)))
        h = h->next_of_bucket;
    return h;
}
