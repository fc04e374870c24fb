/* Stress: what the command line asks for. See options.h.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: stress [options]\n"
    "  --threads N      threads at once (8)\n"
    "  --ops N          operations of each (1000000)\n"
    "  --seed S         seed of all random choices (the time)\n"
    "  --max-bytes M    live bytes over all threads; k, m, g may follow (256m)\n"
    "  --lives N        each thread ends and is replaced N-1 times (20)\n"
    "  --seconds N      stop after so long, whatever --ops says\n"
    "  --sizes A,B,...  only these sizes\n"
    "  --fork           fork meanwhile; children allocate and free\n"
    "  --records N      blocks that each thread holds at most, and that wait between them (1024)\n"
    "  --allow-enomem   a refused allocation is no failure\n"
    "  --recover        at the end, without refusals (faults/refuse), all memory is to be had\n"
    "  --refuse ERROR   after half of the time the kernel refuses all further calls for memory with\n"
    "                   ENOMEM, EAGAIN, EPERM or ENOSYS (seccomp); needs --lives 1\n"
    "  --footprint      resident memory may not drift by more than 2%, nor exceed 1.2 x live + 16 "
    "MiB\n";

_Noreturn static void options_bad(const char *option, const char *value)
{
    fprintf(stderr, "stress: '%s' is no value for %s\n%s", value, option, usage);
    exit(2);
}

static uint64_t options_number(const char *option, const char *value, const char **end,
                               uint64_t least, uint64_t most)
{
    char *rest;
    errno = 0;
    uint64_t n = strtoull(value, &rest, 0);
    unsigned shift = *rest == 'k' ? 10 : *rest == 'm' ? 20 : *rest == 'g' ? 30 : 0;
    rest += shift != 0;
    if (errno || rest == value || value[0] == '-' || (!end && *rest) || n > most >> shift)
        options_bad(option, value);
    n <<= shift;
    if (n < least)
        options_bad(option, value);
    if (end)
        *end = rest;
    return n;
}

static void options_sizes(struct stress_options *o, const char *list)
{
    const char *at = list;
    do {
        at += at != list;
        if (o->sizes_count == STRESS_SIZES_MAX)
            options_bad("--sizes (16 at most)", list);
        o->sizes[o->sizes_count++] = options_number("--sizes", at, &at, 0, (uint64_t)1 << 40);
    } while (*at == ',');
    if (*at)
        options_bad("--sizes", list);
}

static int options_error(const char *name)
{
    static const struct {
        const char *name;
        int value;
    } known[] = {{"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN}, {"EPERM", EPERM}, {"ENOSYS", ENOSYS}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].value;
    options_bad("--refuse", name);
}

void stress_options_parse(struct stress_options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"threads", 1, NULL, 't'},   {"ops", 1, NULL, 'o'},     {"seed", 1, NULL, 's'},
        {"max-bytes", 1, NULL, 'm'}, {"lives", 1, NULL, 'l'},   {"seconds", 1, NULL, 'S'},
        {"sizes", 1, NULL, 'z'},     {"fork", 0, NULL, 'f'},    {"allow-enomem", 0, NULL, 'e'},
        {"records", 1, NULL, 'r'},   {"recover", 0, NULL, 'R'}, {"refuse", 1, NULL, 'x'},
        {"footprint", 0, NULL, 'p'}, {NULL, 0, NULL, 0},
    };
    *o = (struct stress_options){.threads = 8,
                                 .ops = 1000000,
                                 .seed = (uint64_t)time(NULL),
                                 .max_bytes = 256u << 20,
                                 .records = 1024,
                                 .lives = 20};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 't')
            o->threads = (unsigned)options_number("--threads", optarg, NULL, 1, STRESS_THREADS_MAX);
        else if (c == 'o')
            o->ops = options_number("--ops", optarg, NULL, 1, UINT64_MAX);
        else if (c == 's')
            o->seed = options_number("--seed", optarg, NULL, 0, UINT64_MAX);
        else if (c == 'm')
            o->max_bytes = options_number("--max-bytes", optarg, NULL, 1u << 20, SIZE_MAX);
        else if (c == 'l')
            o->lives = (unsigned)options_number("--lives", optarg, NULL, 1, 1000000);
        else if (c == 'S')
            o->seconds = (unsigned)options_number("--seconds", optarg, NULL, 1, 10000000);
        else if (c == 'z')
            options_sizes(o, optarg);
        else if (c == 'f')
            o->fork = true;
        else if (c == 'e')
            o->allow_enomem = true;
        else if (c == 'r')
            o->records = (unsigned)options_number("--records", optarg, NULL, 1, STRESS_RECORDS_MAX);
        else if (c == 'R')
            o->recover = true;
        else if (c == 'x')
            o->refuse_errno = options_error(optarg);
        else if (c == 'p')
            o->footprint = true;
        else
            options_bad("an option", argv[optind - 1]);
    }
    if (o->refuse_errno && o->lives != 1) /* a thread's stack is memory too */
        options_bad("--lives (with --refuse it must be 1)", "that");
    if (o->footprint && !o->seconds)
        options_bad("--footprint (it needs --seconds)", "that");
    if (optind < argc)
        options_bad("an option", argv[optind]);
}
