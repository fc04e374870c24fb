/* Stress: random operations by many threads, each block with a shadow record.
 *
 *   lane       a seed, an array of records, and one thread after another that works on them: a
 * thread that ends leaves its live blocks to the next exchange   records that lanes swap with
 * theirs: this is how a block comes to be freed, grown or checked by a thread that did not allocate
 * it
 *
 * What is checked: alignment, usable size (also that it stays), calloc's zeros, the pattern before
 * every free and realloc, what realloc kept, and now and then in between. The choices of each lane
 * come from its seed alone; how the lanes interleave is the machine's affair.
 *
 * Run with the library preloaded, or built against the prefixed one. The records live in mappings
 * of their own, never in the memory under test. SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "footprint.h"
#include "options.h"
#include "refusal.h"
#include "shadow.h"
#include "support/api.h"
#include "support/bytes.h"

enum {
    BURST = 4096,
    CHILD_OPS = 1000,
    HANG_SECONDS = 60,
    START_TRIES = 1000,
    REFUSED_STACK_BYTES = 128 << 10
};

struct lane {
    unsigned number;
    unsigned lives_left;
    uint64_t random;
    uint64_t serial;
    uint64_t ops, refused; /* done */
    struct block **records;
    void *burst[BURST];
};

static struct stress_options options;
static _Atomic(struct block *) *exchange;
static _Atomic size_t live_bytes, peak_bytes;
static atomic_bool time_is_up;
static sem_t lane_ended;

static uint64_t next_random(struct lane *lane)
{
    uint64_t x = lane->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    lane->random = x;
    return x * 0x2545f4914f6cdd1du;
}

/* One in n. */
static bool chance(struct lane *lane, unsigned n)
{
    return next_random(lane) % n == 0;
}

/* ---- sizes: mostly small, every range present, each magnitude alike within a range ---- */

static size_t magnitude(struct lane *lane, unsigned from, unsigned to)
{
    size_t base = (size_t)1 << (from + next_random(lane) % (to - from));
    return base + next_random(lane) % base;
}

static size_t pick_size(struct lane *lane)
{
    if (options.sizes_count)
        return options.sizes[next_random(lane) % options.sizes_count];
    size_t left = options.max_bytes > live_bytes ? options.max_bytes - live_bytes : 0;
    unsigned r = (unsigned)(next_random(lane) % 1000);
    size_t size = r < 5     ? 0
                  : r < 850 ? magnitude(lane, 0, 9)
                  : r < 960 ? magnitude(lane, 9, 13)
                  : r < 990 ? magnitude(lane, 13, 16)
                  : r < 998 ? magnitude(lane, 16, 20)
                            : magnitude(lane, 20, 24);
    return size <= left / 4 ? size : next_random(lane) % 256;
}

static size_t pick_align(struct lane *lane)
{
    unsigned shift = chance(lane, 8) ? 4 + (unsigned)(next_random(lane) % 18) /* up to 2 MiB */
                                     : 4 + (unsigned)(next_random(lane) % 6);
    return (size_t)1 << shift;
}

/* ---- one operation on one record ---- */

static void account(size_t more, size_t less)
{
    size_t now = atomic_fetch_add(&live_bytes, more - less) + more - less;
    size_t peak = peak_bytes;
    while (now > peak && now <= SIZE_MAX / 2 &&
           !atomic_compare_exchange_weak(&peak_bytes, &peak, now))
        continue;
}

static bool refused(struct lane *lane, const char *what, size_t size)
{
    if (!options.allow_enomem)
        shadow_fail(NULL, "lane %u: %s of %zu bytes was refused, errno %d", lane->number, what,
                    size, errno);
    if (errno != ENOMEM)
        shadow_fail(NULL, "lane %u: %s was refused with errno %d", lane->number, what, errno);
    lane->refused++;
    return true;
}

static void check_zero(const struct block *b, const unsigned char *p, size_t size)
{
    size_t i = size <= 65536 ? bytes_alike(p, size, 0) : 0;
    for (; i < size; i += 61)
        if (p[i])
            shadow_fail(b, "calloc(%zu) gave %p, and byte %zu is %#x", size, (const void *)p, i,
                        p[i]);
}

