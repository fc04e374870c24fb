/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of heap: threads that begin and end, destructors that allocate late, fork. */
#include "heap_support.h"

#include <signal.h>
#include <time.h>

static struct hak_cache_usage usage(void)
{
    struct hak_cache_usage u;
    hak_cache_usage(&u);
    return u;
}

static void assert_nothing_is_used(void)
{
    hak_heap_trim();
    assert_int_equal(usage().used_blocks, 0);
}

static void allocate_a_little(unsigned index, void *argument)
{
    (void)argument;
    char *p = allocate(100 + index);
    fill(p, 100, index);
    MUST(is_filled(p, 100, 100, index));
    release(p);
}

static void a_thread_gets_a_heap_and_gives_it_back(void **state)
{
    (void)state;
    release(allocate(1));
    for (int round = 0; round < 20; round++)
        unit_in_threads(3, allocate_a_little, NULL);
    assert_int_equal(usage().heaps, 1);
    size_t heaps = 0;
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap)
        heaps++;
    assert_true(heaps <=
                5); /* the shared one, this thread's, and three that were used twenty times */
    assert_nothing_is_used();
}

#define MANY 3000u

static void free_all(unsigned index, void *argument)
{
    (void)index;
    char **p = argument;
    for (unsigned i = 0; i < MANY; i++)
        release(p[i]);
}

static void a_thread_that_only_frees_needs_no_memory_of_its_own_for_long(void **state)
{
    (void)state;
    static char *p[MANY];
    for (unsigned i = 0; i < MANY; i++)
        p[i] = allocate(i);
    unit_in_threads(1, free_all, p);
    assert_nothing_is_used();
}

/* --- destructors of other keys, which may run after the heap's own --- */

static pthread_key_t keys[3];
static _Atomic(unsigned) destroyed;

/* ThreadSanitizer, which ends its part of the thread in the last round, cannot serve what follows.
 */
#if defined(__SANITIZE_THREAD__)
#define ROUNDS (PTHREAD_DESTRUCTOR_ITERATIONS - 1u)
#else
#define ROUNDS (PTHREAD_DESTRUCTOR_ITERATIONS + 0u)
#endif

/* In each round but the last it sets its key, the one that has no value at the moment, again. */
static void destroy_late(void *value)
{
    static __thread unsigned calls;
    char *p = value;
    MUST(is_filled(p, 200, 200, 7));
    release(p);
    p = allocate(500);
    fill(p, 500, 8);
    MUST(is_filled(p, 500, 500, 8));
    release(p);
    destroyed++;
    if (++calls > (ROUNDS - 1) * UNIT_COUNT(keys))
        return;
    unsigned own = 0;
    while (pthread_getspecific(keys[own]) != NULL)
        own++;
    p = allocate(200);
    fill(p, 200, 7);
    pthread_setspecific(keys[own], p);
}

static void set_keys(unsigned index, void *argument)
{
    (void)index, (void)argument;
    for (unsigned i = 0; i < UNIT_COUNT(keys); i++) {
        char *p = allocate(200);
        fill(p, 200, 7);
        pthread_setspecific(keys[i], p);
    }
}

static void destructors_of_other_keys_may_allocate_and_free(void **state)
{
    (void)state;
    pthread_key_create(&keys[0], destroy_late); /* before the heap's key */
    release(allocate(1));
    pthread_key_create(&keys[1], destroy_late); /* and after it */
    pthread_key_create(&keys[2], destroy_late);
    for (int round = 0; round < 10; round++)
        unit_in_threads(2, set_keys, NULL);
    assert_int_equal(destroyed, 10 * 2 * UNIT_COUNT(keys) * ROUNDS);
    assert_int_equal(usage().heaps, 1);
    hak_heap_trim();
    assert_int_equal(usage().used_blocks, 0);
}

static pthread_key_t late_key;
static unsigned late_round; /* in which it is used, from 1 on */

static void allocate_late(void *value)
{
    uintptr_t round = (uintptr_t)value;
    if (round < late_round) {
        pthread_setspecific(late_key, (char *)value + 1);
        return;
    }
    char *p = allocate(300);
    fill(p, 300, 9);
    MUST(is_filled(p, 300, 300, 9));
    release(p);
}

static void *set_late_key(void *value)
{
    pthread_setspecific(late_key, (char *)value + 1);
    return NULL;
}

/* Nobody tells such a thread that it ends; its heap is the next one's on the same stack. (What it
 * does then comes after ThreadSanitizer's own end, to which the next thread has no order.) */
static void threads_that_begin_with_the_allocator_at_their_end_share_a_heap(void **state)
{
    (void)state;
    if (ROUNDS < PTHREAD_DESTRUCTOR_ITERATIONS)
        skip();
    static char stack[2048 * KIB] __attribute__((aligned(4096)));
    pthread_attr_t attributes;
    release(allocate(1));
    pthread_key_create(&late_key, allocate_late);
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, sizeof stack), 0);
    for (late_round = 2; late_round <= ROUNDS; late_round++) {
        for (int i = 0; i < 20; i++) {
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, &attributes, set_late_key, NULL), 0);
            pthread_join(thread, NULL);
        }
    }
    CHECK(usage().heaps <= 2, "%zu", (size_t)usage().heaps); /* this thread's and the last one's */
}

