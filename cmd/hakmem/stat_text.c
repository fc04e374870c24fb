/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: the waterfall of `hakmem stat` for people: each line with its share, and a
 * bar that begins where the one above it ends. */
#include "stat.h"

#include "util.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BAR_WIDTH 32

static void text_bar(uint64_t from, uint64_t to, uint64_t whole)
{
    char bar[BAR_WIDTH + 1];
    uint64_t first = whole == 0 ? 0 : from * BAR_WIDTH / whole;
    uint64_t last = whole == 0 ? 0 : (to * BAR_WIDTH + whole - 1) / whole;
    for (uint64_t i = 0; i < BAR_WIDTH; i++)
        bar[i] = i >= first && i < last && to > from ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    (void)printf("  %s", bar);
}

static void text_change(uint64_t now, uint64_t before)
{
    char number[16];
    bool less = now < before;
    if (now == before)
        (void)printf("  %10s", "");
    else
        (void)printf("  %c%9s", less ? '-' : '+',
                     hak_bytes_text(number, less ? before - now : now - before));
}

/* Without small blocks nothing is left to be known of them. */
static enum hak_slack_basis text_slack_basis(const struct hak_survey *survey)
{
    return survey->slack_basis == HAK_SLACK_LARGE && survey->snapshot.cache.used_blocks == 0
               ? HAK_SLACK_EXACT
               : survey->slack_basis;
}

static void text_line(const struct hak_survey *survey, enum hak_line line, uint64_t from,
                      const uint64_t *previous_bytes)
{
    static const char *const signs[] = {">", "~", ""};
    char number[16];
    uint64_t bytes = survey->lines[line].resident_bytes;
    if (bytes == 0 && (line == HAK_LINE_HUGE_CACHE || line == HAK_LINE_IN_TRANSITION) &&
        previous_bytes == NULL)
        return;
    double share = survey->rss_bytes == 0 ? 0 : 100.0 * (double)bytes / (double)survey->rss_bytes;
    (void)hak_bytes_text(number, bytes);
    enum hak_slack_basis basis = text_slack_basis(survey);
    bool is_unknown = line == HAK_LINE_SLACK && basis == HAK_SLACK_LARGE && bytes == 0;
    char *shown = is_unknown
                      ? hak_format("not known")
                      : hak_format("%s%s", line == HAK_LINE_SLACK ? signs[basis] : "", number);
    (void)printf("  %-30s %10s %6.1f%%", hak_line_label(line), shown, share);
    free(shown);
    text_bar(from, from + bytes, survey->rss_bytes);
    if (previous_bytes != NULL)
        text_change(bytes, previous_bytes[line]);
    (void)printf("\n");
}

/* A thread may have a heap for each group of call sites. */
static uint64_t text_threads(const struct hak_survey *survey)
{
    uint64_t threads = 0;
    for (size_t i = 0; i < survey->heap_count; i++) {
        const struct hak_heap *h = &survey->heaps[i].heap;
        threads += hak_load_relaxed(&h->thread) != 0 && h->group == HAK_GROUP_SHORT;
    }
    return threads;
}

static const char *text_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* A small block that is a sample has slots of its own, as large ones have. */
static uint64_t text_small_samples(const struct hak_survey *survey)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < survey->slab_count; i++)
        samples += survey->slabs[i].cls == HAK_CLASSES && survey->slabs[i].small_bytes != 0 &&
                   survey->slabs[i].blocks[HAK_BLOCK_LIVE] != 0;
    return hak_min(samples, survey->snapshot.large.large_blocks);
}

static void text_blocks(const struct hak_survey *survey)
{
    char a[16];
    const struct hak_snapshot *s = &survey->snapshot;
    struct hak_held held = hak_survey_held(survey);
    uint64_t samples = text_small_samples(survey);
    (void)printf("\n%" PRIu64 " live block%s of %s: %" PRIu64 " small in %" PRIu64 " slab%s",
                 held.blocks, text_s(held.blocks), hak_bytes_text(a, held.bytes), held.small_blocks,
                 (uint64_t)s->cache.slabs, text_s(s->cache.slabs));
    if (samples != 0)
        (void)printf(", %" PRIu64 " small sampled", samples);
    (void)printf(", %" PRIu64 " large, %" PRIu64 " huge\n", s->large.large_blocks - samples,
                 (uint64_t)s->large.huge_blocks);
}

/* Slots that nobody has used yet and that are in memory, as a huge page brings them there. */
static uint64_t text_unused_bytes(const struct hak_survey *survey)
{
    uint64_t bytes = 0;
    for (size_t n = 0; n < survey->superslab_count; n++)
        for (unsigned i = 0; i < HAK_SLOTS; i++)
            if (survey->superslabs[n].slot_state[i] == HAK_SLOT_UNUSED)
                bytes += survey->superslabs[n].slot_resident_bytes[i];
    return bytes;
}

