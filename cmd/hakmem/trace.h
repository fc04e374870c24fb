/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: reads a recorded trace (cmd/record/trace_format.h). Whatever the file holds,
 * no more than the file is read. */
#pragma once

#include "../record/trace_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a trace may hold at most: what the plan of a replay has room for. */
#define HAK_TRACE_MOST_THREADS ((uint32_t)1 << 20)
#define HAK_TRACE_MOST_SIZE ((uint64_t)1 << 47)

struct hak_trace {
    const unsigned char *bytes; /* of the whole file */
    size_t size;
    struct hak_trace_header header; /* `command` ends with two zero bytes */
};

/* One event but `HAK_TRACE_CONTROL`, which is worked in. */
struct hak_trace_step {
    enum hak_trace_event event;
    uint32_t thread;
    uint64_t size_bytes;
    uint64_t alignment; /* of HAK_TRACE_ALIGNED */
    uint64_t address;
    uint64_t time_us; /* the last that was written */
};

struct hak_trace_cursor {
    const unsigned char *at, *begin, *end;
    uint64_t address, time_us;
    uint32_t thread;
    const char *problem; /* what is wrong with the file; NULL: nothing so far */
};

/* From bytes in memory, which must stay. NULL, or what is wrong with them. */
const char *hak_trace_from(struct hak_trace *trace, const void *bytes, size_t size);

void hak_trace_begin(struct hak_trace_cursor *cursor, const struct hak_trace *trace);
/* False at the end, and where something is wrong: `problem` says which. */
bool hak_trace_next(struct hak_trace_cursor *cursor, struct hak_trace_step *step);
