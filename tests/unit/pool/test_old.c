/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: what goes with memory that goes back to the system: huge pages of superslabs
 * that are hardly used any more, records of slabs that are gone. And what huge blocks grow into. */
#include "pool_support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A superslab with huge pages, each slot used, of which only the first `kept` stay in use. */
static size_t acquire_huge_and_leave(unsigned kept)
{
    struct hak_pool_config config = {.retired_max_count = 1000,
                                     .retired_max_bytes = SIZE_MAX,
                                     .retired_max_age_ns = 5ull * SECOND_NS};
    start();
    hak_pool_configure(&config); /* huge pages from the first superslab on */
    fake_os_set_time_ns(100ull * SECOND_NS);
    size_t whole = acquire(32, 1, RUN | HAK_POOL_DENSE, NULL);
    assert_true(hak_superslab_is_dense(whole / HAK_SLOTS));
    fill_slots(whole, 32);
    release(whole + kept, 32 - kept, RUN);
    return whole;
}

static void old_empty_slots_take_the_huge_pages_of_their_superslab_with_them(void **state)
{
    (void)state;
    size_t whole = acquire_huge_and_leave(16);
    fake_os_set_time_ns(122ull * SECOND_NS);
    hak_pool_tick_any();
    assert_false(hak_superslab_is_dense(whole / HAK_SLOTS));
    assert_int_equal(resident_slots(whole, 32), 16);
    assert_int_equal(verify_pool(), 16);
}

static void few_old_empty_slots_leave_the_superslab_its_huge_pages(void **state)
{
    (void)state;
    size_t whole = acquire_huge_and_leave(17);
    fake_os_set_time_ns(122ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(stats().empty_slots_now, 0);
    assert_true(hak_superslab_is_dense(whole / HAK_SLOTS));
}

static unsigned huge_pages_of(size_t slot)
{
    return hak_load_relaxed(&hak_superslab(slot / HAK_SLOTS)->huge_pages);
}

/* Of a superslab of which half is in memory the system is to make no huge page again. */
static void what_goes_for_the_limits_sake_does_not_come_back(void **state)
{
    (void)state;
    size_t whole = acquire_huge_and_leave(16);
    assert_int_equal(hak_pool_purge_empty(SIZE_MAX, UINT64_MAX, true), 16);
    assert_int_equal(huge_pages_of(whole), HAK_HUGE_FORBIDDEN);
    assert_true(hak_superslab_is_dense(whole / HAK_SLOTS)); /* for who returns */
}

static void where_more_than_half_stays_it_may(void **state)
{
    (void)state;
    size_t whole = acquire_huge_and_leave(17);
    assert_int_equal(hak_pool_purge_empty(SIZE_MAX, UINT64_MAX, true), 15);
    assert_int_equal(huge_pages_of(whole), HAK_HUGE_ASKED);
    assert_true(hak_superslab_is_dense(whole / HAK_SLOTS));
}

static void what_came_back_as_a_huge_page_goes_when_old(void **state)
{
    (void)state;
    size_t whole = acquire_huge_and_leave(17);
    assert_int_equal(hak_pool_purge_empty(SIZE_MAX, UINT64_MAX, true), 15);
    memset(hak_slot_address(whole + 17), 0, 15 * HAK_SLOT_BYTES); /* as the system does */
    release(whole + 1, 16, RUN);
    fake_os_set_time_ns(122ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(resident_slots(whole, 32), 1);
    assert_int_equal(huge_pages_of(whole), HAK_HUGE_FORBIDDEN);
}

static void huge_pages_return_with_the_last_slot_of_what_is_in_memory(void **state)
{
    (void)state;
    size_t whole = acquire_huge_and_leave(1);
    hak_pool_purge_empty(SIZE_MAX, UINT64_MAX, true);
    size_t rest = acquire(31, 1, RUN | HAK_POOL_DENSE, NULL);
    assert_int_equal(rest, whole + 1);
    assert_int_equal(huge_pages_of(whole), HAK_HUGE_FORBIDDEN); /* nobody has written there */
    release(rest + 30, 1, RUN);
    fill_slots(rest, 30);
    assert_int_equal(acquire(1, 1, RUN | HAK_POOL_DENSE, NULL), whole + 31);
    assert_int_equal(huge_pages_of(whole), HAK_HUGE_ASKED);
}

/* What the system was told of the mapping that contains a slot (proc(5), smaps: VmFlags). */
static bool is_told(size_t slot, const char *flag)
{
    uintptr_t at = (uintptr_t)hak_slot_address(slot);
    bool found = false, within = false;
    char line[512];
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file) != NULL) {
        uintptr_t low, high;
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
            within = at >= low && at < high;
        found = within && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, flag) != NULL;
    }
    (void)fclose(file);
    return found;
}

