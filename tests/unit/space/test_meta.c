/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of space: memory for the allocator's own records. */
#include "../unit.h"

#include "fake_os.h"
#include "space/space_internal.h"

#include <errno.h>

static void records_are_aligned_to_cache_lines_and_apart(void **state)
{
    (void)state;
    enum { MANY = 500 };
    static unsigned char *p[MANY];
    static size_t bytes[MANY];
    struct unit_random r = {3};
    for (int i = 0; i < MANY; i++) {
        bytes[i] = 1 + unit_below(&r, (size_t)1 << unit_below(&r, 18));
        p[i] = hak_meta_alloc(bytes[i]);
        CHECK(p[i] != NULL && (uintptr_t)p[i] % 64 == 0, "%zu bytes: %p", bytes[i], (void *)p[i]);
        memset(p[i], i, bytes[i]);
    }
    for (int i = 0; i < MANY; i++)
        for (size_t b = 0; b < bytes[i]; b++)
            CHECK(p[i][b] == (unsigned char)i, "record %d of %zu bytes, byte %zu", i, bytes[i], b);
}

static void a_freed_record_is_the_next_of_its_size(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes <= (size_t)1 << 20; bytes *= 2) {
        void *p = hak_meta_alloc(bytes);
        hak_meta_free(p, bytes);
        size_t mapped = fake_os_mapped_bytes();
        assert_ptr_equal(hak_meta_alloc(bytes), p);
        assert_int_equal(fake_os_mapped_bytes(), mapped);
    }
}

static unsigned chain_length(const struct hak_meta_free *f)
{
    unsigned length = 0;
    for (; f != NULL; f = f->next)
        length++;
    return length;
}

/* How often the lock of all records was taken. */
static uint64_t meta_locked(void)
{
    struct hak_lock_counts counts = {0};
    hak_meta_add_lock_counts(&counts);
    return counts.acquired;
}

static void a_chain_has_what_was_freed_and_one_record_at_least(void **state)
{
    (void)state;
    enum { RECORDS = 5 };
    assert_int_equal(chain_length(hak_meta_alloc_chain(512, 16)), 1); /* nothing was freed */
    struct hak_meta_free *all = NULL;
    struct hak_meta_free *last = NULL;
    for (unsigned i = 0; i < RECORDS; i++) {
        struct hak_meta_free *f = hak_meta_alloc(512);
        f->next = all;
        all = f;
        last = last == NULL ? f : last;
    }
    uint64_t locked = meta_locked();
    hak_meta_free_chain(all, last, 512);
    struct hak_meta_free *some = hak_meta_alloc_chain(512, 3);
    struct hak_meta_free *others = hak_meta_alloc_chain(512, 16);
    assert_int_equal(meta_locked() - locked, 3);
    assert_ptr_equal(some, all);
    assert_int_equal(chain_length(some), 3);
    assert_int_equal(chain_length(others), RECORDS - 3);
    assert_int_equal(chain_length(hak_meta_alloc_chain(512, 16)), 1);
    assert_int_equal(chain_length(hak_meta_alloc_chain(512, 1)), 1);
}

static void what_is_a_page_or_more_begins_at_one(void **state)
{
    (void)state;
    for (size_t bytes = HAK_PAGE_BYTES; bytes <= (size_t)1 << 18; bytes *= 2) {
        assert_non_null(
            hak_meta_alloc(64)); /* so that the next does not begin at a page by chance */
        assert_int_equal((uintptr_t)hak_meta_alloc(bytes) % HAK_PAGE_BYTES, 0);
    }
}

static void fresh_memory_is_said_to_be_fresh_and_reads_as_zero(void **state)
{
    (void)state;
    bool fresh;
    char *p = hak_meta_alloc_or_fresh(10000, &fresh);
    assert_true(fresh);
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(p[i], 0);
    memset(p, 1, 10000);
    hak_meta_free(p, 10000);
    assert_ptr_equal(hak_meta_alloc_or_fresh(10000, &fresh), p);
    assert_false(fresh);
}

static void sizes_of_one_power_of_two_share_and_others_do_not(void **state)
{
    (void)state;
    void *p = hak_meta_alloc(100);
    hak_meta_free(p, 100);
    assert_ptr_not_equal(hak_meta_alloc(64), p);
    assert_ptr_not_equal(hak_meta_alloc(129), p);
    assert_ptr_equal(hak_meta_alloc(128), p);
}

