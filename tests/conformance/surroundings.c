/* Conformance: what the program does with its descriptors, signals and system calls is its own
 * business: the library works in a sandbox, ends in a signal handler, and writes into no file but
 * those that it was told.
 *
 * Runs itself as a child that does one of these things.
 * Run with the library preloaded.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "conformance/support/child.h"
#include "conformance/support/cmocka_all.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

static struct child child;
static char *setting; /* a variable for the child's environment */
static void (*setting_up)(void);

static void set_up_child(void *unused)
{
    (void)unused;
    if (setting != NULL)
        putenv(setting);
    if (setting_up != NULL)
        setting_up();
}

/* This program as a child that does the one thing of this name. */
static void run_case(const char *name, char *assignment, void (*setup)(void))
{
    char *argv[] = {(char *)child_self(), "--case", (char *)name, NULL};
    if (allocator_may_be_other())
        SKIP_BECAUSE("this is a promise of hakmem");
    setting = assignment;
    setting_up = setup;
    child.argv = argv;
    child.setup = set_up_child;
    assert_true(child_run(&child));
    if (child_exited(&child, CHILD_SKIP))
        SKIP_BECAUSE("the system does not let a process do this");
}

/* --- system calls that are forbidden --- */

static bool forbid(const unsigned *calls, size_t count, unsigned action)
{
    struct sock_filter f[64];
    unsigned short n = 0;
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, f};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int case_fail_where_no_file_may_be_opened(void)
{
    static const unsigned open_a_file[] = {SYS_openat};
    struct rlimit limit = {MIB(200), MIB(200)};
    my_free(my_malloc(100));
    if (setrlimit(RLIMIT_AS, &limit) != 0 || !forbid(open_a_file, 1, SECCOMP_RET_KILL_PROCESS))
        return CHILD_SKIP;
    return my_malloc(MIB(400)) == NULL ? 0 : 1;
}

static void a_refused_malloc_opens_no_file_if_told(void **state)
{
    (void)state;
    run_case("fail_where_no_file_may_be_opened", "HAKMEM_CGROUP=0", NULL);
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
}

/* --- limits of writable memory --- */

enum { DATA_BLOCKS = 700000, DATA_ROUNDS = 40 };
static void *data_blocks[DATA_BLOCKS];

/* Takes all that is to be had, and gives it back; how much that was. */
static size_t take_all(size_t least, size_t most, unsigned *random)
{
    size_t taken = 0, count = 0;
    while (count < DATA_BLOCKS) {
        *random = *random * 1103515245 + 12345;
        size_t size = least + (*random >> 8) % (most - least);
        if ((data_blocks[count] = my_malloc(size)) == NULL)
            break;
        memset(data_blocks[count++], 1, size);
        taken += size;
    }
    while (count > 0)
        my_free(data_blocks[--count]);
    return taken;
}

static int case_take_all_again_and_again(void)
{
    static const size_t lengths[][2] = {
        {1000, 300000}, {70000, 700000}, {MIB(1), MIB(3)}, {MIB(2), MIB(9)}};
    unsigned random = 1;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        size_t first = take_all(lengths[i][0], lengths[i][1], &random), last = 0;
        for (unsigned round = 0; round < DATA_ROUNDS; round++)
            last = take_all(lengths[i][0], lengths[i][1], &random);
        if (last < first / 3 * 2) {
            fprintf(stderr, "blocks up to %zu bytes: of %zu KiB %zu are left\n", lengths[i][1],
                    first >> 10, last >> 10);
            return 1;
        }
    }
    return 0;
}

static void limit_data(void)
{
    const struct rlimit limit = {MIB(80), MIB(80)};
    setrlimit(RLIMIT_DATA, &limit);
}

static void what_was_freed_is_to_be_had_again_at_the_limit_of_data(void **state)
{
    (void)state;
    run_case("take_all_again_and_again", NULL, limit_data);
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
}

static size_t address_space_bytes(void)
{
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    return got > 0 ? strtoul(text, NULL, 10) * 4096 : SIZE_MAX / 2;
}

/* In the hardened library blocks have guards, which the system does not make accessible then. */
static int case_free_while_refused(void)
{
    enum { BLOCKS = 100 };
    struct rlimit before, limit;
    if (getrlimit(RLIMIT_DATA, &before) != 0)
        return CHILD_SKIP;
    for (size_t i = 0; i < BLOCKS; i++)
        memset(data_blocks[i] = my_malloc(KIB(500) + i * 100), 1, KIB(500));
    size_t full = address_space_bytes();
    limit = (struct rlimit){MIB(1), before.rlim_max};
    setrlimit(RLIMIT_DATA, &limit);
    for (size_t i = 0; i < BLOCKS; i++)
        my_free(data_blocks[i]);
    my_malloc_trim(0);
    setrlimit(RLIMIT_DATA, &before);
    my_malloc_trim(0);
    if (full - address_space_bytes() >= MIB(40))
        return 0;
    fprintf(stderr, "of %zu KiB of addresses %zu are left\n", full >> 10,
            address_space_bytes() >> 10);
    return 1;
}

