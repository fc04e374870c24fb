/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: finds and starts `hakmem-NAME`, see external.h. Those installed with this
 * command come before PATH, so that the tools in use are of one version. */
#include "external.h"

#include "find.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef HAKMEM_LIBEXECDIR
#define HAKMEM_LIBEXECDIR ""
#endif

#define EXTERNAL_PREFIX "hakmem-"

/* A colon-separated list; a new string. */
static char *external_directories(void)
{
    char *own = hak_find_own_directory();
    char *list =
        hak_format("%s%s%s%s%s", own == NULL ? "" : own, own == NULL ? "" : ":", HAKMEM_LIBEXECDIR,
                   *HAKMEM_LIBEXECDIR == '\0' ? "" : ":", hak_find_search_path());
    free(own);
    return list;
}

/* Also keeps `hakmem ../x` and `hakmem -x` from becoming paths. */
static bool external_is_name(const char *name)
{
    return *name != '\0' && *name != '-' && strchr(name, '/') == NULL;
}

void hak_external_exec(char **argv)
{
    if (!external_is_name(argv[0]))
        return;
    char *name = hak_format(EXTERNAL_PREFIX "%s", argv[0]);
    char *directories = external_directories();
    char *path = hak_find_program(name, directories);
    if (path != NULL || errno == EACCES) {
        if (path != NULL) {
            argv[0] = name;
            (void)execv(path, argv);
        }
        hak_die(HAK_EXIT_NOT_EXECUTABLE, "cannot execute %s: %s", path == NULL ? name : path,
                strerror(errno));
    }
    free(directories);
    free(name);
}

static bool external_visit(const char *directory, void *context)
{
    struct hak_strings *names = context;
    DIR *entries = opendir(directory);
    struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        const char *name = entry->d_name + strlen(EXTERNAL_PREFIX);
        if (!hak_starts_with(entry->d_name, EXTERNAL_PREFIX) || hak_strings_have(names, name))
            continue;
        char *path = hak_format("%s/%s", directory, entry->d_name);
        if (hak_find_executable_error(path) == 0)
            hak_strings_add(names, hak_format("%s", name));
        free(path);
    }
    if (entries != NULL)
        (void)closedir(entries);
    return false;
}

static int external_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void hak_external_list(struct hak_strings *names)
{
    char *directories = external_directories();
    (void)hak_find_each_directory(directories, external_visit, names);
    if (names->count > 0)
        qsort(names->at, names->count, sizeof *names->at, external_compare);
    free(directories);
}
