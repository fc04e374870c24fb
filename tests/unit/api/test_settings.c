/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of api: what hakmem_ctl can set, and the figures of single classes. */
#include "../unit.h"

#include "api/api_internal.h"
#include "fake_os.h"
#include "hakmem.h"
#include "policy/policy.h"
#include "pool/pool_internal.h"
#include "space/space_internal.h"

#include <errno.h>
#include <malloc.h>

static uint64_t value_of(const char *name)
{
    uint64_t value = 0;
    CHECK(hakmem_ctl(name, &value, NULL) == 0, "%s", name);
    return value;
}

static int set(const char *name, uint64_t value)
{
    return hakmem_ctl(name, NULL, &value);
}

static void every_name_can_be_read(void **state)
{
    (void)state;
    unsigned options = 0;
    const char *name;
    for (unsigned i = 0; (name = hakmem_ctl_name(i)) != NULL; i++) {
        uint64_t value = UINT64_MAX - 1;
        CHECK(hakmem_ctl(name, &value, NULL) == 0, "%s", name);
        CHECK(value != UINT64_MAX - 1, "%s", name);
        bool option = strncmp(name, "option.", 7) == 0;
        CHECK(set(name, value) == (option ? 0 : EPERM), "%s", name);
        CHECK(value_of(name) == value || !option, "%s", name);
        options += option;
    }
    CHECK(options >= 10, "%u", options);
    assert_int_equal(hakmem_ctl("option.nothing", NULL, NULL), ENOENT);
    assert_int_equal(hakmem_ctl("option.", NULL, NULL), ENOENT);
    assert_int_equal(hakmem_ctl("", NULL, NULL), ENOENT);
}

static void numbers_reach_the_layer_that_they_limit(void **state)
{
    (void)state;
    assert_int_equal(set("option.superslab_max_cached", 17), 0);
    assert_int_equal(hak_pool.config.max_count, 17);
    assert_int_equal(set("option.superslab_max_memory_mb", 3), 0);
    assert_int_equal(hak_pool.config.max_bytes, 3 << 20);
    assert_int_equal(set("option.superslab_ttl_sec", 9), 0);
    assert_int_equal(hak_pool.config.max_age_ns, 9000000000u);
    assert_int_equal(set("option.huge_pages_from_mb", 5), 0);
    assert_int_equal(hak_pool.config.huge_pages_from_bytes, 5 << 20);
    assert_int_equal(set("option.homes", 7), 0);
    assert_int_equal(hak_load_relaxed(&hak_cache_knobs.homes), 7);
    assert_int_equal(set("option.homes", 129), EINVAL);
    assert_int_equal(set("option.limit_mb", 9), 0);
    assert_int_equal(hak_pool.limit_superslabs, 4);
    assert_int_equal(set("option.trace_failures", 1), 0);
    assert_true(hak_failures.trace);
    assert_int_equal(set("option.trace_failures", 0), 0);
    assert_false(hak_failures.trace);
    assert_int_equal(hak_pool.config.max_count, 17); /* one does not undo the other */
    assert_int_equal(value_of("option.limit_mb"), 9);
    assert_int_equal(set("option.limit_mb", 0), 0);
    assert_int_equal(hak_pool.limit_superslabs, 0);
}

/* A policy by which this knob is not at its default; with an option, or NULL. */
static void start_with_policy_and(enum hak_knob knob, char *option)
{
    static char text[HAK_POLICY_FILE_MOST];
    char file[64], variable[80];
    struct hak_evidence e = {.runs = 100, .ticks = 100};
    for (unsigned i = 0; i < 100; i++)
        hak_arm_play(&e.arm[knob][1], 500000, 500000);
    hakmem_free(hakmem_malloc(1)); /* the tables of classes are needed */
    size_t length = hak_policy_print(&e, text, sizeof text);
    snprintf(file, sizeof file, "/tmp/hakmem-test-policy-%d", (int)getpid());
    assert_int_equal(hak_os_write_file(file, text, length), 0);
    snprintf(variable, sizeof variable, "HAKMEM_POLICY=%s", file);
    hak_options_read((char *[]){variable, option, NULL});
    unlink(file);
}

static void start_with_policy(enum hak_knob knob)
{
    start_with_policy_and(knob, NULL);
}

static void an_option_beats_a_policy(void **state)
{
    (void)state;
    start_with_policy_and(HAK_KNOB_AGE, "HAKMEM_SUPERSLAB_TTL_SEC=2");
    assert_int_equal(hak_pool.config.max_age_ns, 2000000000);
}

