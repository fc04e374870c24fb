/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: reads a recorded trace, see trace.h. */
#include "trace.h"

#include <string.h>

const char *hak_trace_from(struct hak_trace *trace, const void *bytes, size_t size)
{
    static const char name[] = "hakmem-trace ";
    if (size < sizeof name || memcmp(bytes, name, sizeof name - 1) != 0)
        return "it is no trace of 'hakmem record'";
    if (size < HAK_TRACE_HEADER_BYTES)
        return "it is cut off within its header";
    memcpy(&trace->header, bytes, sizeof trace->header);
    if (memcmp(trace->header.magic, HAK_TRACE_MAGIC, sizeof HAK_TRACE_MAGIC) != 0)
        return "it is of another version of the form than this command reads (1)";
    memset(trace->header.command + sizeof trace->header.command - 2, 0, 2);
    trace->bytes = bytes;
    trace->size = size;
    return NULL;
}

void hak_trace_begin(struct hak_trace_cursor *cursor, const struct hak_trace *trace)
{
    *cursor = (struct hak_trace_cursor){.begin = trace->bytes,
                                        .at = trace->bytes + HAK_TRACE_HEADER_BYTES,
                                        .end = trace->bytes + trace->size};
}

static unsigned char trace_byte(struct hak_trace_cursor *c)
{
    if (c->at < c->end)
        return *c->at++;
    c->problem = "it is cut off within an event";
    return 0;
}

static uint64_t trace_number(struct hak_trace_cursor *c)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned char byte = trace_byte(c);
        number |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return number;
    }
    c->problem = "it has a number of more than 64 bits";
    return 0;
}

static uint64_t trace_address(struct hak_trace_cursor *c)
{
    uint64_t coded = trace_number(c);
    uint64_t step = (coded >> 1) ^ (0 - (coded & 1));
    c->address += step << HAK_TRACE_ADDRESS_SHIFT;
    return c->address;
}

static uint64_t trace_size(struct hak_trace_cursor *c, unsigned low)
{
    uint64_t high = trace_number(c);
    if (high < HAK_TRACE_MOST_SIZE >> 5)
        return high << 5 | low;
    if (c->problem == NULL)
        c->problem = "it has a block larger than an address space";
    return 0;
}

static void trace_control(struct hak_trace_cursor *c, unsigned what)
{
    uint64_t number = trace_number(c);
    if (what == HAK_TRACE_TIME)
        c->time_us = number;
    else if (what == HAK_TRACE_THREAD && number < HAK_TRACE_MOST_THREADS)
        c->thread = (uint32_t)number;
    else if (c->problem == NULL)
        c->problem = "it has an event that is not known, or too many threads";
}

/* The rest of an event whose first byte has been read. */
static void trace_step(struct hak_trace_cursor *c, struct hak_trace_step *step, unsigned upper)
{
    bool has_size = step->event != HAK_TRACE_FREE && step->event != HAK_TRACE_REALLOC_BEGIN;
    if (has_size)
        step->size_bytes = trace_size(c, upper);
    else if (upper != 0)
        c->problem = "it has an event that is not known";
    if (step->event == HAK_TRACE_ALIGNED) {
        unsigned log2 = trace_byte(c);
        if (log2 < 47)
            step->alignment = (uint64_t)1 << log2;
        else if (c->problem == NULL)
            c->problem = "it has an alignment larger than an address space";
    }
    step->address = trace_address(c);
    if (step->address == 0 && step->event != HAK_TRACE_REALLOC_END && c->problem == NULL)
        c->problem = "it has a block at address 0";
}

bool hak_trace_next(struct hak_trace_cursor *c, struct hak_trace_step *step)
{
    while (c->problem == NULL && c->at < c->end) {
        unsigned char first = *c->at++;
        unsigned upper = first >> HAK_TRACE_OP_BITS;
        *step = (struct hak_trace_step){
            .event = (enum hak_trace_event)(first & ((1U << HAK_TRACE_OP_BITS) - 1))};
        if (step->event == HAK_TRACE_END) {
            c->end = c->at;
        } else if (step->event == HAK_TRACE_CONTROL) {
            trace_control(c, upper);
        } else {
            trace_step(c, step, upper);
            step->thread = c->thread;
            step->time_us = c->time_us;
            return c->problem == NULL;
        }
    }
    return false;
}
