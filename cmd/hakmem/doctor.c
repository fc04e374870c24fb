/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem doctor`: what stands in the way of hakmem, or costs memory, on this
 * system or in a process; each with its effect and what to do. */
#include "doctor.h"

#include "json.h"
#include "remote.h"
#include "run.h"
#include "system.h"
#include "util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void hak_doctor_help(void)
{
    (void)fputs(
        "Usage: hakmem doctor [OPTION]... [PID]\n"
        "       hakmem doctor [OPTION]... -- COMMAND\n"
        "Look for what stands in the way of hakmem, or costs memory, in the system's settings and\n"
        "limits, and in a process or in what COMMAND would become (it is not started).\n"
        "\n"
        "  --json        as JSON\n"
        "  --all         also tell what is well\n"
        "  --root DIR    look at DIR/proc and DIR/sys instead: of a container, or a copy\n"
        "  --help        print this and exit\n"
        "\n"
        "Exit status: 0 nothing is wrong, 1 something is, 2 the arguments are wrong.\n",
        stdout);
}

void hak_doctor_add(struct hak_doctor *d, const char *name, enum hak_level level, char *value,
                    const char *effect, char *fix)
{
    if (d->count % 16 == 0)
        d->findings = hak_grow(d->findings, d->count + 16, sizeof *d->findings);
    d->findings[d->count++] = (struct hak_finding){name, level, value, effect, fix};
}

/* --- a command --- */

/* What `hakmem run --check` says of it, on stderr; a new string. */
static char *doctor_check(char **command, int *status)
{
    int out[2];
    char text[8192];
    size_t length = 0;
    if (pipe(out) < 0)
        hak_die(HAK_EXIT_FAILED, "doctor: cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        hak_die(HAK_EXIT_FAILED, "doctor: cannot start a process: %s", strerror(errno));
    if (pid == 0) {
        static char run[] = "run", check[] = "--check", dashes[] = "--";
        char *words[] = {run, check, dashes, command[0], NULL};
        if (dup2(out[1], STDERR_FILENO) < 0 || freopen("/dev/null", "w", stdout) == NULL)
            _exit(HAK_EXIT_FAILED);
        (void)close(out[0]);
        (void)close(out[1]);
        _exit(hak_run(4, words));
    }
    (void)close(out[1]);
    for (ssize_t n; length < sizeof text - 1 &&
                    (n = read(out[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)n;
    text[length] = '\0';
    (void)close(out[0]);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
    return hak_format("%s", text);
}

/* The first line without "hakmem: " is the reason, the one with "hint: " the fix. */
static void doctor_look_at_command(struct hak_doctor *d, char **command)
{
    int status = 0;
    char *text = doctor_check(command, &status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        hak_doctor_add(d, "takeover", HAK_OK, hak_format("%s can be taken over", command[0]), NULL,
                       NULL);
        free(text);
        return;
    }
    char *rest = NULL;
    char *reason = strtok_r(text, "\n", &rest);
    char *hint = reason == NULL ? NULL : strstr(rest, "hint: ");
    if (reason != NULL && hak_starts_with(reason, "hakmem: "))
        reason += strlen("hakmem: ");
    if (hint != NULL)
        hint[strcspn(hint, "\n")] = '\0';
    hak_doctor_add(d, "takeover", HAK_PROBLEM,
                   hak_format("%s", reason == NULL ? "it cannot be looked at" : reason),
                   "the command would run without hakmem",
                   hak_format("%s", hint != NULL ? hint + strlen("hint: ")
                                                 : "give a command that can be started"));
    free(text);
}

/* --- the answer --- */

static const char *const doctor_levels[] = {"ok", "note", "problem"};

#define LINE_INDENT 9

static void doctor_print_line(const char *first, const char *name, const char *text)
{
    int at = printf("%-*s%s:", LINE_INDENT, first, name);
    hak_print_folded((size_t)at, LINE_INDENT + 2, text);
}

static void doctor_print(const struct hak_doctor *d, bool all)
{
    size_t shown = 0;
    for (int level = HAK_PROBLEM; level >= HAK_OK; level--) {
        for (size_t i = 0; i < d->count; i++) {
            const struct hak_finding *f = &d->findings[i];
            if ((int)f->level != level || (level == HAK_OK && !all))
                continue;
            doctor_print_line(doctor_levels[level], f->name, f->value);
            if (f->effect != NULL)
                doctor_print_line("", "effect", f->effect);
            if (f->fix != NULL)
                doctor_print_line("", "fix", f->fix);
            shown++;
        }
    }
    if (shown == 0)
        (void)printf("Nothing is wrong: %zu things were looked at (--all lists them).\n", d->count);
}

static void doctor_print_json(const struct hak_doctor *d, size_t problems)
{
    struct hak_json j = {.out = stdout};
    hak_json_open(&j, NULL, '{');
    hak_json_number(&j, "schema_version", 1);
    hak_json_number_or_null(&j, "pid", d->pid > 0 ? (uint64_t)d->pid : UINT64_MAX);
    hak_json_number(&j, "problems", problems);
    hak_json_open(&j, "findings", '[');
    for (size_t i = 0; i < d->count; i++) {
        const struct hak_finding *f = &d->findings[i];
        hak_json_open(&j, NULL, '{');
        hak_json_string(&j, "name", f->name);
        hak_json_string(&j, "level", doctor_levels[f->level]);
        hak_json_string(&j, "value", f->value);
        hak_json_string(&j, "effect", f->effect);
        hak_json_string(&j, "fix", f->fix);
        hak_json_close(&j, '{');
    }
    hak_json_close(&j, '[');
    hak_json_close(&j, '{');
}

struct doctor_options {
    bool json, all, help;
    const char *root;
    char **command;
};

static const char *const doctor_option_names[] = {"--json", "--all", "--root", "--help"};

/* One option, which may take the following argument; returns how many arguments it was. */
static int doctor_parse_option(struct doctor_options *o, const char *option, const char *next)
{
    if (strcmp(option, "--json") == 0) {
        o->json = true;
    } else if (strcmp(option, "--all") == 0) {
        o->all = true;
    } else if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
        o->help = true;
    } else if (hak_starts_with(option, "--root=")) {
        o->root = option + strlen("--root=");
    } else if (strcmp(option, "--root") == 0) {
        if (next == NULL)
            hak_die(HAK_EXIT_USAGE, "doctor: --root needs a folder");
        o->root = next;
        return 2;
    } else {
        hak_unknown_option(HAK_EXIT_USAGE, "doctor", option, doctor_option_names,
                           sizeof doctor_option_names / sizeof *doctor_option_names);
    }
    return 1;
}

static void doctor_parse(struct doctor_options *o, struct hak_doctor *d, int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0)
        i += doctor_parse_option(o, argv[i], argv[i + 1]);
    if (o->help)
        return;
    if (i < argc && strcmp(argv[i], "--") == 0) {
        o->command = argv + i + 1;
        if (o->command[0] == NULL)
            hak_die(HAK_EXIT_USAGE, "doctor: no command given; for example: hakmem doctor -- ls");
        return;
    }
    if (i == argc)
        return;
    d->pid = hak_parse_pid(argv[i]);
    if (d->pid == 0)
        hak_die(HAK_EXIT_USAGE,
                "doctor: '%s' is not the number of a process; a command comes behind --", argv[i]);
    if (i + 1 < argc)
        hak_die(HAK_EXIT_USAGE, "doctor: one process at a time; '%s' is too much", argv[i + 1]);
}

/* What is not there counts as well in most places; a folder without anything would be perfect. */
static void doctor_check_root(const struct doctor_options *o)
{
    static const char *const needed[] = {"/proc/", "/sys/"};
    for (size_t i = 0; o->root != NULL && i < sizeof needed / sizeof *needed; i++)
        if (!hak_system_exists(needed[i]))
            hak_die(HAK_EXIT_USAGE, "doctor: --root needs a folder that has proc and sys: %s%s: %s",
                    o->root, needed[i], strerror(errno));
}

/* The same of the system itself, which is looked at as far as it can be. */
static void doctor_check_mounts(struct hak_doctor *d)
{
    if (!hak_system_exists("/proc/self"))
        hak_doctor_add(d, "proc", HAK_PROBLEM, hak_format("/proc is not mounted"),
                       "limits, settings and processes cannot be looked at, nor by hakmem stat",
                       hak_format("mount -t proc proc /proc"));
    if (!hak_system_exists("/sys/kernel"))
        hak_doctor_add(d, "sys", HAK_NOTE, hak_format("/sys is not mounted"),
                       "huge pages and control groups cannot be looked at",
                       hak_format("mount -t sysfs sys /sys"));
}

int hak_doctor(int argc, char **argv)
{
    struct doctor_options o = {0};
    struct hak_doctor d = {.folder = "/proc/self"};
    doctor_parse(&o, &d, argc, argv);
    if (o.help) {
        hak_doctor_help();
        return EXIT_SUCCESS;
    }
    if (o.root != NULL) {
        hak_system_set_root(o.root);
        d.is_copy = true;
    }
    char *folder = d.pid != 0 ? hak_format("/proc/%d", (int)d.pid) : NULL;
    d.folder = folder != NULL ? folder : d.folder;
    doctor_check_root(&o);
    struct hak_obstacle hidden = {0};
    if (folder != NULL && o.root == NULL && !hak_system_exists(folder) &&
        hak_remote_is_hidden(d.pid, &hidden))
        hak_die(HAK_EXIT_USAGE, "doctor: %s: %s", hidden.problem, hidden.hint);
    if (folder != NULL && !hak_system_exists(folder))
        hak_die(HAK_EXIT_USAGE, "doctor: there is no process %d%s%s", (int)d.pid,
                o.root != NULL ? " below " : "", o.root != NULL ? o.root : "");
    if (o.root != NULL && !hak_system_exists(d.folder))
        hak_die(HAK_EXIT_USAGE, "doctor: there is no %s%s, whose limits are wanted", o.root,
                d.folder);
    if (o.root == NULL)
        doctor_check_mounts(&d);
    if (d.pid != 0)
        hak_doctor_look_at_process(&d);
    if (o.command != NULL)
        doctor_look_at_command(&d, o.command);
    hak_doctor_look_at_system(&d);
    hak_doctor_look_at_cgroup(&d);
    size_t problems = 0;
    for (size_t i = 0; i < d.count; i++)
        problems += d.findings[i].level == HAK_PROBLEM;
    if (o.json)
        doctor_print_json(&d, problems);
    else
        doctor_print(&d, o.all);
    for (size_t i = 0; i < d.count; i++) {
        free(d.findings[i].value);
        free(d.findings[i].fix);
    }
    free(d.findings);
    free(folder);
    return problems == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
