/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: becomes another program with a library preloaded, see takeover.h. */
#include "takeover.h"

#include "allocators.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *takeover_find_command(const char *name)
{
    char *path = hak_find_program(name, hak_find_search_path());
    if (path != NULL)
        return path;
    const char *where = strchr(name, '/') == NULL ? " on PATH" : "";
    switch (errno) {
    case ENOENT:
        hak_die(HAK_EXIT_NOT_FOUND, "'%s' was not found%s", name, where);
    case EISDIR:
        hak_die(HAK_EXIT_NOT_EXECUTABLE, "'%s' is a directory, not a program", name);
    case EACCES:
        hak_die(HAK_EXIT_NOT_EXECUTABLE,
                "'%s'%s cannot be executed: permission denied; chmod +x may be missing", name,
                where);
    default:
        hak_die(HAK_EXIT_NOT_EXECUTABLE, "'%s' cannot be executed: %s", name, strerror(errno));
    }
}

void hak_takeover_find_library(struct hak_library *library, const char *given, const char *name)
{
    hak_library_find(library, given, name);
    if (library->problem == NULL)
        return;
    hak_say("%s", library->problem);
    hak_die(HAK_EXIT_FAILED, "hint: %s", library->hint);
}

void hak_takeover_prepare(struct hak_takeover *t)
{
    t->path = takeover_find_command(t->command[0]);
    hak_script_follow(&t->start, t->path);
    hak_takeover_find_library(&t->library, t->given, t->name);
    t->preload = hak_preload_value(t->library.path, getenv("LD_PRELOAD"), &t->kept);
    t->target = (struct hak_target){.command = t->path,
                                    .program = t->start.program,
                                    .library = &t->library,
                                    .preload = t->preload,
                                    .preloaded = &t->kept,
                                    .passes_on = t->passes_on,
                                    .force = t->force};
    hak_target_prove(&t->target);
}

/* As execvp(3): argv[0] is the name as it was given; text without a `#!` line is for the shell. */
static _Noreturn void takeover_exec(const char *path, bool by_shell, char **command)
{
    if (by_shell) {
        size_t count = 0;
        while (command[count] != NULL)
            count++;
        char **words = hak_grow(NULL, count + 2, sizeof *words);
        static char shell[] = "/bin/sh";
        words[0] = shell;
        memcpy(words + 1, command, (count + 1) * sizeof *words);
        words[1] = hak_format("%s", path);
        (void)execv(shell, words);
    } else {
        (void)execv(path, command);
    }
    hak_die(errno == ENOENT ? HAK_EXIT_NOT_FOUND : HAK_EXIT_NOT_EXECUTABLE, "cannot execute %s: %s",
            path, strerror(errno));
}

void hak_takeover_set(const char *name, const char *value)
{
    if (setenv(name, value, 1) < 0)
        hak_die(HAK_EXIT_FAILED, "cannot set %s: %s", name, strerror(errno));
}

_Noreturn void hak_takeover_start(const struct hak_takeover *t)
{
    hak_takeover_set("LD_PRELOAD", t->preload);
    takeover_exec(t->path, t->start.by_shell, t->command);
}

void hak_takeover_free(struct hak_takeover *t)
{
    free(t->target.loader);
    free(t->preload);
    hak_strings_free(&t->kept);
    hak_library_close(&t->library);
    hak_start_free(&t->start);
    free(t->path);
}
