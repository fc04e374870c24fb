/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of telemetry: stacks of code that has no unwind tables, and may have anything in the
 * register that others keep the frame pointer in. */
#include "../unit.h"

#include "telemetry/unwind.h"
#include "telemetry/unwind_internal.h"

#define MIB ((size_t)1 << 20)

/* Addresses at which no code is loaded. */
static const char code[8];
#define PC(i) ((uintptr_t)&code[i])

static char *map(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

/* A frame at `at`, whose caller has the frame `next`. */
static void put_frame(char *at, const char *next, uintptr_t pc)
{
    uintptr_t record[2] = {(uintptr_t)next, pc};
    memcpy(at + UNWIND_RECORD_AT, record, sizeof record);
}

static unsigned unwind(const char *sp, const char *fp, uintptr_t *frames, unsigned most)
{
    const struct hak_registers from = {.pc = PC(0), .sp = (uintptr_t)sp, .fp = (uintptr_t)fp};
    return hak_unwind(&from, frames, most);
}

static void frames_are_followed_by_their_pointers(void **state)
{
    (void)state;
    uintptr_t frames[8];
    char *stack = map(4 * MIB);
    put_frame(stack + 64, stack + 9000, PC(1)); /* on another page */
    put_frame(stack + 9000, stack + 9040, PC(2));
    put_frame(stack + 9040, NULL, PC(3));
    assert_int_equal(unwind(stack, stack + 64, frames, 8), 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(frames[i], PC(i));
    assert_int_equal(unwind(stack, stack + 64, frames, 2), 2);
    assert_int_equal(munmap(stack, 4 * MIB), 0);
}

/* The page was part of the stack's mapping once, or is a guard. */
static void a_pointer_to_what_cannot_be_read_ends_a_stack(void **state)
{
    (void)state;
    uintptr_t frames[8];
    size_t page = hak_os_page_bytes();
    char *stack = map(3 * page);
    assert_int_equal(mprotect(stack + page, page, PROT_NONE), 0);
    assert_int_equal(munmap(stack + 2 * page, page), 0);
    for (size_t i = 1; i <= 2; i++) {
        assert_int_equal(unwind(stack, stack + i * page + 64, frames, 8), 1);
        put_frame(stack + 64, stack + i * page + 64, PC(1));
        assert_int_equal(unwind(stack, stack + 64, frames, 8), 2);
    }
    assert_int_equal(munmap(stack, 2 * page), 0);
}

static void a_pointer_that_is_none_ends_a_stack(void **state)
{
    (void)state;
    uintptr_t frames[8];
    char *stack = map(4 * MIB);
    put_frame(stack + 2 * MIB, NULL, PC(1));
    assert_int_equal(unwind(stack, stack + 2 * MIB, frames, 8), 1); /* as far away as no frame is */
    assert_int_equal(unwind(stack + MIB + 8, stack + 2 * MIB, frames, 8), 2);
    assert_int_equal(unwind(stack + 2 * MIB + 64, stack + 2 * MIB, frames, 8), 1); /* below */
    assert_int_equal(unwind(stack + MIB + 8, stack + 2 * MIB + 4, frames, 8), 1);
    assert_int_equal(unwind(stack, NULL, frames, 8), 1);
    assert_int_equal(munmap(stack, 4 * MIB), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(frames_are_followed_by_their_pointers),
    cmocka_unit_test(a_pointer_to_what_cannot_be_read_ends_a_stack),
    cmocka_unit_test(a_pointer_that_is_none_ends_a_stack),
};
UNIT_MAIN(tests)
