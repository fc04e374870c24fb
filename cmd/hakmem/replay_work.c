/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: repeats a plan (plan.h) under the allocator of this process.
 *
 * Threads begin where they began, and none is more than the plan's window of events ahead of
 * another. What this needs besides the allocator's memory, the plan and the table of places, is
 * shared memory, mapped as a whole before the clock starts: it counts neither as private memory nor
 * as page faults. */
#include "replay.h"

#include "util.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define WORK_PAGE_BYTES 4096
/* Blocks from calloc above this are touched at their beginning alone: such tables are often
 * sparse. */
#define WORK_CALLOC_TOUCHED ((uint64_t)128 << 10)

struct work_thread {
    const struct hak_plan_thread *plan;
    pthread_t id;
    _Atomic uint64_t event; /* it has done all that comes before; UINT64_MAX: it has ended */
    uint64_t limit;         /* up to this event it need neither wait nor begin a thread */
    uint32_t running_at;    /* its index among those that run */
    uint32_t next_ended;    /* in the list of those that nobody has joined yet; 0: the last */
};

static struct {
    const struct hak_plan *plan;
    struct hak_replay_run *run;
    enum hak_replay_touch touch;
    _Atomic(void *) *place;
    struct work_thread *thread;
    int statm;
    /* Guards what follows. */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    _Atomic uint32_t waiting;
    uint32_t begun;
    uint32_t *running;
    uint32_t running_count;
    uint32_t ended; /* the first of the list; 0: none, as main's own thread is never joined */
    _Atomic uint64_t failed;
} work = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

/* Stands for a block that the allocator refused. */
static char work_refused;

/* --- whose turn it is --- */

static void *work_thread_main(void *argument);

/* Those that have ended leave nothing but their stack, which is free once they are joined. With the
 * lock held: what they still do needs it no more. */
static void work_join_ended(void)
{
    for (; work.ended != 0; work.ended = work.thread[work.ended].next_ended)
        (void)pthread_join(work.thread[work.ended].id, NULL);
}

static void work_begin_thread(uint32_t number)
{
    struct work_thread *t = &work.thread[number];
    work_join_ended();
    t->running_at = work.running_count;
    work.running[work.running_count++] = number;
    if (number > 0 && pthread_create(&t->id, NULL, work_thread_main, t) != 0)
        hak_die(HAK_EXIT_FAILED, "replay: thread %u of the trace cannot be started", number);
}

/* With which the next thread begins; UINT64_MAX: all have. With the lock held. */
static uint64_t work_next_begin(void)
{
    return work.begun < work.plan->threads ? work.thread[work.begun].plan->first_event : UINT64_MAX;
}

/* The first event that is not done, of all threads but `self`; those that have not begun count.
 * With the lock held. */
static uint64_t work_others(const struct work_thread *self)
{
    uint64_t first = work_next_begin();
    for (uint32_t i = 0; i < work.running_count; i++) {
        const struct work_thread *t = &work.thread[work.running[i]];
        uint64_t event = atomic_load(&t->event);
        if (t != self && event < first)
            first = event;
    }
    return first;
}

/* Begins the threads whose first event comes before this one. With the lock held. */
static void work_begin_due(uint64_t event)
{
    while (work_next_begin() <= event)
        work_begin_thread(work.begun++);
}

/* Waits until the others are near enough. With the lock held.
 *
 * Whoever waits says so before it looks at the others' events, and who moves on stores its event
 * before it looks whether somebody waits (work_turn): both in one order of all such steps
 * (seq_cst), so that either this thread sees the event or the other one wakes it. */
static void work_wait(struct work_thread *self, uint64_t event)
{
    work_begin_due(event);
    atomic_fetch_add(&work.waiting, 1);
    uint64_t others = work_others(self);
    while (others < event && event - others > work.plan->window) {
        (void)pthread_cond_wait(&work.moved, &work.lock);
        others = work_others(self);
    }
    atomic_fetch_sub(&work.waiting, 1);
    uint64_t near = others > UINT64_MAX - work.plan->window ? others : others + work.plan->window;
    uint64_t next = work_next_begin();
    self->limit = next <= near ? next - 1 : near;
}

/* This thread has done all before the event, and may wait before it goes on. */
static void work_turn(struct work_thread *self, uint64_t event)
{
    atomic_store(&self->event, event); /* partner: work_wait */
    if (event <= self->limit && atomic_load(&work.waiting) == 0)
        return;
    (void)pthread_mutex_lock(&work.lock);
    (void)pthread_cond_broadcast(&work.moved);
    work_wait(self, event);
    (void)pthread_mutex_unlock(&work.lock);
}

