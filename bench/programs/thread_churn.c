/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: thread_churn. Stresses the start and end of threads: THREADS threads, AT_ONCE at a
 * time, each allocates 100 blocks of 16 to MOST_BYTES bytes, frees 80 of them and hands 20 on to a
 * later thread, which checks and frees them. An allocator that leaves behind something for every
 * ended thread grows.
 *
 * The growth of resident memory is taken from the end of the first tenth to the end of the last.
 * Checksum: sizes and ends of all blocks handed on. It never has more than AT_ONCE such threads:
 * the next ones begin when all of them have ended.
 */
#include "bench.h"

#define BLOCKS 100u
#define HANDED_ON 20u
#define AT_ONCE_MOST 64u
#define SIZE_LEAST 16u

struct hand {
    unsigned char *block[HANDED_ON];
    uint64_t random;
    uint64_t checksum;
    uint64_t span;
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
        block[i] =
            bench_block_new(SIZE_LEAST + (uint32_t)bench_below(bench_random(&h->random), h->span));
    hand_take(h);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % (BLOCKS / HANDED_ON) == 0)
            h->block[i / (BLOCKS / HANDED_ON)] = block[i];
        else
            free(block[i]);
    }
    return NULL;
}

/* What one thread of a round hands on goes to the one before it in the next round. */
static void churn_round(struct hand *hands, uint64_t round, unsigned at_once)
{
    pthread_t thread[AT_ONCE_MOST];
    for (unsigned i = 0; i < at_once; i++)
        thread[i] = bench_thread_start(churn_main, &hands[(round + i) % at_once], 0);
    for (unsigned i = 0; i < at_once; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    static struct hand hands[AT_ONCE_MOST];
    bench_expect_args(argc, argv, 1, 3, "thread_churn THREADS [AT_ONCE [MOST_BYTES]]");
    uint64_t threads = bench_number(argc, argv, 1, "THREADS", 10, UINT32_MAX);
    unsigned at_once = (unsigned)bench_number_or(argc, argv, 2, "AT_ONCE", 1, AT_ONCE_MOST, 1);
    uint64_t most = bench_number_or(argc, argv, 3, "MOST_BYTES", SIZE_LEAST, 1u << 20, 1024);
    uint64_t rounds = (threads + at_once - 1) / at_once;
    for (unsigned i = 0; i < at_once; i++)
        hands[i] = (struct hand){.random = bench_seed(42, i), .span = most - SIZE_LEAST + 1};
    uint64_t rss_early = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        churn_round(hands, i, at_once);
        if (i == rounds / 10)
            rss_early = bench_rss_kb();
    }
    uint64_t elapsed = bench_now_ns() - begin;
    uint64_t rss_late = bench_rss_kb();
    uint64_t checksum = 0;
    for (unsigned i = 0; i < at_once; i++) {
        hand_take(&hands[i]);
        checksum = i == 0 ? hands[i].checksum : bench_mix(checksum, hands[i].checksum);
    }
    threads = rounds * at_once;
    bench_report("thread_churn", threads * BLOCKS, elapsed, checksum);
    bench_metric("thread_churn", "per_thread", (double)elapsed / (double)threads, "ns");
    bench_metric("thread_churn", "rss_growth", (double)rss_late - (double)rss_early, "kB");
    return 0;
}
