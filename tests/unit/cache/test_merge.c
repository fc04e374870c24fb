/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: homes whose threads exchange many blocks become one. */
#include "homes_support.h"

/* So many blocks of the one are freed by the other that this is weighed. */
static void exchange(struct hak_heap *from, struct hak_heap *to)
{
    for (unsigned i = 0; i < 6; i++) {
        allocate_many(from, hak_class_of(64), 0, 1000);
        release_many(to, 0, 1000);
    }
}

static void those_that_exchange_blocks_come_to_one_home(void **state)
{
    (void)state;
    start_four();
    unsigned cls = hak_class_of(2000);
    allocate_many(heaps[1], cls, 1000, 1500);
    allocate_many(heaps[3], cls, 1500, MANY);
    exchange(heaps[0], heaps[1]);
    for (unsigned i = 1000; i < MANY; i++) /* at once */
        assert_ptr_equal(owner_of(blocks[i]), heaps[0]);
    assert_int_equal(hak_load_relaxed(&heaps[1]->slabs), 0);
    assert_ptr_equal(hak_home(heaps[3]), heaps[1]); /* when it next comes by */
    assert_int_equal(heaps[0]->guests, 3);
    assert_int_equal(heaps[1]->guests, 1);
    verify_heaps();
    release_many(heaps[3], 1500, MANY);
    hak_cache_flush(heaps[3]);
    assert_ptr_equal(hak_home(heaps[3]), heaps[0]);
    release_many(heaps[1], 1000, 1500);
    hak_cache_flush(heaps[1]);
    assert_ptr_equal(hak_home(heaps[1]), heaps[0]);
    assert_null(heaps[1]->moved_to);
    assert_int_equal(heaps[0]->guests, 3);
    assert_int_equal(heaps[1]->guests, 0);
    uint64_t sent = counted(&heaps[1]->stats.remote_frees);
    exchange(heaps[0], heaps[1]);
    assert_int_equal(counted(&heaps[1]->stats.remote_frees), sent);
    struct hak_heap *next = open_thread(); /* and does not make a home again */
    assert_ptr_equal(hak_home(next), heaps[0]);
    for (unsigned i = 0; i < UNIT_COUNT(heaps); i++)
        close_thread(heaps[i]);
    close_thread(next);
    assert_nothing_held();
}

/* It comes by at no bin. */
static void who_only_frees_moves_with_its_home(void **state)
{
    (void)state;
    start_four();
    exchange(heaps[0], heaps[1]);
    assert_ptr_equal(hak_home(heaps[1]), heaps[0]);
    uint64_t sent = counted(&heaps[1]->stats.remote_frees);
    exchange(heaps[0], heaps[1]);
    assert_int_equal(counted(&heaps[1]->stats.remote_frees), sent);
}

static void who_only_frees_follows_when_another_has_moved_its_home(void **state)
{
    (void)state;
    start_four();
    exchange(heaps[1], heaps[0]);
    assert_ptr_equal(heaps[1]->moved_to, heaps[0]);
    assert_ptr_equal(hak_home(heaps[3]), heaps[1]);
    exchange(heaps[0], heaps[3]);
    assert_ptr_equal(hak_home(heaps[3]), heaps[0]);
}

/* Another thread makes both homes one when this thread has found that a block is another's, and
 * before it looks again. */
static void a_block_that_becomes_ones_own_while_it_is_freed_finds_room_in_the_bin(void **state)
{
    (void)state;
    start_four();
    unsigned cls = hak_class_of(64);
    allocate_many(heaps[0], cls, 0, 10);
    unsigned in_bin = hak_bin_blocks(heaps[0], cls);
    hak_cache_overflow(heaps[0], cls, blocks[0]);
    hak_cache_overflow(heaps[0], cls, blocks[1]);
    assert_int_equal(hak_bin_blocks(heaps[0], cls), in_bin + 2);
    assert_int_equal(counted(&heaps[0]->stats.drains), 0);
    release_many(heaps[0], 2, 10);
    hak_cache_flush(heaps[0]);
    assert_nothing_held();
}

static void the_older_home_stays(void **state)
{
    (void)state;
    start_four();
    exchange(heaps[1], heaps[2]); /* a guest of heap 0 */
    hak_cache_flush(heaps[1]);
    assert_ptr_equal(hak_home(heaps[1]), heaps[0]);
    assert_ptr_equal(hak_home(heaps[2]), heaps[0]);
}

static void who_exchanges_little_stays(void **state)
{
    (void)state;
    start_four();
    unsigned mine = hak_class_of(30000);
    for (unsigned i = 0; i < 20; i++) {
        allocate_many(heaps[0], hak_class_of(64), 0, 1000);
        allocate_many(heaps[1], mine, 1000, 3000); /* many refills */
        release_many(heaps[1], 0, 3000);
    }
    assert_ptr_equal(hak_home(heaps[1]), heaps[1]);
    assert_null(heaps[1]->moved_to);
}

static void as_many_homes_as_were_asked_for_stay(void **state)
{
    (void)state;
    start();
    hak_store_relaxed(&hak_cache_knobs.homes, 2u);
    struct hak_heap *first = open_thread(), *second = open_thread();
    exchange(first, second);
    assert_null(second->moved_to);
}

