/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: runs that wait for the next request of about their length. */
#include "large_support.h"

#include "pool/pool_internal.h"

static char *allocate_near(unsigned number, size_t bytes)
{
    bool zero = true;
    char *p = hak_large_alloc_near(number, bytes, 1, 0, &zero);
    CHECK(p != NULL, "%zu bytes", bytes);
    if (p != NULL)
        p[0] = p[bytes - 1] = 1;
    return p;
}

static bool release_near(unsigned number, void *p)
{
    return hak_large_free_near(number, p, hak_map_lookup(p));
}

static uint64_t released(void)
{
    struct hak_pool_stats s;
    hak_pool_stats(&s);
    return s.released;
}

static size_t cached_bytes(void)
{
    return large_stats().cached_bytes;
}

static void a_freed_run_serves_the_next_request_without_the_pool(void **state)
{
    (void)state;
    start();
    size_t slot = hak_slot_of(allocate_near(3, 200 * KIB));
    uint64_t before = released();
    for (unsigned i = 0; i < 100; i++) {
        char *p = hak_slot_address(slot) + hak_slab_record(slot)->large_colour;
        assert_int_equal(large_stats().large_blocks, 1);
        assert_true(release_near(3, p));
        assert_int_equal(large_stats().large_blocks, 0);
        assert_int_equal(large_stats().large_bytes, 0);
        assert_int_equal(cached_bytes(), 4 * HAK_SLOT_BYTES);
        assert_int_equal(hak_large_cached_slots(slot), 4);
        assert_int_equal(hak_map_lookup(p), 0);
        bool zero = true;
        p = hak_large_alloc_near(3 + i * HAK_RUN_CACHES, 193 * KIB + 40 * i, 1, 0, &zero);
        assert_int_equal(hak_slot_of(p), slot);
        assert_false(zero);
        assert_int_equal(cached_bytes(), 0);
        assert_int_equal(hak_large_cached_slots(slot), 0);
        assert_int_equal(large_stats().large_bytes, 4 * HAK_SLOT_BYTES);
    }
    assert_int_equal(released(), before);
}

static void a_second_free_is_refused_while_the_run_waits(void **state)
{
    (void)state;
    start();
    char *p = allocate_near(0, 100 * KIB);
    uint32_t entry = hak_map_lookup(p);
    assert_true(hak_large_free_near(0, p, entry));
    assert_false(hak_large_free_near(0, p, entry));
    assert_false(hak_large_free(p, entry));
    assert_int_equal(large_stats().cached_runs, 1);
}

static void a_run_serves_a_fifth_less_but_no_more_and_no_other_thread(void **state)
{
    (void)state;
    start();
    char *p = allocate_near(0, 300 * KIB); /* five slots */
    size_t slot = hak_slot_of(p);
    release_near(0, p);
    assert_int_not_equal(hak_slot_of(allocate_near(1, 300 * KIB)), slot);
    assert_int_not_equal(hak_slot_of(allocate_near(0, 150 * KIB)), slot);
    p = allocate_near(0, 230 * KIB); /* four */
    assert_int_equal(hak_slot_of(p), slot);
    assert_int_equal(usable(p), 5 * HAK_SLOT_BYTES - hak_slab_record(slot)->large_colour);
}

static void what_was_put_last_is_taken_first(void **state)
{
    (void)state;
    char *p[3];
    start();
    for (unsigned i = 0; i < 3; i++)
        p[i] = allocate_near(0, 200 * KIB);
    release_near(0, p[2]);
    release_near(0, p[0]);
    assert_ptr_equal(allocate_near(0, 200 * KIB), p[0]);
    release_near(0, p[1]);
    release_near(0, p[0]);
    for (unsigned i = 0; i < 3; i++)
        assert_ptr_equal(allocate_near(0, 200 * KIB), p[i]);
}

/* Allocates so many and releases them. */
static void come_and_go(unsigned count, size_t bytes)
{
    char *p[HAK_RUN_CACHE_RUNS + 1];
    for (unsigned i = 0; i < count; i++)
        p[i] = allocate_near(0, bytes);
    for (unsigned i = 0; i < count; i++)
        release_near(0, p[i]);
}

