/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: batch_jobs. Stresses what is kept between jobs: JOBS jobs one after the other, each of
 * which needs MIB MiB in blocks of 512 bytes to 16 KiB, writes them, frees them all and leaves a
 * result of some blocks of the same sizes behind (a call site of its own). Between jobs the program
 * waits PAUSE_MS. An allocator that gives everything back between jobs pays for page faults in each
 * of them; one that has learned the rhythm keeps what the next job needs.
 *
 * Checksum: sizes and ends of all blocks. It never starts a thread.
 */
#include "bench.h"

#define RESULTS 64u /* of each job */

static uint32_t size_next(uint64_t *random)
{
    uint64_t r = bench_random(random);
    return (uint32_t)(512u << bench_below(r, 5)) + (uint32_t)bench_below(r << 32, 512);
}

__attribute__((noinline)) static unsigned char *work_new(uint32_t size)
{
    unsigned char *block = bench_block_new(size);
    for (uint32_t at = BENCH_PAGE_BYTES; at + 1 < size; at += BENCH_PAGE_BYTES)
        block[at] = 1;
    return block;
}

__attribute__((noinline)) static unsigned char *result_new(uint32_t size)
{
    unsigned char *block = bench_block_new(size);
    for (uint32_t at = BENCH_PAGE_BYTES; at + 1 < size; at += BENCH_PAGE_BYTES)
        block[at] = 2;
    return block;
}

static uint64_t block_end(unsigned char *block)
{
    uint64_t size = bench_block_check(block);
    free(block);
    return size;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 3, 3, "batch_jobs MIB JOBS PAUSE_MS");
    uint64_t bytes = bench_number(argc, argv, 1, "MIB", 1, 16384) * BENCH_MIB;
    uint64_t jobs = bench_number(argc, argv, 2, "JOBS", 1, 10000);
    long pause_ms = (long)bench_number(argc, argv, 3, "PAUSE_MS", 0, 10000);
    size_t most = bytes / 512;
    unsigned char **work = malloc(most * sizeof *work);
    unsigned char **result = malloc(jobs * RESULTS * sizeof *result);
    if (work == NULL || result == NULL)
        bench_die(3, "no memory for %zu pointers: give a smaller MIB", most);
    uint64_t random = bench_seed(29, 0), checksum = 0, work_ns = 0, made = 0;
    size_t results = 0;
    for (uint64_t j = 0; j < jobs; j++) {
        uint64_t begin = bench_now_ns(), live = 0;
        size_t count = 0;
        while (live < bytes && count < most) {
            uint32_t size = size_next(&random);
            work[count++] = work_new(size);
            live += size;
            if (results < (size_t)((double)(j * RESULTS) + (double)live / (double)bytes * RESULTS))
                result[results++] = result_new(size_next(&random));
        }
        made += count;
        while (count != 0)
            checksum = bench_mix(checksum, block_end(work[--count]));
        work_ns += bench_now_ns() - begin;
        bench_sleep_ms(pause_ms);
    }
    while (results != 0)
        checksum = bench_mix(checksum, block_end(result[--results]));
    free(result);
    free(work);
    bench_report("batch_jobs", made, work_ns, checksum);
    bench_live_peak("batch_jobs", bytes);
    bench_work_freed("batch_jobs");
    return 0;
}
