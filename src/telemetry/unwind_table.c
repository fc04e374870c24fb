/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: reads .eh_frame. See unwind_internal.h. Reads nothing but the tables, which the
 * program's own exceptions rely on as well. */
#include "telemetry/unwind_internal.h"

#include <string.h>

#define REMEMBERED 4u

enum { /* pointer encodings; only these are in use on the systems supported */
       ENCODED_RELATIVE_32 = 0x1b, /* 32 bits, signed, from where it stands */
       ENCODED_TABLE = 0x3b,       /* 32 bits, signed, from the beginning of the table */
       ENCODED_COUNT = 0x03        /* 32 bits */
};

struct bytes {
    const unsigned char *at, *end;
    bool bad; /* read beyond the end, or something not known */
};

static uint64_t bytes_number(struct bytes *b, unsigned length)
{
    uint64_t value = 0;
    if ((size_t)(b->end - b->at) < length) {
        b->bad = true;
        b->at = b->end;
        return 0;
    }
    memcpy(&value, b->at, length); /* little endian */
    b->at += length;
    return value;
}

static uint64_t bytes_leb(struct bytes *b, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    unsigned char c = 0x80;
    while ((c & 0x80) != 0 && b->at < b->end && shift < 64) {
        c = *b->at++;
        value |= (uint64_t)(c & 0x7f) << shift;
        shift += 7;
    }
    b->bad |= (c & 0x80) != 0;
    if (is_signed && shift < 64 && (c & 0x40) != 0)
        value |= ~UINT64_C(0) << shift;
    return value;
}

static int64_t bytes_sleb(struct bytes *b)
{
    return (int64_t)bytes_leb(b, true);
}

static int32_t number32(const unsigned char *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* The entry (FDE) for an address: the table behind the header is sorted by the first address. */
static const unsigned char *table_find(const unsigned char *table, uintptr_t pc)
{
    enum { HEADER = 12, ROW = 8 };
    if (table[0] != 1 || table[1] != ENCODED_RELATIVE_32 || table[2] != ENCODED_COUNT ||
        table[3] != ENCODED_TABLE)
        return NULL;
    const unsigned char *rows = table + HEADER;
    size_t low = 0;
    size_t high = (uint32_t)number32(table + 8);
    if (high == 0)
        return NULL;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)(table + number32(rows + middle * ROW)) <= pc)
            low = middle;
        else
            high = middle;
    }
    return table + number32(rows + low * ROW + 4);
}

struct common { /* what the entries of many functions share (CIE) */
    struct bytes program;
    uint64_t code_factor;
    int64_t data_factor;
    bool signal_frame;
};

static bool common_read(const unsigned char *at, struct common *c)
{
    struct bytes b = {at + 4, at + 4 + (uint32_t)number32(at), false};
    bytes_number(&b, 4); /* its id */
    uint64_t version = bytes_number(&b, 1);
    const char *letters = (const char *)b.at;
    b.at += strlen(letters) + 1;
    c->code_factor = bytes_leb(&b, false);
    c->data_factor = bytes_sleb(&b);
    uint64_t return_register = version == 1 ? bytes_number(&b, 1) : bytes_leb(&b, false);
    bool known = letters[0] == 'z' && return_register == UNWIND_REGISTER_PC;
    bytes_leb(&b, false); /* length of what the letters stand for */
    c->signal_frame = false;
    for (const char *l = letters + 1; known && *l != '\0'; l++) {
        if (*l == 'R') {
            known = bytes_number(&b, 1) == ENCODED_RELATIVE_32;
        } else if (*l == 'L') {
            bytes_number(&b, 1);
        } else if (*l == 'P') {
            uint64_t encoding = bytes_number(&b, 1);
            known = (encoding & 0x0f) == 0x0b || (encoding & 0x0f) == 0x03;
            bytes_number(&b, 4);
        } else if (*l == 'S') {
            c->signal_frame = true;
        } else {
            known = false;
        }
    }
    c->program = b;
    return known && !b.bad;
}

struct state {
    struct unwind_rule now, first, remembered[REMEMBERED];
    unsigned depth;
    uintptr_t location, pc;
};

static int32_t as_offset(struct bytes *b, int64_t value)
{
    b->bad |= value != (int32_t)value;
    return (int32_t)value;
}

/* The CFA is kept in a register. */
static void state_cfa(struct bytes *b, struct state *s, uint64_t reg, int64_t offset)
{
    s->now.cfa = reg == UNWIND_REGISTER_SP   ? UNWIND_SP
                 : reg == UNWIND_REGISTER_FP ? UNWIND_FP
                                             : UNWIND_UNKNOWN; /* for a few instructions only */
    s->now.cfa_offset = as_offset(b, offset);
}

static void state_saved(struct bytes *b, struct state *s, uint64_t reg, int64_t offset)
{
    if (reg == UNWIND_REGISTER_FP) {
        s->now.fp = UNWIND_SAVED;
        s->now.fp_offset = (int16_t)offset;
        b->bad |= offset != (int16_t)offset;
    } else if (reg == UNWIND_REGISTER_PC && offset != -8) {
        b->bad = true;
    }
}

/* "The value of fp, an offset added", and with `deref` what is stored there. Anything else makes
 * the rule unknown. */