static void what_was_freed_while_the_system_refused_goes_later(void **state)
{
    (void)state;
    run_case("free_while_refused", NULL, NULL);
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
}

/* Of the hardened library's large blocks the last few wait to be handed out again. */
static int case_take_what_a_large_block_had(void)
{
    static const size_t lengths[][2] = {{16, 200}, {1000, 3000}, {9000, 60000}, {70000, 900000}};
    unsigned random = 1;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        size_t first = take_all(lengths[i][0], lengths[i][1], &random);
        my_free(my_malloc(MIB(48)));
        size_t last = take_all(lengths[i][0], lengths[i][1], &random);
        if (last < first / 4 * 3) {
            fprintf(stderr, "blocks up to %zu bytes: of %zu KiB %zu are left\n", lengths[i][1],
                    first >> 10, last >> 10);
            return 1;
        }
    }
    return 0;
}

static void what_a_large_block_had_is_there_for_others_at_a_limit(void **state)
{
    (void)state;
    run_case("take_what_a_large_block_had", "HAKMEM_LIMIT_MB=64", NULL);
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
}

static int case_take_what_was_kept(void)
{
    my_free(my_malloc(MIB(48)));
    return my_malloc(MIB(24)) == NULL;
}

static void what_is_had_in_the_end_did_not_fail(void **state)
{
    (void)state;
    run_case("take_what_was_kept", "HAKMEM_CONF=limit_mb:64,trace_failures:1", NULL);
    CHECK(child_exited(&child, 0) && child.err[0] == '\0', "%s", child_describe(&child));
}

/* --- the end in a signal handler --- */

static void end_process(int signal_number)
{
    (void)signal_number;
    exit(7);
}

/* Whatever looks for a control group at a tick opens a file, and is interrupted there. */
static int case_end_at_a_tick(void)
{
    enum { BLOCKS = 4000, SECONDS = 4 };
    static const unsigned open_a_file[] = {SYS_openat};
    static void *blocks[BLOCKS];
    struct sigaction action = {.sa_handler = end_process};
    time_t end = time(NULL) + SECONDS;
    sigaction(SIGSYS, &action, NULL);
    if (!forbid(open_a_file, 1, SECCOMP_RET_TRAP))
        return CHILD_SKIP;
    for (size_t i = 0; i < BLOCKS; i++)
        memset(my_malloc(KIB(40)), 1, KIB(40));
    while (time(NULL) < end) {
        for (size_t i = 0; i < BLOCKS; i++) {
            my_free(blocks[i]);
            blocks[i] = my_malloc(100 + i * 10);
        }
    }
    return CHILD_SKIP; /* no file was opened */
}

static void a_process_may_end_in_a_handler_that_interrupts_a_tick(void **state)
{
    (void)state;
    run_case("end_at_a_tick", NULL, NULL);
    CHECK(child_exited(&child, 7), "%s", child_describe(&child));
    run_case("end_at_a_tick", "HAKMEM_STATS=1", NULL);
    CHECK(child_exited(&child, 7), "%s", child_describe(&child));
}

/* The alternate stack has what SIGSTKSZ was for thirty years, and nothing lies below it. */
static int case_end_on_a_small_stack(void)
{
    static void *blocks[3000];
    struct sigaction action = {.sa_handler = end_process, .sa_flags = SA_ONSTACK};
    char *memory = mmap(NULL, KIB(128), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + KIB(64), KIB(8), PROT_READ | PROT_WRITE) != 0)
        return CHILD_SKIP;
    stack_t stack = {.ss_sp = memory + KIB(64), .ss_size = KIB(8)};
    if (sigaltstack(&stack, NULL) != 0)
        return CHILD_SKIP;
    sigaction(SIGUSR1, &action, NULL);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = my_malloc(20 + i % 300);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        my_free(blocks[i]);
    raise(SIGUSR1);
    return 1;
}

static void a_process_may_end_on_a_small_stack(void **state)
{
    (void)state;
    static char *const with[] = {NULL, "HAKMEM_STATS=1", "HAKMEM_POLICY=learn:/dev/null/none",
                                 "HAKMEM_SHARED_POOL_LOCK_STATS=1"};
    for (size_t i = 0; i < COUNT_OF(with); i++) {
        run_case("end_on_a_small_stack", with[i], NULL);
        CHECK(child_exited(&child, 7), "%s", child_describe(&child));
    }
}

/* --- descriptors --- */

static size_t open_files(void)
{
    size_t n = 0;
    for (int i = 0; i < 5000; i++)
        n += fcntl(i, F_GETFD) >= 0;
    return n;
}

