/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: another process: what is mapped, and its bytes, see remote.h. */
#include "remote.h"

#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

uint64_t hak_remote_clock_ns(clockid_t clock)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

FILE *hak_remote_open_file(pid_t pid, const char *name)
{
    char *path = hak_format("/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    free(path);
    return file;
}

/* --- what stands in the way --- */

static bool remote_is_alone_on_ptrace(void)
{
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    int scope = 0;
    if (file != NULL) {
        if (fscanf(file, "%d", &scope) != 1)
            scope = 0;
        (void)fclose(file);
    }
    return scope > 0;
}

bool hak_remote_is_hidden(pid_t pid, struct hak_obstacle *o)
{
    if (kill(pid, 0) < 0 && errno == ESRCH)
        return false;
    if (access("/proc/self", F_OK) != 0) {
        o->problem = hak_format("process %d cannot be looked at: /proc is not mounted", (int)pid);
        o->hint = "mount -t proc proc /proc";
    } else {
        o->problem = hak_format("process %d cannot be looked at: /proc does not show it to this "
                                "user (its option hidepid)",
                                (int)pid);
        o->hint = "run the command as root, or as the user who owns the process";
    }
    return true;
}

static void remote_refused(struct hak_obstacle *o, pid_t pid, int error)
{
    if (error == ENOENT && hak_remote_is_hidden(pid, o))
        return;
    if (error == ENOENT || error == ESRCH) {
        o->problem = hak_format("there is no process %d", (int)pid);
        o->hint = "give the number of a running process, as ps prints it";
        return;
    }
    o->problem =
        hak_format("the memory of process %d cannot be read: %s", (int)pid,
                   error == 0 ? "it has none (a kernel thread, or a process that has ended)"
                              : strerror(error));
    if (error == 0)
        o->hint = "give the number of a running program";
    else if (geteuid() == 0)
        o->hint = "in a container, start it with --cap-add=SYS_PTRACE (Docker, Podman), or run the "
                  "command outside of it";
    else if (remote_is_alone_on_ptrace())
        o->hint = "run the command as root, or allow it with: sysctl kernel.yama.ptrace_scope=0";
    else
        o->hint = "run the command as root, or as the user who owns the process (in a container: "
                  "with --cap-add=SYS_PTRACE)";
}

void hak_obstacle_free(struct hak_obstacle *obstacle)
{
    free(obstacle->problem);
    *obstacle = (struct hak_obstacle){0};
}

/* --- what is mapped --- */

struct hak_mapping *hak_remote_add(struct hak_remote *r, uint64_t start, uint64_t end,
                                   const char *name)
{
    if (r->count % 64 == 0)
        r->mappings = hak_grow(r->mappings, r->count + 64, sizeof *r->mappings);
    struct hak_mapping *m = &r->mappings[r->count++];
    *m = (struct hak_mapping){
        .start = start, .end = end, .name = hak_format("%s", name), .at_offset = UINT64_MAX};
    return m;
}

void hak_remote_forget_mappings(struct hak_remote *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->mappings[i].name);
        free(r->mappings[i].resident);
    }
    free(r->mappings);
    r->mappings = NULL;
    r->count = 0;
}

/* A line of /proc/PID/maps or the first of an entry of smaps. */
struct hak_mapping *hak_remote_add_line(struct hak_remote *r, const char *line)
{
    uint64_t start, end, offset;
    char flags[5];
    int name = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &start, &end, flags,
               &offset, &name) < 4 ||
        name == 0)
        return NULL;
    struct hak_mapping *m = hak_remote_add(r, start, end, line + name);
    m->name[strcspn(m->name, "\n")] = '\0';
    m->file_offset = offset;
    m->writable = flags[1] == 'w';
    m->shared = flags[3] == 's';
    return m;
}

static bool remote_read_maps(struct hak_remote *r)
{
    FILE *maps = hak_remote_open_file(r->pid, "maps");
    if (maps == NULL)
        return false;
    char *line = NULL;
    size_t size = 0;
    errno = 0;
    while (getline(&line, &size, maps) > 0)
        (void)hak_remote_add_line(r, line);
    int error = ferror(maps) ? errno : 0;
    free(line);
    (void)fclose(maps);
    errno = error;
    return r->count > 0;
}

/* --- the process itself --- */

/* Seconds since boot at which it started are the 22nd word of its stat, behind the name, which is
 * in parentheses and may hold anything. */
static void remote_read_start(struct hak_remote *r)
{
    char text[1024];
    FILE *file = hak_remote_open_file(r->pid, "stat");
    if (file == NULL)
        return;
    size_t length = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[length] = '\0';
    char *word = strrchr(text, ')');
    for (int i = 2; word != NULL && i < 22; i++) {
        word = strchr(word, ' ');
        word = word == NULL ? NULL : word + 1;
    }
    uint64_t ticks = word == NULL ? 0 : strtoull(word, NULL, 10);
    uint64_t started_ns = ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t now_ns = hak_remote_clock_ns(CLOCK_BOOTTIME);
    if (ticks != 0 && now_ns >= started_ns)
        r->uptime_ns = now_ns - started_ns;
}

