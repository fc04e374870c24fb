/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of policy: the policy file: what is written reads back, what is none is refused, and
 * the process's own files. */
#include "../unit.h"

#include "fake_os.h"
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define HEAD "hakmem-policy 1\n"

static char text[HAK_POLICY_FILE_MOST];
static struct hak_evidence e, f;

static void start_classes(void)
{
    hak_classes_start();
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    struct unit_random r = {11};
    start_classes();
    for (int round = 0; round < 100; round++) {
        e = (struct hak_evidence){.runs = unit_below(&r, 9), .ticks = unit_random(&r) >> 9};
        e.base_plays = unit_below(&r, 100);
        for (unsigned k = 0; k < HAK_KNOBS; k++) {
            struct hak_arm_evidence *arm = &e.arm[k][1 + unit_below(&r, 2)];
            for (size_t i = unit_below(&r, 5); i > 0; i--)
                hak_arm_play(arm, unit_below(&r, 2000000), unit_below(&r, 2000000));
            arm->hints = unit_below(&r, 3);
            if (arm - e.arm[k] == 2 && hak_knob_info[k].arm[2].name == NULL)
                *arm = (struct hak_arm_evidence){0};
        }
        for (unsigned i = 0; i < 10; i++)
            e.bin[unit_below(&r, HAK_CLASSES)] =
                (struct hak_mean_evidence){1 + unit_below(&r, 1000), HAK_SUM_MOST};
        f = (struct hak_evidence){.runs = 77};
        size_t length = hak_policy_print(&e, text, sizeof text);
        assert_true(length < sizeof text);
        assert_int_equal(hak_policy_parse(text, length, &f), 0);
        assert_memory_equal(&e, &f, sizeof e);
    }
}

static unsigned parse(const char *s)
{
    f = (struct hak_evidence){.runs = 77};
    unsigned line = hak_policy_parse(s, strlen(s), &f);
    assert_true(line == 0 || f.runs == 77); /* left alone */
    return line;
}

static void what_is_no_policy_is_refused_with_the_number_of_its_line(void **state)
{
    (void)state;
    start_classes();
    assert_int_equal(parse(HEAD), 0);
    assert_int_equal(parse(HEAD "# a remark\n\n   \nruns  3   4\narm keep all 1 2 3 4 5 6\n"), 0);
    assert_int_equal(parse(""), 1);
    assert_int_equal(parse("\177ELF\1\2\3"), 1);
    assert_int_equal(parse("hakmem-policy 2\n"), 1);
    assert_int_equal(parse("hakmem-policy 1"), 1); /* cut off */
    assert_int_equal(parse(HEAD "runs 3 4"), 2);
    assert_int_equal(parse(HEAD "runs 3\n"), 2);
    assert_int_equal(parse(HEAD "runs 3 4 5\n"), 2);
    assert_int_equal(parse(HEAD "runs 3 -4\n"), 2);
    assert_int_equal(parse(HEAD "runs 3 72057594037927937\n"), 2); /* above 2^56 */
    assert_int_equal(parse(HEAD "runs 3 99999999999999999999\n"), 2);
    assert_int_equal(parse(HEAD "\nwalks 3 4\n"), 3);
    assert_int_equal(parse(HEAD "arm keep quarter 1 2 3 4 5 6\n"), 2); /* the default is no arm */
    assert_int_equal(parse(HEAD "arm keep most 1 2 3 4 5 6\n"), 2);
    assert_int_equal(parse(HEAD "arm keeps all 1 2 3 4 5 6\n"), 2);
    assert_int_equal(parse(HEAD "arm keep all 1 2000001 3 4 5 6\n"), 2); /* a reward above 1 */
    assert_int_equal(parse(HEAD "arm keep all 0 0 0 0 0 0\n"), 2);
    assert_int_equal(parse(HEAD "arm keep all 1 2 3 4 5 6\narm keep all 1 2 3 4 5 6\n"), 3);
    assert_int_equal(parse(HEAD "bin 64 1 31\nbin 64 1 31\n"), 3);
    assert_int_equal(parse(HEAD "bin 65 1\n"), 2);
    assert_int_equal(parse(HEAD "bin 64 0 31\n"), 2);
}

static void bins_of_sizes_that_are_no_class_are_left_out(void **state)
{
    (void)state;
    start_classes();
    static const struct hak_mean_evidence none = {0};
    assert_int_equal(parse(HEAD "bin 65 1 31\nbin 64 2 62\n"), 0);
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++)
        if (hak_class(cls)->size_bytes != 64)
            assert_memory_equal(&f.bin[cls], &none, sizeof none);
    assert_int_equal(f.bin[hak_class_of(64)].sum, 62);
}

static char path[64];

static const char *file_with(const char *s)
{
    (void)snprintf(path, sizeof path, "/tmp/hakmem-policy-%d", (int)getpid());
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0 && write(file, s, strlen(s)) == (ssize_t)strlen(s));
    close(file);
    return path;
}

