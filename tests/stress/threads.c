/* Stress: what many threads cost in memory.
 *
 *   threads churn N M    creates and ends N threads, M at a time. Each allocates blocks of some
 *                        sizes, frees most, and leaves the rest to be freed by a later one. What
 *                        is resident may grow by less than 1 MiB; with several at a time also by
 *                        what the pool may keep of slots that another thread had.
 *   threads consumer N   16 producers and a thread that only frees pass N blocks; then the same in
 *                        a program in which that thread also allocates. The first may have at most
 *                        1.25 times as much resident as the second.
 *
 * Run with the library preloaded. What the test itself holds is static.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "footprint.h"
#include "shadow.h"
#include "support/api.h"

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

static size_t resident_kib(void)
{
    size_t mapped, resident;
    footprint_now(&mapped, &resident);
    return resident >> 10;
}

static unsigned char *take(size_t size, uint64_t seed)
{
    unsigned char *p = my_malloc(size);
    if (!p)
        shadow_fail(NULL, "malloc(%zu) was refused", size);
    memset(p, (int)(seed & 0xff), size);
    memcpy(p, &size, sizeof size);
    return p;
}

static void give(unsigned char *p)
{
    size_t size;
    memcpy(&size, p, sizeof size);
    for (size_t i = sizeof size; i + 1 < size; i++)
        if (p[i] != p[i + 1])
            shadow_fail(NULL, "byte %zu of a block of %zu bytes was overwritten", i + 1, size);
    my_free(p);
}

/* ---- churn ---- */

enum {
    AT_ONCE_MAX = 64,
    BLOCKS = 40,
    LEFT = 256,
    GROWTH_KIB = 1024,
    KEPT_KIB = 4096,
    WARM_PERCENT = 5
};

static _Atomic(unsigned char *) left[LEFT];

/* What threads of one program do is much alike. (With sizes of 55 classes at random, what is kept
 * of each class adds up over the first 400,000 threads to what the pool may keep, some MiB.) */
static const size_t sizes[] = {16, 24, 40, 64, 100, 200, 350, 520, 1024, 2000, 4000, 9000};

static void *short_life(void *number)
{
    uint64_t random = ((uintptr_t)number + 1) * 0x9e3779b97f4a7c15u;
    unsigned char *mine[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        mine[i] = take(sizes[i % (sizeof sizes / sizeof *sizes)], random);
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *p = mine[i];
        if (i % 8 == 0)
            p = atomic_exchange(&left[next_random(&random) % LEFT], p);
        if (p)
            give(p);
    }
    return NULL;
}

static void some_threads(uintptr_t first, unsigned at_once)
{
    pthread_t ids[AT_ONCE_MAX];
    for (uintptr_t i = 0; i < at_once; i++) {
        int error = pthread_create(&ids[i], NULL, short_life, (void *)(first + i));
        if (error)
            shadow_fail(NULL, "no thread: %s", strerror(error));
    }
    for (unsigned i = 0; i < at_once; i++)
        pthread_join(ids[i], NULL);
}

static void churn(unsigned long count, unsigned at_once)
{
    unsigned long warm = count * WARM_PERCENT / 100, n = 0;
    for (; n < warm; n += at_once)
        some_threads(n, at_once);
    size_t before = resident_kib(), most = before;
    for (; n < count; n += at_once) {
        some_threads(n, at_once);
        size_t now = n / at_once % 64 == 0 ? resident_kib() : 0;
        most = now > most ? now : most;
    }
    size_t after = resident_kib();
    printf(
        "threads: %lu created and ended, %u at a time: %zu KiB resident after the first %lu, %zu at the end, "
        "%zu at most\n",
        n, at_once, before, warm, after, most);
    fflush(stdout);
    if (after > before + GROWTH_KIB + (at_once > 1 ? KEPT_KIB : 0))
        shadow_fail(NULL, "resident memory grew by %zu KiB", after - before);
}

/* ---- a consumer ---- */

enum { PRODUCERS = 16, RING = 1024, SAMPLES = 50, MOST_PERCENT = 125, TRIES = 3 };

static struct ring {
    _Alignas(64) _Atomic(size_t) in, out;
    unsigned char *places[RING];
} rings[PRODUCERS];
static unsigned long each;

