/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: the libraries of a program by following DT_NEEDED, for when the loader cannot
 * be asked, see loader.h. Looks where glibc's loader looks, except into its cache, for which the
 * directories in ld.so.conf stand in. Only reads. */
#include "find.h"
#include "loader.h"
#include "machine.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILES_MAX = 4096,
    INCLUDES_MAX = 8, /* files of ld.so.conf that include each other */
};

#define CLOSURE_DEFAULTS                                                                           \
    "/lib/" HAK_MACHINE_MULTIARCH ":/usr/lib/" HAK_MACHINE_MULTIARCH ":" HAK_MACHINE_FOLDERS       \
    "/lib64:/usr/lib64:/lib:/usr/lib"

/* Appends to a colon-separated list. */
static void closure_append(char **list, const char *more)
{
    if (more == NULL || *more == '\0')
        return;
    char *longer = *list == NULL ? hak_format("%s", more) : hak_format("%s:%s", *list, more);
    free(*list);
    *list = longer;
}

static void closure_read_conf(char **list, const char *path, unsigned depth);

static void closure_include(char **list, const char *directory, const char *pattern, unsigned depth)
{
    glob_t found;
    char *full =
        *pattern == '/' ? hak_format("%s", pattern) : hak_format("%s/%s", directory, pattern);
    if (glob(full, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            closure_read_conf(list, found.gl_pathv[i], depth + 1);
        globfree(&found);
    }
    free(full);
}

/* The lines of ld.so.conf: a directory, `include PATTERN`, or a comment after #. */
static void closure_read_conf(char **list, const char *path, unsigned depth)
{
    static const char include[] = "include";
    char *line = NULL, *directory = hak_dirname(path);
    size_t capacity = 0;
    FILE *file = depth < INCLUDES_MAX ? fopen(path, "re") : NULL;
    while (file != NULL && getline(&line, &capacity, file) >= 0) {
        line[strcspn(line, "#\n")] = '\0';
        char *rest = NULL;
        char *word = strtok_r(line, " \t,", &rest);
        char *pattern = word == NULL ? NULL : strtok_r(NULL, " \t,", &rest);
        if (word != NULL && pattern != NULL && strcmp(word, include) == 0)
            closure_include(list, directory, pattern, depth);
        else if (word != NULL && *word == '/')
            closure_append(list, word);
    }
    if (file != NULL)
        (void)fclose(file);
    free(line);
    free(directory);
}

void hak_loader_read_conf(char **list, const char *path)
{
    closure_read_conf(list, path, 0);
}

/* $ORIGIN and ${ORIGIN} become the directory of the file that says so. */
static char *closure_expand(const char *text, const char *origin)
{
    char *expanded = hak_format("%s", "");
    while (*text != '\0') {
        size_t plain = strcspn(text, "$"), token = 0;
        if (hak_starts_with(text + plain, "$ORIGIN"))
            token = strlen("$ORIGIN");
        else if (hak_starts_with(text + plain, "${ORIGIN}"))
            token = strlen("${ORIGIN}");
        else
            plain += text[plain] != '\0';
        char *longer = hak_format("%s%.*s%s", expanded, (int)plain, text, token > 0 ? origin : "");
        free(expanded);
        expanded = longer;
        text += plain + token;
    }
    return expanded;
}

/* The expanded value of DT_RPATH or DT_RUNPATH, or NULL. */
static char *closure_path_entry(const struct hak_elf *elf, int64_t tag, const char *file)
{
    char text[PATH_MAX];
    if (!hak_elf_dynamic_string(elf, tag, 0, text, sizeof text))
        return NULL;
    char *origin = hak_dirname(file);
    char *expanded = closure_expand(text, origin);
    free(origin);
    return expanded;
}

struct closure_search {
    const struct hak_elf *kind; /* candidates must be of its class and machine */
    const char *name;
    char *found;
};

static bool closure_visit(const char *directory, void *context)
{
    struct closure_search *search = context;
    struct hak_elf elf;
    char *path = hak_format("%s/%s", directory, search->name);
    bool fits = hak_elf_open(&elf, path) == HAK_ELF_OK && hak_elf_same_kind(&elf, search->kind);
    hak_elf_close(&elf);
    if (fits)
        search->found = path;
    else
        free(path);
    return fits;
}

struct closure {
    struct hak_loaded *loaded;
    struct hak_strings rpaths; /* for each loaded file: the DT_RPATHs that hold for what it needs */
    char *system;              /* directories of ld.so.conf and the default ones */
};

static void closure_add(struct closure *closure, char *file, const char *rpath)
{
    if (closure->loaded->files.count >= FILES_MAX ||
        hak_strings_have(&closure->loaded->files, file)) {
        free(file);
        return;
    }
    hak_strings_add(&closure->loaded->files, file);
    hak_strings_add(&closure->rpaths, hak_format("%s", rpath == NULL ? "" : rpath));
}

/* The order of ld.so(8): DT_RPATH (of the file and of those that led to it) unless there is a
 * DT_RUNPATH, LD_LIBRARY_PATH, DT_RUNPATH, the system's directories. */
static void closure_add_needed(struct closure *closure, const struct hak_elf *elf,
                               const char *rpath, const char *runpath, const char *name)
{
    struct closure_search search = {.kind = elf, .name = name};
    char *list = NULL;
    if (strchr(name, '/') != NULL) {
        closure_add(closure, hak_format("%s", name), rpath);
        return;
    }
    closure_append(&list, runpath == NULL ? rpath : NULL);
    closure_append(&list, getenv("LD_LIBRARY_PATH"));
    closure_append(&list, runpath);
    closure_append(&list, closure->system);
    (void)hak_find_each_directory(list, closure_visit, &search);
    closure_add(closure, search.found != NULL ? search.found : hak_format("%s", name), rpath);
    free(list);
}

static void closure_follow(struct closure *closure, const char *file, const char *inherited)
{
    struct hak_elf elf;
    char name[PATH_MAX];
    if (hak_elf_open(&elf, file) == HAK_ELF_OK) {
        char *runpath = closure_path_entry(&elf, DT_RUNPATH, file);
        char *rpath = runpath == NULL ? closure_path_entry(&elf, DT_RPATH, file) : NULL;
        closure_append(&rpath, inherited);
        for (size_t i = 0; hak_elf_dynamic_string(&elf, DT_NEEDED, i, name, sizeof name); i++)
            closure_add_needed(closure, &elf, rpath, runpath, name);
        free(rpath);
        free(runpath);
    }
    hak_elf_close(&elf);
}

void hak_loader_walk(struct hak_loaded *loaded, const char *program,
                     const struct hak_strings *preloaded)
{
    struct closure closure = {.loaded = loaded};
    *loaded = (struct hak_loaded){0};
    hak_loader_read_conf(&closure.system, "/etc/ld.so.conf");
    closure_append(&closure.system, CLOSURE_DEFAULTS);
    closure_follow(&closure, program, NULL);
    for (size_t i = 0; i < preloaded->count; i++)
        closure_add(&closure, hak_format("%s", preloaded->at[i]), NULL);
    for (size_t i = 0; i < loaded->files.count; i++)
        closure_follow(&closure, loaded->files.at[i], closure.rpaths.at[i]);
    hak_strings_free(&closure.rpaths);
    free(closure.system);
}