static void *take_aligned(struct lane *lane, struct block *b, size_t size, size_t *align)
{
    void *p = NULL;
    *align = pick_align(lane);
    switch (next_random(lane) % 6) {
    case 0:
        p = my_memalign(*align, size);
        break;
    case 1:
    case 2:
        errno = my_posix_memalign(&p, *align, size);
        break;
    case 3:
        *align = 4096;
        p = chance(lane, 2) ? my_valloc(size) : my_pvalloc(size);
        break;
    default:
        p = my_aligned_alloc(*align, size);
        b->aligned_sized = true;
    }
    return p;
}

static void take(struct lane *lane, struct block *b)
{
    size_t size = pick_size(lane), align = 16;
    unsigned way = (unsigned)(next_random(lane) % 100);
    void *p;
    b->sized = way < 88;
    b->aligned_sized = false;
    if (way < 65)
        p = my_malloc(size);
    else if (way < 80)
        p = my_calloc(1 + size % 3, size / (1 + size % 3) + 1),
        size = (1 + size % 3) * (size / (1 + size % 3) + 1);
    else if (way < 85)
        p = my_realloc(NULL, size);
    else if (way < 88)
        p = my_reallocarray(NULL, 1, size);
    else
        p = take_aligned(lane, b, size, &align);
    if (!p) {
        refused(lane, "an allocation", size);
        return;
    }
    if (way >= 65 && way < 80)
        check_zero(b, p, size);
    shadow_begin(b, p, size, align, ++lane->serial * STRESS_THREADS_MAX + lane->number,
                 lane->number);
    account(b->usable, 0);
}

/* Found before there are threads. */
static my_free_sized_fn *sized_free;
static my_free_aligned_sized_fn *aligned_sized_free;

static void give(struct lane *lane, struct block *b)
{
    shadow_check_all(b);
    account(0, b->usable);
    void *p = b->p;
    b->p = NULL;
    uint64_t r = next_random(lane);
    if (b->sized && r % 4 == 0 && sized_free)
        sized_free(p, b->size);
    else if (b->aligned_sized && r % 2 && aligned_sized_free)
        aligned_sized_free(p, b->align, b->size);
    else if (b->sized && r % 64 == 1 && my_realloc(p, 0) == NULL)
        return;
    else if (!(b->sized && r % 64 == 1))
        my_free(p);
    else
        shadow_fail(b, "realloc to 0 gave a block");
}

static void resize(struct lane *lane, struct block *b)
{
    shadow_check_all(b);
    size_t size =
        chance(lane, 3) ? pick_size(lane) + 1 : b->size / 2 + next_random(lane) % (b->size + 2);
    size = size ? size : 1;
    if (options.sizes_count)
        size = pick_size(lane) + 1;
    if (chance(lane, 50) && !my_realloc(b->p, SIZE_MAX / 2 + size))
        shadow_check_all(b); /* a refused realloc changes nothing */
    size_t old = b->usable;
    void *p = my_realloc(b->p, size);
    if (!p) {
        refused(lane, "a realloc", size);
        shadow_check_all(b);
        return;
    }
    shadow_check(b, p, size < b->size ? size : b->size);
    b->sized = true;
    b->aligned_sized = false;
    shadow_begin(b, p, size, 16, ++lane->serial * STRESS_THREADS_MAX + lane->number, lane->number);
    account(b->usable, old);
}

/* Many blocks of one size at once, given back in order, in reverse or mixed: refills, drains, and
 * slabs that become empty. */
static void burst(struct lane *lane)
{
    size_t size = chance(lane, 4) ? magnitude(lane, 9, 14) : magnitude(lane, 0, 9);
    if (options.sizes_count)
        size = options.sizes[next_random(lane) % options.sizes_count];
    size_t count = next_random(lane) % BURST, order = next_random(lane) % 3, taken = 0;
    if (count * size > options.max_bytes / options.threads / 2)
        count = options.max_bytes / options.threads / 2 / (size + 1);
    for (; taken < count; taken++) {
        lane->burst[taken] = my_malloc(size);
        if (!lane->burst[taken] && refused(lane, "a burst", size))
            break;
        memset(lane->burst[taken], (int)taken & 0xff, size);
    }
    for (size_t i = taken; order == 2 && i > 1; i--) {
        size_t k = next_random(lane) % i;
        void *swap = lane->burst[i - 1];
        lane->burst[i - 1] = lane->burst[k];
        lane->burst[k] = swap;
    }
    for (size_t i = 0; i < taken; i++) {
        unsigned char *p = lane->burst[order == 1 ? taken - 1 - i : i];
        if (size && (p[0] != p[size - 1] || p[size / 2] != p[0]))
            shadow_fail(NULL, "lane %u: a block of %zu bytes in a burst of %zu was overwritten",
                        lane->number, size, count);
        my_free(p);
    }
    lane->ops += 2 * taken;
}

