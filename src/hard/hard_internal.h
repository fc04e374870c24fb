/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: what its files share. */
#pragma once

#include "hard/hard.h"

/* --- a block's word; for large blocks `how` in its note, without the size --- */

#define HARD_SIZE_MASK 0x1FFFFu
#define HARD_MAKER_SHIFT 17
#define HARD_MAKER_MASK (7u << HARD_MAKER_SHIFT)
#define HARD_ALIGN_SHIFT 20
#define HARD_ALIGN_MASK (63u << HARD_ALIGN_SHIFT)
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

/* What a free claims, as a word and the bits of it that have to agree. */
struct hard_claim {
    uint32_t word, mask;
    size_t size_bytes;
};

extern HAK_HIDDEN struct hard {
    uint64_t secret[2];  /* canaries are made of; [1] is odd, and 0 before the first block */
    uint32_t maker_mask; /* HARD_MAKER_MASK, or 0 */
    uint8_t line_of_class[HAK_CLASSES];
    size_t kept_most_bytes; /* of large blocks in a thread's quarantine */
} hak_hard;

/* --- canaries --- */

/* Differs from block to block. Its first byte is never 0: the most common overflow is the NUL at
 * the end of a string. */
static inline uint64_t hard_canary(const void *p)
{
    return __builtin_bswap64(((uintptr_t)p ^ hak_hard.secret[0]) * hak_hard.secret[1]) | 1;
}

static inline uint64_t hard_load(const void *at)
{
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

/* Both: `room` > 0 bytes lie between the `bytes` that were asked for and the end of the block. */
static inline void hard_canary_put(char *p, size_t bytes, size_t room)
{
    uint64_t canary = hard_canary(p);
    if (HAK_LIKELY(room >= sizeof canary)) {
        __builtin_memcpy(p + bytes, &canary, sizeof canary);
        return;
    }
    for (; room > 0; room--, canary >>= 8)
        p[bytes++] = (char)canary;
}

/* The canary is whole, and behind it is nothing but zeros. */
static inline bool hard_canary_holds(const char *p, size_t bytes, size_t room)
{
    const char *end = p + bytes + room;
    uint64_t wrong = hard_canary(p);
    if (HAK_UNLIKELY(room < sizeof wrong)) {
        unsigned shift = 64 - 8 * (unsigned)room;
        return ((hard_load(end - sizeof wrong) ^ wrong << shift) >> shift) == 0;
    }
    wrong ^= hard_load(p + bytes);
    const char *rest = p + bytes + sizeof wrong;
    if ((size_t)(end - rest) < sizeof wrong) /* the last word is the canary's in part */
        return wrong == 0 &&
               (rest == end || hard_load(end - sizeof wrong) >> (64 - 8 * (end - rest)) == 0);
    for (const char *at = end - sizeof wrong; at > rest; at -= sizeof wrong)
        wrong |= hard_load(at);
    return (wrong | hard_load(rest)) == 0;
}

/* --- zeros; p and bytes are multiples of 16, bytes > 0 --- */

typedef uint64_t hard_vector __attribute__((vector_size(16), may_alias));

static inline bool hard_is_zero(const char *p, size_t bytes)
{
    const char *end = p + bytes;
    hard_vector any = {0, 0};
    for (; p + 64 <= end; p += 64) {
        const hard_vector *at = (const hard_vector *)(const void *)p;
        any |= (at[0] | at[1]) | (at[2] | at[3]);
    }
    for (; p < end; p += 16)
        any |= *(const hard_vector *)(const void *)p;
    return (any[0] | any[1]) == 0;
}

#define HARD_ZERO_INLINE_BYTES 256u /* beyond that a call is worth it */

static inline void hard_zero(char *p, size_t bytes)
{
    if (HAK_UNLIKELY(bytes > HARD_ZERO_INLINE_BYTES)) {
        __builtin_memset(p, 0, bytes);
        return;
    }
    const char *end = p + bytes;
    do {
        *(hard_vector *)(void *)p = (hard_vector){0, 0};
        p += 16;
        HAK_OPAQUE(p); /* or the compiler makes a call of memset of it */
    } while (p < end);
}

/* --- quarantine.c --- */

#define HARD_LARGE 0xFFu /* in the place of a class */
#define HARD_LINES 4u
#define HARD_PLACES 300u
#define HARD_LARGE_KEPT 16u

/* One a thread, its own alone. */
struct hard_thread {
    _Atomic(bool) busy; /* closed, or half changed: a signal handler has interrupted a free */
    uint8_t end_rounds;
    struct {
        uint8_t turn, mask;
        uint16_t first;
    } lines[HARD_LINES];
    void *places[HARD_PLACES]; /* of all lines; NULL where nothing has been yet */
    unsigned large_count;      /* oldest first */
    size_t large_bytes;        /* of their ranges */
    size_t large_resident_bytes;
    char *large[HARD_LARGE_KEPT];
};
extern HAK_HIDDEN __thread struct hard_thread *hak_hard_self;

/* The calling thread's quarantine, marked as busy; NULL: it has none, or not now. */
struct hard_thread *hak_hard_quarantine_slow(void);
/* Gives a block back to heap. */
void hak_hard_release_slow(void *p);

/* Puts a block whose word says freed in the place of the oldest in its line, and gives that back.
 */
HAK_ALWAYS_INLINE void hard_quarantine(void *p, unsigned cls)
{
    struct hard_thread *t = hak_hard_self;
    if (HAK_UNLIKELY(hak_load_relaxed(&t->busy))) {
        t = hak_hard_quarantine_slow();
        if (t == NULL) {
            hak_hard_release_slow(p);
            return;
        }
    }
    hak_store_relaxed(&t->busy, true);
    unsigned line = hak_hard.line_of_class[cls];
    void **place = &t->places[t->lines[line].first + (t->lines[line].turn++ & t->lines[line].mask)];
    void *oldest = *place;
    *place = p;
    if (HAK_LIKELY(oldest != NULL) && HAK_UNLIKELY(!hak_heap_try_free(oldest)))
        hak_hard_release_slow(oldest);
    hak_store_relaxed(&t->busy, false);
}

/* --- large.c --- */

/* Once a process; part of the first allocation. */
void hak_hard_large_start(void);
void *hak_hard_large_alloc(size_t size_bytes, uint32_t how);
/* `entry` is what the map says of p's slot. False: no block begins at p. */
bool hak_hard_large_free(void *p, uint32_t entry, const struct hard_claim *claim);
bool hak_hard_large_realloc(void *p, uint32_t entry, size_t size_bytes, void **out);
size_t hak_hard_large_usable_bytes(const void *p, uint32_t entry);
/* A block leaves the quarantine of a thread: the oldest. */
void hak_hard_large_evict(struct hard_thread *t);

/* --- report.c: messages; none of them returns --- */

_Noreturn void hak_hard_overflow(const void *p, unsigned cls, size_t bytes);
_Noreturn void hak_hard_underflow(const void *p, size_t bytes);
_Noreturn void hak_hard_written_after_free(const char *p, unsigned cls);
_Noreturn void hak_hard_double_free(const void *p, unsigned cls);
/* The block's `word` and size do not fit the claim. */
_Noreturn void hak_hard_mismatch(const void *p, unsigned cls, uint32_t word, size_t bytes,
                                 const struct hard_claim *claim);