static void an_option_that_says_the_default_beats_a_policy(void **state)
{
    (void)state;
    start_with_policy_and(HAK_KNOB_AGE, "HAKMEM_SUPERSLAB_TTL_SEC=1");
    assert_int_equal(hak_pool.config.max_age_ns, 1000000000);
    start_with_policy_and(HAK_KNOB_HUGE_PAGES, "HAKMEM_HUGE_PAGES_FROM_MB=8");
    assert_int_equal(hak_pool.config.huge_pages_from_bytes, 8 << 20);
    assert_int_equal(value_of("policy.huge_pages"), 8 << 20);
}

static void prewarming_nothing_beats_a_policy(void **state)
{
    (void)state;
    start_with_policy_and(HAK_KNOB_PREWARM, "HAKMEM_PREWARM_SUPERSLABS=0");
    CHECK(value_of("pool.retired_superslabs") < 8, "%lu", value_of("pool.retired_superslabs"));
}

static void set_others(void)
{
    assert_int_equal(set("option.superslab_max_cached", 17), 0);
    assert_int_equal(set("option.limit_mb", 900), 0);
    assert_int_equal(hakmem_mallopt(M_TRIM_THRESHOLD, 1 << 20), 1);
    assert_int_equal(hak_pool.config.max_count, 17);
    assert_int_equal(hak_pool.config.max_bytes, 1 << 20);
}

static void the_age_of_a_policy_holds_until_that_is_set(void **state)
{
    (void)state;
    start_with_policy(HAK_KNOB_AGE);
    assert_int_equal(hak_pool.config.max_age_ns, 100000000);
    set_others();
    assert_int_equal(set("option.huge_pages_from_mb", 5), 0);
    assert_int_equal(hak_pool.config.max_age_ns, 100000000);
    assert_int_equal(set("option.superslab_ttl_sec", 1), 0);
    assert_int_equal(hak_pool.config.max_age_ns, 1000000000);
}

static void the_huge_pages_of_a_policy_hold_until_they_are_set(void **state)
{
    (void)state;
    start_with_policy(HAK_KNOB_HUGE_PAGES);
    assert_int_equal(hak_pool.config.huge_pages_from_bytes, 0);
    set_others();
    assert_int_equal(set("option.superslab_ttl_sec", 1), 0);
    assert_int_equal(hak_pool.config.huge_pages_from_bytes, 0);
    assert_int_equal(set("option.huge_pages_from_mb", 5), 0);
    assert_int_equal(hak_pool.config.huge_pages_from_bytes, 5 << 20);
}

static void a_value_out_of_range_changes_nothing(void **state)
{
    (void)state;
    uint64_t old = 1, bad = (uint64_t)1 << 40;
    assert_int_equal(set("option.limit_mb", 64), 0);
    assert_int_equal(hakmem_ctl("option.limit_mb", &old, &bad), EINVAL);
    assert_int_equal(old, 1);
    assert_int_equal(value_of("option.limit_mb"), 64);
    assert_int_equal(set("option.trace_failures", 2), EINVAL);
    assert_int_equal(value_of("option.trace_failures"), 0);
}

static void the_old_value_comes_with_the_new(void **state)
{
    (void)state;
    uint64_t old, fresh = 7;
    assert_int_equal(hakmem_ctl("option.superslab_ttl_sec", &old, &fresh), 0);
    assert_int_equal(old, 1);
    assert_int_equal(value_of("option.superslab_ttl_sec"), 7);
}

static void the_old_and_the_new_value_may_be_one_variable(void **state)
{
    (void)state;
    uint64_t one = 7;
    assert_int_equal(set("option.superslab_ttl_sec", 3), 0);
    assert_int_equal(hakmem_ctl("option.superslab_ttl_sec", &one, &one), 0);
    assert_int_equal(one, 3);
    assert_int_equal(value_of("option.superslab_ttl_sec"), 7);
    one = 1 << 20;
    assert_int_equal(hakmem_ctl("class.64.soft_cap_bytes", &one, &one), 0);
    assert_int_equal(one, 0);
    assert_int_equal(value_of("class.64.soft_cap_bytes"), 1 << 20);
}

