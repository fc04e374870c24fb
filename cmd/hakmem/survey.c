/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: puts a survey together, see survey.h. */
#include "survey.h"

#include "util.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *label;
} survey_lines[HAK_LINE_COUNT] = {
    [HAK_LINE_LIVE] = {"live", "live blocks"},
    [HAK_LINE_SLACK] = {"slack", "of live blocks, not asked for"},
    [HAK_LINE_THREAD_CACHES] = {"thread_caches", "free in threads' caches"},
    [HAK_LINE_FREE_IN_SLABS] = {"free_in_slabs", "free in slabs"},
    [HAK_LINE_EMPTY_SLOTS] = {"empty_slots", "empty slots"},
    [HAK_LINE_RETIRED] = {"retired", "retired superslabs"},
    [HAK_LINE_HUGE_CACHE] = {"huge_cache", "freed huge blocks"},
    [HAK_LINE_IN_TRANSITION] = {"in_transition", "in transition"},
    [HAK_LINE_METADATA] = {"metadata", "hakmem's records"},
    [HAK_LINE_LIBRARY] = {"library", "libhakmem itself"},
    [HAK_LINE_NOT_OURS] = {"not_ours", "not hakmem's"},
};

const char *hak_line_name(enum hak_line line)
{
    return survey_lines[line].name;
}

const char *hak_line_label(enum hak_line line)
{
    return survey_lines[line].label;
}

/* --- threads: the number of a heap's thread stands in glibc's record of it, whose layout is
 * private; the place is where every thread has the number of one --- */

#define RECORD_BYTES 2048u
#define RECORD_USUAL_AT 720u /* x86-64, glibc 2.4 to 2.41 at least */

struct threads {
    pid_t *ids;
    size_t count;
};

static void threads_list(struct threads *t, pid_t pid)
{
    char *path = hak_format("/proc/%d/task", (int)pid);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    free(path);
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (t->count % 64 == 0)
            t->ids = hak_grow(t->ids, t->count + 64, sizeof *t->ids);
        t->ids[t->count++] = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    if (directory != NULL)
        (void)closedir(directory);
}

static bool threads_have(const struct threads *t, pid_t id)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->ids[i] == id)
            return true;
    return false;
}

static void threads_name(struct hak_heap_seen *h, pid_t pid)
{
    char *path = hak_format("/proc/%d/task/%d/comm", (int)pid, (int)h->tid);
    FILE *file = fopen(path, "re");
    free(path);
    if (file == NULL)
        return;
    if (fgets(h->thread_name, sizeof h->thread_name, file) == NULL)
        h->thread_name[0] = '\0';
    h->thread_name[strcspn(h->thread_name, "\n")] = '\0';
    (void)hak_printable(h->thread_name);
    (void)fclose(file);
}

static void survey_name_threads(struct hak_survey *survey)
{
    struct hak_remote *r = survey->image->remote;
    struct threads t = {NULL, 0};
    bool possible[RECORD_BYTES / sizeof(int32_t)];
    if (r->is_core)
        return;
    threads_list(&t, r->pid);
    memset(possible, 1, sizeof possible);
    int32_t record[RECORD_BYTES / sizeof(int32_t)];
    for (int round = 0; round < 2; round++) {
        size_t at = RECORD_USUAL_AT / sizeof *record;
        for (size_t i = 0; round == 1 && !possible[at] && i < RECORD_BYTES / sizeof *record; i++)
            at = possible[i] ? i : at;
        for (size_t i = 0; i < survey->heap_count; i++) {
            struct hak_heap_seen *h = &survey->heaps[i];
            uint64_t thread = hak_load_relaxed(&h->heap.thread);
            if (thread == 0 || !hak_remote_read(r, thread, record, sizeof record))
                continue;
            if (round == 1) {
                h->tid = possible[at] && threads_have(&t, record[at]) ? record[at] : 0;
                if (h->tid != 0)
                    threads_name(h, r->pid);
                continue;
            }
            for (size_t o = 0; o < RECORD_BYTES / sizeof *record; o++)
                possible[o] = possible[o] && threads_have(&t, record[o]);
        }
    }
    free(t.ids);
}

