/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: churned_list. Stresses where new blocks lie in a heap that has been in use for a
 * while: COUNT blocks of LEAST to MOST bytes are allocated, a random half of them is freed and
 * allocated again three times, and a random half is freed once more. Then a list of COUNT / 2
 * nodes of these sizes is built and walked along WALKS times. If its nodes lie in memory in the
 * order in which they were allocated, the walk is fast; if they lie in the order in which blocks
 * were freed, nearly each step misses the caches.
 *
 * All of it is timed; the metric `walk` is a step of the walks. Checksum: the sums of the walks. It
 * allocates no more than COUNT blocks, and frees them at the end.
 */
#include "bench.h"

struct node {
    struct node *next;
    uint64_t value;
};

struct heap {
    void **block; /* NULL: freed */
    size_t count, least, most;
    uint64_t random;
};

static void *heap_new(struct heap *h)
{
    size_t bytes = h->least + bench_below(bench_random(&h->random), h->most - h->least + 1);
    struct node *p = malloc(bytes);
    if (p == NULL)
        bench_die(3, "no memory for a block of %zu bytes: give a smaller COUNT", bytes);
    *p = (struct node){NULL, bytes};
    return p;
}

static void heap_fill(struct heap *h)
{
    for (size_t i = 0; i < h->count; i++)
        if (h->block[i] == NULL)
            h->block[i] = heap_new(h);
}

static void heap_free_half(struct heap *h)
{
    for (size_t i = 0; i < h->count; i++) {
        if (bench_random(&h->random) % 2 == 0) {
            free(h->block[i]);
            h->block[i] = NULL;
        }
    }
}

static struct node *list_new(struct heap *h)
{
    struct node *first = NULL, **end = &first;
    for (size_t i = 0; i < h->count / 2; i++) {
        *end = heap_new(h);
        end = &(*end)->next;
    }
    return first;
}

static uint64_t list_walk(const struct node *node)
{
    uint64_t sum = 0;
    for (; node != NULL; node = node->next)
        sum += node->value;
    return sum;
}

static void list_free(struct node *node)
{
    while (node != NULL) {
        struct node *next = node->next;
        free(node);
        node = next;
    }
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 4, 4, "churned_list COUNT LEAST MOST WALKS");
    struct heap h = {.random = bench_seed(42, 0)};
    h.count = bench_number(argc, argv, 1, "COUNT", 2, 1u << 26);
    h.least = bench_number(argc, argv, 2, "LEAST", sizeof(struct node), 1u << 20);
    h.most = bench_number(argc, argv, 3, "MOST", h.least, 1u << 20);
    uint64_t walks = bench_number(argc, argv, 4, "WALKS", 1, 1u << 20);
    h.block = calloc(h.count, sizeof *h.block);
    if (h.block == NULL)
        bench_die(3, "no memory for %zu pointers: give a smaller COUNT", h.count);

    uint64_t begin = bench_now_ns(), checksum = 0;
    for (unsigned round = 0; round < 4; round++) {
        heap_fill(&h);
        heap_free_half(&h);
    }
    struct node *list = list_new(&h);
    uint64_t built = bench_now_ns();
    for (uint64_t i = 0; i < walks; i++)
        checksum = bench_mix(checksum, list_walk(list));
    uint64_t end = bench_now_ns();

    list_free(list);
    for (size_t i = 0; i < h.count; i++)
        free(h.block[i]);
    free(h.block);
    uint64_t steps = walks * (h.count / 2);
    bench_report("churned_list", steps, end - begin, checksum);
    bench_metric("churned_list", "walk", (double)(end - built) / (double)steps, "ns");
    return 0;
}