static void a_limit_that_is_raised_lets_the_program_go_on(void **state)
{
    (void)state;
    static void *p[64];
    assert_int_equal(set("option.limit_mb", 4), 0);
    unsigned n = 0;
    while (n < UNIT_COUNT(p) && (p[n] = hakmem_malloc(1000000)) != NULL)
        n++;
    CHECK(n < 5, "%u", n);
    assert_int_equal(set("option.limit_mb", 40), 0);
    while (n < 20 && (p[n] = hakmem_malloc(1000000)) != NULL)
        n++;
    CHECK(n == 20, "%u", n);
    while (n > 0)
        hakmem_free(p[--n]);
}

static void mallopt_and_the_option_follow_each_other(void **state)
{
    (void)state;
    assert_int_equal(hakmem_mallopt(M_TRIM_THRESHOLD, 5 << 20), 1);
    assert_int_equal(hak_pool.config.max_bytes, 5 << 20);
    assert_int_equal(set("option.superslab_ttl_sec", 3), 0); /* another one leaves it */
    assert_int_equal(hak_pool.config.max_bytes, 5 << 20);
    assert_int_equal(set("option.superslab_max_memory_mb", 8), 0);
    assert_int_equal(hak_pool.config.max_bytes, 8 << 20);
}

/* How often the pool's stages served the class of 6,000 bytes. */
static uint64_t served_in_all(void)
{
    uint64_t sum = 0;
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++) {
        char name[64];
        (void)snprintf(name, sizeof name, "class.6000.acquired.%s", hak_stage_name(stage));
        uint64_t served = value_of(name);
        CHECK(served == hak_pool_acquired(stage, hak_class_of(6000)), "%s", name);
        sum += served;
    }
    return sum;
}

static void classes_have_their_figures(void **state)
{
    (void)state;
    static void *p[500];
    uint64_t before = value_of("class.6000.used_blocks");
    uint64_t served_before = served_in_all();
    for (unsigned i = 0; i < UNIT_COUNT(p); i++)
        p[i] = hakmem_malloc(6000);
    uint64_t size = value_of("class.6000.size_bytes");
    CHECK(size >= 6000 && size == hakmem_malloc_usable_size(p[0]), "%lu", size);
    assert_int_equal(value_of("class.6000.used_blocks"), before + UNIT_COUNT(p));
    assert_int_equal(value_of("class.6000.used_bytes"), size * (before + UNIT_COUNT(p)));
    CHECK(value_of("class.6000.slots_in_use") * HAK_SLOT_BYTES >= size * UNIT_COUNT(p), "too few");
    CHECK(value_of("class.6000.slabs") > 30, "too few");
    assert_int_equal(set("class.6000.slabs", 1), EPERM);
    assert_int_equal(set("class.6000.acquired.fresh", 1), EPERM);
    CHECK(served_before + 30 < served_in_all(), "slabs come from some stage");
    assert_int_equal(set("class.6000.soft_cap_bytes", 1 << 20), 0);
    assert_int_equal(value_of("class.6000.soft_cap_bytes"), 1 << 20);
    assert_int_equal(hakmem_ctl("class.0.slabs", NULL, NULL), EINVAL);
    assert_int_equal(hakmem_ctl("class.65537.slabs", NULL, NULL), EINVAL);
    assert_int_equal(hakmem_ctl("class.6000.nothing", NULL, NULL), ENOENT);
    assert_int_equal(hakmem_ctl("class.6000", NULL, NULL), ENOENT);
    assert_int_equal(hakmem_ctl("class.x.slabs", NULL, NULL), ENOENT);
    for (unsigned i = 0; i < UNIT_COUNT(p); i++)
        hakmem_free(p[i]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_name_can_be_read),
    cmocka_unit_test(numbers_reach_the_layer_that_they_limit),
    cmocka_unit_test(an_option_beats_a_policy),
    cmocka_unit_test(an_option_that_says_the_default_beats_a_policy),
    cmocka_unit_test(prewarming_nothing_beats_a_policy),
    cmocka_unit_test(the_age_of_a_policy_holds_until_that_is_set),
    cmocka_unit_test(the_huge_pages_of_a_policy_hold_until_they_are_set),
    cmocka_unit_test(a_value_out_of_range_changes_nothing),
    cmocka_unit_test(the_old_value_comes_with_the_new),
    cmocka_unit_test(the_old_and_the_new_value_may_be_one_variable),
    cmocka_unit_test(a_limit_that_is_raised_lets_the_program_go_on),
    cmocka_unit_test(mallopt_and_the_option_follow_each_other),
    cmocka_unit_test(classes_have_their_figures),
};

UNIT_MAIN(tests)
