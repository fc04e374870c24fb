/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: which pages of another process are in memory, see remote.h. */
#include "remote.h"

#include "util.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES 4096u

#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_FILE (UINT64_C(1) << 61)
#define PAGEMAP_EXCLUSIVE (UINT64_C(1) << 56)

/* A bit for each page, all 0: in a large mapping most stay so, and take no memory. */
static uint64_t *remote_bits(size_t pages)
{
    uint64_t *bits = calloc(pages / 64 + 1, sizeof *bits);
    if (bits == NULL)
        hak_die(HAK_EXIT_FAILED, "out of memory");
    return bits;
}

static void remote_set_bit(uint64_t *bits, size_t page)
{
    bits[page / 64] |= UINT64_C(1) << (page % 64);
}

static uint64_t remote_count_bits(const uint64_t *bits, size_t pages)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= pages / 64; i++)
        count += (uint64_t)__builtin_popcountll(bits[i]);
    return count;
}

/* The kernel's page of zeros stands for pages that were only read: pagemap has them, the resident
 * size has not. Which they are is not told; but they belong to no file and are not exclusive
 * (`unsure`), and how many of a mapping's pages count is known from smaps. Of those that may count
 * as many stay as it takes, spread evenly. */
static void remote_drop_zeros(struct hak_mapping *m, const uint64_t *unsure, size_t pages,
                              uint64_t rss_pages)
{
    uint64_t maybe = remote_count_bits(unsure, pages);
    uint64_t sure = remote_count_bits(m->resident, pages) - maybe;
    uint64_t take = rss_pages > sure ? rss_pages - sure : 0;
    take = take < maybe ? take : maybe;
    m->resident_pages = sure + take;
    uint64_t share = 0;
    for (size_t i = 0; i <= pages / 64; i++)
        for (uint64_t left = unsure[i]; left != 0; left &= left - 1) {
            share += take;
            if (share >= maybe)
                share -= maybe;
            else
                m->resident[i] &= ~(left & (0 - left));
        }
}

/* An entry for each 4 KiB: the kernel has one for each of the system's pages, which may be larger.
 */
