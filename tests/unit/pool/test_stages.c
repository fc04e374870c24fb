/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: the stages of acquire, in their order and counted. */
#include "pool_support.h"

static struct hak_pool_stats before;

static void forget_stages(void)
{
    before = stats();
}

/* The stage that the only acquire since the last call came from. */
static enum hak_stage last_stage(void)
{
    struct hak_pool_stats now = stats();
    enum hak_stage found = HAK_STAGE_COUNT;
    for (enum hak_stage s = 0; s < HAK_STAGE_COUNT; s++) {
        if (now.acquired[s] == before.acquired[s])
            continue;
        assert_int_equal(now.acquired[s], before.acquired[s] + 1);
        assert_int_equal(found, HAK_STAGE_COUNT);
        found = s;
    }
    before = now;
    return found;
}

static void the_first_slot_is_fresh_and_zero_and_the_next_unused(void **state)
{
    (void)state;
    start();
    bool zero = false;
    size_t first = acquire(1, 1, 3, &zero);
    assert_int_equal(last_stage(), HAK_STAGE_FRESH);
    assert_true(zero);
    zero = false;
    size_t second = acquire(1, 1, 3, &zero);
    assert_int_equal(last_stage(), HAK_STAGE_UNUSED);
    assert_true(zero);
    assert_int_not_equal(first, second);
    memset(hak_slot_address(second), 1, HAK_SLOT_BYTES);
    assert_int_equal(verify_pool(), 2);
}

static void a_slot_comes_back_warm_to_its_class(void **state)
{
    (void)state;
    start();
    size_t mine = acquire(1, 1, 3, NULL);
    size_t other = acquire(1, 1, 4, NULL);
    acquire(1, 1, 3, NULL);
    release(other, 1, 4);
    release(mine, 1, 3);
    forget_stages();
    bool zero = true;
    assert_int_equal(acquire(1, 1, 4, &zero), other);
    assert_int_equal(last_stage(), HAK_STAGE_WARM);
    assert_false(zero);
    assert_int_equal(acquire(1, 1, 3, &zero), mine);
    assert_int_equal(last_stage(), HAK_STAGE_WARM);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_WARM, 3), 1);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_WARM, 4), 1);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_WARM, 5), 0);
}

static void an_empty_slot_of_another_class_comes_before_an_unused_one(void **state)
{
    (void)state;
    start();
    size_t slot = acquire(1, 1, 3, NULL);
    acquire(1, 1, 3, NULL);
    release(slot, 1, 3);
    forget_stages();
    bool zero = true;
    assert_int_equal(acquire(1, 1, 9, &zero), slot);
    assert_int_equal(last_stage(), HAK_STAGE_EMPTY);
    assert_false(zero);
    acquire(1, 1, 9, NULL);
    assert_int_equal(last_stage(), HAK_STAGE_UNUSED);
}

static void a_retired_superslab_comes_before_a_fresh_one(void **state)
{
    (void)state;
    start();
    keep_everything();
    size_t full = acquire(32, 1, RUN, NULL);
    size_t retired = acquire(32, 1, RUN, NULL);
    release(retired, 32, RUN);
    assert_int_equal(stats().retired_now, 1);
    forget_stages();
    bool zero = true;
    size_t bytes = window_bytes();
    assert_int_equal(acquire(2, 2, 3, &zero), retired);
    assert_int_equal(last_stage(), HAK_STAGE_RETIRED);
    assert_false(zero);
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(stats().revived_total, 1);
    assert_int_equal(window_bytes(), bytes);
    assert_int_equal(verify_pool(), 34);
    acquire(1, 1, 3, NULL); /* the rest of it is EMPTY */
    assert_int_equal(last_stage(), HAK_STAGE_EMPTY);
    release(full, 32, RUN);
}

static void adoptions_are_counted_where_the_other_stages_are(void **state)
{
    (void)state;
    start();
    hak_pool_count_adoption(7);
    assert_int_equal(last_stage(), HAK_STAGE_ADOPT);
    assert_int_equal(hak_pool_acquired(HAK_STAGE_ADOPT, 7), 1);
}

static void every_stage_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (enum hak_stage a = 0; a < HAK_STAGE_COUNT; a++)
        for (enum hak_stage b = 0; b < a; b++)
            assert_string_not_equal(hak_stage_name(a), hak_stage_name(b));
}