static void a_refusal_gives_null_and_the_next_call_works(void **state)
{
    (void)state;
    fake_os_fail(FAKE_MAP, 1, ENOMEM);
    assert_null(hak_meta_alloc(64));
    assert_int_equal(fake_os_mapped_bytes(), 0);
    char *p = hak_meta_alloc(64);
    assert_non_null(p);
    memset(p, 1, 64);
    fake_os_fail_from(FAKE_MAP, 1, ENOMEM);
    assert_null(hak_meta_alloc((size_t)1 << 20));
    assert_non_null(hak_meta_alloc(64)); /* from what is mapped already */
}

static void more_than_any_record_needs_is_refused(void **state)
{
    (void)state;
    assert_null(hak_meta_alloc((size_t)1 << 40));
    assert_null(hak_meta_alloc(SIZE_MAX));
    assert_int_equal(fake_os_mapped_bytes(), 0);
}

static void exchange_records(unsigned index, void *argument)
{
    (void)argument;
    struct unit_random r = {index + 1};
    unsigned char *held[16] = {0};
    size_t bytes[16];
    for (int i = 0; i < 20000; i++) {
        size_t at = unit_below(&r, 16);
        if (held[at] != NULL) {
            MUST(held[at][0] == (unsigned char)index &&
                 held[at][bytes[at] - 1] == (unsigned char)index);
            hak_meta_free(held[at], bytes[at]);
            held[at] = NULL;
            continue;
        }
        bytes[at] = (size_t)64 << unit_below(&r, 5);
        held[at] = hak_meta_alloc(bytes[at]);
        MUST(held[at] != NULL);
        held[at][0] = held[at][bytes[at] - 1] = (unsigned char)index;
    }
}

static void two_threads_never_hold_the_same_record(void **state)
{
    (void)state;
    unit_in_threads(4, exchange_records, NULL);
    assert_true(fake_os_mapped_bytes() <= 4 * 16 * 1024 + 2 * 65536);
}

/* As the stacks of threads do it. `hakmem stat` knows of no chunk that is not noted. */
static void chunks_with_something_between_them_are_all_noted(void **state)
{
    (void)state;
    enum { RECORDS = 2000, BYTES = 16384, BETWEEN = 65536 };
    size_t before = fake_os_mapped_bytes(), noted = 0;
    void *between;
    for (int i = 0; i < RECORDS; i++) {
        assert_non_null(hak_meta_alloc(BYTES));
        assert_int_equal(hak_os_map(BETWEEN, &between), 0);
    }
    for (unsigned i = 0; i < HAK_META_RANGES; i++)
        noted += hak_meta.ranges[i].bytes;
    assert_int_equal(hak_meta.ranges[HAK_META_RANGES - 1].bytes, 0);
    assert_int_equal(noted, fake_os_mapped_bytes() - before - (size_t)RECORDS * BETWEEN);
    assert_in_range(noted, (size_t)RECORDS * BYTES, (size_t)RECORDS * BYTES / 2 * 3 + BETWEEN);
    while (hak_meta.chunk_left_bytes >= BYTES) /* and where a large one is refused a small one is */
        assert_non_null(hak_meta_alloc(BYTES));
    fake_os_fail(FAKE_MAP, 1, ENOMEM);
    assert_non_null(hak_meta_alloc(BYTES));
    fake_os_fail_nothing();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(chunks_with_something_between_them_are_all_noted),
    cmocka_unit_test(records_are_aligned_to_cache_lines_and_apart),
    cmocka_unit_test(a_freed_record_is_the_next_of_its_size),
    cmocka_unit_test(a_chain_has_what_was_freed_and_one_record_at_least),
    cmocka_unit_test(what_is_a_page_or_more_begins_at_one),
    cmocka_unit_test(fresh_memory_is_said_to_be_fresh_and_reads_as_zero),
    cmocka_unit_test(sizes_of_one_power_of_two_share_and_others_do_not),
    cmocka_unit_test(a_refusal_gives_null_and_the_next_call_works),
    cmocka_unit_test(more_than_any_record_needs_is_refused),
    cmocka_unit_test(two_threads_never_hold_the_same_record),
};
UNIT_MAIN(tests)
