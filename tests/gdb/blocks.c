/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests: a program that stops (at the breakpoint `stop`) with a block in every state that gdb's
 * `hakmem whereis` tells apart, each in a variable of that name. It never ends well: what is behind
 * `stop` aborts. */
#include <pthread.h>
#include <stdlib.h>

#define MANY 2000

void *volatile live, *volatile in_bin, *volatile in_slab, *volatile in_outbox, *volatile remote;
void *volatile in_large, *volatile in_huge, *volatile gone, *volatile kept;
void *volatile other; /* of whichever library has this name first */
void *hakmem_malloc(size_t) __attribute__((weak));
static void *volatile many[MANY];
static pthread_barrier_t barrier;

void stop(void);
__attribute__((noinline)) void stop(void)
{
    __asm__ volatile("" ::: "memory");
}

static void *free_remote(void *unused)
{
    free(remote);
    return unused;
}

static void *free_and_wait(void *unused)
{
    free(in_outbox);
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier); /* nobody comes */
    return unused;
}

int main(void)
{
    pthread_t thread;
    other = hakmem_malloc != NULL ? hakmem_malloc(7000) : NULL;
    live = malloc(100);
    in_outbox = malloc(64);
    remote = malloc(200);
    in_large = malloc(200000);
    in_huge = malloc(5000000);
    /* More than a bin holds: the first to be freed are back in their slab, which one block keeps
     * from being given back as a whole. */
    for (int i = 0; i < MANY; i++)
        many[i] = malloc(32);
    in_slab = many[0];
    kept = many[MANY - 1];
    for (int i = 0; i < MANY - 1; i++)
        free(many[i]);
    if (pthread_create(&thread, NULL, free_remote, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 2;
    if (pthread_barrier_init(&barrier, NULL, 2) != 0 ||
        pthread_create(&thread, NULL, free_and_wait, NULL) != 0)
        return 2;
    (void)pthread_barrier_wait(&barrier);
    in_bin = malloc(500);
    free(in_bin);
    gone = malloc(300000);
    free(gone);
    stop();
    abort();
}
