/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: proves that a program can be taken over, see target.h.
 *
 *   the kernel starts PROGRAM   secure execution? another architecture? no loader, hence static?
 *   PROGRAM names its LOADER    of another libc than the library's? missing?
 *   LOADER reads LD_PRELOAD     asked itself: does it take the library?
 *   names are bound in order    PROGRAM (defines malloc?), library, others (another allocator?)
 *
 * Starts nothing but the loader, for its answer. */
#include "target.h"

#include "allocators.h"
#include "loader.h"
#include "secure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char target_hint_link[] =
    "build the program with libhakmem.a, or run it without hakmem";
static const char target_hint_one[] = "use one allocator only";

/* Ends the command, unless forced. The hint says what else can be done. */
__attribute__((format(printf, 3, 4))) static void target_refuse(struct hak_target *target,
                                                                const char *hint,
                                                                const char *format, ...)
{
    char reason[6144];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (!target->force) {
        hak_say("cannot take over %s: %s", target->command, reason);
        hak_die(HAK_EXIT_FAILED, "hint: %s, or use --force to start it all the same", hint);
    }
    hak_say("warning: %s: %s", target->command, reason);
    target->refused++;
}

/* The program in a sentence that begins with the command's name. */
static const char *target_it(const struct hak_target *target)
{
    return strcmp(target->program, target->command) == 0 ? "it" : target->program;
}

static bool target_open(struct hak_target *target, struct hak_elf *elf)
{
    switch (hak_elf_open(elf, target->program)) {
    case HAK_ELF_OK:
        return true;
    case HAK_ELF_UNREADABLE:
        target_refuse(target, "give yourself the right to read it",
                      "%s cannot be read, hence not inspected: %s", target_it(target),
                      strerror(errno));
        break;
    case HAK_ELF_NOT_ELF: /* the file has changed since it was looked at */
        target_refuse(target, "try again", "%s is not an ELF file", target_it(target));
        break;
    case HAK_ELF_MALFORMED:
        target_refuse(target, "install or build the program again", "%s is damaged: %s",
                      target_it(target), elf->problem);
        break;
    }
    return false;
}

static void target_check_secure(struct hak_target *target)
{
    const char *reason = hak_secure_reason(target->program);
    if (reason != NULL)
        target_refuse(target,
                      "start it as the user whose rights it takes, or build it with libhakmem.a",
                      "%s %s, so the loader ignores LD_PRELOAD", target_it(target), reason);
}

static bool target_check_kind(struct hak_target *target, const struct hak_elf *elf)
{
    if (hak_elf_same_kind(elf, &target->library->elf))
        return true;
    target_refuse(target, "take a program for this machine", "%s is for %s, the library for %s",
                  target_it(target), hak_elf_kind_name(elf),
                  hak_elf_kind_name(&target->library->elf));
    return false;
}

/* Whether this is a loader that can be asked: glibc's ("ld-linux-x86-64.so.2"), or musl's, which is
 * all of musl and needs no library. */
static bool target_is_loader(const struct hak_elf *elf)
{
    char name[64];
    if (hak_elf_dynamic_string(elf, DT_SONAME, 0, name, sizeof name) &&
        hak_starts_with(name, "ld-linux"))
        return true;
    return !elf->has_interp && hak_elf_defines(elf, "__libc_start_main") &&
           !hak_elf_dynamic_string(elf, DT_NEEDED, 0, name, sizeof name);
}

/* Nothing else is started for the question: what another file would do with it is not known. */
static bool target_can_ask_loader(const struct hak_target *target)
{
    struct hak_elf elf;
    bool can = hak_elf_open(&elf, target->loader) == HAK_ELF_OK && target_is_loader(&elf);
    hak_elf_close(&elf);
    return can;
}

static void target_refuse_static(struct hak_target *target, const struct hak_elf *elf)
{
    uint64_t flags = 0;
    (void)hak_elf_dynamic_value(elf, DT_FLAGS_1, &flags);
    const char *what = "statically linked";
    if (elf->type != ET_EXEC && elf->type != ET_DYN)
        hak_die(HAK_EXIT_NOT_EXECUTABLE, "%s is an object file or a core dump, not a program",
                target->program);
    if (elf->type == ET_DYN && (flags & DF_1_PIE) != 0)
        what = "statically linked (static-pie)";
    else if (elf->type == ET_DYN)
        what = "a shared library, or statically linked (static-pie)";
    target_refuse(target, target_hint_link,
                  "%s is %s, and so has no loader that would preload a library", target_it(target),
                  what);
}