static bool remote_read_entries(int pagemap, uint64_t start, uint64_t *entries, size_t pages)
{
    size_t pieces = (size_t)sysconf(_SC_PAGESIZE) / PAGE_BYTES;
    size_t bytes = pages / pieces * sizeof *entries;
    uint64_t at = start / PAGE_BYTES / pieces * sizeof *entries;
    size_t have = 0;
    while (have < bytes) {
        ssize_t n = pread(pagemap, (char *)entries + have, bytes - have, (off_t)(at + have));
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    for (size_t i = pages; i-- > 0;)
        entries[i] = entries[i / pieces];
    return true;
}

/* So many entries are read at once: a mapping may have thousands of millions of pages. */
#define ENTRIES_AT_ONCE 32768u

static void remote_look_at_mapping(struct hak_mapping *m, int pagemap, uint64_t rss_pages)
{
    static uint64_t entries[ENTRIES_AT_ONCE];
    size_t pages = (m->end - m->start) / PAGE_BYTES;
    if (rss_pages == 0 || pages == 0)
        return;
    m->resident = remote_bits(pages);
    uint64_t *unsure = remote_bits(pages);
    for (size_t first = 0; first < pages; first += ENTRIES_AT_ONCE) {
        size_t count = pages - first < ENTRIES_AT_ONCE ? pages - first : ENTRIES_AT_ONCE;
        if (!remote_read_entries(pagemap, m->start + first * PAGE_BYTES, entries, count))
            break; /* it has ended */
        for (size_t i = 0; i < count; i++) {
            if ((entries[i] & PAGEMAP_PRESENT) == 0)
                continue;
            remote_set_bit(m->resident, first + i);
            if ((entries[i] & (PAGEMAP_FILE | PAGEMAP_EXCLUSIVE)) == 0)
                remote_set_bit(unsure, first + i);
        }
    }
    remote_drop_zeros(m, unsure, pages, rss_pages);
    free(unsure);
}

/* The mappings anew, each with its resident size, and then its pages. */
static bool remote_read_smaps(struct hak_remote *r, int pagemap)
{
    FILE *smaps = hak_remote_open_file(r->pid, "smaps");
    if (smaps == NULL)
        return false;
    hak_remote_forget_mappings(r);
    char *line = NULL;
    size_t size = 0;
    bool in_mapping = false;
    while (getline(&line, &size, smaps) > 0) {
        uint64_t kib;
        if ((line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f'))
            in_mapping = hak_remote_add_line(r, line) != NULL;
        else if (in_mapping && sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1)
            r->mappings[r->count - 1].resident_pages = kib * 1024 / PAGE_BYTES;
    }
    free(line);
    (void)fclose(smaps);
    for (size_t i = 0; i < r->count; i++) {
        uint64_t rss_pages = r->mappings[i].resident_pages;
        r->mappings[i].resident_pages = 0;
        remote_look_at_mapping(&r->mappings[i], pagemap, rss_pages);
    }
    return r->count > 0;
}

static void remote_read_rollup(struct hak_remote *r)
{
    FILE *rollup = hak_remote_open_file(r->pid, "smaps_rollup");
    if (rollup == NULL)
        return;
    char line[256];
    uint64_t kib;
    while (fgets(line, sizeof line, rollup) != NULL) {
        if (sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1)
            r->kernel_rss_bytes = kib * 1024;
        else if (sscanf(line, "Swap: %" SCNu64 " kB", &kib) == 1)
            r->swap_bytes = kib * 1024;
    }
    (void)fclose(rollup);
}

static void remote_look_at_core(struct hak_remote *r);

static void remote_sum_pages(struct hak_remote *r)
{
    r->resident_pages = 0;
    for (size_t i = 0; i < r->count; i++)
        r->resident_pages += r->mappings[i].resident_pages;
}

/* The kernel lists page after page while the process runs on, and adds up at another moment. How
 * far the two are apart: in parts of the kernel's figure, << 16. */
static uint64_t remote_distance(const struct hak_remote *r)
{
    uint64_t pages = r->resident_pages * PAGE_BYTES, kernel = r->kernel_rss_bytes;
    if (kernel == UINT64_MAX || kernel == 0)
        return 0;
    return ((pages > kernel ? pages - kernel : kernel - pages) << 16) / kernel;
}

#define NEAR_PARTS ((1u << 16) / 200) /* a two-hundredth */
#define LOOKS 16u

/* Of the first looks one that is near is good enough, then the nearest of those that there were. */
static bool remote_look_often(struct hak_remote *r, int pagemap)
{
    uint64_t wanted = NEAR_PARTS, nearest = UINT64_MAX;
    for (unsigned i = 0; i < LOOKS; i++) {
        if (!remote_read_smaps(r, pagemap))
            return false;
        remote_read_rollup(r);
        remote_sum_pages(r);
        uint64_t distance = remote_distance(r);
        nearest = distance < nearest ? distance : nearest;
        if (distance <= wanted)
            return true;
        if (i >= LOOKS / 4) /* it may never be that near: as near as it was will do */
            wanted = nearest + nearest / 8;
    }
    return true;
}

bool hak_remote_look_at_pages(struct hak_remote *r)
{
    r->now_ns = hak_remote_clock_ns(CLOCK_MONOTONIC);
    r->time_unix_ns = hak_remote_clock_ns(CLOCK_REALTIME);
    if (r->is_core) {
        remote_look_at_core(r);
        remote_sum_pages(r);
        return true;
    }
    char *path = hak_format("/proc/%d/pagemap", (int)r->pid);
    int pagemap = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    bool found = pagemap >= 0 && remote_look_often(r, pagemap);
    if (pagemap >= 0)
        (void)close(pagemap);
    return found;
}

/* A core has no word on pages; those that it has and that are not zero were in memory. */
static void remote_look_at_core(struct hak_remote *r)
{
    static const char zeros[PAGE_BYTES];
    char page[PAGE_BYTES];
    for (size_t i = 0; i < r->count; i++) {
        struct hak_mapping *m = &r->mappings[i];
        size_t pages = (m->end - m->start) / PAGE_BYTES;
        if (m->at_offset == UINT64_MAX)
            continue;
        m->resident = remote_bits(pages);
        for (size_t p = 0; p < pages; p++) {
            off_t at = (off_t)(m->at_offset + p * PAGE_BYTES);
            off_t data = lseek(r->memory, at, SEEK_DATA);
            if (data < 0)
                break;
            if (data >= at + (off_t)PAGE_BYTES) {
                p += (size_t)(data - at) / PAGE_BYTES - 1;
                continue;
            }
            if (pread(r->memory, page, sizeof page, at) != (ssize_t)sizeof page ||
                memcmp(page, zeros, sizeof page) == 0)
                continue;
            remote_set_bit(m->resident, p);
            m->resident_pages++;
        }
    }
}

/* --- counting pages --- */

uint64_t hak_remote_resident_mask(struct hak_remote *r, uint64_t at, unsigned pages)
{
    uint64_t mask = 0;
    const struct hak_mapping *m = NULL;
    for (unsigned i = 0; i < pages; i++, at += PAGE_BYTES) {
        if (m == NULL || at >= m->end)
            m = hak_remote_find(r, at);
        if (m == NULL || m->resident == NULL)
            continue;
        uint64_t page = (at - m->start) / PAGE_BYTES;
        mask |= (m->resident[page / 64] >> (page % 64) & 1) << i;
    }
    return mask;
}

uint64_t hak_remote_take(struct hak_remote *r, uint64_t from, uint64_t to)
{
    uint64_t bytes = 0;
    uint64_t at = from & ~(uint64_t)(PAGE_BYTES - 1);
    while (at < to) {
        size_t behind = hak_remote_behind(r, at);
        if (behind == r->count || r->mappings[behind].start >= to)
            break;
        struct hak_mapping *m = &r->mappings[behind];
        at = at > m->start ? at : m->start;
        for (; at < to && at < m->end; at += PAGE_BYTES) {
            uint64_t page = (at - m->start) / PAGE_BYTES;
            uint64_t bit = UINT64_C(1) << (page % 64);
            if (m->resident == NULL) {
                at = m->end;
                break;
            }
            if ((m->resident[page / 64] & bit) == 0)
                continue;
            m->resident[page / 64] &= ~bit;
            bytes += PAGE_BYTES;
        }
    }
    return bytes;
}
