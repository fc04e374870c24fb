/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: what is in use, as glibc's functions and our own summary tell it. Numbers are taken heap by
 * heap under its lock: each heap's are consistent, their sum is of nearly one moment. */
#include "api/api_internal.h"
#include "hard/hard.h"

#include "hakmem.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* What waits in quarantine is not the program's any more. */
static void report_without_kept(struct hak_large_stats *large, const struct hak_large_stats *kept)
{
    large->large_bytes -= hak_min(large->large_bytes, kept->large_bytes);
    large->large_blocks -= hak_min(large->large_blocks, kept->large_blocks);
    large->huge_bytes -= hak_min(large->huge_bytes, kept->huge_bytes);
    large->huge_blocks -= hak_min(large->huge_blocks, kept->huge_blocks);
}

void hak_snapshot_take(struct hak_snapshot *out)
{
    memset(out, 0, sizeof *out);
    hak_heap_notice_fork();
    for (enum hak_failure_reason r = 0; r < HAK_FAILURE_COUNT; r++)
        out->failures[r] = hak_failure_count(r);
    out->failures_averted = hak_failures_averted();
    if (!hak_heap_started())
        return;
    hak_cache_usage(&out->cache);
    hak_large_stats(&out->large);
    if (HAK_HARDENED) { /* here, as only the hardened library has that function, and -O0 drops no
                           unused ones */
        struct hak_large_stats kept;
        hak_hard_kept(&kept);
        report_without_kept(&out->large, &kept);
    }
    hak_pool_stats(&out->pool);
    hak_policy_summary(&out->policy);
    hak_space_add_lock_counts(&out->locks[HAK_LOCK_WINDOW]);
    hak_meta_add_lock_counts(&out->locks[HAK_LOCK_RECORDS]);
    hak_snapshot_sum(out);
}

static int report_to_int(size_t value)
{
    return value > INT_MAX ? INT_MAX : (int)value;
}

#ifdef __GLIBC__ /* other libcs have no such structures */
/* There are no fastbins: what a thread has in its bins is free memory like what is in slabs (tests
 * of the C library's interface want smblks to be 0). */
HAK_PUBLIC struct mallinfo2 hakmem_mallinfo2(void)
{
    struct hak_snapshot s;
    hak_snapshot_take(&s);
    size_t kept = s.pool.retired_now * HAK_SUPERSLAB_BYTES + s.large.cached_bytes;
    size_t in_slabs_free = s.cache.slab_bytes - hak_min(s.cache.slab_bytes, s.cache.used_bytes);
    return (struct mallinfo2){
        .arena = s.cache.slab_bytes + s.large.large_bytes + kept,
        .ordblks = s.cache.slabs,
        .hblks = s.large.huge_blocks,
        .hblkhd = s.large.huge_bytes,
        .uordblks = s.cache.used_bytes + s.large.large_bytes,
        .fordblks = in_slabs_free + kept,
        .keepcost = kept,
    };
}

HAK_PUBLIC struct mallinfo hakmem_mallinfo(void)
{
    struct mallinfo2 m = hakmem_mallinfo2();
    return (struct mallinfo){
        .arena = report_to_int(m.arena),
        .ordblks = report_to_int(m.ordblks),
        .hblks = report_to_int(m.hblks),
        .hblkhd = report_to_int(m.hblkhd),
        .uordblks = report_to_int(m.uordblks),
        .fordblks = report_to_int(m.fordblks),
        .keepcost = report_to_int(m.keepcost),
    };
}

HAK_ALSO(struct mallinfo2, mallinfo2, (void), hakmem_mallinfo2)
HAK_ALSO(struct mallinfo, mallinfo, (void), hakmem_mallinfo)
HAK_ALSO(struct mallinfo, __libc_mallinfo, (void), hakmem_mallinfo)
#endif

static void report_number(struct hak_text *text, const char *before, uint64_t value,
                          const char *after)
{
    hak_text_string(text, before);
    hak_text_decimal(text, value);
    hak_text_string(text, after);
}

static bool report_print(FILE *stream, char *buffer, struct hak_text *text)
{
    size_t length = (size_t)(text->at - buffer);
    bool written = fwrite(buffer, 1, length, stream) == length;
    text->at = buffer;
    return written;
}

