/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: where `hakmem explain` finds failed allocations: in a process or its core
 * file, in the JSON of `hakmem stat`, and in that of hakmem_stats_json, where each is a line of
 * words. */
#include "explain.h"

#include "json_read.h"
#include "survey.h"
#include "system.h"
#include "util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_JSON_BYTES ((size_t)256 << 20)

static const struct hak_explained explain_unknown = {
    .size_bytes = UINT64_MAX,
    .align_bytes = 16,
    .class_bytes = UINT64_MAX,
    .age_ns = UINT64_MAX,
    .limits = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};

static const char *explain_error_name(int error)
{
    const char *name = hak_error_name(error);
    return error == 0 || name == NULL ? "" : name;
}

static void explain_copy(char *to, size_t size_bytes, const char *from)
{
    (void)snprintf(to, size_bytes, "%s", from == NULL ? "" : from);
}

static void explain_add_record(struct hak_explanation *e, struct hak_remote *r,
                               const struct hak_failure *f)
{
    struct hak_explained *x = &e->last[e->count++];
    *x = explain_unknown;
    x->reason = (enum hak_failure_reason)hak_min(f->why.reason, HAK_FAILURE_COUNT - 1);
    x->size_bytes = f->size_bytes;
    x->align_bytes = f->align_bytes;
    x->window_full = x->reason == HAK_FAILURE_EXHAUSTION && f->why.error == ENOSPC;
    x->no_heap = x->reason == HAK_FAILURE_EXHAUSTION && f->why.error == 0;
    explain_copy(x->error, sizeof x->error, explain_error_name(f->why.error));
    bool is_class = f->kind < 2 * HAK_CLASSES;
    explain_copy(x->kind, sizeof x->kind,
                 is_class                    ? "class"
                 : f->kind == HAK_KIND_LARGE ? "large"
                                             : "huge");
    if (is_class)
        x->class_bytes = hak_class(f->kind / 2)->size_bytes;
    hak_remote_read_string(r, (uint64_t)(uintptr_t)f->why.stage, x->stage, sizeof x->stage);
    if (!r->is_core && r->now_ns >= f->time_ns)
        x->age_ns = r->now_ns - f->time_ns;
    if (x->reason == HAK_FAILURE_MAP)
        x->limits = f->limits;
}

static void explain_read_state(struct hak_explanation *e, struct hak_image *image)
{
    struct hak_survey survey;
    hak_survey_make(&survey, image);
    const struct hak_snapshot *s = &survey.snapshot;
    size_t limit = hak_load_relaxed(&hak_pool.limit_superslabs);
    e->live_bytes = hak_survey_held(&survey).bytes;
    e->held_bytes = s->held_bytes;
    e->averted = s->failures_averted;
    e->kept_bytes =
        s->pool.retired_now * HAK_SUPERSLAB_BYTES + s->pool.empty_slots_now * HAK_SLOT_BYTES;
    e->mapped_bytes = hak_load_relaxed(&hak_pool.mapped_now) * HAK_SUPERSLAB_BYTES;
    e->limit_bytes = limit == 0 ? UINT64_MAX : limit * HAK_SUPERSLAB_BYTES;
    e->mappings = image->remote->count;
    e->address_space_bytes = 0;
    for (size_t i = 0; i < image->remote->count; i++)
        e->address_space_bytes += image->remote->mappings[i].end - image->remote->mappings[i].start;
    hak_survey_free(&survey);
}

/* Of a process that runs; a core file does not tell. */
static void explain_read_data(struct hak_explanation *e, pid_t pid)
{
    char *status = hak_format("/proc/%d/status", (int)pid);
    e->data_bytes = e->is_live ? hak_system_line(status, "VmData") : UINT64_MAX;
    free(status);
}

bool hak_explain_read_remote(struct hak_explanation *e, struct hak_remote *r,
                             struct hak_obstacle *obstacle)
{
    struct hak_image image;
    (void)hak_remote_look_at_pages(r);
    if (!hak_image_open(&image, r, obstacle))
        return false;
    const struct hak_failures *f = &image.failures;
    *e = (struct hak_explanation){.is_live = !r->is_core};
    const char *name = r->name[0] == '\0' ? "the program" : r->name;
    e->who = r->is_core ? hak_format("%s (process %d, from %s)", name, (int)r->pid, r->path)
                        : hak_format("%s (process %d)", name, (int)r->pid);
    for (enum hak_failure_reason reason = 0; reason < HAK_FAILURE_COUNT; reason++)
        e->counts[reason] = hak_load_relaxed(&f->counts[reason]);
    for (size_t i = hak_min(f->recorded, HAK_FAILURES_KEPT); i > 0; i--)
        explain_add_record(e, r, &f->ring[(f->recorded - i) % HAK_FAILURES_KEPT]);
    explain_read_state(e, &image);
    explain_read_data(e, r->pid);
    return true;
}

