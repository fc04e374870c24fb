/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmarks: the launcher. Runs a command, optionally with LD_PRELOAD set and several times over,
 * and prints what it cost as one line of JSON:
 *     {"runs": 1, "wall_ns": 1, "user_us": 1, "sys_us": 1, "maxrss_kb": 1, "minflt": 1,
 *      "majflt": 1, "exit": 0, "signal": 0}
 * Times and faults are sums over all runs, maxrss_kb is their mean. With -w it first touches and
 * frees so much memory, which is not measured: a virtual machine has to get memory from its host
 * that was not used for a while, and the first to use it would pay for that. With -m it looks at
 * the command's resident memory every so many milliseconds and adds "meanrss_kb", the mean over
 * time (of the command itself, not of its children), and "looks", how often it looked.
 *
 * It exists because Linux counts the memory of the process that calls exec into the peak of the new
 * program: started from Python, nothing seems to use less than 10 MB. This one is linked statically
 * and stays small. Who runs it: `hakmem bench` and bench/demo.py. It never touches the command's
 * own environment but for LD_PRELOAD, and it stops at the first run that fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct options {
    long runs;
    long look_ms; /* 0: memory is not looked at */
    long warm_mib;
    const char *preload;
    const char *output;
    const char *errors;
    char **command;
};

struct cost {
    long runs;
    uint64_t wall_ns, user_us, sys_us;
    long maxrss_kb_sum, minflt, majflt;
    uint64_t rss_kb_sum, looks;
    int status; /* as wait4 gives it, of the last run */
};

static void usage_and_exit(const char *wrong)
{
    fprintf(
        stderr,
        "launch: %s\n"
        "usage: launch [-n RUNS] [-w MEBIBYTES] [-m MILLISECONDS] [-p PRELOAD.so] [-o STDOUT_FILE] [-e STDERR_FILE] "
        "-- COMMAND [ARGS...]\n",
        wrong);
    exit(2);
}

static long number_read(const char *text, long most, const char *wrong)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (*end != '\0' || number < 1 || number > most)
        usage_and_exit(wrong);
    return number;
}

static struct options options_read(int argc, char **argv)
{
    struct options o = {.runs = 1};
    int letter;
    while ((letter = getopt(argc, argv, "+n:w:m:p:o:e:")) != -1) {
        switch (letter) {
        case 'n':
            o.runs = number_read(optarg, 1000000, "-n needs a number of runs from 1 to 1000000");
            break;
        case 'w':
            o.warm_mib = number_read(optarg, 65536, "-w needs a number of MiB from 1 to 65536");
            break;
        case 'm':
            o.look_ms =
                number_read(optarg, 10000, "-m needs a number of milliseconds from 1 to 10000");
            break;
        case 'p':
            o.preload = optarg;
            break;
        case 'o':
            o.output = optarg;
            break;
        case 'e':
            o.errors = optarg;
            break;
        default:
            usage_and_exit("unknown option");
        }
    }
    if (optind >= argc)
        usage_and_exit("no command given");
    o.command = argv + optind;
    return o;
}

static void child_redirect(const char *path, int fd)
{
    if (path == NULL)
        return;
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (file < 0 || dup2(file, fd) < 0) {
        fprintf(stderr, "launch: cannot write %s: %s\n", path, strerror(errno));
        _exit(126);
    }
    close(file);
}

static void child_exec(const struct options *o)
{
    child_redirect(o->output, STDOUT_FILENO);
    child_redirect(o->errors, STDERR_FILENO);
    execvp(o->command[0], o->command);
    fprintf(stderr, "launch: cannot run %s: %s\n", o->command[0], strerror(errno));
    _exit(127);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* In a child, so that nothing of it is left in this process. Where there is not so much it does
 * nothing. */
static void warm(long mib)
{
    pid_t child = fork();
    if (child == 0) {
        size_t bytes = (size_t)mib << 20;
        char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            _exit(0);
        madvise(p, bytes, MADV_HUGEPAGE);
        for (size_t i = 0; i < bytes; i += 4096)
            p[i] = 1;
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static uint64_t microseconds(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec;
}

/* What a process has resident; 0 when it is gone. */
static uint64_t resident_kb(pid_t process)
{
    char text[128];
    snprintf(text, sizeof text, "/proc/%d/statm", (int)process);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    const char *second = strchr(text, ' ');
    uint64_t page_kb = (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
    return second == NULL ? 0 : strtoull(second, NULL, 10) * page_kb;
}

/* Looks at a child's memory until it ends; it is not waited for. */
static void watch(pid_t child, long look_ms, struct cost *cost)
{
    struct timespec wait = {look_ms / 1000, look_ms % 1000 * 1000000};
    siginfo_t end = {0};
    for (;;) {
        nanosleep(&wait, NULL);
        if (waitid(P_PID, (id_t)child, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != 0)
            return;
        uint64_t kb = resident_kb(child);
        if (kb == 0)
            continue;
        cost->rss_kb_sum += kb;
        cost->looks++;
    }
}

static void run_once(const struct options *o, struct cost *cost)
{
    struct rusage usage;
    uint64_t begin = now_ns();
    pid_t child = fork();
    if (child == 0)
        child_exec(o);
    if (child < 0) {
        fprintf(stderr, "launch: cannot fork: %s\n", strerror(errno));
        exit(3);
    }
    if (o->look_ms != 0)
        watch(child, o->look_ms, cost);
    while (wait4(child, &cost->status, 0, &usage) < 0)
        if (errno != EINTR)
            exit(3);
    cost->wall_ns += now_ns() - begin;
    cost->user_us += microseconds(usage.ru_utime);
    cost->sys_us += microseconds(usage.ru_stime);
    cost->minflt += usage.ru_minflt;
    cost->majflt += usage.ru_majflt;
    cost->maxrss_kb_sum += usage.ru_maxrss;
    cost->runs++;
}

int main(int argc, char **argv)
{
    struct options o = options_read(argc, argv);
    struct cost cost = {0};
    /* Not by each child, which would copy pages for it that a run without does not. */
    if (o.preload != NULL && setenv("LD_PRELOAD", o.preload, 1) != 0)
        exit(3);
    if (o.warm_mib != 0)
        warm(o.warm_mib);
    for (long i = 0; i < o.runs && cost.status == 0; i++)
        run_once(&o, &cost);
    printf("{\"runs\": %ld, \"wall_ns\": %" PRIu64 ", \"user_us\": %" PRIu64
           ", \"sys_us\": %" PRIu64 ", \"maxrss_kb\": %ld, \"minflt\": %ld, \"majflt\": %ld, ",
           cost.runs, cost.wall_ns, cost.user_us, cost.sys_us, cost.maxrss_kb_sum / cost.runs,
           cost.minflt, cost.majflt);
    if (o.look_ms != 0)
        printf("\"meanrss_kb\": %" PRIu64 ", \"looks\": %" PRIu64 ", ",
               cost.looks == 0 ? 0 : cost.rss_kb_sum / cost.looks, cost.looks);
    printf("\"exit\": %d, \"signal\": %d}\n",
           WIFEXITED(cost.status) ? WEXITSTATUS(cost.status) : -1,
           WIFSIGNALED(cost.status) ? WTERMSIG(cost.status) : 0);
    return 0;
}
