/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: slots that become empty are used again, and classes over their soft cap look
 * for such slots before memory is mapped. */
#include "cache_support.h"

#define BLOCKS_MOST 2048u

static char *block[BLOCKS_MOST];

static unsigned class_of_slabs_of_one_slot(void)
{
    unsigned cls = hak_class_of(1024);
    assert_int_equal(hak_class(cls)->slots, 1);
    return cls;
}

/* Fills two slabs, frees everything, drains the bin: the next slab is the slot that was used last.
 */
static void an_emptied_slot_is_used_again_warm(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = class_of_slabs_of_one_slot();
    unsigned count = 2u * hak_class(cls)->blocks;
    char *other = allocate(heap, cls + 1); /* so that the superslab stays in use */
    for (unsigned round = 1; round <= 5; round++) {
        for (unsigned i = 0; i < count; i++)
            block[i] = allocate(heap, cls);
        assert_int_equal(hak_pool_slots_in_use(cls), 2);
        for (unsigned i = 0; i < count; i++)
            release(heap, block[i]);
        hak_cache_flush(heap);
        assert_int_equal(hak_pool_slots_in_use(cls), 0);
        /* The first slab ever is unused memory; all others are warm. */
        assert_int_equal(hak_pool_acquired(HAK_STAGE_UNUSED, cls), 2);
        assert_int_equal(hak_pool_acquired(HAK_STAGE_WARM, cls), 2 * (round - 1));
    }
    assert_int_equal(hak_pool_acquired(HAK_STAGE_FRESH, cls), 0);
    release(heap, other);
    hak_cache_flush(heap);
    assert_nothing_held();
    close_thread(heap);
}

/* One comparison stands for the question which list a slab belongs into. */
static void a_slab_leaves_its_list_with_just_so_many_blocks_in_use(void **state)
{
    (void)state;
    start();
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        unsigned blocks = hak_class(cls)->blocks;
        struct hak_slab s = {.cls = (uint8_t)cls};
        hak_store_relaxed(&s.carved, (uint16_t)blocks);
        for (unsigned before = blocks; before > 0; before--) {
            hak_store_relaxed(&s.free_blocks, (uint16_t)(blocks - before));
            unsigned list = hak_heap_list_for(&s);
            unsigned until = hak_heap_list_until(list, blocks);
            for (unsigned used = before; used-- > 0;) {
                hak_store_relaxed(&s.free_blocks, (uint16_t)(blocks - used));
                bool leaves = used == 0 || hak_heap_list_for(&s) != list;
                CHECK(leaves == (used <= until), "class %u, list %u, %u used", cls, list, used);
                if (leaves)
                    break;
            }
        }
    }
}

/* As many as are looked at in search of a slab to take over. */
#define SLEEPERS 4u

/* Nothing is left in the pool, and blocks of `slabs` slabs of the class wait in their owner's
 * inbox, which other threads' inboxes hide from a thread that looks at a few. */
static struct hak_heap *fill_the_pool(unsigned cls, unsigned slabs)
{
    size_t slot;
    bool zero;
    unsigned count = slabs * hak_class(cls)->blocks;
    MUST(count <= BLOCKS_MOST);
    struct hak_heap *owner = open_thread();
    for (unsigned i = 0; i < count; i++)
        block[i] = allocate(owner, cls);
    char *of_sleeper[SLEEPERS];
    for (unsigned i = 0; i < SLEEPERS; i++) {
        struct hak_heap *sleeper = open_thread();
        of_sleeper[i] = allocate(sleeper, cls + 1);
        allocate(sleeper, cls + 1);
    }
    while (hak_pool_try_kept(1, 1, HAK_POOL_LABEL_RUN, &slot, &zero)) {
    }
    struct hak_heap *other = open_thread();
    for (unsigned i = 0; i < count; i++)
        release(other, block[i]);
    for (unsigned i = 0; i < SLEEPERS; i++)
        release(other, of_sleeper[i]);
    hak_outbox_flush(other);
    return other;
}

static void without_a_cap_memory_is_mapped(void **state)
{
    (void)state;
    start();
    fake_os_set_time_ns(1000000000u);
    unsigned cls = class_of_slabs_of_one_slot();
    struct hak_heap *other = fill_the_pool(cls, 8);
    uint64_t fresh = hak_pool_acquired(HAK_STAGE_FRESH, cls);
    allocate(other, cls);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_FRESH, cls), fresh + 1);
}

static void over_its_cap_a_class_gets_back_what_others_freed(void **state)
{
    (void)state;
    start();
    fake_os_set_time_ns(1000000000u);
    unsigned cls = class_of_slabs_of_one_slot();
    struct hak_heap *other = fill_the_pool(cls, 8);
    uint64_t fresh = hak_pool_acquired(HAK_STAGE_FRESH, cls);
    size_t in_use = hak_pool_slots_in_use(cls);
    hak_pool_set_soft_cap(cls, in_use);
    struct hak_pool_stats s;
    allocate(other, cls);
    hak_pool_stats(&s);
    assert_int_equal(s.soft_cap_reclaims, 1);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_FRESH, cls), fresh);
    assert_true(hak_pool_slots_in_use(cls) < in_use);
    verify_heaps();
}

