/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: core files, of the kernel or of gcore, see remote.h. The segments have the
 * bytes; a note says which files were mapped where, and those are read where the core left text and
 * constants out. Every number of the file is checked against its length: one that is cut off is
 * refused, as records and blocks would be missing without a word. */
#include "remote.h"

#include "util.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <time.h>
#include <unistd.h>

#define CORE_NOTES_MOST_BYTES ((size_t)64 << 20)
/* Nothing is mapped above; who counts pages may go a few beyond a mapping's end. */
#define CORE_MOST_ADDRESS (UINT64_MAX - (1u << 20))

struct core {
    struct hak_remote *remote;
    uint64_t size_bytes;
    Elf64_Phdr *segments;
    unsigned count;
};

static bool core_read(const struct core *c, void *out, size_t bytes, uint64_t offset)
{
    return offset <= c->size_bytes && bytes <= c->size_bytes - offset &&
           pread(c->remote->memory, out, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* More than 65534 segments are counted in the first section header. */
static bool core_read_segments(struct core *c)
{
    Elf64_Ehdr header;
    Elf64_Shdr first;
    if (!core_read(c, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_CORE ||
        header.e_phentsize != sizeof *c->segments)
        return false;
    c->count = header.e_phnum;
    if (header.e_phnum == PN_XNUM) {
        if (!core_read(c, &first, sizeof first, header.e_shoff))
            return false;
        c->count = first.sh_info;
    }
    if (c->count > c->size_bytes / sizeof *c->segments)
        return false;
    c->segments = hak_grow(NULL, c->count + 1, sizeof *c->segments);
    return core_read(c, c->segments, c->count * sizeof *c->segments, header.e_phoff);
}

/* Where the last segment ends. */
static uint64_t core_whole_bytes(const struct core *c)
{
    uint64_t whole = 0;
    for (unsigned i = 0; i < c->count; i++) {
        const Elf64_Phdr *s = &c->segments[i];
        uint64_t end =
            s->p_filesz > UINT64_MAX - s->p_offset ? UINT64_MAX : s->p_offset + s->p_filesz;
        whole = end > whole && s->p_filesz != 0 ? end : whole;
    }
    return whole;
}

static int core_by_address(const void *a, const void *b)
{
    const Elf64_Phdr *x = a, *y = b;
    return x->p_vaddr < y->p_vaddr ? -1 : x->p_vaddr > y->p_vaddr;
}

static void core_add_mappings(struct core *c)
{
    qsort(c->segments, c->count, sizeof *c->segments, core_by_address);
    uint64_t end = 0;
    for (unsigned i = 0; i < c->count; i++) {
        const Elf64_Phdr *s = &c->segments[i];
        if (s->p_type != PT_LOAD || s->p_memsz == 0 || s->p_vaddr < end ||
            s->p_vaddr > CORE_MOST_ADDRESS || s->p_memsz > CORE_MOST_ADDRESS - s->p_vaddr)
            continue;
        end = s->p_vaddr + s->p_memsz;
        struct hak_mapping *m = hak_remote_add(c->remote, s->p_vaddr, end, "");
        m->writable = (s->p_flags & PF_W) != 0;
        m->at_offset = s->p_filesz == s->p_memsz ? s->p_offset : UINT64_MAX;
    }
}

static void core_add_file(struct hak_remote *r, const uint64_t range[3], uint64_t unit,
                          const char *name)
{
    if (r->file_count % 64 == 0)
        r->files = hak_grow(r->files, r->file_count + 64, sizeof *r->files);
    r->files[r->file_count++] = (struct hak_mapping){.start = range[0],
                                                     .end = range[1],
                                                     .file_offset = range[2] * unit,
                                                     .name = hak_format("%s", name)};
    struct hak_mapping *m = hak_remote_find(r, range[0]);
    if (m != NULL && m->name[0] == '\0') {
        free(m->name);
        m->name = hak_format("%s", name);
    }
}

/* count, page size, then start, end and page of the file of each; then their names. */
static void core_understand_files(struct core *c, const char *note, size_t bytes)
{
    uint64_t head[2], range[3];
    if (bytes < sizeof head)
        return;
    memcpy(head, note, sizeof head);
    if (head[0] > (bytes - sizeof head) / sizeof range)
        return;
    const char *name = note + sizeof head + head[0] * sizeof range;
    const char *end = note + bytes;
    for (uint64_t i = 0; i < head[0] && name < end && memchr(name, '\0', (size_t)(end - name));
         i++) {
        memcpy(range, note + sizeof head + i * sizeof range, sizeof range);
        core_add_file(c->remote, range, head[1], name);
        name += strlen(name) + 1;
    }
}

static void core_understand_note(struct core *c, uint32_t type, const char *data, size_t bytes)
{
    struct elf_prpsinfo process;
    if (type == NT_FILE) {
        core_understand_files(c, data, bytes);
    } else if (type == NT_PRPSINFO && bytes >= sizeof process) {
        memcpy(&process, data, sizeof process);
        free(c->remote->name);
        c->remote->name =
            hak_printable(hak_format("%.*s", (int)sizeof process.pr_fname, process.pr_fname));
        c->remote->pid = process.pr_pid;
    }
}

static void core_read_notes(struct core *c, const Elf64_Phdr *s)
{
    if (s->p_filesz > CORE_NOTES_MOST_BYTES)
        return;
    char *notes = hak_grow(NULL, s->p_filesz + 1, 1);
    size_t left = core_read(c, notes, s->p_filesz, s->p_offset) ? s->p_filesz : 0;
    const char *at = notes;
    Elf64_Nhdr header;
    while (left >= sizeof header) {
        memcpy(&header, at, sizeof header);
        size_t name = ((size_t)header.n_namesz + 3) & ~(size_t)3;
        size_t data = ((size_t)header.n_descsz + 3) & ~(size_t)3;
        if (name > left - sizeof header || data > left - sizeof header - name)
            break;
        core_understand_note(c, header.n_type, at + sizeof header + name, header.n_descsz);
        at += sizeof header + name + data;
        left -= sizeof header + name + data;
    }
    free(notes);
}

/* --- whether a file is still the one that was mapped: by the build's number, which is in the first
 * page of programs and libraries, and so in a core file that has those pages --- */

#define CORE_PAGE_BYTES 4096u

/* Among notes; NULL: it is not there. */
static const char *core_build_id_of_notes(const char *next, const char *end, size_t *bytes)
{
    Elf64_Nhdr note;
    while ((size_t)(end - next) >= sizeof note) {
        memcpy(&note, next, sizeof note);
        size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        size_t data = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        next += sizeof note;
        if (name > (size_t)(end - next) || data > (size_t)(end - next) - name)
            break;
        next += name;
        *bytes = note.n_descsz;
        if (note.n_type == NT_GNU_BUILD_ID && name == 4 && memcmp(next - 4, "GNU", 4) == 0)
            return next;
        next += data;
    }
    return NULL;
}

/* Of the file of which this is the first page; NULL: none is there. */
static const char *core_build_id(const char *page, size_t *bytes)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    const char *found = NULL;
    memcpy(&header, page, sizeof header);
    uint64_t room = header.e_phoff < CORE_PAGE_BYTES ? CORE_PAGE_BYTES - header.e_phoff : 0;
    for (size_t i = 0; i < header.e_phnum && (i + 1) * sizeof segment <= room && found == NULL;
         i++) {
        memcpy(&segment, page + header.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_NOTE && segment.p_offset <= CORE_PAGE_BYTES &&
            segment.p_filesz <= CORE_PAGE_BYTES - segment.p_offset)
            found = core_build_id_of_notes(page + segment.p_offset,
                                           page + segment.p_offset + segment.p_filesz, bytes);
    }
    return found;
}

/* Whether the first page at an address in the core is of another build than the file's. */
static bool core_is_replaced(const struct core *c, const struct hak_mapping *m)
{
    char was[CORE_PAGE_BYTES], is[CORE_PAGE_BYTES];
    size_t was_bytes, is_bytes;
    const Elf64_Phdr *s = c->segments, *end = s + c->count;
    while (s < end && (s->p_type != PT_LOAD || s->p_vaddr != m->start))
        s++;
    if (s == end || s->p_filesz < sizeof was || !core_read(c, was, sizeof was, s->p_offset) ||
        memcmp(was, ELFMAG, SELFMAG) != 0)
        return false;
    int file = open(m->name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool read = file >= 0 && pread(file, is, sizeof is, 0) == (ssize_t)sizeof is;
    if (file >= 0)
        (void)close(file);
    const char *a = core_build_id(was, &was_bytes);
    const char *b = read ? core_build_id(is, &is_bytes) : NULL;
    return a != NULL && b != NULL && (was_bytes != is_bytes || memcmp(a, b, is_bytes) != 0);
}

/* Named as the kernel names what is at its path no more, so that nobody reads the other file. */
static void core_mark_replaced(struct core *c)
{
    struct hak_remote *r = c->remote;
    for (size_t i = 0; i < r->file_count; i++) {
        if (r->files[i].file_offset != 0 || !core_is_replaced(c, &r->files[i]))
            continue;
        char *name = r->files[i].name;
        for (size_t j = r->file_count; j-- > i;)
            if (strcmp(r->files[j].name, name) == 0) {
                char *marked = hak_format("%s (deleted)", name);
                free(j == i ? NULL : r->files[j].name);
                r->files[j].name = marked;
            }
        free(name);
    }
}

bool hak_remote_open_core(struct hak_remote *r, const char *path, struct hak_obstacle *obstacle)
{
    struct core c = {.remote = r};
    *r = (struct hak_remote){.is_core = true,
                             .kernel_rss_bytes = UINT64_MAX,
                             .swap_bytes = UINT64_MAX,
                             .uptime_ns = UINT64_MAX};
    r->path = hak_format("%s", path);
    r->name = hak_format("%s", "");
    r->memory = hak_open_regular(path, &obstacle->problem);
    if (r->memory < 0) {
        obstacle->hint = "give the path of a core file, or the number of a process";
        return false;
    }
    c.size_bytes = (uint64_t)lseek(r->memory, 0, SEEK_END);
    bool is_core = core_read_segments(&c);
    if (is_core) {
        core_add_mappings(&c);
        for (unsigned i = 0; i < c.count; i++)
            if (c.segments[i].p_type == PT_NOTE)
                core_read_notes(&c, &c.segments[i]);
        core_mark_replaced(&c);
    }
    uint64_t whole_bytes = is_core ? core_whole_bytes(&c) : 0;
    free(c.segments);
    if (whole_bytes > c.size_bytes) {
        obstacle->problem =
            hak_format("core file %s is cut off: it has %" PRIu64 " of %" PRIu64 " bytes", path,
                       c.size_bytes, whole_bytes);
        obstacle->hint = "make a whole one: ulimit -c unlimited, room on the disk, or gcore PID";
        return false;
    }
    if (!is_core || r->count == 0) {
        obstacle->problem = hak_format("%s is not a core file, or it is cut off", path);
        obstacle->hint = "make one with: gcore PID";
        return false;
    }
    return true;
}

bool hak_remote_open_either(struct hak_remote *r, pid_t pid, const char *core,
                            struct hak_obstacle *obstacle)
{
    return pid != 0 ? hak_remote_open(r, pid, obstacle) : hak_remote_open_core(r, core, obstacle);
}
