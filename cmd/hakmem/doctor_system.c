/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: what `hakmem doctor` finds in the system's settings and limits. */
#include "doctor.h"

#include "system.h"
#include "util.h"

#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- huge pages --- */

static void doctor_huge_pages(struct hak_doctor *d)
{
    static const char file[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    char *text = hak_system_text(file);
    if (text == NULL || strstr(text, "[madvise]") != NULL) {
        hak_doctor_add(d, "huge_pages", HAK_OK,
                       hak_format(text == NULL ? "the kernel has none" : "madvise"), NULL, NULL);
    } else if (strstr(text, "[always]") != NULL) {
        hak_doctor_add(
            d, "huge_pages", HAK_NOTE, hak_format("always"),
            "pages of 2 MiB come into memory where a program touches a few bytes of a stack, a "
            "mapping of its own or a huge block: more resident memory (not of other blocks)",
            hak_format("echo madvise > %s: hakmem asks for huge pages where they pay", file));
    } else {
        hak_doctor_add(d, "huge_pages", HAK_NOTE, hak_format("never"),
                       "programs with gigabytes of memory spend more time on address translation",
                       hak_format("echo madvise > %s", file));
    }
    free(text);
}

/* Sizes between a page and a huge page (multi-size THP, Linux 6.8), each with a mode of its own, of
 * which one is "inherit": the mode above. */
static void doctor_middle_pages(struct hak_doctor *d)
{
    char *above = hak_system_text("/sys/kernel/mm/transparent_hugepage/enabled");
    bool inherited = above != NULL && strstr(above, "[always]") != NULL;
    char *found = hak_format("%s", "");
    free(above);
    for (unsigned kb = 8; kb < 2048; kb *= 2) {
        char *file = hak_format("/sys/kernel/mm/transparent_hugepage/hugepages-%ukB/enabled", kb);
        char *text = hak_system_text(file);
        if (text != NULL && (strstr(text, "[always]") != NULL ||
                             (inherited && strstr(text, "[inherit]") != NULL))) {
            char *longer = hak_format("%s%s%u", found, *found == 0 ? "" : ", ", kb);
            free(found);
            found = longer;
        }
        free(text);
        free(file);
    }
    if (*found == 0)
        hak_doctor_add(d, "middle_pages", HAK_OK, hak_format("none come unasked"), NULL, NULL);
    else
        hak_doctor_add(d, "middle_pages", HAK_NOTE,
                       hak_format("pages of %s KiB come unasked", found),
                       "hakmem's heaps have pages of 4 KiB until they ask for huge ones: less "
                       "memory than with these sizes, more page faults",
                       hak_format("HAKMEM_HUGE_PAGES_FROM_MB=0, if time matters more than memory"));
    free(found);
}

/* --- what the kernel promises --- */

static void doctor_overcommit(struct hak_doctor *d)
{
    char a[16], b[16];
    uint64_t mode = hak_system_number("/proc/sys/vm/overcommit_memory");
    uint64_t limit = hak_system_meminfo("CommitLimit"), used = hak_system_meminfo("Committed_AS");
    if (mode != 2) {
        hak_doctor_add(d, "overcommit", HAK_OK,
                       mode == UINT64_MAX ? hak_format("not known")
                                          : hak_format("vm.overcommit_memory=%" PRIu64, mode),
                       NULL, NULL);
        return;
    }
    bool near = limit != UINT64_MAX && used != UINT64_MAX && used > limit - limit / 10;
    hak_doctor_add(d, "overcommit", near ? HAK_PROBLEM : HAK_NOTE,
                   limit == UINT64_MAX || used == UINT64_MAX
                       ? hak_format("vm.overcommit_memory=2")
                       : hak_format("vm.overcommit_memory=2, %s of %s promised",
                                    hak_bytes_text(a, used), hak_bytes_text(b, limit)),
                   "addresses that are mapped count as used, whether touched or not: allocations "
                   "fail while memory is free",
                   hak_format("sysctl vm.overcommit_memory=0, or a larger vm.overcommit_ratio"));
}

/* --- mappings --- */

static uint64_t doctor_count_lines(const char *path)
{
    FILE *file = hak_system_open(path);
    uint64_t lines = 0;
    if (file == NULL)
        return UINT64_MAX;
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    (void)fclose(file);
    return lines;
}

static void doctor_mappings(struct hak_doctor *d)
{
    static const char effect[] = "mmap is refused when a process has that many mappings, and then "
                                 "allocations fail";
    uint64_t most = hak_system_number("/proc/sys/vm/max_map_count");
    char *maps = hak_format("%s/maps", d->folder);
    uint64_t have = d->pid != 0 ? doctor_count_lines(maps) : UINT64_MAX;
    free(maps);
    if (most == UINT64_MAX) {
        hak_doctor_add(d, "mappings", HAK_OK, hak_format("no limit is known"), NULL, NULL);
        return;
    }
    char *fix = hak_format("sysctl vm.max_map_count=%d", 262144);
    if (have != UINT64_MAX && have > most - most / 5)
        hak_doctor_add(d, "mappings", HAK_PROBLEM,
                       hak_format("%" PRIu64 " of %" PRIu64 " (vm.max_map_count)", have, most),
                       effect, fix);
    else if (most < 65530)
        hak_doctor_add(d, "mappings", HAK_NOTE, hak_format("vm.max_map_count=%" PRIu64, most),
                       effect, fix);
    else {
        hak_doctor_add(d, "mappings", HAK_OK,
                       have == UINT64_MAX ? hak_format("vm.max_map_count=%" PRIu64, most)
                                          : hak_format("%" PRIu64 " of %" PRIu64, have, most),
                       NULL, NULL);
        free(fix);
    }
}

/* --- limits of the process --- */

/* `limit` is RLIMIT_... and its row in /proc/PID/limits; `line` the one in status that says how
 * much of it is used. */
static void doctor_limit(struct hak_doctor *d, const char *name, const char *limit, const char *row,
                         const char *line, const char *effect, const char *fix)
{
    char a[16], b[16];
    uint64_t most = hak_system_limit(d->folder, row);
    char *path = hak_format("%s/status", d->folder);
    uint64_t used = d->pid != 0 ? hak_system_line(path, line) : UINT64_MAX;
    free(path);
    if (most == UINT64_MAX) {
        hak_doctor_add(d, name, HAK_OK, hak_format("unlimited"), NULL, NULL);
        return;
    }
    bool near = used != UINT64_MAX && used > most - most / 5;
    hak_doctor_add(d, name, near ? HAK_PROBLEM : HAK_NOTE,
                   used == UINT64_MAX ? hak_format("%s is %s", limit, hak_bytes_text(a, most))
                                      : hak_format("%s of %s (%s)", hak_bytes_text(a, used),
                                                   hak_bytes_text(b, most), limit),
                   effect, hak_format("%s", fix));
}

static void doctor_limits(struct hak_doctor *d)
{
    doctor_limit(d, "address_space", "RLIMIT_AS", "Max address space", "VmSize",
                 "addresses count, of libraries and stacks too: allocations fail before so much "
                 "memory is used",
                 "ulimit -v unlimited, LimitAS= in the systemd unit, or prlimit --pid PID --as=; "
                 "HAKMEM_LIMIT_MB limits what hakmem maps");
    doctor_limit(d, "data", "RLIMIT_DATA", "Max data size", "VmData",
                 "memory that can be written counts, touched or not, of stacks too: allocations "
                 "fail before so much is used",
                 "ulimit -d unlimited, LimitDATA= in the systemd unit, or prlimit --pid PID "
                 "--data=; HAKMEM_LIMIT_MB limits what hakmem maps");
}

static uint64_t doctor_auxiliary(const struct hak_doctor *d, uint64_t type)
{
    Elf64_auxv_t entry;
    uint64_t value = UINT64_MAX;
    char *path = hak_format("%s/auxv", d->folder);
    FILE *file = hak_system_open(path);
    free(path);
    while (file != NULL && value == UINT64_MAX && fread(&entry, sizeof entry, 1, file) == 1)
        if (entry.a_type == type)
            value = entry.a_un.a_val;
    if (file != NULL)
        (void)fclose(file);
    return value;
}

static void doctor_page_size(struct hak_doctor *d)
{
    uint64_t page = doctor_auxiliary(d, AT_PAGESZ);
    if (page == 4096 || page == UINT64_MAX)
        hak_doctor_add(d, "page_size", HAK_OK,
                       page == 4096 ? hak_format("4096 bytes") : hak_format("not known"), NULL,
                       NULL);
    else
        hak_doctor_add(d, "page_size", HAK_NOTE, hak_format("%" PRIu64 " bytes", page),
                       "small programs need more memory and less of it goes back than with pages "
                       "of 4096 bytes, and the hardened library does not run",
                       hak_format("a kernel with pages of 4096 bytes, if there is a choice"));
}

/* --- who may look at a process --- */

/* CAP_SYS_PTRACE in a line of the command's own status: what it has, or what it could be given. */
static bool doctor_may_trace(const char *name)
{
    FILE *file = hak_system_open("/proc/self/status");
    char line[256];
    size_t length = strlen(name);
    uint64_t capabilities = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (hak_starts_with(line, name) && sscanf(line + length, ": %" SCNx64, &capabilities) == 1)
            break;
    if (file != NULL)
        (void)fclose(file);
    return capabilities >> 19 & 1;
}

static void doctor_trace(struct hak_doctor *d)
{
    static const char effect[] = "hakmem stat, top, map and explain cannot read processes";
    uint64_t scope = hak_system_number("/proc/sys/kernel/yama/ptrace_scope");
    bool may = doctor_may_trace("CapEff");
    bool could = doctor_may_trace("CapBnd"); /* as root */
    bool container = hak_system_exists("/.dockerenv") || hak_system_exists("/run/.containerenv");
    if (scope == 3)
        hak_doctor_add(d, "ptrace", HAK_NOTE, hak_format("kernel.yama.ptrace_scope=3"), effect,
                       hak_format("set kernel.yama.ptrace_scope to 1 or 0 at boot: it cannot be "
                                  "lowered before"));
    else if (container && !may && !could)
        hak_doctor_add(d, "ptrace", HAK_NOTE, hak_format("a container without CAP_SYS_PTRACE"),
                       "hakmem stat, top, map and explain can read only what the same user runs, "
                       "if anything",
                       hak_format("start the container with --cap-add=SYS_PTRACE"));
    else if (scope != UINT64_MAX && scope > 0 && !may)
        hak_doctor_add(d, "ptrace", HAK_NOTE,
                       hak_format("kernel.yama.ptrace_scope=%" PRIu64, scope),
                       "hakmem stat, top, map and explain can read only processes that they "
                       "started",
                       hak_format("run them as root, or: sysctl kernel.yama.ptrace_scope=0"));
    else
        hak_doctor_add(d, "ptrace", HAK_OK,
                       hak_format("processes %scan be read%s", may ? "" : "of the same user ",
                                  !may && could ? ", all by root" : ""),
                       NULL, NULL);
}

void hak_doctor_look_at_system(struct hak_doctor *d)
{
    doctor_huge_pages(d);
    doctor_middle_pages(d);
    doctor_overcommit(d);
    doctor_mappings(d);
    doctor_limits(d);
    doctor_page_size(d);
    doctor_trace(d);
}
