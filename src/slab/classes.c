/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * slab: fills the tables of size classes. See classes.h. */
#include "slab/slab.h"

#define LEAST_BLOCKS 4u
#define APART_LEAST ((size_t)1024)
#define LARGE_FROM 40u /* the first class above 2 KiB and a line */

/* A 28th ... an 8th of a slot, and beyond 8 KiB some 28th, 26th ... of four, less what leaves 1 KiB
 * or more in most slabs for colours. Those of 8, 16 and 32 KiB have room for a header of some
 * hundred bytes as well, which takes no more memory, as a slab has 15 of them in any case, and that
 * of 4 KiB for one of 64 bytes: with more, 63 of them would be too much for a bin. How much beyond
 * 1 KiB is left was chosen by how long it takes to step through heads and columns of blocks: "Where
 * blocks begin" in docs/performance.md. */
static const struct {
    uint32_t size_bytes;
    bool fine;
} large[] = {
    {2304, false},  {2560, false},  {2816, false},  {3072, false},  {3392, false},  {3584, false},
    {3840, false},  {4160, false},  {4608, false},  {4928, false},  {5120, false},  {5824, false},
    {6208, false},  {7168, false},  {7680, false},  {8448, false},  {9216, false},  {9984, true},
    {10752, false}, {11776, true},  {12800, false}, {14336, true},  {16128, false}, {16640, false},
    {17408, true},  {18560, false}, {20096, true},  {21504, false}, {23680, true},  {25984, false},
    {28928, true},  {32384, false}, {33408, false}, {37248, true},  {43392, false}, {52224, true},
    {66688, false},
};
_Static_assert(LARGE_FROM + sizeof large / sizeof large[0] == HAK_CLASS_ALIGNED,
               "all classes but those for aligned blocks");

/* Two a doubling from 4 KiB on, below that one. No two classes have the same size. */
static const uint32_t aligned[] = {1 << 10,  2 << 10,  4 << 10,  6 << 10,  8 << 10, 12 << 10,
                                   16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10};
_Static_assert(HAK_CLASS_ALIGNED + sizeof aligned / sizeof aligned[0] == HAK_CLASSES,
               "all classes");

struct hak_class_tables hak_tables HAK_RARELY_USED; /* not without a heap */

/* Not up to 1 KiB: a page has many blocks there, and who wants 128 bytes aligned to 128 must not
 * get 256. */
static void classes_colour(struct hak_class *c)
{
    size_t slab_bytes = c->slots * HAK_SLOT_BYTES;
    size_t slack = slab_bytes - (size_t)c->blocks * c->size_bytes;
    if (c->size_bytes <= HAK_TINY_MAX)
        return;
    c->colour_shift = (uint8_t)hak_log2_floor(slab_bytes);
    c->colour_step = (uint16_t)(slack / (HAK_COLOURS - 1));
}

/* Programs allocate in patterns: a node, its text, its two attributes, and again. Where a slab's
 * blocks are a multiple of the pattern's, as 512 of 128 bytes are of eight, the nodes of all slabs
 * lie a power of two apart, and the caches have room for few of them. An odd number of blocks moves
 * the pattern on with each slab, for a block at most. (Larger ones have colours for that, and those
 * that are aligned are few.) */
static unsigned classes_blocks(size_t slab_bytes, size_t size)
{
    unsigned blocks = (unsigned)(slab_bytes / size);
    return size <= HAK_TINY_MAX ? (blocks - 1) | 1 : blocks;
}

/* As many slots as it takes for four blocks, and that what a slab's tail wastes is a sixteenth at
 * most: one to eight, and for blocks of 64 KiB sixteen. Those are of 18 cache lines more, and so 15
 * of them begin at 15 places within a page: the caches have room for few blocks that begin at the
 * same one. (To replace one of 16 blocks and touch its pages takes 61 ns so, 80 with slabs of 7
 * blocks, 123 with 3.) */
static void classes_describe(unsigned cls, size_t size, bool fine)
{
    struct hak_class *c = &hak_tables.classes[cls];
    unsigned slots = 1;
    while (slots < HAK_SLAB_MOST_SLOTS &&
           (slots * HAK_SLOT_BYTES % size > slots * HAK_SLOT_BYTES / 16 ||
            slots * HAK_SLOT_BYTES / size < LEAST_BLOCKS))
        slots *= 2;
    c->size_bytes = (uint32_t)size;
    c->slots = (uint8_t)slots;
    c->blocks = (uint16_t)classes_blocks(slots * HAK_SLOT_BYTES, size);
    c->inline_bits = c->blocks <= 64;
    c->offset_mask = (uint32_t)(slots * HAK_SLOT_BYTES - 1);
    c->even_bits = (uint8_t)hak_ctz64(size);
    c->inverse = hak_inverse64(size >> c->even_bits);
    c->fine = fine;
    if (!HAK_HARDENED && cls < HAK_CLASS_ALIGNED)
        classes_colour(c);
}

