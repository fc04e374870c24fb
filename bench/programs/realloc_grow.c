/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: realloc_grow. Stresses realloc of one huge block that grows from 1 MiB to MIB MiB in
 * steps of 1 MiB, where only the new part is written (a growing array or log). Growing in place or
 * moving pages costs next to nothing; copying costs the square.
 *
 * Checksum: one word of every MiB, read at the end. It never shrinks the block.
 */
#include "bench.h"

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 0, 1, "realloc_grow [MIB]");
    uint64_t mib = bench_number_or(argc, argv, 1, "MIB", 1, 1u << 20, 1024);
    unsigned char *block = NULL;
    uint64_t begin = bench_now_ns();
    for (uint64_t n = 0; n < mib; n++) {
        unsigned char *larger = realloc(block, (n + 1) * BENCH_MIB);
        if (larger == NULL)
            bench_die(3, "realloc to %" PRIu64 " MiB failed: give a smaller MIB", n + 1);
        block = larger;
        memset(block + n * BENCH_MIB, (int)(n & 0xff), BENCH_MIB);
        memcpy(block + n * BENCH_MIB + 512, &n, sizeof n);
    }
    uint64_t elapsed = bench_now_ns() - begin;
    uint64_t checksum = 0;
    for (uint64_t n = 0; n < mib; n++) {
        uint64_t number;
        const unsigned char *part = block + n * BENCH_MIB;
        memcpy(&number, part + 512, sizeof number);
        if (number != n || part[0] != (n & 0xff) || part[BENCH_MIB - 1] != (n & 0xff))
            bench_die(1, "MiB %" PRIu64 " was lost when the block grew", n);
        checksum = bench_mix(checksum, number);
    }
    free(block);
    bench_report("realloc_grow", mib, elapsed, checksum);
    bench_live_peak("realloc_grow", mib * BENCH_MIB);
    bench_metric("realloc_grow", "per_step", (double)elapsed / (double)mib / 1e3, "us");
    return 0;
}
