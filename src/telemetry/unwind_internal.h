/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: how one frame is left: what the unwind tables say of one address in the code. The
 * format is that of .eh_frame (Linux Standard Base, Core, chapter 10.6; DWARF 4, section 6.4), of
 * which only what leads to the caller is followed: its stack pointer, its frame pointer, and the
 * return address. */
#pragma once

#include "base/base.h"

#include <stdbool.h>
#include <stdint.h>

/* Registers as DWARF numbers them for the processor, and how far from a function's frame pointer
 * the caller's is kept, with the return address above it. (System V ABI, AMD64 supplement; RISC-V
 * ELF psABI.) On aarch64, where code keeps frame pointers, tables are not read. */
#if defined(__riscv)
#define UNWIND_REGISTER_FP 8u
#define UNWIND_REGISTER_SP 2u
#define UNWIND_REGISTER_PC 1u
#define UNWIND_RECORD_AT (-16)
#else
#define UNWIND_REGISTER_FP 6u
#define UNWIND_REGISTER_SP 7u
#define UNWIND_REGISTER_PC 16u
#define UNWIND_RECORD_AT 0
#endif

enum unwind_cfa {
    UNWIND_UNKNOWN, /* no table, or one that says it in another way */
    UNWIND_END,     /* the outermost frame */
    UNWIND_SP,      /* the caller's stack pointer: sp + offset */
    UNWIND_FP,      /* fp + offset */
    UNWIND_AT_FP,   /* what is stored at fp + offset: functions that realign their stack */
};

enum unwind_saved {
    UNWIND_SAME,       /* the frame pointer is the caller's still */
    UNWIND_SAVED,      /* it is stored at the caller's stack pointer + offset */
    UNWIND_SAVED_AT_FP /* it is stored at fp + offset */
};

struct unwind_rule {
    int32_t cfa_offset;
    int16_t fp_offset;
    uint8_t cfa, fp; /* enum unwind_cfa, enum unwind_saved */
};
_Static_assert(sizeof(struct unwind_rule) == 8, "one word in the table of those found before");

/* The rule for an address, from an .eh_frame_hdr. */
struct unwind_rule hak_unwind_rule(const unsigned char *table, uintptr_t pc);
