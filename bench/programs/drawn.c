/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: drawn. A workload whose every property is drawn from SEED: how many threads there are
 * and whether they are born anew, which sizes and alignments blocks have, how much is live, in
 * which order blocks are freed and by whom, how much of them is written, how often they are
 * resized. Nobody has chosen it, so nobody can have been tuned to it, and there are as many as
 * there are seeds.
 *
 * Each thread has a table of slots and makes steps. A step frees what is in a slot, if anything is,
 * and puts a new block there; or it resizes the block that is there. With several threads a part of
 * the blocks to be freed is exchanged for others through a shared table: then somebody else frees
 * them. A thread that is born anew inherits the slots of one before.
 *
 * Checksum: the sizes of all blocks freed, in any order; of each the ends are checked. A line on
 * stdout says what was drawn; with `describe` nothing else happens.
 */
#include "bench.h"

#include <stdatomic.h>

#define THREADS_MOST 8u
#define SIZES 1024u    /* drawn before the first step; a power of two */
#define SHARED 1024u   /* places where blocks are exchanged; a power of two */
#define LEAST_BYTES 8u /* a block's size and tag */
#define STEPS_MOST 4000000u
#define WRITTEN_MOST (UINT64_C(2) << 30)
/* Powers of two. The largest block, and in one workload of eight; all that is live, and there. */
#define SIZE_BITS_LEAST 5u
#define SIZE_BITS_MOST 22u
#define LARGE_SIZE_BITS_LEAST 18u
#define LARGE_SIZE_BITS_MOST 25u
#define LIVE_BITS_LEAST 18u
#define LIVE_BITS_MOST 26u
#define LARGE_LIVE_BITS_MOST 28u

enum kind { ONE_SIZE, FEW_SIZES, EVEN, MOSTLY_SMALL };
enum order { ANY, OLDEST, NEWEST, YOUNG, PHASES };
enum written { WHOLE, HEAD, PAGES };
static const char *const kind_names[] = {"one size", "few sizes", "even", "mostly small"};
static const char *const order_names[] = {"any", "oldest", "newest", "young", "phases"};
static const char *const written_names[] = {"whole", "head", "pages"};

static struct {
    unsigned threads, lives; /* of a thread, one after the other */
    enum kind kind;
    uint32_t size[SIZES]; /* ascending */
    size_t slots;         /* of a thread */
    uint64_t steps;       /* of a life */
    enum order order;
    enum written written;
    unsigned handed, resized, zeroed, aligned; /* percent of frees, steps, allocations */
} drawn;

struct worker {
    uint64_t random;
    unsigned char **slot;
    uint64_t step; /* over all lives */
    size_t depth;  /* of what is in use, where the newest goes first */
    bool falls;
    uint64_t live, live_most, freed, checksum;
};

static _Atomic(unsigned char *) shared[SHARED];

/* ---- what is drawn ---- */

static size_t draw_below(uint64_t *random, size_t limit)
{
    return bench_below(bench_random(random), limit);
}

static unsigned draw_bits(uint64_t *random, unsigned least, unsigned most)
{
    return least + (unsigned)draw_below(random, most - least);
}

/* A number with so many bits behind its first. */
static uint64_t draw_scaled(uint64_t *random, unsigned bits)
{
    return (UINT64_C(1) << bits) + draw_below(random, (size_t)1 << bits);
}

static uint32_t draw_size(uint64_t *random, uint32_t least, uint32_t most)
{
    uint32_t even = least + (uint32_t)draw_below(random, most - least + 1);
    if (drawn.kind != MOSTLY_SMALL)
        return even;
    /* One block in n has n times the least size or more. */
    uint64_t size = (uint64_t)least * 65536 / (draw_below(random, 65536) + 1);
    return size <= most ? (uint32_t)size : even;
}

