/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: growth in steps, the cache of retired superslabs and its limits. */
#include "pool_support.h"

static void configure(size_t count, size_t bytes, uint64_t age_ns)
{
    struct hak_pool_config config = {
        .retired_max_count = count, .retired_max_bytes = bytes, .retired_max_age_ns = age_ns};
    hak_pool_configure(&config);
}

/* --- growth --- */

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

static void a_large_pool_grows_by_more_at_once_but_an_eighth_at_most(void **state)
{
    (void)state;
    start();
    uint64_t largest = 0;
    for (unsigned i = 0; i < 200; i++) {
        uint64_t before = stats().mapped_superslabs;
        acquire(32, 1, RUN, NULL);
        uint64_t step = stats().mapped_superslabs - before;
        CHECK(step <= 1 || step <= before / 8, "%lu superslabs more, with %lu mapped", step,
              before);
        largest = step > largest ? step : largest;
    }
    assert_true(largest > 4);
    verify_pool();
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

/* --- retiring --- */

/* n superslabs, acquired whole. */
static void acquire_whole(size_t *slots, size_t n)
{
    for (size_t i = 0; i < n; i++)
        slots[i] = acquire(32, 1, RUN, NULL);
}

static void the_release_of_the_last_slot_retires_a_superslab(void **state)
{
    (void)state;
    start();
    size_t whole = acquire(32, 1, RUN, NULL);
    for (unsigned i = 0; i < 31; i++) {
        release(whole + i, 1, 5);
        assert_int_equal(stats().retired_now, 0);
    }
    release(whole + 31, 1, 5);
    assert_int_equal(stats().retired_now, 1);
    assert_int_equal(stats().retired_total, 1);
    assert_int_equal(window_bytes(), HAK_SUPERSLAB_BYTES);
    assert_int_equal(verify_pool(), 0);
}

static void a_superslab_that_is_not_mapped_whole_is_not_retired(void **state)
{
    (void)state;
    start();
    size_t slot = acquire(1, 1, 5, NULL);
    release(slot, 1, 5);
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(acquire(1, 1, 5, NULL), slot);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_WARM, 5), 1);
}

static void no_more_are_kept_than_the_limit_on_their_number(void **state)
{
    (void)state;
    size_t slots[8];
    start();
    configure(3, SIZE_MAX, UINT64_MAX);
    acquire_whole(slots, 8);
    for (unsigned i = 0; i < 8; i++)
        release(slots[i], 32, RUN);
    assert_int_equal(stats().retired_now, 3);
    assert_int_equal(stats().unmapped_superslabs, 5);
    assert_int_equal(window_bytes(), 3 * HAK_SUPERSLAB_BYTES);
    assert_int_equal(verify_pool(), 0);
}

static void no_more_are_kept_than_the_limit_on_their_bytes(void **state)
{
    (void)state;
    size_t slots[8];
    start();
    configure(1000, 5 * HAK_SUPERSLAB_BYTES + 1, UINT64_MAX);
    acquire_whole(slots, 8);
    for (unsigned i = 0; i < 8; i++)
        release(slots[i], 32, RUN);
    assert_int_equal(stats().retired_now, 5);
    configure(1000, 1, UINT64_MAX);
    slots[0] = acquire(32, 1, RUN, NULL);
    release(slots[0], 32, RUN);
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(window_bytes(), 0);
}

static void without_a_limit_on_bytes_an_eighth_of_what_is_in_use_is_kept_or_8_mib(void **state)
{
    (void)state;
    static size_t slots[128];
    start();
    configure(1000, 0, UINT64_MAX);
    acquire_whole(slots, 128);
    for (unsigned i = 0; i < 128; i++) {
        release(slots[i], 32, RUN);
        size_t in_use = window_bytes() / HAK_SUPERSLAB_BYTES - stats().retired_now;
        CHECK(stats().retired_now <= in_use / 8 || stats().retired_now <= 4, "%zu in use, %lu kept",
              in_use, stats().retired_now);
        if (i == 63)
            assert_true(stats().retired_now > 4);
    }
    assert_int_equal(stats().retired_now, 4);
}

