/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: what its files share. */
#pragma once

#include "heap/heap.h"
#include "os/trace.h"
#include "policy/policy.h"
#include "space/failure.h"

struct hak_options {
    bool stats;       /* a summary on stderr at exit */
    bool stage_stats; /* the pool's stages on stderr at exit */
    uint64_t superslab_max_cached;
    uint64_t superslab_max_memory_mb; /* 0: by what is in use */
    uint64_t superslab_ttl_sec;
    uint64_t huge_pages_from_mb;
    bool lock_stats;             /* the locks on stderr at exit */
    bool trace_failures;         /* the first failure of each reason on stderr */
    uint64_t limit_mb;           /* mapped at a time; 0: none */
    bool trace[HAK_TRACE_COUNT]; /* events on stderr, in the checked build */
    uint64_t prewarm_superslabs, prewarm_of_class[8];
    bool prewarm_lazy;
    bool background_thread;
    bool check_mismatch; /* hardened library */
#define HAK_POLICY_TEXT 1024u
    char policy[HAK_POLICY_TEXT]; /* "off", "FILE" or "learn:FILE" */
    bool cgroup;
};
extern struct hak_options hak_options;

/* Reads the environment; warns on stderr about what it does not understand. Once, by the
 * constructor. */
void hak_options_read(char **environment);

/* What the options say of the pool. */
struct hak_pool_config hak_options_pool_config(void);

/* Starts the thread that gives memory back on time. False: the system has none to give. */
bool hak_background_start(void);

/* A summary, each line beginning with "hakmem: ", on stderr. */
void hak_report_summary(void);
void hak_report_stages(void);
void hak_report_locks(void);

/* free() of what no layer below knows: passed on to its allocator, or the end of the process. errno
 * is kept. */
void hak_foreign_free(void *p);
/* Ends the process: `what` ("invalid free of "), the address, and why it is no block. */
_Noreturn void hak_foreign_die(const char *what, const void *p);
void hak_foreign_start(void);

/* The locks, those of all heaps as one. */
enum hak_lock_name {
    HAK_LOCK_POOL_GROW,
    HAK_LOCK_POOL_RETIRED,
    HAK_LOCK_WINDOW,
    HAK_LOCK_RECORDS,
    HAK_LOCK_REGISTRY,
    HAK_LOCK_HEAPS,
    HAK_LOCK_COUNT
};
extern HAK_HIDDEN const char *const hak_lock_names[HAK_LOCK_COUNT];

/* Everything that can be read by name, see control.c. */
struct hak_snapshot {
    struct hak_cache_usage cache;
    struct hak_large_stats large;
    struct hak_pool_stats pool;
    size_t live_bytes, live_blocks; /* what the program holds, in blocks as they are given out */
    uint64_t failures[HAK_FAILURE_COUNT];
    struct hak_lock_counts locks[HAK_LOCK_COUNT];
    struct hak_policy_summary policy;
    size_t held_bytes; /* of the window: slabs, large and huge blocks, caches */
};
void hak_snapshot_take(struct hak_snapshot *out);
/* The value that hakmem_ctl_name(index) names, as the snapshot has it. */
uint64_t hak_control_value(const struct hak_snapshot *s, unsigned index);
/* Sets how much memory the class of a size may use before others are made to give back. False: no
 * class has this size. */
bool hak_control_set_soft_cap(uint64_t size_bytes, uint64_t cap_bytes);
