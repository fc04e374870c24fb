/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: what `hakmem doctor` finds in the control group of a process, version 1 or
 * 2: the tightest limit from it up to the root, how near it is, and what pressure there is. */
#include "doctor.h"

#include "system.h"
#include "util.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct group {
    bool version2;
    const char *mount;
    char *path; /* of the group, from the mount on; "" is the root */
};

/* Its line in /proc/PID/cgroup: "0::/PATH", or for version 1 "N:memory:/PATH". */
static bool group_find(struct group *g, const struct hak_doctor *d)
{
    char line[4096];
    char *path = hak_format("%s/cgroup", d->folder);
    FILE *file = hak_system_open(path);
    free(path);
    *g = (struct group){0};
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':');
        char *where = names == NULL ? NULL : strchr(names + 1, ':');
        if (where == NULL)
            continue;
        *where++ = '\0';
        char *list = names + 1, *rest = NULL;
        bool is_memory = false;
        for (char *n = strtok_r(list, ",", &rest); n != NULL; n = strtok_r(NULL, ",", &rest))
            is_memory |= strcmp(n, "memory") == 0;
        if (!is_memory && (names[1] != '\0' || g->path != NULL))
            continue;
        free(g->path);
        g->version2 = !is_memory;
        g->path = hak_format("%s", strcmp(where, "/") == 0 ? "" : where);
        if (is_memory)
            break;
    }
    if (file != NULL)
        (void)fclose(file);
    g->mount = g->version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    if (g->path == NULL)
        return false;
    char *folder = hak_format("%s%s", g->mount, g->path);
    if (!hak_system_exists(folder)) /* in a container its own group is what it sees as the root */
        g->path[0] = '\0';
    free(folder);
    return true;
}

static uint64_t group_number(const struct group *g, const char *path, const char *name)
{
    char *file = hak_format("%s%s/%s", g->mount, path, name);
    uint64_t number = hak_system_number(file);
    free(file);
    return number >= UINT64_C(1) << 62 ? UINT64_MAX : number; /* version 1 has no "max" */
}

/* A "NAME NUMBER" line of a file; UINT64_MAX: there is none. */
static uint64_t group_line(const struct group *g, const char *path, const char *name,
                           const char *key)
{
    char line[256];
    uint64_t number = UINT64_MAX;
    size_t length = strlen(key);
    char *where = hak_format("%s%s/%s", g->mount, path, name);
    FILE *file = hak_system_open(where);
    free(where);
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, length) == 0 && line[length] == ' ' &&
            sscanf(line + length, " %" SCNu64, &number) == 1)
            break;
    if (file != NULL)
        (void)fclose(file);
    return number;
}

/* Files that nobody uses at the moment count as used, and go when memory is wanted. */
static uint64_t group_used(const struct group *g, const char *path)
{
    uint64_t used = group_number(g, path, g->version2 ? "memory.current" : "memory.usage_in_bytes");
    uint64_t files =
        group_line(g, path, "memory.stat", g->version2 ? "inactive_file" : "total_inactive_file");
    return used == UINT64_MAX || files == UINT64_MAX || files > used ? used : used - files;
}

static void group_limit(struct hak_doctor *d, const struct group *g)
{
    char a[16], b[16];
    uint64_t tightest = UINT64_MAX, used = UINT64_MAX;
    bool throttles = false;
    char *path = hak_format("%s", g->path);
    for (;;) {
        uint64_t limit =
            group_number(g, path, g->version2 ? "memory.max" : "memory.limit_in_bytes");
        uint64_t high = g->version2 ? group_number(g, path, "memory.high") : UINT64_MAX;
        uint64_t least = limit < high ? limit : high;
        if (least < tightest) {
            tightest = least;
            throttles = high < limit;
            used = group_used(g, path);
        }
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
    }
    free(path);
    if (tightest == UINT64_MAX) {
        hak_doctor_add(d, "cgroup_limit", HAK_OK, hak_format("none"), NULL, NULL);
        return;
    }
    const char *name = throttles ? "memory.high" : g->version2 ? "memory.max" : "limit_in_bytes";
    bool near = used != UINT64_MAX && used > tightest - tightest / 10;
    char *value = used == UINT64_MAX ? hak_format("%s (%s)", hak_bytes_text(a, tightest), name)
                                     : hak_format("%s of %s (%s)", hak_bytes_text(a, used),
                                                  hak_bytes_text(b, tightest), name);
    if (!near)
        hak_doctor_add(d, "cgroup_limit", HAK_OK, value, NULL, NULL);
    else
        hak_doctor_add(d, "cgroup_limit", HAK_PROBLEM, value,
                       throttles ? "the kernel slows the processes of the group down to take "
                                   "memory from them"
                                 : "at the limit the kernel ends a process of the group, without "
                                   "an allocation that fails before",
                       hak_format("raise %s, or set HAKMEM_LIMIT_MB below it, so that an "
                                  "allocation fails instead",
                                  name));
}

static void group_kills(struct hak_doctor *d, const struct group *g)
{
    uint64_t kills =
        group_line(g, g->path, g->version2 ? "memory.events" : "memory.oom_control", "oom_kill");
    if (kills != UINT64_MAX && kills > 0)
        hak_doctor_add(d, "cgroup_kills", HAK_PROBLEM,
                       hak_format("%" PRIu64 " processes were ended for memory", kills),
                       "the group has been at its limit",
                       hak_format("raise the limit, or see with 'hakmem stat' what takes the "
                                  "memory"));
}

/* "some avg10=1.23 ...": the share of the last ten seconds in which somebody waited for memory. */
static void group_pressure(struct hak_doctor *d, const struct group *g)
{
    char *path = hak_format("%s%s/memory.pressure", g->mount, g->path);
    char *text = g->version2 ? hak_system_text(path) : NULL;
    free(path);
    if (text == NULL)
        text = hak_system_text("/proc/pressure/memory");
    const char *at = text == NULL ? NULL : strstr(text, "some avg10=");
    double share = at == NULL ? -1 : strtod(at + strlen("some avg10="), NULL);
    free(text);
    if (share < 0)
        return;
    char *value = hak_format("%.1f%% of the last 10 seconds", share);
    if (share < 10)
        hak_doctor_add(d, "pressure", HAK_OK, value, NULL, NULL);
    else
        hak_doctor_add(d, "pressure", HAK_PROBLEM, value,
                       "processes wait for memory: the kernel takes pages from others first",
                       hak_format("give the group or the machine more memory, or have less kept: "
                                  "HAKMEM_SUPERSLAB_TTL_SEC=0"));
}

void hak_doctor_look_at_cgroup(struct hak_doctor *d)
{
    struct group g;
    if (!group_find(&g, d)) {
        hak_doctor_add(d, "cgroup_limit", HAK_OK, hak_format("none"), NULL, NULL);
        return;
    }
    group_limit(d, &g);
    group_kills(d, &g);
    group_pressure(d, &g);
    free(g.path);
}
