/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: the part of `hakmem stat --json` about how long blocks live, by call site:
 * what the process has learned so far, and the groups that its policy has put sites into. Nothing
 * where it has no policy: then nobody has ever touched the table. */
#include "stat.h"

#include "util.h"

#include "telemetry/sites.h"

#include <stdlib.h>

struct lifetimes {
    const struct hak_survey *survey;
    struct hak_site *sites;
    struct hak_lifetimes now;
};

static bool lifetimes_read(struct lifetimes *l)
{
    const struct hak_image *image = l->survey->image;
    uint64_t sites = (uint64_t)(uintptr_t)image->root.at[HAK_ROOT_SITES];
    uint64_t now = (uint64_t)(uintptr_t)image->root.at[HAK_ROOT_LIFETIMES];
    return image->has_policy && image->policy.mode != HAK_POLICY_FIXED && sites != 0 && now != 0 &&
           hak_remote_read(image->remote, sites, l->sites, HAK_SITES * sizeof *l->sites) &&
           hak_remote_read(image->remote, now, &l->now, sizeof l->now);
}

/* The place of the site of a sample that lives; HAK_SITES: of none. */
static uint32_t lifetimes_site_of(const struct lifetimes *l, uint32_t sample)
{
    uint32_t site = sample == 0 || sample > HAK_LIFETIME_SAMPLES
                        ? 0
                        : hak_load_relaxed(&l->now.samples[sample - 1].site);
    return site == 0 || site > HAK_SITES ? HAK_SITES : site - 1;
}

/* Lifetimes of those that live still count up to now. */
static uint64_t lifetimes_kib(const struct lifetimes *l, uint32_t place)
{
    uint64_t kib = hak_load_relaxed(&l->sites[place].life_kib);
    for (uint32_t i = 1; i <= HAK_LIFETIME_SAMPLES; i++)
        if (lifetimes_site_of(l, i) == place)
            kib += (uint32_t)(hak_load_relaxed(&l->now.clock_kib) -
                              hak_load_relaxed(&l->now.samples[i - 1].born_kib));
    return kib;
}

/* Where the address is in a file, so that its function can be found. */
static void lifetimes_place(struct hak_json *j, const struct lifetimes *l, uint64_t address)
{
    struct hak_remote *r = l->survey->image->remote;
    const struct hak_mapping *m = NULL;
    for (size_t i = 0; i < r->file_count; i++) /* a core's */
        if (address >= r->files[i].start && address < r->files[i].end)
            m = &r->files[i];
    m = m == NULL ? hak_remote_find(r, address) : m;
    bool in_file = (address & HAK_SITE_TOKEN) == 0 && m != NULL && m->name[0] == '/';
    hak_json_string(j, "file", in_file ? m->name : NULL);
    hak_json_number_or_null(j, "offset",
                            in_file ? address - m->start + m->file_offset : UINT64_MAX);
}

static void lifetimes_blocks(struct hak_json *j, const struct lifetimes *l, uint32_t place)
{
    uint64_t base = hak_load_relaxed(&l->survey->image->space.base);
    hak_json_open(j, "blocks", '[');
    for (size_t i = 0; i < l->survey->slab_count; i++) {
        const struct hak_slab_seen *s = &l->survey->slabs[i];
        if (s->blocks[HAK_BLOCK_LIVE] != 0 && lifetimes_site_of(l, s->lifetime_sample) == place)
            hak_json_number(j, NULL, base + (s->first_slot << HAK_SLOT_SHIFT) + s->front_bytes);
    }
    hak_json_close(j, '[');
}

static void lifetimes_site(struct hak_json *j, const struct lifetimes *l, uint32_t place)
{
    static const char *const groups[HAK_GROUPS] = {"short", "medium", "long"};
    const struct hak_site *s = &l->sites[place];
    uint64_t address = hak_load_relaxed(&s->address);
    uint32_t samples = hak_load_relaxed(&s->samples);
    bool token = (address & HAK_SITE_TOKEN) != 0;
    bool known = samples != 0 || hak_load_relaxed(&s->skipped) != 0 ||
                 hak_load_relaxed(&s->large_blocks) != 0 ||
                 hak_load_relaxed(&s->group) != HAK_GROUP_SHORT;
    if (address == 0 || !known)
        return;
    hak_json_open_line(j, NULL, '{');
    hak_json_number(j, "address", address & ~HAK_SITE_TOKEN);
    hak_json_bool(j, "token", token);
    lifetimes_place(j, l, address);
    hak_json_string(j, "group", groups[hak_min(hak_load_relaxed(&s->group), HAK_GROUPS - 1)]);
    hak_json_number(j, "samples", samples);
    hak_json_number(j, "live_samples", hak_load_relaxed(&s->live));
    hak_json_number(j, "skipped", hak_load_relaxed(&s->skipped));
    hak_json_number_or_null(j, "life_bytes",
                            samples == 0 ? UINT64_MAX : (lifetimes_kib(l, place) << 10) / samples);
    hak_json_number(j, "least_bytes", hak_load_relaxed(&s->least_bytes));
    hak_json_number(j, "most_bytes", hak_load_relaxed(&s->most_bytes));
    hak_json_number(j, "large_blocks", hak_load_relaxed(&s->large_blocks));
    hak_json_number(j, "large_bytes", hak_load_relaxed(&s->large_kib) << 10);
    lifetimes_blocks(j, l, place);
    hak_json_close(j, '{');
}

void hak_stat_json_lifetimes(struct hak_json *j, const struct hak_survey *survey)
{
    struct lifetimes l = {.survey = survey, .sites = hak_grow(NULL, HAK_SITES, sizeof *l.sites)};
    if (lifetimes_read(&l)) {
        hak_json_open(j, "lifetime_sites", '[');
        for (uint32_t place = 0; place < HAK_SITES; place++)
            lifetimes_site(j, &l, place);
        hak_json_close(j, '[');
    }
    free(l.sites);
}
