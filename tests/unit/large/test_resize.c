/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: growing, shrinking and moving without copying. */
#include "large_support.h"

#include "pool/pool_internal.h"

static void a_run_grows_in_place_into_free_slots(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(128 * KIB);
    fill(p, 128 * KIB, 1);
    assert_ptr_equal(resize(p, 400 * KIB), p);
    assert_int_equal(usable(p), 448 * KIB);
    assert_true(is_filled(p, 128 * KIB, 1));
    memset(p + 128 * KIB, 1, 320 * KIB);
    assert_int_equal(large_stats().moved_pages_calls, 0);
}

static void a_run_that_grows_takes_no_slot_of_another(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(128 * KIB);
    char *behind = allocate_plain(128 * KIB);
    assert_ptr_equal(behind, p + 128 * KIB);
    assert_null(resize(p, 192 * KIB)); /* too small to move pages for */
    assert_int_equal(usable(p), 128 * KIB);
    assert_true(release(behind));
    assert_ptr_equal(resize(p, 192 * KIB), p);
    char *next = allocate(65536);
    assert_true(next >= p + 192 * KIB || next + 65536 <= p);
}

static void a_run_that_shrinks_gives_slots_back(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(MIB);
    fill(p, MIB, 2);
    assert_int_equal(resident_pages(p, MIB), 256);
    assert_ptr_equal(resize(p, 100 * KIB), p);
    assert_int_equal(usable(p), 128 * KIB);
    assert_true(is_filled(p, 100 * KIB, 2));
    assert_int_equal(resident_pages(p, MIB), 256); /* kept, as those of a block that is freed */
    bool zero = true;
    char *next = large_alloc(512 * KIB, HAK_PAGE_BYTES, &zero);
    assert_ptr_equal(next, p + 128 * KIB);
    assert_false(zero);
    assert_true(release(next));
    hak_pool_trim();
    assert_int_equal(resident_pages(p, MIB), 32);
    assert_true(is_filled(p, 100 * KIB, 2));
}

static void a_resize_within_the_same_slots_changes_nothing(void **state)
{
    (void)state;
    start();
    char *run = allocate(300 * KIB);
    char *huge = allocate_plain(3 * MIB - 10);
    uint64_t calls = fake_os_calls(FAKE_ANY);
    assert_ptr_equal(resize(run, 257 * KIB), run);
    assert_ptr_equal(resize(run, 320 * KIB), run);
    assert_ptr_equal(resize(huge, 3 * MIB), huge);
    assert_ptr_equal(resize(huge, 3 * MIB - 65535), huge);
    assert_int_equal(fake_os_calls(FAKE_ANY), calls);
}

static void a_run_from_256_kib_moves_by_pages(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(256 * KIB);
    char *behind = allocate_plain(65536);
    assert_ptr_equal(behind, p + 256 * KIB);
    fill(p, 256 * KIB, 3);
    char *q = resize(p, 900 * KIB);
    assert_non_null(q);
    assert_ptr_not_equal(q, p);
    assert_true(is_filled(q, 256 * KIB, 3));
    assert_true(is_zero(q + 256 * KIB, 900 * KIB - 256 * KIB));
    assert_true(usable(q) >= 900 * KIB);
    assert_int_equal(large_stats().moved_pages_calls, 1);
    assert_int_equal(large_stats().large_blocks, 1);
    assert_int_equal(large_stats().huge_blocks, 1);
    assert_int_equal(hak_map_lookup(p), 0);
    bool zero = false; /* the place it left */
    assert_ptr_equal(large_alloc(256 * KIB, HAK_PAGE_BYTES, &zero), p);
    assert_true(zero);
    assert_true(is_zero(p, 256 * KIB));
    fill(p, 256 * KIB, 4);
    assert_true(is_filled(q, 256 * KIB, 3));
}

