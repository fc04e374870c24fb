/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the heap profile: its tables, and what a sample does to them. See prof.h.
 *
 * A site is a call stack. It is found by its hash in `index`; a new one is made whole before its
 * number is put there, so a reader finds whole ones only. Sites are never removed. */
#include "telemetry/prof.h"
#include "base/text.h"
#include "telemetry/unwind.h"

#include <errno.h>
#include <string.h>

#define INDEX_PLACES (2 * HAK_PROF_SITES)
#define SITE_OVERFLOW 1u

struct hak_prof hak_prof;

static struct hak_lock prof_start_lock;

/* Records of these sizes are never given back, so they come fresh from the system: zero. Where it
 * has no 5 MiB of addresses what was had is for the next time. */
static int prof_make_tables(void)
{
    struct hak_prof *p = &hak_prof;
    if (p->site == NULL)
        p->site = hak_meta_alloc(HAK_PROF_SITES * sizeof *p->site);
    if (p->stacks == NULL)
        p->stacks = hak_meta_alloc(HAK_PROF_STACK_WORDS * sizeof *p->stacks);
    if (p->index == NULL)
        p->index = hak_meta_alloc(INDEX_PLACES * sizeof *p->index);
    if (p->site == NULL || p->stacks == NULL || p->index == NULL)
        return ENOMEM;
    hak_store_relaxed(&p->sites, SITE_OVERFLOW + 1);
    hak_store_relaxed(&p->index[0], SITE_OVERFLOW); /* its hash is 0, and it has no address */
    return 0;
}

int hak_prof_start(uint64_t period_bytes)
{
    int error = 0;
    hak_lock(&prof_start_lock);
    uint64_t before = hak_prof_period();
    if (period_bytes == 0)
        period_bytes = before != 0 ? before : HAK_PROF_DEFAULT_PERIOD;
    if (period_bytes > HAK_PROF_MOST_PERIOD || (before != 0 && period_bytes != before))
        error = EINVAL;
    else if (before == 0)
        error = prof_make_tables();
    if (error == 0) {
        hak_store_release(&hak_prof.period_bytes,
                          period_bytes); /* ORDER: [prof-tables] they are there */
        hak_store_relaxed(&hak_prof.on, true);
    }
    hak_unlock(&prof_start_lock);
    return error;
}

void hak_prof_stop(void)
{
    hak_store_relaxed(&hak_prof.on, false);
}

void hak_prof_fork_child(void)
{
    hak_lock_recover(&prof_start_lock);
}

/* --- sites --- */

static uint64_t prof_hash(const uintptr_t *frames, unsigned depth)
{
    uint64_t hash = depth;
    for (unsigned i = 0; i < depth; i++) {
        hash = (hash ^ frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash | 1;
}

static bool prof_is_site(const struct hak_prof_site *s, uint64_t hash, const uintptr_t *frames,
                         unsigned depth)
{
    unsigned same = 0;
    if (s->hash != hash || s->depth != depth)
        return false;
    while (same < depth && hak_prof.stacks[s->stack + same] == frames[same])
        same++;
    return same == depth;
}

/* A new site with this stack; 0: there is no room. */
static uint32_t prof_make_site(uint64_t hash, const uintptr_t *frames, unsigned depth)
{
    if (hak_load_relaxed(&hak_prof.sites) >= HAK_PROF_SITES ||
        hak_load_relaxed(&hak_prof.words) + depth > HAK_PROF_STACK_WORDS)
        return 0;
    uint32_t number = hak_add_relaxed(&hak_prof.sites, 1u);
    uint32_t stack = hak_add_relaxed(&hak_prof.words, depth);
    if (number >= HAK_PROF_SITES || stack + depth > HAK_PROF_STACK_WORDS)
        return 0;
    struct hak_prof_site *s = &hak_prof.site[number];
    memcpy(hak_prof.stacks + stack, frames, depth * sizeof *frames);
    s->hash = hash;
    s->stack = stack;
    s->depth = depth;
    return number;
}

static uint32_t prof_site_of(const uintptr_t *frames, unsigned depth)
{
    uint64_t hash = prof_hash(frames, depth);
    uint32_t made = 0;
    for (uint64_t i = hash >> 20;; i++) {
        _Atomic(uint32_t) *place = &hak_prof.index[i % INDEX_PLACES];
        uint32_t number = hak_load_acquire(place); /* ORDER: [prof-site] */
        if (number == 0 && made == 0)
            made = prof_make_site(hash, frames, depth);
        if (number == 0 && made == 0)
            return SITE_OVERFLOW;
        if (number == 0) {
            if (hak_cas_acq_rel(place, &number, made)) /* ORDER: [prof-site] */
                return made;
            number = hak_load_acquire(place); /* ORDER: [prof-site] another thread's, and whole */
        }
        if (number != SITE_OVERFLOW && prof_is_site(&hak_prof.site[number], hash, frames, depth))
            return number; /* what was made in vain stays empty */
    }
}

/* --- samples --- */

static void prof_count(struct hak_prof_count *c, size_t bytes)
{
    struct hak_prof_weight w = hak_prof_weigh(bytes, hak_prof_period());
    hak_add_relaxed(&c->objects, w.objects);
    hak_add_relaxed(&c->bytes, w.bytes);
    hak_add_release(&c->samples, 1u); /* ORDER: [prof-samples] the site is whole */
}

HAK_NOINLINE uint32_t hak_prof_sampled(size_t bytes)
{
    uintptr_t frames[HAK_PROF_FRAMES];
    struct hak_registers here = hak_os_registers();
    unsigned depth = hak_unwind(&here, frames, HAK_PROF_FRAMES);
    frames[0] = 0; /* this function itself, where it asked */
    uint32_t number = prof_site_of(frames + 1, depth - 1);
    prof_count(&hak_prof.site[number].allocated, bytes);
    return number;
}

void hak_prof_freed(uint32_t site, size_t bytes)
{
    prof_count(&hak_prof.site[site].freed, bytes);
}
