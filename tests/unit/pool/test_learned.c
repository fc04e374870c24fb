/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: limits on what is kept that learn from what is wanted again. */
#include "pool_support.h"

#define AT_ONCE 4u /* superslabs that are old, and that a call gives back at most */

/* 64 superslabs are acquired and released: how many of them went. */
static uint64_t given_back_by_a_round(void)
{
    static size_t slots[64];
    uint64_t before = stats().unmapped_superslabs;
    acquire_whole(slots, 64);
    for (unsigned i = 0; i < 64; i++)
        release(slots[i], 32, RUN);
    return stats().unmapped_superslabs - before;
}

static void memory_that_is_wanted_again_at_once_is_kept_the_next_time(void **state)
{
    (void)state;
    start();
    configure(1000, 0, 1ull * SECOND_NS);
    acquire(1, 1, 5, NULL); /* so that never all that is in use is given back */
    for (unsigned time = 100; time < 110; time += 5) {
        fake_os_set_time_ns(time * SECOND_NS);
        CHECK(given_back_by_a_round() >= 60, "at %u s", time);
        uint64_t half = given_back_by_a_round(); /* it was wrong for once */
        CHECK(half >= 28 && half <= 34, "at %u s: %lu", time, half);
        for (unsigned round = 0; round < 2; round++)
            given_back_by_a_round(); /* learning that it holds with as little in use as there is */
        for (unsigned round = 0; round < 3; round++)
            assert_int_equal(given_back_by_a_round(), 0);
        assert_in_range(stats().retired_now, 62, 65);
        fake_os_set_time_ns((time + 2) * SECOND_NS); /* nobody wanted it for a second */
        tick_until_done();
        assert_int_equal(stats().retired_now, 0);
        assert_true(stats().budget_bytes <= 8 << 20);
    }
}

static void memory_that_is_wanted_much_later_was_given_back_rightly(void **state)
{
    (void)state;
    static size_t slots[64];
    start();
    configure(1000, 0, 1ull * SECOND_NS);
    for (unsigned round = 0; round < 3; round++) {
        fake_os_set_time_ns((100ull + 10 * round) * SECOND_NS);
        acquire_whole(slots, 64);
        for (unsigned i = 0; i < 64; i++)
            release(slots[i], 32, RUN);
        assert_true(stats().retired_now <= 8);
    }
}

static void come_and_go(size_t *slots, size_t superslabs, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < superslabs; i++)
            release(slots[i], 32, RUN);
        acquire_whole(slots, superslabs);
    }
}

static void start_learning(void)
{
    start();
    configure(1000, 0, 1ull * SECOND_NS);
    fake_os_set_time_ns(100ull * SECOND_NS);
}

/* 64 superslabs in use, of which the first 16 went and came: what is kept for them is learned. */
static const size_t *with_16_of_64_that_come_and_go(void)
{
    static size_t slots[64];
    start_learning();
    acquire_whole(slots, 64);
    come_and_go(slots, 16, 8);
    return slots;
}

/* Blocks that are replaced one after the other while much is in use: what is kept for them is of no
 * use when the rest goes. */
static void what_was_learned_with_much_in_use_does_not_hold_with_little(void **state)
{
    (void)state;
    const size_t *slots = with_16_of_64_that_come_and_go();
    uint64_t before = stats().unmapped_superslabs;
    for (unsigned i = 0; i < 16; i++)
        release(slots[i], 32, RUN);
    assert_int_equal(stats().unmapped_superslabs, before);
    for (unsigned i = 16; i < 64; i++)
        release(slots[i], 32, RUN);
    assert_in_range(stats().retired_now, 0, 1);
}

/* Of 16 that come and go beside 48 in use an eighth of those, 6, may be kept anyway; so 10 are
 * learned, for 32 to 63 in use and for more. */
static void what_was_learned_holds_down_to_the_end_of_its_level(void **state)
{
    (void)state;
    const size_t *slots = with_16_of_64_that_come_and_go();
    for (unsigned i = 0; i < 32; i++)
        release(slots[i], 32, RUN);
    assert_in_range(stats().retired_now, 32 / 8 + 10, 32 / 8 + 10 + 1);
    release(slots[32], 32, RUN);
    assert_in_range(stats().retired_now, 31 / 8, 31 / 8 + 1);
}

/* Who calls waits for a part of what is old, and the next calls see to the rest. */
static void no_call_gives_back_much_of_what_is_old(void **state)
{
    (void)state;
    start();
    configure(1000, 0, 1ull * SECOND_NS);
    fake_os_set_time_ns(100ull * SECOND_NS);
    acquire(1, 1, 5, NULL);
    for (unsigned round = 0; round < 5; round++)
        given_back_by_a_round();
    uint64_t retired = stats().retired_now;
    assert_in_range(retired, 60, 64);
    fake_os_set_time_ns(102ull * SECOND_NS);
    for (uint64_t left = retired; left != 0; left -= hak_min(left, AT_ONCE)) {
        assert_int_equal(stats().retired_now, left);
        hak_pool_tick_any();
        assert_int_equal(hak_load_relaxed(&hak_pool_knobs.behind), left >= AT_ONCE);
    }
    assert_int_equal(stats().retired_now, 0);
    hak_pool_tick_any();
    assert_false(hak_load_relaxed(&hak_pool_knobs.behind));
}

/* A program that begins with little, three superslabs that come and go beside one, and works with
 * much: when it is done those three are kept, and not what was learned at work. */
static void with_little_in_use_no_more_is_kept_than_was_missed_with_as_little(void **state)
{
    (void)state;
    static size_t slots[64];
    start_learning();
    acquire_whole(slots, 4);
    come_and_go(slots, 3, 3);
    acquire_whole(slots + 4, 60);
    come_and_go(slots, 16, 8);
    for (unsigned i = 0; i < 63; i++)
        release(slots[i], 32, RUN);
    assert_in_range(stats().retired_now, 2, 4);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(memory_that_is_wanted_again_at_once_is_kept_the_next_time),
    cmocka_unit_test(what_was_learned_with_much_in_use_does_not_hold_with_little),
    cmocka_unit_test(what_was_learned_holds_down_to_the_end_of_its_level),
    cmocka_unit_test(no_call_gives_back_much_of_what_is_old),
    cmocka_unit_test(with_little_in_use_no_more_is_kept_than_was_missed_with_as_little),
    cmocka_unit_test(memory_that_is_wanted_much_later_was_given_back_rightly),
};
UNIT_MAIN(tests)
