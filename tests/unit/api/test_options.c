/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of api: options read from a made-up environment, and what is said about those that are
 * wrong. */
#include "../unit.h"

#include "api/api_internal.h"
#include "fake_os.h"
#include "pool/pool_internal.h"
#include "space/space_internal.h"

/* Of the program, as hakmem.h has it. */
const char *hakmem_conf;

/* Reads one or two variables and returns what was said on stderr. */
static const char *read_options(char *first, char *second)
{
    char *environment[] = {"PATH=/bin", first, second, NULL};
    fake_os_capture_stderr();
    hak_options_read(environment);
    return fake_os_captured();
}

static void assert_said(const char *said, const char *part)
{
    CHECK(strstr(said, part) != NULL, "\"%s\" lacks \"%s\"", said, part);
}

/* One line, that begins with the library's name. */
static void assert_one_line(const char *said)
{
    CHECK(strncmp(said, "hakmem: ", 8) == 0, "\"%s\"", said);
    CHECK(strchr(said, '\n') == said + strlen(said) - 1, "\"%s\"", said);
}

static void without_variables_everything_has_its_default_and_nothing_is_said(void **state)
{
    (void)state;
    assert_string_equal(read_options("HOME=/", NULL), "");
    assert_false(hak_options.stats);
    assert_false(hak_options.stage_stats);
    assert_int_equal(hak_options.superslab_max_cached, 1024);
    assert_int_equal(hak_options.superslab_max_memory_mb, 0);
    assert_int_equal(hak_options.superslab_ttl_sec, 1);
    fake_os_capture_stderr();
    hak_options_read(NULL);
    assert_string_equal(fake_os_captured(), "");
}

/* Nothing is applied then: the other layers must begin with the same. The first test: nothing has
 * been applied yet. */
static void the_defaults_of_options_are_what_holds_without_any(void **state)
{
    (void)state;
    assert_string_equal(read_options("HOME=/", NULL), "");
    struct hak_pool_config config = hak_options_pool_config();
    assert_int_equal(hak_pool.config.max_count, config.retired_max_count);
    assert_int_equal(hak_pool.config.max_bytes, config.retired_max_bytes);
    assert_int_equal(hak_pool.config.max_age_ns, config.retired_max_age_ns);
    assert_int_equal(hak_pool.config.huge_pages_from_bytes, config.huge_pages_from_bytes);
    assert_int_equal(hak_pool.limit_superslabs, hak_options.limit_mb);
    assert_int_equal(hak_failures.trace, hak_options.trace_failures);
    assert_int_equal(hak_trace_kinds, 0);
}

static void flags_have_several_spellings(void **state)
{
    (void)state;
    static char *const yes[] = {"HAKMEM_STATS=1", "HAKMEM_STATS=true", "HAKMEM_STATS=ON",
                                "HAKMEM_STATS=Yes"};
    static char *const no[] = {"HAKMEM_STATS=0", "HAKMEM_STATS=false", "HAKMEM_STATS=off",
                               "HAKMEM_STATS=no"};
    for (size_t i = 0; i < UNIT_COUNT(yes); i++) {
        assert_string_equal(read_options(yes[i], NULL), "");
        CHECK(hak_options.stats, "%s", yes[i]);
        assert_string_equal(read_options(no[i], NULL), "");
        CHECK(!hak_options.stats, "%s", no[i]);
    }
}

static void numbers_reach_the_layer_that_they_limit(void **state)
{
    (void)state;
    assert_string_equal(
        read_options("HAKMEM_SUPERSLAB_MAX_CACHED=17", "HAKMEM_SUPERSLAB_TTL_SEC=3"), "");
    assert_int_equal(hak_pool.config.max_count, 17);
    assert_int_equal(hak_pool.config.max_age_ns, 3000000000u);
    assert_string_equal(read_options("HAKMEM_SUPERSLAB_MAX_MEMORY_MB=64", NULL), "");
    assert_int_equal(hak_pool.config.max_bytes, 64u << 20);
    assert_int_equal(hak_pool.config.max_count, 17);
    assert_string_equal(read_options("HAKMEM_SUPERSLAB_MAX_CACHED=2k", NULL), "");
    assert_int_equal(hak_pool.config.max_count, 2048);
}

