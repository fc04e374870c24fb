/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: what lies behind huge blocks that come from kept memory (slack.c). */
#include "large_support.h"

/* Blocks that leave two megabytes less a slot of what was used before. */
#define SMALL (2 * MIB + 64 * KIB)

static bool has_all_pages(char *p)
{
    return resident_pages(p, 4 * MIB) == 4 * MIB / HAK_PAGE_BYTES;
}

/* Memory of large blocks that were written is kept. */
static void keep_written(char **p, int blocks)
{
    keep_all();
    for (int i = 0; i < blocks; i++) {
        p[i] = allocate_plain(4 * MIB);
        fill(p[i], 4 * MIB, 1);
    }
    for (int i = 0; i < blocks; i++)
        release(p[i]);
}

/* Makes small ones of large ones that were written. */
static void make_small(char **p, int blocks, size_t keep_most_bytes)
{
    keep_written(p, blocks);
    keep(keep_most_bytes);
    for (int i = 0; i < blocks; i++)
        assert_ptr_equal(allocate_plain(SMALL), p[i]);
}

/* Two may keep the rest, for four megabytes in all, as those who replace such blocks would fault it
 * in again and again. */
static void old_memory_behind_small_blocks_is_given_back_when_it_is_much(void **state)
{
    (void)state;
    enum { BLOCKS = 3 };
    start();
    char *p[BLOCKS];
    make_small(p, BLOCKS, 4 * MIB);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(usable(p[i]), SMALL);
    assert_true(has_all_pages(p[0]) && has_all_pages(p[1]));
    assert_int_equal(resident_pages(p[2], 4 * MIB), SMALL / HAK_PAGE_BYTES);
    for (int round = 0; round < 3; round++) { /* a freed block's share is the next one's */
        release(p[0]);
        assert_ptr_equal(allocate_plain(SMALL), p[0]);
        assert_true(has_all_pages(p[0]));
    }
    release(p[0]);
    assert_ptr_equal(allocate_plain(4 * MIB - 64 * KIB), p[0]); /* little of it: not worth a call */
    assert_ptr_equal(resize(p[1], 4 * MIB), p[1]); /* all of it is the block's own now */
    assert_int_equal(usable(p[1]), 4 * MIB);
    fill(p[2], SMALL, 1);
    release(p[2]);
    assert_ptr_equal(allocate_plain(SMALL), p[2]);
    fill(p[2], 4 * MIB, 1);
    release(p[2]);
    assert_ptr_equal(allocate_plain(SMALL), p[2]); /* so there is a share for this one */
    assert_true(has_all_pages(p[2]));
}

static void old_memory_behind_small_blocks_stays_where_as_much_may_be_kept(void **state)
{
    (void)state;
    enum { BLOCKS = 6 };
    start();
    char *p[BLOCKS];
    make_small(p, BLOCKS, 8 * MIB);
    /* All the time four megabytes less a slot each, and eight once nothing else is kept. */
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(has_all_pages(p[i]), i < 2 || i == BLOCKS - 1);
}

/* What lies behind a block that comes out of kept memory. */
static bool is_zero_behind(const char *p)
{
    static const char zeros[64 * KIB];
    for (size_t at = SMALL; at < 4 * MIB; at += sizeof zeros)
        if (memcmp(p + at, zeros, sizeof zeros) != 0)
            return false;
    return true;
}

static uint32_t dirty_slots_of_end(const char *p)
{
    size_t superslab = hak_slot_of(p) / HAK_SLOTS + 1;
    return (uint32_t)(hak_load_relaxed(&hak_superslab(superslab)->state) >> 32);
}

static void memory_that_went_behind_a_block_goes_only_once(void **state)
{
    (void)state;
    start();
    char *p[3];
    make_small(p, 3, 4 * MIB);
    fill(p[2], SMALL, 2);
    assert_true(is_zero_behind(p[2]));
    release(p[2]);
    assert_int_equal(dirty_slots_of_end(p[2]), 1);
    uint64_t purges = fake_os_calls(FAKE_PURGE);
    assert_ptr_equal(allocate_plain(SMALL), p[2]);
    assert_int_equal(fake_os_calls(FAKE_PURGE), purges);
    assert_int_equal(usable(p[2]), SMALL);
    release(p[2]);
    assert_int_equal(dirty_slots_of_end(p[2]), 1);
    assert_ptr_equal(allocate_plain(4 * MIB), p[2]); /* all of it is used again */
    release(p[2]);
    assert_int_equal(dirty_slots_of_end(p[2]), UINT32_MAX);
}