/* There are no slots behind it, but superslabs. */
static void a_run_with_a_superslab_to_itself_grows_in_place(void **state)
{
    (void)state;
    start();
    allocate(MIB); /* leaves too little of the first superslab, which is mapped in part */
    char *p = allocate(3 * MIB / 2);
    assert_int_equal(large_stats().huge_blocks, 0);
    fill(p, 3 * MIB / 2, 5);
    assert_ptr_equal(resize(p, 5 * MIB), p);
    assert_true(usable(p) >= 5 * MIB);
    assert_true(is_filled(p, 3 * MIB / 2, 5));
    memset(p, 1, 5 * MIB);
    assert_int_equal(large_stats().moved_pages_calls, 0);
    assert_int_equal(large_stats().huge_blocks, 1);
    assert_int_equal(large_stats().large_blocks, 1);
    assert_int_equal(hak_pool_slots_in_use(HAK_POOL_LABEL_RUN) * HAK_SLOT_BYTES,
                     large_stats().large_bytes);
    assert_true(release(p));
    hak_large_trim();
    assert_int_equal(large_stats().huge_bytes, 0);
    assert_int_equal(hak_load_relaxed(&hak_pool.whole_now), 0);
    assert_int_equal(hak_pool_mapped_superslabs(), 1);
}

static void nor_does_it_take_what_another_has_of_its_superslab(void **state)
{
    (void)state;
    start();
    allocate(MIB);
    char *p = allocate_plain(3 * MIB / 2);
    char *other = allocate_plain(256 * KIB);
    assert_ptr_equal(other, p + 3 * MIB / 2);
    fill(p, 3 * MIB / 2, 5);
    fill(other, 256 * KIB, 6);
    char *moved = resize(p, 5 * MIB);
    assert_ptr_not_equal(moved, p);
    assert_int_equal(large_stats().moved_pages_calls, 1);
    memset(moved + 3 * MIB / 2, 1, 5 * MIB - 3 * MIB / 2);
    assert_true(is_filled(moved, 3 * MIB / 2, 5));
    assert_true(is_filled(other, 256 * KIB, 6));
    assert_true(release(other) && release(moved));
}

static void a_huge_block_grows_in_place_where_the_addresses_are_free(void **state)
{
    (void)state;
    start();
    char *p = allocate(4 * MIB);
    fill(p, 4 * MIB, 5);
    hak_pool_set_huge_pages_from(SIZE_MAX);
    for (size_t bytes = 4 * MIB + 65536; bytes <= 40 * MIB; bytes += 3 * MIB) {
        assert_ptr_equal(resize(p, bytes), p);
        assert_int_equal(usable(p), bytes);
        p[bytes - 1] = 1;
        assert_int_equal(window_bytes(), bytes);
    }
    assert_true(is_filled(p, 4 * MIB, 5));
    assert_int_equal(large_stats().moved_pages_calls, 0);
    assert_true(release(p));
    hak_pool_trim();
    assert_int_equal(window_bytes(), 0);
}

static void a_large_huge_block_grows_by_superslabs_that_have_huge_pages(void **state)
{
    (void)state;
    start();
    hak_pool_set_huge_pages_from(12 * MIB); /* a block from 6 MiB on */
    char *p = allocate_plain(6 * MIB - 65536);
    assert_ptr_equal(resize(p, 6 * MIB), p); /* the rest of a superslab */
    assert_int_equal(usable(p), 6 * MIB);
    for (size_t bytes = 6 * MIB + 65536; bytes <= 12 * MIB; bytes += 65536) {
        uint64_t calls = fake_os_calls(FAKE_ANY);
        assert_ptr_equal(resize(p, bytes), p);
        bool is_first = bytes % (2 * MIB) == 65536;
        assert_true((fake_os_calls(FAKE_ANY) != calls) == is_first);
        assert_int_equal(usable(p), hak_round_up(bytes, 2 * MIB));
        p[bytes - 1] = 1;
    }
    struct hak_pool_stats pool;
    hak_pool_stats(&pool);
    assert_int_equal(pool.huge_asked_total, 3);
    assert_int_equal(window_bytes(), 12 * MIB);
    /* Shorter than before. */
    assert_ptr_equal(resize(p, 12 * MIB - 65536), p);
    assert_int_equal(usable(p), 12 * MIB - 65536);
    fake_os_fail(FAKE_MAP_AT, 1, ENOMEM); /* not a superslab: then what is needed */
    assert_ptr_equal(resize(p, 12 * MIB + 65536), p);
    assert_int_equal(usable(p), 12 * MIB + 65536);
}

