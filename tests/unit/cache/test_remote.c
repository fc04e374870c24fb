/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: blocks freed by threads that do not own their slab. */
#include "cache_support.h"

#define MANY 2000u

/* One thread can open several heaps: what differs from several threads is only who holds the
 * pointer. */
static struct hak_heap *owner, *other;
static char *blocks[MANY];

static void start_two(void)
{
    start();
    owner = open_thread();
    other = open_thread();
}

static void allocate_many(struct hak_heap *heap, unsigned cls, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = allocate(heap, cls);
        mark(blocks[i], hak_class(cls)->size_bytes, i);
    }
}

static void release_many(struct hak_heap *heap, unsigned cls, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_true(is_marked(blocks[i], hak_class(cls)->size_bytes, i));
        release(heap, blocks[i]);
    }
}

static void a_remote_free_comes_back_to_its_live_owner(void **state)
{
    (void)state;
    start_two();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 7) {
        unsigned count = (unsigned)hak_min(MANY, hak_class(cls)->blocks * 2u);
        uint64_t collected = counted(&owner->stats.collected_blocks);
        allocate_many(owner, cls, count);
        size_t slabs = usage().class_slabs[cls];
        release_many(other, cls, count);
        hak_cache_flush(other);
        assert_non_null(hak_load_relaxed(&owner->inbox));
        allocate_many(owner, cls, count);
        CHECK(usage().class_slabs[cls] <= slabs, "class %u: %zu slabs instead of %zu", cls,
              usage().class_slabs[cls], slabs);
        CHECK(counted(&owner->stats.collected_blocks) == collected + count, "class %u", cls);
        release_many(owner, cls, count);
    }
    verify_heaps();
    hak_cache_flush(owner);
    assert_nothing_held();
}

static void a_remote_free_comes_back_to_the_slab_of_an_ended_owner(void **state)
{
    (void)state;
    start_two();
    allocate_many(owner, 4, MANY);
    close_thread(owner);
    hak_self = &other->front;
    assert_true(hak_load_relaxed(&hak_orphans->slabs) > 0);
    release_many(other, 4, MANY);
    hak_cache_flush(other);
    assert_nothing_held();
}

static void what_an_ending_thread_has_freed_is_sent(void **state)
{
    (void)state;
    start_two();
    allocate_many(owner, 9, 10);
    release_many(other, 9, 10);
    close_thread(other);
    hak_cache_flush(owner);
    assert_nothing_held();
}

static void no_more_than_64_kib_wait_to_be_sent(void **state)
{
    (void)state;
    start_two();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 5) {
        size_t size = hak_class(cls)->size_bytes;
        unsigned count = (unsigned)hak_min(MANY, ((size_t)512 << 10) / size);
        uint64_t collected = counted(&owner->stats.collected_blocks);
        allocate_many(owner, cls, count);
        release_many(other, cls, count);
        hak_lock(&owner->lock);
        hak_heap_collect_locked(owner);
        hak_unlock(&owner->lock);
        size_t waiting = count - (counted(&owner->stats.collected_blocks) - collected);
        CHECK(waiting * size <= (64u << 10), "class %u: %zu blocks wait", cls, waiting);
        hak_cache_flush(other);
        hak_cache_flush(owner);
    }
    assert_nothing_held();
}

static void blocks_of_one_bitmap_word_are_sent_together(void **state)
{
    (void)state;
    start_two();
    unsigned cls = hak_class_of(64);
    allocate_many(owner, cls, 64);
    for (unsigned i = 0; i < 63; i++)
        release(other, blocks[i]);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(blocks[0]), hak_class(cls));
    assert_int_equal(hak_load_relaxed(&s->remote_bits[0]), 0); /* all of it waits in the outbox */
    release(other, blocks[63]);
    hak_cache_flush(other);
    assert_int_equal(hak_load_relaxed(&s->remote_bits[0]), UINT64_MAX);
    hak_cache_flush(owner);
    assert_nothing_held();
}

/* Frees one block of the slab remotely, so that the slab waits in the inbox of its owner. */
static struct hak_slab *slab_in_inbox(void)
{
    allocate_many(owner, 2, 10);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(blocks[0]), hak_class(2));
    release(other, blocks[0]);
    hak_outbox_flush(other);
    assert_ptr_equal(hak_load_relaxed(&owner->inbox), s);
    assert_true(hak_load_relaxed(&s->in_inbox));
    return s;
}

static void collect(struct hak_heap *heap)
{
    hak_lock(&heap->lock);
    hak_heap_collect_locked(heap);
    hak_unlock(&heap->lock);
}

static void a_slab_that_changed_its_owner_is_handed_on(void **state)
{
    (void)state;
    start_two();
    struct hak_heap *third = open_thread();
    struct hak_slab *s = slab_in_inbox();
    hak_lock(&owner->lock);
    hak_lock(&third->lock);
    hak_heap_disown_locked(owner, s);
    hak_heap_own_locked(third, s);
    hak_unlock(&third->lock);
    hak_unlock(&owner->lock);

    unsigned used = hak_slab_used_blocks(s);
    collect(owner);
    assert_int_equal(hak_slab_used_blocks(s), used); /* it is not the old owner's to touch */
    assert_ptr_equal(hak_load_relaxed(&third->inbox), s);
    collect(third);
    assert_int_equal(hak_slab_used_blocks(s), used - 1);
    assert_null(hak_load_relaxed(&third->inbox));
    assert_false(hak_load_relaxed(&s->in_inbox));
}

