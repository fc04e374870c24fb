/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: the program as it is loaded: where its unwind tables are, and what can be read. See os.h. */
#include "os/os.h"
#include "os/syscall_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>

/* Of glibc 2.35; where there is none, frames are followed by their pointers only. */
#pragma weak _dl_find_object

/* The header of the file that this code is part of: the library's, or that of a program that it is
 * linked with. A static program has _dl_find_object only if something else needs it. */
extern const ElfW(Ehdr) __ehdr_start HAK_HIDDEN __attribute__((weak));

/* The table of the own file, for its own code. */
static const unsigned char *image_own_table(uintptr_t pc)
{
    const ElfW(Ehdr) *header = &__ehdr_start;
    HAK_OPAQUE(header);
    if (header == NULL)
        return NULL;
    /* NOLINTNEXTLINE(bugprone-casting-through-void): headers follow the header */
    const ElfW(Phdr) *p = (const void *)((const char *)header + header->e_phoff);
    uintptr_t base = header->e_type == ET_DYN ? (uintptr_t)header : 0;
    const unsigned char *table = NULL;
    bool within = false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        within |= p[i].p_type == PT_LOAD && pc - base - p[i].p_vaddr < p[i].p_memsz;
        if (p[i].p_type == PT_GNU_EH_FRAME) /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
            table = (const unsigned char *)(base + p[i].p_vaddr);
    }
    return within ? table : NULL;
}

struct image {
    uintptr_t pc; /* lies in it */
    uintptr_t base;
    const char *name;
    const unsigned char *table;
};

#ifdef DLFO_STRUCT_HAS_EH_DBASE
static bool image_find(struct image *image)
{
    struct dl_find_object found;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): a return address */
    if (_dl_find_object == NULL || _dl_find_object((void *)image->pc, &found) != 0)
        return false;
    image->base = found.dlfo_link_map->l_addr;
    image->name = found.dlfo_link_map->l_name;
    image->table = found.dlfo_eh_frame;
    return true;
}
#elif defined(__GLIBC__)
/* The loader calls malloc while it has the lock of its list. */
static bool image_find(struct image *image)
{
    (void)image;
    return false;
}
#else
/* musl's loader does not: it has a malloc of its own. */
static int image_look(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct image *image = argument;
    bool within = false;
    image->table = NULL;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        within |= p->p_type == PT_LOAD && image->pc - info->dlpi_addr - p->p_vaddr < p->p_memsz;
        if (p->p_type == PT_GNU_EH_FRAME) /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
            image->table = (const unsigned char *)(info->dlpi_addr + p->p_vaddr);
    }
    image->base = info->dlpi_addr;
    image->name = info->dlpi_name;
    return within;
}

static bool image_find(struct image *image)
{
    return dl_iterate_phdr(image_look, image) != 0;
}
#endif

const unsigned char *hak_os_unwind_table(uintptr_t pc)
{
    struct image image = {.pc = pc};
    return image_find(&image) ? image.table : image_own_table(pc);
}

const char *hak_os_image_of(uintptr_t pc, uintptr_t *base)
{
    struct image image = {.pc = pc};
    if (!image_find(&image))
        return NULL;
    *base = image.base;
    return image.name;
}

/* The system compares the word with 0 and does nothing else, as nobody is to be woken or moved. */
bool hak_os_is_readable(uintptr_t address)
{
    long error =
        hak_syscall6(SYS_futex, (long)address, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, (long)address, 0);
    return error == 0 || error == -EAGAIN;
}
