/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: the cache of freed huge blocks. */
#include "large_support.h"

#define SECOND_NS 1000000000ull

/* A live block that lets the cache keep a quarter of it. */
static void allow_bytes(size_t bytes)
{
    allocate(4 * bytes);
}

static void a_freed_block_is_reused(void **state)
{
    (void)state;
    start();
    char *p = allocate(4 * MIB);
    fill(p, 4 * MIB, 1);
    assert_true(release(p));
    assert_int_equal(large_stats().cached_blocks, 1);
    assert_int_equal(large_stats().cached_bytes, 4 * MIB);
    bool zero = true;
    assert_ptr_equal(hak_large_alloc(4 * MIB - 100, 1, &zero), p);
    assert_false(zero);
    assert_int_equal(large_stats().cache_hits, 1);
    assert_int_equal(large_stats().cached_blocks, 0);
    assert_int_equal(usable(p), 4 * MIB);
}

static void the_smallest_block_that_fits_is_taken(void **state)
{
    (void)state;
    start();
    allow_bytes(64 * MIB);
    char *large = allocate(6 * MIB);
    char *best = allocate(5 * MIB + 128 * KIB);
    char *larger = allocate(5 * MIB + 512 * KIB);
    char *small = allocate(4 * MIB);
    release(large);
    release(best);
    release(larger);
    release(small);
    assert_int_equal(large_stats().cached_blocks, 4);
    assert_ptr_equal(allocate(5 * MIB), best);
    assert_ptr_equal(allocate(5 * MIB), larger);
    assert_ptr_equal(allocate(5 * MIB), large);
    assert_ptr_not_equal(allocate(5 * MIB), small);
}

static void a_block_with_more_than_a_quarter_of_slack_is_not_taken(void **state)
{
    (void)state;
    start();
    char *p = allocate(8 * MIB);
    release(p);
    uint64_t misses = large_stats().cache_misses;
    assert_ptr_not_equal(allocate(6 * MIB), p);
    assert_int_equal(large_stats().cache_misses, misses + 1);
    assert_ptr_equal(allocate(6 * MIB + 512 * KIB), p);
}

static void the_cache_keeps_8_mib_or_a_quarter_of_what_lives(void **state)
{
    (void)state;
    start();
    char *p[8];
    for (int i = 0; i < 8; i++)
        p[i] = allocate(3 * MIB);
    for (int i = 0; i < 8; i++) {
        release(p[i]);
        CHECK(large_stats().cached_bytes <= 8 * MIB, "%zu", large_stats().cached_bytes);
    }
    assert_int_equal(large_stats().cached_blocks, 2);
    assert_int_equal(window_bytes(), large_stats().cached_bytes);
    hak_large_trim();
    allow_bytes(30 * MIB);
    for (int i = 0; i < 8; i++)
        p[i] = allocate(3 * MIB);
    for (int i = 0; i < 8; i++)
        release(p[i]);
    assert_int_equal(large_stats().cached_blocks, 8);
}

static void a_block_larger_than_all_that_may_be_kept_is_unmapped(void **state)
{
    (void)state;
    start();
    char *small = allocate(2 * MIB);
    char *p = allocate(20 * MIB);
    release(small);
    release(p);
    assert_int_equal(window_bytes(), 2 * MIB);
    assert_int_equal(large_stats().cached_blocks, 1); /* and the others are kept */
}

static void the_oldest_blocks_go_first(void **state)
{
    (void)state;
    start();
    char *p[3];
    for (int i = 0; i < 3; i++)
        p[i] = allocate(3 * MIB);
    fake_os_set_time_ns(100 * SECOND_NS);
    release(p[1]);
    fake_os_set_time_ns(100 * SECOND_NS + 1);
    release(p[0]);
    fake_os_set_time_ns(100 * SECOND_NS + 2);
    release(p[2]); /* 9 MiB: one too many */
    assert_int_equal(large_stats().cached_blocks, 2);
    assert_false(hak_space_is_taken(hak_slot_of(p[1]) / HAK_SLOTS));
}

static void blocks_older_than_a_second_go_at_the_next_free(void **state)
{
    (void)state;
    start();
    char *old = allocate(3 * MIB);
    char *next = allocate(2 * MIB);
    fake_os_set_time_ns(100 * SECOND_NS);
    release(old);
    fake_os_set_time_ns(102 * SECOND_NS);
    release(next);
    assert_int_equal(large_stats().cached_blocks, 1);
    assert_int_equal(large_stats().cached_bytes, 2 * MIB);
    assert_int_equal(window_bytes(), 2 * MIB);
}

static void the_number_of_cached_blocks_is_limited(void **state)
{
    (void)state;
    start();
    char *p[60];
    allow_bytes(256 * MIB);
    size_t live = window_bytes();
    for (size_t i = 0; i < UNIT_COUNT(p); i++)
        p[i] = allocate(MIB + 65536);
    for (size_t i = 0; i < UNIT_COUNT(p); i++)
        release(p[i]);
    assert_in_range(large_stats().cached_blocks, 8, 32);
    assert_int_equal(window_bytes() - live, large_stats().cached_bytes);
}

