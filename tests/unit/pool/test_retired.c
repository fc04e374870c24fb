/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: what is kept (retired superslabs, EMPTY slots), its limits, and how it goes
 * back. */
#include "pool_support.h"

static void the_release_of_the_last_slot_retires_a_superslab(void **state)
{
    (void)state;
    start();
    keep_everything();
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

static void without_a_limit_on_bytes_an_eighth_of_what_is_in_use_is_kept(void **state)
{
    (void)state;
    static size_t slots[128];
    start();
    configure(1000, 0, UINT64_MAX);
    acquire_whole(slots, 128);
    for (unsigned i = 0; i < 128; i++) {
        release(slots[i], 32, RUN);
        size_t in_use = window_bytes() / HAK_SUPERSLAB_BYTES - stats().retired_now;
        CHECK(stats().retired_now <= in_use / 8, "%zu in use, %lu kept", in_use,
              stats().retired_now);
        if (i == 63)
            assert_true(stats().retired_now > 4);
    }
    assert_int_equal(stats().retired_now, 0);
}

static void of_little_in_use_1_mib_is_kept(void **state)
{
    (void)state;
    start();
    configure(1000, 0, UINT64_MAX);
    size_t whole = acquire(32, 1, RUN, NULL);
    for (unsigned i = 0; i < 16; i++)
        release(whole + i, 1, RUN);
    assert_int_equal(stats().empty_slots_now, 16);
    release(whole + 16, 1, RUN);
    assert_int_equal(stats().empty_slots_now, 0);
    release(whole + 17, 15, RUN); /* all of it is free: 2 MiB */
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(window_bytes(), 0);
}

/* What was given back of superslabs of which little is in use is nobody's. */
static void unused_slots_do_not_count_as_in_use(void **state)
{
    (void)state;
    static size_t slots[64];
    start();
    configure(1000, 0, UINT64_MAX);
    acquire_whole(slots, 64);
    for (unsigned i = 0; i < 64; i++)
        release(slots[i] + 1, 31, RUN);
    assert_in_range(stats().empty_slots_now, 0, 16);
    assert_int_equal(verify_pool(), 64);
}

static void how_much_is_kept_does_not_depend_on_what_waits(void **state)
{
    (void)state;
    size_t slots[8];
    start();
    configure(1000, 0, 1ull * SECOND_NS);
    acquire_whole(slots, 8);
    assert_int_equal(stats().budget_bytes, 2 << 20); /* an eighth */
    hak_pool_count_waiting(4 * HAK_SLOTS);
    assert_int_equal(stats().budget_bytes, 1 << 20);
    hak_pool_count_waiting(8 * HAK_SLOTS); /* more than there are: others count a moment later */
    assert_int_equal(stats().budget_bytes, 1 << 20);
    hak_pool_count_waiting(-12 * (ptrdiff_t)HAK_SLOTS);
    assert_int_equal(stats().budget_bytes, 2 << 20);
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
    keep_everything();
    release(acquire(32, 1, RUN, NULL), 32, RUN);
    struct hak_pool_stats stats;
    hak_pool_stats(&stats);
    assert_int_equal(stats.retired_now, 1);
    hak_pool_fork_child(); /* nobody was at it: nothing is lost */
    hak_pool_stats(&stats);
    assert_int_equal(stats.retired_now, 1);
    hak_store_relaxed(&hak_pool.grow_lock.state, 1u);               /* another thread's */
    hak_store_relaxed(&hak_space_groups()[0].retired, (uint64_t)0); /* it is about to count that */
    hak_pool_fork_child();
    hak_pool_stats(&stats);
    assert_int_equal(stats.retired_now, 0);
    release(acquire(32, 1, RUN, NULL), 32, RUN);
    acquire(1, 1, 1, NULL);
    pool_count_in_use(RUN, 32); /* the superslab that was given up stays claimed, by nobody */
    assert_int_equal(verify_pool(), 32 + 1);
}

/* --- EMPTY slots --- */

static void empty_slots_are_counted(void **state)
{
    (void)state;
    start();
    keep_everything();
    size_t whole = acquire(32, 1, RUN, NULL);
    release(whole + 1, 7, RUN);
    assert_int_equal(stats().empty_slots_now, 7);
    acquire(1, 1, 3, NULL);
    assert_int_equal(stats().empty_slots_now, 6);
    release(whole, 1, 3);
    release(whole + 1, 1, 3);
    assert_int_equal(stats().empty_slots_now, 8);
    release(whole + 8, 24, RUN);
    assert_int_equal(stats().empty_slots_now, 0); /* retired, all of it */
    assert_int_equal(acquire(4, 1, RUN, NULL), whole);
    assert_int_equal(stats().empty_slots_now, 28);
}

static void empty_slots_over_the_limit_go_at_once_highest_first(void **state)
{
    (void)state;
    size_t slots[10];
    start();
    configure(1000, 64 * HAK_SLOT_BYTES, UINT64_MAX);
    acquire_whole(slots, 10);
    for (unsigned i = 0; i < 10; i++) {
        fill_slots(slots[i], 32);
        release(slots[i] + 1, 31, RUN);
        CHECK(stats().empty_slots_now <= 64, "%lu", stats().empty_slots_now);
    }
    assert_true(stats().empty_slots_now >= 31);
    assert_true(stats().purged_slots_total > 0);
    assert_int_equal(resident_slots(slots[0], 32), 32);
    assert_int_equal(resident_slots(slots[2], 32), 1);
    assert_int_equal(verify_pool(), 10);
    bool zero;
    for (unsigned i = 0; i < 5; i++) {
        size_t at = acquire(31, 1, RUN, &zero);
        bool is_zero = *hak_slot_address(at) == 0;
        assert_int_equal(zero, is_zero);
    }
}

static void whole_superslabs_go_before_empty_slots(void **state)
{
    (void)state;
    size_t slots[4];
    start();
    configure(1000, 64 * HAK_SLOT_BYTES, UINT64_MAX);
    acquire_whole(slots, 4);
    release(slots[0] + 1, 31, RUN);
    release(slots[1], 32, RUN);
    assert_int_equal(stats().retired_now, 1);
    release(slots[2] + 1, 31, RUN);
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(stats().empty_slots_now, 62);
}

/* Otherwise the limit would be a quarter lower than it was said to be. */
static void what_is_over_the_limit_goes_and_little_more(void **state)
{
    (void)state;
    enum { LIMIT_SLOTS = 512, MORE_SLOTS = 32 + 32 }; /* of a superslab all go */
    size_t first[32];
    start();
    configure(1000, LIMIT_SLOTS * HAK_SLOT_BYTES, 5ull * SECOND_NS);
    acquire_whole(first, 32);
    size_t most = 0;
    for (unsigned i = 0; i < 32; i++)
        for (unsigned slot = 1; slot < 32; slot++) { /* one stays in use in each superslab */
            release(first[i] + slot, 1, RUN);
            size_t empty = stats().empty_slots_now;
            most = hak_max(most, empty);
            CHECK(empty <= LIMIT_SLOTS, "%zu slots are kept", empty);
            CHECK(most < LIMIT_SLOTS || empty >= LIMIT_SLOTS - MORE_SLOTS, "%zu are kept", empty);
        }
    assert_int_equal(most, LIMIT_SLOTS);
}

static void empty_slots_grow_old_four_times_as_slowly(void **state)
{
    (void)state;
    start();
    configure(1000, SIZE_MAX, 5ull * SECOND_NS);
    size_t whole = acquire(32, 1, RUN, NULL);
    fill_slots(whole, 32);
    fake_os_set_time_ns(100ull * SECOND_NS);
    release(whole + 1, 15, RUN);
    fake_os_set_time_ns(119ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(stats().empty_slots_now, 15);
    fake_os_set_time_ns(122ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(stats().empty_slots_now, 0);
    assert_int_equal(resident_slots(whole, 32), 17);
    assert_int_equal(verify_pool(), 17);
}

static void many_empty_slots_grow_old_like_superslabs(void **state)
{
    (void)state;
    start();
    configure(1000, SIZE_MAX, 5ull * SECOND_NS);
    size_t first = acquire(32, 1, RUN, NULL), second = acquire(32, 1, RUN, NULL);
    fake_os_set_time_ns(100ull * SECOND_NS);
    release(first + 1, 31, RUN);
    release(second + 1, 31, RUN); /* 62: half a superslab may always be kept */
    fake_os_set_time_ns(103ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(stats().empty_slots_now, 62);
    fake_os_set_time_ns(107ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(stats().empty_slots_now, 0);
}

static void a_purge_that_is_refused_leaves_the_slots_empty(void **state)
{
    (void)state;
    start();
    keep_everything();
    size_t whole = acquire(32, 1, RUN, NULL);
    release(whole + 1, 31, RUN);
    fake_os_fail(FAKE_PURGE, 1, EINVAL);
    assert_int_equal(hak_pool_purge_empty(SIZE_MAX, UINT64_MAX, true), 0);
    assert_int_equal(stats().empty_slots_now, 31);
    bool zero;
    assert_int_equal(acquire(31, 1, RUN, &zero), whole + 1);
    assert_false(zero);
}

static void what_cannot_be_purged_is_tried_again_a_little_later(void **state)
{
    (void)state;
    start();
    fake_os_set_time_ns(1000000000u);
    size_t slots[128]; /* superslabs in which one slot in use stays */
    for (unsigned i = 0; i < 128; i++)
        slots[i] = acquire(8, 1, RUN, NULL);
    fake_os_fail_from(FAKE_PURGE, 1, EINVAL);
    uint64_t calls = fake_os_calls(FAKE_PURGE);
    for (unsigned i = 0; i < 128; i++)
        release(slots[i], 7, RUN);
    assert_in_range(fake_os_calls(FAKE_PURGE), calls + 1, calls + 64);
    calls = fake_os_calls(FAKE_PURGE);
    fake_os_set_time_ns(1010000000u);
    release(slots[0] + 7, 1, RUN);
    assert_true(fake_os_calls(FAKE_PURGE) > calls);
    fake_os_fail_nothing();
    fake_os_set_time_ns(1020000000u);
    release(slots[1] + 7, 1, RUN);
    assert_true(stats().empty_slots_now * HAK_SLOT_BYTES <= stats().budget_bytes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_release_of_the_last_slot_retires_a_superslab),
    cmocka_unit_test(a_superslab_that_is_not_mapped_whole_is_not_retired),
    cmocka_unit_test(no_more_are_kept_than_the_limit_on_their_number),
    cmocka_unit_test(no_more_are_kept_than_the_limit_on_their_bytes),
    cmocka_unit_test(without_a_limit_on_bytes_an_eighth_of_what_is_in_use_is_kept),
    cmocka_unit_test(of_little_in_use_1_mib_is_kept),
    cmocka_unit_test(unused_slots_do_not_count_as_in_use),
    cmocka_unit_test(how_much_is_kept_does_not_depend_on_what_waits),
    cmocka_unit_test(what_is_older_than_the_limit_goes_at_the_next_release),
    cmocka_unit_test(the_newest_is_reused_and_the_oldest_given_up),
    cmocka_unit_test(trim_unmaps_all_that_is_retired),
    cmocka_unit_test(the_child_of_a_fork_gives_up_what_was_being_changed),
    cmocka_unit_test(empty_slots_are_counted),
    cmocka_unit_test(empty_slots_over_the_limit_go_at_once_highest_first),
    cmocka_unit_test(whole_superslabs_go_before_empty_slots),
    cmocka_unit_test(what_is_over_the_limit_goes_and_little_more),
    cmocka_unit_test(empty_slots_grow_old_four_times_as_slowly),
    cmocka_unit_test(many_empty_slots_grow_old_like_superslabs),
    cmocka_unit_test(a_purge_that_is_refused_leaves_the_slots_empty),
    cmocka_unit_test(what_cannot_be_purged_is_tried_again_a_little_later),
};
UNIT_MAIN(tests)
