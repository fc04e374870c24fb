/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem stat --samples`: the heap profile's sites with what they hold and
 * have allocated, estimated from samples; the sampled blocks that live; and what is mapped where,
 * which makes names of addresses possible. Nothing where the process has never taken samples. */
#include "stat.h"

#include "util.h"

#include "telemetry/prof.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sampled_objects(uint64_t parts)
{
    return (parts + (UINT64_C(1) << (HAK_PROF_OBJECT_SHIFT - 1))) >> HAK_PROF_OBJECT_SHIFT;
}

static void sampled_count(struct hak_json *j, const char *prefix, uint64_t bytes, uint64_t parts,
                          uint64_t samples)
{
    char key[32];
    (void)snprintf(key, sizeof key, "%s_bytes", prefix);
    hak_json_number(j, key, bytes);
    (void)snprintf(key, sizeof key, "%s_blocks", prefix);
    hak_json_number(j, key, sampled_objects(parts));
    (void)snprintf(key, sizeof key, "%s_samples", prefix);
    hak_json_number(j, key, samples);
}

/* What was freed may be read later than what was allocated. */
static uint64_t sampled_less(_Atomic(uint64_t) *allocated, _Atomic(uint64_t) *freed)
{
    uint64_t a = hak_load_relaxed(allocated), f = hak_load_relaxed(freed);
    return a - hak_min(a, f);
}

/* The stack of a site, which the process may have been changing. */
static void sampled_frames(struct hak_json *j, const char *key, const struct hak_prof_site *s,
                           const uintptr_t *stacks, uint32_t words)
{
    hak_json_open(j, key, '[');
    for (uint32_t i = 0; s->stack <= words && s->depth <= words - s->stack && i < s->depth; i++)
        hak_json_number(j, NULL, stacks[s->stack + i]);
    hak_json_close(j, '[');
}

static void sampled_site(struct hak_json *j, uint32_t number, struct hak_prof_site *s,
                         const uintptr_t *stacks, uint32_t words)
{
    struct hak_prof_count *a = &s->allocated, *f = &s->freed;
    if (hak_load_relaxed(&a->samples) == 0)
        return;
    hak_json_open_line(j, NULL, '{');
    hak_json_number(j, "site", number);
    sampled_count(j, "live", sampled_less(&a->bytes, &f->bytes),
                  sampled_less(&a->objects, &f->objects), sampled_less(&a->samples, &f->samples));
    sampled_count(j, "allocated", hak_load_relaxed(&a->bytes), hak_load_relaxed(&a->objects),
                  hak_load_relaxed(&a->samples));
    sampled_frames(j, "frames", s, stacks, words);
    hak_json_close(j, '{');
}

/* The profile's sites and their stacks. */
struct sampled {
    struct hak_prof_site *site;
    uintptr_t *stacks;
    uint32_t sites, words; /* 0: they could not be read */
};

static void sampled_read(struct sampled *p, struct hak_remote *r, const struct hak_prof *prof)
{
    p->sites = (uint32_t)hak_min(hak_load_relaxed(&prof->sites), HAK_PROF_SITES);
    p->words = (uint32_t)hak_min(hak_load_relaxed(&prof->words), HAK_PROF_STACK_WORDS);
    p->site = hak_grow(NULL, p->sites + 1, sizeof *p->site);
    p->stacks = hak_grow(NULL, p->words + 1, sizeof *p->stacks);
    if (!hak_remote_read(r, (uint64_t)(uintptr_t)prof->site, p->site, p->sites * sizeof *p->site) ||
        !hak_remote_read(r, (uint64_t)(uintptr_t)prof->stacks, p->stacks,
                         p->words * sizeof *p->stacks))
        p->sites = p->words = 0;
}

static void sampled_sites(struct hak_json *j, const struct sampled *p)
{
    hak_json_open(j, "sites", '[');
    for (uint32_t i = 1; i < p->sites; i++) /* 0 is none */
        sampled_site(j, i, &p->site[i], p->stacks, p->words);
    hak_json_close(j, '[');
}

static void sampled_block(struct hak_json *j, const struct sampled *p, uint64_t address,
                          const struct hak_sample_seen *s)
{
    if (s->site == 0)
        return;
    hak_json_open_line(j, NULL, '{');
    hak_json_number(j, "address", address);
    hak_json_number(j, "bytes", s->bytes);
    hak_json_number(j, "asked_bytes", s->asked_bytes);
    hak_json_number(j, "site", s->site);
    if (s->site < p->sites)
        sampled_frames(j, "stack", &p->site[s->site], p->stacks, p->words);
    hak_json_close(j, '{');
}

static void sampled_blocks(struct hak_json *j, const struct hak_survey *survey,
                           const struct sampled *p)
{
    uint64_t base = hak_load_relaxed(&survey->image->space.base);
    hak_json_open(j, "blocks", '[');
    for (size_t i = 0; i < survey->slab_count; i++) {
        const struct hak_slab_seen *s = &survey->slabs[i];
        sampled_block(j, p, base + (s->first_slot << HAK_SLOT_SHIFT) + s->colour_bytes, &s->sample);
    }
    for (size_t i = 0; i < survey->superslab_count; i++) {
        const struct hak_superslab_seen *s = &survey->superslabs[i];
        sampled_block(j, p, base + s->number * HAK_SUPERSLAB_BYTES + s->front_bytes, &s->sample);
    }
    hak_json_close(j, '[');
}

static void sampled_mappings(struct hak_json *j, const struct hak_remote *r)
{
    hak_json_open(j, "mappings", '[');
    bool files = r->is_core && r->file_count != 0; /* also what the core has not the bytes of */
    for (size_t i = 0; i < (files ? r->file_count : r->count); i++) {
        const struct hak_mapping *m = files ? &r->files[i] : &r->mappings[i];
        if (m->name[0] != '/')
            continue;
        hak_json_open_line(j, NULL, '{');
        hak_json_number(j, "start", m->start);
        hak_json_number(j, "end", m->end);
        hak_json_number(j, "offset", m->file_offset);
        hak_json_string(j, "path", m->name);
        hak_json_close(j, '{');
    }
    hak_json_close(j, '[');
}

void hak_stat_json_samples(struct hak_json *j, const struct hak_survey *survey)
{
    struct hak_prof prof;
    struct hak_remote *r = survey->image->remote;
    uint64_t at = (uint64_t)(uintptr_t)survey->image->root.at[HAK_ROOT_SAMPLES];
    if (at == 0 || !hak_remote_read(r, at, &prof, sizeof prof) ||
        hak_load_relaxed(&prof.period_bytes) == 0)
        return;
    struct sampled sampled;
    sampled_read(&sampled, r, &prof);
    hak_json_open(j, "samples", '{');
    hak_json_bool(j, "sampling", hak_load_relaxed(&prof.on));
    hak_json_number(j, "period_bytes", hak_load_relaxed(&prof.period_bytes));
    sampled_sites(j, &sampled);
    sampled_blocks(j, survey, &sampled);
    sampled_mappings(j, r);
    hak_json_close(j, '{');
    free(sampled.site);
    free(sampled.stacks);
}
