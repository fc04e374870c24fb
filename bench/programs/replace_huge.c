/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: replace_huge. Stresses the cache of huge blocks: 20 blocks of 5 to 25 MiB are live,
 * and one after the other is replaced by a block of another such size, all of which is written.
 * Giving everything back each time costs page faults, keeping everything costs memory.
 *
 * Checksum: sizes and ends of all blocks. It never starts a thread.
 */
#include "bench.h"

#define LIVE 20u
#define SIZE_LEAST (5 * BENCH_MIB)
#define SIZE_MOST (25 * BENCH_MIB)

struct slot {
    unsigned char *block;
    size_t size;
    unsigned char value;
};

static uint64_t slot_empty(struct slot *s)
{
    if (s->block == NULL)
        return 0;
    bench_check_pages(s->block, s->size, s->value);
    free(s->block);
    return s->size;
}

int main(int argc, char **argv)
{
    struct slot slot[LIVE] = {{0}};
    bench_expect_args(argc, argv, 0, 2, "replace_huge [REPLACEMENTS [SEED]]");
    uint64_t replacements = bench_number_or(argc, argv, 1, "REPLACEMENTS", 1, UINT32_MAX, 2000);
    uint64_t random = bench_seed(bench_number_or(argc, argv, 2, "SEED", 0, UINT64_MAX, 42), 0);
    uint64_t checksum = 0, live = 0, peak = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t n = 0; n < replacements; n++) {
        uint64_t r = bench_random(&random);
        struct slot *s = &slot[bench_below(r, LIVE)];
        uint64_t freed = slot_empty(s);
        checksum = bench_mix(checksum, freed);
        s->size = SIZE_LEAST + bench_below(r << 32, SIZE_MOST - SIZE_LEAST + 1);
        s->value = (unsigned char)(n + 1);
        s->block = malloc(s->size);
        if (s->block == NULL)
            bench_die(3, "malloc(%zu) failed", s->size);
        memset(s->block, s->value, s->size);
        live += s->size - freed;
        peak = live > peak ? live : peak;
    }
    uint64_t elapsed = bench_now_ns() - begin;
    for (unsigned i = 0; i < LIVE; i++)
        checksum = bench_mix(checksum, slot_empty(&slot[i]));
    bench_report("replace_huge", replacements, elapsed, checksum);
    bench_live_peak("replace_huge", peak);
    bench_work_freed("replace_huge");
    bench_metric("replace_huge", "per_replacement", (double)elapsed / (double)replacements / 1e3,
                 "us");
    return 0;
}