const char *hak_target_libc_of_loader(const char *loader)
{
    static const struct {
        const char *loader, *libc;
    } others[] = {{"ld-musl", "musl"}, {"ld-uClibc", "uClibc"}, {"linker", "Android's libc"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (hak_starts_with(hak_basename(loader), others[i].loader))
            return others[i].libc;
    return "glibc";
}

/* Of a library's that is made for one of the two that hakmem can be made for. */
const char *hak_target_libc_of_library(const struct hak_elf *elf)
{
    char name[64];
    for (size_t i = 0; hak_elf_dynamic_string(elf, DT_NEEDED, i, name, sizeof name); i++)
        if (strcmp(name, "libc.so") == 0 || hak_starts_with(name, "libc.musl-"))
            return "musl";
    return "glibc";
}

static bool target_check_loader(struct hak_target *target)
{
    const char *libc = hak_target_libc_of_loader(target->loader);
    const char *wanted = hak_target_libc_of_library(&target->library->elf);
    if (strcmp(libc, wanted) != 0) {
        char *hint = hak_format("take a build of the program for %s, or of the library for %s "
                                "(--lib PATH)",
                                wanted, libc);
        target_refuse(target, hint, "%s uses %s (loader %s), and the library is made for %s",
                      target_it(target), libc, target->loader, wanted);
        free(hint);
        return false;
    }
    if (access(target->loader, F_OK) < 0)
        hak_die(HAK_EXIT_NOT_FOUND, "%s cannot be executed: its loader %s does not exist",
                target->program, target->loader);
    return true;
}

/* A program's own definition comes before every library's. */
static void target_check_own_malloc(struct hak_target *target, const struct hak_elf *elf)
{
    const char *symbol = hak_allocator_symbol(elf);
    if (symbol == NULL)
        return;
    if (hak_elf_defines(elf, "hakmem_version"))
        target_refuse(target, "run it as it is; the HAKMEM_ variables reach it",
                      "%s is already linked with hakmem", target_it(target));
    else
        target_refuse(target, "build it without that allocator or sanitizer",
                      "%s defines %s itself, which comes before any library", target_it(target),
                      symbol);
}

/* libc's own malloc is there to be replaced; old glibc's loader has one too. */
static bool target_may_define_malloc(const struct hak_target *target, const char *file)
{
    const char *name = hak_basename(file);
    return strcmp(name, "libc.so.6") == 0 || hak_starts_with(name, "libhakmem") ||
           hak_starts_with(name, "ld-") || strcmp(file, target->loader) == 0 ||
           strcmp(file, target->library->path) == 0;
}

static bool target_is_preloaded(const struct hak_target *target, const char *file)
{
    for (size_t i = 0; i < target->preloaded->count; i++)
        if (strcmp(hak_basename(target->preloaded->at[i]), hak_basename(file)) == 0)
            return true;
    return false;
}

/* A library that passes calls on goes with all but those that insist on being the first. */
static bool target_gets_on_with(const struct hak_target *target, const char *allocator)
{
    return target->passes_on && (allocator == NULL || strstr(allocator, "Sanitizer") == NULL);
}

/* A second allocator would hardly be asked for memory; but what calls it directly mixes the two. */
static void target_check_library(struct hak_target *target, const char *file)
{
    const char *origin =
        target_is_preloaded(target, file) ? "LD_PRELOAD names" : "it is linked with";
    const char *name = hak_allocator_name(hak_basename(file));
    if (target_gets_on_with(target, name))
        return;
    if (name != NULL) {
        target_refuse(target, target_hint_one, "%s another allocator, %s (%s)", origin, name, file);
        return;
    }
    if (target_may_define_malloc(target, file))
        return;
    struct hak_elf elf;
    const char *symbol = hak_elf_open(&elf, file) == HAK_ELF_OK ? hak_allocator_symbol(&elf) : NULL;
    hak_elf_close(&elf);
    if (symbol != NULL)
        target_refuse(target, target_hint_one, "%s another allocator: %s defines %s", origin, file,
                      symbol);
}

static const char target_hint_system[] = "take a library that was built for this system";

/* The loader failed. If it does not without the library, the library is to blame. If it does, the
 * program cannot start anyway, and the loader itself will say why. */
static void target_blame(struct hak_target *target, const char *program, const char *failure)
{
    struct hak_loaded without = {0};
    if (failure != NULL &&
        hak_loader_ask(&without, target->loader, program, target->library->path, ""))
        target_refuse(target, target_hint_system, "its loader cannot use the library: %s", failure);
    hak_loaded_free(&without);
}

/* What will be loaded. The loader's own answer is the proof; the walk is for when there is none. */
static void target_load(struct hak_target *target, const char *program, struct hak_loaded *loaded)
{
    const char *library = target->library->path;
    if (!target_can_ask_loader(target)) {
        hak_loader_walk(loaded, program, target->preloaded);
    } else if (!hak_loader_ask(loaded, target->loader, program, library, target->preload)) {
        target_blame(target, program, loaded->failure);
        hak_loaded_free(loaded);
        hak_loader_walk(loaded, program, target->preloaded);
    } else if (loaded->complaint != NULL) {
        target_refuse(target, target_hint_system, "its loader cannot use the library: %s",
                      loaded->complaint);
    } else if (!loaded->has_library) {
        target_refuse(target, target_hint_system, "its loader %s does not load %s", target->loader,
                      library);
    }
}

static void target_check_libraries(struct hak_target *target)
{
    struct hak_loaded loaded;
    char *real = realpath(target->program, NULL); /* of which $ORIGIN is the directory */
    target_load(target, real == NULL ? target->program : real, &loaded);
    for (size_t i = 0; i < loaded.files.count; i++)
        target_check_library(target, loaded.files.at[i]);
    hak_loaded_free(&loaded);
    free(real);
}

void hak_target_prove(struct hak_target *target)
{
    struct hak_elf elf;
    target_check_secure(target);
    if (target_open(target, &elf) && target_check_kind(target, &elf)) {
        if (elf.has_interp) {
            target->loader = hak_format("%s", elf.interp);
            target_check_own_malloc(target, &elf);
            if (target_check_loader(target))
                target_check_libraries(target);
        } else if (!target_is_loader(&elf)) {
            target_refuse_static(target, &elf);
        } /* else `ld-linux.so PROGRAM`: started by name, it reads LD_PRELOAD all the same */
    }
    hak_elf_close(&elf);
}