static void mebibytes_with_a_suffix_are_bytes(void **state)
{
    (void)state;
    static const struct {
        char *variable;
        uint64_t mib;
    } good[] = {{"HAKMEM_LIMIT_MB=512", 512},   {"HAKMEM_LIMIT_MB=512m", 512},
                {"HAKMEM_LIMIT_MB=512MB", 512}, {"HAKMEM_LIMIT_MB=2GiB", 2048},
                {"HAKMEM_LIMIT_MB=2048k", 2},   {"HAKMEM_LIMIT_MB=0", 0}};
    static char *const bad[] = {"HAKMEM_LIMIT_MB=512k", "HAKMEM_LIMIT_MB=100000000g",
                                "HAKMEM_LIMIT_MB=4294967296", "HAKMEM_LIMIT_MB=m"};
    for (size_t i = 0; i < UNIT_COUNT(good); i++) {
        assert_string_equal(read_options(good[i].variable, NULL), "");
        CHECK(hak_options.limit_mb == good[i].mib, "%s", good[i].variable);
    }
    for (size_t i = 0; i < UNIT_COUNT(bad); i++) {
        const char *said = read_options(bad[i], NULL);
        assert_one_line(said);
        assert_said(said, "512, or 512m");
        assert_int_equal(hak_options.limit_mb, 0);
    }
    assert_string_equal(read_options("HAKMEM_SUPERSLAB_MAX_MEMORY_MB=64m", NULL), "");
    assert_int_equal(hak_pool.config.max_bytes, 64u << 20);
    assert_string_equal(read_options("HAKMEM_HUGE_PAGES_FROM_MB=1g", NULL), "");
    assert_int_equal(hak_options.huge_pages_from_mb, 1024);
}

static void an_empty_value_is_none(void **state)
{
    (void)state;
    assert_string_equal(read_options("HAKMEM_SUPERSLAB_MAX_CACHED=", "HAKMEM_STATS="), "");
    assert_string_equal(read_options("HAKMEM_CONF=stats:1", "HAKMEM_STATS="), "");
    assert_true(hak_options.stats);
    assert_string_equal(read_options("HAKMEM_CONF_FILE=", "HAKMEM_CONF="), "");
}

static void a_list_may_have_whole_names(void **state)
{
    (void)state;
    assert_string_equal(read_options("HAKMEM_CONF=HAKMEM_STATS:1,hakmem_limit_mb:6", NULL), "");
    assert_true(hak_options.stats);
    assert_int_equal(hak_options.limit_mb, 6);
}

static void a_list_sets_several(void **state)
{
    (void)state;
    assert_string_equal(
        read_options("HAKMEM_CONF=stats:1,superslab_max_cached:5,SUPERSLAB_TTL_SEC=9", NULL), "");
    assert_true(hak_options.stats);
    assert_int_equal(hak_options.superslab_max_cached, 5);
    assert_int_equal(hak_options.superslab_ttl_sec, 9);
    assert_string_equal(read_options("HAKMEM_CONF=", NULL), "");
    assert_string_equal(read_options("HAKMEM_CONF=stats:0,,", NULL), "");
    assert_false(hak_options.stats);
}

static void a_variable_of_its_own_beats_the_list(void **state)
{
    (void)state;
    read_options("HAKMEM_SUPERSLAB_MAX_CACHED=7", "HAKMEM_CONF=superslab_max_cached:5");
    assert_int_equal(hak_options.superslab_max_cached, 7);
    read_options("HAKMEM_CONF=superslab_max_cached:5", "HAKMEM_SUPERSLAB_MAX_CACHED=8");
    assert_int_equal(hak_options.superslab_max_cached, 8);
}

static void a_bad_value_is_named_and_changes_nothing(void **state)
{
    (void)state;
    static char *const bad[] = {
        "HAKMEM_SUPERSLAB_MAX_CACHED=many",
        "HAKMEM_SUPERSLAB_MAX_CACHED=-1",
        "HAKMEM_SUPERSLAB_MAX_CACHED=1.5",
        "HAKMEM_SUPERSLAB_MAX_CACHED=8g",
        "HAKMEM_SUPERSLAB_MAX_CACHED=99999999999999999999",
        "HAKMEM_STATS=2",
        "HAKMEM_STATS=maybe",
    };
    for (size_t i = 0; i < UNIT_COUNT(bad); i++) {
        const char *said = read_options(bad[i], NULL);
        assert_one_line(said);
        assert_said(said, "bad value");
        assert_said(said, strchr(bad[i], '=') + 1);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(bad[i], "="), bad[i]);
        assert_said(said, name);
        assert_int_equal(hak_options.superslab_max_cached, 1024);
        assert_false(hak_options.stats);
    }
}

/* 129 is no huge number, but more homes than there can be. */
static void a_number_that_is_too_large_is_told_what_may_be(void **state)
{
    (void)state;
    assert_said(read_options("HAKMEM_HOMES=129", NULL),
                "\"129\" (a number is wanted, 128 at most)");
    assert_said(read_options("HAKMEM_PERTURB=256", NULL), "255 at most) for HAKMEM_PERTURB\n");
    assert_said(read_options("HAKMEM_PREWARM_SUPERSLABS=100000", NULL), "65536 at most)");
}

