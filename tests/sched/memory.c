/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: memory. Each atomic operation of the allocator arrives here. Under an
 * even seed memory is sequentially consistent. Under an odd one a load may return any value that
 * C11 permits it, as far as that can be had by running: each location keeps its last values, each
 * thread the oldest of them that it may still see, and what a release stores goes with the value to
 * whoever acquires it. Plain accesses (reported by the compiler's instrumentation for
 * ThreadSanitizer, whose runtime this file takes the place of) must be ordered by that.
 *
 * After C. Lidbury and A. Donaldson, "Dynamic Race Detection for C++11" (2017), and W. Luo and
 * B. Demsky, "C11Tester" (2021). Left out: values from the future (load buffering), orders of
 * modification other than that of execution, values older than the last KEPT. */
#include "sched.h"

#include <stdlib.h>
#include <sys/mman.h>

#define LOCATIONS (1u << 14)
#define LIVE_MAX 6000u /* locations used in one run */
#define KEPT 8u
#define VIEW_BYTES ((size_t)64 << 20)
#define SHADOWS (1u << 15)
#define RANGES 128u

/* What a thread knows, or what a release hands on: for each location the oldest value that may
 * still be seen, for each thread how far its plain accesses are known to be over. */
struct view {
    uint32_t clock[SCHED_THREADS];
    uint32_t locations;
    uint32_t oldest[];
};

struct value {
    uint64_t bits;
    const struct view *view; /* NULL: no release stands behind it */
};

struct location {
    uintptr_t address;
    uint32_t run; /* in which it was used last; what follows is of that */
    uint32_t number;
    uint32_t first, last; /* values kept: number i stands in values[i % KEPT] */
    uint32_t sc_oldest;   /* the oldest that a seq_cst load may see */
    struct value values[KEPT];
    /* Learned. */
    uint8_t seen_by, written_by;
    bool shared;
};

struct shadow { /* plain accesses to an address */
    uintptr_t address;
    uint32_t run;
    uint32_t wrote_at, read_at[SCHED_THREADS];
    uint8_t writer;
};

static struct memory {
    struct location locations[LOCATIONS];
    struct shadow shadows[SHADOWS];
    struct view *threads[SCHED_THREADS];
    char *views;
    size_t views_used;
    struct {
        uintptr_t from, to;
    } ranges[RANGES];
    unsigned range_count, thread_count;
    uint32_t run, live;
    bool learning;
    const struct sched_site *last_site[SCHED_THREADS];
} *memory;

static void *memory_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        abort();
    return p;
}

void memory_begin(unsigned threads)
{
    if (memory == NULL) {
        memory = memory_map(sizeof *memory);
        memory->views = memory_map(VIEW_BYTES);
        for (unsigned t = 0; t < SCHED_THREADS; t++)
            memory->threads[t] = memory_map(sizeof(struct view) + LIVE_MAX * sizeof(uint32_t));
    }
    for (unsigned t = 0; t < threads; t++) {
        memset(memory->threads[t], 0, sizeof(struct view) + memory->live * sizeof(uint32_t));
        memory->threads[t]->clock[t] = 1;
        memory->last_site[t] = NULL;
    }
    memory->thread_count = threads;
    memory->run++;
    memory->live = 0;
    memory->views_used = 0;
}

void memory_learn(bool on)
{
    memory->learning = on;
    for (unsigned i = 0; i < LOCATIONS; i++) {
        struct location *l = &memory->locations[i];
        if (on) {
            l->seen_by = l->written_by = 0;
            l->shared = false;
            continue;
        }
        bool several = (l->seen_by & (l->seen_by - 1)) != 0;
        l->shared = several && l->written_by != 0;
    }
}

void memory_watch(const void *from, size_t bytes)
{
    if (memory == NULL || memory->range_count == RANGES)
        abort();
    memory->ranges[memory->range_count].from = (uintptr_t)from;
    memory->ranges[memory->range_count++].to = (uintptr_t)from + bytes;
}

static uint32_t memory_hash(uintptr_t address)
{
    return (uint32_t)((address * 0x9E3779B97F4A7C15u) >> 32);
}

static uint64_t memory_raw(const volatile void *p, size_t bytes)
{
    uint64_t bits = 0;
    (memcpy)(&bits, (const void *)p, bytes);
    return bits;
}

static void memory_raw_store(volatile void *p, size_t bytes, uint64_t bits)
{
    (memcpy)((void *)p, &bits, bytes);
}

