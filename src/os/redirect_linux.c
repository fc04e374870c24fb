/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: tells a loaded library's table of symbols that a function is somewhere else. See os.h. Never
 * allocates; changes nothing but the table in memory. */
#include "os/symbols_internal.h"
#include "os/syscall_internal.h"

#include <string.h>
#include <sys/mman.h>

struct redirect_search {
    uintptr_t in;
    struct hak_os_redirect *functions;
    unsigned count;
    bool done;
};

/* NOLINTBEGIN(performance-no-int-to-ptr): the loader says where it put the file */

/* The loader of glibc makes these addresses; others leave them as they are in the file. */
static void *redirect_address(uintptr_t base, uintptr_t value)
{
    return (void *)(value < base ? base + value : value);
}

bool hak_os_read_symbols(const struct dl_phdr_info *info, struct hak_os_symbols *t)
{
    *t = (struct hak_os_symbols){.base = info->dlpi_addr};
    const ElfW(Dyn) *d = NULL;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; d != NULL && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            t->symbols = redirect_address(t->base, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            t->names = redirect_address(t->base, d->d_un.d_ptr);
        else if (d->d_tag == DT_GNU_HASH)
            t->hash = redirect_address(t->base, d->d_un.d_ptr);
    }
    return t->symbols != NULL && t->names != NULL && t->hash != NULL;
}

/* NOLINTEND(performance-no-int-to-ptr) */

static bool redirect_has(const struct dl_phdr_info *info, uintptr_t address, int *protection)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || address - info->dlpi_addr - h->p_vaddr >= h->p_memsz)
            continue;
        *protection = (h->p_flags & PF_R ? PROT_READ : 0) | (h->p_flags & PF_W ? PROT_WRITE : 0) |
                      (h->p_flags & PF_X ? PROT_EXEC : 0);
        return true;
    }
    return false;
}

static uint32_t redirect_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != 0; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* The defined function of a name, NULL: there is none. */
static ElfW(Sym) * redirect_find(const struct hak_os_symbols *t, const char *name)
{
    uint32_t buckets = t->hash[0], first = t->hash[1], bloom_words = t->hash[2];
    const uint32_t *bucket = t->hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t hash = redirect_hash(name);
    for (uint32_t i = bucket[hash % buckets]; i >= first; i++) {
        ElfW(Sym) *s = &t->symbols[i];
        if ((chain[i - first] | 1) == (hash | 1) && strcmp(t->names + s->st_name, name) == 0)
            return (s->st_info & 15) == STT_FUNC && s->st_shndx != SHN_UNDEF ? s : NULL;
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

static bool redirect_protect(const void *at, int protection)
{
    uintptr_t page = hak_round_down((uintptr_t)at, hak_os_page_bytes());
    size_t bytes = (uintptr_t)at + sizeof(ElfW(Sym)) - page; /* it may lie in two pages */
    return hak_syscall6(SYS_mprotect, (long)page, (long)bytes, protection, 0, 0, 0) == 0;
}

static bool redirect_one(const struct dl_phdr_info *info, const struct hak_os_symbols *t,
                         struct hak_os_redirect *f)
{
    ElfW(Sym) *s = redirect_find(t, f->name);
    int protection = 0;
    if (s == NULL || t->base + s->st_value == f->to)
        return true;
    if (!redirect_has(info, (uintptr_t)s, &protection) ||
        !redirect_protect(s, protection | PROT_WRITE))
        return false;
    f->from = t->base + s->st_value;
    s->st_value = f->to - t->base; /* modulo 2^64, as the loader adds them */
    redirect_protect(s, protection);
    return true;
}

static int redirect_look(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct redirect_search *search = argument;
    struct hak_os_symbols tables;
    int protection;
    if (info->dlpi_phdr == NULL || !redirect_has(info, search->in, &protection))
        return 0;
    search->done = hak_os_read_symbols(info, &tables);
    for (unsigned i = 0; i < search->count && search->done; i++)
        search->done = redirect_one(info, &tables, &search->functions[i]);
    return 1;
}

bool hak_os_redirect(uintptr_t in, struct hak_os_redirect *functions, unsigned count)
{
    struct redirect_search search = {.in = in, .functions = functions, .count = count};
    dl_iterate_phdr(redirect_look, &search);
    return search.done;
}
