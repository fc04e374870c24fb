/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: producers. Stresses what returns to many owners: four threads allocate, a fifth frees
 * all they hand over and allocates nothing. With more threads than processors the owners sleep
 * while their blocks come back: an allocator that waits for them, or keeps the blocks with the one
 * who freed them, holds far more than what lives.
 *
 * Each producer allocates blocks of LEAST to MOST bytes, marks them and hands them over in batches
 * of 1,024 through a bounded queue of its own; the freeing thread takes from each in turn.
 *
 * Checksum: the sizes of all blocks, producer by producer. It never frees in a producer.
 */
#include "bench.h"

#define PRODUCERS 4u
#define BATCH_BLOCKS 1024u
#define QUEUE_BATCHES 8u

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t produced, consumed; /* batches */
    uint64_t random;
    unsigned char *batch[QUEUE_BATCHES][BATCH_BLOCKS];
};

static struct queue queues[PRODUCERS];
static uint64_t total_batches; /* of each producer */
static uint32_t size_least, size_most;

static void *producer_main(void *arg)
{
    struct queue *q = arg;
    for (uint64_t n = 0; n < total_batches; n++) {
        pthread_mutex_lock(&q->lock);
        while (n - q->consumed == QUEUE_BATCHES)
            pthread_cond_wait(&q->changed, &q->lock);
        pthread_mutex_unlock(&q->lock);
        unsigned char **batch = q->batch[n % QUEUE_BATCHES];
        for (unsigned i = 0; i < BATCH_BLOCKS; i++) {
            size_t over = bench_below(bench_random(&q->random), size_most - size_least + 1);
            batch[i] = bench_block_new(size_least + (uint32_t)over);
        }
        pthread_mutex_lock(&q->lock);
        q->produced = n + 1;
        pthread_cond_signal(&q->changed);
        pthread_mutex_unlock(&q->lock);
    }
    return NULL;
}

static uint64_t queue_free_batch(struct queue *q, uint64_t n, uint64_t checksum)
{
    pthread_mutex_lock(&q->lock);
    while (q->produced == n)
        pthread_cond_wait(&q->changed, &q->lock);
    pthread_mutex_unlock(&q->lock);
    unsigned char **batch = q->batch[n % QUEUE_BATCHES];
    for (unsigned i = 0; i < BATCH_BLOCKS; i++) {
        checksum = bench_mix(checksum, bench_block_check(batch[i]));
        free(batch[i]);
    }
    pthread_mutex_lock(&q->lock);
    q->consumed = n + 1;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return checksum;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 3, 3, "producers BATCHES LEAST MOST");
    total_batches = bench_number(argc, argv, 1, "BATCHES", 1, UINT32_MAX);
    size_least = (uint32_t)bench_number(argc, argv, 2, "LEAST", 5, 1u << 20);
    size_most = (uint32_t)bench_number(argc, argv, 3, "MOST", size_least, 1u << 20);
    pthread_t thread[PRODUCERS];
    uint64_t checksum = 0, begin = bench_now_ns();
    for (unsigned i = 0; i < PRODUCERS; i++) {
        pthread_mutex_init(&queues[i].lock, NULL);
        pthread_cond_init(&queues[i].changed, NULL);
        queues[i].random = bench_seed(42, i);
        thread[i] = bench_thread_start(producer_main, &queues[i], 0);
    }
    for (uint64_t n = 0; n < total_batches; n++)
        for (unsigned i = 0; i < PRODUCERS; i++)
            checksum = queue_free_batch(&queues[i], n, checksum);
    for (unsigned i = 0; i < PRODUCERS; i++)
        pthread_join(thread[i], NULL);
    bench_report("producers", total_batches * PRODUCERS * BATCH_BLOCKS, bench_now_ns() - begin,
                 checksum);
    bench_live_peak("producers", (uint64_t)PRODUCERS * QUEUE_BATCHES * BATCH_BLOCKS *
                                     (size_least + size_most) / 2);
    return 0;
}
