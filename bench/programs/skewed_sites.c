/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: skewed_sites. Stresses call sites of very different weight and lifetime: sixteen
 * functions allocate blocks of 32 to 256 bytes, the first half of all, each next one half of what
 * is left. What a function makes lives for a time of its own: the frequent ones' blocks die within
 * some thousands of allocations, the rare ones' live through several phases. In the second half of
 * a phase only one allocation in ten is made, at the same pace, so that the program is small for
 * most of its life.
 *
 * Checksum: sizes of all blocks, as they are freed. It never starts a thread.
 */
#include "bench.h"

#define SITES 16u
#define RING (1u << 16) /* a ring of times at which blocks die, */
#define RING_STEPS 64u  /* each of so many steps */
#define QUIET_STEPS 100u
#define BLOCKS_A_STEP 8u

#define SITE(n)                                                                                    \
    __attribute__((noinline)) static unsigned char *site_##n(uint32_t size)                        \
    {                                                                                              \
        unsigned char *block = bench_block_new(size);                                              \
        __asm__ volatile("" : "+r"(block) : "i"(n)); /* keeps the functions apart */               \
        return block;                                                                              \
    }
SITE(0)
SITE(1)
SITE(2)
SITE(3)
SITE(4)
SITE(5)
SITE(6)
SITE(7)
SITE(8)
SITE(9)
SITE(10)
SITE(11)
SITE(12)
SITE(13)
SITE(14)
SITE(15)

static unsigned char *(*const site[SITES])(uint32_t) = {
    site_0, site_1, site_2,  site_3,  site_4,  site_5,  site_6,  site_7,
    site_8, site_9, site_10, site_11, site_12, site_13, site_14, site_15,
};

/* Blocks that die at the same time are a list through their bytes behind the size. */
static unsigned char *ring[RING];

static unsigned char *block_next(const unsigned char *block)
{
    unsigned char *next;
    memcpy(&next, block + 8, sizeof next);
    return next;
}

static uint64_t ring_step(uint64_t now)
{
    uint64_t sum = 0;
    if (now % RING_STEPS != 0)
        return 0;
    unsigned char *block = ring[now / RING_STEPS % RING];
    ring[now / RING_STEPS % RING] = NULL;
    while (block != NULL) {
        unsigned char *next = block_next(block);
        sum += bench_block_check(block);
        free(block);
        block = next;
    }
    return sum;
}

static void block_make(uint64_t now, uint64_t phase_steps, uint64_t *random)
{
    uint64_t r = bench_random(random);
    unsigned which = (unsigned)__builtin_ctzll((r >> 32) | (1u << (SITES - 1)));
    uint32_t size = 32 + 16 * (uint32_t)bench_below(r << 32, which % 4 == 3 ? 14 : 4);
    /* the first five die within the half of a phase, the rest lives for one to three phases */
    uint64_t life = which < 5 ? phase_steps / 16 << (which % 3) : phase_steps * (1 + which % 3);
    uint64_t dies = now + RING_STEPS + life / 2 + bench_below(bench_random(random), life);
    unsigned char **list = &ring[dies / RING_STEPS % RING];
    unsigned char *block = site[which](size);
    memcpy(block + 8, list, sizeof block);
    *list = block;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 2, 2, "skewed_sites STEPS PHASES");
    uint64_t steps = bench_number(argc, argv, 1, "STEPS", 1000, RING * RING_STEPS / 8);
    uint64_t phases = bench_number(argc, argv, 2, "PHASES", 1, 1000);
    uint64_t random = bench_seed(23, 0), checksum = 0, now = 0, work_ns = 0, made = 0, rss = 0;
    for (uint64_t p = 0; p < phases; p++) {
        uint64_t begin = bench_now_ns();
        for (uint64_t i = 0; i < steps / 2; i++) {
            for (unsigned k = 0; k < BLOCKS_A_STEP; k++, made++)
                block_make(now, steps, &random);
            checksum += ring_step(now++);
        }
        work_ns += bench_now_ns() - begin;
        for (unsigned q = 0; q < QUIET_STEPS; q++) {
            begin = bench_now_ns();
            for (uint64_t i = 0; i < steps / 2 / QUIET_STEPS; i++) {
                if (i % 10 == 0)
                    block_make(now, steps, &random), made++;
                checksum += ring_step(now++);
            }
            work_ns += bench_now_ns() - begin;
            bench_sleep_ms(4);
        }
        rss = bench_rss_kb();
    }
    for (uint64_t i = 0; i < (uint64_t)RING * RING_STEPS; i++)
        checksum = bench_mix(checksum, ring_step(now++));
    bench_report("skewed_sites", made, work_ns, checksum);
    bench_metric("skewed_sites", "rss_phase_end", (double)rss, "kB");
    bench_work_freed("skewed_sites");
    return 0;
}
