/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: a line on stderr for each event of a kind, in the checked build only: a fixed word in
 * brackets first, so that `grep -c` answers a question. Any layer may include it. Never allocates.
 */
#pragma once

#include "os/os.h"

enum hak_trace_kind {
    HAK_TRACE_ACQUIRE,  /* slots taken from the pool */
    HAK_TRACE_FREE,     /* slots given back to it */
    HAK_TRACE_LRU,      /* superslabs kept, taken again, given up */
    HAK_TRACE_REGISTRY, /* ranges of the window taken and given */
    HAK_TRACE_MAP,      /* memory of the window mapped and unmapped */
    HAK_TRACE_DRAIN,    /* blocks that leave a bin for their slabs */
    HAK_TRACE_POLICY,   /* what the controller sees at a tick */
    HAK_TRACE_COUNT
};

struct hak_trace_value {
    const char *name;
    uint64_t value;
};

extern HAK_HIDDEN uint32_t hak_trace_kinds; /* a bit each; written before threads start */

/* "[SS_ACQUIRE] stage=warm class=12 ...": the values end with a NULL name. */
void hak_trace_line(enum hak_trace_kind kind, const char *name, const char *word,
                    const struct hak_trace_value *values);

#define HAK_TRACE(kind, name, word, ...)                                                           \
    do {                                                                                           \
        if (HAK_CHECKS && HAK_UNLIKELY(hak_trace_kinds >> (kind) & 1))                             \
            hak_trace_line(kind, name, word, (struct hak_trace_value[]){__VA_ARGS__, {NULL, 0}});  \
    } while (0)
