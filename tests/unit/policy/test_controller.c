/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of policy: what a run decides: the control group's limit, without going back and
 * forth; hints; what is loaded, what is tried, and what a run comes to. */
#include "../unit.h"

#include "policy/policy.h"

#define TICK ((uint64_t)HAK_POLICY_TICK_NS)
#define GIB (UINT64_C(1) << 30)

static struct hak_policy_state s;
static struct hak_evidence nothing;
static const bool free_knobs[HAK_KNOBS];

static struct hak_policy_snapshot group_at(uint64_t tick, uint64_t percent)
{
    return (struct hak_policy_snapshot){
        .now_ns = tick * TICK, .group_max_bytes = GIB, .group_used_bytes = GIB / 100 * percent};
}

static uint64_t give_back_at(uint64_t tick, uint64_t percent)
{
    struct hak_policy_snapshot now = group_at(tick, percent);
    return hak_policy_step(&s, &now).give_back;
}

static void near_its_limit_the_group_gets_memory_back_in_two_steps(void **state)
{
    (void)state;
    hak_policy_init(&s, HAK_POLICY_FIXED, &nothing, free_knobs);
    assert_int_equal(give_back_at(1, 50), HAK_GIVE_BACK_NONE);
    assert_int_equal(give_back_at(2, 81), HAK_GIVE_BACK_HALF);
    assert_int_equal(give_back_at(3, 91), HAK_GIVE_BACK_ALL);
    assert_int_equal(give_back_at(4, 87), HAK_GIVE_BACK_ALL); /* it stays until it is farther off */
    assert_int_equal(give_back_at(5, 84), HAK_GIVE_BACK_HALF);
    assert_int_equal(give_back_at(6, 76), HAK_GIVE_BACK_HALF);
    assert_int_equal(give_back_at(7, 74), HAK_GIVE_BACK_NONE);
    assert_int_equal(s.decided, 4);
    assert_int_equal(give_back_at(8, 100), HAK_GIVE_BACK_ALL);
}

static void a_group_that_swings_about_a_threshold_does_not_make_the_knob_swing(void **state)
{
    (void)state;
    struct unit_random r = {3};
    for (uint64_t middle = 78; middle <= 92; middle++) {
        hak_policy_init(&s, HAK_POLICY_FIXED, &nothing, free_knobs);
        for (uint64_t tick = 1; tick <= 1000; tick++)
            give_back_at(tick, middle - 2 + unit_below(&r, 5));
        CHECK(s.decided <= 2, "%d decisions about %d%%", (int)s.decided, (int)middle);
    }
}

static void tasks_that_wait_for_memory_are_a_limit_that_is_reached(void **state)
{
    (void)state;
    hak_policy_init(&s, HAK_POLICY_FIXED, &nothing, free_knobs);
    struct hak_policy_snapshot now = group_at(1, 10);
    hak_policy_step(&s, &now);
    now.now_ns += TICK;
    now.group_stalled_us += TICK / 1000 / 5;
    assert_int_equal(hak_policy_step(&s, &now).give_back, HAK_GIVE_BACK_ALL);
    for (unsigned tick = 1; tick <= 8; tick++) { /* and is so for a second more */
        assert_int_equal(s.give_back, HAK_GIVE_BACK_ALL);
        now.now_ns += TICK;
        now.group_stalled_us += TICK / 1000 / 50;
        hak_policy_step(&s, &now);
    }
    assert_int_equal(s.give_back, HAK_GIVE_BACK_NONE);
}

static void tasks_that_wait_now_and_then_do_not_make_the_knob_swing(void **state)
{
    (void)state;
    struct unit_random r = {5};
    uint64_t stalled_us = 0;
    hak_policy_init(&s, HAK_POLICY_FIXED, &nothing, free_knobs);
    for (uint64_t tick = 1; tick <= 1000; tick++) {
        struct hak_policy_snapshot now = group_at(tick, 10);
        stalled_us += tick % 6 == 0 ? TICK / 1000 : unit_below(&r, TICK / 1000 / 20);
        now.group_stalled_us = stalled_us;
        hak_policy_step(&s, &now);
    }
    assert_int_equal(s.decided, 1);
    assert_int_equal(s.give_back, HAK_GIVE_BACK_ALL);
}