static void a_slab_that_waits_in_the_inbox_of_an_ending_thread_goes_on_to_the_shared_heap(
    void **state)
{
    (void)state;
    start_two();
    hak_cache_flush(owner);
    struct hak_slab *s = slab_in_inbox();
    unsigned used = hak_slab_used_blocks(s);
    close_thread(owner);
    hak_cache_collect_orphans();
    assert_ptr_equal(hak_load_relaxed(&s->owner), hak_orphans);
    assert_null(hak_load_relaxed(&owner->inbox));
    assert_true(hak_slab_used_blocks(s) < used);
    verify_heaps();
}

static void a_slab_released_while_it_waits_in_an_inbox_is_dropped(void **state)
{
    (void)state;
    start_two();
    struct hak_slab *s = slab_in_inbox();
    hak_lock(&owner->lock);
    hak_slab_collect_owner(s); /* by somebody who does not look at the inbox */
    hak_heap_settle_freed_locked(owner, s);
    hak_unlock(&owner->lock);
    for (unsigned i = 1; i < 10; i++)
        release(owner, blocks[i]);
    hak_lock(&owner->lock);
    hak_heap_drain_locked(owner, 2, hak_bin_blocks(owner, 2));
    hak_unlock(&owner->lock);
    assert_null(hak_load_relaxed(&s->owner));
    assert_ptr_equal(hak_load_relaxed(&owner->inbox), s);
    collect(owner);
    assert_false(hak_load_relaxed(&s->in_inbox));
    assert_nothing_held();
}

/* --- misuse --- */

static void call_release(void *p)
{
    release(other, p);
}

static void call_flush(void *heap)
{
    hak_cache_flush(heap);
}

static void assert_dies(void (*call)(void *), void *argument, const char *words)
{
    const char *said = fake_os_last_words(call, argument);
    CHECK(said != NULL && strstr(said, words) != NULL, "%s instead of %s", said, words);
}

static void a_second_remote_free_in_a_row_is_a_double_free(void **state)
{
    (void)state;
    start_two();
    char *p = allocate(owner, 6);
    release(other, p);
    assert_dies(call_release, p, "double free of");
}

static void a_second_remote_free_after_the_first_was_sent_is_a_double_free(void **state)
{
    (void)state;
    start_two();
    char *p = allocate(owner, 6);
    release(other, p);
    hak_cache_flush(other);
    release(other, p);
    assert_dies(call_flush, other, "double free of");
}

static void a_remote_free_of_what_its_owner_has_freed_is_a_double_free(void **state)
{
    (void)state;
    start_two();
    char *p = allocate(owner, 6);
    allocate(owner, 6);
    release(owner, p);
    hak_lock(&owner->lock);
    hak_heap_drain_locked(owner, 6, hak_bin_blocks(owner, 6));
    hak_unlock(&owner->lock);
    release(other, p);
    hak_cache_flush(other);
    assert_dies(call_flush, owner, "double free of");
}

static void a_remote_free_of_a_pointer_into_a_block_is_refused_at_once(void **state)
{
    (void)state;
    start_two();
    assert_dies(call_release, allocate(owner, 6) + 16, "points into a block");
}

/* --- owners that sleep --- */

static void whoever_frees_many_blocks_of_a_sleeping_owner_collects_for_it(void **state)
{
    (void)state;
    start_two();
    unsigned cls = hak_class_of(4096); /* 16 blocks a slab */
    static char *mine[256 * 16];       /* four times as many slabs as may wait in an inbox */
    for (size_t i = 0; i < UNIT_COUNT(mine); i++)
        mine[i] = allocate(owner, cls);
    size_t held = usage().class_slabs[cls];
    assert_true(held >= 256);
    for (size_t i = 0; i < UNIT_COUNT(mine); i++) {
        release(other, mine[i]);
        size_t live = UNIT_COUNT(mine) - i;
        CHECK(usage().class_slabs[cls] <= live / 16 + 72, "%zu slabs with %zu blocks live",
              usage().class_slabs[cls], live);
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
    cmocka_unit_test(a_remote_free_comes_back_to_its_live_owner),
    cmocka_unit_test(a_remote_free_comes_back_to_the_slab_of_an_ended_owner),
    cmocka_unit_test(what_an_ending_thread_has_freed_is_sent),
    cmocka_unit_test(no_more_than_64_kib_wait_to_be_sent),
    cmocka_unit_test(blocks_of_one_bitmap_word_are_sent_together),
    cmocka_unit_test(a_slab_that_changed_its_owner_is_handed_on),
    cmocka_unit_test(a_slab_that_waits_in_the_inbox_of_an_ending_thread_goes_on_to_the_shared_heap),
    cmocka_unit_test(a_slab_released_while_it_waits_in_an_inbox_is_dropped),
    cmocka_unit_test(a_second_remote_free_in_a_row_is_a_double_free),
    cmocka_unit_test(a_second_remote_free_after_the_first_was_sent_is_a_double_free),
    cmocka_unit_test(a_remote_free_of_what_its_owner_has_freed_is_a_double_free),
    cmocka_unit_test(a_remote_free_of_a_pointer_into_a_block_is_refused_at_once),
    cmocka_unit_test(whoever_frees_many_blocks_of_a_sleeping_owner_collects_for_it),
    cmocka_unit_test(nobody_collects_for_an_owner_that_is_at_it),
    cmocka_unit_test(the_tick_collects_for_everybody),
};
UNIT_MAIN(tests)
