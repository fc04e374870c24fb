/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The control group's limit, in the forms in which systems show it: src/os/group_linux.c with a
 * made-up kernel (tests/fuzz/fake) whose files are what each case says. Every file is closed again,
 * and only files below /proc and /sys are opened. Prints what is wrong and exits with 1. */
#include "os/os.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

long fuzz_syscall(long n, long a, long b, long c);

struct file {
    const char *path, *text;
};

struct group_case {
    const char *name;
    struct file files[10];
    uint64_t max, used, stalled;
    const char *path;
};

#define ROOT "/sys/fs/cgroup/"
#define V1 "/sys/fs/cgroup/memory/"
#define STALLS(total)                                                                              \
    "some avg10=1.00 avg60=0.50 avg300=0.10 total=" total "\nfull avg10=0.00 total=9999\n"

#define NAME_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LONG_NAME NAME_64 NAME_64 NAME_64 NAME_64
#define POD "/kubepods/burstable/pod01234567-89ab-cdef-0123-456789abcdef/" NAME_64 "\n"

static const struct group_case cases[] = {
    {"version 2",
     {{"/proc/self/cgroup", "0::/shop/web\n"},
      {ROOT "shop/web/memory.max", "1000000\n"},
      {ROOT "shop/web/memory.high", "max\n"},
      {ROOT "shop/web/memory.current", "700000\n"},
      {ROOT "shop/web/memory.stat", "anon 400000\nfile 300000\ninactive_file 200000\nslab 5\n"},
      {ROOT "shop/web/memory.pressure", STALLS("12345")}},
     1000000,
     500000,
     12345,
     ROOT "shop/web/"},
    {"memory.high is less",
     {{"/proc/self/cgroup", "0::/a\n"},
      {ROOT "a/memory.max", "1000000\n"},
      {ROOT "a/memory.high", "800000\n"},
      {ROOT "a/memory.current", "700000\n"}},
     800000,
     700000,
     0,
     ROOT "a/"},
    {"a container: its own path is not there, the root is its group",
     {{"/proc/self/cgroup", "0::/../../docker/0123\n"},
      {ROOT "memory.max", "4096\n"},
      {ROOT "memory.current", "4000\n"}},
     4096,
     4000,
     0,
     ROOT},
    {"the group around it leaves less",
     {{"/proc/self/cgroup", "0::/slice/service\n"},
      {ROOT "slice/service/memory.max", "9000\n"},
      {ROOT "slice/service/memory.current", "1000\n"},
      {ROOT "slice/memory.max", "9500\n"},
      {ROOT "slice/memory.current", "9000\n"}},
     9500,
     9000,
     0,
     ROOT "slice/"},
    {"version 1 beside version 2",
     {{"/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/batch\n0::/\n"},
      {V1 "batch/memory.limit_in_bytes", "5000000\n"},
      {V1 "batch/memory.usage_in_bytes", "4000000\n"},
      {V1 "batch/memory.stat", "cache 1\ninactive_file 7\ntotal_inactive_file 1000000\n"}},
     5000000,
     3000000,
     0,
     V1 "batch/"},
    {"version 1 in a container: the file is longer than 1 KiB, and memory comes late",
     {{"/proc/self/cgroup",
       "12:blkio:" POD "11:pids:" POD "10:hugetlb:" POD "9:perf_event:" POD "8:cpuset:" POD
       "7:cpu,cpuacct:" POD "6:freezer:" POD "5:net_cls,net_prio:" POD "4:devices:" POD
       "3:memory:" POD "2:rdma:/\n1:name=systemd:" POD "0::/system.slice/containerd.service\n"},
      {V1 "memory.limit_in_bytes", "5000000\n"},
      {V1 "memory.usage_in_bytes", "4000000\n"}},
     5000000,
     4000000,
     0,
     V1},
    {"a line that is longer than a path can be",
     {{"/proc/self/cgroup",
       "9:name=systemd:/" LONG_NAME LONG_NAME LONG_NAME LONG_NAME LONG_NAME "\n4:memory:/a\n"},
      {V1 "a/memory.limit_in_bytes", "5000000\n"},
      {V1 "a/memory.usage_in_bytes", "4000000\n"}},
     5000000,
     4000000,
     0,
     V1 "a/"},
    {"version 1 without a limit",
     {{"/proc/self/cgroup", "4:memory:/\n"},
      {V1 "memory.limit_in_bytes", "9223372036854771712\n"},
      {V1 "memory.usage_in_bytes", "4000000\n"}},
     UINT64_MAX,
     0,
     0,
     V1},
    {"no limit",
     {{"/proc/self/cgroup", "0::/\n"}, {ROOT "memory.max", "max\n"}},
     UINT64_MAX,
     0,
     0,
     ROOT},
    {"no /proc", {{NULL, NULL}}, UINT64_MAX, 0, 0, ""},
    {"nonsense", {{"/proc/self/cgroup", "memory\n::::\n7\n0:memory\n"}}, UINT64_MAX, 0, 0, ""},
};

static const struct group_case *now;
static int open_files, most_open, failures;
static const char *open_text;

static void expect(bool right, const char *what)
{
    if (right)
        return;
    (void)printf("group: FAILED: %s: %s\n", now->name, what);
    failures++;
}

static long fake_open(const char *path)
{
    expect(strncmp(path, "/proc/", 6) == 0 || strncmp(path, ROOT, sizeof ROOT - 1) == 0, path);
    for (size_t i = 0; i < 10 && now->files[i].path != NULL; i++) {
        if (strcmp(now->files[i].path, path) != 0)
            continue;
        open_text = now->files[i].text;
        open_files++;
        most_open = open_files > most_open ? open_files : most_open;
        return 100;
    }
    return -ENOENT;
}

/* At most five bytes at a time. */
static long fake_read(char *to, size_t bytes)
{
    size_t n = strnlen(open_text, bytes < 5 ? bytes : 5);
    memcpy(to, open_text, n);
    open_text += n;
    return (long)n;
}

long fuzz_syscall(long n, long a, long b, long c)
{
    (void)a;
    if (n == SYS_openat)
        return fake_open((const char *)b); /* NOLINT(performance-no-int-to-ptr): a system call */
    if (n == SYS_read)
        return fake_read((char *)b, (size_t)c); /* NOLINT(performance-no-int-to-ptr) */
    expect(n == SYS_close, "another system call");
    open_files--;
    return 0;
}

static void check(void)
{
    char path[HAK_OS_GROUP_PATH] = "";
    for (int twice = 0; twice < 2; twice++) { /* the second time with the path that was found */
        struct hak_os_group group;
        hak_os_group(path, &group);
        expect(group.max_bytes == now->max, "limit");
        expect(group.used_bytes == now->used, "use");
        expect(group.stalled_us == now->stalled, "stalls");
        expect(strcmp(path, now->path) == 0, path);
        expect(open_files == 0 && most_open <= 1, "a file is still open");
    }
}

static void check_resident(void)
{
    static const struct group_case memory = {
        "statm", {{"/proc/self/statm", "900 25 7 1 0 3 0\n"}}, 0, 0, 0, ""};
    now = &memory;
    expect(hak_os_resident_bytes() == 25 * 4096, "resident");
    static const struct group_case nothing = {"no statm", {{NULL, NULL}}, 0, 0, 0, ""};
    now = &nothing;
    expect(hak_os_resident_bytes() == 0, "resident without /proc");
}

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        now = &cases[i];
        check();
    }
    check_resident();
    (void)printf("group: %zu cases, %d failures\n", sizeof cases / sizeof cases[0], failures);
    return failures != 0;
}
