/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: the hard limit, soft caps, prewarmed superslabs. */
#include "pool_support.h"

static size_t superslabs_mapped(void)
{
    return stats().mapped_superslabs - stats().unmapped_superslabs;
}

/* --- the hard limit --- */

static void no_more_is_mapped_than_the_limit_and_frees_make_room(void **state)
{
    (void)state;
    start();
    hak_pool_set_limit(4);
    size_t slots[4];
    size_t slot;
    bool zero;
    for (unsigned i = 0; i < 4; i++)
        slots[i] = acquire(32, 1, RUN, NULL);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(hak_pool_acquire_any(1, 1, 3, &slot, &zero), ENOMEM);
        assert_int_equal(hak_pool_acquire_any(32, 1, RUN, &slot, &zero), ENOMEM);
    }
    assert_int_equal(window_bytes(), 4 * HAK_SUPERSLAB_BYTES);
    release(slots[2] + 5, 1, RUN);
    assert_int_equal(acquire(1, 1, 3, NULL), slots[2] + 5);
    release(slots[0], 32, RUN);
    assert_int_equal(acquire(32, 1, RUN, NULL), slots[0]);
    assert_int_equal(verify_pool(), 128);
    hak_pool_set_limit(0);
    acquire(32, 1, RUN, NULL);
}

static void kept_memory_goes_before_a_huge_block_is_refused(void **state)
{
    (void)state;
    start();
    hak_pool_configure(&(struct hak_pool_config){2, 4 << 20, SECOND_NS, SIZE_MAX});
    hak_pool_set_limit(8);
    size_t slots[8];
    for (unsigned i = 0; i < 8; i++)
        slots[i] = acquire(32, 1, RUN, NULL);
    release(slots[1], 32, RUN); /* apart from each other: no run of two */
    release(slots[5], 32, RUN);
    assert_int_equal(stats().retired_now, 2);
    struct hak_whole w;
    bool zero;
    assert_int_equal(hak_whole_take(3 * HAK_SUPERSLAB_BYTES, 1, 0, &w, &zero), ENOMEM);
    assert_int_equal(hak_whole_take(2 * HAK_SUPERSLAB_BYTES, 1, 0, &w, &zero), 0);
    assert_int_equal(superslabs_mapped(), 8);
    assert_false(hak_whole_try_extend(&w, 3 * HAK_SUPERSLAB_BYTES));
    release(slots[3], 32, RUN);
    assert_true(hak_whole_try_extend(&w, 3 * HAK_SUPERSLAB_BYTES));
    assert_int_equal(superslabs_mapped(), 8);
    assert_int_equal(window_bytes(), 8 * HAK_SUPERSLAB_BYTES);
    hak_whole_unmap(&w);
    assert_int_equal(superslabs_mapped(), 5);
    assert_int_equal(hak_load_relaxed(&hak_pool.mapped_now), 5);
}

static void what_the_system_refuses_does_not_count_against_the_limit(void **state)
{
    (void)state;
    start();
    hak_pool_set_limit(2);
    for (unsigned k = 1; k < 40; k++) {
        size_t slot;
        bool zero;
        struct hak_whole w = {0};
        fake_os_fail_from(FAKE_ANY, 1 + k % 3, ENOMEM);
        if (hak_whole_take(HAK_SUPERSLAB_BYTES, 1, HAK_WHOLE_FRESH, &w, &zero) == 0) {
            hak_whole_try_extend(&w, 2 * HAK_SUPERSLAB_BYTES);
            fake_os_fail_nothing();
            hak_whole_unmap(&w);
        }
        fake_os_fail_from(FAKE_ANY, 1 + k % 2, ENOMEM);
        if (hak_pool_acquire_any(32, 1, RUN, &slot, &zero) == 0) {
            fake_os_fail_nothing();
            release(slot, 32, RUN);
            hak_pool_trim();
        }
        fake_os_fail_nothing();
        CHECK(hak_load_relaxed(&hak_pool.mapped_now) == 0, "after round %u: %zu", k,
              hak_load_relaxed(&hak_pool.mapped_now));
    }
    assert_int_equal(window_bytes(), 0);
}

static void take_and_give_at_the_limit(unsigned index, void *argument)
{
    (void)argument;
    struct unit_random r = {index + 3};
    for (unsigned i = 0; i < 3000; i++) {
        size_t slot;
        bool zero;
        struct hak_whole w;
        unsigned count = 1u << unit_below(&r, 6);
        if (unit_below(&r, 3) == 0) {
            if (hak_whole_take((1 + unit_below(&r, 3)) * HAK_SUPERSLAB_BYTES, 1, 0, &w, &zero) == 0)
                hak_whole_give(&w);
        } else if (hak_pool_acquire_any(count, 1, RUN, &slot, &zero) == 0) {
            release(slot, count, RUN);
        }
        MUST(hak_load_relaxed(&hak_pool.mapped_now) <= 4);
    }
}