/* What is kept could not have served it. */
static void what_a_block_grows_by_is_no_reason_to_keep_more(void **state)
{
    (void)state;
    assert_int_equal(hak_space_start(), 0);
    hak_pool_configure(&(struct hak_pool_config){.retired_max_count = 1024,
                                                 .retired_max_age_ns = 1000000000u,
                                                 .huge_pages_from_bytes = 16 * MIB});
    for (unsigned round = 0; round < 4; round++) {
        char *p = allocate(4 * MIB);
        for (size_t bytes = 6 * MIB; bytes <= 100 * MIB; bytes += 2 * MIB)
            p = resize(p, bytes);
        assert_true(release(p));
        CHECK(hak_pool_kept_bytes() <= 8 * MIB, "round %u: %zu bytes", round,
              hak_pool_kept_bytes());
    }
}

static void a_huge_block_with_a_neighbour_moves_by_pages(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(4 * MIB);
    char *behind = allocate_plain(2 * MIB);
    assert_ptr_equal(behind, p + 4 * MIB);
    fill(p, 4 * MIB, 6);
    char *q = resize(p, 9 * MIB);
    assert_non_null(q);
    assert_ptr_not_equal(q, p);
    assert_true(is_filled(q, 4 * MIB, 6));
    assert_int_equal(usable(q), 9 * MIB);
    q[9 * MIB - 1] = 1;
    assert_int_equal(large_stats().moved_pages_calls, 1);
    assert_int_equal(large_stats().huge_blocks, 2);
    assert_int_equal(window_bytes(), 11 * MIB);
    assert_int_equal(hak_map_lookup(p), 0);
    hak_pool_trim();
    char *again = allocate_plain(4 * MIB); /* the addresses are free again */
    assert_ptr_equal(again, p);
    assert_true(is_zero(again, 4 * MIB));
}

/* As where the program has locked some pages of its block, and the system refuses those. */
static void a_move_that_stopped_halfway_loses_nothing(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(4 * MIB);
    allocate_plain(2 * MIB);
    fill(p, 4 * MIB, 6);
    size_t mapped = window_bytes();
    fake_os_move_in_part(MIB);
    char *q = resize(p, 9 * MIB);
    assert_non_null(q);
    assert_ptr_not_equal(q, p);
    assert_true(is_filled(q, 4 * MIB, 6));
    memset(q, 1, 9 * MIB);
    assert_int_equal(window_bytes(), mapped + 5 * MIB);
    hak_pool_trim();
    assert_ptr_equal(allocate_plain(4 * MIB), p); /* the addresses are free again */
}

static void nor_does_one_of_a_run(void **state)
{
    (void)state;
    start();
    char *p = allocate(512 * KIB);
    allocate(65536);
    fill(p, 512 * KIB, 6);
    size_t mapped = window_bytes();
    fake_os_move_in_part(300 * KIB);
    assert_null(resize(p, 3 * MIB));
    assert_true(is_filled(p, 512 * KIB, 6));
    assert_int_equal(window_bytes(), mapped);
}

static void keep_bytes(size_t bytes)
{
    hak_pool_configure(&(struct hak_pool_config){.retired_max_count = 1024,
                                                 .retired_max_bytes = SIZE_MAX,
                                                 .retired_max_age_ns = UINT64_MAX,
                                                 .huge_pages_from_bytes = SIZE_MAX});
    char *p = allocate_plain(bytes);
    allocate_plain(2 * MIB); /* nothing grows into it in place */
    fill(p, bytes, 1);
    assert_true(release(p));
    assert_int_equal(hak_pool_kept_bytes(), bytes);
}