static void work_end(struct work_thread *self)
{
    (void)pthread_mutex_lock(&work.lock);
    atomic_store_explicit(&self->event, UINT64_MAX, memory_order_relaxed);
    uint32_t last = work.running[--work.running_count];
    work.running[self->running_at] = last;
    work.thread[last].running_at = self->running_at;
    if (self != work.thread) {
        self->next_ended = work.ended;
        work.ended = (uint32_t)(self - work.thread);
    }
    (void)pthread_cond_broadcast(&work.moved);
    (void)pthread_mutex_unlock(&work.lock);
}

/* --- blocks --- */

static void work_touch(char *block, uint64_t size, uint64_t most)
{
    if (work.touch == HAK_REPLAY_TOUCH_NONE || size == 0)
        return;
    if (work.touch == HAK_REPLAY_TOUCH_ALL && most == UINT64_MAX) {
        memset(block, 0x5a, size);
        return;
    }
    uint64_t end = size < most ? size : most;
    for (uint64_t at = 0; at < end; at += WORK_PAGE_BYTES)
        ((volatile char *)block)[at] = 0x5a;
    if (size <= most)
        ((volatile char *)block)[size - 1] = 0x5a;
}

static void work_put(uint32_t place, void *block)
{
    if (block == NULL)
        atomic_fetch_add_explicit(&work.failed, 1, memory_order_relaxed);
    /* Release: whoever takes the block sees what its owner wrote; partner: work_take. */
    atomic_store_explicit(&work.place[place], block == NULL ? &work_refused : block,
                          memory_order_release);
}

/* The block of a place, once it is there: another thread may be about to allocate it. */
static void *work_take(uint32_t place)
{
    void *block;
    while ((block = atomic_load_explicit(&work.place[place], memory_order_acquire)) == NULL)
        (void)sched_yield();
    atomic_store_explicit(&work.place[place], NULL, memory_order_relaxed);
    return block == &work_refused ? NULL : block;
}

static void work_free(uint32_t place, bool reads)
{
    char *block = work_take(place);
    if (block != NULL && reads && work.touch != HAK_REPLAY_TOUCH_NONE)
        (void)*(volatile char *)block;
    free(block);
}

static void work_resize(uint32_t from, uint32_t to, uint64_t size)
{
    void *old = work_take(from);
    void *block = realloc(old, size);
    if (block == NULL && size > 0 && old != NULL) { /* refused: the old one stands for it */
        atomic_fetch_add_explicit(&work.failed, 1, memory_order_relaxed);
        block = old;
    } else if (block != NULL) {
        work_touch(block, size, UINT64_MAX);
    }
    work_put(to, block);
}

/* --- memory --- */

