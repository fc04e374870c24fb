/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: what its files share. */
#pragma once

#include "heap/heap.h"

struct hak_options {
    bool stats;       /* a summary on stderr at exit */
    bool stage_stats; /* the pool's stages on stderr at exit */
    uint64_t superslab_max_cached;
    uint64_t superslab_max_memory_mb; /* 0: by what is in use */
    uint64_t superslab_ttl_sec;
};
extern struct hak_options hak_options;

/* Reads the environment; warns on stderr about what it does not understand. Once, by the
 * constructor. */
void hak_options_read(char **environment);

/* A summary, each line beginning with "hakmem: ", on stderr. */
void hak_report_summary(void);
void hak_report_stages(void);

/* free() of what no layer below knows: passed on to its allocator, or the end of the process. errno
 * is kept. */
void hak_foreign_free(void *p);
/* Ends the process: `what` ("invalid free of "), the address, and why it is no block. */
_Noreturn void hak_foreign_die(const char *what, const void *p);
void hak_foreign_start(void);

/* Everything that can be read by name, see ctl.c. */
struct hak_snapshot {
    struct hak_cache_usage cache;
    struct hak_large_stats large;
    struct hak_pool_stats pool;
    size_t live_bytes, live_blocks; /* what the program holds, in blocks as they are given out */
    size_t held_bytes;              /* of the window: slabs, large and huge blocks, caches */
};
void hak_snapshot_take(struct hak_snapshot *out);
