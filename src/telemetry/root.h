/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the root: where a reader outside of the process finds everything. A reader (the
 * hakmem command, built of the same sources) searches the data of a process, or of its core file,
 * for the magic, compares version and sizes with its own, and follows the addresses. So nothing
 * has to run in the process, and stripped and static programs can be read as well.
 *
 * All of it is there from the start: nobody in the process reads it. What is written later says so.
 */
#pragma once

#include "base/base.h"

#include <stdint.h>

/* 32 bytes at a multiple of 64. */
#define HAK_ROOT_MAGIC                                                                             \
    "\x7fhakmem root\r\n\x1a\x01\xd1\xc6\xa3\x5e\x90\xf4\x2b\x88\xbe\x17\x63\xfa\x09\xcd\x72\x40"
#define HAK_ROOT_ALIGN 64
/* Grows when a member that readers use changes its meaning and not its place. */
#define HAK_ROOT_VERSION 2u

enum hak_root_flag { HAK_ROOT_HARDENED = 1, HAK_ROOT_CHECKS = 2 };

/* What there is an address of, or a size only. A part that the process does not have is NULL. */
enum hak_root_part {
    HAK_ROOT_SPACE,     /* struct hak_space */
    HAK_ROOT_WINDOW,    /* struct hak_window */
    HAK_ROOT_META,      /* struct hak_meta_state */
    HAK_ROOT_FAILURES,  /* struct hak_failures */
    HAK_ROOT_TABLES,    /* struct hak_class_tables */
    HAK_ROOT_POOL,      /* struct pool */
    HAK_ROOT_LARGE,     /* struct large_counters */
    HAK_ROOT_REGISTRY,  /* struct hak_registry: all heaps */
    HAK_ROOT_ORPHANS,   /* struct hak_heap *: the shared one */
    HAK_ROOT_HEAP,      /* size only: struct hak_heap */
    HAK_ROOT_SLAB,      /* size only: struct hak_slab */
    HAK_ROOT_RECORD,    /* size only: struct hak_superslab */
    HAK_ROOT_SAMPLES,   /* the heap profile */
    HAK_ROOT_SITES,     /* struct hak_site[HAK_SITES]: call sites, and how long their blocks live */
    HAK_ROOT_POLICY,    /* written at the start by the policy, which lies above */
    HAK_ROOT_LAYOUT,    /* struct hak_layout_line[], for debuggers: layout.h */
    HAK_ROOT_LIFETIMES, /* struct hak_lifetimes: blocks of those sites that live */
    HAK_ROOT_PARTS = 20 /* the others are for later versions */
};

/* What a reader may ask the process to do: it writes a word other than 0, and a slow path of the
 * process exchanges it with 0 and does it. */
enum hak_root_request {
    HAK_ROOT_ASK_PROFILE,
    HAK_ROOT_ASK_POLICY,
    HAK_ROOT_ASK_CONTROL,
    HAK_ROOT_REQUESTS = 8
};

struct hak_root {
    char magic[32];
    uint32_t version; /* HAK_ROOT_VERSION */
    uint32_t bytes;   /* of this structure */
    uint32_t flags;   /* enum hak_root_flag */
    uint32_t offsets; /* a hash of where members lie, see root_internal.h */
    uint32_t library; /* major << 16 | minor << 8 | patch */
    uint32_t sizes[HAK_ROOT_PARTS];
    const void *at[HAK_ROOT_PARTS];
    _Atomic(uint64_t) requests[HAK_ROOT_REQUESTS];
};
extern HAK_HIDDEN struct hak_root hak_root;
