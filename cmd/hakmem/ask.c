/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem ask`: writes a word into the root of another process, which the next
 * slow path there takes and does. The only place where the command writes into a process.
 *
 * A process that frees and allocates the same few sizes in turn may never come to a slow path. So
 * if it does not answer, the tables that its fast paths look up are closed for all sizes, as the
 * process itself closes them for sizes that it watches: single bytes, which any thread of it may
 * change at any moment, under its owner's hands too. The next allocation of any thread then comes
 * by, takes the word, and opens them all. The word is written once more behind that, so that
 * somebody does in any case. */
#include "samples.h"

#include "image.h"
#include "policy/policy.h"
#include "telemetry/prof.h"
#include "util.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define WAIT_SECONDS 3u
#define WAIT_MOST_SECONDS 86400u
#define LOOKS_A_SECOND 50u
#define LOOKS_BEFORE_CLOSING 15u

void hak_ask_help(void)
{
    (void)fputs(
        "Usage: hakmem ask [--wait=SECONDS] PID prof start [BYTES] | stop | dump\n"
        "       hakmem ask [--wait=SECONDS] PID policy write\n"
        "Ask a process to begin or to end sampling its heap, or to write its profile to\n"
        "its own HAKMEM_PROF_FILE; or to add what it has learned so far to the file that\n"
        "its HAKMEM_POLICY=learn:FILE names. It does so when it next allocates (for policy\n"
        "write: and a thread's own free blocks do not suffice): a process that allocates\n"
        "nothing does nothing.\n"
        "\n"
        "  --wait=SECONDS  for its answer: 3\n"
        "  --help          print this and exit\n"
        "\n"
        "Exit status: 0 the process has taken the request; 1 it cannot be asked, or has\n"
        "not taken it in time (it does when it next allocates); 2 the arguments are wrong.\n",
        stdout);
}

struct request {
    enum hak_root_request what;
    uint64_t word;
    uint32_t refused; /* starts of a profile before it */
};

static uint64_t ask_prof_word(int argc, char **argv)
{
    uint64_t period = 0;
    if (strcmp(argv[3], "stop") == 0 && argc == 4)
        return HAK_PROF_ASK_STOP;
    if (strcmp(argv[3], "dump") == 0 && argc == 4)
        return HAK_PROF_ASK_DUMP;
    if (strcmp(argv[3], "start") != 0 || argc > 5)
        hak_die(HAK_EXIT_USAGE, "ask: start [BYTES], stop or dump is wanted, not '%s%s%s'", argv[3],
                argc > 4 ? " " : "",
                argc > 5    ? "..."
                : argc == 5 ? argv[4]
                            : "");
    if (argc == 5 &&
        (!hak_text_parse_size(argv[4], strlen(argv[4]), &period) || period > HAK_PROF_MOST_PERIOD))
        hak_die(HAK_EXIT_USAGE, "ask: '%s' is no number of bytes", argv[4]);
    return period << HAK_PROF_ASK_SHIFT | HAK_PROF_ASK_START;
}

static struct request ask_read(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[2], "prof") == 0)
        return (struct request){HAK_ROOT_ASK_PROFILE, ask_prof_word(argc, argv), 0};
    if (argc == 4 && strcmp(argv[2], "policy") == 0 && strcmp(argv[3], "write") == 0)
        return (struct request){HAK_ROOT_ASK_POLICY, 1, 0};
    hak_die(HAK_EXIT_USAGE,
            "ask: what? For example: hakmem ask 1234 prof start; hakmem ask 1234 policy write");
}

static bool ask_write(pid_t pid, uint64_t at, void *bytes, size_t count)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): an address over there */
    struct iovec there = {(void *)(uintptr_t)at, count};
    struct iovec here = {bytes, count};
    if (process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)count)
        return true;
    char *path = hak_format("/proc/%d/mem", (int)pid);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool written = file >= 0 && pwrite(file, bytes, count, (off_t)at) == (ssize_t)count;
    if (file >= 0)
        (void)close(file);
    free(path);
    return written;
}

/* All sizes look empty to the fast paths of all threads. What cannot be written stays as it is. */
static void ask_close_fast_paths(struct hak_remote *r, const struct hak_image *image)
{
    uint64_t all[2] = {UINT64_MAX, UINT64_MAX};
    uint8_t closed[sizeof(struct hak_class_tables)];
    memset(closed, HAK_KIND_CLOSED, sizeof closed);
    uint64_t tables = (uint64_t)(uintptr_t)image->root.at[HAK_ROOT_TABLES];
    (void)ask_write(r->pid, tables + offsetof(struct hak_class_tables, closed), all, sizeof all);
    (void)ask_write(r->pid, tables + offsetof(struct hak_class_tables, small_kind), closed,
                    sizeof hak_tables.small_kind);
    uint64_t heap = (uint64_t)(uintptr_t)hak_load_relaxed(&image->registry.all);
    for (uint32_t i = 0; heap != 0 && i <= image->registry.last_tag; i++) {
        (void)ask_write(r->pid, heap + offsetof(struct hak_heap, front.tiny_kind), closed,
                        HAK_TINY_KINDS);
        if (!hak_remote_read(r, heap + offsetof(struct hak_heap, next_heap), &heap, sizeof heap))
            break;
    }
}

/* Why the process did not do what it has taken; NULL: it did. It may be kept waiting in between. */
static const char *ask_outcome(struct hak_remote *r, const struct hak_image *image,
                               struct request request, unsigned looks)
{
    uint64_t what = request.word & ((1u << HAK_PROF_ASK_SHIFT) - 1);
    if (request.what != HAK_ROOT_ASK_PROFILE || what != HAK_PROF_ASK_START)
        return NULL;
    for (unsigned i = 0; i <= looks; i++) {
        struct hak_prof prof;
        if (!hak_remote_read(r, (uint64_t)(uintptr_t)image->root.at[HAK_ROOT_SAMPLES], &prof,
                             sizeof prof))
            return "it has ended";
        if (hak_load_relaxed(&prof.on))
            return NULL;
        if (hak_load_relaxed(&prof.refused) != request.refused)
            return "it cannot begin: it has no memory for the tables, or runs with HAKMEM_PERTURB";
        (void)usleep(1000000 / LOOKS_A_SECOND);
    }
    return "it has taken the request, and has not done it yet";
}

/* Why the process does not do it; NULL: it does. */
static const char *ask(struct hak_remote *r, struct hak_image *image, struct request request,
                       unsigned seconds)
{
    uint64_t word = request.word;
    uint64_t at = image->root_at + offsetof(struct hak_root, requests) + request.what * sizeof word;
    if (!ask_write(r->pid, at, &word, sizeof word))
        return "its memory cannot be written";
    const unsigned looks = seconds * LOOKS_A_SECOND;
    for (unsigned i = 0; i < looks; i++) {
        uint64_t left;
        if (!hak_remote_read(r, at, &left, sizeof left))
            return "it has ended";
        if (left == 0)
            return ask_outcome(r, image, request, looks - i);
        /* who takes this request opens them again */
        if (i == LOOKS_BEFORE_CLOSING && request.what == HAK_ROOT_ASK_PROFILE &&
            hak_image_refresh(image)) {
            ask_close_fast_paths(r, image);
            (void)ask_write(r->pid, at, &word, sizeof word);
        }
        (void)usleep(1000000 / LOOKS_A_SECOND);
    }
    return "it has allocated nothing since; the request stays, and is done at its next allocation";
}

static char *ask_policy_refused(struct hak_remote *r, const struct hak_root *root)
{
    enum hak_policy_mode mode = HAK_POLICY_FIXED;
    uint64_t at = (uintptr_t)root->at[HAK_ROOT_POLICY];
    if (at != 0 && root->sizes[HAK_ROOT_POLICY] == sizeof(struct hak_policy_state) &&
        !hak_remote_read(r, at + offsetof(struct hak_policy_state, mode), &mode, sizeof mode))
        return hak_format("its memory cannot be read");
    if (mode < HAK_POLICY_LEARN)
        return hak_format("it learns nothing: it was not started with HAKMEM_POLICY=learn:FILE");
    return NULL;
}

static char *ask_prof_refused(struct hak_remote *r, const struct hak_image *image,
                              struct request *request)
{
    struct hak_prof prof;
    uint64_t wanted = request->word >> HAK_PROF_ASK_SHIFT;
    uint64_t what = request->word & ((1u << HAK_PROF_ASK_SHIFT) - 1);
    uint64_t profile = (uint64_t)(uintptr_t)image->root.at[HAK_ROOT_SAMPLES];
    if (image->root.flags & HAK_ROOT_HARDENED)
        return hak_format("it has the hardened library, which has no heap profile");
    if (!hak_remote_read(r, profile, &prof, sizeof prof))
        return hak_format("its heap profile cannot be read");
    request->refused = hak_load_relaxed(&prof.refused);
    uint64_t period = hak_load_relaxed(&prof.period_bytes);
    if (what == HAK_PROF_ASK_START && wanted != 0 && period != 0 && period != wanted)
        return hak_format("its first start has set one sample in %" PRIu64
                          " bytes, which holds until it ends",
                          period);
    if (what == HAK_PROF_ASK_DUMP && period == 0)
        return hak_format("it has never sampled its heap: hakmem ask PID prof start");
    return NULL;
}

/* What the process would refuse without a word. */
static char *ask_refused(struct hak_remote *r, const struct hak_image *image,
                         struct request *request)
{
    return request->what == HAK_ROOT_ASK_POLICY ? ask_policy_refused(r, &image->root)
                                                : ask_prof_refused(r, image, request);
}

/* The seconds of "--wait=SECONDS". */
static unsigned ask_seconds(const char *text)
{
    char *end;
    unsigned long seconds = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end != '\0' || seconds > WAIT_MOST_SECONDS)
        hak_die(HAK_EXIT_USAGE, "ask: --wait needs whole seconds from 0 to %u, not '%s'",
                WAIT_MOST_SECONDS, text);
    return (unsigned)seconds;
}

/* Those before the number of the process; returns how many words they are. */
static int ask_read_options(int argc, char **argv, unsigned *seconds, bool *help)
{
    static const char *const options[] = {"--wait", "--help"};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            *help = true;
        else if (hak_starts_with(argv[i], "--wait="))
            *seconds = ask_seconds(argv[i] + strlen("--wait="));
        else if (strcmp(argv[i], "--wait") == 0)
            *seconds = ask_seconds(i + 1 < argc ? argv[++i] : "");
        else
            hak_unknown_option(HAK_EXIT_USAGE, "ask", argv[i], options, 2);
    }
    return i - 1;
}

int hak_ask(int argc, char **argv)
{
    struct hak_remote remote;
    struct hak_image image;
    struct hak_obstacle obstacle = {0};
    unsigned seconds = WAIT_SECONDS;
    bool help = false;
    int options = ask_read_options(argc, argv, &seconds, &help);
    if (help) {
        hak_ask_help();
        return EXIT_SUCCESS;
    }
    argc -= options;
    argv += options;
    pid_t pid = argc < 2 ? 0 : hak_parse_pid(argv[1]);
    if (argc < 2)
        hak_die(HAK_EXIT_USAGE, "ask: the number of a process is wanted; see 'hakmem ask --help'");
    if (pid == 0)
        hak_die(HAK_EXIT_USAGE, "ask: '%s' is not the number of a process; see 'hakmem ask --help'",
                argv[1]);
    struct request request = ask_read(argc, argv);
    bool open =
        hak_remote_open(&remote, pid, &obstacle) && hak_image_open(&image, &remote, &obstacle);
    if (open)
        obstacle.problem = ask_refused(&remote, &image, &request);
    const char *problem = obstacle.problem;
    if (open && problem == NULL)
        problem = ask(&remote, &image, request, seconds);
    if (problem != NULL && open)
        hak_say("ask: %s: %s", argv[1], problem);
    else if (problem != NULL)
        hak_say("ask: %s", problem);
    if (!open && obstacle.hint != NULL)
        hak_say("hint: %s", obstacle.hint);
    hak_obstacle_free(&obstacle);
    hak_remote_close(&remote);
    return problem == NULL ? EXIT_SUCCESS : EXIT_FAILURE;
}