static void one_operation(struct lane *lane)
{
    struct block **mine = &lane->records[next_random(lane) % options.records];
    struct block *b = *mine;
    unsigned r = (unsigned)(next_random(lane) % 1000);
    lane->ops++;
    if (r < 150)
        *mine = atomic_exchange(&exchange[next_random(lane) % options.records], b);
    else if (r == 999 && chance(lane, 20))
        burst(lane);
    else if (r == 998 && chance(lane, 200))
        my_malloc_trim(0);
    else if (r == 997 && chance(lane, 20))
        (void)my_bytes_in_use();
    else if (!b->p)
        take(lane, b);
    else if (r < 750)
        give(lane, b);
    else if (r < 930)
        resize(lane, b);
    else
        shadow_check_all(b);
}

/* ---- lanes ---- */

static void *lane_thread(void *arg);

/* False if there is no memory for a thread and that is allowed. */
static bool lane_start_thread(struct lane *lane)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (options.refuse_errno) /* libc aborts when it cannot unmap stacks of more than 40 MiB */
        pthread_attr_setstacksize(&attributes, REFUSED_STACK_BYTES);
    int error = pthread_create(&thread, &attributes, lane_thread, lane);
    pthread_attr_destroy(&attributes);
    if (error && !((error == EAGAIN || error == ENOMEM) && options.allow_enomem))
        shadow_fail(NULL, "lane %u: no thread: %s", lane->number, strerror(error));
    if (!error)
        pthread_detach(thread);
    return !error;
}

static void lane_life(struct lane *lane)
{
    uint64_t until = options.seconds
                         ? UINT64_MAX
                         : options.ops / options.lives * (options.lives - lane->lives_left + 1);
    uint64_t at_most = lane->ops + options.ops / options.lives + 1;
    while (lane->ops < until && !time_is_up && (!options.seconds || lane->ops < at_most))
        one_operation(lane);
}

static void *lane_thread(void *arg)
{
    struct lane *lane = arg;
    bool more;
    do { /* goes on itself if no thread can be had */
        lane_life(lane);
        more = options.seconds ? !time_is_up : --lane->lives_left > 0;
    } while (more && !lane_start_thread(lane));
    if (!more)
        sem_post(&lane_ended);
    return NULL;
}

static void *map_records(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        shadow_fail(NULL, "no memory for %zu bytes of records", bytes);
    return p;
}

