/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of heap: the heap profile: that its estimates have the right expectation, and that
 * sampled blocks are blocks like all others. */
#include "heap_support.h"

#include "cache/cache_internal.h"
#include "heap/profile.h"

#include <math.h>

struct sums {
    double live_objects, live_bytes, objects, bytes;
    uint64_t samples, live_samples;
};

static struct sums sums(void)
{
    struct sums s = {0};
    double one = 1 << HAK_PROF_OBJECT_SHIFT;
    for (uint32_t i = 0; i < hak_load_relaxed(&hak_prof.sites); i++) {
        struct hak_prof_site *site = &hak_prof.site[i];
        s.objects += (double)hak_load_relaxed(&site->allocated.objects) / one;
        s.live_objects -= (double)hak_load_relaxed(&site->freed.objects) / one;
        s.bytes += (double)hak_load_relaxed(&site->allocated.bytes);
        s.live_bytes -= (double)hak_load_relaxed(&site->freed.bytes);
        s.samples += hak_load_relaxed(&site->allocated.samples);
        s.live_samples -= hak_load_relaxed(&site->freed.samples);
    }
    s.live_objects += s.objects;
    s.live_bytes += s.bytes;
    s.live_samples += s.samples;
    return s;
}

static void start(uint64_t period)
{
    fake_os_set_random(12345);
    release(allocate(1));
    assert_int_equal(hak_profile_start(period), 0);
}

#define SIGMAS 4.0

/* What was really allocated, and the variance that the estimates have. */
struct truth {
    double objects, bytes, objects_variance, bytes_variance;
};

static void truth_add(struct truth *t, double bytes, double period)
{
    double p = -expm1(-bytes / period);
    t->objects += 1;
    t->bytes += bytes;
    t->objects_variance += (1 - p) / p;
    t->bytes_variance += bytes * bytes * (1 - p) / p;
}

static bool near(double estimate, double truth, double variance)
{
    double off = fabs(estimate - truth) / sqrt(variance);
    printf("estimate %.0f, truth %.0f: %.2f standard deviations\n", estimate, truth, off);
    return off < SIGMAS;
}

#define BLOCKS 60000u
#define PERIOD 8192

static size_t some_size(struct unit_random *r)
{
    static const size_t limits[] = {64, 500, 3000, 60000, 200000, 3 * MIB};
    unsigned i = (unsigned)unit_below(r, 100);
    return 1 + unit_below(r, limits[i < 50   ? 0
                                    : i < 80 ? 1
                                    : i < 95 ? 2
                                    : i < 98 ? 3
                                    : i < 99 ? 4
                                             : 5]);
}

static void estimates_have_the_right_expectation(void **state)
{
    (void)state;
    static char *held[BLOCKS / 8];
    struct unit_random r = {99};
    struct truth all = {0};
    struct truth live = {0};
    start(PERIOD);
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned at = (unsigned)unit_below(&r, UNIT_COUNT(held));
        if (held[at] != NULL)
            release(held[at]);
        held[at] = allocate(some_size(&r));
        truth_add(&all, (double)hak_heap_usable_bytes(held[at]), PERIOD);
    }
    for (unsigned at = 0; at < UNIT_COUNT(held); at++) {
        if (held[at] != NULL && at % 3 == 0)
            truth_add(&live, (double)hak_heap_usable_bytes(held[at]), PERIOD);
        else if (held[at] != NULL)
            release(held[at]);
    }
    struct sums s = sums();
    assert_true(near(s.objects, all.objects, all.objects_variance));
    assert_true(near(s.bytes, all.bytes, all.bytes_variance));
    assert_true(near(s.live_objects, live.objects, live.objects_variance));
    assert_true(near(s.live_bytes, live.bytes, live.bytes_variance));
    for (unsigned at = 0; at < UNIT_COUNT(held); at += 3)
        if (held[at] != NULL)
            release(held[at]);
    s = sums();
    assert_int_equal(s.live_samples, 0);
    assert_true(s.live_objects == 0 && s.live_bytes == 0);
}

/* The same block again and again never leaves the fast path by itself. */
static void what_goes_round_is_counted(void **state)
{
    (void)state;
    struct truth all = {0};
    start(PERIOD);
    for (unsigned i = 0; i < 300000; i++) {
        release(allocate(48));
        truth_add(&all, 64, PERIOD); /* a thread's first classes are powers of two */
        if (i % 1000 == 0)
            assert_int_equal(hak_front_class(hak_self, 48), hak_class_of(64));
    }
    struct sums s = sums();
    assert_true(near(s.objects, all.objects, all.objects_variance));
    assert_int_equal(s.live_samples, 0);
}

