/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: runs a command under hakmem and looks at it at its very end: traced, the
 * kernel stops a process that exits, or is killed by a signal, while its memory is still there.
 * Signals go to the command as if nobody traced it; its own children are not traced. */
#include "stat.h"

#include "find.h"
#include "run.h"
#include "util.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t end_child;

static void end_pass_on(int signal)
{
    (void)kill(end_child, signal);
}

/* A terminal sends its signals to the whole group, the command among it; what is sent to this
 * process alone is passed on. */
static void end_handle_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction pass = {.sa_handler = end_pass_on, .sa_flags = SA_RESTART};
    (void)sigaction(SIGINT, &ignore, NULL);
    (void)sigaction(SIGQUIT, &ignore, NULL);
    (void)sigaction(SIGTERM, &pass, NULL);
    (void)sigaction(SIGHUP, &pass, NULL);
}

/* The child waits until it is traced, and becomes `hakmem run -- COMMAND`. */
static _Noreturn void end_become(char **command, int go)
{
    char byte;
    while (read(go, &byte, 1) < 0 && errno == EINTR) {
    }
    (void)close(go);
    size_t count = 0;
    while (command[count] != NULL)
        count++;
    char **words = hak_grow(NULL, count + 3, sizeof *words);
    static char run[] = "run", dashes[] = "--";
    words[0] = run;
    words[1] = dashes;
    memcpy(words + 2, command, (count + 1) * sizeof *words);
    _exit(hak_run((int)count + 2, words));
}

/* What the kernel reported of a stop: the signal to deliver. */
static void end_continue(pid_t pid, int status)
{
    int signal = WSTOPSIG(status);
    int event = status >> 16;
    if (event == PTRACE_EVENT_STOP &&
        (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU))
        (void)ptrace(PTRACE_LISTEN, pid, NULL, NULL); /* stopped as by a shell: it stays so */
    else
        (void)ptrace(PTRACE_CONT, pid, NULL, event != 0 ? NULL : (void *)(intptr_t)signal);
}

#define LOOK_EVERY_NS 5000000

/* The next report of the kernel; with `look` that is called while there is none. */
static int end_wait(pid_t pid, bool executed, const struct hak_stat_end *end)
{
    int status;
    void (*look)(pid_t pid, void *context) = executed ? end->look : NULL;
    for (;;) {
        pid_t got = waitpid(pid, &status, look != NULL ? WNOHANG : 0);
        if (got == pid)
            return status;
        if (got < 0 && errno != EINTR)
            hak_die(HAK_EXIT_FAILED, "stat: lost the command: %s", strerror(errno));
        if (look != NULL && got == 0) {
            look(pid, end->context);
            (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY_NS}, NULL);
        }
    }
}

int hak_stat_run(char **command, const struct hak_stat_end *end)
{
    int go[2];
    if (pipe(go) < 0)
        hak_die(HAK_EXIT_FAILED, "stat: cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        hak_die(HAK_EXIT_FAILED, "stat: cannot start a process: %s", strerror(errno));
    if (pid == 0) {
        (void)close(go[1]);
        end_become(command, go[0]);
    }
    (void)close(go[0]);
    end_child = pid;
    if (ptrace(PTRACE_SEIZE, pid, NULL,
               (void *)(intptr_t)(PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC)) < 0) {
        int error = errno;
        (void)kill(pid, SIGKILL);
        hak_say("stat: the command cannot be traced up to its end: %s", strerror(error));
        hak_die(EXIT_FAILURE,
                "hint: in a container, start it with --cap-add=SYS_PTRACE; or run the command with "
                "'hakmem run' and look at it with 'hakmem stat PID'");
    }
    end_handle_signals();
    (void)close(go[1]);
    bool executed = false;
    for (;;) {
        int status = end_wait(pid, executed, end);
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        if (WIFSIGNALED(status))
            return 128 + WTERMSIG(status);
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
            executed = true;
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8) && executed)
            end->show(pid, end->context);
        end_continue(pid, status);
    }
}
