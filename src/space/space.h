/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * space: the window of addresses in which superslabs live, the map that says what is at an address,
 * and memory for the allocator's own records.
 *
 *   |--map--|--groups--|--records--|------meta------|---------------------window------------------->
 *
 *   map:     4 bytes a slot, owner and kind
 *   groups:  128 bytes for 64 superslabs: which are taken, which have room
 *   records: 64 bytes a superslab, slot states
 *   meta:    24 KiB a superslab, slab records and bitmaps
 *   window:  2 MiB a superslab
 *
 * All five are plain arrays indexed by the number of the superslab, at fixed distances from a
 * random base. None is reserved: each grows by mapping its next pages as the window is used, so the
 * virtual size stays close to what is in use and limits on address space or commit charge do not
 * stop the process from starting.
 *
 * Any layer above may call it. It never stores anything in the window and knows nothing of classes
 * or heaps. */
#pragma once

#include "os/os.h"

#define HAK_SLOT_SHIFT 16
#define HAK_SLOT_BYTES ((size_t)1 << HAK_SLOT_SHIFT)
#define HAK_SUPERSLAB_SHIFT 21
#define HAK_SUPERSLAB_BYTES ((size_t)1 << HAK_SUPERSLAB_SHIFT)
#define HAK_SLOTS 32 /* slots in a superslab */
#define HAK_RECORD_BYTES ((size_t)64)
#define HAK_META_BYTES ((size_t)6 * HAK_PAGE_BYTES)
/* Hardened build: a word for each block, in three arrays: of slabs with many blocks, with some and
 * with few. The shift says how long a part of a slot has a word: as many as the smallest blocks
 * need, 512 a slot, or 128. With one array most slabs would have a page of it each. */
#define HAK_WORD_MANY 4u
#define HAK_WORD_SOME 7u
#define HAK_WORD_FEW 9u
#define HAK_WORD_SHIFTS (HAK_WORD_FEW - HAK_WORD_MANY + 1)
#define HAK_WORDS_BYTES(shift) (HAK_SUPERSLAB_BYTES >> (shift) << 2)

/* What is known of a large or huge block beside its place; in its record. */
struct hak_note {
    size_t bytes; /* that were asked for */
    union {
        uint32_t front_bytes; /* hardened build: where in the range the block begins */
        uint32_t small_bytes; /* else: of a sampled block of a size class; 0: it is a large one */
    };
    uint32_t how; /* hardened build: how it was made; else: the sample's site, 0: no sample */
};

/* A map entry: owner tag in the upper 24 bits, kind in the lower 8. 0: nothing of ours begins here.
 * Kinds below HAK_KIND_CLASSES are size classes, twice the class number (so that the fast path
 * scales it for free). */
#define HAK_KIND_CLASSES 192u
#define HAK_KIND_LARGE 0xE0u
#define HAK_KIND_HUGE 0xE1u
#define HAK_KIND_KEPT 0x08u /* hardened build: with one of these two, freed and in quarantine */
#define HAK_KIND_MASK 0xFFu
#define HAK_TAG_SHIFT 8

struct hak_space_group;

struct hak_space {           /* all but slots written once, at the start */
    _Atomic(uintptr_t) base; /* address of slot 0 */
    _Atomic(size_t) slots;   /* slots that the map covers; grows only. 0 before the start */
    _Atomic(_Atomic(uint32_t) *) map;
    _Atomic(struct hak_space_group *) groups;
    _Atomic(char *) records; /* HAK_RECORD_BYTES each */
    _Atomic(char *) meta;    /* HAK_META_BYTES each */
    /* Hardened build: by their shift, less HAK_WORD_MANY; as far as meta. */
    _Atomic(_Atomic(uint32_t) *) words[HAK_WORD_SHIFTS];
};
#define HAK_SPACE_ROOMS 12u
/* 64 superslabs' worth of what is found bit by bit. */
struct hak_space_group {
    _Atomic(uint64_t) taken;   /* written under the space lock */
    _Atomic(uint64_t) retired; /* the pool's, as all below */
    /* Between which lie the orders in which those were retired: hints */
    _Atomic(uint32_t) retired_newest, retired_oldest;
    _Atomic(uint64_t) dense; /* for huge pages: only slots that will be used up go there */
    /* Superslabs that may have a run of so many free slots, see pool_room_slots, the last one those
     * that may have EMPTY ones; lock-free */
    _Atomic(uint64_t) avail[HAK_SPACE_ROOMS];
};
_Static_assert(sizeof(struct hak_space_group) == (size_t)2 * HAK_CACHE_LINE, "lines of its own");

