/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: runs of retired superslabs, for huge blocks (retired.c, whole.c). */
#include "pool_support.h"

static void a_run_comes_from_the_shortest_that_is_long_enough(void **state)
{
    (void)state;
    bool zero;
    struct hak_whole w[7];
    static const size_t lengths[7] = {5, 1, 3, 1, 9, 1, 2};
    start();
    keep_everything();
    for (unsigned i = 0; i < 7; i++)
        w[i] = take(lengths[i], &zero);
    for (unsigned i = 0; i < 7; i += 2)
        hak_whole_give(&w[i]);
    assert_int_equal(stats().retired_now, 19);
    assert_int_equal(take(3, &zero).first, w[2].first);
    assert_false(zero);
    assert_int_equal(take(4, &zero).first, w[0].first);
    assert_int_equal(take(1, &zero).first, w[0].first + 4);
    hak_whole_give(&w[5]);
    assert_int_equal(take(12, &zero).first, w[4].first); /* neighbours have become one run */
    assert_int_equal(stats().retired_now, 0);
}

/* A block whose last superslab has so many slots, before one that keeps the next from being its
 * neighbour. */
static struct hak_whole take_with_end(unsigned slots)
{
    struct hak_whole w;
    bool zero;
    size_t bytes = HAK_SUPERSLAB_BYTES + slots * HAK_SLOT_BYTES;
    assert_int_equal(hak_whole_take(bytes, 1, 0, &w, &zero), 0);
    take(1, &zero);
    return w;
}

static void of_runs_of_one_length_the_one_comes_whose_memory_fits(void **state)
{
    (void)state;
    static const unsigned ends[4] = {30, 4, 20, 31};
    bool zero;
    struct hak_whole w[4];
    start();
    keep_everything();
    for (unsigned i = 0; i < 4; i++)
        w[i] = take_with_end(ends[i]);
    for (unsigned i = 0; i < 4; i++)
        hak_whole_give(&w[i]);
    struct hak_whole fits = take_with_end(18);
    assert_int_equal(fits.first, w[2].first);
    assert_int_equal(fits.clean_slots, 12);
    assert_int_equal(take_with_end(1).first, w[1].first);
    struct hak_whole whole = take(2, &zero);
    assert_int_equal(whole.first, w[3].first);
    assert_int_equal(whole.clean_slots, 1);
}

static void slots_behind_what_a_block_had_are_known_to_read_as_zero(void **state)
{
    (void)state;
    bool zero;
    start();
    keep_everything();
    struct hak_whole w = take_with_end(20);
    hak_whole_give(&w);
    assert_int_equal(acquire(HAK_SLOTS, 1, RUN, &zero), w.first * HAK_SLOTS);
    assert_false(zero);
    assert_int_equal(acquire(20, 1, RUN, &zero), (w.first + 1) * HAK_SLOTS);
    assert_false(zero);
    assert_int_equal(acquire(HAK_SLOTS - 20, 1, RUN, &zero), (w.first + 1) * HAK_SLOTS + 20);
    assert_true(zero);
}

static void what_was_moved_in_last_may_be_clean_at_its_end(void **state)
{
    (void)state;
    struct hak_whole w[2], joined;
    bool zero;
    start();
    keep_everything();
    hak_pool_set_huge_pages_from(SIZE_MAX); /* or the end that is mapped later is a mapping of its
                                             * own, and is not moved before Linux 6.17 */
    w[0] = take_with_end(20);
    w[1] = take_with_end(5);
    hak_whole_give(&w[0]);
    hak_whole_give(&w[1]);
    assert_int_equal(hak_whole_take(3 * HAK_SUPERSLAB_BYTES + HAK_SLOT_BYTES, 1, 0, &joined, &zero),
                     0);
    assert_int_equal(stats().moved_pieces_total, 2);
    assert_int_equal(joined.clean_slots, HAK_SLOTS - 5);
    assert_int_equal(hak_whole_take(HAK_SUPERSLAB_BYTES, 1, 0, &w[0], &zero), 0);
    assert_int_equal(w[0].clean_slots, 0);
}

static void runs_that_are_too_short_are_moved_together(void **state)
{
    (void)state;
    bool zero;
    struct hak_whole w[5];
    start();
    keep_everything();
    for (unsigned i = 0; i < 5; i++) {
        w[i] = take(i % 2 == 0 ? 2 : 1, &zero);
        memset(hak_superslab_address(w[i].first), (int)i + 1, w[i].mapped_bytes);
    }
    for (unsigned i = 0; i < 5; i += 2)
        hak_whole_give(&w[i]);
    size_t bytes = window_bytes();
    struct hak_whole joined = take(7, &zero);
    assert_false(zero);
    assert_int_equal(stats().moved_pieces_total, 3);
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(window_bytes(), bytes + HAK_SUPERSLAB_BYTES); /* only one is new */
    const char *p = hak_superslab_address(joined.first);
    assert_true(p[0] != 0 && p[6 * HAK_SUPERSLAB_BYTES - 1] != 0 &&
                p[6 * HAK_SUPERSLAB_BYTES] == 0);
    for (unsigned i = 0; i < 5; i += 2)
        assert_false(hak_space_is_taken(w[i].first));
    assert_int_equal(hak_superslab_address(w[1].first)[0], 2);
}