static void without_a_limit_nothing_is_given_back(void **state)
{
    (void)state;
    hak_policy_init(&s, HAK_POLICY_FIXED, &nothing, free_knobs);
    struct hak_policy_snapshot now = {.now_ns = TICK, .group_used_bytes = UINT64_MAX};
    assert_int_equal(hak_policy_step(&s, &now).give_back, HAK_GIVE_BACK_NONE);
    now = (struct hak_policy_snapshot){.now_ns = TICK, .group_max_bytes = 1};
    assert_int_equal(hak_policy_step(&s, &now).give_back, HAK_GIVE_BACK_NONE);
    assert_int_equal(s.decided, 0);
}

static struct hak_evidence evidence_for(unsigned knob, unsigned arm)
{
    struct hak_evidence e = {
        .base_plays = 3, .base_us = 3000000, .base_cpu_us = 3000000, .base_kib = 300000};
    for (int i = 0; i < 5; i++)
        hak_arm_play(&e.arm[knob][arm], 800000, HAK_PPM);
    return e;
}

static void frozen_and_learning_use_what_is_known_and_never_change_it(void **state)
{
    (void)state;
    static struct hak_evidence e;
    e = evidence_for(HAK_KNOB_HUGE_PAGES, 1);
    for (unsigned mode = HAK_POLICY_FROZEN; mode <= HAK_POLICY_LEARN; mode++) {
        hak_policy_init(&s, mode, &e, free_knobs);
        for (uint64_t tick = 1; tick < 200; tick++) {
            struct hak_policy_snapshot now = {.now_ns = tick * TICK,
                                              .faults = tick * tick * 1000,
                                              .mapped_superslabs = tick * tick,
                                              .resident_bytes = GIB,
                                              .kept_bytes = GIB / 2};
            struct hak_knobs knobs = hak_policy_step(&s, &now);
            for (unsigned k = 0; k < HAK_KNOBS; k++)
                assert_int_equal(knobs.value[k],
                                 hak_knob_info[k].arm[k == HAK_KNOB_HUGE_PAGES ? 1 : 0].value);
        }
        assert_int_equal(s.learned.arm[HAK_KNOB_AGE][1].hints, mode == HAK_POLICY_LEARN ? 198 : 0);
    }
    bool fixed[HAK_KNOBS] = {[HAK_KNOB_HUGE_PAGES] = true};
    hak_policy_init(&s, HAK_POLICY_FROZEN, &e, fixed);
    assert_int_equal(s.arm[HAK_KNOB_HUGE_PAGES], 0);
}

static struct hak_policy_snapshot run_at(uint64_t tick, uint64_t cpu_percent, uint64_t mib)
{
    return (struct hak_policy_snapshot){.now_ns = tick * TICK,
                                        .cpu_ns = tick * TICK / 100 * cpu_percent,
                                        .resident_bytes = mib << 20,
                                        .kept_bytes = mib << 18};
}

static void run(unsigned ticks, uint64_t cpu_percent, uint64_t mib)
{
    struct hak_policy_snapshot now;
    for (unsigned tick = 1; tick <= ticks; tick++) {
        now = run_at(tick, cpu_percent, mib);
        hak_policy_step(&s, &now);
    }
    now = run_at(ticks + 1, cpu_percent, mib);
    hak_policy_end(&s, &now);
}

