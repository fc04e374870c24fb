/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: what its files share. */
#pragma once

#include "hard/hard.h"
#include "hard/zeros.h"

/* --- a block's word; for large blocks `how` in its note, without the size --- */

#define HARD_SIZE_MASK 0x1FFFFu
#define HARD_MAKER_SHIFT 17
#define HARD_MAKER_MASK (7u << HARD_MAKER_SHIFT)
#define HARD_ALIGN_SHIFT 20
#define HARD_ALIGN_MASK (63u << HARD_ALIGN_SHIFT)
#define HARD_WARM 1u   /* large blocks only: every page has been in use before; see large.c */
#define HARD_ZEROED 2u /* large blocks only: freed, and stays accessible */
#define HARD_GUARD_FRONT (1u << 26) /* large blocks only, as the next three */
#define HARD_GUARD_BACK (1u << 27)
#define HARD_SEALED (1u << 28) /* no page of it can be accessed */
#define HARD_PURGED (1u << 29) /* and none is in memory */
#define HARD_FREED (1u << 30)
#define HARD_LIVE (1u << 31)

static inline uint32_t hard_how(size_t align_bytes, enum hak_maker maker)
{
    return HARD_LIVE | (uint32_t)maker << HARD_MAKER_SHIFT |
           hak_log2_ceil(align_bytes) << HARD_ALIGN_SHIFT;
}

/* What a free claims, as a word and the bits of it that have to agree: two registers. */
struct hard_claim {
    uint32_t word, mask;
    size_t size_bytes;
};

/* Where a block's word is. `index` is more than any number of blocks when no block begins at p. */
struct hard_place_of_word {
    size_t slab_bytes, index;
};

HAK_ALWAYS_INLINE struct hard_place_of_word hard_find_word(const struct hak_class *c,
                                                           size_t p_bytes)
{
    size_t offset = p_bytes & c->offset_mask;
    return (struct hard_place_of_word){p_bytes - offset, hak_block_index(c, offset)};
}

/* The word of the block that begins at p. */
static inline _Atomic(uint32_t) *hard_word(const struct hak_class *c, const void *p)
{
    struct hard_place_of_word at =
        hard_find_word(c, (uintptr_t)p - hak_load_relaxed(&hak_space.base));
    return hak_class_word(c, at.slab_bytes, at.index);
}

#define HARD_LARGE 0xFFu   /* in the place of a class */
#define HARD_NOTHING 0xFEu /* the same for a block of no bytes */
#define HARD_LINES 4u
#define HARD_PLACES 300u
#define HARD_LARGE_WAIT 4u /* large blocks in a thread's quarantine */

extern HAK_HIDDEN struct hard {
    uint64_t secret[2];  /* canaries are made of; [1] is odd, and 0 before the first block */
    uint32_t claim_mask; /* of every free: HARD_LIVE, and HARD_MAKER_MASK unless it is turned off */
    uint32_t sizes_mask; /* of what names them: HARD_SIZE_MASK | HARD_ALIGN_MASK, or 0 */
    uint8_t line_of_kind[HAK_KIND_CLASSES]; /* the quarantine's */
    uint16_t place_behind[HARD_PLACES];     /* in the same line, which has no end */
    size_t kept_most_bytes;                 /* addresses of freed large blocks */
} hak_hard;

/* --- canaries --- */

/* Differs from block to block. Its first byte is never 0: the most common overflow is the NUL at
 * the end of a string. */
static inline uint64_t hard_canary(const void *p)
{
    return __builtin_bswap64(((uintptr_t)p ^ hak_hard.secret[0]) * hak_hard.secret[1]) | 1;
}

/* Behind what was asked for there is room for a canary; large blocks may have room for a part of
 * it, which ends where the block ends: the word that it is the upper part of begins in what was
 * asked for. */
#define HARD_CANARY_BYTES sizeof(uint64_t)
struct hard_place {
    char *at;
    unsigned shift; /* bits of the word that are the program's */
};

