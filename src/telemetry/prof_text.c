/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the heap profile as text: the file that tools read, and what was never freed, for
 * people. Written through one small buffer; never allocates. See prof.h. */
#include "telemetry/prof.h"

#include <errno.h>
#include <string.h>

#define LEAK_SITES 20u
#define LEAK_FRAMES 16u
#define LEAK_NAME_BYTES 200u /* of a library's path: a line has room for it */

struct prof_file {
    int file;  /* -1: stderr */
    int error; /* the first */
    struct hak_text text;
    char buffer[1024];
};

static void file_write(struct prof_file *f, size_t bytes)
{
    int error = hak_os_write(f->file, f->buffer, bytes);
    if (f->error == 0)
        f->error = error;
}

static void file_flush(struct prof_file *f)
{
    size_t bytes = (size_t)(f->text.at - f->buffer);
    if (f->file < 0)
        hak_os_write_stderr(f->buffer, bytes);
    else
        file_write(f, bytes);
    hak_text_begin(&f->text, f->buffer, sizeof f->buffer);
}

static void file_begin(struct prof_file *f, int file)
{
    f->file = file;
    f->error = 0;
    hak_text_begin(&f->text, f->buffer, sizeof f->buffer);
}

/* Room for one item of a line. */
static struct hak_text *file_text(struct prof_file *f)
{
    if (f->text.last - f->text.at < 256)
        file_flush(f);
    return &f->text;
}

static void file_number(struct prof_file *f, const char *before, uint64_t value)
{
    hak_text_string(file_text(f), before);
    hak_text_decimal(file_text(f), value);
}

/* A number of objects with three digits behind the point. */
static void file_objects(struct prof_file *f, const char *before, uint64_t objects)
{
    uint64_t part = objects & ((UINT64_C(1) << HAK_PROF_OBJECT_SHIFT) - 1);
    uint64_t thousandths = part * 1000 >> HAK_PROF_OBJECT_SHIFT;
    file_number(f, before, objects >> HAK_PROF_OBJECT_SHIFT);
    hak_text_string(file_text(f), thousandths < 10 ? ".00" : thousandths < 100 ? ".0" : ".");
    hak_text_decimal(file_text(f), thousandths);
}

/* --- sites --- */

struct prof_figures {
    uint64_t live_objects, live_bytes, live_samples;
    uint64_t allocated_objects, allocated_bytes, allocated_samples;
};

/* Freed first: a block that comes and goes in between is then live for a moment, and not fewer than
 * none. */
static struct prof_figures prof_read(const struct hak_prof_site *s)
{
    struct prof_figures f = {
        .live_objects = hak_load_relaxed(&s->freed.objects),
        .live_bytes = hak_load_relaxed(&s->freed.bytes),
        .live_samples = hak_load_relaxed(&s->freed.samples),
        .allocated_objects = hak_load_relaxed(&s->allocated.objects),
        .allocated_bytes = hak_load_relaxed(&s->allocated.bytes),
        .allocated_samples = hak_load_relaxed(&s->allocated.samples),
    };
    f.live_objects = f.allocated_objects - hak_min(f.live_objects, f.allocated_objects);
    f.live_bytes = f.allocated_bytes - hak_min(f.live_bytes, f.allocated_bytes);
    f.live_samples = f.allocated_samples - hak_min(f.live_samples, f.allocated_samples);
    return f;
}

/* How many sites there may be, and one of them; NULL: nothing was sampled there. */
static uint32_t prof_sites(void)
{
    return (uint32_t)hak_min(hak_load_relaxed(&hak_prof.sites), HAK_PROF_SITES);
}

static const struct hak_prof_site *prof_site(uint32_t number)
{
    const struct hak_prof_site *s = &hak_prof.site[number];
    /* ORDER: [prof-samples] */
    return hak_load_acquire(&s->allocated.samples) != 0 ? s : NULL;
}

static void file_site(struct prof_file *f, const struct hak_prof_site *s)
{
    struct prof_figures g = prof_read(s);
    file_objects(f, "site ", g.live_objects);
    file_number(f, " ", g.live_bytes);
    file_number(f, " ", g.live_samples);
    file_objects(f, " ", g.allocated_objects);
    file_number(f, " ", g.allocated_bytes);
    file_number(f, " ", g.allocated_samples);
    for (uint32_t i = 0; i < s->depth; i++) {
        hak_text_string(file_text(f), " ");
        hak_text_hex(file_text(f), hak_prof.stacks[s->stack + i]);
    }
    hak_text_string(file_text(f), "\n");
}

int hak_prof_write_sites(int file, uint64_t pid)
{
    struct prof_file f;
    file_begin(&f, file);
    hak_text_string(file_text(&f), "hakmem heap profile 1\n");
    file_number(&f, "pid ", pid);
    file_number(&f, "\nperiod_bytes ", hak_prof_period());
    file_number(&f, "\nsampling ", hak_prof_is_on());
    file_number(&f, "\ntime_ns ", hak_os_now_ns());
    hak_text_string(file_text(&f), "\ncolumns live_objects live_bytes live_samples "
                                   "allocated_objects allocated_bytes allocated_samples stack\n");
    for (uint32_t i = 0; i < prof_sites(); i++) {
        const struct hak_prof_site *s = prof_site(i);
        if (s != NULL)
            file_site(&f, s);
    }
    file_flush(&f);
    return f.error;
}

