/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: latency. How long single calls take, not on average but at worst: whoever answers
 * requests waits for the call in a thousand that gives memory back, takes a lock, or goes through
 * lists. `latency list` names the workloads and says what each does.
 *
 * An allocation is timed with the first write to each of its pages, for who leaves that to the
 * program has not done the work; a free is the call alone. Metrics: the percentiles alloc_p50,
 * alloc_p99, alloc_p999 (99.9) and alloc_p9999, and alloc_max, in ns, and alloc_slow: how much of
 * the time of all went to calls of 10 us and more, in percent; free_p50 and so on likewise. Each
 * duration contains one reading of the clock, some 20 ns; they are kept to 3% (64 steps a doubling,
 * as in HdrHistogram). And what is resident when all is freed: who gives nothing back has less to
 * do. Checksum: the sizes of all blocks; their ends are checked.
 */
#include "bench.h"

#include <stdatomic.h>

#define STEPS 64u /* a doubling */
#define DOUBLINGS 40u
#define SLOW_NS 10000u
#define MOST_THREADS 4u

/* How often each duration came. */
struct histogram {
    uint64_t count[DOUBLINGS * STEPS];
    uint64_t calls, longest_ns, all_ns, slow_ns;
};

struct worker {
    const struct workload *what;
    uint64_t random, checksum;
    struct histogram alloc, release;
};

struct workload {
    const char *name;
    void (*run)(struct worker *);
    unsigned threads;
    uint32_t slots, least_bytes, most_bytes; /* as many in each doubling of the size */
    uint32_t steps;                          /* of each thread */
    const char *text;
};

static struct worker workers[MOST_THREADS];

/* --- durations --- */

static unsigned histogram_step(uint64_t ns)
{
    if (ns < STEPS)
        return (unsigned)ns;
    unsigned doubling = 63u - (unsigned)__builtin_clzll(ns / STEPS);
    unsigned step = (doubling + 1) * STEPS + (unsigned)((ns >> doubling) - STEPS);
    return step < DOUBLINGS * STEPS ? step : DOUBLINGS * STEPS - 1;
}

/* The longest duration of a step. */
static uint64_t histogram_ns(unsigned step)
{
    unsigned doubling = step < STEPS ? 0 : step / STEPS - 1;
    uint64_t first = step < STEPS ? step : (uint64_t)(STEPS + step % STEPS) << doubling;
    return first + ((uint64_t)1 << doubling) - 1;
}

static void histogram_add(struct histogram *h, uint64_t ns)
{
    h->count[histogram_step(ns)]++;
    h->calls++;
    h->all_ns += ns;
    if (ns >= SLOW_NS)
        h->slow_ns += ns;
    if (ns > h->longest_ns)
        h->longest_ns = ns;
}

static void histogram_join(struct histogram *h, const struct histogram *more)
{
    for (unsigned i = 0; i < DOUBLINGS * STEPS; i++)
        h->count[i] += more->count[i];
    h->calls += more->calls;
    h->all_ns += more->all_ns;
    h->slow_ns += more->slow_ns;
    if (more->longest_ns > h->longest_ns)
        h->longest_ns = more->longest_ns;
}

/* All but one in so many calls take this or less. */
static uint64_t histogram_all_but(const struct histogram *h, uint64_t one_in)
{
    uint64_t above = h->calls / one_in;
    for (unsigned i = DOUBLINGS * STEPS; i-- > 0;) {
        if (h->count[i] > above)
            return histogram_ns(i) < h->longest_ns ? histogram_ns(i) : h->longest_ns;
        above -= h->count[i];
    }
    return 0;
}

static void histogram_print(const char *calls, const struct histogram *h)
{
    static const struct {
        const char *name;
        uint64_t one_in;
    } points[] = {{"p50", 2}, {"p99", 100}, {"p999", 1000}, {"p9999", 10000}};
    char name[32];
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        snprintf(name, sizeof name, "%s_%s", calls, points[i].name);
        bench_metric("latency", name, (double)histogram_all_but(h, points[i].one_in), "ns");
    }
    snprintf(name, sizeof name, "%s_max", calls);
    bench_metric("latency", name, (double)h->longest_ns, "ns");
    snprintf(name, sizeof name, "%s_slow", calls);
    bench_metric("latency", name, 100 * (double)h->slow_ns / (double)(h->all_ns + 1), "percent");
}

/* --- blocks --- */

static uint32_t draw_bytes(struct worker *w)
{
    uint64_t random = bench_random(&w->random);
    uint32_t least = w->what->least_bytes, most = w->what->most_bytes;
    unsigned doublings = 31u - (unsigned)__builtin_clz(most / least);
    uint32_t from = least << bench_below(random << 32, doublings);
    return from + (uint32_t)bench_below(random, from);
}

static void *place(struct worker *w, uint32_t bytes)
{
    w->checksum = bench_mix(w->checksum, bytes);
    uint64_t begin = bench_now_ns();
    unsigned char *p = malloc(bytes);
    if (p == NULL)
        bench_die(3, "malloc(%" PRIu32 ") failed: %s", bytes, strerror(errno));
    bench_touch_pages(p, bytes, 0);
    histogram_add(&w->alloc, bench_now_ns() - begin);
    bench_block_mark(p, bytes);
    return p;
}

static void release(struct worker *w, void *p)
{
    bench_block_check(p);
    uint64_t begin = bench_now_ns();
    free(p);
    histogram_add(&w->release, bench_now_ns() - begin);
}

static void fill(struct worker *w, void **block, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        block[i] = place(w, draw_bytes(w));
}

static void empty(struct worker *w, void **block, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        release(w, block[i]);
}

