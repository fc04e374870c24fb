/* Conformance: misuse is caught: abort with one line on stderr that starts with `hakmem:` and names
 * the address; never a crash inside the allocator.
 *
 * Each case runs in a process of its own (`misuse --case NAME` runs one by hand). A case that the
 * default build may notice late, at a drain or a collection, goes on to work with the same size and
 * ends its thread; if nobody objected it exits with CHILD_NOT_CAUGHT, by _Exit: what is looked at
 * when a process ends plays no part but in cases that call exit themselves.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/misuse_cases.h"
#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"
#include "support/api.h"

/* The address that a case is about to misuse, told to the driver on stdout. */
void *misuse_announce(void *p)
{
    dprintf(STDOUT_FILENO, "%p\n", p);
    return p;
}

static struct child child;

static const char *describe(void)
{
    return child_describe(&child);
}

/* True if some hexadecimal number in the line is this address. */
static bool line_names(const char *line, uintptr_t address)
{
    for (const char *p = strstr(line, "0x"); p; p = strstr(p + 2, "0x"))
        if (strtoull(p, NULL, 16) == address)
            return true;
    return false;
}

static void expect_one_line_that_names(uintptr_t address)
{
    const char *end = strchr(child.err, '\n');
    CHECK(strncmp(child.err, "hakmem:", 7) == 0, "%s", describe());
    CHECK(end && end[1] == 0, "not exactly one line: %s", describe());
    CHECK(end - child.err < 300, "a long line: %s", describe());
    CHECK(line_names(child.err, address), "%#zx is not named: %s", (size_t)address, describe());
}

static void expect_line(const char *says, uintptr_t address)
{
    char pattern[512];
    size_t length = 0;
    for (; *says != 0 && length + 20 < sizeof pattern; says++) {
        if (*says == '@')
            length += (size_t)snprintf(pattern + length, 20, "0x%zx", (size_t)address);
        else
            pattern[length++] = *says;
    }
    pattern[length++] = '\n';
    pattern[length] = 0;
    CHECK(fnmatch(pattern, child.err, FNM_NOESCAPE) == 0, "not \"%s\": %s", pattern, describe());
}

static void run_case(const char *name)
{
    char *argv[] = {(char *)child_self(), "--case", (char *)name, NULL};
    child.argv = argv;
    child.timeout_seconds = 120;
    assert_true(child_run(&child));
    CHECK(child.out_bytes > 0, "the case did not begin: %s", describe());
}

static bool ended_by(int signal)
{
    return !child.timed_out && WIFSIGNALED(child.status) && WTERMSIG(child.status) == signal;
}

static void expect_caught(void **state)
{
    const struct misuse_case *c = *state;
    uintptr_t address;
    run_case(c->name);
    address = strtoull(child.out, NULL, 16);
    CHECK(!child_exited(&child, CHILD_NOT_CAUGHT), "not caught: %s", describe());
    if (c->says != NULL && *c->says == 0) {
        CHECK(ended_by(SIGSEGV) && child.err_bytes == 0, "%s", describe());
        return;
    }
    CHECK(ended_by(SIGABRT), "%s", describe());
    expect_one_line_that_names(address);
    if (c->says != NULL)
        expect_line(c->says, address);
}

/* What may also be answered without an abort must be answered sensibly: the case exits with 0. */
static void expect_caught_or_answered(void **state)
{
    const struct misuse_case *c = *state;
    run_case(c->name);
    if (child_exited(&child, 0) && child.err_bytes == 0)
        return;
    CHECK(ended_by(SIGABRT), "%s", describe());
    expect_one_line_that_names(strtoull(child.out, NULL, 16));
}

static int run_one(const char *name)
{
    for (const struct misuse_case *c = misuse_cases; c->name; c++) {
        if (strcmp(c->name, name) == 0) {
            c->run(c->size);
            _Exit(c->may_answer ? 0 : CHILD_NOT_CAUGHT);
        }
    }
    fprintf(stderr, "no case is named '%s'; run without arguments to see all names\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    allocator_require();
    if (argc == 3 && strcmp(argv[1], "--case") == 0)
        return run_one(argv[2]);
    static struct CMUnitTest tests[400];
    size_t n = 0;
    for (const struct misuse_case *c = misuse_cases; c->name; c++) {
        if (argc == 2 && !strstr(c->name, argv[1]))
            continue;
        tests[n].name = c->name;
        tests[n].test_func = c->may_answer ? expect_caught_or_answered : expect_caught;
        tests[n++].initial_state = (void *)c;
    }
    return _cmocka_run_group_tests("misuse", tests, n, NULL, NULL);
}
