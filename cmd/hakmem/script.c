/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: reads `#!` lines as the kernel and env(1) do, see script.h. Only reads. */
#include "script.h"

#include "elf_file.h"
#include "find.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LINE_BYTES = 256, /* what the kernel reads of a file to find out what it is */
    LEVELS_MAX = 5, /* scripts that are interpreted by scripts: the kernel stops here with ELOOP */
    STEPS_MAX = 40, /* the same through env, which starts anew */
};

#define BLANKS " \t"

struct script_line {
    char *interpreter;
    char *argument; /* all that follows it, as one argument; NULL: nothing */
};

enum script_kind { SCRIPT_PROGRAM, SCRIPT_LINE, SCRIPT_TEXT, SCRIPT_UNKNOWN };

/* "#! /bin/x  an argument " is the interpreter "/bin/x" with the argument "an argument". */
static enum script_kind script_split(char *text, struct script_line *line)
{
    text[strcspn(text, "\n")] = '\0';
    for (size_t length = strlen(text); length > 0 && strchr(BLANKS, text[length - 1]) != NULL;)
        text[--length] = '\0';
    char *interpreter = text + 2 + strspn(text + 2, BLANKS);
    char *argument = interpreter + strcspn(interpreter, BLANKS);
    if (*interpreter == '\0')
        return SCRIPT_TEXT; /* the kernel knows no such program; execvp's shell takes it for a
                               comment */
    if (*argument != '\0') {
        *argument++ = '\0';
        line->argument = hak_format("%s", argument + strspn(argument, BLANKS));
    }
    line->interpreter = hak_format("%s", interpreter);
    return SCRIPT_LINE;
}

/* What cannot be read is left for the ELF inspection to tell about. */
static enum script_kind script_read(const char *path, struct script_line *line)
{
    char text[LINE_BYTES + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t length = fd < 0 ? -1 : pread(fd, text, LINE_BYTES, 0);
    if (fd >= 0)
        (void)close(fd);
    if (length < 0)
        return SCRIPT_PROGRAM;
    text[length] = '\0';
    if (hak_starts_with(text, ELFMAG))
        return SCRIPT_PROGRAM;
    if (hak_starts_with(text, "#!"))
        return script_split(text, line);
    return strlen(text) < (size_t)length ? SCRIPT_UNKNOWN : SCRIPT_TEXT;
}

static bool script_removes_preload(const char *word, const char *next)
{
    static const char *const words[] = {"-", "-i", "--ignore-environment", "-uLD_PRELOAD",
                                        "--unset=LD_PRELOAD"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return hak_starts_with(word, "LD_PRELOAD=") ||
           ((strcmp(word, "-u") == 0 || strcmp(word, "--unset") == 0) && next != NULL &&
            strcmp(next, "LD_PRELOAD") == 0);
}

static bool script_takes_next(const char *option)
{
    return strcmp(option, "-u") == 0 || strcmp(option, "-C") == 0 ||
           strcmp(option, "--unset") == 0 || strcmp(option, "--chdir") == 0;
}

/* The program among the words of env's -S: the first that is neither option nor NAME=VALUE. */
static char *script_env_word(const char *path, char *words)
{
    char *rest = NULL;
    char *word = strtok_r(words, BLANKS, &rest);
    while (word != NULL) {
        char *next = strtok_r(NULL, BLANKS, &rest);
        if (script_removes_preload(word, next))
            hak_die(HAK_EXIT_FAILED,
                    "cannot take over %s: its #! line has env remove LD_PRELOAD (%s)", path, word);
        if (*word == '-' && script_takes_next(word))
            next = strtok_r(NULL, BLANKS, &rest);
        else if (*word != '-' && strchr(word, '=') == NULL)
            return word;
        word = next;
    }
    return NULL;
}

/* The argument in `#!/usr/bin/env ARGUMENT` is a name, or begins with -S, -vS, --split-string=
 * or the like, and words follow. */
static char *script_env_name(const char *path, char *argument)
{
    static const char split_long[] = "--split-string";
    if (*argument != '-')
        return argument;
    char *words = NULL;
    if (hak_starts_with(argument, split_long)) {
        words = argument + strlen(split_long);
        words += *words == '=';
    } else if (argument[1] != '-') {
        char *s = strchr(argument, 'S');
        char *ignore = strchr(argument, 'i');
        if (s != NULL && ignore != NULL && ignore < s)
            hak_die(HAK_EXIT_FAILED,
                    "cannot take over %s: its #! line has env remove LD_PRELOAD (-i)", path);
        words = s == NULL ? argument : s + 1;
    }
    return script_env_word(path, words == NULL ? argument : words);
}

/* The program that env will start, found as env finds it; a new string. */
static char *script_env_program(const char *path, char *argument)
{
    const char *name = argument == NULL ? NULL : script_env_name(path, argument);
    if (name == NULL)
        hak_die(HAK_EXIT_NOT_EXECUTABLE, "%s: its #! line names no program for env to run", path);
    char *program = hak_find_program(name, hak_find_search_path());
    if (program == NULL)
        hak_die(errno == ENOENT ? HAK_EXIT_NOT_FOUND : HAK_EXIT_NOT_EXECUTABLE,
                "%s is a script for '%s', which env will not find on PATH: %s", path, name,
                strerror(errno));
    return program;
}

/* One step: the program that the line names; frees the line. After env the kernel counts anew. */
static char *script_step(struct hak_start *start, unsigned *levels, struct script_line *line)
{
    const char *path = start->program;
    if (++*levels > LEVELS_MAX || ++start->steps > STEPS_MAX)
        hak_die(HAK_EXIT_NOT_EXECUTABLE, "%s: too many scripts interpret each other", path);
    int error = hak_find_executable_error(line->interpreter);
    if (error != 0)
        hak_die(error == ENOENT ? HAK_EXIT_NOT_FOUND : HAK_EXIT_NOT_EXECUTABLE,
                "%s is a script for %s, which cannot be executed: %s", path, line->interpreter,
                strerror(error));
    char *next = line->interpreter;
    if (strcmp(hak_basename(line->interpreter), "env") == 0) {
        next = script_env_program(path, line->argument);
        free(line->interpreter);
        *levels = 0;
    }
    free(line->argument);
    return next;
}

void hak_script_follow(struct hak_start *start, const char *path)
{
    unsigned levels = 0;
    *start = (struct hak_start){.program = hak_format("%s", path)};
    for (;;) {
        struct script_line line = {0};
        char *next = NULL;
        switch (script_read(start->program, &line)) {
        case SCRIPT_PROGRAM:
            return;
        case SCRIPT_UNKNOWN:
            hak_die(HAK_EXIT_NOT_EXECUTABLE,
                    "%s is neither an ELF program nor a script; name the program that runs it",
                    start->program);
        case SCRIPT_TEXT:
            if (start->steps > 0)
                hak_die(HAK_EXIT_NOT_EXECUTABLE,
                        "%s is asked to run %s, but is itself text without a #! line",
                        start->program, path);
            start->by_shell = true;
            next = hak_format("/bin/sh");
            break;
        case SCRIPT_LINE:
            next = script_step(start, &levels, &line);
            break;
        }
        free(start->program);
        start->program = next;
    }
}

void hak_start_free(struct hak_start *start)
{
    free(start->program);
    *start = (struct hak_start){0};
}