static void memory_that_could_not_go_is_not_taken_for_zero(void **state)
{
    (void)state;
    start();
    char *p[3];
    keep_written(p, 3);
    keep(4 * MIB);
    fake_os_fail_from(FAKE_PURGE, 1, EINVAL);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(allocate_plain(SMALL), p[i]);
    for (int i = 0; i < 3; i++) {
        assert_false(is_zero_behind(p[i]));
        release(p[i]);
        assert_int_equal(dirty_slots_of_end(p[i]), UINT32_MAX);
    }
}

static void what_a_block_left_behind_without_staying_is_not_taken_for_zero(void **state)
{
    (void)state;
    start();
    keep(0);
    char *p[3];
    make_small(p, 3, 4 * MIB); /* the third without old memory */
    assert_ptr_equal(resize(p[2], 4 * MIB), p[2]);
    fill(p[2], 4 * MIB, 3);
    assert_false(hak_huge_leave(hak_slot_of(p[2]) / HAK_SLOTS, 3 * MIB));
    keep_all();
    release(p[2]);
    assert_int_equal(dirty_slots_of_end(p[2]), UINT32_MAX);
}

static void old_memory_behind_small_blocks_goes_with_age(void **state)
{
    (void)state;
    enum { SECOND = 1000000000 };
    start();
    char *p[2];
    fake_os_set_time_ns(100ull * SECOND);
    make_small(p, 2, 4 * MIB);
    hak_pool_set_age(SECOND);
    fill(p[0], SMALL, 5);
    fake_os_set_time_ns(100ull * SECOND + SECOND / 2);
    hak_large_tick_any();
    assert_true(has_all_pages(p[0]) && has_all_pages(p[1]));
    /* all of it is the block's own from now on, or a new block's */
    assert_ptr_equal(resize(p[1], 4 * MIB - 64 * KIB), p[1]);
    assert_int_equal(usable(p[1]), 4 * MIB);
    fill(p[1], 4 * MIB - 64 * KIB, 6);
    fake_os_set_time_ns(102ull * SECOND);
    hak_large_tick_any();
    assert_int_equal(resident_pages(p[0], 4 * MIB), SMALL / HAK_PAGE_BYTES);
    assert_true(is_filled(p[0], SMALL, 5));
    assert_int_equal(usable(p[0]), SMALL);
    assert_true(is_filled(p[1], 4 * MIB - 64 * KIB, 6));
    assert_true(release(p[0]) && release(p[1]));
    assert_int_equal(hak_large_counters.slack_slots, 0);
}

static void trim_gives_back_old_memory_behind_small_blocks(void **state)
{
    (void)state;
    start();
    char *p[3];
    make_small(p, 3, SIZE_MAX);
    fill(p[0], SMALL, 5);
    release(p[1]);
    size_t slack = 4 * MIB - SMALL;
    assert_int_equal(hak_large_trim(), 2 * slack + 4 * MIB);
    assert_int_equal(resident_pages(p[0], 4 * MIB), SMALL / HAK_PAGE_BYTES);
    assert_true(is_filled(p[0], SMALL, 5));
    assert_int_equal(hak_large_trim(), 0);
    assert_true(release(p[0]) && release(p[2]));
    assert_int_equal(hak_large_counters.slack_slots, 0);
}

static void blocks_with_old_memory_behind_them_are_freed_in_any_order(void **state)
{
    (void)state;
    start();
    enum { BLOCKS = 7 };
    char *p[BLOCKS];
    make_small(p, BLOCKS, SIZE_MAX);
    assert_true(release(p[3]) && release(p[6]) && release(p[0]) && release(p[2]));
    assert_int_equal(hak_large_trim(), 3 * (4 * MIB - SMALL) + 4 * 4 * MIB);
    for (int i = 1; i < BLOCKS; i += i == 1 ? 3 : 1)
        if (i != 6)
            assert_true(is_filled(p[i], SMALL, 1));
    assert_true(release(p[4]) && release(p[1]) && release(p[5]));
    assert_int_equal(hak_large_counters.slack_slots, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(old_memory_behind_small_blocks_is_given_back_when_it_is_much),
    cmocka_unit_test(old_memory_behind_small_blocks_stays_where_as_much_may_be_kept),
    cmocka_unit_test(memory_that_went_behind_a_block_goes_only_once),
    cmocka_unit_test(memory_that_could_not_go_is_not_taken_for_zero),
    cmocka_unit_test(what_a_block_left_behind_without_staying_is_not_taken_for_zero),
    cmocka_unit_test(old_memory_behind_small_blocks_goes_with_age),
    cmocka_unit_test(trim_gives_back_old_memory_behind_small_blocks),
    cmocka_unit_test(blocks_with_old_memory_behind_them_are_freed_in_any_order),
};
UNIT_MAIN(tests)
