/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: the control group of the process and what the kernel says of its memory, from small files
 * that are opened and closed within each call; never allocates, keeps errno, works without /proc
 * and /sys. Called by policy. See os.h.
 *
 * Control groups: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. */
#include "base/text.h"
#include "os/os.h"
#include "os/syscall_internal.h"

#include <errno.h>
#include <string.h>

enum { PIECE_BYTES = 1024, STAT_BYTES = 3072, LEVELS_MOST = 16 };

/* --- one number of a file of the system --- */

/* The beginning of a file as a string; "" if it cannot be read. */
static void group_read_text(const char *folder, const char *name, char *text, size_t bytes)
{
    char path[HAK_OS_GROUP_PATH + 64];
    struct hak_text joined;
    size_t got = 0;
    hak_text_begin(&joined, path, sizeof path);
    hak_text_string(&joined, folder);
    hak_text_string(&joined, name);
    if (joined.length >= sizeof path || hak_os_read_file(path, text, bytes - 1, &got) != 0)
        got = 0;
    text[got] = '\0';
}

/* "max", and anything else that is no number, is no limit. */
static uint64_t group_number(const char *folder, const char *name)
{
    char text[32];
    uint64_t value = UINT64_MAX;
    group_read_text(folder, name, text, sizeof text);
    hak_text_parse_size(text, hak_text_digits(text), &value);
    return value;
}

uint64_t hak_os_resident_bytes(void)
{
    char text[128];
    uint64_t pages = 0;
    group_read_text("/proc/self/statm", "", text, sizeof text);
    const char *second = text + hak_text_digits(text);
    second += *second == ' ';
    hak_text_parse_size(second, hak_text_digits(second), &pages);
    return pages * hak_os_page_bytes();
}

/* --- the control group --- */

#define GROUP_V2 "/sys/fs/cgroup"
#define GROUP_V1 "/sys/fs/cgroup/memory"

static bool group_is_v1(const char *path)
{
    return strncmp(path, GROUP_V1 "/", sizeof GROUP_V1) == 0;
}

static uint64_t group_limit(const char *path)
{
    uint64_t max;
    if (group_is_v1(path)) {
        max = group_number(path, "memory.limit_in_bytes");
        return max > UINT64_C(1) << 60 ? UINT64_MAX : max; /* "no limit" is a large number there */
    }
    max = group_number(path, "memory.max");
    return hak_min(max, group_number(path, "memory.high"));
}

/* Cached files that nobody has used of late: the kernel drops these before anything hurts. */
static uint64_t group_idle_cache(const char *path)
{
    char text[STAT_BYTES];
    const char *name = group_is_v1(path) ? "\ntotal_inactive_file " : "\ninactive_file ";
    uint64_t bytes = 0;
    group_read_text(path, "memory.stat", text, sizeof text);
    const char *found = hak_text_find(text, name);
    if (found != NULL)
        hak_text_parse_size(found + strlen(name), hak_text_digits(found + strlen(name)), &bytes);
    return bytes;
}

