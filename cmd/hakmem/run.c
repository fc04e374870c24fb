/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem run` finds the library and the program, proves that the takeover will
 * work, and then becomes the program with exec. There is no parent process: signals, the exit
 * status, the process ID, the terminal and job control are the program's own by nature, and nothing
 * of hakmem stays in memory. */
#include "run.h"

#include "allocators.h"
#include "find.h"
#include "script.h"
#include "target.h"
#include "util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
    bool stats, hardened, check, force, help;
    const char *library; /* --lib */
    char **command;      /* the program and its arguments, up to NULL */
};

void hak_run_help(void)
{
    (void)fputs(
        "Usage: hakmem run [OPTION]... [--] COMMAND [ARGUMENT]...\n"
        "Run COMMAND with hakmem as its memory allocator.\n"
        "\n"
        "  --stats      have the program print a summary at its end, on stderr\n"
        "  --hardened   use libhakmem-hardened.so: misuse of memory ends COMMAND with a message\n"
        "  --lib PATH   the library to use, instead of the one beside this command\n"
        "  --check      only tell whether COMMAND can be taken over, and how; also --dry-run\n"
        "  --force      start COMMAND also when it cannot be taken over, with a warning\n"
        "  --help       print this and exit\n"
        "\n"
        "hakmem becomes COMMAND: signals, job control and the exit status are COMMAND's own.\n"
        "Exit status: 125 hakmem failed or refused, 126 COMMAND cannot be executed,\n"
        "127 COMMAND was not found, any other is COMMAND's.\n",
        stdout);
}

static const char *const run_options[] = {"--stats",   "--hardened", "--lib", "--check",
                                          "--dry-run", "--force",    "--help"};

static _Noreturn void run_unknown_option(const char *option)
{
    const char *nearest = NULL;
    unsigned best = 3;
    for (size_t i = 0; i < sizeof run_options / sizeof *run_options; i++) {
        unsigned distance = hak_edit_distance(option, run_options[i]);
        if (distance < best) {
            best = distance;
            nearest = run_options[i];
        }
    }
    if (nearest != NULL)
        hak_die(HAK_EXIT_FAILED, "run: unknown option '%s'; did you mean '%s'?", option, nearest);
    hak_die(HAK_EXIT_FAILED, "run: unknown option '%s'; see 'hakmem run --help'", option);
}

/* One option, which may take the following argument; returns how many arguments it was. */
static int run_parse_option(struct run *run, const char *option, const char *next)
{
    if (strcmp(option, "--stats") == 0) {
        run->stats = true;
    } else if (strcmp(option, "--hardened") == 0) {
        run->hardened = true;
    } else if (strcmp(option, "--check") == 0 || strcmp(option, "--dry-run") == 0) {
        run->check = true;
    } else if (strcmp(option, "--force") == 0) {
        run->force = true;
    } else if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
        run->help = true;
    } else if (hak_starts_with(option, "--lib=")) {
        run->library = option + strlen("--lib=");
    } else if (strcmp(option, "--lib") == 0) {
        run->library = next == NULL ? "" : next;
        return 2;
    } else {
        run_unknown_option(option);
    }
    return 1;
}

static void run_parse(struct run *run, int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0' && strcmp(argv[i], "--") != 0)
        i += run_parse_option(run, argv[i], argv[i + 1]);
    if (run->help)
        return;
    if (run->library != NULL && *run->library == '\0')
        hak_die(HAK_EXIT_FAILED, "run: --lib needs the path of libhakmem.so");
    if (run->library != NULL && run->hardened)
        hak_die(HAK_EXIT_FAILED, "run: --lib and --hardened each name the library; give one");
    if (i < argc && strcmp(argv[i], "--") == 0)
        i++;
    if (i >= argc)
        hak_die(HAK_EXIT_FAILED, "run: no command given; for example: hakmem run -- ls -l");
    run->command = argv + i;
}

static char *run_find_command(const char *name)
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

static void run_find_library(struct hak_library *library, const struct run *run)
{
    hak_library_find(library, run->library, run->hardened);
    if (library->problem == NULL)
        return;
    hak_say("%s", library->problem);
    hak_die(HAK_EXIT_FAILED, "hint: %s", library->hint);
}

static void run_print_check(const struct run *run, const char *path, const struct hak_start *start,
                            const struct hak_target *target)
{
    (void)printf("command     %s\n", path);
    if (strcmp(path, start->program) != 0)
        (void)printf("program     %s\n", start->program);
    if (target->loader != NULL)
        (void)printf("loader      %s\n", target->loader);
    (void)printf("library     %s\n", target->library->path);
    (void)printf("LD_PRELOAD  %s\n", target->preload);
    if (run->stats)
        (void)printf("set         HAKMEM_STATS=1\n");
    const char *result = "can be taken over";
    if (target->refused > 0)
        result = "would be started by force, see the warnings";
    else if (target->loader == NULL)
        result = "is a loader: it will read LD_PRELOAD; what it loads was not checked";
    (void)printf("result      %s\n", result);
}

/* As execvp(3): argv[0] is the name as it was given; text without a `#!` line is for the shell. */
static _Noreturn void run_exec(const char *path, bool by_shell, char **command)
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

static void run_set(const char *name, const char *value)
{
    if (setenv(name, value, 1) < 0)
        hak_die(HAK_EXIT_FAILED, "cannot set %s: %s", name, strerror(errno));
}

int hak_run(int argc, char **argv)
{
    struct run run = {0};
    struct hak_library library;
    struct hak_start start;
    struct hak_strings kept = {0};
    run_parse(&run, argc, argv);
    if (run.help) {
        hak_run_help();
        return EXIT_SUCCESS;
    }
    char *path = run_find_command(run.command[0]);
    hak_script_follow(&start, path);
    run_find_library(&library, &run);
    char *preload = hak_preload_value(library.path, getenv("LD_PRELOAD"), &kept);
    struct hak_target target = {.command = path,
                                .program = start.program,
                                .library = &library,
                                .preload = preload,
                                .preloaded = &kept,
                                .force = run.force};
    hak_target_prove(&target);
    if (run.check) {
        run_print_check(&run, path, &start, &target);
    } else {
        run_set("LD_PRELOAD", preload);
        if (run.stats)
            run_set("HAKMEM_STATS", "1");
        run_exec(path, start.by_shell, run.command);
    }
    free(target.loader);
    free(preload);
    hak_strings_free(&kept);
    hak_library_close(&library);
    hak_start_free(&start);
    free(path);
    return EXIT_SUCCESS;
}
