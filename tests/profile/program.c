/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A program whose heap is known: what is allocated where, and what of it stays. For
 * test_profile.py.
 *
 *   program exit          allocates, and ends
 *   program fork          the same, and a child that allocates more
 *   program wait          the same, then goes on with what changes nothing until it is told to end
 *   program api PATH      samples by the functions of hakmem.h (found by name), dumps to PATH
 *   program idle          allocates, then sleeps */
#include "hakmem.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALL_BYTES 112u /* a size class */
#define SMALL_BLOCKS 200000u
#define MEDIUM_BYTES 8192u /* between two classes */
#define MEDIUM_BLOCKS 3000u
#define LARGE_BYTES 1000000u
#define LARGE_BLOCKS 40u

static void *small[SMALL_BLOCKS], *medium[MEDIUM_BLOCKS], *large[LARGE_BLOCKS];

#define OWN_FRAME(p) __asm__ volatile("" : : "r"(p) : "memory") /* no jump in place of a call */

__attribute__((noinline)) void *keep_small(void)
{
    void *p = malloc(SMALL_BYTES);
    OWN_FRAME(p);
    return p;
}

__attribute__((noinline)) void *keep_medium(void)
{
    void *p = calloc(1, MEDIUM_BYTES);
    OWN_FRAME(p);
    return p;
}

__attribute__((noinline)) void *keep_large(void)
{
    void *p = malloc(LARGE_BYTES);
    OWN_FRAME(p);
    return p;
}

__attribute__((noinline)) void come_and_go(void)
{
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) {
        void *p = malloc(SMALL_BYTES);
        OWN_FRAME(p);
        free(p);
    }
}

__attribute__((noinline)) void allocate_all(void)
{
    for (unsigned i = 0; i < SMALL_BLOCKS; i++)
        small[i] = keep_small();
    for (unsigned i = 0; i < MEDIUM_BLOCKS; i++)
        medium[i] = keep_medium();
    for (unsigned i = 0; i < LARGE_BLOCKS; i++)
        large[i] = keep_large();
    come_and_go();
}

static void *thread_main(void *unused)
{
    allocate_all();
    return unused;
}

static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

#ifndef PROGRAM_STATIC
static int by_name(const char *path)
{
    int (*start)(uint64_t) = (int (*)(uint64_t))dlsym(RTLD_DEFAULT, "hakmem_prof_start");
    void (*stop)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "hakmem_prof_stop");
    int (*dump)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "hakmem_prof_dump");
    if (dump(path) != ENODATA || start(UINT64_C(1) << 50) != EINVAL || start(65536) != 0 ||
        start(4096) != EINVAL)
        return 3;
    allocate_all();
    stop();
    allocate_all();
    return dump(path) == 0 && dump("/no/such/place") == ENOENT ? 0 : 4;
}
#endif

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "exit";
    pthread_t thread;
    signal(SIGTERM, end);
#ifndef PROGRAM_STATIC
    if (strcmp(what, "api") == 0)
        return by_name(argv[2]);
#endif
    /* In a thread, which ends: what it has allocated goes to others. */
    if (pthread_create(&thread, NULL, thread_main, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 2;
    if (strcmp(what, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            come_and_go();
            exit(0);
        }
        int status;
        return waitpid(child, &status, 0) == child ? status : 2;
    }
    if (strcmp(what, "wait") == 0 || strcmp(what, "idle") == 0) {
        (void)!write(1, "ready\n", 6);
        while (!ended) {
            if (what[0] == 'i') {
                pause();
                continue;
            }
            for (unsigned i = 0; i < SMALL_BLOCKS; i++)
                free(small[i]);
            for (unsigned i = 0; i < SMALL_BLOCKS; i++)
                small[i] = keep_small();
            usleep(1000);
        }
    }
    return 0;
}