static void runs_with_the_defaults_are_the_measure_of_those_that_try(void **state)
{
    (void)state;
    static struct hak_evidence e;
    for (int i = 0; i < 3; i++) {
        hak_policy_init(&s, HAK_POLICY_TRY, &e, free_knobs);
        assert_int_equal(s.tried_arm, 0);
        run(100, 100, 64);
        hak_evidence_add(&e, &s.learned);
    }
    assert_int_equal(e.runs, 3);
    assert_int_equal(e.base_plays, 3);
    assert_int_equal(e.base_cpu_us / 3, 101 * TICK / 1000);
    assert_int_equal(e.base_kib / 3, 64 << 10);
    hak_policy_init(&s, HAK_POLICY_TRY, &e, free_knobs);
    assert_int_equal(s.tried_knob, HAK_KNOB_AGE); /* the first that the counters hint at */
    assert_int_equal(s.tried_arm, 1);
    assert_int_equal(hak_policy_knobs(&s).value[HAK_KNOB_AGE], 100000000);
    run(100, 110, 32);
    const struct hak_arm_evidence *arm = &s.learned.arm[HAK_KNOB_AGE][1];
    assert_int_equal(arm->plays, 1);
    assert_in_range(arm->time, 1099000, 1101000);
    assert_in_range(arm->memory, 499000, 501000);
    assert_in_range(arm->reward, 649000, 651000); /* 2 - 1.1 - 0.25 */
    /* now of a program that waits for three quarters of its time */
    e.base_cpu_us = 3 * (101 * TICK / 1000) / 4;
    hak_policy_init(&s, HAK_POLICY_TRY, &e, free_knobs);
    run(100, 50, 64);
    assert_in_range(s.learned.arm[HAK_KNOB_AGE][1].time, 1990000, 2010000);
    hak_policy_init(&s, HAK_POLICY_TRY, &e, free_knobs);
    run(100, 5, 64);
    assert_in_range(s.learned.arm[HAK_KNOB_AGE][1].time, 195000, 205000);
}

/* 200 days of 64 processors and 1 TiB. */
static void a_long_run_of_a_large_program_is_measured_as_others_are(void **state)
{
    (void)state;
    static struct hak_evidence e;
    const uint64_t day_ns = UINT64_C(86400) * 1000000000;
    for (int i = 0; i < 4; i++) {
        hak_policy_init(&s, HAK_POLICY_TRY, &e, free_knobs);
        assert_int_equal(s.tried_arm, i < 3 ? 0 : 1);
        struct hak_policy_snapshot now = {0};
        for (uint64_t day = 1; day <= 200; day++) {
            now = (struct hak_policy_snapshot){.now_ns = day * day_ns,
                                               .cpu_ns = day * day_ns * 64,
                                               .resident_bytes = UINT64_C(1) << 40,
                                               .kept_bytes = UINT64_C(1) << 38};
            hak_policy_step(&s, &now);
        }
        hak_policy_end(&s, &now);
        hak_evidence_add(&e, &s.learned);
    }
    assert_int_equal(e.base_kib / 3, 1 << 30);
    assert_int_equal(s.learned.arm[s.tried_knob][1].time, HAK_PPM);
    assert_int_equal(s.learned.arm[s.tried_knob][1].memory, HAK_PPM);
}

/* The tick at which the arm was given up, 0: never. */
static unsigned given_up(uint64_t cpu_percent, uint64_t mib)
{
    static struct hak_evidence e;
    e = (struct hak_evidence){
        .base_plays = 3, .base_us = 300 * TICK / 1000, .base_cpu_us = 300 * TICK / 1000};
    e.base_kib = UINT64_C(3) * 64 << 10;
    e.arm[HAK_KNOB_SPARE][2].hints = 1;
    hak_policy_init(&s, HAK_POLICY_TRY, &e, free_knobs);
    assert_int_equal(s.arm[HAK_KNOB_SPARE], 2);
    for (unsigned tick = 1; tick <= 100; tick++) {
        struct hak_policy_snapshot now = run_at(tick, cpu_percent, mib);
        if (hak_policy_step(&s, &now).value[HAK_KNOB_SPARE] == 4 << 20)
            return tick;
    }
    return 0;
}

