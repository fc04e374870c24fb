/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: other allocators by name and by symbol, see allocators.h. */
#include "allocators.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct allocator {
    const char *file; /* the file name up to the version or variant: ".so.2", "_minimal.so.4",
                         "-secure.so" */
    const char *name;
};

static const struct allocator allocators[] = {
    {"libasan", "AddressSanitizer"},
    {"libclang_rt.asan", "AddressSanitizer"},
    {"libclang_rt.hwasan", "HWAddressSanitizer"},
    {"libclang_rt.lsan", "LeakSanitizer"},
    {"libclang_rt.memprof", "MemProf"},
    {"libclang_rt.msan", "MemorySanitizer"},
    {"libclang_rt.scudo", "scudo"},
    {"libclang_rt.tsan", "ThreadSanitizer"},
    {"libc_malloc_debug", "glibc's malloc debugging"},
    {"libdmalloc", "dmalloc"},
    {"libduma", "DUMA"},
    {"libefence", "Electric Fence"},
    {"libhardened_malloc", "hardened_malloc"},
    {"libheaptrack_preload", "heaptrack"},
    {"libhoard", "Hoard"},
    {"libhwasan", "HWAddressSanitizer"},
    {"libisoalloc", "isoalloc"},
    {"libjemalloc", "jemalloc"},
    {"liblsan", "LeakSanitizer"},
    {"libltalloc", "ltalloc"},
    {"libmemusage", "memusage"},
    {"libmimalloc", "mimalloc"},
    {"libmsan", "MemorySanitizer"},
    {"libnedmalloc", "nedmalloc"},
    {"libptmalloc", "ptmalloc"},
    {"librpmalloc", "rpmalloc"},
    {"librpmallocwrap", "rpmalloc"},
    {"libscudo", "scudo"},
    {"libsnmalloc", "snmalloc"},
    {"libsnmallocshim", "snmalloc"},
    {"libtbbmalloc_proxy", "TBB malloc"},
    {"libtcmalloc", "tcmalloc"},
    {"libtsan", "ThreadSanitizer"},
    {"libumem", "umem"},
};

const char *hak_allocator_name(const char *file_name)
{
    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
        if (hak_starts_with(file_name, allocators[i].file) &&
            !isalpha((unsigned char)file_name[strlen(allocators[i].file)]))
            return allocators[i].name;
    return NULL;
}

const char *hak_allocator_symbol(const struct hak_elf *elf)
{
    static const char *const names[] = {"malloc", "free", "calloc", "realloc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (hak_elf_defines(elf, names[i]))
            return names[i];
    return NULL;
}

static bool preload_is_hakmem(const char *entry, const char *library)
{
    struct stat a, b;
    if (hak_starts_with(hak_basename(entry), "libhakmem"))
        return true;
    return strchr(entry, '/') != NULL && stat(entry, &a) == 0 && stat(library, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

char *hak_preload_value(const char *library, const char *existing, struct hak_strings *kept)
{
    char *value = hak_format("%s", library);
    char *list = hak_format("%s", existing == NULL ? "" : existing);
    char *rest = NULL;
    for (char *entry = strtok_r(list, ": ", &rest); entry != NULL;
         entry = strtok_r(NULL, ": ", &rest)) {
        if (preload_is_hakmem(entry, library) || hak_strings_have(kept, entry))
            continue;
        hak_strings_add(kept, hak_format("%s", entry));
        char *longer = hak_format("%s:%s", value, entry);
        free(value);
        value = longer;
    }
    free(list);
    return value;
}
