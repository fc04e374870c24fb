/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: the processor that it is for, as other files name it. */
#pragma once

#include <elf.h>

#if defined(__x86_64__)
#define HAK_MACHINE_ELF EM_X86_64
#define HAK_MACHINE_MULTIARCH "x86_64-linux-gnu" /* Debian's name of folders */
#elif defined(__aarch64__)
#define HAK_MACHINE_ELF EM_AARCH64
#define HAK_MACHINE_MULTIARCH "aarch64-linux-gnu"
#elif defined(__riscv) && __riscv_xlen == 64
#define HAK_MACHINE_ELF EM_RISCV
#define HAK_MACHINE_MULTIARCH "riscv64-linux-gnu"
#define HAK_MACHINE_FOLDERS "/lib64/lp64d:/usr/lib64/lp64d:"
#else
#error "hakmem is for x86-64, aarch64 and riscv64"
#endif

/* Where the loader looks before /lib64, besides. */
#ifndef HAK_MACHINE_FOLDERS
#define HAK_MACHINE_FOLDERS ""
#endif
