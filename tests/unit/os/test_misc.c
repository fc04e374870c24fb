/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of os: time, randomness, and the last words of a process. */
#include "../unit.h"

#include "os/os.h"

#include <errno.h>
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

/* Each line of /proc/self/maps, wherever a piece of the file ends. */
static void the_mapping_of_an_address_is_the_one_that_the_system_lists(void **state)
{
    (void)state;
    enum { MAPPINGS = 64 };
    char *held[MAPPINGS];
    for (int i = 0; i < MAPPINGS;
         i++) { /* many short lines; neighbours differ in what is allowed */
        int how = i % 3 == 0 ? PROT_NONE : i % 3 == 1 ? PROT_READ : PROT_READ | PROT_WRITE;
        held[i] = mmap(NULL, 4096, how, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(held[i], MAP_FAILED);
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    char line[1024];
    unsigned readable = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        char *rest;
        uintptr_t first = strtoul(line, &rest, 16);
        uintptr_t last = strtoul(rest + 1, &rest, 16) - 1;
        uintptr_t low = 0;
        uintptr_t high = 0;
        assert_int_equal(hak_os_mapping_of(first, &low, &high), rest[1] == 'r');
        assert_int_equal(hak_os_mapping_of(last, &low, &high), rest[1] == 'r');
        if (rest[1] == 'r' && ++readable != 0)
            assert_true(low == first && high == last + 1);
    }
    fclose(maps);
    assert_true(readable > 10);
    for (int i = 0; i < MAPPINGS; i++)
        munmap(held[i], 4096);
    uintptr_t low;
    uintptr_t high;
    assert_false(hak_os_mapping_of(1, &low, &high));
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
    cmocka_unit_test(time_goes_on_and_never_back),
    cmocka_unit_test(random_numbers_differ_in_every_bit),
    cmocka_unit_test(the_mapping_of_an_address_is_the_one_that_the_system_lists),
    cmocka_unit_test(stderr_gets_all_of_a_long_text),
    cmocka_unit_test(stderr_that_is_closed_is_no_reason_to_hang),
    cmocka_unit_test(die_says_one_line_and_aborts),
    cmocka_unit_test(die_cannot_be_survived),
    cmocka_unit_test(die_cuts_off_a_long_text_and_still_ends_the_line),
};
UNIT_MAIN(tests)