static int start(enum hak_policy_mode mode, const char *file)
{
    struct hak_policy_config config = {.mode = mode, .file = file};
    start_classes();
    return hak_policy_start(&config);
}

static struct hak_policy_summary summary(void)
{
    struct hak_policy_summary s;
    hak_policy_summary(&s);
    return s;
}

static void a_policy_sets_the_knob_of_its_best_arm_and_no_other(void **state)
{
    (void)state;
    const char *file =
        file_with(HEAD "arm keep all 5 3000000 180000000 0 0 1\n"
                       "arm age 100ms 5 3500000 245000000 0 0 1\n"
                       "arm classes coarse 5 3000000 180000000 0 0 1\nbin 64 4 2048\n");
    assert_int_equal(start(HAK_POLICY_FROZEN, file), 0);
    unlink(file);
    assert_int_equal(hak_load_relaxed(&hak_pool_knobs.keep_percent), 25);
    assert_int_equal(hak_load_relaxed(&hak_cache_knobs.refine_slots), 64);
    assert_int_equal(hak_load_relaxed(&hak_cache_knobs.idle_ticks), 1);
    assert_int_equal(hak_load_relaxed(&hak_cache_knobs.bin_blocks[hak_class_of(64)]), 512);
    assert_int_equal(summary().mode, HAK_POLICY_FROZEN);
    assert_int_equal(summary().decisions, 1);
}

static void a_file_that_is_none_leaves_the_defaults(void **state)
{
    (void)state;
    struct hak_knobs before = summary().knobs;
    assert_int_equal(start(HAK_POLICY_FROZEN, "/nowhere/at/all"), ENOENT);
    assert_int_equal(start(HAK_POLICY_FROZEN, "/tmp"), EISDIR);
    assert_int_equal(start(HAK_POLICY_LEARN, file_with("no policy\n")), -1);
    assert_int_equal(summary().mode, HAK_POLICY_FIXED);
    struct hak_knobs after = summary().knobs;
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(hak_policy_write(true), 0); /* and it stays as it was */
    assert_int_equal(start(HAK_POLICY_LEARN, path), -1);
    fake_os_fail(FAKE_MAP, 1, ENOMEM);
    assert_int_equal(start(HAK_POLICY_LEARN, path), ENOMEM);
    unlink(path);
}

static void run_ticks(unsigned ticks)
{
    static uint64_t now = 1000000000;
    for (unsigned i = 0; i < ticks; i++) {
        fake_os_set_time_ns(now += HAK_POLICY_TICK_NS);
        hak_policy_tick_any();
        hak_policy_tick_any(); /* not a second time */
    }
}

static void two_processes_that_learn_into_one_file_both_count(void **state)
{
    (void)state;
    const char *file = file_with("");
    unlink(file);
    fake_os_set_time_ns(1);
    assert_int_equal(hak_space_start(), 0);
    assert_int_equal(start(HAK_POLICY_LEARN, file), 0);
    run_ticks(5);
    assert_int_equal(summary().ticks, 5);
    (void)file_with(HEAD "runs 2 100\nbin 64 100 3100\n"); /* of another process */
    int next_file = dup(0);
    close(next_file);
    assert_int_equal(hak_policy_write(true), 0);
    int again = open(file, O_RDONLY);
    assert_int_equal(again, next_file); /* nothing stayed open */
    ssize_t length = read(again, text, sizeof text);
    close(again);
    assert_int_equal(hak_policy_parse(text, (size_t)length, &f), 0);
    assert_int_equal(f.runs, 3);
    assert_int_equal(f.ticks, 104);
    assert_int_equal(f.bin[hak_class_of(64)].weight, 100);
    unlink(file);
}

static void the_child_of_a_fork_learns_nothing(void **state)
{
    (void)state;
    const char *file = file_with(HEAD);
    assert_int_equal(hak_space_start(), 0);
    assert_int_equal(start(HAK_POLICY_LEARN, file), 0);
    run_ticks(5);
    hak_policy_fork_child();
    assert_int_equal(hak_policy_write(true), 0);
    struct stat now;
    assert_int_equal(stat(file, &now), 0);
    assert_int_equal(now.st_size, sizeof HEAD - 1);
    unlink(file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_written_reads_back),
    cmocka_unit_test(what_is_no_policy_is_refused_with_the_number_of_its_line),
    cmocka_unit_test(bins_of_sizes_that_are_no_class_are_left_out),
    cmocka_unit_test(a_policy_sets_the_knob_of_its_best_arm_and_no_other),
    cmocka_unit_test(a_file_that_is_none_leaves_the_defaults),
    cmocka_unit_test(two_processes_that_learn_into_one_file_both_count),
    cmocka_unit_test(the_child_of_a_fork_learns_nothing),
};
UNIT_MAIN(tests)