static void *produce(void *number)
{
    struct ring *r = &rings[(uintptr_t)number];
    uint64_t random = ((uintptr_t)number + 1) * 0x9e3779b97f4a7c15u;
    for (unsigned long n = 0; n < each; n++) {
        size_t in = atomic_load(&r->in);
        while (in - atomic_load(&r->out) == RING)
            sched_yield();
        r->places[in % RING] = take(16 + next_random(&random) % 1000, random);
        atomic_store(&r->in, in + 1);
    }
    return NULL;
}

static bool consume_some(struct ring *r, bool allocates, uint64_t *random)
{
    size_t in = atomic_load(&r->in), out = atomic_load(&r->out);
    for (size_t at = out; at < in; at++) {
        give(r->places[at % RING]);
        if (allocates)
            give(take(16 + next_random(random) % 1000, *random));
        atomic_store(&r->out, at + 1);
    }
    return in != out;
}

/* The mean of what is resident, without the first half. */
static size_t consume(bool allocates)
{
    uint64_t random = 77;
    unsigned long done = 0, all = each * PRODUCERS, next = all / 2;
    size_t sum = 0, samples = 0;
    while (done < all) {
        bool some = false;
        done = 0;
        for (int i = 0; i < PRODUCERS; i++) {
            some |= consume_some(&rings[i], allocates, &random);
            done += atomic_load(&rings[i].out);
        }
        if (done >= next) {
            sum += resident_kib();
            samples++;
            next = done + all / 2 / SAMPLES;
        }
        if (!some)
            sched_yield();
    }
    return sum / samples;
}

static void *consumer_thread(void *allocates)
{
    return (void *)consume(allocates != NULL);
}

static size_t run_consumer(bool allocates)
{
    pthread_t ids[PRODUCERS], consumer_id;
    for (uintptr_t i = 0; i < PRODUCERS; i++) {
        int error = pthread_create(&ids[i], NULL, produce, (void *)i);
        if (error)
            shadow_fail(NULL, "no thread: %s", strerror(error));
    }
    void *kib = NULL;
    if (pthread_create(&consumer_id, NULL, consumer_thread, allocates ? "" : NULL) != 0)
        shadow_fail(NULL, "no thread");
    pthread_join(consumer_id, &kib);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(ids[i], NULL);
    return (size_t)kib;
}

static size_t in_child(bool allocates)
{
    int ends[2], status = 1;
    size_t kib = 0;
    pid_t pid = pipe(ends) ? -1 : fork();
    if (pid == 0) {
        kib = run_consumer(allocates);
        _exit(write(ends[1], &kib, sizeof kib) != (ssize_t)sizeof kib);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0 ||
        read(ends[0], &kib, sizeof kib) != (ssize_t)sizeof kib)
        shadow_fail(NULL, "the child ended with status %#x", (unsigned)status);
    return kib;
}

/* How much lies about depends on when threads have a processor, and one run may be above the bound
 * (one beside other tests was, none of 200 others). All are if a thread's frees do not come back.
 */
static void consumer(unsigned long count)
{
    size_t frees = 0, allocates = 0;
    each = count / PRODUCERS;
    for (unsigned i = 0; i < TRIES; i++) {
        frees = in_child(false);
        allocates = in_child(true);
        printf("threads: %d producers, %lu blocks: %zu KiB resident with a thread that only frees, "
               "%zu where it also allocates\n",
               PRODUCERS, count, frees, allocates);
        fflush(stdout);
        if (frees * 100 <= allocates * MOST_PERCENT)
            return;
    }
    shadow_fail(NULL, "a thread that only frees costs %zu KiB more", frees - allocates);
}

int main(int argc, char **argv)
{
    unsigned long count = argc >= 3 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long at_once = argc == 4 ? strtoul(argv[3], NULL, 10) : 1;
    shadow_set_command(argc, argv, 0);
    if (!my_api_is_hakmem() && !getenv("HAK_TEST_ANY_ALLOCATOR"))
        shadow_fail(NULL, "this runs without hakmem");
    if (count >= 1000 && at_once - 1 < AT_ONCE_MAX && strcmp(argv[1], "churn") == 0)
        churn(count, (unsigned)at_once);
    else if (count >= 1000 && strcmp(argv[1], "consumer") == 0)
        consumer(count);
    else
        shadow_fail(NULL, "usage: threads churn N M | consumer N   (N from 1000, M to 64)");
    return 0;
}