static uint64_t memory_mask(size_t bytes)
{
    return bytes == 8 ? UINT64_MAX : (1ull << bytes * 8) - 1;
}

static struct location *memory_find(uintptr_t address)
{
    uint32_t i = memory_hash(address) % LOCATIONS;
    for (unsigned n = 0; n < LOCATIONS; n++, i = (i + 1) % LOCATIONS) {
        struct location *l = &memory->locations[i];
        if (l->address == address)
            return l;
        if (l->address == 0) {
            l->address = address;
            return l;
        }
    }
    abort();
}

/* --- views --- */

static struct view *view_self(void)
{
    return memory->threads[sched_run->self];
}

static uint32_t view_oldest(const struct view *v, const struct location *l)
{
    return l->number < v->locations ? v->oldest[l->number] : 0;
}

static void view_raise(struct view *v, const struct location *l, uint32_t oldest)
{
    for (; v->locations <= l->number; v->locations++)
        v->oldest[v->locations] = 0;
    if (v->oldest[l->number] < oldest)
        v->oldest[l->number] = oldest;
}

static void view_join(struct view *v, const struct view *more)
{
    for (unsigned t = 0; t < SCHED_THREADS; t++)
        if (v->clock[t] < more->clock[t])
            v->clock[t] = more->clock[t];
    for (; v->locations < more->locations; v->locations++)
        v->oldest[v->locations] = 0;
    for (uint32_t i = 0; i < more->locations; i++)
        if (v->oldest[i] < more->oldest[i])
            v->oldest[i] = more->oldest[i];
}

/* What a thread hands on with a release; `before` goes along (a release sequence). */
static const struct view *view_release(const struct view *before)
{
    struct view *v = view_self();
    uint32_t most =
        before != NULL && before->locations > v->locations ? before->locations : v->locations;
    size_t bytes = sizeof *v + most * sizeof(uint32_t);
    if (memory->views_used + bytes > VIEW_BYTES)
        sched_fail("the scheduler's memory is full: the scenario is too long");
    struct view *copy = (struct view *)(void *)(memory->views + memory->views_used);
    memory->views_used += (bytes + 7) & ~(size_t)7;
    (memcpy)(copy, v, sizeof *v + v->locations * sizeof(uint32_t));
    if (before != NULL)
        view_join(copy, before);
    v->clock[sched_run->self]++;
    return copy;
}

/* --- plain accesses --- */

static const char *memory_file(const char *file)
{
    const char *src = strstr(file, "src/");
    return src != NULL ? src : file;
}

static _Noreturn void memory_race(const char *what, uintptr_t address, unsigned other,
                                  const void *where)
{
    const struct sched_site *mine = memory->last_site[sched_run->self];
    const struct sched_site *theirs = memory->last_site[other];
    sched_fail("data race: %s of %p by thread %u at pc %p (its last atomic operation: %s:%d), with "
               "an access of thread %u (now at %s:%d)",
               what, (void *)address, sched_run->self, where,
               mine != NULL ? memory_file(mine->file) : "none", mine != NULL ? mine->line : 0,
               other, theirs != NULL ? memory_file(theirs->file) : "none",
               theirs != NULL ? theirs->line : 0);
}

static struct shadow *memory_shadow(uintptr_t address, bool make)
{
    uint32_t i = memory_hash(address) % SHADOWS;
    for (unsigned n = 0; n < SHADOWS; n++, i = (i + 1) % SHADOWS) {
        struct shadow *s = &memory->shadows[i];
        if (s->run != memory->run) { /* of an earlier run: free */
            if (!make)
                return NULL;
            *s = (struct shadow){.address = address, .run = memory->run};
            return s;
        }
        if (s->address == address)
            return s;
    }
    sched_fail("the scheduler's memory is full: too many plain accesses");
}

static void shadow_check(const struct shadow *s, bool write, const char *what, const void *where)
{
    const struct view *v = view_self();
    if (s->wrote_at > v->clock[s->writer] && s->writer != sched_run->self)
        memory_race(what, s->address, s->writer, where);
    for (unsigned t = 0; t < SCHED_THREADS && write; t++)
        if (t != sched_run->self && s->read_at[t] > v->clock[t])
            memory_race(what, s->address, t, where);
}

void memory_plain(const void *p, size_t bytes, bool write, const void *where)
{
    (void)bytes;
    if (sched_run == NULL || sched_run->self == SCHED_THREADS || !sched_run->weak)
        return;
    struct shadow *s = memory_shadow((uintptr_t)p, true);
    uint32_t now = view_self()->clock[sched_run->self];
    shadow_check(s, write, write ? "write" : "read", where);
    if (write) {
        s->writer = (uint8_t)sched_run->self;
        s->wrote_at = now;
    } else {
        s->read_at[sched_run->self] = now;
    }
}

