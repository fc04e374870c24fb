/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: runs the real pool, slab and cache code with a few logical threads, one
 * at a time; who goes on at each atomic operation, and which of the values that C11 permits a load
 * returns, follows from a seed. See docs/scheduler.md.
 *
 * What scenarios call, and what the parts of the scheduler share. All of it runs in one thread of
 * the system; the logical threads have stacks of their own. */
#pragma once

#include "hook.h"

#include <stdarg.h>
#include <stdio.h>

#define SCHED_THREADS 4u

struct scenario {
    const char *name, *what;
    unsigned threads;
    void (*setup)(void);       /* before them; nobody else runs */
    void (*run)(unsigned who); /* each logical thread, 0 to threads - 1 */
    void (*between)(void);     /* after each switch; NULL: nothing to be checked there */
    void (*check)(void);       /* after them */
};

/* The scenario has failed under this seed; does not return. */
_Noreturn void sched_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define SCHED_CHECK(condition, format, ...)                                                        \
    do {                                                                                           \
        if (!(condition))                                                                          \
            sched_fail("not so: %s: " format, #condition, ##__VA_ARGS__);                          \
    } while (0)

/* A number below `limit` that follows from the seed. */
unsigned sched_random(unsigned limit);
/* The running logical thread; SCHED_THREADS outside of them. */
unsigned sched_self(void);
/* Another thread may go on here. */
void sched_point(const char *what);
/* A line of the trace. */
void sched_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- sched.c: what main.c and memory.c need of it --- */

/* Once, before everything else. */
void sched_begin(const char *program, bool traced);
/* Runs `count` seeds from first on, each `step` after the one before; the first that fails is the
 * last, and is reported. */
bool sched_scenario(const struct scenario *scenario, uint64_t first, uint64_t count, uint64_t step);

extern struct sched_run {
    uint64_t seed;
    unsigned self; /* SCHED_THREADS: none of them runs */
    bool traced, weak, every_operation;
    uint64_t steps, points;
} *sched_run;

/* Before an operation on memory that several threads use. */
void sched_before_operation(void);

/* --- memory.c --- */

void memory_begin(unsigned threads);
/* From on to off it is learned which memory several threads use. That stays until the next time. */
void memory_learn(bool on);
/* Plain accesses are watched in these ranges only. */
void memory_watch(const void *from, size_t bytes);
/* A plain access of the program's, and one of the allocator's, which counts in those ranges. */
void memory_plain(const void *p, size_t bytes, bool write, const void *where);
void memory_instrumented(const void *p, size_t bytes, bool write, const void *where);

/* --- sim_os.c --- */

/* Everything as it was before the first call. */
void sim_os_reset(void);
/* 8 until then: more than there are threads. */
void sim_os_set_processors(unsigned processors);
void sim_os_set_time_ns(uint64_t now_ns);
uint64_t sim_os_time_ns(void);
/* From now on the system refuses to unmap, or to purge. */
void sim_os_refuse(bool unmap, bool purge);
bool sim_os_refuses(void);
/* Called when a range of the window is purged or unmapped: before, between and after. */
void sim_os_on_discard(void (*call)(const char *at, size_t bytes));
/* A slot's pages are mapped; they do not read as zero. */
bool sim_os_is_mapped(size_t slot);
bool sim_os_is_used(size_t slot);
void sim_os_use(size_t slot);
/* Somebody is giving the slot's pages back. */
bool sim_os_is_discarding(size_t slot);
