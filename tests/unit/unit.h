/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests: cmocka with the headers that it wants before it, and a main that runs every test in a
 * process of its own. The layers keep their state in static variables, so a fresh process is what
 * gives each test a fresh allocator; a test that ends its process fails alone.
 *
 * Included by unit tests only. `program [part-of-a-name]` runs the tests whose names contain it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNIT_COUNT(array) (sizeof(array) / sizeof(array)[0])

/* In the thread that runs the test: fails it, with a message in printf form that says which case.
 */
#define CHECK(condition, format, ...)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("not so: %s: " format, #condition, ##__VA_ARGS__);                            \
    } while (0)

/* In any thread and in forked children, where cmocka's assertions must not be used: ends the
 * process. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            dprintf(2, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                     \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

/* For a test of pages that are not in memory: none comes with its neighbours, whichever mode the
 * system has. */
static inline void unit_without_huge_pages(void)
{
    assert_int_equal(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
}

/* Random numbers that are the same in every run (G. Marsaglia, "Xorshift RNGs", 2003). */
struct unit_random {
    uint64_t state;
};

static inline uint64_t unit_random(struct unit_random *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return r->state;
}

static inline size_t unit_below(struct unit_random *r, size_t limit)
{
    return (size_t)(unit_random(r) >> 11) % limit;
}

/* --- threads --- */

#define UNIT_THREADS_MAX 32u

struct unit_thread {
    unsigned index;
    void *argument;
    void (*run)(unsigned index, void *argument);
    pthread_barrier_t *begin;
};

static inline void *unit_thread_main(void *p)
{
    struct unit_thread *t = p;
    pthread_barrier_wait(t->begin);
    t->run(t->index, t->argument);
    return NULL;
}

/* Runs run(0..count-1, argument) in as many threads, which begin together; returns when all have
 * ended. */
static inline void unit_in_threads(unsigned count, void (*run)(unsigned, void *), void *argument)
{
    pthread_t ids[UNIT_THREADS_MAX];
    struct unit_thread threads[UNIT_THREADS_MAX];
    pthread_barrier_t begin;
    MUST(count <= UNIT_THREADS_MAX);
    pthread_barrier_init(&begin, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        threads[i] = (struct unit_thread){i, argument, run, &begin};
        MUST(pthread_create(&ids[i], NULL, unit_thread_main, &threads[i]) == 0);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
    pthread_barrier_destroy(&begin);
}

/* --- main --- */

static inline void unit_print_file(int file)
{
    char buffer[4096];
    ssize_t n;
    lseek(file, 0, SEEK_SET);
    while ((n = read(file, buffer, sizeof buffer)) > 0)
        fwrite(buffer, 1, (size_t)n, stdout);
}

static inline bool unit_passes(const struct CMUnitTest *test)
{
    int output = memfd_create("output", MFD_CLOEXEC);
    fflush(NULL);
    pid_t child = fork();
    MUST(output >= 0 && child >= 0);
    if (child == 0) {
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        exit(_cmocka_run_group_tests(test->name, test, 1, NULL, NULL) != 0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    printf("%s %s\n", status == 0 ? "ok    " : "FAILED", test->name);
    if (status != 0) {
        printf("wait status 0x%x\n", (unsigned)status);
        unit_print_file(output);
    }
    close(output);
    return status == 0;
}

static inline int unit_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    const char *part = argc > 1 ? argv[1] : "";
    unsigned run = 0;
    unsigned failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (strstr(tests[i].name, part) == NULL)
            continue;
        run++;
        failed += !unit_passes(&tests[i]);
    }
    printf("%u run, %u failed\n", run, failed);
    return run == 0 || failed != 0;
}

#define UNIT_MAIN(tests)                                                                           \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return unit_main(argc, argv, tests, UNIT_COUNT(tests));                                    \
    }