HAK_ALWAYS_INLINE struct hard_place hard_canary_place(const char *p, size_t bytes,
                                                      size_t block_bytes)
{
    size_t at = hak_min(bytes, block_bytes - sizeof(uint64_t));
    return (struct hard_place){.at = (char *)p + at, .shift = 8 * (unsigned)(bytes - at)};
}

static inline void hard_canary_put(char *p, size_t bytes, size_t block_bytes)
{
    struct hard_place place = hard_canary_place(p, bytes, block_bytes);
    uint64_t word = hard_load(place.at) & ~(UINT64_MAX << place.shift);
    word |= hard_canary(p) << place.shift;
    __builtin_memcpy(place.at, &word, sizeof word);
}

/* 0: the canary is whole. */
HAK_ALWAYS_INLINE uint64_t hard_canary_wrong(const char *p, struct hard_place place)
{
    return (hard_load(place.at) ^ hard_canary(p) << place.shift) >> place.shift;
}

/* The canary is whole, and the last 8 bytes of the block, as far as they are behind it, are zero:
 * nobody has written across the end of the block, from either side. What is between them is looked
 * at when the block is used again. (How much that is changes from block to block: a loop or a
 * branch would be foreseen wrongly each other time.) */
HAK_ALWAYS_INLINE bool hard_canary_is_whole(const char *p, size_t bytes, size_t block_bytes)
{
    uint64_t last = hard_load(p + block_bytes - sizeof last);
    size_t rest_bytes = block_bytes - HARD_CANARY_BYTES - bytes;
    unsigned half = 4 * (unsigned)(sizeof last - hak_min(rest_bytes, sizeof last));
    last = last >> half >> half; /* a shift by 64 bits does nothing */
    return ((hard_load(p + bytes) ^ hard_canary(p)) | last) == 0;
}

/* The canary is whole, and behind it is nothing but zeros. */
static inline bool hard_canary_holds(const char *p, size_t bytes, size_t block_bytes)
{
    struct hard_place place = hard_canary_place(p, bytes, block_bytes);
    if (hard_canary_wrong(p, place) != 0)
        return false;
    const char *q = place.at + sizeof(uint64_t);
    uint64_t any = 0;
    for (; q + sizeof any <= p + block_bytes; q += sizeof any)
        any |= hard_load(q);
    for (; q < p + block_bytes; q++)
        any |= (uint64_t)*q;
    return any == 0;
}

/* --- quarantine.c --- */

/* A range that waits among all that are kept: as it was when it was put there, as it may have been
 * taken away since. */
struct hard_waiting {
    uint64_t word;
    size_t resident_bytes;
    unsigned place;
    bool is_of_use; /* to others, later */
};

/* One a thread, its own alone. */
struct hard_thread {
    /* What was asked for of blocks that free need not see to by its slow path: less than this. 0:
     * the quarantine is busy: closed, or half changed. */
    _Atomic(uint32_t) fast_bytes;
    uint8_t end_rounds;
    uint16_t oldest[HARD_LINES]; /* the place of each line's */
    void *places[HARD_PLACES];   /* of all lines; NULL where nothing has been yet */
    uint8_t bins[HARD_PLACES];   /* that the blocks will go to; HAK_KIND_CLOSED: by the slow path */
    unsigned large_count;        /* oldest first */
    size_t large_bytes;          /* of their ranges */
    size_t large_resident_bytes;
    struct hard_waiting large[HARD_LARGE_WAIT];
};
extern HAK_HIDDEN __thread struct hard_thread *hak_hard_self;

#define HARD_FAST_BYTES 1024u /* beyond that looking before clearing is worth it */
static inline bool hard_is_busy(const struct hard_thread *t)
{
    return hak_load_relaxed(&t->fast_bytes) == 0;
}

static inline void hard_set_busy(struct hard_thread *t, bool busy)
{
    hak_store_relaxed(&t->fast_bytes, busy ? 0 : HARD_FAST_BYTES);
}

static inline struct hard_claim hard_claim_of_free(void)
{
    return (struct hard_claim){.word = HARD_LIVE | HAK_BY_MALLOC, .mask = hak_hard.claim_mask};
}