/* --- JSON --- */

static bool explain_find_reason(const char *name, enum hak_failure_reason *reason)
{
    for (enum hak_failure_reason r = 0; name != NULL && r < HAK_FAILURE_COUNT; r++)
        if (strcmp(name, hak_failure_name(r)) == 0) {
            *reason = r;
            return true;
        }
    return false;
}

/* As `hakmem stat --json` has it. */
static bool explain_add_object(struct hak_explanation *e, const struct hak_value *v)
{
    struct hak_explained x = explain_unknown;
    if (!explain_find_reason(hak_value_string(v, "reason"), &x.reason))
        return false;
    x.size_bytes = hak_value_number(v, "size_bytes");
    x.align_bytes = hak_value_number(v, "align_bytes");
    explain_copy(x.error, sizeof x.error, hak_value_string(v, "error"));
    explain_copy(x.kind, sizeof x.kind, hak_value_string(v, "kind"));
    explain_copy(x.stage, sizeof x.stage, hak_value_string(v, "stage"));
    x.window_full = x.reason == HAK_FAILURE_EXHAUSTION && strcmp(x.error, "ENOSPC") == 0;
    x.no_heap = x.reason == HAK_FAILURE_EXHAUSTION && x.error[0] == '\0';
    x.class_bytes = hak_value_number(v, "class_bytes");
    x.age_ns = hak_value_number(v, "age_ns");
    x.limits = (struct hak_os_limits){
        hak_value_number(v, "limits.address_space_bytes"), hak_value_number(v, "limits.data_bytes"),
        hak_value_number(v, "limits.mappings"), hak_value_number(v, "limits.cgroup_max_bytes"),
        hak_value_number(v, "limits.cgroup_used_bytes")};
    e->last[e->count++] = x;
    return true;
}

static uint64_t explain_number_behind(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    uint64_t number;
    return at != NULL && sscanf(at + strlen(words), "%" SCNu64, &number) == 1 ? number : UINT64_MAX;
}

/* The words of hak_failure_describe. */
static bool explain_add_words(struct hak_explanation *e, const char *text)
{
    struct hak_explained x = explain_unknown;
    const char *why = strstr(text, " failed: ");
    if (!hak_starts_with(text, "allocation of ") || why == NULL)
        return false;
    x.size_bytes = explain_number_behind(text, "allocation of ");
    uint64_t align = explain_number_behind(text, " aligned to ");
    x.align_bytes = align == UINT64_MAX ? x.align_bytes : align;
    if (strstr(why, "no block can be that large") != NULL) {
        x.reason = HAK_FAILURE_THRESHOLD;
    } else if (strstr(why, "the system refused") != NULL) {
        x.reason = HAK_FAILURE_MAP;
        if (sscanf(why, " failed: the system refused memory (%23[A-Z])", x.error) != 1)
            x.error[0] = '\0';
        const char *mappings = strstr(why, " mappings");
        while (mappings != NULL && mappings > why && mappings[-1] >= '0' && mappings[-1] <= '9')
            mappings--;
        x.limits.mappings = mappings == NULL ? UINT64_MAX : strtoull(mappings, NULL, 10);
        x.limits.address_space_bytes = explain_number_behind(why, "RLIMIT_AS ");
        x.limits.data_bytes = explain_number_behind(why, "RLIMIT_DATA ");
        x.limits.cgroup_used_bytes = explain_number_behind(why, "cgroup at ");
        const char *cgroup = strstr(why, "cgroup at ");
        if (cgroup != NULL)
            x.limits.cgroup_max_bytes = explain_number_behind(cgroup, " of ");
    } else {
        x.reason = HAK_FAILURE_EXHAUSTION;
        x.window_full = strstr(why, "window") != NULL;
        x.no_heap = strstr(why, "no heap") != NULL;
    }
    const char *stage = strstr(why, ", stage ");
    if (stage != NULL && sscanf(stage, ", stage %31[a-z]", x.stage) == 1 &&
        strcmp(x.stage, "none") == 0)
        x.stage[0] = '\0';
    explain_copy(x.kind, sizeof x.kind,
                 strstr(why, "; large") != NULL  ? "large"
                 : strstr(why, "; huge") != NULL ? "huge"
                                                 : "class");
    uint64_t ms = stage == NULL || strchr(stage + 2, ',') == NULL
                      ? UINT64_MAX
                      : explain_number_behind(strchr(stage + 2, ','), ", ");
    x.age_ns = ms == UINT64_MAX ? ms : ms * 1000000;
    e->last[e->count++] = x;
    return true;
}

