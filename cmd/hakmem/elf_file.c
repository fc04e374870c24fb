/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: ELF inspection, see elf_file.h. Every count is capped, and every read goes
 * through elf_read_exactly, which fails beyond the end of the file. Never writes, maps or
 * executes anything. */
#include "elf_file.h"

#include "machine.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef EM_LOONGARCH /* musl 1.2.3 */
#define EM_LOONGARCH 258
#endif

enum {
    SEGMENTS_MAX = 65536 / sizeof(Elf64_Phdr), /* the kernel's own limit */
    DYNAMIC_MAX = 65536,                       /* entries; real files have a few hundred */
    CHAIN_MAX = 65536, /* steps along one hash chain; real ones have a few */
};

static bool elf_read_exactly(const struct hak_elf *elf, uint64_t offset, void *buffer,
                             size_t size_bytes)
{
    if (offset > elf->size_bytes || size_bytes > elf->size_bytes - offset)
        return false;
    return pread(elf->fd, buffer, size_bytes, (off_t)offset) == (ssize_t)size_bytes;
}

static enum hak_elf_status elf_malformed(struct hak_elf *elf, const char *problem)
{
    elf->problem = problem;
    return HAK_ELF_MALFORMED;
}

/* Also refuses directories, devices and pipes, whose reading could block or change something. */
static enum hak_elf_status elf_open_file(struct hak_elf *elf, const char *path)
{
    struct stat info;
    elf->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (elf->fd < 0 || fstat(elf->fd, &info) < 0)
        return HAK_ELF_UNREADABLE;
    if (!S_ISREG(info.st_mode)) {
        errno = S_ISDIR(info.st_mode) ? EISDIR : EACCES;
        return HAK_ELF_UNREADABLE;
    }
    elf->size_bytes = (uint64_t)info.st_size;
    return HAK_ELF_OK;
}

/* The 20 bytes that are the same for every class. */
static enum hak_elf_status elf_read_ident(struct hak_elf *elf)
{
    unsigned char head[EI_NIDENT + 4];
    if (!elf_read_exactly(elf, 0, head, SELFMAG) || memcmp(head, ELFMAG, SELFMAG) != 0)
        return HAK_ELF_NOT_ELF;
    if (!elf_read_exactly(elf, 0, head, sizeof head))
        return elf_malformed(elf, "its header is cut off");
    elf->elf_class = head[EI_CLASS];
    elf->order = head[EI_DATA];
    const bool little = elf->order == ELFDATA2LSB;
    if ((!little && elf->order != ELFDATA2MSB) ||
        (elf->elf_class != ELFCLASS32 && elf->elf_class != ELFCLASS64))
        return elf_malformed(elf, "its header has an impossible class or byte order");
    const unsigned char *field = head + EI_NIDENT;
    elf->type = (uint16_t)(little ? field[0] | field[1] << 8 : field[0] << 8 | field[1]);
    elf->machine = (uint16_t)(little ? field[2] | field[3] << 8 : field[2] << 8 | field[3]);
    return HAK_ELF_OK;
}

static enum hak_elf_status elf_read_interp(struct hak_elf *elf, const Elf64_Phdr *segment)
{
    if (segment->p_filesz < 2 || segment->p_filesz > sizeof elf->interp ||
        !elf_read_exactly(elf, segment->p_offset, elf->interp, segment->p_filesz) ||
        elf->interp[segment->p_filesz - 1] != '\0')
        return elf_malformed(elf, "the name of its loader (PT_INTERP) cannot be read");
    elf->has_interp = true;
    return HAK_ELF_OK;
}

static enum hak_elf_status elf_read_dynamic(struct hak_elf *elf, const Elf64_Phdr *segment)
{
    size_t count = segment->p_filesz / sizeof *elf->dynamic;
    if (elf->dynamic != NULL || count == 0)
        return HAK_ELF_OK;
    if (count > DYNAMIC_MAX)
        return elf_malformed(elf, "its dynamic section is impossibly large");
    elf->dynamic = hak_grow(NULL, count, sizeof *elf->dynamic);
    if (!elf_read_exactly(elf, segment->p_offset, elf->dynamic, count * sizeof *elf->dynamic))
        return elf_malformed(elf, "its dynamic section lies beyond the end of the file");
    while (elf->dynamic_count < count && elf->dynamic[elf->dynamic_count].d_tag != DT_NULL)
        elf->dynamic_count++;
    return HAK_ELF_OK;
}

