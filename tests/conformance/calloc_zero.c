/* Conformance: calloc's memory is zero, also where it was used before.
 *
 * Memory is dirtied to its last usable byte, freed in several ways, and asked for again in the same
 * and in other sizes: "known to be zero" must never be believed of memory that was handed out.
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <pthread.h>
#include <string.h>

#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

enum { COUNT = 2000 };

static void *blocks[COUNT];

static size_t how_many(size_t size)
{
    size_t n = MIB(allocator_sanitized() ? 3 : 12) / (size + 1);
    return n > COUNT ? COUNT : n < 3 ? 3 : n;
}

static void *dirty_and_free(void *size_arg)
{
    size_t size = *(size_t *)size_arg;
    size_t n = how_many(size);
    for (size_t i = 0; i < n; i++) {
        blocks[i] = my_malloc(size);
        if (blocks[i])
            memset(blocks[i], 0xa5, my_malloc_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < n; i++)
        my_free(blocks[i]);
    return NULL;
}

static void calloc_and_check(size_t size)
{
    size_t n = how_many(size);
    for (size_t i = 0; i < n; i++) {
        blocks[i] = my_calloc(1, size);
        CHECK(blocks[i] && all_zero(blocks[i], size), "size %zu, block %zu", size, i);
        memset(blocks[i], 0x5a, size);
    }
    for (size_t i = 0; i < n; i++)
        my_free(blocks[i]);
}

static void reused_memory_of_the_same_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        size_t size = all_sizes[i];
        for (int round = 0; round < 3; round++) {
            dirty_and_free(&size);
            calloc_and_check(size);
        }
    }
}

static void reused_memory_of_other_sizes(void **state)
{
    (void)state;
    for (size_t a = 0; a < COUNT_OF(range_sizes); a++) {
        for (size_t b = 0; b < COUNT_OF(range_sizes); b++) {
            size_t size = range_sizes[a];
            dirty_and_free(&size);
            if ((a + b) % 2)
                my_malloc_trim(
                    0); /* some of it goes to the system and comes back zeroed, some not */
            calloc_and_check(range_sizes[b]);
        }
    }
}

static void memory_of_an_ended_thread(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(range_sizes); i++) {
        pthread_t thread;
        size_t size = range_sizes[i];
        assert_int_equal(pthread_create(&thread, NULL, dirty_and_free, &size), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        calloc_and_check(size);
    }
}

static void memory_that_realloc_left_behind(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        for (int round = 0; round < 3; round++) {
            void *p = my_malloc(all_sizes[i] * 2);
            assert_non_null(p);
            memset(p, 0xa5, my_malloc_usable_size(p));
            void *q = my_realloc(p, all_sizes[i] / 4 + 1); /* the rest may be cut off in place */
            assert_non_null(q);
            calloc_and_check(all_sizes[i]);
            my_free(q);
            calloc_and_check(all_sizes[i] * 2);
        }
    }
}

static void random_mix_of_malloc_and_calloc(void **state)
{
    (void)state;
    uint64_t random = 99;
    memset(blocks, 0, sizeof blocks);
    for (size_t step = 0; step < 200000; step++) {
        uint64_t r = random_next(&random);
        size_t i = r % 300, size = (r >> 20) % ((size_t)16 << ((r >> 50) % 13));
        my_free(blocks[i]);
        if (r & 4096) {
            blocks[i] = my_calloc(size, 1);
            CHECK(blocks[i] && all_zero(blocks[i], size), "size %zu, step %zu", size, step);
        } else {
            blocks[i] = my_malloc(size);
            assert_non_null(blocks[i]);
        }
        memset(blocks[i], 0xff, my_malloc_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < 300; i++)
        my_free(blocks[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reused_memory_of_the_same_size),
        cmocka_unit_test(reused_memory_of_other_sizes),
        cmocka_unit_test(memory_of_an_ended_thread),
        cmocka_unit_test(memory_that_realloc_left_behind),
        cmocka_unit_test(random_mix_of_malloc_and_calloc),
    };
    return RUN_TESTS(tests);
}