static int size_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void draw_sizes(uint64_t *random, bool large)
{
    /* The smaller of two: the largest block is small more often than large. */
    unsigned bits = draw_bits(random, SIZE_BITS_LEAST, SIZE_BITS_MOST);
    unsigned other = draw_bits(random, SIZE_BITS_LEAST, SIZE_BITS_MOST);
    unsigned of_large = draw_bits(random, LARGE_SIZE_BITS_LEAST, LARGE_SIZE_BITS_MOST);
    bits = large ? of_large : bits < other ? bits : other;
    uint32_t most = (uint32_t)draw_scaled(random, bits);
    uint32_t least = LEAST_BYTES + (uint32_t)draw_below(random, most / 2);
    uint32_t small = LEAST_BYTES + (uint32_t)draw_below(random, 24);
    unsigned few = 2 + (unsigned)draw_below(random, 7);
    drawn.kind = (enum kind)draw_below(random, 4);
    if (drawn.kind == MOSTLY_SMALL)
        least = small;
    unsigned different = drawn.kind == ONE_SIZE ? 1 : drawn.kind == FEW_SIZES ? few : SIZES;
    for (unsigned i = 0; i < SIZES; i++)
        drawn.size[i] = i < different ? draw_size(random, least, most) : drawn.size[i % different];
    qsort(drawn.size, SIZES, sizeof drawn.size[0], size_compare);
}

/* From 1 to `most`, or in `never` of 100 workloads 0. */
static unsigned draw_percent(uint64_t *random, unsigned never, unsigned most)
{
    bool none = draw_below(random, 100) < never;
    unsigned percent = 1 + (unsigned)draw_below(random, most);
    return none ? 0 : percent;
}

/* So that neither many small nor few large blocks take long, but all slots are used some times. */
static void draw_steps(uint64_t mean)
{
    uint64_t written = drawn.written == WHOLE ? mean : mean / 16 + 64;
    uint64_t steps = STEPS_MOST, least = (uint64_t)drawn.slots * drawn.threads * 4;
    if (steps > WRITTEN_MOST / written)
        steps = WRITTEN_MOST / written;
    steps = steps < least ? least : steps;
    drawn.steps = steps / drawn.threads / drawn.lives + 1;
}

static void draw(uint64_t seed)
{
    static const unsigned char threads[] = {1, 1, 1, 1, 2, 2, 2, 4, 4, THREADS_MOST};
    uint64_t random = bench_seed(seed, 0);
    drawn.threads = threads[draw_below(&random, sizeof threads)];
    bool large = draw_below(&random, 8) == 0;
    draw_sizes(&random, large);
    uint64_t sum = 0;
    for (unsigned i = 0; i < SIZES; i++)
        sum += drawn.size[i];
    unsigned live_bits =
        draw_bits(&random, LIVE_BITS_LEAST, large ? LARGE_LIVE_BITS_MOST : LIVE_BITS_MOST);
    drawn.slots = (size_t)(draw_scaled(&random, live_bits) / drawn.threads / (sum / SIZES));
    drawn.slots = drawn.slots < 4 ? 4 : drawn.slots;
    drawn.order = (enum order)draw_below(&random, 5);
    drawn.written = (enum written)draw_below(&random, 3);
    drawn.handed = draw_percent(&random, 50, 100);
    drawn.resized = draw_percent(&random, 60, 30);
    drawn.zeroed = draw_percent(&random, 60, 100);
    drawn.aligned = draw_percent(&random, 80, 100);
    unsigned lives = 2 + (unsigned)draw_below(&random, 200);
    drawn.lives = draw_below(&random, 10) < 7 ? 1 : lives;
    if (drawn.threads == 1)
        drawn.handed = 0, drawn.lives = 1;
    draw_steps(sum / SIZES);
}

static void draw_say(uint64_t seed)
{
    printf("drawn %" PRIu64 ": %u threads, %u lives, %zu slots, %" PRIu64 " steps, %s first; "
           "%s, %" PRIu32 " to %" PRIu32 " bytes, half up to %" PRIu32 ", %s written; "
           "%u%% handed, %u%% resized, %u%% zeroed, %u%% aligned\n",
           seed, drawn.threads, drawn.lives, drawn.slots, drawn.steps, order_names[drawn.order],
           kind_names[drawn.kind], drawn.size[0], drawn.size[SIZES - 1], drawn.size[SIZES / 2],
           written_names[drawn.written], drawn.handed, drawn.resized, drawn.zeroed, drawn.aligned);
}

