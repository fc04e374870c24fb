/* Conformance: realloc and reallocarray keep the content over every change of size; size 0 frees.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>

#include "conformance/support/cmocka_all.h"
#include "conformance/support/pattern.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void content_survives_every_pair_of_sizes(void **state)
{
    (void)state;
    for (size_t a = 0; a < COUNT_OF(all_sizes); a++) {
        for (size_t b = 0; b < COUNT_OF(all_sizes); b++) {
            size_t from = all_sizes[a], to = all_sizes[b];
            if (from + to > MIB(20))
                continue;
            void *p = my_malloc(from);
            assert_non_null(p);
            pattern_fill(p, from, a);
            p = my_realloc(p, to);
            assert_non_null(p);
            assert_true((uintptr_t)p % 16 == 0 && my_malloc_usable_size(p) >= to);
            CHECK(pattern_holds(p, smaller(from, to), a), "from %zu to %zu", from, to);
            pattern_fill(p, to, b);
            p = my_realloc(p, from);
            assert_non_null(p);
            CHECK(pattern_holds(p, smaller(from, to), b), "from %zu back to %zu", to, from);
            my_free(p);
        }
    }
}

static void growing_byte_by_byte_and_shrinking_again(void **state)
{
    (void)state;
    unsigned char *p = NULL;
    for (size_t n = 1; n <= 40000; n += n < 3000 ? 1 : 97) {
        p = my_realloc(p, n);
        assert_non_null(p);
        CHECK(pattern_holds(p, n > 97 ? n - 97 : n - 1, 3), "grown to %zu", n);
        pattern_fill(p, n, 3);
    }
    for (size_t n = 40000; n > 0; n -= n > 3000 ? 97 : 1) {
        pattern_fill(p, n < 39900 ? n : 39900, 4);
        p = my_realloc(p, n);
        assert_non_null(p);
        CHECK(pattern_holds(p, n < 39900 ? n : 39900, 4), "shrunk to %zu", n);
    }
    my_free(p);
}

static size_t random_size(uint64_t *random)
{
    uint64_t r = random_next(random);
    size_t limit = (size_t)16 << (r % 19); /* up to 4 MiB, every magnitude alike */
    return 1 + (r >> 20) % limit;
}

static void random_walk_of_many_blocks(void **state)
{
    (void)state;
    enum { COUNT = 64, STEPS = 6000 };
    struct {
        void *p;
        size_t size;
        uint64_t seed;
    } blocks[COUNT] = {{0}};
    uint64_t random = 20240607;
    for (size_t step = 0; step < STEPS; step++) {
        size_t i = random_next(&random) % COUNT, size = random_size(&random);
        void *p = my_realloc(blocks[i].p, size);
        assert_non_null(p);
        CHECK(pattern_holds(p, smaller(size, blocks[i].size), blocks[i].seed),
              "step %zu, from %zu to %zu", step, blocks[i].size, size);
        blocks[i].p = p;
        blocks[i].size = size;
        blocks[i].seed = step;
        pattern_fill(p, size, step);
    }
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(pattern_holds(blocks[i].p, blocks[i].size, blocks[i].seed), "block %zu", i);
        my_free(blocks[i].p);
    }
}

/* Growing blocks side by side: what grows in place must not grow into its neighbour. */
static void neighbours_grow_without_meeting(void **state)
{
    (void)state;
    for (size_t unit = KIB(16); unit <= MIB(2); unit *= 2) {
        enum { COUNT = 6 };
        void *p[COUNT] = {NULL};
        for (size_t n = 1; n <= 12; n++) {
            for (size_t i = 0; i < COUNT; i++) {
                p[i] = my_realloc(p[i], n * unit);
                assert_non_null(p[i]);
                CHECK(pattern_holds(p[i], (n - 1) * unit, i), "unit %zu step %zu", unit, n);
                pattern_fill(p[i], n * unit, i);
            }
        }
        for (size_t i = 0; i < COUNT; i += 2)
            my_free(p[i]);
        for (size_t i = 1; i < COUNT; i += 2) {
            p[i] = my_realloc(p[i], 18 * unit);
            CHECK(p[i] && pattern_holds(p[i], 12 * unit, i), "unit %zu", unit);
            my_free(p[i]);
        }
    }
}

