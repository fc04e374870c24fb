/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: what a process has taken, randomness and the last words of a process on Linux. Never
 * allocates; keeps errno. */
#include "os/os.h"
#include "os/syscall_internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MISC_PROCESSORS_MOST 8192 /* with more the call is refused */

void hak_os_usage(struct hak_os_usage *out)
{
    struct rusage used = {0};
    hak_syscall6(SYS_getrusage, RUSAGE_SELF, (long)&used, 0, 0, 0, 0);
    uint64_t us = (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    out->cpu_ns = (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000u + us * 1000;
    out->faults = (uint64_t)used.ru_minflt;
}

/* Those that any thread which has asked may run on: one that is bound to a processor is told of no
 * other. */
static _Atomic(uint64_t) misc_processors[MISC_PROCESSORS_MOST / 64];

unsigned hak_os_processors(void)
{
    uint64_t set[MISC_PROCESSORS_MOST / 64] = {0};
    long bytes = hak_syscall6(SYS_sched_getaffinity, 0, sizeof set, (long)set, 0, 0, 0);
    unsigned processors = 0;
    for (long i = 0; i < bytes / (long)sizeof *set; i++) {
        hak_or_relaxed(&misc_processors[i], set[i]);
        processors += (unsigned)__builtin_popcountll(hak_load_relaxed(&misc_processors[i]));
    }
    return processors == 0 ? 1 : processors;
}

void hak_os_sleep_ns(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (hak_syscall6(SYS_nanosleep, (long)&left, (long)&left, 0, 0, 0, 0) == -EINTR)
        continue;
}

void hak_os_sleep_while(_Atomic(uint32_t) *word, uint32_t is, uint64_t ns)
{
    struct timespec most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    hak_syscall6(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, is, (long)&most, 0, 0);
}

void hak_os_wake(_Atomic(uint32_t) *word)
{
    hak_syscall6(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

uint64_t hak_os_random(void)
{
    enum { NONBLOCK = 1 };
    uint64_t value = 0;
    if (hak_syscall6(SYS_getrandom, (long)&value, sizeof value, NONBLOCK, 0, 0, 0) ==
        (long)sizeof value)
        return value;
    /* Early in boot, or refused by seccomp: the clock and an address that the kernel has
     * randomised. */
    value = (uint64_t)(uintptr_t)&value ^ (hak_os_now_ns() << 20);
    value *= 0x9e3779b97f4a7c15u;
    return value ^ (value >> 29);
}

_Noreturn void hak_os_die(const char *text)
{
    char line[256];
    struct hak_text out;
    hak_text_begin(&out, line, sizeof line - 1);
    hak_text_string(&out, "hakmem: ");
    hak_text_string(&out, text);
    *out.at++ = '\n'; /* fits: one byte was kept back */
    hak_os_write_stderr(line, (size_t)(out.at - line));
    /* Not abort(): it flushes nothing on Linux, but may take locks that the interrupted thread
     * holds. */
    struct sigaction fall_back = {.sa_handler = SIG_DFL};
    sigset_t abort_only;
    sigemptyset(&abort_only);
    sigaddset(&abort_only, SIGABRT);
    raise(SIGABRT); /* a handler of the program's own gets its chance to report */
    sigaction(SIGABRT, &fall_back, NULL);
    pthread_sigmask(SIG_UNBLOCK, &abort_only, NULL);
    raise(SIGABRT);
    for (;;)
        hak_syscall6(SYS_exit_group, 134, 0, 0, 0, 0, 0);
}
