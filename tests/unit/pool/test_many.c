/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: many GiB, so that what is wanted has to be found among many superslabs. */
#include "pool_support.h"

#define MANY (POOL_LOOKS + 2u)
#define LAST (MANY - 1)

/* So many superslabs, all slots in use. Their first is number 0. */
static void fill_superslabs(void)
{
    start();
    keep_everything();
    for (unsigned i = 0; i < MANY * HAK_SLOTS; i++)
        assert_int_equal(acquire(1, 1, 3, NULL), i);
}

static void release_unused(unsigned superslab, unsigned at, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        hak_pool_release_any(superslab * HAK_SLOTS + at + i, 1, 3, true);
}

/* Or each acquire would take the longer, the larger the pool is. */
static void of_many_superslabs_the_fullest_of_the_first_is_taken(void **state)
{
    (void)state;
    fill_superslabs();
    for (unsigned i = 0; i < MANY; i++)
        release_unused(i, 4, i == LAST ? 1 : i == 100 ? 2 : 3);
    assert_int_equal(acquire(1, 1, 9, NULL), 100 * HAK_SLOTS + 4);
    assert_int_equal(acquire(1, 1, 9, NULL), 100 * HAK_SLOTS + 5);
    assert_int_equal(acquire(1, 1, 9, NULL), 4);
    verify_pool();
}

static void a_run_is_found_behind_many_that_do_not_fit(void **state)
{
    (void)state;
    fill_superslabs();
    for (unsigned i = 0; i < MANY; i++)
        release_unused(i, i == LAST ? 6 : 7, 2);
    assert_int_equal(acquire(2, 2, RUN, NULL), LAST * HAK_SLOTS + 6);
    verify_pool();
}

static void an_empty_slot_is_found_behind_many_unused_ones(void **state)
{
    (void)state;
    fill_superslabs();
    for (unsigned i = 0; i < MANY; i++)
        release_unused(i, 4, 1);
    release(LAST * HAK_SLOTS + 20, 1, 3);
    assert_int_equal(offered(POOL_ROOM_EMPTY), 1);
    hak_store_relaxed(&hak_pool.warm[3], 0u); /* so that the index has to tell */
    bool zero = true;
    assert_int_equal(acquire(1, 1, 9, &zero), LAST * HAK_SLOTS + 20);
    assert_false(zero);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_EMPTY, 9), 1);
    assert_int_equal(acquire(1, 1, 9, NULL), 4);
    verify_pool();
}

/* All of them, in an order that follows from the seed. */
static void fill_and_retire_shuffled(unsigned order[MANY], uint64_t seed)
{
    struct unit_random r = {seed};
    fill_superslabs();
    for (unsigned i = 0; i < MANY; i++)
        order[i] = i;
    for (unsigned i = MANY; i > 1; i--) {
        unsigned other = (unsigned)unit_below(&r, i);
        unsigned swap = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swap;
    }
    for (unsigned i = 0; i < MANY; i++)
        for (unsigned slot = 0; slot < HAK_SLOTS; slot++)
            release(order[i] * HAK_SLOTS + slot, 1, 3);
    assert_int_equal(stats().retired_now, MANY);
}

static void the_newest_of_many_retired_ones_is_taken_first(void **state)
{
    (void)state;
    unsigned order[MANY];
    fill_and_retire_shuffled(order, 5);
    for (unsigned i = MANY; i-- > 10;) {
        assert_int_equal(acquire(32, 1, RUN, NULL), order[i] * HAK_SLOTS);
        if (i % 3 == 0) { /* and one that came back meanwhile */
            release(order[i] * HAK_SLOTS, 32, RUN);
            assert_int_equal(acquire(32, 1, RUN, NULL), order[i] * HAK_SLOTS);
        }
    }
    assert_int_equal(stats().retired_now, 10);
    verify_pool();
}

static void the_oldest_of_many_retired_ones_go_first(void **state)
{
    (void)state;
    unsigned order[MANY];
    fill_and_retire_shuffled(order, 6);
    for (unsigned kept = MANY - 50; kept > 50; kept -= 50) {
        assert_int_equal(acquire(32, 1, RUN, NULL), order[LAST] * HAK_SLOTS);
        configure(kept, SIZE_MAX, UINT64_MAX);
        release(order[LAST] * HAK_SLOTS, 32, RUN);
        for (unsigned i = 0; i < MANY; i++)
            CHECK(hak_space_is_taken(order[i]) == (i >= MANY - kept), "%u kept, number %u", kept,
                  i);
    }
    verify_pool();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(of_many_superslabs_the_fullest_of_the_first_is_taken),
    cmocka_unit_test(a_run_is_found_behind_many_that_do_not_fit),
    cmocka_unit_test(an_empty_slot_is_found_behind_many_unused_ones),
    cmocka_unit_test(the_newest_of_many_retired_ones_is_taken_first),
    cmocka_unit_test(the_oldest_of_many_retired_ones_go_first),
};
UNIT_MAIN(tests)