/* One block again and again would send each second malloc to the slow path. */
static void what_goes_round_becomes_more(void **state)
{
    (void)state;
    unsigned cls = 0;
    size_t most = 0;
    start(HAK_PROF_DEFAULT_PERIOD);
    for (unsigned i = 0; i < 5000; i++) {
        release(allocate(64));
        cls = hak_front_class(hak_self, 64);
        most = hak_max(most, hak_metered_blocks(hak_heap_self_slow(), cls));
    }
    assert_true(most + 1 >= hak_self->meter->of[cls].least);
    assert_true(most + 1 >= 24);
}

static void sampled_blocks_are_like_the_others(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 24, 1000, 5000, 40000, 65536, 70000, 900000, 3 * MIB};
    start(1); /* every block */
    for (unsigned i = 0; i < UNIT_COUNT(sizes); i++) {
        size_t size = sizes[i];
        uint64_t before = sums().samples;
        char *p = allocate(size);
        char *z = hak_heap_calloc(size);
        char *a = hak_heap_aligned(4096, size);
        assert_int_equal(sums().samples, before + 3);
        assert_true(hak_heap_usable_bytes(p) >= size);
        if (size <= HAK_SMALL_MAX) {
            assert_int_equal(hak_heap_usable_bytes(p),
                             hak_class(hak_front_class(hak_self, size))->size_bytes);
        }
        assert_true(is_zero(z, size));
        assert_int_equal((uintptr_t)a % 4096, 0);
        fill(p, size, i);
        fill(z, size, i + 1);
        fill(a, size, i + 2);
        char *q = heap_realloc(p, size * 2 + 100);
        assert_true(is_filled(q, size, size, i));
        q = heap_realloc(q, size);
        assert_true(is_filled(q, size, size, i));
        assert_true(is_filled(z, size, size, i + 1));
        assert_true(is_filled(a, size, size, i + 2));
        assert_int_equal(sums().live_samples, 3);
        release(q);
        release(z);
        release(a);
        assert_int_equal(sums().live_samples, 0);
    }
    struct hak_large_stats l;
    hak_large_stats(&l);
    assert_int_equal(l.large_bytes + l.large_blocks + l.huge_bytes + l.huge_blocks, 0);
}

/* In the figures a sampled block is as large as its class, not as its run of slots. */
static void figures_count_what_the_program_holds(void **state)
{
    (void)state;
    start(1);
    char *p = allocate(1000);
    struct hak_large_stats l;
    hak_large_stats(&l);
    assert_int_equal(l.large_bytes, hak_heap_usable_bytes(p));
    release(p);
    hak_large_stats(&l);
    assert_int_equal(l.large_bytes, 0);
}

static size_t asked_for(const char *p)
{
    return hak_large_note(p, hak_map_lookup(p))->bytes;
}

/* Of samples, and of all large and huge blocks, sampled or not; also when they are resized. */
static void what_was_asked_for_is_known(void **state)
{
    (void)state;
    start(1);
    char *p = allocate(1000);
    assert_int_equal(asked_for(p), 1000);
    char *q = heap_realloc(p, 990);
    assert_ptr_equal(q, p);
    assert_int_equal(asked_for(q), 990);
    release(q);
    for (int sampled = 1; sampled >= 0; sampled--) {
        p = allocate(70001);
        assert_int_equal(asked_for(p), 70001);
        for (size_t size = 70002; size < 20 * MIB; size += size / 3 + 1) { /* in place, and moved */
            p = heap_realloc(p, size);
            assert_int_equal(asked_for(p), size);
        }
        for (size_t size = 20 * MIB; size > HAK_SMALL_MAX; size -= size / 3 + 1) {
            p = heap_realloc(p, size);
            assert_int_equal(asked_for(p), size);
        }
        assert_int_equal(sums().live_samples, sampled);
        release(p);
        p = hak_heap_aligned(4 * MIB, 100001);
        assert_int_equal(asked_for(p), 100001);
        release(p);
        hak_profile_stop();
    }
    assert_int_equal(sums().live_samples, 0);
    assert_true(sums().live_bytes == 0);
}

