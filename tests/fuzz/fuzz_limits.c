/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: what src/os/limits_linux.c reads of the system: /proc/self/maps, /proc/self/cgroup, and
 * the files memory.max and memory.current of the control group named there. The input holds the
 * four files, each after two bytes: flags (it cannot be opened; reading it fails half-way; short
 * reads) and the size in units of four bytes, the last one has the rest. The kernel is made up, see
 * fake/os/syscall_internal.h.
 *
 * Checked against a second, plain reading of the same files. Only files below /proc and /sys may be
 * opened, and all are closed again. */
#include "fuzz.h"

#include "os/os.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { MAPS, CGROUP, MAX, CURRENT, FILES };
enum { ABSENT = 1, BROKEN = 2, SHORT = 4 };

static struct file {
    const uint8_t *bytes;
    size_t size, at;
    unsigned flags;
    bool open;
} files[FILES];

static char group_path[4096]; /* of the control group, as it was opened */

long fuzz_syscall(long n, long a, long b, long c);

static long fake_open(const char *path)
{
    static const char tree[] = "/sys/fs/cgroup";
    size_t length = strlen(path);
    int which;
    if (strcmp(path, "/proc/self/maps") == 0) {
        which = MAPS;
    } else if (strcmp(path, "/proc/self/cgroup") == 0) {
        which = CGROUP;
    } else {
        fuzz_check(strncmp(path, tree, sizeof tree - 1) == 0, "opens %s", path);
        if (length > 11 && strcmp(path + length - 11, "/memory.max") == 0)
            which = MAX;
        else if (length > 15 && strcmp(path + length - 15, "/memory.current") == 0)
            which = CURRENT;
        else
            return -ENOENT; /* a path that was cut off */
        size_t tail = which == MAX ? 11 : 15;
        (void)snprintf(group_path, sizeof group_path, "%.*s",
                       (int)(length - tail - (sizeof tree - 1)), path + sizeof tree - 1);
    }
    struct file *f = &files[which];
    fuzz_check(!f->open, "%s is opened twice", path);
    if (f->flags & ABSENT)
        return -ENOENT;
    f->open = true;
    f->at = 0;
    return 100 + which;
}

static long fake_read(struct file *f, void *buffer, size_t bytes)
{
    size_t n = f->size - f->at;
    if ((f->flags & BROKEN) && f->at >= f->size / 2)
        return -EIO;
    n = n < bytes ? n : bytes;
    n = (f->flags & SHORT) && n > 3 ? n / 2 : n;
    if (n > 0)
        memcpy(buffer, f->bytes + f->at, n);
    f->at += n;
    return (long)n;
}

long fuzz_syscall(long n, long a, long b, long c)
{
    if (n == SYS_openat)
        return fake_open((const char *)b); // NOLINT(performance-no-int-to-ptr)
    if (n == SYS_prlimit64)
        return 0;
    fuzz_check(a >= 100 && a < 100 + FILES && files[a - 100].open, "system call %ld of file %ld", n,
               a);
    struct file *f = &files[a - 100];
    if (n == SYS_read)
        return fake_read(f, (void *)b, (size_t)c); // NOLINT(performance-no-int-to-ptr)
    fuzz_check(n == SYS_close, "system call %ld", n);
    f->open = false;
    return 0;
}

static void take_files(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    for (int i = 0; i < FILES; i++) {
        unsigned flags = fuzz_byte(&in);
        size_t wanted = (size_t)fuzz_byte(&in) * 4;
        size_t length = i == FILES - 1 || wanted > fuzz_left(&in) ? fuzz_left(&in) : wanted;
        files[i] = (struct file){.bytes = in.at, .size = length, .flags = flags};
        in.at += length;
    }
}

/* A number of digits only, with an end of line or at the end. Others are not looked at here. */
static void check_number(const struct file *f, uint64_t value)
{
    size_t digits = 0;
    if (f->flags != 0)
        return;
    while (digits < f->size && f->bytes[digits] >= '0' && f->bytes[digits] <= '9')
        digits++;
    bool plain = digits > 0 && digits < 19 && (digits == f->size || f->bytes[digits] == '\n');
    if (f->size == 0 || f->bytes[0] == 'm')
        fuzz_check(value == UINT64_MAX, "no number is %llu", (unsigned long long)value);
    else if (plain)
        fuzz_check(value ==
                       strtoull((const char *)memcpy((char[32]){0}, f->bytes, digits), NULL, 10),
                   "a number is %llu", (unsigned long long)value);
}

static void check_mappings(const struct file *f, uint64_t mappings)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < f->size; i++)
        lines += f->bytes[i] == '\n';
    if (f->flags & ABSENT)
        fuzz_check(mappings == UINT64_MAX, "mappings of no file");
    else if (f->flags & BROKEN)
        fuzz_check(mappings <= lines, "more mappings than lines");
    else
        fuzz_check(mappings == lines, "%llu mappings, %llu lines", (unsigned long long)mappings,
                   (unsigned long long)lines);
}

/* The group is what follows "0::" at the beginning of a line that was read. */
static void check_group(const struct file *f)
{
    if (group_path[0] == '\0')
        return;
    char line[4100];
    (void)snprintf(line, sizeof line, "0::%s", group_path);
    fuzz_check(memmem(f->bytes, f->size, line, strlen(line)) != NULL, "a made-up group %s",
               group_path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hak_os_limits limits;
    take_files(data, size);
    group_path[0] = '\0';
    hak_os_limits(&limits);
    for (int i = 0; i < FILES; i++)
        fuzz_check(!files[i].open, "a file stays open");
    check_mappings(&files[MAPS], limits.mappings);
    check_group(&files[CGROUP]);
    check_number(&files[MAX], limits.cgroup_max_bytes);
    check_number(&files[CURRENT], limits.cgroup_used_bytes);
    return 0;
}