static void an_arm_that_costs_too_much_is_given_up_and_not_tried_again(void **state)
{
    (void)state;
    char buffer[16384];
    struct hak_text text;
    unsigned knob;
    unsigned arm;
    assert_int_equal(given_up(124, 95), 0);
    assert_in_range(given_up(200, 64), 62, 63); /* with 125% of what the defaults take in all */
    assert_in_range(given_up(100, 97), 51, 52); /* memory is judged when half of the time is over */
    hak_text_begin(&text, buffer, sizeof buffer);
    hak_policy_explain(&s, &text, "", "\n", "");
    assert_non_null(strstr(buffer, "spare 33554432 -> 4194304, rule ended, percent 151\n"));
    struct hak_policy_snapshot last = run_at(101, 100, 97);
    hak_policy_end(&s, &last);
    assert_int_equal(s.learned.arm[HAK_KNOB_SPARE][2].plays, 1);
    static struct hak_evidence after;
    after = s.before;
    hak_evidence_add(&after, &s.learned);
    for (unsigned k = 0; k < HAK_KNOBS; k++) /* hints of this run are for others */
        for (unsigned a = 1; a < HAK_ARMS; a++)
            after.arm[k][a].hints = k == HAK_KNOB_SPARE && a == 2;
    assert_false(hak_bandit_pick(&after, free_knobs, &knob, &arm));
}

static void a_run_of_a_moment_teaches_nothing(void **state)
{
    (void)state;
    hak_policy_init(&s, HAK_POLICY_TRY, &nothing, free_knobs);
    run(2, 100, 64);
    assert_int_equal(s.learned.runs, 0);
    assert_int_equal(s.learned.base_plays, 0);
}

static void every_decision_is_explained_and_the_last_ones_are_kept(void **state)
{
    (void)state;
    char buffer[16384];
    struct hak_text text;
    hak_policy_init(&s, HAK_POLICY_FIXED, &nothing, free_knobs);
    give_back_at(1, 81);
    hak_text_begin(&text, buffer, sizeof buffer);
    hak_policy_explain(&s, &text, "<", ">", "|");
    assert_string_equal(buffer, "<tick 1: give_back 0 -> 1, rule near, percent 80>");
    for (uint64_t tick = 2; tick < 200; tick++)
        give_back_at(tick, tick % 2 ? 95 : 10);
    hak_text_begin(&text, buffer, sizeof buffer);
    hak_policy_explain(&s, &text, "", "\n", "");
    unsigned lines = 0;
    for (const char *at = buffer; *at != '\0'; at++)
        lines += *at == '\n';
    assert_int_equal(lines, HAK_DECISIONS_KEPT);
    assert_non_null(strstr(buffer, "tick 199: give_back 0 -> 2, rule near"));
    assert_null(strstr(buffer, "tick 1:"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(near_its_limit_the_group_gets_memory_back_in_two_steps),
    cmocka_unit_test(a_group_that_swings_about_a_threshold_does_not_make_the_knob_swing),
    cmocka_unit_test(tasks_that_wait_for_memory_are_a_limit_that_is_reached),
    cmocka_unit_test(tasks_that_wait_now_and_then_do_not_make_the_knob_swing),
    cmocka_unit_test(without_a_limit_nothing_is_given_back),
    cmocka_unit_test(frozen_and_learning_use_what_is_known_and_never_change_it),
    cmocka_unit_test(runs_with_the_defaults_are_the_measure_of_those_that_try),
    cmocka_unit_test(a_long_run_of_a_large_program_is_measured_as_others_are),
    cmocka_unit_test(an_arm_that_costs_too_much_is_given_up_and_not_tried_again),
    cmocka_unit_test(a_run_of_a_moment_teaches_nothing),
    cmocka_unit_test(every_decision_is_explained_and_the_last_ones_are_kept),
};
UNIT_MAIN(tests)
