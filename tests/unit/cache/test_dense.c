/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: which slabs are expected to be used up, so that huge pages are asked for. */
#include "cache_support.h"

#define FROM_SUPERSLABS 4u /* huge pages */
#define SUPERSLABS 32u     /* filled */

/* Of some, of a few: of each fourth, 15th block, the first of a slab among them. */
enum use { WHOLE, ENDS, ENDS_OF_SOME, ENDS_OF_FEW };

static bool is_used_as_a_whole(enum use use, unsigned number)
{
    return use == WHOLE || (use == ENDS_OF_SOME && number % 4 != 0) ||
           (use == ENDS_OF_FEW && number % 15 != 0);
}

static void use_block(char *p, size_t size, enum use use, unsigned number)
{
    if (is_used_as_a_whole(use, number))
        memset(p, 1, size);
    p[0] = p[size - 1] = 1;
}

static void fill(struct hak_heap *heap, unsigned cls, unsigned superslabs, enum use use)
{
    const struct hak_class *c = hak_class(cls);
    unsigned count = superslabs * HAK_SLOTS / c->slots * c->blocks;
    assert_true(use != ENDS_OF_SOME || c->blocks % 4 == 0);
    assert_true(use != ENDS_OF_FEW || c->blocks % 15 == 0);
    for (unsigned i = 0; i < count; i++)
        use_block(allocate(heap, cls), c->size_bytes, use, i);
}

/* Slots of a class's slabs that are where huge pages were asked for. */
static unsigned dense_slots(const struct hak_heap *heap, unsigned cls)
{
    unsigned dense = 0;
    for (unsigned list = 0; list < HAK_LISTS; list++)
        for (struct hak_slab *s = heap->classes[cls].lists[list]; s != NULL; s = s->next)
            if (hak_superslab_is_dense(hak_slab_slot(s) / HAK_SLOTS))
                dense += hak_class(cls)->slots;
    return dense;
}

static struct hak_heap *open_heap(void)
{
    start();
    fake_os_set_time_ns(1000000000); /* it stands: the pool grows quickly */
    hak_pool_set_huge_pages_from(FROM_SUPERSLABS * HAK_SUPERSLAB_BYTES);
    return open_thread();
}

static void close_heap(struct hak_heap *heap)
{
    verify_heaps();
    close_thread(heap);
}

/* Fills 64 MiB with blocks of a size; how many superslabs' worth of its slabs is where huge pages
 * were asked for. */
static unsigned dense_superslabs(size_t size, enum use use)
{
    struct hak_heap *heap = open_heap();
    unsigned cls = hak_class_of(size);
    fill(heap, cls, SUPERSLABS, use);
    unsigned dense = dense_slots(heap, cls);
    close_heap(heap);
    return dense / HAK_SLOTS;
}

#define BLOCK_BYTES 16000u /* four to a slab */
#define SMALL_BYTES 8300u  /* 15 to a slab of two slots */

static void blocks_that_are_written_as_a_whole_get_huge_pages(void **state)
{
    (void)state;
    unsigned dense = dense_superslabs(BLOCK_BYTES, WHOLE);
    assert_true(dense >= SUPERSLABS / 2);
    assert_true(dense <= SUPERSLABS - FROM_SUPERSLABS);
}

static void blocks_of_which_only_the_ends_are_used_do_not(void **state)
{
    (void)state;
    assert_int_equal(dense_superslabs(BLOCK_BYTES, ENDS), 0);
}

static void nor_do_they_where_that_goes_for_some(void **state)
{
    (void)state;
    assert_int_equal(dense_superslabs(BLOCK_BYTES, ENDS_OF_SOME), 0);
}

static void a_few_that_are_not_used_are_no_reason_to_do_without(void **state)
{
    (void)state;
    assert_true(dense_superslabs(SMALL_BYTES, ENDS_OF_FEW) >= SUPERSLABS / 2);
}

/* One slab in 17 tells, and a superslab that was begun is filled. */
static void a_program_may_change_its_ways(void **state)
{
    (void)state;
    struct hak_heap *heap = open_heap();
    unsigned cls = hak_class_of(BLOCK_BYTES);
    fill(heap, cls, SUPERSLABS, WHOLE);
    unsigned whole = dense_slots(heap, cls);
    assert_true(whole >= SUPERSLABS / 2 * HAK_SLOTS);
    fill(heap, cls, SUPERSLABS, ENDS);
    unsigned ends = dense_slots(heap, cls) - whole;
    assert_true(ends <= 18);
    fill(heap, cls, SUPERSLABS, WHOLE);
    assert_true(dense_slots(heap, cls) - ends - whole >= SUPERSLABS / 2 * HAK_SLOTS);
    close_heap(heap);
}

/* Each look is a system call. */
static void blocks_that_are_used_at_their_ends_are_not_looked_at_for_each_slab(void **state)
{
    (void)state;
    uint64_t before = fake_os_calls(FAKE_RESIDENT);
    dense_superslabs(BLOCK_BYTES, ENDS);
    uint64_t looks = fake_os_calls(FAKE_RESIDENT) - before;
    assert_true(looks > 0);
    assert_true(looks <= SUPERSLABS * HAK_SLOTS / 16);
}

static void blocks_of_up_to_two_pages_are_not_looked_at(void **state)
{
    (void)state;
    assert_true(dense_superslabs(5000, ENDS) >= SUPERSLABS / 2);
}

static bool first_block_is_dense(struct hak_heap *heap, unsigned cls)
{
    return hak_superslab_is_dense(hak_slot_of(allocate(heap, cls)) / HAK_SLOTS);
}

static void a_large_heap_uses_up_slabs_of_a_class_that_it_begins_with(void **state)
{
    (void)state;
    struct hak_heap *heap = open_heap();
    struct hak_heap *small = open_thread();
    const struct hak_class *c = hak_class(hak_class_of(1000));
    assert_false(first_block_is_dense(heap, hak_class_of(500)));
    for (unsigned i = 0; i < 2 * FROM_SUPERSLABS * HAK_SLOTS * c->blocks; i++)
        allocate(heap, hak_class_of(1000));
    assert_true(first_block_is_dense(heap, hak_class_of(200)));
    assert_false(first_block_is_dense(heap, hak_class_of(BLOCK_BYTES)));
    assert_false(first_block_is_dense(small, hak_class_of(200)));
    close_thread(small);
    close_heap(heap);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_that_are_written_as_a_whole_get_huge_pages),
    cmocka_unit_test(blocks_of_which_only_the_ends_are_used_do_not),
    cmocka_unit_test(nor_do_they_where_that_goes_for_some),
    cmocka_unit_test(a_few_that_are_not_used_are_no_reason_to_do_without),
    cmocka_unit_test(a_program_may_change_its_ways),
    cmocka_unit_test(blocks_that_are_used_at_their_ends_are_not_looked_at_for_each_slab),
    cmocka_unit_test(blocks_of_up_to_two_pages_are_not_looked_at),
    cmocka_unit_test(a_large_heap_uses_up_slabs_of_a_class_that_it_begins_with),
};
UNIT_MAIN(tests)
