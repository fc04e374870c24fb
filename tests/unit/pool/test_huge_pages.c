/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: which superslabs for slots get huge pages, and whose slots they are for. */
#include "huge_support.h"

static void what_will_be_used_up_gets_huge_pages_in_a_large_pool(void **state)
{
    (void)state;
    start();
    huge_pages_from(2 * HAK_SUPERSLAB_BYTES);
    for (unsigned i = 0; i < 2 * HAK_SLOTS; i++)
        assert_false(is_dense(acquire(1, 1, DENSE, NULL)));
    size_t run = acquire(4, 1, RUN, NULL);
    assert_false(is_dense(run));
    assert_false(is_dense(acquire(1, 1, 3, NULL)));
    for (unsigned i = 5; i < HAK_SLOTS; i++)
        assert_int_equal(acquire(1, 1, DENSE, NULL) / HAK_SLOTS, run / HAK_SLOTS);
    size_t dense = acquire(1, 1, DENSE, NULL);
    assert_true(is_dense(dense));
    assert_false(is_dense(acquire(4, 1, RUN, NULL)));
    assert_false(is_dense(acquire(1, 1, 3, NULL)));
    for (unsigned i = 1; i < HAK_SLOTS; i++)
        assert_int_equal(acquire(1, 1, DENSE, NULL) / HAK_SLOTS, dense / HAK_SLOTS);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_FRESH, 3) > 0, true); /* the class is the same */
}

/* Fills one superslab more, `later_ns` after the last. Returns whether it is one for huge pages. */
static bool next_is_dense(uint64_t later_ns)
{
    fake_os_set_time_ns(hak_os_now_ns() + later_ns);
    return is_dense(fill_superslabs(1));
}

#define QUICK_NS(superslabs) ((superslabs) * (superslabs) * UINT64_C(125000))
static void a_pool_that_is_not_large_gets_them_while_it_grows_quickly(void **state)
{
    (void)state;
    start();
    huge_pages_from(4 * HAK_SUPERSLAB_BYTES);
    for (unsigned i = 0; i < 4; i++)
        assert_false(next_is_dense(0));
    assert_false(next_is_dense(QUICK_NS(4) + 1));
    assert_true(next_is_dense(QUICK_NS(5)));
    assert_true(next_is_dense(0));
    assert_false(next_is_dense(QUICK_NS(7) + 1));
    for (unsigned i = 8; i < 12; i++) /* twice as much */
        assert_true(next_is_dense(QUICK_NS(i) + 1));
}

/* It finds superslabs that are mapped and not begun. */
static void a_child_of_a_fork_gets_them_once_it_has_grown(void **state)
{
    (void)state;
    start();
    huge_pages_from(4 * HAK_SUPERSLAB_BYTES);
    size_t ahead = 0;
    while (ahead < 16 || !is_dense(ahead * HAK_SLOTS))
        ahead = fill_superslabs(1) / HAK_SLOTS + 1;
    hak_pool_fork_child();
    uint64_t asked = stats().huge_asked_total;
    assert_int_equal(fill_superslabs(1) / HAK_SLOTS, ahead);
    assert_int_equal(stats().huge_asked_total, asked);
    assert_true(has_huge_pages(fill_superslabs(1)));
    assert_int_equal(stats().huge_asked_total, asked + 1);
}

static void release_superslab(size_t superslab)
{
    for (unsigned i = 0; i < HAK_SLOTS; i++)
        release(superslab * HAK_SLOTS + i, 1, 3);
}

static void a_child_that_gives_back_and_grows_again_gets_them_too(void **state)
{
    (void)state;
    start();
    huge_pages_from(4 * HAK_SUPERSLAB_BYTES);
    size_t filled[24];
    for (unsigned i = 0; i < 24; i++)
        filled[i] = fill_superslabs(1) / HAK_SLOTS;
    hak_pool_fork_child();
    for (unsigned i = 8; i < 16; i++)
        release_superslab(filled[i]);
    hak_pool_trim();
    uint64_t asked = stats().huge_asked_total;
    fill_superslabs(1);
    assert_int_equal(stats().huge_asked_total, asked);
    assert_true(has_huge_pages(fill_superslabs(1)));
}