static void size_0_frees_and_gives_null(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++) {
        void *p = my_malloc(all_sizes[i]);
        assert_non_null(p);
        errno = 0;
        assert_null(my_realloc(p, 0));
        assert_int_equal(errno, 0);
        p = my_malloc(all_sizes[i]);
        assert_null(my_reallocarray(p, 0, 8));
        p = my_malloc(all_sizes[i]);
        assert_null(my_reallocarray(p, 8, 0));
    }
    size_t before = my_bytes_in_use();
    for (size_t i = 0; i < 20000; i++) /* 2 GB if it did not free */
        assert_null(my_realloc(my_malloc(100000), 0));
    size_t after = my_bytes_in_use();
    CHECK(after < before + MIB(100), "%zu bytes in use before, %zu after", before, after);
}

static void shrinking_gives_memory_back(void **state)
{
    (void)state;
    enum { COUNT = 32 };
    void *p[COUNT];
    size_t before = my_bytes_in_use();
    for (size_t i = 0; i < COUNT; i++) {
        p[i] = my_malloc(MIB(8));
        assert_non_null(p[i]);
        p[i] = my_realloc(p[i], 1000);
        assert_non_null(p[i]);
    }
    size_t after = my_bytes_in_use();
    CHECK(after < before + MIB(64), "%zu bytes in use before, %zu after", before, after);
    for (size_t i = 0; i < COUNT; i++)
        my_free(p[i]);
}

/* Small blocks and large ones come to lie where the end of a block was. (The hardened library looks
 * whether what nobody uses has been written to.) */
static void what_a_block_leaves_serves_others(void **state)
{
    (void)state;
    for (size_t round = 0; round < 100; round++) {
        void *others[40];
        void *p = my_malloc(900000 + round * 100);
        assert_non_null(p);
        memset(p, 0xff, 900000);
        p = my_realloc(p, 100000);
        assert_non_null(p);
        for (size_t i = 0; i < COUNT_OF(others); i++) {
            others[i] = my_malloc(20000 + i * 10000);
            assert_non_null(others[i]);
            memset(others[i], (int)i, 20000);
        }
        for (size_t i = 0; i < COUNT_OF(others); i++)
            my_free(others[i]);
        my_free(p);
    }
}

static void reallocarray_is_realloc_of_the_product(void **state)
{
    (void)state;
    void *p = NULL;
    size_t old = 0;
    for (size_t count = 1; count < 200000; count = count * 3 + 1) {
        p = my_reallocarray(p, count, 24);
        assert_non_null(p);
        assert_true(my_malloc_usable_size(p) >= count * 24);
        CHECK(pattern_holds(p, old, 7), "count %zu", count);
        old = count * 24;
        pattern_fill(p, old, 7);
    }
    p = my_reallocarray(p, 10, 10);
    assert_true(p && pattern_holds(p, 100, 7));
    my_free(p);
    p = my_reallocarray(NULL, 0, 0);
    assert_non_null(p);
    my_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_survives_every_pair_of_sizes),
        cmocka_unit_test(growing_byte_by_byte_and_shrinking_again),
        cmocka_unit_test(random_walk_of_many_blocks),
        cmocka_unit_test(neighbours_grow_without_meeting),
        cmocka_unit_test(size_0_frees_and_gives_null),
        cmocka_unit_test(shrinking_gives_memory_back),
        cmocka_unit_test(what_a_block_leaves_serves_others),
        cmocka_unit_test(reallocarray_is_realloc_of_the_product),
    };
    return RUN_TESTS(tests);
}
