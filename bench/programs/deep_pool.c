/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: deep_pool. Stresses a pool of one size that is deeper than a thread's cache: LIVE
 * blocks (1,600) of SIZE bytes are live all the time, and the oldest is replaced by a new one,
 * PAIRS times. So a freed block is not the next one handed out, and blocks wander through the pool.
 *
 * Checksum: the numbers in all blocks when they are freed. It never starts a thread.
 */
#include "bench.h"

static void *block_new(size_t size, uint64_t number)
{
    void *block = malloc(size);
    if (block == NULL)
        bench_die(3, "malloc(%zu) failed", size);
    memcpy(block, &number, sizeof number);
    return block;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 1, 3, "deep_pool PAIRS [LIVE [SIZE]]");
    uint64_t pairs = bench_number(argc, argv, 1, "PAIRS", 1, UINT64_C(1) << 40);
    size_t live = bench_number_or(argc, argv, 2, "LIVE", 1, 1u << 28, 1600);
    size_t size = bench_number_or(argc, argv, 3, "SIZE", sizeof(uint64_t), BENCH_MIB, 64);
    void **pool = calloc(live, sizeof *pool);
    if (pool == NULL)
        bench_die(3, "no memory for %zu blocks: give a smaller LIVE", live);
    for (size_t i = 0; i < live; i++)
        pool[i] = block_new(size, i);

    uint64_t checksum = 0;
    size_t oldest = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t n = 0; n < pairs; n++) {
        uint64_t number;
        memcpy(&number, pool[oldest], sizeof number);
        checksum += number ^ n;
        free(pool[oldest]);
        pool[oldest] = block_new(size, live + n);
        oldest = oldest + 1 == live ? 0 : oldest + 1;
    }
    uint64_t elapsed = bench_now_ns() - begin;
    for (size_t i = 0; i < live; i++) {
        uint64_t number;
        memcpy(&number, pool[i], sizeof number);
        checksum = bench_mix(checksum, number);
        free(pool[i]);
    }
    free(pool);
    bench_report("deep_pool", pairs, elapsed, checksum);
    return 0;
}
