/* Stress: what the command line asks for.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_STRESS_OPTIONS_H
#define HAK_STRESS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STRESS_SIZES_MAX = 16, STRESS_THREADS_MAX = 256, STRESS_RECORDS_MAX = 1 << 20 };

struct stress_options {
    unsigned threads; /* lanes: each is one thread after another */
    uint64_t ops;     /* per lane */
    uint64_t seed;
    size_t max_bytes;               /* live, over all lanes */
    unsigned lives;                 /* threads per lane, one after another */
    unsigned seconds;               /* stop after that time; 0: after the operations */
    bool fork;                      /* the main thread forks meanwhile */
    bool allow_enomem;              /* a refused allocation is no failure */
    bool recover;                   /* at the end all memory must be to be had again */
    bool footprint;                 /* resident memory is measured and judged */
    int refuse_errno;               /* from the middle on the kernel refuses with it; 0: never */
    unsigned records;               /* per lane, and as many again to exchange */
    size_t sizes[STRESS_SIZES_MAX]; /* only these, if there are any */
    unsigned sizes_count;
};

/* Ends the process with a usage text if the command line makes no sense. */
void stress_options_parse(struct stress_options *o, int argc, char **argv);

#endif