/* "counters" is of `hakmem stat`, "control" of hakmem_stats_json. */
static uint64_t explain_counter(const struct hak_value *root, const char *name)
{
    static const char *const groups[] = {"counters", "control"};
    for (size_t g = 0; g < 2; g++) {
        const struct hak_value *group = hak_value_at(root, groups[g]);
        for (size_t i = 0; group != NULL && i < group->count; i++)
            if (group->members[i].key != NULL && strcmp(group->members[i].key, name) == 0)
                return group->members[i].number;
    }
    return UINT64_MAX;
}

static bool explain_understand(struct hak_explanation *e, const struct hak_value *root,
                               const char *path)
{
    const struct hak_value *last = hak_value_at(root, "failures.last");
    if (last == NULL || last->kind != HAK_VALUE_ARRAY)
        return false;
    const char *name = hak_value_string(root, "process.name");
    *e = (struct hak_explanation){.address_space_bytes = UINT64_MAX,
                                  .data_bytes = UINT64_MAX,
                                  .mappings = UINT64_MAX,
                                  .mapped_bytes = UINT64_MAX,
                                  .kept_bytes = UINT64_MAX};
    e->who = name != NULL ? hak_format("%s (from %s)", name, path) : hak_format("%s", path);
    for (enum hak_failure_reason r = 0; r < HAK_FAILURE_COUNT; r++) {
        char where[32];
        (void)snprintf(where, sizeof where, "failures.%s", hak_failure_name(r));
        uint64_t count = hak_value_number(root, where);
        e->counts[r] = count == UINT64_MAX ? 0 : count;
    }
    for (size_t i = 0; i < last->count && e->count < HAK_FAILURES_KEPT; i++) {
        const struct hak_value *v = &last->members[i];
        if (v->kind == HAK_VALUE_STRING ? !explain_add_words(e, v->text)
                                        : !explain_add_object(e, v))
            return false;
    }
    e->live_bytes = explain_counter(root, "live.bytes");
    e->held_bytes = explain_counter(root, "held.bytes");
    e->averted = explain_counter(root, "failures.averted");
    e->limit_bytes = hak_value_number(root, "settings.limit_bytes");
    return true;
}

/* A new string; NULL: `*problem` says why not. */
static char *explain_read_file(const char *path, char **problem)
{
    int file = hak_open_regular(path, problem);
    char *text = NULL;
    size_t length = 0, capacity = 0;
    ssize_t n = 1;
    while (file >= 0 && n > 0 && length < MOST_JSON_BYTES) {
        if (capacity - length < 2) {
            capacity = capacity == 0 ? 65536 : 2 * capacity;
            text = hak_grow(text, capacity, 1);
        }
        n = read(file, text + length, capacity - 1 - length);
        length += n > 0 ? (size_t)n : 0;
        text[length] = '\0';
    }
    if (file >= 0)
        (void)close(file);
    return text;
}

bool hak_explain_read_json(struct hak_explanation *e, const char *path,
                           struct hak_obstacle *obstacle)
{
    struct hak_value root = {0};
    *e = (struct hak_explanation){0};
    char *text = explain_read_file(path, &obstacle->problem);
    bool understood =
        text != NULL && hak_value_parse(&root, text) && explain_understand(e, &root, path);
    if (!understood) {
        if (text != NULL)
            obstacle->problem =
                hak_format("%s is neither a core file nor the JSON of hakmem's figures", path);
        obstacle->hint = "give a core file, what 'hakmem stat --json' printed, or what "
                         "hakmem_stats_json wrote";
    }
    hak_value_free(&root);
    free(text);
    return understood;
}