extern HAK_HIDDEN struct hak_space hak_space;

/* Chooses the window. Returns 0 or an errno; may be called again after a failure. Called once at a
 * time (under the start lock), before anything else here. */
int hak_space_start(void);

/* Takes `count` adjacent superslabs, the first at a multiple of `align` superslabs (a power of
 * two), maps the first `bytes` bytes of the range, and makes their map entries, records and
 * (with_meta) meta usable. Returns 0 or an errno. */
int hak_space_take(size_t count, size_t align, size_t bytes, bool with_meta, size_t *first);
/* False: the window has no place for so many, whatever is taken of it. */
bool hak_space_has_place(size_t count, size_t align);
/* Takes the `count` superslabs from `first` on, if they are free, and maps nothing. For growth in
 * place. */
bool hak_space_try_take_at(size_t first, size_t count);
/* Gives a range back whose pages are no longer mapped. */
void hak_space_give(size_t first, size_t count);
/* Makes the meta of superslabs below `limit` usable. Returns 0 or an errno. */
int hak_space_need_meta(size_t limit);
/* No slab is in a superslab, which has meta: gives its pages back. It reads as zero from then on,
 * also to whoever looks at that moment. False: refused. */
bool hak_space_try_forget_meta(size_t superslab);

/* For walks: all superslabs that are taken are below this number. It falls, too. */
size_t hak_space_high_water(void);
/* Bytes of the arrays mapped so far. */
size_t hak_space_meta_bytes(void);
bool hak_space_is_taken(size_t superslab);
/* How often the locks of the window and of the records were taken. */
void hak_space_add_lock_counts(struct hak_lock_counts *sum);
void hak_meta_add_lock_counts(struct hak_lock_counts *sum);

/* In the child of a fork: makes good what another thread was changing. See heap/start.c. */
void hak_space_fork_child(void);
void hak_meta_fork_child(void);

/* --- memory for the allocator's own records: powers of two, never returned to the system --- */

/* At least `bytes`, aligned to 64, or to a page if it is as large, contents undefined; NULL when
 * the system refuses. Any thread. */
void *hak_meta_alloc(size_t bytes);
/* The same; *fresh says that it reads as zero, and that its pages have not been touched. */
void *hak_meta_alloc_or_fresh(size_t bytes, bool *fresh);
/* `bytes` as given to hak_meta_alloc. */
void hak_meta_free(void *p, size_t bytes);
/* The same for several under one lock, each linked to the next by its first word, the last to NULL.
 * What is taken is one at least, or NULL, and more, `most` in all, only of what was freed before.
 */
struct hak_meta_free {
    struct hak_meta_free *next;
};
struct hak_meta_free *hak_meta_alloc_chain(size_t bytes, unsigned most);
void hak_meta_free_chain(struct hak_meta_free *first, struct hak_meta_free *last, size_t bytes);

/* --- arithmetic --- */

/* The slot number of an address; at least hak_space.slots when the address is not covered by the
 * window. */
static inline size_t hak_slot_of(const void *p)
{
    return ((uintptr_t)p - hak_load_relaxed(&hak_space.base)) >> HAK_SLOT_SHIFT;
}

static inline char *hak_slot_address(size_t slot)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the window is defined by numbers */
    return (char *)(hak_load_relaxed(&hak_space.base) + (slot << HAK_SLOT_SHIFT));
}

static inline char *hak_superslab_address(size_t superslab)
{
    return hak_slot_address(superslab * HAK_SLOTS);
}

static inline _Atomic(uint32_t) *hak_map_entry(size_t slot)
{
    return &hak_load_relaxed(&hak_space.map)[slot];
}

/* The entry for an address; 0 when the window does not cover it. */
static inline uint32_t hak_map_lookup(const void *p)
{
    size_t slot = hak_slot_of(p);
    return slot < hak_load_relaxed(&hak_space.slots) ? hak_load_relaxed(hak_map_entry(slot)) : 0;
}

static inline struct hak_space_group *hak_space_groups(void)
{
    return hak_load_relaxed(&hak_space.groups);
}

static inline void *hak_space_records(void)
{
    return hak_load_relaxed(&hak_space.records);
}

/* Hardened build: an array of words, see HAK_WORD_MANY; the word of the window's first byte. The
 * layer above gives words their meaning: they begin as 0, stay when a slot changes hands, and go
 * with the superslab. */
static inline _Atomic(uint32_t) *hak_space_words(unsigned shift)
{
    return hak_load_relaxed(&hak_space.words[shift - HAK_WORD_MANY]);
}

static inline char *hak_space_meta(void)
{
    return hak_load_relaxed(&hak_space.meta);
}
