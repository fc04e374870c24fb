/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * heap: the first call of the process, the first and the last of a thread, and fork. There is no
 * constructor that anything here depends on: whoever comes first starts it. */
#include "heap/heap.h"

#include <limits.h>
#include <pthread.h>

static struct {
    struct hak_lock lock;
    _Atomic(bool) done;
    pthread_key_t key;
    bool has_key;
} start;

static void start_thread_end(void *value);

bool hak_heap_started(void)
{
    return hak_load_acquire(&start.done); /* ORDER: [start] */
}

static bool start_process(void)
{
    if (hak_heap_started())
        return true;
    hak_lock(&start.lock);
    bool done = hak_load_relaxed(&start.done);
    if (!done) {
        hak_classes_start();
        done = hak_space_start() == 0 && hak_cache_start() == 0;
        start.has_key = done && pthread_key_create(&start.key, start_thread_end) == 0;
        if (done)
            hak_store_release(&start.done,
                              true); /* ORDER: [start] everything the first call has set up */
    }
    hak_unlock(&start.lock);
    return done;
}

HAK_COLD struct hak_heap *hak_heap_open_slow(void)
{
    if (hak_self == &hak_front_shared)
        return NULL;
    hak_self = &hak_front_shared; /* what starting calls may allocate */
    struct hak_heap *heap = start_process() ? hak_cache_thread_start() : NULL;
    hak_self = heap != NULL ? &heap->front : &hak_front_none;
    if (heap != NULL && start.has_key)
        pthread_setspecific(start.key, heap);
    return heap;
}

/* The key's destructor. Other destructors may still allocate and free, so the heap stays until the
 * last but one of the rounds that POSIX promises (in the last one others that wait end, sanitizers
 * among them); what comes even later is served by the shared heap. */
static void start_thread_end(void *value)
{
    struct hak_heap *heap = value;
    if (++heap->end_rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1 &&
        pthread_setspecific(start.key, heap) == 0)
        return;
    hak_self = &hak_front_shared;
    hak_cache_thread_end(heap);
}

/* --- fork: one fixed order, outermost first --- */

static struct hak_heap *fork_self(void)
{
    return hak_self == &hak_front_none || hak_self == &hak_front_shared
               ? NULL
               : hak_heap_of_front(hak_self);
}

void hak_heap_fork_prepare(void)
{
    struct hak_heap *mine = fork_self();
    if (mine != NULL) {
        mine->fork_interrupted = hak_lock_is_mine(&mine->lock);
        if (mine->fork_interrupted)
            return;
    }
    hak_lock(&start.lock);
    hak_cache_fork_lock();
    hak_large_fork_lock();
    hak_pool_fork_lock();
    hak_space_fork_lock();
    hak_meta_fork_lock();
}

void hak_heap_fork_parent(void)
{
    struct hak_heap *mine = fork_self();
    if (mine != NULL && mine->fork_interrupted)
        return;
    hak_meta_fork_unlock();
    hak_space_fork_unlock();
    hak_pool_fork_unlock();
    hak_large_fork_unlock();
    hak_cache_fork_unlock();
    hak_unlock(&start.lock);
}

void hak_heap_fork_child(void)
{
    hak_meta_fork_reset();
    hak_space_fork_reset();
    hak_pool_fork_reset();
    hak_large_fork_reset();
    hak_cache_fork_reset(fork_self());
    hak_lock_reset(&start.lock);
}
