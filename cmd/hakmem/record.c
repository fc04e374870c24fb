/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem record` becomes the program, as `hakmem run` does, with
 * libhakmem-record.so preloaded (cmd/record/), which writes the trace. */
#include "record.h"

#include "takeover.h"
#include "util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char record_default_output[] = "hakmem.trace";

struct record {
    const char *output;
    bool force, help;
    char **command;
};

void hak_record_help(void)
{
    (void)fputs(
        "Usage: hakmem record [OPTION]... [--] COMMAND [ARGUMENT]...\n"
        "Run COMMAND, and write all that it allocates and frees to a file, which\n"
        "'hakmem replay' repeats under any allocator.\n"
        "\n"
        "  -o, --output FILE  the file, instead of hakmem.trace; with %p in its name, which\n"
        "                     becomes the process ID, also programs that COMMAND starts are\n"
        "                     recorded, each in a file of its own\n"
        "  --force            start COMMAND also when it cannot be recorded, with a warning\n"
        "  --help             print this and exit\n"
        "\n"
        "COMMAND has the allocator that it has without hakmem. A process that it forks is not\n"
        "recorded, unless it executes another program.\n"
        "Exit status: 125 hakmem failed or refused, 126 COMMAND cannot be executed,\n"
        "127 COMMAND was not found, any other is COMMAND's.\n",
        stdout);
}

static const char *const record_options[] = {"--output", "--force", "--help"};

/* One option, which may take the following argument; returns how many arguments it was. */
static int record_parse_option(struct record *record, const char *option, const char *next)
{
    if (strcmp(option, "--force") == 0) {
        record->force = true;
    } else if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
        record->help = true;
    } else if (hak_starts_with(option, "--output=")) {
        record->output = option + strlen("--output=");
    } else if (strcmp(option, "--output") == 0 || strcmp(option, "-o") == 0) {
        record->output = next == NULL ? "" : next;
        return 2;
    } else {
        hak_unknown_option(HAK_EXIT_FAILED, "record", option, record_options,
                           sizeof record_options / sizeof *record_options);
    }
    return 1;
}

static void record_parse(struct record *record, int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0' && strcmp(argv[i], "--") != 0)
        i += record_parse_option(record, argv[i], argv[i + 1]);
    if (record->help)
        return;
    if (*record->output == '\0')
        hak_die(HAK_EXIT_FAILED, "record: --output needs the name of a file");
    if (i < argc && strcmp(argv[i], "--") == 0)
        i++;
    if (i >= argc)
        hak_die(HAK_EXIT_FAILED, "record: no command given; for example: hakmem record -- ls -l");
    record->command = argv + i;
}

/* The name that the file will have in this process, which becomes the program: a new string. */
static char *record_own_name(const char *pattern)
{
    const char *mark = strstr(pattern, "%p");
    return mark == NULL
               ? hak_format("%s", pattern)
               : hak_format("%.*s%d%s", (int)(mark - pattern), pattern, (int)getpid(), mark + 2);
}

/* What the library in the program could only say when it runs already; NULL: nothing. */
static const char *record_obstacle(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0)
        return S_ISDIR(status.st_mode)         ? "it is a directory"
               : !S_ISREG(status.st_mode)      ? "it is not a regular file"
               : access(path, R_OK | W_OK) < 0 ? strerror(errno)
                                               : NULL;
    if (errno != ENOENT)
        return strerror(errno);
    char *directory = hak_dirname(path);
    const char *obstacle = access(directory, W_OK | X_OK) < 0 ? strerror(errno) : NULL;
    free(directory);
    return obstacle;
}

static char *record_output(const char *output)
{
    char *path = hak_find_absolute(output);
    char *name = record_own_name(path == NULL ? output : path);
    const char *obstacle = path == NULL ? strerror(errno) : record_obstacle(name);
    if (obstacle != NULL)
        hak_die(HAK_EXIT_FAILED, "record: %s cannot be written: %s", output, obstacle);
    free(name);
    return path;
}

int hak_record(int argc, char **argv)
{
    struct record record = {.output = record_default_output};
    record_parse(&record, argc, argv);
    if (record.help) {
        hak_record_help();
        return EXIT_SUCCESS;
    }
    struct hak_takeover takeover = {.name = HAK_LIBRARY_RECORD,
                                    .passes_on = true,
                                    .force = record.force,
                                    .command = record.command};
    hak_takeover_prepare(&takeover);
    hak_takeover_set("HAKMEM_RECORD", record_output(record.output));
    hak_takeover_set("HAKMEM_RECORD_PROCESS", hak_format("%d", (int)getpid()));
    hak_takeover_start(&takeover);
}
