/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: what many and short threads share: heaps that are kept for the next thread,
 * slabs in which many threads begin. */
#include "cache_support.h"

static void a_small_heap_is_kept_whole_for_the_next_thread(void **state)
{
    (void)state;
    start();
    unsigned cls = hak_class_of(512);
    struct hak_heap *heap = open_thread();
    struct hak_heap *other = open_thread();
    char *live = allocate(heap, cls);
    char *p = allocate(heap, cls);
    char *theirs = allocate(other, cls);
    mark(live, 512, 1);
    release(heap, theirs);
    release(heap, p);
    unsigned in_bin = hak_bin_blocks(heap, cls);
    end_thread(heap);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(live), hak_class(cls));
    assert_ptr_equal(hak_load_relaxed(&s->owner), heap);
    assert_int_equal(hak_load_relaxed(&heap->thread), 0);
    assert_non_null(hak_load_relaxed(&other->inbox)); /* what waited was sent */
    verify_heaps();

    unsigned used = hak_slab_used_blocks(s);
    release(other, live);
    hak_outbox_flush(other);
    assert_null(hak_load_relaxed(&heap->inbox)); /* nobody else would come by to collect it */
    assert_int_equal(hak_slab_used_blocks(s), used - 1);
    assert_ptr_equal(open_thread(), heap);
    assert_int_equal(hak_bin_blocks(heap, cls), in_bin);
    assert_ptr_equal(allocate(heap, cls), p);
    release(heap, p);
    close_thread(heap);
    close_thread(other);
    assert_nothing_held();
}

static void what_is_kept_goes_to_whoever_would_take_a_slab(void **state)
{
    (void)state;
    start();
    unsigned cls = hak_class_of(512);
    struct hak_heap *heap = open_thread();
    struct hak_heap *other = open_thread();
    char *live = allocate(heap, cls);
    release(heap, allocate(heap, cls + 4));
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(live), hak_class(cls));
    end_thread(heap);
    hak_self = &other->front;
    char *p = allocate(other, cls);
    assert_ptr_equal(hak_slab_of_slot(hak_slot_of(p), hak_class(cls)), s);
    assert_ptr_equal(hak_load_relaxed(&s->owner), other);
    assert_true(hak_registry_has_kept()); /* with all else that it had */
    assert_int_equal(hak_bin_blocks(heap, cls), 0);
    assert_int_not_equal(hak_bin_blocks(heap, cls + 4), 0);
    release(other, p);
    release(other, live);
    hak_registry_give_kept();
    close_thread(other);
    assert_nothing_held();
}

static unsigned kept_heaps(void)
{
    unsigned kept = 0;
    for (struct hak_heap *h = hak_load_relaxed(&hak_registry.kept); h != NULL; h = h->next_free)
        kept++;
    return kept;
}

static void few_heaps_are_kept_and_not_for_long(void **state)
{
    (void)state;
    start();
    hak_cache_tick_any(); /* the first only looks at the clock */
    struct hak_heap *heap[8];
    for (unsigned i = 0; i < 8; i++) {
        heap[i] = open_thread();
        release(heap[i], allocate(heap[i], 3));
    }
    for (unsigned i = 0; i < 8; i++) {
        end_thread(heap[i]);
        assert_int_equal(kept_heaps(), hak_min(i + 1, 4));
        assert_ptr_equal(hak_load_relaxed(&hak_registry.kept), heap[i]);
        if (i >= 4) /* the oldest went */
            assert_int_equal(hak_load_relaxed(&heap[i - 4]->slabs), 0);
    }
    for (unsigned left = 4; left-- > 0;) {
        fake_os_set_time_ns(hak_os_now_ns() + HAK_TICK_NS);
        hak_cache_tick_any();
        assert_int_equal(kept_heaps(), left);
    }
    assert_nothing_held();

    heap[0] = open_thread();
    release(heap[0], allocate(heap[0], 3));
    end_thread(heap[0]);
    assert_int_equal(kept_heaps(), 1);
    hak_cache_purge(); /* malloc_trim */
    assert_nothing_held();
}

