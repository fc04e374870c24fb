/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * heap: the first call of the process, the first and the last of a thread, and fork. There is no
 * constructor that anything here depends on: whoever comes first starts it. */
#include "heap/profile.h"
#include "policy/policy.h"
#include "space/failure.h"

#include <limits.h>
#include <pthread.h>

static struct {
    struct hak_lock lock;
    _Atomic(bool) done;
    _Atomic(uint32_t) key; /* the heap's, plus 1; 0: none yet, as all were taken */
    bool handles_forks;    /* by pthread_atfork */
} start;

/* HAK_UNFORKED in the process that wrote it, 0 in the child of a fork, and FORK_BEING_MENDED while
 * one of its threads makes good what can be made good. In a page that the kernel wipes; where it
 * cannot, none of these two, and the handler of pthread_atfork is relied on. START_TO_CALL: the
 * next slow path calls something. */
#define FORK_BEING_MENDED 2u
#define START_TO_CALL 3u
static _Atomic(uint32_t) start_never_wiped = HAK_UNFORKED;
_Atomic(_Atomic(uint32_t) *) hak_heap_unforked HAK_USED_AT_START = &start_never_wiped;

static _Atomic(hak_heap_call *) start_to_call;

/* A signal handler has interrupted a slow path that waits for a lock, and forked. What is to be
 * called from slow paths has to wait, as this one may hold other locks. */
static void start_lock_waits(void)
{
    if (hak_load_relaxed(hak_load_relaxed(&hak_heap_unforked)) == 0)
        hak_heap_fork_child();
}

/* Before anything is changed for the first time, so that whatever a fork leaves half done is seen.
 * False: there is no such page, or not now. */
static bool start_try_watch_for_forks(void)
{
    void *page;
    _Atomic(uint32_t) *unforked = hak_load_relaxed(&hak_heap_unforked);
    if (unforked != &start_never_wiped)
        return true;
    if (hak_os_map_wiped_on_fork(&page) != 0)
        return false;
    hak_store_relaxed((_Atomic(uint32_t) *)page, hak_load_relaxed(&start_never_wiped));
    /* ORDER: [unforked] what is in the page; who finds the page depends on the pointer */
    if (hak_cas_release(&hak_heap_unforked, &unforked, (_Atomic(uint32_t) *)page))
        hak_lock_set_waits(start_lock_waits);
    else
        hak_os_unmap(page, HAK_PAGE_BYTES);
    return true;
}

/* Registering one brings 64 KiB of the C library's constants into memory. */
static void start_handle_forks_locked(void)
{
    if (!start.handles_forks)
        pthread_atfork(NULL, NULL, hak_heap_fork_child);
    start.handles_forks = true;
}

static void start_thread_end(void *value);

bool hak_heap_started(void)
{
    return hak_load_acquire(&start.done); /* ORDER: [start] */
}

bool hak_heap_try_make_key(pthread_key_t *key, void (*end)(void *value))
{
    pthread_key_t first;
    if (pthread_key_create(&first, end) != 0)
        return false;
    *key = first;
    if (first == 0 && pthread_key_create(key, end) == 0)
        pthread_key_delete(first);
    return true;
}

static void start_make_key_locked(void)
{
    pthread_key_t key;
    if (hak_load_relaxed(&start.key) == 0 && hak_heap_try_make_key(&key, start_thread_end))
        hak_store_relaxed(&start.key, (uint32_t)key + 1);
}

/* In the child of a fork musl before 1.2.4 leaves the lock of keys to the thread that had it, and
 * that is not there. So the key is made before there are threads. */
#ifdef __GLIBC__
#define KEY_IS_MADE_EARLY false
#else
#define KEY_IS_MADE_EARLY true
#endif

void hak_heap_prepare_for_forks(void)
{
    hak_lock(&start.lock);
    if (!hak_os_can_wipe_on_fork())
        start_handle_forks_locked();
    if (KEY_IS_MADE_EARLY)
        start_make_key_locked();
    hak_unlock(&start.lock);
}

static bool start_process(void)
{
    if (hak_heap_started())
        return true;
    if (HAK_HARDENED && hak_os_page_bytes() != HAK_PAGE_BYTES)
        hak_os_die("the hardened library is made for pages of 4096 bytes, and this "
                   "system's are larger: boot a kernel with such pages, or use libhakmem.so");
    bool watches = start_try_watch_for_forks();
    hak_lock(&start.lock);
    if (!watches)
        start_handle_forks_locked();
    bool done = hak_load_relaxed(&start.done);
    if (!done) {
        hak_classes_start();
        done = hak_space_start() == 0 && hak_cache_start() == 0;
        if (HAK_HARDENED && done)
            hak_classes_find_words();
        if (done) {
            start_make_key_locked();
            hak_store_release(&start.done,
                              true); /* ORDER: [start] everything the first call has set up */
        }
    }
    hak_unlock(&start.lock);
    return done;
}

/* False: nobody will tell of the end of the calling thread; see hak_cache_thread_take_over. */
static bool start_try_set_key(struct hak_heap *heap)
{
    uint32_t key = hak_load_relaxed(&start.key);
    return key != 0 && pthread_setspecific(key - 1, heap) == 0;
}

/* All keys may have been taken when the process started, and some be free by now. */
static void start_watch_for_end(struct hak_heap *heap)
{
    if (hak_load_relaxed(&start.key) == 0) {
        hak_lock(&start.lock);
        start_make_key_locked();
        hak_unlock(&start.lock);
    }
    (void)start_try_set_key(heap);
}