static void set_keys_of_others(unsigned index, void *argument)
{
    (void)index, (void)argument;
    release(allocate(100));
    const struct hak_heap *heap = hak_heap_self_if_open();
    unsigned found = 0;
    for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; key++)
        if (pthread_getspecific(key) == heap && ++found)
            MUST(key != 0 && pthread_setspecific(key, keys) == 0);
    MUST(found == 1);
}

static void a_program_that_sets_keys_which_it_never_created_does_no_harm(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++)
        unit_in_threads(2, set_keys_of_others, NULL);
    assert_int_equal(usage().heaps, 0);
    release(allocate(1));
    assert_nothing_is_used();
}

/* --- threads that pass blocks on --- */

static _Atomic(char *) places[128];

static void churn(unsigned index, void *argument)
{
    unsigned rounds = *(unsigned *)argument;
    struct unit_random r = {index + 1};
    for (unsigned i = 0; i < rounds; i++) {
        size_t size = 16 + unit_below(&r, unit_below(&r, 16) == 0 ? 400000 : 3000);
        char *p = unit_below(&r, 3) == 0 ? hak_heap_calloc(size) : hak_heap_malloc(size);
        MUST(p != NULL);
        if (unit_below(&r, 4) == 0)
            p = heap_realloc(p, size = 16 + unit_below(&r, 5000));
        memcpy(p, &size, sizeof size);
        memcpy(p + size - sizeof size, &size, sizeof size);
        p = atomic_exchange(&places[unit_below(&r, UNIT_COUNT(places))], p);
        if (p == NULL)
            continue;
        memcpy(&size, p, sizeof size);
        MUST(memcmp(p + size - sizeof size, &size, sizeof size) == 0);
        release(p);
    }
}

static void free_places(void)
{
    for (size_t i = 0; i < UNIT_COUNT(places); i++) {
        char *p = atomic_exchange(&places[i], NULL);
        if (p != NULL)
            release(p);
    }
}

static void threads_pass_blocks_of_all_sizes_on(void **state)
{
    (void)state;
    unsigned rounds = 8000;
    unit_in_threads(4, churn, &rounds);
    free_places();
    assert_nothing_is_used();
    struct hak_large_stats l;
    hak_large_stats(&l);
    assert_int_equal(l.large_blocks + l.huge_blocks, 0);
}

/* --- fork --- */

static _Atomic(bool) stop;

static void *churn_until_stopped(void *argument)
{
    unsigned rounds = 100;
    for (unsigned seed = *(unsigned *)argument * 1000; !hak_load_relaxed(&stop); seed++)
        churn(seed, &rounds);
    return NULL;
}

static void work_in_child(char *before_fork)
{
    static char *p[500];
    MUST(is_filled(before_fork, 5000, 5000, 3));
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < UNIT_COUNT(p); i++) {
            size_t size = i % 50 == 0 ? 200000 : 8 + i * 7;
            p[i] = allocate(size);
            fill(p[i], size, i);
        }
        for (unsigned i = 0; i < UNIT_COUNT(p); i++) {
            size_t size = i % 50 == 0 ? 200000 : 8 + i * 7;
            MUST(is_filled(p[i], size, size, i));
            release(p[i]);
        }
    }
    release(before_fork);
    free_places(); /* blocks of threads that stayed behind */
    hak_heap_trim();
}

