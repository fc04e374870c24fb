/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: falloff. Stresses a mixture of sizes and of who frees: threads replace random blocks
 * of their LIVE slots by blocks of 8 to 16,000 bytes, whose frequency falls linearly with the size,
 * and one victim in three is not freed by its thread but left in a letterbox, from which another
 * thread takes and frees it. What a server with work queues does.
 *
 * Checksum: the sizes of all blocks that were allocated, and that all of them were freed, whoever
 * did it; every block is checked when it is freed. It never waits: a letterbox that is full is
 * passed by.
 */
#include "bench.h"

#include <stdatomic.h>

#define SIZE_LEAST 8u
#define SIZE_MOST 16000u
#define LETTERBOXES 64u
#define REMOTE_ONE_IN 3u

struct worker {
    unsigned char **slot;
    size_t slots;
    uint64_t cycles;
    uint64_t random;
    uint64_t allocated; /* sums of sizes */
    uint64_t freed;
    char apart[72];
};

static _Atomic(unsigned char *) letterbox[LETTERBOXES];

/* The lesser of two equally distributed numbers falls off linearly. */
static uint32_t falloff_size(uint64_t *random)
{
    uint64_t r = bench_random(random);
    size_t a = bench_below(r, SIZE_MOST - SIZE_LEAST + 1);
    size_t b = bench_below(r << 32, SIZE_MOST - SIZE_LEAST + 1);
    return SIZE_LEAST + (uint32_t)(a < b ? a : b);
}

static uint64_t block_end(unsigned char *block)
{
    if (block == NULL)
        return 0;
    uint32_t size = bench_block_check(block);
    free(block);
    return size;
}

/* Leaves a block for somebody else, and frees what somebody else left there. */
static uint64_t block_post(unsigned char *block, uint64_t random)
{
    size_t box = bench_below(random, LETTERBOXES);
    return block_end(atomic_exchange_explicit(&letterbox[box], block, memory_order_acq_rel));
}

static void worker_churn(void *arg)
{
    struct worker *w = arg;
    for (uint64_t n = 0; n < w->cycles; n++) {
        uint64_t r = bench_random(&w->random);
        unsigned char **place = &w->slot[bench_below(r, w->slots)];
        w->freed += n % REMOTE_ONE_IN == 0 ? block_post(*place, r << 32) : block_end(*place);
        uint32_t size = falloff_size(&w->random);
        *place = bench_block_new(size);
        w->allocated += size;
    }
}

int main(int argc, char **argv)
{
    static struct worker worker[BENCH_MAX_THREADS];
    bench_expect_args(argc, argv, 3, 3, "falloff CYCLES LIVE THREADS");
    uint64_t cycles = bench_number(argc, argv, 1, "CYCLES", 1, UINT64_C(1) << 40);
    size_t slots = bench_number(argc, argv, 2, "LIVE", 1, UINT32_MAX);
    unsigned threads = (unsigned)bench_number(argc, argv, 3, "THREADS", 1, BENCH_MAX_THREADS);
    for (unsigned i = 0; i < threads; i++) {
        worker[i].slot = calloc(slots, sizeof(unsigned char *));
        if (worker[i].slot == NULL)
            bench_die(3, "no memory for %zu slots: give a smaller LIVE", slots);
        worker[i].slots = slots;
        worker[i].cycles = cycles;
        worker[i].random = bench_seed(42, i);
    }
    uint64_t elapsed = bench_run_threads(threads, worker_churn, worker, sizeof worker[0]);
    uint64_t allocated = 0, freed = 0;
    for (unsigned t = 0; t < threads; t++) {
        for (size_t i = 0; i < slots; i++)
            freed += block_end(worker[t].slot[i]);
        free(worker[t].slot);
        allocated += worker[t].allocated;
        freed += worker[t].freed;
    }
    for (size_t i = 0; i < LETTERBOXES; i++)
        freed += block_end(letterbox[i]);
    if (freed != allocated)
        bench_die(1, "%" PRIu64 " bytes allocated, %" PRIu64 " freed", allocated, freed);
    bench_report("falloff", cycles * threads, elapsed, bench_mix(allocated, freed));
    return 0;
}
