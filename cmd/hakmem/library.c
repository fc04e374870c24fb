/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: finds libhakmem.so and proves that it is one that a loader can preload, see
 * find.h. Never loads it. */
#include "find.h"
#include "machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the library is installed, seen from the installed command: an installation may be moved as
 * a whole. */
#ifndef HAKMEM_LIBDIR_FROM_BINDIR
#define HAKMEM_LIBDIR_FROM_BINDIR "../lib"
#endif
/* The last resort, also when the command does not know where it is itself. */
#ifndef HAKMEM_LIBDIR
#define HAKMEM_LIBDIR "/usr/local/lib"
#endif
#ifndef HAKMEM_VERSION
#error "define HAKMEM_VERSION, as in -DHAKMEM_VERSION='\"1.2.3\"'"
#endif

#define LIBRARY_BESIDE_MULTIARCH "/../lib/" HAK_MACHINE_MULTIARCH

static const char library_hint_give[] =
    "give the path of libhakmem.so with --lib or in the environment variable HAKMEM_LIBRARY";

char *hak_find_absolute(const char *path)
{
    char *directory = hak_dirname(path);
    char *real = realpath(directory, NULL);
    char *absolute =
        real == NULL ? NULL
                     : hak_format("%s/%s", strcmp(real, "/") == 0 ? "" : real, hak_basename(path));
    free(directory);
    free(real);
    return absolute;
}

/* The plain name is for builds and development packages; a package of the library alone has the
 * name with its major version. What only this command uses is in a directory of its own. */
static bool library_try_directory(struct hak_library *library, const char *directory,
                                  const char *name)
{
    char *names[] = {
        hak_format("%s/%s", directory, name),
        hak_format("%s/%s.%.*s", directory, name, (int)strcspn(HAKMEM_VERSION, "."),
                   HAKMEM_VERSION),
        hak_format("%s/hakmem/%s", directory, name),
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (library->path == NULL && access(names[i], F_OK) == 0)
            library->path = hak_find_absolute(names[i]);
        free(names[i]);
    }
    return library->path != NULL;
}

static void library_search(struct hak_library *library, const char *name)
{
    static const char *const beside[] = {"", "/" HAKMEM_LIBDIR_FROM_BINDIR, "/../lib",
                                         LIBRARY_BESIDE_MULTIARCH, "/../lib64"};
    char *own = hak_find_own_directory();
    bool found = false;
    for (size_t i = 0; own != NULL && !found && i < sizeof beside / sizeof *beside; i++) {
        char *directory = hak_format("%s%s", own, beside[i]);
        found = library_try_directory(library, directory, name);
        free(directory);
    }
    if (!found && !library_try_directory(library, HAKMEM_LIBDIR, name)) {
        library->problem =
            hak_format("%s was not found in %s, in ../lib, ../lib/" HAK_MACHINE_MULTIARCH
                       " or ../lib64 beside it, or in " HAKMEM_LIBDIR,
                       name, own == NULL ? "the command's directory" : own);
        library->hint = library_hint_give;
    }
    free(own);
}

static void library_refuse(struct hak_library *library, const char *hint, char *problem)
{
    library->problem = problem;
    library->hint = hint;
}

bool hak_library_can_be_named(const char *path)
{
    return strpbrk(path, ": $") == NULL;
}

static bool library_path_fits(struct hak_library *library)
{
    if (hak_library_can_be_named(library->path))
        return true;
    library_refuse(
        library,
        "move the library to a path without these, or make a symbolic link to its directory",
        hak_format(
            "%s has a space, a colon or a dollar sign in its path, which LD_PRELOAD cannot express",
            library->path));
    return false;
}

static bool library_open(struct hak_library *library)
{
    const char *path = library->path;
    switch (hak_elf_open(&library->elf, path)) {
    case HAK_ELF_OK:
        return true;
    case HAK_ELF_UNREADABLE:
        library_refuse(library, library_hint_give,
                       hak_format("the library %s cannot be read: %s", path, strerror(errno)));
        return false;
    case HAK_ELF_NOT_ELF:
        library_refuse(library, library_hint_give,
                       hak_format("%s is not a shared library (not an ELF file)", path));
        return false;
    case HAK_ELF_MALFORMED:
        break;
    }
    library_refuse(library, "install or build the library again",
                   hak_format("the library %s is damaged: %s", path, library->elf.problem));
    return false;
}

static void library_check(struct hak_library *library)
{
    const struct hak_elf *elf = &library->elf;
    const char *path = library->path;
    if (!library_path_fits(library) || !library_open(library))
        return;
    if (!hak_elf_is_native(elf))
        library_refuse(
            library, "take the library that was built for this machine",
            hak_format("the library %s is for %s, another architecture than this hakmem command",
                       path, hak_elf_kind_name(elf)));
    else if (elf->type != ET_DYN || elf->dynamic_count == 0)
        library_refuse(library, library_hint_give,
                       hak_format("%s is an ELF file, but not a shared library", path));
    else if (!hak_elf_defines(elf, "hakmem_version"))
        library_refuse(
            library, library_hint_give,
            hak_format("%s is not hakmem's library: it does not define hakmem_version", path));
    else if (!hak_elf_defines(elf, "malloc"))
        library_refuse(
            library, "take libhakmem.so",
            hak_format("%s replaces nothing: it defines hakmem_malloc, but not malloc", path));
}

void hak_library_find(struct hak_library *library, const char *given, const char *name)
{
    *library = (struct hak_library){.elf = {.fd = -1}};
    if (given == NULL && strcmp(name, HAK_LIBRARY_DEFAULT) == 0)
        given = secure_getenv("HAKMEM_LIBRARY");
    if (given == NULL || *given == '\0') {
        library_search(library, name);
    } else if (access(given, F_OK) < 0) {
        library_refuse(library, "check --lib and the environment variable HAKMEM_LIBRARY",
                       hak_format("the library %s cannot be opened: %s", given, strerror(errno)));
    } else {
        library->path = hak_find_absolute(given);
    }
    if (library->problem != NULL)
        return;
    if (library->path == NULL)
        library_refuse(library, library_hint_give,
                       hak_format("the path of the library cannot be resolved"));
    else
        library_check(library);
}

void hak_library_close(struct hak_library *library)
{
    hak_elf_close(&library->elf);
    free(library->path);
    free(library->problem);
}
