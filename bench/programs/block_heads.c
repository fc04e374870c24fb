/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: block_heads. Stresses where blocks begin: COUNT blocks of LEAST to MOST bytes are a
 * list in random order, whose links are their first words, and the program walks along it. Where
 * many blocks begin at the same few places within a page, their first lines share a few sets of the
 * caches. Trees of pages, pools of buffers and graphs whose nodes have tables are read like that.
 *
 * The list is made once and has no end. Checksum: where each thousand of the STEPS ends, by number
 * of the block. It allocates no more than COUNT blocks, and frees them at the end.
 */
#include "bench.h"

#define WALK_STEPS 1000u

struct head {
    struct head *next;
    uint32_t number;
};

static struct head **heads_new(size_t count, size_t least, size_t most, uint64_t *random)
{
    struct head **head = calloc(count, sizeof(struct head *));
    if (head == NULL)
        bench_die(3, "no memory for %zu pointers: give a smaller COUNT", count);
    for (size_t i = 0; i < count; i++) {
        head[i] = malloc(least + bench_below(bench_random(random), most - least + 1));
        if (head[i] == NULL)
            bench_die(3, "no memory for block %zu: give a smaller COUNT", i);
        head[i]->number = (uint32_t)i;
    }
    return head;
}

static void heads_shuffle(struct head **head, size_t count, uint64_t *random)
{
    for (size_t i = count - 1; i > 0; i--) {
        size_t other = bench_below(bench_random(random), i + 1);
        struct head *h = head[i];
        head[i] = head[other];
        head[other] = h;
    }
    for (size_t i = 0; i < count; i++)
        head[i]->next = head[(i + 1) % count];
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 4, 4, "block_heads COUNT LEAST MOST STEPS");
    size_t count = bench_number(argc, argv, 1, "COUNT", 1, 1u << 24);
    size_t least = bench_number(argc, argv, 2, "LEAST", sizeof(struct head), 1u << 30);
    size_t most = bench_number(argc, argv, 3, "MOST", least, 1u << 30);
    uint64_t steps = bench_number(argc, argv, 4, "STEPS", 1, UINT64_C(1) << 40);
    uint64_t random = bench_seed(42, 0), checksum = 0;
    struct head **head = heads_new(count, least, most, &random);

    uint64_t begin = bench_now_ns();
    const struct head *at = head[0];
    heads_shuffle(head, count, &random);
    for (uint64_t walked = 0; walked < steps; walked += WALK_STEPS) {
        for (unsigned i = 0; i < WALK_STEPS; i++)
            at = at->next;
        checksum = bench_mix(checksum, at->number);
    }
    uint64_t elapsed = bench_now_ns() - begin;
    for (size_t i = 0; i < count; i++)
        free(head[i]);
    free(head);
    bench_report("block_heads", steps, elapsed, checksum);
    return 0;
}
