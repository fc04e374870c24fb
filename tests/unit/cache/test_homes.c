/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: homes: among many threads several use the slabs of one. */
#include "homes_support.h"

static void so_many_threads_have_slabs_of_their_own(unsigned processors, unsigned homes)
{
    start();
    fake_os_set_processors(processors);
    for (unsigned i = 0; i < 3 * homes; i++) {
        struct hak_heap *heap = open_thread();
        assert_true((hak_home(heap) == heap) == (i < homes));
        allocate(heap, 3);
        assert_int_equal(hak_load_relaxed(&heap->slabs), i < homes);
    }
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap)
        assert_int_equal(h->guests, h->is_home ? 2 : 0); /* as many everywhere */
    verify_heaps();
}

static void twice_as_many_threads_as_processors_have_slabs_of_their_own(void **state)
{
    (void)state;
    so_many_threads_have_slabs_of_their_own(3, 6);
}

static void two_threads_have_slabs_of_their_own_on_one_processor(void **state)
{
    (void)state;
    so_many_threads_have_slabs_of_their_own(1, 2);
}

static void on_a_large_machine_as_many_threads_as_processors_do(void **state)
{
    (void)state;
    so_many_threads_have_slabs_of_their_own(48, 48);
}

static void what_later_threads_know_of_processors_counts(void **state)
{
    (void)state;
    start();
    for (unsigned processors = 1; processors <= 3; processors++) {
        fake_os_set_processors(processors);
        for (unsigned i = 0; i < 3; i++) {
            struct hak_heap *heap = open_thread();
            assert_true((hak_home(heap) == heap) == (i < 2));
        }
    }
    verify_heaps();
}

static void there_is_an_end_to_it(void **state)
{
    (void)state;
    so_many_threads_have_slabs_of_their_own(1000, 128);
}

static void a_setting_says_how_many(void **state)
{
    (void)state;
    start();
    hak_store_relaxed(&hak_cache_knobs.homes, 1u);
    struct hak_heap *first = open_thread(), *guest = open_thread();
    assert_ptr_equal(hak_home(guest), first);
    hak_store_relaxed(&hak_cache_knobs.homes, 2u); /* for those that begin from now on */
    struct hak_heap *second = open_thread();
    assert_ptr_equal(hak_home(second), second);
    hak_store_relaxed(&hak_cache_knobs.homes, 100000u);
    for (unsigned i = 2; i < HAK_HOMES_MOST; i++) {
        struct hak_heap *heap = open_thread();
        assert_ptr_equal(hak_home(heap), heap);
    }
    struct hak_heap *last = open_thread();
    assert_ptr_not_equal(hak_home(last), last);
}

static void a_guest_and_its_home_share_slabs(void **state)
{
    (void)state;
    start_four();
    unsigned cls = hak_class_of(64);
    allocate_many(heaps[2], cls, 0, 50);
    allocate_many(heaps[0], cls, 50, 100);
    for (unsigned i = 0; i < 100; i++)
        assert_ptr_equal(owner_of(blocks[i]), heaps[0]);
    assert_int_equal(hak_load_relaxed(&heaps[0]->slabs), 1);
    assert_int_equal(hak_load_relaxed(&heaps[2]->slabs), 0);
    verify_heaps();
    release_many(heaps[0], 0, 50); /* each frees what the other has allocated */
    release_many(heaps[2], 50, 100);
    assert_int_equal(heaps[0]->outbox_bytes + heaps[2]->outbox_bytes, 0);
    hak_cache_flush(heaps[0]);
    hak_cache_flush(heaps[2]);
    assert_int_equal(counted(&heaps[2]->stats.remote_frees), 0);
    assert_nothing_held();
}

static void what_others_free_comes_back_to_whoever_is_at_the_home(void **state)
{
    (void)state;
    start_four();
    unsigned cls = hak_class_of(64);
    allocate_many(heaps[0], cls, 0, 150);
    release_many(heaps[3], 0, 150); /* of another home */
    hak_outbox_flush(heaps[3]);
    assert_non_null(hak_load_relaxed(&heaps[0]->inbox));
    hak_self = &heaps[2]->front;
    unsigned in_bin = hak_bin_blocks(heaps[2], cls);
    hak_lock(&heaps[0]->lock);
    hak_heap_collect_owner_locked(heaps[2]);
    hak_unlock(&heaps[0]->lock);
    assert_null(hak_load_relaxed(&heaps[0]->inbox));
    assert_int_equal(hak_bin_blocks(heaps[2], cls), in_bin); /* for all of them, not for one */
    hak_cache_flush(heaps[0]);
    assert_nothing_held();
}

