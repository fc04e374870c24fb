/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of large: a program that takes and frees the same sizes again and again gets them from
 * what is kept, each time. */
#include "large_support.h"

static uint64_t fresh(void)
{
    struct hak_pool_stats s;
    hak_pool_stats(&s);
    return s.acquired[HAK_STAGE_FRESH] + s.mapped_superslabs;
}

static void a_steady_loop_maps_nothing_after_its_first_round(void **state)
{
    (void)state;
    static const size_t sizes[] = {65 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB};
    start();
    for (size_t s = 0; s < UNIT_COUNT(sizes); s++) {
        CHECK(release(allocate(sizes[s])), "%zu", sizes[s]);
        uint64_t before = fresh();
        uint64_t calls = fake_os_calls(FAKE_ANY);
        for (unsigned i = 0; i < 1000; i++)
            release(allocate(sizes[s]));
        CHECK(fresh() == before, "%zu bytes: %lu times fresh", sizes[s], fresh() - before);
        CHECK(fake_os_calls(FAKE_ANY) == calls, "%zu bytes: %lu calls of the system", sizes[s],
              fake_os_calls(FAKE_ANY) - calls);
    }
    struct hak_pool_stats now;
    hak_pool_stats(&now);
    uint64_t all = 0;
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++)
        all += now.acquired[stage];
    assert_int_equal(all, UNIT_COUNT(sizes) * 1001);
    assert_int_equal(now.released, UNIT_COUNT(sizes) * 1001);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_steady_loop_maps_nothing_after_its_first_round),
};
UNIT_MAIN(tests)
