/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: is there a library with C++ operators new and delete of its own, which nobody else sees? For
 * the hardened library. See os.h. Never allocates. */
#include "os/symbols_internal.h"

#include <string.h>

/* What a library takes from others. */
struct operators_seen {
    bool free;    /* memory is from malloc */
    bool cxx;     /* something of another C++ library's */
    bool runtime; /* the operators, or what each C++ library with exceptions needs of the runtime */
};

static bool operators_begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* A function of a class, of a namespace or of neither, not the standard library's: of the mangled
 * names of the Itanium C++ ABI (5.1) those in which a length follows. */
static bool operators_is_cxx(const char *name)
{
    if (!operators_begins(name, "_Z"))
        return false;
    name += 2;
    name += *name == 'N';
    name += *name == 'K';
    return *name >= '0' && *name <= '9';
}

static void operators_note(struct operators_seen *seen, const char *name)
{
    seen->free |= strcmp(name, "free") == 0;
    seen->cxx |= operators_is_cxx(name);
    seen->runtime |= operators_begins(name, "_Znw") || operators_begins(name, "_Zna") ||
                     operators_begins(name, "_Zdl") || operators_begins(name, "_Zda") ||
                     strcmp(name, "__gxx_personality_v0") == 0;
}

static int operators_look(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    struct hak_os_symbols symbols;
    struct operators_seen seen = {0};
    if (info->dlpi_phdr == NULL || !hak_os_read_symbols(info, &symbols))
        return 0;
    for (uint32_t i = 1; i < hak_os_symbols_end_of_undefined(&symbols); i++)
        operators_note(&seen, symbols.names + symbols.symbols[i].st_name);
    *(bool *)found = seen.free && seen.cxx && !seen.runtime;
    return *(bool *)found;
}

bool hak_os_has_hidden_operators(void)
{
    bool found = hak_load_relaxed(&hak_os_operators_expected);
    if (!found)
        dl_iterate_phdr(operators_look, &found);
    return found;
}
