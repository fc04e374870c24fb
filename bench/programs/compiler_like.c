/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: compiler_like. Stresses three lifetimes at once in the same sizes: a compiler takes
 * MODULES modules. The tree of a function (nodes of 32 to 96 bytes) dies with the function, its
 * code (instructions of 48 and 64 bytes) with the module, symbols and types (48 to 96 bytes) with
 * the program. Functions are of very different size, so that trees come and go in floods. At the
 * end the symbols alone are there, and are gone over while the program links (LINK_MS).
 *
 * Checksum: what the nodes, instructions and symbols hold. It never starts a thread.
 */
#include "bench.h"

#define FUNCTIONS 40u /* a module */

struct link {
    struct link *next;
    uint32_t size;
    uint32_t value;
};

static struct link *link_fill(struct link *l, size_t bytes, uint32_t value, struct link *next)
{
    if (l == NULL)
        bench_die(3, "malloc(%zu) failed", bytes);
    l->next = next;
    l->size = (uint32_t)bytes;
    l->value = value;
    ((unsigned char *)l)[bytes - 1] = bench_tag((uint32_t)bytes);
    return l;
}

/* A function for each kind of thing that the compiler makes, with its own call of malloc. */
#define MAKER(name, least, steps)                                                                  \
    __attribute__((noinline)) static struct link *name(uint64_t random, struct link *next)         \
    {                                                                                              \
        size_t bytes = (least) + 16 * bench_below(random, (steps));                                \
        return link_fill(malloc(bytes), bytes, (uint32_t)random, next);                            \
    }
MAKER(expression_new, 32, 4)
MAKER(statement_new, 48, 4)
MAKER(instruction_new, 48, 2)
MAKER(symbol_new, 48, 2)
MAKER(type_new, 64, 3)

static uint64_t list_sum(const struct link *l)
{
    uint64_t sum = 0;
    for (; l != NULL; l = l->next) {
        if (((const unsigned char *)l)[l->size - 1] != bench_tag(l->size))
            bench_die(1, "a block of %" PRIu32 " bytes was overwritten", l->size);
        sum += l->value ^ l->size;
    }
    return sum;
}

static uint64_t list_free(struct link *l)
{
    uint64_t sum = list_sum(l);
    while (l != NULL) {
        struct link *next = l->next;
        free(l);
        l = next;
    }
    return sum;
}

struct compiler {
    struct link *symbols, *code;
    uint64_t random, made, checksum;
};

/* Most functions are short; one in 32 has some hundred times as many statements. */
static void function_compile(struct compiler *c)
{
    uint64_t r = bench_random(&c->random);
    size_t statements = bench_below(r, 32) == 0 ? 80000 : 30 + bench_below(r << 32, 200);
    struct link *tree = NULL;
    for (size_t i = 0; i < statements; i++) {
        tree = statement_new(bench_random(&c->random), tree);
        for (unsigned k = 0; k < 5; k++)
            tree = expression_new(bench_random(&c->random), tree);
        if (i % 3 == 0)
            c->code = instruction_new(bench_random(&c->random), c->code);
        if (i % 16 == 0)
            c->symbols = symbol_new(bench_random(&c->random), c->symbols);
        if (i % 64 == 0)
            c->symbols = type_new(bench_random(&c->random), c->symbols);
    }
    c->made += statements;
    c->checksum = bench_mix(c->checksum, list_free(tree));
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 2, 2, "compiler_like MODULES LINK_MS");
    uint64_t modules = bench_number(argc, argv, 1, "MODULES", 1, 100000);
    uint64_t link_ns = bench_number(argc, argv, 2, "LINK_MS", 0, 100000) * 1000000;
    struct compiler c = {.random = bench_seed(13, 0)};
    uint64_t begin = bench_now_ns();
    for (uint64_t m = 0; m < modules; m++) {
        for (unsigned f = 0; f < FUNCTIONS; f++)
            function_compile(&c);
        c.checksum = bench_mix(c.checksum, list_free(c.code));
        c.code = NULL;
    }
    uint64_t work_ns = bench_now_ns() - begin, linked;
    uint64_t compiled_rss = bench_rss_kb();
    for (begin = bench_now_ns();;) {
        linked = list_sum(c.symbols) + bench_request(1);
        if (bench_now_ns() - begin >= link_ns)
            break;
        bench_sleep_ms(10);
    }
    c.checksum = bench_mix(bench_mix(c.checksum, linked), list_free(c.symbols));
    bench_report("compiler_like", c.made, work_ns, c.checksum);
    bench_metric("compiler_like", "rss_compiled", (double)compiled_rss, "kB");
    bench_work_freed("compiler_like");
    return 0;
}
