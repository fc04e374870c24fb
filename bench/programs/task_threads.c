/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: task_threads. Stresses threads that come and go while others run, as in a server that
 * starts one for each request: THREADS threads, AT_ONCE of them at the same time, each allocate 100
 * blocks of 16 to MAX_BYTES, free 80, and put 20 where later threads find and free them. With many
 * sizes each thread needs a little memory of many classes, and whatever an allocator sets aside for
 * a thread is multiplied.
 *
 * Checksum: the sizes of all blocks that were put there, which depend on the threads' numbers
 * alone.
 */
#include <stdatomic.h>

#include "bench.h"

#define BLOCKS 100u
#define HANDED_ON 20u
#define SIZE_LEAST 16u
#define SHELF 1024u

static uint32_t max_bytes;
static _Atomic(unsigned char *) shelf[SHELF];
static _Atomic(uint32_t) shelf_next;
static _Atomic(uint64_t) checksum;

static void shelf_put(unsigned char *block)
{
    uint32_t at = atomic_fetch_add_explicit(&shelf_next, 1, memory_order_relaxed) % SHELF;
    unsigned char *old = atomic_exchange_explicit(&shelf[at], block, memory_order_acq_rel);
    if (old == NULL)
        return;
    atomic_fetch_add_explicit(&checksum, bench_block_check(old), memory_order_relaxed);
    free(old);
}

static void *task_main(void *number)
{
    uint64_t random = bench_seed(42, (uintptr_t)number);
    unsigned char *block[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        block[i] = bench_block_new(
            SIZE_LEAST + (uint32_t)bench_below(bench_random(&random), max_bytes - SIZE_LEAST + 1));
    for (unsigned i = 0; i < HANDED_ON; i++)
        shelf_put(block[i]);
    for (unsigned i = HANDED_ON; i < BLOCKS; i++)
        free(block[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 3, 3, "task_threads THREADS AT_ONCE MAX_BYTES");
    uint64_t threads = bench_number(argc, argv, 1, "THREADS", 1, UINT32_MAX);
    uint64_t at_once = bench_number(argc, argv, 2, "AT_ONCE", 1, BENCH_MAX_THREADS);
    max_bytes = (uint32_t)bench_number(argc, argv, 3, "MAX_BYTES", SIZE_LEAST, 1u << 20);
    pthread_t running[BENCH_MAX_THREADS];
    uint64_t begin = bench_now_ns();
    for (uint64_t i = 0; i < threads + at_once; i++) {
        if (i >= at_once && i - at_once < threads)
            pthread_join(running[i % at_once], NULL);
        if (i < threads)
            running[i % at_once] = bench_thread_start(task_main, (void *)(uintptr_t)i, 1u << 18);
    }
    uint64_t elapsed = bench_now_ns() - begin;
    for (unsigned i = 0; i < SHELF; i++)
        shelf_put(NULL);
    bench_report("task_threads", threads * BLOCKS, elapsed, checksum);
    bench_metric("task_threads", "per_thread", (double)elapsed / (double)threads, "ns");
    bench_work_freed("task_threads");
    return 0;
}