/* What is mapped where, as the system says it; nothing without /proc. */
static void file_mappings(struct prof_file *f)
{
    hak_text_string(file_text(f), "mappings\n");
    file_flush(f);
    int maps = hak_os_open("/proc/self/maps", false);
    for (size_t got; maps >= 0 && (got = hak_os_read(maps, f->buffer, sizeof f->buffer)) != 0;)
        file_write(f, got);
    if (maps >= 0)
        hak_os_close(maps);
}

static char prof_path[HAK_PROF_PATH_BYTES] HAK_RARELY_USED; /* empty: the default */

void hak_prof_set_path(const char *pattern)
{
    struct hak_text text;
    hak_text_begin(&text, prof_path, sizeof prof_path);
    hak_text_string(&text, pattern);
}

bool hak_prof_expand(const char *pattern, char *path)
{
    static _Atomic(uint32_t) dumps;
    uint32_t number = hak_add_relaxed(&dumps, 1u) + 1;
    struct hak_text text;
    if (pattern == NULL)
        pattern = prof_path[0] != '\0' ? prof_path : "hakmem-%p.%n.prof";
    hak_text_begin(&text, path, HAK_PROF_PATH_BYTES);
    for (const char *c = pattern; *c != '\0'; c++) {
        if (c[0] == '%' && (c[1] == 'p' || c[1] == 'n'))
            hak_text_decimal(&text, *++c == 'p' ? hak_os_process_id() : number);
        else
            hak_text_string(&text, (const char[]){*c, '\0'});
    }
    return text.length < HAK_PROF_PATH_BYTES;
}

int hak_prof_write(const char *path)
{
    struct prof_file f;
    char expanded[HAK_PROF_PATH_BYTES];
    if (hak_prof_period() == 0)
        return ENODATA;
    if (!hak_prof_expand(path, expanded))
        return ENAMETOOLONG;
    int file = hak_os_open(expanded, true);
    if (file < 0)
        return -file;
    file_begin(&f, file);
    f.error = hak_prof_write_sites(file, hak_os_process_id());
    file_mappings(&f);
    hak_text_string(file_text(&f), "end\n");
    file_flush(&f);
    hak_os_close(file);
    return f.error;
}

/* --- leaks --- */

/* "    libx.so.1+0x1234": what addr2line wants. */
static void file_frame(struct prof_file *f, uintptr_t pc)
{
    uintptr_t base = 0;
    const char *name = hak_os_image_of(pc, &base);
    hak_text_string(file_text(f), "hakmem:     ");
    if (name != NULL)
        hak_text_printable(file_text(f), name[0] != '\0' ? name : "program", LEAK_NAME_BYTES);
    hak_text_string(file_text(f), name != NULL ? "+" : "");
    hak_text_hex(file_text(f), pc - base);
    hak_text_string(file_text(f), "\n");
}

/* The first frame outside of the library; where it is part of the program, the first of all. */
static uint32_t leak_first_frame(const struct hak_prof_site *s)
{
    uintptr_t own = 0;
    uintptr_t base = 0;
    const char *name = hak_os_image_of(hak_os_registers().pc, &own);
    uint32_t i = 0;
    if (name == NULL || name[0] == '\0')
        return 0;
    while (i < s->depth && hak_os_image_of(hak_prof.stacks[s->stack + i], &base) != NULL &&
           base == own)
        i++;
    return i;
}

static void file_leak(struct prof_file *f, const struct hak_prof_site *s)
{
    struct prof_figures g = prof_read(s);
    uint32_t i = leak_first_frame(s);
    file_number(f, "hakmem:   ", g.live_bytes);
    file_objects(f, " bytes in ", g.live_objects);
    file_number(f, " blocks (samples: ", g.live_samples);
    hak_text_string(file_text(f), ") from\n");
    for (uint32_t end = i + LEAK_FRAMES; i < s->depth && i < end; i++)
        file_frame(f, hak_prof.stacks[s->stack + i]);
}

/* The site with the most live bytes below `below`, which is (bytes, number) of the one before. */
static uint32_t leak_next(uint64_t *bytes, uint32_t number)
{
    uint32_t best = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < prof_sites(); i++) {
        const struct hak_prof_site *s = prof_site(i);
        uint64_t live = s == NULL ? 0 : prof_read(s).live_bytes;
        bool after = live < *bytes || (live == *bytes && i > number);
        if (live > most && after) {
            most = live;
            best = i;
        }
    }
    *bytes = most;
    return best;
}

void hak_prof_report_leaks(void)
{
    struct prof_file f;
    struct prof_figures sum = {0};
    uint64_t sites = 0;
    if (hak_prof_period() == 0)
        return;
    for (uint32_t i = 0; i < prof_sites(); i++) {
        const struct hak_prof_site *s = prof_site(i);
        struct prof_figures g = s == NULL ? (struct prof_figures){0} : prof_read(s);
        sum.live_bytes += g.live_bytes;
        sum.live_objects += g.live_objects;
        sites += g.live_samples != 0;
    }
    file_begin(&f, -1);
    file_number(&f, "hakmem: estimated from samples: ", sum.live_bytes);
    file_objects(&f, " bytes in ", sum.live_objects);
    file_number(&f, " blocks from ", sites);
    file_number(&f, " call stacks; sampled every ", hak_prof_period());
    hak_text_string(file_text(&f), " bytes\n");
    uint64_t bytes = UINT64_MAX;
    uint32_t number = 0;
    for (unsigned i = 0; i < LEAK_SITES && (number = leak_next(&bytes, number)) != 0; i++)
        file_leak(&f, prof_site(number));
    file_flush(&f);
}
