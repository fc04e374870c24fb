/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: ranges of freed large blocks. Each waits in its thread's quarantine first, until
 * HARD_LARGE_WAIT more were freed; from then on any thread may make a block of it:
 *
 *   free -> | a place: waits | -> | the same place: everybody's | -> malloc
 *                   | memory is short     | or more than may be kept
 *                   v                     v
 *                      heap, and so the system
 *
 * A place is a word: which range, how long it is, how much of it lies between its guards, and
 * whether it waits. Who takes the word out owns the range, so there is no lock, and a fork leaves
 * nothing half done. A thread remembers the places of what waits for it, and finds them empty (or
 * with a range that has come back meanwhile, of which it then is a little early) where memory was
 * short.
 *
 * Called by large.c and quarantine.c; never touches a range itself. */
#include "hard/hard_internal.h"

#include <string.h>

#define KEPT_PLACES 1024u
#define KEPT_WAITS (UINT64_C(1) << 63) /* in the quarantine of the thread that freed it */
/* Addresses of all ranges, or this share of RLIMIT_AS. */
#define KEPT_MOST_BYTES ((uint64_t)256 << 20)
#define KEPT_SHARE_OF_LIMIT 64u
#define RESIDENT_BYTES ((size_t)4 << 20)      /* of a thread: so much it keeps */
#define RESIDENT_ALL_BYTES ((size_t)16 << 20) /* of all threads together, or, if that is more, */
#define RESIDENT_SHARE 2u                     /* this part of large blocks that are live */
/* A range whose guard has to move serves blocks of half its length and more. */
#define KEPT_LENGTHS_MOST 2u
#define KEPT_TRIES 4u

static struct {
    _Atomic(uint64_t) place[KEPT_PLACES]; /* 0: empty */
    _Atomic(unsigned) places;             /* that have been used ever; grows only */
    _Atomic(unsigned) hand;               /* the next to be evicted */
    /* Of those that wait in the threads' quarantines too. */
    _Atomic(size_t) bytes[2], blocks[2]; /* large, huge */
    _Atomic(size_t) resident_bytes;
} kept;

static uint64_t kept_word(const char *range, const struct hak_note *note)
{
    return (uint64_t)(hak_slot_of(range) + 1) << 32 | hard_large_room_pages(note) << 16 |
           hak_hard_large_range_bytes(range) / HAK_SLOT_BYTES;
}

static size_t kept_word_bytes(uint64_t word)
{
    return (word & 0xFFFF) * HAK_SLOT_BYTES;
}

static char *kept_range(uint64_t word)
{
    return hak_slot_address((size_t)((word & ~KEPT_WAITS) >> 32) - 1);
}

void hak_hard_kept_start(void)
{
    uint64_t share = hak_os_address_space_limit() / KEPT_SHARE_OF_LIMIT;
    hak_hard.kept_most_bytes = share < KEPT_MOST_BYTES ? share : KEPT_MOST_BYTES;
    hak_hard_large_look_at_limit();
}

void hak_hard_kept(struct hak_large_stats *out)
{
    out->large_bytes = hak_load_relaxed(&kept.bytes[false]);
    out->large_blocks = hak_load_relaxed(&kept.blocks[false]);
    out->huge_bytes = hak_load_relaxed(&kept.bytes[true]);
    out->huge_blocks = hak_load_relaxed(&kept.blocks[true]);
}

/* Of live blocks alone: what is kept is no reason to keep more. */
size_t hak_hard_kept_most(void)
{
    struct hak_large_stats all, freed;
    hak_hard_kept(&freed);
    hak_large_stats(&all);
    size_t all_bytes = all.large_bytes + all.huge_bytes;
    size_t freed_bytes = freed.large_bytes + freed.huge_bytes;
    size_t live_bytes = all_bytes - hak_min(freed_bytes, all_bytes);
    return hak_max(live_bytes / RESIDENT_SHARE, RESIDENT_ALL_BYTES);
}

static size_t kept_resident_bytes(const struct hak_note *note)
{
    return note->how & HARD_PURGED ? 0 : hard_large_room_pages(note) * HAK_PAGE_BYTES;
}

/* A range begins to be kept (1), or is so no longer (-1). */
static void kept_count(const char *range, size_t sign)
{
    bool huge;
    const struct hak_note *note = hak_hard_large_note(range, &huge);
    hak_add_relaxed(&kept.resident_bytes, sign * kept_resident_bytes(note));
    hak_add_relaxed(&kept.bytes[huge], sign * hak_hard_large_range_bytes(range));
    hak_add_relaxed(&kept.blocks[huge], sign);
}

static void kept_release(char *range)
{
    kept_count(range, (size_t)-1);
    hak_hard_large_release(range);
}

/* --- places --- */

static void kept_used(unsigned places)
{
    unsigned before = hak_load_relaxed(&kept.places);
    while (before < places && !hak_cas_relaxed(&kept.places, &before, places))
        continue;
}

/* False: all places are taken. */
static bool kept_try_place(struct hard_waiting *w)
{
    for (unsigned i = 0; i < KEPT_PLACES; i++) {
        uint64_t empty = 0;
        /* ORDER: [hard-kept] the note, and that the block is zero, are seen with the word */
        if (hak_load_relaxed(&kept.place[i]) == 0 &&
            hak_cas_release(&kept.place[i], &empty, w->word | KEPT_WAITS)) {
            w->place = i;
            kept_used(i + 1);
            return true;
        }
    }
    return false;
}

