/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: what `hakmem doctor PID` finds in a process: whether hakmem is its allocator,
 * why not, and which libraries bring another one. */
#include "doctor.h"

#include "allocators.h"
#include "find.h"
#include "image.h"
#include "system.h"
#include "target.h"
#include "util.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct process {
    struct hak_strings files; /* mapped, in the order of addresses, each once */
    int maps_error;           /* why they are not known; ESRCH: it has no memory */
    char *preload;            /* LD_PRELOAD, as it began with; NULL: none, or not to be read */
    bool has_environment;
    char *program;
    bool secure;
};

static void process_read_maps(struct process *p, const struct hak_doctor *d)
{
    char *line = NULL;
    size_t size = 0;
    char *path = hak_format("%s/maps", d->folder);
    FILE *file = hak_system_open(path);
    p->maps_error = file == NULL ? errno : ESRCH;
    free(path);
    while (file != NULL && getline(&line, &size, file) > 0) {
        char *name = strchr(line, '/');
        if (name == NULL)
            continue;
        name[strcspn(name, "\n")] = '\0';
        if (!hak_strings_have(&p->files, name))
            hak_strings_add(&p->files, hak_format("%s", name));
    }
    free(line);
    if (file != NULL)
        (void)fclose(file);
}

static void process_read_environment(struct process *p, const struct hak_doctor *d)
{
    char *entry = NULL;
    size_t size = 0;
    char *path = hak_format("%s/environ", d->folder);
    FILE *file = hak_system_open(path);
    free(path);
    while (file != NULL && getdelim(&entry, &size, '\0', file) > 0) {
        p->has_environment = true;
        if (p->preload == NULL && hak_starts_with(entry, "LD_PRELOAD="))
            p->preload = hak_format("%s", entry + strlen("LD_PRELOAD="));
    }
    free(entry);
    if (file != NULL)
        (void)fclose(file);
}

static void process_read(struct process *p, const struct hak_doctor *d)
{
    Elf64_auxv_t entry;
    *p = (struct process){0};
    process_read_maps(p, d);
    process_read_environment(p, d);
    char *path = hak_format("%s/exe", d->folder);
    p->program = hak_system_link(path);
    free(path);
    path = hak_format("%s/auxv", d->folder);
    FILE *file = hak_system_open(path);
    free(path);
    while (file != NULL && fread(&entry, sizeof entry, 1, file) == 1)
        if (entry.a_type == AT_SECURE)
            p->secure = entry.a_un.a_val != 0;
    if (file != NULL)
        (void)fclose(file);
}

/* What `hakmem record` preloads has nothing of the allocator in it. */
static bool process_is_hakmem(const char *file)
{
    const char *name = hak_basename(file);
    return hak_starts_with(name, "libhakmem") && !hak_starts_with(name, "libhakmem-record");
}

/* The first entry of LD_PRELOAD that is hakmem's library: a new string, or NULL. */
static char *process_preloaded(const struct process *p)
{
    char *list = hak_format("%s", p->preload == NULL ? "" : p->preload);
    char *rest = NULL, *found = NULL;
    for (char *e = strtok_r(list, ": ", &rest); e != NULL && found == NULL;
         e = strtok_r(NULL, ": ", &rest))
        if (process_is_hakmem(e))
            found = hak_format("%s", e);
    free(list);
    return found;
}