static enum hak_elf_status elf_read_segment(struct hak_elf *elf, const Elf64_Phdr *segment)
{
    if (segment->p_type == PT_INTERP && !elf->has_interp)
        return elf_read_interp(elf, segment);
    if (segment->p_type == PT_DYNAMIC)
        return elf_read_dynamic(elf, segment);
    if (segment->p_type != PT_LOAD)
        return HAK_ELF_OK;
    uint64_t end;
    if (__builtin_add_overflow(segment->p_offset, segment->p_filesz, &end) || end > elf->size_bytes)
        return elf_malformed(elf, "it is cut off: a part to load lies beyond the end of the file");
    elf->segments[elf->segment_count++] = *segment;
    return HAK_ELF_OK;
}

static enum hak_elf_status elf_read_segments(struct hak_elf *elf)
{
    Elf64_Ehdr header;
    if (!elf_read_exactly(elf, 0, &header, sizeof header))
        return elf_malformed(elf, "its header is cut off");
    if (header.e_phnum == 0)
        return HAK_ELF_OK; /* an object file */
    if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > SEGMENTS_MAX)
        return elf_malformed(elf, "its program headers have an impossible size or number");
    Elf64_Phdr segments[SEGMENTS_MAX];
    if (!elf_read_exactly(elf, header.e_phoff, segments, header.e_phnum * sizeof *segments))
        return elf_malformed(elf, "its program headers lie beyond the end of the file");
    elf->segments = hak_grow(NULL, header.e_phnum, sizeof *elf->segments);
    enum hak_elf_status status = HAK_ELF_OK;
    for (size_t i = 0; i < header.e_phnum && status == HAK_ELF_OK; i++)
        status = elf_read_segment(elf, &segments[i]);
    return status;
}

enum hak_elf_status hak_elf_open(struct hak_elf *elf, const char *path)
{
    *elf = (struct hak_elf){.fd = -1};
    enum hak_elf_status status = elf_open_file(elf, path);
    if (status == HAK_ELF_OK)
        status = elf_read_ident(elf);
    if (status == HAK_ELF_OK && elf->elf_class == ELFCLASS64 && elf->order == ELFDATA2LSB)
        status = elf_read_segments(elf);
    return status;
}

void hak_elf_close(struct hak_elf *elf)
{
    if (elf->fd >= 0)
        (void)close(elf->fd);
    free(elf->segments);
    free(elf->dynamic);
    *elf = (struct hak_elf){.fd = -1};
}

bool hak_elf_same_kind(const struct hak_elf *elf, const struct hak_elf *other)
{
    return elf->elf_class == other->elf_class && elf->order == other->order &&
           elf->machine == other->machine;
}

bool hak_elf_is_native(const struct hak_elf *elf)
{
    return elf->elf_class == ELFCLASS64 && elf->order == ELFDATA2LSB &&
           elf->machine == HAK_MACHINE_ELF;
}

static const char *elf_machine_name(uint16_t machine)
{
    static const struct {
        uint16_t machine;
        const char *name;
    } names[] = {
        {EM_386, "x86"},       {EM_X86_64, "x86-64"},       {EM_ARM, "ARM"},
        {EM_RISCV, "RISC-V"},  {EM_AARCH64, "AArch64"},     {EM_PPC, "PowerPC"},
        {EM_S390, "S/390"},    {EM_PPC64, "PowerPC64"},     {EM_MIPS, "MIPS"},
        {EM_SPARCV9, "SPARC"}, {EM_LOONGARCH, "LoongArch"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].machine == machine)
            return names[i].name;
    return NULL;
}

const char *hak_elf_kind_name(const struct hak_elf *elf)
{
    static char names[2][64];
    static unsigned turn;
    char *name = names[turn++ % 2];
    const char *machine = elf_machine_name(elf->machine);
    const char *bits = elf->elf_class == ELFCLASS64 ? "64-bit" : "32-bit";
    const char *order = elf->order == ELFDATA2MSB ? " big-endian" : "";
    if (machine != NULL)
        (void)snprintf(name, sizeof names[0], "%s%s %s", bits, order, machine);
    else
        (void)snprintf(name, sizeof names[0], "%s%s machine %u", bits, order, elf->machine);
    return name;
}

/* Reads what will lie at this address once the file is loaded. */
static bool elf_read_address(const struct hak_elf *elf, uint64_t address, void *buffer,
                             size_t size_bytes)
{
    for (size_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (address < segment->p_vaddr || address - segment->p_vaddr >= segment->p_filesz)
            continue;
        uint64_t offset = segment->p_offset +
                          (address - segment->p_vaddr); /* below its end, which is in the file */
        return elf_read_exactly(elf, offset, buffer, size_bytes);
    }
    return false;
}

bool hak_elf_dynamic_value(const struct hak_elf *elf, int64_t tag, uint64_t *value)
{
    for (size_t i = 0; i < elf->dynamic_count; i++)
        if (elf->dynamic[i].d_tag == tag) {
            *value = elf->dynamic[i].d_un.d_val;
            return true;
        }
    return false;
}

/* A string of the dynamic string table, which must end within the buffer. Near the end of the file
 * a whole buffer cannot be read: then half of it may still do. */
