/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: blocks freed by threads that do not own their slab. */
#include "remote_support.h"

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

/* The cache line of a small block is written, with what it holds: a block that is freed twice may
 * be somebody's again. */
static void a_remote_free_changes_nothing_in_the_block(void **state)
{
    (void)state;
    start_two();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls += 7) {
        size_t size = hak_class(cls)->size_bytes;
        unsigned count = (unsigned)hak_min(20, hak_class(cls)->blocks);
        allocate_many(owner, cls, count);
        release_many(other, cls, count);
        for (unsigned i = 0; i < count; i++)
            CHECK(is_marked(blocks[i], size, i), "class %u", cls);
        hak_cache_flush(other);
        hak_cache_flush(owner);
    }
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

static void collect(struct hak_heap *heap)
{
    hak_lock(&heap->lock);
    hak_heap_collect_locked(heap);
    hak_unlock(&heap->lock);
}

static void what_is_freed_of_an_ended_threads_blocks_is_collected_when_it_is_sent(void **state)
{
    (void)state;
    start_two();
    unsigned cls = hak_class_of(64);
    allocate_many(owner, cls, 300);
    close_thread(owner);
    hak_self = &other->front;
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(blocks[299]), hak_class(cls));
    assert_ptr_equal(owner_of(blocks[299]), hak_orphans);
    release_many(other, cls, HAK_MESSAGE_BLOCKS);
    assert_int_equal(hak_slab_used_blocks(s), 300);
    release(other, blocks[HAK_MESSAGE_BLOCKS]); /* no room for it in the message */
    assert_int_equal(hak_slab_used_blocks(s), 300 - HAK_MESSAGE_BLOCKS);
    assert_true(counted(&other->stats.collected_for_others) > 0);
    for (unsigned i = HAK_MESSAGE_BLOCKS + 1; i < 300; i++)
        release(other, blocks[i]);
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

static void blocks_for_one_heap_are_sent_together(void **state)
{
    (void)state;
    start_two();
    allocate_many(owner, hak_class_of(64), HAK_MESSAGE_BLOCKS + 1);
    for (unsigned i = 0; i < HAK_MESSAGE_BLOCKS; i++)
        release(other, blocks[i]);
    assert_null(hak_load_relaxed(&owner->inbox)); /* all of it waits in the outbox */
    release(other, blocks[HAK_MESSAGE_BLOCKS]);
    struct hak_message *m = hak_load_relaxed(&owner->inbox);
    assert_non_null(m);
    assert_null(hak_load_relaxed(&m->next));
    assert_int_equal(m->free, 0);
    assert_int_equal(counted(&other->stats.remote_sends), 1);
    hak_cache_flush(other);
    assert_int_equal(counted(&other->stats.remote_sends), 2);
    hak_cache_flush(owner);
    assert_nothing_held();
}

#define OWNERS (HAK_OUTBOXES + 3)

static void blocks_of_more_owners_than_wait_at_a_time_all_come_back(void **state)
{
    (void)state;
    start();
    struct hak_heap *owners[OWNERS];
    for (unsigned i = 0; i < OWNERS; i++)
        owners[i] = open_thread();
    other = open_thread();
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = allocate(owners[i % OWNERS], 3 + i % 5);
    for (unsigned i = 0; i < MANY; i++)
        release(other, blocks[i]);
    hak_cache_flush(other);
    assert_int_equal(counted(&other->stats.remote_frees), MANY);
    for (unsigned i = 0; i < OWNERS; i++)
        hak_cache_flush(owners[i]);
    assert_nothing_held();
}

/* Frees one block of the slab remotely, so that a message waits in the inbox of its owner. */
static struct hak_slab *slab_with_message(unsigned count)
{
    allocate_many(owner, 2, 10);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(blocks[0]), hak_class(2));
    for (unsigned i = 0; i < count; i++)
        release(other, blocks[i]);
    hak_outbox_flush(other);
    assert_non_null(hak_load_relaxed(&owner->inbox));
    return s;
}

static void move_slab(struct hak_slab *s, struct hak_heap *from, struct hak_heap *to)
{
    hak_lock(&from->lock);
    hak_lock(&to->lock);
    hak_heap_disown_locked(from, s);
    hak_heap_own_locked(to, s);
    hak_unlock(&to->lock);
    hak_unlock(&from->lock);
}

