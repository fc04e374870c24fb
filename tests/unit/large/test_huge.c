/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: huge blocks that come from kept memory and go back to it. */
#include "large_support.h"

static struct hak_pool_stats pool_stats(void)
{
    struct hak_pool_stats s;
    hak_pool_stats(&s);
    return s;
}

static void a_freed_block_is_reused(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(4 * MIB);
    fill(p, 4 * MIB, 1);
    assert_true(release(p));
    assert_int_equal(pool_stats().retired_now, 2);
    bool zero = true;
    assert_ptr_equal(large_alloc(4 * MIB - 100, HAK_PAGE_BYTES, &zero), p);
    assert_false(zero);
    assert_int_equal(large_stats().huge_reused, 1);
    assert_int_equal(pool_stats().retired_now, 0);
    assert_int_equal(usable(p), 4 * MIB);
}

static void a_block_may_be_part_of_a_freed_one(void **state)
{
    (void)state;
    start();
    keep_all();
    char *p = allocate_plain(12 * MIB);
    release(p);
    char *q = allocate_plain(6 * MIB);
    char *r = allocate_plain(6 * MIB);
    assert_ptr_equal(q, p);
    assert_ptr_equal(r, p + 6 * MIB);
    release(r);
    release(q);
    assert_ptr_equal(allocate_plain(12 * MIB), p); /* and grow together again */
    assert_int_equal(pool_stats().mapped_superslabs, 6);
}

static void small_pieces_are_moved_together_for_a_large_block(void **state)
{
    (void)state;
    start();
    keep_all();
    char *p[6];
    for (int i = 0; i < 6; i++) {
        p[i] = allocate_plain(4 * MIB);
        fill(p[i], 4 * MIB, (uint64_t)i);
    }
    for (int i = 0; i < 6; i += 2)
        release(p[i]);
    char *q = allocate_plain(12 * MIB);
    assert_int_equal(pool_stats().mapped_superslabs, 12);
    assert_int_equal(resident_pages(q, 12 * MIB), 12 * MIB / HAK_PAGE_BYTES);
    fill(q, 12 * MIB, 99);
    for (int i = 1; i < 6; i += 2)
        assert_true(is_filled(p[i], 4 * MIB, (uint64_t)i));
    assert_true(is_filled(q, 12 * MIB, 99));
    assert_true(release(q));
}

static void a_block_larger_than_all_that_may_be_kept_leaves_what_fits(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(20 * MIB);
    release(p);
    assert_int_equal(pool_stats().retired_now, 2);
    assert_int_equal(window_bytes(), 4 * MIB);
}

static void trim_unmaps_all_of_it(void **state)
{
    (void)state;
    start();
    release(allocate_plain(3 * MIB));
    assert_int_equal(hak_pool_trim(), 4 * MIB);
    assert_int_equal(window_bytes(), 0);
    assert_int_equal(hak_pool_trim(), 0);
}

static void a_refused_mapping_is_tried_again_without_what_is_kept(void **state)
{
    (void)state;
    start();
    release(allocate_plain(3 * MIB));
    fake_os_fail(FAKE_MAP_AT, 1, ENOMEM);
    assert_non_null(large_alloc(7 * MIB, 4 * MIB, &(bool){false}));
    assert_int_equal(pool_stats().retired_now, 0);
    assert_int_equal(window_bytes(), 7 * MIB);
}

/* Blocks are cut to size once the system has refused memory, not once somebody has asked for what
 * can never be had, or for more than the limit. */
static void only_the_system_makes_blocks_exact(void **state)
{
    (void)state;
    fake_os_set_random(0); /* a window without a multiple of 32 TiB */
    start();
    bool zero;
    release(allocate_plain(3 * MIB));
    assert_null(large_alloc((size_t)8 << 40, 1, &zero));
    assert_null(large_alloc(4 * MIB, (size_t)1 << 45, &zero));
    assert_false(hak_whole_is_exact());
    assert_int_equal(pool_stats().retired_now, 2); /* nor did that cost what is kept */
    hak_pool_set_limit(8);
    assert_null(large_alloc(32 * MIB, 1, &zero));
    assert_false(hak_whole_is_exact());
    hak_pool_set_limit(0);
    fake_os_fail_from(FAKE_MAP_AT, 1, ENOMEM);
    assert_null(large_alloc(32 * MIB, 1, &zero));
    assert_true(hak_whole_is_exact());
}

static void aligned_blocks_are_aligned(void **state)
{
    (void)state;
    start();
    keep_all();
    release(allocate_plain(40 * MIB));
    bool zero;
    char *p = large_alloc(3 * MIB, 16 * MIB, &zero);
    assert_int_equal((uintptr_t)p % (16 * MIB), 0);
    assert_true(zero);
    fill(p, 3 * MIB, 3);
    assert_true(release(p));
}