static void counts_add_up_to_the_calls(void **state)
{
    (void)state;
    enum { HELD = 200 };
    static size_t slot[HELD];
    static unsigned label[HELD], count[HELD];
    struct unit_random r = {21};
    uint64_t acquires = 0;
    uint64_t releases = 0;
    start();
    for (int i = 0; i < 20000; i++) {
        size_t at = unit_below(&r, HELD);
        if (count[at] != 0) {
            release(slot[at], count[at], label[at]);
            count[at] = 0;
            releases++;
            continue;
        }
        label[at] = (unsigned)unit_below(&r, HAK_POOL_LABELS);
        count[at] = 1u << unit_below(&r, 4);
        slot[at] = acquire(count[at], count[at], label[at], NULL);
        assert_int_equal(slot[at] % count[at], 0);
        acquires++;
    }
    uint64_t sum = 0;
    for (enum hak_stage s = 0; s < HAK_STAGE_COUNT; s++)
        sum += stats().acquired[s];
    assert_int_equal(sum, acquires);
    assert_int_equal(stats().released, releases);
    unsigned held = 0;
    for (size_t i = 0; i < HELD; i++)
        held += count[i];
    assert_int_equal(verify_pool(), held);
    assert_true(stats().acquired[HAK_STAGE_WARM] > 0);
}

/* --- runs --- */

static void a_run_is_found_only_where_all_its_slots_are_free(void **state)
{
    (void)state;
    start();
    size_t whole = acquire(32, 1, RUN, NULL);
    for (size_t i = 0; i < 32; i += 2) /* every other slot is free: no run of two */
        release(whole + i, 1, RUN);
    assert_true(acquire(2, 1, RUN, NULL) / HAK_SLOTS != whole / HAK_SLOTS);
    release(whole + 7, 1, RUN); /* 6, 7, 8 are free */
    assert_int_equal(acquire(3, 1, RUN, NULL), whole + 6);
    assert_int_equal(acquire(1, 1, RUN, NULL), whole + 0);
}

static void an_aligned_run_begins_at_a_multiple(void **state)
{
    (void)state;
    start();
    size_t whole = acquire(32, 1, RUN, NULL);
    acquire(1, 1, RUN, NULL);   /* so that nothing is retired */
    release(whole + 3, 8, RUN); /* 3..10 */
    assert_int_equal(acquire(4, 4, RUN, NULL), whole + 4);
    assert_int_equal(acquire(2, 2, RUN, NULL), whole + 8);
    assert_int_equal(acquire(1, 1, RUN, NULL), whole + 3);
    assert_int_equal(acquire(1, 1, RUN, NULL), whole + 10);
    for (unsigned align = 1; align <= 32; align *= 2) {
        size_t slot = acquire(3, align, RUN, NULL);
        CHECK(slot % align == 0, "align %u: slot %zu", align, slot);
    }
    verify_pool();
}

static void just_the_slots_asked_for_are_acquired_behind_a_run(void **state)
{
    (void)state;
    start();
    bool zero = false;
    size_t whole = acquire(32, 1, RUN, NULL);
    acquire(1, 1, RUN, NULL);
    release(whole + 8, 8, RUN);
    assert_false(hak_pool_try_acquire_at(whole + 7, 2, &zero));
    assert_false(hak_pool_try_acquire_at(whole + 15, 2, &zero));
    assert_true(hak_pool_try_acquire_at(whole + 8, 4, &zero));
    assert_false(zero);
    assert_false(hak_pool_try_acquire_at(whole + 11, 2, &zero));
    assert_true(hak_pool_try_acquire_at(whole + 12, 4, &zero));
    assert_int_equal(verify_pool(), 33);
}

static void a_run_grows_into_unused_slots_but_not_beyond_its_superslab(void **state)
{
    (void)state;
    start();
    bool zero = false;
    size_t first = acquire(2, 1, RUN, NULL);
    assert_true(hak_pool_try_acquire_at(first + 2, 3, &zero));
    assert_true(zero);
    assert_false(hak_pool_try_acquire_at(first + 8, 1, &zero)); /* not mapped yet */
    size_t whole = acquire(32, 1, RUN, NULL);
    release(whole + 20, 12, RUN);
    assert_false(hak_pool_try_acquire_at(whole + 30, 3, &zero));
    assert_false(hak_pool_try_acquire_at(whole + 32, 1, &zero));
    assert_true(hak_pool_try_acquire_at(whole + 30, 2, &zero));
    verify_pool();
}

static void purged_slots_are_unused_again_and_zero(void **state)
{
    (void)state;
    start();
    acquire(1, 1, RUN, NULL);
    size_t slot = acquire(2, 1, RUN, NULL);
    memset(hak_slot_address(slot), 1, 2 * HAK_SLOT_BYTES);
    assert_int_equal(hak_os_purge(hak_slot_address(slot), 2 * HAK_SLOT_BYTES), 0);
    hak_pool_release_any(slot, 2, RUN, true);
    forget_stages();
    bool zero = false;
    assert_int_equal(acquire(2, 1, RUN, &zero), slot);
    assert_int_equal(last_stage(), HAK_STAGE_UNUSED);
    assert_true(zero);
    assert_int_equal(hak_slot_address(slot)[100], 0);
}

