/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * slab: the size classes. Steps of 16 bytes to 128, eight classes a doubling to 8 KiB (of which up
 * to 1 KiB threads use what pays: cache/place.c), then parts of four slots, from a 28th to a
 * quarter. The tables are filled once at the start; before that, every look-up gives class 0, which
 * no thread can serve then.
 *
 * Blocks of just 1, 2, 4 ... 64 KiB side by side would have the first bytes of all of them, and of
 * all their pages, in the same few sets of the caches, which hold some eight lines each. So those
 * classes are a cache line to 18 lines longer, the first 16 bytes, which is also room for a header.
 * Behind them come classes of just these sizes, and of 6, 12, 24 and 48 KiB, for aligned blocks.
 * For the same reason the first block of a slab begins at another line in each of 32 neighbouring
 * slabs (slab colouring: Bonwick, "The Slab Allocator", 1994, section 4.3), as far as what a slab
 * has left behind its last block allows. See "Where blocks begin" in docs/performance.md.
 *
 * What the fast paths look up may name the closed kind instead, whose bin is always empty: so the
 * slow path sees every request of that size. What the size's class is stays in the true tables.
 *
 * Each class in use costs a slab that is partly empty and a few blocks in a bin, so of the large
 * ones every other is left out (`fine`) until the process has so much memory in the class above it
 * that what its blocks waste weighs more. (All of them from the start cost python3 2 MiB of 30; the
 * even ones alone an eighth more where all memory is in blocks of 16 to 32 KiB.) */
#pragma once

#include "space/space.h"

#define HAK_CLASSES 88u
#define HAK_KIND_CLOSED (HAK_CLASSES * 2u)
/* The first classes, those up to 1 KiB, have a metered bin each as well: see cache/meter.c. */
#define HAK_METERED_CLASSES 32u
#define HAK_KIND_METERED (HAK_KIND_CLOSED + 2u)
#define HAK_BINS (HAK_CLASSES + 1u + HAK_METERED_CLASSES)
_Static_assert(HAK_BINS * 2 <= UINT8_MAX, "a kind is a byte");
#define HAK_ALIGNMENT ((size_t)16)  /* of every block: what glibc's ABI promises */
#define HAK_TINY_MAX ((size_t)1040) /* 1 KiB and 16 bytes; table of steps of 16 bytes */
#define HAK_TINY_KINDS (HAK_TINY_MAX / 16 + 1)
#define HAK_SMALL_MAX ((size_t)66688) /* 64 KiB and 18 cache lines; table of steps of a line */
#define HAK_SMALL_STEP ((size_t)64)
#define HAK_SMALL_KINDS (HAK_SMALL_MAX / HAK_SMALL_STEP + 1)
#define HAK_SLAB_MOST_SLOTS 16u
#define HAK_CLASS_ALIGNED (HAK_CLASSES - 11u) /* the first of those for aligned blocks alone */
_Static_assert(HAK_CLASSES * 2 <= HAK_KIND_CLASSES, "kinds of classes are twice the class number");

/* A set of classes, a bit each. */
struct hak_class_set {
    uint64_t bits[2];
};
_Static_assert(HAK_CLASSES <= 128, "a bit for each");

struct hak_class { /* 32 bytes: indexed with a shift */
    uint32_t size_bytes;
    uint16_t blocks;      /* in a slab */
    uint8_t slots;        /* a slab is this many slots: 1, 2, 4 or HAK_SLAB_MOST_SLOTS */
    bool inline_bits;     /* the bitmaps are words in the slab's own record */
    uint32_t offset_mask; /* an address and-ed with this is the offset in its slab: slabs are
                             aligned to their length */
    uint8_t even_bits;    /* size == odd << even_bits */
    bool fine;            /* its sizes go to the next class until hak_classes_refine */
    union {
        uint8_t colour_shift; /* see hak_class_colour_bytes */
        uint8_t word_shift;   /* hardened build: see hak_class_word */
    };
    uint64_t inverse; /* odd * inverse == 1, modulo 2^64 */
    union {
        uint16_t colour_step; /* 0: every slab's first block begins where the slab does */
        _Atomic(uint32_t) *words;
    };
};
_Static_assert(sizeof(struct hak_class) == 32, "indexed with a shift");

struct hak_class_tables {
    /* Kinds of sizes up to HAK_TINY_MAX at three levels: see cache/place.c. */
    uint8_t coarse_kind[HAK_TINY_KINDS]; /* doubling from 32: a thread begins with these */
    uint8_t tiny_kind[HAK_TINY_KINDS];   /* steps of 16 bytes to 128, then four a doubling */
    uint8_t narrow_kind[HAK_TINY_KINDS]; /* all there are */
    /* Atomic: a thread without a heap may look before the start, and it may be refined. */
    _Atomic(uint8_t) small_kind[HAK_SMALL_KINDS]; /* for fast paths: may be closed */
    _Atomic(uint8_t) small_true[HAK_SMALL_KINDS];
    _Atomic(uint64_t) closed[2]; /* classes of which the fast paths' tables are closed */
    _Atomic(bool) metered;       /* the others of the first classes go by their metered bins */
    struct hak_class classes[HAK_CLASSES];
};
extern HAK_HIDDEN struct hak_class_tables hak_tables;

