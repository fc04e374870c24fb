/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: return_peak. Stresses giving back after a peak: a program needs MIB MiB for a moment,
 * in blocks of 16 bytes to 64 KiB (as many bytes in each doubling), PEAKS (3) times, and then goes
 * on with next to nothing. What matters is what stays resident: at once, and after a while of
 * idleness.
 *
 * Checksum: sizes and ends of all blocks. It never calls malloc_trim and never starts a thread.
 */
#include "bench.h"

#define DOUBLINGS 12u

/* A size of 16 to 65,535 bytes; small ones are as much more frequent as they are smaller. */
static uint32_t peak_size(uint64_t *random)
{
    uint64_t r = bench_random(random);
    unsigned doubling = (unsigned)__builtin_ctzll((r >> 8) | (UINT64_C(1) << (DOUBLINGS - 1)));
    uint32_t least = 16u << doubling;
    return least + (uint32_t)bench_below(bench_random(random), least);
}

struct peak {
    unsigned char **block;
    size_t count;
    uint64_t live;
};

static void peak_climb(struct peak *p, size_t most, uint64_t bytes, uint64_t *random)
{
    p->live = 0;
    for (p->count = 0; p->count < most && p->live < bytes; p->count++) {
        uint32_t size = peak_size(random);
        p->block[p->count] = bench_block_new(size);
        if (size > BENCH_PAGE_BYTES)
            for (size_t at = BENCH_PAGE_BYTES; at + 1 < size; at += BENCH_PAGE_BYTES)
                p->block[p->count][at] = 1;
        p->live += size;
    }
}

static uint64_t peak_descend(struct peak *p, uint64_t checksum)
{
    for (size_t i = 0; i < p->count; i++) {
        checksum = bench_mix(checksum, bench_block_check(p->block[i]));
        free(p->block[i]);
    }
    return checksum;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 1, 2, "return_peak MIB [PEAKS]");
    uint64_t bytes = bench_number(argc, argv, 1, "MIB", 1, 1u << 20) * BENCH_MIB;
    uint64_t peaks = bench_number_or(argc, argv, 2, "PEAKS", 1, UINT32_MAX, 3);
    size_t most = bytes / 16;
    struct peak peak = {.block = calloc(most, sizeof *peak.block)};
    if (peak.block == NULL)
        bench_die(3, "no memory for %zu pointers: give a smaller MIB", most);
    uint64_t random = bench_seed(42, 0), checksum = 0, operations = 0, live = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t n = 0; n < peaks; n++) {
        peak_climb(&peak, most, bytes, &random);
        live = peak.live > live ? peak.live : live;
        checksum = peak_descend(&peak, checksum);
        operations += peak.count;
    }
    uint64_t elapsed = bench_now_ns() - begin;
    live += peak.count * sizeof *peak.block;
    free(peak.block);
    bench_report("return_peak", operations, elapsed, checksum);
    bench_live_peak("return_peak", live);
    bench_work_freed("return_peak");
    return 0;
}
