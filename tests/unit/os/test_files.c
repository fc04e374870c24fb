/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of os: files that are written. */
#include "../unit.h"

#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Tests run in processes of their own, in a folder that is theirs. */
static void in_a_folder(char folder[static 32])
{
    strcpy(folder, "/tmp/hakmem-files-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
}

static void what_an_ended_process_has_left_is_no_obstacle(void **state)
{
    (void)state;
    char folder[32], name[64], text[16] = "";
    size_t got = 0;
    in_a_folder(folder);
    snprintf(name, sizeof name, "policy.new-%d", (int)getpid());
    int left = open(name, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(left, "half of it and more", 19), 19);
    close(left);
    assert_int_equal(hak_os_write_file("policy", "whole", 5), 0);
    assert_int_equal(hak_os_read_file("policy", text, sizeof text - 1, &got), 0);
    assert_string_equal(text, "whole");
    assert_int_equal(access(name, F_OK), -1);
    assert_int_equal(mkdir(name, 0700), 0);
    assert_int_equal(hak_os_write_file("policy", "again", 5), EEXIST);
    rmdir(name);
    unlink("policy");
    rmdir(folder);
}

static void a_pipe_without_a_reader_is_refused_and_one_with_waits(void **state)
{
    (void)state;
    char folder[32];
    in_a_folder(folder);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(hak_os_open("pipe", true), -ENXIO);
    int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    int file = hak_os_open("pipe", true);
    assert_true(file >= 0);
    assert_int_equal(fcntl(file, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(hak_os_write(file, "x", 1), 0);
    close(reader);
    signal(SIGPIPE, SIG_DFL);
    assert_int_equal(hak_os_write(file, "x", 1), EPIPE);
    hak_os_close(file);
    unlink("pipe");
    rmdir(folder);
}

static void a_refused_write_says_why_and_raises_nothing(void **state)
{
    (void)state;
    char folder[32];
    struct rlimit all, small;
    static char text[200];
    in_a_folder(folder);
    int full = hak_os_open("/dev/full", true);
    assert_int_equal(hak_os_write(full, "x", 1), ENOSPC);
    hak_os_close(full);
    signal(SIGXFSZ, SIG_DFL);
    int file = hak_os_open("file", true);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    small = (struct rlimit){100, all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int error = hak_os_write(file, text, sizeof text);
    setrlimit(RLIMIT_FSIZE, &all); /* what the test prints goes to a file too */
    assert_int_equal(error, EFBIG);
    hak_os_close(file);
    unlink("file");
    rmdir(folder);
}

/* What waits for the program is the program's. */
static void a_signal_of_the_programs_own_stays(void **state)
{
    (void)state;
    int ends[2];
    sigset_t pipe_only, waiting;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(sigprocmask(SIG_BLOCK, &pipe_only, NULL), 0);
    assert_int_equal(hak_os_write(ends[1], "x", 1), EPIPE);
    sigpending(&waiting);
    assert_false(sigismember(&waiting, SIGPIPE));
    raise(SIGPIPE);
    assert_int_equal(hak_os_write(ends[1], "x", 1), EPIPE);
    sigpending(&waiting);
    assert_true(sigismember(&waiting, SIGPIPE));
}

static void the_folder_is_the_one_that_paths_begin_at(void **state)
{
    (void)state;
    char folder[32], told[64];
    in_a_folder(folder);
    assert_int_equal(hak_os_folder(told, sizeof told), strlen(folder));
    assert_string_equal(told, folder);
    assert_int_equal(hak_os_folder(told, 10), 0);
    rmdir(folder);
    assert_int_equal(hak_os_folder(told, sizeof told), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_an_ended_process_has_left_is_no_obstacle),
    cmocka_unit_test(a_pipe_without_a_reader_is_refused_and_one_with_waits),
    cmocka_unit_test(a_refused_write_says_why_and_raises_nothing),
    cmocka_unit_test(a_signal_of_the_programs_own_stays),
    cmocka_unit_test(the_folder_is_the_one_that_paths_begin_at),
};
UNIT_MAIN(tests)
