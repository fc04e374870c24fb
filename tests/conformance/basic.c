/* Conformance: malloc, calloc, realloc, free; alignment 16 for every size; malloc(0).
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

static void malloc_gives_distinct_writable_blocks(void **state)
{
    (void)state;
    void *blocks[COUNT_OF(all_sizes)];
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        blocks[i] = my_malloc(all_sizes[i]);
        assert_non_null(blocks[i]);
        pattern_fill(blocks[i], all_sizes[i], i);
    }
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        CHECK(pattern_holds(blocks[i], all_sizes[i], i), "size %zu", all_sizes[i]);
        my_free(blocks[i]);
    }
}

static void free_of_null_does_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        my_free(NULL);
}

static void blocks_live_at_once_do_not_overlap(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static void *blocks[COUNT];
    static size_t sizes[COUNT];
    uint64_t random = 11;
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            if (round && random_next(&random) % 2)
                continue;
            CHECK(pattern_holds(blocks[i], sizes[i], i), "block %zu of %zu bytes", i, sizes[i]);
            my_free(blocks[i]);
            sizes[i] = random_next(&random) % 1200;
            blocks[i] = my_malloc(sizes[i]);
            assert_non_null(blocks[i]);
            pattern_fill(blocks[i], sizes[i], i);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(pattern_holds(blocks[i], sizes[i], i), "block %zu of %zu bytes", i, sizes[i]);
        my_free(blocks[i]);
    }
}

static void every_size_is_aligned_to_16(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 200000; size += size < 9000 ? 1 : 37) {
        void *two[2] = {my_malloc(size), my_malloc(size)};
        for (int i = 0; i < 2; i++) {
            CHECK(two[i] && (uintptr_t)two[i] % 16 == 0, "malloc(%zu) gave %p", size, two[i]);
            my_free(two[i]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        void *p = my_calloc(1, all_sizes[i]);
        CHECK(p && (uintptr_t)p % 16 == 0, "calloc(1, %zu) gave %p", all_sizes[i], p);
        p = my_realloc(p, all_sizes[i] / 2 + 1);
        CHECK(p && (uintptr_t)p % 16 == 0, "realloc to %zu gave %p", all_sizes[i] / 2 + 1, p);
        my_free(p);
    }
}

static void malloc_of_0_is_unique_and_freeable(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static unsigned char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = i % 2 ? my_malloc(0) : my_calloc(i % 4, 0);
        assert_non_null(blocks[i]);
        size_t usable = my_malloc_usable_size(blocks[i]);
        pattern_fill(blocks[i], usable, i);
    }
    for (size_t i = 0; i < COUNT; i++) { /* unique: nobody else wrote here */
        size_t usable = my_malloc_usable_size(blocks[i]);
        CHECK(pattern_holds(blocks[i], usable, i), "block %zu at %p", i, (void *)blocks[i]);
        for (size_t k = i + 1; k < i + 50 && k < COUNT; k++)
            assert_ptr_not_equal(blocks[i], blocks[k]);
    }
    for (size_t i = 0; i < COUNT; i++)
        my_free(blocks[i]);
}

static void calloc_gives_count_times_size_zero_bytes(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{1, 1},     {3, 7},       {100, 24},
                                       {17, 4097}, {1000, 1000}, {3, MIB(2)}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        size_t size = shapes[i][0] * shapes[i][1];
        void *p = my_calloc(shapes[i][0], shapes[i][1]);
        assert_non_null(p);
        assert_true(my_malloc_usable_size(p) >= size);
        assert_true(all_zero(p, size));
        pattern_fill(p, size, i);
        assert_true(pattern_holds(p, size, i));
        my_free(p);
    }
}

static void realloc_of_null_is_malloc(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        void *p = my_realloc(NULL, all_sizes[i]);
        assert_non_null(p);
        pattern_fill(p, all_sizes[i], i);
        assert_true(pattern_holds(p, all_sizes[i], i));
        my_free(p);
    }
    void *p = my_realloc(NULL, 0);
    assert_non_null(p);
    my_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malloc_gives_distinct_writable_blocks),
        cmocka_unit_test(free_of_null_does_nothing),
        cmocka_unit_test(blocks_live_at_once_do_not_overlap),
        cmocka_unit_test(every_size_is_aligned_to_16),
        cmocka_unit_test(malloc_of_0_is_unique_and_freeable),
        cmocka_unit_test(calloc_gives_count_times_size_zero_bytes),
        cmocka_unit_test(realloc_of_null_is_malloc),
    };
    return RUN_TESTS(tests);
}
