/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of telemetry: the arithmetic of sampling, against that of the C library. */
#include "../unit.h"

#include "fake_os.h"
#include "telemetry/prof.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

static void weights_are_those_of_the_formula(void **state)
{
    (void)state;
    static const uint64_t periods[] = {1, 64, 4096, 524288, UINT64_C(1) << 32, UINT64_C(1) << 40};
    for (unsigned i = 0; i < UNIT_COUNT(periods); i++) {
        for (uint64_t bytes = 16; bytes < UINT64_C(1) << 44; bytes += bytes / 3 + 1) {
            double x = (double)bytes / (double)periods[i];
            double objects = -1 / expm1(-x);
            struct hak_prof_weight w = hak_prof_weigh(bytes, periods[i]);
            double got = (double)w.objects / (1 << HAK_PROF_OBJECT_SHIFT);
            CHECK(fabs(got - objects) <= objects * 1e-9 + 1e-5, "%" PRIu64 " of %" PRIu64, bytes,
                  periods[i]);
            double got_bytes = (double)w.bytes;
            CHECK(fabs(got_bytes - objects * (double)bytes) <= got_bytes * 1e-5 + 1,
                  "%" PRIu64 " of %" PRIu64, bytes, periods[i]);
        }
    }
}

#define DRAWS 200000

/* Mean, spread, and how many lie beyond each multiple of the mean: each within five standard
 * deviations of what it should be. */
static void distances_are_exponentially_distributed(void **state)
{
    (void)state;
    assert_int_equal(hak_prof_start(524288), 0);
    uint64_t random = 1;
    double sum = 0;
    double squares = 0;
    unsigned beyond[6] = {0};
    for (unsigned i = 0; i < DRAWS; i++) {
        double x = (double)hak_prof_distance(&random) / 524288;
        sum += x;
        squares += x * x;
        for (unsigned k = 0; k < UNIT_COUNT(beyond) && x > k; k++)
            beyond[k]++;
    }
    assert_true(fabs(sum / DRAWS - 1) < 5 / sqrt(DRAWS));
    assert_true(fabs(squares / DRAWS - 2) < 5 * sqrt(20.0 / DRAWS)); /* 24 - 4 */
    for (unsigned k = 1; k < UNIT_COUNT(beyond); k++) {
        double p = exp(-(double)k);
        CHECK(fabs(beyond[k] - DRAWS * p) < 5 * sqrt(DRAWS * p * (1 - p)), "%u: %u", k, beyond[k]);
    }
}

static void a_profile_has_one_period(void **state)
{
    (void)state;
    assert_int_equal(hak_prof_start(HAK_PROF_MOST_PERIOD + 1), EINVAL);
    assert_false(hak_prof_is_on());
    assert_int_equal(hak_prof_start(0), 0);
    assert_int_equal(hak_prof_period(), HAK_PROF_DEFAULT_PERIOD);
    assert_true(hak_prof_is_on());
    hak_prof_stop();
    assert_int_equal(hak_prof_start(4096), EINVAL);
    assert_false(hak_prof_is_on());
    assert_int_equal(hak_prof_start(HAK_PROF_DEFAULT_PERIOD), 0);
    assert_int_equal(hak_prof_start(0), 0);
}

static void without_memory_it_does_not_start(void **state)
{
    (void)state;
    fake_os_fail_from(FAKE_MAP, 1, ENOMEM);
    assert_int_equal(hak_prof_start(0), ENOMEM);
    assert_false(hak_prof_is_on());
    fake_os_fail_nothing();
    assert_int_equal(hak_prof_start(0), 0);
}

/* Or each start that fails would take some of what the program has left. */
static void what_a_start_without_memory_had_is_for_the_next_one(void **state)
{
    (void)state;
    int error = ENOMEM;
    for (unsigned i = 0; error != 0 && i < 4; i++) {
        fake_os_fail_from(FAKE_MAP, 2, ENOMEM); /* there is one table of the three */
        error = hak_prof_start(0);
    }
    assert_int_equal(error, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(weights_are_those_of_the_formula),
    cmocka_unit_test(distances_are_exponentially_distributed),
    cmocka_unit_test(a_profile_has_one_period),
    cmocka_unit_test(without_memory_it_does_not_start),
    cmocka_unit_test(what_a_start_without_memory_had_is_for_the_next_one),
};
UNIT_MAIN(tests)
