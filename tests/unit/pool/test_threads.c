/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of pool: no slot has two owners, whatever threads do. */
#include "pool_support.h"

#define THREADS 4u
#define HELD 24u

static _Atomic(unsigned) owners[1u << 16];

struct share {
    unsigned rounds;
    unsigned longest; /* runs are of 1 << (0..longest) slots */
};

struct held {
    size_t slot;
    unsigned count, label;
};

static void claim(const struct held *h, unsigned who)
{
    for (unsigned i = 0; i < h->count; i++) {
        MUST(h->slot + i < UNIT_COUNT(owners));
        MUST(hak_exchange_relaxed(&owners[h->slot + i], who) == 0);
        *(volatile unsigned *)(void *)hak_slot_address(h->slot + i) =
            who; /* plain: the pool must order it */
    }
}

static void give_up(const struct held *h, unsigned who)
{
    for (unsigned i = 0; i < h->count; i++) {
        MUST(*(volatile unsigned *)(void *)hak_slot_address(h->slot + i) == who);
        MUST(hak_exchange_relaxed(&owners[h->slot + i], 0u) == who);
    }
    hak_pool_release_any(h->slot, h->count, h->label, false);
}

static bool try_grow(struct held *h, unsigned who)
{
    bool zero;
    struct held more = {h->slot + h->count, 1, h->label};
    if (h->label != RUN || !hak_pool_try_acquire_at(more.slot, 1, &zero))
        return false;
    claim(&more, who);
    h->count++;
    return true;
}

static void acquire_and_release(unsigned index, void *argument)
{
    const struct share *share = argument;
    struct unit_random r = {index + 77};
    struct held held[HELD] = {0};
    for (unsigned i = 0; i < share->rounds; i++) {
        struct held *h = &held[unit_below(&r, HELD)];
        bool zero;
        if (h->count != 0) {
            if (unit_below(&r, 4) == 0 && try_grow(h, index + 1))
                continue;
            give_up(h, index + 1);
            h->count = 0;
            continue;
        }
        h->count = 1u << unit_below(&r, share->longest + 1);
        h->label = unit_below(&r, 2) == 0 ? RUN : (unsigned)unit_below(&r, 6);
        MUST(hak_pool_acquire_any(h->count, h->count, h->label, &h->slot, &zero) == 0);
        claim(h, index + 1);
        if (i % 64 == 0 && index == 0)
            hak_pool_trim();
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].count != 0)
            give_up(&held[i], index + 1);
}

static void run_threads(unsigned rounds, unsigned longest, struct hak_pool_config config)
{
    struct share share = {rounds, longest};
    start();
    hak_pool_configure(&config);
    unit_in_threads(THREADS, acquire_and_release, &share);
    assert_int_equal(verify_pool(), 0);
    struct hak_pool_stats s = stats();
    uint64_t acquires = 0;
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++)
        acquires += s.acquired[stage];
    assert_int_equal(acquires, s.released);
}

static void two_threads_never_own_the_same_slot(void **state)
{
    (void)state;
    run_threads(8000, 3, (struct hak_pool_config){4, 0, SECOND_NS, SIZE_MAX});
}

static void two_threads_never_own_the_same_slot_while_superslabs_come_and_go(void **state)
{
    (void)state;
    run_threads(4000, 5, (struct hak_pool_config){1, 0, 0, SIZE_MAX});
    assert_true(stats().unmapped_superslabs > 0);
}

static void two_threads_never_own_the_same_slot_when_nothing_can_be_unmapped(void **state)
{
    (void)state;
    fake_os_fail_from(FAKE_UNMAP, 1, ENOMEM);
    run_threads(4000, 4, (struct hak_pool_config){0, 0, 0, SIZE_MAX});
}

/* Some acquires fail; none of them leaves anything behind. */
static void acquire_under_refusals(unsigned index, void *argument)
{
    (void)argument;
    struct unit_random r = {index + 5};
    for (unsigned i = 0; i < 2000; i++) {
        struct held h = {.count = 1u << unit_below(&r, 6), .label = RUN};
        bool zero;
        if (index == 0 && i % 5 == 0)
            fake_os_fail(FAKE_ANY, 1, ENOMEM);
        if (hak_pool_acquire_any(h.count, 1, RUN, &h.slot, &zero) != 0)
            continue;
        claim(&h, index + 1);
        give_up(&h, index + 1);
    }
}

static void refusals_amid_many_threads_leave_the_pool_sound(void **state)
{
    (void)state;
    start();
    hak_pool_configure(&(struct hak_pool_config){1, 0, 0, SIZE_MAX});
    unit_in_threads(THREADS, acquire_under_refusals, NULL);
    fake_os_fail_nothing();
    assert_int_equal(verify_pool(), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_threads_never_own_the_same_slot),
    cmocka_unit_test(two_threads_never_own_the_same_slot_while_superslabs_come_and_go),
    cmocka_unit_test(two_threads_never_own_the_same_slot_when_nothing_can_be_unmapped),
    cmocka_unit_test(refusals_amid_many_threads_leave_the_pool_sound),
};
UNIT_MAIN(tests)
