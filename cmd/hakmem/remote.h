/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: the memory of another process, or of its core file: what is mapped, which
 * pages are in memory, and the bytes. Only reads; the process is not stopped. It knows nothing of
 * allocators. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

/* A mapping. Of its pages in memory each is known by a bit, which is cleared when the page has been
 * counted (hak_remote_take). */
struct hak_mapping {
    uint64_t start, end;
    uint64_t file_offset;
    bool writable, shared;
    char *name;         /* a path, "[stack]" and the like, "" */
    uint64_t *resident; /* a bit a page; NULL: none */
    uint64_t resident_pages;
    uint64_t at_offset; /* core: where its bytes are in the file; UINT64_MAX: not in it */
};

struct hak_remote {
    bool is_core;
    pid_t pid;
    int memory;                   /* /proc/PID/mem, or the core file; -1: not open */
    char *path;                   /* of the core file */
    char *name;                   /* of the program */
    struct hak_mapping *mappings; /* by address */
    size_t count;
    struct hak_mapping *files; /* core: what was mapped of files, also what the core left out */
    size_t file_count;
    uint64_t resident_pages;               /* the sum */
    uint64_t kernel_rss_bytes, swap_bytes; /* UINT64_MAX: not known */
    uint64_t uptime_ns;                    /* UINT64_MAX: not known */
    uint64_t now_ns, time_unix_ns;         /* of the reading, monotonic and since 1970 */
    bool by_mem;                           /* process_vm_readv is not to be had */
};

/* What stands in the way of reading, and what helps. `problem` is NULL when nothing does. */
struct hak_obstacle {
    char *problem;
    const char *hint;
};

/* A process. False: see `obstacle`. hak_remote_close whatever the answer is. */
bool hak_remote_open(struct hak_remote *r, pid_t pid, struct hak_obstacle *obstacle);
/* A core file: core.c. */
bool hak_remote_open_core(struct hak_remote *r, const char *path, struct hak_obstacle *obstacle);
/* A process, or with pid 0 a core file. */
bool hak_remote_open_either(struct hak_remote *r, pid_t pid, const char *core,
                            struct hak_obstacle *obstacle);
void hak_remote_close(struct hak_remote *r);
void hak_obstacle_free(struct hak_obstacle *obstacle);
/* True: a process that /proc does not show is there all the same; see the obstacle. */
bool hak_remote_is_hidden(pid_t pid, struct hak_obstacle *obstacle);

/* Finds out which pages are in memory, and what the kernel's own figures are. False where the
 * process is gone. */
bool hak_remote_look_at_pages(struct hak_remote *r);

/* All of it or false. */
bool hak_remote_read(struct hak_remote *r, uint64_t at, void *out, size_t bytes);
/* A string of less than `size_bytes`; "" if there is none. */
void hak_remote_read_string(struct hak_remote *r, uint64_t at, char *text, size_t size_bytes);

/* For whoever opens: one more mapping, to be called in the order of addresses. */
struct hak_mapping *hak_remote_add(struct hak_remote *r, uint64_t start, uint64_t end,
                                   const char *name);

/* The number of the first mapping that ends behind an address; `count` if none does. */
size_t hak_remote_behind(const struct hak_remote *r, uint64_t at);
/* The mapping of an address, or NULL. */
struct hak_mapping *hak_remote_find(struct hak_remote *r, uint64_t at);
/* Bits of up to 64 pages from `at` on: which are in memory and not counted yet. */
uint64_t hak_remote_resident_mask(struct hak_remote *r, uint64_t at, unsigned pages);
/* Counts the pages that [from, to) touches: the bytes in memory. They count once. */
uint64_t hak_remote_take(struct hak_remote *r, uint64_t from, uint64_t to);

/* --- between remote.c and remote_pages.c --- */

uint64_t hak_remote_clock_ns(clockid_t clock);
FILE *hak_remote_open_file(pid_t pid, const char *name); /* /proc/PID/NAME, or NULL */
/* A line of /proc/PID/maps or the first of an entry of smaps; NULL: it is none. */
struct hak_mapping *hak_remote_add_line(struct hak_remote *r, const char *line);
void hak_remote_forget_mappings(struct hak_remote *r);
