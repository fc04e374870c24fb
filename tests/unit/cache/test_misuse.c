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

static void assert_flush_dies(struct hak_heap *heap, const char *words)
{
    const char *said = fake_os_last_words(call_flush, heap);
    CHECK(said != NULL && strstr(said, words) != NULL, "%s instead of %s", said, words);
}

static void a_double_free_is_found_when_the_bin_is_drained(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    char *p = allocate(heap, 3);
    char *q = allocate(heap, 3);
    release(heap, p);
    release(heap, q);
    release(heap, p);
    assert_flush_dies(heap, "double free of");
}

static void call_refill(void *heap)
{
    allocate(heap, 3);
}

static void a_double_free_in_a_row_is_found_by_the_next_allocation(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    char *p = allocate(heap, 3);
    release(heap, p);
    release(heap, p);
    assert_null(hak_cache_pop(&heap->front, 3 * 2));
    const char *said = fake_os_last_words(call_refill, heap);
    CHECK(said != NULL && strstr(said, "double free of") != NULL, "%s", said);
}

static void call_audit(void *heap)
{
    hak_cache_audit(heap, NULL);
}

static void assert_audit_dies(struct hak_heap *heap, const char *words)
{
    const char *said = fake_os_last_words(call_audit, heap);
    CHECK(said != NULL && strstr(said, words) != NULL, "%s instead of %s", said, words);
}

static void an_audit_finds_what_is_in_a_bin_twice(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    char *p = allocate(heap, 3);
    char *q = allocate(heap, 3);
    release(heap, p);
    release(heap, q);
    release(heap, p);
    assert_audit_dies(heap, "double free of");
}

static void an_audit_finds_what_is_no_block(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    release(heap, allocate(heap, 5) + 16);
    assert_audit_dies(heap, "points into a block");
}

static void an_audit_finds_what_was_never_given_out(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    char *p = allocate(heap, 3);
    release(heap, p + 60000 / 64 * 64);
    assert_audit_dies(heap, "never allocated");
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

static void an_audit_sees_the_bins_of_an_ended_thread(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    char *p = allocate(heap, 3);
    release(heap, p);
    release(heap, p);
    end_thread(heap);
    assert_audit_dies(NULL, "double free of");
}

static void a_pointer_into_a_block_is_found_when_the_bin_is_drained(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    release(heap, allocate(heap, 5) + 16);
    assert_flush_dies(heap, "points into a block");
}

static void a_block_never_given_out_is_found_when_the_bin_is_drained(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    char *p = allocate(heap, 3);
    release(heap, p + 60000 / 64 * 64);
    assert_flush_dies(heap, "never allocated");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_double_free_is_found_when_the_bin_is_drained),
    cmocka_unit_test(a_double_free_in_a_row_is_found_by_the_next_allocation),
    cmocka_unit_test(an_audit_finds_what_is_in_a_bin_twice),
    cmocka_unit_test(an_audit_finds_what_is_no_block),
    cmocka_unit_test(an_audit_finds_what_was_never_given_out),
    cmocka_unit_test(an_audit_sees_each_block_and_changes_nothing),
    cmocka_unit_test(an_audit_sees_the_bins_of_an_ended_thread),
    cmocka_unit_test(a_pointer_into_a_block_is_found_when_the_bin_is_drained),
    cmocka_unit_test(a_block_never_given_out_is_found_when_the_bin_is_drained),
};
UNIT_MAIN(tests)
