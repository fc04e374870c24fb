/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of policy: sums that merge, what they are evidence for, and the bandit's arithmetic.
 */
#include "../unit.h"

#include "policy/policy.h"

static void fill(struct hak_evidence *e, struct unit_random *r)
{
    uint64_t *words = (uint64_t *)(void *)e;
    for (size_t i = 0; i < sizeof *e / sizeof *words; i++)
        words[i] = unit_below(r, 3) == 0 ? HAK_SUM_MOST - unit_below(r, 3) : unit_below(r, 1000);
}

static void adding_is_associative_and_commutative_even_where_sums_are_full(void **state)
{
    (void)state;
    struct unit_random r = {42};
    static struct hak_evidence a, b, c, left, right, swapped;
    for (int round = 0; round < 200; round++) {
        fill(&a, &r);
        fill(&b, &r);
        fill(&c, &r);
        left = a;
        hak_evidence_add(&left, &b);
        hak_evidence_add(&left, &c);
        right = b;
        hak_evidence_add(&right, &c);
        swapped = right;
        hak_evidence_add(&swapped, &a);
        struct hak_evidence sum = a;
        hak_evidence_add(&sum, &right);
        assert_memory_equal(&left, &sum, sizeof left);
        assert_memory_equal(&swapped, &sum, sizeof sum);
    }
}

static unsigned chosen(unsigned plays, uint64_t time, uint64_t memory, uint64_t spread)
{
    static struct hak_evidence e;
    e = (struct hak_evidence){0};
    for (unsigned i = 0; i < plays; i++)
        hak_arm_play(&e.arm[HAK_KNOB_SPARE][2], i % 2 ? time + spread : time - spread, memory);
    uint64_t worth;
    unsigned arm = hak_evidence_choose(&e, HAK_KNOB_SPARE, &worth);
    assert_int_equal(worth == 0, arm == 0);
    return arm;
}

static void an_arm_is_chosen_when_it_is_better_by_more_than_chance(void **state)
{
    (void)state;
    assert_int_equal(chosen(0, 0, 0, 0), 0);
    assert_int_equal(chosen(HAK_CHOOSE_PLAYS - 1, 800000, HAK_PPM, 0), 0);
    assert_int_equal(chosen(HAK_CHOOSE_PLAYS, 800000, HAK_PPM, 0), 2);
    assert_int_equal(chosen(10, HAK_PPM, HAK_PPM, 0), 0);
    assert_int_equal(chosen(10, 995000, HAK_PPM, 0), 0); /* half a per cent is nothing */
    assert_int_equal(chosen(10, HAK_PPM, 900000, 0),
                     2); /* ten per cent of the memory is 5% of it */
    assert_int_equal(chosen(10, 900000, 1300000, 0), 0); /* ten per cent of time is not worth 30% */
    assert_int_equal(chosen(10, 1040000, 800000, 0), 2);
    assert_int_equal(chosen(10, 1340000, 500000, 0), 0); /* a third more time for half the memory */
    assert_int_equal(chosen(10, 800000, 1250000, 0), 0);
    assert_int_equal(chosen(10, 400000, 1350000, 0), 2);
    assert_int_equal(chosen(4, 950000, HAK_PPM, 200000), 0);
    assert_int_equal(chosen(400, 950000, HAK_PPM, 200000), 2); /* but with more runs it is known */
}

static void a_ruinous_run_is_a_reward_of_nothing(void **state)
{
    (void)state;
    struct hak_arm_evidence arm = {0};
    hak_arm_play(&arm, 4 * HAK_PPM, 4 * HAK_PPM);
    assert_int_equal(arm.reward, 0);
    hak_arm_play(&arm, 0, 0);
    assert_int_equal(arm.reward, HAK_PPM);
    hak_arm_play(&arm, HAK_PPM, HAK_PPM);
    assert_int_equal(arm.reward, HAK_PPM + HAK_PPM / 2);
}

