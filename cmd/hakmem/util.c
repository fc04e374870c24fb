/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: messages and text, see util.h. Reads no environment, starts no process. */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *hak_printable(char *text)
{
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return text;
}

static void say_line(const char *format, va_list arguments)
{
    char line[8192] = "hakmem: ";
    const size_t prefix = strlen(line);
    (void)vsnprintf(line + prefix, sizeof line - prefix - 1, format, arguments);
    size_t length = strlen(hak_printable(line));
    line[length++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, length); /* nowhere left to complain */
    (void)ignored;
}

void hak_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line(format, arguments);
    va_end(arguments);
}

void hak_die(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line(format, arguments);
    va_end(arguments);
    _exit(status); /* nothing is buffered, and what is allocated goes with the process */
}

char *hak_format(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        hak_die(HAK_EXIT_FAILED, "out of memory");
    return text;
}

const char *hak_error_name(int error)
{
#ifdef __GLIBC__
    return strerrorname_np(error);
#else
    static const char *const names[] = {
        [EACCES] = "EACCES", [EAGAIN] = "EAGAIN", [EEXIST] = "EEXIST", [EINVAL] = "EINVAL",
        [ENOMEM] = "ENOMEM", [ENOSYS] = "ENOSYS", [EPERM] = "EPERM",
    };
    return error < 0 || (size_t)error >= sizeof names / sizeof *names ? NULL : names[error];
#endif
}

void *hak_grow(void *block, size_t count, size_t size_bytes)
{
    void *grown = reallocarray(block, count, size_bytes);
    if (grown == NULL)
        hak_die(HAK_EXIT_FAILED, "out of memory");
    return grown;
}

const char *hak_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

char *hak_dirname(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return hak_format(".");
    if (slash == path)
        return hak_format("/");
    return hak_format("%.*s", (int)(slash - path), path);
}

bool hak_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static unsigned util_min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned hak_edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    unsigned cost[LONGEST + 2][LONGEST + 2];
    const size_t rows = strlen(a), columns = strlen(b);
    if (rows > LONGEST || columns > LONGEST)
        return LONGEST;
    for (unsigned i = 0; i <= rows; i++)
        cost[i][0] = i;
    for (unsigned j = 0; j <= columns; j++)
        cost[0][j] = j;
    for (size_t i = 1; i <= rows; i++)
        for (size_t j = 1; j <= columns; j++) {
            unsigned replace = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            unsigned best = util_min(replace, util_min(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = util_min(best, cost[i - 2][j - 2] + 1);
            cost[i][j] = best;
        }
    return cost[rows][columns];
}

/* Of these names the one that `text` may have been meant to be; NULL: none. */
static const char *util_nearest(const char *text, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    unsigned best = 3;
    for (size_t i = 0; i < count; i++) {
        unsigned distance = hak_edit_distance(text, names[i]);
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

_Noreturn void hak_unknown_option(int status, const char *command, const char *option,
                                  const char *const *options, size_t count)
{
    const char *nearest = util_nearest(option, options, count);
    if (nearest != NULL)
        hak_die(status, "%s: unknown option '%s'; did you mean '%s'?", command, option, nearest);
    hak_die(status, "%s: unknown option '%s'; see 'hakmem %s --help'", command, option, command);
}

int hak_parse_pid(const char *text)
{
    char *end;
    errno = 0;
    long pid = strtol(text, &end, 10);
    bool digits = *text >= '0' && *text <= '9';
    return digits && *end == '\0' && errno == 0 && pid > 0 && pid <= INT_MAX ? (int)pid : 0;
}

const char *hak_bytes_text(char *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1000 && unit < 6) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, 16, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value,
                   units[unit]);
    return out;
}

#define LINE_CHARACTERS 80u

void hak_print_folded(size_t at, unsigned indent, const char *text)
{
    for (size_t word; *text != '\0'; text += word + (text[word] == ' ')) {
        word = strcspn(text, " ");
        if (at > indent && at + (at > 0) + word > LINE_CHARACTERS) {
            (void)printf("\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            at += (size_t)printf(" ");
        }
        at += (size_t)printf("%.*s", (int)word, text);
    }
    (void)putchar('\n');
}

int hak_open_regular(const char *path, char **problem)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0)
        *problem = hak_format("%s cannot be read: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        *problem = hak_format("%s is not a regular file, but %s", path,
                              S_ISDIR(status.st_mode)    ? "a directory"
                              : S_ISFIFO(status.st_mode) ? "a pipe"
                                                         : "a device or a socket");
    else
        return file;
    if (file >= 0)
        (void)close(file);
    return -1;
}

void hak_strings_add(struct hak_strings *list, char *owned)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        list->at = hak_grow(list->at, list->capacity, sizeof *list->at);
    }
    list->at[list->count++] = owned;
}

bool hak_strings_have(const struct hak_strings *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->at[i], text) == 0)
            return true;
    return false;
}

void hak_strings_free(struct hak_strings *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->at[i]);
    free(list->at);
    *list = (struct hak_strings){0};
}

void hak_guard_standard_files(void)
{
    for (int wanted = STDIN_FILENO; wanted <= STDERR_FILENO; wanted++)
        if (fcntl(wanted, F_GETFD) < 0 && errno == EBADF) {
            int fd =
                open("/", O_PATH | O_DIRECTORY | O_CLOEXEC); /* takes the lowest number: this one */
            if (fd != wanted)
                _exit(HAK_EXIT_FAILED);
        }
}

void hak_finish_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        hak_die(HAK_EXIT_OUTPUT, "cannot write the output: %s", strerror(errno));
}
