/* Conformance: fork in every situation that is known to hang allocators: with many threads
 * allocating, racing their first allocation, with handlers that allocate, from a signal handler
 * that interrupted malloc, while other threads hold stdio's locks. And vfork, posix_spawn, system,
 * popen.
 *
 * A hang ends with SIGALRM in the child and is reported.
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "conformance/startend/busy.h"
#include "conformance/support/cmocka_all.h"

enum { THREADS = 8, HANG_SECONDS = 30, TEST_SECONDS = 120 };

extern char **environ;

static atomic_bool stop;
static atomic_uint worker_failures;

/* HAK_TEST_FEWER: where forks are slow, or the same library is tested under another name. */
static unsigned scaled(unsigned count)
{
    if (getenv("HAK_TEST_FEWER"))
        count /= 4;
    return allocator_sanitized() ? count / 10 : count;
}

/* ---- hangs ---- */

/* The process that forks can hang as well as the child. */
static void test_hangs(int signal_number)
{
    (void)signal_number;
    static const char text[] = "fork: this test hangs, or takes more than two minutes\n";
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n;
    _exit(1);
}

/* HAK_TEST_HANG_SECONDS: where hangs are expected. */
static unsigned hang_seconds = HANG_SECONDS;

static int test_begins(void **state)
{
    (void)state;
    const char *asked = getenv("HAK_TEST_HANG_SECONDS");
    if (asked)
        hang_seconds = (unsigned)strtoul(asked, NULL, 10);
    signal(SIGALRM, test_hangs);
    alarm(TEST_SECONDS);
    return 0;
}

static void child_begins(void)
{
    signal(SIGALRM, SIG_DFL); /* the parent tells a hang by this signal */
    alarm(hang_seconds);
}

/* ---- what children do ---- */

static void *child_thread(void *unused)
{
    (void)unused;
    return busy_churn(1000, 8) ? NULL : "";
}

/* Allocates and frees 1,000 times; status 0 if that went well. */
_Noreturn static void child_work(bool with_thread)
{
    child_begins();
    bool good = busy_churn(1000, 7) && busy_one(100000, 1);
    pthread_t thread;
    void *wrong = NULL;
    if (with_thread)
        good = good && !pthread_create(&thread, NULL, child_thread, NULL) &&
               !pthread_join(thread, &wrong) && !wrong;
    _exit(good ? 0 : 1);
}

static void expect_good_end(pid_t pid, const char *what)
{
    int status = 0;
    assert_true(pid > 0);
    pid_t ended;
    while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        continue;
    assert_int_equal(ended, pid);
    CHECK(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM), "%s: the child hangs", what);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %#x", what, (unsigned)status);
}

/* ---- what other threads do meanwhile ---- */

static _Atomic(void *) exchange[64];

static void *allocate_until_stopped(void *number)
{
    uint64_t random = (uintptr_t)number + 1;
    while (!stop) {
        if (!busy_churn(50, random))
            worker_failures++;
        usleep(300); /* leaves the processors to the one that forks, a good part of the time */
        for (int i = 0; i < 100; i++) { /* blocks wander between the threads */
            uint64_t r = random_next(&random);
            size_t size = (r >> 8) % ((size_t)64 << (r % 12));
            my_free(atomic_exchange(&exchange[r >> 58], my_malloc(size)));
        }
    }
    return NULL;
}

static pthread_t workers[THREADS];

static void start_workers(void *(*run)(void *))
{
    stop = false;
    worker_failures = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, run, (void *)i), 0);
}

static void end_workers(void)
{
    stop = true;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i], NULL), 0);
    assert_int_equal(worker_failures, 0);
}

static void fork_many(unsigned count, bool with_thread, const char *what)
{
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0)
            child_work(with_thread);
        expect_good_end(pid, what);
    }
}

/* ---- fork ---- */

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

/* ---- handlers that allocate ---- */

static atomic_bool
    handlers_work; /* allocating in a signal handler that interrupted malloc is not allowed */
static atomic_uint prepared, in_parent, in_child;
static void *prepared_block;

static void at_prepare(void)
{
    if (!handlers_work)
        return;
    prepared++;
    my_free(prepared_block);
    prepared_block = my_malloc(700);
    busy_require(prepared_block && busy_churn(300, 1) && busy_one(MIB(1) + 1, 1),
                 "work before fork");
    pattern_fill(prepared_block, 700, 6);
}

static void at_parent(void)
{
    if (!handlers_work)
        return;
    in_parent++;
    busy_require(pattern_holds(prepared_block, 700, 6) && busy_churn(300, 2), "work in the parent");
}

static void at_child(void)
{
    if (!handlers_work)
        return;
    in_child++;
    child_begins();
    busy_require(pattern_holds(prepared_block, 700, 6) && busy_churn(300, 3) && busy_one(100000, 1),
                 "work in the child");
    my_free(prepared_block); /* registered twice: the next one finds a block of its own */
    prepared_block = my_malloc(700);
    busy_require(prepared_block != NULL, "a block in the child");
    pattern_fill(prepared_block, 700, 6);
}

/* Registered before and after the allocator may have registered its own: from preinit_array, too.
 */
static void register_early(int argc, char **argv, char **environment)
{
    (void)argc, (void)argv, (void)environment;
    pthread_atfork(at_prepare, at_parent, at_child);
}

#ifndef HAK_TEST_PREFIXED
__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(int, char **, char **) = register_early;
#endif