static int case_set_options_often(void)
{
    int (*ctl)(const char *, uint64_t *, const uint64_t *);
    *(void **)&ctl = dlsym(RTLD_DEFAULT, "hakmem_ctl");
    size_t before = open_files();
    for (uint64_t i = 0; ctl != NULL && i < 500; i++) {
        uint64_t seconds = 1 + i % 3;
        ctl("option.superslab_ttl_sec", NULL, &seconds);
    }
    return ctl == NULL || open_files() != before;
}

static void setting_an_option_opens_nothing(void **state)
{
    (void)state;
    run_case("set_options_often", "HAKMEM_STATS=1", NULL);
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
}

/* As a daemon does, which then opens files of its own: one gets any number that was free. */
static char daemon_folder[] = "/tmp/hakmem-surroundings-XXXXXX";

static int case_open_many_files(void)
{
    struct rlimit limit = {900, 900};
    char name[16];
    if (chdir(getenv("HAK_TEST_FOLDER")) != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    if (limit.rlim_cur < 900)
        return CHILD_SKIP;
    for (int i = 3; i < 1024; i++)
        close(i);
    for (int i = 0; i < 800; i++) {
        snprintf(name, sizeof name, "%d", i);
        int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file < 0 || write(file, "DATA\n", 5) != 5)
            return 1;
    }
    return 0;
}

static void assert_files_are_the_programs_own(void)
{
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
    for (int i = 0; i < 800; i++) {
        char name[64];
        struct stat is;
        snprintf(name, sizeof name, "%s/%d", daemon_folder, i);
        assert_int_equal(stat(name, &is), 0);
        CHECK(is.st_size == 5, "file %d has %ld bytes", i, (long)is.st_size);
        unlink(name);
    }
}

static void close_stderr(void)
{
    close(STDERR_FILENO);
}

static void a_report_goes_to_stderr_and_into_no_file_of_the_program(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(daemon_folder));
    setenv("HAK_TEST_FOLDER", daemon_folder, 1);
    run_case("open_many_files", "HAKMEM_STATS=1", NULL);
    assert_files_are_the_programs_own();
    CHECK(strstr(child.err, "hakmem: live blocks") != NULL, "%s", child_describe(&child));
    run_case("open_many_files", "HAKMEM_STATS=1", close_stderr);
    assert_files_are_the_programs_own();
    rmdir(daemon_folder);
}

/* --- writes that a signal would answer --- */

static int case_fail_to_allocate(void)
{
    return my_malloc(SIZE_MAX) == NULL ? 0 : 1;
}

static void no_reader_of_stderr(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        _exit(CHILD_EXEC_FAILED);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
}

static void no_file_may_grow(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    signal(SIGXFSZ, SIG_DFL);
}

static void nothing_that_is_written_ends_the_process(void **state)
{
    (void)state;
    static char *const with[] = {"HAKMEM_STATS=1", "HAKMEM_TRACE_FAILURES=1", "HAKMEM_STATZ=1"};
    for (size_t i = 0; i < COUNT_OF(with); i++) {
        run_case("fail_to_allocate", with[i], no_reader_of_stderr);
        CHECK(child_exited(&child, 0), "%s: %s", with[i], child_describe(&child));
    }
    run_case("fail_to_allocate", "HAKMEM_CONF=prof:1,prof_file:/tmp/hakmem-no-profile",
             no_file_may_grow);
    unlink("/tmp/hakmem-no-profile");
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
    run_case("fail_to_allocate", "HAKMEM_POLICY=learn:/tmp/hakmem-none", no_file_may_grow);
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
}

/* --- all --- */

#define CASE(name) {#name, case_##name}
static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {
    CASE(fail_where_no_file_may_be_opened),
    CASE(take_all_again_and_again),
    CASE(free_while_refused),
    CASE(take_what_a_large_block_had),
    CASE(take_what_was_kept),
    CASE(end_at_a_tick),
    CASE(end_on_a_small_stack),
    CASE(set_options_often),
    CASE(open_many_files),
    CASE(fail_to_allocate),
};

int main(int argc, char **argv)
{
    allocator_require();
    for (size_t i = 0; argc == 3 && i < COUNT_OF(cases); i++)
        if (strcmp(argv[2], cases[i].name) == 0)
            return cases[i].run();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_malloc_opens_no_file_if_told),
        cmocka_unit_test(what_was_freed_is_to_be_had_again_at_the_limit_of_data),
        cmocka_unit_test(what_was_freed_while_the_system_refused_goes_later),
        cmocka_unit_test(what_a_large_block_had_is_there_for_others_at_a_limit),
        cmocka_unit_test(what_is_had_in_the_end_did_not_fail),
        cmocka_unit_test(a_process_may_end_in_a_handler_that_interrupts_a_tick),
        cmocka_unit_test(a_process_may_end_on_a_small_stack),
        cmocka_unit_test(setting_an_option_opens_nothing),
        cmocka_unit_test(a_report_goes_to_stderr_and_into_no_file_of_the_program),
        cmocka_unit_test(nothing_that_is_written_ends_the_process),
    };
    return RUN_TESTS(tests);
}
