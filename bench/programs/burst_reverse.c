/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: burst_reverse. Stresses bursts: a request comes, BLOCKS small blocks of 16 to 96 bytes
 * are allocated for it, and when it is answered they are freed in reverse, BURSTS times. What a
 * parser or an evaluator does. A thread's cache must be deep enough for a burst, or refill cheaply.
 *
 * Checksum: the sizes of all blocks in the order of their end. It never starts a thread.
 */
#include "bench.h"

#define BLOCKS_MOST 100000u
#define SIZE_LEAST 16u
#define SIZE_SPAN 81u

int main(int argc, char **argv)
{
    static unsigned char *block[BLOCKS_MOST];
    bench_expect_args(argc, argv, 1, 2, "burst_reverse BURSTS [BLOCKS]");
    uint64_t bursts = bench_number(argc, argv, 1, "BURSTS", 1, UINT64_C(1) << 40);
    size_t blocks = bench_number_or(argc, argv, 2, "BLOCKS", 1, BLOCKS_MOST, 1000);
    uint64_t random = bench_seed(42, 0), checksum = 0;
    uint64_t begin = bench_now_ns();
    for (uint64_t n = 0; n < bursts; n++) {
        for (size_t i = 0; i < blocks; i++)
            block[i] = bench_block_new(SIZE_LEAST +
                                       (uint32_t)bench_below(bench_random(&random), SIZE_SPAN));
        for (size_t i = blocks; i-- > 0;) {
            checksum += bench_block_check(block[i]) * (i + 1);
            free(block[i]);
        }
        checksum = bench_mix(checksum, n);
    }
    bench_report("burst_reverse", bursts * blocks, bench_now_ns() - begin, checksum);
    return 0;
}
