/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: random_mixed. Stresses the fast path (SLOTS small: everything in the thread's bins),
 * refill and drain (thousands of slots) and the cost of cold memory (hundreds of thousands).
 *
 * Each cycle picks one of SLOTS slots at random: frees its block if it has one, else allocates
 * 16 to 1,039 bytes and writes both ends. Freeing does not look at the block, so an allocator that
 * keeps its hands off free memory may show it. Every thread has slots of its own.
 *
 * Checksum: the sizes of all blocks ever allocated, and size and both ends of every block that is
 * left at the end. Who runs it: `hakmem bench`, or a person. It never frees across threads.
 */
#include "bench.h"

#define SIZE_LEAST 16u
#define SIZE_SPAN 1024u

struct worker {
    unsigned char **slot;
    size_t slots;
    uint64_t cycles;
    uint64_t random;
    uint64_t checksum;
    uint64_t live_bytes; /* at the end */
    char apart[64];      /* no two threads write to one cache line */
};

static void worker_churn(void *arg)
{
    struct worker *w = arg;
    unsigned char **slot = w->slot;
    size_t slots = w->slots;
    uint64_t random = w->random;
    uint64_t sum = 0;
    for (uint64_t left = w->cycles; left != 0; left--) {
        uint64_t r = bench_random(&random);
        unsigned char **place = &slot[bench_below(r, slots)];
        if (*place != NULL) {
            free(*place);
            *place = NULL;
        } else {
            uint32_t size = SIZE_LEAST + (uint32_t)(r & (SIZE_SPAN - 1));
            *place = bench_block_new(size);
            sum += size;
        }
    }
    w->checksum = sum;
}

static void worker_finish(struct worker *w)
{
    for (size_t i = 0; i < w->slots; i++) {
        if (w->slot[i] == NULL)
            continue;
        uint32_t size = bench_block_check(w->slot[i]);
        w->checksum = bench_mix(w->checksum, i ^ ((uint64_t)size << 32));
        w->live_bytes += size;
        free(w->slot[i]);
    }
    free(w->slot);
}

int main(int argc, char **argv)
{
    static struct worker worker[BENCH_MAX_THREADS];
    bench_expect_args(argc, argv, 3, 4, "random_mixed CYCLES SLOTS SEED [THREADS]");
    uint64_t cycles = bench_number(argc, argv, 1, "CYCLES", 1, UINT64_C(1) << 40);
    size_t slots = bench_number(argc, argv, 2, "SLOTS", 1, UINT32_MAX);
    uint64_t seed = bench_number(argc, argv, 3, "SEED", 0, UINT64_MAX);
    unsigned threads = (unsigned)bench_number_or(argc, argv, 4, "THREADS", 1, BENCH_MAX_THREADS, 1);

    for (unsigned i = 0; i < threads; i++) {
        worker[i].slot = calloc(slots, sizeof(unsigned char *));
        if (worker[i].slot == NULL)
            bench_die(3, "no memory for %zu slots: give fewer SLOTS", slots);
        worker[i].slots = slots;
        worker[i].cycles = cycles;
        worker[i].random = bench_seed(seed, i);
    }
    uint64_t elapsed = bench_run_threads(threads, worker_churn, worker, sizeof worker[0]);
    uint64_t work_kb = bench_rss_exact_kb(); /* about the peak: what is in use varies little */
    uint64_t checksum = 0, live_bytes = slots * threads * sizeof(unsigned char *);
    for (unsigned i = 0; i < threads; i++) {
        worker_finish(&worker[i]);
        checksum = bench_mix(checksum, worker[i].checksum);
        live_bytes += worker[i].live_bytes;
    }
    bench_report("random_mixed", cycles * threads, elapsed, checksum);
    bench_live_peak("random_mixed", live_bytes);
    if (work_kb != 0)
        bench_metric("random_mixed", "rss_work", (double)work_kb, "kB");
    bench_work_freed("random_mixed");
    return 0;
}