static void remote_read_name(struct hak_remote *r)
{
    char text[64] = "";
    FILE *file = hak_remote_open_file(r->pid, "comm");
    if (file != NULL) {
        if (fgets(text, sizeof text, file) == NULL)
            text[0] = '\0';
        (void)fclose(file);
    }
    text[strcspn(text, "\n")] = '\0';
    r->name = hak_printable(hak_format("%s", text));
}

bool hak_remote_open(struct hak_remote *r, pid_t pid, struct hak_obstacle *obstacle)
{
    *r = (struct hak_remote){.pid = pid,
                             .memory = -1,
                             .kernel_rss_bytes = UINT64_MAX,
                             .swap_bytes = UINT64_MAX,
                             .uptime_ns = UINT64_MAX};
    char *path = hak_format("/proc/%d/mem", (int)pid);
    r->memory = open(path, O_RDONLY | O_CLOEXEC);
    int error = r->memory < 0 ? errno : 0;
    free(path);
    if (error == 0 && !remote_read_maps(r))
        error = errno;
    else if (error == 0)
        error = -1;
    if (error >= 0) {
        bool is_gone = kill(pid, 0) < 0 && errno == ESRCH;
        if (error == EACCES && is_gone)
            error = ESRCH;
        if (error == ESRCH && !is_gone) /* the kernel's word for a process without memory, too */
            error = 0;
        remote_refused(obstacle, pid, error);
        return false;
    }
    remote_read_name(r);
    remote_read_start(r);
    return true;
}

void hak_remote_close(struct hak_remote *r)
{
    if (r->memory >= 0)
        (void)close(r->memory);
    hak_remote_forget_mappings(r);
    for (size_t i = 0; i < r->file_count; i++)
        free(r->files[i].name);
    free(r->files);
    free(r->name);
    free(r->path);
    *r = (struct hak_remote){.memory = -1};
}

/* --- bytes --- */

size_t hak_remote_behind(const struct hak_remote *r, uint64_t at)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->mappings[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct hak_mapping *hak_remote_find(struct hak_remote *r, uint64_t at)
{
    size_t behind = hak_remote_behind(r, at);
    return behind < r->count && r->mappings[behind].start <= at ? &r->mappings[behind] : NULL;
}

static bool remote_pread(int file, void *out, size_t bytes, uint64_t offset)
{
    size_t have = 0;
    while (have < bytes) {
        ssize_t n = pread(file, (char *)out + have, bytes - have, (off_t)(offset + have));
        if (n <= 0 && errno != EINTR)
            return false;
        have += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* What a core left out because a file has it: text and constants. What the process may have written
 * is not as the file has it. */
static bool remote_read_file(const struct hak_remote *r, uint64_t at, void *out, size_t bytes)
{
    for (size_t i = 0; i < r->file_count; i++) {
        const struct hak_mapping *m = &r->files[i];
        if (at < m->start || at >= m->end || bytes > m->end - at)
            continue;
        int file = open(m->name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        bool read = file >= 0 && remote_pread(file, out, bytes, m->file_offset + (at - m->start));
        if (file >= 0)
            (void)close(file);
        return read;
    }
    return false;
}

static bool remote_read_core(struct hak_remote *r, uint64_t at, char *out, size_t bytes)
{
    while (bytes > 0) {
        const struct hak_mapping *m = hak_remote_find(r, at);
        if (m == NULL || m->at_offset == UINT64_MAX)
            return (m == NULL || !m->writable) && remote_read_file(r, at, out, bytes);
        size_t part = m->end - at < bytes ? (size_t)(m->end - at) : bytes;
        if (!remote_pread(r->memory, out, part, m->at_offset + (at - m->start)))
            return false;
        at += part;
        out += part;
        bytes -= part;
    }
    return true;
}

bool hak_remote_read(struct hak_remote *r, uint64_t at, void *out, size_t bytes)
{
    errno = 0;
    if (r->is_core)
        return remote_read_core(r, at, out, bytes);
    while (!r->by_mem && bytes > 0) {
        struct iovec here = {out, bytes};
        struct iovec there = {(void *)(uintptr_t)at, bytes}; /* NOLINT: an address over there */
        ssize_t n = process_vm_readv(r->pid, &here, 1, &there, 1, 0);
        if (n < 0 && (errno == ENOSYS || errno == EPERM))
            r->by_mem = true; /* a sandbox may allow one and not the other */
        else if (n <= 0)
            return false;
        else
            out = (char *)out + n, at += (uint64_t)n, bytes -= (size_t)n;
    }
    return bytes == 0 || remote_pread(r->memory, out, bytes, at);
}

void hak_remote_read_string(struct hak_remote *r, uint64_t at, char *text, size_t size_bytes)
{
    size_t i = 0;
    while (i < size_bytes - 1 && hak_remote_read(r, at + i, text + i, 1) && text[i] != '\0')
        i++;
    text[i] = '\0';
}
