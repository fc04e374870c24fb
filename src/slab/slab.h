/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * slab: entry header. A slab is a run of slots cut into blocks of one class. Everything that is
 * known of it stands in its record and a bitmap, both of them beside the superslab, none in it:
 *
 *   meta of a superslab, 24 KiB:
 *     | 32 records, 128 bytes each | 32 x 128 bytes of bits | 32 x 512 bytes of bits |
 *
 * Classes of up to 64 blocks keep their bits in the record; up to 1,024 blocks in the first area;
 * the rest in the second. A run's record is that of its first slot. Pages of the meta that no slab
 * needs are never touched.
 *
 *   carved   blocks [0, carved) have been handed out at least once
 *   free     bit set: the block is in the slab, free (never set beyond carved)
 *
 * A block in a thread's bin, or on its way from a thread that does not own the slab, counts as
 * used. A record belongs to whoever holds the lock of the heap that owns the slab; any thread may
 * ask who that is, at any time: records stay mapped, and read as zero, nobody's, when the superslab
 * was given back.
 *
 * Called by large (which keeps its blocks' records here) and cache. Never takes a lock, never maps
 * memory. */
#pragma once

#include "slab/classes.h"

struct hak_heap; /* who owns a slab: known to the cache layer, a name here */

enum hak_misuse { HAK_DOUBLE_FREE, HAK_INTERIOR_FREE, HAK_NEVER_ALLOCATED };

/* One line on stderr, then SIGABRT. HAK_CLASSES: the class is not known, as the slab is gone. */
_Noreturn void hak_misuse(enum hak_misuse what, const void *p, unsigned cls);
/* The same for an address in a slab of a class at which no block is: inside one, or none yet. */
_Noreturn void hak_slab_no_block(unsigned cls, const void *p);

struct hak_slab {
    /* Owner: under the lock of the owning heap. */
    struct hak_slab *next, *prev;
    char *base;                   /* of the first block: see hak_class_colour_bytes */
    _Atomic(uint64_t) *free_bits; /* atomic because walkers may look; one writer */
    union {
        _Atomic(uint64_t) free_word;    /* the bits themselves where they are inline */
        _Atomic(uint32_t) large_sample; /* large blocks only: of a call site's samples, 0: none */
    };
    _Atomic(uint16_t) carved;
    _Atomic(uint16_t) free_blocks;
    uint8_t cls;
    uint8_t list;                /* which of its heap's lists it is in */
    uint8_t first_word;          /* no bit is set in words before this one */
    bool zero;                   /* blocks not carved yet read as zero */
    uint16_t purged_free_blocks; /* free_blocks when its free pages went; 0: used since */
    uint16_t seen_free_blocks;   /* free_blocks when somebody looked last: see purge.c in cache */
    uint32_t large_bytes;        /* large blocks only: the slots' length; the block's own */
    uint32_t large_colour;       /* and where in the first slot the block begins: see runs.c */
    uint8_t purged_least_pages;  /* with what its free pages were given back last */
    uint16_t settle_free;        /* so many blocks free that it belongs into another list */
    /* Any thread reads. */
    _Alignas(HAK_CACHE_LINE) _Atomic(struct hak_heap *) owner; /* NULL when no slab is here */
    struct hak_note note;                                      /* large blocks only */
};
_Static_assert(sizeof(struct hak_slab) == 128, "indexed with a shift");

/* The record of a slot; `meta` is hak_space_meta(). Between the records of two superslabs lie the
 * bitmaps of the first. */
static inline struct hak_slab *hak_slab_record_in(char *meta, size_t slot)
{
    size_t bitmaps = slot / HAK_SLOTS * (HAK_META_BYTES - HAK_SLOTS * sizeof(struct hak_slab));
    return (struct hak_slab *)(void *)(meta + bitmaps) + slot;
}

static inline struct hak_slab *hak_slab_record(size_t slot)
{
    return hak_slab_record_in(hak_space_meta(), slot);
}

/* The slab of a class that contains a slot: runs begin at multiples of their length. */
static inline struct hak_slab *hak_slab_of_slot(size_t slot, const struct hak_class *c)
{
    return hak_slab_record(slot & ~(size_t)(c->slots - 1u));
}

static inline unsigned hak_slab_words(const struct hak_class *c)
{
    return (c->blocks + 63u) / 64u;
}

/* Blocks in use, those in bins and on their way from other threads included. */
static inline unsigned hak_slab_used_blocks(const struct hak_slab *s)
{
    return (unsigned)hak_load_relaxed(&s->carved) - hak_load_relaxed(&s->free_blocks);
}

static inline size_t hak_slab_free_bytes(const struct hak_slab *s)
{
    return (size_t)hak_load_relaxed(&s->free_blocks) * hak_class(s->cls)->size_bytes;
}

/* Blocks that the slab could give: free ones and ones never carved. */
static inline unsigned hak_slab_room_blocks(const struct hak_slab *s)
{
    return hak_class(s->cls)->blocks - hak_slab_used_blocks(s);
}

static inline size_t hak_slab_slot(const struct hak_slab *s)
{
    return hak_slot_of(s->base);
}

/* Makes a slab of the slots from `slot` on, which the caller has acquired. The map entries are the
 * caller's affair. */
struct hak_slab *hak_slab_make_owner(size_t slot, unsigned cls, bool zero);

/* Takes up to `most` blocks, free ones before fresh ones, ascending in address, and stores them so
 * that out[-1] is the lowest, out[-2] the next (the order in which a stack that ends at `out` pops
 * them). Of up to 16, fresh ones only up to the end of a page that the first of them touches.
 * Returns how many; *fresh_zero says that all of them read as zero. */
unsigned hak_slab_take_owner(struct hak_slab *s, void **out, unsigned most, bool *fresh_zero);

/* Any thread: the index of the block that begins at p, in a slab of the class; if none does, more
 * than any number of blocks. */
static inline uint64_t hak_block_index_at(const struct hak_class *c, const void *p)
{
    size_t offset = (uintptr_t)p & c->offset_mask;
    return hak_block_index(c, offset - hak_class_colour_bytes(c, (uintptr_t)p));
}

static inline bool hak_block_begins(unsigned cls, const void *p)
{
    return hak_block_index_at(hak_class(cls), p) < hak_class(cls)->blocks;
}

/* The same; reports misuse and does not return if none does. */
static inline unsigned hak_block_checked_index(unsigned cls, const void *p)
{
    uint64_t index = hak_block_index_at(hak_class(cls), p);
    if (HAK_UNLIKELY(index >= hak_class(cls)->blocks))
        hak_slab_no_block(cls, p);
    return (unsigned)index;
}

/* Returns a block to its slab. Reports one that is free already, or where no block is, and does not
 * return. */
static inline void hak_slab_put_owner(struct hak_slab *s, const struct hak_class *c, void *block)
{
    uint64_t index = hak_block_index(c, (uintptr_t)block - (uintptr_t)s->base);
    if (HAK_UNLIKELY(index >= hak_load_relaxed(&s->carved)))
        hak_slab_no_block(s->cls, block);
    _Atomic(uint64_t) *word = &s->free_bits[index / 64];
    uint64_t free = hak_load_relaxed(word);
    if (HAK_UNLIKELY(hak_test_and_set64(&free, index)))
        hak_misuse(HAK_DOUBLE_FREE, block, s->cls);
    hak_store_relaxed(word, free);
    if (index / 64 < s->first_word)
        s->first_word = (uint8_t)(index / 64);
    hak_count_owner(&s->free_blocks, (uint16_t)1);
}

/* The same for blocks in any order, up to the first that is not one of the slab's; how many those
 * are. Now and then it looks whether they lie side by side: lists and arrays are often freed so. */
unsigned hak_slab_put_streak_owner(struct hak_slab *s, const struct hak_class *c,
                                   void *const *blocks, unsigned count);

/* Gives the pages in which no block is in use back to the system, where at least `least_pages` of
 * them lie side by side; they stay mapped, and blocks in them free. Returns the bytes; 0 also if
 * nothing has become free since the last time. */
size_t hak_slab_purge_owner(struct hak_slab *s, unsigned least_pages);

/* Invariants slab-counts and slab-bits; for debug builds and tests. Aborts when one does not hold.
 */
void hak_slab_verify_owner(const struct hak_slab *s);