static void what_is_older_than_the_limit_goes_at_the_next_release(void **state)
{
    (void)state;
    size_t slots[4];
    start();
    configure(1000, SIZE_MAX, 5ull * SECOND_NS);
    acquire_whole(slots, 4);
    fake_os_set_time_ns(100ull * SECOND_NS);
    release(slots[0], 32, RUN);
    fake_os_set_time_ns(103ull * SECOND_NS);
    release(slots[1], 32, RUN);
    assert_int_equal(stats().retired_now, 2);
    fake_os_set_time_ns(106ull * SECOND_NS);
    release(slots[2], 32, RUN);
    assert_int_equal(stats().retired_now, 2);
    assert_false(hak_space_is_taken(slots[0] / HAK_SLOTS));
    assert_true(hak_space_is_taken(slots[1] / HAK_SLOTS));
    fake_os_set_time_ns(200ull * SECOND_NS);
    release(slots[3], 32, RUN);
    assert_int_equal(stats().retired_now, 1);
    assert_int_equal(verify_pool(), 0);
}

static void the_newest_is_reused_and_the_oldest_given_up(void **state)
{
    (void)state;
    size_t slots[3];
    start();
    configure(2, SIZE_MAX, UINT64_MAX);
    acquire_whole(slots, 3);
    release(slots[1], 32, RUN);
    release(slots[0], 32, RUN);
    release(slots[2], 32, RUN);
    assert_false(hak_space_is_taken(slots[1] / HAK_SLOTS));
    assert_int_equal(acquire(32, 1, RUN, NULL), slots[2]);
    assert_int_equal(acquire(32, 1, RUN, NULL), slots[0]);
    assert_int_equal(stats().retired_now, 0);
}

static void trim_unmaps_all_that_is_retired(void **state)
{
    (void)state;
    size_t slots[5];
    start();
    configure(1000, SIZE_MAX, UINT64_MAX);
    acquire_whole(slots, 5);
    assert_int_equal(hak_pool_trim(), 0);
    for (unsigned i = 1; i < 5; i++)
        release(slots[i], 32, RUN);
    assert_int_equal(hak_pool_trim(), 4 * HAK_SUPERSLAB_BYTES);
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(window_bytes(), HAK_SUPERSLAB_BYTES);
    assert_int_equal(verify_pool(), 32);
    memset(hak_slot_address(slots[0]), 1, HAK_SUPERSLAB_BYTES);
}

static void the_child_of_a_fork_gives_up_what_was_being_changed(void **state)
{
    (void)state;
    start();
    release(acquire(32, 1, RUN, NULL), 32, RUN);
    struct hak_pool_stats stats;
    hak_pool_stats(&stats);
    assert_int_equal(stats.retired_now, 1);
    hak_pool_fork_child(); /* nobody was at it: nothing is lost */
    hak_pool_stats(&stats);
    assert_int_equal(stats.retired_now, 1);
    hak_lock(&hak_pool.retired_lock);
    hak_lock(&hak_pool.grow_lock);
    hak_pool_fork_child();
    hak_pool_stats(&stats);
    assert_int_equal(stats.retired_now, 0);
    release(acquire(32, 1, RUN, NULL), 32, RUN);
    acquire(1, 1, 1, NULL);
    assert_int_equal(verify_pool(), 32 + 1); /* the superslab that was given up stays claimed */
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_first_superslab_is_mapped_in_steps),
    cmocka_unit_test(later_superslabs_are_mapped_whole),
    cmocka_unit_test(a_large_pool_grows_by_more_at_once_but_an_eighth_at_most),
    cmocka_unit_test(a_run_with_no_room_in_the_first_superslab_gets_another),
    cmocka_unit_test(the_first_superslab_grows_by_as_much_as_a_run_needs),
    cmocka_unit_test(the_release_of_the_last_slot_retires_a_superslab),
    cmocka_unit_test(a_superslab_that_is_not_mapped_whole_is_not_retired),
    cmocka_unit_test(no_more_are_kept_than_the_limit_on_their_number),
    cmocka_unit_test(no_more_are_kept_than_the_limit_on_their_bytes),
    cmocka_unit_test(without_a_limit_on_bytes_an_eighth_of_what_is_in_use_is_kept_or_8_mib),
    cmocka_unit_test(what_is_older_than_the_limit_goes_at_the_next_release),
    cmocka_unit_test(the_newest_is_reused_and_the_oldest_given_up),
    cmocka_unit_test(trim_unmaps_all_that_is_retired),
    cmocka_unit_test(the_child_of_a_fork_gives_up_what_was_being_changed),
};
UNIT_MAIN(tests)
