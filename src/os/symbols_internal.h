/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: the table of symbols of a loaded library (symbols_linux.c). */
#pragma once

#include "os/os.h"

#include <elf.h>
#include <link.h>

/* What is needed of it; the layout of the hash table is that of DT_GNU_HASH. */
struct hak_os_symbols {
    uintptr_t base;
    ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash;
};

/* False: the library is made in an unknown way. */
bool hak_os_read_symbols(const struct dl_phdr_info *info, struct hak_os_symbols *t);

/* The function of this name that others find in the library; NULL: there is none. */
ElfW(Sym) * hak_os_find_symbol(const struct hak_os_symbols *t, const char *name);

/* Those that the library takes from others come first, from 1 on, and before any that others find
 * in it. */
static inline uint32_t hak_os_symbols_end_of_undefined(const struct hak_os_symbols *t)
{
    return t->hash[1];
}

/* hak_os_expect_hidden_operators was called. */
extern HAK_HIDDEN _Atomic(bool) hak_os_operators_expected;
