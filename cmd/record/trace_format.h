/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The form of a recorded trace: what `libhakmem-record.so` writes and `hakmem replay` reads. See
 * docs/replay.md.
 *
 * A file is one header and, from HAK_TRACE_HEADER_BYTES on, events without gaps up to a zero byte
 * or the end of the file. Numbers are little endian. In an event the low three bits of its first
 * byte say what it is (`enum hak_trace_event`). A varint has seven bits a byte, the lowest first,
 * and bit 7 set in all but the last.
 *
 * A SIZE is five bits in the first byte (its lowest) and a varint (the others). An ADDRESS is a
 * varint: the difference to the address before it in the file, in units of 8 bytes, with its sign
 * in bit 0. Both are 64 bits.
 *
 * The order of events is one in which they may have happened: a block's allocation comes after
 * all that is known of its address before, its release before all that happens to it afterwards. */
#pragma once

#include <stdint.h>

#define HAK_TRACE_MAGIC "hakmem-trace 1\n" /* with its zero byte */
#define HAK_TRACE_HEADER_BYTES 4096
#define HAK_TRACE_ADDRESS_SHIFT 3
#define HAK_TRACE_OP_BITS 3
#define HAK_TRACE_VARINT_MOST_BYTES 10
/* No event is longer. */
#define HAK_TRACE_EVENT_MOST_BYTES (2 + 2 * HAK_TRACE_VARINT_MOST_BYTES)

enum hak_trace_event {
    HAK_TRACE_END,           /* no more events */
    HAK_TRACE_MALLOC,        /* SIZE, ADDRESS */
    HAK_TRACE_CALLOC,        /* SIZE (of all elements), ADDRESS */
    HAK_TRACE_ALIGNED,       /* SIZE, a byte: the base-2 logarithm of the alignment, ADDRESS */
    HAK_TRACE_FREE,          /* ADDRESS */
    HAK_TRACE_REALLOC_BEGIN, /* ADDRESS; the block is no longer known to be there */
    HAK_TRACE_REALLOC_END,   /* SIZE, ADDRESS where it is now; address 0: with SIZE 0 it was
                                released, with SIZE 1 the call failed and it is where it was */
    HAK_TRACE_CONTROL        /* the upper five bits: `enum hak_trace_control`; a varint */
};

enum hak_trace_control {
    HAK_TRACE_THREAD, /* the events that follow are of this thread; they count from 0 */
    HAK_TRACE_TIME,   /* microseconds since the recording began */
};

struct hak_trace_header {
    char magic[16];
    uint64_t process;    /* its ID */
    uint64_t started_us; /* since 1970 */
    uint64_t failed;     /* allocations that failed; they are not among the events */
    uint64_t is_whole;   /* 1: recorded to the program's end; 0: it was killed, became another
                            program, or the file could not grow */
    char command[2048];  /* the program's words, each with a zero byte; an empty one ends them */
};

_Static_assert(sizeof(struct hak_trace_header) <= HAK_TRACE_HEADER_BYTES, "the header fits");
