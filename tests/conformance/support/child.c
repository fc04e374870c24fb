/* Conformance support: runs a command in a process of its own. See child.h.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t child_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

_Noreturn static void child_become(const struct child *c, int out, int err)
{
    setpgid(0, 0);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (c->setup)
        c->setup(c->setup_arg);
    execvp(c->argv[0], c->argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", c->argv[0], strerror(errno));
    _exit(CHILD_EXEC_FAILED);
}

/* Reads what is there into a bounded buffer; what does not fit is dropped. False at the end. */
static bool child_read(int fd, char *to, size_t *used, size_t limit)
{
    char rest[4096];
    size_t room = limit - *used;
    ssize_t n = room ? read(fd, to + *used, room) : read(fd, rest, sizeof rest);
    if (n > 0 && room)
        *used += (size_t)n;
    return n > 0 || (n < 0 && errno == EINTR);
}

static void child_collect(struct child *c, int out, int err, int64_t until_ms)
{
    struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        int64_t left = until_ms - child_now_ms();
        if (left <= 0) {
            c->timed_out = true;
            return;
        }
        if (poll(fds, 2, (int)left) <= 0)
            continue;
        if (fds[0].revents && !child_read(out, c->out, &c->out_bytes, CHILD_OUT_BYTES))
            fds[0].fd = -1;
        if (fds[1].revents && !child_read(err, c->err, &c->err_bytes, CHILD_ERR_BYTES))
            fds[1].fd = -1;
    }
}

/* The pipes are closed, or time is up: waits for the end, by force if need be. */
static void child_reap(struct child *c, pid_t pid, int64_t until_ms)
{
    for (;;) {
        pid_t ended = waitpid(pid, &c->status, c->timed_out ? 0 : WNOHANG);
        if (ended == pid)
            break;
        if (child_now_ms() < until_ms) {
            usleep(1000);
            continue;
        }
        c->timed_out = true;
        kill(-pid, SIGKILL);
        kill(pid, SIGKILL);
    }
}

bool child_run(struct child *c)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC))
        return false;
    if (pipe2(err, O_CLOEXEC)) {
        close(out[0]);
        close(out[1]);
        return false;
    }
    c->out_bytes = c->err_bytes = 0;
    c->timed_out = false;
    int64_t until_ms =
        child_now_ms() + 1000 * (int64_t)(c->timeout_seconds ? c->timeout_seconds : 60);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child_become(c, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    if (pid > 0) {
        child_collect(c, out[0], err[0], until_ms);
        if (c->timed_out)
            kill(-pid, SIGKILL);
        child_reap(c, pid, until_ms);
    }
    c->out[c->out_bytes] = c->err[c->err_bytes] = 0;
    close(out[0]);
    close(err[0]);
    return pid > 0;
}

bool child_exited(const struct child *c, int status)
{
    return !c->timed_out && WIFEXITED(c->status) && WEXITSTATUS(c->status) == status;
}

const char *child_describe(const struct child *c)
{
    static char line[1024];
    char how[64];
    if (c->timed_out)
        snprintf(how, sizeof how, "hung");
    else if (WIFSIGNALED(c->status))
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(c->status));
    else
        snprintf(how, sizeof how, "exited with %d", WEXITSTATUS(c->status));
    snprintf(line, sizeof line, "%s %s, stderr: \"%.800s\"", c->argv[0], how, c->err);
    return line;
}

const char *child_self(void)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    return n > 0 ? path : NULL;
}

char *child_beside(const char *name)
{
    static char path[4096 + 256];
    const char *self = child_self();
    int folder = self ? (int)(strrchr(self, '/') + 1 - self) : 0;
    snprintf(path, sizeof path, "%.*s%s", folder, self ? self : "", name);
    return path;
}
