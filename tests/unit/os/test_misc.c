/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of os: time, randomness, and the last words of a process. */
#include "../unit.h"

#include "os/os.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

static void time_goes_on_and_never_back(void **state)
{
    (void)state;
    uint64_t before = hak_os_now_ns();
    struct timespec pause = {.tv_nsec = 30 * 1000 * 1000};
    nanosleep(&pause, NULL);
    uint64_t after = hak_os_now_ns();
    assert_true(after >= before + 15 * 1000 * 1000);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = hak_os_now_ns();
        assert_true(now >= after);
        after = now;
    }
}

static void random_numbers_differ_in_every_bit(void **state)
{
    (void)state;
    uint64_t first = hak_os_random();
    uint64_t changed = 0;
    for (int i = 0; i < 100; i++)
        changed |= first ^ hak_os_random();
    assert_int_equal(changed, UINT64_MAX);
}

/* Nobody has asked before: this test is the first. */
static void threads_bound_to_one_processor_each_have_as_many_together(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    unsigned seen = 0;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        seen++;
        assert_int_equal(hak_os_processors(), seen);
        assert_int_equal(hak_os_processors(), seen);
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(hak_os_processors(), CPU_COUNT(&all));
}

/* Also where another page of the same mapping, or of what was one, cannot be. */
static void the_system_says_which_pages_can_be_read(void **state)
{
    (void)state;
    enum { PAGES = 5 };
    size_t page = hak_os_page_bytes();
    char *at = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    at[0] = 1; /* one page is not 0 and one is, and one was never touched */
    at[page] = 0;
    assert_int_equal(mprotect(at + 2 * page, page, PROT_NONE), 0);
    assert_int_equal(mprotect(at + 3 * page, page, PROT_READ), 0);
    assert_int_equal(munmap(at + 4 * page, page), 0);
    static const bool can_be[PAGES] = {true, true, false, true, false};
    for (int i = 0; i < PAGES; i++) {
        assert_int_equal(hak_os_is_readable((uintptr_t)at + i * page), can_be[i]);
        assert_int_equal(hak_os_is_readable((uintptr_t)at + (i + 1) * page - 8), can_be[i]);
    }
    assert_int_equal(at[0], 1);
    assert_int_equal(munmap(at, 4 * page), 0);
    assert_false(hak_os_is_readable((uintptr_t)at));
    assert_false(hak_os_is_readable(0));
    assert_false(hak_os_is_readable(UINTPTR_MAX - 7));
}

/* Runs f in a child whose stderr is read here; returns the child's wait status. */
static int in_child(void (*f)(void), char *text, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        f();
        _exit(0);
    }
    close(ends[1]);
    size_t got = 0;
    ssize_t n;
    while (got < size - 1 && (n = read(ends[0], text + got, size - 1 - got)) > 0)
        got += (size_t)n;
    text[got] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void write_a_lot(void)
{
    static char text[200000];
    memset(text, 'x', sizeof text);
    errno = 1234;
    hak_os_write_stderr(text, sizeof text);
    MUST(errno == 1234);
}

static void stderr_gets_all_of_a_long_text(void **state)
{
    (void)state;
    static char text[300000];
    assert_int_equal(in_child(write_a_lot, text, sizeof text), 0);
    assert_int_equal(strlen(text), 200000);
}

static void write_to_nobody(void)
{
    close(STDERR_FILENO);
    hak_os_write_stderr("lost", 4);
}

static void stderr_that_is_closed_is_no_reason_to_hang(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(in_child(write_to_nobody, text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void die(void)
{
    signal(SIGABRT, SIG_DFL);
    hak_os_die("of a test");
}

static void die_says_one_line_and_aborts(void **state)
{
    (void)state;
    char text[64];
    int status = in_child(die, text, sizeof text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_string_equal(text, "hakmem: of a test\n");
}

static void die_ignored(void)
{
    signal(SIGABRT, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    hak_os_die("although SIGABRT is ignored and blocked");
}

static void die_cannot_be_survived(void **state)
{
    (void)state;
    char text[128];
    int status = in_child(die_ignored, text, sizeof text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void die_long(void)
{
    char text[1000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    signal(SIGABRT, SIG_DFL);
    hak_os_die(text);
}

static void die_cuts_off_a_long_text_and_still_ends_the_line(void **state)
{
    (void)state;
    char text[1100];
    in_child(die_long, text, sizeof text);
    assert_in_range(strlen(text), 200, 256);
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_memory_equal(text, "hakmem: yyyy", 12);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(threads_bound_to_one_processor_each_have_as_many_together),
    cmocka_unit_test(time_goes_on_and_never_back),
    cmocka_unit_test(random_numbers_differ_in_every_bit),
    cmocka_unit_test(the_system_says_which_pages_can_be_read),
    cmocka_unit_test(stderr_gets_all_of_a_long_text),
    cmocka_unit_test(stderr_that_is_closed_is_no_reason_to_hang),
    cmocka_unit_test(die_says_one_line_and_aborts),
    cmocka_unit_test(die_cannot_be_survived),
    cmocka_unit_test(die_cuts_off_a_long_text_and_still_ends_the_line),
};
UNIT_MAIN(tests)
