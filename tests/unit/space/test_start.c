/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of space: where the window comes to lie, and what happens when the system refuses. */
#include "../unit.h"

#include "fake_os.h"
#include "space/space.h"

#include <errno.h>
#include <sys/resource.h>

static void assert_window_works(void)
{
    size_t first;
    assert_true(hak_load_relaxed(&hak_space.slots) >= HAK_SLOTS);
    assert_int_equal(hak_load_relaxed(&hak_space.base) % HAK_SUPERSLAB_BYTES, 0);
    assert_int_equal(hak_space_take(1, 1, HAK_SUPERSLAB_BYTES, true, &first), 0);
    char *at = hak_superslab_address(first);
    memset(at, 1, HAK_SUPERSLAB_BYTES);
    assert_int_equal(hak_slot_of(at), first * HAK_SLOTS);
    assert_int_equal(hak_slot_of(at + HAK_SUPERSLAB_BYTES - 1), first * HAK_SLOTS + HAK_SLOTS - 1);
    hak_store_relaxed(hak_map_entry(hak_slot_of(at)), 0x1234u);
    assert_int_equal(hak_map_lookup(at + 5), 0x1234);
    memset(hak_space_meta() + first * HAK_META_BYTES, 1, HAK_META_BYTES);
    memset((char *)hak_space_records() + first * HAK_RECORD_BYTES, 1, HAK_RECORD_BYTES);
}

static void before_the_start_no_address_is_in_the_window(void **state)
{
    (void)state;
    int local;
    assert_int_equal(hak_map_lookup(&local), 0);
    assert_int_equal(hak_map_lookup(NULL), 0);
}

static void start_makes_a_window_that_works(void **state)
{
    (void)state;
    assert_int_equal(hak_space_start(), 0);
    assert_window_works();
    assert_int_equal(fake_os_mapped_bytes(), hak_space_meta_bytes() + HAK_SUPERSLAB_BYTES);
}

static void start_maps_little(void **state)
{
    (void)state;
    assert_int_equal(hak_space_start(), 0);
    assert_in_range(fake_os_mapped_bytes(), 1, 128 << 10);
    assert_int_equal(fake_os_mapped_bytes(), hak_space_meta_bytes());
    assert_int_equal(hak_space_high_water(), 0);
}

static void addresses_outside_the_window_have_no_entry(void **state)
{
    (void)state;
    assert_int_equal(hak_space_start(), 0);
    int local;
    static int constant;
    uintptr_t base = hak_load_relaxed(&hak_space.base);
    assert_int_equal(hak_map_lookup(NULL), 0);
    assert_int_equal(hak_map_lookup(&local), 0);
    assert_int_equal(hak_map_lookup(&constant), 0);
    assert_int_equal(hak_map_lookup((void *)(base - 1)), 0);
    assert_int_equal(hak_map_lookup((void *)UINTPTR_MAX), 0);
    assert_int_equal(hak_map_lookup((void *)(base + (1ull << 46))), 0);
}

static void a_place_that_is_taken_is_tried_no_second_time(void **state)
{
    (void)state;
    fake_os_fail(FAKE_MAP_AT, 1, EEXIST);
    assert_int_equal(hak_space_start(), 0);
    assert_true(fake_os_calls(FAKE_MAP_AT) > 1);
    assert_window_works();
}

static void the_system_is_asked_for_a_place_when_none_can_be_chosen(void **state)
{
    (void)state;
    fake_os_restrict_addresses();
    assert_int_equal(hak_space_start(), 0);
    assert_true(fake_os_calls(FAKE_FIND_HOLE) >= 1);
    assert_window_works();
}

