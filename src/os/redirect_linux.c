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

static bool redirect_protect(const void *at, int protection)
{
    uintptr_t page = hak_round_down((uintptr_t)at, hak_os_page_bytes());
    size_t bytes = (uintptr_t)at + sizeof(ElfW(Sym)) - page; /* it may lie in two pages */
    return hak_syscall6(SYS_mprotect, (long)page, (long)bytes, protection, 0, 0, 0) == 0;
}

static bool redirect_one(const struct dl_phdr_info *info, const struct hak_os_symbols *t,
                         struct hak_os_redirect *f)
{
    ElfW(Sym) *s = hak_os_find_symbol(t, f->name);
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

_Atomic(bool) hak_os_operators_expected;

void hak_os_expect_hidden_operators(void)
{
    hak_store_relaxed(&hak_os_operators_expected, true);
}