static void trim_unmaps_all_of_it(void **state)
{
    (void)state;
    start();
    char *p = allocate(3 * MIB);
    char *q = allocate(4 * MIB);
    release(p);
    release(q);
    assert_int_equal(hak_large_trim(), 7 * MIB);
    assert_int_equal(large_stats().cached_blocks, 0);
    assert_int_equal(large_stats().cached_bytes, 0);
    assert_int_equal(window_bytes(), 0);
    assert_int_equal(hak_large_trim(), 0);
}

static void a_refused_mapping_is_tried_again_without_what_is_cached(void **state)
{
    (void)state;
    start();
    char *p = allocate(3 * MIB);
    release(p);
    fake_os_fail(FAKE_MAP_AT, 1, ENOMEM);
    assert_non_null(allocate(7 * MIB));
    assert_int_equal(large_stats().cached_blocks, 0);
    assert_int_equal(window_bytes(), 7 * MIB);
}

static void a_block_that_cannot_be_unmapped_gives_its_pages_back(void **state)
{
    (void)state;
    start();
    char *p = allocate(20 * MIB);
    fill(p, 20 * MIB, 1);
    fake_os_fail(FAKE_UNMAP, 1, ENOMEM);
    assert_true(release(p));
    assert_int_equal(resident_pages(p, 20 * MIB), 0);
    assert_int_equal(large_stats().huge_blocks, 0);
    char *q = allocate(20 * MIB);
    assert_true(q >= p + 20 * MIB || q + 20 * MIB <= p);
}

/* --- threads --- */

#define PLACES 16u

static _Atomic(char *) places[PLACES];

/* The first word of a block is its size. */
static void put_block(struct unit_random *r, size_t bytes)
{
    bool zero;
    size_t *p = hak_large_alloc(bytes, 1, &zero);
    MUST(p != NULL);
    MUST(!zero || p[0] == 0);
    p[0] = bytes;
    p[bytes / sizeof *p - 1] = ~bytes;
    char *other = atomic_exchange(&places[unit_below(r, PLACES)], (char *)p);
    if (other != NULL) {
        size_t *q = (size_t *)(void *)other;
        MUST(q[q[0] / sizeof *q - 1] == ~q[0]);
        MUST(hak_large_free(other, hak_map_lookup(other)));
    }
}

static void resize_block(struct unit_random *r, size_t bytes)
{
    size_t *p = (size_t *)(void *)atomic_exchange(&places[unit_below(r, PLACES)], NULL);
    if (p == NULL)
        return;
    size_t *q = (size_t *)(void *)resize(p, bytes);
    if (q != NULL) {
        MUST(bytes < q[0] || q[q[0] / sizeof *q - 1] == ~q[0]);
        q[0] = bytes;
        q[bytes / sizeof *q - 1] = ~bytes;
        p = q;
    }
    MUST(hak_large_free(p, hak_map_lookup(p)));
}

static void exchange_blocks(unsigned index, void *argument)
{
    (void)argument;
    struct unit_random r = {index + 9};
    for (int i = 0; i < 1500; i++) {
        size_t bytes =
            (HAK_SMALL_MAX + 8 + unit_below(&r, unit_below(&r, 3) == 0 ? 6 * MIB : MIB)) &
            ~(size_t)7;
        if (unit_below(&r, 3) == 0)
            resize_block(&r, bytes);
        else
            put_block(&r, bytes);
        if (i % 200 == 0)
            hak_large_trim();
    }
}

static void threads_exchange_blocks_and_nothing_is_lost(void **state)
{
    (void)state;
    start();
    unit_in_threads(4, exchange_blocks, NULL);
    for (unsigned i = 0; i < PLACES; i++)
        if (places[i] != NULL)
            assert_true(release(places[i]));
    struct hak_large_stats s = large_stats();
    assert_int_equal(s.large_bytes + s.large_blocks + s.huge_bytes + s.huge_blocks, 0);
    hak_large_trim();
    assert_int_equal(large_stats().cached_bytes, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_freed_block_is_reused),
    cmocka_unit_test(the_smallest_block_that_fits_is_taken),
    cmocka_unit_test(a_block_with_more_than_a_quarter_of_slack_is_not_taken),
    cmocka_unit_test(the_cache_keeps_8_mib_or_a_quarter_of_what_lives),
    cmocka_unit_test(a_block_larger_than_all_that_may_be_kept_is_unmapped),
    cmocka_unit_test(the_oldest_blocks_go_first),
    cmocka_unit_test(blocks_older_than_a_second_go_at_the_next_free),
    cmocka_unit_test(the_number_of_cached_blocks_is_limited),
    cmocka_unit_test(trim_unmaps_all_of_it),
    cmocka_unit_test(a_refused_mapping_is_tried_again_without_what_is_cached),
    cmocka_unit_test(a_block_that_cannot_be_unmapped_gives_its_pages_back),
    cmocka_unit_test(threads_exchange_blocks_and_nothing_is_lost),
};
UNIT_MAIN(tests)