static void the_system_is_asked_for_a_place_when_all_chosen_ones_are_taken(void **state)
{
    (void)state;
    if (hak_os_addresses_restricted())
        return; /* no place is chosen then: the test above */
    fake_os_set_random(12345);
    uintptr_t chosen = ((uintptr_t)48 << 40) + ((uintptr_t)12345 << HAK_SUPERSLAB_SHIFT);
    void *taken = mmap((void *)chosen, 4096, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(taken, (void *)chosen);
    assert_int_equal(hak_space_start(), 0);
    assert_true(fake_os_calls(FAKE_FIND_HOLE) >= 1);
    assert_window_works();
}

static void a_smaller_window_is_taken_where_there_is_no_large_hole(void **state)
{
    (void)state;
    fake_os_restrict_addresses();
    fake_os_fail(FAKE_FIND_HOLE, 1, ENOMEM);
    assert_int_equal(hak_space_start(), 0);
    assert_true(fake_os_calls(FAKE_FIND_HOLE) >= 2);
    assert_window_works();
}

static void a_limit_on_addresses_makes_no_smaller_window(void **state)
{
    (void)state;
    struct rlimit before, limit;
    if (hak_os_addresses_restricted())
        return; /* a sanitizer has more than any limit */
    fake_os_restrict_addresses();
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = (struct rlimit){(rlim_t)1 << 30, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_int_equal(hak_space_start(), 0);
    assert_window_works();
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_true(hak_space_has_place(limit.rlim_cur * 8 / HAK_SUPERSLAB_BYTES, 1));
}

static void start_says_why_it_failed_and_may_be_called_again(void **state)
{
    (void)state;
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    assert_int_equal(hak_space_start(), ENOMEM);
    assert_int_equal(hak_load_relaxed(&hak_space.slots), 0);
    int local;
    assert_int_equal(hak_map_lookup(&local), 0);
    assert_int_equal(fake_os_mapped_bytes(), 0);
    fake_os_fail_nothing();
    assert_int_equal(hak_space_start(), 0);
    assert_window_works();
}

static void start_recovers_from_every_single_refusal(void **state)
{
    (void)state;
    for (unsigned k = 1; k <= 8; k++) {
        pid_t child = fork();
        if (child == 0) {
            size_t first;
            fake_os_fail(FAKE_ANY, k, ENOMEM);
            MUST(hak_space_start() == 0);
            fake_os_fail_nothing();
            MUST(hak_space_take(1, 1, HAK_SLOT_BYTES, true, &first) == 0);
            memset(hak_superslab_address(first), 1, HAK_SLOT_BYTES);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        CHECK(status == 0, "refusal %u", k);
    }
}

/* malloc starts anew at every call until it succeeds, so what one failure leaves behind adds up. */
static void a_start_that_fails_half_way_leaves_nothing_mapped(void **state)
{
    (void)state;
    for (unsigned k = 1; k <= 4; k++) {
        fake_os_fail_from(FAKE_MAP_AT, k, ENOMEM);
        assert_int_equal(hak_space_start(), ENOMEM);
        CHECK(fake_os_mapped_bytes() == 0, "refused from mapping %u on: %zu bytes left", k,
              fake_os_mapped_bytes());
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(before_the_start_no_address_is_in_the_window),
    cmocka_unit_test(start_makes_a_window_that_works),
    cmocka_unit_test(start_maps_little),
    cmocka_unit_test(addresses_outside_the_window_have_no_entry),
    cmocka_unit_test(a_place_that_is_taken_is_tried_no_second_time),
    cmocka_unit_test(the_system_is_asked_for_a_place_when_none_can_be_chosen),
    cmocka_unit_test(the_system_is_asked_for_a_place_when_all_chosen_ones_are_taken),
    cmocka_unit_test(a_smaller_window_is_taken_where_there_is_no_large_hole),
    cmocka_unit_test(a_limit_on_addresses_makes_no_smaller_window),
    cmocka_unit_test(start_says_why_it_failed_and_may_be_called_again),
    cmocka_unit_test(start_recovers_from_every_single_refusal),
    cmocka_unit_test(a_start_that_fails_half_way_leaves_nothing_mapped),
};
UNIT_MAIN(tests)
