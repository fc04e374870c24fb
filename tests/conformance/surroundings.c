/* Conformance: what the program does with its descriptors, signals and system calls is its own
 * business: the library works in a sandbox, ends in a signal handler, and writes into no file but
 * those that it was told.
 *
 * Runs itself as a child that does one of these things.
 * Run with the library preloaded.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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

static void a_refused_malloc_opens_no_file(void **state)
{
    (void)state;
    run_case("fail_where_no_file_may_be_opened", NULL, NULL);
    CHECK(child_exited(&child, 0), "%s", child_describe(&child));
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
    size_t bytes = (size_t)sysconf(_SC_MINSIGSTKSZ) > KIB(4) ? KIB(16) : KIB(8);
    char *memory = mmap(NULL, KIB(128), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + KIB(64), bytes, PROT_READ | PROT_WRITE) != 0)
        return CHILD_SKIP;
    stack_t stack = {.ss_sp = memory + KIB(64), .ss_size = bytes};
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

/* --- all --- */

#define CASE(name) {#name, case_##name}
static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {
    CASE(fail_where_no_file_may_be_opened),
    CASE(end_at_a_tick),
    CASE(end_on_a_small_stack),
};

int main(int argc, char **argv)
{
    allocator_require();
    for (size_t i = 0; argc == 3 && i < COUNT_OF(cases); i++)
        if (strcmp(argv[2], cases[i].name) == 0)
            return cases[i].run();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_malloc_opens_no_file),
        cmocka_unit_test(a_process_may_end_in_a_handler_that_interrupts_a_tick),
        cmocka_unit_test(a_process_may_end_on_a_small_stack),
    };
    return RUN_TESTS(tests);
}
