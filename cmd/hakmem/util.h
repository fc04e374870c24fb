/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: messages, text and the exit statuses. Every file of the command may call it;
 * it knows nothing of allocators or ELF files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As env(1), nice(1), timeout(1) and the shells have them, so that callers can tell whose status
 * they see. */
enum {
    HAK_EXIT_OUTPUT = 1,           /* our own output could not be written */
    HAK_EXIT_USAGE = 2,            /* no such command, or none given */
    HAK_EXIT_FAILED = 125,         /* hakmem itself failed or refused */
    HAK_EXIT_NOT_EXECUTABLE = 126, /* the program is there but cannot be executed */
    HAK_EXIT_NOT_FOUND = 127,      /* there is no such program */
};

/* The text, its control characters as `?`: names of files, processes and threads may hold anything,
 * and the terminal is to get none of them. */
char *hak_printable(char *text);

/* One line on stderr, beginning with `hakmem: `. Control characters are shown as `?`. */
void hak_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void hak_die(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A new string; ends the command when memory runs out. The caller frees it. */
char *hak_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "ENOMEM"; NULL: it has no name. */
const char *hak_error_name(int error);

/* Memory from the system, or the end of the command. */
void *hak_grow(void *block, size_t count, size_t size_bytes);

/* What follows the last slash. */
const char *hak_basename(const char *path);
/* A new string: what comes before the last slash, "." without any, "/" for the root. */
char *hak_dirname(const char *path);
bool hak_starts_with(const char *text, const char *prefix);

/* How many letters to insert, delete, replace or swap to make `b` of `a`; texts above 63 letters
 * are "far". */
unsigned hak_edit_distance(const char *a, const char *b);

/* Ends the command with the status: the option is not among those of `command` ("run"). */
_Noreturn void hak_unknown_option(int status, const char *command, const char *option,
                                  const char *const *options, size_t count);

/* The number of a process, of decimal digits only; 0: it is none. */
int hak_parse_pid(const char *text);

/* "12.3 MiB", in the caller's buffer of 16, which is returned. */
const char *hak_bytes_text(char *out, uint64_t bytes);
/* Prints a text on standard output, folded between words so that it fits a terminal. `at`
 * characters stand in the line already (up to `indent`: the text goes there, else behind a space);
 * further lines begin with `indent` spaces. */
void hak_print_folded(size_t at, unsigned indent, const char *text);

/* A regular file, open for reading. -1: `*problem` is a new string that says why not. Of a fifo
 * too, for whose writer open(2) would wait. */
int hak_open_regular(const char *path, char **problem);

/* A growing list of strings that it owns. All zero bytes is an empty list. */
struct hak_strings {
    char **at;
    size_t count;
    size_t capacity;
};

void hak_strings_add(struct hak_strings *list, char *owned);
bool hak_strings_have(const struct hak_strings *list, const char *text);
void hak_strings_free(struct hak_strings *list);

/* Occupies those of the descriptors 0, 1 and 2 that the caller closed, so that no file of ours
 * lands there. They refuse reading and writing, and are closed again by exec: the program sees what
 * the caller gave. */
void hak_guard_standard_files(void);
/* Flushes stdout; a failed write ends the command with HAK_EXIT_OUTPUT. */
void hak_finish_output(void);
