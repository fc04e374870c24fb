/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: what must not have been freed is found at the latest when its bin is
 * drained.
 */
#include "cache_support.h"

static void call_flush(void *heap)
{
    hak_cache_flush(heap);
}

static void call_audit(void *heap)
{
    hak_cache_audit(heap, NULL);
}

static void call_allocate(void *heap)
{
    allocate(heap, 3);
}

/* The process ends in `call`, and says so. */
static void assert_ends(void (*call)(void *heap), struct hak_heap *heap, const char *words)
{
    const char *said = fake_os_last_words(call, heap);
    CHECK(said != NULL && strstr(said, words) != NULL, "%s instead of %s", said, words);
}

static void free_in_a_row(struct hak_heap *heap)
{
    char *p = allocate(heap, 3);
    release(heap, p);
    release(heap, p);
}

static void free_twice(struct hak_heap *heap)
{
    char *p = allocate(heap, 3);
    char *q = allocate(heap, 3);
    release(heap, p);
    release(heap, q);
    release(heap, p);
}

static void free_inside(struct hak_heap *heap)
{
    release(heap, allocate(heap, 5) + 16);
}

static void free_what_was_never_given_out(struct hak_heap *heap)
{
    char *p = allocate(heap, 3);
    release(heap, p + 60000 / 64 * 64);
}

static struct hak_heap *misused(void (*misuse)(struct hak_heap *heap))
{
    start();
    struct hak_heap *heap = open_thread();
    misuse(heap);
    return heap;
}

static void a_double_free_is_found_when_the_bin_is_drained(void **state)
{
    (void)state;
    assert_ends(call_flush, misused(free_twice), "double free of");
}

static void a_pointer_into_a_block_is_found_when_the_bin_is_drained(void **state)
{
    (void)state;
    assert_ends(call_flush, misused(free_inside), "points into a block");
}

static void a_block_never_given_out_is_found_when_the_bin_is_drained(void **state)
{
    (void)state;
    assert_ends(call_flush, misused(free_what_was_never_given_out), "never allocated");
}

static void a_double_free_in_a_row_is_found_by_the_next_allocation(void **state)
{
    (void)state;
    struct hak_heap *heap = misused(free_in_a_row);
    assert_null(hak_cache_pop(&heap->front, 3 * 2));
    assert_ends(call_allocate, heap, "double free of");
}

static void an_audit_finds_what_is_in_a_bin_twice(void **state)
{
    (void)state;
    assert_ends(call_audit, misused(free_twice), "double free of");
}

static void an_audit_finds_a_pointer_into_a_block(void **state)
{
    (void)state;
    assert_ends(call_audit, misused(free_inside), "points into a block");
}

static void an_audit_finds_what_was_never_given_out(void **state)
{
    (void)state;
    assert_ends(call_audit, misused(free_what_was_never_given_out), "never allocated");
}

static void an_audit_sees_the_bins_of_an_ended_thread(void **state)
{
    (void)state;
    end_thread(misused(free_in_a_row));
    assert_ends(call_audit, NULL, "double free of");
}

static unsigned looked_at;

static void count_look(const void *p, unsigned cls)
{
    (void)p;
    looked_at += cls == 3;
}

static void an_audit_sees_each_block_and_changes_nothing(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    enum { MANY = 700 };
    static void *blocks[MANY];
    for (int round = 0; round < 12; round++) { /* until the bin has grown */
        for (int i = 0; i < MANY; i++)
            blocks[i] = allocate(heap, 3);
        for (int i = 0; i < MANY; i++)
            release(heap, blocks[i]);
    }
    unsigned in_bin = hak_bin_blocks(heap, 3);
    assert_true(in_bin > 100);
    void **top = hak_load_relaxed(&heap->front.bins[3].top);
    looked_at = 0;
    hak_cache_audit(heap, count_look);
    assert_int_equal(looked_at, in_bin);
    assert_ptr_equal(hak_load_relaxed(&heap->front.bins[3].top), top);
    hak_lock(&heap->lock); /* somebody is at work there */
    hak_cache_audit(heap, count_look);
    hak_unlock(&heap->lock);
    assert_int_equal(looked_at, in_bin);
    hak_cache_flush(heap);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_double_free_is_found_when_the_bin_is_drained),
    cmocka_unit_test(a_double_free_in_a_row_is_found_by_the_next_allocation),
    cmocka_unit_test(an_audit_finds_what_is_in_a_bin_twice),
    cmocka_unit_test(an_audit_finds_a_pointer_into_a_block),
    cmocka_unit_test(an_audit_finds_what_was_never_given_out),
    cmocka_unit_test(an_audit_sees_each_block_and_changes_nothing),
    cmocka_unit_test(an_audit_sees_the_bins_of_an_ended_thread),
    cmocka_unit_test(a_pointer_into_a_block_is_found_when_the_bin_is_drained),
    cmocka_unit_test(a_block_never_given_out_is_found_when_the_bin_is_drained),
};
UNIT_MAIN(tests)