static void threads_at_the_limit_never_pass_it(void **state)
{
    (void)state;
    start();
    hak_pool_set_limit(4); /* how often threads are refused depends on how they meet */
    unit_in_threads(6, take_and_give_at_the_limit, NULL);
    assert_int_equal(verify_pool(), 0);
    hak_pool_trim();
    for (unsigned i = 0; i < 4; i++)
        acquire(32, 1, RUN, NULL);
}

/* What is moved would count twice until it is there, and another thread be refused meanwhile. */
static void kept_memory_is_not_moved_below_a_limit(void **state)
{
    (void)state;
    struct hak_whole w[3];
    bool zero;
    start();
    keep_everything();
    hak_pool_set_limit(6);
    for (unsigned i = 0; i < 3; i++)
        w[i] = take(1, &zero);
    hak_whole_give(&w[0]);
    hak_whole_give(&w[2]);
    take(2, &zero);
    assert_int_equal(stats().moved_pieces_total, 0);
    assert_int_equal(stats().retired_now, 2);
    take(2, &zero); /* and goes when there is no other */
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(window_bytes(), 5 * HAK_SUPERSLAB_BYTES);
}

/* Slots that are not mapped yet stand for slots in use. When they are mapped at last, because no
 * superslab more is to be had, that must not be all that kept a superslab from being retired. */
static void what_is_completed_while_all_of_it_is_free_is_retired(void **state)
{
    (void)state;
    start();
    hak_pool_configure(&(struct hak_pool_config){2, 4 << 20, SECOND_NS, SIZE_MAX});
    size_t first = acquire(20, 1, RUN, NULL);
    fake_os_fail(FAKE_MAP_AT, 1, ENOMEM); /* a whole superslab; a part of one is granted */
    size_t second = acquire(20, 1, RUN, NULL);
    assert_int_equal(second / HAK_SLOTS, first / HAK_SLOTS + 1);
    assert_int_equal(window_bytes(), 48 * HAK_SLOT_BYTES);
    hak_pool_set_limit(2);
    release(first, 20, RUN);
    release(second, 20, RUN);
    assert_int_equal(stats().retired_now, 0);
    size_t run = acquire(30, 1, RUN, NULL);
    assert_int_equal(window_bytes(), 2 * HAK_SUPERSLAB_BYTES);
    assert_int_equal(stats().retired_now, 1);
    release(run, 30, RUN);
    assert_int_equal(stats().retired_now, 2);
    assert_int_equal(verify_pool(), 0);
}

/* --- soft caps --- */

static void slots_in_use_are_counted_by_class(void **state)
{
    (void)state;
    start();
    size_t a = acquire(4, 4, 3, NULL);
    size_t b = acquire(1, 1, 5, NULL);
    size_t run = acquire(2, 1, RUN, NULL);
    bool zero;
    assert_true(hak_pool_try_acquire_at(run + 2, 1, &zero));
    assert_int_equal(hak_pool_slots_in_use(3), 4);
    assert_int_equal(hak_pool_slots_in_use(5), 1);
    assert_int_equal(hak_pool_slots_in_use(RUN), 3);
    assert_false(hak_pool_is_over_cap(3, 1000));
    hak_pool_set_soft_cap(3, 8);
    assert_int_equal(hak_pool_soft_cap(3), 8);
    assert_false(hak_pool_is_over_cap(3, 4));
    assert_true(hak_pool_is_over_cap(3, 5));
    acquire(8, 8, 3, NULL); /* beyond it, and none the worse for it */
    release(a, 4, 3);
    release(b, 1, 5);
    release(run, 3, RUN);
    assert_int_equal(hak_pool_slots_in_use(3), 8);
    assert_int_equal(hak_pool_slots_in_use(5), 0);
    assert_int_equal(hak_pool_slots_in_use(RUN), 0);
}

static void what_is_kept_is_found_without_mapping(void **state)
{
    (void)state;
    size_t slot;
    bool zero;
    start();
    assert_false(hak_pool_try_kept(1, 1, 3, &slot, &zero));
    assert_int_equal(window_bytes(), 0);
    acquire(1, 1, 3, NULL);
    assert_true(hak_pool_try_kept(1, 1, 3, &slot, &zero));
    assert_false(hak_pool_try_kept(32, 1, RUN, &slot, &zero));
}

/* --- prewarming --- */