/* --- what hakmem_ctl would say --- */

static void survey_fill_snapshot(struct hak_survey *survey)
{
    struct hak_snapshot *s = &survey->snapshot;
    const struct hak_image *image = survey->image;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        const struct hak_class_seen *c = &survey->classes[cls];
        uint64_t size = hak_class(cls)->size_bytes;
        uint64_t used = c->blocks[HAK_BLOCK_LIVE] + c->blocks[HAK_BLOCK_WAITING] +
                        c->blocks[HAK_BLOCK_QUARANTINE];
        s->cache.class_used_blocks[cls] = used;
        s->cache.class_slabs[cls] = c->slabs;
        s->cache.used_blocks += used;
        s->cache.used_bytes += used * size;
        s->cache.bin_blocks += c->blocks[HAK_BLOCK_BIN];
        s->cache.bin_bytes += c->blocks[HAK_BLOCK_BIN] * size;
        s->cache.slabs += c->slabs;
        s->cache.slab_bytes += c->slots * HAK_SLOT_BYTES;
    }
    for (size_t i = 0; i < survey->heap_count; i++) {
        s->cache.heaps += hak_load_relaxed(&survey->heaps[i].heap.thread) != 0;
        hak_lock_add_counts(&survey->heaps[i].heap.lock, &s->cache.heap_locks);
        hak_cache_add_counts(&survey->heaps[i].heap, &s->cache);
    }
    hak_lock_add_counts(&image->registry.lock, &s->cache.registry_lock);
    hak_lock_add_counts(&image->window.lock, &s->locks[HAK_LOCK_WINDOW]);
    hak_lock_add_counts(&image->meta.lock, &s->locks[HAK_LOCK_RECORDS]);
    hak_large_stats(&s->large);
    for (size_t i = 0; i < survey->slab_count; i++) {
        const struct hak_slab_seen *slab = &survey->slabs[i];
        if (slab->cls == HAK_CLASSES && slab->blocks[HAK_BLOCK_QUARANTINE] != 0) {
            s->large.large_blocks--;
            s->large.large_bytes -= slab->slots * HAK_SLOT_BYTES;
        }
    }
    for (size_t i = 0; i < survey->superslab_count; i++) {
        const struct hak_superslab_seen *huge = &survey->superslabs[i];
        if (huge->state == HAK_SUPERSLAB_HUGE && huge->quarantine) {
            s->large.huge_blocks--;
            s->large.huge_bytes -= huge->mapped_bytes;
        }
    }
    hak_pool_stats(&s->pool);
    for (enum hak_failure_reason r = 0; r < HAK_FAILURE_COUNT; r++)
        s->failures[r] = hak_load_relaxed(&image->failures.counts[r]);
    s->failures_averted = hak_load_relaxed(&image->failures.averted);
    if (image->has_policy)
        hak_policy_summarize(&image->policy, &s->policy);
    hak_snapshot_sum(s);
}

struct hak_held hak_survey_held(const struct hak_survey *survey)
{
    const struct hak_large_stats *large = &survey->snapshot.large;
    struct hak_held held = {.blocks = large->large_blocks + large->huge_blocks,
                            .bytes = large->large_bytes + large->huge_bytes};
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        uint64_t blocks = survey->classes[cls].blocks[HAK_BLOCK_LIVE];
        held.small_blocks += blocks;
        held.bytes += blocks * hak_class(cls)->size_bytes;
    }
    held.blocks += held.small_blocks;
    return held;
}

void hak_survey_make(struct hak_survey *survey, struct hak_image *image)
{
    *survey = (struct hak_survey){.image = image, .complete = true};
    if (image->started)
        hak_survey_walk(survey);
    hak_survey_estimate_slack(survey);
    hak_survey_count_pages(survey);
    survey_name_threads(survey);
    survey_fill_snapshot(survey);
}

void hak_survey_free(struct hak_survey *survey)
{
    for (size_t i = 0; i < survey->slab_count; i++)
        free(survey->slabs[i].bits);
    free(survey->slabs);
    free(survey->superslabs);
    free(survey->heaps);
}
