/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: threads that begin and end, the shared heap, sums over all heaps, fork. */
#include "cache_support.h"

static void check_is_closed(const struct hak_front *front, unsigned kind, size_t size)
{
    void **top = hak_load_relaxed(&front->bins[kind / 2].top);
    CHECK(top != NULL && *top == NULL && top >= front->bins[kind / 2].limit, "size %zu, kind %u",
          size, kind);
}

static void without_a_heap_all_bins_that_malloc_looks_at_are_closed(void **state)
{
    (void)state;
    start();
    static const struct hak_front *const fronts[] = {&hak_front_none, &hak_front_shared};
    for (unsigned i = 0; i < 2; i++) {
        for (size_t tiny = 0; tiny < HAK_TINY_KINDS; tiny++)
            check_is_closed(fronts[i], hak_load_relaxed(&fronts[i]->tiny_kind[tiny]), tiny * 16);
        for (size_t size = HAK_TINY_MAX + 1; size <= HAK_SMALL_MAX; size++)
            check_is_closed(fronts[i], hak_class_of(size) * 2, size);
        check_is_closed(fronts[i], HAK_KIND_CLOSED, 0);
    }
}

static void a_thread_that_ends_leaves_nothing_in_its_heap(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    struct hak_heap *other = open_thread();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        char *theirs = allocate(other, cls);
        for (unsigned i = 0; i < 40; i++)
            if (i % 3 != 0)
                release(heap, allocate(heap, cls));
            else
                allocate(heap, cls);
        release(heap, theirs); /* waits in the outbox */
    }
    close_thread(heap);
    assert_int_equal(hak_load_relaxed(&heap->slabs), 0);
    assert_null(hak_load_relaxed(&heap->inbox));
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        assert_int_equal(hak_bin_blocks(heap, cls), 0);
        for (unsigned list = 0; list < HAK_LISTS; list++)
            assert_null(heap->classes[cls].lists[list]);
    }
    static const struct hak_outbox empty[HAK_OUTBOXES];
    assert_memory_equal(heap->outbox, empty, sizeof empty);
    assert_int_equal(hak_load_relaxed(&heap->thread), 0);
    verify_heaps();
}

static void the_next_thread_gets_the_heap_of_one_that_ended(void **state)
{
    (void)state;
    start();
    struct hak_heap *first = open_thread();
    struct hak_heap *second = open_thread();
    assert_ptr_not_equal(first, second);
    assert_int_not_equal(first->front.tag, second->front.tag);
    close_thread(first);
    assert_ptr_equal(open_thread(), first);
    size_t mapped = fake_os_mapped_bytes();
    for (int i = 0; i < 1000; i++) {
        struct hak_heap *heap = open_thread();
        release(heap, allocate(heap, 3));
        close_thread(heap);
    }
    assert_true(fake_os_mapped_bytes() <= mapped + (64 << 10) + HAK_SUPERSLAB_BYTES);
    assert_int_equal(usage().heaps, 2);
}

static void a_slab_whose_owner_ended_is_adopted_before_a_slot_is_acquired(void **state)
{
    (void)state;
    start();
    unsigned cls = hak_class_of(512);
    struct hak_heap *heap = open_thread();
    char *live = allocate(heap, cls);
    mark(live, 512, 1);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(live), hak_class(cls));
    close_thread(heap);
    assert_ptr_equal(hak_load_relaxed(&s->owner), hak_orphans);

    heap = open_thread();
    char *p = allocate(heap, cls);
    assert_ptr_equal(hak_slab_of_slot(hak_slot_of(p), hak_class(cls)), s);
    assert_ptr_not_equal(p, live);
    assert_ptr_equal(hak_load_relaxed(&s->owner), heap);
    assert_int_equal(counted(&heap->stats.adopted_slabs), 1);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_ADOPT, cls), 1);
    assert_int_equal(hak_load_relaxed(&hak_orphans->slabs), 0);
    assert_true(is_marked(live, 512, 1));
    release(heap, live); /* its own now */
    assert_int_equal(counted(&heap->stats.remote_frees), 0);
    release(heap, p);
    hak_cache_flush(heap);
    assert_nothing_held();
}

#define SLAB_BLOCKS 63u /* of 1 KiB */

