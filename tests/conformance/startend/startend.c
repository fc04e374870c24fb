/* Conformance, start and end: runs programs under odd conditions: before constructors, after
 * destructors, wrapped, with closed files, little address space, without /proc.
 *
 * The programs lie beside this one; the library comes with LD_PRELOAD, which the children inherit.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

static struct child child;

static void run(char **argv, void (*setup)(void *), void *setup_arg)
{
    child.argv = argv;
    child.setup = setup;
    child.setup_arg = setup_arg;
    child.timeout_seconds = 120;
    assert_true(child_run(&child));
}

static void run_work(char *what, char *number, void (*setup)(void *), void *setup_arg)
{
    char *argv[] = {child_beside("startend_work"), what, number, NULL};
    run(argv, setup, setup_arg);
}

static void expect_done(const char *output)
{
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
    assert_string_equal(child.out, output);
    CHECK(child.err_bytes == 0, "%s", child_describe(&child));
}

static void without_preload(void *unused)
{
    (void)unused;
    unsetenv("LD_PRELOAD");
}

static void before_constructors_and_after_destructors(void **state)
{
    (void)state;
    char *argv[] = {child_beside("startend_early_late"), NULL};
    run(argv, NULL, NULL);
    expect_done("main\natexit\ndestructor\nlast destructor\nlibrary destructor\n");
}

/* ---- dlsym recursion ---- */

static void preload_first(void *library)
{
    char list[10000];
    const char *old = getenv("LD_PRELOAD");
    snprintf(list, sizeof list, "%s%s%s", (char *)library, old ? ":" : "", old ? old : "");
    setenv("LD_PRELOAD", list, 1);
}

static void dlsym_recursion(void **state)
{
    (void)state;
    char library[5000];
    snprintf(library, sizeof library, "%s", child_beside("libstartend_dlsym_wrapper.so"));
    run_work("threads", "4", preload_first, library);
    expect_done("done\nwrapped\n");
    require_system_programs();
    char *ls[] = {"ls", "/", NULL};
    run(ls, preload_first, library);
    CHECK(child_exited(&child, 0) && child.out_bytes > 10 && child.err_bytes == 0, "%s",
          child_describe(&child));
}

/* ---- closed files ---- */

static void close_standard_files(void *unused)
{
    (void)unused;
    for (int fd = 0; fd < 3; fd++)
        close(fd);
}

static void stdin_stdout_stderr_closed(void **state)
{
    (void)state;
    run_work("closed", NULL, close_standard_files, NULL);
    CHECK(child_exited(&child, 0), "%s (3: a file was opened at start; 4: later)",
          child_describe(&child));
}

static void close_stderr(void *unused)
{
    (void)unused;
    close(STDERR_FILENO);
}

static void misuse_aborts_with_stderr_closed(void **state)
{
    (void)state;
    run_work("misuse", NULL, close_stderr, NULL);
    CHECK(!child.timed_out && WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT, "%s",
          child_describe(&child));
}

/* ---- little address space ---- */

static void limit_address_space(void *mib)
{
    struct rlimit limit = {MIB(*(size_t *)mib), MIB(*(size_t *)mib)};
    setrlimit(RLIMIT_AS, &limit);
    setenv("HAK_TEST_TIGHT", "1", 1);
}

/* The same as without the library and without the limit. */
static void expect_same_output(char **argv, size_t mib)
{
    static char expected[CHILD_OUT_BYTES + 1];
    run(argv, without_preload, NULL);
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
    memcpy(expected, child.out, sizeof expected);
    run(argv, limit_address_space, &mib);
    CHECK(child_exited(&child, 0) && child.err_bytes == 0, "%s", child_describe(&child));
    assert_string_equal(child.out, expected);
}

static void ls_starts_with_8_mib_of_address_space(void **state)
{
    (void)state;
    require_system_programs();
    char *ls[] = {"ls", "-l", "/usr", NULL};
    expect_same_output(ls, 8);
}

static void python_runs_with_64_mib_of_address_space(void **state)
{
    (void)state;
    require_system_programs();
    char *python[] = {"python3", "-c",
                      "import json, re, collections\n"
                      "d = {str(i): [i] * 10 for i in range(20000)}\n"
                      "print(len(json.dumps(d)), sum(map(len, d.values())))",
                      NULL};
    if (access("/usr/bin/python3", X_OK) != 0)
        SKIP_BECAUSE("there is no python3 here");
    expect_same_output(python, 64);
}

