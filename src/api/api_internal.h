/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: what its files share. */
#pragma once

#include "api/snapshot.h"
#include "heap/profile.h"
#include "os/trace.h"
#include "policy/policy.h"
#include "space/failure.h"

struct hak_options {
    bool stats;       /* a summary on stderr at exit */
    bool stage_stats; /* the pool's stages on stderr at exit */
    uint64_t superslab_max_cached;
    uint64_t superslab_max_memory_mb; /* 0: by what is in use */
    size_t trim_threshold_bytes;      /* mallopt's, instead; 0: none */
    uint64_t superslab_ttl_sec;
    uint64_t huge_pages_from_mb;
    uint64_t homes;
    bool lock_stats;             /* the locks on stderr at exit */
    uint64_t perturb;            /* 0: off */
    bool trace_failures;         /* the first failure of each reason on stderr */
    uint64_t limit_mb;           /* mapped at a time; 0: none */
    bool trace[HAK_TRACE_COUNT]; /* events on stderr, in the checked build */
    uint64_t prewarm_superslabs, prewarm_of_class[8];
    bool prewarm_lazy;
    bool background_thread;
    bool check_mismatch, check_sizes; /* hardened library */
    bool prof, prof_leaks;
    uint64_t prof_sample_bytes;
    char prof_file[HAK_PROF_PATH_BYTES]; /* "": the default */
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

/* What was read holds from now on; NULL: all of it, else what was set since, at `changed`. */
void hak_options_apply_limits(const void *changed);

/* Starts the thread that gives memory back on time, in children of forks too. False: the system has
 * none to give. */
bool hak_background_begin(void);
/* The process ends: none is started any more. */
void hak_background_end(void);

/* malloc.c: the functions of the family for a call site that the caller knows. */
void *hak_api_calloc(size_t count, size_t size, uintptr_t site);
void *hak_api_realloc(void *p, size_t size, uintptr_t site);
void *hak_api_reallocarray(void *p, size_t count, size_t size, uintptr_t site);
void *hak_api_memalign(size_t alignment, size_t size, uintptr_t site);
int hak_api_posix_memalign(void **out, size_t alignment, size_t size, uintptr_t site);
void *hak_api_pvalloc(size_t size, uintptr_t site);
/* Starts the heap profile if it was asked for, and writes at the end of the process what was. */
void hak_profile_begin(void);
void hak_profile_end(void);

/* A summary, each line beginning with "hakmem: ", on stderr. */
void hak_report_summary(void);
void hak_report_live(void);
/* `what` begins with the option that wanted the file. */
void hak_report_not_written(const char *what, const char *path, int error);
void hak_report_stages(void);
void hak_report_locks(void);

/* free() of what no layer below knows: passed on to its allocator, or the end of the process. errno
 * is kept. */
void hak_foreign_free(void *p);
/* Ends the process: `what` ("invalid free of "), the address, and why it is no block. */
_Noreturn void hak_foreign_die(const char *what, const void *p);
void hak_foreign_start(void);
/* Where libc's free is, when it is no longer found by its name. 0: it still is. */
void hak_foreign_keep_free(uintptr_t address);
/* The function of this name in the next library, in the order of the libraries; 0: there is none.
 */
uintptr_t hak_foreign_next(const char *name);

void hak_snapshot_take(struct hak_snapshot *out);
/* As hakmem_ctl, which asks one after the other; ENOENT: not one of these names. */
int hak_setting_control(const char *name, uint64_t *value, const uint64_t *new_value);
int hak_class_control(const char *name, uint64_t *value, const uint64_t *new_value);
const char *hak_setting_name(unsigned index); /* NULL behind the last */
/* Sets how much memory the class of a size may use before others are made to give back. False: no
 * class has this size. */
bool hak_control_set_soft_cap(uint64_t size_bytes, uint64_t cap_bytes);