static struct lane *make_lanes(void)
{
    struct lane *lanes = map_records(sizeof(struct lane) * options.threads);
    size_t count = (size_t)options.records * (options.threads + 1);
    struct block *records = map_records(sizeof(struct block) * count);
    struct block **places = map_records(sizeof(struct block *) * count);
    for (unsigned i = 0; i < options.threads; i++, places += options.records) {
        lanes[i].number = i;
        lanes[i].lives_left = options.lives;
        lanes[i].random = (options.seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
        lanes[i].random |= lanes[i].random == 0;
        lanes[i].records = places;
        for (unsigned k = 0; k < options.records; k++)
            places[k] = records++;
    }
    exchange = (_Atomic(struct block *) *)places;
    for (unsigned k = 0; k < options.records; k++)
        exchange[k] = records++;
    return lanes;
}

static void give_everything(struct lane *lanes)
{
    for (unsigned i = 0; i < options.threads; i++)
        for (unsigned k = 0; k < options.records; k++)
            if (lanes[i].records[k]->p)
                give(&lanes[0], lanes[i].records[k]);
    for (unsigned k = 0; k < options.records; k++)
        if (exchange[k]->p)
            give(&lanes[0], exchange[k]);
    if (live_bytes != 0)
        shadow_fail(NULL, "the test's own account is wrong by %zu bytes", (size_t)live_bytes);
}

/* ---- fork ---- */

/* The child's only thread allocates, frees, and touches no record: their owners do not exist here.
 */
_Noreturn static void child_main(unsigned number)
{
    static struct lane lane;
    static struct block own[64];
    alarm(HANG_SECONDS);
    lane.random = options.seed * 31 + number + 1;
    lane.number = STRESS_THREADS_MAX - 1;
    for (unsigned i = 0; i < CHILD_OPS; i++) {
        struct block *b = &own[next_random(&lane) % 64];
        if (b->p)
            give(&lane, b);
        else
            take(&lane, b);
    }
    _exit(0);
}

static void fork_once(unsigned number)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        child_main(number);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        shadow_fail(NULL, "fork %u: %s", number, strerror(errno));
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        shadow_fail(NULL, "fork %u: the child hangs", number);
    if (status != 0)
        shadow_fail(NULL, "fork %u: the child ended with status %#x", number, (unsigned)status);
}

/* ---- main ---- */

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t operations(const struct lane *lanes)
{
    uint64_t ops = 0;
    for (unsigned i = 0; i < options.threads; i++)
        ops += lanes[i].ops; /* read while the lane runs: half-way is half-way enough */
    return ops;
}

static bool is_half_way(const struct lane *lanes, double begin)
{
    return options.seconds ? seconds_now() - begin > options.seconds / 2.0
                           : operations(lanes) > options.ops * options.threads / 2;
}

static unsigned wait_for_lanes(const struct lane *lanes, double begin)
{
    unsigned ended = 0, forks = 0;
    bool refusing = options.refuse_errno == 0;
    while (ended < options.threads) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        ended += sem_timedwait(&lane_ended, &until) == 0;
        if (options.seconds && seconds_now() - begin > options.seconds)
            time_is_up = true;
        if (options.footprint)
            footprint_sample((seconds_now() - begin) / options.seconds, live_bytes);
        if (!refusing && (is_half_way(lanes, begin) || ended)) {
            refusal_begin(options.refuse_errno);
            refusing = true;
        }
        if (options.fork)
            fork_once(forks++);
    }
    return forks;
}

static void start_lanes(struct lane *lanes)
{
    for (unsigned i = 0; i < options.threads; i++) {
        unsigned tries = 1;
        while (!lane_start_thread(&lanes[i])) {
            if (++tries > START_TRIES)
                shadow_fail(NULL, "no memory for a thread, %u times in a row", tries);
            usleep(1000);
        }
    }
}

int main(int argc, char **argv)
{
    stress_options_parse(&options, argc, argv);
    shadow_set_command(argc, argv, options.seed);
    if (!my_api_is_hakmem() && !getenv("HAK_TEST_ANY_ALLOCATOR"))
        shadow_fail(
            NULL,
            "this runs without hakmem (set HAK_TEST_ANY_ALLOCATOR=1 to test another allocator)");
    sized_free = my_find_free_sized();
    aligned_sized_free = my_find_free_aligned_sized();
    sem_init(&lane_ended, 0, 0);
    struct lane *lanes = make_lanes();
    if (options.refuse_errno)
        refusal_prepare();
    double begin = seconds_now();
    start_lanes(lanes);
    unsigned forks = wait_for_lanes(lanes, begin);
    uint64_t refusals = 0;
    for (unsigned i = 0; i < options.threads; i++)
        refusals += lanes[i].refused;
    if (options.footprint)
        footprint_judge(options.seconds, live_bytes);
    give_everything(lanes);
    if (options.refuse_errno)
        refusal_check();
    if (options.recover)
        refusal_recover();
    printf("stress: %llu operations by %u threads in %.1f s, at most %zu MiB live, %u forks, "
           "%llu refused, seed %llu: all blocks were intact\n",
           (unsigned long long)operations(lanes), options.threads, seconds_now() - begin,
           (size_t)peak_bytes >> 20, forks, (unsigned long long)refusals,
           (unsigned long long)options.seed);
    return 0;
}