static void a_block_whose_slab_changed_its_owner_is_sent_on(void **state)
{
    (void)state;
    start_two();
    struct hak_heap *third = open_thread();
    struct hak_slab *s = slab_with_message(1);
    move_slab(s, owner, third);

    unsigned used = hak_slab_used_blocks(s);
    collect(owner);
    assert_int_equal(hak_slab_used_blocks(s), used); /* it is not the old owner's to touch */
    assert_null(hak_load_relaxed(&owner->inbox));
    assert_non_null(hak_load_relaxed(&third->inbox));
    collect(third);
    assert_int_equal(hak_slab_used_blocks(s), used - 1);
    assert_null(hak_load_relaxed(&third->inbox));
}

static void of_a_message_each_heap_takes_its_own_blocks(void **state)
{
    (void)state;
    start_two();
    struct hak_heap *third = open_thread();
    char *of_other_slabs[8];
    for (unsigned i = 0; i < 8; i++)
        of_other_slabs[i] = allocate(owner, 12 + i);
    struct hak_slab *second = hak_slab_of_slot(hak_slot_of(of_other_slabs[3]), hak_class(15));
    for (unsigned i = 0; i < 8; i++)
        release(other, of_other_slabs[i]);
    struct hak_slab *s = slab_with_message(3);
    move_slab(s, owner, third);
    move_slab(second, owner, other);

    collect(owner);
    assert_int_equal(counted(&owner->stats.collected_blocks), 7);
    collect(third);
    collect(other);
    collect(third); /* by way of the third, or the other */
    collect(other);
    assert_int_equal(counted(&third->stats.collected_blocks), 3);
    assert_int_equal(counted(&other->stats.collected_blocks), 1);
    for (unsigned i = 3; i < 10; i++)
        release(other, blocks[i]);
    hak_cache_flush(owner); /* its bins hold blocks of the others */
    hak_cache_flush(other);
    hak_cache_flush(third);
    hak_cache_flush(owner);
    assert_nothing_held();
}

static void a_message_in_the_inbox_of_an_ending_thread_goes_on_to_the_shared_heap(void **state)
{
    (void)state;
    start_two();
    hak_cache_flush(owner);
    struct hak_slab *s = slab_with_message(1);
    unsigned used = hak_slab_used_blocks(s);
    close_thread(owner);
    hak_cache_collect_orphans();
    assert_ptr_equal(hak_load_relaxed(&s->owner), hak_orphans);
    assert_null(hak_load_relaxed(&owner->inbox));
    assert_true(hak_slab_used_blocks(s) < used);
    verify_heaps();
}

static void without_memory_for_messages_blocks_go_straight_to_their_slabs(void **state)
{
    (void)state;
    start_two();
    struct hak_heap *third = open_thread();
    allocate_many(owner, 2, 300);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(blocks[0]), hak_class(2));
    for (unsigned i = 0; i < 20; i++) /* in the bin of their owner, which the slab leaves */
        release(owner, blocks[i]);
    move_slab(s, owner, third);
    fake_os_fail_from(FAKE_MAP, 1, ENOMEM);
    while (hak_meta_alloc(sizeof(struct hak_message)) != NULL) /* what is left of a chunk */
        continue;
    for (unsigned i = 20; i < 300; i++)
        release(other, blocks[i]);
    assert_int_equal(counted(&other->stats.remote_sends), 0);
    for (unsigned i = 0; i < 100; i++) /* its own and the others' */
        release(owner, allocate(owner, 2));
    hak_cache_flush(owner);
    assert_nothing_held();
}

/* How often the lock of all records was taken. */
static uint64_t meta_locked(void)
{
    struct hak_lock_counts counts = {0};
    hak_meta_add_lock_counts(&counts);
    return counts.acquired;
}

static void no_lock_of_all_threads_is_taken_more_often_than_once_a_slab(void **state)
{
    (void)state;
    enum { ROUNDS = 50, SLABS = 4 }; /* two threads take it */
    start_two();
    unsigned a_slab = hak_class(class_of_block(allocate(owner, 3)))->blocks;
    uint64_t locked = 0;
    for (unsigned round = 0; round < 2 * ROUNDS; round++) { /* half of them warm up */
        if (round == ROUNDS)
            locked = meta_locked();
        for (unsigned slab = 0; slab < SLABS; slab++) {
            allocate_many(owner, 3, a_slab);
            for (unsigned i = 0; i < a_slab; i++)
                release(other, blocks[i]);
        }
    }
    locked = meta_locked() - locked;
    CHECK(locked <= ROUNDS * SLABS * 2 * 3 / 4, "%lu times for %u slabs", locked, ROUNDS * SLABS);
    verify_heaps();
}

/* Threads free the blocks of one that collects meanwhile. */
#define FREERS 3u

struct freeing {
    struct hak_heap *owner;
    char **blocks;
    unsigned count;
    _Atomic(unsigned) running;
};

