/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: false_sharing. Two threads write to small blocks of their own. Where the allocator has
 * put them into one cache line, the threads slow each other down.
 *     active    each thread allocates its blocks itself: an allocator must not deal out one cache
 *               line to two threads
 *     passive   the first block of each thread comes from the main thread, next to the other's; the
 *               threads free it and go on with what they get: an allocator must not hand out again
 *               to a thread what it freed, if its neighbours are somebody else's
 *
 * In each cycle a thread allocates a block of 8 bytes, writes and reads it 100 times, and frees it.
 * Checksum: what was read. It never shares a block.
 */
#include "bench.h"

#define SIZE 8u
#define WRITES 100u
#define THREADS 2u

struct worker {
    volatile unsigned char *inherited; /* NULL: active */
    uint64_t cycles;
    uint64_t checksum;
    char apart[104];
};

/* The read needs the cache line, where stores alone could wait in the core's store buffer. */
static uint64_t block_use(volatile unsigned char *block)
{
    uint64_t sum = 0;
    block[SIZE - 1] = (unsigned char)SIZE;
    for (unsigned n = 0; n < WRITES; n++) {
        block[0] = (unsigned char)n;
        sum += block[SIZE - 1];
    }
    return sum + block[0];
}

static void worker_run(void *arg)
{
    struct worker *w = arg;
    uint64_t sum = 0;
    if (w->inherited != NULL) {
        sum += block_use(w->inherited);
        free((void *)w->inherited);
    }
    for (uint64_t left = w->cycles; left != 0; left--) {
        volatile unsigned char *block = malloc(SIZE);
        if (block == NULL)
            bench_die(3, "malloc(%u) failed", SIZE);
        sum += block_use(block);
        free((void *)block);
    }
    w->checksum = sum;
}

int main(int argc, char **argv)
{
    static struct worker worker[THREADS];
    bench_expect_args(argc, argv, 2, 2, "false_sharing active|passive CYCLES");
    bool passive = strcmp(argv[1], "passive") == 0;
    if (!passive && strcmp(argv[1], "active") != 0)
        bench_die(2, "%s: '%s' is neither 'active' nor 'passive'", argv[0], argv[1]);
    uint64_t cycles = bench_number(argc, argv, 2, "CYCLES", 1, UINT64_C(1) << 40);
    for (unsigned i = 0; i < THREADS; i++) {
        worker[i].cycles = cycles;
        worker[i].inherited = passive ? malloc(SIZE) : NULL;
        if (passive && worker[i].inherited == NULL)
            bench_die(3, "malloc(%u) failed", SIZE);
    }
    uint64_t elapsed = bench_run_threads(THREADS, worker_run, worker, sizeof worker[0]);
    uint64_t checksum = 0;
    for (unsigned i = 0; i < THREADS; i++)
        checksum = bench_mix(checksum, worker[i].checksum);
    bench_report("false_sharing", cycles * THREADS, elapsed, checksum);
    return 0;
}
