/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: larson, our own code for the benchmark that Larson and Krishnan described in 1998: a
 * server whose threads come and go while their blocks live on. Stresses frees of blocks that an
 * ended thread allocated, adoption of its slabs, and thread start and end.
 *
 * THREADS lines of threads run at once. A thread replaces randomly chosen blocks of its CHUNKS by
 * new ones of MIN to MAX bytes; after ROUNDS rounds of CHUNKS replacements it starts a successor,
 * which inherits the blocks, and ends. SECONDS 0 means fixed work: 20 threads in each line.
 *
 * Checksum (fixed work only, a timed run prints 0): all sizes, and the ends of the blocks left.
 * Each thread checks every block that it inherits. It never waits while it measures.
 */
#include "bench.h"

#define FIXED_GENERATIONS 20u

struct line {
    unsigned char **block;
    uint64_t random;
    uint64_t replaced;
    uint64_t size_sum;
    unsigned generation;
    char apart[64];
};

static struct line line[BENCH_MAX_THREADS];
static uint64_t seconds, chunks, rounds;
static uint32_t size_least, size_span;
static _Atomic bool stop;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t line_ended = PTHREAD_COND_INITIALIZER;
static unsigned lines_running;

static uint32_t line_random_size(struct line *l)
{
    return size_least + (uint32_t)bench_below(bench_random(&l->random), size_span);
}

static void line_end(void)
{
    pthread_mutex_lock(&lock);
    lines_running--;
    pthread_cond_signal(&line_ended);
    pthread_mutex_unlock(&lock);
}

static void *line_thread(void *arg)
{
    struct line *l = arg;
    for (uint64_t i = 0; i < chunks; i++)
        bench_block_check(l->block[i]);
    for (uint64_t round = 0; round < rounds && !stop; round++) {
        for (uint64_t i = 0; i < chunks; i++) {
            unsigned char **victim = &l->block[bench_below(bench_random(&l->random), chunks)];
            uint32_t size = line_random_size(l);
            free(*victim);
            *victim = bench_block_new(size);
            l->size_sum += size;
        }
        l->replaced += chunks;
    }
    l->generation++;
    if (stop || (seconds == 0 && l->generation == FIXED_GENERATIONS))
        line_end();
    else
        pthread_detach(bench_thread_start(line_thread, l, 0));
    return NULL;
}

static void lines_run(unsigned threads)
{
    lines_running = threads;
    for (unsigned i = 0; i < threads; i++)
        pthread_detach(bench_thread_start(line_thread, &line[i], 0));
    if (seconds != 0) {
        bench_sleep_ms((long)seconds * 1000);
        stop = true;
    }
    pthread_mutex_lock(&lock);
    while (lines_running != 0)
        pthread_cond_wait(&line_ended, &lock);
    pthread_mutex_unlock(&lock);
}

static uint64_t line_finish(struct line *l)
{
    uint64_t checksum = l->size_sum;
    for (uint64_t i = 0; i < chunks; i++) {
        checksum = bench_mix(checksum, bench_block_check(l->block[i]));
        free(l->block[i]);
    }
    free(l->block);
    return checksum;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 7, 7, "larson SECONDS MIN MAX CHUNKS ROUNDS SEED THREADS");
    seconds = bench_number(argc, argv, 1, "SECONDS", 0, 86400);
    size_least = (uint32_t)bench_number(argc, argv, 2, "MIN", 5, 1u << 20);
    uint32_t size_most = (uint32_t)bench_number(argc, argv, 3, "MAX", size_least, 1u << 20);
    chunks = bench_number(argc, argv, 4, "CHUNKS", 1, UINT32_MAX);
    rounds = bench_number(argc, argv, 5, "ROUNDS", 1, UINT32_MAX);
    uint64_t seed = bench_number(argc, argv, 6, "SEED", 0, UINT64_MAX);
    unsigned threads = (unsigned)bench_number(argc, argv, 7, "THREADS", 1, BENCH_MAX_THREADS);
    size_span = size_most - size_least + 1;

    for (unsigned t = 0; t < threads; t++) {
        line[t].random = bench_seed(seed, t);
        line[t].block = calloc(chunks, sizeof(unsigned char *));
        if (line[t].block == NULL)
            bench_die(3, "no memory for %" PRIu64 " chunks: give fewer CHUNKS", chunks);
        for (uint64_t i = 0; i < chunks; i++)
            line[t].block[i] = bench_block_new(line_random_size(&line[t]));
    }
    uint64_t begin = bench_now_ns();
    lines_run(threads);
    uint64_t elapsed = bench_now_ns() - begin;
    uint64_t checksum = 0, replaced = 0;
    for (unsigned t = 0; t < threads; t++) {
        checksum = bench_mix(checksum, line_finish(&line[t]));
        replaced += line[t].replaced;
    }
    bench_report("larson", replaced, elapsed, seconds == 0 ? checksum : 0);
    bench_work_freed("larson");
    return 0;
}
