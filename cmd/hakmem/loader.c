/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: asks the dynamic loader of a program what it will load, see loader.h. The
 * child lives only for the question, ten seconds at most; it never runs code of the program. */
#include "loader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_BYTES = 1 << 20,
    PATIENCE_MS = 10000,
};

/* Variables that make the loader write something else or run code (auditors) are taken out. */
static _Noreturn void loader_child(const char *loader, const char *program, const char *preload,
                                   int answer)
{
    static const char *const unwanted[] = {
        "LD_AUDIT",     "LD_DEBUG",   "LD_DEBUG_OUTPUT",         "LD_PROFILE",
        "LD_SHOW_AUXV", "LD_VERBOSE", "LD_TRACE_LOADED_OBJECTS", "LD_WARN"};
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        (void)unsetenv(unwanted[i]);
    if (setenv("LD_PRELOAD", preload, 1) == 0 && dup2(answer, STDOUT_FILENO) >= 0 &&
        dup2(answer, STDERR_FILENO) >= 0)
        (void)execl(loader, loader, "--list", program, (char *)NULL);
    _exit(HAK_EXIT_FAILED);
}

static long loader_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* All that the child writes, as one string; false when it takes too long or writes too much. */
static bool loader_read(int fd, char *text)
{
    const long deadline = loader_now_ms() + PATIENCE_MS;
    size_t length = 0;
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        long left = deadline - loader_now_ms();
        int answer = left <= 0 ? 0 : poll(&ready, 1, (int)left);
        if (answer < 0 && errno == EINTR)
            continue;
        ssize_t got = answer <= 0 ? -1 : read(fd, text + length, ANSWER_BYTES - 1 - length);
        if (got <= 0) {
            text[length] = '\0';
            return got == 0 && length < ANSWER_BYTES - 1;
        }
        length += (size_t)got;
    }
}

/* The status is unknown when the caller has SIGCHLD ignored; the answer then speaks for itself. */
static bool loader_reap(pid_t child, bool answered)
{
    int status = 0;
    if (!answered)
        (void)kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return answered;
    return answered && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* From "name => /path (0x...)", "/path (0x...)", "name => not found"; a new string, or NULL. */
static char *loader_parse(char *line)
{
    char *address = strstr(line, " (0x");
    char *arrow = strstr(line, " => ");
    if (line[0] != '\t' || (address == NULL && arrow == NULL))
        return NULL;
    char *file = line + 1;
    if (arrow != NULL && (address != NULL || strcmp(arrow, " => not found") != 0))
        file = arrow + 4;
    else if (arrow != NULL)
        *arrow = '\0';
    if (address != NULL)
        *address = '\0';
    return hak_format("%s", file);
}

/* A line that names the library but is not of the list tells why the library will not work. */
void hak_loader_understand(struct hak_loaded *loaded, char *text, const char *library)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *file = loader_parse(line);
        if (file != NULL) {
            loaded->has_library |= strcmp(file, library) == 0;
            hak_strings_add(&loaded->files, file);
        } else if (loaded->complaint == NULL && strstr(line, library) != NULL) {
            loaded->complaint = hak_format("%s", line);
        } else if (loaded->failure == NULL) {
            loaded->failure = hak_format("%s", line);
        }
    }
}

bool hak_loader_ask(struct hak_loaded *loaded, const char *loader, const char *program,
                    const char *library, const char *preload)
{
    int ends[2];
    *loaded = (struct hak_loaded){0};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    pid_t child = fork();
    if (child == 0)
        loader_child(loader, program, preload, ends[1]);
    (void)close(ends[1]);
    char *text = hak_grow(NULL, ANSWER_BYTES, 1);
    bool answered = child > 0 && loader_read(ends[0], text);
    if (child > 0) {
        bool succeeded = loader_reap(child, answered);
        if (answered)
            hak_loader_understand(loaded, text, library);
        answered = succeeded || loaded->has_library || loaded->complaint != NULL;
    }
    free(text);
    (void)close(ends[0]);
    return answered;
}

void hak_loaded_free(struct hak_loaded *loaded)
{
    hak_strings_free(&loaded->files);
    free(loaded->complaint);
    free(loaded->failure);
    *loaded = (struct hak_loaded){0};
}