static uint64_t group_used(const char *path)
{
    uint64_t used =
        group_number(path, group_is_v1(path) ? "memory.usage_in_bytes" : "memory.current");
    return used == UINT64_MAX ? 0 : used - hak_min(used, group_idle_cache(path));
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0": the total, in microseconds. */
static uint64_t group_stalled(const char *path)
{
    char text[256];
    uint64_t total = 0;
    if (group_is_v1(path))
        return 0;
    group_read_text(path, "memory.pressure", text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    const char *found = strncmp(text, "some ", 5) == 0 ? hak_text_find(text, " total=") : NULL;
    if (found != NULL)
        hak_text_parse_size(found + 7, hak_text_digits(found + 7), &total);
    return total;
}

/* Where in `line`, "4:cpu,memory:/path" or "0::/path", the path begins, if this is the line of the
 * memory controller; else NULL. */
static const char *group_path_in(const char *line, bool *v1)
{
    const char *controllers = line + hak_text_digits(line);
    if (controllers == line || *controllers++ != ':')
        return NULL;
    size_t length = strcspn(controllers, ":\n");
    if (controllers[length] != ':')
        return NULL;
    *v1 = length != 0;
    for (size_t at = 0; at < length; at += strcspn(controllers + at, ",:") + 1)
        if (strncmp(controllers + at, "memory", 6) == 0 && strcspn(controllers + at, ",:") == 6)
            return controllers + length + 1;
    return length == 0 ? controllers + 1 : NULL;
}

/* The lines of a file, one after the other: with version 1 there are a dozen, of 200 characters and
 * more in a container. A line that does not fit is cut off; what follows it is read as lines of
 * their own, which are none of a controller. */
struct group_lines {
    int file;
    size_t have_bytes, used_bytes;
    char text[PIECE_BYTES];
};

/* The next line, without its end; NULL: there is none. */
static char *group_next_line(struct group_lines *l)
{
    memmove(l->text, l->text + l->used_bytes, l->have_bytes -= l->used_bytes);
    for (size_t got = 1; got != 0 && l->have_bytes < sizeof l->text - 1;) {
        got = hak_os_read(l->file, l->text + l->have_bytes, sizeof l->text - 1 - l->have_bytes);
        l->have_bytes += got;
    }
    l->text[l->have_bytes] = '\0';
    size_t length = strcspn(l->text, "\n");
    l->used_bytes = hak_min(length + 1, l->have_bytes);
    l->text[length] = '\0';
    return l->have_bytes == 0 ? NULL : l->text;
}

/* Puts the folder of the group together, if it is a group's line. True: there is no better one. */
static bool group_take_line(const char *line, char path[HAK_OS_GROUP_PATH])
{
    bool v1 = false;
    struct hak_text joined;
    const char *group = group_path_in(line, &v1);
    size_t length = group == NULL ? 0 : strlen(group);
    if (length == 0 || length >= HAK_OS_GROUP_PATH - sizeof GROUP_V1 - 1)
        return false;
    hak_text_begin(&joined, path, HAK_OS_GROUP_PATH);
    hak_text_string(&joined, v1 ? GROUP_V1 : GROUP_V2);
    hak_text_string(&joined, group);
    hak_text_string(&joined, length > 1 ? "/" : "");
    return v1;
}

/* The folder of the process's group with a slash at its end: version 1's memory controller if it
 * has one, for then version 2 has none. */
static void group_find(char path[HAK_OS_GROUP_PATH])
{
    struct group_lines lines = {.file = hak_os_open("/proc/self/cgroup", false)};
    const char *line;
    path[0] = '\0';
    if (lines.file < 0)
        return;
    while ((line = group_next_line(&lines)) != NULL && !group_take_line(line, path))
        continue;
    hak_os_close(lines.file);
}

/* Cuts the last folder off; false at the root of the tree. */
static bool group_up(char *path)
{
    size_t root = group_is_v1(path) ? sizeof GROUP_V1 : sizeof GROUP_V2;
    size_t length = strlen(path);
    if (length <= root)
        return false;
    for (length--; path[length - 1] != '/'; length--)
        continue;
    path[length] = '\0';
    return true;
}

/* Limits of the groups around it hold too; in a container its own path may not be there, and the
 * root of the tree is the container's group. */
static void group_choose(char path[HAK_OS_GROUP_PATH])
{
    char at[HAK_OS_GROUP_PATH];
    uint64_t least = UINT64_MAX;
    memcpy(at, path, HAK_OS_GROUP_PATH);
    for (int level = 0; level < LEVELS_MOST; level++) {
        uint64_t limit = group_limit(at);
        uint64_t used = limit == UINT64_MAX ? 0 : group_used(at);
        uint64_t left = limit == UINT64_MAX ? UINT64_MAX : limit - hak_min(limit, used);
        if (left < least) {
            least = left;
            memcpy(path, at, HAK_OS_GROUP_PATH);
        }
        if (!group_up(at))
            break;
    }
}

void hak_os_group(char path[HAK_OS_GROUP_PATH], struct hak_os_group *out)
{
    *out = (struct hak_os_group){.max_bytes = UINT64_MAX};
    if (path[0] == '\0') {
        group_find(path);
        if (path[0] == '\0')
            return;
        group_choose(path);
    }
    out->max_bytes = group_limit(path);
    if (out->max_bytes == UINT64_MAX)
        return;
    out->used_bytes = group_used(path);
    out->stalled_us = group_stalled(path);
}
