/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: large_scenarios. Stresses the large and huge paths with the block of one kind of
 * program: json = 64 KiB (documents), mir = 256 KiB (intermediate code), vm = 2 MiB (guest memory),
 * mixed = all three. A good allocator reuses the memory; one that asks the system each time pays
 * for page faults.
 *
 * Each cycle replaces a randomly chosen block of SLOTS (16 unless given) by a new one and writes
 * one byte in each of its pages; blocks are checked before they are freed. Checksum: all sizes in
 * order. It never starts a thread.
 */
#include "bench.h"

struct scenario {
    const char *name;
    size_t size[3]; /* chosen at random with equal chance */
};

static const struct scenario scenarios[] = {
    {"json", {64 * BENCH_KIB, 64 * BENCH_KIB, 64 * BENCH_KIB}},
    {"mir", {256 * BENCH_KIB, 256 * BENCH_KIB, 256 * BENCH_KIB}},
    {"vm", {2 * BENCH_MIB, 2 * BENCH_MIB, 2 * BENCH_MIB}},
    {"mixed", {64 * BENCH_KIB, 256 * BENCH_KIB, 2 * BENCH_MIB}},
};

struct slot {
    unsigned char *block;
    size_t size;
    unsigned char value;
};

static const struct scenario *scenario_find(const char *program, const char *name)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    bench_die(2, "%s: unknown scenario '%s'; give json, mir, vm or mixed", program, name);
}

static void slot_empty(struct slot *s)
{
    if (s->block == NULL)
        return;
    bench_check_pages(s->block, s->size, s->value);
    free(s->block);
}

static void slot_fill(struct slot *s, size_t size, unsigned char value)
{
    *s = (struct slot){malloc(size), size, value};
    if (s->block == NULL)
        bench_die(3, "malloc(%zu) failed: give fewer SLOTS", size);
    bench_touch_pages(s->block, size, value);
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 2, 3, "large_scenarios json|mir|vm|mixed CYCLES [SLOTS]");
    const struct scenario *scenario = scenario_find(argv[0], argv[1]);
    uint64_t cycles = bench_number(argc, argv, 2, "CYCLES", 1, UINT64_C(1) << 40);
    size_t slots = bench_number_or(argc, argv, 3, "SLOTS", 1, 1u << 20, 16);
    struct slot *slot = calloc(slots, sizeof *slot);
    if (slot == NULL)
        bench_die(3, "no memory for %zu slots: give fewer SLOTS", slots);

    uint64_t random = bench_seed(42, 0), checksum = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t n = 0; n < cycles; n++) {
        uint64_t r = bench_random(&random);
        struct slot *s = &slot[bench_below(r, slots)];
        slot_empty(s);
        slot_fill(s, scenario->size[bench_below(r << 32, 3)], (unsigned char)(n + 1));
        checksum = bench_mix(checksum, s->size);
    }
    uint64_t elapsed = bench_now_ns() - begin;
    for (size_t i = 0; i < slots; i++)
        slot_empty(&slot[i]);
    free(slot);
    bench_report("large_scenarios", cycles, elapsed, checksum);
    bench_work_freed("large_scenarios");
    bench_metric("large_scenarios", "per_cycle", (double)elapsed / (double)cycles, "ns");
    return 0;
}
