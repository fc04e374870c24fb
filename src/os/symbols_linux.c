/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: the tables of symbols of the loaded libraries, and a function by its name, whoever may see
 * it. See symbols_internal.h and os.h. Never allocates, changes nothing. */
#include "os/symbols_internal.h"

#include <string.h>

/* NOLINTBEGIN(performance-no-int-to-ptr): the loader says where it put the file */

/* The loader of glibc makes these addresses; others leave them as they are in the file. */
static void *symbols_address(uintptr_t base, uintptr_t value)
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
            t->symbols = symbols_address(t->base, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            t->names = symbols_address(t->base, d->d_un.d_ptr);
        else if (d->d_tag == DT_GNU_HASH)
            t->hash = symbols_address(t->base, d->d_un.d_ptr);
    }
    return t->symbols != NULL && t->names != NULL && t->hash != NULL;
}

/* NOLINTEND(performance-no-int-to-ptr) */

static uint32_t symbols_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != 0; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

ElfW(Sym) * hak_os_find_symbol(const struct hak_os_symbols *t, const char *name)
{
    uint32_t buckets = t->hash[0], first = t->hash[1], bloom_words = t->hash[2];
    const uint32_t *bucket = t->hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t hash = symbols_hash(name);
    if (buckets == 0)
        return NULL;
    for (uint32_t i = bucket[hash % buckets]; i >= first; i++) {
        ElfW(Sym) *s = &t->symbols[i];
        if ((chain[i - first] | 1) == (hash | 1) && strcmp(t->names + s->st_name, name) == 0)
            return (s->st_info & 15) == STT_FUNC && s->st_shndx != SHN_UNDEF ? s : NULL;
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

struct symbols_search {
    const char *name, *not_beside;
    uintptr_t found;
};

static int symbols_look(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct symbols_search *search = argument;
    struct hak_os_symbols t;
    if (info->dlpi_phdr == NULL || !hak_os_read_symbols(info, &t))
        return 0;
    const ElfW(Sym) *s = hak_os_find_symbol(&t, search->name);
    if (s == NULL || hak_os_find_symbol(&t, search->not_beside) != NULL)
        return 0;
    search->found = t.base + s->st_value;
    return 1;
}

uintptr_t hak_os_find_function(const char *name, const char *not_beside)
{
    struct symbols_search search = {.name = name, .not_beside = not_beside};
    dl_iterate_phdr(symbols_look, &search);
    return search.found;
}