/* The list of blocks is the program's own memory. */
#define MOST_SLOTS (UINT32_C(1) << 19)
static void *slots[MOST_THREADS][MOST_SLOTS];

/* --- workloads --- */

/* Blocks are replaced at random. */
static void replaced(struct worker *w)
{
    void **slot = slots[w - workers];
    fill(w, slot, w->what->slots);
    for (uint32_t i = 0; i < w->what->steps; i++) {
        size_t at = bench_below(bench_random(&w->random), w->what->slots);
        release(w, slot[at]);
        slot[at] = place(w, draw_bytes(w));
    }
    empty(w, slot, w->what->slots);
}

/* All is allocated, then all is freed in random order, again and again. */
static void phases(struct worker *w)
{
    void **slot = slots[w - workers];
    for (uint32_t done = 0; done < w->what->steps; done += w->what->slots) {
        fill(w, slot, w->what->slots);
        for (uint32_t left = w->what->slots; left > 0; left--) {
            size_t at = bench_below(bench_random(&w->random), left);
            release(w, slot[at]);
            slot[at] = slot[left - 1];
        }
    }
}

/* A request allocates many blocks and frees them at its end, the newest first; of each a block
 * stays in a cache, in the place of another. */
#define REQUEST_BLOCKS 300u
static void requests(struct worker *w)
{
    void **kept = slots[w - workers], *block[REQUEST_BLOCKS];
    fill(w, kept, w->what->slots);
    for (uint32_t done = 0; done < w->what->steps; done += REQUEST_BLOCKS) {
        fill(w, block, REQUEST_BLOCKS);
        size_t stays = bench_below(bench_random(&w->random), REQUEST_BLOCKS);
        size_t at = bench_below(bench_random(&w->random), w->what->slots);
        void *before = kept[at];
        kept[at] = block[stays];
        block[stays] = before;
        for (uint32_t i = REQUEST_BLOCKS; i-- > 0;)
            release(w, block[i]);
    }
    empty(w, kept, w->what->slots);
}

/* The first thread allocates, the second frees, with a ring between them. */
#define RING_BLOCKS 4096u
static struct {
    _Atomic(uint64_t) given, taken;
    void *block[RING_BLOCKS];
} ring;

static void handed(struct worker *w)
{
    bool gives = w == &workers[0];
    for (uint64_t i = 0; i < w->what->steps; i++) {
        while (gives ? i - atomic_load(&ring.taken) == RING_BLOCKS : atomic_load(&ring.given) == i)
            sched_yield();
        if (gives) {
            ring.block[i % RING_BLOCKS] = place(w, draw_bytes(w));
            atomic_store(&ring.given, i + 1);
        } else {
            release(w, ring.block[i % RING_BLOCKS]);
            atomic_store(&ring.taken, i + 1);
        }
    }
}

static const struct workload workloads[] = {
    {"small", replaced, 1, 100000, 16, 512, 4000000,
     "100,000 blocks of 16 to 511 bytes that are replaced at random"},
    {"mixed", replaced, 1, 5000, 16, 65536, 4000000,
     "5,000 blocks of 16 bytes to 64 KiB that are replaced at random"},
    {"large", replaced, 1, 40, 65536, 4194304, 100000,
     "40 blocks of 64 KiB to 4 MiB that are replaced at random"},
    {"phases", phases, 1, 400000, 16, 512, 4000000,
     "400,000 blocks of 16 to 511 bytes, allocated, then freed in random order, ten times"},
    {"phases_mixed", phases, 1, 20000, 16, 32768, 1000000,
     "20,000 blocks of 16 bytes to 32 KiB, allocated, then freed in random order, 50 times"},
    {"requests", requests, 1, 20000, 16, 8192, 6000000,
     "requests that allocate 300 blocks of 16 bytes to 8 KiB and free them; one of each stays in a "
     "cache of 20,000"},
    {"threads", replaced, 4, 20000, 16, 4096, 1000000,
     "four threads, of which each replaces 20,000 blocks of 16 bytes to 4 KiB at random"},
    {"handed", handed, 2, 0, 16, 1024, 3000000,
     "one thread allocates blocks of 16 to 1,023 bytes, another frees them"},
};
#define WORKLOADS (sizeof workloads / sizeof workloads[0])

static void worker_main(void *arg)
{
    struct worker *w = arg;
    w->what->run(w);
}

static void run(const struct workload *what)
{
    for (unsigned i = 0; i < what->threads; i++)
        workers[i] = (struct worker){.what = what, .random = bench_seed(42, i)};
    uint64_t elapsed = bench_run_threads(what->threads, worker_main, workers, sizeof workers[0]);
    for (unsigned i = 1; i < what->threads; i++) {
        histogram_join(&workers[0].alloc, &workers[i].alloc);
        histogram_join(&workers[0].release, &workers[i].release);
        workers[0].checksum = bench_mix(workers[0].checksum, workers[i].checksum);
    }
    struct worker *all = &workers[0];
    bench_report("latency", all->alloc.calls + all->release.calls, elapsed, all->checksum);
    histogram_print("alloc", &all->alloc);
    histogram_print("free", &all->release);
    bench_work_freed("latency");
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 1, 1, "latency NAME, or latency list");
    bool list = strcmp(argv[1], "list") == 0;
    for (size_t i = 0; i < WORKLOADS; i++) {
        if (list) {
            printf("%s: %s\n", workloads[i].name, workloads[i].text);
        } else if (strcmp(argv[1], workloads[i].name) == 0) {
            run(&workloads[i]);
            return 0;
        }
    }
    if (!list)
        bench_die(2, "%s: there is no workload '%s'; `latency list` names them", argv[0], argv[1]);
    return 0;
}
