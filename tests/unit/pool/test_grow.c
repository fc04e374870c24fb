/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: growth in steps. */
#include "pool_support.h"

static void the_first_superslab_is_mapped_in_steps(void **state)
{
    (void)state;
    start();
    size_t before = 0;
    unsigned steps = 0;
    for (unsigned i = 0; i < HAK_SLOTS; i++) {
        size_t slot = acquire(1, 1, 0, NULL);
        memset(hak_slot_address(slot), 1, HAK_SLOT_BYTES);
        assert_int_equal(slot / HAK_SLOTS, 0);
        steps += window_bytes() != before;
        before = window_bytes();
        CHECK(before <= (i + 8) * HAK_SLOT_BYTES, "%zu bytes for %u slots", before, i + 1);
        assert_int_equal(verify_pool(), i + 1);
    }
    assert_true(steps >= 4);
    assert_int_equal(before, HAK_SUPERSLAB_BYTES);
    assert_int_equal(stats().mapped_superslabs, 1);
}

static void later_superslabs_are_mapped_whole(void **state)
{
    (void)state;
    start();
    for (unsigned i = 0; i <= HAK_SLOTS; i++)
        acquire(1, 1, 0, NULL);
    assert_int_equal(window_bytes(), 2 * HAK_SUPERSLAB_BYTES);
}

/* The largest step in which a pool is mapped that gets 200 superslabs. */
static uint64_t largest_step(unsigned label)
{
    uint64_t largest = 0;
    for (unsigned i = 0; i < 200; i++) {
        uint64_t before = stats().mapped_superslabs;
        acquire(32, 1, label, NULL);
        uint64_t step = stats().mapped_superslabs - before;
        CHECK(step <= 1 || step <= before / 8, "%lu superslabs more, with %lu mapped", step,
              before);
        largest = hak_max(step, largest);
    }
    verify_pool();
    return largest;
}

static void a_large_pool_grows_by_more_at_once_but_an_eighth_at_most(void **state)
{
    (void)state;
    start();
    assert_true(largest_step(3 | HAK_POOL_DENSE) > 4);
}

static void by_a_superslab_where_it_may_not_be_used_up(void **state)
{
    (void)state;
    start();
    assert_int_equal(largest_step(RUN), 1);
}

static void a_run_with_no_room_in_the_first_superslab_gets_another(void **state)
{
    (void)state;
    start();
    acquire(1, 1, 0, NULL);
    size_t run = acquire(32, 1, RUN, NULL);
    assert_int_equal(run % HAK_SLOTS, 0);
    assert_int_equal(run / HAK_SLOTS, 1);
    for (unsigned i = 1; i < HAK_SLOTS; i++) /* the first one still grows */
        assert_int_equal(acquire(1, 1, 0, NULL) / HAK_SLOTS, 0);
    assert_int_equal(verify_pool(), 64);
}

static void the_first_superslab_grows_by_as_much_as_a_run_needs(void **state)
{
    (void)state;
    start();
    size_t slot = acquire(1, 1, 0, NULL);
    size_t run = acquire(16, 16, RUN, NULL);
    assert_int_equal(run, slot + 16);
    memset(hak_slot_address(run), 1, 16 * HAK_SLOT_BYTES);
    assert_int_equal(window_bytes(), HAK_SUPERSLAB_BYTES);
    assert_int_equal(verify_pool(), 17);
    for (unsigned i = 1; i < 16; i++)
        assert_true(acquire(1, 1, 0, NULL) < run);
}

static void what_is_acquired_apart_counts_for_nothing_but_the_limit(void **state)
{
    (void)state;
    size_t apart;
    start();
    size_t mine = acquire(32, 1, RUN, NULL);
    struct hak_pool_stats before = stats();
    assert_int_equal(hak_pool_acquire_apart(&apart), 0);
    memset(hak_slot_address(apart), 1, HAK_SUPERSLAB_BYTES);
    assert_true(hak_space_is_taken(apart / HAK_SLOTS));
    assert_int_equal(hak_pool_mapped_superslabs(), 1);
    assert_int_equal(stats().mapped_superslabs, before.mapped_superslabs);
    assert_int_equal(stats().budget_bytes, before.budget_bytes);
    release(mine, 32, RUN);
    hak_pool_trim();
    assert_int_equal(hak_pool_mapped_superslabs(), 0);
    assert_int_equal(*hak_slot_address(apart), 1);
    hak_pool_set_limit(1);
    assert_int_equal(hak_pool_acquire_apart(&mine), 0);
    assert_int_equal(hak_pool_mapped_superslabs(), 1);
    assert_int_equal(hak_pool_acquire_apart(&mine), ENOMEM);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_first_superslab_is_mapped_in_steps),
    cmocka_unit_test(later_superslabs_are_mapped_whole),
    cmocka_unit_test(a_large_pool_grows_by_more_at_once_but_an_eighth_at_most),
    cmocka_unit_test(by_a_superslab_where_it_may_not_be_used_up),
    cmocka_unit_test(a_run_with_no_room_in_the_first_superslab_gets_another),
    cmocka_unit_test(the_first_superslab_grows_by_as_much_as_a_run_needs),
    cmocka_unit_test(what_is_acquired_apart_counts_for_nothing_but_the_limit),
};
UNIT_MAIN(tests)