void memory_instrumented(const void *p, size_t bytes, bool write, const void *where)
{
    uintptr_t at = (uintptr_t)p;
    if (sched_run == NULL || sched_run->self == SCHED_THREADS || !sched_run->weak)
        return;
    for (unsigned i = 0; i < memory->range_count; i++) {
        if (at < memory->ranges[i].from || at >= memory->ranges[i].to)
            continue;
        for (size_t done = 0; done < bytes; done += 8)
            memory_plain((const char *)p + done, bytes, write, where);
        return;
    }
}

void sched_wrote(const void *p, size_t bytes)
{
    memory_instrumented(p, bytes, true, __builtin_return_address(0));
}

void sched_read(const void *p, size_t bytes)
{
    memory_instrumented(p, bytes, false, __builtin_return_address(0));
}

/* --- atomic operations --- */

static bool is_acquire(enum sched_order order)
{
    return order == SCHED_ORDER_acquire || order >= SCHED_ORDER_acq_rel;
}

static bool is_release(enum sched_order order)
{
    return order >= SCHED_ORDER_release;
}

static void location_open(struct location *l, uint64_t bits)
{
    if (memory->live == LIVE_MAX)
        sched_fail("the scheduler's memory is full: too many locations");
    l->run = memory->run;
    l->number = memory->live++;
    l->first = l->last = 1;
    l->sc_oldest = 1;
    l->values[1] = (struct value){bits, NULL};
}

static void location_append(struct location *l, uint64_t bits, const struct view *view)
{
    l->last++;
    if (l->last - l->first >= KEPT)
        l->first++;
    l->values[l->last % KEPT] = (struct value){bits, view};
}

/* Before every operation of a logical thread: somebody else may go on; then the location. */
static struct location *memory_enter(const volatile void *p, size_t bytes, bool write,
                                     const struct sched_site *site)
{
    struct location *l = memory_find((uintptr_t)p);
    if (memory->learning) {
        l->seen_by |= (uint8_t)(1u << sched_run->self);
        if (write)
            l->written_by |= (uint8_t)(1u << sched_run->self);
    }
    if (l->shared || sched_run->every_operation)
        sched_before_operation();
    memory->last_site[sched_run->self] = site;
    sched_run->steps++;
    if (!sched_run->weak)
        return l;
    uint64_t bits = memory_raw(p, bytes);
    if (l->run != memory->run) {
        location_open(l, bits);
    } else if (l->values[l->last % KEPT].bits != bits) { /* a plain write came between */
        location_append(l, bits, NULL);
        l->first = l->last;
    }
    const struct shadow *s = memory_shadow((uintptr_t)p, false);
    if (s != NULL)
        shadow_check(s, false, "atomic operation", site);
    return l;
}

/* Chooses the value that is read, at least number `oldest`. */
static uint32_t location_choose(const struct location *l, uint32_t oldest)
{
    if (oldest < l->first)
        oldest = l->first;
    if (oldest >= l->last || sched_random(2) == 0)
        return l->last;
    return oldest + sched_random(l->last - oldest + 1);
}

static uint32_t location_read(struct location *l, enum sched_order order)
{
    uint32_t oldest = view_oldest(view_self(), l);
    if (order == SCHED_ORDER_seq_cst && oldest < l->sc_oldest)
        oldest = l->sc_oldest;
    return location_choose(l, oldest);
}

static void location_saw(struct location *l, uint32_t n, enum sched_order order)
{
    const struct value *v = &l->values[n % KEPT];
    view_raise(view_self(), l, n);
    if (order == SCHED_ORDER_seq_cst && l->sc_oldest < n)
        l->sc_oldest = n;
    if (is_acquire(order) && v->view != NULL)
        view_join(view_self(), v->view);
}

static void location_write(struct location *l, uint64_t bits, const struct view *before,
                           enum sched_order order)
{
    view_raise(view_self(), l, l->last + 1);
    location_append(l, bits, is_release(order) ? view_release(before) : before);
    if (order == SCHED_ORDER_seq_cst)
        l->sc_oldest = l->last;
}

static bool memory_is_direct(void)
{
    return sched_run == NULL || sched_run->self == SCHED_THREADS;
}