static bool report_classes_xml(FILE *stream, const struct hak_cache_usage *u)
{
    char buffer[256];
    struct hak_text text;
    hak_text_begin(&text, buffer, sizeof buffer);
    bool ok = true;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        if (u->class_slabs[cls] == 0)
            continue;
        report_number(&text, "  <class size=\"", hak_class(cls)->size_bytes, "\"");
        report_number(&text, " slabs=\"", u->class_slabs[cls], "\"");
        report_number(&text, " used=\"", u->class_used_blocks[cls], "\"/>\n");
        ok = report_print(stream, buffer, &text) && ok;
    }
    return ok;
}

HAK_PUBLIC int hakmem_malloc_info(int options, FILE *stream)
{
    if (options != 0)
        return EINVAL;
    struct hak_snapshot s;
    hak_snapshot_take(&s);
    char buffer[1024];
    struct hak_text text;
    hak_text_begin(&text, buffer, sizeof buffer);
    hak_text_string(&text, "<malloc version=\"1\">\n");
    report_number(&text, " <heaps count=\"", s.cache.heaps, "\">\n");
    bool ok = report_print(stream, buffer, &text) && report_classes_xml(stream, &s.cache);
    hak_text_string(&text, " </heaps>\n");
    report_number(&text, " <large count=\"", s.large.large_blocks, "\"");
    report_number(&text, " size=\"", s.large.large_bytes, "\"/>\n");
    report_number(&text, " <total type=\"mmap\" count=\"", s.large.huge_blocks, "\"");
    report_number(&text, " size=\"", s.large.huge_bytes, "\"/>\n");
    report_number(&text, " <total type=\"rest\" count=\"", s.cache.bin_blocks, "\"");
    report_number(&text, " size=\"",
                  s.cache.slab_bytes - hak_min(s.cache.slab_bytes, s.cache.used_bytes), "\"/>\n");
    report_number(&text, " <live count=\"", s.live_blocks, "\"");
    report_number(&text, " size=\"", s.live_bytes, "\"/>\n");
    report_number(&text, " <system type=\"current\" size=\"", s.held_bytes, "\"/>\n</malloc>\n");
    return report_print(stream, buffer, &text) && ok ? 0 : errno;
}

/* --- our own summary --- */

static void report_line(const char *name, uint64_t value, const char *unit)
{
    char line[128];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_text_string(&text, "hakmem: ");
    hak_text_string(&text, name);
    report_number(&text, " ", value, unit);
    hak_text_string(&text, "\n");
    hak_os_write_stderr(line, (size_t)(text.at - line));
}

struct report_sums {
    uint64_t refills, drains, remote_frees, collected, adopted;
};

static void report_sum_heaps(struct report_sums *sums)
{
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        sums->refills += hak_load_relaxed(&h->stats.refills);
        sums->drains += hak_load_relaxed(&h->stats.drains);
        sums->remote_frees += hak_load_relaxed(&h->stats.remote_frees);
        sums->collected += hak_load_relaxed(&h->stats.collected_blocks);
        sums->adopted += hak_load_relaxed(&h->stats.adopted_slabs);
    }
}

void hak_report_summary(void)
{
    struct hak_snapshot s;
    struct report_sums sums = {0};
    hak_snapshot_take(&s);
    report_sum_heaps(&sums);
    static const char title[] = "hakmem: summary of version ";
    hak_os_write_stderr(title, sizeof title - 1);
    hak_os_write_stderr(hakmem_version(), strlen(hakmem_version()));
    hak_os_write_stderr("\n", 1);
    report_line("live blocks", s.live_blocks, "");
    report_line("live bytes", s.live_bytes, "");
    report_line("held bytes", s.held_bytes, "");
    report_line("in thread caches", s.cache.bin_bytes, " bytes");
    report_line("metadata mapped", hak_space_meta_bytes(), " bytes");
    report_line("heaps in use", s.cache.heaps, "");
    report_line("bin refills", sums.refills, "");
    report_line("bin drains", sums.drains, "");
    report_line("remote frees", sums.remote_frees, "");
    report_line("remote frees collected", sums.collected, "");
    report_line("slabs adopted", sums.adopted, "");
    report_line("superslabs mapped", s.pool.mapped_superslabs, "");
    report_line("superslabs unmapped", s.pool.unmapped_superslabs, "");
    report_line("huge blocks from kept memory", s.large.huge_reused, "");
    report_line("huge blocks from the system", s.large.huge_fresh, "");
}

