/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: prodcons_one. Stresses remote frees one by one: a producer allocates a block of 16 to
 * 256 bytes, hands it over at once, and a consumer, which never allocates, frees it at once. Unlike
 * prodcons no batch hides what a single remote free costs, and both threads are at work on
 * neighbouring blocks at the same time.
 *
 * They meet in a ring of 1,024 places, and each has a processor of its own where there are two:
 * taking turns on one they would pass whole rings, which is another benchmark. Checksum: the sizes
 * of all blocks, in order; every block is checked. It never blocks in a lock: who has to wait
 * yields.
 */
#include "bench.h"

#include <sched.h>
#include <stdatomic.h>

#define PLACES 1024u
#define SIZE_LEAST 16u
#define SIZE_SPAN 241u

static struct {
    _Alignas(64) _Atomic uint64_t produced;
    _Alignas(64) _Atomic uint64_t consumed;
    _Alignas(64) unsigned char *place[PLACES];
} ring;
static uint64_t total;

/* Binds the calling thread to the first processor that it may use, or to the last. */
static void thread_pin(bool last)
{
    cpu_set_t allowed, chosen;
    size_t found = CPU_SETSIZE;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (size_t i = 0; i < CPU_SETSIZE && (last || found == CPU_SETSIZE); i++)
        if (CPU_ISSET(i, &allowed))
            found = i;
    if (found == CPU_SETSIZE)
        return;
    CPU_ZERO(&chosen);
    CPU_SET(found, &chosen);
    sched_setaffinity(0, sizeof chosen, &chosen);
}

static void *consumer_main(void *result)
{
    thread_pin(true);
    uint64_t checksum = 0;
    for (uint64_t n = 0; n < total; n++) {
        while (atomic_load_explicit(&ring.produced, memory_order_acquire) == n)
            sched_yield();
        unsigned char *block = ring.place[n % PLACES];
        checksum = bench_mix(checksum, bench_block_check(block));
        free(block);
        atomic_store_explicit(&ring.consumed, n + 1, memory_order_release);
    }
    *(uint64_t *)result = checksum;
    return NULL;
}

static void producer_run(void)
{
    uint64_t random = bench_seed(42, 0);
    for (uint64_t n = 0; n < total; n++) {
        unsigned char *block =
            bench_block_new(SIZE_LEAST + (uint32_t)bench_below(bench_random(&random), SIZE_SPAN));
        while (n - atomic_load_explicit(&ring.consumed, memory_order_acquire) == PLACES)
            sched_yield();
        ring.place[n % PLACES] = block;
        atomic_store_explicit(&ring.produced, n + 1, memory_order_release);
    }
}

int main(int argc, char **argv)
{
    uint64_t checksum = 0;
    bench_expect_args(argc, argv, 1, 1, "prodcons_one BLOCKS");
    total = bench_number(argc, argv, 1, "BLOCKS", 1, UINT64_C(1) << 40);
    uint64_t begin = bench_now_ns();
    pthread_t consumer = bench_thread_start(consumer_main, &checksum, 0);
    thread_pin(false);
    producer_run();
    pthread_join(consumer, NULL);
    bench_report("prodcons_one", total, bench_now_ns() - begin, checksum);
    return 0;
}