/* LD_PRELOAD names the library, and it is not there. */
static void process_say_why_not(struct hak_doctor *d, const struct process *p, const char *library)
{
    static const char effect[] = "the process uses another allocator";
    struct hak_elf elf = {.fd = -1};
    char *exe = hak_format("%s/exe", d->folder);
    bool program = !d->is_copy && hak_elf_open(&elf, exe) == HAK_ELF_OK;
    if (p->secure)
        hak_doctor_add(d, "preload", HAK_PROBLEM,
                       hak_format("LD_PRELOAD names %s, but the program runs with raised rights "
                                  "(set-user-ID or capabilities)",
                                  library),
                       effect,
                       hak_format("start it as the user whose rights it takes, or link it with "
                                  "libhakmem.a"));
    else if (program && !elf.has_interp)
        hak_doctor_add(
            d, "preload", HAK_PROBLEM,
            hak_format("LD_PRELOAD names %s, but the program is statically linked", library),
            effect, hak_format("link it with libhakmem.a"));
    else if (strchr(library, '/') != NULL && !hak_system_exists(library))
        hak_doctor_add(d, "preload", HAK_PROBLEM,
                       hak_format("LD_PRELOAD names %s, which does not exist here", library),
                       effect, hak_format("hakmem run -- COMMAND finds the library itself"));
    else
        hak_doctor_add(d, "preload", HAK_PROBLEM,
                       hak_format("LD_PRELOAD names %s, but the loader did not take it", library),
                       effect,
                       hak_format("'hakmem run --check -- COMMAND' says why: another architecture "
                                  "or libc, a path that the process cannot read, or an environment "
                                  "that was changed later"));
    hak_elf_close(&elf);
    free(exe);
}

/* The libc that the library of `hakmem run` is made for; NULL: there is no library. */
static const char *process_libc_of_run(void)
{
    struct hak_library library;
    hak_library_find(&library, NULL, HAK_LIBRARY_DEFAULT);
    const char *libc = library.problem == NULL ? hak_target_libc_of_library(&library.elf) : NULL;
    hak_library_close(&library);
    return libc;
}

/* Nobody has asked for hakmem. */
static void process_say_how(struct hak_doctor *d)
{
    struct hak_elf elf = {.fd = -1};
    char *exe = hak_format("%s/exe", d->folder);
    bool is_open = !d->is_copy && hak_elf_open(&elf, exe) == HAK_ELF_OK;
    bool is_static = is_open && !elf.has_interp;
    const char *libc = is_open && !is_static ? hak_target_libc_of_loader(elf.interp) : NULL;
    const char *of_run = libc == NULL ? NULL : process_libc_of_run();
    bool is_other = of_run != NULL && strcmp(libc, of_run) != 0;
    char *value = is_other ? hak_format("hakmem is not in the process, whose program uses %s", libc)
                           : hak_format("hakmem is not in the process%s",
                                        is_static ? ", whose program is statically linked" : "");
    char *fix = is_other ? hak_format("start it with: hakmem run --lib PATH -- COMMAND, where PATH "
                                      "is a library made for %s",
                                      libc)
                         : hak_format(is_static ? "link it with libhakmem.a"
                                                : "start it with: hakmem run -- COMMAND");
    hak_doctor_add(d, "preload", HAK_PROBLEM, value, "it uses another allocator", fix);
    hak_elf_close(&elf);
    free(exe);
}

/* By its records: also in static programs. Not found: what the command says of that, or NULL. */
static bool process_has_root(const struct hak_doctor *d, char **what)
{
    struct hak_remote remote;
    struct hak_image image;
    struct hak_obstacle obstacle = {0};
    bool found = false;
    if (d->is_copy)
        return false;
    if (hak_remote_open(&remote, d->pid, &obstacle) && hak_remote_look_at_pages(&remote))
        found = hak_image_open(&image, &remote, &obstacle);
    *what = found ? hak_format("hakmem %s, in %s", hak_image_version(&image), image.library)
            : obstacle.problem != NULL ? hak_format("%s", obstacle.problem)
                                       : NULL;
    hak_obstacle_free(&obstacle);
    hak_remote_close(&remote);
    return found;
}

