/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: in which class a thread places a size, and with what one among many begins.
 */
#include "cache_support.h"

#define MANY 20000u

static char *blocks[MANY];

/* As malloc does it. */
static char *allocate_bytes(struct hak_heap *heap, size_t size)
{
    unsigned cls = hak_front_class(&heap->front, size);
    char *p = hak_cache_pop(&heap->front, cls * 2u);
    if (p == NULL) {
        bool zero;
        hak_cache_note_size(heap, cls, size);
        p = hak_cache_refill(heap, cls, &zero);
    }
    MUST(p != NULL);
    return p;
}

static size_t placed_in(struct hak_heap *heap, size_t size)
{
    return hak_class(hak_front_class(&heap->front, size))->size_bytes;
}

static void a_thread_begins_with_powers_of_two(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (size_t size = 1; size <= HAK_TINY_MAX; size++) {
        size_t block = placed_in(heap, size);
        CHECK(block >= size && (hak_is_pow2(block) || block == HAK_TINY_MAX), "size %zu in %zu",
              size, block);
    }
    for (unsigned i = 0; i < 8; i++) /* a page or two of each */
        for (size_t size = 32; size <= HAK_TINY_MAX; size *= 2)
            allocate_bytes(heap, size);
    assert_int_equal(placed_in(heap, 600), HAK_TINY_MAX);
    assert_int_equal(placed_in(heap, 40), 64);
}

/* Its bins are filled from slabs of several threads, so that classes cost it little. */
static void a_guest_begins_with_quarters(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_guest();
    assert_int_equal(placed_in(heap, 513), 640);
    assert_int_equal(placed_in(heap, 70), 80);
    for (unsigned i = 0; i < 100; i++) /* and none of its own for a few blocks of many sizes */
        blocks[i] = allocate_bytes(heap, 16 + i * 241 / 100);
    CHECK(hak_load_relaxed(&heap->slabs) == 0, "%zu slabs", hak_load_relaxed(&heap->slabs));
    for (unsigned i = 0; i < 100; i++)
        release(heap, blocks[i]);
    verify_heaps();
}

static bool is_in(const void *p, const char *from, size_t bytes)
{
    return (uintptr_t)p - (uintptr_t)from < bytes;
}

/* The heap of one that has few blocks is a page and a quarter. */
static void the_first_stacks_of_guests_share_a_page_until_they_grow(void **state)
{
    (void)state;
    start();
    (void)open_guest();
    struct hak_heap *heaps[8];
    unsigned pages = 0;
    for (unsigned i = 0; i < UNIT_COUNT(heaps); i++) {
        heaps[i] = open_thread();
        assert_non_null(heaps[i]->few_stacks);
        bool same = i != 0 && (uintptr_t)heaps[i]->few_stacks / HAK_PAGE_BYTES ==
                                  (uintptr_t)heaps[i - 1]->few_stacks / HAK_PAGE_BYTES;
        pages += !same;
        for (unsigned j = 0; j < i; j++)
            assert_false(is_in(heaps[i]->few_stacks, heaps[j]->few_stacks, HAK_FEW_STACKS_BYTES));
    }
    assert_in_range(pages, 1, 3);
    struct hak_heap *heap = heaps[7];
    for (unsigned cls = 0; cls < 12; cls++) {
        allocate(heap, cls);
        assert_true(is_in(heap->classes[cls].stack, heap->few_stacks, HAK_FEW_STACKS_BYTES));
    }
    assert_int_equal(heap->arena_used_bytes, 0);
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) { /* and what has no room there */
        for (unsigned turn = 0; turn < 3; turn++) {
            for (unsigned i = 0; i < 100; i++)
                *(unsigned *)(void *)(blocks[i] = allocate(heap, cls)) = i;
            for (unsigned i = 0; i < 100; i++) {
                assert_int_equal(*(unsigned *)(void *)blocks[i], i);
                release(heap, blocks[i]);
            }
        }
        if (hak_class(cls)->size_bytes <= HAK_TINY_MAX)
            assert_false(is_in(heap->classes[cls].stack, heap->few_stacks, HAK_FEW_STACKS_BYTES));
    }
    assert_in_range(heap->few_used_bytes, 1, HAK_FEW_STACKS_BYTES);
    assert_in_range(heap->arena_used_bytes, 1, HAK_STACK_ARENA_BYTES);
    verify_heaps();
}

static void a_power_of_two_that_grows_is_left_for_quarters_of_a_doubling(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    for (unsigned i = 0; i < 1000; i++)
        blocks[i] = allocate_bytes(heap, 1000);
    assert_int_equal(placed_in(heap, 513), 640);
    assert_int_equal(placed_in(heap, 700), 768);
    assert_int_equal(placed_in(heap, 1000), HAK_TINY_MAX);
    assert_int_equal(placed_in(heap, 300), 512); /* that one has not grown */
    for (unsigned i = 0; i < 1000; i++)
        release(heap, blocks[i]);
    verify_heaps();
}

/* Sizes from `least` on, as many as `count`, in turns. */
static void fill(struct hak_heap *heap, unsigned blocks_more, size_t least, size_t count)
{
    for (unsigned i = 0; i < blocks_more; i++)
        blocks[i] = allocate_bytes(heap, least + i * UINT64_C(7919) % count);
}

static void sizes_of_one_eighth_get_a_class_of_their_own(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    fill(heap, MANY, 130, 14);
    assert_int_equal(placed_in(heap, 136), 144);
    assert_int_equal(placed_in(heap, 145), 160);
    assert_int_equal(placed_in(heap, 170), 192); /* nobody has asked */
    size_t placed = 0;
    for (unsigned i = MANY - 1000; i < MANY; i++)
        placed += hak_class(class_of_block(blocks[i]))->size_bytes == 144;
    assert_int_equal(placed, 1000);
    for (unsigned i = 0; i < MANY; i++)
        release(heap, blocks[i]);
    verify_heaps();
}

static void sizes_of_both_eighths_share_a_class(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    fill(heap, MANY, 513, 128);
    assert_int_equal(placed_in(heap, 520), 640);
    assert_int_equal(placed_in(heap, 640), 640);
}

static void the_upper_eighth_alone_stays_where_it_is(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    fill(heap, MANY, 577, 64);
    assert_int_equal(placed_in(heap, 520), 640);
    assert_int_equal(placed_in(heap, 577), 640);
}

/* What comes in while sizes still share a power of two says nothing of the quarters. */
static void requests_of_a_coarse_class_are_no_evidence(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_front_class(&heap->front, 520);
    for (unsigned i = 0; i < 1000; i++)
        hak_cache_note_size(heap, cls, 520);
    assert_int_equal(heap->classes[cls].narrow_wants, 0);
    assert_int_equal(placed_in(heap, 520), HAK_TINY_MAX);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_thread_begins_with_powers_of_two),
    cmocka_unit_test(a_guest_begins_with_quarters),
    cmocka_unit_test(the_first_stacks_of_guests_share_a_page_until_they_grow),
    cmocka_unit_test(a_power_of_two_that_grows_is_left_for_quarters_of_a_doubling),
    cmocka_unit_test(sizes_of_one_eighth_get_a_class_of_their_own),
    cmocka_unit_test(sizes_of_both_eighths_share_a_class),
    cmocka_unit_test(the_upper_eighth_alone_stays_where_it_is),
    cmocka_unit_test(requests_of_a_coarse_class_are_no_evidence),
};
UNIT_MAIN(tests)
