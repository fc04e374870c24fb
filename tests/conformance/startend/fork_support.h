/* Conformance: fork, what its programs share: a hang ends with SIGALRM in the child and is
 * reported; what children do; what other threads do while the process forks.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_FORK_SUPPORT_H
#define HAK_TEST_FORK_SUPPORT_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "conformance/startend/busy.h"
#include "conformance/support/cmocka_all.h"

enum { THREADS = 8, HANG_SECONDS = 30, TEST_SECONDS = 120 };

static atomic_bool stop;
static atomic_uint worker_failures;

/* HAK_TEST_FEWER: where forks are slow, or the same library is tested under another name. */
static inline unsigned scaled(unsigned count)
{
    if (getenv("HAK_TEST_FEWER"))
        count /= 4;
    return allocator_sanitized() ? count / 10 : count;
}

/* ---- hangs ---- */

/* The process that forks can hang as well as the child. */
static inline void test_hangs(int signal_number)
{
    (void)signal_number;
    static const char text[] = "fork: this test hangs, or takes more than two minutes\n";
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n;
    _exit(1);
}

/* HAK_TEST_HANG_SECONDS: where hangs are expected. */
static unsigned hang_seconds = HANG_SECONDS;

static inline int test_begins(void **state)
{
    (void)state;
    const char *asked = getenv("HAK_TEST_HANG_SECONDS");
    if (asked)
        hang_seconds = (unsigned)strtoul(asked, NULL, 10);
    signal(SIGALRM, test_hangs);
    alarm(TEST_SECONDS);
    return 0;
}

static inline void child_begins(void)
{
    signal(SIGALRM, SIG_DFL); /* the parent tells a hang by this signal */
    alarm(hang_seconds);
}

/* ---- what children do ---- */

static inline void *child_thread(void *unused)
{
    (void)unused;
    return busy_churn(1000, 8) ? NULL : "";
}

/* Allocates and frees 1,000 times; status 0 if that went well. */
_Noreturn static inline void child_work(bool with_thread)
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

static inline void expect_good_end(pid_t pid, const char *what)
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

static inline void *allocate_until_stopped(void *number)
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

static inline void start_workers(void *(*run)(void *))
{
    stop = false;
    worker_failures = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, run, (void *)i), 0);
}

static inline void end_workers(void)
{
    stop = true;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i], NULL), 0);
    assert_int_equal(worker_failures, 0);
}

static inline void fork_many(unsigned count, bool with_thread, const char *what)
{
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0)
            child_work(with_thread);
        expect_good_end(pid, what);
    }
}

#endif
