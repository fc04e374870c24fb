/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: the command line. See docs/scheduler.md. */
#include "scenarios.h"

#include <getopt.h>
#include <stdlib.h>

static const char *own_name;
static const struct scenario *const scenario_lists[] = {slots_scenarios, blocks_scenarios,
                                                        homes_scenarios, other_scenarios};

static int usage(void)
{
    fprintf(
        stderr,
        "usage: %s [--list] [--scenario NAME]... [--seeds N] [--first N] [--weak|--strong] [--seed N] [--trace]\n"
        "  --scenario NAME  those whose names begin so; all, if none is given\n"
        "  --seeds N    seeds to run (20000), from --first (0) on\n"
        "  --weak       odd seeds only: those with weak memory\n"
        "  --seed N     this one alone; --trace shows each step\n",
        own_name);
    return 2;
}

static bool is_chosen(const char *name, char **chosen, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (strncmp(name, chosen[i], strlen(chosen[i])) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"list", no_argument, NULL, 'l'},
                                            {"scenario", required_argument, NULL, 's'},
                                            {"seeds", required_argument, NULL, 'n'},
                                            {"first", required_argument, NULL, 'f'},
                                            {"seed", required_argument, NULL, 'o'},
                                            {"trace", no_argument, NULL, 't'},
                                            {"weak", no_argument, NULL, 'w'},
                                            {"strong", no_argument, NULL, 'g'},
                                            {NULL, 0, NULL, 0}};
    char *chosen[16];
    unsigned chosen_count = 0;
    uint64_t first = 0;
    uint64_t count = 20000;
    bool list = false;
    bool traced = false;
    bool weak = false;
    bool strong = false;
    own_name = argv[0];
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'l')
            list = true;
        else if (c == 's' && chosen_count < 16)
            chosen[chosen_count++] = optarg;
        else if (c == 'n')
            count = strtoull(optarg, NULL, 10);
        else if (c == 'f' || c == 'o')
            first = strtoull(optarg, NULL, 10), count = c == 'o' ? 1 : count;
        else if (c == 't')
            traced = true;
        else if (c == 'w')
            weak = true;
        else if (c == 'g')
            strong = true;
        else
            return usage();
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    sched_begin(own_name, traced);
    unsigned run = 0;
    unsigned failed = 0;
    for (unsigned i = 0; i < sizeof scenario_lists / sizeof scenario_lists[0]; i++) {
        for (const struct scenario *s = scenario_lists[i]; s->name != NULL; s++) {
            if (list)
                printf("%-24s %s\n", s->name, s->what);
            if (list || !is_chosen(s->name, chosen, chosen_count))
                continue;
            run++;
            failed +=
                !sched_scenario(s, (first & ~(uint64_t)strong) | weak, count, 1 + (weak || strong));
        }
    }
    return list ? 0 : run == 0 || count == 0 ? usage() : failed != 0;
}
