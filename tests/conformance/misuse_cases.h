/* Conformance: the list of misuse cases. See misuse.c for how they are run and judged.
 *
 * Used by misuse.c and the files that have a list, misuse_cases.c and hardened_cases.c, only.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_MISUSE_CASES_H
#define HAK_TEST_MISUSE_CASES_H

#include <stdbool.h>
#include <stddef.h>

struct misuse_case {
    const char *name;
    void (*run)(size_t size); /* announces the address, misuses it, and then works on for a while */
    size_t size;
    bool may_answer; /* a sensible result is as good as an abort */
    /* The exact line, * for any text and @ for the address; NULL: any that names it. "": a fault of
     * the processor (SIGSEGV) without a line. */
    const char *says;
};

extern const struct misuse_case misuse_cases[]; /* the last has no name */

/* Tells the driver which address the message must name. Returns it. */
void *misuse_announce(void *p);

#endif
