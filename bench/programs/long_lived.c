/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: long_lived. Stresses fragmentation by survivors: of N blocks of 64 bytes one in a
 * hundred lives on, anywhere among short-lived ones, of which 20,000 are live at a time. An
 * allocator that spreads the survivors over all its slabs holds much more than they need when the
 * short-lived ones are gone.
 *
 * Resident memory is taken with only the survivors live (rss_survivors). Checksum: the numbers in
 * all blocks when they are freed. It never starts a thread.
 */
#include "bench.h"

#define BLOCK_BYTES 64u
#define SHORT_LIVED 20000u
#define SURVIVES_ONE_IN 100u

static uint64_t *block_new(uint64_t number)
{
    uint64_t *block = malloc(BLOCK_BYTES);
    if (block == NULL)
        bench_die(3, "malloc(%u) failed", BLOCK_BYTES);
    block[0] = number;
    block[BLOCK_BYTES / 8 - 1] = ~number;
    return block;
}

static uint64_t block_end(uint64_t *block)
{
    uint64_t number = block[0];
    if (block[BLOCK_BYTES / 8 - 1] != ~number)
        bench_die(1, "block %" PRIu64 " was overwritten", number);
    free(block);
    return number;
}

int main(int argc, char **argv)
{
    static uint64_t *young[SHORT_LIVED];
    bench_expect_args(argc, argv, 1, 1, "long_lived BLOCKS");
    uint64_t blocks = bench_number(argc, argv, 1, "BLOCKS", SURVIVES_ONE_IN, UINT32_MAX);
    size_t survivors = blocks / SURVIVES_ONE_IN, old = 0;
    uint64_t **survivor = calloc(survivors, sizeof *survivor);
    if (survivor == NULL)
        bench_die(3, "no memory for %zu survivors: give fewer BLOCKS", survivors);

    uint64_t random = bench_seed(42, 0), checksum = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t n = 0; n < blocks; n++) {
        uint64_t *block = block_new(n);
        if (n % SURVIVES_ONE_IN == 0 && old < survivors) {
            survivor[old++] = block;
            continue;
        }
        uint64_t **place = &young[bench_below(bench_random(&random), SHORT_LIVED)];
        if (*place != NULL)
            checksum += block_end(*place);
        *place = block;
    }
    for (size_t i = 0; i < SHORT_LIVED; i++)
        checksum = bench_mix(checksum, young[i] == NULL ? 0 : block_end(young[i]));
    uint64_t elapsed = bench_now_ns() - begin;
    uint64_t rss_survivors = bench_rss_kb();
    for (size_t i = 0; i < old; i++)
        checksum = bench_mix(checksum, block_end(survivor[i]));
    free(survivor);
    bench_report("long_lived", blocks, elapsed, checksum);
    bench_metric("long_lived", "rss_survivors", (double)rss_survivors, "kB");
    bench_live_peak("long_lived", (old + SHORT_LIVED) * BLOCK_BYTES + survivors * sizeof *survivor);
    bench_work_freed("long_lived");
    return 0;
}
