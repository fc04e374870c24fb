/* Conformance: ways to a new process that are known to hang allocators: fork with handlers that
 * allocate, from a signal handler that interrupted malloc, while other threads hold stdio's locks.
 * And vfork, posix_spawn, system, popen.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <spawn.h>
#include <sys/time.h>

#include "conformance/startend/fork_support.h"

extern char **environ;

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
        cmocka_unit_test_setup(in_a_signal_handler, test_begins),
        cmocka_unit_test_setup(in_a_signal_handler_with_threads, test_begins),
        cmocka_unit_test_setup(while_others_hold_stdio_locks, test_begins),
        cmocka_unit_test_setup(vfork_and_exec, test_begins),
        cmocka_unit_test_setup(spawn_system_and_popen, test_begins),
        cmocka_unit_test_setup(handlers_that_allocate, test_begins),
    };
    return RUN_TESTS(tests);
}
