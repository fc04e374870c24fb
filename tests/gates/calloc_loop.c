/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * For the gate instructions.py: N pairs of calloc(1, 64) and free, N from the command line. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    unsigned long pairs = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    for (unsigned long i = 0; i < pairs; i++) {
        char *p = calloc(1, 64);
        if (p == NULL) {
            fputs("calloc_loop: calloc(1, 64) failed\n", stderr);
            return 1;
        }
        __asm__ volatile("" : : "r"(p) : "memory"); /* or the compiler drops the pair */
        free(p);
    }
    return 0;
}