static void fork_once(void)
{
    char *p = allocate(5000);
    fill(p, 5000, 3);
    pid_t child = fork();
    if (child == 0) {
        alarm(20); /* a lock that nobody will ever release */
        work_in_child(p);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    CHECK(status == 0, "wait status %x", (unsigned)status);
    assert_true(is_filled(p, 5000, 5000, 3));
    release(p);
}

static void a_fork_while_threads_run_leaves_two_working_heaps(void **state)
{
    (void)state;
    pthread_t ids[3];
    unsigned seeds[3] = {1, 2, 3};
    alarm(60);
    release(allocate(1));
    pthread_atfork(NULL, NULL, hak_heap_fork_child);
    for (unsigned i = 0; i < 3; i++)
        MUST(pthread_create(&ids[i], NULL, churn_until_stopped, &seeds[i]) == 0);
    struct timespec pause = {.tv_nsec = 3 * 1000 * 1000};
    for (int i = 0; i < 15; i++) {
        nanosleep(&pause, NULL);
        fork_once();
    }
    hak_store_relaxed(&stop, true);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    free_places();
    assert_nothing_is_used();
}

static void the_childs_child_works_too(void **state)
{
    (void)state;
    pthread_atfork(NULL, NULL, hak_heap_fork_child);
    char *p = allocate(300);
    fill(p, 300, 1);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        release(allocate(70));
        pid_t grandchild = fork();
        if (grandchild == 0) {
            MUST(is_filled(p, 300, 300, 1));
            release(p);
            release(allocate(70));
            _exit(0);
        }
        int status;
        MUST(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        MUST(is_filled(p, 300, 300, 1));
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    release(p);
    assert_nothing_is_used();
}

static pid_t forked_child = -1;

static void fork_in_handler(int number)
{
    (void)number;
    forked_child = fork();
    if (forked_child == 0)
        alarm(20);
}

/* Has what somebody waits for, lets a signal handler interrupt the wait, and keeps it until the
 * child of its fork has ended. */
static void *hold_during_a_fork(void *argument)
{
    struct hak_lock *lock = &hak_orphans->lock;
    int *status = argument;
    while (!hak_lock_is_mine(lock))
        hak_try_lock(lock);
    while (hak_load_relaxed(&lock->state) != 2)
        hak_cpu_pause();
    MUST(kill(getpid(), SIGUSR1) == 0);
    while (waitpid(-1, status, 0) < 0)
        hak_cpu_pause();
    hak_unlock(lock);
    return NULL;
}

static void the_child_of_a_fork_in_the_midst_of_waiting_goes_on(void **state)
{
    (void)state;
    static int status = -1;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    release(allocate(1));
    signal(SIGUSR1, fork_in_handler);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* the other thread takes no signal */
    pthread_t id;
    MUST(pthread_create(&id, NULL, hold_during_a_fork, &status) == 0);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    while (hak_load_relaxed(&hak_orphans->lock.state) == 0)
        hak_cpu_pause();
    usage();
    if (forked_child == 0) {
        release(allocate(300));
        _exit(0);
    }
    pthread_join(id, NULL);
    CHECK(status == 0, "wait status %x", (unsigned)status);
    assert_nothing_is_used();
}

static struct hak_lock lock_above;

static void *hold_lock_above(void *forked)
{
    hak_heap_lock(&lock_above);
    while (!hak_load_relaxed((_Atomic(bool) *)forked))
        hak_cpu_pause();
    hak_unlock(&lock_above);
    return NULL;
}

static void a_lock_of_a_layer_above_is_free_in_the_child(void **state)
{
    (void)state;
    static _Atomic(bool) forked;
    pthread_t id;
    MUST(pthread_create(&id, NULL, hold_lock_above, &forked) == 0);
    while (hak_load_relaxed(&lock_above.state) == 0)
        hak_cpu_pause();
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        hak_heap_lock(&lock_above);
        hak_unlock(&lock_above);
        release(allocate(70));
        _exit(0);
    }
    hak_store_relaxed(&forked, true);
    int status;
    waitpid(child, &status, 0);
    pthread_join(id, NULL);
    assert_int_equal(status, 0);
}

/* Blocks of one size, so many that heaps are taken over on the way, then threads that get those. */
static void use_up(unsigned index, void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < MANY; i++)
        fill(allocate(500), 500, index);
}

static void the_childs_threads_leave_the_heap_of_the_thread_that_forked_alone(void **state)
{
    (void)state;
    release(allocate(500));
    const struct hak_heap *mine = hak_heap_self_if_open();
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        for (unsigned i = 0; i < 3; i++) /* the first of them notices the fork */
            unit_in_threads(1, use_up, NULL);
        MUST(!mine->dead && hak_load_relaxed(&mine->thread) == hak_os_this_thread());
        MUST(hak_heap_self_if_open() == mine);
        release(allocate(500));
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void a_fork_before_the_first_call_leaves_the_start_to_each_side(void **state)
{
    (void)state;
    pthread_atfork(NULL, NULL, hak_heap_fork_child);
    assert_false(hak_heap_started());
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        release(allocate(70));
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    release(allocate(70));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_thread_gets_a_heap_and_gives_it_back),
    cmocka_unit_test(a_thread_that_only_frees_needs_no_memory_of_its_own_for_long),
    cmocka_unit_test(destructors_of_other_keys_may_allocate_and_free),
    cmocka_unit_test(threads_that_begin_with_the_allocator_at_their_end_share_a_heap),
    cmocka_unit_test(a_program_that_sets_keys_which_it_never_created_does_no_harm),
    cmocka_unit_test(threads_pass_blocks_of_all_sizes_on),
    cmocka_unit_test(a_fork_while_threads_run_leaves_two_working_heaps),
    cmocka_unit_test(the_childs_child_works_too),
    cmocka_unit_test(the_child_of_a_fork_in_the_midst_of_waiting_goes_on),
    cmocka_unit_test(a_lock_of_a_layer_above_is_free_in_the_child),
    cmocka_unit_test(the_childs_threads_leave_the_heap_of_the_thread_that_forked_alone),
    cmocka_unit_test(a_fork_before_the_first_call_leaves_the_start_to_each_side),
};
UNIT_MAIN(tests)
