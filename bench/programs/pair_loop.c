/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench: N pairs of malloc(64) and free, N from the command line. The shortest path there is; the
 * gate tests/gates/instructions.py counts its instructions. Never touches the blocks. */
#include <stdio.h>
#include <stdlib.h>

/* Keeps the compiler from dropping a pair whose block nobody uses. */
static inline void use(void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

int main(int argc, char **argv)
{
    char *end = NULL;
    unsigned long pairs = argc == 2 ? strtoul(argv[1], &end, 10) : 0;
    if (pairs == 0 || *end != '\0') {
        fprintf(stderr, "usage: %s PAIRS (a number from 1)\n", argv[0]);
        return 2;
    }
    for (unsigned long i = 0; i < pairs; i++) {
        void *p = malloc(64);
        if (p == NULL) {
            fputs("pair_loop: malloc(64) failed\n", stderr);
            return 1;
        }
        use(p);
        free(p);
    }
    return 0;
}