/* ---- blocks ---- */

static void block_write(unsigned char *block, uint32_t size)
{
    if (drawn.written == WHOLE)
        memset(block, bench_tag(size), size);
    else if (drawn.written == HEAD)
        memset(block, bench_tag(size), size < 64 ? size : 64);
    else
        bench_touch_pages(block, size, bench_tag(size));
    memcpy(block, &size, sizeof size);
    block[size - 1] = bench_tag(size);
}

static void *block_aligned(uint64_t random, uint32_t size)
{
    void *block = NULL;
    size_t align = (size_t)16 << bench_below(random, 9); /* to a page */
    int error = posix_memalign(&block, align, size);
    if (error == 0 && (uintptr_t)block % align != 0)
        bench_die(1, "a block at %p is not aligned to %zu bytes", block, align);
    return error == 0 ? block : NULL;
}

static void *block_zeroed(uint32_t size)
{
    unsigned char *block = calloc(1, size);
    if (block != NULL && (block[0] | block[size / 2] | block[size - 1]) != 0)
        bench_die(1, "calloc(1, %" PRIu32 ") gave memory that is not zero", size);
    return block;
}

static void worker_has(struct worker *w, uint64_t more_bytes)
{
    w->live += more_bytes;
    if (w->live > w->live_most)
        w->live_most = w->live;
}

static unsigned char *block_new(struct worker *w, uint32_t size)
{
    uint64_t random = bench_random(&w->random);
    bool zeroed = bench_below(random, 100) < drawn.zeroed;
    bool aligned = bench_below(random << 16, 100) < drawn.aligned;
    unsigned char *block = zeroed    ? block_zeroed(size)
                           : aligned ? block_aligned(random << 24, size)
                                     : malloc(size);
    if (block == NULL)
        bench_die(3, "no memory for a block of %" PRIu32 " bytes", size);
    block_write(block, size);
    worker_has(w, size);
    return block;
}

static void block_free(struct worker *w, unsigned char *block)
{
    w->checksum += bench_mix(0, bench_block_check(block));
    w->freed++;
    free(block);
}

/* Frees it, or another in its place. */
static void block_end(struct worker *w, unsigned char *block)
{
    uint64_t random = bench_random(&w->random);
    w->live -= bench_block_check(block);
    if (bench_below(random, 100) < drawn.handed)
        block = atomic_exchange(&shared[random % SHARED], block);
    if (block != NULL)
        block_free(w, block);
}

/* A half more, up to four times the largest size, or a third less. */
static unsigned char *block_resize(struct worker *w, unsigned char *block)
{
    uint32_t size = bench_block_check(block);
    bool grows = bench_random(&w->random) >> 63 != 0 && size / 4 < drawn.size[SIZES - 1];
    uint32_t now = grows ? size + size / 2 + 1 : size - size / 3;
    if (now < LEAST_BYTES)
        return block;
    block = realloc(block, now);
    if (block == NULL)
        bench_die(3, "no memory for a block of %" PRIu32 " bytes", now);
    if (memcmp(block, &size, sizeof size) != 0 || (grows && block[size - 1] != bench_tag(size)))
        bench_die(1, "realloc to %" PRIu32 " bytes did not keep what was written", now);
    block_write(block, now);
    worker_has(w, (uint64_t)now - size);
    return block;
}

/* ---- steps ---- */

/* In phases a quarter of all sizes at a time is used. */
static uint32_t next_size(struct worker *w)
{
    size_t i = draw_below(&w->random, SIZES);
    if (drawn.order == PHASES)
        i = i / 4 + SIZES / 4 * (w->step / drawn.slots % 4);
    return drawn.size[i];
}

