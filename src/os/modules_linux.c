/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: which loaded file an address belongs to, and the file's build id: from the program headers
 * that the loader keeps. Never allocates, opens no file. See os.h. */
#include "base/text.h"
#include "os/os.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

struct modules_search {
    uintptr_t address;
    struct hak_os_module *out;
};

static bool modules_has(const struct dl_phdr_info *info, uintptr_t address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && address - info->dlpi_addr - h->p_vaddr < h->p_memsz)
            return true;
    }
    return false;
}

#define NOTE_ALIGN 4u

/* Walks the notes of a segment; they are in memory. */
static bool modules_read_notes(const char *at, size_t bytes, struct hak_os_module *out)
{
    ElfW(Nhdr) note;
    while (bytes >= sizeof note) {
        memcpy(&note, at, sizeof note);
        size_t name = hak_round_up(note.n_namesz, NOTE_ALIGN);
        size_t content = hak_round_up(note.n_descsz, NOTE_ALIGN);
        if (name > bytes - sizeof note || content > bytes - sizeof note - name)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
            hak_bytes_are_equal(at + sizeof note, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU)) {
            out->build_id_bytes = (uint8_t)hak_min(note.n_descsz, HAK_BUILD_ID_MOST);
            memcpy(out->build_id, at + sizeof note + name, out->build_id_bytes);
            return true;
        }
        at += sizeof note + name + content;
        bytes -= sizeof note + name + content;
    }
    return false;
}

static int modules_look(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    const struct modules_search *search = argument;
    if (info->dlpi_phdr == NULL || !modules_has(info, search->address))
        return 0;
    *search->out = (struct hak_os_module){.base = info->dlpi_addr};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): the loader says where it put the file */
        const char *notes = (const char *)(info->dlpi_addr + h->p_vaddr);
        if (h->p_type == PT_NOTE && modules_read_notes(notes, h->p_memsz, search->out))
            break;
    }
    return 1;
}

bool hak_os_find_module(uintptr_t address, struct hak_os_module *out)
{
    struct modules_search search = {address, out};
    return dl_iterate_phdr(modules_look, &search) == 1;
}

static int modules_add_thread_data(struct dl_phdr_info *info, size_t size, void *sum)
{
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
    return 0;
}

size_t hak_os_thread_data_bytes(void)
{
    size_t sum = 0;
    dl_iterate_phdr(modules_add_thread_data, &sum);
    return sum;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* Of glibc 2.35. */
#pragma weak _dl_find_object

/* What a file's headers say, which its first part in memory begins with as a rule. Tools that
 * change files put them behind everything else: then nobody but the loader knows where they are. */
bool hak_os_find_running_module(uintptr_t address, struct hak_os_module *out)
{
    struct dl_find_object found;
    if (_dl_find_object == NULL)
        return hak_os_find_module(address, out);
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): code that is running */
    if (_dl_find_object((void *)address, &found) != 0)
        return false;
    const ElfW(Ehdr) *header = found.dlfo_map_start;
    if (!hak_bytes_are_equal(header->e_ident, ELFMAG, SELFMAG) || header->e_phoff != sizeof *header)
        return hak_os_find_module(address, out);
    struct dl_phdr_info info = {
        .dlpi_addr = found.dlfo_link_map->l_addr,
        .dlpi_phdr = (const void *)((const char *)header + header->e_phoff),
        .dlpi_phnum = header->e_phnum,
    };
    struct modules_search search = {address, out};
    return modules_look(&info, sizeof info, &search) == 1;
}
#else
bool hak_os_find_running_module(uintptr_t address, struct hak_os_module *out)
{
    return hak_os_find_module(address, out);
}
#endif