/* The calling thread's quarantine, marked as busy; NULL: it has none, or not now. */
struct hard_thread *hak_hard_quarantine_slow(void);
/* Gives a block back to heap; NULL: does nothing. */
void hak_hard_release_slow(void *p);

/* Puts a block whose word says freed in the place of the oldest in its line, and gives that back:
 * `bin` is the kind of this thread's that it will go to, HAK_KIND_CLOSED for another thread's
 * block. The quarantine is not busy. (A signal handler that frees while it interrupts this may lose
 * a block to no bin, or give one to two, as with any bin: not allowed.) */
HAK_ALWAYS_INLINE void hard_quarantine(struct hard_thread *t, void *p, unsigned line, uint64_t bin)
{
    unsigned place = t->oldest[line];
    t->oldest[line] = hak_hard.place_behind[place];
    void *oldest = t->places[place];
    uint64_t oldest_bin = t->bins[place];
    t->places[place] = p;
    t->bins[place] = (uint8_t)bin;
    if (HAK_UNLIKELY(!hak_cache_push(hak_self, oldest_bin, oldest)))
        hak_hard_release_slow(oldest);
}

/* --- paths.h: in two forms, and choose.c --- */

/* Calls what(result, name, parameters, arguments) for each function. */
#define HARD_PATHS(what)                                                                           \
    what(void *, hak_hard_malloc, (size_t size_bytes), (size_bytes))                               \
        what(void *, hak_hard_new, (size_t size_bytes, enum hak_maker maker), (size_bytes, maker)) \
            what(void *, hak_hard_alloc,                                                           \
                 (size_t size_bytes, size_t align_bytes, enum hak_maker maker),                    \
                 (size_bytes, align_bytes, maker))                                                 \
                what(void, hak_hard_free, (void *p, hak_free_foreign *foreign), (p, foreign))      \
                    what(void, hak_hard_free_claimed,                                              \
                         (void *p, const struct hak_claim *claim, hak_free_foreign *foreign),      \
                         (p, claim, foreign)) what(void, hak_hard_delete,                          \
                                                   (void *p, enum hak_maker maker,                 \
                                                    size_t size_bytes, hak_free_foreign *foreign), \
                                                   (p, maker, size_bytes, foreign))                \
                        what(bool, hak_hard_is_zero, (const char *p, size_t bytes), (p, bytes))    \
                            what(void, hak_hard_zero_written, (char *p, size_t bytes), (p, bytes))

/* p and bytes are multiples of 16, bytes > 0. */
bool hak_hard_is_zero(const char *p, size_t bytes);
/* Makes it zero, and writes only to lines that are not. */
void hak_hard_zero_written(char *p, size_t bytes);

#define HARD_DECLARE(result, name, parameters, arguments)                                          \
    result name##_plain parameters;                                                                \
    result name##_avx2 parameters;
HARD_PATHS(HARD_DECLARE)

/* --- blocks.c --- */

/* Makes the secret, once a process. The first allocation of a thread comes this way. */
void hak_hard_start_slow(void);
/* A block whose word does not fit the claim in that one side is malloc's or free's and the other an
 * operator's: true where that may be right, as a library has operators of its own. */
bool hak_hard_may_mix(uint32_t word, const struct hard_claim *claim);
/* The word fits the claim, or that may be right. */
HAK_ALWAYS_INLINE bool hard_fits(uint32_t word, const struct hard_claim *claim)
{
    return HAK_LIKELY(!((word ^ claim->word) & claim->mask)) || hak_hard_may_mix(word, claim);
}
/* A block of a class that does not fit the claim, or is not live. */
_Noreturn void hak_hard_refuse(const void *p, unsigned cls, uint32_t word,
                               const struct hard_claim *claim);

/* --- large.c --- */

