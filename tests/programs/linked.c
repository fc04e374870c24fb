/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Test: a C program with threads that is linked with libhakmem.a, with a shared C library and, as
 * linked_c_static, with `-static`. The allocator has to be hakmem in both, and work. linked_c_plain
 * is the same without the library, to compare (linked.h).
 * Who runs it: CTest. It never preloads anything.
 */
#include <pthread.h>

#include "linked.h"

#define THREADS 4
#define BLOCKS 20000

static unsigned char *block[THREADS][BLOCKS];
static size_t drained[THREADS];

static size_t block_size(size_t thread, size_t i)
{
    return 1 + (i * 131 + thread * 977) % 3000;
}

static void *thread_fill(void *arg)
{
    size_t thread = (size_t)arg;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = block_size(thread, i);
        block[thread][i] = i % 3 == 0 ? calloc(1, size) : malloc(size);
        linked_check(block[thread][i] != NULL, "out of memory");
        memset(block[thread][i], (int)(i & 0x7f), size);
    }
    return NULL;
}

/* Frees what the next thread allocated. */
static void *thread_drain(void *arg)
{
    size_t thread = ((size_t)arg + 1) % THREADS;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = block_size(thread, i);
        linked_check(block[thread][i][0] == (i & 0x7f) && block[thread][i][size - 1] == (i & 0x7f),
                     "a block was overwritten");
        drained[thread] += size * block[thread][i][size / 2];
        if (i % 5 == 0)
            block[thread][i] = realloc(block[thread][i], size * 3);
        free(block[thread][i]);
    }
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t thread[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        linked_check(pthread_create(&thread[i], NULL, body, (void *)i) == 0, "no thread");
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    linked_check_version();
    linked_check_sizes();
    linked_check_library_calls();
    run_threads(thread_fill);
    run_threads(thread_drain);
    for (size_t i = 0; i < THREADS; i++)
        printf("blocks of thread %zu: sum %zu\n", i, drained[i]);
    puts("passed");
    return 0;
}
