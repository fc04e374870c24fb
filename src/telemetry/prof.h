/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: the heap profile: sampled blocks by call stack. What is sampled is decided by heap
 * (heap/profile.c), which counts the bytes; here the samples are weighted, added up and written.
 *
 * The estimator: bytes are a line on which sample points lie at distances that are exponentially
 * distributed with mean T (a Poisson process). A block of s bytes is a sample if a point lies in
 * it: with probability p = 1 - exp(-s / T). Each sample counts as 1 / p blocks of s bytes, so the
 * expectation of the sum over samples is the sum over all blocks (D. G. Horvitz and D. J.
 * Thompson, "A Generalization of Sampling Without Replacement from a Finite Universe", 1952).
 *
 * All functions: any thread. No locks, nothing is allocated but at the start, so a fork or a signal
 * at any moment leaves a profile that can be used. */
#pragma once

#include "cache/cache.h"

#define HAK_PROF_FRAMES 64u
#define HAK_PROF_SITES 16384u
#define HAK_PROF_STACK_WORDS ((size_t)512 << 10) /* addresses of all stacks together */
#define HAK_PROF_DEFAULT_PERIOD ((uint64_t)512 << 10)
#define HAK_PROF_LEAST_PERIOD ((uint64_t)64)
#define HAK_PROF_MOST_PERIOD ((uint64_t)1 << 40)

/* Objects are counted in parts: weights are not whole numbers. */
#define HAK_PROF_OBJECT_SHIFT 16

struct hak_prof_count {
    _Atomic(uint64_t) objects; /* << HAK_PROF_OBJECT_SHIFT */
    _Atomic(uint64_t) bytes, samples;
};

struct hak_prof_site {
    uint64_t hash;
    uint32_t stack, depth; /* its addresses: where in the words of all stacks, and how many */
    struct hak_prof_count allocated, freed;
};

/* What may be asked from outside of the process (enum hak_root_request): what to do, in the lowest
 * bits, and the period above them. */
enum hak_prof_request { HAK_PROF_ASK_START = 1, HAK_PROF_ASK_STOP = 2, HAK_PROF_ASK_DUMP = 3 };
#define HAK_PROF_ASK_SHIFT 2

/* Everything, for readers outside of the process too. */
struct hak_prof {
    _Atomic(bool) on;
    _Atomic(uint64_t) period_bytes; /* 0: never started */
    _Atomic(uint32_t) sites;        /* in use; number 0 is none, 1 is all that found no room */
    _Atomic(uint32_t) words;
    _Atomic(uint32_t) refused; /* starts that were asked for from outside and failed */
    struct hak_prof_site *site;
    uintptr_t *stacks;
    _Atomic(uint32_t) *index; /* by hash: numbers of sites */
};
extern HAK_HIDDEN struct hak_prof hak_prof;

static inline bool hak_prof_is_on(void)
{
    return hak_load_relaxed(&hak_prof.on);
}

/* 0: never started. */
static inline uint64_t hak_prof_period(void)
{
    return hak_load_acquire(&hak_prof.period_bytes); /* ORDER: [prof-tables] */
}

/* Makes the tables, the first time. Returns 0, ENOMEM, or EINVAL: the period is out of range or not
 * that of the first time. From now on samples are taken in. */
int hak_prof_start(uint64_t period_bytes);
void hak_prof_stop(void);
void hak_prof_fork_child(void);

/* Bytes to the next sample point; *random is the thread's own, never 0. */
int64_t hak_prof_distance(uint64_t *random);
uint64_t hak_prof_seed(void);

/* What a sample of so many bytes stands for. */
struct hak_prof_weight {
    uint64_t objects, bytes; /* as in struct hak_prof_count */
};
struct hak_prof_weight hak_prof_weigh(uint64_t bytes, uint64_t period_bytes);

/* Takes in a sample of the calling thread's stack. Returns its site, for hak_prof_freed. */
uint32_t hak_prof_sampled(size_t bytes);
void hak_prof_freed(uint32_t site, size_t bytes);

/* Where the profile goes when nobody says: a path in which %p stands for the number of the process
 * and %n for that of the dump. Cut off behind HAK_PROF_PATH_BYTES - 1. Before threads start. */
#define HAK_PROF_PATH_BYTES 1024u
void hak_prof_set_path(const char *pattern);
/* `path`, of HAK_PROF_PATH_BYTES, is what a pattern stands for now. NULL: the one that was set.
 * False: it is longer, and cut off. */
bool hak_prof_expand(const char *pattern, char *path);
/* Writes the profile as text (docs/profiling.md describes it). NULL: to the path that was set.
 * Returns 0 or an errno; ENODATA: it was never started. */
int hak_prof_write(const char *path);
/* The profile without what is mapped, to an open file, as that of process `pid`. Returns 0 or an
 * errno. */
int hak_prof_write_sites(int file, uint64_t pid);
/* What was allocated and is not freed, as far as samples tell, by site, the largest first, on
 * stderr. */
void hak_prof_report_leaks(void);
