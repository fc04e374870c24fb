/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: scenarios of the lock, of the start of the process, of large blocks; and
 * textbook cases that show what the scheduler's memory does and does not permit. */
#include "scenarios.h"

#include "heap/heap.h"
#include "large/large_internal.h"

#include <errno.h>
#include <pthread.h>

/* --- the lock --- */

static struct hak_lock lock;
static unsigned guarded, entered;

static void lock_setup(void) {}

static void lock_run(unsigned who)
{
    for (unsigned i = 0; i < 3; i++) {
        if (who == 2 && i == 1 && !hak_try_lock(&lock))
            continue;
        if (who != 2 || i != 1)
            hak_lock(&lock);
        SCHED_CHECK(entered++ == 0, "two threads hold the lock");
        memory_plain(&guarded, sizeof guarded, true, NULL);
        guarded++;
        sched_point("holds the lock");
        entered--;
        hak_unlock(&lock);
    }
}

static void lock_check(void)
{
    SCHED_CHECK(guarded >= 8, "%u", guarded);
    SCHED_CHECK(hak_load_relaxed(&lock.state) == 0, "the lock is held");
}

/* --- the first calls of the process --- */

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_hak_os_map_wiped_on_fork(void **out);

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    (void)prepare, (void)parent, (void)child;
    return 0;
}

int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    (void)destructor;
    *key = 1;
    return 0;
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
    (void)key, (void)value;
    return 0;
}

int __wrap_hak_os_map_wiped_on_fork(void **out)
{
    (void)out;
    return ENOSYS;
}

static void start_setup(void) {}

/* The last thread only asks for what others have set up, and takes no lock. */
static void start_run(unsigned who)
{
    if (who == 2) {
        if (hak_heap_started())
            SCHED_CHECK(hak_class(hak_class_of(8192))->size_bytes >= 8192, "no classes yet");
        return;
    }
    void *p = hak_heap_malloc(8192);
    SCHED_CHECK(p != NULL, "out of memory");
    SCHED_CHECK(hak_heap_usable_bytes(p) >= 8192, "%zu", hak_heap_usable_bytes(p));
    bool freed = hak_heap_try_free(p) || hak_heap_free_slow(p);
    SCHED_CHECK(freed, "a block of this thread's is not known");
    hak_cache_thread_end(hak_heap_of_front(hak_self));
    hak_registry_give_kept();
}

static void start_check(void)
{
    pool_verify(0);
}

/* --- large blocks: of two frees at once one finds the block gone --- */

#define LARGE_BYTES ((size_t)100000)

static void *large;
static unsigned large_freed;

static void *large_alloc(size_t bytes)
{
    bool zero;
    return hak_large_alloc_near(HAK_NO_RUN_CACHE, bytes, 1, 0, &zero);
}

static void large_setup(void)
{
    blocks_start(0);
    large = large_alloc(LARGE_BYTES);
}

static void large_run(unsigned who)
{
    if (who < 2) {
        /* A program that frees twice at once orders nothing: only where memory is consistent. */
        uint32_t entry = who == 0 || !sched_run->weak ? hak_map_lookup(large) : 0;
        if (entry != 0 && hak_large_free(large, entry))
            large_freed++;
        void *p = blocks_receive(0);
        SCHED_CHECK(p == NULL || hak_large_free(p, hak_map_lookup(p)), "a block is not known");
        return;
    }
    if (!sched_run->weak)
        return; /* a second free would find this block in the place of the first */
    void *p = large_alloc(LARGE_BYTES);
    SCHED_CHECK(p != NULL, "out of memory");
    blocks_send(0, p);
    p = large_alloc(LARGE_BYTES);
    SCHED_CHECK(p != NULL && hak_large_free(p, hak_map_lookup(p)), "a block is not known");
    p = blocks_receive(0);
    SCHED_CHECK(p == NULL || hak_large_free(p, hak_map_lookup(p)), "a block is not known");
}

static void large_check(void)
{
    SCHED_CHECK(large_freed == 1, "freed %u times", large_freed);
    pool_verify(0);
}

/* --- runs that wait for the next request, of threads that share a cache --- */

static void runs_setup(void)
{
    blocks_start(0);
}

static void runs_run(unsigned who)
{
    for (unsigned i = 0; i < 2; i++) {
        bool zero;
        void *p = hak_large_alloc_near(0, LARGE_BYTES, 1, 0, &zero);
        SCHED_CHECK(p != NULL, "out of memory");
        SCHED_CHECK(hak_large_free_near(0, p, hak_map_lookup(p)), "a block is not known");
        if (who == 2)
            hak_large_flush_any();
    }
}

static void runs_check(void)
{
    struct hak_large_stats s;
    hak_large_stats(&s);
    SCHED_CHECK(s.large_blocks == 0, "%zu blocks are counted", s.large_blocks);
    SCHED_CHECK(s.large_bytes == 0, "%zu bytes are counted", s.large_bytes);
    hak_large_flush_any();
    hak_large_stats(&s);
    SCHED_CHECK(s.large_blocks == 0 && s.cached_runs == 0, "%zu blocks, %zu wait", s.large_blocks,
                s.cached_runs);
    pool_verify(0);
}

/* --- pages behind huge blocks that are given back while the blocks are freed --- */

#define SLACK_BLOCK_BYTES ((size_t)2400000)

