/* Faults: what lies where in the memory of a process that is traced. See places.h.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "places.h"

#include <stdio.h>
#include <string.h>

#define LIBRARY "libhakmem.so"

enum { KNOWN = 4096 }; /* a place each for pid modulo this; who comes later takes it over */

static struct {
    pid_t pid;
    uintptr_t from, to;
} known[KNOWN];

struct mapping {
    uintptr_t from, to, offset;
    bool executable;
    char path[256];
};

static FILE *maps_open(pid_t pid)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    return fopen(name, "re");
}

static bool maps_next(FILE *maps, struct mapping *m)
{
    char line[4400], permissions[5] = "";
    if (!maps || !fgets(line, sizeof line, maps))
        return false;
    m->path[0] = 0;
    if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %255s", &m->from, &m->to, permissions, &m->offset,
               m->path) < 4)
        return false;
    m->executable = permissions[2] == 'x';
    return true;
}

static void maps_close(FILE *maps)
{
    if (maps)
        fclose(maps);
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool known_has(pid_t pid, uintptr_t address)
{
    size_t at = (size_t)pid % KNOWN;
    return known[at].pid == pid && address >= known[at].from && address < known[at].to;
}

bool places_is_library(pid_t pid, uintptr_t address)
{
    size_t at = (size_t)pid % KNOWN;
    if (!known_has(pid, address)) { /* it may not be loaded yet, or in part */
        known[at].pid = 0;
        FILE *maps = maps_open(pid);
        struct mapping m;
        while (maps_next(maps, &m)) {
            if (!m.executable || strncmp(file_name(m.path), LIBRARY, strlen(LIBRARY)) != 0)
                continue;
            if (known[at].pid != pid) /* the code has two mappings: cmake/layout.ld */
                known[at].from = m.from;
            known[at].pid = pid;
            known[at].to = m.to;
        }
        maps_close(maps);
    }
    return known_has(pid, address);
}

void places_forget(pid_t pid)
{
    if (known[(size_t)pid % KNOWN].pid == pid)
        known[(size_t)pid % KNOWN].pid = 0;
}

void places_name(pid_t pid, uintptr_t address, char *out, size_t bytes)
{
    FILE *maps = maps_open(pid);
    struct mapping m;
    snprintf(out, bytes, "%#lx", address);
    while (maps_next(maps, &m))
        if (address >= m.from && address < m.to)
            snprintf(out, bytes, "%s+%#lx", file_name(m.path), address - m.from + m.offset);
    maps_close(maps);
}

unsigned long places_mappings(pid_t pid, struct places_split *call)
{
    unsigned long count = 0;
    FILE *maps = maps_open(pid);
    struct mapping m;
    for (; maps_next(maps, &m); count++) {
        call->splits += call->at > m.from && call->at < m.to;
        call->splits += call->at + call->bytes > m.from && call->at + call->bytes < m.to;
    }
    maps_close(maps);
    return count;
}
