/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: idle_threads. Stresses memory of threads that rest: THREADS threads take turns; each
 * works in a burst (requests whose blocks of 32 to 512 bytes all die at its end, and a session
 * record of 48 to 112 bytes for one in fifty, which stays) and then sleeps until its next turn.
 * What a resting thread holds should be its sessions, not its last burst.
 *
 * Checksum: sizes of all blocks. Sessions are freed by the main thread at the end.
 */
#include "bench.h"

#define BURST_BLOCKS 60000u
#define SESSION_ONE_IN 50u
#define MOST_THREADS 64u

struct worker {
    pthread_t thread;
    uint64_t random, checksum, work_ns;
    unsigned number, threads, bursts;
    long turn_ms;
    unsigned char **session;
    size_t sessions;
};

__attribute__((noinline)) static unsigned char *session_new(uint64_t r)
{
    return bench_block_new(48 + 16 * (uint32_t)bench_below(r, 5));
}

__attribute__((noinline)) static unsigned char *request_new(uint64_t r)
{
    uint32_t most = bench_below(r << 32, 8) == 0 ? 480 : 96;
    return bench_block_new(32 + (uint32_t)bench_below(r, most));
}

static void worker_burst(struct worker *w, unsigned char **request)
{
    size_t used = 0;
    for (size_t i = 0; i < BURST_BLOCKS; i++) {
        uint64_t r = bench_random(&w->random);
        if (bench_below(bench_random(&w->random), SESSION_ONE_IN) == 0)
            w->session[w->sessions++] = session_new(r);
        else
            request[used++] = request_new(r);
    }
    while (used != 0) {
        w->checksum += bench_block_check(request[--used]);
        free(request[used]);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    unsigned char **request = malloc(BURST_BLOCKS * sizeof *request);
    w->session = malloc((size_t)w->bursts * BURST_BLOCKS * sizeof *w->session);
    if (request == NULL || w->session == NULL)
        bench_die(3, "no memory for the blocks of a thread: give fewer BURSTS");
    bench_sleep_ms((long)w->number * w->turn_ms);
    for (unsigned b = 0; b < w->bursts; b++) {
        uint64_t begin = bench_now_ns();
        worker_burst(w, request);
        w->work_ns += bench_now_ns() - begin;
        bench_sleep_ms((long)w->threads * w->turn_ms);
    }
    free(request);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker worker[MOST_THREADS];
    bench_expect_args(argc, argv, 3, 3, "idle_threads THREADS BURSTS TURN_MS");
    unsigned threads = (unsigned)bench_number(argc, argv, 1, "THREADS", 1, MOST_THREADS);
    unsigned bursts = (unsigned)bench_number(argc, argv, 2, "BURSTS", 1, 1000);
    long turn_ms = (long)bench_number(argc, argv, 3, "TURN_MS", 0, 10000);
    uint64_t checksum = 0, work_ns = 0;
    for (unsigned i = 0; i < threads; i++) {
        worker[i] = (struct worker){.random = bench_seed(17, i),
                                    .number = i,
                                    .threads = threads,
                                    .bursts = bursts,
                                    .turn_ms = turn_ms};
        worker[i].thread = bench_thread_start(worker_main, &worker[i], 0);
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(worker[i].thread, NULL);
    uint64_t rested_rss = bench_rss_kb();
    for (unsigned i = 0; i < threads; i++) {
        work_ns += worker[i].work_ns;
        checksum = bench_mix(checksum, worker[i].checksum);
        for (size_t s = 0; s < worker[i].sessions; s++) {
            checksum += bench_block_check(worker[i].session[s]);
            free(worker[i].session[s]);
        }
        free(worker[i].session);
    }
    bench_report("idle_threads", (uint64_t)threads * bursts * BURST_BLOCKS, work_ns, checksum);
    bench_metric("idle_threads", "rss_rested", (double)rested_rss, "kB");
    bench_work_freed("idle_threads");
    return 0;
}
