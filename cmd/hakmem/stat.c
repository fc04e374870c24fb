/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem stat`: where the memory of a process is. */
#include "stat.h"

#include "system.h"
#include "util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum stat_format { STAT_TEXT, STAT_JSON, STAT_OPENMETRICS };

struct stat_options {
    enum stat_format format;
    struct hak_stat_parts parts;
    unsigned watch_seconds; /* 0: once */
    bool openmetrics, help;
    const char *output; /* NULL: stdout; with a command stderr */
    int file;           /* that is open for it */
    pid_t pid;
    const char *core;
    char **command;
    /* --watch */
    uint64_t previous_bytes[HAK_LINE_COUNT];
    bool has_previous;
    /* --peak */
    bool quiet;
    uint64_t printed_bytes; /* in memory, of what was printed last */
    uint64_t peak_bytes;    /* of the text that is kept */
    uint64_t looked_bytes;  /* VmRSS, when it was read last */
    char *peak_text;
};

void hak_stat_help(void)
{
    (void)fputs(
        "Usage: hakmem stat [OPTION]... PID | CORE\n"
        "       hakmem stat [OPTION]... -- COMMAND [ARGUMENT]...\n"
        "Tell where the memory of a process is: from the blocks that it holds, line by line, to\n"
        "all that it has in memory. The process needs hakmem; it is neither stopped nor changed.\n"
        "With a COMMAND, run it under hakmem and tell about it when it ends, before it is gone.\n"
        "\n"
        "  --json         as JSON: docs/stat-format.md\n"
        "  --openmetrics  as OpenMetrics text\n"
        "  --superslabs   JSON with each superslab and its slots\n"
        "  --samples      JSON with sampled blocks and call sites, where the process takes them\n"
        "  -o, --output FILE  write to FILE; else to stdout, with a COMMAND to stderr\n"
        "  --watch[=SECONDS]  again every so many seconds (2), with what has changed\n"
        "  --peak         with a COMMAND: of the moment at which it had most in memory\n"
        "  --help         print this and exit\n"
        "\n"
        "Exit status: 0, of the COMMAND if there is one; 1 the process has no hakmem or cannot be\n"
        "read, 2 the arguments are wrong, 125 to 127 as for 'hakmem run'.\n",
        stdout);
}

static const char *const stat_option_names[] = {"--json",    "--openmetrics", "--superslabs",
                                                "--samples", "--output",      "--peak",
                                                "--watch",   "--help"};

static unsigned stat_parse_seconds(const char *text)
{
    char *end;
    unsigned long seconds = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end != '\0' || seconds == 0 || seconds > 86400)
        hak_die(HAK_EXIT_USAGE, "stat: --watch needs whole seconds from 1 to 86400, not '%s'",
                text);
    return (unsigned)seconds;
}

static void stat_parse_option(struct stat_options *o, const char *option)
{
    if (strcmp(option, "--json") == 0) {
        o->format = STAT_JSON;
    } else if (strcmp(option, "--openmetrics") == 0) {
        o->openmetrics = true;
    } else if (strcmp(option, "--superslabs") == 0) {
        o->format = STAT_JSON;
        o->parts.superslabs = true;
    } else if (strcmp(option, "--samples") == 0) {
        o->format = STAT_JSON;
        o->parts.samples = true;
    } else if (strcmp(option, "--peak") == 0) {
        o->parts.peak = true;
    } else if (hak_starts_with(option, "--output=")) {
        o->output = option + strlen("--output=");
    } else if (strcmp(option, "--watch") == 0) {
        o->watch_seconds = 2;
    } else if (hak_starts_with(option, "--watch=")) {
        o->watch_seconds = stat_parse_seconds(option + strlen("--watch="));
    } else if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
        o->help = true;
    } else {
        hak_unknown_option(HAK_EXIT_USAGE, "stat", option, stat_option_names,
                           sizeof stat_option_names / sizeof *stat_option_names);
    }
}

/* "hakmem stat --watch 5 PID" is what everybody types: a number behind --watch is its own if
 * another word follows. */
static void stat_parse(struct stat_options *o, int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--output") == 0 || strcmp(argv[i], "-o") == 0) {
            if (i + 1 == argc)
                hak_die(HAK_EXIT_USAGE, "stat: --output needs the name of a file");
            o->output = argv[++i];
            continue;
        }
        stat_parse_option(o, argv[i]);
        if (strcmp(argv[i], "--watch") == 0 && i + 2 < argc && isdigit((unsigned char)*argv[i + 1]))
            o->watch_seconds = stat_parse_seconds(argv[++i]);
    }
    if (o->help)
        return;
    if (o->openmetrics && o->format == STAT_JSON)
        hak_die(HAK_EXIT_USAGE, "stat: --openmetrics is another form than JSON, which --json, "
                                "--superslabs and --samples ask for; give one");
    o->format = o->openmetrics ? STAT_OPENMETRICS : o->format;
    if (i < argc && strcmp(argv[i], "--") == 0) {
        if (i + 1 == argc)
            hak_die(HAK_EXIT_USAGE, "stat: no command given; for example: hakmem stat -- ls -l");
        if (o->watch_seconds != 0)
            hak_die(HAK_EXIT_USAGE, "stat: --watch is for a running process; give its number");
        o->command = argv + i + 1;
        return;
    }
    if (o->parts.peak)
        hak_die(HAK_EXIT_USAGE, "stat: --peak is for a command: hakmem stat --peak -- COMMAND");
    if (i >= argc)
        hak_die(HAK_EXIT_USAGE, "stat: no process given; for example: hakmem stat 1234, or: hakmem "
                                "stat -- ls -l");
    if (i + 1 < argc && argv[i + 1][0] == '-')
        hak_die(HAK_EXIT_USAGE, "stat: options come before the process: hakmem stat %s %s",
                argv[i + 1], argv[i]);
    if (i + 1 < argc)
        hak_die(HAK_EXIT_USAGE, "stat: one process at a time; '%s' is too much%s", argv[i + 1],
                isdigit((unsigned char)*argv[i]) ? "" : "; a command comes behind --");
    o->pid = hak_parse_pid(argv[i]);
    if (o->pid == 0 && access(argv[i], F_OK) != 0)
        hak_die(HAK_EXIT_USAGE,
                "stat: '%s' is neither the number of a process nor a core file: %s; a command "
                "comes behind --",
                argv[i], strerror(errno));
    o->core = o->pid == 0 ? argv[i] : NULL;
}

static void stat_print(struct stat_options *o, const struct hak_survey *survey)
{
    if (o->format == STAT_JSON)
        hak_stat_print_json(survey, o->parts);
    else if (o->format == STAT_OPENMETRICS)
        hak_stat_print_openmetrics(survey, o->parts.peak);
    else
        hak_stat_print_text(survey, o->has_previous ? o->previous_bytes : NULL, o->command != NULL);
    for (enum hak_line line = 0; line < HAK_LINE_COUNT; line++)
        o->previous_bytes[line] = survey->lines[line].resident_bytes;
    o->has_previous = true;
    o->printed_bytes = survey->rss_bytes;
}

#define STAT_TRIES 3u

/* Reads once, and prints what was found if it is whole or `last`. False: said why not. */
static bool stat_try(struct stat_options *o, bool last, bool *printed)
{
    struct hak_remote remote;
    struct hak_image image;
    struct hak_survey survey;
    struct hak_obstacle obstacle = {0};
    bool open = hak_remote_open_either(&remote, o->pid, o->core, &obstacle);
    if (open && !hak_remote_look_at_pages(&remote)) {
        obstacle.problem = hak_format("the pages of process %d cannot be looked at", (int)o->pid);
        obstacle.hint = "it may have ended, or /proc may not be mounted";
        open = false;
    }
    if (open && hak_image_open(&image, &remote, &obstacle)) {
        hak_survey_make(&survey, &image);
        *printed = last || survey.complete;
        if (*printed)
            stat_print(o, &survey);
        hak_survey_free(&survey);
    }
    bool done = obstacle.problem == NULL;
    if (!done && !o->quiet) {
        hak_say("stat: %s", obstacle.problem);
        hak_say("hint: %s", obstacle.hint);
    }
    hak_obstacle_free(&obstacle);
    hak_remote_close(&remote);
    return done;
}

/* Reads and prints once. What changed too much while it was read is read again. */
static bool stat_once(struct stat_options *o)
{
    bool printed = false;
    for (unsigned left = o->core != NULL ? 1 : STAT_TRIES;; left--)
        if (!stat_try(o, left == 1, &printed) || printed)
            return printed;
}

static bool stat_watch(struct stat_options *o)
{
    bool terminal = isatty(STDOUT_FILENO) && o->format == STAT_TEXT;
    for (bool first = true;; first = false) {
        if (terminal)
            (void)fputs("\033[H\033[2J", stdout);
        if (!first && kill(o->pid, 0) < 0 && errno == ESRCH)
            return true;
        if (!stat_once(o))
            return false;
        if (!terminal && o->format == STAT_TEXT)
            (void)putchar('\n');
        hak_finish_output();
        (void)sleep(o->watch_seconds);
    }
}

/* Before a command starts: whether it would run in vain is to be known then. */
static void stat_open_output(struct stat_options *o)
{
    if (o->output == NULL && o->command == NULL)
        return;
    o->file = o->output == NULL ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
                                : open(o->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (o->file < 0)
        hak_die(o->command == NULL ? HAK_EXIT_OUTPUT : HAK_EXIT_FAILED,
                "stat: cannot write to %s: %s", o->output == NULL ? "stderr" : o->output,
                strerror(errno));
}

/* Whatever is printed from now on goes there. */
static void stat_redirect(struct stat_options *o)
{
    if (o->file < 0)
        return;
    if (dup2(o->file, STDOUT_FILENO) < 0)
        hak_die(HAK_EXIT_OUTPUT, "stat: cannot write: %s", strerror(errno));
    (void)close(o->file);
    o->file = -1;
}

/* --- the moment of most memory: looked for every few milliseconds, and read whenever there is a
 * twentieth more than when it was read last. How near that came the kernel says in the end. --- */

static uint64_t stat_status_bytes(pid_t pid, const char *name)
{
    char *path = hak_format("/proc/%d/status", (int)pid);
    uint64_t bytes = hak_system_line(path, name);
    free(path);
    return bytes == UINT64_MAX ? 0 : bytes;
}

/* What is in a file; NULL: it cannot be read. */
static char *stat_text_of(int file)
{
    off_t bytes = lseek(file, 0, SEEK_END);
    char *text = bytes < 0 ? NULL : calloc(1, (size_t)bytes + 1);
    if (text != NULL && pread(file, text, (size_t)bytes, 0) == bytes)
        return text;
    free(text);
    return NULL;
}

/* What stat_once prints, in `memory`. NULL: it could not look, or not write. */
static char *stat_text_once(struct stat_options *o, int memory, int out)
{
    if (fflush(stdout) != 0 || dup2(memory, STDOUT_FILENO) < 0)
        return NULL;
    bool done = stat_once(o);
    done &= fflush(stdout) == 0;
    done &= dup2(out, STDOUT_FILENO) >= 0;
    return done ? stat_text_of(memory) : NULL;
}

/* Keeps what is printed now if there is more in memory than in what was kept. */
static void stat_read_peak(struct stat_options *o, pid_t pid, uint64_t now_bytes)
{
    int memory = memfd_create("hakmem stat", MFD_CLOEXEC);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    o->pid = pid;
    o->quiet = true; /* it may not have come to its allocator yet */
    o->has_previous = false;
    char *text = memory < 0 || out < 0 ? NULL : stat_text_once(o, memory, out);
    (void)close(memory);
    (void)close(out);
    if (text == NULL)
        return;
    o->looked_bytes = now_bytes;
    if (o->printed_bytes < o->peak_bytes) {
        free(text);
        return;
    }
    free(o->peak_text);
    o->peak_text = text;
    o->peak_bytes = o->printed_bytes;
}

/* The kernel's quick figure decides whether to read; what was read counts. */
static void stat_look(pid_t pid, void *context)
{
    struct stat_options *o = context;
    uint64_t now_bytes = stat_status_bytes(pid, "VmRSS");
    uint64_t known_bytes = hak_max(o->looked_bytes, o->peak_bytes);
    if (now_bytes > known_bytes + known_bytes / 20)
        stat_read_peak(o, pid, now_bytes);
}

static void stat_show_peak(struct stat_options *o, pid_t pid)
{
    uint64_t now_bytes = stat_status_bytes(pid, "VmRSS");
    uint64_t kernel_bytes = stat_status_bytes(pid, "VmHWM");
    if (now_bytes > o->peak_bytes)
        stat_read_peak(o, pid, now_bytes);
    stat_redirect(o);
    struct hak_stat_peak peak = {o->peak_bytes, kernel_bytes};
    if (o->peak_text == NULL) { /* never: now it says why */
        o->pid = pid;
        o->quiet = o->parts.peak = false;
        (void)stat_once(o);
    } else {
        (void)fputs(o->peak_text, stdout);
        if (o->format == STAT_JSON)
            hak_stat_end_json(peak);
        else if (o->format == STAT_OPENMETRICS)
            hak_stat_end_openmetrics(peak);
        else
            hak_stat_end_text(peak);
    }
    hak_finish_output();
}

static void stat_show(pid_t pid, void *context)
{
    struct stat_options *o = context;
    if (o->parts.peak) {
        stat_show_peak(o, pid);
        return;
    }
    o->pid = pid;
    stat_redirect(o);
    (void)stat_once(o);
    hak_finish_output();
}

int hak_stat(int argc, char **argv)
{
    struct stat_options o = {.file = -1};
    stat_parse(&o, argc, argv);
    if (o.help) {
        hak_stat_help();
        return EXIT_SUCCESS;
    }
    stat_open_output(&o);
    if (o.command != NULL) {
        int status = hak_stat_run(
            o.command, &(struct hak_stat_end){stat_show, o.parts.peak ? stat_look : NULL, &o});
        free(o.peak_text);
        return status;
    }
    stat_redirect(&o);
    bool done = o.watch_seconds != 0 && o.core == NULL ? stat_watch(&o) : stat_once(&o);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