/* Another thread has freed every `apart`-th block of an owner, and looks twice for a slab. How many
 * it takes over. */
static uint64_t taken_over(unsigned apart, bool owner_comes_by)
{
    start();
    unsigned cls = class_of_slabs_of_one_slot();
    unsigned a_slab = hak_class(cls)->blocks;
    struct hak_heap *owner = open_thread();
    for (unsigned i = 0; i < 4 * a_slab; i++)
        block[i] = allocate(owner, cls);
    struct hak_heap *other = open_thread();
    for (unsigned look = 0; look < 2; look++) {
        for (unsigned i = look; i < 4 * a_slab; i += 2 * apart)
            release(other, block[i]);
        hak_outbox_flush(other);
        while (hak_heap_pick_locked(other, cls) != NULL || hak_bin_blocks(other, cls) != 0)
            allocate(other, cls);
        if (owner_comes_by && look == 1)
            allocate(owner, cls + 1);
        allocate(other, cls);
    }
    verify_heaps();
    return counted(&other->stats.adopted_slabs);
}

static void half_a_slab_is_taken_over_from_any_thread(void **state)
{
    (void)state;
    assert_true(taken_over(1, true) >= 1); /* half of them at the first look */
}

static void a_third_is_taken_over_from_one_that_has_not_come_by(void **state)
{
    (void)state;
    assert_int_equal(taken_over(3, false), 1);
}

static void a_third_of_one_that_has_come_by_stays(void **state)
{
    (void)state;
    assert_int_equal(taken_over(3, true), 0);
}

static void a_cap_never_makes_an_allocation_fail(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = class_of_slabs_of_one_slot();
    hak_pool_set_soft_cap(cls, 1);
    for (unsigned i = 0; i < BLOCKS_MOST; i++)
        block[i] = allocate(heap, cls);
    struct hak_pool_stats s;
    hak_pool_stats(&s);
    unsigned slabs = (BLOCKS_MOST + hak_class(cls)->blocks - 1u) / hak_class(cls)->blocks;
    assert_int_equal(hak_pool_slots_in_use(cls), slabs);
    assert_in_range(s.soft_cap_reclaims, 1, slabs);
    for (unsigned i = 0; i < BLOCKS_MOST; i++)
        release(heap, block[i]);
    hak_cache_flush(heap);
    assert_nothing_held();
}

static void work_over_the_cap(unsigned index, void *argument)
{
    static char *_Atomic exchange[256];
    struct unit_random r = {index + 1};
    struct hak_heap *heap = open_thread();
    unsigned cls = *(unsigned *)argument;
    for (unsigned i = 0; i < 40000; i++) {
        char *p = allocate(heap, cls);
        mark(p, 1024, 7);
        p = atomic_exchange(&exchange[unit_below(&r, UNIT_COUNT(exchange))], p);
        if (p == NULL)
            continue;
        MUST(is_marked(p, 1024, 7));
        release(heap, p);
    }
    close_thread(heap);
}

static void threads_over_a_cap_lose_nothing(void **state)
{
    (void)state;
    start();
    unsigned cls = class_of_slabs_of_one_slot();
    hak_pool_set_soft_cap(cls, 1);
    unit_in_threads(4, work_over_the_cap, &cls);
    verify_heaps();
}

/* Allocates 72 slabs of a class; returns the class that a size which it holds has then. */
static unsigned class_after_many_slabs(struct hak_heap *heap, unsigned cls, size_t size)
{
    unsigned count = 72 / hak_class(cls)->slots * hak_class(cls)->blocks;
    MUST(count <= BLOCKS_MOST);
    for (unsigned i = 0; i < count; i++)
        block[i] = allocate(heap, cls);
    unsigned then = hak_class_of(size);
    for (unsigned i = 0; i < count; i++)
        release(heap, block[i]);
    return then;
}

static void a_class_with_much_memory_gets_the_finer_one_below_it(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(28000);
    assert_int_equal(hak_class_of(32000), cls);
    assert_int_equal(class_after_many_slabs(heap, cls, 28000), cls - 1);
    assert_int_equal(hak_class_of(32000), cls);
    close_thread(heap);
}

static void a_class_with_a_cap_stays_one(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(28000);
    hak_pool_set_soft_cap(cls, 1000);
    assert_int_equal(class_after_many_slabs(heap, cls, 28000), cls);
    close_thread(heap);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_class_with_much_memory_gets_the_finer_one_below_it),
    cmocka_unit_test(a_class_with_a_cap_stays_one),
    cmocka_unit_test(a_slab_leaves_its_list_with_just_so_many_blocks_in_use),
    cmocka_unit_test(an_emptied_slot_is_used_again_warm),
    cmocka_unit_test(without_a_cap_memory_is_mapped),
    cmocka_unit_test(over_its_cap_a_class_gets_back_what_others_freed),
    cmocka_unit_test(half_a_slab_is_taken_over_from_any_thread),
    cmocka_unit_test(a_third_is_taken_over_from_one_that_has_not_come_by),
    cmocka_unit_test(a_third_of_one_that_has_come_by_stays),
    cmocka_unit_test(a_cap_never_makes_an_allocation_fail),
    cmocka_unit_test(threads_over_a_cap_lose_nothing),
};
UNIT_MAIN(tests)
