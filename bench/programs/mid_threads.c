/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: mid_threads. Stresses blocks of 8 to 32 KiB (buffers, small pages of databases) in
 * several threads: few blocks fit a slab, so slabs fill and empty all the time, and allocators that
 * keep no such blocks in thread caches meet at a lock.
 *
 * Each cycle replaces a randomly chosen block of the thread's SLOTS by a new one of 8 to 32 KiB and
 * writes one byte in each of its pages. Checksum: all sizes and the blocks left at the end; every
 * block is checked before it is freed. It never frees across threads.
 */
#include "bench.h"

#define SIZE_LEAST (8 * BENCH_KIB)
#define SIZE_MOST (32 * BENCH_KIB)

struct slot {
    unsigned char *block;
    size_t size;
};

struct worker {
    struct slot *slot;
    size_t slots;
    uint64_t cycles;
    uint64_t random;
    uint64_t checksum;
    char apart[64];
};

static void slot_empty(struct slot *s)
{
    if (s->block == NULL)
        return;
    bench_check_pages(s->block, s->size, bench_tag((uint32_t)s->size));
    free(s->block);
}

static void worker_churn(void *arg)
{
    struct worker *w = arg;
    for (uint64_t left = w->cycles; left != 0; left--) {
        uint64_t r = bench_random(&w->random);
        struct slot *s = &w->slot[bench_below(r, w->slots)];
        slot_empty(s);
        s->size = SIZE_LEAST + bench_below(r << 32, SIZE_MOST - SIZE_LEAST + 1);
        s->block = malloc(s->size);
        if (s->block == NULL)
            bench_die(3, "malloc(%zu) failed: give fewer SLOTS or THREADS", s->size);
        bench_touch_pages(s->block, s->size, bench_tag((uint32_t)s->size));
        w->checksum += s->size;
    }
}

int main(int argc, char **argv)
{
    static struct worker worker[BENCH_MAX_THREADS];
    bench_expect_args(argc, argv, 4, 4, "mid_threads CYCLES SLOTS SEED THREADS");
    uint64_t cycles = bench_number(argc, argv, 1, "CYCLES", 1, UINT64_C(1) << 40);
    size_t slots = bench_number(argc, argv, 2, "SLOTS", 1, UINT32_MAX);
    uint64_t seed = bench_number(argc, argv, 3, "SEED", 0, UINT64_MAX);
    unsigned threads = (unsigned)bench_number(argc, argv, 4, "THREADS", 1, BENCH_MAX_THREADS);

    for (unsigned i = 0; i < threads; i++) {
        worker[i].slot = calloc(slots, sizeof(struct slot));
        if (worker[i].slot == NULL)
            bench_die(3, "no memory for %zu slots: give fewer SLOTS", slots);
        worker[i].slots = slots;
        worker[i].cycles = cycles;
        worker[i].random = bench_seed(seed, i);
    }
    uint64_t elapsed = bench_run_threads(threads, worker_churn, worker, sizeof worker[0]);
    uint64_t checksum = 0;
    for (unsigned t = 0; t < threads; t++) {
        for (size_t i = 0; i < slots; i++) {
            checksum = bench_mix(checksum, worker[t].slot[i].size);
            slot_empty(&worker[t].slot[i]);
        }
        free(worker[t].slot);
        checksum = bench_mix(checksum, worker[t].checksum);
    }
    bench_report("mid_threads", cycles * threads, elapsed, checksum);
    bench_work_freed("mid_threads");
    return 0;
}
