/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: how much of a live block was not asked for, on average, by size class.
 *
 * In slabs nothing keeps the size that was asked for, but in the hardened library. The heap profile
 * does for the blocks that it samples: of a class all have the same chance, so their plain mean is
 * the estimate for the class's blocks, and how many those are is known exactly. A class without a
 * sample has the share that all of them have together, each weighted with what it stands for. So
 * the blocks that were allocated before sampling began are taken to be like those after. */
#include "survey.h"

#include "telemetry/prof.h"

struct slack_sums {
    uint64_t samples[HAK_CLASSES], slack_bytes[HAK_CLASSES];
    double weighted_bytes, weighted_slack;
};

static unsigned slack_class_of(uint32_t size_bytes)
{
    unsigned cls = 0;
    while (cls < HAK_CLASSES && hak_class(cls)->size_bytes != size_bytes)
        cls++;
    return cls;
}

static void slack_add(struct slack_sums *sums, const struct hak_slab_seen *s, uint64_t period_bytes)
{
    unsigned cls = slack_class_of(s->small_bytes);
    if (cls == HAK_CLASSES || s->asked_bytes > s->small_bytes)
        return;
    uint64_t slack_bytes = s->small_bytes - s->asked_bytes;
    double objects = (double)hak_prof_weigh(s->small_bytes, period_bytes).objects;
    sums->samples[cls]++;
    sums->slack_bytes[cls] += slack_bytes;
    sums->weighted_bytes += objects * s->small_bytes;
    sums->weighted_slack += objects * (double)slack_bytes;
}

static uint64_t slack_period_bytes(const struct hak_survey *survey)
{
    struct hak_prof prof;
    const struct hak_image *image = survey->image;
    uint64_t at = (uint64_t)(uintptr_t)image->root.at[HAK_ROOT_SAMPLES];
    return at != 0 && hak_remote_read(image->remote, at, &prof, sizeof prof)
               ? hak_load_relaxed(&prof.period_bytes)
               : 0;
}

void hak_survey_estimate_slack(struct hak_survey *survey)
{
    struct slack_sums sums = {0};
    uint64_t period_bytes = slack_period_bytes(survey);
    for (size_t i = 0; period_bytes != 0 && i < survey->slab_count; i++) {
        const struct hak_slab_seen *s = &survey->slabs[i];
        if (s->small_bytes == 0 || s->sample.site == 0)
            continue;
        slack_add(&sums, s, period_bytes);
        survey->slack_samples++;
    }
    if (survey->slack_samples == 0)
        return;
    double share = sums.weighted_bytes == 0 ? 0 : sums.weighted_slack / sums.weighted_bytes;
    survey->slack_basis = HAK_SLACK_ESTIMATED;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++)
        survey->slack_parts[cls] =
            sums.samples[cls] != 0
                ? (uint32_t)((sums.slack_bytes[cls] << HAK_SLACK_SHIFT) / sums.samples[cls])
                : (uint32_t)(share * hak_class(cls)->size_bytes * (1 << HAK_SLACK_SHIFT));
}
