/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem ask`: writes a word into the root of another process, which the next
 * slow path there takes and does. The only place where the command writes into a process. */
#include "samples.h"

#include "image.h"
#include "telemetry/prof.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define WAIT_SECONDS 3u
#define LOOKS_A_SECOND 50u

void hak_ask_help(void)
{
    (void)fputs("Usage: hakmem ask PID prof start [BYTES] | stop | dump\n"
                "Ask a process to begin or to end sampling its heap, or to write its profile to\n"
                "its own HAKMEM_PROF_FILE. It does so when it next allocates and a thread's own\n"
                "free blocks do not suffice: a process that allocates nothing does nothing.\n"
                "\n"
                "  --help  print this and exit\n"
                "\n"
                "Exit status: 0 the process has taken the request; 1 it cannot be asked, or has\n"
                "not taken it within three seconds (it may yet); 2 the arguments are wrong.\n",
                stdout);
}

static uint64_t ask_word(int argc, char **argv)
{
    uint64_t period = 0;
    if (argc < 4 || strcmp(argv[2], "prof") != 0)
        hak_die(HAK_EXIT_USAGE, "ask: what? For example: hakmem ask 1234 prof start");
    if (strcmp(argv[3], "stop") == 0 && argc == 4)
        return HAK_PROF_ASK_STOP;
    if (strcmp(argv[3], "dump") == 0 && argc == 4)
        return HAK_PROF_ASK_DUMP;
    if (strcmp(argv[3], "start") != 0 || argc > 5)
        hak_die(HAK_EXIT_USAGE, "ask: start [BYTES], stop or dump is wanted");
    if (argc == 5 &&
        (!hak_text_parse_size(argv[4], strlen(argv[4]), &period) || period > HAK_PROF_MOST_PERIOD))
        hak_die(HAK_EXIT_USAGE, "ask: '%s' is no number of bytes", argv[4]);
    return period << HAK_PROF_ASK_SHIFT | HAK_PROF_ASK_START;
}

static bool ask_write(pid_t pid, uint64_t at, uint64_t word)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): an address over there */
    struct iovec there = {(void *)(uintptr_t)at, sizeof word};
    struct iovec here = {&word, sizeof word};
    if (process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof word)
        return true;
    char *path = hak_format("/proc/%d/mem", (int)pid);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool written = file >= 0 && pwrite(file, &word, sizeof word, (off_t)at) == (ssize_t)sizeof word;
    if (file >= 0)
        (void)close(file);
    free(path);
    return written;
}

/* True when the process has taken the word. */
static bool ask_wait(struct hak_remote *r, uint64_t at)
{
    uint64_t word = 1;
    for (unsigned i = 0; i < WAIT_SECONDS * LOOKS_A_SECOND; i++) {
        if (!hak_remote_read(r, at, &word, sizeof word) || word == 0)
            return word == 0;
        (void)usleep(1000000 / LOOKS_A_SECOND);
    }
    return false;
}

static const char *ask(struct hak_remote *r, const struct hak_image *image, uint64_t word)
{
    uint64_t at =
        image->root_at + offsetof(struct hak_root, requests) + HAK_ROOT_ASK_PROFILE * sizeof word;
    if (image->root.flags & HAK_ROOT_HARDENED)
        return "it has the hardened library, which has no heap profile";
    if (!ask_write(r->pid, at, word))
        return "its memory cannot be written";
    return ask_wait(r, at) ? NULL
                           : "it has not taken the request yet: it does when it next allocates";
}

int hak_ask(int argc, char **argv)
{
    struct hak_remote remote;
    struct hak_image image;
    struct hak_obstacle obstacle = {0};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        hak_ask_help();
        return EXIT_SUCCESS;
    }
    pid_t pid = argc < 2 ? 0 : hak_parse_pid(argv[1]);
    if (pid == 0)
        hak_die(HAK_EXIT_USAGE, "ask: the number of a process is wanted; see 'hakmem ask --help'");
    uint64_t word = ask_word(argc, argv);
    bool open =
        hak_remote_open(&remote, pid, &obstacle) && hak_image_open(&image, &remote, &obstacle);
    const char *problem = open ? ask(&remote, &image, word) : obstacle.problem;
    if (problem != NULL)
        hak_say("ask: %s: %s", argv[1], problem);
    if (!open && obstacle.hint != NULL)
        hak_say("hint: %s", obstacle.hint);
    hak_obstacle_free(&obstacle);
    hak_remote_close(&remote);
    return problem == NULL ? EXIT_SUCCESS : EXIT_FAILURE;
}
