/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem version`, see version.h. The library is loaded in a child process,
 * and without becoming its allocator: one that does not work cannot take the command with it. */
#include "version.h"

#include "find.h"
#include "util.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a library prints on its own is of no interest here. */
static _Noreturn void version_child(const char *path, int answer)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0)
        (void)dup2(nowhere, STDERR_FILENO);
    alarm(10);
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL)
        _exit(HAK_EXIT_FAILED);
    const char *(*version)(void) = NULL;
    void *symbol = dlsym(handle, "hakmem_version");
    if (symbol != NULL)
        memcpy(&version, &symbol, sizeof version);
    const char *text = version == NULL ? NULL : version();
    if (text == NULL || write(answer, text, strlen(text)) < 0)
        _exit(HAK_EXIT_FAILED);
    _exit(EXIT_SUCCESS);
}

static bool version_read(int fd, char *text, size_t size_bytes)
{
    size_t length = 0;
    ssize_t got;
    do {
        got = read(fd, text + length, size_bytes - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    text[length] = '\0';
    return length > 0;
}

static bool version_ask(const char *path, char *text, size_t size_bytes)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    pid_t child = fork();
    if (child == 0)
        version_child(path, ends[1]);
    (void)close(ends[1]);
    bool answered = child > 0 && version_read(ends[0], text, size_bytes);
    (void)close(ends[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    return answered;
}

void hak_version_print(void)
{
    struct hak_library library;
    char text[128];
    (void)printf("hakmem %s\n", HAKMEM_VERSION);
    hak_library_find(&library, NULL, HAK_LIBRARY_DEFAULT);
    if (library.problem != NULL)
        (void)printf("no library: %s\n", library.problem);
    else if (fflush(stdout) == 0 && version_ask(library.path, text, sizeof text))
        (void)printf("library %s (%s)%s\n", text, library.path,
                     strcmp(text, HAKMEM_VERSION) == 0 ? "" : ", another version than the command");
    else
        (void)printf("library %s does not tell its version\n", library.path);
    hak_library_close(&library);
}