void hak_report_live(void)
{
    char line[128];
    struct hak_text text;
    struct hak_snapshot s;
    hak_snapshot_take(&s);
    hak_text_begin(&text, line, sizeof line);
    report_number(&text, "hakmem: not freed: ", s.live_bytes, " bytes in ");
    report_number(&text, "", s.live_blocks, " blocks\n");
    hak_os_write_stderr(line, (size_t)(text.at - line));
}

void hak_report_not_written(const char *what, const char *path, int error)
{
    char line[HAK_PROF_PATH_BYTES + 128];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_text_string(&text, "hakmem: ");
    hak_text_string(&text, what);
    hak_text_string(&text, " could not be written to ");
    hak_text_printable(&text, path, strlen(path));
    report_number(&text, " (errno ", (uint64_t)error, ")\n");
    hak_os_write_stderr(line, (size_t)(text.at - line));
}

static void report_share(struct hak_text *text, uint64_t part, uint64_t whole)
{
    uint64_t thousandths = whole == 0 ? 0 : part * 1000 / whole;
    report_number(text, " (", thousandths / 10, ".");
    report_number(text, "", thousandths % 10, "%)");
}

/* What one class acquired from each stage, if anything. */
static void report_stages_of(unsigned label)
{
    char line[256];
    struct hak_text text;
    uint64_t all = 0;
    hak_text_begin(&text, line, sizeof line);
    if (label == HAK_POOL_LABEL_RUN)
        hak_text_string(&text, "hakmem: large blocks:");
    else
        report_number(&text, "hakmem: class of ", hak_class(label)->size_bytes, " bytes:");
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++) {
        uint64_t acquired = hak_pool_acquired(stage, label);
        all += acquired;
        hak_text_string(&text, " ");
        hak_text_string(&text, hak_stage_name(stage));
        report_number(&text, " ", acquired, ",");
    }
    size_t in_use = hak_pool_slots_in_use(label);
    if (label == HAK_POOL_LABEL_RUN) {
        struct hak_large_stats large;
        hak_large_stats(&large);
        in_use -= hak_min(in_use, large.cached_bytes / HAK_SLOT_BYTES);
        report_number(&text, " from caches ", large.cached_taken, ",");
    }
    report_number(&text, " slots in use ", in_use, "\n");
    if (all != 0)
        hak_os_write_stderr(line, (size_t)(text.at - line));
}

void hak_report_stages(void)
{
    struct hak_pool_stats p = {0};
    uint64_t all = 0;
    hak_pool_stats(&p);
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++)
        all += p.acquired[stage];
    for (enum hak_stage stage = 0; stage < HAK_STAGE_COUNT; stage++) {
        char name[64];
        char share[16];
        struct hak_text text;
        hak_text_begin(&text, name, sizeof name);
        hak_text_string(&text, "slots acquired, stage ");
        hak_text_string(&text, hak_stage_name(stage));
        hak_text_begin(&text, share, sizeof share);
        report_share(&text, p.acquired[stage], all);
        report_line(name, p.acquired[stage], share);
    }
    report_line("slots released", p.released, "");
    for (unsigned label = 0; label < HAK_POOL_LABELS; label++)
        report_stages_of(label);
}

void hak_report_locks(void)
{
    struct hak_snapshot s;
    hak_snapshot_take(&s);
    for (enum hak_lock_name lock = 0; lock < HAK_LOCK_COUNT; lock++) {
        char line[128];
        struct hak_text text;
        hak_text_begin(&text, line, sizeof line);
        hak_text_string(&text, "hakmem: lock ");
        hak_text_string(&text, hak_lock_names[lock]);
        report_number(&text, ": acquired ", s.locks[lock].acquired, ", ");
        report_number(&text, "contended ", s.locks[lock].contended, "\n");
        hak_os_write_stderr(line, (size_t)(text.at - line));
    }
}

HAK_PUBLIC int hakmem_last_failures(char *buffer, size_t size)
{
    char none[1];
    struct hak_text text;
    hak_heap_notice_fork();
    hak_text_begin(&text, size != 0 ? buffer : none, hak_max(size, 1));
    hak_failure_write(&text, "hakmem: ", "\n", "");
    return report_to_int(text.length);
}

HAK_PUBLIC void hakmem_malloc_stats(void)
{
    hak_report_summary();
    hak_report_stages();
}

HAK_ALSO(int, malloc_info, (int, FILE *), hakmem_malloc_info)
HAK_ALSO(void, malloc_stats, (void), hakmem_malloc_stats)
