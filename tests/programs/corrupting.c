/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Test: a library to preload whose realloc damages a byte now and then, as a faulty allocator
 * would. The runner has to notice: a test of the tests. Never linked into anything, never
 * installed.
 */
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
    return __libc_malloc(size);
}

void *realloc(void *p, size_t size)
{
    static unsigned calls;
    unsigned char *moved = __libc_realloc(p, size);
    if (moved != NULL && size > 4000 && ++calls % 50 == 0)
        moved[size / 2] ^= 1;
    return moved;
}
