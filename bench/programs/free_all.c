/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: free_all. Stresses giving memory back: a program that had COUNT (1.6 million) blocks
 * of SIZE (240) bytes and has freed all of them should not keep the memory. The blocks are freed by
 * the thread that allocated them (owner) or by another one (other), where they have to find their
 * way home first. With KEEP one block in so many stays: does what lies between them go, and stay
 * away, also where the system puts huge pages together in the background?
 *
 * Resident memory is taken full, right after the last free, with QUIET_MS after so many
 * milliseconds in which nobody calls the allocator, and half a second later, in which the
 * allocating thread allocates and frees a little now and then, as a program that goes on would.
 * Checksum: the numbers in all blocks. It never calls malloc_trim.
 */
#include "bench.h"

struct work {
    unsigned char **block;
    uint64_t count;
    uint64_t keep; /* one block in so many; 0: none */
    uint64_t checksum;
};

static void work_fill(struct work *w, size_t size)
{
    for (uint64_t i = 0; i < w->count; i++) {
        w->block[i] = malloc(size);
        if (w->block[i] == NULL)
            bench_die(3, "out of memory at block %" PRIu64 ": give a smaller COUNT", i);
        memset(w->block[i], (int)(i & 0xff), size);
        memcpy(w->block[i], &i, sizeof i);
    }
}

static void *work_free(void *arg)
{
    struct work *w = arg;
    for (uint64_t i = 0; i < w->count; i++) {
        uint64_t number;
        memcpy(&number, w->block[i], sizeof number);
        if (number != i)
            bench_die(1, "block %" PRIu64 " was overwritten", i);
        w->checksum = bench_mix(w->checksum, number);
        if (w->keep == 0 || i % w->keep != 0)
            free(w->block[i]);
    }
    return NULL;
}

/* Half a second of a program that is nearly idle. */
static void idle_a_little(void)
{
    for (int i = 0; i < 10; i++) {
        for (uint32_t size = 16; size < 1024; size += 16)
            free(bench_block_new(size));
        bench_sleep_ms(50);
    }
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 1, 5, "free_all owner|other [COUNT [SIZE [QUIET_MS [KEEP]]]]");
    bool other = strcmp(argv[1], "other") == 0;
    if (!other && strcmp(argv[1], "owner") != 0)
        bench_die(2, "%s: '%s' is neither 'owner' nor 'other'", argv[0], argv[1]);
    struct work work = {.count = bench_number_or(argc, argv, 2, "COUNT", 1, UINT32_MAX, 1600000)};
    size_t size = bench_number_or(argc, argv, 3, "SIZE", sizeof(uint64_t), BENCH_MIB, 240);
    long quiet_ms = (long)bench_number_or(argc, argv, 4, "QUIET_MS", 0, 100000, 0);
    work.keep = bench_number_or(argc, argv, 5, "KEEP", 0, UINT32_MAX, 0);
    work.block = calloc(work.count, sizeof *work.block);
    if (work.block == NULL)
        bench_die(3, "no memory for %" PRIu64 " pointers: give a smaller COUNT", work.count);

    uint64_t begin = bench_now_ns();
    work_fill(&work, size);
    uint64_t rss_full = bench_rss_kb();
    if (other)
        pthread_join(bench_thread_start(work_free, &work, 0), NULL);
    else
        work_free(&work);
    uint64_t elapsed = bench_now_ns() - begin;
    if (work.keep == 0)
        free(work.block);
    uint64_t rss_freed = bench_rss_kb();
    bench_sleep_ms(quiet_ms);
    uint64_t rss_quiet = bench_rss_kb();
    idle_a_little();
    bench_report("free_all", work.count, elapsed, work.checksum);
    bench_metric("free_all", "rss_full", (double)rss_full, "kB");
    bench_metric("free_all", "rss_at_once", (double)rss_freed, "kB");
    if (quiet_ms != 0)
        bench_metric("free_all", "rss_quiet", (double)rss_quiet, "kB");
    bench_live_peak("free_all", work.count * (size + sizeof *work.block));
    bench_work_freed("free_all");
    return 0;
}
