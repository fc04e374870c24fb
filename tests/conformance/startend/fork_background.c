/* Conformance: HAKMEM_BACKGROUND_THREAD in the child of a fork. A child that allocates has a thread
 * of its own, which gives its memory back while it makes no calls; one that does not allocate has
 * none, nor has one that libc does not know of, nor any without the option.
 *
 * Run with the library preloaded, or built against the prefixed one, and with the option set. The
 * forks of fork.c are tried with the option too.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "conformance/startend/busy.h"
#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"

enum { HANG_SECONDS = 30, LARGE_BYTES = 3500000, THREADS = 4, FORKS = 200 };

/* Of this process. Allocates nothing. */
static int threads_now(void)
{
    static char status[4096];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t n = read(file, status, sizeof status - 1);
    close(file);
    status[n > 0 ? n : 0] = 0;
    const char *line = strstr(status, "\nThreads:");
    return line ? (int)strtol(line + 9, NULL, 10) : 0;
}

/* More than a look into a bin. */
static bool take_a_slow_path(void)
{
    void *p = my_malloc(LARGE_BYTES);
    my_free(p);
    return p != NULL;
}

/* A child that does this work; how it ended, 0: well. */
static int in_child(pid_t (*make)(void), void (*work)(void))
{
    int status = -1;
    pid_t pid = make();
    if (pid == 0) {
        alarm(HANG_SECONDS);
        work();
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static pid_t raw_fork(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void allocate_and_have_one(void)
{
    errno = 77;
    busy_require(threads_now() == 1 && take_a_slow_path(), "a first call");
    busy_require(errno == 77, "errno being left alone");
    busy_require(threads_now() == 2, "one thread after the first call");
    busy_require(busy_churn(1000, 1) && threads_now() == 2, "one thread after many calls");
}

static void a_child_that_allocates_has_one(void **state)
{
    (void)state;
    assert_int_equal(threads_now(), 2);
    for (int i = 0; i < 20; i++)
        assert_int_equal(in_child(fork, allocate_and_have_one), 0);
}

static void have_one_in_each_generation(void)
{
    allocate_and_have_one();
    busy_require(in_child(fork, allocate_and_have_one) == 0, "a grandchild");
}

static void so_has_its_own_child(void **state)
{
    (void)state;
    assert_int_equal(in_child(fork, have_one_in_each_generation), 0);
}

static void wait_and_have_none(void)
{
    usleep(600000);
    busy_require(threads_now() == 1, "no thread in a child that makes no call");
}

static void a_child_that_never_allocates_has_none(void **state)
{
    (void)state;
    assert_int_equal(in_child(fork, wait_and_have_none), 0);
}

static void allocate_and_have_none(void)
{
    busy_require(busy_churn(1000, 1) && take_a_slow_path() && threads_now() == 1, "no thread");
}

static void nor_has_one_that_libc_knows_nothing_of(void **state)
{
    (void)state;
    assert_int_equal(in_child(raw_fork, allocate_and_have_none), 0);
}

/* Whether anything is mapped there. */
static bool is_mapped(char *at)
{
    unsigned char in_memory;
    char *page = at - (uintptr_t)at % 4096;
    return mincore(page, 1, &in_memory) == 0;
}

static void free_and_wait(void)
{
    char *middle = NULL;
    for (int i = 0; i < 4; i++) { /* what is wanted again and again is kept */
        char *p = my_malloc(LARGE_BYTES);
        middle = p + LARGE_BYTES / 2;
        memset(p, 1, LARGE_BYTES);
        my_free(p);
    }
    busy_require(is_mapped(middle), "keeping what was freed for a while");
    for (int i = 0; i < 80 && is_mapped(middle); i++)
        usleep(100000);
    busy_require(!is_mapped(middle), "giving back what was freed long ago");
}

static void memory_of_a_child_without_calls_goes_back(void **state)
{
    (void)state;
    if (getenv("HAK_TEST_HARDENED"))
        SKIP_BECAUSE("the quarantine of the hardened library keeps addresses");
    assert_int_equal(in_child(fork, free_and_wait), 0);
}

static atomic_bool stop;
static atomic_int begun;

static void *allocate_until_stopped(void *number)
{
    begun++;
    while (!stop)
        busy_churn(100, (uintptr_t)number);
    return NULL;
}

static void *a_thread_of_the_child(void *unused)
{
    return busy_churn(100, 2) ? unused : NULL;
}

/* The background thread's start in the midst of the start of another one. */
static void begin_with_a_thread(void)
{
    pthread_t thread;
    void *good = NULL;
    busy_require(pthread_create(&thread, NULL, a_thread_of_the_child, &stop) == 0 &&
                     pthread_join(thread, &good) == 0 && good == &stop,
                 "a thread of the child");
    busy_require(busy_churn(100, 3), "work in the child");
}

static void many_forks_with_threads_do_not_hang(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    stop = false;
    begun = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_until_stopped, (void *)i), 0);
    while (begun < THREADS) /* a thread that begins holds locks of AddressSanitizer's own */
        usleep(100);        /* allocator, and its fork does not wait for those (gcc 12) */
    for (int i = 0; i < FORKS; i++)
        assert_int_equal(
            in_child(fork, i % 2 == 0 ? begin_with_a_thread : have_one_in_each_generation), 0);
    stop = true;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void without_option(void *unused)
{
    (void)unused;
    unsetenv("HAKMEM_BACKGROUND_THREAD");
}

static void none_without_the_option(void **state)
{
    (void)state;
    static struct child self;
    char *argv[] = {(char *)child_self(), "--without", NULL};
    self.argv = argv;
    self.setup = without_option;
    assert_true(child_run(&self));
    CHECK(child_exited(&self, 0), "%s", child_describe(&self));
}

/* ---- the end of the main thread ---- */

static void *after_the_main_thread(void *unused)
{
    usleep(50000);
    busy_require(busy_churn(100, 4), "work after the main thread's end");
    return unused;
}

/* The thread that forked is the child's main thread. */
static void end_the_main_thread(void)
{
    pthread_t thread;
    busy_require(take_a_slow_path() && threads_now() == 2, "a background thread");
    busy_require(pthread_create(&thread, NULL, after_the_main_thread, NULL) == 0, "a thread");
    pthread_exit(NULL);
}

/* With musl 1.2.3 such a child never ends, under no library either: its main thread keeps the lock
 * of the list of threads. */
#ifdef __GLIBC__
#define CHILD_CAN_END true
#else
#define CHILD_CAN_END false
#endif

static void *fork_after_the_main_thread(void *unused)
{
    usleep(50000);
    if (!CHILD_CAN_END)
        return unused;
    pid_t pid = fork();
    int status = -1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        end_the_main_thread();
    }
    busy_require(waitpid(pid, &status, 0) == pid && status == 0, "the end of a child");
    return unused;
}

static int main_ends(void)
{
    pthread_t thread;
    busy_require(threads_now() == 2, "a background thread");
    busy_require(pthread_create(&thread, NULL, fork_after_the_main_thread, NULL) == 0, "a thread");
    pthread_exit(NULL);
}

static void a_process_ends_though_its_main_thread_has_ended(void **state)
{
    (void)state;
    static struct child self;
    char *argv[] = {(char *)child_self(), "--main-ends", NULL};
    self.argv = argv;
    self.timeout_seconds = HANG_SECONDS;
    assert_true(child_run(&self));
    CHECK(child_exited(&self, 0), "%s", child_describe(&self));
}

int main(int argc, char **argv)
{
    allocator_require();
    if (argc == 2 && strcmp(argv[1], "--main-ends") == 0)
        return main_ends();
    if (argc == 2 && strcmp(argv[1], "--without") == 0)
        return in_child(fork, allocate_and_have_none) != 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_allocates_has_one),
        cmocka_unit_test(so_has_its_own_child),
        cmocka_unit_test(a_child_that_never_allocates_has_none),
        cmocka_unit_test(nor_has_one_that_libc_knows_nothing_of),
        cmocka_unit_test(memory_of_a_child_without_calls_goes_back),
        cmocka_unit_test(many_forks_with_threads_do_not_hang),
        cmocka_unit_test(none_without_the_option),
        cmocka_unit_test(a_process_ends_though_its_main_thread_has_ended),
    };
    return RUN_TESTS(tests);
}