static void a_move_that_is_refused_costs_nothing(void **state)
{
    (void)state;
    bool zero;
    start();
    keep_everything();
    struct hak_whole w = take(2, &zero);
    hak_whole_give(&w);
    fake_os_fail(FAKE_MOVE, 1, ENOMEM);
    take(3, &zero);
    assert_true(zero);
    assert_int_equal(stats().retired_now, 2);
    assert_int_equal(take(2, &zero).first, w.first);
}

static void what_a_refused_move_unmaps_is_mapped_again(void **state)
{
    (void)state;
    bool zero;
    start();
    keep_everything();
    struct hak_whole w = take(3, &zero);
    hak_os_advise_small_pages(hak_superslab_address(w.first + 1), HAK_SUPERSLAB_BYTES);
    hak_whole_give(&w);
    size_t bytes = window_bytes();
    fake_os_fail_moves_of_several();
    struct hak_whole joined = take(4, &zero);
    assert_true(zero);
    assert_int_equal(stats().retired_now, 3);
    assert_int_equal(window_bytes(), bytes + 4 * HAK_SUPERSLAB_BYTES);
    memset(hak_superslab_address(joined.first), 1, joined.mapped_bytes);
    assert_int_equal(take(3, &zero).first, w.first);
    memset(hak_superslab_address(w.first), 1, w.mapped_bytes);
}

static void a_move_that_stopped_halfway_leaves_no_hole(void **state)
{
    (void)state;
    bool zero;
    start();
    keep_everything();
    struct hak_whole w = take(2, &zero);
    hak_whole_give(&w);
    size_t bytes = window_bytes();
    fake_os_move_in_part(HAK_SUPERSLAB_BYTES);
    struct hak_whole joined = take(3, &zero);
    assert_true(zero);
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(window_bytes(), bytes + HAK_SUPERSLAB_BYTES); /* both are gone */
    memset(hak_superslab_address(joined.first), 1, joined.mapped_bytes);
    hak_whole_give(&joined);
    assert_int_equal(verify_pool(), 0);
}

static void slots_and_huge_blocks_take_from_the_same_superslabs(void **state)
{
    (void)state;
    bool zero;
    start();
    keep_everything();
    struct hak_whole w = take(1, &zero);
    hak_whole_give(&w);
    size_t slot = acquire(32, 1, RUN, &zero);
    assert_int_equal(slot / HAK_SLOTS, w.first);
    assert_false(zero);
    release(slot, 32, RUN);
    assert_int_equal(take(1, &zero).first, w.first);
    assert_int_equal(stats().mapped_superslabs, 1);
}

static void the_end_of_a_range_is_mapped_when_it_is_kept(void **state)
{
    (void)state;
    bool zero;
    struct hak_whole w;
    start();
    keep_everything();
    assert_int_equal(hak_whole_take(HAK_SUPERSLAB_BYTES + HAK_SLOT_BYTES, 1, 0, &w, &zero), 0);
    assert_int_equal(window_bytes(), HAK_SUPERSLAB_BYTES + HAK_SLOT_BYTES);
    fake_os_fail(FAKE_MAP_AT, 1, ENOMEM);
    hak_whole_give(&w);
    assert_int_equal(stats().retired_now, 1); /* refused: the end goes */
    assert_int_equal(window_bytes(), HAK_SUPERSLAB_BYTES);
    assert_int_equal(
        hak_whole_take(HAK_SUPERSLAB_BYTES + HAK_SLOT_BYTES, 1, HAK_WHOLE_FRESH, &w, &zero), 0);
    hak_whole_give(&w);
    assert_int_equal(stats().retired_now, 3);
    assert_int_equal(window_bytes(), 3 * HAK_SUPERSLAB_BYTES);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_comes_from_the_shortest_that_is_long_enough),
    cmocka_unit_test(of_runs_of_one_length_the_one_comes_whose_memory_fits),
    cmocka_unit_test(slots_behind_what_a_block_had_are_known_to_read_as_zero),
    cmocka_unit_test(what_was_moved_in_last_may_be_clean_at_its_end),
    cmocka_unit_test(runs_that_are_too_short_are_moved_together),
    cmocka_unit_test(what_a_refused_move_unmaps_is_mapped_again),
    cmocka_unit_test(a_move_that_stopped_halfway_leaves_no_hole),
    cmocka_unit_test(a_move_that_is_refused_costs_nothing),
    cmocka_unit_test(slots_and_huge_blocks_take_from_the_same_superslabs),
    cmocka_unit_test(the_end_of_a_range_is_mapped_when_it_is_kept),
};
UNIT_MAIN(tests)
