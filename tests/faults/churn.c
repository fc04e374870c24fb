/* Faults: address space that is used up again and again.
 *
 *   churn GIB MOST    takes and gives back blocks of 16 bytes to 64 MiB at random, GIB GiB in all,
 *                     at most 2 GiB at a time; the process may never have more than MOST mappings
 *
 * The kernel allows 65,530 mappings; a process that has them all gets no memory of any kind.
 * Run with the library preloaded.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/api.h"

enum { BLOCKS = 2048, LOOK_EVERY = 64, SHIFTS = 22 };
#define LIVE_MAX ((size_t)2 << 30)

static struct {
    unsigned char *p;
    size_t size;
} blocks[BLOCKS];

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "churn: FAILED: %s\n", what);
    _exit(1);
}

/* Each line of the file is a mapping. */
static unsigned long mappings(void)
{
    static char text[65536];
    unsigned long lines = 0;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ssize_t n;
    while (file >= 0 && (n = read(file, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    if (lines == 0)
        fail("/proc/self/maps cannot be read");
    close(file);
    return lines;
}

static void give(size_t i, size_t *live)
{
    if (!blocks[i].p)
        return;
    if (blocks[i].p[0] != (i & 0xff) || blocks[i].p[blocks[i].size - 1] != (i & 0xff))
        fail("a block was overwritten");
    my_free(blocks[i].p);
    *live -= blocks[i].size;
    blocks[i].p = NULL;
}

static void take(size_t i, size_t *live)
{
    size_t base = (size_t)16 << next_random() % SHIFTS;
    size_t size = base + next_random() % base;
    for (size_t k = i; *live + size > LIVE_MAX; k = (k + 1) % BLOCKS)
        give(k, live);
    unsigned char *p = my_malloc(size);
    if (!p)
        fail("memory was refused");
    p[0] = p[size - 1] = i & 0xff;
    blocks[i].p = p;
    blocks[i].size = size;
    *live += size;
}

int main(int argc, char **argv)
{
    size_t gib = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned long most = argc == 3 ? strtoul(argv[2], NULL, 10) : 0, peak = 0, now = 0;
    size_t live = 0, done = 0, count = 0;
    if (!gib || !most)
        fail("usage: churn GIB MOST");
    if (!my_api_is_hakmem() && !getenv("HAK_TEST_ANY_ALLOCATOR"))
        fail("this runs without hakmem");
    while (done >> 30 < gib) {
        size_t i = next_random() % BLOCKS;
        give(i, &live);
        take(i, &live);
        done += blocks[i].size;
        if (count++ % LOOK_EVERY == 0)
            now = mappings(), peak = now > peak ? now : peak;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        give(i, &live);
    now = mappings();
    printf("churn: %zu GiB in %zu blocks: %lu mappings at most, %lu at the end\n", gib, count, peak,
           now);
    fflush(stdout);
    if (peak > most || now > most)
        fail("too many mappings");
    return 0;
}