/* A power of two, and a line of the cache more; of 63 to a slab a quarter of that will do. */
static size_t classes_apart(size_t size)
{
    if (size < APART_LEAST || !hak_is_pow2(size))
        return size;
    return size + (size == APART_LEAST ? HAK_ALIGNMENT : HAK_CACHE_LINE);
}

static size_t classes_bytes(unsigned cls)
{
    if (cls < 8)
        return (cls + 1) * (size_t)16;
    if (cls < LARGE_FROM) /* the n-th eighth of a doubling behind its beginning */
        return classes_apart((cls % 8 + 9) * ((size_t)16 << (cls / 8 - 1)));
    if (cls < HAK_CLASS_ALIGNED)
        return large[cls - LARGE_FROM].size_bytes;
    return aligned[cls - HAK_CLASS_ALIGNED];
}

static void classes_place(unsigned cls, size_t *tiny, size_t *small)
{
    size_t size = hak_class(cls)->size_bytes;
    for (; *tiny * 16 <= size && *tiny * 16 <= HAK_TINY_MAX; (*tiny)++)
        hak_tables.narrow_kind[*tiny] = (uint8_t)(2 * cls);
    if (hak_class(cls)->fine || cls >= HAK_CLASS_ALIGNED)
        return;
    for (; *small * HAK_SMALL_STEP <= size; (*small)++) {
        hak_store_relaxed(&hak_tables.small_true[*small], (uint8_t)(2 * cls));
        hak_store_relaxed(&hak_tables.small_kind[*small], (uint8_t)(2 * cls));
    }
}

void hak_classes_start(void)
{
    size_t tiny = 0;
    size_t small = 0;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        bool fine = cls >= LARGE_FROM && cls < HAK_CLASS_ALIGNED && large[cls - LARGE_FROM].fine;
        classes_describe(cls, classes_bytes(cls), fine);
        classes_place(cls, &tiny, &small);
    }
    for (size_t i = 0; i < HAK_TINY_KINDS; i++) {
        size_t power = hak_max((size_t)1 << hak_log2_ceil(i), 2);
        size_t step = hak_max(power / 8, 1);
        size_t last = HAK_TINY_KINDS - 1;
        hak_tables.coarse_kind[i] = hak_tables.narrow_kind[hak_min(power, last)];
        hak_tables.tiny_kind[i] = hak_tables.narrow_kind[hak_min(hak_round_up(i, step), last)];
    }
}

void hak_classes_find_words(void)
{
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        struct hak_class *c = &hak_tables.classes[cls];
        c->word_shift = (uint8_t)hak_class_word_shift(c);
        c->words = hak_space_words(c->word_shift);
    }
}

unsigned hak_class_aligned(size_t align_bytes, size_t size_bytes)
{
    unsigned least = HAK_CLASS_ALIGNED;
    while (hak_class(least)->size_bytes < size_bytes)
        least++;
    bool coloured = !HAK_HARDENED && size_bytes > HAK_TINY_MAX; /* all others that are as long */
    if (coloured && align_bytes > HAK_CACHE_LINE)
        return least;
    size_t most = hak_class(least)->size_bytes;
    for (unsigned cls = hak_class_of(size_bytes); hak_class(cls)->size_bytes < most; cls++)
        if (hak_class_is_aligned(cls, align_bytes))
            return cls;
    return least;
}

void hak_classes_refine(unsigned cls)
{
    if (cls == 0 || !hak_class(cls - 1)->fine)
        return;
    size_t i = hak_class(cls - 1)->size_bytes / HAK_SMALL_STEP;
    uint8_t finer = (uint8_t)((cls - 1) * 2);
    for (; hak_load_relaxed(&hak_tables.small_true[i]) == cls * 2; i--) {
        uint8_t before = (uint8_t)(cls * 2);
        hak_store_relaxed(&hak_tables.small_true[i], finer);
        hak_cas_relaxed(&hak_tables.small_kind[i], &before, hak_kind_shown(finer));
    }
}

void hak_classes_close(struct hak_class_set classes)
{
    for (unsigned i = 0; i < 2; i++)
        hak_store_relaxed(&hak_tables.closed[i], classes.bits[i]);
    for (size_t i = 0; i < HAK_SMALL_KINDS; i++) {
        uint8_t kind;
        do {
            kind = hak_load_relaxed(&hak_tables.small_true[i]);
            hak_store_relaxed(&hak_tables.small_kind[i], hak_kind_shown(kind));
        } while (kind != hak_load_relaxed(&hak_tables.small_true[i])); /* refined meanwhile */
    }
}