/* The first superslab is mapped in steps: once it is whole. */
static void what_may_not_be_used_up_is_to_have_small_pages_unasked(void **state)
{
    (void)state;
    start();
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0)
        skip();
    hak_pool_set_huge_pages_from(SIZE_MAX);
    size_t first = acquire(1, 1, 5, NULL);
    assert_false(is_told(first, " nh"));
    for (unsigned i = 1; i < HAK_SLOTS; i++)
        assert_int_equal(acquire(1, 1, 5, NULL), first + i);
    assert_true(is_told(first, " nh"));
    size_t second = acquire(1, 1, 5, NULL);
    assert_true(is_told(second, " nh"));
    assert_int_equal(huge_pages_of(second), HAK_HUGE_SMALL);
    hak_pool_set_huge_pages_from(0);
    size_t third = acquire(32, 1, 5 | HAK_POOL_DENSE, NULL);
    assert_true(is_told(third, " hg"));
    assert_int_equal(huge_pages_of(third), HAK_HUGE_ASKED);
}

/* A superslab with huge pages of which so many slots are used, and all are in memory. */
static size_t acquire_of_a_huge_page(unsigned used)
{
    start();
    hak_pool_configure(&(struct hak_pool_config){1000, SIZE_MAX, SECOND_NS, 0});
    fake_os_set_time_ns(100ull * SECOND_NS);
    size_t first = acquire(1, 1, 5 | HAK_POOL_DENSE, NULL);
    for (unsigned i = 1; i < used; i++)
        acquire(1, 1, 5 | HAK_POOL_DENSE, NULL);
    fill_slots(first, HAK_SLOTS);
    return first;
}