static void no_more_become_one_than_may_share_a_lock(void **state)
{
    (void)state;
    start(); /* 64 processors */
    struct hak_heap *first = open_thread();
    for (unsigned i = 0; i < 5; i++) {
        struct hak_heap *other = open_thread();
        exchange(first, other);
        hak_cache_flush(other);
        assert_true((hak_home(other) == first) == (i < 3));
    }
    assert_int_equal(first->guests, 3);
    struct hak_heap *last = open_thread(); /* asks less often, the more often it was for nothing */
    for (unsigned i = 0; i < 100; i++)
        exchange(first, last);
    assert_in_range(last->exchange_refused, 5, 8);
}

static void a_home_that_has_moved_is_free_when_all_have_followed(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[3], 5, 1000, 1100);
    exchange(heaps[0], heaps[1]);
    close_thread(heaps[1]); /* before its guest has followed */
    assert_true(heaps[1]->vacant);
    struct hak_heap *next = open_thread();
    assert_ptr_not_equal(next, heaps[1]);
    release_many(heaps[3], 1000, 1100);
    close_thread(heaps[3]);
    assert_false(heaps[1]->vacant);
    assert_null(heaps[1]->moved_to);
    struct hak_heap *others[] = {open_thread(), open_thread()};
    assert_true(others[0] == heaps[1] || others[1] == heaps[1]);
    assert_ptr_not_equal(others[0], others[1]);
    close_thread(others[0]);
    close_thread(others[1]);
    close_thread(next);
    hak_cache_flush(heaps[0]);
    hak_cache_flush(heaps[2]);
    assert_nothing_held();
}

static void a_home_without_a_thread_moves_too(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[1], 5, 1000, 1100);
    allocate_many(heaps[3], 5, 1100, 1200);
    close_thread(heaps[1]);
    assert_true(heaps[1]->vacant);
    exchange(heaps[0], heaps[3]);
    assert_ptr_equal(owner_of(blocks[1000]), heaps[0]);
    assert_int_equal(heaps[0]->guests, 2);
    hak_cache_flush(heaps[3]);
    assert_false(heaps[1]->vacant); /* it is free */
    assert_ptr_equal(open_thread(), heaps[1]);
    release_many(heaps[1], 1000, 1200);
    for (unsigned i = 0; i < UNIT_COUNT(heaps); i++)
        close_thread(heaps[i]);
    assert_nothing_held();
}

static void merges_are_not_held_against_new_threads_for_ever(void **state)
{
    (void)state;
    start_four();
    exchange(heaps[0], heaps[1]);
    hak_homes_forget();
    struct hak_heap *next = open_thread();
    assert_ptr_equal(hak_home(next), next);
}

static void who_was_to_follow_to_a_lost_home_stays(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[3], 5, 1000, 1100);
    exchange(heaps[0], heaps[1]);
    become_another_thread(heaps[0]);
    become_another_thread(heaps[2]);
    hold_as_another_thread(heaps[0]);
    hak_self = &heaps[3]->front;
    assert_false(hak_cache_fork_child(heaps[3]));
    assert_ptr_equal(hak_home(heaps[3]), heaps[1]);
    assert_null(heaps[1]->moved_to);
    assert_int_equal(heaps[1]->guests, 1);
    release(heaps[3], allocate(heaps[3], 7));
    assert_int_equal(hak_load_relaxed(&heaps[1]->slabs), 1);
}

static void an_ended_home_that_others_are_to_follow_is_nobodys_guest_in_a_child(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[3], 5, 1000, 1100);
    exchange(heaps[0], heaps[1]);
    close_thread(heaps[1]);
    assert_int_equal(heaps[0]->guests, 2);
    assert_false(hak_cache_fork_child(heaps[3]));
    assert_int_equal(heaps[0]->guests, 2); /* heap 2, and heap 3, which is to follow */
    assert_int_equal(heaps[1]->guests, 1);
}

static void a_home_that_a_signal_handler_interrupted_does_not_move(void **state)
{
    (void)state;
    start_four();
    struct hak_heap *const held[] = {heaps[0], heaps[1]};
    for (unsigned i = 0; i < 2; i++) {
        hak_lock(&held[i]->lock); /* by this thread */
        heaps[1]->exchanged_blocks = UINT16_MAX;
        hak_homes_weigh_owner(heaps[1], heaps[0]);
        assert_null(heaps[1]->moved_to);
        hak_unlock(&held[i]->lock);
    }
    heaps[1]->exchanged_blocks = UINT16_MAX;
    hak_homes_weigh_owner(heaps[1], heaps[0]);
    assert_ptr_equal(heaps[1]->moved_to, heaps[0]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(those_that_exchange_blocks_come_to_one_home),
    cmocka_unit_test(who_only_frees_moves_with_its_home),
    cmocka_unit_test(who_only_frees_follows_when_another_has_moved_its_home),
    cmocka_unit_test(a_block_that_becomes_ones_own_while_it_is_freed_finds_room_in_the_bin),
    cmocka_unit_test(the_older_home_stays),
    cmocka_unit_test(who_exchanges_little_stays),
    cmocka_unit_test(as_many_homes_as_were_asked_for_stay),
    cmocka_unit_test(no_more_become_one_than_may_share_a_lock),
    cmocka_unit_test(a_home_that_has_moved_is_free_when_all_have_followed),
    cmocka_unit_test(a_home_without_a_thread_moves_too),
    cmocka_unit_test(merges_are_not_held_against_new_threads_for_ever),
    cmocka_unit_test(an_ended_home_that_others_are_to_follow_is_nobodys_guest_in_a_child),
    cmocka_unit_test(a_home_that_a_signal_handler_interrupted_does_not_move),
    cmocka_unit_test(who_was_to_follow_to_a_lost_home_stays),
};
UNIT_MAIN(tests)
