/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem samples`: the heap profile of a process or of its core file, as the
 * library itself writes it. The process is not stopped, and need not do anything: its tables are
 * copied over our own, and the library's own function prints them. */
#include "samples.h"

#include "image.h"
#include "telemetry/prof.h"
#include "util.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void hak_samples_help(void)
{
    (void)fputs("Usage: hakmem samples PID | CORE\n"
                "Print the heap profile of a process, or of a core file of it, in the form of the\n"
                "files that the library writes; 'hakmem prof' makes reports of it.\n"
                "\n"
                "  --help  print this and exit\n"
                "\n"
                "Exit status: 0 printed; 1 there is no profile (hakmem prof start PID, or\n"
                "HAKMEM_PROF=1), or the process cannot be read; 2 the arguments are wrong.\n",
                stdout);
}

/* A copy of an array over there; NULL: it cannot be read. */
static void *samples_copy(struct hak_remote *r, const void *at, size_t count, size_t size_bytes)
{
    void *copy = hak_grow(NULL, count + 1, size_bytes);
    if (hak_remote_read(r, (uint64_t)(uintptr_t)at, copy, count * size_bytes))
        return copy;
    free(copy);
    return NULL;
}

static const char *samples_take(const struct hak_image *image, struct hak_remote *r)
{
    struct hak_prof p;
    const void *at = image->root.at[HAK_ROOT_SAMPLES];
    if (image->root.flags & HAK_ROOT_HARDENED)
        return "it has the hardened library, which has no heap profile";
    if (at == NULL || !hak_remote_read(r, (uint64_t)(uintptr_t)at, &p, sizeof p))
        return "its heap profile cannot be read";
    if (hak_load_relaxed(&p.period_bytes) == 0)
        return "it has no heap profile";
    /* Sites first: what they refer to is there before them. */
    size_t sites = hak_min(hak_load_relaxed(&p.sites), HAK_PROF_SITES);
    p.site = samples_copy(r, p.site, sites, sizeof *p.site);
    p.stacks = samples_copy(r, p.stacks, HAK_PROF_STACK_WORDS, sizeof *p.stacks);
    if (p.site == NULL || p.stacks == NULL)
        return "its heap profile cannot be read";
    for (size_t i = 0; i < sites; i++) /* one that is being made */
        if (p.site[i].stack + (uint64_t)p.site[i].depth > HAK_PROF_STACK_WORDS)
            p.site[i].depth = 0;
    memcpy(&hak_prof, &p, sizeof p);
    return NULL;
}

static void samples_print_mappings(const struct hak_mapping *m, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (m[i].name[0] == '/')
            (void)printf("%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64 " 00:00 0 %s\n", m[i].start,
                         m[i].end, m[i].file_offset, m[i].name);
}

static void samples_print(const struct hak_remote *r)
{
    if (hak_prof_write_sites(STDOUT_FILENO, (uint64_t)r->pid) != 0)
        hak_die(HAK_EXIT_OUTPUT, "samples: the profile could not be written");
    (void)puts("mappings");
    if (r->is_core && r->file_count != 0)
        samples_print_mappings(r->files, r->file_count);
    else
        samples_print_mappings(r->mappings, r->count);
    (void)puts("end");
    hak_finish_output();
}

int hak_samples(int argc, char **argv)
{
    struct hak_remote remote;
    struct hak_image image;
    struct hak_obstacle obstacle = {0};
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        hak_samples_help();
        return EXIT_SUCCESS;
    }
    static const char *const options[] = {"--help"};
    if (argc > 1 && argv[1][0] == '-' && argv[1][1] != '\0')
        hak_unknown_option(HAK_EXIT_USAGE, "samples", argv[1], options, 1);
    if (argc != 2)
        hak_die(HAK_EXIT_USAGE, "samples: one process or core file is wanted");
    pid_t pid = hak_parse_pid(argv[1]);
    bool open = hak_remote_open_either(&remote, pid, argv[1], &obstacle) &&
                hak_image_open(&image, &remote, &obstacle);
    const char *problem = open ? samples_take(&image, &remote) : obstacle.problem;
    if (problem == NULL)
        samples_print(&remote);
    else if (open)
        hak_say("samples: %s: %s", argv[1], problem);
    else
        hak_say("samples: %s", problem);
    if (open && problem != NULL && (image.root.flags & HAK_ROOT_HARDENED))
        hak_say("hint: run the program with libhakmem.so, and HAKMEM_PROF=1 in its environment");
    else if (open && problem != NULL && remote.is_core)
        hak_say("hint: run the program with HAKMEM_PROF=1 in its environment");
    else if (open && problem != NULL)
        hak_say("hint: 'hakmem prof start %s', or HAKMEM_PROF=1 in its environment", argv[1]);
    else if (problem != NULL && obstacle.hint != NULL)
        hak_say("hint: %s", obstacle.hint);
    hak_obstacle_free(&obstacle);
    hak_remote_close(&remote);
    return problem == NULL ? EXIT_SUCCESS : EXIT_FAILURE;
}
