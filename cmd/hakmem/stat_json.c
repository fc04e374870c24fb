/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem stat --json`: docs/stat-format.md, docs/schema/stat.schema.json. */
#include "stat.h"

#include "util.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#define SCHEMA_VERSION 1

static uint64_t stat_age_ns(const struct hak_survey *survey, uint64_t then_ns)
{
    uint64_t now_ns = survey->image->remote->now_ns;
    return then_ns == 0 || then_ns >= UINT64_MAX - 1 ? UINT64_MAX
                                                     : now_ns - hak_min(now_ns, then_ns);
}

static void stat_json_process(struct hak_json *j, const struct hak_survey *survey)
{
    static const char *const builds[] = {"release", "hardened", "checked", "hardened checked"};
    const struct hak_remote *r = survey->image->remote;
    struct utsname kernel;
    hak_json_open(j, "process", '{');
    hak_json_number_or_null(j, "pid", r->pid > 0 ? (uint64_t)r->pid : UINT64_MAX);
    hak_json_string(j, "name", r->name);
    hak_json_number(j, "rss_bytes", survey->rss_bytes);
    hak_json_number_or_null(j, "kernel_rss_bytes", r->kernel_rss_bytes);
    hak_json_number_or_null(j, "swap_bytes", r->swap_bytes);
    hak_json_string(j, "hakmem_version", hak_image_version(survey->image));
    hak_json_string(j, "build", builds[survey->image->root.flags % 4]);
    hak_json_string(j, "kernel", uname(&kernel) == 0 ? kernel.release : "");
    hak_json_number(j, "time_unix_ns", r->time_unix_ns);
    hak_json_number_or_null(j, "uptime_ns", r->uptime_ns);
    hak_json_string(j, "source", r->is_core ? "core" : "live");
    hak_json_bool(j, "complete", survey->complete);
    hak_json_close(j, '{');
}

static void stat_json_waterfall(struct hak_json *j, const struct hak_survey *survey)
{
    hak_json_open(j, "waterfall", '[');
    for (enum hak_line line = 0; line < HAK_LINE_COUNT; line++) {
        hak_json_open_line(j, NULL, '{');
        hak_json_string(j, "name", hak_line_name(line));
        hak_json_string(j, "label", hak_line_label(line));
        hak_json_number(j, "resident_bytes", survey->lines[line].resident_bytes);
        hak_json_number(j, "virtual_bytes", survey->lines[line].virtual_bytes);
        hak_json_bool(j, "known", line != HAK_LINE_SLACK || survey->slack_basis != HAK_SLACK_LARGE);
        hak_json_close(j, '{');
    }
    hak_json_close(j, '[');
    static const char *const bases[] = {"large", "estimated", "exact"};
    hak_json_open_line(j, "slack", '{');
    hak_json_string(j, "basis", bases[survey->slack_basis]);
    hak_json_number(j, "samples", survey->slack_samples);
    hak_json_close(j, '{');
    hak_json_open_line(j, "not_ours", '{');
    hak_json_number(j, "files_bytes", survey->files_bytes);
    hak_json_number(j, "stacks_bytes", survey->stacks_bytes);
    hak_json_number(j, "shared_bytes", survey->shared_bytes);
    hak_json_number(j, "anonymous_bytes", survey->anonymous_bytes);
    hak_json_close(j, '{');
}

static void stat_json_stages(struct hak_json *j, unsigned label)
{
    hak_json_open_line(j, "stages", '{');
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++)
        hak_json_number(j, hak_stage_name(stage), hak_pool_acquired(stage, label));
    hak_json_close(j, '{');
}

static void stat_json_classes(struct hak_json *j, const struct hak_survey *survey)
{
    hak_json_open(j, "classes", '[');
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        const struct hak_class_seen *c = &survey->classes[cls];
        hak_json_open_line(j, NULL, '{');
        hak_json_number(j, "size_bytes", hak_class(cls)->size_bytes);
        hak_json_number(j, "slabs", c->slabs);
        hak_json_number(j, "slots", c->slots);
        hak_json_number(j, "live_blocks", c->blocks[HAK_BLOCK_LIVE]);
        hak_json_number(j, "live_bytes", c->blocks[HAK_BLOCK_LIVE] * hak_class(cls)->size_bytes);
        hak_json_number(j, "bin_blocks", c->blocks[HAK_BLOCK_BIN]);
        hak_json_number(j, "waiting_blocks", c->blocks[HAK_BLOCK_WAITING]);
        hak_json_number(j, "free_blocks", c->blocks[HAK_BLOCK_FREE]);
        hak_json_number(j, "fresh_blocks", c->blocks[HAK_BLOCK_FRESH]);
        hak_json_number(j, "quarantine_blocks", c->blocks[HAK_BLOCK_QUARANTINE]);
        hak_json_number(j, "resident_bytes", c->resident_bytes);
        hak_json_number(j, "live_resident_bytes", c->live_resident_bytes);
        hak_json_number(j, "soft_cap_bytes", hak_pool_soft_cap(cls) * HAK_SLOT_BYTES);
        hak_json_number(j, "slots_in_use", hak_pool_slots_in_use(cls));
        stat_json_stages(j, cls);
        hak_json_close(j, '{');
    }
    hak_json_close(j, '[');
}

static const char *stat_heap_state(const struct hak_survey *survey, const struct hak_heap_seen *h)
{
    if (h->address == survey->image->orphans)
        return "shared";
    if (hak_load_relaxed(&h->heap.lost))
        return "lost";
    if (h->heap.dead)
        return "left";
    return hak_load_relaxed(&h->heap.thread) != 0 ? "running" : "idle";
}

static void stat_json_heap(struct hak_json *j, const struct hak_survey *survey,
                           const struct hak_heap_seen *h)
{
    static const char *const groups[HAK_GROUPS] = {"short", "medium", "long"};
    const struct hak_heap_stats *s = &h->heap.stats;
    hak_json_open_line(j, NULL, '{');
    hak_json_number(j, "heap", h->number);
    hak_json_number(j, "home", h->heap.front.tag >> HAK_TAG_SHIFT);
    hak_json_number_or_null(j, "tid", h->tid != 0 ? (uint64_t)h->tid : UINT64_MAX);
    hak_json_string(j, "name", h->tid != 0 ? h->thread_name : NULL);
    hak_json_string(j, "state", stat_heap_state(survey, h));
    hak_json_string(j, "group", groups[hak_min(h->heap.group, HAK_GROUPS - 1)]);
    hak_json_number(j, "slabs", h->slabs);
    hak_json_number(j, "slab_bytes", h->slab_bytes);
    hak_json_number(j, "resident_bytes", h->resident_bytes);
    hak_json_number(j, "live_blocks", h->live_blocks);
    hak_json_number(j, "live_bytes", h->live_bytes);
    hak_json_number(j, "bin_blocks", h->bin_blocks);
    hak_json_number(j, "bin_bytes", h->bin_bytes);
    hak_json_number(j, "outbox_blocks", h->outbox_blocks);
    hak_json_number(j, "outbox_bytes", h->outbox_bytes);
    hak_json_number(j, "inbox_blocks", h->inbox_blocks);
    hak_json_number(j, "inbox_bytes", h->inbox_bytes);
    hak_json_number(j, "free_bytes", h->free_bytes);
    hak_json_number(j, "refills", hak_load_relaxed(&s->refills));
    hak_json_number(j, "drains", hak_load_relaxed(&s->drains));
    hak_json_number(j, "drained_blocks", hak_load_relaxed(&s->drained_blocks));
    hak_json_number(j, "grown_bins", hak_load_relaxed(&s->grown_bins));
    hak_json_number(j, "borrowed_blocks", hak_load_relaxed(&s->borrowed_blocks));
    hak_json_number(j, "remote_frees", hak_load_relaxed(&s->remote_frees));
    hak_json_number(j, "remote_sends", hak_load_relaxed(&s->remote_sends));
    hak_json_number(j, "collected_blocks", hak_load_relaxed(&s->collected_blocks));
    hak_json_number(j, "adopted_slabs", hak_load_relaxed(&s->adopted_slabs));
    hak_json_number(j, "purged_bytes", hak_load_relaxed(&s->purged_bytes));
    hak_json_number(j, "collected_for_others", hak_load_relaxed(&s->collected_for_others));
    hak_json_close(j, '{');
}

static void stat_json_threads(struct hak_json *j, const struct hak_survey *survey)
{
    hak_json_open(j, "threads", '[');
    for (size_t i = survey->heap_count; i-- > 0;) /* the newest is first in the list */
        stat_json_heap(j, survey, &survey->heaps[i]);
    hak_json_close(j, '[');
}

static void stat_json_large(struct hak_json *j, const struct hak_survey *survey)
{
    const struct hak_large_stats *large = &survey->snapshot.large;
    hak_json_open_line(j, "stages", '{');
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++)
        hak_json_number(j, hak_stage_name(stage), survey->snapshot.pool.acquired[stage]);
    hak_json_close(j, '{');
    hak_json_open_line(j, "large", '{');
    hak_json_number(j, "blocks", survey->large_blocks);
    hak_json_number(j, "bytes", survey->large.virtual_bytes);
    hak_json_number(j, "resident_bytes", survey->large.resident_bytes);
    hak_json_number(j, "slots_in_use", hak_pool_slots_in_use(HAK_POOL_LABEL_RUN));
    stat_json_stages(j, HAK_POOL_LABEL_RUN);
    hak_json_close(j, '{');
    hak_json_open_line(j, "huge", '{');
    hak_json_number(j, "blocks", survey->huge_blocks);
    hak_json_number(j, "bytes", survey->huge.virtual_bytes);
    hak_json_number(j, "resident_bytes", survey->huge.resident_bytes);
    hak_json_number(j, "reused", large->huge_reused);
    hak_json_number(j, "fresh", large->huge_fresh);
    hak_json_number(j, "moves", large->moved_pages_calls);
    hak_json_number(j, "waiting_bytes", survey->waiting.virtual_bytes);
    hak_json_close(j, '{');
}

static void stat_json_locks(struct hak_json *j, const struct hak_survey *survey)
{
    hak_json_open(j, "locks", '{');
    for (enum hak_lock_name lock = 0; lock < HAK_LOCK_COUNT; lock++) {
        hak_json_open_line(j, hak_lock_names[lock], '{');
        hak_json_number(j, "acquired", survey->snapshot.locks[lock].acquired);
        hak_json_number(j, "contended", survey->snapshot.locks[lock].contended);
        hak_json_close(j, '{');
    }
    hak_json_close(j, '{');
}

/* --- failures --- */

static void stat_json_failure(struct hak_json *j, const struct hak_image *image,
                              struct hak_failure f)
{
    char text[320], stage[32] = "";
    struct hak_text words;
    uint64_t now_ns = image->remote->now_ns;
    hak_remote_read_string(image->remote, (uint64_t)(uintptr_t)f.why.stage, stage, sizeof stage);
    f.why.stage = stage[0] != '\0' ? stage : NULL;
    f.why.reason = (enum hak_failure_reason)hak_min(f.why.reason, HAK_FAILURE_COUNT - 1);
    now_ns = image->remote->is_core || now_ns < f.time_ns ? f.time_ns : now_ns;
    hak_text_begin(&words, text, sizeof text);
    hak_failure_describe(&words, &f, now_ns);
    bool is_class = f.kind < 2 * HAK_CLASSES;
    hak_json_open(j, NULL, '{');
    hak_json_number(j, "size_bytes", f.size_bytes);
    hak_json_number(j, "align_bytes", f.align_bytes);
    hak_json_string(j, "reason", hak_failure_name(f.why.reason));
    hak_json_string(j, "error", f.why.error == 0 ? NULL : hak_error_name(f.why.error));
    hak_json_string(j, "kind", is_class ? "class" : f.kind == HAK_KIND_LARGE ? "large" : "huge");
    hak_json_number_or_null(j, "class_bytes",
                            is_class ? hak_class(f.kind / 2)->size_bytes : UINT64_MAX);
    hak_json_string(j, "stage", f.why.stage);
    hak_json_number_or_null(j, "age_ns", image->remote->is_core ? UINT64_MAX : now_ns - f.time_ns);
    bool has_limits = f.why.reason == HAK_FAILURE_MAP;
    hak_json_open_line(j, "limits", '{');
    hak_json_number_or_null(j, "address_space_bytes",
                            has_limits ? f.limits.address_space_bytes : UINT64_MAX);
    hak_json_number_or_null(j, "data_bytes", has_limits ? f.limits.data_bytes : UINT64_MAX);
    hak_json_number_or_null(j, "mappings", has_limits ? f.limits.mappings : UINT64_MAX);
    hak_json_number_or_null(j, "cgroup_max_bytes",
                            has_limits ? f.limits.cgroup_max_bytes : UINT64_MAX);
    hak_json_number_or_null(j, "cgroup_used_bytes",
                            has_limits ? f.limits.cgroup_used_bytes : UINT64_MAX);
    hak_json_close(j, '{');
    hak_json_string(j, "text", text);
    hak_json_close(j, '{');
}

void hak_stat_json_failures(struct hak_json *j, const struct hak_image *image)
{
    const struct hak_failures *f = &image->failures;
    hak_json_open(j, "failures", '{');
    for (enum hak_failure_reason r = 0; r < HAK_FAILURE_COUNT; r++)
        hak_json_number(j, hak_failure_name(r), hak_load_relaxed(&f->counts[r]));
    hak_json_open(j, "last", '[');
    for (size_t i = hak_min(f->recorded, HAK_FAILURES_KEPT); i > 0; i--)
        stat_json_failure(j, image, f->ring[(f->recorded - i) % HAK_FAILURES_KEPT]);
    hak_json_close(j, '[');
    hak_json_close(j, '{');
}

/* --- the rest --- */

static void stat_json_settings(struct hak_json *j, const struct hak_survey *survey)
{
    size_t limit = hak_load_relaxed(&hak_pool.limit_superslabs);
    hak_json_open_line(j, "settings", '{');
    hak_json_number(j, "retired_max_superslabs", hak_load_relaxed(&hak_pool.config.max_count));
    hak_json_number(j, "retired_max_bytes", hak_load_relaxed(&hak_pool.config.max_bytes));
    hak_json_number(j, "retired_max_age_ns", hak_load_relaxed(&hak_pool.config.max_age_ns));
    hak_json_number(j, "huge_pages_from_bytes",
                    hak_load_relaxed(&hak_pool.config.huge_pages_from_bytes));
    hak_json_number_or_null(j, "limit_bytes",
                            limit == 0 ? UINT64_MAX : limit * HAK_SUPERSLAB_BYTES);
    hak_json_bool(j, "trace_failures", hak_load_relaxed(&survey->image->failures.trace));
    hak_json_close(j, '{');
    hak_json_open(j, "counters", '{');
    const char *name;
    for (unsigned i = 0; (name = hak_control_name(i)) != NULL; i++)
        hak_json_number(j, name, hak_control_value(&survey->snapshot, i));
    hak_json_close(j, '{');
}

static void stat_json_slot(struct hak_json *j, const struct hak_survey *survey,
                           const struct hak_superslab_seen *s, unsigned i)
{
    static const char *const states[] = {"unmapped", "unused", "empty",
                                         "active",   "active", "retired"};
    uint8_t state = s->slot_state[i];
    const struct hak_slab_seen *slab =
        s->slot_slab[i] == 0 ? NULL : &survey->slabs[s->slot_slab[i] - 1];
    bool is_class = slab != NULL && slab->cls < HAK_CLASSES;
    bool is_large = slab != NULL && !is_class && slab->blocks[HAK_BLOCK_LIVE] != 0;
    bool had_class = state == HAK_SLOT_EMPTY && s->slot_label[i] < HAK_CLASSES;
    bool ages = state == HAK_SLOT_EMPTY || state == HAK_SLOT_RETIRED;
    unsigned cls = is_class ? slab->cls : s->slot_label[i];
    hak_json_open_line(j, NULL, '{');
    hak_json_string(j, "state", states[state]);
    hak_json_string(j, "kind",
                    is_class                                       ? "class"
                    : is_large                                     ? "large"
                    : slab != NULL || state == HAK_SLOT_TRANSITION ? "transition"
                                                                   : NULL);
    hak_json_number_or_null(j, "class_bytes",
                            is_class || had_class ? hak_class(cls)->size_bytes : UINT64_MAX);
    hak_json_number_or_null(j, "owner",
                            is_class && slab->heap < survey->heap_count
                                ? survey->heaps[slab->heap].number
                                : UINT64_MAX);
    hak_json_number(j, "part", slab == NULL ? 0 : s->number * HAK_SLOTS + i - slab->first_slot);
    hak_json_number(j, "live_blocks", slab == NULL ? 0 : slab->blocks[HAK_BLOCK_LIVE]);
    hak_json_number(j, "blocks", is_class ? hak_class(slab->cls)->blocks : slab != NULL);
    hak_json_number_or_null(
        j, "sample_bytes", slab != NULL && slab->small_bytes != 0 ? slab->small_bytes : UINT64_MAX);
    hak_json_number(j, "resident_bytes", s->slot_resident_bytes[i]);
    hak_json_number_or_null(j, "age_ns", ages ? stat_age_ns(survey, s->released_ns) : UINT64_MAX);
    hak_json_close(j, '{');
}

static void stat_json_superslabs(struct hak_json *j, const struct hak_survey *survey)
{
    static const char *const states[] = {"slots", "retired", "huge", "waiting"};
    uint64_t base = hak_load_relaxed(&survey->image->space.base);
    hak_json_open(j, "superslabs", '[');
    for (size_t n = 0; n < survey->superslab_count; n++) {
        const struct hak_superslab_seen *s = &survey->superslabs[n];
        bool has_slots = s->state == HAK_SUPERSLAB_SLOTS || s->state == HAK_SUPERSLAB_RETIRED;
        hak_json_open(j, NULL, '{');
        hak_json_number(j, "address", base + s->number * HAK_SUPERSLAB_BYTES);
        hak_json_string(j, "state", states[s->quarantine ? HAK_SUPERSLAB_WAITING : s->state]);
        hak_json_number(j, "superslabs", s->superslabs);
        hak_json_number_or_null(j, "age_ns", stat_age_ns(survey, s->released_ns));
        hak_json_bool(j, "huge_pages", s->huge_pages);
        hak_json_number(j, "resident_bytes", s->resident_bytes);
        hak_json_number(j, "virtual_bytes", s->mapped_bytes);
        hak_json_open(j, "slots", '[');
        for (unsigned i = 0; has_slots && i < HAK_SLOTS; i++)
            stat_json_slot(j, survey, s, i);
        hak_json_close(j, '[');
        hak_json_close(j, '{');
    }
    hak_json_close(j, '[');
}

void hak_stat_print_json(const struct hak_survey *survey, struct hak_stat_parts parts)
{
    struct hak_json j = {.out = stdout};
    hak_json_open(&j, NULL, '{');
    hak_json_number(&j, "schema_version", SCHEMA_VERSION);
    stat_json_process(&j, survey);
    stat_json_waterfall(&j, survey);
    stat_json_classes(&j, survey);
    stat_json_threads(&j, survey);
    stat_json_large(&j, survey);
    stat_json_locks(&j, survey);
    hak_stat_json_failures(&j, survey->image);
    stat_json_settings(&j, survey);
    hak_stat_json_lifetimes(&j, survey);
    if (parts.superslabs)
        stat_json_superslabs(&j, survey);
    if (parts.samples)
        hak_stat_json_samples(&j, survey);
    if (!parts.peak)
        hak_json_close(&j, '{');
}

void hak_stat_end_json(struct hak_stat_peak peak)
{
    struct hak_json j = {.out = stdout, .depth = 1, .has_member = {[1] = true}};
    hak_json_open_line(&j, "peak", '{');
    hak_json_number(&j, "seen_bytes", peak.seen_bytes);
    hak_json_number_or_null(&j, "kernel_bytes",
                            peak.kernel_bytes != 0 ? peak.kernel_bytes : UINT64_MAX);
    hak_json_close(&j, '{');
    hak_json_close(&j, '{');
}