static const char *memory_order_name(enum sched_order order)
{
    static const char *const names[] = {"relaxed", "acquire", "release", "acq_rel", "seq_cst"};
    return names[order];
}

static void memory_trace(const struct sched_site *site, uint64_t before, uint64_t after,
                         const struct location *l, uint32_t n)
{
    if (!sched_run->traced)
        return;
    char stale[32] = "";
    if (sched_run->weak && n != 0 && n != l->last)
        snprintf(stale, sizeof stale, "  (%u values old)", l->last - n);
    sched_note("%-8s %-7s %-44s 0x%llx -> 0x%llx%s  %s:%d", site->operation,
               memory_order_name(site->order), site->place, (unsigned long long)before,
               (unsigned long long)after, stale, memory_file(site->file), site->line);
}

uint64_t sched_load(const volatile void *p, size_t bytes, const struct sched_site *site)
{
    if (memory_is_direct())
        return memory_raw(p, bytes);
    struct location *l = memory_enter(p, bytes, false, site);
    uint64_t bits = memory_raw(p, bytes);
    uint32_t n = 0;
    if (sched_run->weak) {
        n = location_read(l, site->order);
        bits = l->values[n % KEPT].bits;
        location_saw(l, n, site->order);
    }
    memory_trace(site, bits, bits, l, n);
    return bits;
}

void sched_store(volatile void *p, size_t bytes, uint64_t value, const struct sched_site *site)
{
    value &= memory_mask(bytes);
    if (memory_is_direct()) {
        memory_raw_store(p, bytes, value);
        return;
    }
    struct location *l = memory_enter(p, bytes, true, site);
    memory_trace(site, memory_raw(p, bytes), value, l, 0);
    if (sched_run->weak)
        location_write(l, value, NULL, site->order);
    memory_raw_store(p, bytes, value);
}

static uint64_t change_apply(enum sched_change change, uint64_t bits, uint64_t value)
{
    switch (change) {
    case SCHED_CHANGE_add:
        return bits + value;
    case SCHED_CHANGE_sub:
        return bits - value;
    case SCHED_CHANGE_or:
        return bits | value;
    case SCHED_CHANGE_and:
        return bits & value;
    case SCHED_CHANGE_set:
        break;
    }
    return value;
}

uint64_t sched_change(volatile void *p, size_t bytes, enum sched_change change, uint64_t value,
                      const struct sched_site *site)
{
    bool direct = memory_is_direct();
    struct location *l = direct ? NULL : memory_enter(p, bytes, true, site);
    uint64_t before = memory_raw(p, bytes);
    uint64_t after = change_apply(change, before, value) & memory_mask(bytes);
    if (!direct && sched_run->weak) {
        const struct view *view = l->values[l->last % KEPT].view;
        location_saw(l, l->last, site->order);
        location_write(l, after, view, site->order);
    }
    memory_raw_store(p, bytes, after);
    if (!direct)
        memory_trace(site, before, after, l, 0);
    return before;
}

/* A compare-and-swap that fails may have read an old value, as a relaxed load may. */
static bool cas_fails(struct location *l, uint64_t expected, uint64_t *found)
{
    uint64_t newest = *found;
    if (!sched_run->weak || (newest == expected && sched_random(8) != 0))
        return newest != expected;
    uint32_t n = location_choose(l, view_oldest(view_self(), l));
    if (l->values[n % KEPT].bits == expected)
        n = l->last;
    *found = l->values[n % KEPT].bits;
    if (*found == expected)
        return false;
    location_saw(l, n, SCHED_ORDER_relaxed);
    return true;
}

bool sched_cas(volatile void *p, size_t bytes, void *expected, uint64_t value,
               const struct sched_site *site)
{
    uint64_t want = memory_raw(expected, bytes);
    value &= memory_mask(bytes);
    if (memory_is_direct()) {
        uint64_t found = memory_raw(p, bytes);
        memory_raw_store(found == want ? p : expected, bytes, found == want ? value : found);
        return found == want;
    }
    struct location *l = memory_enter(p, bytes, true, site);
    uint64_t found = memory_raw(p, bytes);
    if (cas_fails(l, want, &found)) {
        memory_trace(site, found, found, l, 0);
        memory_raw_store(expected, bytes, found);
        return false;
    }
    memory_trace(site, found, value, l, 0);
    if (sched_run->weak) {
        const struct view *view = l->values[l->last % KEPT].view;
        location_saw(l, l->last, site->order);
        location_write(l, value, view, site->order);
    }
    memory_raw_store(p, bytes, value);
    return true;
}
