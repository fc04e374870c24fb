/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: which runs of slots get huge pages. */
#include "large_support.h"

#define MANY 64u        /* of 300 KiB, one after the other: more than what is looked at */
#define BYTES 300 * KIB /* of 320 */

static void start_with_huge_pages_from(size_t bytes)
{
    start();
    fake_os_set_time_ns(1000000000); /* it stands: the pool grows quickly */
    hak_pool_configure(&(struct hak_pool_config){.retired_max_count = 1024,
                                                 .retired_max_bytes = SIZE_MAX,
                                                 .retired_max_age_ns = UINT64_MAX,
                                                 .huge_pages_from_bytes = bytes});
}

static bool has_huge_pages(const char *p)
{
    return hak_load_relaxed(&hak_superslab(hak_slot_of(p) / HAK_SLOTS)->huge_pages) ==
           HAK_HUGE_ASKED;
}

/* Allocates so many, of which the first `written` bytes are written. Returns how many have huge
 * pages. */
static unsigned allocate_written(unsigned count, size_t bytes, size_t written)
{
    unsigned huge = 0;
    for (unsigned i = 0; i < count; i++) {
        char *p = allocate(bytes);
        huge += has_huge_pages(p);
        fill(p, written, i);
    }
    return huge;
}

static void runs_that_are_written_get_huge_pages(void **state)
{
    (void)state;
    start_with_huge_pages_from(4 * MIB);
    assert_int_equal(allocate_written(12, BYTES, BYTES), 0); /* the first four tell by then */
    assert_true(allocate_written(MANY, BYTES, BYTES) > 0);   /* those that fill a superslab */
    assert_true(allocate_written(MANY, BYTES, BYTES) >= MANY * 3 / 4);
}

static void those_of_a_small_pool_do_not(void **state)
{
    (void)state;
    start_with_huge_pages_from(64 * MIB);
    assert_int_equal(allocate_written(MANY, BYTES, BYTES), 0);
}

static void nor_do_those_of_which_little_is_written(void **state)
{
    (void)state;
    start_with_huge_pages_from(4 * MIB);
    assert_int_equal(allocate_written(MANY, BYTES, BYTES / 2), 0);
    assert_int_equal(allocate_written(3 * MANY, BYTES, KIB), 0);
}

/* They are asked for again after what was not looked at any more. */
static void a_program_may_begin_to_write_them(void **state)
{
    (void)state;
    start_with_huge_pages_from(4 * MIB);
    assert_int_equal(allocate_written(MANY, BYTES, KIB), 0);
    allocate_written(MANY, BYTES, BYTES);
    assert_true(allocate_written(MANY, BYTES, BYTES) >= MANY * 3 / 4);
}

/* One in 16 has none, and tells. */
static void and_may_cease_to(void **state)
{
    (void)state;
    start_with_huge_pages_from(4 * MIB);
    allocate_written(MANY, BYTES, BYTES);
    unsigned huge = allocate_written(4 * MANY, BYTES, KIB);
    assert_in_range(huge, 1, 3 * MANY);
    assert_true(allocate_written(MANY, BYTES, KIB) <= 8); /* what is left of the last superslabs */
}

static void what_is_freed_meanwhile_tells_nothing(void **state)
{
    (void)state;
    start_with_huge_pages_from(4 * MIB);
    allocate_written(MANY, BYTES, BYTES);
    for (unsigned i = 0; i < MANY; i++) {
        char *p = allocate(BYTES);
        fill(p, BYTES, i);
        assert_true(release(p));
        hak_pool_trim();
    }
    assert_true(allocate_written(16, BYTES, BYTES) >= 12);
}

/* A look is three calls at most. */
static void they_are_hardly_ever_looked_at(void **state)
{
    (void)state;
    start_with_huge_pages_from(4 * MIB);
    uint64_t calls = fake_os_calls(FAKE_RESIDENT);
    allocate_written(13, BYTES, BYTES); /* 4 MiB are mapped with the second superslab */
    assert_in_range(fake_os_calls(FAKE_RESIDENT) - calls, 1, 3 * 4);
    allocate_written(MANY, BYTES, BYTES); /* 16 MiB and more: a large pool */
    calls = fake_os_calls(FAKE_RESIDENT);
    allocate_written(16 * 16, BYTES, BYTES);
    assert_in_range(fake_os_calls(FAKE_RESIDENT) - calls, 3 * 8, 3 * 16);
    allocate_written(4 * MANY, BYTES, KIB);
    calls = fake_os_calls(FAKE_RESIDENT);
    allocate_written(16 * 16, BYTES, KIB);
    assert_in_range(fake_os_calls(FAKE_RESIDENT) - calls, 5, 16);
}

static void nor_at_all_in_a_small_pool(void **state)
{
    (void)state;
    start_with_huge_pages_from(64 * MIB);
    allocate_written(MANY, BYTES, BYTES);
    assert_int_equal(fake_os_calls(FAKE_RESIDENT), 0);
}

static void no_length_that_leaves_more_than_a_quarter_of_its_slots(void **state)
{
    (void)state;
    static const size_t leave[] = {90 * KIB, 140 * KIB};
    static const size_t fills[] = {110 * KIB, 150 * KIB, 240 * KIB, 660 * KIB, 1700 * KIB};
    start_with_huge_pages_from(4 * MIB);
    allocate_written(MANY, BYTES, BYTES);
    for (unsigned i = 0; i < UNIT_COUNT(leave); i++)
        assert_int_equal(allocate_written(MANY, leave[i], leave[i]), 0);
    for (unsigned i = 0; i < UNIT_COUNT(fills); i++)
        CHECK(allocate_written(MANY, fills[i], fills[i]) >= MANY * 3 / 4, "%zu", fills[i]);
}

static void nor_of_a_superslab_unless_others_fill_it(void **state)
{
    (void)state;
    enum { SMALL = 12 };
    start_with_huge_pages_from(4 * MIB);
    assert_int_equal(allocate_written(MANY, 1200 * KIB, 1200 * KIB), 0);
    assert_false(hak_pool_is_filled());
    size_t slot;
    bool zero;
    for (unsigned i = 0; i < SMALL * MANY; i++)
        assert_int_equal(hak_pool_acquire_any(1, 1, 3, &slot, &zero), 0);
    assert_true(hak_pool_is_filled());
    assert_true(allocate_written(8, 1200 * KIB, 1200 * KIB) >= 6);
}

static void nor_one_that_stands_for_a_class(void **state)
{
    (void)state;
    start_with_huge_pages_from(4 * MIB);
    allocate_written(MANY, BYTES, BYTES);
    bool zero;
    for (unsigned i = 0; i < 8; i++)
        assert_false(has_huge_pages(hak_large_alloc_sampled(60 * KIB, 1, &zero)));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(runs_that_are_written_get_huge_pages),
    cmocka_unit_test(those_of_a_small_pool_do_not),
    cmocka_unit_test(nor_do_those_of_which_little_is_written),
    cmocka_unit_test(a_program_may_begin_to_write_them),
    cmocka_unit_test(and_may_cease_to),
    cmocka_unit_test(what_is_freed_meanwhile_tells_nothing),
    cmocka_unit_test(they_are_hardly_ever_looked_at),
    cmocka_unit_test(nor_at_all_in_a_small_pool),
    cmocka_unit_test(no_length_that_leaves_more_than_a_quarter_of_its_slots),
    cmocka_unit_test(nor_of_a_superslab_unless_others_fill_it),
    cmocka_unit_test(nor_one_that_stands_for_a_class),
};
UNIT_MAIN(tests)
