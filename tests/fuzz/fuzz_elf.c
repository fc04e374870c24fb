/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: the hakmem command's reading of ELF files, of the program as of libraries: headers,
 * dynamic section, strings, both kinds of hash tables, and the walk along DT_NEEDED. The input is
 * the file. Whatever it is, the command answers or refuses, within the file and its buffers. */
#include "command.h"

#include "allocators.h"
#include "elf_file.h"
#include "loader.h"

static void ask_strings(const struct hak_elf *elf)
{
    static const int64_t tags[] = {DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH};
    char text[256];
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        for (size_t n = 0; n < 8; n++) {
            uint64_t value;
            memset(text, '#', sizeof text);
            if (!hak_elf_dynamic_string(elf, tags[i], n, text, sizeof text))
                break;
            fuzz_check(memchr(text, '\0', sizeof text) != NULL, "a string without an end");
            fuzz_check(hak_elf_dynamic_value(elf, tags[i], &value), "a string without its entry");
        }
}

static void ask_everything(const struct hak_elf *elf)
{
    fuzz_check(hak_elf_same_kind(elf, elf), "the file is of another kind than itself");
    fuzz_check(strlen(hak_elf_kind_name(elf)) > 5, "a kind without a name");
    fuzz_check(!elf->has_interp || memchr(elf->interp, '\0', sizeof elf->interp) != NULL,
               "a loader without an end");
    const char *symbol = hak_allocator_symbol(elf);
    fuzz_check(symbol == NULL || hak_elf_defines(elf, symbol), "defines %s, or not", symbol);
    (void)hak_elf_defines(elf, "hakmem_version");
    ask_strings(elf);
}

static void check_elf(const char *path, const uint8_t *data, size_t size)
{
    struct hak_elf elf;
    enum hak_elf_status status = hak_elf_open(&elf, path);
    bool is_elf = size >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0;
    fuzz_check(status != HAK_ELF_UNREADABLE, "the file cannot be read");
    fuzz_check((status == HAK_ELF_NOT_ELF) == !is_elf, "takes it for an ELF file, or not");
    fuzz_check((status == HAK_ELF_MALFORMED) == (elf.problem != NULL), "no reason");
    if (status == HAK_ELF_OK)
        ask_everything(&elf);
    hak_elf_close(&elf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hak_strings none = {0};
    struct hak_loaded loaded;
    const char *path = command_file(data, size);
    if (setjmp(command_refused) != 0)
        return 0;
    check_elf(path, data, size);
    hak_loader_walk(&loaded, path, &none);
    hak_loaded_free(&loaded);
    return 0;
}