static void what_was_never_used_keeps_its_huge_pages_while_the_pool_grows(void **state)
{
    (void)state;
    size_t first = acquire_of_a_huge_page(1);
    fake_os_set_time_ns(120ull * SECOND_NS);
    release(acquire(32, 1, RUN, NULL) + 1, 31, RUN); /* a superslab more */
    fake_os_set_time_ns(122ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(stats().empty_slots_now, 0);
    assert_int_equal(huge_pages_of(first), HAK_HUGE_ASKED);
    assert_int_equal(resident_slots(first, HAK_SLOTS), HAK_SLOTS);
}

/* A thread has looked at the clock, and another made the pool grow since. */
static void also_for_whoever_is_a_little_late(void **state)
{
    (void)state;
    size_t first = acquire_of_a_huge_page(1);
    hak_retired_tick(100ull * SECOND_NS - 1);
    assert_int_equal(huge_pages_of(first), HAK_HUGE_ASKED);
    assert_int_equal(resident_slots(first, HAK_SLOTS), HAK_SLOTS);
}

static void and_goes_when_the_pool_has_not_grown_for_long(void **state)
{
    (void)state;
    size_t first = acquire_of_a_huge_page(16);
    fake_os_set_time_ns(104ull * SECOND_NS); /* four times the age */
    hak_pool_tick_any();
    assert_int_equal(resident_slots(first, HAK_SLOTS), HAK_SLOTS);
    fake_os_set_time_ns(104ull * SECOND_NS + SECOND_NS / 4);
    hak_pool_tick_any();
    assert_int_equal(resident_slots(first, HAK_SLOTS), 16);
    assert_int_equal(huge_pages_of(first), HAK_HUGE_FORBIDDEN);
    bool zero;
    acquire(1, 1, 5, &zero);
    assert_true(zero);
    assert_int_equal(verify_pool(), 17);
}

static void or_for_whoever_trims(void **state)
{
    (void)state;
    size_t first = acquire_of_a_huge_page(16);
    hak_pool_trim();
    assert_int_equal(resident_slots(first, HAK_SLOTS), 16);
}

static void what_half_of_a_huge_page_is_used_for_may_stay(void **state)
{
    (void)state;
    size_t first = acquire_of_a_huge_page(17);
    fake_os_set_time_ns(122ull * SECOND_NS);
    hak_pool_tick_any();
    assert_int_equal(resident_slots(first, HAK_SLOTS), HAK_SLOTS);
    assert_int_equal(huge_pages_of(first), HAK_HUGE_ASKED);
}

/* --- records and bitmaps of superslabs that are slabs' no more --- */

static size_t resident_meta_pages(size_t superslab)
{
    unsigned char pages[HAK_META_BYTES / HAK_PAGE_BYTES];
    size_t resident = 0;
    char *meta = hak_space_meta() + superslab * HAK_META_BYTES;
    assert_int_equal(mincore(meta, HAK_META_BYTES, pages), 0);
    for (size_t i = 0; i < HAK_META_BYTES / HAK_PAGE_BYTES; i++)
        resident += pages[i] & 1;
    return resident;
}

static void write_meta(size_t superslab)
{
    memset(hak_space_meta() + superslab * HAK_META_BYTES, 0xa5, HAK_META_BYTES);
}

static void the_meta_goes_with_an_unmapped_superslab(void **state)
{
    (void)state;
    size_t slots[2];
    start();
    configure(1, SIZE_MAX, UINT64_MAX);
    slots[0] = acquire(32, 1, 5, NULL);
    slots[1] = acquire(32, 1, 5, NULL);
    size_t gone = slots[0] / HAK_SLOTS;
    write_meta(gone);
    write_meta(slots[1] / HAK_SLOTS);
    release(slots[0], 32, 5);
    assert_int_equal(resident_meta_pages(gone), 6); /* it is kept, and may be wanted at once */
    release(slots[1], 32, 5);
    assert_int_equal(stats().unmapped_superslabs, 1);
    assert_int_equal(resident_meta_pages(gone), 0);
    assert_int_equal(resident_meta_pages(slots[1] / HAK_SLOTS), 6);
    /* Who looks at a record late finds no slab's there. */
    assert_int_equal(hak_space_meta()[gone * HAK_META_BYTES], 0);
}

static void the_meta_goes_when_a_huge_block_takes_the_superslab(void **state)
{
    (void)state;
    struct hak_whole w;
    bool zero;
    start();
    configure(1000, SIZE_MAX, UINT64_MAX);
    size_t slot = acquire(32, 1, 5, NULL);
    write_meta(slot / HAK_SLOTS);
    release(slot, 32, 5);
    assert_int_equal(hak_whole_take(HAK_SUPERSLAB_BYTES, 1, 0, &w, &zero), 0);
    assert_int_equal(w.first, slot / HAK_SLOTS);
    assert_int_equal(resident_meta_pages(w.first), 0);
}

static void a_meta_that_the_system_keeps_is_given_back_the_next_time(void **state)
{
    (void)state;
    start();
    configure(0, SIZE_MAX, UINT64_MAX);
    size_t slot = acquire(32, 1, 5, NULL);
    write_meta(slot / HAK_SLOTS);
    fake_os_fail(FAKE_PURGE, 1, EINVAL);
    release(slot, 32, 5);
    assert_false(hak_space_is_taken(slot / HAK_SLOTS));
    assert_int_equal(resident_meta_pages(slot / HAK_SLOTS), 6);
    assert_int_equal(acquire(32, 1, RUN, NULL), slot);
    release(slot, 32, RUN);
    assert_int_equal(resident_meta_pages(slot / HAK_SLOTS), 0);
}

/* --- huge blocks that grow --- */

/* Whether the kernel has been told to use huge pages at an address. */
static bool has_huge_pages(const void *at)
{
    char line[512];
    bool here = false, found = false;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    assert_non_null(smaps);
    while (fgets(line, sizeof line, smaps) != NULL) {
        uintptr_t low, high;
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
            here = (uintptr_t)at >= low && (uintptr_t)at < high;
        found = found || (here && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL);
    }
    assert_int_equal(fclose(smaps), 0);
    return found;
}

static void a_block_that_grows_gets_huge_pages_if_its_first_ones_are(void **state)
{
    (void)state;
    struct hak_whole w;
    bool zero;
    start();
    hak_pool_configure(&(struct hak_pool_config){1000, SIZE_MAX, SECOND_NS, 0});
    assert_int_equal(hak_whole_take(3 * HAK_SUPERSLAB_BYTES / 2, 1, 0, &w, &zero), 0);
    if (!has_huge_pages(hak_superslab_address(w.first)))
        skip(); /* a kernel without */
    assert_true(hak_whole_try_extend(&w, 8 * HAK_SUPERSLAB_BYTES));
    for (size_t i = 0; i < 8; i++)
        assert_true(has_huge_pages(hak_superslab_address(w.first + i)));
    assert_true(has_huge_pages(hak_superslab_address(w.first) + w.mapped_bytes - 1));
    hak_pool_set_huge_pages_from(SIZE_MAX);
    assert_true(hak_whole_try_extend(&w, 9 * HAK_SUPERSLAB_BYTES));
    assert_false(has_huge_pages(hak_superslab_address(w.first + 8)));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(old_empty_slots_take_the_huge_pages_of_their_superslab_with_them),
    cmocka_unit_test(few_old_empty_slots_leave_the_superslab_its_huge_pages),
    cmocka_unit_test(what_goes_for_the_limits_sake_does_not_come_back),
    cmocka_unit_test(where_more_than_half_stays_it_may),
    cmocka_unit_test(what_came_back_as_a_huge_page_goes_when_old),
    cmocka_unit_test(huge_pages_return_with_the_last_slot_of_what_is_in_memory),
    cmocka_unit_test(what_may_not_be_used_up_is_to_have_small_pages_unasked),
    cmocka_unit_test(what_was_never_used_keeps_its_huge_pages_while_the_pool_grows),
    cmocka_unit_test(also_for_whoever_is_a_little_late),
    cmocka_unit_test(and_goes_when_the_pool_has_not_grown_for_long),
    cmocka_unit_test(or_for_whoever_trims),
    cmocka_unit_test(what_half_of_a_huge_page_is_used_for_may_stay),
    cmocka_unit_test(the_meta_goes_with_an_unmapped_superslab),
    cmocka_unit_test(the_meta_goes_when_a_huge_block_takes_the_superslab),
    cmocka_unit_test(a_meta_that_the_system_keeps_is_given_back_the_next_time),
    cmocka_unit_test(a_block_that_grows_gets_huge_pages_if_its_first_ones_are),
};
UNIT_MAIN(tests)
