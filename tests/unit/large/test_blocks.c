/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: large and huge blocks of all sizes and alignments, and bad frees. */
#include "large_support.h"

static const size_t sizes[] = {
    1,           65536,     65537,       100000,  128 * KIB,   200 * KIB, 256 * KIB,
    300 * KIB,   512 * KIB, 700 * KIB,   MIB - 1, MIB,         MIB + 1,   MIB + 65536,
    2 * MIB - 1, 2 * MIB,   2 * MIB + 1, 3 * MIB, 5 * MIB + 7, 16 * MIB,  100 * MIB,
};

static void blocks_hold_what_was_asked_for_in_whole_slots(void **state)
{
    (void)state;
    start();
    for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
        bool zero = false;
        char *p = large_alloc(sizes[i], 1, &zero);
        CHECK(p != NULL && zero, "%zu bytes", sizes[i]);
        CHECK(usable(p) >= sizes[i] && usable(p) < sizes[i] + HAK_SLOT_BYTES, "%zu: %zu usable",
              sizes[i], usable(p));
        assert_int_equal(((uintptr_t)p + usable(p)) % HAK_SLOT_BYTES, 0);
        p[0] = 1;
        p[sizes[i] - 1] = 1;
        p[usable(p) - 1] = 1;
        uint32_t kind = hak_map_lookup(p);
        assert_true(kind == (sizes[i] <= HAK_LARGE_MAX ? HAK_KIND_LARGE : HAK_KIND_HUGE));
    }
}

/* Where they fill their slots too, up to 512 KiB. A page has 64 lines; of 64 blocks in a row two at
 * most begin at the same one. */
static void blocks_begin_at_different_cache_sets(size_t bytes)
{
    unsigned blocks[HAK_PAGE_BYTES / HAK_CACHE_LINE] = {0};
    for (unsigned i = 0; i < 64; i++) {
        char *p = allocate(bytes);
        assert_int_equal((uintptr_t)p % HAK_CACHE_LINE, 0);
        assert_true(++blocks[(uintptr_t)p % HAK_PAGE_BYTES / HAK_CACHE_LINE] <= 2);
        assert_false(release(p + HAK_CACHE_LINE));
        if ((uintptr_t)p % HAK_SLOT_BYTES != 0)
            assert_int_equal(usable(p - HAK_CACHE_LINE), 0);
    }
}

static void blocks_up_to_512_kib_begin_at_different_cache_sets(void **state)
{
    (void)state;
    start();
    blocks_begin_at_different_cache_sets(200 * KIB);
    blocks_begin_at_different_cache_sets(256 * KIB);
    blocks_begin_at_different_cache_sets(512 * KIB);
    assert_int_equal((uintptr_t)allocate(576 * KIB) % HAK_SLOT_BYTES, 0); /* no room */
    assert_int_equal((uintptr_t)allocate_plain(200 * KIB) % HAK_PAGE_BYTES, 0);
    assert_int_equal(usable(allocate_plain(256 * KIB)), 256 * KIB);
}

/* What the last block there has left in the caches is touched again. */
static void a_block_in_the_place_of_another_begins_where_that_did(void **state)
{
    (void)state;
    start();
    allocate(256 * KIB); /* so that the superslab stays in use */
    for (unsigned i = 0; i < 100; i++) {
        char *p = allocate(256 * KIB);
        assert_true(release(p));
        char *q = allocate(256 * KIB);
        assert_ptr_equal(q, p);
    }
}

static void a_block_that_begins_late_is_resized_like_any_other(void **state)
{
    (void)state;
    start();
    for (unsigned i = 0; i < 10; i++) {
        size_t bytes = 300 * KIB + i * 1000;
        char *p = allocate(bytes);
        memset(p, (int)i + 1, bytes);
        for (size_t to = bytes + 1; to < 5 * MIB; to += to / 3) {
            p = resize(p, to);
            assert_non_null(p);
            assert_true(usable(p) >= to);
            for (size_t at = 0; at < bytes; at += 1000)
                assert_int_equal(p[at], i + 1);
            assert_int_equal(p[bytes - 1], i + 1);
            p[to - 1] = 1;
        }
        assert_true(release(p));
        hak_pool_trim(); /* it would be for the next to be copied to */
    }
}

static void blocks_do_not_overlap(void **state)
{
    (void)state;
    start();
    char *p[3 * UNIT_COUNT(sizes)];
    for (size_t i = 0; i < UNIT_COUNT(p); i++) {
        p[i] = allocate(sizes[i % UNIT_COUNT(sizes)]);
        fill(p[i], sizes[i % UNIT_COUNT(sizes)], i << 40);
    }
    for (size_t i = 0; i < UNIT_COUNT(p); i++)
        CHECK(is_filled(p[i], sizes[i % UNIT_COUNT(sizes)], i << 40), "block %zu", i);
}

static void alignments_to_1_gib_are_kept(void **state)
{
    (void)state;
    start();
    static const size_t some[] = {1, 65536, 300 * KIB, MIB, 3 * MIB};
    for (size_t align = 1; align <= 1024 * MIB; align *= 2) {
        for (size_t i = 0; i < UNIT_COUNT(some); i++) {
            bool zero;
            char *p = large_alloc(some[i], align, &zero);
            CHECK(p != NULL && (uintptr_t)p % align == 0, "%zu bytes at a multiple of %zu: %p",
                  some[i], align, (void *)p);
            CHECK(usable(p) >= some[i], "%zu bytes at a multiple of %zu", some[i], align);
            p[0] = p[some[i] - 1] = 1;
            if (i % 2 == 0)
                assert_true(release(p));
        }
    }
}

