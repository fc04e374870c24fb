/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem stat --openmetrics`: the figures as a scrape of OpenMetrics text 1.0.
 */
#include "stat.h"

#include <inttypes.h>
#include <string.h>

/* A label's value: backslash, quote and newline are escaped. */
static void metrics_escaped(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\\' || *text == '"')
            (void)printf("\\%c", *text);
        else if (*text == '\n')
            (void)fputs("\\n", stdout);
        else
            (void)putchar((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f ? '?'
                                                                                      : *text);
}

static void metrics_family(const char *name, const char *type, const char *unit, const char *help)
{
    (void)printf("# TYPE %s %s\n", name, type);
    if (unit != NULL)
        (void)printf("# UNIT %s %s\n", name, unit);
    (void)printf("# HELP %s %s\n", name, help);
}

static void metrics_one(const char *name, uint64_t value)
{
    (void)printf("%s %" PRIu64 "\n", name, value);
}

static void metrics_labelled(const char *name, const char *label, const char *text, uint64_t value)
{
    (void)printf("%s{%s=\"", name, label);
    metrics_escaped(text);
    (void)printf("\"} %" PRIu64 "\n", value);
}

static void metrics_process(const struct hak_survey *survey)
{
    const struct hak_remote *r = survey->image->remote;
    metrics_family("hakmem_process", "info", NULL, "The process and its library.");
    (void)printf("hakmem_process_info{pid=\"%d\",name=\"", (int)r->pid);
    metrics_escaped(r->name);
    (void)printf("\",version=\"%s\"} 1\n", hak_image_version(survey->image));
    metrics_family("hakmem_resident_bytes", "gauge", "bytes",
                   "Memory of the process in memory, line by line of the waterfall.");
    for (enum hak_line line = 0; line < HAK_LINE_COUNT; line++)
        metrics_labelled("hakmem_resident_bytes", "line", hak_line_name(line),
                         survey->lines[line].resident_bytes);
    metrics_family("hakmem_virtual_bytes", "gauge", "bytes", "The same, in memory or not.");
    for (enum hak_line line = 0; line < HAK_LINE_COUNT; line++)
        metrics_labelled("hakmem_virtual_bytes", "line", hak_line_name(line),
                         survey->lines[line].virtual_bytes);
}

static void metrics_slack(const struct hak_survey *survey)
{
    static const char *const bases[] = {"large", "estimated", "exact"};
    metrics_family("hakmem_slack_samples", "gauge", NULL,
                   "Blocks from which the line slack is estimated, where it is.");
    metrics_labelled("hakmem_slack_samples", "basis", bases[survey->slack_basis],
                     survey->slack_samples);
}

static void metrics_live(const struct hak_survey *survey)
{
    const struct hak_snapshot *s = &survey->snapshot;
    struct hak_held held = hak_survey_held(survey);
    metrics_family("hakmem_live_bytes", "gauge", "bytes",
                   "Blocks that the program holds, as they were given out.");
    metrics_one("hakmem_live_bytes", held.bytes);
    metrics_family("hakmem_live_blocks", "gauge", NULL, "How many these are.");
    metrics_one("hakmem_live_blocks", held.blocks);
    metrics_family("hakmem_heaps", "gauge", NULL, "Threads that have a heap.");
    metrics_one("hakmem_heaps", s->cache.heaps);
    metrics_family("hakmem_budget_bytes", "gauge", "bytes", "What may be kept unused.");
    metrics_one("hakmem_budget_bytes", s->pool.budget_bytes);
}

static void metrics_counters(const struct hak_survey *survey)
{
    const struct hak_snapshot *s = &survey->snapshot;
    metrics_family("hakmem_slots_acquired", "counter", NULL, "By stage of the shared pool.");
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++)
        metrics_labelled("hakmem_slots_acquired_total", "stage", hak_stage_name(stage),
                         s->pool.acquired[stage]);
    metrics_family("hakmem_slots_released", "counter", NULL, "Slots given back to the pool.");
    metrics_one("hakmem_slots_released_total", s->pool.released);
    metrics_family("hakmem_superslabs_mapped", "counter", NULL, "Asked of the system.");
    metrics_one("hakmem_superslabs_mapped_total", s->pool.mapped_superslabs);
    metrics_family("hakmem_superslabs_unmapped", "counter", NULL, "Given back to the system.");
    metrics_one("hakmem_superslabs_unmapped_total", s->pool.unmapped_superslabs);
    metrics_family("hakmem_failed_allocations", "counter", NULL, "By reason.");
    for (enum hak_failure_reason r = 0; r < HAK_FAILURE_COUNT; r++)
        metrics_labelled("hakmem_failed_allocations_total", "reason", hak_failure_name(r),
                         s->failures[r]);
    metrics_family("hakmem_lock_acquired", "counter", NULL, "By lock.");
    for (enum hak_lock_name lock = 0; lock < HAK_LOCK_COUNT; lock++)
        metrics_labelled("hakmem_lock_acquired_total", "lock", hak_lock_names[lock],
                         s->locks[lock].acquired);
    metrics_family("hakmem_lock_contended", "counter", NULL, "By lock, when it was not free.");
    for (enum hak_lock_name lock = 0; lock < HAK_LOCK_COUNT; lock++)
        metrics_labelled("hakmem_lock_contended_total", "lock", hak_lock_names[lock],
                         s->locks[lock].contended);
}

static void metrics_classes(const struct hak_survey *survey)
{
    static const char *const states[HAK_BLOCK_STATES] = {"live",       "bin",  "waiting",
                                                         "quarantine", "free", "fresh"};
    metrics_family("hakmem_class_blocks", "gauge", NULL,
                   "Blocks of the size classes that are in use, by state.");
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++)
        for (unsigned state = 0; survey->classes[cls].slabs != 0 && state < HAK_BLOCK_STATES;
             state++)
            (void)printf("hakmem_class_blocks{size=\"%u\",state=\"%s\"} %" PRIu64 "\n",
                         hak_class(cls)->size_bytes, states[state],
                         survey->classes[cls].blocks[state]);
    metrics_family("hakmem_class_resident_bytes", "gauge", "bytes", "Of the slabs of a class.");
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++)
        if (survey->classes[cls].slabs != 0)
            (void)printf("hakmem_class_resident_bytes{size=\"%u\"} %" PRIu64 "\n",
                         hak_class(cls)->size_bytes, survey->classes[cls].resident_bytes);
}

void hak_stat_print_openmetrics(const struct hak_survey *survey, bool peak)
{
    metrics_process(survey);
    metrics_slack(survey);
    metrics_live(survey);
    metrics_counters(survey);
    metrics_classes(survey);
    if (!peak)
        (void)puts("# EOF");
}

void hak_stat_end_openmetrics(struct hak_stat_peak peak)
{
    metrics_family("hakmem_peak_seen_bytes", "gauge", "bytes",
                   "In memory when these figures were taken.");
    metrics_one("hakmem_peak_seen_bytes", peak.seen_bytes);
    if (peak.kernel_bytes != 0) {
        metrics_family("hakmem_peak_kernel_bytes", "gauge", "bytes",
                       "In memory at most, as the kernel noted it.");
        metrics_one("hakmem_peak_kernel_bytes", peak.kernel_bytes);
    }
    (void)puts("# EOF");
}