static void prewarmed_superslabs_wait_until_they_are_used(void **state)
{
    (void)state;
    start();
    fake_os_set_time_ns(100ull * SECOND_NS);
    hak_pool_configure(&(struct hak_pool_config){2, 4 << 20, SECOND_NS, SIZE_MAX});
    assert_int_equal(hak_pool_prewarm(10), 10);
    assert_int_equal(stats().retired_now, 10);
    for (size_t i = 0; i < 10 * HAK_SUPERSLAB_BYTES; i += HAK_SUPERSLAB_BYTES / 2)
        assert_true(hak_os_is_resident(hak_superslab_address(0) + i));
    fake_os_set_time_ns(200ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(stats().retired_now, 10);
    size_t mapped = window_bytes();
    size_t slots[10];
    for (unsigned i = 0; i < 10; i++) {
        bool zero = false;
        slots[i] = acquire(32, 1, RUN, &zero);
        assert_true(zero);
    }
    assert_int_equal(window_bytes(), mapped);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_RETIRED, RUN), 10);
    for (unsigned i = 0; i < 10; i++)
        release(slots[i], 32, RUN);
    assert_int_equal(stats().retired_now, 10); /* the limits have grown by as many */
    fake_os_set_time_ns(300ull * SECOND_NS);
    tick_until_done(); /* they were used, and are old now */
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(verify_pool(), 0);
}

static void others_grow_old_beside_prewarmed_ones(void **state)
{
    (void)state;
    start();
    fake_os_set_time_ns(100ull * SECOND_NS);
    hak_pool_configure(&(struct hak_pool_config){8, 16 << 20, SECOND_NS, SIZE_MAX});
    size_t slot = acquire(32, 1, RUN, NULL);
    assert_int_equal(hak_pool_prewarm(3), 3);
    release(slot, 32, RUN);
    assert_int_equal(stats().retired_now, 4);
    fake_os_set_time_ns(200ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(stats().retired_now, 3);
    assert_int_equal(hak_pool_trim(), 3 * HAK_SUPERSLAB_BYTES); /* who asks for all gets all */
    assert_int_equal(verify_pool(), 0);
}

static void lazy_prewarming_happens_at_the_first_growth_and_once(void **state)
{
    (void)state;
    start();
    hak_pool_prewarm_at_growth(3);
    assert_int_equal(window_bytes(), 0);
    acquire(1, 1, 3, NULL);
    assert_int_equal(window_bytes(), 3 * HAK_SUPERSLAB_BYTES);
    assert_int_equal(stats().retired_now, 2);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_RETIRED, 3), 1);
    for (unsigned i = 0; i < 96; i++)
        acquire(1, 1, 3, NULL);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_FRESH, 3), 1);
}

static void prewarming_takes_what_it_can_get(void **state)
{
    (void)state;
    start();
    hak_pool_set_limit(5);
    assert_int_equal(hak_pool_prewarm(16), 4);
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    assert_int_equal(hak_pool_prewarm(1), 0);
    fake_os_fail_nothing();
    assert_int_equal(verify_pool(), 0);
}

static void prewarmed_superslabs_are_used_up_one_after_the_other(void **state)
{
    (void)state;
    start();
    hak_pool_configure(&(struct hak_pool_config){64, 0, SECOND_NS, 8 << 20});
    assert_int_equal(hak_pool_prewarm(32), 32); /* a large pool from the beginning */
    for (unsigned i = 0; i < 33; i++)
        acquire(1, 1, 3 | HAK_POOL_DENSE, NULL);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_RETIRED, 3), 2);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_UNUSED, 3), 31);
    assert_int_equal(stats().retired_now, 30);
    assert_int_equal(verify_pool(), 33);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_more_is_mapped_than_the_limit_and_frees_make_room),
    cmocka_unit_test(kept_memory_goes_before_a_huge_block_is_refused),
    cmocka_unit_test(what_the_system_refuses_does_not_count_against_the_limit),
    cmocka_unit_test(threads_at_the_limit_never_pass_it),
    cmocka_unit_test(kept_memory_is_not_moved_below_a_limit),
    cmocka_unit_test(what_is_completed_while_all_of_it_is_free_is_retired),
    cmocka_unit_test(slots_in_use_are_counted_by_class),
    cmocka_unit_test(what_is_kept_is_found_without_mapping),
    cmocka_unit_test(prewarmed_superslabs_wait_until_they_are_used),
    cmocka_unit_test(others_grow_old_beside_prewarmed_ones),
    cmocka_unit_test(lazy_prewarming_happens_at_the_first_growth_and_once),
    cmocka_unit_test(prewarming_takes_what_it_can_get),
    cmocka_unit_test(prewarmed_superslabs_are_used_up_one_after_the_other),
};
UNIT_MAIN(tests)