static bool process_look_at_takeover(struct hak_doctor *d, const struct process *p)
{
    char *what = NULL;
    char *library = process_preloaded(p);
    bool mapped = false;
    for (size_t i = 0; i < p->files.count; i++)
        mapped |= process_is_hakmem(p->files.at[i]);
    bool read = process_has_root(d, &what);
    bool found = read || mapped;
    if (mapped && !read && what != NULL)
        hak_doctor_add(d, "preload", HAK_NOTE, hak_format("%s", what),
                       "'hakmem stat', 'top', 'prof' and 'explain' cannot tell of its memory",
                       hak_format("if its library has been replaced since it began, start it "
                                  "again; else use the command that was installed with it"));
    else if (found)
        hak_doctor_add(d, "preload", HAK_OK,
                       hak_format("%s", what != NULL ? what : "libhakmem is loaded"), NULL, NULL);
    else if (p->files.count == 0 && p->maps_error == ESRCH)
        hak_doctor_add(
            d, "preload", HAK_PROBLEM,
            hak_format("process %d has no memory (a kernel thread, or it has ended)", (int)d->pid),
            "there is no allocator in it", hak_format("give the number of a running program"));
    else if (p->files.count == 0)
        hak_doctor_add(d, "preload", HAK_PROBLEM,
                       hak_format("what process %d has mapped cannot be read", (int)d->pid),
                       "nothing can be said of its allocator",
                       hak_format("run the command as root, or as the user who owns it"));
    else if (library != NULL)
        process_say_why_not(d, p, library);
    else
        process_say_how(d);
    free(library);
    free(what);
    return found;
}

/* The first entry of LD_PRELOAD wins, then the program's libraries in their order. */
static bool process_comes_before(const struct process *p, const char *name)
{
    char *library = process_preloaded(p);
    const char *ours = library == NULL ? NULL : strstr(p->preload, library);
    const char *other = p->preload == NULL ? NULL : strstr(p->preload, name);
    bool before = other != NULL && ours != NULL && other < ours;
    free(library);
    return before;
}

static void process_look_at_others(struct hak_doctor *d, const struct process *p, bool has_hakmem)
{
    size_t before = d->count;
    for (size_t i = 0; i < p->files.count; i++) {
        const char *file = hak_basename(p->files.at[i]);
        const char *name = hak_allocator_name(file);
        if (name == NULL)
            continue;
        bool wins = process_comes_before(p, file);
        hak_doctor_add(
            d, "other_allocator", wins || !has_hakmem ? HAK_PROBLEM : HAK_NOTE,
            hak_format("%s (%s)", name, p->files.at[i]),
            wins ? "it comes before hakmem in LD_PRELOAD, and so serves malloc"
            : has_hakmem
                ? "what is allocated by its own names (not malloc) is not hakmem's, and is in the "
                  "line 'not hakmem's' of hakmem stat"
                : "it serves the process, not hakmem",
            hak_format(wins ? "take it out of LD_PRELOAD: hakmem run puts the library first"
                            : "use one allocator only: link the program without %s, or leave it",
                       name));
    }
    if (d->count == before)
        hak_doctor_add(d, "other_allocator", HAK_OK, hak_format("none is known"), NULL, NULL);
}

/* A program's own malloc comes before every library's. */
static void process_look_at_program(struct hak_doctor *d, const struct process *p, bool has_hakmem)
{
    struct hak_elf elf = {.fd = -1};
    char *exe = hak_format("%s/exe", d->folder);
    if (!has_hakmem && !d->is_copy && p->program != NULL && hak_elf_open(&elf, exe) == HAK_ELF_OK) {
        const char *symbol = hak_allocator_symbol(&elf);
        if (symbol != NULL)
            hak_doctor_add(d, "own_malloc", HAK_PROBLEM,
                           hak_format("%s defines %s itself", p->program, symbol),
                           "its own allocator comes before any library's",
                           hak_format("build the program without it"));
    }
    hak_elf_close(&elf);
    free(exe);
}

void hak_doctor_look_at_process(struct hak_doctor *d)
{
    struct process p;
    process_read(&p, d);
    bool has_hakmem = process_look_at_takeover(d, &p);
    process_look_at_others(d, &p, has_hakmem);
    process_look_at_program(d, &p, has_hakmem);
    hak_strings_free(&p.files);
    free(p.preload);
    free(p.program);
}