static void an_unknown_name_is_said_with_the_nearest_one(void **state)
{
    (void)state;
    static char *const cases[][2] = {
        {"HAKMEM_STAT=1", "HAKMEM_STATS\n"},
        {"HAKMEM_STATTS=1", "HAKMEM_STATS\n"},
        {"HAKMEM_SUPERSLAB_TTL=1", "HAKMEM_SUPERSLAB_TTL_SEC\n"},
        {"HAKMEM_SUPERSLAB_MAX_CASHED=1", "HAKMEM_SUPERSLAB_MAX_CACHED\n"},
        {"HAKMEM_SUPERSLAB_MAX_MEMORY=1", "HAKMEM_SUPERSLAB_MAX_MEMORY_MB\n"},
        {"HAKMEM_CONF=stage_stats:1", "HAKMEM_STATS\n"},
        {"HAKMEM_POOL_STAGE_STATS=1", "HAKMEM_SHARED_POOL_STAGE_STATS\n"},
        {"HAKMEM_=1", "HAKMEM_"},
    };
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        const char *said = read_options(cases[i][0], NULL);
        assert_one_line(said);
        assert_said(said, "unknown option");
        if (i != 5) /* what is nearest to that one is a matter of taste */
            assert_said(said, cases[i][1]);
    }
}

static void a_very_long_name_or_value_is_cut_off(void **state)
{
    (void)state;
    static char variable[5000];
    memset(variable, 'X', sizeof variable - 1);
    memcpy(variable, "HAKMEM_", 7);
    variable[3000] = '=';
    const char *said = read_options(variable, NULL);
    assert_said(said, "unknown option");
    assert_true(strlen(said) < 300);
    memcpy(variable, "HAKMEM_STATS=", 13);
    said = read_options(variable, NULL);
    assert_said(said, "bad value");
    assert_true(strlen(said) < 300);
    memcpy(variable, "HAKMEM_CONF=X", 13);
    assert_said(read_options(variable, NULL), "unknown option"); /* it has a '=' far behind */
}

static void a_message_has_no_control_characters_of_the_environment(void **state)
{
    (void)state;
    const char *said = read_options("HAKMEM_ST\033[31mA\nT=1", NULL);
    assert_one_line(said);
    assert_said(said, "HAKMEM_ST?[31mA?T is ignored");
    said = read_options("HAKMEM_STATS=\ry\x7f", NULL);
    assert_one_line(said);
    assert_said(said, "\"?y?\"");
}

static void an_entry_of_the_list_without_a_value_is_said(void **state)
{
    (void)state;
    const char *said = read_options("HAKMEM_CONF=stats", NULL);
    assert_one_line(said);
    assert_said(said, "no value");
    assert_said(said, "stats");
    assert_false(hak_options.stats);
}

static void names_of_others_are_left_alone(void **state)
{
    (void)state;
    assert_string_equal(read_options("HAKMEM_LIBRARY=/lib/x.so", "HAKMEMX=1"), "");
    assert_string_equal(read_options("HAKMEM_RECORD=x.trace", "HAKMEM_RECORD_PROCESS=1"), "");
    assert_string_equal(read_options("HAKMEM_PYTHON=/bin/python3", "HAKMEM_COMMAND=hakmem"), "");
    assert_string_equal(read_options("HAKMEM_BENCH_HOME=/usr", "HAKMEM_BENCH_LIBRARY=x.so"), "");
    assert_string_equal(read_options("HAKMEM_BENCH_BUILD=/build", "HAKMEM_BENCH_PEERS=/p"), "");
    assert_string_equal(read_options("XHAKMEM_STATS=1", "HAKMEM_STATS"),
                        ""); /* no '=': no variable */
    assert_false(hak_options.stats);
}

static void a_program_can_have_options_of_its_own(void **state)
{
    (void)state;
    hakmem_conf = "stats:1,limit_mb:64";
    assert_string_equal(read_options("HOME=/", NULL), "");
    assert_true(hak_options.stats);
    assert_int_equal(hak_options.limit_mb, 64);
    assert_string_equal(read_options("HAKMEM_CONF=limit_mb:32", "HAKMEM_STATS=0"), "");
    assert_int_equal(hak_options.limit_mb, 32);
    assert_false(hak_options.stats);
    hakmem_conf = "stats";
    assert_said(read_options("HOME=/", NULL), "write name:value in hakmem_conf");
    hakmem_conf = NULL;
}