/* `owner` has a slab of them; `other` has freed all but the first two of them. */
static void free_from_afar(struct hak_heap *owner, struct hak_heap *other, unsigned cls, char **p)
{
    for (unsigned i = 0; i < SLAB_BLOCKS; i++)
        p[i] = allocate(owner, cls);
    hak_self = &other->front;
    for (unsigned i = 2; i < SLAB_BLOCKS; i++)
        release(other, p[i]);
    hak_outbox_flush(other);
}

static void a_slab_of_a_thread_that_does_not_come_by_is_taken_over(void **state)
{
    (void)state;
    start();
    unsigned cls = hak_class_of(1024);
    assert_int_equal(hak_class(cls)->blocks, SLAB_BLOCKS);
    char *p[SLAB_BLOCKS];
    struct hak_heap *owner = open_thread();
    struct hak_heap *other = open_thread();
    free_from_afar(owner, other, cls, p);
    struct hak_slab *s = hak_slab_of_slot(hak_slot_of(p[0]), hak_class(cls));
    release(owner, p[0]); /* into its bin: it still is the owner */

    char *q = allocate(other, cls);
    assert_ptr_equal(hak_slab_of_slot(hak_slot_of(q), hak_class(cls)), s);
    assert_ptr_equal(hak_load_relaxed(&s->owner), other);
    assert_int_equal(counted(&other->stats.adopted_slabs), 1);
    assert_int_equal(hak_load_relaxed(&owner->slabs), 0);
    verify_heaps();

    hak_cache_flush(owner); /* what was in the bin has another owner now */
    release(owner, p[1]);   /* and so has this */
    hak_outbox_flush(owner);
    assert_int_equal(counted(&owner->stats.remote_frees), 2);
    release(other, q);
    hak_cache_flush(other);
    verify_heaps();
    assert_nothing_held();
}

static unsigned start_two(struct hak_heap **owner, struct hak_heap **other)
{
    start();
    *owner = open_thread();
    *other = open_thread();
    return hak_class_of(1024);
}

/* Who looks for room takes none of the owner's slabs over. */
static void assert_keeps(const struct hak_heap *owner, struct hak_heap *other, unsigned cls)
{
    allocate(other, cls);
    assert_int_equal(counted(&other->stats.adopted_slabs), 0);
    assert_int_equal(hak_load_relaxed(&owner->slabs), 1);
}

static void a_slab_that_is_half_in_use_is_not_taken_over(void **state)
{
    (void)state;
    char *p[SLAB_BLOCKS];
    struct hak_heap *owner;
    struct hak_heap *other;
    unsigned cls = start_two(&owner, &other);
    for (unsigned i = 0; i < SLAB_BLOCKS; i++)
        p[i] = allocate(owner, cls);
    for (unsigned i = 0; i < 31; i++)
        release(other, p[i]);
    hak_outbox_flush(other);
    assert_keeps(owner, other, cls);
}

static void a_thread_that_comes_by_keeps_its_slabs(void **state)
{
    (void)state;
    char *p[SLAB_BLOCKS];
    struct hak_heap *owner;
    struct hak_heap *other;
    unsigned cls = start_two(&owner, &other);
    free_from_afar(owner, other, cls, p);
    hak_cache_flush(owner); /* it has collected */
    assert_keeps(owner, other, cls);
}

static void full_slabs_of_ended_threads_are_not_adopted(void **state)
{
    (void)state;
    start();
    unsigned cls = hak_class_of(65536);
    struct hak_heap *heap = open_thread();
    for (unsigned i = 0; i < hak_class(cls)->blocks; i++)
        allocate(heap, cls);
    close_thread(heap);
    assert_int_equal(hak_load_relaxed(&hak_orphans->slabs), 1);
    heap = open_thread();
    allocate(heap, cls);
    assert_int_equal(counted(&heap->stats.adopted_slabs), 0);
    assert_int_equal(hak_load_relaxed(&hak_orphans->slabs), 1);
    verify_heaps();
}

static void the_shared_heap_serves_threads_without_one(void **state)
{
    (void)state;
    start();
    static char *p[2 * HAK_CLASSES];
    for (unsigned i = 0; i < 2 * HAK_CLASSES; i++) {
        bool zero;
        p[i] = hak_cache_shared_alloc(i / 2, &zero);
        assert_non_null(p[i]);
        CHECK(!zero || (p[i][0] == 0 && p[i][hak_class(i / 2)->size_bytes - 1] == 0), "class %u",
              i / 2);
        mark(p[i], hak_class(i / 2)->size_bytes, i);
    }
    assert_int_equal(usage().used_blocks, 2 * HAK_CLASSES);
    assert_int_equal(usage().heaps, 0);
    verify_heaps();
    for (unsigned i = 0; i < 2 * HAK_CLASSES; i++) {
        assert_true(is_marked(p[i], hak_class(i / 2)->size_bytes, i));
        hak_cache_free_direct(i / 2, p[i]);
    }
    assert_nothing_held();
}

