/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: the sampled blocks that are live in another process, each with its call
 * stack, for `hakmem stat --samples`. Nothing where the process has no heap profile. */
#include "stat.h"

#include "telemetry/prof.h"

/* What the stack of a site is; 0 frames: it cannot be read, or has none. */
static uint32_t samples_stack(const struct hak_survey *survey, const struct hak_prof *p,
                              uint32_t number, uintptr_t *stack)
{
    struct hak_prof_site site;
    struct hak_remote *r = survey->image->remote;
    uint64_t at = (uint64_t)(uintptr_t)p->site + (uint64_t)number * sizeof site;
    if (number >= HAK_PROF_SITES || !hak_remote_read(r, at, &site, sizeof site) ||
        site.depth > HAK_PROF_FRAMES || site.stack > HAK_PROF_STACK_WORDS - site.depth)
        return 0;
    at = (uint64_t)(uintptr_t)p->stacks + (uint64_t)site.stack * sizeof *stack;
    return hak_remote_read(r, at, stack, site.depth * sizeof *stack) ? site.depth : 0;
}

static void samples_block(struct hak_json *j, const struct hak_survey *survey,
                          const struct hak_prof *p, struct hak_sample_seen sample)
{
    uintptr_t stack[HAK_PROF_FRAMES];
    if (sample.site == 0)
        return;
    uint32_t depth = samples_stack(survey, p, sample.site, stack);
    hak_json_open_line(j, NULL, '{');
    hak_json_number(j, "address", sample.address);
    hak_json_number(j, "bytes", sample.bytes);
    hak_json_open(j, "stack", '[');
    for (uint32_t i = 0; i < depth; i++)
        hak_json_number(j, NULL, stack[i]);
    hak_json_close(j, '[');
    hak_json_close(j, '{');
}

void hak_stat_json_samples(struct hak_json *j, const struct hak_survey *survey)
{
    struct hak_prof p;
    const void *at = survey->image->root.at[HAK_ROOT_SAMPLES];
    if (at == NULL ||
        !hak_remote_read(survey->image->remote, (uint64_t)(uintptr_t)at, &p, sizeof p) ||
        hak_load_relaxed(&p.period_bytes) == 0)
        return;
    hak_json_open(j, "samples", '{');
    hak_json_bool(j, "sampling", hak_load_relaxed(&p.on));
    hak_json_number(j, "period_bytes", hak_load_relaxed(&p.period_bytes));
    hak_json_open(j, "blocks", '[');
    for (size_t i = 0; i < survey->slab_count; i++)
        samples_block(j, survey, &p, survey->slabs[i].sample);
    for (size_t i = 0; i < survey->superslab_count; i++)
        samples_block(j, survey, &p, survey->superslabs[i].sample);
    hak_json_close(j, '[');
    hak_json_close(j, '{');
}
