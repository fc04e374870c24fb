/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: lifetimes. Stresses the order in which blocks die: BLOCKS blocks of 16 to 512 bytes
 * are allocated one after the other and all freed, last first (lifo, as a stack of calls does),
 * first first (fifo, as a queue does) or in random order, ROUNDS times. Random order touches cold
 * memory and fills the free lists of many slabs at once.
 *
 * Checksum: the sizes of all blocks in the order of their end; every block is checked. It never
 * starts a thread, and the random order is made before the time is taken.
 */
#include "bench.h"

#define SIZE_LEAST 16u
#define SIZE_SPAN 497u

static void order_fill(uint32_t *order, size_t count, const char *program, const char *how)
{
    bool lifo = strcmp(how, "lifo") == 0;
    bool shuffled = strcmp(how, "random") == 0;
    if (!lifo && !shuffled && strcmp(how, "fifo") != 0)
        bench_die(2, "%s: '%s' is none of lifo, fifo and random", program, how);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)(lifo ? count - 1 - i : i);
    uint64_t random = bench_seed(7, 0);
    for (size_t i = count; shuffled && i > 1; i--) {
        size_t other = bench_below(bench_random(&random), i);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swap;
    }
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 3, 3, "lifetimes lifo|fifo|random BLOCKS ROUNDS");
    size_t count = bench_number(argc, argv, 2, "BLOCKS", 1, UINT32_MAX);
    uint64_t rounds = bench_number(argc, argv, 3, "ROUNDS", 1, UINT32_MAX);
    unsigned char **block = calloc(count, sizeof *block);
    uint32_t *order = malloc(count * sizeof *order);
    if (block == NULL || order == NULL)
        bench_die(3, "no memory for %zu blocks: give fewer BLOCKS", count);
    order_fill(order, count, argv[0], argv[1]);

    uint64_t random = bench_seed(42, 0), checksum = 0, live = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t round = 0; round < rounds; round++) {
        live = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t size = SIZE_LEAST + (uint32_t)bench_below(bench_random(&random), SIZE_SPAN);
            block[i] = bench_block_new(size);
            live += size;
        }
        for (size_t i = 0; i < count; i++) {
            unsigned char *victim = block[order[i]];
            checksum = bench_mix(checksum, bench_block_check(victim));
            free(victim);
        }
    }
    uint64_t elapsed = bench_now_ns() - begin;
    live += count * (sizeof *block + sizeof *order);
    free(block);
    free(order);
    bench_report("lifetimes", rounds * count, elapsed, checksum);
    bench_live_peak("lifetimes", live);
    return 0;
}