static void free_a_share(struct freeing *f, unsigned index)
{
    struct hak_heap *heap = open_thread();
    for (unsigned i = index; i < f->count; i += FREERS) {
        size_t size = hak_class(class_of_block(f->blocks[i]))->size_bytes;
        CHECK(is_marked(f->blocks[i], size, i), "block %u", i);
        memset(f->blocks[i], (int)index, size);
        release(heap, f->blocks[i]);
    }
    close_thread(heap);
}

static void free_or_collect(unsigned index, void *argument)
{
    struct freeing *f = argument;
    if (index < FREERS) {
        free_a_share(f, index);
        atomic_fetch_sub(&f->running, 1u);
        return;
    }
    while (hak_load_acquire(&f->running) != 0)
        collect(f->owner);
    collect(f->owner);
}

static void every_remote_free_is_collected_exactly_once(void **state)
{
    (void)state;
    start_two();
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            unsigned cls = i * 7 % 40;
            blocks[i] = allocate(owner, cls);
            mark(blocks[i], hak_class(cls)->size_bytes, i);
        }
        struct freeing f = {owner, blocks, MANY, FREERS};
        uint64_t before = counted(&owner->stats.collected_blocks);
        unit_in_threads(FREERS + 1, free_or_collect, &f);
        CHECK(counted(&owner->stats.collected_blocks) - before == MANY, "round %u", round);
        hak_self = &owner->front;
        hak_cache_flush(owner);
        assert_nothing_held();
    }
}

/* --- misuse --- */

static void a_second_remote_free_in_a_row_is_a_double_free(void **state)
{
    (void)state;
    start_two();
    char *p = allocate(owner, 6);
    release(other, p);
    release(other, p);
    hak_cache_flush(other);
    assert_dies(call_flush, owner, "double free of");
}

static void a_second_remote_free_after_the_first_was_sent_is_a_double_free(void **state)
{
    (void)state;
    start_two();
    char *p = allocate(owner, 6);
    release(other, p);
    hak_cache_flush(other);
    release(other, p);
    hak_cache_flush(other);
    assert_dies(call_flush, owner, "double free of");
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

static void a_remote_free_of_a_pointer_into_a_block_is_refused(void **state)
{
    (void)state;
    start_two();
    char *p = allocate(owner, 6);
    allocate(owner, 6);
    assert_dies(call_release, p + 16, "points into a block"); /* the first is looked at */
    release(other, p);
    release(other, p + 16);
    hak_cache_flush(other);
    assert_dies(call_flush, owner, "points into a block");
}

static void a_second_remote_free_of_a_block_whose_slab_is_gone_is_a_double_free(void **state)
{
    (void)state;
    start_two();
    char *p = allocate(owner, 6);
    release(other, p);
    release(other, allocate(owner, 7)); /* so that the message has an owner */
    release(owner, p);
    hak_cache_flush(owner);
    assert_dies(call_flush, other, "double free of");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_remote_free_comes_back_to_its_live_owner),
    cmocka_unit_test(a_remote_free_changes_nothing_in_the_block),
    cmocka_unit_test(a_remote_free_comes_back_to_the_slab_of_an_ended_owner),
    cmocka_unit_test(what_is_freed_of_an_ended_threads_blocks_is_collected_when_it_is_sent),
    cmocka_unit_test(what_an_ending_thread_has_freed_is_sent),
    cmocka_unit_test(no_more_than_64_kib_wait_to_be_sent),
    cmocka_unit_test(blocks_for_one_heap_are_sent_together),
    cmocka_unit_test(blocks_of_more_owners_than_wait_at_a_time_all_come_back),
    cmocka_unit_test(a_block_whose_slab_changed_its_owner_is_sent_on),
    cmocka_unit_test(of_a_message_each_heap_takes_its_own_blocks),
    cmocka_unit_test(a_message_in_the_inbox_of_an_ending_thread_goes_on_to_the_shared_heap),
    cmocka_unit_test(without_memory_for_messages_blocks_go_straight_to_their_slabs),
    cmocka_unit_test(no_lock_of_all_threads_is_taken_more_often_than_once_a_slab),
    cmocka_unit_test(every_remote_free_is_collected_exactly_once),
    cmocka_unit_test(a_second_remote_free_in_a_row_is_a_double_free),
    cmocka_unit_test(a_second_remote_free_after_the_first_was_sent_is_a_double_free),
    cmocka_unit_test(a_remote_free_of_what_its_owner_has_freed_is_a_double_free),
    cmocka_unit_test(a_remote_free_of_a_pointer_into_a_block_is_refused),
    cmocka_unit_test(a_second_remote_free_of_a_block_whose_slab_is_gone_is_a_double_free),
};
UNIT_MAIN(tests)