static void the_shared_heap_frees_blocks_of_running_threads(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    char *p = allocate(heap, 8);
    hak_cache_free_direct(8, p);
    hak_cache_flush(heap);
    assert_nothing_held();
}

static void the_shared_heap_answers_null_without_memory(void **state)
{
    (void)state;
    start();
    bool zero;
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    assert_null(hak_cache_shared_alloc(3, &zero));
    fake_os_fail_nothing();
    char *p = hak_cache_shared_alloc(3, &zero);
    assert_non_null(p);
    hak_cache_free_direct(3, p);
    assert_nothing_held();
}

/* --- sums --- */

static void usage_adds_up_to_what_is_held(void **state)
{
    (void)state;
    start();
    struct hak_heap *heaps[3] = {open_thread(), open_thread(), open_thread()};
    size_t blocks[HAK_CLASSES] = {0};
    size_t all = 0;
    size_t bytes = 0;
    struct unit_random r = {31};
    for (unsigned i = 0; i < 3000; i++) {
        unsigned cls = (unsigned)unit_below(&r, HAK_CLASSES);
        char *p = allocate(heaps[i % 3], cls);
        if (unit_below(&r, 2) == 0) {
            release(heaps[i % 3], p);
            continue;
        }
        blocks[cls]++;
        all++;
        bytes += hak_class(cls)->size_bytes;
    }
    for (int round = 0; round < 2; round++) {
        struct hak_cache_usage u = usage();
        size_t slab_bytes = 0;
        for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
            CHECK(u.class_used_blocks[cls] == blocks[cls], "class %u: %zu", cls,
                  u.class_used_blocks[cls]);
            slab_bytes += u.class_slabs[cls] * hak_class(cls)->slots * HAK_SLOT_BYTES;
        }
        assert_int_equal(u.used_blocks, all);
        assert_int_equal(u.used_bytes, bytes);
        assert_int_equal(u.slab_bytes, slab_bytes);
        assert_int_equal(u.slab_bytes, window_slots() * HAK_SLOT_BYTES);
        assert_int_equal(u.heaps, 3u - (unsigned)round);
        close_thread(heaps[0]); /* what lives on is counted with the shared heap */
    }
}

/* --- fork --- */

static void a_forked_child_takes_over_what_its_lost_threads_owned(void **state)
{
    (void)state;
    start();
    struct hak_heap *mine = open_thread();
    struct hak_heap *lost = open_thread();
    unsigned cls = hak_class_of(256);
    char *live = allocate(lost, cls);
    mark(live, 256, 5);
    release(lost, allocate(lost, cls));             /* in the bin of a thread that is gone */
    hak_store_relaxed(&lost->thread, (uintptr_t)1); /* another thread than this one */
    assert_false(hak_cache_fork_child(mine));       /* what the child does */
    hak_self = &mine->front;

    char *p = allocate(mine, cls);
    assert_ptr_equal(hak_load_relaxed(&hak_slab_of_slot(hak_slot_of(live), hak_class(cls))->owner),
                     mine);
    assert_int_equal(counted(&mine->stats.adopted_slabs), 1);
    assert_int_equal(usage().heaps, 1);
    assert_true(is_marked(live, 256, 5));
    release(mine, p);
    release(mine, live);
    hak_cache_flush(mine);
    assert_nothing_held();
    assert_ptr_equal(open_thread(), lost);
}

static void only_a_whole_heap_is_taken_over_from_a_thread_of_the_same_pointer(void **state)
{
    (void)state;
    start();
    assert_null(hak_cache_thread_take_over());
    struct hak_heap *heap = open_thread();
    release(heap, allocate(heap, 5));
    assert_ptr_equal(hak_cache_thread_take_over(), heap);
    hak_lock(&heap->lock); /* a signal handler forked in the midst of something */
    assert_null(hak_cache_thread_take_over());
    hak_unlock(&heap->lock);
    hak_store_relaxed(&heap->thread, (uintptr_t)8);
    assert_null(hak_cache_thread_take_over());
    hak_store_relaxed(&heap->thread, hak_os_this_thread());
    heap->dead = true;
    assert_null(hak_cache_thread_take_over());
    heap->dead = false;
    hak_store_relaxed(&heap->lost, true);
    assert_null(hak_cache_thread_take_over());
    hak_store_relaxed(&heap->lost, false);
    struct hak_heap *other = open_thread(); /* of the same bucket */
    close_thread(heap);
    assert_ptr_equal(hak_cache_thread_take_over(), other);
    close_thread(other);
    assert_null(hak_cache_thread_take_over());
    assert_nothing_held();
}