HAK_COLD struct hak_heap *hak_heap_open_slow(void)
{
    hak_heap_notice_fork();
    if (hak_self == &hak_front_shared)
        return NULL;
    hak_self = &hak_front_shared; /* what starting calls may allocate */
    struct hak_heap *heap = NULL;
    if (start_process()) {
        heap = hak_cache_thread_take_over();
        heap = heap != NULL ? heap : hak_cache_thread_start();
    }
    hak_self = heap != NULL ? &heap->front : &hak_front_none;
    if (heap != NULL)
        start_watch_for_end(heap);
    return heap;
}

/* The key's destructor. Other destructors may still allocate and free, so the heap stays until the
 * last but one of the rounds that POSIX promises (in the last one others that wait end, sanitizers
 * among them); what comes even later is served by the shared heap. The value is not looked at: who
 * sets keys that are not his may have set this one. */
static void start_thread_end(void *value)
{
    (void)value;
    struct hak_heap *heap = hak_heap_self_if_open();
    if (heap == NULL)
        return;
    hak_heap_notice_fork();
    if (++heap->end_rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1 && start_try_set_key(heap))
        return;
    hak_self = &hak_front_shared;
    hak_cache_thread_end(heap);
}

void hak_heap_audit(hak_cache_look *look)
{
    hak_heap_notice_fork();
    if (hak_heap_started())
        hak_cache_audit(hak_heap_self_if_open(), look);
}

/* --- fork ---
 *
 * No lock is held while the process forks: between the handlers of pthread_atfork and the fork
 * itself libc takes locks of stdio, and a thread that holds those may be waiting for memory. So any
 * thread may be anywhere when the child's memory is copied, and the child makes good what can be
 * made good and gives up the rest: the heap that a thread was in the midst of changing, a cache.
 * The lock-free parts change by single atomic steps and need nothing.
 *
 * This is done by the first slow path of the child, whoever takes it: the handlers of libraries
 * that registered theirs before this library did run before its own, and raw clone runs none at
 * all. */

static _Atomic(struct hak_lock *) fork_locks[HAK_HEAP_LOCKS]; /* that were ever taken */

/* Noted, and forks watched for, before it is taken: a child that has it held knows of both. */
void hak_heap_lock(struct hak_lock *lock)
{
    start_try_watch_for_forks();
    hak_heap_notice_fork();
    for (unsigned i = 0; i < HAK_HEAP_LOCKS; i++) {
        struct hak_lock *noted = hak_load_relaxed(&fork_locks[i]);
        if (noted == lock ||
            (noted == NULL && (hak_cas_relaxed(&fork_locks[i], &noted, lock) || noted == lock)))
            break;
    }
    hak_lock(lock);
}

static void fork_mend(void)
{
    hak_lock_recover(&start.lock);
    for (unsigned i = 0; i < HAK_HEAP_LOCKS; i++)
        if (hak_load_relaxed(&fork_locks[i]) != NULL)
            hak_lock_recover(hak_load_relaxed(&fork_locks[i]));
    if (HAK_HARDENED)
        hak_os_random_forget();
    hak_meta_fork_child();
    hak_space_fork_child();
    hak_failure_fork_child();
    hak_policy_fork_child();
    hak_pool_fork_child();
    hak_slack_fork_child();
    hak_prof_fork_child();
    if (!hak_heap_started())
        return; /* another thread was starting the process: the child starts anew */
    if (hak_cache_fork_child(hak_heap_self_if_open()))
        hak_self = &hak_front_none;
}

/* Of the child's threads one does it, and the others wait: they may hold locks already that were
 * free when the process forked. It takes milliseconds with a thousand heaps, and who does it may
 * share a processor with one that waits and has a higher priority. */
#define FORK_WAIT_NS (HAK_SCHED ? 0u : 50000u)
void hak_heap_fork_child(void)
{
    static _Atomic(uintptr_t) mender;
    _Atomic(uint32_t) *unforked = hak_load_relaxed(&hak_heap_unforked);
    uint32_t state = 0;
    if (unforked == &start_never_wiped) {
        fork_mend();
    } else if (hak_cas_acquire(unforked, &state, FORK_BEING_MENDED)) { /* ORDER: [unforked] */
        hak_store_relaxed(&mender, hak_os_this_thread());
        fork_mend();
        hak_store_relaxed(&mender, (uintptr_t)0);
        hak_store_release(unforked, HAK_UNFORKED); /* ORDER: [unforked] all that is good again */
    } else if (hak_load_relaxed(&mender) != hak_os_this_thread()) {
        while (hak_load_acquire(unforked) == FORK_BEING_MENDED) { /* ORDER: [unforked] */
            hak_cpu_pause();
            hak_os_sleep_ns(FORK_WAIT_NS);
        }
    }
}

void hak_heap_call_from_slow_path(hak_heap_call *what)
{
    hak_store_relaxed(&start_to_call, what);
    if (what != NULL)
        hak_store_relaxed(hak_load_relaxed(&hak_heap_unforked), START_TO_CALL);
}

HAK_COLD void hak_heap_notice_slow(void)
{
    _Atomic(uint32_t) *unforked = hak_load_relaxed(&hak_heap_unforked);
    uint32_t to_call = START_TO_CALL;
    if (hak_cas_relaxed(unforked, &to_call,
                        HAK_UNFORKED)) { /* one thread; its own slow paths go on */
        hak_heap_call *what = hak_load_relaxed(&start_to_call);
        if (what != NULL)
            what();
    } else if (to_call != HAK_UNFORKED) {
        hak_heap_fork_child();
    }
}