/* What a program asks realloc for is often what the block has room for already. */
static void a_block_that_realloc_leaves_as_it_is_is_counted_once(void **state)
{
    (void)state;
    static const size_t sizes[] = {1000, 70000, MIB, 5 * MIB};
    start(1);
    for (unsigned i = 0; i < UNIT_COUNT(sizes); i++) {
        char *p = allocate(sizes[i]);
        size_t bytes = hak_heap_usable_bytes(p);
        struct sums before = sums();
        for (unsigned j = 0; j < 5; j++) {
            assert_ptr_equal(heap_realloc(p, sizes[i] - j), p);
            assert_int_equal(hak_heap_usable_bytes(p), bytes);
            assert_int_equal(asked_for(p), sizes[i] - j);
        }
        struct sums after = sums();
        assert_int_equal(after.samples, before.samples);
        assert_true(after.bytes == before.bytes && after.live_bytes == before.live_bytes);
        release(p);
    }
    assert_int_equal(sums().live_samples, 0);
}

#define EACH 2000u
static char *passed[4][EACH];

static void allocate_for_others(unsigned index, void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < EACH; i++)
        fill(passed[index][i] = allocate(10 + i), 10 + i, i);
}

static void free_of_others(unsigned index, void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < EACH; i++) {
        MUST(is_filled(passed[(index + 1) % 4][i], 10 + i, 10 + i, i));
        release(passed[(index + 1) % 4][i]);
    }
}

static void threads_end_and_free_for_each_other(void **state)
{
    (void)state;
    start(4096);
    unit_in_threads(4, allocate_for_others, NULL);
    assert_true(sums().live_samples > 0);
    unit_in_threads(4, free_of_others, NULL);
    assert_int_equal(sums().live_samples, 0);
    assert_nothing_is_lost(); /* metered bins were emptied too */
}

static void allocate_one_and_end(unsigned index, void *argument)
{
    (void)index;
    (void)argument;
    release(allocate(64));
}

/* What was put into a thread's metered bin and not allocated is not counted. */
static void threads_that_allocate_little_are_counted_as_they_do(void **state)
{
    (void)state;
    enum { THREADS = 4000, SPARSE = 4096 };
    struct truth all = {0};
    start(SPARSE);
    struct sums before = sums();
    for (unsigned i = 0; i < THREADS; i++) {
        unit_in_threads(1, allocate_one_and_end, NULL);
        truth_add(&all, 64, SPARSE);
    }
    struct sums s = sums();
    assert_true(near(s.objects - before.objects, all.objects, all.objects_variance));
    assert_int_equal(s.live_samples, before.live_samples);
}

static void stopped_nothing_more_is_sampled(void **state)
{
    (void)state;
    static char *p[3000];
    start(4096);
    for (unsigned i = 0; i < UNIT_COUNT(p); i++)
        p[i] = allocate(i % 3000);
    uint64_t samples = sums().samples;
    assert_true(samples > 0);
    hak_profile_stop();
    for (unsigned i = 0; i < UNIT_COUNT(p); i++) {
        release(p[i]);
        p[i] = allocate(i % 3000);
    }
    assert_int_equal(sums().samples, samples);
    assert_int_equal(sums().live_samples, 0);
    struct hak_front *front = hak_self;
    for (size_t size = 1; size <= HAK_TINY_MAX; size += 16)
        assert_int_equal(hak_load_relaxed(&front->tiny_kind[(size + 15) / 16]),
                         hak_load_relaxed(&front->tiny_true[(size + 15) / 16]));
    assert_int_equal(hak_profile_start(0), 0);
    for (unsigned i = 0; i < UNIT_COUNT(p); i++) {
        release(p[i]);
        p[i] = allocate(i % 3000);
    }
    assert_true(sums().samples > samples);
    for (unsigned i = 0; i < UNIT_COUNT(p); i++)
        release(p[i]);
    assert_nothing_is_lost();
}

/* Its bin has become smaller while the metered one held as much as the bin did when it was large.
 */