static void the_square_root_is_the_largest_whose_square_fits(void **state)
{
    (void)state;
    struct unit_random r = {7};
    assert_int_equal(hak_square_root(0), 0);
    assert_int_equal(hak_square_root(UINT64_MAX), UINT32_MAX);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = unit_random(&r) >> unit_below(&r, 60);
        uint64_t root = hak_square_root(x);
        assert_true(root * root <= x && x - root * root <= 2 * root);
    }
}

static void the_bound_is_ucb1s(void **state)
{
    (void)state;
    struct hak_arm_evidence arm = {.plays = 0};
    assert_true(hak_bandit_bound(&arm, 10) == UINT64_MAX);
    arm = (struct hak_arm_evidence){.plays = 4, .reward = 2000000};
    /* 0.5 + sqrt(2 ln 21 / 4) / 16 = 0.577114, of floating point */
    assert_in_range(hak_bandit_bound(&arm, 20), 576900, 577300);
    arm.plays = 100;
    arm.reward = 60000000;
    assert_in_range(hak_bandit_bound(&arm, 1000), 623000, 623500); /* 0.6 + 0.0232 */
}

static void the_first_runs_are_with_the_defaults_and_then_one_in_five_or_so(void **state)
{
    (void)state;
    static struct hak_evidence e;
    const bool fixed[HAK_KNOBS] = {false};
    unsigned knob;
    unsigned arm;
    unsigned base = 0;
    e.arm[HAK_KNOB_SPARE][1].hints = e.arm[HAK_KNOB_SPARE][2].hints = 1;
    for (int run = 0; run < 60; run++) {
        bool picked = hak_bandit_pick(&e, fixed, &knob, &arm);
        assert_true(run >= 3 || !picked);
        if (!picked) {
            e.base_plays++;
            base++;
            continue;
        }
        assert_int_equal(knob, HAK_KNOB_SPARE);
        hak_arm_play(&e.arm[knob][arm], arm == 2 ? 900000 : 1100000, HAK_PPM);
    }
    assert_in_range(base, 11, 14);
    assert_true(e.arm[HAK_KNOB_SPARE][2].plays > 2 * e.arm[HAK_KNOB_SPARE][1].plays);
    assert_true(e.arm[HAK_KNOB_SPARE][1].plays >= 1);
    uint64_t worth;
    assert_int_equal(hak_evidence_choose(&e, HAK_KNOB_SPARE, &worth), 2);
}

static void what_an_option_fixes_and_what_no_counter_hints_at_is_not_tried(void **state)
{
    (void)state;
    static struct hak_evidence e = {.base_plays = 100};
    bool fixed[HAK_KNOBS] = {false};
    unsigned knob;
    unsigned arm;
    assert_false(hak_bandit_pick(&e, fixed, &knob, &arm));
    e.arm[HAK_KNOB_AGE][1].hints = 5;
    assert_true(hak_bandit_pick(&e, fixed, &knob, &arm));
    assert_int_equal(knob, HAK_KNOB_AGE);
    assert_int_equal(arm, 1);
    fixed[HAK_KNOB_AGE] = true;
    assert_false(hak_bandit_pick(&e, fixed, &knob, &arm));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(adding_is_associative_and_commutative_even_where_sums_are_full),
    cmocka_unit_test(an_arm_is_chosen_when_it_is_better_by_more_than_chance),
    cmocka_unit_test(a_ruinous_run_is_a_reward_of_nothing),
    cmocka_unit_test(the_square_root_is_the_largest_whose_square_fits),
    cmocka_unit_test(the_bound_is_ucb1s),
    cmocka_unit_test(the_first_runs_are_with_the_defaults_and_then_one_in_five_or_so),
    cmocka_unit_test(what_an_option_fixes_and_what_no_counter_hints_at_is_not_tried),
};
UNIT_MAIN(tests)
