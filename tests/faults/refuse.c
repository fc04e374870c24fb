/* Faults: runs a program and refuses chosen system calls of libhakmem.so in it, in the unchanged
 * product library.
 *
 * A seccomp filter in the program stops it at mmap, munmap, mprotect, mremap and madvise, and this
 * program, its tracer (ptrace), looks where the call comes from: those of libc, of the loader and
 * of the program itself pass untouched. The calls of all its processes and threads are counted
 * together.
 *
 * Run by run.py and by hand. Says nothing itself: what happened goes to the report file, one line
 * `name value` each; `signal` lines name signals that end a program and where they came from. Ends
 * with the status of the program, 128 + n when a signal ended it, 77 if the system does not permit
 * this (no ptrace, no seccomp). Never changes a call in any other way.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "places.h"

enum { STATUS_SKIP = 77, STATUS_USAGE = 2, SIGNALS_MAX = 20, NULL_REGION = 65536 };

/* The program may end the refusals: an madvise with this advice, which the kernel does not know. */
enum { REFUSAL_IS_OVER = 0x68616b };

enum kind { KIND_MMAP, KIND_MUNMAP, KIND_MPROTECT, KIND_MREMAP, KIND_MADVISE, KIND_ANY, KINDS };

static const struct {
    const char *name;
    long number;
} kinds[KINDS] = {
    [KIND_MMAP] = {"mmap", SYS_mmap},
    [KIND_MUNMAP] = {"munmap", SYS_munmap},
    [KIND_MPROTECT] = {"mprotect", SYS_mprotect},
    [KIND_MREMAP] = {"mremap", SYS_mremap},
    [KIND_MADVISE] = {"madvise", SYS_madvise},
    [KIND_ANY] = {"any", -1},
};

static struct {
    enum kind kind;
    unsigned long nth, count;    /* the calls nth .. nth + count - 1 are refused; nth 0: none */
    unsigned long most_mappings; /* a process with so many gets no more of them; 0: no limit */
    int error;
    const char *report;
} options = {.kind = KIND_ANY, .count = 1, .error = ENOMEM};

static unsigned long calls[KINDS], refused[KINDS], most_mappings_seen;
static FILE *report;
static unsigned signals_reported;

/* ---- the program's side ---- */

static int install_filter(void)
{
#define STOP_AT(number)                                                                            \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        STOP_AT(SYS_mmap),
        STOP_AT(SYS_munmap),
        STOP_AT(SYS_mprotect),
        STOP_AT(SYS_mremap),
        STOP_AT(SYS_madvise),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

_Noreturn static void become(char **argv, int go)
{
    char byte;
    if (read(go, &byte, 1) != 1) /* the tracer is there */
        _exit(STATUS_SKIP);
    close(go);
    if (install_filter())
        _exit(STATUS_SKIP);
    execvp(argv[0], argv);
    fprintf(stderr, "refuse: cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* ---- the tracer's side ---- */

static bool is_refused(enum kind kind, pid_t pid, const struct user_regs_struct *r)
{
    unsigned long n = ++calls[kind], any = ++calls[KIND_ANY];
    unsigned long counted = options.kind == KIND_ANY ? any : n;
    if (options.most_mappings) {
        struct places_split call = {r->rdi, r->rsi, 0};
        unsigned long mappings = places_mappings(pid, &call);
        bool splits = kind != KIND_MADVISE || r->rdx == MADV_HUGEPAGE || r->rdx == MADV_WIPEONFORK;
        unsigned long more = kind == KIND_MMAP     ? 1
                             : kind == KIND_MREMAP ? 3
                             : splits              ? call.splits
                                                   : 0;
        if (mappings > most_mappings_seen)
            most_mappings_seen = mappings;
        return more && mappings + more > options.most_mappings;
    }
    if (options.kind != KIND_ANY && options.kind != kind)
        return false;
    return options.nth && counted >= options.nth && counted - options.nth < options.count;
}

static void at_call(pid_t pid)
{
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &r))
        return;
    if (r.orig_rax == SYS_madvise && r.rdx == REFUSAL_IS_OVER)
        options.nth = options.most_mappings = 0;
    if (!places_is_library(pid, r.rip))
        return;
    enum kind kind = 0;
    while (kind < KIND_ANY && (long)r.orig_rax != kinds[kind].number)
        kind++;
    if (kind == KIND_ANY || !is_refused(kind, pid, &r))
        return;
    refused[kind]++, refused[KIND_ANY]++;
    r.orig_rax = (unsigned long long)-1; /* no call */
    r.rax = (unsigned long long)-options.error;
    ptrace(PTRACE_SETREGS, pid, NULL, &r);
}

static void report_signal(pid_t pid, int signal_number)
{
    struct user_regs_struct r;
    char where[300] = "unknown";
    if (!ptrace(PTRACE_GETREGS, pid, NULL, &r))
        places_name(pid, r.rip, where, sizeof where);
    siginfo_t info = {0};
    ptrace(PTRACE_GETSIGINFO, pid, NULL, &info);
    bool is_access = info.si_code > 0 && (signal_number == SIGSEGV || signal_number == SIGBUS);
    if (signals_reported++ < SIGNALS_MAX)
        fprintf(report, "signal %s in %s%s\n", sigabbrev_np(signal_number), where,
                !is_access                              ? ""
                : (uintptr_t)info.si_addr < NULL_REGION ? " (a null pointer)"
                                                        : " (not a null pointer)");
}

static bool ends_programs(int signal_number)
{
    return signal_number == SIGSEGV || signal_number == SIGBUS || signal_number == SIGILL ||
           signal_number == SIGFPE || signal_number == SIGABRT || signal_number == SIGTRAP;
}

/* A stop of the process or thread: what it goes on with. */
static void go_on(pid_t pid, int status)
{
    int event = status >> 16, signal_number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_STOP && (signal_number == SIGSTOP || signal_number == SIGTSTP ||
                                       signal_number == SIGTTIN || signal_number == SIGTTOU)) {
        ptrace(PTRACE_LISTEN, pid, NULL, NULL);
        return;
    }
    if (event == PTRACE_EVENT_SECCOMP)
        at_call(pid);
    else if (event == PTRACE_EVENT_EXEC)
        places_forget(pid);
    else if (!event && ends_programs(signal_number))
        report_signal(pid, signal_number);
    ptrace(PTRACE_CONT, pid, NULL, event ? 0 : signal_number);
}