static void as_many_runs_wait_as_there_are_places(void **state)
{
    (void)state;
    char *p[HAK_RUN_CACHE_RUNS + 2];
    start();
    for (unsigned i = 0; i < UNIT_COUNT(p); i++)
        p[i] = allocate_near(0, 100 * KIB);
    for (unsigned i = 0; i < UNIT_COUNT(p); i++)
        release_near(0, p[i]);
    assert_int_equal(hak_large_cached_slots(hak_slot_of(p[0])), 0); /* the oldest have gone */
    assert_int_equal(hak_large_cached_slots(hak_slot_of(p[1])), 0);
    assert_int_equal(hak_large_cached_slots(hak_slot_of(p[2])), 2);
    assert_int_equal(large_stats().cached_runs, HAK_RUN_CACHE_RUNS);
    assert_int_equal(large_stats().large_blocks, 0);
    assert_int_equal(hak_large_flush_any(), HAK_RUN_CACHE_RUNS * 2 * HAK_SLOT_BYTES);
    assert_int_equal(cached_bytes(), 0);
    assert_int_equal(hak_pool_slots_in_use(HAK_POOL_LABEL_RUN), 0);
}

static void two_mib_wait_and_an_eighth_of_what_is_in_use_up_to_four(void **state)
{
    (void)state;
    start();
    come_and_go(6, 500 * KIB); /* of eight slots */
    assert_int_equal(cached_bytes(), 2 * MIB);
    for (unsigned i = 0; i < 20; i++)
        allocate_near(1, MIB);
    come_and_go(6, 500 * KIB);
    assert_in_range(cached_bytes(), 5 * MIB / 2, 3 * MIB);
    for (unsigned i = 0; i < 40; i++)
        allocate_near(1, MIB);
    come_and_go(HAK_RUN_CACHE_RUNS + 1, 500 * KIB);
    assert_int_equal(cached_bytes(), 4 * MIB);
}

static void a_block_that_grows_gets_what_waits_behind_it(void **state)
{
    (void)state;
    start();
    char *p = allocate_near(0, 200 * KIB), *q = allocate_near(0, 200 * KIB);
    char *r = allocate_near(0, 200 * KIB);
    assert_int_equal(hak_slot_of(q), hak_slot_of(p) + 4);
    assert_int_equal(hak_slot_of(r), hak_slot_of(q) + 4);
    release_near(5, q); /* does not wait: nobody has asked for one there */
    assert_int_equal(large_stats().cached_runs, 0);
    q = allocate_near(5, 200 * KIB);
    release_near(5, q);
    assert_int_equal(large_stats().cached_runs, 1);
    assert_ptr_equal(hak_large_try_resize(p, hak_map_lookup(p), 400 * KIB), p);
    assert_int_equal(large_stats().cached_runs, 0);
    assert_int_equal(large_stats().large_blocks, 2);
    assert_int_equal(large_stats().large_bytes, (7 + 4) * HAK_SLOT_BYTES);
    release_near(0, p);
    release_near(0, r);
}

/* So that what is kept depends on what the program has. */
static void the_pool_knows_about_how_much_waits(void **state)
{
    (void)state;
    char *p[HAK_RUN_CACHES][HAK_RUN_CACHE_RUNS];
    start();
    for (unsigned round = 0; round < 20; round++) {
        unsigned each = 1 + round % HAK_RUN_CACHE_RUNS;
        for (unsigned i = 0; i < HAK_RUN_CACHES * each; i++)
            p[i % HAK_RUN_CACHES][i / HAK_RUN_CACHES] = allocate_near(i, 200 * KIB);
        for (unsigned i = 0; i < HAK_RUN_CACHES * each; i++)
            release_near(i, p[i % HAK_RUN_CACHES][i / HAK_RUN_CACHES]);
        size_t waiting = cached_bytes() / HAK_SLOT_BYTES;
        assert_in_range(waiting, HAK_RUN_CACHES * each * 4, 8 * HAK_RUN_CACHES * 4);
        size_t known = hak_load_relaxed(&hak_pool.waiting_now);
        assert_in_range(known + 7 * HAK_RUN_CACHES, waiting, waiting + 14 * HAK_RUN_CACHES);
        if (round % 3 == 0)
            hak_large_flush_any();
    }
    hak_large_flush_any();
    assert_in_range(hak_load_relaxed(&hak_pool.waiting_now), 0, 7 * HAK_RUN_CACHES);
}

static void long_runs_and_those_of_samples_do_not_wait(void **state)
{
    (void)state;
    start();
    release_near(0, allocate_near(0, HAK_RUN_CACHE_MOST_SLOTS * HAK_SLOT_BYTES + 1));
    release_near(0, allocate_near(0, 3 * MIB));
    release_near(0, hak_large_alloc_sampled(1000, 1, &(bool){false}));
    assert_int_equal(large_stats().cached_runs, 0);
    release_near(0, allocate_near(0, (HAK_RUN_CACHE_MOST_SLOTS - 1) * HAK_SLOT_BYTES));
    assert_int_equal(large_stats().cached_runs, 1);
}

