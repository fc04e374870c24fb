/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: blocks of no bytes. malloc(0) has to return an address that nobody else has, and no byte of
 * it is the program's: so those are addresses of memory that cannot be accessed, 16 bytes apart,
 * and all that is known of a block is a byte beside it. Any thread, by single atomic steps; nothing
 * else depends on them.
 *
 * The places are used in turn, so that one is free for a long time before it is used again. When
 * hardly any is to be found, or the system refuses the mapping, a block of no bytes is one of a
 * size class with nothing but a canary. */
#include "hard/hard_internal.h"

#define NOTHING_PLACES ((size_t)1 << 16)
#define NOTHING_BYTES (NOTHING_PLACES * HAK_ALIGNMENT)
#define NOTHING_TRIES 64u

/* A place's byte; 0: never used. */
#define NOTHING_MAKER 7u
#define NOTHING_ALIGN_SHIFT 3
#define NOTHING_FREED 64u
#define NOTHING_LIVE 128u

static struct {
    _Atomic(uintptr_t) base; /* of the inaccessible range; 0: there is none yet */
    _Atomic(size_t) next;    /* modulo NOTHING_PLACES */
    _Atomic(uint8_t) places[NOTHING_PLACES];
} nothing HAK_RARELY_USED;

/* 0: the system refuses. */
static uintptr_t nothing_map(void)
{
    void *range;
    uintptr_t base = 0;
    if (hak_os_map(NOTHING_BYTES, &range) != 0)
        return 0;
    if (hak_os_protect(range, NOTHING_BYTES, false) == 0 &&
        hak_cas_relaxed(&nothing.base, &base, (uintptr_t)range))
        return (uintptr_t)range;
    hak_os_unmap(range, NOTHING_BYTES);
    return base; /* another thread's */
}

HAK_COLD void *hak_hard_nothing_alloc(uint32_t how)
{
    uintptr_t base = hak_load_relaxed(&nothing.base);
    if (base == 0 && (base = nothing_map()) == 0)
        return NULL;
    uint8_t live = (uint8_t)(NOTHING_LIVE | (how & HARD_MAKER_MASK) >> HARD_MAKER_SHIFT |
                             (how & HARD_ALIGN_MASK) >> HARD_ALIGN_SHIFT << NOTHING_ALIGN_SHIFT);
    for (unsigned i = 0; i < NOTHING_TRIES; i++) {
        size_t place = hak_add_relaxed(&nothing.next, (size_t)1) % NOTHING_PLACES;
        uint8_t before = hak_load_relaxed(&nothing.places[place]);
        if (!(before & NOTHING_LIVE) && hak_cas_relaxed(&nothing.places[place], &before, live))
            return (void *)(base + place * HAK_ALIGNMENT);
    }
    return NULL;
}

/* The byte of the block that begins or began at p; NULL: none ever has. */
static _Atomic(uint8_t) *nothing_place(const void *p)
{
    uintptr_t base = hak_load_relaxed(&nothing.base);
    size_t offset = (uintptr_t)p - base;
    if (base == 0 || offset >= NOTHING_BYTES || offset % HAK_ALIGNMENT != 0)
        return NULL;
    _Atomic(uint8_t) *place = &nothing.places[offset / HAK_ALIGNMENT];
    return hak_load_relaxed(place) == 0 ? NULL : place;
}

bool hak_hard_nothing_is(const void *p)
{
    return nothing_place(p) != NULL;
}

bool hak_hard_nothing_try_free(const void *p, const struct hard_claim *claim)
{
    _Atomic(uint8_t) *place = nothing_place(p);
    if (place == NULL)
        return false;
    uint8_t is = hak_load_relaxed(place);
    uint32_t word = HARD_LIVE | (is & NOTHING_MAKER) << HARD_MAKER_SHIFT |
                    (is >> NOTHING_ALIGN_SHIFT & 7u) << HARD_ALIGN_SHIFT;
    if ((is & NOTHING_LIVE) && !hard_fits(word, claim))
        hak_hard_mismatch(p, HARD_NOTHING, word, 0, claim);
    if (!(is & NOTHING_LIVE) || !hak_cas_relaxed(place, &is, (uint8_t)NOTHING_FREED))
        hak_hard_double_free(p, HARD_NOTHING);
    return true;
}