static void a_guest_that_ends_leaves_nothing_behind(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[2], 5, 0, MANY);
    release_many(heaps[2], 0, MANY);
    close_thread(heaps[2]);
    assert_int_equal(heaps[0]->guests, 0);
    assert_ptr_equal(hak_home(heaps[2]), heaps[2]);
    hak_cache_flush(heaps[0]);
    assert_nothing_held();
}

static void a_home_whose_thread_ends_waits_for_the_next_one(void **state)
{
    (void)state;
    start_four();
    unsigned cls = hak_class_of(64);
    allocate_many(heaps[0], cls, 0, 100);
    allocate_many(heaps[2], cls, 100, MANY);
    close_thread(heaps[0]);
    for (unsigned i = 0; i < MANY; i++)
        assert_ptr_equal(owner_of(blocks[i]), heaps[0]);
    assert_int_equal(hak_load_relaxed(&hak_orphans->slabs), 0);
    allocate_many(heaps[2], cls, 0, 0); /* the guest goes on */
    release_many(heaps[2], 100, MANY);
    assert_ptr_equal(open_thread(), heaps[0]);
    assert_ptr_equal(hak_home(heaps[0]), heaps[0]);
    release_many(heaps[0], 0, 100);
    assert_int_equal(heaps[0]->outbox_bytes, 0);
    for (unsigned i = 0; i < UNIT_COUNT(heaps); i++)
        close_thread(heaps[i]);
    assert_nothing_held();
}

static void the_last_guest_gives_the_slabs_of_an_ended_home_away(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[2], 5, 0, 100);
    close_thread(heaps[0]);
    close_thread(heaps[2]);
    for (unsigned i = 0; i < 100; i++)
        assert_ptr_equal(owner_of(blocks[i]), hak_orphans);
    verify_heaps();
    struct hak_heap *next = open_thread(), *after = open_thread(); /* there is room for a home */
    assert_ptr_equal(hak_home(next), next);
    assert_ptr_not_equal(hak_home(after), after);
    assert_ptr_not_equal(next, after);
    release_many(after, 0, 100);
    hak_cache_flush(after);
    assert_nothing_held();
}

static void a_guest_with_little_in_its_bins_is_kept_for_the_next_thread(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[2], 5, 0, 100);
    release_many(heaps[2], 0, 100);
    unsigned in_bin = hak_bin_blocks(heaps[2], 5);
    assert_int_not_equal(in_bin, 0);
    end_thread(heaps[2]);
    assert_int_equal(heaps[0]->guests, 1);
    assert_ptr_equal(open_thread(), heaps[2]);
    assert_ptr_equal(hak_home(heaps[2]), heaps[0]);
    assert_int_equal(heaps[0]->guests, 1);
    assert_int_equal(hak_bin_blocks(heaps[2], 5), in_bin);
}

static void a_guest_with_much_in_its_bins_is_kept_without_that(void **state)
{
    (void)state;
    start_four();
    size_t bytes = 0;
    for (unsigned cls = hak_class_of(16384); cls < hak_class_of(65536); cls++) {
        allocate_many(heaps[2], cls, 0, 3);
        release_many(heaps[2], 0, 3);
        bytes += hak_bin_blocks(heaps[2], cls) * (size_t)hak_class(cls)->size_bytes;
    }
    assert_true(bytes > (size_t)256 << 10);
    end_thread(heaps[2]);
    assert_int_equal(heaps[0]->guests, 1);
    for (unsigned cls = hak_class_of(16384); cls < hak_class_of(65536); cls++)
        assert_int_equal(hak_bin_blocks(heaps[2], cls), 0);
    assert_ptr_equal(open_thread(), heaps[2]);
}

static void the_first_batches_of_a_guest_are_small(void **state)
{
    (void)state;
    start_four();
    unsigned cls = hak_class_of(256);
    for (unsigned i = 0; i < 24; i++) {
        allocate_many(heaps[2], cls, i, i + 1);
        assert_in_range(hak_bin_blocks(heaps[2], cls), 0, 1);
    }
    allocate_many(heaps[2], cls, 24, 25);
    assert_in_range(hak_bin_blocks(heaps[2], cls), 2, 31);
}

static void the_bins_of_a_guest_that_only_frees_grow(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[0], hak_class_of(64), 0, MANY);
    release_many(heaps[2], 0, MANY);
    assert_in_range(counted(&heaps[2]->stats.drains), 40, 100); /* not one in 7 blocks */
}

