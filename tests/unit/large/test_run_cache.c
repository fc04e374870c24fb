/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: runs that wait for the next request of about their length. */
#include "large_support.h"

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

static void few_runs_of_a_length_wait_and_none_of_other_lengths(void **state)
{
    (void)state;
    char *p[8];
    start();
    for (unsigned i = 0; i < 8; i++)
        p[i] = allocate_near(0, 100 * KIB);
    for (unsigned i = 0; i < 8; i++)
        release_near(0, p[i]);
    assert_int_equal(large_stats().cached_runs, HAK_RUN_ROW_RUNS);
    assert_int_equal(large_stats().large_blocks, 0);
    release_near(0, allocate_near(0, 400 * KIB));
    release_near(0, allocate_near(0, 3 * MIB));
    release_near(0, hak_large_alloc_sampled(1000, 1, &(bool){false}));
    assert_int_equal(large_stats().cached_runs, HAK_RUN_ROW_RUNS);
    assert_int_equal(hak_large_flush_any(), HAK_RUN_ROW_RUNS * 2 * HAK_SLOT_BYTES);
    assert_int_equal(cached_bytes(), 0);
    assert_int_equal(hak_pool_slots_in_use(HAK_POOL_LABEL_RUN), 0);
}

static void runs_that_nobody_takes_go_back_at_the_second_tick(void **state)
{
    (void)state;
    start();
    char *p = allocate_near(0, 100 * KIB);
    char *q = allocate_near(0, 200 * KIB);
    release_near(0, p);
    release_near(0, q);
    allocate_near(0, 200 * KIB);
    release_near(0, allocate_near(0, 200 * KIB));
    hak_large_tick_any(); /* nothing was taken of two slots */
    assert_int_equal(large_stats().cached_runs, 1);
    assert_int_equal(cached_bytes(), 4 * HAK_SLOT_BYTES);
    hak_large_tick_any();
    assert_int_equal(cached_bytes(), 0);
    assert_int_equal(large_stats().large_blocks, 1);
}

static void waiting_runs_go_back_before_memory_is_refused(void **state)
{
    (void)state;
    char *p[64];
    unsigned blocks = 0;
    start();
    hak_pool_set_limit(2);
    for (bool zero; (p[blocks] = hak_large_alloc(150 * KIB, 1, &zero)) != NULL;)
        blocks++;
    CHECK(blocks >= 2 * 8 && blocks < 64, "%u blocks", blocks);
    for (unsigned i = 0; i < blocks; i++)
        release_near(i, p[i]);
    assert_true(large_stats().cached_runs >= 16);
    assert_non_null(hak_large_alloc(MIB, 1, &(bool){false}));
    assert_int_equal(cached_bytes(), 0);
    release_near(0, allocate_near(0, 150 * KIB));
    assert_non_null(hak_large_alloc(2 * MIB, 1, &(bool){false}));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_freed_run_serves_the_next_request_without_the_pool),
    cmocka_unit_test(a_second_free_is_refused_while_the_run_waits),
    cmocka_unit_test(a_run_serves_a_fifth_less_but_no_more_and_no_other_thread),
    cmocka_unit_test(few_runs_of_a_length_wait_and_none_of_other_lengths),
    cmocka_unit_test(runs_that_nobody_takes_go_back_at_the_second_tick),
    cmocka_unit_test(waiting_runs_go_back_before_memory_is_refused),
};
UNIT_MAIN(tests)