void *hak_hard_large_alloc(size_t size_bytes, uint32_t how);
/* `entry` is what the map says of p's slot. False: no block begins at p. */
bool hak_hard_large_free(void *p, uint32_t entry, const struct hard_claim *claim);
bool hak_hard_large_realloc(void *p, uint32_t entry, size_t size_bytes, void **out);
/* Makes the block at p shorter where it is. False: refused, nothing has changed. */
bool hak_hard_large_try_shrink(void *p, uint32_t entry, size_t size_bytes);
size_t hak_hard_large_usable_bytes(const void *p, uint32_t entry);
/* What was noted of a range, and its length. */
struct hak_note *hak_hard_large_note(const void *range, bool *huge);
size_t hak_hard_large_range_bytes(const void *range);
/* Gives a freed block's range back to heap; one that was left accessible is looked at. */
void hak_hard_large_release(char *range);
/* Whether there is a limit of writable memory. */
void hak_hard_large_look_at_limit(void);
/* Tries again what the system refused of that. */
void hak_hard_large_retry(void);

/* The end of the pages of a range that can be accessed; the first is the second of the range. */
static inline size_t hard_large_end(const struct hak_note *note)
{
    return hak_round_up(note->front_bytes + note->bytes, HAK_PAGE_BYTES);
}

static inline size_t hard_large_room_pages(const struct hak_note *note)
{
    return hak_max(hard_large_end(note) / HAK_PAGE_BYTES, 1) - 1; /* of no bytes: without a front */
}

/* A block of `pages` may end where the room does: what is before it has to be zero, and is looked
 * at. A block begins in the first slot of its range. */
#define HARD_LARGE_SLACK_MOST (HAK_SLOT_BYTES / HAK_PAGE_BYTES - 2)
static inline bool hard_large_room_fits(size_t room_pages, size_t pages)
{
    return room_pages >= pages && room_pages - pages <= hak_min(HARD_LARGE_SLACK_MOST, pages / 4);
}

/* --- nothing.c: blocks of no bytes --- */

/* NULL: a block of a class has to do. */
void *hak_hard_nothing_alloc(uint32_t how);
/* p is such a block, or was one. */
bool hak_hard_nothing_is(const void *p);
/* False: it is none. */
bool hak_hard_nothing_try_free(const void *p, const struct hard_claim *claim);

/* --- kept.c --- */

/* Once a process; part of the first allocation. */
void hak_hard_kept_start(void);
/* What freed blocks may have in memory, all together. */
size_t hak_hard_kept_most(void);
/* A range out of which a block of so many pages can be made; NULL: there is none. It is as it was
 * when it was put away. */
char *hak_hard_kept_take(size_t pages);
/* What threads keep in quarantine is more than that by itself: what others could use has gone. */
bool hak_hard_kept_is_full(size_t most);
/* The range of a block that was just put away goes to the thread's quarantine, which is not busy.
 * `most` is hak_hard_kept_most(). */
void hak_hard_kept_put(struct hard_thread *t, char *range, size_t most);
/* The thread's quarantine, which is busy, is emptied for others to use. */
void hak_hard_kept_end(struct hard_thread *t);
/* All that waits no longer goes back to heap; or all that waits, in other threads' quarantines too.
 */
void hak_hard_kept_flush(bool waiting);

/* --- report.c: messages; none of them returns --- */

_Noreturn void hak_hard_overflow(const void *p, unsigned cls, size_t bytes);
/* The same, but callers need not know that it does not return: a tail call takes no frame. */
void hak_hard_overflow_slow(const void *p, unsigned cls, size_t bytes);
_Noreturn void hak_hard_underflow(const void *p, size_t bytes);
/* Of what of the block is not zero the first is named. */
_Noreturn void hak_hard_written_after_free(const char *p, unsigned cls, size_t bytes);
/* The same for a block of a class whose word is `word`: behind what was asked for it may have been
 * written before. */
_Noreturn void hak_hard_written(const char *p, unsigned cls, uint32_t word);
_Noreturn void hak_hard_double_free(const void *p, unsigned cls);
/* The block's `word` and size do not fit the claim. */
_Noreturn void hak_hard_mismatch(const void *p, unsigned cls, uint32_t word, size_t bytes,
                                 const struct hard_claim *claim);