void hak_classes_start(void);
/* Hardened build: once there is a window. */
void hak_classes_find_words(void);
/* From now on the sizes for which there is a fine class below `cls` go there. Any thread, at any
 * time after the start. */
void hak_classes_refine(unsigned cls);
/* Closes small_kind for these classes and opens it for the others. One thread at a time. */
void hak_classes_close(struct hak_class_set classes);

/* Where the tables of small kinds have a size of at most HAK_SMALL_MAX. */
HAK_ALWAYS_INLINE size_t hak_small_index(size_t size_bytes)
{
    return (size_bytes + HAK_SMALL_STEP - 1) / HAK_SMALL_STEP;
}

/* size <= HAK_SMALL_MAX. */
static inline unsigned hak_class_of(size_t size_bytes)
{
    unsigned kind = size_bytes <= HAK_TINY_MAX
                        ? hak_tables.tiny_kind[(size_bytes + 15) / 16]
                        : hak_load_relaxed(&hak_tables.small_true[hak_small_index(size_bytes)]);
    return kind / 2;
}

/* What a fast path's table says where the true one says `kind`. */
static inline uint8_t hak_kind_shown(uint8_t kind)
{
    uint64_t closed = hak_load_relaxed(&hak_tables.closed[kind / 128]);
    if (closed >> kind / 2 % 64 & 1)
        return HAK_KIND_CLOSED;
    return kind < HAK_METERED_CLASSES * 2 && hak_load_relaxed(&hak_tables.metered)
               ? (uint8_t)(HAK_KIND_METERED + kind)
               : kind;
}

/* No class of the first 64 is shown as another kind, as in most processes. */
static inline bool hak_kinds_are_shown(void)
{
    return hak_load_relaxed(&hak_tables.closed[0]) == 0 && !hak_load_relaxed(&hak_tables.metered);
}

static inline const struct hak_class *hak_class(unsigned cls)
{
    return &hak_tables.classes[cls];
}

#define HAK_COLOURS 32u

/* Where in the slab that contains an address the first block begins; a multiple of a cache line.
 * Nowhere else in the hardened build: there an address is all that the words of a slab's blocks are
 * found by. */
static inline size_t hak_class_colour_bytes(const struct hak_class *c, uintptr_t address)
{
    if (HAK_HARDENED)
        return 0;
    size_t colour = (address >> c->colour_shift) * 13 % HAK_COLOURS; /* neighbours lie far apart */
    return hak_round_down(colour * c->colour_step, HAK_CACHE_LINE);
}

/* Hardened build: which array the words of such a slab's blocks are in. */
static inline unsigned hak_class_word_shift(const struct hak_class *c)
{
    size_t part_bytes = c->slots * HAK_SLOT_BYTES / c->blocks;
    return part_bytes >> HAK_WORD_FEW    ? HAK_WORD_FEW
           : part_bytes >> HAK_WORD_SOME ? HAK_WORD_SOME
                                         : HAK_WORD_MANY;
}

/* The word of the block with this index in the slab that begins `slab_bytes` from the window's
 * base, in a superslab with meta. */
HAK_ALWAYS_INLINE _Atomic(uint32_t) *hak_class_word(const struct hak_class *c, size_t slab_bytes,
                                                    size_t index)
{
    return &c->words[(slab_bytes >> c->word_shift) + index];
}

/* All its blocks are so aligned: slabs begin at multiples of 64 KiB. align_bytes a power of two, at
 * most that. */
static inline bool hak_class_is_aligned(unsigned cls, size_t align_bytes)
{
    const struct hak_class *c = hak_class(cls);
    return align_bytes >> c->even_bits <= 1 &&
           (HAK_HARDENED || align_bytes <= HAK_CACHE_LINE || c->colour_step == 0);
}

/* The smallest class of at least so many bytes, a multiple of the alignment, of which that holds.
 * 0 < size_bytes <= HAK_SLOT_BYTES. */
unsigned hak_class_aligned(size_t align_bytes, size_t size_bytes);

/* offset / size where that is exact, else more than any number of blocks; also for offsets of
 * blocks of other slabs and for negative ones. (Granlund and Montgomery, "Division by Invariant
 * Integers using Multiplication", 1994, section 9: a test for divisibility that gives the
 * quotient.) */
static inline uint64_t hak_block_index(const struct hak_class *c, uint64_t offset_bytes)
{
    return hak_rotate_right64(offset_bytes * c->inverse, c->even_bits);
}
