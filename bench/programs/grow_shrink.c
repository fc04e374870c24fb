/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: grow_shrink. Stresses large and huge blocks that change their size: in each of ROUNDS
 * rounds a buffer grows by realloc from 64 KiB to MIB MiB in steps of a half and shrinks again (a
 * call site), a table is made of a quarter of that, filled and freed (another), and 32 messages of
 * 80 to 700 KiB come and go (a third). Rounds are PAUSE_MS apart. Giving all of it back each time
 * costs page faults, keeping all of it costs memory.
 *
 * Checksum: sizes and ends of all blocks. It never starts a thread.
 */
#include "bench.h"

#define MESSAGES 32u
#define LEAST_BYTES ((size_t)64 << 10)

static unsigned char *must(unsigned char *block, size_t bytes)
{
    if (block == NULL)
        bench_die(3, "no memory for %zu bytes", bytes);
    return block;
}

/* Writes what is new of a buffer and checks what was there. */
static void buffer_grown(unsigned char *buffer, size_t from, size_t to, unsigned char value)
{
    if (from != 0)
        bench_check_pages(buffer, from, value);
    for (size_t at = from; at < to; at += BENCH_PAGE_BYTES)
        buffer[at] = value;
    buffer[to - 1] = value;
}

__attribute__((noinline)) static uint64_t buffer_round(size_t most, unsigned char value)
{
    size_t bytes = LEAST_BYTES;
    uint64_t checksum = 0;
    unsigned char *buffer = must(malloc(bytes), bytes);
    buffer_grown(buffer, 0, bytes, value);
    while (bytes < most) {
        size_t next = bytes + bytes / 2 < most ? bytes + bytes / 2 : most;
        next = next / BENCH_PAGE_BYTES * BENCH_PAGE_BYTES;
        buffer = must(realloc(buffer, next), next);
        buffer_grown(buffer, bytes, next, value);
        bytes = next;
        checksum = bench_mix(checksum, bytes);
    }
    while (bytes > LEAST_BYTES) {
        bytes = bytes / 3 / BENCH_PAGE_BYTES * BENCH_PAGE_BYTES;
        bytes = bytes < LEAST_BYTES ? LEAST_BYTES : bytes;
        buffer = must(realloc(buffer, bytes), bytes);
        checksum = bench_mix(checksum, buffer[0] + bytes);
    }
    free(buffer);
    return checksum;
}

__attribute__((noinline)) static uint64_t table_round(size_t bytes, unsigned char value)
{
    bytes = bytes < LEAST_BYTES ? LEAST_BYTES : bytes;
    unsigned char *table = must(malloc(bytes), bytes);
    bench_touch_pages(table, bytes, value);
    bench_check_pages(table, bytes, value);
    free(table);
    return bytes;
}

__attribute__((noinline)) static uint64_t messages_round(uint64_t *random, unsigned char value)
{
    unsigned char *message[MESSAGES];
    size_t size[MESSAGES];
    uint64_t checksum = 0;
    for (unsigned i = 0; i < MESSAGES; i++) {
        size[i] = 80 * BENCH_KIB + bench_below(bench_random(random), 620 * BENCH_KIB);
        message[i] = must(malloc(size[i]), size[i]);
        bench_touch_pages(message[i], size[i], value);
    }
    for (unsigned i = 0; i < MESSAGES; i++) {
        bench_check_pages(message[i], size[i], value);
        checksum = bench_mix(checksum, size[i]);
        free(message[i]);
    }
    return checksum;
}

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 3, 3, "grow_shrink MIB ROUNDS PAUSE_MS");
    size_t most = bench_number(argc, argv, 1, "MIB", 1, 4096) * BENCH_MIB;
    uint64_t rounds = bench_number(argc, argv, 2, "ROUNDS", 1, 100000);
    long pause_ms = (long)bench_number(argc, argv, 3, "PAUSE_MS", 0, 10000);
    uint64_t random = bench_seed(19, 0), checksum = 0, work_ns = 0;
    for (uint64_t n = 0; n < rounds; n++) {
        unsigned char value = (unsigned char)(n + 1);
        uint64_t begin = bench_now_ns();
        checksum = bench_mix(checksum, buffer_round(most, value));
        checksum = bench_mix(checksum, table_round(most / 4, value));
        checksum = bench_mix(checksum, messages_round(&random, value));
        work_ns += bench_now_ns() - begin;
        bench_sleep_ms(pause_ms);
    }
    bench_report("grow_shrink", rounds, work_ns, checksum);
    bench_live_peak("grow_shrink", most);
    bench_work_freed("grow_shrink");
    return 0;
}