static void but_none_any_more_after_one_that_was_dear(void **state)
{
    (void)state;
    start();
    huge_pages_from(4 * HAK_SUPERSLAB_BYTES);
    fake_os_set_fault_ns(3000000); /* ms: more than a huge page costs, and little in all */
    for (unsigned i = 0; i < 4; i++)
        assert_false(next_is_dense(0));
    assert_true(next_is_dense(0));
    for (unsigned i = 5; i < 8; i++)
        assert_false(next_is_dense(0));
    assert_true(next_is_dense(0));
}

static void runs_may_use_what_is_empty_in_a_dense_superslab(void **state)
{
    (void)state;
    start();
    huge_pages_from(0);
    for (unsigned i = 0; i < HAK_SLOTS; i++)
        acquire(1, 1, DENSE, NULL);
    size_t dense = acquire(1, 1, DENSE, NULL);
    assert_true(is_dense(dense));
    for (unsigned i = 1; i <= 4; i++)
        acquire(1, 1, DENSE, NULL);
    release(dense + 1, 4, 3);
    assert_int_equal(acquire(4, 1, RUN, NULL), dense + 1);
}

static void a_large_pool_leaves_unused_slots_to_what_may_not_be_used_up(void **state)
{
    (void)state;
    start();
    huge_pages_from(HAK_SUPERSLAB_BYTES);
    for (unsigned i = 0; i < 2 * HAK_SLOTS; i++)
        acquire(1, 1, DENSE, NULL);
    size_t run = acquire(4, 1, RUN, NULL);
    assert_int_equal(acquire(1, 1, DENSE, NULL) / HAK_SLOTS, run / HAK_SLOTS); /* not large yet */
    for (unsigned i = 5; i < 2 * HAK_SLOTS; i++)
        acquire(1, 1, DENSE, NULL);
    run = acquire(4, 1, RUN, NULL);
    assert_false(is_dense(run));
    size_t dense = acquire(1, 1, DENSE, NULL);
    assert_true(is_dense(dense));
    assert_int_equal(acquire(1, 1, 3, NULL) / HAK_SLOTS, run / HAK_SLOTS);
    release(run, 4, RUN);
    for (unsigned i = 0; i < 4; i++) /* EMPTY slots are in memory anyway */
        assert_int_equal(acquire(1, 1, DENSE, NULL) / HAK_SLOTS, run / HAK_SLOTS);
    assert_int_equal(acquire(1, 1, DENSE, NULL) / HAK_SLOTS, dense / HAK_SLOTS);
}

static void come_and_go(size_t slot, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        release(slot, 1, 3);
        assert_int_equal(acquire(1, 1, DENSE, NULL), slot);
    }
}

static void what_goes_up_and_down_gets_huge_pages_in_a_large_pool_only(void **state)
{
    (void)state;
    start();
    huge_pages_from(HAK_SUPERSLAB_BYTES);
    size_t slot = acquire(1, 1, DENSE, NULL);
    for (unsigned i = 1; i < 2 * HAK_SLOTS; i++)
        acquire(1, 1, DENSE, NULL);
    come_and_go(slot, 2 * HAK_SLOTS / 4);
    for (unsigned i = 0; i < HAK_SLOTS; i++)
        assert_false(is_dense(acquire(1, 1, DENSE, NULL)));
    come_and_go(slot, 3 * HAK_SLOTS / 4 - 1); /* less than that is growth */
    for (unsigned i = 0; i < HAK_SLOTS; i++)
        assert_true(is_dense(acquire(1, 1, DENSE, NULL)));
    come_and_go(slot, 4 * HAK_SLOTS / 4); /* one superslab more is little */
    assert_true(is_dense(acquire(1, 1, DENSE, NULL)));
}

static unsigned acquire_until_refused(unsigned label)
{
    size_t slot;
    bool zero;
    unsigned acquired = 0;
    while (hak_pool_acquire_any(1, 1, label, &slot, &zero) == 0)
        acquired++;
    return acquired;
}

static void fill_to_the_limit(unsigned label)
{
    start();
    huge_pages_from(0);
    hak_pool_set_limit(3);
    size_t dense = acquire(1, 1, DENSE, NULL);
    size_t other = acquire(1, 1, 3, NULL);
    assert_true(is_dense(dense) && !is_dense(other));
    assert_int_equal(acquire_until_refused(label), 3 * HAK_SLOTS - 2);
    verify_pool();
}

