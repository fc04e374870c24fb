/* Conformance: the library is silent; an unknown option warns once and suggests the nearest; the
 * summary at exit comes only when asked for.
 *
 * Runs itself as a child with the options in its environment.
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <string.h>
#include <unistd.h>

#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

static struct child child;

static void set_variable(void *assignment)
{
    if (assignment)
        putenv(assignment);
}

/* A program that allocates, forks and ends, with one variable more in its environment. */
static void run_with(char *assignment)
{
    char *argv[] = {(char *)child_self(), "--work", NULL};
    child.argv = argv;
    child.setup = set_variable;
    child.setup_arg = assignment;
    assert_true(child_run(&child));
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
    assert_string_equal(child.out, "done\n");
}

static unsigned lines_of(const char *text)
{
    unsigned n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static int work(void)
{
    for (size_t i = 0; i < COUNT_OF(all_sizes); i++)
        my_free(my_malloc(all_sizes[i]));
    if (my_malloc(SIZE_MAX) != NULL)
        return 1;
    if (write(STDOUT_FILENO, "done\n", 5) != 5)
        return 1;
    return 0;
}

static void silent_by_default(void **state)
{
    (void)state;
    run_with(NULL);
    CHECK(child.err_bytes == 0, "%s", child_describe(&child));
}

static void an_unknown_option_warns_once_and_suggests(void **state)
{
    (void)state;
    static char *const wrong[] = {"HAKMEM_STATZ=1", "HAKMEM_CONF=statz:1"};
    if (allocator_may_be_other())
        SKIP_BECAUSE("this is a promise of hakmem");
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        run_with(wrong[i]);
        CHECK(strncmp(child.err, "hakmem:", 7) == 0, "%s", child_describe(&child));
        CHECK(lines_of(child.err) == 1, "not exactly one line: %s", child_describe(&child));
        CHECK(strcasestr(child.err, "statz"), "does not name it: %s", child_describe(&child));
        CHECK(strcasestr(child.err, "stats"), "no suggestion: %s", child_describe(&child));
    }
}

static void other_variables_are_no_options(void **state)
{
    (void)state;
    static char *const others[] = {"HAKMEMX=1", "MY_HAKMEM_FOO=1", "HAKMEM=1", "hakmem_statz=1"};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        run_with(others[i]);
        CHECK(child.err_bytes == 0, "%s: %s", others[i], child_describe(&child));
    }
}

static void bad_values_never_stop_the_program(void **state)
{
    (void)state;
    static char *const bad[] = {
        "HAKMEM_CONF=",        "HAKMEM_CONF=:",
        "HAKMEM_CONF=,,,",     "HAKMEM_CONF=stats",
        "HAKMEM_CONF=stats:",  "HAKMEM_CONF=:1,:2",
        "HAKMEM_STATS=",       "HAKMEM_STATS=-99999999999999999999",
        "HAKMEM_STATS=banana", "HAKMEM_CONF=stats:0,x:1",
        "HAKMEM_=1",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        run_with(bad[i]);
        CHECK(child.err_bytes == 0 || strncmp(child.err, "hakmem:", 7) == 0, "%s",
              child_describe(&child));
        CHECK(lines_of(child.err) < 40, "%s: %s", bad[i], child_describe(&child));
    }
    static char very_long[70000] = "HAKMEM_CONF=";
    memset(very_long + 12, 'x', sizeof very_long - 13);
    run_with(very_long);
    CHECK(child.err_bytes < 1000, "%zu bytes of warning", child.err_bytes);
}

static void the_summary_comes_when_asked_for(void **state)
{
    (void)state;
    if (allocator_may_be_other())
        SKIP_BECAUSE("this is a promise of hakmem");
    run_with("HAKMEM_STATS=0");
    CHECK(child.err_bytes == 0, "%s", child_describe(&child));
    run_with("HAKMEM_STATS=1");
    CHECK(lines_of(child.err) > 2, "%s", child_describe(&child));
    for (const char *line = child.err; *line; line = strchr(line, '\n') + 1) {
        CHECK(strncmp(line, "hakmem:", 7) == 0, "%s", child_describe(&child));
        assert_non_null(strchr(line, '\n'));
    }
}

int main(int argc, char **argv)
{
    allocator_require();
    if (argc == 2 && strcmp(argv[1], "--work") == 0)
        return work();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_by_default),
        cmocka_unit_test(an_unknown_option_warns_once_and_suggests),
        cmocka_unit_test(other_variables_are_no_options),
        cmocka_unit_test(bad_values_never_stop_the_program),
        cmocka_unit_test(the_summary_comes_when_asked_for),
    };
    return RUN_TESTS(tests);
}
