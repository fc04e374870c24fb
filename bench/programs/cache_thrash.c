/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: cache_thrash. Stresses false sharing: each thread allocates a small object, writes to
 * it many times, frees it, and so on. If the allocator gives two threads objects in one cache line,
 * they slow each other down (active false sharing). The first object of each thread was allocated
 * by the main thread, next to the others', and is freed by the thread: an allocator that hands that
 * memory out again where it was freed keeps the line shared (passive false sharing).
 *
 * Checksum: what was read from every object. It never shares an object between threads.
 */
#include "bench.h"

struct worker {
    volatile unsigned char *first;
    uint64_t cycles;
    uint64_t writes;
    size_t size;
    uint64_t checksum;
    char apart[64];
};

/* Writes the first byte and reads the last, again and again: the read needs the cache line, where
 * stores alone could wait in the core's store buffer until the line comes back. */
static uint64_t object_use(volatile unsigned char *object, size_t size, uint64_t writes)
{
    uint64_t sum = 0;
    object[size - 1] = (unsigned char)size;
    for (uint64_t n = 0; n < writes; n++) {
        object[0] = (unsigned char)n;
        sum += object[size - 1];
    }
    return sum + object[0];
}

static void worker_run(void *arg)
{
    struct worker *w = arg;
    volatile unsigned char *object = w->first;
    uint64_t sum = 0;
    for (uint64_t left = w->cycles; left != 0; left--) {
        sum += object_use(object, w->size, w->writes);
        free((void *)object);
        object = malloc(w->size);
        if (object == NULL)
            bench_die(3, "malloc(%zu) failed", w->size);
    }
    free((void *)object);
    w->checksum = sum;
}

int main(int argc, char **argv)
{
    static struct worker worker[BENCH_MAX_THREADS];
    bench_expect_args(argc, argv, 1, 4, "cache_thrash CYCLES [THREADS [SIZE [WRITES]]]");
    uint64_t cycles = bench_number(argc, argv, 1, "CYCLES", 1, UINT64_C(1) << 40);
    unsigned threads = (unsigned)bench_number_or(argc, argv, 2, "THREADS", 1, BENCH_MAX_THREADS, 2);
    size_t size = bench_number_or(argc, argv, 3, "SIZE", 2, BENCH_KIB, 8);
    uint64_t writes = bench_number_or(argc, argv, 4, "WRITES", 1, UINT32_MAX, 200);

    for (unsigned i = 0; i < threads; i++) {
        worker[i] = (struct worker){
            .first = malloc(size), .cycles = cycles, .writes = writes, .size = size};
        if (worker[i].first == NULL)
            bench_die(3, "malloc(%zu) failed", size);
    }
    uint64_t elapsed = bench_run_threads(threads, worker_run, worker, sizeof worker[0]);
    uint64_t checksum = 0;
    for (unsigned i = 0; i < threads; i++)
        checksum = bench_mix(checksum, worker[i].checksum);
    bench_report("cache_thrash", cycles * threads, elapsed, checksum);
    return 0;
}
