/* Conformance: realloc and reallocarray keep the content over every change of size; size 0 frees.
 *
 * Runs itself as a child with a limit in its environment.
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <string.h>

#include "conformance/support/child.h"
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

static void *exhausted[1 << 15];
static size_t exhausted_count;

/* Until nothing is to be had. False: there is no limit. */
static bool exhaust(void)
{
    static const size_t sizes[] = {MIB(1), 100000, 30000, 8000, 3000, 1500, 700, 200, 100};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *p;
        while ((p = my_malloc(sizes[i])) != NULL) {
            if (exhausted_count == COUNT_OF(exhausted))
                return false;
            exhausted[exhausted_count++] = p;
        }
    }
    return true;
}

enum { MOST_SHRUNK = 200 };

struct shrunk {
    void *p;
    size_t from, to;
};

static bool shrink(struct shrunk *b)
{
    errno = 1234;
    b->p = my_realloc(b->p, b->to);
    if (b->p == NULL || errno != 1234 || my_malloc_usable_size(b->p) < b->to ||
        !pattern_holds(b->p, b->to, b->from)) {
        fprintf(stderr, "from %zu to %zu: %p, errno %d\n", b->from, b->to, b->p, errno);
        return false;
    }
    pattern_fill(b->p, b->to, b->to);
    return true;
}

/* In a process with a limit. */
static int shrink_without_memory(void)
{
    static const size_t sizes[] = {200, 1000, 3000, 9000, 40000, 100000, 400000, MIB(1), MIB(5)};
    static struct shrunk blocks[MOST_SHRUNK];
    size_t n = 0;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (size_t to = 1; to < sizes[i]; to = to * 4 + 1) {
            blocks[n] = (struct shrunk){my_malloc(sizes[i]), sizes[i], to};
            assert_non_null(blocks[n].p);
            pattern_fill(blocks[n].p, sizes[i], sizes[i]);
            n++;
        }
    }
    if (!exhaust())
        return CHILD_SKIP;
    for (size_t i = 0; i < n; i++)
        if (!exhaust() || !shrink(&blocks[i]))
            return 1;
    for (size_t i = 0; i < exhausted_count; i++)
        my_free(exhausted[i]);
    for (size_t i = 0; i < n; i++) {
        if (!pattern_holds(blocks[i].p, blocks[i].to, blocks[i].to))
            return 1;
        my_free(blocks[i].p);
        void *p = my_calloc(1, blocks[i].from); /* what they left is zero where it has to be */
        if (p == NULL || !all_zero(p, blocks[i].from))
            return 1;
        my_free(p);
    }
    return 0;
}

static void set_limit(void *limit)
{
    putenv(limit);
}

/* What has the room already. */
static void a_block_becomes_shorter_without_memory(void **state)
{
    (void)state;
    static char limit[] = "HAKMEM_LIMIT_MB=128";
    static struct child child;
    child = (struct child){.argv = (char *[]){(char *)child_self(), "--shrink", NULL},
                           .setup = set_limit,
                           .setup_arg = limit};
    assert_true(child_run(&child));
    if (allocator_may_be_other() && child_exited(&child, CHILD_SKIP))
        skip();
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--shrink") == 0)
        return shrink_without_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_survives_every_pair_of_sizes),
        cmocka_unit_test(growing_byte_by_byte_and_shrinking_again),
        cmocka_unit_test(random_walk_of_many_blocks),
        cmocka_unit_test(neighbours_grow_without_meeting),
        cmocka_unit_test(size_0_frees_and_gives_null),
        cmocka_unit_test(shrinking_gives_memory_back),
        cmocka_unit_test(what_a_block_leaves_serves_others),
        cmocka_unit_test(reallocarray_is_realloc_of_the_product),
        cmocka_unit_test(a_block_becomes_shorter_without_memory),
    };
    return RUN_TESTS(tests);
}