/* Seven of eight blocks go. */
static void phase_end(struct worker *w)
{
    for (size_t i = 0; i < drawn.slots; i++) {
        if (w->slot[i] == NULL || bench_random(&w->random) >> 61 == 0)
            continue;
        block_end(w, w->slot[i]);
        w->slot[i] = NULL;
    }
}

static size_t next_slot(struct worker *w)
{
    uint64_t random = bench_random(&w->random);
    if (drawn.order == YOUNG)
        return bench_below(random, random % 16 == 0 ? drawn.slots : drawn.slots / 16 + 1);
    if (drawn.order == ANY)
        return bench_below(random, drawn.slots);
    if (drawn.order == PHASES && w->step % drawn.slots == 0)
        phase_end(w);
    return (size_t)(w->step % drawn.slots);
}

/* A stack that rises and falls, turning at random. */
static void step_newest(struct worker *w)
{
    if (w->depth == 0 || w->depth == drawn.slots)
        w->falls = w->depth != 0;
    else if (bench_random(&w->random) % drawn.slots < 4)
        w->falls = !w->falls;
    if (w->falls) {
        block_end(w, w->slot[--w->depth]);
        w->slot[w->depth] = NULL;
    } else {
        w->slot[w->depth++] = block_new(w, next_size(w));
    }
}

static void step(struct worker *w)
{
    unsigned char **slot = &w->slot[next_slot(w)];
    if (*slot != NULL && draw_below(&w->random, 100) < drawn.resized) {
        *slot = block_resize(w, *slot);
        return;
    }
    if (*slot != NULL)
        block_end(w, *slot);
    *slot = block_new(w, next_size(w));
}

static void live(void *arg)
{
    struct worker *w = arg;
    for (uint64_t i = 0; i < drawn.steps; i++, w->step++) {
        if (drawn.order == NEWEST)
            step_newest(w);
        else
            step(w);
    }
}

static void workers_begin(struct worker *workers, uint64_t seed)
{
    for (unsigned i = 0; i < drawn.threads; i++) {
        workers[i].random = bench_seed(seed, i + 1);
        workers[i].slot = calloc(drawn.slots, sizeof *workers[i].slot);
        if (workers[i].slot == NULL)
            bench_die(3, "no memory for %zu slots", drawn.slots);
    }
}

/* Frees all that is left. The first worker then has the sums of all. */
static void workers_end(struct worker *workers)
{
    for (unsigned i = 0; i < drawn.threads; i++) {
        struct worker *w = &workers[i];
        for (size_t s = 0; s < drawn.slots; s++)
            if (w->slot[s] != NULL)
                block_free(w, w->slot[s]);
        free(w->slot);
    }
    for (unsigned i = 0; i < SHARED; i++) {
        unsigned char *block = atomic_load(&shared[i]);
        if (block != NULL)
            block_free(&workers[0], block);
    }
    for (unsigned i = 1; i < drawn.threads; i++) {
        workers[0].live_most += workers[i].live_most;
        workers[0].freed += workers[i].freed;
        workers[0].checksum += workers[i].checksum;
    }
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MOST];
    bench_expect_args(argc, argv, 1, 2, "drawn SEED [describe]");
    uint64_t seed = bench_number(argc, argv, 1, "SEED", 0, UINT32_MAX);
    if (argc > 2 && strcmp(argv[2], "describe") != 0)
        bench_die(2, "%s: '%s' is not 'describe'", argv[0], argv[2]);
    draw(seed);
    draw_say(seed);
    if (argc > 2)
        return 0;

    uint64_t elapsed = 0;
    workers_begin(workers, seed);
    for (unsigned i = 0; i < drawn.lives; i++)
        elapsed += bench_run_threads(drawn.threads, live, workers, sizeof workers[0]);
    workers_end(workers);
    bench_work_freed("drawn");
    bench_live_peak("drawn", workers[0].live_most);
    bench_report("drawn", workers[0].freed, elapsed, workers[0].checksum);
    return 0;
}
