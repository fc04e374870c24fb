/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the call stack, frame by frame. See unwind.h.
 *
 * The tables of the program say where each caller is, as they do for exceptions; where there are
 * none (code made at run time), the chain of frame pointers is followed as long as it is plausible.
 * What was read from a table is kept in a small table of this file's own, without a lock: an entry
 * is believed only if its two words fit together. A library that is unloaded may leave entries
 * behind that are wrong for what is loaded in its place: then a stack is wrong, and nothing else,
 * because no memory is read but from the stack pointer on, and there no page of which the system
 * was not asked whether it can be: a wrong frame pointer may lead anywhere. */
#include "telemetry/unwind.h"
#include "telemetry/unwind_internal.h"

#include <string.h>

#define FRAME_MOST_BYTES ((uintptr_t)1 << 20)
#define KNOWN_RULES 4096u /* 64 KiB, of which a program touches what it uses */

static struct {
    _Atomic(uint64_t) check; /* pc ^ rule */
    _Atomic(uint64_t) rule;
} unwind_known[KNOWN_RULES] HAK_RARELY_USED;

static struct unwind_rule unwind_rule_of(uintptr_t pc)
{
    struct unwind_rule rule = {0};
    uint64_t word;
    size_t i = (pc * UINT64_C(0x9e3779b97f4a7c15)) >> 52;
    word = hak_load_relaxed(&unwind_known[i].rule);
    if ((hak_load_relaxed(&unwind_known[i].check) ^ word) == pc) {
        memcpy(&rule, &word, sizeof rule);
        return rule;
    }
    const unsigned char *table = hak_os_unwind_table(pc);
    if (table != NULL)
        rule = hak_unwind_rule(table, pc);
    memcpy(&word, &rule, sizeof word);
    hak_store_relaxed(&unwind_known[i].rule, word);
    hak_store_relaxed(&unwind_known[i].check, pc ^ word);
    return rule;
}

struct unwind_stack {
    uintptr_t low;
    uintptr_t page; /* can be read */
};

static bool stack_read(struct unwind_stack *stack, uintptr_t at, uintptr_t *value)
{
    uintptr_t page = hak_round_down(at, HAK_PAGE_BYTES);
    if (at == 0 || at < stack->low || at % sizeof *value != 0 ||
        (page != stack->page && !hak_os_is_readable(at)))
        return false;
    stack->page = page;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): it can be read */
    memcpy(value, (const void *)at, sizeof *value);
    return true;
}

/* Frame pointers: the caller's, and above it the return address. What is further away than frames
 * are long is none, but what other code has in that register. */
static bool unwind_by_pointer(struct unwind_stack *stack, struct hak_registers *r)
{
    uintptr_t record = r->fp + (uintptr_t)(intptr_t)UNWIND_RECORD_AT;
    uintptr_t fp;
    uintptr_t pc;
    if (r->fp < r->sp || r->fp - r->sp > FRAME_MOST_BYTES || !stack_read(stack, record, &fp) ||
        !stack_read(stack, record + 8, &pc))
        return false;
    if (fp != 0 && fp <= r->fp)
        return false;
    *r = (struct hak_registers){.pc = pc, .sp = record + 16, .fp = fp};
    return true;
}

static bool unwind_step(struct unwind_stack *stack, struct hak_registers *r, bool is_call)
{
    struct unwind_rule rule = unwind_rule_of(r->pc - is_call);
    if (rule.cfa == UNWIND_END)
        return false;
    if (rule.cfa == UNWIND_UNKNOWN)
        return unwind_by_pointer(stack, r);
    uintptr_t cfa = (rule.cfa == UNWIND_SP ? r->sp : r->fp) + (uintptr_t)(intptr_t)rule.cfa_offset;
    if (rule.cfa == UNWIND_AT_FP && !stack_read(stack, cfa, &cfa))
        return false;
    uintptr_t fp = r->fp;
    uintptr_t saved_at =
        (rule.fp == UNWIND_SAVED ? cfa : r->fp) + (uintptr_t)(intptr_t)rule.fp_offset;
    if (rule.fp != UNWIND_SAME && !stack_read(stack, saved_at, &fp))
        return false;
    uintptr_t pc;
    if (cfa <= r->sp || !stack_read(stack, cfa - 8, &pc))
        return false;
    *r = (struct hak_registers){.pc = pc, .sp = cfa, .fp = fp};
    return true;
}

unsigned hak_unwind(const struct hak_registers *from, uintptr_t *frames, unsigned most)
{
    struct hak_registers r = *from;
    struct unwind_stack stack = {r.sp, hak_round_down(r.sp, HAK_PAGE_BYTES)};
    unsigned depth = 0;
    while (depth < most && r.pc != 0) {
        frames[depth++] = r.pc;
        if (!unwind_step(&stack, &r, depth > 1))
            break;
    }
    return depth;
}