static void at_the_limit_what_may_not_be_used_up_gets_slots_of_huge_pages(void **state)
{
    (void)state;
    fill_to_the_limit(3);
}

static void at_the_limit_what_will_be_used_up_gets_any_slots(void **state)
{
    (void)state;
    fill_to_the_limit(DENSE);
}

static void a_superslab_asks_for_huge_pages_with_its_first_slot(void **state)
{
    (void)state;
    huge_pages_that_cost(CHEAP_NS);
    fill_superslabs(2); /* the first 16 slots come in pieces */
    uint64_t asked = stats().huge_asked_total;
    fill_superslabs(40); /* several are mapped at once */
    assert_int_equal(stats().huge_asked_total, asked + 40);
    assert_int_equal(stats().huge_dear_total, 0);
}

static void dear_huge_pages_are_paid_for_while_that_is_little(void **state)
{
    (void)state;
    huge_pages_that_cost(2000000u); /* four are 8 ms */
    fill_superslabs(4);
    assert_int_equal(stats().huge_dear_total, 4);
    fill_superslabs(1);
    assert_int_equal(stats().huge_asked_total, 5);
}

static void after_huge_pages_that_are_too_dear_superslabs_have_small_ones(void **state)
{
    (void)state;
    huge_pages_that_cost(TOO_DEAR_NS);
    fill_superslabs(3);
    assert_int_equal(stats().huge_asked_total, 1);
    assert_int_equal(stats().huge_dear_total, 1);
    fill_superslabs(16); /* the 16th has a page that is dear again, and 32 follow */
    assert_int_equal(stats().huge_asked_total, 2);
    size_t spared = fill_superslabs(31);
    assert_int_equal(stats().huge_asked_total, 2);
    assert_true(is_dense(spared) && !has_huge_pages(spared));
    fake_os_set_fault_ns(CHEAP_NS);
    assert_true(has_huge_pages(fill_superslabs(8)));
    assert_int_equal(stats().huge_dear_total, 2);
    assert_in_range(stats().huge_asked_total, 8, 10);
    verify_pool();
}

static void once_a_program_has_run_for_long_it_pays_again(void **state)
{
    (void)state;
    huge_pages_that_cost(TOO_DEAR_NS);
    fill_superslabs(3);
    assert_int_equal(stats().huge_asked_total, 1);
    hak_store_relaxed(&hak_pool.huge_paid_ns, (uint64_t)0); /* little beside a long run */
    fill_superslabs(3);
    assert_int_equal(stats().huge_asked_total, 2);
    hak_store_relaxed(&hak_pool.huge_paid_ns, (uint64_t)0);
    fake_os_set_fault_ns(CHEAP_NS);
    fill_superslabs(1);
    hak_store_relaxed(&hak_pool.huge_paid_ns, (uint64_t)TOO_DEAR_NS); /* but cheap ones came */
    fill_superslabs(3);
    assert_int_equal(stats().huge_asked_total, 6);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_will_be_used_up_gets_huge_pages_in_a_large_pool),
    cmocka_unit_test(a_pool_that_is_not_large_gets_them_while_it_grows_quickly),
    cmocka_unit_test(a_child_of_a_fork_gets_them_once_it_has_grown),
    cmocka_unit_test(a_child_that_gives_back_and_grows_again_gets_them_too),
    cmocka_unit_test(but_none_any_more_after_one_that_was_dear),
    cmocka_unit_test(runs_may_use_what_is_empty_in_a_dense_superslab),
    cmocka_unit_test(a_large_pool_leaves_unused_slots_to_what_may_not_be_used_up),
    cmocka_unit_test(what_goes_up_and_down_gets_huge_pages_in_a_large_pool_only),
    cmocka_unit_test(at_the_limit_what_may_not_be_used_up_gets_slots_of_huge_pages),
    cmocka_unit_test(at_the_limit_what_will_be_used_up_gets_any_slots),
    cmocka_unit_test(a_superslab_asks_for_huge_pages_with_its_first_slot),
    cmocka_unit_test(dear_huge_pages_are_paid_for_while_that_is_little),
    cmocka_unit_test(after_huge_pages_that_are_too_dear_superslabs_have_small_ones),
    cmocka_unit_test(once_a_program_has_run_for_long_it_pays_again),
};
UNIT_MAIN(tests)
