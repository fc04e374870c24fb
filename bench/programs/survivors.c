/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: survivors. Stresses memory that a few long-lived blocks pin: in each of PHASES phases
 * BLOCKS objects of 64 bytes are made, one in a hundred by another function than the rest. At its
 * end all but those are freed. After the last phase the program goes on with what it has kept, and
 * with a few short-lived blocks now and then, for SERVE_MS. An allocator that places both kinds
 * side by side keeps most pages of the phase's peak for one block in a hundred; one that knows the
 * call sites can keep them apart.
 *
 * Resident memory is taken after that, when only the survivors live (end_rss, end_live, and
 * rss_per_live_percent: one divided by the other). Checksum: the
 * numbers in all blocks. It never starts a thread.
 */
#include "bench.h"

#define SURVIVES_ONE_IN 100u

struct object {
    uint64_t number;
    struct object *next;
    uint64_t body[5];
    uint64_t inverse;
};
_Static_assert(sizeof(struct object) == 64, "64 bytes each");

static struct object *object_fill(struct object *o, uint64_t number)
{
    if (o == NULL)
        bench_die(3, "malloc(%zu) failed", sizeof *o);
    o->number = number;
    o->inverse = ~number;
    return o;
}

/* Two functions that do the same: two call sites. The compiler must not make one of them. */
__attribute__((noinline)) static struct object *object_new_short(uint64_t number)
{
    __asm__ volatile("" : : "i"(1));
    return object_fill(malloc(sizeof(struct object)), number);
}

__attribute__((noinline)) static struct object *object_new_long(uint64_t number)
{
    __asm__ volatile("" : : "i"(2));
    return object_fill(malloc(sizeof(struct object)), number);
}

static uint64_t object_check(const struct object *o)
{
    if (o->inverse != ~o->number)
        bench_die(1, "object %" PRIu64 " was overwritten", o->number);
    return o->number;
}

static uint64_t list_free(struct object *o, uint64_t checksum)
{
    while (o != NULL) {
        struct object *next = o->next;
        checksum += object_check(o);
        free(o);
        o = next;
    }
    return checksum;
}

/* Goes over the survivors until the time is up; the checksum does not depend on how often. */
static uint64_t survivors_serve(const struct object *first, uint64_t ns)
{
    uint64_t until = bench_now_ns() + ns, sum;
    do {
        sum = bench_request(1);
        for (const struct object *o = first; o != NULL; o = o->next)
            sum += object_check(o);
        bench_sleep_ms(10);
    } while (bench_now_ns() < until);
    return sum;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 3, 3, "survivors BLOCKS PHASES SERVE_MS");
    uint64_t blocks = bench_number(argc, argv, 1, "BLOCKS", SURVIVES_ONE_IN, UINT32_MAX);
    uint64_t phases = bench_number(argc, argv, 2, "PHASES", 1, 1000);
    uint64_t serve_ns = bench_number(argc, argv, 3, "SERVE_MS", 0, 100000) * 1000000;
    struct object *kept = NULL;
    uint64_t checksum = 0, kept_objects = 0, work_ns = 0;
    uint64_t random = bench_seed(7, 0);
    for (uint64_t phase = 0; phase < phases; phase++) {
        struct object *young = NULL;
        uint64_t begin = bench_now_ns();
        for (uint64_t n = 0; n < blocks; n++) {
            bool survives = bench_below(bench_random(&random), SURVIVES_ONE_IN) == 0;
            struct object **list = survives ? &kept : &young;
            struct object *o = survives ? object_new_long(n) : object_new_short(n);
            o->next = *list;
            *list = o;
            kept_objects += survives;
        }
        checksum = bench_mix(list_free(young, checksum), kept_objects);
        work_ns += bench_now_ns() - begin;
    }
    checksum = bench_mix(checksum, survivors_serve(kept, serve_ns));
    uint64_t end_rss = bench_rss_kb();
    double live_kb = (double)(kept_objects * sizeof(struct object)) / (double)BENCH_KIB;
    checksum = list_free(kept, checksum);
    bench_report("survivors", blocks * phases, work_ns, checksum);
    bench_metric("survivors", "end_rss", (double)end_rss, "kB");
    bench_metric("survivors", "end_live", live_kb, "kB");
    bench_metric("survivors", "rss_per_live_percent", 100.0 * (double)end_rss / live_kb, "percent");
    bench_live_peak("survivors", blocks * sizeof(struct object));
    bench_work_freed("survivors");
    return 0;
}
