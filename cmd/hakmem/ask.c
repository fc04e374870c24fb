/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem ask`: writes a word into the root of another process, which the next
 * slow path there takes and does. The only place where the command writes into a process. */
#include "samples.h"

#include "image.h"
#include "policy/policy.h"
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
                "       hakmem ask PID policy write\n"
                "Ask a process to begin or to end sampling its heap, or to write its profile to\n"
                "its own HAKMEM_PROF_FILE; or to add what it has learned so far to the file that\n"
                "its HAKMEM_POLICY=learn:FILE names. It does so when it next allocates and a\n"
                "thread's own free blocks do not suffice: a process that allocates nothing does\n"
                "nothing.\n"
                "\n"
                "  --help  print this and exit\n"
                "\n"
                "Exit status: 0 the process has taken the request; 1 it cannot be asked, or has\n"
                "not taken it within three seconds (it may yet); 2 the arguments are wrong.\n",
                stdout);
}

struct request {
    enum hak_root_request what;
    uint64_t word;
};

static uint64_t ask_prof_word(int argc, char **argv)
{
    uint64_t period = 0;
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

static struct request ask_read(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[2], "prof") == 0)
        return (struct request){HAK_ROOT_ASK_PROFILE, ask_prof_word(argc, argv)};
    if (argc == 4 && strcmp(argv[2], "policy") == 0 && strcmp(argv[3], "write") == 0)
        return (struct request){HAK_ROOT_ASK_POLICY, 1};
    hak_die(HAK_EXIT_USAGE,
            "ask: what? For example: hakmem ask 1234 prof start; hakmem ask 1234 policy write");
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

/* NULL, or why a process is not to be asked for what it has learned. */
static const char *ask_learns(struct hak_remote *r, const struct hak_root *root)
{
    enum hak_policy_mode mode = HAK_POLICY_FIXED;
    uint64_t at = (uintptr_t)root->at[HAK_ROOT_POLICY];
    if (at != 0 && root->sizes[HAK_ROOT_POLICY] == sizeof(struct hak_policy_state) &&
        !hak_remote_read(r, at + offsetof(struct hak_policy_state, mode), &mode, sizeof mode))
        return "its memory cannot be read";
    return mode >= HAK_POLICY_LEARN
               ? NULL
               : "it learns nothing: it was not started with HAKMEM_POLICY=learn:FILE";
}

static const char *ask(struct hak_remote *r, const struct hak_image *image,
                       const struct request *request)
{
    uint64_t at =
        image->root_at + offsetof(struct hak_root, requests) + request->what * sizeof request->word;
    const char *refused = request->what == HAK_ROOT_ASK_POLICY ? ask_learns(r, &image->root) : NULL;
    if (refused != NULL)
        return refused;
    if (request->what == HAK_ROOT_ASK_PROFILE && (image->root.flags & HAK_ROOT_HARDENED))
        return "it has the hardened library, which has no heap profile";
    if (!ask_write(r->pid, at, request->word))
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
    struct request request = ask_read(argc, argv);
    bool open =
        hak_remote_open(&remote, pid, &obstacle) && hak_image_open(&image, &remote, &obstacle);
    const char *problem = open ? ask(&remote, &image, &request) : obstacle.problem;
    if (problem != NULL)
        hak_say("ask: %s: %s", argv[1], problem);
    if (!open && obstacle.hint != NULL)
        hak_say("hint: %s", obstacle.hint);
    hak_obstacle_free(&obstacle);
    hak_remote_close(&remote);
    return problem == NULL ? EXIT_SUCCESS : EXIT_FAILURE;
}
