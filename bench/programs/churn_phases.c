/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: churn_phases. Stresses how memory moves between size classes: a program whose phases
 * use blocks of different sizes, with the same number of bytes live. At the end of a phase most
 * blocks die, but one in 16 lives on, anywhere. Memory of a class that has gone out of use must
 * come back to the others: what is resident at the end should not be the sum of all phases.
 *
 * Each cycle picks a slot: frees its block, or allocates one of the phase's sizes. Checksum: all
 * sizes, and every block that dies at the end of a phase. It never starts a thread.
 */
#include "bench.h"

#define SURVIVORS_ONE_IN 16u

struct phase {
    uint32_t least, most;
};

static const struct phase phases[] = {
    {16, 48},      {64, 128},  {1024, 2048}, {160, 320}, {3072, 6144},
    {8192, 16384}, {384, 768}, {16, 1024},   {32, 64},   {2048, 32768},
};
#define PHASES (sizeof phases / sizeof phases[0])

struct heap {
    unsigned char **slot;
    size_t slots;
    uint64_t random;
    uint64_t checksum;
};

static void heap_churn(struct heap *h, const struct phase *phase, size_t slots, uint64_t cycles)
{
    uint32_t span = phase->most - phase->least + 1;
    for (uint64_t left = cycles; left != 0; left--) {
        uint64_t r = bench_random(&h->random);
        unsigned char **place = &h->slot[bench_below(r, slots)];
        if (*place != NULL) {
            free(*place);
            *place = NULL;
        } else {
            uint32_t size = phase->least + (uint32_t)bench_below(r << 32, span);
            *place = bench_block_new(size);
            h->checksum += size;
        }
    }
}

/* Frees every block but one in `keep_one_in`; 0 keeps none. */
static void heap_thin_out(struct heap *h, size_t keep_one_in)
{
    for (size_t i = 0; i < h->slots; i++) {
        if (h->slot[i] == NULL || (keep_one_in != 0 && i % keep_one_in == 0))
            continue;
        h->checksum = bench_mix(h->checksum, bench_block_check(h->slot[i]));
        free(h->slot[i]);
        h->slot[i] = NULL;
    }
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 3, 3, "churn_phases MIB CYCLES SEED");
    size_t live_bytes = bench_number(argc, argv, 1, "MIB", 1, 4096) * BENCH_MIB;
    uint64_t cycles = bench_number(argc, argv, 2, "CYCLES", PHASES, UINT64_C(1) << 40);
    struct heap heap = {.slots = live_bytes / 16};
    heap.random = bench_seed(bench_number(argc, argv, 3, "SEED", 0, UINT64_MAX), 0);
    heap.slot = calloc(heap.slots, sizeof *heap.slot);
    if (heap.slot == NULL)
        bench_die(3, "no memory for %zu slots: give a smaller MIB", heap.slots);

    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < PHASES; i++) {
        /* half of the slots in use are full at any time, hence twice the number */
        size_t mean = (phases[i].least + phases[i].most) / 2;
        size_t slots = 2 * live_bytes / mean < heap.slots ? 2 * live_bytes / mean : heap.slots;
        heap_churn(&heap, &phases[i], slots, cycles / PHASES);
        heap_thin_out(&heap, SURVIVORS_ONE_IN);
    }
    uint64_t elapsed = bench_now_ns() - begin;
    uint64_t rss_end = bench_rss_kb();
    heap_thin_out(&heap, 0);
    free(heap.slot);
    bench_report("churn_phases", cycles / PHASES * PHASES, elapsed, heap.checksum);
    bench_work_freed("churn_phases");
    bench_metric("churn_phases", "rss_survivors", (double)rss_end, "kB");
    bench_metric("churn_phases", "rss_peak", (double)bench_peak_rss_kb(), "kB");
    return 0;
}
