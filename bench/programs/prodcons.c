/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: prodcons. Stresses remote frees: every block is allocated by one thread and freed by
 * another, which never allocates. An allocator that leaves such blocks in the freeing thread's
 * cache, or makes the owner wait to get them back, shows in time or in memory.
 *
 * A producer allocates 64-byte objects in batches of 4,096, writes them and hands each batch to
 * the consumer through a bounded queue; the consumer checks and frees them.
 *
 * Checksum: the numbers written into all objects, in order. It never frees in the producer.
 */
#include "bench.h"

#define BATCH_OBJECTS 4096u
#define QUEUE_BATCHES 8u

struct object {
    uint64_t number;
    uint64_t unused[6];
    uint64_t inverse;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t produced;
    uint64_t consumed;
    struct object *batch[QUEUE_BATCHES][BATCH_OBJECTS];
};

static struct queue queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
                             .changed = PTHREAD_COND_INITIALIZER};
static uint64_t total_batches;

static void producer_run(void)
{
    for (uint64_t n = 0; n < total_batches; n++) {
        pthread_mutex_lock(&queue.lock);
        while (n - queue.consumed == QUEUE_BATCHES)
            pthread_cond_wait(&queue.changed, &queue.lock);
        pthread_mutex_unlock(&queue.lock);
        struct object **batch = queue.batch[n % QUEUE_BATCHES];
        for (uint64_t i = 0; i < BATCH_OBJECTS; i++) {
            struct object *object = malloc(sizeof *object);
            if (object == NULL)
                bench_die(3, "out of memory in batch %" PRIu64, n);
            object->number = n * BATCH_OBJECTS + i;
            object->inverse = ~object->number;
            batch[i] = object;
        }
        pthread_mutex_lock(&queue.lock);
        queue.produced = n + 1;
        pthread_cond_signal(&queue.changed);
        pthread_mutex_unlock(&queue.lock);
    }
}

static uint64_t consumer_take(uint64_t n, uint64_t checksum)
{
    struct object **batch = queue.batch[n % QUEUE_BATCHES];
    for (uint64_t i = 0; i < BATCH_OBJECTS; i++) {
        struct object *object = batch[i];
        if (object->number != n * BATCH_OBJECTS + i || object->inverse != ~object->number)
            bench_die(1, "object %" PRIu64 " of batch %" PRIu64 " was overwritten", i, n);
        checksum = bench_mix(checksum, object->number);
        free(object);
    }
    return checksum;
}

static void *consumer_main(void *result)
{
    uint64_t checksum = 0;
    for (uint64_t n = 0; n < total_batches; n++) {
        pthread_mutex_lock(&queue.lock);
        while (queue.produced == n)
            pthread_cond_wait(&queue.changed, &queue.lock);
        pthread_mutex_unlock(&queue.lock);
        checksum = consumer_take(n, checksum);
        pthread_mutex_lock(&queue.lock);
        queue.consumed = n + 1;
        pthread_cond_signal(&queue.changed);
        pthread_mutex_unlock(&queue.lock);
    }
    *(uint64_t *)result = checksum;
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t checksum = 0;
    bench_expect_args(argc, argv, 1, 1, "prodcons BATCHES");
    total_batches = bench_number(argc, argv, 1, "BATCHES", 1, UINT32_MAX);
    uint64_t begin = bench_now_ns();
    pthread_t consumer = bench_thread_start(consumer_main, &checksum, 0);
    producer_run();
    pthread_join(consumer, NULL);
    bench_report("prodcons", total_batches * BATCH_OBJECTS, bench_now_ns() - begin, checksum);
    return 0;
}