static void handlers_that_allocate(void **state)
{
    (void)state;
    register_early(0, NULL, NULL);
    start_workers(allocate_until_stopped);
    handlers_work = true;
    fork_many(scaled(200), false, "handlers that allocate");
    handlers_work = false;
    assert_true(in_parent >= scaled(200) && prepared == in_parent);
    end_workers();
}

/* ---- signals ---- */

static atomic_uint forks_in_handler, hangs_in_handler;

/* The child leaves at once half of the time, and half of the time it goes on with the interrupted
 * call. Which, the parent decides before. */
static atomic_bool child_returns;

static void fork_in_handler(int signal_number)
{
    (void)signal_number;
    int saved = errno;
    pid_t pid = fork();
    if (pid == 0) {
        child_begins();
        if (!child_returns)
            _exit(0);
        stop = true; /* the interrupted loop ends, see below */
        return;
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (status != 0)
        hangs_in_handler++;
    forks_in_handler++;
    errno = saved;
}

/* Allocates until there were enough forks, or this is the child. */
static void allocate_and_be_interrupted(unsigned forks)
{
    pid_t parent = getpid();
    while (forks_in_handler < forks && !stop) {
        busy_churn(200, forks_in_handler);
        busy_one(40000, 1);
    }
    if (getpid() != parent)
        child_work(false);
}

static void interrupted_by_timer(bool returns, unsigned forks)
{
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGPROF, &action, &old), 0);
    forks_in_handler = hangs_in_handler = 0;
    child_returns = returns;
    stop = false;
    struct itimerval every = {{0, 1009}, {0, 1009}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &every, NULL);
    allocate_and_be_interrupted(forks);
    setitimer(ITIMER_PROF, &never, NULL);
    sigaction(SIGPROF, &old, NULL);
    CHECK(hangs_in_handler == 0, "%u of %u children failed or hung", hangs_in_handler,
          forks_in_handler);
}

static void in_a_signal_handler(void **state)
{
    (void)state;
    interrupted_by_timer(false, scaled(500));
    interrupted_by_timer(true, scaled(500));
}

static void in_a_signal_handler_with_threads(void **state)
{
    (void)state;
    sigset_t profile, old;
    sigemptyset(&profile);
    sigaddset(&profile, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &profile,
                    &old); /* the workers are not interrupted, this thread is */
    start_workers(allocate_until_stopped);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    interrupted_by_timer(false, scaled(300));
    end_workers();
}

/* ---- stdio ---- */

static FILE *stdio_file;

/* One thread holds a file's lock and allocates; another holds the lock of the list of files and
 * waits for the file's; fork wants the list. A lock of the allocator in this chain closes the
 * circle. */
static void *print_until_stopped(void *number)
{
    while (!stop) {
        if ((uintptr_t)number % 4 == 3) {
            fflush(NULL);
            usleep(20);
            continue;
        }
        flockfile(stdio_file);
        fprintf(stdio_file, "thread %p\n", number);
        my_free(my_malloc(3000));
        busy_churn(20, (uint64_t)(uintptr_t)number);
        usleep(100);
        fprintf(stdio_file, "%p\n", number);
        funlockfile(stdio_file);
        FILE *other = fopen("/dev/null", "w");
        if (other)
            fclose(other);
    }
    return NULL;
}

static void while_others_hold_stdio_locks(void **state)
{
    (void)state;
    stdio_file = fopen("/dev/null", "w");
    assert_non_null(stdio_file);
    start_workers(print_until_stopped);
    fork_many(scaled(500), false, "stdio locks");
    end_workers();
    fclose(stdio_file);
}

/* ---- other ways to a new process ---- */

static char *const true_argv[] = {"/bin/true", NULL};

static void vfork_and_exec(void **state)
{
    (void)state;
    require_system_programs();
    start_workers(allocate_until_stopped);
    for (unsigned i = 0; i < scaled(100); i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execv(true_argv[0], true_argv);
            _exit(127);
        }
        expect_good_end(pid, "vfork");
        assert_true(busy_churn(500, i));
    }
    end_workers();
}

static void spawn_system_and_popen(void **state)
{
    (void)state;
    require_system_programs();
    start_workers(allocate_until_stopped);
    for (unsigned i = 0; i < scaled(50) + 1; i++) {
        pid_t pid;
        assert_int_equal(posix_spawn(&pid, true_argv[0], NULL, NULL, true_argv, environ), 0);
        expect_good_end(pid, "posix_spawn");
        assert_int_equal(system("x=$(echo abc); test \"$x\" = abc"), 0);
        char line[32] = "";
        FILE *pipe = popen("echo hello", "r");
        assert_non_null(pipe);
        assert_non_null(fgets(line, sizeof line, pipe));
        assert_int_equal(pclose(pipe), 0);
        assert_string_equal(line, "hello\n");
    }
    end_workers();
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
        cmocka_unit_test_setup(in_a_signal_handler, test_begins),
        cmocka_unit_test_setup(in_a_signal_handler_with_threads, test_begins),
        cmocka_unit_test_setup(while_others_hold_stdio_locks, test_begins),
        cmocka_unit_test_setup(vfork_and_exec, test_begins),
        cmocka_unit_test_setup(spawn_system_and_popen, test_begins),
        cmocka_unit_test_setup(handlers_that_allocate, test_begins),
    };
    return RUN_TESTS(tests);
}