static void heaps_of_other_groups_have_slabs_of_their_own(void **state)
{
    (void)state;
    start_four();
    struct hak_heap *lasting = hak_cache_group_heap(heaps[2], HAK_GROUP_LONG);
    MUST(lasting != NULL);
    assert_ptr_equal(hak_home(lasting), lasting);
    assert_false(lasting->is_home);
    close_thread(heaps[0]); /* waits for a thread, not for a group */
    struct hak_heap *medium = hak_cache_group_heap(heaps[2], HAK_GROUP_MEDIUM);
    assert_ptr_not_equal(medium, heaps[0]);
}

static void usage_adds_up_with_guests(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[0], 5, 0, 60);
    allocate_many(heaps[2], 5, 60, MANY);
    allocate_many(heaps[3], 7, 0, 0);
    struct hak_cache_usage u = usage();
    assert_int_equal(u.used_blocks, MANY);
    assert_int_equal(u.class_used_blocks[5], MANY);
    assert_int_equal(u.used_bytes, MANY * (size_t)hak_class(5)->size_bytes);
    assert_int_equal(u.bin_blocks, hak_bin_blocks(heaps[0], 5) + hak_bin_blocks(heaps[2], 5));
    release_many(heaps[2], 0, MANY);
    u = usage();
    assert_int_equal(u.used_blocks, 0);
}

/* --- fork --- */

static void a_forked_child_gives_the_guests_of_lost_threads_up(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[2], 5, 0, 100);
    become_another_thread(heaps[1]);
    become_another_thread(heaps[2]);
    become_another_thread(heaps[3]);
    heaps[0]->guests = 7; /* another thread was about to change it */
    hak_self = &heaps[0]->front;
    assert_false(hak_cache_fork_child(heaps[0]));
    assert_int_equal(heaps[0]->guests, 1);
    assert_int_equal(heaps[1]->guests, 1);
    release_many(heaps[0], 0, 100);
    hak_registry_bury();
    assert_int_equal(heaps[0]->guests + heaps[1]->guests, 0);
    assert_ptr_equal(hak_home(heaps[2]), heaps[2]);
    hak_cache_flush(heaps[0]);
    assert_nothing_held();
}

static void a_home_whose_thread_was_lost_stays_for_its_guest(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[0], 5, 0, 50);
    allocate_many(heaps[2], 5, 50, 100);
    for (unsigned i = 0; i < UNIT_COUNT(heaps); i++)
        if (i != 2)
            become_another_thread(heaps[i]);
    assert_false(hak_cache_fork_child(heaps[2]));
    release_many(heaps[2], 0, 100);
    hak_registry_bury();
    assert_ptr_equal(hak_home(heaps[2]), heaps[0]);
    assert_true(heaps[0]->vacant);
    close_thread(heaps[2]);
    assert_nothing_held();
}

static void a_home_that_was_being_changed_is_lost_with_its_guests(void **state)
{
    (void)state;
    start_four();
    become_another_thread(heaps[0]);
    hold_as_another_thread(heaps[0]);
    assert_true(hak_cache_fork_child(heaps[2]));
    assert_true(hak_load_relaxed(&heaps[0]->lost));
    assert_true(hak_load_relaxed(&heaps[2]->lost));
    assert_false(hak_load_relaxed(&heaps[3]->lost));
    struct hak_heap *next = open_thread();
    assert_ptr_not_equal(next, heaps[0]);
    assert_ptr_not_equal(next, heaps[2]);
    assert_ptr_not_equal(hak_home(next), heaps[0]);
    release(next, allocate(next, 5));
}

/* The second fork: nobody has taken the guest over since the first. */
static void a_guest_without_a_thread_is_lost_with_its_home_in_a_later_fork(void **state)
{
    (void)state;
    start_four();
    become_another_thread(heaps[2]);
    hak_self = &heaps[3]->front;
    assert_false(hak_cache_fork_child(heaps[3]));
    assert_true(heaps[2]->dead);
    become_another_thread(heaps[0]);
    hold_as_another_thread(heaps[0]);
    assert_false(hak_cache_fork_child(heaps[3]));
    assert_true(hak_load_relaxed(&heaps[2]->lost));
    assert_false(heaps[2]->dead);
    unsigned guests = heaps[0]->guests;
    hak_registry_bury(); /* not those two, whose lock nobody gives back */
    assert_int_equal(hak_load_relaxed(&hak_registry.dead), 0);
    assert_int_equal(heaps[0]->guests, guests);
    assert_ptr_equal(hak_home(heaps[2]), heaps[0]);
}

