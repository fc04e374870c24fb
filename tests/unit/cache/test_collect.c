/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: how blocks that others freed are collected: to bins or to slabs, and for
 * owners that sleep. */
#include "remote_support.h"

/* --- straight to the owner's bins --- */

static void collect_to_bins(struct hak_heap *heap)
{
    hak_lock(&heap->lock);
    hak_heap_collect_owner_locked(heap);
    hak_unlock(&heap->lock);
}

/* Blocks of two classes in turn; both bins are left empty. */
static void allocate_in_turn(struct hak_heap *heap, const unsigned cls[2], unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        blocks[i] = allocate(heap, cls[i % 2]);
    for (unsigned i = 0; i < 2; i++)
        while (hak_bin_blocks(heap, cls[i]) != 0)
            MUST(hak_cache_pop(&heap->front, cls[i] * 2u) != NULL);
}

static void blocks_without_a_neighbour_go_to_the_bins_of_their_owner(void **state)
{
    (void)state;
    start_two();
    const unsigned cls[2] = {hak_class_of(96), hak_class_of(200)};
    allocate_in_turn(owner, cls, 20);
    size_t slots[2] = {hak_slot_of(blocks[0]), hak_slot_of(blocks[1])};
    unsigned used[2];
    for (unsigned i = 0; i < 2; i++)
        used[i] = hak_slab_used_blocks(hak_slab_of_slot(slots[i], hak_class(cls[i])));
    for (unsigned i = 0; i < 20; i++)
        release(other, blocks[i]);
    hak_outbox_flush(other);
    collect_to_bins(owner);
    assert_null(hak_load_relaxed(&owner->inbox));
    assert_int_equal(counted(&owner->stats.collected_blocks), 20);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hak_bin_blocks(owner, cls[i]), 10);
        assert_int_equal(hak_slab_used_blocks(hak_slab_of_slot(slots[i], hak_class(cls[i]))),
                         used[i]);
    }
    for (unsigned i = 0; i < 2; i++) /* the first that was freed is the first that is had */
        assert_ptr_equal(allocate(owner, cls[i]), blocks[i]);
    verify_heaps();
}

static void what_the_bins_have_no_room_for_goes_to_the_slabs(void **state)
{
    (void)state;
    start_two();
    const unsigned cls[2] = {hak_class_of(96), hak_class_of(200)};
    allocate_in_turn(owner, cls, 1000);
    unsigned room[2] = {owner->classes[cls[0]].capacity, owner->classes[cls[1]].capacity};
    assert_true(room[0] < 500 && room[1] < 500);
    for (unsigned i = 0; i < 1000; i++)
        release(other, blocks[i]);
    hak_outbox_flush(other);
    collect_to_bins(owner);
    assert_int_equal(counted(&owner->stats.collected_blocks), 1000);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(hak_bin_blocks(owner, cls[i]), room[i]);
    verify_heaps();
}

/* The owner frees nothing itself. */
static void bins_that_have_no_room_for_what_others_free_grow_up_to_a_bound(void **state)
{
    (void)state;
    start_two();
    const unsigned cls[2] = {hak_class_of(8000), hak_class_of(16000)};
    for (unsigned round = 0; round < 200; round++) {
        allocate_in_turn(owner, cls, 200);
        for (unsigned i = 0; i < 200; i++)
            release(other, blocks[i]);
        hak_outbox_flush(other);
        collect_to_bins(owner);
        if (round == 0) {
            assert_int_equal(owner->classes[cls[0]].capacity, 7);
            assert_int_equal(owner->classes[cls[1]].capacity, 3);
        }
    }
    for (unsigned i = 0; i < 2; i++) { /* the first capacity that reaches 128 KiB */
        size_t bytes = owner->classes[cls[i]].capacity * (size_t)hak_class(cls[i])->size_bytes;
        assert_in_range(bytes, 128 << 10, 256 << 10);
    }
    verify_heaps();
}

static void neighbours_go_to_their_slab(void **state)
{
    (void)state;
    start_two();
    unsigned cls = hak_class_of(64);
    allocate_in_turn(owner, (unsigned[2]){cls, cls}, 40);
    for (unsigned i = 0; i < 40; i++)
        release(other, blocks[i]);
    hak_outbox_flush(other);
    collect_to_bins(owner);
    assert_int_equal(counted(&owner->stats.collected_blocks), 40);
    assert_int_equal(hak_bin_blocks(owner, cls), 0);
    verify_heaps();
}

