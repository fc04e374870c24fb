/* Conformance: a fork while another thread makes the first free of the process, in the hardened
 * library: that is when its quarantine starts, under a lock, by creating a key for thread data.
 * This program's own pthread_key_create holds that thread there until the child has ended.
 *
 * Only with the prefixed library linked in: before main libc has freed something to one that is
 * preloaded.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/api.h"

enum { HANG_SECONDS = 30 };

static atomic_bool holds, is_held, goes_on;

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    static int (*real)(pthread_key_t *, void (*)(void *));
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_key_create");
    while (holds) {
        is_held = true;
        if (goes_on)
            break;
    }
    return real(key, destructor);
}

static void *first_free(void *p)
{
    my_free(p);
    return NULL;
}

/* In the child the key is not there yet, and the lock's holder is no more. */
static int child(void *p, void *large)
{
    alarm(HANG_SECONDS);
    holds = false;
    my_free(p);
    my_free(large);
    for (size_t size = 1; size < 300000; size += size / 4 + 1)
        my_free(my_malloc(size));
    return 0;
}

int main(void)
{
    void *p[3] = {my_malloc(100), my_malloc(100), my_malloc(200000)};
    pthread_t thread;
    int status = -1;
    alarm(2 * HANG_SECONDS);
    holds = true;
    if (!p[0] || !p[1] || !p[2] || pthread_create(&thread, NULL, first_free, p[0]))
        return 2;
    while (!is_held)
        continue;
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(p[1], p[2]));
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 2;
    goes_on = true;
    pthread_join(thread, NULL);
    my_free(p[1]);
    if (status != 0)
        fprintf(stderr, "fork_first_free: the child ended with %#x (14: it hangs)\n",
                (unsigned)status);
    return status != 0;
}
