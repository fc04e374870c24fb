/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: the quarantine: what a thread has freed last. It only puts off that a block is handed out
 * again; that it was left alone is looked at when it is.
 *
 * Blocks of size classes stand in lines, first in, first out, of fixed lengths, the longer the
 * smaller the blocks: together at most half a MiB a thread. Large blocks wait in kept.c's way. */
#include "hard/hard_internal.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

static const struct {
    uint16_t places;
    uint16_t most_bytes;
} quarantine_lines[HARD_LINES] = {{256, 256}, {32, 2048}, {8, 16384}, {4, UINT16_MAX}};
_Static_assert(256 + 32 + 8 + 4 == HARD_PLACES, "all lines have their places");

/* No quarantine yet; and none any more, or none to be had. */
static struct hard_thread quarantine_none = {0};
static struct hard_thread quarantine_closed = {0};
__thread struct hard_thread *hak_hard_self __attribute__((tls_model("initial-exec"))) =
    &quarantine_none;

static struct {
    struct hak_lock lock;
    pthread_key_t key;
    bool started, has_key;
} quarantine;

HAK_NOINLINE void hak_hard_release_slow(void *p)
{
    struct hak_front *front = hak_self;
    uint64_t kind;
    if (p == NULL || hak_heap_try_free(p))
        return;
    if (!hak_heap_try_kind(front, p, &kind) || !hak_heap_try_free_remote(front, kind, p))
        hak_heap_free_slow(p);
}

/* Empties the calling thread's quarantine; what is large is then everybody's. */
static void quarantine_empty(void)
{
    struct hard_thread *t = hak_hard_self;
    if (hard_is_busy(t))
        return;
    hard_set_busy(t, true);
    for (unsigned i = 0; i < HARD_PLACES; i++) {
        hak_hard_release_slow(t->places[i]);
        t->places[i] = NULL;
        t->bins[i] = HAK_KIND_CLOSED;
    }
    hak_hard_kept_end(t);
    hard_set_busy(t, false);
}

static void quarantine_flush(bool waiting)
{
    quarantine_empty();
    hak_hard_kept_flush(waiting);
    hak_hard_large_retry();
}

void hak_hard_flush(void)
{
    quarantine_flush(false);
}

void hak_hard_relieve(void)
{
    quarantine_flush(true);
}

static void quarantine_look(const void *p, unsigned cls)
{
    const struct hak_class *c = hak_class(cls);
    uint32_t word = hak_load_relaxed(hard_word(c, p));
    if ((word & HARD_FREED) && !hak_hard_is_zero(p, c->size_bytes))
        hak_hard_written(p, cls, word);
}

void hak_hard_audit(void)
{
    struct hard_thread *t = hak_hard_self;
    hak_heap_audit(quarantine_look);
    if (hard_is_busy(t))
        return;
    for (unsigned i = 0; i < HARD_PLACES; i++)
        if (t->places[i] != NULL)
            quarantine_look(t->places[i], (hak_map_lookup(t->places[i]) & HAK_KIND_MASK) / 2);
}

/* The key's destructor. Other destructors may still free; one round before heap closes, this does:
 * what comes later is not kept. */
static void quarantine_thread_end(void *value)
{
    (void)value; /* who sets keys that are not his may have set this one */
    struct hard_thread *t = hak_hard_self;
    if (t == &quarantine_none || t == &quarantine_closed)
        return;
    hak_heap_notice_fork();
    if (++t->end_rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 2 &&
        pthread_setspecific(quarantine.key, t) == 0)
        return;
    quarantine_empty();
    hak_hard_self = &quarantine_closed;
    hak_meta_free(t, sizeof *t);
}

/* Once, when the first block is freed: the size classes are known then. The child of a fork in the
 * midst of it does it again, perhaps with another key. */
static void quarantine_start_locked(void)
{
    if (quarantine.started)
        return;
    if (!quarantine.has_key)
        quarantine.has_key = hak_heap_try_make_key(&quarantine.key, quarantine_thread_end);
    unsigned line = 0;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        while (line + 1 < HARD_LINES &&
               hak_class(cls)->size_bytes > quarantine_lines[line].most_bytes)
            line++;
        hak_hard.line_of_kind[cls * 2] = (uint8_t)line;
    }
    unsigned place = 0;
    for (line = 0; line < HARD_LINES; line++) {
        unsigned first = place;
        for (; place + 1 < first + quarantine_lines[line].places; place++)
            hak_hard.place_behind[place] = (uint16_t)(place + 1);
        hak_hard.place_behind[place++] = (uint16_t)first;
    }
    quarantine.started = true;
}

static void quarantine_set_up(struct hard_thread *t)
{
    *t = (struct hard_thread){.fast_bytes = HARD_FAST_BYTES};
    unsigned place = 0;
    for (unsigned line = 0; line < HARD_LINES; line++) {
        t->oldest[line] = (uint16_t)place;
        place += quarantine_lines[line].places;
    }
    memset(t->bins, HAK_KIND_CLOSED, sizeof t->bins);
}

HAK_NOINLINE struct hard_thread *hak_hard_quarantine_slow(void)
{
    struct hard_thread *t = hak_hard_self;
    if (t != &quarantine_none)
        return hard_is_busy(t) ? NULL : t;
    hak_hard_self = &quarantine_closed; /* pthread_setspecific may allocate */
    hak_heap_lock(&quarantine.lock);
    quarantine_start_locked();
    hak_unlock(&quarantine.lock);
    t = quarantine.has_key ? hak_meta_alloc(sizeof *t) : NULL;
    if (t == NULL)
        return NULL;
    quarantine_set_up(t);
    if (pthread_setspecific(quarantine.key, t) != 0) {
        hak_meta_free(t, sizeof *t);
        return NULL;
    }
    hak_hard_self = t;
    return t;
}
