/* Conformance: what the hardened library keeps of large blocks is for those that are live: once all
 * are freed, no more than 16 MiB stays in memory, however many threads have freed them, and before
 * a request is refused all of it goes, that of threads that wait too. SPDX-License-Identifier:
 * Apache-2.0 OR MIT */
#include "conformance/support/cmocka_all.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BLOCKS 20u
#define BLOCK_BYTES ((size_t)10 * 1000 * 1000)
#define THREADS 32u
#define THREAD_BLOCK_BYTES ((size_t)900 * 1000)
#define KEPT_MOST_BYTES ((size_t)20 << 20) /* with some room for all else */

#define ALL_BYTES ((size_t)100 << 20) /* a thread's quarantine has four blocks */
#define FEW_THREADS 4u

/* A column of statm: 0 is what is mapped, 1 what is in memory. */
static size_t process_bytes(unsigned column)
{
    char text[64] = {0};
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    char *at = text;
    size_t pages = strtoul(at, &at, 10);
    if (column == 1)
        pages = strtoul(at, &at, 10);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void when_all_large_blocks_are_freed_little_is_kept(void **state)
{
    (void)state;
    static char *blocks[BLOCKS];
    size_t before = process_bytes(1);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    assert_in_range(process_bytes(1), 0, before + KEPT_MOST_BYTES);
}

static pthread_barrier_t barrier;

/* They wait twice at the barrier: when they have done their work, and before they end. */
static void begin_threads(pthread_t *threads, unsigned count, void *(*work)(void *unused))
{
    assert_int_equal(pthread_barrier_init(&barrier, NULL, count + 1), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    pthread_barrier_wait(&barrier);
}

static void end_threads(const pthread_t *threads, unsigned count)
{
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static void *replace_a_block_and_wait(void *unused)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        volatile char *p = malloc(THREAD_BLOCK_BYTES);
        for (size_t at = 0; p != NULL && at < THREAD_BLOCK_BYTES; at += 1024)
            p[at] = 1;
        free((void *)p);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void many_threads_keep_no_more(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    size_t before = process_bytes(1);
    begin_threads(threads, THREADS, replace_a_block_and_wait);
    size_t now = process_bytes(1);
    end_threads(threads, THREADS);
    assert_in_range(now, 0, before + KEPT_MOST_BYTES);
}

/* NULL: refused. */
static char *block_with_a_byte(size_t bytes)
{
    volatile char *p = malloc(bytes);
    if (p != NULL)
        p[0] = 1;
    return (char *)p;
}

static void *free_blocks_and_wait(void *unused)
{
    for (size_t i = 0; i < 8; i++)
        free(block_with_a_byte(ALL_BYTES / 4));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void what_other_threads_freed_is_had_before_memory_is_refused(void **state)
{
    (void)state;
    pthread_t threads[FEW_THREADS];
    struct rlimit before, limit;
    static char *blocks[BLOCKS];
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    begin_threads(threads, FEW_THREADS, free_blocks_and_wait);
    limit = before;
    limit.rlim_cur = process_bytes(0) + ALL_BYTES / 2;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    size_t refused = 0;
    for (size_t i = 0; i < BLOCKS; i++)
        refused += (blocks[i] = block_with_a_byte(ALL_BYTES / 10)) == NULL;
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    end_threads(threads, FEW_THREADS);
    assert_int_equal(refused, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when_all_large_blocks_are_freed_little_is_kept),
        cmocka_unit_test(many_threads_keep_no_more),
        cmocka_unit_test(what_other_threads_freed_is_had_before_memory_is_refused),
    };
    return RUN_TESTS(tests);
}