static void programs_run_under_every_limit_up_to_8_gib(void **state)
{
    (void)state;
    require_system_programs();
    static char *const python[] = {
        "/usr/bin/python3", "-c",
        "import threading\n"
        "sums = []\n"
        "def work(n):\n"
        "    d = {i: str(i) * 3 for i in range(3000)}\n"
        "    sums.append(sum(map(len, d.values())) + n)\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "print(sorted(sums))",
        NULL};
    static char *const sqlite[] = {"/usr/bin/sqlite3", ":memory:",
                                   "CREATE TABLE t(a, b);"
                                   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                                   "WHERE i < 5000) INSERT INTO t SELECT i, hex(i * 7919) FROM n;"
                                   "CREATE INDEX tb ON t(b);"
                                   "SELECT count(*), min(b), max(b) FROM t;",
                                   NULL};
    static const struct {
        char *const *argv;
        size_t least_mib; /* a thread's stack is 8 MiB of addresses */
    } programs[] = {{python, 200}, {sqlite, 64}};
    static const size_t limits[] = {64, 200, 1024, 8192};
    for (size_t i = 0; i < COUNT_OF(programs); i++)
        for (size_t k = 0; k < COUNT_OF(limits) && access(programs[i].argv[0], X_OK) == 0; k++)
            if (limits[k] >= programs[i].least_mib)
                expect_same_output((char **)programs[i].argv, limits[k]);
}

static void threads_run_under_every_limit_up_to_8_gib(void **state)
{
    (void)state;
    static size_t limits[] = {200, 8192};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        run_work("threads", "8", limit_address_space, &limits[i]);
        expect_done("done\n");
    }
}

/* The hardened library has a quarter more for its records, and guard pages. */
static bool hardened(void)
{
    return getenv("HAK_TEST_HARDENED") != NULL;
}

static void every_limit_from_16_mib_to_8_gib(void **state)
{
    (void)state;
    static size_t limits[] = {16, 24, 32, 64, 128, 200, 256, 512, 1024, 2048, 4096, 8192};
    for (size_t i = hardened() ? 1 : 0; i < COUNT_OF(limits); i++) {
        run_work("sizes", NULL, limit_address_space, &limits[i]);
        CHECK(child_exited(&child, 0), "%zu MiB: %s", limits[i], child_describe(&child));
    }
}

static void exhaustion_gives_enomem_and_recovers(void **state)
{
    (void)state;
    static char *sizes[] = {"16", "100", "5000", "50000", "300000", "1000000", "5000000"};
    static size_t limit = 180;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        run_work("exhaust", sizes[i], limit_address_space, &limit);
        CHECK(child_exited(&child, 0), "size %s: %s", sizes[i], child_describe(&child));
    }
}

/* ---- what overcommit_memory=2 counts ---- */

static size_t committed(char *mib, void (*setup)(void *))
{
    run_work("committed", mib, setup, NULL);
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
    return strtoul(child.out, NULL, 10);
}

static void little_more_is_committed_than_used(void **state)
{
    (void)state;
    size_t idle = committed("0", NULL), idle_without = committed("0", without_preload);
    print_message("committed when idle: %zu KiB, %zu KiB without\n", idle >> 10,
                  idle_without >> 10);
    CHECK(idle < idle_without + MIB(8), "%zu KiB more", (idle - idle_without) >> 10);
    size_t full = committed("200", NULL), full_without = committed("200", without_preload);
    print_message("committed for 200 MiB: %zu KiB, %zu KiB without\n", full >> 10,
                  full_without >> 10);
    CHECK(full < MIB(200) * (hardened() ? 6 : 5) / 4 + MIB(8), "%zu KiB for 200 MiB", full >> 10);
}

/* ---- no /proc ---- */

static void hide_proc(void *unused)
{
    (void)unused;
    if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
        _exit(CHILD_SKIP);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/proc", "tmpfs", 0, NULL) || mount("none", "/sys", "tmpfs", 0, NULL))
        _exit(CHILD_SKIP);
    if (access("/proc/self", F_OK) == 0)
        _exit(CHILD_EXEC_FAILED);
}

static void without_proc_and_sys(void **state)
{
    (void)state;
    run_work("threads", "4", hide_proc, NULL);
    if (child_exited(&child, CHILD_SKIP))
        SKIP_BECAUSE("this user may not make a mount namespace");
    expect_done("done\n");
    run_work("sizes", NULL, hide_proc, NULL);
    expect_done("done\n");
}

/* ---- exec and exit ---- */

static void exec_starts_anew(void **state)
{
    (void)state;
    run_work("exec", "20", NULL, NULL);
    expect_done("done\n");
}

static void exit_from_a_thread_while_others_allocate(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        run_work("exit-thread", NULL, NULL, NULL);
        expect_done("done\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_constructors_and_after_destructors),
        cmocka_unit_test(dlsym_recursion),
        cmocka_unit_test(stdin_stdout_stderr_closed),
        cmocka_unit_test(misuse_aborts_with_stderr_closed),
        cmocka_unit_test(ls_starts_with_8_mib_of_address_space),
        cmocka_unit_test(python_runs_with_64_mib_of_address_space),
        cmocka_unit_test(every_limit_from_16_mib_to_8_gib),
        cmocka_unit_test(programs_run_under_every_limit_up_to_8_gib),
        cmocka_unit_test(threads_run_under_every_limit_up_to_8_gib),
        cmocka_unit_test(exhaustion_gives_enomem_and_recovers),
        cmocka_unit_test(little_more_is_committed_than_used),
        cmocka_unit_test(without_proc_and_sys),
        cmocka_unit_test(exec_starts_anew),
        cmocka_unit_test(exit_from_a_thread_while_others_allocate),
    };
    return RUN_TESTS(tests);
}
