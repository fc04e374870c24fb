/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmarks: the helpers that every benchmark program shares (arguments, time, random numbers,
 * resident memory, threads that start together, the lines of the report).
 *
 * Who includes it: the programs in this folder. It never allocates, and it never includes a header
 * of the allocator: a benchmark program uses plain malloc and runs under any allocator.
 *
 * A program prints one line that `hakmem bench` reads, and may print metrics below it:
 *     random_mixed: 81.20 M ops/s, elapsed 123152000 ns, checksum 00c0ffee00c0ffee
 *     random_mixed: metric rss_after 1234 kB
 * Some names of metrics have a meaning for all programs: see bench_work_freed and bench_live_peak.
 * The checksum depends on the arguments only. An allocator that loses or overlaps blocks, or a
 * run that skips work, shows as a different checksum or as exit status 1 with a message.
 */
#ifndef HAKMEM_BENCH_H
#define HAKMEM_BENCH_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BENCH_KIB ((size_t)1024)
#define BENCH_MIB ((size_t)1024 * 1024)
#define BENCH_PAGE_BYTES ((size_t)4096)

/* Exit statuses: 1 the allocator failed the check, 2 wrong arguments, 3 the system refused. */
__attribute__((noreturn, format(printf, 2, 3))) static inline void bench_die(int status,
                                                                             const char *format,
                                                                             ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

/* ---- arguments ---- */

/* Ends the program with its usage line unless between `least` and `most` arguments were given. */
static inline void bench_expect_args(int argc, char **argv, int least, int most, const char *usage)
{
    if (argc - 1 < least || argc - 1 > most)
        bench_die(2, "%s: got %d arguments; usage: %s", argv[0], argc - 1, usage);
}

/* The number at argv[index], or `fallback` when fewer arguments were given. */
static inline uint64_t bench_number_or(int argc, char **argv, int index, const char *what,
                                       uint64_t least, uint64_t most, uint64_t fallback)
{
    if (index >= argc)
        return fallback;
    const char *text = argv[index];
    char *end = NULL;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    bool digits = text[0] >= '0' && text[0] <= '9';
    if (!digits || *end != '\0' || errno == ERANGE || value < least || value > most)
        bench_die(2, "%s: %s is '%s'; give a whole number from %" PRIu64 " to %" PRIu64, argv[0],
                  what, text, least, most);
    return value;
}

static inline uint64_t bench_number(int argc, char **argv, int index, const char *what,
                                    uint64_t least, uint64_t most)
{
    return bench_number_or(argc, argv, index, what, least, most, 0);
}

/* ---- random numbers: xorshift64*, a few cycles a number ---- */

/* A state for stream number `stream` of `seed`; never zero, which would stay zero for ever. */
static inline uint64_t bench_seed(uint64_t seed, uint64_t stream)
{
    uint64_t z = seed + (stream + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) | 1;
}

static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545F4914F6CDD1Du;
}

/* A number below `limit`, from the upper half of a random number. No division. */
static inline size_t bench_below(uint64_t random, size_t limit)
{
    return (size_t)(((random >> 32) * (uint64_t)limit) >> 32);
}

/* Adds a value to a checksum so that order and value both matter. */
static inline uint64_t bench_mix(uint64_t checksum, uint64_t value)
{
    checksum = (checksum ^ value) * 0x9E3779B97F4A7C15u;
    return checksum ^ (checksum >> 29);
}

/* ---- blocks that know their size ---- */

static inline unsigned char bench_tag(uint32_t size)
{
    return (unsigned char)(size * 7 + 3);
}

/* Writes the ends of a block of `size` bytes (at least 5): the size in front, a tag at the end. */
static inline void bench_block_mark(unsigned char *block, uint32_t size)
{
    memcpy(block, &size, sizeof size);
    block[size - 1] = bench_tag(size);
}

/* Allocates `size` bytes and marks them. */
static inline unsigned char *bench_block_new(uint32_t size)
{
    unsigned char *block = (unsigned char *)malloc(size);
    if (__builtin_expect(block == NULL, 0))
        bench_die(3, "malloc(%" PRIu32 ") failed: %s", size, strerror(errno));
    bench_block_mark(block, size);
    return block;
}

/* Checks what bench_block_mark wrote and returns the size. */
static inline uint32_t bench_block_check(const unsigned char *block)
{
    uint32_t size;
    memcpy(&size, block, sizeof size);
    if (size < 5 || size > (1u << 30) || block[size - 1] != bench_tag(size))
        bench_die(1, "block at %p was overwritten (its size reads as %" PRIu32 ")",
                  (const void *)block, size);
    return size;
}

/* Writes one byte in every page, which is what makes the system provide the memory. */
static inline void bench_touch_pages(unsigned char *block, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i += BENCH_PAGE_BYTES)
        block[i] = value;
    block[bytes - 1] = value;
}

/* Checks what bench_touch_pages wrote. */
static inline void bench_check_pages(const unsigned char *block, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i += BENCH_PAGE_BYTES)
        if (block[i] != value)
            bench_die(1, "byte %zu of a block of %zu bytes was overwritten", i, bytes);
    if (block[bytes - 1] != value)
        bench_die(1, "the last byte of a block of %zu bytes was overwritten", bytes);
}

/* What a program that has little to do does in between: a request of 1,000 short-lived blocks of 16
 * bytes to 48 KiB, most of them small. The checksum depends on the seed alone. */
