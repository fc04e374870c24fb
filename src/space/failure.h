/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * space: the record of failed allocations: what was asked for, why it was not to be had, and how
 * the system stood then. Whoever is refused says so (hak_refused), and whoever therefore returns
 * NULL to the program makes a record of it; in between lie layers that only pass "no" on.
 *
 * Any layer above may call it, from any thread. It never allocates, and opens files only when the
 * system refused memory, once a second at most, and may be told not to. */
#pragma once

#include "space/space.h"

#define HAK_FAILURES_KEPT 16u

enum hak_failure_reason {
    HAK_FAILURE_EXHAUSTION, /* the limit that the user set, or the window, is used up */
    HAK_FAILURE_MAP,        /* the system refused */
    HAK_FAILURE_THRESHOLD,  /* larger than any block may be, or a product that overflows */
    HAK_FAILURE_COUNT
};

/* The calling thread was refused: `stage` is how far it had come (a constant string). Returns
 * `error`, an errno. Only the last refusal before a record counts. */
int hak_refused(enum hak_failure_reason reason, int error, const char *stage);
/* Why the calling thread was refused last. */
enum hak_failure_reason hak_refused_why(void);

/* Records that a block of `kind` (as in map entries) could not be had because of what hak_refused
 * was told last. The caller holds no lock. */
void hak_failure_record(size_t size_bytes, size_t align_bytes, unsigned kind);

uint64_t hak_failure_count(enum hak_failure_reason reason);
/* One was none after all: memory was to be had after caches were emptied. */
void hak_failure_avert(void);
uint64_t hak_failures_averted(void);
const char *hak_failure_name(enum hak_failure_reason reason);
/* The failures that are still known, oldest first, with `before` and `after` around each and
 * `between` them. No text has a quote or a backslash in it. */
void hak_failure_write(struct hak_text *text, const char *before, const char *after,
                       const char *between);
/* Where the system refused memory its files are read for the record, or not: how many mappings
 * there were, the control group. They are until this is called. */
void hak_failure_open_files(bool on);
/* From now on the first failure of each reason is printed on stderr. */
void hak_failure_trace(bool on);
/* In the child of a fork. */
void hak_failure_fork_child(void);
