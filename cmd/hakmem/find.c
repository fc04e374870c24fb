/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: finds programs on PATH, and itself, see find.h. Never executes anything. */
#include "find.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* Without /proc the name that exec was given is the next best. */
char *hak_find_own_directory(void)
{
    char path[PATH_MAX];
    if (realpath("/proc/self/exe", path) == NULL) {
        /* The kernel keeps the address in an integer. */
        const char *given = (const char *)getauxval(AT_EXECFN); // NOLINT(performance-no-int-to-ptr)
        if (given == NULL || realpath(given, path) == NULL)
            return NULL;
    }
    return hak_dirname(path);
}

int hak_find_executable_error(const char *path)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return errno;
    if (S_ISDIR(info.st_mode))
        return EISDIR;
    if (!S_ISREG(info.st_mode))
        return EACCES;
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 ? errno : 0;
}

bool hak_find_each_directory(const char *list, bool (*visit)(const char *directory, void *context),
                             void *context)
{
    for (const char *start = list;; start++) {
        const char *end = strchrnul(start, ':');
        char *directory =
            end == start ? hak_format(".") : hak_format("%.*s", (int)(end - start), start);
        bool done = visit(directory, context);
        free(directory);
        if (done || *end == '\0')
            return done;
        start = end;
    }
}

struct find_search {
    const char *name;
    char *path; /* found */
    int error;  /* the best reason so far for not finding it */
};

/* A file that is there but may not be executed does not end the search, but is what we tell about.
 */
static bool find_visit(const char *directory, void *context)
{
    struct find_search *search = context;
    char *path = hak_format("%s/%s", directory, search->name);
    int error = hak_find_executable_error(path);
    if (error == 0) {
        search->path = path;
        return true;
    }
    free(path);
    if (search->error == ENOENT && (error == EACCES || error == EISDIR))
        search->error = error;
    return false;
}

char *hak_find_program(const char *name, const char *search_path)
{
    struct find_search search = {.name = name, .error = ENOENT};
    if (*name == '\0') {
        errno = ENOENT;
        return NULL;
    }
    if (strchr(name, '/') != NULL) {
        search.error = hak_find_executable_error(name);
        search.path = search.error == 0 ? hak_format("%s", name) : NULL;
    } else {
        (void)hak_find_each_directory(search_path, find_visit, &search);
    }
    errno = search.error;
    return search.path;
}

const char *hak_find_search_path(void)
{
    const char *path = getenv("PATH");
    return path != NULL ? path : "/bin:/usr/bin";
}
