/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: what it does when the system refuses. */
#include "pool_support.h"

static void acquire_leaks_nothing_when_the_system_refuses(void **state)
{
    (void)state;
    start();
    for (unsigned k = 1; k <= 12; k++) {
        size_t slot = 4242;
        bool zero;
        size_t before = window_bytes();
        unsigned busy = verify_pool();
        fake_os_fail_from(FAKE_ANY, k, ENOMEM);
        int error = hak_pool_acquire_any(32, 1, RUN, &slot, &zero);
        fake_os_fail_nothing();
        if (error == 0) {
            assert_int_equal(verify_pool(), busy + 32);
            continue;
        }
        assert_int_equal(error, ENOMEM);
        CHECK(window_bytes() == before, "refused from call %u on: %zu bytes more", k,
              window_bytes() - before);
        assert_int_equal(verify_pool(), busy);
    }
    assert_true(verify_pool() > 0);
    acquire(32, 1, RUN, NULL);
}

static void a_refused_acquire_counts_for_no_stage(void **state)
{
    (void)state;
    start();
    size_t slot;
    bool zero;
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    assert_int_equal(hak_pool_acquire_any(1, 1, 3, &slot, &zero), ENOMEM);
    for (enum hak_stage s = 0; s < HAK_STAGE_COUNT; s++)
        assert_int_equal(stats().acquired[s], 0);
    assert_int_equal(stats().mapped_superslabs, 0);
}

static void every_single_refusal_is_survived_by_asking_for_less(void **state)
{
    (void)state;
    start();
    for (unsigned i = 0; i < 600; i++) {
        size_t slot;
        bool zero;
        fake_os_fail(FAKE_MAP_AT, 1 + i % 3, ENOMEM);
        int error = hak_pool_acquire_any(1 + i % 5, 1, RUN, &slot, &zero);
        fake_os_fail_nothing();
        CHECK(error == 0, "acquire %u: %d", i, error);
        memset(hak_slot_address(slot), 1, (1 + i % 5) * HAK_SLOT_BYTES);
        verify_pool();
    }
}

static void slots_that_are_there_are_given_out_while_the_system_refuses(void **state)
{
    (void)state;
    start();
    keep_everything();
    size_t whole = acquire(32, 1, RUN, NULL);
    release(whole, 32, RUN);
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    for (unsigned i = 0; i < 32; i++)
        acquire(1, 1, 3, NULL);
    size_t slot;
    bool zero;
    assert_int_equal(hak_pool_acquire_any(1, 1, 3, &slot, &zero), ENOMEM);
    release(whole + 4, 1, 3);
    assert_int_equal(acquire(1, 1, 3, NULL), whole + 4);
    assert_int_equal(verify_pool(), 32);
}

static void the_error_is_the_systems(void **state)
{
    (void)state;
    start();
    size_t slot;
    bool zero;
    fake_os_fail_from(FAKE_MAP_AT, 1, EPERM);
    assert_int_equal(hak_pool_acquire_any(1, 1, 3, &slot, &zero), EPERM);
    fake_os_fail_nothing();
    acquire(1, 1, 3, NULL);
}

static void superslabs_that_cannot_be_unmapped_are_purged_and_used_again(void **state)
{
    (void)state;
    start();
    keep_everything();
    size_t whole = acquire(32, 1, RUN, NULL);
    memset(hak_slot_address(whole), 1, HAK_SUPERSLAB_BYTES);
    release(whole, 32, RUN);
    fake_os_fail(FAKE_UNMAP, 1, ENOMEM);
    assert_int_equal(hak_pool_trim(), 0);
    assert_int_equal(stats().retired_now, 0);
    assert_int_equal(verify_pool(), 0);
    bool zero = false;
    assert_int_equal(acquire(32, 1, RUN, &zero), whole);
    assert_true(zero);
    for (size_t i = 0; i < HAK_SUPERSLAB_BYTES; i += 4096)
        assert_int_equal(hak_slot_address(whole)[i], 0);
    assert_int_equal(window_bytes(), HAK_SUPERSLAB_BYTES);
}

static void superslabs_that_can_be_neither_unmapped_nor_purged_do_not_count_as_zero(void **state)
{
    (void)state;
    start();
    keep_everything();
    size_t whole = acquire(32, 1, RUN, NULL);
    release(whole, 32, RUN);
    fake_os_fail_from(FAKE_ANY, 1, ENOMEM);
    hak_pool_trim();
    fake_os_fail_nothing();
    bool zero = true;
    assert_int_equal(acquire(32, 1, RUN, &zero), whole);
    assert_false(zero);
    release(whole, 32, RUN);
    assert_int_equal(stats().retired_now, 1);
    assert_int_equal(hak_pool_trim(), HAK_SUPERSLAB_BYTES);
    assert_int_equal(window_bytes(), 0);
}

/* While memory is short a second superslab may be begun in steps; the first must not be forgotten
 * for it. */
static void every_superslab_that_was_begun_is_completed(void **state)
{
    (void)state;
    start();
    acquire(10, 1, RUN, NULL);            /* superslab 0: 16 slots of it */
    fake_os_fail(FAKE_MAP_AT, 1, ENOMEM); /* refuses the superslab that is asked for whole */
    acquire(20, 1, RUN, NULL); /* does not fit behind the first 16: superslab 1 is begun */
    fake_os_fail_nothing();
    for (unsigned i = 0; i < 200; i++)
        acquire(1, 1, 0, NULL);
    verify_pool();
    for (size_t i = 0; i < 2; i++)
        CHECK(hak_load_relaxed(&hak_superslab(i)->missing) == 0,
              "superslab %zu lacks slots %x for ever", i,
              hak_load_relaxed(&hak_superslab(i)->missing));
}

/* Of a huge block that ends within a superslab, the rest of that is mapped for it to be kept. */
static void of_what_cannot_be_kept_nothing_stays_mapped(void **state)
{
    (void)state;
    struct hak_whole w;
    bool zero;
    start();
    keep_everything();
    for (unsigned nth = 1; nth <= 2; nth++) {
        assert_int_equal(hak_whole_take(3 * HAK_SUPERSLAB_BYTES / 2, 1, HAK_WHOLE_FRESH, &w, &zero),
                         0);
        fake_os_fail_from(FAKE_MAP_AT, nth, ENOMEM);
        hak_whole_give(&w);
        fake_os_fail_nothing();
        assert_int_equal(window_bytes(), stats().retired_now * HAK_SUPERSLAB_BYTES);
        hak_pool_trim();
        assert_int_equal(window_bytes(), 0);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(acquire_leaks_nothing_when_the_system_refuses),
    cmocka_unit_test(a_refused_acquire_counts_for_no_stage),
    cmocka_unit_test(every_single_refusal_is_survived_by_asking_for_less),
    cmocka_unit_test(slots_that_are_there_are_given_out_while_the_system_refuses),
    cmocka_unit_test(the_error_is_the_systems),
    cmocka_unit_test(superslabs_that_cannot_be_unmapped_are_purged_and_used_again),
    cmocka_unit_test(superslabs_that_can_be_neither_unmapped_nor_purged_do_not_count_as_zero),
    cmocka_unit_test(every_superslab_that_was_begun_is_completed),
    cmocka_unit_test(of_what_cannot_be_kept_nothing_stays_mapped),
};
UNIT_MAIN(tests)
