/* Conformance: free preserves errno on every path, and what succeeds does not disturb it.
 *
 * Paths: a thread's own small blocks (in its cache, at a drain), another thread's, large, huge, the
 * blocks of a thread that has ended, NULL.
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <pthread.h>

#include "conformance/support/cmocka_all.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

enum { COUNT = 3000, MARK = 4711 };

static void *blocks[COUNT];

static size_t how_many(size_t size)
{
    return size > KIB(32) ? (size > MIB(1) ? 40 : 300) : COUNT;
}

static void *fill_blocks(void *size_arg)
{
    size_t size = *(size_t *)size_arg;
    for (size_t i = 0; i < how_many(size); i++)
        blocks[i] = my_malloc(size);
    return NULL;
}

/* NULL, or what went wrong. */
static void *free_blocks(void *size_arg)
{
    size_t size = *(size_t *)size_arg;
    for (size_t i = 0; i < how_many(size); i++) {
        errno = MARK;
        my_free(blocks[i]);
        if (errno != MARK)
            return "free changed errno";
        blocks[i] = NULL;
    }
    return NULL;
}

static const char *in_a_thread(void *(*work)(void *), size_t size)
{
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, work, &size) || pthread_join(thread, &result))
        return "no thread";
    return result;
}

static void own_blocks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        size_t size = all_sizes[i];
        fill_blocks(&size);
        const char *wrong = free_blocks(&size);
        CHECK(!wrong, "%s, size %zu", wrong, size);
    }
}

static void blocks_of_a_running_thread(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(range_sizes); i++) {
        size_t size = range_sizes[i];
        fill_blocks(&size);
        const char *wrong = in_a_thread(free_blocks, size);
        CHECK(!wrong, "%s, size %zu", wrong, size);
    }
}

static void blocks_of_an_ended_thread(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(range_sizes); i++) {
        size_t size = range_sizes[i];
        const char *wrong = in_a_thread(fill_blocks, size);
        CHECK(!wrong, "%s", wrong);
        wrong = free_blocks(&size);
        CHECK(!wrong, "%s, size %zu", wrong, size);
    }
}

static void null_and_every_other_way_to_free(void **state)
{
    (void)state;
    errno = MARK;
    my_free(NULL);
    assert_int_equal(errno, MARK);
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        void *p = my_malloc(all_sizes[i]);
        errno = MARK;
        assert_null(my_realloc(p, 0));
        assert_int_equal(errno, MARK);
        p = my_memalign(4096, all_sizes[i]);
        errno = MARK;
        my_free(p);
        assert_int_equal(errno, MARK);
        if (my_find_free_sized()) {
            p = my_malloc(all_sizes[i]);
            errno = MARK;
            my_find_free_sized()(p, all_sizes[i]);
            assert_int_equal(errno, MARK);
        }
        if (my_find_free_aligned_sized()) {
            p = my_aligned_alloc(64, all_sizes[i]);
            errno = MARK;
            my_find_free_aligned_sized()(p, 64, all_sizes[i]);
            assert_int_equal(errno, MARK);
        }
        if (my_find_cfree()) {
            p = my_calloc(1, all_sizes[i]);
            errno = MARK;
            my_find_cfree()(p);
            assert_int_equal(errno, MARK);
        }
    }
}

/* C allows a success to change errno; programs that call malloc between a failure and perror are
 * better served by one that does not. */
static void success_leaves_errno(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        errno = MARK;
        void *p = my_malloc(all_sizes[i]);
        p = my_realloc(p, all_sizes[i] * 2);
        CHECK(p && errno == MARK, "size %zu errno %d", all_sizes[i], errno);
        my_free(p);
        p = my_calloc(1, all_sizes[i]);
        CHECK(p && errno == MARK, "size %zu errno %d", all_sizes[i], errno);
        my_free(p);
        CHECK(my_posix_memalign(&p, 4096, all_sizes[i]) == 0 && errno == MARK, "size %zu errno %d",
              all_sizes[i], errno);
        my_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_blocks),
        cmocka_unit_test(blocks_of_a_running_thread),
        cmocka_unit_test(blocks_of_an_ended_thread),
        cmocka_unit_test(null_and_every_other_way_to_free),
        cmocka_unit_test(success_leaves_errno),
    };
    return RUN_TESTS(tests);
}