/* NULL tells the caller to copy. */
static void a_run_does_not_move_where_enough_is_kept(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(512 * KIB);
    allocate_plain(65536);
    fill(p, 512 * KIB, 3);
    keep_bytes(4 * MIB);
    assert_null(resize(p, 4 * MIB));
    assert_int_equal(usable(p), 512 * KIB);
    assert_true(is_filled(p, 512 * KIB, 3));
    assert_non_null(resize(p, 4 * MIB + 65536)); /* more than that */
    assert_int_equal(large_stats().moved_pages_calls, 1);
}

static void a_huge_block_does_not_move_where_enough_is_kept(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(4 * MIB);
    allocate_plain(2 * MIB);
    fill(p, 4 * MIB, 4);
    keep_bytes(8 * MIB);
    assert_null(resize(p, 8 * MIB));
    assert_int_equal(usable(p), 4 * MIB);
    assert_true(is_filled(p, 4 * MIB, 4));
    hak_pool_trim();
    assert_non_null(resize(p, 8 * MIB));
    assert_int_equal(large_stats().moved_pages_calls, 1);
}

static void one_that_is_very_large_moves_in_any_case(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(HAK_COPY_MOST);
    char *larger = allocate_plain(HAK_COPY_MOST + 65536);
    allocate_plain(2 * MIB);
    fill(p, HAK_COPY_MOST, 1);
    fill(larger, HAK_COPY_MOST, 2);
    keep_bytes(2 * HAK_COPY_MOST);
    assert_null(resize(p, HAK_COPY_MOST + 2 * MIB));
    assert_non_null(resize(larger, HAK_COPY_MOST + 4 * MIB));
    assert_int_equal(large_stats().moved_pages_calls, 1);
}

/* Copied it would have all pages that nobody has written to. */
static void nor_is_one_copied_that_is_used_here_and_there(void **state)
{
    (void)state;
    unit_without_huge_pages();
    start();
    char *p = allocate_plain(4 * MIB);
    allocate_plain(2 * MIB);
    p[0] = p[MIB] = p[2 * MIB] = p[4 * MIB - 1] = 5;
    keep_bytes(8 * MIB);
    char *q = resize(p, 8 * MIB);
    assert_non_null(q);
    assert_true(q[0] == 5 && q[MIB] == 5 && q[2 * MIB] == 5 && q[4 * MIB - 1] == 5);
    assert_true(resident_pages(q, 8 * MIB) <= 4);
}

static void a_huge_block_that_shrinks_a_little_keeps_the_rest_for_a_while(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(6 * MIB);
    fill(p, 6 * MIB, 7);
    assert_ptr_equal(resize(p, 3 * MIB), p);
    assert_int_equal(usable(p), 3 * MIB);
    assert_int_equal(resident_pages(p, 6 * MIB), 6 * 256);
    uint64_t calls = fake_os_calls(FAKE_ANY);
    assert_ptr_equal(resize(p, 5 * MIB), p); /* nothing is mapped, nothing missed */
    assert_int_equal(usable(p), 6 * MIB);
    assert_int_equal(fake_os_calls(FAKE_ANY), calls);
    assert_ptr_equal(resize(p, 4 * MIB), p);
    assert_int_equal(usable(p), 4 * MIB);
    assert_true(hak_large_trim() >= 2 * MIB);
    assert_int_equal(resident_pages(p, 6 * MIB), 4 * 256);
    assert_true(is_filled(p, 3 * MIB, 7));
    assert_ptr_equal(resize(p, 2 * MIB), p); /* more than half */
    assert_int_equal(window_bytes(), 2 * MIB);
}

