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
    cmocka_unit_test(a_pointer_into_a_block_is_found_when_the_bin_is_drained),
    cmocka_unit_test(a_block_never_given_out_is_found_when_the_bin_is_drained),
};
UNIT_MAIN(tests)
