/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: the policy file. The input is a file. Checked: what is refused changes nothing; what is
 * taken reads back as it is written; adding files in any order gives the same; every knob that is
 * chosen has evidence. */
#include "fuzz.h"

#include "policy/policy.h"

static char written[HAK_POLICY_FILE_MOST];

static void check_sum(const struct hak_evidence *a)
{
    static struct hak_evidence left, right;
    left = right = *a;
    hak_evidence_add(&left, a);
    hak_evidence_add(&left, a); /* (a + a) + a */
    static struct hak_evidence two;
    two = *a;
    hak_evidence_add(&two, a);
    hak_evidence_add(&right, &two); /* a + (a + a) */
    fuzz_check(memcmp(&left, &right, sizeof left) == 0, "adding is not associative");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hak_evidence e, again;
    static const bool fixed[HAK_KNOBS];
    unsigned knob = 0;
    unsigned arm = 0;
    hak_classes_start();
    char *text =
        malloc(size != 0 ? size : 1); /* not a byte longer: a sanitizer sees what is read */
    fuzz_check(text != NULL, "the test has no memory");
    memcpy(text, data, size);
    e = (struct hak_evidence){.runs = 4711};
    unsigned line = hak_policy_parse(text, size, &e);
    free(text);
    if (line != 0) {
        again = (struct hak_evidence){.runs = 4711};
        fuzz_check(memcmp(&e, &again, sizeof e) == 0, "refused in line %u, and changed", line);
        return 0;
    }
    size_t length = hak_policy_print(&e, written, sizeof written);
    fuzz_check(length < sizeof written, "%zu bytes do not fit", length);
    fuzz_check(hak_policy_parse(written, length, &again) == 0, "cannot be read back:\n%s", written);
    fuzz_check(memcmp(&e, &again, sizeof e) == 0, "reads back as something else:\n%s", written);
    for (knob = 0; knob < HAK_KNOBS; knob++) {
        uint64_t worth;
        arm = hak_evidence_choose(&e, knob, &worth);
        fuzz_check(arm == 0 || (arm < HAK_ARMS && e.arm[knob][arm].plays >= HAK_CHOOSE_PLAYS),
                   "arm %u of knob %u", arm, knob);
    }
    if (hak_bandit_pick(&e, fixed, &knob, &arm))
        fuzz_check(knob < HAK_KNOBS && arm > 0 && arm < HAK_ARMS && e.arm[knob][arm].hints != 0,
                   "tries arm %u of knob %u", arm, knob);
    check_sum(&e);
    return 0;
}