static _Atomic(uintptr_t) burying_thread;

static void *bury_the_dead(void *unused)
{
    (void)unused;
    burying_thread = hak_os_this_thread();
    hak_registry_bury();
    return NULL;
}

/* The thread stops in the midst of `heap`, the first one, until its lock is let go of. */
static pthread_t begin_to_bury(struct hak_heap *heap)
{
    pthread_t thread;
    hak_lock(&heap->lock);
    assert_int_equal(pthread_create(&thread, NULL, bury_the_dead, NULL), 0);
    while (hak_load_relaxed(&heap->lock.state) != 2) /* held and waited for */
        usleep(100);
    return thread;
}

/* If a signal handler forks in the midst of it, the grandchild must not take the heap over again:
 * its own thread goes on with that. */
static void a_lost_heap_belongs_to_the_thread_that_takes_it_over(void **state)
{
    (void)state;
    start();
    struct hak_heap *mine = open_thread();
    struct hak_heap *lost = open_thread();
    hak_store_relaxed(&lost->thread, (uintptr_t)1);
    assert_false(hak_cache_fork_child(mine));
    assert_true(lost->dead);
    pthread_t thread = begin_to_bury(lost);
    assert_true(hak_load_relaxed(&lost->thread) == burying_thread);
    hak_unlock(&lost->lock);
    pthread_join(thread, NULL);
    assert_false(lost->dead);
    assert_int_equal(hak_load_relaxed(&lost->thread), 0);
    assert_ptr_equal(open_thread(), lost);
}

/* Or with thousands of them each would take the longer, the more there are. */
static void the_next_lost_heap_is_looked_for_behind_the_last_one(void **state)
{
    (void)state;
    start();
    struct hak_heap *older = open_thread(), *newer = open_thread(), *mine = open_thread();
    hak_store_relaxed(&older->thread, (uintptr_t)1);
    hak_store_relaxed(&newer->thread, (uintptr_t)2);
    assert_false(hak_cache_fork_child(mine));
    pthread_t thread = begin_to_bury(newer);
    hak_lock(&hak_registry.lock);
    mine->dead = true; /* it would be found if all were looked at */
    hak_unlock(&hak_registry.lock);
    hak_unlock(&newer->lock);
    pthread_join(thread, NULL);
    assert_true(mine->dead);
    assert_false(older->dead || newer->dead);
    mine->dead = false;
    close_thread(mine);
    assert_nothing_held();
}

/* Frees from elsewhere still reach it, but nobody works on its lists: neither who has sent it a
 * lot, nor who collects for everybody, counts, or trims. */
static void a_heap_that_was_being_changed_is_left_alone_for_good(void **state)
{
    (void)state;
    enum { SLABS = 40 };
    start();
    struct hak_heap *mine = open_thread();
    struct hak_heap *lost = open_thread();
    unsigned cls = hak_class_of(8192);
    unsigned count = SLABS * hak_class(cls)->blocks;
    char *blocks[SLABS * 16];
    assert_true(count <= SLABS * 16u);
    for (unsigned i = 0; i < count; i++)
        blocks[i] = allocate(lost, cls);
    hak_store_relaxed(&lost->thread, (uintptr_t)1);
    hak_store_relaxed(&lost->lock.state, 1u); /* its thread is in the midst of something */
    hak_store_relaxed(&hak_orphans->lock.state, 1u);
    struct hak_heap *orphans = hak_orphans;
    assert_false(hak_cache_fork_child(mine));
    hak_self = &mine->front;
    assert_ptr_not_equal(hak_orphans, orphans);
    assert_false(hak_cache_fork_child(mine)); /* the child forks again: given up is given up */

    lost->classes[cls].lists[HAK_LIST_FULL] = (void *)1; /* nobody may follow this */
    for (unsigned i = 0; i < count; i++)
        release(mine, blocks[i]);
    hak_cache_flush(mine);
    assert_null(hak_load_relaxed(&lost->inbox)); /* nobody would ever take it */
    hak_cache_purge();
    assert_int_equal(usage().heaps, 1);
    release(mine, allocate(mine, cls));
    assert_ptr_equal(
        hak_load_relaxed(&hak_slab_of_slot(hak_slot_of(blocks[0]), hak_class(cls))->owner), lost);
    assert_int_equal(counted(&mine->stats.adopted_slabs), 0);
    assert_int_equal(counted(&mine->stats.collected_for_others), 0);
}

