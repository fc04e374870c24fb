/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: `hakmem explain`, and what its files share. */
#pragma once

#include "image.h"

#include <stdbool.h>
#include <stdint.h>

int hak_explain(int argc, char **argv);
void hak_explain_help(void);

/* A failed allocation, wherever it was found. UINT64_MAX: not known, or unlimited. */
struct hak_explained {
    enum hak_failure_reason reason;
    uint64_t size_bytes, align_bytes;
    bool window_full; /* of exhaustion; else the limit, or the thread had no heap */
    bool no_heap;
    char error[24]; /* ENOMEM and the like, "" */
    char kind[8];   /* class, large, huge */
    uint64_t class_bytes;
    char stage[32];
    uint64_t age_ns;
    struct hak_os_limits limits;
};

/* All of them, and the state of the process. */
struct hak_explanation {
    char *who;                                    /* "process 4711 (server)" */
    struct hak_explained last[HAK_FAILURES_KEPT]; /* oldest first */
    size_t count;
    uint64_t counts[HAK_FAILURE_COUNT];
    /* UINT64_MAX: not known. */
    uint64_t live_bytes, held_bytes, kept_bytes, limit_bytes, mapped_bytes;
    uint64_t averted;             /* see hak_failure_avert */
    uint64_t address_space_bytes; /* that the process has mapped */
    uint64_t data_bytes;          /* that it can write to */
    uint64_t mappings;            /* that it has */
    bool is_live;                 /* it still runs, on this machine */
};

/* explain_read.c: from a process, a core file, or a file of JSON. False: see `obstacle`. */
bool hak_explain_read_remote(struct hak_explanation *e, struct hak_remote *r,
                             struct hak_obstacle *obstacle);
bool hak_explain_read_json(struct hak_explanation *e, const char *path,
                           struct hak_obstacle *obstacle);

/* explain_words.c. */
void hak_explain_print(const struct hak_explanation *e);
void hak_explain_print_json(const struct hak_explanation *e);