static void an_aligned_block_from_the_cache_is_aligned(void **state)
{
    (void)state;
    start();
    bool zero;
    for (int i = 0; i < 20; i++) {
        char *plain = allocate(2 * MIB);
        char *aligned = large_alloc(2 * MIB, 8 * MIB, &zero);
        assert_int_equal((uintptr_t)aligned % (8 * MIB), 0);
        assert_true(release(i % 2 != 0 ? plain : aligned));
        assert_true(release(i % 2 != 0 ? aligned : plain));
    }
}

static void a_block_freed_is_gone_and_a_second_free_refused(void **state)
{
    (void)state;
    start();
    for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
        char *p = allocate(sizes[i]);
        uint32_t entry = hak_map_lookup(p);
        struct hak_large_stats before = large_stats();
        assert_true(hak_large_free(p, entry));
        assert_int_equal(hak_map_lookup(p), 0);
        CHECK(!hak_large_free(p, entry), "%zu bytes", sizes[i]);
        assert_int_equal(before.large_blocks + before.huge_blocks, 1);
        assert_int_equal(large_stats().large_blocks + large_stats().huge_blocks, 0);
    }
}

static void pointers_into_a_block_are_refused(void **state)
{
    (void)state;
    start();
    for (size_t i = 2; i < UNIT_COUNT(sizes); i++) {
        char *p = allocate(sizes[i]);
        uint32_t entry = hak_map_lookup(p);
        static const size_t offsets[] = {1, 16, 4096, 65535};
        for (size_t o = 0; o < UNIT_COUNT(offsets); o++) {
            CHECK(!hak_large_free(p + offsets[o], entry), "offset %zu", offsets[o]);
            CHECK(hak_large_usable_bytes(p + offsets[o], entry) == 0, "offset %zu", offsets[o]);
        }
        assert_int_equal(hak_map_lookup(p + HAK_SLOT_BYTES), 0); /* the other slots say nothing */
        assert_true(usable(p) >= sizes[i]);
        assert_true(release(p));
    }
}

static void counters_are_of_what_lives(void **state)
{
    (void)state;
    start();
    char *run = allocate(300 * KIB);
    char *huge = allocate_plain(5 * MIB);
    struct hak_large_stats s = large_stats();
    assert_int_equal(s.large_blocks, 1);
    assert_int_equal(s.large_bytes, 320 * KIB);
    assert_int_equal(s.huge_blocks, 1);
    assert_int_equal(s.huge_bytes, 5 * MIB);
    assert_ptr_equal(resize(run, 500 * KIB), run);
    assert_ptr_equal(resize(huge, 6 * MIB), huge);
    s = large_stats();
    assert_int_equal(s.large_bytes, 512 * KIB);
    assert_int_equal(s.huge_bytes, 6 * MIB);
    release(run);
    release(huge);
    s = large_stats();
    assert_int_equal(s.large_bytes + s.large_blocks + s.huge_bytes + s.huge_blocks, 0);
}

static void absurd_sizes_and_alignments_are_refused(void **state)
{
    (void)state;
    start();
    bool zero;
    assert_null(large_alloc(HAK_HUGE_MAX + 1, 1, &zero));
    assert_null(large_alloc(PTRDIFF_MAX, 1, &zero));
    assert_null(large_alloc(SIZE_MAX, 1, &zero));
    assert_null(large_alloc(1, (size_t)1 << 62, &zero));
    assert_null(large_alloc(HAK_HUGE_MAX, 1, &zero));
    char *p = allocate(2 * MIB);
    assert_null(resize(p, HAK_HUGE_MAX + 1));
    assert_null(resize(p, HAK_HUGE_MAX));
    assert_int_equal(usable(p), 2 * MIB);
}

static void refusals_give_null_and_leave_nothing_mapped(void **state)
{
    (void)state;
    start();
    bool zero;
    for (unsigned k = 1; k <= 6; k++) {
        for (size_t i = 0; i < UNIT_COUNT(sizes); i++) {
            size_t before = window_bytes();
            fake_os_fail_from(FAKE_ANY, k, ENOMEM);
            char *p = large_alloc(sizes[i], 1, &zero);
            fake_os_fail_nothing();
            if (p != NULL)
                assert_true(release(p));
            else
                CHECK(window_bytes() == before, "%zu bytes, refused from call %u on", sizes[i], k);
            hak_pool_trim();
        }
    }
    assert_non_null(allocate(5 * MIB));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_hold_what_was_asked_for_in_whole_slots),
    cmocka_unit_test(blocks_up_to_512_kib_begin_at_different_cache_sets),
    cmocka_unit_test(a_block_in_the_place_of_another_begins_where_that_did),
    cmocka_unit_test(a_block_that_begins_late_is_resized_like_any_other),
    cmocka_unit_test(blocks_do_not_overlap),
    cmocka_unit_test(alignments_to_1_gib_are_kept),
    cmocka_unit_test(an_aligned_block_from_the_cache_is_aligned),
    cmocka_unit_test(a_block_freed_is_gone_and_a_second_free_refused),
    cmocka_unit_test(pointers_into_a_block_are_refused),
    cmocka_unit_test(counters_are_of_what_lives),
    cmocka_unit_test(absurd_sizes_and_alignments_are_refused),
    cmocka_unit_test(refusals_give_null_and_leave_nothing_mapped),
};
UNIT_MAIN(tests)