/* Private memory of this process. */
static uint64_t work_private_bytes(void)
{
    char text[128];
    ssize_t length = pread(work.statm, text, sizeof text - 1, 0);
    unsigned long resident = 0;
    unsigned long shared = 0;
    if (length <= 0)
        return 0;
    text[length] = '\0';
    if (sscanf(text, "%*u %lu %lu", &resident, &shared) != 2)
        return 0;
    return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* --- a thread --- */

static void work_thread_run(struct work_thread *self)
{
    const uint64_t *word = hak_plan_words(work.plan) + self->plan->first_word;
    const uint64_t *end = word + self->plan->words;
    while (word < end) {
        uint64_t first = *word++;
        uint32_t place = (uint32_t)first >> HAK_PLAN_WHAT_BITS;
        uint64_t size = first >> HAK_PLAN_SIZE_SHIFT;
        if (size == HAK_PLAN_SIZE_FOLLOWS)
            size = *word++;
        uint64_t touched = UINT64_MAX; /* at most */
        char *block = NULL;
        switch ((enum hak_plan_what)(first & ((1U << HAK_PLAN_WHAT_BITS) - 1))) {
        case HAK_PLAN_MALLOC:
            block = malloc(size);
            break;
        case HAK_PLAN_CALLOC:
            block = calloc(1, size);
            if (size > WORK_CALLOC_TOUCHED)
                touched = 1;
            break;
        case HAK_PLAN_ALIGNED:
            if (posix_memalign((void **)&block, *word < sizeof(void *) ? sizeof(void *) : *word,
                               size) != 0)
                block = NULL;
            word++;
            break;
        case HAK_PLAN_FREE:
            work_free(place, size > 0);
            continue;
        case HAK_PLAN_REALLOC:
            work_resize(place, (uint32_t)*word++, size);
            continue;
        case HAK_PLAN_TURN:
            work_turn(self, *word++);
            continue;
        case HAK_PLAN_SAMPLE:
            work.run->sample_bytes[size] = work_private_bytes();
            continue;
        }
        if (block != NULL)
            work_touch(block, size, touched);
        work_put(place, block);
    }
    work_end(self);
}

static void *work_thread_main(void *argument)
{
    work_thread_run(argument);
    return NULL;
}

/* Begins, when the thread of main has ended, what has not begun; then waits for all. */
static void work_finish(void)
{
    (void)pthread_mutex_lock(&work.lock);
    atomic_fetch_add(&work.waiting, 1); /* as in work_wait */
    while (work.begun < work.plan->threads || work.running_count > 0) {
        uint64_t next = work_next_begin();
        if (next != UINT64_MAX && next <= work_others(NULL))
            work_begin_thread(work.begun++);
        else
            (void)pthread_cond_wait(&work.moved, &work.lock);
    }
    work_join_ended();
    (void)pthread_mutex_unlock(&work.lock);
}

/* --- the process --- */

static void *work_map(int fd, size_t bytes, int protection)
{
    int flags = MAP_SHARED | MAP_POPULATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *memory = mmap(NULL, bytes == 0 ? 1 : bytes, protection, flags, fd, 0);
    if (memory == MAP_FAILED)
        hak_die(HAK_EXIT_FAILED, "replay: there is no memory for the plan of the trace");
    return memory;
}

static uint64_t work_clock_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t work_page_faults(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt;
}

/* The loader passes over a library that it cannot preload. */
static bool work_has_malloc_of(const char *library)
{
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (symbol == NULL || dladdr(symbol, &info) == 0)
        return false;
    char *real = realpath(info.dli_fname, NULL);
    char *wanted = realpath(library, NULL);
    bool same = real != NULL && wanted != NULL && strcmp(real, wanted) == 0;
    free(real);
    free(wanted);
    return same;
}

int hak_replay_work(int argc, char **argv)
{
    if (argc < 4)
        return HAK_EXIT_USAGE;
    if (argc > 4 && !work_has_malloc_of(argv[4]))
        return HAK_REPLAY_EXIT_OTHER_MALLOC;
    int fd = atoi(argv[1]);
    size_t bytes = (size_t)lseek(fd, 0, SEEK_END);
    work.plan = work_map(fd, bytes, PROT_READ);
    work.run = work_map(atoi(argv[2]), sizeof *work.run, PROT_READ | PROT_WRITE);
    work.touch = (enum hak_replay_touch)atoi(argv[3]);
    work.place = work_map(-1, work.plan->places * sizeof *work.place, PROT_READ | PROT_WRITE);
    work.thread = work_map(-1, work.plan->threads * sizeof *work.thread, PROT_READ | PROT_WRITE);
    work.running = work_map(-1, work.plan->threads * sizeof *work.running, PROT_READ | PROT_WRITE);
    work.statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    for (uint32_t i = 0; i < work.plan->threads; i++) {
        work.thread[i].plan = &hak_plan_threads(work.plan)[i];
        atomic_init(&work.thread[i].event, work.thread[i].plan->first_event);
    }
    uint64_t page_faults = work_page_faults();
    uint64_t processor_ns = work_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t began_ns = work_clock_ns(CLOCK_MONOTONIC);
    work_begin_thread(work.begun++);
    work_thread_run(&work.thread[0]);
    work_finish();
    work.run->elapsed_ns = work_clock_ns(CLOCK_MONOTONIC) - began_ns;
    work.run->processor_ns = work_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - processor_ns;
    work.run->page_faults = work_page_faults() - page_faults;
    work.run->failed = atomic_load(&work.failed);
    work.run->end_bytes = work_private_bytes();
    for (uint32_t i = 0; i < work.plan->places; i++)
        if (atomic_load_explicit(&work.place[i], memory_order_relaxed) != NULL)
            work_free(i, false);
    work.run->freed_bytes = work_private_bytes();
    work.run->is_done = 1;
    return EXIT_SUCCESS;
}
