/* Conformance: fork with many threads that allocate, that race their first allocation, that come
 * and go; children with threads of their own. Other ways to a new process: fork_ways.c.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <sched.h>

#include "conformance/startend/fork_support.h"

static void with_8_threads_allocating(void **state)
{
    (void)state;
    const char *asked = getenv("HAK_TEST_FORKS"); /* the long form asks for 10,000 */
    unsigned count = asked ? (unsigned)strtoul(asked, NULL, 10) : scaled(1000);
    alarm(TEST_SECONDS + count / 10);
    start_workers(allocate_until_stopped);
    fork_many(count, false, "fork with 8 threads");
    end_workers();
}

static void children_may_have_threads(void **state)
{
    (void)state;
    if (allocator_sanitized())
        SKIP_BECAUSE("ThreadSanitizer knows no threads in the child of a threaded program");
    start_workers(allocate_until_stopped);
    fork_many(scaled(200), true, "a thread in the child");
    end_workers();
}

/* Blocks of the parent's threads can be freed in the child, and the child's children work too. */
static void children_free_inherited_blocks(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = my_malloc(range_sizes[i % 8]);
        pattern_fill(blocks[i], 16, i);
    }
    start_workers(allocate_until_stopped);
    for (unsigned n = 0; n < scaled(50); n++) {
        pid_t pid = fork();
        if (pid == 0) {
            child_begins();
            for (size_t i = 0; i < COUNT; i++) {
                busy_require(pattern_holds(blocks[i], 16, i), "an inherited block");
                my_free(blocks[i]);
            }
            for (size_t i = 0; i < COUNT_OF(exchange); i++)
                my_free(exchange[i]);
            pid_t grandchild = fork();
            if (grandchild == 0)
                child_work(false);
            int status = 1;
            busy_require(waitpid(grandchild, &status, 0) == grandchild && status == 0,
                         "a grandchild");
            child_work(false);
        }
        expect_good_end(pid, "inherited blocks");
    }
    end_workers();
    for (size_t i = 0; i < COUNT; i++)
        my_free(blocks[i]);
}

static atomic_uint racers_ready;

static void *first_allocation(void *number)
{
    racers_ready++;
    void *p = my_malloc(100 + (uintptr_t)number);
    if (!p || !busy_one(200, 1))
        worker_failures++;
    my_free(p);
    return NULL;
}

static void racing_the_first_allocation_of_threads(void **state)
{
    (void)state;
    worker_failures = 0;
    for (unsigned round = 0; round < scaled(300); round++) {
        racers_ready = 0;
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, first_allocation, (void *)i), 0);
        while (racers_ready < round % THREADS)
            continue;
        pid_t pid = fork();
        if (pid == 0)
            child_work(false);
        expect_good_end(pid, "a race with first allocations");
        for (size_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(worker_failures, 0);
}

/* Threads come and go, so that a child's thread gets the stack, and with it the thread pointer, of
 * one that may have held a lock; and the child's first call of the allocator is that thread's. */
static void *begin_threads_until_stopped(void *unused)
{
    (void)unused;
    while (!stop) {
        pthread_t thread;
        if (!pthread_create(&thread, NULL, first_allocation, NULL))
            pthread_join(thread, NULL);
    }
    return NULL;
}

static void children_may_begin_with_a_thread(void **state)
{
    (void)state;
    if (allocator_sanitized())
        SKIP_BECAUSE("ThreadSanitizer knows no threads in the child of a threaded program");
    start_workers(begin_threads_until_stopped);
    for (unsigned i = 0; i < scaled(2000); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            pthread_t thread;
            child_begins();
            if (!pthread_create(&thread, NULL, first_allocation, NULL))
                pthread_join(thread, NULL);
            _exit(worker_failures != 0);
        }
        expect_good_end(pid, "a thread first");
    }
    end_workers();
}

/* What the fork has left half done one of the child's threads sees to, and others wait for that:
 * also one of a higher priority, on the same processor. With so many threads it takes long. */
enum { WAITING_THREADS = 400, NO_PRIORITIES = 77 };

static pthread_barrier_t waiting;
static struct timespec until_first_call;

static void *have_a_heap(void *unused)
{
    (void)unused;
    void *volatile p = my_malloc(100);
    my_free(p);
    pthread_barrier_wait(&waiting);
    pthread_barrier_wait(&waiting);
    return NULL;
}

static void allocate_large(void)
{
    void *volatile p = my_malloc(70000);
    my_free(p);
}

static void *sleep_and_allocate(void *unused)
{
    (void)unused;
    nanosleep(&until_first_call, NULL);
    allocate_large();
    return NULL;
}

static bool be_of_priority(int priority, pthread_attr_t *higher)
{
    struct sched_param self = {.sched_priority = priority};
    struct sched_param other = {.sched_priority = priority + 1};
    return sched_setscheduler(0, SCHED_FIFO, &self) == 0 && pthread_attr_init(higher) == 0 &&
           pthread_attr_setinheritsched(higher, PTHREAD_EXPLICIT_SCHED) == 0 &&
           pthread_attr_setschedpolicy(higher, SCHED_FIFO) == 0 &&
           pthread_attr_setschedparam(higher, &other) == 0;
}

_Noreturn static void child_with_priorities(void)
{
    pthread_attr_t higher;
    pthread_t thread;
    child_begins();
    if (!be_of_priority(1, &higher) ||
        pthread_create(&thread, &higher, sleep_and_allocate, NULL) != 0)
        _exit(NO_PRIORITIES);
    allocate_large();
    pthread_join(thread, NULL);
    _exit(0);
}

static void stay_on_one_processor(cpu_set_t *before)
{
    cpu_set_t one;
    size_t processor = 0;
    assert_int_equal(sched_getaffinity(0, sizeof *before, before), 0);
    while (!CPU_ISSET(processor, before))
        processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

static void children_may_have_priorities(void **state)
{
    (void)state;
    static pthread_t threads[WAITING_THREADS];
    cpu_set_t before;
    int status = 0;
    if (allocator_sanitized())
        SKIP_BECAUSE("ThreadSanitizer knows no threads in the child of a threaded program");
    assert_int_equal(pthread_barrier_init(&waiting, NULL, WAITING_THREADS + 1), 0);
    for (size_t i = 0; i < WAITING_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, have_a_heap, NULL), 0);
    pthread_barrier_wait(&waiting);
    stay_on_one_processor(&before);
    for (unsigned i = 0; i < 20 && status == 0; i++) {
        until_first_call.tv_nsec = i * 50000;
        pid_t pid = fork();
        if (pid == 0)
            child_with_priorities();
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    sched_setaffinity(0, sizeof before, &before);
    pthread_barrier_wait(&waiting);
    for (size_t i = 0; i < WAITING_THREADS; i++)
        pthread_join(threads[i], NULL);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_PRIORITIES)
        SKIP_BECAUSE("the system gives this process no priorities");
    CHECK(status == 0, "status %#x", (unsigned)status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(racing_the_first_allocation_of_threads, test_begins),
        cmocka_unit_test_setup(children_may_begin_with_a_thread, test_begins),
        cmocka_unit_test_setup(children_may_have_priorities, test_begins),
        cmocka_unit_test_setup(with_8_threads_allocating, test_begins),
        cmocka_unit_test_setup(children_may_have_threads, test_begins),
        cmocka_unit_test_setup(children_free_inherited_blocks, test_begins),
    };
    return RUN_TESTS(tests);
}