static void metered_blocks_go_back_into_a_smaller_bin(void **state)
{
    (void)state;
    enum { MANY = 4000, REFILLS = 600 };
    static char *p[MANY], *others[MANY];
    struct hak_heap *heap;
    start(UINT64_C(1) << 40);
    heap = hak_heap_self_slow();
    unsigned cls = hak_front_class(&heap->front, 64);
    for (unsigned turn = 0; turn < 40; turn++) {
        for (unsigned i = 0; i < MANY; i++)
            p[i] = allocate(64);
        for (unsigned i = 0; i < MANY; i++)
            release(p[i]);
    }
    for (unsigned i = 0; i < MANY && hak_metered_blocks(heap, cls) < 100; i++)
        p[0] = allocate(64);
    unsigned metered = hak_metered_blocks(heap, cls);
    unsigned capacity = heap->classes[cls].capacity;
    assert_in_range(metered, 100, capacity);
    uint64_t refills = hak_load_relaxed(&heap->stats.refills);
    for (unsigned i = 0; hak_load_relaxed(&heap->stats.refills) < refills + REFILLS; i++) {
        if (others[i % MANY] != NULL)
            release(others[i % MANY]);
        others[i % MANY] = allocate(1000);
    }
    assert_in_range(heap->classes[cls].capacity, 1, metered - 1);
    hak_profile_stop();
    for (unsigned i = 0; i < MANY; i++) {
        p[i] = allocate(64);
        CHECK(hak_bin_blocks(heap, cls) <= heap->classes[cls].capacity, "%u", i);
    }
    assert_int_equal(hak_metered_blocks(heap, cls), 0);
    for (unsigned i = 0; i < MANY; i++)
        for (unsigned k = 0; k < i && i % 37 == 0; k++)
            assert_ptr_not_equal(p[i], p[k]);
}

static void ask(uint64_t word)
{
    static unsigned calls;
    hak_store_relaxed(&hak_root.requests[HAK_ROOT_ASK_PROFILE], word);
    release(calls++ % 2 == 0 ? allocate(48) : hak_heap_calloc(48));
    assert_int_equal(hak_load_relaxed(&hak_root.requests[HAK_ROOT_ASK_PROFILE]), 0);
}

/* Whoever asks from outside may close the tables of the fast paths: single bytes, at any moment. */
static void close_fast_paths(void)
{
    struct hak_front *front = hak_self;
    for (unsigned i = 0; i < UNIT_COUNT(hak_tables.closed); i++)
        hak_store_relaxed(&hak_tables.closed[i], UINT64_MAX);
    for (size_t i = 0; i < HAK_TINY_KINDS; i++)
        hak_store_relaxed(&front->tiny_kind[i], (uint8_t)HAK_KIND_CLOSED);
    for (size_t i = 0; i < UNIT_COUNT(hak_tables.small_kind); i++)
        hak_store_relaxed(&hak_tables.small_kind[i], (uint8_t)HAK_KIND_CLOSED);
}

static void assert_open(bool metered)
{
    struct hak_front *front = hak_self;
    assert_int_equal(hak_load_relaxed(&hak_tables.metered), metered);
    assert_int_equal(hak_load_relaxed(&hak_tables.closed[0]), metered ? ~UINT64_C(0) << 32 : 0);
    assert_int_equal(hak_load_relaxed(&hak_tables.closed[1]),
                     metered ? (1ull << (HAK_CLASSES - 64)) - 1 : 0);
    for (size_t i = 0; i < HAK_TINY_KINDS; i++) {
        uint8_t kind = hak_load_relaxed(&front->tiny_true[i]);
        assert_int_equal(hak_load_relaxed(&front->tiny_kind[i]),
                         metered ? HAK_KIND_METERED + kind : kind);
    }
    for (size_t i = hak_small_index(HAK_TINY_MAX + 1); i < UNIT_COUNT(hak_tables.small_kind); i++)
        assert_int_equal(hak_load_relaxed(&hak_tables.small_kind[i]),
                         metered ? HAK_KIND_CLOSED : hak_load_relaxed(&hak_tables.small_true[i]));
}

/* After each request, done or refused, they are as they should be. */
static void requests_are_taken_and_the_fast_paths_open_again(void **state)
{
    (void)state;
    release(allocate(1));
    close_fast_paths();
    ask(HAK_PROF_ASK_DUMP); /* nothing to write */
    assert_open(false);
    close_fast_paths();
    ask((uint64_t)4096 << HAK_PROF_ASK_SHIFT | HAK_PROF_ASK_START);
    assert_true(hak_prof_is_on());
    assert_open(true);
    close_fast_paths();
    ask((uint64_t)5000 << HAK_PROF_ASK_SHIFT | HAK_PROF_ASK_START); /* another period: refused */
    assert_int_equal(hak_prof_period(), 4096);
    assert_open(true);
    close_fast_paths();
    ask(HAK_PROF_ASK_STOP);
    assert_false(hak_prof_is_on());
    assert_open(false);
    close_fast_paths();
    ask((uint64_t)5000 << HAK_PROF_ASK_SHIFT | HAK_PROF_ASK_START);
    assert_false(hak_prof_is_on());
    assert_open(false);
}