static bool elf_read_string(const struct hak_elf *elf, uint64_t index, char *text,
                            size_t size_bytes)
{
    uint64_t table, address;
    if (!hak_elf_dynamic_value(elf, DT_STRTAB, &table) ||
        __builtin_add_overflow(table, index, &address))
        return false;
    for (size_t i = 0; i < size_bytes;) {
        size_t piece = size_bytes - i < 64 ? size_bytes - i : 64;
        while (piece > 0 && !elf_read_address(elf, address + i, text + i, piece))
            piece /= 2;
        if (piece == 0)
            return false;
        if (memchr(text + i, '\0', piece) != NULL)
            return true;
        i += piece;
    }
    return false;
}

bool hak_elf_dynamic_string(const struct hak_elf *elf, int64_t tag, size_t index, char *text,
                            size_t size_bytes)
{
    for (size_t i = 0; i < elf->dynamic_count; i++)
        if (elf->dynamic[i].d_tag == tag && index-- == 0)
            return elf_read_string(elf, elf->dynamic[i].d_un.d_val, text, size_bytes);
    return false;
}

static bool elf_symbol_matches(const struct hak_elf *elf, uint64_t table, uint32_t index,
                               const char *name)
{
    Elf64_Sym symbol;
    uint64_t address;
    char text[64];
    if (__builtin_add_overflow(table, (uint64_t)index * sizeof symbol, &address) ||
        !elf_read_address(elf, address, &symbol, sizeof symbol))
        return false;
    const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
    return symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED) &&
           elf_read_string(elf, symbol.st_name, text, sizeof text) && strcmp(text, name) == 0;
}

static uint32_t elf_gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c != '\0'; c++)
        hash = hash * 33 + (unsigned char)*c;
    return hash;
}

/* DT_GNU_HASH: header, bloom filter, buckets, then a word for each symbol; bit 0 ends the chain. */
static bool elf_gnu_lookup(const struct hak_elf *elf, uint64_t table, uint64_t symbols,
                           const char *name)
{
    struct {
        uint32_t buckets, first_symbol, bloom_words, bloom_shift;
    } head;
    uint32_t index, word;
    const uint32_t hash = elf_gnu_hash_of(name);
    if (!elf_read_address(elf, table, &head, sizeof head) || head.buckets == 0)
        return false;
    const uint64_t buckets = table + sizeof head + 8 * (uint64_t)head.bloom_words;
    const uint64_t chains = buckets + 4 * (uint64_t)head.buckets;
    if (!elf_read_address(elf, buckets + 4 * (uint64_t)(hash % head.buckets), &index,
                          sizeof index) ||
        index < head.first_symbol)
        return false;
    for (unsigned step = 0; step < CHAIN_MAX; step++, index++) {
        if (!elf_read_address(elf, chains + 4 * (uint64_t)(index - head.first_symbol), &word,
                              sizeof word))
            return false;
        if ((word | 1) == (hash | 1) && elf_symbol_matches(elf, symbols, index, name))
            return true;
        if (word & 1)
            return false;
    }
    return false;
}

static uint32_t elf_sysv_hash_of(const char *name)
{
    uint32_t hash = 0;
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        const uint32_t high = hash & 0xf0000000;
        hash = (hash ^ high >> 24) & ~high;
    }
    return hash;
}

/* DT_HASH: two counts, the buckets, then for each symbol the next one of its chain. */
static bool elf_sysv_lookup(const struct hak_elf *elf, uint64_t table, uint64_t symbols,
                            const char *name)
{
    struct {
        uint32_t buckets, chains;
    } head;
    uint32_t index;
    if (!elf_read_address(elf, table, &head, sizeof head) || head.buckets == 0)
        return false;
    uint64_t at = table + sizeof head + 4 * (uint64_t)(elf_sysv_hash_of(name) % head.buckets);
    const uint64_t chains = table + sizeof head + 4 * (uint64_t)head.buckets;
    for (unsigned step = 0; step < CHAIN_MAX; step++, at = chains + 4 * (uint64_t)index) {
        if (!elf_read_address(elf, at, &index, sizeof index) || index == STN_UNDEF)
            return false;
        if (elf_symbol_matches(elf, symbols, index, name))
            return true;
    }
    return false;
}

bool hak_elf_defines(const struct hak_elf *elf, const char *name)
{
    uint64_t symbols, table;
    if (!hak_elf_dynamic_value(elf, DT_SYMTAB, &symbols))
        return false;
    if (hak_elf_dynamic_value(elf, DT_GNU_HASH, &table))
        return elf_gnu_lookup(elf, table, symbols, name);
    if (hak_elf_dynamic_value(elf, DT_HASH, &table))
        return elf_sysv_lookup(elf, table, symbols, name);
    return false;
}
