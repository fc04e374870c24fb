/* Conformance: signals a thousand times a second, in whatever thread runs, while threads allocate,
 * begin and end, and the process forks. Handlers do nothing that is forbidden in one, but for those
 * that fork.
 *
 * Run with the library preloaded, or built against the prefixed one. A hang ends with SIGALRM.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "conformance/startend/busy.h"
#include "conformance/support/cmocka_all.h"

enum { PERIOD_NS = 1000000, THREADS = 4, HANG_SECONDS = 60, TEST_SECONDS = 240, GENERATIONS = 3 };

extern char **environ;

static atomic_uint signals_seen, worker_failures, forked, bad_children;
static atomic_bool stop;
static timer_t timer;

static unsigned scaled(unsigned count)
{
    return allocator_sanitized() ? count / 20 : count;
}

static void say_hang(int signal_number)
{
    (void)signal_number;
    static const char text[] = "signals: this test hangs\n";
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n;
    _exit(1);
}

static int test_begins(void **state)
{
    (void)state;
    signal(SIGALRM, say_hang);
    alarm(TEST_SECONDS);
    signals_seen = worker_failures = forked = bad_children = 0;
    stop = false;
    return 0;
}

/* ---- the timer ---- */

static void count_signal(int signal_number)
{
    (void)signal_number;
    signals_seen++;
}

static void begin_signals(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    struct itimerspec every = {{0, PERIOD_NS}, {0, PERIOD_NS}};
    assert_int_equal(timer_settime(timer, 0, &every, NULL), 0);
}

static void end_signals(void)
{
    assert_int_equal(timer_delete(timer), 0);
    signal(SIGUSR1, SIG_IGN);
}

/* ---- work ---- */

static void *short_thread(void *unused)
{
    (void)unused;
    return busy_churn(300, 5) ? NULL : "";
}

/* Allocates, and has a thread begin and end now and then. */
static void *work_until_stopped(void *number)
{
    for (uint64_t round = (uintptr_t)number; !stop; round++) {
        pthread_t thread;
        void *wrong = NULL;
        if (!busy_churn(200, round) || !busy_one(40000, round))
            worker_failures++;
        if (round % 16 == 0 && pthread_create(&thread, NULL, short_thread, NULL) == 0) {
            pthread_join(thread, &wrong);
            worker_failures += wrong != NULL;
        }
    }
    return NULL;
}

static pthread_t workers[THREADS];

static void start_workers(void)
{
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, work_until_stopped, (void *)i), 0);
}

static void end_workers(void)
{
    stop = true;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i], NULL), 0);
    assert_int_equal(worker_failures, 0);
}

static int wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

_Noreturn static void child_work(void)
{
    signal(SIGALRM, SIG_DFL);
    alarm(HANG_SECONDS);
    _exit(busy_churn(1000, 7) && busy_one(100000, 1) ? 0 : 1);
}

/* ---- tests ---- */

static void while_threads_allocate_begin_and_end(void **state)
{
    (void)state;
    begin_signals(count_signal);
    start_workers();
    while (signals_seen < scaled(1000))
        busy_require(busy_churn(1000, signals_seen), "work in the main thread");
    end_workers();
    end_signals();
}

/* The child has the handler but no timer; it is given one. */
static void while_the_process_forks(void **state)
{
    (void)state;
    begin_signals(count_signal);
    start_workers();
    for (unsigned i = 0; i < scaled(80) + 1; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
            struct itimerspec every = {{0, PERIOD_NS / 4}, {0, PERIOD_NS / 4}};
            if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
                timer_settime(timer, 0, &every, NULL);
            child_work();
        }
        assert_true(pid > 0);
        assert_int_equal(wait_for(pid), 0);
    }
    end_workers();
    end_signals();
    assert_true(signals_seen > 0);
}

static void while_programs_are_spawned(void **state)
{
    (void)state;
    require_system_programs();
    static char *const argv[] = {"/bin/true", NULL};
    begin_signals(count_signal);
    start_workers();
    for (unsigned i = 0; i < scaled(25) + 1; i++) {
        pid_t pid;
        assert_int_equal(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
        assert_int_equal(wait_for(pid), 0);
        pid = vfork();
        if (pid == 0) {
            execv(argv[0], argv);
            _exit(127);
        }
        assert_int_equal(wait_for(pid), 0);
    }
    end_workers();
    end_signals();
}

/* ---- handlers that fork ---- */

#ifndef sigev_notify_thread_id /* not in glibc 2.36 */
#define sigev_notify_thread_id _sigev_un._tid
#endif

static unsigned generation; /* of forks from forks, in this process */

/* One signal at some moment of what follows. (With a period, a handler that takes longer than that
 * leaves the program no time to go on.) */
static void arm(unsigned number)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event.sigev_notify_thread_id = gettid();
    struct itimerspec once = {{0, 0}, {0, 1000 + (long)(number * 7919 % 400) * 1000}};
    busy_require(!timer_create(CLOCK_MONOTONIC, &event, &timer) &&
                     !timer_settime(timer, 0, &once, NULL),
                 "a timer");
}

/* The child goes on with the interrupted call: for its own heap, or for that of a thread that
 * stayed behind, which it was perhaps just taking over. Then it forks in the same way itself. */
static void fork_in_handler(int signal_number)
{
    (void)signal_number;
    int saved = errno;
    pid_t pid = fork();
    if (pid == 0) {
        generation++;
        forked = 0;
        signal(SIGALRM, SIG_DFL);
        alarm(HANG_SECONDS);
    } else {
        bad_children += pid < 0 || wait_for(pid) != 0;
        forked++;
    }
    errno = saved;
}

/* Work in the midst of which the process forks. A child ends here. */
static void interrupted_work(unsigned number)
{
    unsigned mine = generation;
    arm(number);
    while (forked == 0 && generation == mine)
        busy_require(busy_churn(60, number) && busy_one(40000, 1), "interrupted work");
    if (generation == mine) {
        timer_delete(timer);
        forked = 0;
        return;
    }
    if (generation < GENERATIONS)
        interrupted_work(number * 31 + 1);
    busy_require(bad_children == 0, "a grandchild");
    _exit(0);
}

static void handlers_that_fork_and_whose_children_fork(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    generation = 0;
    start_workers();
    for (unsigned i = 0; i < scaled(120) + 1; i++)
        interrupted_work(i);
    end_workers();
    CHECK(bad_children == 0, "%u children failed or hung", bad_children);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(while_threads_allocate_begin_and_end, test_begins),
        cmocka_unit_test_setup(while_the_process_forks, test_begins),
        cmocka_unit_test_setup(while_programs_are_spawned, test_begins),
        cmocka_unit_test_setup(handlers_that_fork_and_whose_children_fork, test_begins),
    };
    return RUN_TESTS(tests);
}