/* The variable that names a file with this text. */
static char *file_of_options(const char *text, size_t length)
{
    static char variable[64];
    char *path = variable + snprintf(variable, sizeof variable, "HAKMEM_CONF_FILE=");
    memcpy(path, "/tmp/hakmem-options-XXXXXX", sizeof "/tmp/hakmem-options-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), length);
    assert_int_equal(close(fd), 0);
    return variable;
}

static const char *read_file_of_options(const char *text, size_t length, char *variable)
{
    char *named = file_of_options(text, length);
    const char *said = read_options(named, variable);
    assert_int_equal(unlink(strchr(named, '=') + 1), 0);
    return said;
}

static void relative_paths_are_those_of_the_start(void **state)
{
    (void)state;
    assert_int_equal(chdir("/usr"), 0);
    read_options("HAKMEM_POLICY=learn:none-of-ours", "HAKMEM_PROF_FILE=x-%p");
    assert_string_equal(hak_policy_file(), "/usr/none-of-ours");
    assert_string_equal(hak_options.prof_file, "/usr/x-%p");
    read_options("HAKMEM_POLICY=try:/tmp/none-of-ours", "HAKMEM_PROF_FILE=/x");
    assert_string_equal(hak_policy_file(), "/tmp/none-of-ours");
    assert_string_equal(hak_options.prof_file, "/x");
    char long_path[sizeof "HAKMEM_PROF_FILE=" + HAK_PROF_PATH_BYTES] = "HAKMEM_PROF_FILE=";
    memset(long_path + 17, 'y', HAK_PROF_PATH_BYTES - 1); /* one more would not fit */
    assert_string_equal(read_options(long_path, NULL), "");
    assert_string_equal(hak_options.prof_file, long_path + 17);
}

static void a_file_can_set_options(void **state)
{
    (void)state;
    static const char text[] = "# ours\n\n  limit_mb 64\r\nSTATS = 1\nsuperslab_ttl_sec:7\n"
                               "soft_cap\t64:1,128:2";
    hakmem_conf = "limit_mb:16,superslab_max_cached:3";
    assert_string_equal(read_file_of_options(text, sizeof text - 1, NULL), "");
    assert_true(hak_options.stats);
    assert_int_equal(hak_options.limit_mb, 64);
    assert_int_equal(hak_options.superslab_ttl_sec, 7);
    assert_int_equal(hak_options.superslab_max_cached, 3);
    assert_string_equal(read_file_of_options(text, sizeof text - 1, "HAKMEM_CONF=limit_mb:32"), "");
    assert_int_equal(hak_options.limit_mb, 32);
    hakmem_conf = NULL;
}

static void a_file_that_is_none_is_said(void **state)
{
    (void)state;
    static char text[4200];
    memset(text, ' ', sizeof text);
    assert_string_equal(read_file_of_options(text, 4096, NULL), "");
    assert_said(read_file_of_options(text, 4097, NULL), "longer than 4 KiB");
    assert_said(read_file_of_options("stats 1\n\0", 9, NULL), "no text");
    assert_said(read_options("HAKMEM_CONF_FILE=/nowhere", NULL), "/nowhere cannot be read");
    assert_said(read_options("HAKMEM_CONF_FILE=/tmp", NULL), "/tmp cannot be read");
    const char *said = read_file_of_options("stats\nstats maybe\n", 18, NULL);
    assert_said(said, "write name:value in HAKMEM_CONF_FILE");
    assert_said(said, "bad value \"maybe\"");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_defaults_of_options_are_what_holds_without_any),
    cmocka_unit_test(without_variables_everything_has_its_default_and_nothing_is_said),
    cmocka_unit_test(flags_have_several_spellings),
    cmocka_unit_test(numbers_reach_the_layer_that_they_limit),
    cmocka_unit_test(mebibytes_with_a_suffix_are_bytes),
    cmocka_unit_test(an_empty_value_is_none),
    cmocka_unit_test(a_list_may_have_whole_names),
    cmocka_unit_test(a_list_sets_several),
    cmocka_unit_test(a_variable_of_its_own_beats_the_list),
    cmocka_unit_test(a_bad_value_is_named_and_changes_nothing),
    cmocka_unit_test(a_number_that_is_too_large_is_told_what_may_be),
    cmocka_unit_test(an_unknown_name_is_said_with_the_nearest_one),
    cmocka_unit_test(a_very_long_name_or_value_is_cut_off),
    cmocka_unit_test(a_message_has_no_control_characters_of_the_environment),
    cmocka_unit_test(an_entry_of_the_list_without_a_value_is_said),
    cmocka_unit_test(names_of_others_are_left_alone),
    cmocka_unit_test(a_program_can_have_options_of_its_own),
    cmocka_unit_test(relative_paths_are_those_of_the_start),
    cmocka_unit_test(a_file_can_set_options),
    cmocka_unit_test(a_file_that_is_none_is_said),
};
UNIT_MAIN(tests)
