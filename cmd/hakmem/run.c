/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem run` finds the library and the program, proves that the takeover will
 * work, and then becomes the program with exec. There is no parent process: signals, the exit
 * status, the process ID, the terminal and job control are the program's own by nature, and nothing
 * of hakmem stays in memory. */
#include "run.h"

#include "takeover.h"
#include "util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        "What COMMAND prints or writes at its end (--stats, HAKMEM_PROF, HAKMEM_POLICY)\n"
        "does not come when it ends by _exit or by a signal: 'hakmem stat -- COMMAND'\n"
        "tells of any end, 'hakmem prof dump PID' writes before it.\n"
        "hakmem becomes COMMAND: signals, job control and the exit status are COMMAND's own.\n"
        "Exit status: 125 hakmem failed or refused, 126 COMMAND cannot be executed,\n"
        "127 COMMAND was not found, any other is COMMAND's.\n",
        stdout);
}

static const char *const run_options[] = {"--stats",   "--hardened", "--lib", "--check",
                                          "--dry-run", "--force",    "--help"};

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
        hak_unknown_option(HAK_EXIT_FAILED, "run", option, run_options,
                           sizeof run_options / sizeof *run_options);
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

static void run_print_check(const struct run *run, const struct hak_takeover *t)
{
    (void)printf("command     %s\n", t->path);
    if (strcmp(t->path, t->start.program) != 0)
        (void)printf("program     %s\n", t->start.program);
    if (t->target.loader != NULL)
        (void)printf("loader      %s\n", t->target.loader);
    (void)printf("library     %s\n", t->library.path);
    (void)printf("LD_PRELOAD  %s\n", t->preload);
    if (run->stats)
        (void)printf("set         HAKMEM_STATS=1\n");
    const char *result = "can be taken over";
    if (t->target.refused > 0)
        result = "would be started by force, see the warnings";
    else if (t->target.loader == NULL)
        result = "is a loader: it will read LD_PRELOAD; what it loads was not checked";
    (void)printf("result      %s\n", result);
}

int hak_run(int argc, char **argv)
{
    struct run run = {0};
    run_parse(&run, argc, argv);
    if (run.help) {
        hak_run_help();
        return EXIT_SUCCESS;
    }
    struct hak_takeover takeover = {.given = run.library,
                                    .name =
                                        run.hardened ? HAK_LIBRARY_HARDENED : HAK_LIBRARY_DEFAULT,
                                    .force = run.force,
                                    .command = run.command};
    hak_takeover_prepare(&takeover);
    if (run.check) {
        run_print_check(&run, &takeover);
    } else {
        if (run.stats)
            hak_takeover_set("HAKMEM_STATS", "1");
        hak_takeover_start(&takeover);
    }
    hak_takeover_free(&takeover);
    return EXIT_SUCCESS;
}