static void a_block_that_cannot_be_unmapped_gives_its_pages_back(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(20 * MIB);
    fill(p, 20 * MIB, 1);
    fake_os_fail(FAKE_UNMAP, 1, ENOMEM);
    assert_true(release(p));
    assert_int_equal(resident_pages(p, 20 * MIB), 4 * MIB / HAK_PAGE_BYTES); /* that may be kept */
    assert_int_equal(large_stats().huge_blocks, 0);
    char *q = allocate_plain(20 * MIB);
    assert_true(q >= p + 20 * MIB || q + 20 * MIB <= p);
    fill(q, 20 * MIB, 1);
}

/* Its last superslab is mapped in part only. */
static void a_block_that_can_be_neither_unmapped_nor_purged_serves_as_slots(void **state)
{
    (void)state;
    enum { BLOCKS = 2 * 10 + 1 };
    start();
    size_t bytes = 20 * MIB + 640 * KIB;
    char *p = allocate_plain(bytes);
    fill(p, bytes, 1);
    fake_os_fail_from(FAKE_UNMAP, 1, ENOMEM);
    fake_os_fail_from(FAKE_PURGE, 1, ENOMEM);
    assert_true(release(p));
    fake_os_fail_nothing();
    assert_int_equal(window_bytes(), bytes);
    char *q[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        bool zero = true;
        q[i] = large_alloc(i + 1 < BLOCKS ? 960 * KIB : 600 * KIB, 1, &zero);
        assert_non_null(q[i]);
        CHECK(q[i] >= p && q[i] < p + bytes, "block %u at %td", i, q[i] - p);
        assert_false(zero);
    }
    assert_int_equal(window_bytes(), bytes);
    allocate_plain(MIB); /* the rest of the last one is mapped, and used */
    assert_int_equal(window_bytes(), 22 * MIB);
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_true(release(q[i]));
    hak_pool_trim();
    assert_int_equal(window_bytes(), 2 * MIB);
}

static void a_block_with_which_nothing_can_be_done_is_unmapped_later(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(20 * MIB);
    char *q = allocate_plain(40 * MIB);
    fill(p, 20 * MIB, 1);
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    assert_true(release(p));
    assert_true(release(q));
    hak_pool_trim(); /* refused again */
    assert_int_equal(window_bytes(), 60 * MIB);
    fake_os_fail_nothing();
    hak_pool_trim();
    assert_int_equal(window_bytes(), 0);
    assert_int_equal(pool_stats().unmapped_superslabs, 30);
    assert_ptr_equal(allocate_plain(20 * MIB), p);
}

/* The pool gives up what it keeps while it grows: that must not wait for itself. */
static void what_is_left_to_unmap_may_become_slots_while_the_pool_grows(void **state)
{
    (void)state;
    start();
    hak_pool_set_limit(12);
    char *p = allocate_plain(20 * MIB + 640 * KIB);
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    assert_true(release(p)); /* some is retired, and makes the pool trim when it is at its limit */
    fake_os_fail_nothing();
    fake_os_fail_from(FAKE_UNMAP, 1, ENOMEM);
    bool zero;
    for (int i = 0; i < 20; i++)
        if (large_alloc(MIB, 1, &zero) == NULL)
            break;
    assert_true(large_stats().large_bytes >= 10 * MIB);
}

/* --- threads --- */

#define PLACES 16u

static _Atomic(char *) places[PLACES];

/* The first word of a block is its size. */
static void put_block(struct unit_random *r, size_t bytes)
{
    bool zero;
    size_t *p = large_alloc(bytes, 1, &zero);
    MUST(p != NULL);
    MUST(!zero || p[0] == 0);
    if (unit_below(r, 2) == 0)
        bytes = usable(p) & ~(size_t)7; /* all of it is the program's */
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
    hak_pool_trim();
    assert_int_equal(pool_stats().retired_now, 0);
}

static unsigned lines_of_page(char *const *p, unsigned blocks)
{
    uint64_t seen = 0;
    for (unsigned i = 0; i < blocks; i++)
        seen |= 1ull << ((uintptr_t)p[i] % HAK_PAGE_BYTES / HAK_CACHE_LINE);
    return hak_popcount64(seen);
}

/* How many sets depends on which superslabs they get: ten of 16 at least, wherever those begin, and
 * more than 13 on average (16 at random would have 14). */
