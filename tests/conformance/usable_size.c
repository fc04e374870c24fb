/* Conformance: malloc_usable_size is 0 for NULL, at least the request, stable, and all of it may be
 * written.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

enum { NEIGHBOURS = 3 };

/* Neighbours of one size, each written to its last usable byte, must not reach into each other. */
static void check_usable(size_t size)
{
    void *blocks[NEIGHBOURS];
    size_t usable[NEIGHBOURS];
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        blocks[i] = my_malloc(size);
        assert_non_null(blocks[i]);
        usable[i] = my_malloc_usable_size(blocks[i]);
        CHECK(usable[i] >= size, "%zu usable for %zu", usable[i], size);
        pattern_fill(blocks[i], usable[i], size + i);
    }
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        CHECK(my_malloc_usable_size(blocks[i]) == usable[i], "size %zu", size);
        size_t wrong = pattern_check(blocks[i], usable[i], size + i);
        CHECK(wrong == usable[i], "byte %zu of %zu usable for %zu", wrong, usable[i], size);
        my_free(blocks[i]);
    }
}

static void all_usable_bytes_may_be_written_for_thousands_of_sizes(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 3000; size++)
        check_usable(size);
    for (size_t size = 3001; size <= 200000; size += 61)
        check_usable(size);
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++)
        check_usable(all_sizes[i]);
}

static void usable_size_of_null_is_0(void **state)
{
    (void)state;
    assert_int_equal(my_malloc_usable_size(NULL), 0);
}

/* Stable for the block's life, whatever happens around it. */
static void usable_size_is_stable(void **state)
{
    (void)state;
    void *blocks[COUNT_OF(all_sizes)];
    size_t usable[COUNT_OF(all_sizes)];
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        blocks[i] = my_malloc(all_sizes[i]);
        assert_non_null(blocks[i]);
        usable[i] = my_malloc_usable_size(blocks[i]);
    }
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
            void *other = my_malloc(all_sizes[i] + round);
            CHECK(my_malloc_usable_size(blocks[i]) == usable[i], "size %zu", all_sizes[i]);
            my_free(other);
        }
        my_malloc_trim(0);
    }
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        CHECK(my_malloc_usable_size(blocks[i]) == usable[i], "size %zu", all_sizes[i]);
        my_free(blocks[i]);
    }
}

/* What a program writes behind the request, but within the usable size, is its own: realloc to the
 * usable size keeps the block's bytes. */
static void realloc_to_the_usable_size_keeps_all_of_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        void *p = my_malloc(all_sizes[i]);
        assert_non_null(p);
        size_t usable = my_malloc_usable_size(p);
        pattern_fill(p, usable, i);
        p = my_realloc(p, usable);
        assert_non_null(p);
        CHECK(pattern_holds(p, usable, i), "size %zu usable %zu", all_sizes[i], usable);
        p = my_realloc(p, usable * 2);
        assert_non_null(p);
        CHECK(pattern_holds(p, usable, i), "size %zu usable %zu, doubled", all_sizes[i], usable);
        my_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_usable_bytes_may_be_written_for_thousands_of_sizes),
        cmocka_unit_test(usable_size_of_null_is_0),
        cmocka_unit_test(usable_size_is_stable),
        cmocka_unit_test(realloc_to_the_usable_size_keeps_all_of_it),
    };
    return RUN_TESTS(tests);
}