/* A signal handler forked while the thread was starting or ending: its heap is not the front's. */
static void the_heap_of_a_thread_that_is_ending_is_not_taken_over(void **state)
{
    (void)state;
    start();
    struct hak_heap *ending = open_thread();
    assert_false(hak_cache_fork_child(NULL));
    close_thread(ending);
    assert_ptr_equal(open_thread(), ending);
    assert_ptr_not_equal(open_thread(), ending);
}

/* Another thread may have been in the midst of handing a part of the page out. */
static void a_page_of_first_stacks_that_was_handed_out_during_a_fork_is_given_up(void **state)
{
    (void)state;
    start();
    struct hak_heap *mine = open_guest();
    size_t left = hak_registry.few_left_bytes;
    assert_int_not_equal(left, 0);
    assert_false(hak_cache_fork_child(mine));
    assert_int_equal(hak_registry.few_left_bytes, left);
    hak_store_relaxed(&hak_registry.lock.state, 1u);
    assert_false(hak_cache_fork_child(mine));
    assert_int_equal(hak_registry.few_left_bytes, 0);
}

static void hold_lock(unsigned index, void *heap)
{
    (void)index;
    hak_lock(&((struct hak_heap *)heap)->lock);
}

static void a_heap_for_which_another_thread_was_collecting_is_given_up(void **state)
{
    (void)state;
    start();
    struct hak_heap *mine = open_thread();
    unit_in_threads(1, hold_lock, mine); /* that thread stayed behind */
    assert_true(hak_cache_fork_child(mine));
    assert_true(hak_load_relaxed(&mine->lost));
}

static void a_heap_that_its_own_signal_handler_left_is_given_up(void **state)
{
    (void)state;
    start();
    struct hak_heap *mine = open_thread();
    hak_lock(&mine->lock);
    assert_true(hak_cache_fork_child(mine));
    assert_true(hak_lock_is_mine(&mine->lock)); /* the interrupted call still ends as it began */
    hak_unlock(&mine->lock);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_a_heap_all_bins_that_malloc_looks_at_are_closed),
    cmocka_unit_test(a_thread_that_ends_leaves_nothing_in_its_heap),
    cmocka_unit_test(the_next_thread_gets_the_heap_of_one_that_ended),
    cmocka_unit_test(a_slab_whose_owner_ended_is_adopted_before_a_slot_is_acquired),
    cmocka_unit_test(a_slab_of_a_thread_that_does_not_come_by_is_taken_over),
    cmocka_unit_test(a_slab_that_is_half_in_use_is_not_taken_over),
    cmocka_unit_test(a_thread_that_comes_by_keeps_its_slabs),
    cmocka_unit_test(full_slabs_of_ended_threads_are_not_adopted),
    cmocka_unit_test(the_shared_heap_serves_threads_without_one),
    cmocka_unit_test(the_shared_heap_frees_blocks_of_running_threads),
    cmocka_unit_test(the_shared_heap_answers_null_without_memory),
    cmocka_unit_test(usage_adds_up_to_what_is_held),
    cmocka_unit_test(a_forked_child_takes_over_what_its_lost_threads_owned),
    cmocka_unit_test(only_a_whole_heap_is_taken_over_from_a_thread_of_the_same_pointer),
    cmocka_unit_test(a_lost_heap_belongs_to_the_thread_that_takes_it_over),
    cmocka_unit_test(the_next_lost_heap_is_looked_for_behind_the_last_one),
    cmocka_unit_test(a_heap_that_was_being_changed_is_left_alone_for_good),
    cmocka_unit_test(a_page_of_first_stacks_that_was_handed_out_during_a_fork_is_given_up),
    cmocka_unit_test(the_heap_of_a_thread_that_is_ending_is_not_taken_over),
    cmocka_unit_test(a_heap_for_which_another_thread_was_collecting_is_given_up),
    cmocka_unit_test(a_heap_that_its_own_signal_handler_left_is_given_up),
};
UNIT_MAIN(tests)
