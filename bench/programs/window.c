/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: window. Stresses how blocks that are allocated one after the other lie in memory when
 * the oldest always go first, as in a queue of messages, a window of the newest events, or a cache
 * that gives up what it has had for longest: COUNT blocks of random sizes from LEAST to MOST bytes
 * are live, each step reads and frees the oldest one and writes one anew, STEPS times. If blocks
 * lie in the order in which they were allocated, the processor reads them ahead; otherwise each is
 * a cache miss of its own.
 *
 * All of it is timed. Checksum: what was read, and the sizes.
 */
#include "bench.h"

struct slot {
    uint64_t *block; /* NULL: none yet */
    uint64_t words;
};

static void slot_fill(struct slot *s, size_t bytes, uint64_t value)
{
    s->words = bytes / sizeof(uint64_t);
    s->block = malloc(bytes);
    if (s->block == NULL)
        bench_die(3, "no memory for a block of %zu bytes: give a smaller COUNT", bytes);
    for (uint64_t i = 0; i < s->words; i++)
        s->block[i] = value;
}

static uint64_t slot_empty(struct slot *s)
{
    uint64_t sum = s->words;
    for (uint64_t i = 0; i < s->words; i++)
        sum += s->block[i];
    free(s->block);
    return sum;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 4, 4, "window COUNT LEAST MOST STEPS");
    size_t count = bench_number(argc, argv, 1, "COUNT", 1, 1u << 26);
    size_t least = bench_number(argc, argv, 2, "LEAST", sizeof(uint64_t), 1u << 20);
    size_t most = bench_number(argc, argv, 3, "MOST", least, 1u << 20);
    uint64_t steps = bench_number(argc, argv, 4, "STEPS", 1, UINT64_MAX);
    struct slot *slots = calloc(count, sizeof *slots);
    if (slots == NULL)
        bench_die(3, "no memory for %zu slots: give a smaller COUNT", count);

    uint64_t random = bench_seed(42, 0), checksum = 0, begin = bench_now_ns();
    for (uint64_t step = 0; step < steps; step++) {
        struct slot *s = &slots[step % count];
        if (s->block != NULL)
            checksum = bench_mix(checksum, slot_empty(s));
        slot_fill(s, least + bench_below(bench_random(&random), most - least + 1), step);
    }
    for (size_t i = 0; i < count; i++)
        if (slots[i].block != NULL)
            checksum = bench_mix(checksum, slot_empty(&slots[i]));
    free(slots);
    bench_report("window", steps, bench_now_ns() - begin, checksum);
    return 0;
}