/* Back to heap, unless somebody has taken it. */
static void kept_drop(const struct hard_waiting *w)
{
    uint64_t word = w->word | KEPT_WAITS;
    /* ORDER: [hard-kept] as they were left by kept_try_place */
    if (hak_cas_acquire(&kept.place[w->place], &word, (uint64_t)0))
        kept_release(kept_range(word));
}

static void kept_share(const struct hard_waiting *w)
{
    uint64_t word = w->word | KEPT_WAITS;
    if (!w->is_of_use)
        kept_drop(w);
    else
        (void)hak_cas_relaxed(&kept.place[w->place], &word, w->word);
}

/* The less, the better; UINT64_MAX: of no use. A guard that has to move costs a system call. */
static uint64_t kept_misfit(uint64_t word, size_t pages)
{
    size_t room = word >> 16 & 0xFFFF;
    size_t most = (word & 0xFFFF) * (HAK_SLOT_BYTES / HAK_PAGE_BYTES) - 2;
    if (word == 0 || (word & KEPT_WAITS))
        return UINT64_MAX;
    if (hard_large_room_fits(room, pages))
        return room - pages;
    return most >= pages && most <= KEPT_LENGTHS_MOST * pages ? HARD_LARGE_SLACK_MOST + most - pages
                                                              : UINT64_MAX;
}

static unsigned kept_find(size_t pages, uint64_t *found)
{
    unsigned best = KEPT_PLACES, places = hak_load_relaxed(&kept.places);
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < places; i++) {
        uint64_t word = hak_load_relaxed(&kept.place[i]);
        uint64_t misfit = kept_misfit(word, pages);
        if (misfit < least) {
            least = misfit;
            best = i;
            *found = word;
        }
    }
    return best;
}

char *hak_hard_kept_take(size_t pages)
{
    uint64_t word = 0;
    for (unsigned tries = 0; tries < KEPT_TRIES; tries++) {
        unsigned i = kept_find(pages, &word);
        if (i == KEPT_PLACES)
            return NULL;
        /* ORDER: [hard-kept] as they were left by kept_try_place */
        if (hak_cas_acquire(&kept.place[i], &word, (uint64_t)0)) {
            kept_count(kept_range(word), (size_t)-1);
            return kept_range(word);
        }
    }
    return NULL;
}

/* waiting: also what waits. */
static bool kept_try_evict(bool waiting)
{
    unsigned places = hak_load_relaxed(&kept.places);
    for (unsigned i = 0; i < places; i++) {
        unsigned at = hak_add_relaxed(&kept.hand, 1u) % places;
        uint64_t word = hak_load_relaxed(&kept.place[at]);
        if (word == 0 || (!waiting && (word & KEPT_WAITS)))
            continue;
        /* ORDER: [hard-kept] as they were left by kept_try_place */
        if (hak_cas_acquire(&kept.place[at], &word, (uint64_t)0)) {
            kept_release(kept_range(word));
            return true;
        }
    }
    return false;
}

void hak_hard_kept_flush(bool waiting)
{
    while (kept_try_evict(waiting)) {
    }
}

/* --- the thread's own --- */

/* The thread's quarantine is busy. */
static struct hard_waiting kept_pop_oldest(struct hard_thread *t)
{
    struct hard_waiting w = t->large[0];
    t->large_resident_bytes -= w.resident_bytes;
    t->large_bytes -= kept_word_bytes(w.word);
    memmove(&t->large[0], &t->large[1], --t->large_count * sizeof t->large[0]);
    return w;
}

static void kept_share_oldest(struct hard_thread *t)
{
    const struct hard_waiting w = kept_pop_oldest(t);
    kept_share(&w);
}

void hak_hard_kept_end(struct hard_thread *t)
{
    while (t->large_count > 0)
        kept_share_oldest(t);
}

static bool kept_thread_has_too_much(const struct hard_thread *t, size_t most)
{
    return t->large_bytes > hak_hard.kept_most_bytes ||
           (t->large_resident_bytes > RESIDENT_BYTES &&
            hak_load_relaxed(&kept.resident_bytes) > most);
}

static bool kept_is_too_much(size_t most)
{
    return hak_load_relaxed(&kept.resident_bytes) > most ||
           hak_load_relaxed(&kept.bytes[false]) + hak_load_relaxed(&kept.bytes[true]) >
               hak_hard.kept_most_bytes;
}

/* What others could use goes, as far as it is too much. */
static void kept_enforce(size_t most)
{
    while (kept_is_too_much(most) && kept_try_evict(false))
        continue;
}

bool hak_hard_kept_is_full(size_t most)
{
    kept_enforce(most);
    return hak_load_relaxed(&kept.resident_bytes) > most;
}

void hak_hard_kept_put(struct hard_thread *t, char *range, size_t most)
{
    bool huge;
    const struct hak_note *note = hak_hard_large_note(range, &huge);
    struct hard_waiting w = {.word = kept_word(range, note),
                             .resident_bytes = kept_resident_bytes(note),
                             .is_of_use = note->front_bytes != 0}; /* it has a guard in front */
    kept_count(range, 1);
    hard_set_busy(t, true);
    if (t->large_count == HARD_LARGE_WAIT)
        kept_share_oldest(t);
    if (kept_try_place(&w) ||
        ((kept_try_evict(false) || kept_try_evict(true)) && kept_try_place(&w))) {
        t->large_resident_bytes += w.resident_bytes;
        t->large_bytes += kept_word_bytes(w.word);
        t->large[t->large_count++] = w;
    } else {
        kept_release(range);
    }
    kept_enforce(most);
    while (t->large_count > 0 && kept_thread_has_too_much(t, most)) {
        w = kept_pop_oldest(t);
        kept_drop(&w);
    }
    hard_set_busy(t, false);
}