static void slack_setup(void)
{
    blocks_start(0);
    hak_pool_configure(&(struct hak_pool_config){
        .retired_max_count = 8, .retired_max_bytes = SIZE_MAX, .retired_max_age_ns = UINT64_MAX});
    void *p = large_alloc(2 * HAK_SUPERSLAB_BYTES);
    SCHED_CHECK(p != NULL && hak_large_free(p, hak_map_lookup(p)), "a block is not known");
}

static void slack_run(unsigned who)
{
    for (unsigned i = 0; i < 2; i++) {
        if (who == 2) {
            hak_slack_give_back(UINT64_MAX);
            continue;
        }
        void *p = large_alloc(SLACK_BLOCK_BYTES);
        SCHED_CHECK(p != NULL, "out of memory");
        SCHED_CHECK(hak_large_free(p, hak_map_lookup(p)), "a block is not known");
    }
}

static void slack_check(void)
{
    SCHED_CHECK(hak_load_relaxed(&hak_large_counters.slack_slots) == 0, "%zu slots are counted",
                hak_load_relaxed(&hak_large_counters.slack_slots));
    hak_large_trim();
    pool_verify(0);
}

/* --- textbook cases --- */

static _Atomic(uint64_t) x, y;
static uint64_t seen[SCHED_THREADS];
static unsigned plain;

static void textbook_setup(void) {}

/* Message passing: data, then a flag. */
static void message_run(unsigned who)
{
    if (who == 0) {
        memory_plain(&plain, sizeof plain, true, NULL);
        hak_store_relaxed(&x, (uint64_t)1);
        hak_store_release(&y, (uint64_t)1);
    } else if (hak_load_acquire(&y) == 1) {
        memory_plain(&plain, sizeof plain, false, NULL);
        SCHED_CHECK(hak_load_relaxed(&x) == 1, "message passing: the flag came before the data");
    }
}

/* Store buffering: with seq_cst one of the two sees the other's store. */
static void buffers_run(unsigned who)
{
    _Atomic(uint64_t) *mine = who == 0 ? &x : &y;
    _Atomic(uint64_t) *theirs = who == 0 ? &y : &x;
    hak_store_seq_cst(mine, (uint64_t)1);
    seen[who] = hak_load_seq_cst(theirs);
}

static void buffers_check(void)
{
    SCHED_CHECK(seen[0] + seen[1] > 0, "store buffering: neither saw the other's store");
}

/* Independent reads of independent writes: with seq_cst both readers see one order. */
static void independent_run(unsigned who)
{
    if (who < 2) {
        hak_store_seq_cst(who == 0 ? &x : &y, (uint64_t)1);
        return;
    }
    uint64_t first = hak_load_seq_cst(who == 2 ? &x : &y);
    uint64_t second = hak_load_seq_cst(who == 2 ? &y : &x);
    seen[who] = first == 1 && second == 0;
}

static void independent_check(void)
{
    SCHED_CHECK(seen[2] + seen[3] < 2, "two readers saw two orders of independent writes");
}

/* Coherence: a location's values are seen in one order. */
static void coherence_run(unsigned who)
{
    if (who == 0) {
        hak_store_relaxed(&x, (uint64_t)1);
        hak_store_relaxed(&x, (uint64_t)2);
        return;
    }
    uint64_t first = hak_load_relaxed(&x);
    uint64_t second = hak_load_relaxed(&x);
    SCHED_CHECK(first <= second, "coherence: saw %d after %d", (int)second, (int)first);
}

/* A release is handed on by read-modify-writes of others. */
static void sequence_run(unsigned who)
{
    if (who == 0) {
        memory_plain(&plain, sizeof plain, true, NULL);
        hak_add_release(&x, (uint64_t)1);
    } else if (who == 1) {
        hak_or_relaxed(&x, (uint64_t)2);
    } else if (hak_load_acquire(&x) & 1) {
        memory_plain(&plain, sizeof plain, false, NULL);
    }
}

static void nothing_to_check(void) {}

const struct scenario other_scenarios[] = {
    {"other_lock", "three threads and a lock", 3, lock_setup, lock_run, NULL, lock_check},
    {"other_start", "three threads make the first calls of the process", 3, start_setup, start_run,
     NULL, start_check},
    {"other_large", "two threads free the same large block", 3, large_setup, large_run, NULL,
     large_check},
    {"other_runs", "three threads share a cache of runs", 3, runs_setup, runs_run, NULL,
     runs_check},
    {"other_slack", "two threads make blocks with pages behind them, a third gives those back", 3,
     slack_setup, slack_run, NULL, slack_check},
    {"text_message", "textbook: message passing", 2, textbook_setup, message_run, NULL,
     nothing_to_check},
    {"text_buffers", "textbook: store buffering", 2, textbook_setup, buffers_run, NULL,
     buffers_check},
    {"text_independent", "textbook: independent reads of independent writes", 4, textbook_setup,
     independent_run, NULL, independent_check},
    {"text_coherence", "textbook: coherence", 2, textbook_setup, coherence_run, NULL,
     nothing_to_check},
    {"text_sequence", "textbook: a release sequence", 3, textbook_setup, sequence_run, NULL,
     nothing_to_check},
    {NULL, NULL, 0, NULL, NULL, NULL, NULL},
};
