/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of heap: M_PERTURB: blocks of every kind are filled when they are given out, small
 * ones when they are freed, whoever frees them; afterwards the fast paths serve again. */
#include "heap_support.h"

#include "heap/profile.h"

static const size_t sizes[] = {1, 40, 1024, 1025, 30000, 65536, 200000, 3000000};
#define SMALL_SIZES 6u
#define VALUE ((uint8_t)0x5a)

static bool is_all(const char *p, size_t bytes, uint8_t value)
{
    return bytes_all(p, bytes, value);
}

/* What is kept in bins from before comes out filled as well. */
static void blocks_are_filled_when_they_are_given_out(void **state)
{
    (void)state;
    for (unsigned i = 0; i < UNIT_COUNT(sizes); i++)
        release(memset(allocate(sizes[i]), 0, sizes[i]));
    assert_true(hak_heap_set_perturb(VALUE));
    for (unsigned i = 0; i < UNIT_COUNT(sizes); i++) {
        char *p = allocate(sizes[i]);
        CHECK(is_all(p, sizes[i], 0xa5), "size %zu", sizes[i]);
        release(p);
        p = hak_heap_aligned(4096, sizes[i]);
        assert_non_null(p);
        CHECK((uintptr_t)p % 4096 == 0 && is_all(p, sizes[i], 0xa5), "size %zu", sizes[i]);
        release(p);
        p = hak_heap_calloc(sizes[i]);
        assert_non_null(p);
        CHECK(is_all(p, sizes[i], 0), "size %zu", sizes[i]);
        release(p);
    }
}

static void realloc_fills_what_it_adds(void **state)
{
    (void)state;
    assert_true(hak_heap_set_perturb(VALUE));
    char *p = memset(allocate(100), 1, 100);
    p = heap_realloc(p, 5000);
    assert_non_null(p);
    assert_true(is_all(p, 100, 1));
    /* What the old block had behind its 100 bytes comes along. */
    assert_true(is_all(p + 200, 4800, 0xa5));
    release(p);
}

static void release_in_thread(unsigned index, void *argument)
{
    (void)index;
    char **p = argument;
    release(allocate(1)); /* by the slow path, so that its frees are too */
    for (unsigned i = 0; i < SMALL_SIZES; i++)
        release(p[i]);
}

static void small_blocks_are_filled_when_they_are_freed(void **state)
{
    (void)state;
    assert_true(hak_heap_set_perturb(VALUE));
    char *p[SMALL_SIZES];
    for (unsigned i = 0; i < SMALL_SIZES; i++) {
        p[i] = allocate(sizes[i]);
        release(p[i]);
        CHECK(is_all(p[i], sizes[i], VALUE), "size %zu", sizes[i]);
    }
    for (unsigned i = 0; i < SMALL_SIZES; i++)
        p[i] = allocate(sizes[i]);
    unit_in_threads(1, release_in_thread, p);
    for (unsigned i = 0; i < SMALL_SIZES; i++)
        CHECK(is_all(p[i], sizes[i], VALUE), "size %zu", sizes[i]);
}

static void nothing_is_lost_and_it_ends(void **state)
{
    (void)state;
    static char *p[2000];
    assert_true(hak_heap_set_perturb(VALUE));
    for (unsigned i = 0; i < UNIT_COUNT(p); i++) {
        p[i] = allocate(i * 7 % 3000);
        fill(p[i], i * 7 % 3000, i);
    }
    for (unsigned i = 0; i < UNIT_COUNT(p); i++) {
        MUST(is_filled(p[i], i * 7 % 3000, i * 7 % 3000, i));
        release(p[i]);
    }
    assert_true(hak_heap_set_perturb(0));
    char *first = memset(allocate(100), 1, 100);
    release(first); /* by the slow path once more, which opens the fast one */
    char *q = hak_heap_try_malloc(100);
    assert_non_null(q);
    assert_true(hak_heap_try_free(q));
    assert_ptr_equal(q, first);
    assert_true(is_all(q, 100, 1));
    assert_nothing_is_lost();
}

static void either_this_or_the_heap_profile(void **state)
{
    (void)state;
    assert_true(hak_heap_set_perturb(VALUE));
    assert_int_equal(hak_profile_start(4096), EBUSY);
    assert_true(hak_heap_set_perturb(0));
    assert_int_equal(hak_profile_start(4096), 0);
    assert_false(hak_heap_set_perturb(VALUE));
    hak_profile_stop();
    assert_true(hak_heap_set_perturb(VALUE));
    assert_true(hak_heap_set_perturb(0));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_are_filled_when_they_are_given_out),
    cmocka_unit_test(realloc_fills_what_it_adds),
    cmocka_unit_test(small_blocks_are_filled_when_they_are_freed),
    cmocka_unit_test(nothing_is_lost_and_it_ends),
    cmocka_unit_test(either_this_or_the_heap_profile),
};
UNIT_MAIN(tests)