static void only_the_slab_that_is_wanted_is_taken_from_one_that_has_room(void **state)
{
    (void)state;
    start();
    unsigned cls = hak_class_of(512);
    struct hak_heap *heap[3];
    char *live[3];
    for (unsigned i = 0; i < 3; i++) {
        heap[i] = open_thread();
        live[i] = allocate(heap[i], i == 1 ? cls : cls + 4);
        allocate(heap[i], cls + 8);
    }
    struct hak_heap *other = open_thread();
    for (unsigned i = 0; i < 3; i++)
        end_thread(heap[i]);
    hak_self = &other->front;
    char *p = allocate(other, cls);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(live[1]), hak_class(cls));
    assert_ptr_equal(hak_slab_of_slot(hak_slot_of(p), hak_class(cls)), s);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(hak_load_relaxed(&heap[i]->slabs), i == 1 ? 1 : 2);
    verify_heaps();
}

static void what_others_freed_of_a_kept_heap_is_found_there(void **state)
{
    (void)state;
    start();
    unsigned cls = hak_class_of(8192), blocks = hak_class(cls)->blocks;
    struct hak_heap *heap = open_thread();
    struct hak_heap *other = open_thread();
    char *p[64];
    assert_in_range(blocks, 2, 64);
    for (unsigned i = 0; i < blocks; i++) /* all of a slab */
        p[i] = allocate(heap, cls);
    end_thread(heap);
    hak_self = &other->front;
    release(other, p[blocks / 2]);
    hak_outbox_flush(other);
    assert_ptr_equal(allocate(other, cls), p[blocks / 2]);
    assert_int_equal(hak_load_relaxed(&heap->slabs), 0);
}

static void a_large_heap_is_kept_with_empty_bins(void **state)
{
    (void)state;
    start();
    unsigned cls = hak_class_of(1024);
    struct hak_heap *heap = open_thread();
    for (unsigned i = 0; i < 9000; i++)
        allocate(heap, cls);
    char *p = allocate(heap, cls);
    release(heap, p);
    size_t slabs = hak_load_relaxed(&heap->slabs);
    assert_true(slabs * HAK_SLOT_BYTES > (size_t)8 << 20);
    assert_int_not_equal(hak_bin_blocks(heap, cls), 0);
    end_thread(heap);
    assert_true(hak_registry_has_kept());
    assert_int_equal(hak_load_relaxed(&heap->slabs), slabs);
    assert_int_equal(hak_bin_blocks(heap, cls), 0);
    assert_ptr_equal(open_thread(), heap);
    assert_ptr_equal(allocate(heap, cls), p);
}

static void a_forked_child_keeps_what_was_kept_and_gives_up_what_was_being_changed(void **state)
{
    (void)state;
    start();
    struct hak_heap *mine = open_thread();
    struct hak_heap *kept = open_thread();
    struct hak_heap *changing = open_thread();
    char *p = allocate(kept, 3);
    allocate(changing, 3);
    end_thread(kept);
    end_thread(changing);
    hold_as_another_thread(changing);
    assert_false(hak_cache_fork_child(mine));
    assert_true(hak_load_relaxed(&changing->lost));
    assert_ptr_equal(open_thread(), kept);
    release(kept, p);
    assert_ptr_not_equal(open_thread(), changing);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_small_heap_is_kept_whole_for_the_next_thread),
    cmocka_unit_test(what_is_kept_goes_to_whoever_would_take_a_slab),
    cmocka_unit_test(few_heaps_are_kept_and_not_for_long),
    cmocka_unit_test(only_the_slab_that_is_wanted_is_taken_from_one_that_has_room),
    cmocka_unit_test(what_others_freed_of_a_kept_heap_is_found_there),
    cmocka_unit_test(a_large_heap_is_kept_with_empty_bins),
    cmocka_unit_test(a_forked_child_keeps_what_was_kept_and_gives_up_what_was_being_changed),
};
UNIT_MAIN(tests)
