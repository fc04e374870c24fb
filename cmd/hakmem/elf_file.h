/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: what an ELF file says about itself. Reads with bounds checks and never maps
 * the file, so that neither a malformed file nor one that shrinks meanwhile can harm. Of files of
 * another class or byte order it tells class, order, type and machine only. */
#pragma once

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hak_elf_status {
    HAK_ELF_OK,
    HAK_ELF_NOT_ELF,    /* does not begin with the ELF magic */
    HAK_ELF_MALFORMED,  /* begins so, but `problem` makes it unusable */
    HAK_ELF_UNREADABLE, /* errno tells why */
};

struct hak_elf {
    int fd;              /* -1: closed */
    uint64_t size_bytes; /* of the file */
    const char *problem; /* why it is malformed */

    uint8_t elf_class; /* ELFCLASS32 or ELFCLASS64 */
    uint8_t order;     /* ELFDATA2LSB or ELFDATA2MSB */
    uint16_t type;     /* ET_EXEC, ET_DYN, ... */
    uint16_t machine;  /* EM_X86_64, ... */

    bool has_interp;       /* a program for a dynamic loader */
    char interp[PATH_MAX]; /* which one */

    Elf64_Phdr *segments; /* the PT_LOAD ones: they translate addresses to offsets */
    size_t segment_count;
    Elf64_Dyn *dynamic; /* up to and without DT_NULL */
    size_t dynamic_count;
};

/* Fills `elf`; to be closed whatever the answer is. */
enum hak_elf_status hak_elf_open(struct hak_elf *elf, const char *path);
void hak_elf_close(struct hak_elf *elf);

/* Whether class, byte order and machine are those of `other`. */
bool hak_elf_same_kind(const struct hak_elf *elf, const struct hak_elf *other);
/* Whether this is the kind of file that this build of the command is itself. */
bool hak_elf_is_native(const struct hak_elf *elf);
/* "64-bit x86-64", for messages; in a static buffer, overwritten by every second call. */
const char *hak_elf_kind_name(const struct hak_elf *elf);

/* The value of the first dynamic entry of this tag. */
bool hak_elf_dynamic_value(const struct hak_elf *elf, int64_t tag, uint64_t *value);
/* The index-th string among the entries of this tag (DT_NEEDED, DT_SONAME, DT_RUNPATH ...). */
bool hak_elf_dynamic_string(const struct hak_elf *elf, int64_t tag, size_t index, char *text,
                            size_t size_bytes);
/* Whether the dynamic symbol table defines this name for others to bind to. */
bool hak_elf_defines(const struct hak_elf *elf, const char *name);
