/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of cache: bins of a class whose slabs are thin, in one thread. */
#include "cache_support.h"

#define BYTES 2000u
#define MANY 1200u /* blocks, in 40 slabs */
#define LARGE 31u  /* the least capacity of a bin that has grown */
#define SMALL 3u

static char *blocks[2 * MANY];
static unsigned live;

static unsigned capacity(const struct hak_heap *heap, unsigned cls)
{
    return heap->classes[cls].capacity;
}

static void allocate_many(struct hak_heap *heap, unsigned cls, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        blocks[live++] = allocate(heap, cls);
}

static void release_many(struct hak_heap *heap, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        release(heap, blocks[--live]);
}

/* Half of the blocks of each slab are in use. */
static void make_thin(struct hak_heap *heap, unsigned cls)
{
    live = 0;
    allocate_many(heap, cls, MANY);
    for (unsigned i = 0; i < MANY; i += 2) {
        release(heap, blocks[i]);
        blocks[i / 2] = blocks[i + 1];
    }
    live = MANY / 2;
}

static unsigned make_large(struct hak_heap *heap, unsigned cls)
{
    live = 0;
    for (int round = 0; round < 40; round++) {
        allocate_many(heap, cls, MANY / 2);
        release_many(heap, MANY / 2);
    }
    return capacity(heap, cls);
}

/* A bin that was large, in a heap whose slabs are thin, has an underflow and then an overflow. */
static unsigned make_small(struct hak_heap *heap, unsigned cls)
{
    unsigned large = make_large(heap, cls);
    assert_true(large >= LARGE);
    make_thin(heap, cls);
    allocate_many(heap, cls, hak_bin_blocks(heap, cls) + 1);
    uint64_t drains = counted(&heap->stats.drains);
    while (counted(&heap->stats.drains) == drains)
        release_many(heap, 1);
    assert_int_equal(capacity(heap, cls), SMALL);
    return large;
}

/* So many steps, in each of which a block of any age goes or one comes. */
static void replace(struct hak_heap *heap, unsigned cls, unsigned steps)
{
    uint64_t random = 42;
    for (unsigned i = 0; i < steps; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        if (random >> 63 != 0) {
            allocate_many(heap, cls, 1);
        } else {
            char **any = &blocks[(unsigned)(random >> 31) % live];
            char *p = *any;
            *any = blocks[--live];
            release(heap, p);
        }
    }
}

static void thin_slabs_empty_while_their_blocks_are_replaced(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(BYTES);
    make_thin(heap, cls);
    size_t slabs = hak_load_relaxed(&heap->slabs);
    replace(heap, cls, 20 * MANY);
    CHECK(live > MANY / 4, "%u blocks are left", live);
    CHECK(hak_load_relaxed(&heap->slabs) <= slabs * 3 / 4, "%zu of %zu slabs",
          hak_load_relaxed(&heap->slabs), slabs);
    verify_heaps();
}

static void a_small_bin_grows_when_the_slabs_are_full_again(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(BYTES);
    unsigned large = make_small(heap, cls);
    allocate_many(heap, cls, MANY / 2);
    for (unsigned i = 0; i < 100 && capacity(heap, cls) < large; i++) {
        release_many(heap, capacity(heap, cls) + 1);
        allocate_many(heap, cls, capacity(heap, cls) + 1);
    }
    assert_int_equal(capacity(heap, cls), large);
    verify_heaps();
}

static void a_small_bin_grows_when_its_thread_only_frees(void **state)
{
    (void)state;
    start();
    struct hak_heap *heap = open_thread();
    unsigned cls = hak_class_of(BYTES);
    unsigned large = make_small(heap, cls);
    release_many(heap, live);
    assert_int_equal(capacity(heap, cls), large);
    verify_heaps();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(thin_slabs_empty_while_their_blocks_are_replaced),
    cmocka_unit_test(a_small_bin_grows_when_the_slabs_are_full_again),
    cmocka_unit_test(a_small_bin_grows_when_its_thread_only_frees),
};
UNIT_MAIN(tests)
