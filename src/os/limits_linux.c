/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: what Linux allows the process, for the record of a failed allocation. Opens files and closes
 * them again before it returns; never allocates, keeps errno, works without /proc. See os.h. */
#include "os/os.h"
#include "os/syscall_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

enum { PIECE_BYTES = 1024 }; /* the stack may be small */

static int limits_open(const char *path)
{
    return (int)hak_syscall6(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

static size_t limits_read(int file, char *piece, size_t bytes)
{
    long got = hak_syscall6(SYS_read, file, (long)piece, (long)bytes, 0, 0, 0);
    return got > 0 ? (size_t)got : 0;
}

static void limits_close(int file)
{
    hak_syscall6(SYS_close, file, 0, 0, 0, 0, 0);
}

static uint64_t limits_count_lines(const char *path)
{
    char piece[PIECE_BYTES] = {0};
    uint64_t lines = 0;
    int file = limits_open(path);
    if (file < 0)
        return UINT64_MAX;
    for (size_t got; (got = limits_read(file, piece, sizeof piece)) != 0;)
        for (size_t i = 0; i < got; i++)
            lines += piece[i] == '\n';
    limits_close(file);
    return lines;
}

/* The beginning of a file as a string; "" if it cannot be read. */
static void limits_read_text(const char *path, char *text, size_t bytes)
{
    int file = limits_open(path);
    size_t got = file < 0 ? 0 : limits_read(file, text, bytes - 1);
    text[got] = '\0';
    if (file >= 0)
        limits_close(file);
}

/* The number in a file of the process's control group; "max" is no number. */
static uint64_t limits_of_cgroup(const char *group, const char *name)
{
    char path[PIECE_BYTES];
    char number[32];
    struct hak_text text;
    uint64_t value = UINT64_MAX;
    hak_text_begin(&text, path, sizeof path);
    hak_text_string(&text, "/sys/fs/cgroup");
    hak_text_string(&text, group);
    hak_text_string(&text, name);
    limits_read_text(path, number, sizeof number);
    hak_text_parse_size(number, strcspn(number, "\n"), &value);
    return value;
}

/* The path in the line "0::/path" of /proc/self/cgroup: version 2's, the only one with one file for
 * the limit; "" if there is none. */
static void limits_find_cgroup(char *group, size_t bytes)
{
    limits_read_text("/proc/self/cgroup", group, bytes);
    char *line = group;
    while (*line != '\0' && strncmp(line, "0::", 3) != 0) {
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    size_t length = *line == '\0' ? 0 : strcspn(line, "\n") - 3;
    memmove(group, line + (length != 0 ? 3 : 0), length);
    group[length] = '\0';
}

static uint64_t limits_of_process(int resource)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    hak_syscall6(SYS_prlimit64, 0, resource, 0, (long)&limit, 0, 0);
    return limit.rlim_cur;
}

uint64_t hak_os_address_space_limit(void)
{
    return limits_of_process(RLIMIT_AS);
}

uint64_t hak_os_data_limit(void)
{
    return limits_of_process(RLIMIT_DATA);
}

void hak_os_limits(struct hak_os_limits *out)
{
    char group[PIECE_BYTES];
    out->address_space_bytes = hak_os_address_space_limit();
    out->data_bytes = hak_os_data_limit();
    out->mappings = limits_count_lines("/proc/self/maps");
    limits_find_cgroup(group, sizeof group);
    out->cgroup_max_bytes = limits_of_cgroup(group, "/memory.max");
    out->cgroup_used_bytes = limits_of_cgroup(group, "/memory.current");
}