static void a_refill_takes_what_came_to_the_bin_from_others(void **state)
{
    (void)state;
    start_two();
    const unsigned cls[2] = {hak_class_of(96), hak_class_of(200)};
    allocate_in_turn(owner, cls, 600);
    for (unsigned i = 0; i < 600; i++)
        release(other, blocks[i]);
    assert_true(hak_load_relaxed(&owner->inbox_messages) >= 8);
    char *p = allocate(owner, cls[0]);
    assert_true(hak_load_relaxed(&owner->inbox) == NULL);
    assert_int_equal(hak_bin_blocks(owner, cls[0]), owner->classes[cls[0]].capacity - 1);
    release(owner, p);
    verify_heaps();
}

static void a_second_remote_free_is_found_when_it_leaves_the_bin_of_the_owner(void **state)
{
    (void)state;
    start_two();
    const unsigned cls[2] = {hak_class_of(96), hak_class_of(200)};
    allocate_in_turn(owner, cls, 4);
    for (unsigned i = 0; i < 8; i++)
        release(other, blocks[i % 4]);
    hak_outbox_flush(other);
    collect_to_bins(owner);
    assert_dies(call_flush, owner, "double free of");
}

/* --- owners that sleep --- */

static void whoever_frees_many_blocks_of_a_sleeping_owner_collects_for_it(void **state)
{
    (void)state;
    start_two();
    unsigned cls = hak_class_of(4096);
    static char *mine[256 * 16]; /* four times as many slabs as may wait in an inbox */
    for (size_t i = 0; i < UNIT_COUNT(mine); i++)
        mine[i] = allocate(owner, cls);
    size_t held = usage().class_slabs[cls];
    assert_true(held >= 256);
    for (size_t i = 0; i < UNIT_COUNT(mine); i++) {
        release(other, mine[i]);
        size_t live = UNIT_COUNT(mine) - i;
        CHECK(usage().class_slabs[cls] <= live / hak_class(cls)->blocks + 72,
              "%zu slabs with %zu blocks live", usage().class_slabs[cls], live);
    }
    assert_true(counted(&other->stats.collected_for_others) > 0);
    verify_heaps();
    hak_cache_flush(other);
    hak_cache_flush(owner);
    assert_nothing_held();
}

static void nobody_collects_for_an_owner_that_is_at_it(void **state)
{
    (void)state;
    start_two();
    unsigned cls = hak_class_of(4096);
    static char *mine[64 * 16];
    for (size_t i = 0; i < UNIT_COUNT(mine); i++)
        mine[i] = allocate(owner, cls);
    hak_lock(&owner->lock);
    for (size_t i = 0; i < UNIT_COUNT(mine); i++)
        release(other, mine[i]);
    hak_cache_flush(other);
    assert_int_equal(counted(&other->stats.collected_for_others), 0);
    hak_unlock(&owner->lock);
    hak_cache_flush(owner);
    assert_nothing_held();
}

static void the_tick_collects_for_everybody(void **state)
{
    (void)state;
    start_two();
    fake_os_set_time_ns(1000000000u);
    hak_cache_tick_any();
    allocate_many(owner, 9, 10);
    release_many(other, 9, 10);
    hak_outbox_flush(other);
    assert_non_null(hak_load_relaxed(&owner->inbox));
    hak_cache_tick_any();
    assert_non_null(hak_load_relaxed(&owner->inbox)); /* not so soon again */
    fake_os_set_time_ns(2000000000u);
    hak_cache_tick_any();
    assert_null(hak_load_relaxed(&owner->inbox));
    assert_int_equal(counted(&owner->stats.collected_blocks), 10);
    hak_cache_flush(owner);
    assert_nothing_held();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_without_a_neighbour_go_to_the_bins_of_their_owner),
    cmocka_unit_test(what_the_bins_have_no_room_for_goes_to_the_slabs),
    cmocka_unit_test(bins_that_have_no_room_for_what_others_free_grow_up_to_a_bound),
    cmocka_unit_test(neighbours_go_to_their_slab),
    cmocka_unit_test(a_refill_takes_what_came_to_the_bin_from_others),
    cmocka_unit_test(a_second_remote_free_is_found_when_it_leaves_the_bin_of_the_owner),
    cmocka_unit_test(whoever_frees_many_blocks_of_a_sleeping_owner_collects_for_it),
    cmocka_unit_test(nobody_collects_for_an_owner_that_is_at_it),
    cmocka_unit_test(the_tick_collects_for_everybody),
};
UNIT_MAIN(tests)