static HAK_NOINLINE char *allocate_here(unsigned depth)
{
    if (depth == 0)
        return hak_heap_malloc(100);
    char *p = allocate_here(depth - 1);
    HAK_OPAQUE(p); /* no jump in place of the call */
    return p;
}

static const struct hak_prof_site *the_site(void)
{
    for (uint32_t i = 2; i < hak_load_relaxed(&hak_prof.sites); i++)
        if (hak_load_relaxed(&hak_prof.site[i].allocated.samples) >
            hak_load_relaxed(&hak_prof.site[i].freed.samples))
            return &hak_prof.site[i];
    return NULL;
}

/* The frames of a recursion all return to the same place. */
static void stacks_have_all_callers(void **state)
{
    (void)state;
    start(1);
    char *p = allocate_here(20);
    const struct hak_prof_site *site = the_site();
    assert_non_null(site);
    unsigned same = 0;
    for (uint32_t i = 1; i < site->depth; i++)
        same += hak_prof.stacks[site->stack + i] == hak_prof.stacks[site->stack + i - 1];
    assert_int_equal(same, 19);
    assert_true(site->depth > 25);
    release(p);
    p = allocate_here(200);
    assert_int_equal(the_site()->depth, HAK_PROF_FRAMES - 1);
    release(p);
}

static void a_child_goes_on_by_itself(void **state)
{
    (void)state;
    start(256);
    char *p = allocate(3000);
    struct sums before = sums();
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        hak_heap_fork_child();
        for (unsigned i = 0; i < 10000; i++)
            release(allocate(i));
        MUST(sums().samples > before.samples);
        MUST(sums().live_samples == before.live_samples);
        release(p);
        MUST(sums().live_samples < before.live_samples);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(sums().samples, before.samples);
    release(p);
}

static void a_table_that_is_full_is_not_an_end(void **state)
{
    (void)state;
    start(1);
    hak_store_relaxed(&hak_prof.sites, HAK_PROF_SITES);
    release(allocate(100));
    hak_prof_freed(1, 0); /* the site of what found no room has a place */
    assert_true(hak_load_relaxed(&hak_prof.site[1].allocated.samples) > 0);
}

static void without_memory_for_a_sample_the_block_comes_from_its_class(void **state)
{
    (void)state;
    start(1);
    release(allocate(64));
    hak_profile_stop();
    void *kept = allocate(64); /* its slab stays, and has others */
    assert_int_equal(hak_profile_start(0), 0);
    hak_pool_set_limit(1);
    static void *fillers[4000];
    unsigned count = 0;
    while (count < UNIT_COUNT(fillers) && (fillers[count] = hak_heap_malloc(65536)) != NULL)
        count++;
    void *p = hak_heap_malloc(64);
    assert_non_null(p);
    release(p);
    while (count-- > 0)
        release(fillers[count]);
    release(kept);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(estimates_have_the_right_expectation),
    cmocka_unit_test(what_goes_round_is_counted),
    cmocka_unit_test(what_goes_round_becomes_more),
    cmocka_unit_test(sampled_blocks_are_like_the_others),
    cmocka_unit_test(figures_count_what_the_program_holds),
    cmocka_unit_test(what_was_asked_for_is_known),
    cmocka_unit_test(a_block_that_realloc_leaves_as_it_is_is_counted_once),
    cmocka_unit_test(threads_end_and_free_for_each_other),
    cmocka_unit_test(threads_that_allocate_little_are_counted_as_they_do),
    cmocka_unit_test(metered_blocks_go_back_into_a_smaller_bin),
    cmocka_unit_test(stopped_nothing_more_is_sampled),
    cmocka_unit_test(requests_are_taken_and_the_fast_paths_open_again),
    cmocka_unit_test(stacks_have_all_callers),
    cmocka_unit_test(a_child_goes_on_by_itself),
    cmocka_unit_test(a_table_that_is_full_is_not_an_end),
    cmocka_unit_test(without_memory_for_a_sample_the_block_comes_from_its_class),
};
UNIT_MAIN(tests)
