/* Conformance: what the hardened library keeps of large blocks is for those that are live: once all
 * are freed, no more than 16 MiB stays in memory, however many threads have freed them.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/support/cmocka_all.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 20u
#define BLOCK_BYTES ((size_t)10 * 1000 * 1000)
#define THREADS 32u
#define THREAD_BLOCK_BYTES ((size_t)900 * 1000)
#define KEPT_MOST_BYTES ((size_t)20 << 20) /* with some room for all else */

static size_t resident_bytes(void)
{
    char text[64] = {0};
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    char *second;
    strtoul(text, &second, 10);
    return strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void when_all_large_blocks_are_freed_little_is_kept(void **state)
{
    (void)state;
    static char *blocks[BLOCKS];
    size_t before = resident_bytes();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    assert_in_range(resident_bytes(), 0, before + KEPT_MOST_BYTES);
}

static pthread_barrier_t barrier;

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
    size_t before = resident_bytes();
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, replace_a_block_and_wait, NULL), 0);
    pthread_barrier_wait(&barrier);
    size_t now = resident_bytes();
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    assert_in_range(now, 0, before + KEPT_MOST_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when_all_large_blocks_are_freed_little_is_kept),
        cmocka_unit_test(many_threads_keep_no_more),
    };
    return RUN_TESTS(tests);
}