static void a_huge_block_that_shrinks_gives_pages_and_addresses_back(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(16 * MIB);
    fill(p, 16 * MIB, 7);
    assert_ptr_equal(resize(p, 5 * MIB), p);
    assert_int_equal(usable(p), 5 * MIB);
    assert_int_equal(window_bytes(), 5 * MIB);
    assert_true(is_filled(p, 5 * MIB, 7));
    char *next = allocate_plain(4 * MIB);
    assert_ptr_equal(next, p + 6 * MIB);
    assert_ptr_equal(resize(p, 6 * MIB), p); /* the rest of its last superslab is its own */
    assert_true(is_zero(p + 5 * MIB, MIB));
}

static void a_huge_block_may_shrink_below_the_huge_sizes(void **state)
{
    (void)state;
    start();
    char *p = allocate(3 * MIB);
    fill(p, 3 * MIB, 8);
    assert_ptr_equal(resize(p, 65537), p);
    assert_int_equal(usable(p), 128 * KIB);
    assert_true(is_filled(p, 65537, 8));
    assert_int_equal(window_bytes(), 128 * KIB);
    assert_true(release(p));
}

static void a_foreign_mapping_behind_a_huge_block_is_left_alone(void **state)
{
    (void)state;
    start();
    char *p = allocate(2 * MIB);
    fill(p, 2 * MIB, 9);
    char *foreign = mmap(p + 3 * MIB, 4096, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(foreign, p + 3 * MIB);
    *foreign = 42;
    char *q = resize(p, 4 * MIB);
    assert_non_null(q);
    assert_ptr_not_equal(q, p);
    assert_true(is_filled(q, 2 * MIB, 9));
    memset(q, 1, 4 * MIB);
    assert_int_equal(*foreign, 42);
}

/* --- refusals --- */

/* Grows p, with its first call of the system refused, then its second and so on, until it succeeds.
 */
static void assert_survives_refusals(char *p, size_t bytes, size_t new_bytes)
{
    for (unsigned k = 1; k <= 6; k++) {
        struct hak_large_stats before = large_stats();
        size_t mapped = window_bytes();
        fill(p, bytes, k);
        fake_os_fail(FAKE_ANY, k, ENOMEM);
        char *q = resize(p, new_bytes);
        fake_os_fail_nothing();
        if (q == NULL) {
            assert_int_equal(usable(p), bytes);
            CHECK(window_bytes() == mapped, "call %u refused: %zu bytes instead of %zu", k,
                  window_bytes(), mapped);
            assert_int_equal(large_stats().huge_bytes, before.huge_bytes);
            assert_int_equal(large_stats().large_bytes, before.large_bytes);
        }
        CHECK(is_filled(q != NULL ? q : p, bytes, k), "call %u refused", k);
        if (q != NULL)
            return;
    }
    fail_msg("never succeeded");
}

static void a_huge_block_that_cannot_move_stays_as_it_was(void **state)
{
    (void)state;
    start();
    char *p = allocate(4 * MIB);
    allocate(2 * MIB);
    assert_survives_refusals(p, 4 * MIB, 9 * MIB);
}

static void a_run_that_cannot_move_stays_as_it_was(void **state)
{
    (void)state;
    start();
    char *p = allocate(512 * KIB);
    allocate(65536);
    assert_survives_refusals(p, 512 * KIB, 3 * MIB);
}

/* It has become a huge one before that, with what it was asked for. */
static void nor_does_one_that_has_a_superslab_to_itself_change(void **state)
{
    (void)state;
    start();
    allocate(MIB);
    char *p = allocate(3 * MIB / 2);
    allocate(2 * MIB);
    fill(p, 3 * MIB / 2, 5);
    hak_large_note(p, HAK_KIND_LARGE)->how = 7;
    size_t before = usable(p);
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    assert_null(resize(p, 5 * MIB));
    fake_os_fail_nothing();
    assert_int_equal(hak_map_lookup(p), HAK_KIND_HUGE);
    assert_int_equal(usable(p), before);
    assert_true(is_filled(p, 3 * MIB / 2, 5));
    assert_int_equal(hak_large_note(p, hak_map_lookup(p))->bytes, 3 * MIB / 2);
    assert_int_equal(hak_large_note(p, hak_map_lookup(p))->how, 7);
    assert_true(release(p));
}

static void a_refused_move_keeps_nothing_of_the_new_place(void **state)
{
    (void)state;
    start();
    char *huge = allocate(4 * MIB);
    allocate(2 * MIB);
    char *run = allocate(512 * KIB);
    allocate(65536);
    size_t mapped = window_bytes();
    fill(huge, 4 * MIB, 1);
    fill(run, 512 * KIB, 2);
    fake_os_fail_from(FAKE_MOVE, 1, EFAULT);
    assert_null(resize(huge, 9 * MIB));
    assert_null(resize(run, 3 * MIB));
    assert_int_equal(window_bytes(), mapped);
    assert_true(is_filled(huge, 4 * MIB, 1));
    assert_true(is_filled(run, 512 * KIB, 2));
    assert_true(release(huge));
    assert_true(release(run));
}

static void a_huge_block_that_cannot_be_cut_stays_as_large_as_it_was(void **state)
{
    (void)state;
    start();
    char *p = allocate_plain(16 * MIB);
    fill(p, 16 * MIB, 3);
    fake_os_fail(FAKE_UNMAP, 1, ENOMEM);
    assert_ptr_equal(resize(p, 5 * MIB), p);
    assert_int_equal(usable(p), 16 * MIB);
    assert_true(is_filled(p, 16 * MIB, 3));
    assert_true(release(p));
    hak_pool_trim();
    assert_int_equal(window_bytes(), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_grows_in_place_into_free_slots),
    cmocka_unit_test(a_run_that_grows_takes_no_slot_of_another),
    cmocka_unit_test(a_run_that_shrinks_gives_slots_back),
    cmocka_unit_test(a_resize_within_the_same_slots_changes_nothing),
    cmocka_unit_test(a_run_from_256_kib_moves_by_pages),
    cmocka_unit_test(a_run_with_a_superslab_to_itself_grows_in_place),
    cmocka_unit_test(nor_does_it_take_what_another_has_of_its_superslab),
    cmocka_unit_test(a_huge_block_grows_in_place_where_the_addresses_are_free),
    cmocka_unit_test(a_large_huge_block_grows_by_superslabs_that_have_huge_pages),
    cmocka_unit_test(what_a_block_grows_by_is_no_reason_to_keep_more),
    cmocka_unit_test(a_huge_block_with_a_neighbour_moves_by_pages),
    cmocka_unit_test(a_move_that_stopped_halfway_loses_nothing),
    cmocka_unit_test(nor_does_one_of_a_run),
    cmocka_unit_test(a_run_does_not_move_where_enough_is_kept),
    cmocka_unit_test(a_huge_block_does_not_move_where_enough_is_kept),
    cmocka_unit_test(one_that_is_very_large_moves_in_any_case),
    cmocka_unit_test(nor_is_one_copied_that_is_used_here_and_there),
    cmocka_unit_test(a_huge_block_that_shrinks_a_little_keeps_the_rest_for_a_while),
    cmocka_unit_test(a_huge_block_that_shrinks_gives_pages_and_addresses_back),
    cmocka_unit_test(a_huge_block_may_shrink_below_the_huge_sizes),
    cmocka_unit_test(a_foreign_mapping_behind_a_huge_block_is_left_alone),
    cmocka_unit_test(a_huge_block_that_cannot_move_stays_as_it_was),
    cmocka_unit_test(a_run_that_cannot_move_stays_as_it_was),
    cmocka_unit_test(nor_does_one_that_has_a_superslab_to_itself_change),
    cmocka_unit_test(a_refused_move_keeps_nothing_of_the_new_place),
    cmocka_unit_test(a_huge_block_that_cannot_be_cut_stays_as_large_as_it_was),
};
UNIT_MAIN(tests)