/* Until the last process has ended. Returns the status of the first one. */
static int trace(pid_t first)
{
    int status, result = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (pid > 0 && WIFSTOPPED(status))
            go_on(pid, status);
        else if (pid > 0)
            places_forget(pid);
        if (pid == first && !WIFSTOPPED(status))
            result = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return result;
}

static void write_report(void)
{
    for (enum kind k = 0; k < KINDS; k++)
        fprintf(report, "%s %lu\nrefused_%s %lu\n", kinds[k].name, calls[k], kinds[k].name,
                refused[k]);
    fprintf(report, "mappings %lu\n", most_mappings_seen);
    fclose(report);
}

/* ---- the command line ---- */

_Noreturn static void usage(void)
{
    fputs("usage: refuse [--kind any|mmap|munmap|mprotect|mremap|madvise] [--nth K] [--count N]\n"
          "              [--error ENOMEM|EAGAIN|EPERM|ENOSYS|EINVAL] [--mappings N]\n"
          "              [--report FILE] -- program [arguments]\n",
          stderr);
    exit(STATUS_USAGE);
}

static int error_named(const char *name)
{
    static const struct {
        const char *name;
        int value;
    } known[] = {{"ENOMEM", ENOMEM},
                 {"EAGAIN", EAGAIN},
                 {"EPERM", EPERM},
                 {"ENOSYS", ENOSYS},
                 {"EINVAL", EINVAL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].value;
    usage();
}

static unsigned long number(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (end == text || *end)
        usage();
    return n;
}

static char **parse(int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--kind") == 0) {
            for (options.kind = 0; options.kind < KINDS; options.kind++)
                if (strcmp(value, kinds[options.kind].name) == 0)
                    break;
            if (options.kind == KINDS)
                usage();
        } else if (strcmp(name, "--nth") == 0) {
            options.nth = number(value);
        } else if (strcmp(name, "--count") == 0) {
            options.count = number(value);
        } else if (strcmp(name, "--mappings") == 0) {
            options.most_mappings = number(value);
        } else if (strcmp(name, "--error") == 0) {
            options.error = error_named(value);
        } else if (strcmp(name, "--report") == 0) {
            options.report = value;
        } else {
            usage();
        }
    }
    if (i + 1 >= argc || strcmp(argv[i], "--") != 0)
        usage();
    return argv + i + 1;
}

int main(int argc, char **argv)
{
    char **program = parse(argc, argv);
    report = fopen(options.report ? options.report : "/dev/null", "we");
    int go[2];
    if (!report || pipe(go)) {
        perror("refuse");
        return STATUS_USAGE;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        become(program, go[0]);
    }
    close(go[0]);
    long what = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (pid < 0 || ptrace(PTRACE_SEIZE, pid, NULL, what)) {
        fprintf(stderr, "refuse: this system permits no tracing: %s\n", strerror(errno));
        return STATUS_SKIP;
    }
    if (write(go[1], "", 1) != 1)
        return STATUS_SKIP;
    close(go[1]);
    int status = trace(pid);
    write_report();
    return status;
}