/* It was moving in, or somebody looked at its bins. */
static void a_guest_that_was_being_changed_is_lost_without_its_home(void **state)
{
    (void)state;
    start_four();
    allocate_many(heaps[0], 5, 0, 50);
    become_another_thread(heaps[2]);
    hold_as_another_thread(heaps[2]);
    hak_self = &heaps[0]->front;
    assert_false(hak_cache_fork_child(heaps[0]));
    assert_true(hak_load_relaxed(&heaps[2]->lost));
    assert_int_equal(heaps[0]->guests, 0); /* it will never leave */
    release_many(heaps[0], 0, 50);
    close_thread(heaps[0]);
    assert_nothing_held();
}

static void nobody_is_sent_to_a_home_that_a_signal_handler_interrupted(void **state)
{
    (void)state;
    start_four();
    hak_lock(&heaps[0]->lock); /* by this thread, for its heap 2 */
    assert_true(hak_cache_fork_child(heaps[2]));
    for (unsigned i = 0; i < 3; i++) {
        struct hak_heap *next = open_thread();
        assert_ptr_not_equal(hak_home(next), heaps[0]);
        release(next, allocate(next, 5));
    }
    assert_true(hak_lock_is_mine(&heaps[0]->lock));
    hak_unlock(&heaps[0]->lock);
}

/* --- together --- */

static void work(unsigned index, void *arg)
{
    (void)arg;
    enum { ROUNDS = 40, LIVE = 60 };
    char *mine[LIVE];
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct hak_heap *heap = open_thread();
        for (unsigned i = 0; i < LIVE; i++) {
            unsigned cls = (i * 7 + index + round) % 30;
            mark(mine[i] = allocate(heap, cls), hak_class(cls)->size_bytes, index * 1000 + i);
        }
        if (round % 3 == 0) { /* the next heap frees them */
            end_thread(heap);
            heap = open_thread();
        }
        for (unsigned i = 0; i < LIVE; i++) {
            size_t size = hak_class(class_of_block(mine[i]))->size_bytes;
            MUST(is_marked(mine[i], size, index * 1000 + i));
            release(heap, mine[i]);
        }
        end_thread(heap);
    }
}

static void threads_come_and_go_at_few_homes(void **state)
{
    (void)state;
    start();
    fake_os_set_processors(1);
    unit_in_threads(12, work, NULL);
    hak_registry_give_kept();
    assert_nothing_held();
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        assert_int_equal(h->guests, 0);
        assert_ptr_equal(hak_home(h), h);
        assert_false(h->is_home || h->vacant);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(twice_as_many_threads_as_processors_have_slabs_of_their_own),
    cmocka_unit_test(two_threads_have_slabs_of_their_own_on_one_processor),
    cmocka_unit_test(on_a_large_machine_as_many_threads_as_processors_do),
    cmocka_unit_test(what_later_threads_know_of_processors_counts),
    cmocka_unit_test(there_is_an_end_to_it),
    cmocka_unit_test(a_setting_says_how_many),
    cmocka_unit_test(a_guest_and_its_home_share_slabs),
    cmocka_unit_test(what_others_free_comes_back_to_whoever_is_at_the_home),
    cmocka_unit_test(a_guest_that_ends_leaves_nothing_behind),
    cmocka_unit_test(a_home_whose_thread_ends_waits_for_the_next_one),
    cmocka_unit_test(the_last_guest_gives_the_slabs_of_an_ended_home_away),
    cmocka_unit_test(a_guest_with_little_in_its_bins_is_kept_for_the_next_thread),
    cmocka_unit_test(a_guest_with_much_in_its_bins_is_kept_without_that),
    cmocka_unit_test(the_first_batches_of_a_guest_are_small),
    cmocka_unit_test(the_bins_of_a_guest_that_only_frees_grow),
    cmocka_unit_test(heaps_of_other_groups_have_slabs_of_their_own),
    cmocka_unit_test(usage_adds_up_with_guests),
    cmocka_unit_test(a_forked_child_gives_the_guests_of_lost_threads_up),
    cmocka_unit_test(a_home_whose_thread_was_lost_stays_for_its_guest),
    cmocka_unit_test(a_home_that_was_being_changed_is_lost_with_its_guests),
    cmocka_unit_test(a_guest_without_a_thread_is_lost_with_its_home_in_a_later_fork),
    cmocka_unit_test(a_guest_that_was_being_changed_is_lost_without_its_home),
    cmocka_unit_test(nobody_is_sent_to_a_home_that_a_signal_handler_interrupted),
    cmocka_unit_test(threads_come_and_go_at_few_homes),
};
UNIT_MAIN(tests)