static void blocks_begin_at_different_cache_sets(void **state)
{
    (void)state;
    enum { BLOCKS = 16, LEAST = 10, MEAN = 13 };
    unsigned all = 0;
    static const size_t sizes[] = {MIB + 1, 3 * MIB, 4 * MIB - 4000, 8 * MIB, 9 * MIB - 1};
    start();
    char *p[BLOCKS];
    for (unsigned s = 0; s < UNIT_COUNT(sizes); s++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            p[i] = allocate(sizes[s]);
            assert_int_equal((uintptr_t)p[i] % HAK_CACHE_LINE, 0);
            assert_true(usable(p[i]) >= sizes[s]);
            fill(p[i], sizes[s], i);
        }
        assert_true(lines_of_page(p, BLOCKS) >= LEAST);
        all += lines_of_page(p, BLOCKS);
        for (unsigned i = 0; i < BLOCKS; i++) {
            uintptr_t line = (uintptr_t)p[i] % HAK_PAGE_BYTES;
            assert_true(is_filled(p[i], sizes[s], i));
            assert_true(line == 0 || !release(p[i] - line));
            assert_true(release(p[i]));
        }
    }
    assert_true(all > MEAN * UNIT_COUNT(sizes));
}

/* Of one length, one behind the other: what a prefetcher could take for a stride. */
static void blocks_in_a_row_begin_at_different_distances(void **state)
{
    (void)state;
    enum { BLOCKS = 16 };
    static const size_t sizes[] = {2 * MIB + 4, 4 * MIB + 4, 6 * MIB + 4, 8 * MIB + 4};
    start();
    char *p[BLOCKS];
    for (unsigned s = 0; s < UNIT_COUNT(sizes); s++) {
        char *distances[BLOCKS];
        for (unsigned i = 0; i < BLOCKS; i++)
            p[i] = allocate(sizes[s]);
        for (unsigned i = 0; i < BLOCKS; i++) {
            distances[i] = (char *)((uintptr_t)p[(i + 1) % BLOCKS] - (uintptr_t)p[i]);
            assert_true(release(p[i]));
        }
        assert_true(lines_of_page(distances, BLOCKS) >= 10);
    }
}

static void small_blocks_that_fill_their_superslabs_begin_where_those_do(void **state)
{
    (void)state;
    start();
    for (size_t bytes = 2 * MIB; bytes < 8 * MIB; bytes += 2 * MIB)
        assert_int_equal(usable(allocate(bytes)), bytes);
    assert_int_equal(pool_stats().mapped_superslabs, 1 + 2 + 3);
}

static void a_block_begins_at_the_same_line_wherever_it_moves(void **state)
{
    (void)state;
    start();
    char *first = allocate(300 * KIB); /* at the one place whose line is the page's first */
    char *p = allocate(700 * KIB), *next = allocate(3 * MIB);
    uintptr_t line = (uintptr_t)p % HAK_PAGE_BYTES;
    assert_true(line != 0);
    fill(p, 700 * KIB, 1);
    for (size_t bytes = 2 * MIB; bytes <= 16 * MIB; bytes *= 2) {
        char *blocks_the_way = allocate(MIB + 1);
        p = resize(p, bytes);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % HAK_PAGE_BYTES, line);
        assert_true(usable(p) >= bytes);
        assert_true(is_filled(p, 700 * KIB, 1));
        p[bytes - 1] = 1;
        release(blocks_the_way);
    }
    assert_true(release(p));
    assert_true(release(next));
    assert_true(release(first));
}

static void a_limit_is_not_used_up_by_where_blocks_begin(void **state)
{
    (void)state;
    start();
    hak_pool_set_limit(4);
    assert_int_equal(usable(allocate(4 * MIB)), 4 * MIB);
    assert_int_equal(usable(allocate(4 * MIB)), 4 * MIB);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_begin_at_different_cache_sets),
    cmocka_unit_test(blocks_in_a_row_begin_at_different_distances),
    cmocka_unit_test(small_blocks_that_fill_their_superslabs_begin_where_those_do),
    cmocka_unit_test(a_block_begins_at_the_same_line_wherever_it_moves),
    cmocka_unit_test(a_limit_is_not_used_up_by_where_blocks_begin),
    cmocka_unit_test(a_freed_block_is_reused),
    cmocka_unit_test(a_block_may_be_part_of_a_freed_one),
    cmocka_unit_test(small_pieces_are_moved_together_for_a_large_block),
    cmocka_unit_test(a_block_larger_than_all_that_may_be_kept_leaves_what_fits),
    cmocka_unit_test(trim_unmaps_all_of_it),
    cmocka_unit_test(a_refused_mapping_is_tried_again_without_what_is_kept),
    cmocka_unit_test(only_the_system_makes_blocks_exact),
    cmocka_unit_test(aligned_blocks_are_aligned),
    cmocka_unit_test(a_block_that_cannot_be_unmapped_gives_its_pages_back),
    cmocka_unit_test(a_block_that_can_be_neither_unmapped_nor_purged_serves_as_slots),
    cmocka_unit_test(a_block_with_which_nothing_can_be_done_is_unmapped_later),
    cmocka_unit_test(what_is_left_to_unmap_may_become_slots_while_the_pool_grows),
    cmocka_unit_test(threads_exchange_blocks_and_nothing_is_lost),
};
UNIT_MAIN(tests)