__attribute__((unused, noinline)) static uint64_t bench_request(uint64_t seed)
{
    unsigned char *block[200];
    uint64_t random = bench_seed(seed, 3), checksum = 0;
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < 200; i++) {
            uint32_t span = i % 20 == 0 ? 48 * 1024 : 512;
            block[i] = bench_block_new(16 + (uint32_t)bench_below(bench_random(&random), span));
        }
        for (unsigned i = 0; i < 200; i++) {
            checksum = bench_mix(checksum, bench_block_check(block[i]));
            free(block[i]);
        }
    }
    return checksum;
}

/* ---- time and memory ---- */

static inline uint64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void bench_sleep_ms(long milliseconds)
{
    struct timespec wait = {milliseconds / 1000, (milliseconds % 1000) * 1000000};
    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        continue;
}

/* The beginning of a file, without stdio, so that a measurement does not allocate. False, and no
 * text: it cannot be read. */
static inline bool bench_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[got < 0 ? 0 : got] = '\0';
    return got > 0;
}

/* Resident memory now. */
static inline uint64_t bench_rss_kb(void)
{
    char text[128];
    if (!bench_read("/proc/self/statm", text, sizeof text))
        bench_die(3, "cannot read /proc/self/statm: %s", strerror(errno));
    const char *second = strchr(text, ' ');
    return second == NULL ? 0 : strtoull(second, NULL, 10) * (BENCH_PAGE_BYTES / BENCH_KIB);
}

/* The same to the page, which takes a walk over all of them: since Linux 6.2 a process's counters
 * lag by up to 31 pages for each kind of page and processor. 0: the system does not tell. */
static inline uint64_t bench_rss_exact_kb(void)
{
    char text[256];
    bool told = bench_read("/proc/self/smaps_rollup", text, sizeof text);
    const char *rss = told ? strstr(text, "Rss:") : NULL;
    return rss == NULL ? 0 : strtoull(rss + strlen("Rss:"), NULL, 10);
}

static inline uint64_t bench_peak_rss_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss;
}

/* ---- the report ---- */

static inline void bench_report(const char *name, uint64_t operations, uint64_t elapsed_ns,
                                uint64_t checksum)
{
    double rate = (double)operations * 1e3 / (double)(elapsed_ns == 0 ? 1 : elapsed_ns);
    printf("%s: %.4g M ops/s, elapsed %" PRIu64 " ns, checksum %016" PRIx64 "\n", name, rate,
           elapsed_ns, checksum);
}

static inline void bench_metric(const char *name, const char *metric, double value,
                                const char *unit)
{
    printf("%s: metric %s %.1f %s\n", name, metric, value, unit);
}

/* How many bytes the program had live at its peak (in a steady state: at its end). */
static inline void bench_live_peak(const char *name, uint64_t bytes)
{
    bench_metric(name, "live_peak", (double)bytes / (double)BENCH_KIB, "kB");
}

/* Call it when the work is freed: resident memory at once, and after BENCH_IDLE_MS (environment;
 * not waited for when it is not set), in which nobody calls the allocator. */
static inline void bench_work_freed(const char *name)
{
    const char *wait = getenv("BENCH_IDLE_MS");
    uint64_t freed = bench_rss_kb();
    bench_metric(name, "rss_freed", (double)freed, "kB");
    if (wait == NULL || *wait == '\0')
        return;
    bench_sleep_ms(strtol(wait, NULL, 10));
    bench_metric(name, "rss_idle", (double)bench_rss_kb(), "kB");
}

/* ---- threads ---- */

static inline pthread_t bench_thread_start(void *(*body)(void *), void *arg, size_t stack_bytes)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack_bytes != 0)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    int error = pthread_create(&thread, &attributes, body, arg);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        bench_die(3, "cannot start a thread: %s", strerror(error));
    return thread;
}

#define BENCH_MAX_THREADS 256

struct bench_starter {
    pthread_barrier_t *gate;
    void (*body)(void *);
    void *arg;
};

static inline void *bench_starter_main(void *arg)
{
    struct bench_starter *starter = (struct bench_starter *)arg;
    pthread_barrier_wait(starter->gate);
    starter->body(starter->arg);
    return NULL;
}

/* Runs body(workers[0..threads-1]) at once and returns the time from the start to the last end.
 * One worker runs in the calling thread: the program then has a single thread. */
static inline uint64_t bench_run_threads(unsigned threads, void (*body)(void *), void *workers,
                                         size_t worker_bytes)
{
    struct bench_starter starters[BENCH_MAX_THREADS];
    pthread_t thread[BENCH_MAX_THREADS];
    pthread_barrier_t gate;
    if (threads == 1) {
        uint64_t begin = bench_now_ns();
        body(workers);
        return bench_now_ns() - begin;
    }
    pthread_barrier_init(&gate, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        starters[i].gate = &gate;
        starters[i].body = body;
        starters[i].arg = (char *)workers + i * worker_bytes;
        thread[i] = bench_thread_start(bench_starter_main, &starters[i], 0);
    }
    uint64_t begin = bench_now_ns();
    pthread_barrier_wait(&gate);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    uint64_t elapsed = bench_now_ns() - begin;
    pthread_barrier_destroy(&gate);
    return elapsed;
}

#endif
