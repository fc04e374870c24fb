/* Stress: records of blocks and their pattern. See shadow.h.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "shadow.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/api.h"
#include "support/bytes.h"

#define SHADOW_ODD 0x9e3779b97f4a7c15u

enum { SHADOW_WHOLE_BYTES = 32768, SHADOW_PAGE = 4096, SHADOW_EDGE = 64, SHADOW_INDEX_BITS = 24 };

static int command_argc;
static char **command_argv;
static uint64_t command_seed;

void shadow_set_command(int argc, char **argv, uint64_t seed)
{
    command_argc = argc;
    command_argv = argv;
    command_seed = seed;
}

_Noreturn void shadow_fail(const struct block *b, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, 1024, format, arguments);
    va_end(arguments);
    n = n < 0 ? 0 : n > 1000 ? 1000 : n;
    char *at = text + n;
    size_t room = sizeof text - (size_t)n;
    if (b)
        n += snprintf(
            at, room, "\n  block %llu of lane %u at %p: size %zu, usable %zu, alignment %zu",
            (unsigned long long)b->serial, b->owner, (void *)b->p, b->size, b->usable, b->align);
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "\n  seed %llu; to repeat:", (unsigned long long)command_seed);
    for (int i = 0; i < command_argc && n < (int)sizeof text - 200; i++)
        n += snprintf(text + n, 150, " %.140s", command_argv[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, " --seed %llu\n",
                  (unsigned long long)command_seed);
    ssize_t written = write(STDERR_FILENO, "stress: FAILED: ", 16);
    written = write(STDERR_FILENO, text, (size_t)n);
    (void)written;
    _exit(1);
}

/* A bijection, so that a wrong word tells who wrote it. */
static uint64_t shadow_word(uint64_t serial, size_t index)
{
    return (serial << SHADOW_INDEX_BITS | (index & ((1u << SHADOW_INDEX_BITS) - 1))) * SHADOW_ODD;
}

static uint64_t shadow_unmix(uint64_t word)
{
    uint64_t inverse = SHADOW_ODD; /* of an odd number modulo 2^64, by Newton */
    for (int i = 0; i < 6; i++)
        inverse *= 2 - SHADOW_ODD * inverse;
    return word * inverse;
}

static void shadow_write(unsigned char *p, size_t from, size_t to, uint64_t serial)
{
    size_t i = from;
    for (; i + 8 <= to; i += 8)
        bytes_store(p + i, shadow_word(serial, i / 8));
    uint64_t w = shadow_word(serial, i / 8);
    memcpy(p + i, &w, to - i);
}

static void shadow_wrong(const struct block *b, const unsigned char *p, size_t at)
{
    uint64_t found = 0;
    memcpy(&found, p + at, b->usable - at < 8 ? b->usable - at : 8);
    uint64_t who = shadow_unmix(found);
    if (found == 0)
        shadow_fail(b, "byte %zu or one of the next 7 was overwritten with zeros", at);
    shadow_fail(
        b,
        "byte %zu or one of the next 7 is wrong: found %#018llx, which is word %llu of block %llu "
        "if a block of this test wrote it (an overlap)",
        at, (unsigned long long)found, (unsigned long long)(who & ((1u << SHADOW_INDEX_BITS) - 1)),
        (unsigned long long)(who >> SHADOW_INDEX_BITS));
}

static void shadow_read(const struct block *b, const unsigned char *p, size_t from, size_t to)
{
    size_t i = from;
    for (; i + 8 <= to; i += 8)
        if (bytes_load(p + i) != shadow_word(b->serial, i / 8))
            shadow_wrong(b, p, i);
    uint64_t expected = shadow_word(b->serial, i / 8);
    if (memcmp(p + i, &expected, to - i) != 0)
        shadow_wrong(b, p, i);
}

/* The parts that are written: [0, 64) of each page, counted from the block's start, and the end. */
static bool shadow_next_part(size_t usable, size_t *from, size_t *to)
{
    if (usable <= SHADOW_WHOLE_BYTES) {
        *from = *to;
        *to = usable;
        return *from < usable;
    }
    size_t tail = (usable - SHADOW_EDGE) & ~(size_t)7;
    if (*to == usable)
        return false;
    size_t next = *to == 0 ? 0 : *from + SHADOW_PAGE;
    *from = next < tail ? next : tail;
    *to = next < tail ? next + SHADOW_EDGE : usable;
    if (*to > usable)
        *to = usable;
    return true;
}

void shadow_begin(struct block *b, void *p, size_t size, size_t align, uint64_t serial,
                  unsigned owner)
{
    b->p = p;
    b->size = size;
    b->align = align;
    b->serial = serial;
    b->owner = owner;
    b->usable = my_malloc_usable_size(p);
    if (b->usable < size)
        shadow_fail(b, "the usable size is less than was asked for");
    if ((uintptr_t)p & (align - 1))
        shadow_fail(b, "the address is not aligned");
    for (size_t from = 0, to = 0; shadow_next_part(b->usable, &from, &to);)
        shadow_write(b->p, from, to, serial);
}

/* `p` may lie elsewhere by now: realloc has moved it. */
void shadow_check(const struct block *b, const void *p, size_t bytes)
{
    for (size_t from = 0, to = 0; shadow_next_part(b->usable, &from, &to) && from < bytes;)
        shadow_read(b, p, from, to < bytes ? to : bytes);
}

void shadow_check_all(const struct block *b)
{
    size_t usable = my_malloc_usable_size(b->p);
    if (usable != b->usable)
        shadow_fail(b, "the usable size is %zu by now", usable);
    shadow_check(b, b->p, b->usable);
}
