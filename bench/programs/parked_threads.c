/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: parked_threads. Stresses what a thread costs in memory when it has done a little work
 * and then sleeps for ever: the caches and the started slabs of each thread.
 *
 * THREADS threads start and wait; then each allocates and writes 100 blocks of 16 to 256 bytes and
 * waits again. The growth of resident memory is taken before the threads, with threads that have
 * not allocated, and after the blocks. The blocks themselves are about 13.5 kB a thread.
 *
 * Checksum: the sizes and ends of all blocks. It never frees before it has measured.
 */
#include "bench.h"

#define BLOCKS 100u
#define SIZE_LEAST 16u
#define SIZE_SPAN 241u
#define STACK_BYTES (64 * BENCH_KIB)

struct parked {
    uint64_t random;
    uint64_t checksum;
};

static pthread_barrier_t started, go, allocated, measured;

static void *parked_main(void *arg)
{
    struct parked *p = arg;
    unsigned char *block[BLOCKS];
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&go);
    for (unsigned i = 0; i < BLOCKS; i++)
        block[i] = bench_block_new(SIZE_LEAST +
                                   (uint32_t)bench_below(bench_random(&p->random), SIZE_SPAN));
    pthread_barrier_wait(&allocated);
    pthread_barrier_wait(&measured);
    for (unsigned i = 0; i < BLOCKS; i++) {
        p->checksum = bench_mix(p->checksum, bench_block_check(block[i]));
        free(block[i]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 1, 1, "parked_threads THREADS");
    unsigned threads = (unsigned)bench_number(argc, argv, 1, "THREADS", 1, 20000);
    pthread_t *thread = calloc(threads, sizeof *thread);
    struct parked *parked = calloc(threads, sizeof *parked);
    if (thread == NULL || parked == NULL)
        bench_die(3, "no memory for %u threads: give fewer THREADS", threads);
    pthread_barrier_t *gates[] = {&started, &go, &allocated, &measured};
    for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++)
        pthread_barrier_init(gates[i], NULL, threads + 1);

    uint64_t rss_before = bench_rss_kb();
    for (unsigned i = 0; i < threads; i++) {
        parked[i].random = bench_seed(42, i);
        thread[i] = bench_thread_start(parked_main, &parked[i], STACK_BYTES);
    }
    pthread_barrier_wait(&started);
    uint64_t rss_threads = bench_rss_kb();
    uint64_t begin = bench_now_ns();
    pthread_barrier_wait(&go);
    pthread_barrier_wait(&allocated);
    uint64_t elapsed = bench_now_ns() - begin;
    uint64_t rss_blocks = bench_rss_kb();
    pthread_barrier_wait(&measured);

    uint64_t checksum = 0;
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        checksum = bench_mix(checksum, parked[i].checksum);
    }
    free(thread);
    free(parked);
    bench_report("parked_threads", (uint64_t)threads * BLOCKS, elapsed, checksum);
    bench_metric("parked_threads", "rss_per_idle_thread",
                 ((double)rss_threads - (double)rss_before) / threads, "kB");
    bench_metric("parked_threads", "rss_per_parked_thread",
                 ((double)rss_blocks - (double)rss_before) / threads, "kB");
    return 0;
}