static bool expression_of_fp(struct bytes *b, bool deref, int64_t *offset)
{
    enum { PLUS_OFFSET_OF_FP = 0x70 + UNWIND_REGISTER_FP, DEREF = 0x06 };
    uint64_t length = bytes_leb(b, false);
    const unsigned char *end = b->at + length;
    if (b->bad || length > (size_t)(b->end - b->at)) {
        b->bad = true;
        return false;
    }
    struct bytes inner = {b->at, end, false};
    bool known = bytes_number(&inner, 1) == PLUS_OFFSET_OF_FP;
    *offset = bytes_sleb(&inner);
    known = known && (!deref || bytes_number(&inner, 1) == DEREF) && inner.at == end;
    b->at = end;
    return known && !inner.bad;
}

static void state_restore(struct state *s, uint64_t reg)
{
    if (reg == UNWIND_REGISTER_FP) {
        s->now.fp = s->first.fp;
        s->now.fp_offset = s->first.fp_offset;
    }
}

/* Instructions that are told by their whole first byte. */
static void state_step_other(struct bytes *b, struct state *s, const struct common *c,
                             unsigned char op)
{
    int64_t offset = 0;
    uint64_t reg;
    switch (op) {
    case 0x00: /* nop */
        break;
    case 0x02: /* advance_loc1, 2, 4 */
    case 0x03:
    case 0x04:
        s->location += bytes_number(b, 1u << (op - 2)) * c->code_factor;
        break;
    case 0x05: /* offset_extended */
        reg = bytes_leb(b, false);
        state_saved(b, s, reg, (int64_t)bytes_leb(b, false) * c->data_factor);
        break;
    case 0x06: /* restore_extended */
        state_restore(s, bytes_leb(b, false));
        break;
    case 0x07: /* undefined: no caller, if it is the return address */
        if (bytes_leb(b, false) == UNWIND_REGISTER_PC)
            s->now.cfa = UNWIND_END;
        break;
    case 0x08: /* same_value */
        if (bytes_leb(b, false) == UNWIND_REGISTER_FP)
            s->now.fp = UNWIND_SAME;
        break;
    case 0x0a: /* remember_state */
        if (s->depth < REMEMBERED)
            s->remembered[s->depth] = s->now;
        b->bad |= s->depth++ >= REMEMBERED;
        break;
    case 0x0b: /* restore_state */
        b->bad |= s->depth == 0;
        if (!b->bad)
            s->now = s->remembered[--s->depth];
        break;
    case 0x0c: /* def_cfa */
        reg = bytes_leb(b, false);
        state_cfa(b, s, reg, (int64_t)bytes_leb(b, false));
        break;
    case 0x0d: /* def_cfa_register */
        state_cfa(b, s, bytes_leb(b, false), s->now.cfa_offset);
        break;
    case 0x0e: /* def_cfa_offset */
        s->now.cfa_offset = as_offset(b, (int64_t)bytes_leb(b, false));
        break;
    case 0x0f: /* def_cfa_expression */
        s->now.cfa = expression_of_fp(b, true, &offset) ? UNWIND_AT_FP : UNWIND_UNKNOWN;
        s->now.cfa_offset = as_offset(b, offset);
        break;
    case 0x10: /* expression */
        reg = bytes_leb(b, false);
        if (!expression_of_fp(b, false, &offset)) {
            b->bad |= reg == UNWIND_REGISTER_FP || reg == UNWIND_REGISTER_PC;
        } else if (reg == UNWIND_REGISTER_FP) {
            s->now.fp = UNWIND_SAVED_AT_FP;
            s->now.fp_offset = (int16_t)offset;
        }
        break;
    case 0x2e: /* GNU_args_size */
        bytes_leb(b, false);
        break;
    default:
        b->bad = true;
    }
}

/* Executes a program up to the address that is looked for. */
static void state_run(struct bytes *b, struct state *s, const struct common *c)
{
    while (b->at < b->end && !b->bad && s->location <= s->pc) {
        unsigned char op = *b->at++;
        if (op >> 6 == 1) /* advance_loc */
            s->location += (op & 0x3fu) * c->code_factor;
        else if (op >> 6 == 2) /* offset */
            state_saved(b, s, op & 0x3fu, (int64_t)bytes_leb(b, false) * c->data_factor);
        else if (op >> 6 == 3) /* restore */
            state_restore(s, op & 0x3fu);
        else
            state_step_other(b, s, c, op);
    }
}

struct unwind_rule hak_unwind_rule(const unsigned char *table, uintptr_t pc)
{
    const struct unwind_rule unknown = {0};
    const unsigned char *entry = table_find(table, pc);
    if (entry == NULL || (uint32_t)number32(entry) == UINT32_MAX)
        return unknown;
    struct bytes b = {entry + 4, entry + 4 + (uint32_t)number32(entry), false};
    struct common c;
    if (!common_read(b.at - number32(b.at), &c) || c.signal_frame)
        return unknown;
    bytes_number(&b, 4);
    uintptr_t first = (uintptr_t)b.at + (uintptr_t)(intptr_t)number32(b.at);
    bytes_number(&b, 4);
    uintptr_t length = (uintptr_t)bytes_number(&b, 4);
    uint64_t letters = bytes_leb(&b, false);
    if (b.bad || pc < first || pc - first >= length || letters > (size_t)(b.end - b.at))
        return unknown;
    b.at += letters;
    struct state s = {.location = first, .pc = pc};
    state_run(&c.program, &s, &c); /* no advance in it: it is executed as a whole */
    s.first = s.now;
    state_run(&b, &s, &c);
    return b.bad || c.program.bad ? unknown : s.now;
}