static void lengths_that_nobody_asked_for_since_the_last_tick_do_not_wait(void **state)
{
    (void)state;
    start();
    char *p = allocate_near(0, 300 * KIB), *q = allocate_near(0, 300 * KIB);
    hak_large_tick_any();
    release_near(0, p);
    assert_int_equal(large_stats().cached_runs, 0);
    allocate_near(0, 150 * KIB); /* of three slots, which five are too many for */
    release_near(0, q);
    assert_int_equal(large_stats().cached_runs, 0);
    p = allocate_near(0, 300 * KIB);
    release_near(1, p); /* the other thread's cache */
    assert_int_equal(large_stats().cached_runs, 0);
    p = allocate_near(0, 300 * KIB);
    hak_large_tick_any();
    allocate_near(0, 230 * KIB); /* of four */
    release_near(0, p);
    assert_int_equal(large_stats().cached_runs, 1);
}

static void runs_that_nobody_takes_between_two_ticks_go_back(void **state)
{
    (void)state;
    start();
    char *p = allocate_near(0, 100 * KIB);
    char *q = allocate_near(0, 200 * KIB);
    release_near(0, p);
    release_near(0, q);
    hak_large_tick_any();
    assert_int_equal(large_stats().cached_runs, 2);
    assert_ptr_equal(allocate_near(0, 200 * KIB), q);
    release_near(0, q);
    hak_large_tick_any(); /* nobody has taken the run of two slots */
    assert_int_equal(large_stats().cached_runs, 1);
    assert_int_equal(cached_bytes(), 4 * HAK_SLOT_BYTES);
    hak_large_tick_any();
    assert_int_equal(cached_bytes(), 0);
    assert_int_equal(large_stats().large_blocks, 0);
    assert_int_equal(hak_pool_slots_in_use(HAK_POOL_LABEL_RUN), 0);
}

static void waiting_runs_go_back_before_memory_is_refused(void **state)
{
    (void)state;
    char *p[64];
    unsigned blocks = 0;
    start();
    hak_pool_set_limit(2);
    for (bool zero; (p[blocks] = hak_large_alloc_near(blocks, 150 * KIB, 1, 0, &zero)) != NULL;)
        blocks++;
    CHECK(blocks >= 2 * 8 && blocks < 64, "%u blocks", blocks);
    for (unsigned i = 0; i < blocks; i++)
        release_near(i, p[i]);
    assert_true(large_stats().cached_runs >= 16);
    assert_non_null(large_alloc(MIB, 1, &(bool){false}));
    assert_int_equal(cached_bytes(), 0);
    release_near(0, allocate_near(0, 150 * KIB));
    assert_non_null(large_alloc(2 * MIB, 1, &(bool){false}));
}

static bool acquires_touched_memory(unsigned slots, unsigned label)
{
    size_t slot;
    bool zero = true;
    assert_true(hak_large_try_acquire_any(slots, 1, label, &slot, &zero));
    return !zero;
}

static void waiting_runs_go_back_before_memory_is_taken_that_nobody_has_touched(void **state)
{
    (void)state;
    start();
    come_and_go(3, 500 * KIB);
    assert_int_equal(cached_bytes(), 24 * HAK_SLOT_BYTES);
    assert_true(acquires_touched_memory(1, 5));
    assert_int_equal(cached_bytes(), 0);
    come_and_go(2, 500 * KIB); /* in EMPTY slots, of which some are left: these wait on */
    assert_true(acquires_touched_memory(1, 6));
    assert_int_equal(cached_bytes(), 16 * HAK_SLOT_BYTES);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_EMPTY, 5), 1);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_EMPTY, 6), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_freed_run_serves_the_next_request_without_the_pool),
    cmocka_unit_test(a_second_free_is_refused_while_the_run_waits),
    cmocka_unit_test(a_run_serves_a_fifth_less_but_no_more_and_no_other_thread),
    cmocka_unit_test(what_was_put_last_is_taken_first),
    cmocka_unit_test(as_many_runs_wait_as_there_are_places),
    cmocka_unit_test(two_mib_wait_and_an_eighth_of_what_is_in_use_up_to_four),
    cmocka_unit_test(a_block_that_grows_gets_what_waits_behind_it),
    cmocka_unit_test(the_pool_knows_about_how_much_waits),
    cmocka_unit_test(long_runs_and_those_of_samples_do_not_wait),
    cmocka_unit_test(lengths_that_nobody_asked_for_since_the_last_tick_do_not_wait),
    cmocka_unit_test(runs_that_nobody_takes_between_two_ticks_go_back),
    cmocka_unit_test(waiting_runs_go_back_before_memory_is_refused),
    cmocka_unit_test(waiting_runs_go_back_before_memory_is_taken_that_nobody_has_touched),
};
UNIT_MAIN(tests)