static void text_kept(const struct hak_survey *survey)
{
    char a[16];
    const struct hak_snapshot *s = &survey->snapshot;
    uint64_t threads = text_threads(survey), unused = text_unused_bytes(survey);
    (void)printf("%" PRIu64 " thread%s; superslabs kept: %" PRIu64 " and %" PRIu64
                 " empty slot%s, of %s allowed\n",
                 threads, text_s(threads), s->pool.retired_now, s->pool.empty_slots_now,
                 text_s(s->pool.empty_slots_now), hak_bytes_text(a, s->pool.budget_bytes));
    if (unused != 0)
        (void)printf("%s of the line 'empty slots' are slots that were never used\n",
                     hak_bytes_text(a, unused));
}

static void text_slack(const struct hak_survey *survey, bool is_ending)
{
    const struct hak_remote *r = survey->image->remote;
    enum hak_slack_basis basis = text_slack_basis(survey);
    if (basis == HAK_SLACK_ESTIMATED)
        (void)printf("~ estimated from %" PRIu64 " sampled block%s; of large and huge ones exact\n",
                     survey->slack_samples, text_s(survey->slack_samples));
    if (basis != HAK_SLACK_LARGE)
        return;
    (void)printf("%s not known without samples:\n  HAKMEM_PROF=1 in its environment",
                 survey->lines[HAK_LINE_SLACK].resident_bytes == 0
                     ? "What of small blocks was not asked for is"
                     : "> of large and huge blocks; of small ones it is");
    if (!r->is_core && !is_ending)
        (void)printf(", or: hakmem prof start %d", (int)r->pid);
    (void)putchar('\n');
}

static void text_failures(const struct hak_survey *survey, bool is_ending)
{
    const struct hak_snapshot *s = &survey->snapshot;
    uint64_t failed = s->failures[0] + s->failures[1] + s->failures[2];
    if (failed == 0)
        return;
    (void)printf("%" PRIu64 " allocation%s failed; 'hakmem explain' says why", failed,
                 failed == 1 ? " has" : "s have");
    (void)puts(is_ending ? ", of what --json --output FILE writes" : "");
}

static void text_below(const struct hak_survey *survey, bool is_ending)
{
    char a[16];
    uint64_t swap_bytes = survey->image->remote->swap_bytes;
    text_blocks(survey);
    text_kept(survey);
    text_slack(survey, is_ending);
    if (swap_bytes != UINT64_MAX && swap_bytes != 0)
        (void)printf("%s are in swap, and in no line\n", hak_bytes_text(a, swap_bytes));
    text_failures(survey, is_ending);
    if (!survey->complete)
        (void)printf("The process changed while it was read; the figures may be a little off.\n");
}

void hak_stat_end_text(struct hak_stat_peak peak)
{
    char a[16], b[16];
    /* The kernel notes it now and then. */
    uint64_t most = peak.kernel_bytes > peak.seen_bytes ? peak.kernel_bytes : peak.seen_bytes;
    (void)printf("Seen with %s in memory; its peak was %s (%.0f%%)\n",
                 hak_bytes_text(a, peak.seen_bytes), hak_bytes_text(b, most),
                 most == 0 ? 0 : 100.0 * (double)peak.seen_bytes / (double)most);
}

void hak_stat_print_text(const struct hak_survey *survey, const uint64_t *previous_bytes,
                         bool is_ending)
{
    char a[16];
    static const char *const builds[] = {"", " hardened", " checked", " hardened checked"};
    const struct hak_remote *r = survey->image->remote;
    (void)printf("%s, process %d: %s in memory, hakmem %s%s\n\n", r->name, (int)r->pid,
                 hak_bytes_text(a, survey->rss_bytes), hak_image_version(survey->image),
                 builds[survey->image->root.flags % 4]);
    uint64_t at = 0;
    for (enum hak_line line = 0; line < HAK_LINE_COUNT; line++) {
        text_line(survey, line, at, previous_bytes);
        at += survey->lines[line].resident_bytes;
    }
    double off = r->kernel_rss_bytes == UINT64_MAX || r->kernel_rss_bytes == 0
                     ? 0
                     : 100.0 * ((double)survey->rss_bytes - (double)r->kernel_rss_bytes) /
                           (double)r->kernel_rss_bytes;
    (void)printf("  %-30s %10s", "sum", hak_bytes_text(a, survey->rss_bytes));
    if (r->kernel_rss_bytes != UINT64_MAX)
        (void)printf("         the kernel says %s (%+.1f%%)",
                     hak_bytes_text(a, r->kernel_rss_bytes), off);
    (void)printf("\n");
    text_below(survey, is_ending);
}
