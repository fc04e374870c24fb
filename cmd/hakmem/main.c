/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: what surrounds the allocator, in one small program that needs nothing but
 * libc.
 *
 *   main.c      which command                 external.c  commands that are programs
 *   run.c       `hakmem run`                  version.c   `hakmem version`
 *   record.c    `hakmem record`               takeover.c  what run and record share
 *   replay*.c   `hakmem replay`               trace.c, plan.c: what it reads, and makes of it
 *   stat*.c     `hakmem stat`                 explain*.c  `hakmem explain`
 *   doctor*.c   `hakmem doctor`               target.c    proves that a takeover will work
 *   loader.c    asks the program's loader     script.c, secure.c, allocators.c: parts of that
 *   closure.c   does without it               find.c      programs
 *   library.c   the library                   elf_file.c  reads ELF files
 *   remote*.c   another process's memory      core.c      that of a core file
 *   image.c     the allocator in it           survey*.c   all its slabs and blocks
 *   system.c    reads /proc and /sys          json*.c     writes and reads JSON
 *   util.c      messages and text */
#include "doctor.h"
#include "explain.h"
#include "external.h"
#include "record.h"
#include "replay.h"
#include "run.h"
#include "samples.h"
#include "stat.h"
#include "util.h"
#include "version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int main_run(int argc, char **argv);
static int main_version(int argc, char **argv);
static int main_help(int argc, char **argv);
static void main_print_version_help(void);
static void main_print_help_help(void);

static const struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
    void (*help)(void);
} commands[] = {
    {"run", "run a program with hakmem as its memory allocator", main_run, hak_run_help},
    {"record", "write what a program allocates and frees to a file", hak_record, hak_record_help},
    {"replay", "repeat that under any allocator, and tell what it took", hak_replay,
     hak_replay_help},
    {"stat", "tell where the memory of a process is", hak_stat, hak_stat_help},
    {"samples", "print the heap profile of a process", hak_samples, hak_samples_help},
    {"ask", "ask a process to sample its heap, or to write what it learned", hak_ask, hak_ask_help},
    {"doctor", "look for what stands in the way of hakmem, or costs memory", hak_doctor,
     hak_doctor_help},
    {"explain", "tell why allocations of a process failed", hak_explain, hak_explain_help},
    {"version", "print the versions of this command and of the library", main_version,
     main_print_version_help},
    {"help", "tell about a command", main_help, main_print_help_help},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static const char usage[] = "Usage: hakmem COMMAND [ARGUMENT]...\n"
                            "       hakmem run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
                            "       hakmem stat PID\n";

static const struct command *main_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* Programs in Python: an installation may be without them, as Debian's packages are. */
static const char *const main_tools[] = {"bench",    "map", "policy", "prof",
                                         "timeline", "top", "tune"};

static bool main_is_tool(const char *name)
{
    for (size_t i = 0; i < sizeof main_tools / sizeof *main_tools; i++)
        if (strcmp(main_tools[i], name) == 0)
            return true;
    return false;
}

/* The nearest of our own commands and of the external ones, or an end without a suggestion. */
static _Noreturn void main_unknown(const char *name)
{
    struct hak_strings names = {0};
    const char *nearest = NULL;
    unsigned best = strlen(name) < 4 ? 2 : 3;
    if (main_is_tool(name))
        hak_die(HAK_EXIT_USAGE,
                "'%s' is a program of its own, hakmem-%s, which is not installed: it is one of the "
                "Python tools in hakmem's sources (pip install ./python)",
                name, name);
    hak_external_list(&names);
    for (size_t i = 0; i < COMMANDS; i++)
        hak_strings_add(&names, hak_format("%s", commands[i].name));
    for (size_t i = 0; i < names.count; i++) {
        unsigned distance = hak_edit_distance(name, names.at[i]);
        if (distance < best) {
            best = distance;
            nearest = names.at[i];
        }
    }
    if (nearest != NULL)
        hak_die(HAK_EXIT_USAGE,
                "'%s' is not a command, and no program hakmem-%s was found; did you mean '%s'?",
                name, name, nearest);
    hak_die(HAK_EXIT_USAGE,
            "'%s' is not a command, and no program hakmem-%s was found; see 'hakmem help'", name,
            name);
}

static void main_print_help(void)
{
    struct hak_strings names = {0};
    (void)printf("%s\nCommands:\n", usage);
    for (size_t i = 0; i < COMMANDS; i++)
        (void)printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    hak_external_list(&names);
    if (names.count > 0)
        (void)printf("\nCommands installed as programs of their own (hakmem-NAME):\n");
    for (size_t i = 0; i < names.count; i++)
        (void)printf("  %s\n", names.at[i]);
    (void)printf("\n'hakmem help COMMAND' tells more; so does the manual page hakmem(1).\n");
    hak_strings_free(&names);
}

static void main_print_version_help(void)
{
    (void)puts(
        "Usage: hakmem version\n"
        "Print the versions of this command and of the library that 'hakmem run' would use.");
}

static void main_print_help_help(void)
{
    (void)puts("Usage: hakmem help [COMMAND]\n"
               "Print the commands, or the help of one of them.");
}

static int main_run(int argc, char **argv)
{
    return hak_run(argc, argv);
}

static int main_version(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        main_print_version_help();
    else if (argc > 1)
        hak_die(HAK_EXIT_USAGE, "version: unexpected argument '%s'", argv[1]);
    else
        hak_version_print();
    return EXIT_SUCCESS;
}

/* An external command tells about itself. */
static int main_help(int argc, char **argv)
{
    static char help_option[] = "--help";
    if (argc > 2)
        hak_die(HAK_EXIT_USAGE, "help: unexpected argument '%s'", argv[2]);
    const char *topic = argc > 1 ? argv[1] : NULL;
    const struct command *command = topic == NULL ? NULL : main_find(topic);
    if (command != NULL) {
        command->help();
    } else if (topic == NULL || *topic == '-') {
        main_print_help();
    } else {
        char *external[] = {argv[1], help_option, NULL};
        hak_external_exec(external);
        main_unknown(topic);
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    hak_guard_standard_files();
    if (argc < 2) {
        (void)fputs(usage, stderr);
        (void)fputs("'hakmem help' lists the commands.\n", stderr);
        return HAK_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (*name == '-')
        hak_die(HAK_EXIT_USAGE, "unknown option '%s'; see 'hakmem --help'", name);
    const struct command *command = main_find(name);
    if (command == NULL) {
        hak_external_exec(argv + 1);
        main_unknown(name);
    }
    int status = command->run(argc - 1, argv + 1);
    hak_finish_output();
    return status;
}
