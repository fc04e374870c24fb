/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: thread_churn. Stresses the start and end of threads: THREADS threads, one after the
 * other, each allocates 100 blocks, frees 80 of them and hands 20 on to the next thread, which
 * checks and frees them. An allocator that leaves behind something for every ended thread grows.
 *
 * The growth of resident memory is taken from the end of the first tenth to the end of the last.
 * Checksum: sizes and ends of all blocks handed on. It never has two such threads at once.
 */
#include "bench.h"

#define BLOCKS 100u
#define HANDED_ON 20u
#define SIZE_LEAST 16u
#define SIZE_SPAN 1009u

struct hand {
    unsigned char *block[HANDED_ON];
    uint64_t random;
    uint64_t checksum;
};

static void hand_take(struct hand *h)
{
    for (unsigned i = 0; i < HANDED_ON; i++) {
        if (h->block[i] == NULL)
            continue;
        h->checksum = bench_mix(h->checksum, bench_block_check(h->block[i]));
        free(h->block[i]);
        h->block[i] = NULL;
    }
}

static void *churn_main(void *arg)
{
    struct hand *h = arg;
    unsigned char *block[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        block[i] = bench_block_new(SIZE_LEAST +
                                   (uint32_t)bench_below(bench_random(&h->random), SIZE_SPAN));
    hand_take(h);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % (BLOCKS / HANDED_ON) == 0)
            h->block[i / (BLOCKS / HANDED_ON)] = block[i];
        else
            free(block[i]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 1, 1, "thread_churn THREADS");
    uint64_t threads = bench_number(argc, argv, 1, "THREADS", 10, UINT32_MAX);
    struct hand hand = {.random = bench_seed(42, 0)};
    uint64_t rss_early = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(bench_thread_start(churn_main, &hand, 0), NULL);
        if (i == threads / 10)
            rss_early = bench_rss_kb();
    }
    uint64_t elapsed = bench_now_ns() - begin;
    uint64_t rss_late = bench_rss_kb();
    hand_take(&hand);
    bench_report("thread_churn", threads * BLOCKS, elapsed, hand.checksum);
    bench_metric("thread_churn", "per_thread", (double)elapsed / (double)threads, "ns");
    bench_metric("thread_churn", "rss_growth", (double)rss_late - (double)rss_early, "kB");
    return 0;
}