static void release_purged(size_t slot, unsigned count, unsigned label)
{
    assert_int_equal(hak_os_purge(hak_slot_address(slot), count * HAK_SLOT_BYTES), 0);
    hak_pool_release_any(slot, count, label, true);
}

/* Three superslabs of which so many slots are in use and the others UNUSED; their first slots. */
static void three_in_use(const unsigned *slots, size_t *first)
{
    for (unsigned i = 0; i < 3; i++)
        first[i] = acquire(HAK_SLOTS, 1, RUN, NULL);
    for (unsigned i = 0; i < 3; i++)
        release_purged(first[i] + slots[i], HAK_SLOTS - slots[i], RUN);
    forget_stages();
}

static void unused_slots_are_of_the_fullest_superslab(void **state)
{
    (void)state;
    start();
    size_t first[3];
    three_in_use((const unsigned[]){10, 30, 20}, first);
    assert_int_equal(acquire(1, 1, 3, NULL), first[1] + 30);
    assert_int_equal(last_stage(), HAK_STAGE_UNUSED);
    assert_int_equal(acquire(4, 4, 3, NULL), first[2] + 20); /* of those with room */
    assert_int_equal(acquire(1, 1, 3, NULL), first[1] + 31);
    assert_int_equal(acquire(1, 1, 3, NULL), first[2] + 24);
    verify_pool();
}

static void of_equally_full_superslabs_of_one_that_holds_the_class(void **state)
{
    (void)state;
    start();
    size_t first[3];
    three_in_use((const unsigned[]){10, 11, 10}, first);
    assert_int_equal(acquire(1, 1, 3, NULL), first[1] + 11);
    hak_store_relaxed(hak_map_entry(first[1] + 11), 1u << HAK_TAG_SHIFT | 3 * 2); /* a slab */
    release_purged(first[1], 2, RUN);
    size_t other = acquire(1, 1, 5, NULL);
    assert_int_equal(other, first[0] + 10);
    release_purged(other, 1, 5);
    forget_stages();
    assert_int_equal(acquire(1, 1, 3, NULL), first[1]);
    assert_int_equal(last_stage(), HAK_STAGE_UNUSED);
    verify_pool();
}

/* Or each search for a run would look at all of them. Runs of each length alone. */
static void superslabs_full_of_runs_are_not_searched_for_more(void **state)
{
    (void)state;
    enum { SUPERSLABS = 6 };
    start();
    for (unsigned count = 1; count <= HAK_SLOTS; count++) {
        size_t slot[SUPERSLABS * HAK_SLOTS + 1];
        unsigned runs = HAK_SLOTS / count * SUPERSLABS;
        for (unsigned i = 0; i <= runs; i++) /* the last one sees that they are full */
            slot[i] = acquire(count, 1, RUN, NULL);
        unsigned room = pool_room_of(count);
        CHECK(pool_room_slots(room) <= count, "%u slots", count);
        CHECK(offered(room) <= 1, "%u slots: %u superslabs are looked at", count, offered(room));
        release(slot[runs / 2], count, RUN);
        hak_store_relaxed(&hak_pool.warm[RUN], 0u); /* so that the index has to tell */
        assert_int_equal(acquire(count, 1, RUN, NULL), slot[runs / 2]);
        verify_pool();
        for (unsigned i = 0; i <= runs; i++)
            release(slot[i], count, RUN);
        hak_pool_trim();
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_first_slot_is_fresh_and_zero_and_the_next_unused),
    cmocka_unit_test(a_slot_comes_back_warm_to_its_class),
    cmocka_unit_test(an_empty_slot_of_another_class_comes_before_an_unused_one),
    cmocka_unit_test(unused_slots_are_of_the_fullest_superslab),
    cmocka_unit_test(of_equally_full_superslabs_of_one_that_holds_the_class),
    cmocka_unit_test(a_retired_superslab_comes_before_a_fresh_one),
    cmocka_unit_test(adoptions_are_counted_where_the_other_stages_are),
    cmocka_unit_test(every_stage_has_a_name_of_its_own),
    cmocka_unit_test(counts_add_up_to_the_calls),
    cmocka_unit_test(a_run_is_found_only_where_all_its_slots_are_free),
    cmocka_unit_test(an_aligned_run_begins_at_a_multiple),
    cmocka_unit_test(just_the_slots_asked_for_are_acquired_behind_a_run),
    cmocka_unit_test(a_run_grows_into_unused_slots_but_not_beyond_its_superslab),
    cmocka_unit_test(purged_slots_are_unused_again_and_zero),
    cmocka_unit_test(superslabs_full_of_runs_are_not_searched_for_more),
};
UNIT_MAIN(tests)
