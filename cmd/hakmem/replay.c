/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem replay`: repeats a recorded trace under hakmem, libc's allocator and
 * others, each in processes of its own, in turns, and says what it took. */
#include "replay.h"

#include "find.h"
#include "json.h"
#include "takeover.h"
#include "util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPLAY_MOST_ALLOCATORS 16
#define REPLAY_MOST_ROUNDS 99
#define REPLAY_DEFAULT_ROUNDS 3
#define REPLAY_DEFAULT_WINDOW 1000

struct replay_allocator {
    char *name;
    char *path;                 /* NULL: libc's */
    char *problem;              /* of the first run that had one; NULL: none */
    struct hak_replay_run *run; /* [rounds] */
    uint64_t elapsed_ns, processor_ns, page_faults, most_bytes, end_bytes,
        freed_bytes; /* medians */
};

struct replay {
    const char *trace_path;
    struct hak_trace trace;
    size_t mapped_bytes; /* for it */
    const struct hak_plan *plan;
    unsigned rounds;
    uint64_t window;
    enum hak_replay_touch touch;
    bool json, help;
    char *only; /* names, separated by commas */
    struct replay_allocator allocator[REPLAY_MOST_ALLOCATORS];
    size_t allocators;
};

void hak_replay_help(void)
{
    (void)fputs(
        "Usage: hakmem replay [OPTION]... TRACE\n"
        "Repeat what 'hakmem record' wrote: the same allocations and releases, in as many\n"
        "threads, under hakmem and under libc's allocator, and tell what it took.\n"
        "\n"
        "  --lib NAME=PATH  another allocator, a library to preload; may be given again\n"
        "  --only NAMES     these alone, separated by commas: hakmem, libc and those of --lib\n"
        "  --rounds N       how often, in turns (1 to 99); medians are shown. Without: 3\n"
        "  --touch WHAT     what is written of a block: none, pages (a byte of each page, and\n"
        "                   the last), all. Without: pages\n"
        "  --window N       by how many events a thread may be ahead of another; 0: all events\n"
        "                   in the order of the recording, which takes longer. Without: 1000\n"
        "  --json           print JSON, with memory over time\n"
        "  --help           print this and exit\n"
        "\n"
        "Options of hakmem are taken from the environment, as in any program:\n"
        "HAKMEM_HUGE_PAGES_FROM_MB=0 hakmem replay app.trace\n"
        "Exit status: 0 repeated; 1 an allocator failed or was not taken; 2 the arguments are\n"
        "wrong; 125 the trace cannot be read, or /proc is not mounted.\n",
        stdout);
}

/* --- arguments --- */

static const char *const replay_options[] = {"--lib",    "--only", "--rounds", "--touch",
                                             "--window", "--json", "--help"};

/* By enum hak_replay_touch. */
static const char *const replay_touches[] = {"none", "pages", "all"};

static uint64_t replay_number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < least || number > most)
        hak_die(HAK_EXIT_USAGE,
                "replay: %s needs a number from %" PRIu64 " to %" PRIu64 ", not '%s'", option,
                least, most, text);
    return number;
}

static void replay_add(struct replay *r, char *name, char *path)
{
    for (size_t i = 0; i < r->allocators; i++)
        if (strcmp(r->allocator[i].name, name) == 0)
            hak_die(HAK_EXIT_USAGE, "replay: there are two allocators called '%s'", name);
    if (r->allocators == REPLAY_MOST_ALLOCATORS)
        hak_die(HAK_EXIT_USAGE, "replay: more than %d allocators", REPLAY_MOST_ALLOCATORS);
    r->allocator[r->allocators++] = (struct replay_allocator){.name = name, .path = path};
}

static void replay_add_library(struct replay *r, const char *text)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == '\0')
        hak_die(HAK_EXIT_USAGE, "replay: --lib needs NAME=PATH, not '%s'", text);
    char *path = realpath(equals + 1, NULL);
    if (path == NULL)
        hak_die(HAK_EXIT_USAGE, "replay: the library %s cannot be opened: %s", equals + 1,
                strerror(errno));
    if (!hak_library_can_be_named(path))
        hak_die(HAK_EXIT_USAGE,
                "replay: %s has a space, a colon or a dollar sign in its path, which LD_PRELOAD "
                "cannot express",
                path);
    replay_add(r, hak_format("%.*s", (int)(equals - text), text), path);
}

static enum hak_replay_touch replay_touch(const char *text)
{
    for (size_t i = 0; i < sizeof replay_touches / sizeof *replay_touches; i++)
        if (strcmp(text, replay_touches[i]) == 0)
            return (enum hak_replay_touch)i;
    hak_die(HAK_EXIT_USAGE, "replay: --touch needs none, pages or all, not '%s'", text);
}

static void replay_set(struct replay *r, const char *option, const char *value)
{
    if (strcmp(option, "--lib") == 0)
        replay_add_library(r, value);
    else if (strcmp(option, "--only") == 0)
        r->only = hak_format(",%s,", value);
    else if (strcmp(option, "--rounds") == 0)
        r->rounds = (unsigned)replay_number(option, value, 1, REPLAY_MOST_ROUNDS);
    else if (strcmp(option, "--touch") == 0)
        r->touch = replay_touch(value);
    else
        r->window = replay_number(option, value, 0, UINT32_MAX);
}

/* One option, which may take the following argument; returns how many arguments it was. */
static int replay_parse_option(struct replay *r, const char *option, const char *next)
{
    if (strcmp(option, "--json") == 0) {
        r->json = true;
        return 1;
    }
    if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
        r->help = true;
        return 1;
    }
    const size_t count = sizeof replay_options / sizeof *replay_options;
    for (size_t i = 0; i < count - 2; i++) { /* those that take a value */
        size_t length = strlen(replay_options[i]);
        if (strncmp(option, replay_options[i], length) != 0)
            continue;
        if (option[length] == '=') {
            replay_set(r, replay_options[i], option + length + 1);
            return 1;
        }
        if (option[length] == '\0') {
            if (next == NULL)
                hak_die(HAK_EXIT_USAGE, "replay: %s needs a value; see 'hakmem replay --help'",
                        option);
            replay_set(r, option, next);
            return 2;
        }
    }
    hak_unknown_option(HAK_EXIT_USAGE, "replay", option, replay_options, count);
}

static void replay_parse(struct replay *r, int argc, char **argv)
{
    int i = 1;
    while (i < argc && !r->help) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            i += replay_parse_option(r, argv[i], argv[i + 1]);
        } else if (r->trace_path == NULL) {
            r->trace_path = argv[i++];
        } else {
            hak_die(HAK_EXIT_USAGE, "replay: one trace at a time: '%s'", argv[i]);
        }
    }
    if (!r->help && r->trace_path == NULL)
        hak_die(HAK_EXIT_USAGE, "replay: no trace given; 'hakmem record' writes one");
}

/* --- allocators --- */

static bool replay_wants(const struct replay *r, const char *name)
{
    char *word = hak_format(",%s,", name);
    bool wants = r->only == NULL || strstr(r->only, word) != NULL;
    free(word);
    return wants;
}

/* Names in --only that are none. */
static void replay_check_only(const struct replay *r)
{
    bool names_given = false;
    char *names = r->only == NULL ? NULL : hak_format("%s", r->only);
    for (char *name = names == NULL ? NULL : strtok(names, ","); name != NULL;
         name = strtok(NULL, ",")) {
        bool found = strcmp(name, "hakmem") == 0 || strcmp(name, "libc") == 0;
        for (size_t i = 0; i < r->allocators; i++)
            found = found || strcmp(r->allocator[i].name, name) == 0;
        names_given = true;
        if (!found)
            hak_die(HAK_EXIT_USAGE, "replay: --only names '%s', which is no allocator given", name);
    }
    if (r->only != NULL && !names_given)
        hak_die(HAK_EXIT_USAGE, "replay: --only needs names, separated by commas; for example: "
                                "--only hakmem,libc");
    free(names);
}

/* hakmem and libc's first, then those of --lib; what is not wanted goes. */
static void replay_choose(struct replay *r)
{
    struct replay chosen = {0};
    replay_check_only(r);
    if (replay_wants(r, "hakmem")) {
        struct hak_library library;
        hak_takeover_find_library(&library, NULL, HAK_LIBRARY_DEFAULT);
        replay_add(&chosen, hak_format("hakmem"), hak_format("%s", library.path));
        hak_library_close(&library);
    }
    if (replay_wants(r, "libc"))
        replay_add(&chosen, hak_format("libc"), NULL);
    for (size_t i = 0; i < r->allocators; i++)
        if (replay_wants(r, r->allocator[i].name)) {
            replay_add(&chosen, r->allocator[i].name, r->allocator[i].path);
        } else {
            free(r->allocator[i].name);
            free(r->allocator[i].path);
        }
    memcpy(r->allocator, chosen.allocator, sizeof r->allocator);
    r->allocators = chosen.allocators;
}

/* --- runs --- */

/* What the file has now: the program that it is of may be running and write more, or another may
 * begin to record into it. */
static size_t replay_read(const struct replay *r, int fd, unsigned char *bytes, size_t size)
{
    size_t have = 0;
    ssize_t n = 1;
    while (n != 0 && have < size) {
        n = read(fd, bytes + have, size - have);
        if (n < 0)
            hak_die(HAK_EXIT_FAILED, "replay: %s cannot be read: %s", r->trace_path,
                    strerror(errno));
        have += (size_t)n;
    }
    return have;
}

static void replay_open(struct replay *r)
{
    char *refused = NULL;
    int fd = hak_open_regular(r->trace_path, &refused);
    if (fd < 0)
        hak_die(HAK_EXIT_FAILED, "replay: %s", refused);
    off_t end = lseek(fd, 0, SEEK_END);
    r->mapped_bytes = end <= 0 ? 1 : (size_t)end;
    void *bytes =
        mmap(NULL, r->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED || lseek(fd, 0, SEEK_SET) < 0)
        hak_die(HAK_EXIT_FAILED, "replay: there is no memory for %s: %s", r->trace_path,
                strerror(errno));
    size_t size = replay_read(r, fd, bytes, r->mapped_bytes);
    (void)close(fd);
    const char *problem = hak_trace_from(&r->trace, bytes, size);
    if (problem != NULL)
        hak_die(HAK_EXIT_FAILED, "replay: %s: %s", r->trace_path, problem);
}

/* The plan stays mapped, and open for the processes that repeat it. */
static int replay_plan(struct replay *r)
{
    const char *problem = NULL;
    int fd = hak_plan_make(&r->trace, r->window, &problem);
    if (fd < 0)
        hak_die(HAK_EXIT_FAILED, "replay: %s: %s", r->trace_path, problem);
    (void)munmap((void *)(uintptr_t)r->trace.bytes, r->mapped_bytes);
    void *plan = mmap(NULL, sizeof *r->plan, PROT_READ, MAP_SHARED, fd, 0);
    if (plan == MAP_FAILED)
        hak_die(HAK_EXIT_FAILED, "replay: the plan cannot be mapped: %s", strerror(errno));
    r->plan = plan;
    return fd;
}

static _Noreturn void replay_child(const struct replay *r, const struct replay_allocator *a,
                                   int plan, int run)
{
    static char name[] = "hakmem";
    static char command[] = "replay";
    static char worker[] = HAK_REPLAY_WORKER;
    char *words[] = {name,
                     command,
                     worker,
                     hak_format("%d", plan),
                     hak_format("%d", run),
                     hak_format("%d", (int)r->touch),
                     a->path,
                     NULL};
    if (a->path != NULL)
        hak_takeover_set("LD_PRELOAD", a->path);
    else
        (void)unsetenv("LD_PRELOAD");
    (void)execv("/proc/self/exe", words);
    _exit(HAK_EXIT_FAILED);
}

static const char *replay_problem(int status, const struct hak_replay_run *run)
{
    static char text[96];
    if (WIFEXITED(status) && WEXITSTATUS(status) == HAK_REPLAY_EXIT_OTHER_MALLOC)
        return "the loader did not take the library, or the library has no malloc";
    if (WIFSIGNALED(status))
        (void)snprintf(text, sizeof text, "ended by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0 || run->is_done == 0)
        (void)snprintf(text, sizeof text, "ended with status %d before its end",
                       WEXITSTATUS(status));
    else if (run->failed > 0)
        (void)snprintf(text, sizeof text, "%" PRIu64 " allocations failed", run->failed);
    else
        return NULL;
    return text;
}

static void replay_run(const struct replay *r, struct replay_allocator *a, unsigned round, int plan)
{
    int fd = memfd_create("hakmem-run", 0);
    int status = 0;
    if (fd < 0 || ftruncate(fd, sizeof *a->run) < 0)
        hak_die(HAK_EXIT_FAILED, "replay: no memory for the result: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0)
        replay_child(r, a, plan, fd);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child < 0 || pread(fd, &a->run[round], sizeof *a->run, 0) != (ssize_t)sizeof *a->run)
        hak_die(HAK_EXIT_FAILED, "replay: no process can be started: %s", strerror(errno));
    (void)close(fd);
    const char *problem = replay_problem(status, &a->run[round]);
    if (problem != NULL && a->problem == NULL)
        a->problem = hak_format("%s", problem);
}

static uint64_t replay_most(const struct hak_replay_run *run)
{
    uint64_t most = run->end_bytes;
    for (size_t i = 0; i <= HAK_PLAN_SAMPLES; i++)
        if (run->sample_bytes[i] > most)
            most = run->sample_bytes[i];
    return most;
}

static int replay_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t replay_median(uint64_t *values, unsigned count)
{
    qsort(values, count, sizeof *values, replay_compare);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void replay_summarise(struct replay_allocator *a, unsigned rounds)
{
    uint64_t values[6][REPLAY_MOST_ROUNDS];
    for (unsigned i = 0; i < rounds; i++) {
        const struct hak_replay_run *run = &a->run[i];
        const uint64_t of_run[6] = {run->elapsed_ns,  run->processor_ns, run->page_faults,
                                    replay_most(run), run->end_bytes,    run->freed_bytes};
        for (size_t k = 0; k < 6; k++)
            values[k][i] = of_run[k];
    }
    a->elapsed_ns = replay_median(values[0], rounds);
    a->processor_ns = replay_median(values[1], rounds);
    a->page_faults = replay_median(values[2], rounds);
    a->most_bytes = replay_median(values[3], rounds);
    a->end_bytes = replay_median(values[4], rounds);
    a->freed_bytes = replay_median(values[5], rounds);
}

/* --- what is printed --- */

static void replay_print_trace(const struct replay *r)
{
    const struct hak_plan *plan = r->plan;
    char live[16];
    char end[16];
    char *path = hak_printable(hak_format("%s", r->trace_path));
    (void)printf("trace       %s\ncommand    ", path);
    free(path);
    for (const char *word = r->trace.header.command; *word != '\0'; word += strlen(word) + 1) {
        char *text = hak_printable(hak_format(" %s", word));
        (void)fputs(text, stdout);
        free(text);
    }
    (void)printf("\nrecorded    %.2f s%s\n", (double)plan->recorded_us / 1e6,
                 r->trace.header.is_whole != 0 ? "" : ", not to the program's end");
    (void)printf("calls       %" PRIu64 " allocations, %" PRIu64 " releases, %" PRIu64
                 " reallocs, in %" PRIu32 " thread%s\n",
                 plan->allocations, plan->frees, plan->reallocs, plan->threads,
                 plan->threads == 1 ? "" : "s");
    (void)printf("live        at most %s in %" PRIu64 " blocks, %s at the end\n\n",
                 hak_bytes_text(live, plan->most_live_bytes), plan->most_live_blocks,
                 hak_bytes_text(end, plan->end_live_bytes));
}

static void replay_print(const struct replay *r)
{
    const struct hak_plan *plan = r->plan;
    uint64_t calls = plan->allocations + plan->frees + plan->reallocs;
    calls = calls == 0 ? 1 : calls;
    uint64_t live = plan->most_live_bytes == 0 ? 1 : plan->most_live_bytes;
    replay_print_trace(r);
    (void)printf("%-12s %10s %8s %10s %6s %10s %10s %12s\n", "allocator", "time", "ns/call",
                 "memory", "/live", "at end", "freed", "page faults");
    for (size_t i = 0; i < r->allocators; i++) {
        const struct replay_allocator *a = &r->allocator[i];
        char most[16];
        char end[16];
        char freed[16];
        if (a->problem != NULL) {
            (void)printf("%-12s %s\n", a->name, a->problem);
            continue;
        }
        (void)printf("%-12s %7.1f ms %8.1f %10s %6.2f %10s %10s %12" PRIu64 "\n", a->name,
                     (double)a->elapsed_ns / 1e6, (double)a->elapsed_ns / (double)calls,
                     hak_bytes_text(most, a->most_bytes), (double)a->most_bytes / (double)live,
                     hak_bytes_text(end, a->end_bytes), hak_bytes_text(freed, a->freed_bytes),
                     a->page_faults);
    }
}

static void replay_json_trace(struct hak_json *j, const struct replay *r)
{
    const struct hak_plan *plan = r->plan;
    hak_json_open(j, "trace", '{');
    hak_json_string(j, "path", r->trace_path);
    hak_json_open_line(j, "command", '[');
    for (const char *word = r->trace.header.command; *word != '\0'; word += strlen(word) + 1)
        hak_json_string(j, NULL, word);
    hak_json_close(j, '[');
    hak_json_bool(j, "is_whole", r->trace.header.is_whole != 0);
    hak_json_number(j, "recorded_us", plan->recorded_us);
    hak_json_number(j, "threads", plan->threads);
    hak_json_number(j, "events", plan->events);
    hak_json_number(j, "allocations", plan->allocations);
    hak_json_number(j, "frees", plan->frees);
    hak_json_number(j, "reallocs", plan->reallocs);
    hak_json_number(j, "failed_allocations", r->trace.header.failed);
    hak_json_number(j, "unknown_frees", plan->unknown_frees);
    hak_json_number(j, "unseen_frees", plan->unseen_frees);
    hak_json_number(j, "most_live_bytes", plan->most_live_bytes);
    hak_json_number(j, "most_live_blocks", plan->most_live_blocks);
    hak_json_number(j, "end_live_bytes", plan->end_live_bytes);
    hak_json_close(j, '{');
}

/* Samples of the trace and of each run, in the same order: evenly over the events. */
static void replay_json_samples(struct hak_json *j, const char *key, const uint64_t *samples)
{
    hak_json_open_line(j, key, '[');
    for (size_t i = 0; i < HAK_PLAN_SAMPLES; i++)
        hak_json_number(j, NULL, samples[i]);
    hak_json_close(j, '[');
}

static void replay_json_run(struct hak_json *j, const struct replay_allocator *a, unsigned round)
{
    const struct hak_replay_run *run = &a->run[round];
    hak_json_open(j, NULL, '{');
    hak_json_string(j, "allocator", a->name);
    hak_json_number(j, "round", round);
    hak_json_bool(j, "is_done", run->is_done != 0);
    hak_json_number(j, "failed_allocations", run->failed);
    hak_json_number(j, "elapsed_ns", run->elapsed_ns);
    hak_json_number(j, "processor_ns", run->processor_ns);
    hak_json_number(j, "page_faults", run->page_faults);
    hak_json_number(j, "most_bytes", replay_most(run));
    hak_json_number(j, "most_live_bytes", run->sample_bytes[HAK_PLAN_SAMPLES]);
    hak_json_number(j, "end_bytes", run->end_bytes);
    hak_json_number(j, "freed_bytes", run->freed_bytes);
    replay_json_samples(j, "sample_bytes", run->sample_bytes);
    hak_json_close(j, '{');
}

static void replay_print_json(const struct replay *r)
{
    struct hak_json j = {.out = stdout};
    hak_json_open(&j, NULL, '{');
    hak_json_number(&j, "schema_version", 1);
    replay_json_trace(&j, r);
    hak_json_number(&j, "rounds", r->rounds);
    hak_json_number(&j, "window", r->window);
    hak_json_string(&j, "touch", replay_touches[r->touch]);
    replay_json_samples(&j, "sample_live_bytes", r->plan->sample_live_bytes);
    replay_json_samples(&j, "sample_us", r->plan->sample_us);
    hak_json_open(&j, "allocators", '[');
    for (size_t i = 0; i < r->allocators; i++) {
        const struct replay_allocator *a = &r->allocator[i];
        hak_json_open(&j, NULL, '{');
        hak_json_string(&j, "name", a->name);
        hak_json_string(&j, "library", a->path);
        hak_json_string(&j, "problem", a->problem);
        hak_json_number(&j, "elapsed_ns", a->elapsed_ns);
        hak_json_number(&j, "processor_ns", a->processor_ns);
        hak_json_number(&j, "page_faults", a->page_faults);
        hak_json_number(&j, "most_bytes", a->most_bytes);
        hak_json_number(&j, "end_bytes", a->end_bytes);
        hak_json_number(&j, "freed_bytes", a->freed_bytes);
        hak_json_close(&j, '{');
    }
    hak_json_close(&j, '[');
    hak_json_open(&j, "runs", '[');
    for (unsigned round = 0; round < r->rounds; round++)
        for (size_t i = 0; i < r->allocators; i++)
            replay_json_run(&j, &r->allocator[i], round);
    hak_json_close(&j, '[');
    hak_json_close(&j, '{');
    (void)putchar('\n');
}

static void replay_free(struct replay *r)
{
    for (size_t i = 0; i < r->allocators; i++) {
        free(r->allocator[i].name);
        free(r->allocator[i].path);
        free(r->allocator[i].problem);
        free(r->allocator[i].run);
    }
    free(r->only);
}

int hak_replay(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], HAK_REPLAY_WORKER) == 0)
        return hak_replay_work(argc - 1, argv + 1);
    struct replay replay = {.rounds = REPLAY_DEFAULT_ROUNDS,
                            .window = REPLAY_DEFAULT_WINDOW,
                            .touch = HAK_REPLAY_TOUCH_PAGES};
    replay_parse(&replay, argc, argv);
    if (replay.help) {
        hak_replay_help();
        return EXIT_SUCCESS;
    }
    replay_choose(&replay);
    if (access("/proc/self/statm", R_OK) != 0)
        hak_die(HAK_EXIT_FAILED, "replay: what memory a run takes cannot be told, as /proc is not "
                                 "mounted: mount -t proc proc /proc");
    replay_open(&replay);
    int plan = replay_plan(&replay);
    bool problems = false;
    for (size_t i = 0; i < replay.allocators; i++)
        replay.allocator[i].run = hak_grow(NULL, replay.rounds, sizeof *replay.allocator[i].run);
    for (unsigned round = 0; round < replay.rounds; round++)
        for (size_t i = 0; i < replay.allocators; i++)
            replay_run(&replay, &replay.allocator[i], round, plan);
    for (size_t i = 0; i < replay.allocators; i++) {
        replay_summarise(&replay.allocator[i], replay.rounds);
        problems = problems || replay.allocator[i].problem != NULL;
    }
    if (replay.json)
        replay_print_json(&replay);
    else
        replay_print(&replay);
    replay_free(&replay);
    return problems ? EXIT_FAILURE : EXIT_SUCCESS;
}
