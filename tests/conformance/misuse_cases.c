/* Conformance: the misuse cases themselves. Each runs in a process of its own, see misuse.c.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/misuse_cases.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "conformance/support/child.h"
#include "conformance/support/sizes.h"
#include "support/api.h"

/* ---- work that makes caches drain and remote frees be collected ---- */

enum { BATCH = 20000 };

static void *batch[BATCH];

static size_t batch_count(size_t size)
{
    size_t n = MIB(256) / (size + 1);
    return n > BATCH ? BATCH : n < 4 ? 4 : n;
}

static void take_batch(size_t size)
{
    for (size_t i = 0; i < batch_count(size); i++)
        batch[i] = my_malloc(size);
}

static void give_batch(size_t size)
{
    for (size_t i = 0; i < batch_count(size); i++)
        my_free(batch[i]);
}

static void work_on(size_t size)
{
    for (int round = 0; round < 12; round++) {
        take_batch(size);
        give_batch(size);
    }
}

struct job {
    void (*run)(void *p, size_t size);
    void *p;
    size_t size;
};

static void *job_main(void *arg)
{
    struct job *job = arg;
    job->run(job->p, job->size);
    return NULL;
}

/* Runs in a thread of its own, to that thread's end. */
static void in_thread(void (*run)(void *p, size_t size), void *p, size_t size)
{
    struct job job = {run, p, size};
    pthread_t thread;
    if (pthread_create(&thread, NULL, job_main, &job) == 0)
        pthread_join(thread, NULL);
}

/* ---- double frees ---- */

/* The other blocks are taken before the misuse, so that their frees push the bad pointers out of
 * the cache before a malloc can hand them out. */
static void double_at_once(void *unused, size_t size)
{
    (void)unused;
    take_batch(size);
    void *p = misuse_announce(my_malloc(size));
    my_free(p);
    my_free(p);
    give_batch(size);
    work_on(size);
}

static void double_free_at_once(size_t size)
{
    double_at_once(NULL, size);
}

static void double_free_in_an_ending_thread(size_t size)
{
    in_thread(double_at_once, NULL, size);
    work_on(size);
}

/* Nothing follows but the thread's end. */
static void double_and_end(void *unused, size_t size)
{
    (void)unused;
    void *p = misuse_announce(my_malloc(size));
    my_free(p);
    my_free(p);
}

static void double_free_and_thread_end(size_t size)
{
    in_thread(double_and_end, NULL, size);
    work_on(size);
}

static void double_free_after_other_frees(size_t size)
{
    take_batch(size);
    void *p = misuse_announce(my_malloc(size));
    my_free(p);
    for (size_t i = 0; i < batch_count(size) / 2; i++)
        my_free(batch[i]);
    my_free(p);
    for (size_t i = batch_count(size) / 2; i < batch_count(size); i++)
        my_free(batch[i]);
    work_on(size);
}

/* Nothing is allocated and freed afterwards, but for a call that gives free memory back. */
static void double_free_and_trim(size_t size)
{
    void *p = misuse_announce(my_malloc(size));
    my_free(p);
    my_free(p);
    my_malloc_trim(0);
}

static void double_free_and_nothing_else(size_t size)
{
    void *p = misuse_announce(my_malloc(size));
    my_free(p);
    my_free(p);
}

/* The block is not handed out even once. */
static void double_free_and_malloc(size_t size)
{
    double_free_and_nothing_else(size);
    my_malloc(size);
}

static void double_free_and_calloc(size_t size)
{
    double_free_and_nothing_else(size);
    my_calloc(1, size);
}

/* --- found when the process ends: the blocks are in no bin that drains --- */

static void double_free_and_exit(size_t size)
{
    double_free_and_nothing_else(size);
    exit(CHILD_NOT_CAUGHT);
}

static void double_free_with_others_between_and_exit(size_t size)
{
    char *others[2], *p;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        others[i] = my_malloc(size);
    p = misuse_announce(my_malloc(size));
    my_free(others[0]);
    my_free(p);
    my_free(others[1]);
    my_free(p);
    exit(CHILD_NOT_CAUGHT);
}

static void exit_after_free_of_block_plus(size_t size, size_t offset)
{
    my_free(misuse_announce((char *)my_malloc(size) + offset));
    exit(CHILD_NOT_CAUGHT);
}

static void free_of_block_plus_8_and_exit(size_t size)
{
    exit_after_free_of_block_plus(size, 8);
}

static void free_of_a_block_not_carved_and_exit(size_t size)
{
    exit_after_free_of_block_plus(size, 60000 / size * size);
}

/* In the bins of a heap that is kept for the next thread. */
static void double_free_in_a_thread_and_exit(size_t size)
{
    in_thread(double_and_end, NULL, size);
    exit(CHILD_NOT_CAUGHT);
}

/* What is written to freed blocks changes nothing for others. */
static void writes_after_free_change_nothing(size_t size)
{
    enum { BLOCKS = 100 };
    static char *p[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        p[i] = my_malloc(size);
    for (int i = BLOCKS - 1; i >= 0; i--)
        my_free(p[i]);
    misuse_announce(p[0]);
    memset(p[0], 0xff, size);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            p[i] = my_malloc(size);
            memset(p[i], i, size);
        }
        for (int i = 0; i < BLOCKS; i++) {
            if (p[i][0] != (char)i || p[i][size - 1] != (char)i)
                _Exit(1);
            my_free(p[i]);
        }
    }
}

static void just_free(void *p, size_t size)
{
    (void)size;
    my_free(p);
}

static sem_t ready, freed;

static void free_when_told(void *p, size_t size)
{
    my_free(my_malloc(size)); /* all that this thread needs of its own is there */
    sem_post(&ready);
    sem_wait(&freed);
    my_free(p);
}

/* The other thread begins before the first free: else what its start allocates might lie in p's
 * place, and the second free would be a good one. */
static void double_free_from_another_thread(size_t size)
{
    take_batch(size);
    void *p = misuse_announce(my_malloc(size));
    struct job job = {free_when_told, p, size};
    pthread_t thread;
    sem_init(&ready, 0, 0);
    sem_init(&freed, 0, 0);
    if (pthread_create(&thread, NULL, job_main, &job))
        return;
    sem_wait(&ready);
    my_free(p);
    sem_post(&freed);
    pthread_join(thread, NULL);
    give_batch(size);
    work_on(size);
}

static void free_when_told_and_give_all(void *p, size_t size)
{
    free_when_told(p, size);
    give_batch(size);
}

static void double_free_by_two_other_threads(size_t size)
{
    take_batch(size);
    void *p = misuse_announce(my_malloc(size));
    struct job jobs[2] = {{free_when_told, p, size}, {free_when_told_and_give_all, p, size}};
    pthread_t threads[2];
    sem_init(&ready, 0, 0);
    sem_init(&freed, 0, 0);
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, job_main, &jobs[i]))
            return;
        sem_wait(&ready);
    }
    for (int i = 0; i < 2; i++)
        sem_post(&freed);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    work_on(size);
}

static void *from_thread;

static void take_for_others(void *unused, size_t size)
{
    (void)unused;
    take_batch(size);
    from_thread = my_malloc(size);
}

static void double_free_of_an_ended_threads_block(size_t size)
{
    in_thread(take_for_others, NULL, size);
    void *p = misuse_announce(from_thread);
    my_free(p);
    my_free(p);
    give_batch(size);
    work_on(size);
}

static void realloc_of_a_freed_block(size_t size)
{
    take_batch(size);
    void *p = misuse_announce(my_malloc(size));
    my_free(p);
    give_batch(size);
    void *q = my_realloc(p, size + size / 2 + 100);
    my_free(q);
    work_on(size);
}

/* ---- pointers that are no blocks ---- */

static size_t free_size_after; /* the class to go on working with */

static void free_bad(void *p)
{
    my_free(misuse_announce(p));
    work_on(free_size_after ? free_size_after : 64);
}

static void free_of_a_stack_address(size_t offset)
{
    unsigned char local[256] __attribute__((aligned(64)));
    memset(local, 0, sizeof local);
    free_bad(local + offset);
}

static unsigned char data_bytes[KIB(128)] __attribute__((aligned(65536))) = {1};
static unsigned char bss_bytes[KIB(128)] __attribute__((aligned(65536)));

static void free_of_a_data_address(size_t offset)
{
    free_bad(data_bytes + offset);
}

static void free_of_a_bss_address(size_t offset)
{
    free_bad(bss_bytes + offset);
}

static void free_of_a_read_only_address(size_t offset)
{
    static const char text[64] __attribute__((aligned(64))) = "a string";
    free_bad((char *)text + offset);
}

static void free_of_a_code_address(size_t offset)
{
    free_bad((char *)(uintptr_t)work_on + offset);
}

static void free_of_a_mapped_address(size_t offset)
{
    char *p = mmap(NULL, MIB(4), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free_bad(p + offset);
}

static void free_of_an_unreadable_address(size_t offset)
{
    char *p = mmap(NULL, MIB(4), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free_bad(p + offset);
}

static void free_of_an_unmapped_address(size_t offset)
{
    char *p = mmap(NULL, MIB(4), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, MIB(4));
    free_bad(p + offset);
}

static void free_of_this_number(size_t address)
{
    free_bad((void *)address);
}

static void free_before_the_first_malloc(size_t address)
{
    my_free(misuse_announce((void *)address));
}

/* ---- pointers into blocks ---- */

static void free_inside(size_t size, size_t offset)
{
    char *p = my_malloc(size);
    memset(p, 0x11, size < KIB(64) ? size : KIB(64));
    free_size_after = size;
    free_bad(p + offset);
}

static void free_of_block_plus_1(size_t size)
{
    free_inside(size, 1);
}

static void free_of_block_plus_8(size_t size)
{
    free_inside(size, 8);
}

static void free_of_block_plus_16(size_t size)
{
    free_inside(size, 16);
}

static void free_of_the_middle(size_t size)
{
    free_inside(size, size / 2 & ~(size_t)15);
}

static void free_of_the_last_byte(size_t size)
{
    free_inside(size, size - 1);
}

static void free_of_a_later_slab(size_t size)
{
    free_inside(size, KIB(64));
}

static void free_from_another_thread_of_the_middle(size_t size)
{
    char *p = my_malloc(size);
    in_thread(just_free, misuse_announce(p + (size / 2 & ~(size_t)15)), size);
    work_on(size);
}

/* Near what the allocator owns, but never handed out: ahead in the slab, 10 MiB and 1 TiB further.
 */
static void free_of_a_block_not_carved_yet(size_t size)
{
    char *p = my_malloc(size);
    char *q = my_malloc(size);
    for (int i = 0; i < 10000 && q < p; i++) /* the higher of the two, however they lie */
        q = my_malloc(size);
    free_size_after = size;
    free_bad(q + KIB(32) / size * size);
}

static void free_of_block_plus_10_mib(size_t size)
{
    free_inside(size, MIB(10));
}

static void free_of_block_plus_300_mib_and_1(size_t size)
{
    free_inside(size, MIB(300) + 1);
}

static void free_of_block_plus_1_tib(size_t size)
{
    free_inside(size, GIB(1024));
}

/* ---- other functions with such pointers ---- */

static void realloc_of_a_stack_address(size_t size)
{
    unsigned char local[64] __attribute__((aligned(64))) = {0};
    my_free(my_realloc(misuse_announce(local), size));
}

static void realloc_inside_a_block(size_t size)
{
    char *p = my_malloc(size);
    my_free(my_realloc(misuse_announce(p + 16), size * 2));
}

static void usable_size_of_a_stack_address(size_t size)
{
    (void)size;
    unsigned char local[64] __attribute__((aligned(64))) = {0};
    if (my_malloc_usable_size(misuse_announce(local)) != 0)
        _Exit(1); /* it cannot know */
}

static void usable_size_of_an_unmapped_address(size_t size)
{
    char *p = mmap(NULL, MIB(4), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, MIB(4));
    if (my_malloc_usable_size(misuse_announce(p + size)) != 0)
        _Exit(1);
}

#define ONE(function, size) {#function, function, size, false, NULL}
#define AT(function, size) {#function "/" #size, function, size, false, NULL}
#define ANSWERED_AT(function, size) {#function "/" #size, function, size, true, NULL}
#define ANSWERED(function, size) {#function, function, size, true, NULL}

/* small, mid, larger than a slab's block, large, huge */
#define ALL_RANGES(function)                                                                       \
    AT(function, 48), AT(function, 1024), AT(function, 20000), AT(function, 60000),                \
        AT(function, 200000), AT(function, 900000), AT(function, 3000000), AT(function, 17000000)

const struct misuse_case misuse_cases[] = {
    AT(double_free_at_once, 16),
    AT(double_free_at_once, 128),
    ALL_RANGES(double_free_at_once),
    ALL_RANGES(double_free_in_an_ending_thread),
    AT(double_free_and_thread_end, 16),
    ALL_RANGES(double_free_and_thread_end),
    AT(double_free_and_trim, 16),
    AT(double_free_and_trim, 48),
    AT(double_free_and_trim, 20000),
    ALL_RANGES(double_free_and_malloc),
    ALL_RANGES(double_free_and_calloc),
    AT(double_free_and_exit, 16),
    ALL_RANGES(double_free_and_exit),
    AT(double_free_with_others_between_and_exit, 16),
    ALL_RANGES(double_free_with_others_between_and_exit),
    ALL_RANGES(double_free_in_a_thread_and_exit),
    ALL_RANGES(free_of_block_plus_8_and_exit),
    AT(free_of_a_block_not_carved_and_exit, 32),
    AT(free_of_a_block_not_carved_and_exit, 256),
    AT(double_free_and_nothing_else, 70000),
    AT(double_free_and_nothing_else, 200000),
    AT(double_free_and_nothing_else, 3000000),
    ANSWERED_AT(writes_after_free_change_nothing, 16),
    ANSWERED_AT(writes_after_free_change_nothing, 100),
    ANSWERED_AT(writes_after_free_change_nothing, 5000),
    ALL_RANGES(double_free_after_other_frees),
    ALL_RANGES(double_free_from_another_thread),
    ALL_RANGES(double_free_by_two_other_threads),
    ALL_RANGES(double_free_of_an_ended_threads_block),
    AT(realloc_of_a_freed_block, 200000),
    AT(realloc_of_a_freed_block, 3000000),
    AT(free_of_a_stack_address, 0),
    AT(free_of_a_stack_address, 3),
    AT(free_of_a_data_address, 0),
    AT(free_of_a_data_address, 65537),
    AT(free_of_a_bss_address, 0),
    AT(free_of_a_bss_address, 4096),
    AT(free_of_a_read_only_address, 0),
    AT(free_of_a_code_address, 0),
    AT(free_of_a_mapped_address, 0),
    AT(free_of_a_mapped_address, 65536),
    AT(free_of_a_mapped_address, 2097160),
    AT(free_of_an_unreadable_address, 0),
    AT(free_of_an_unreadable_address, 1000000),
    AT(free_of_an_unmapped_address, 0),
    AT(free_of_an_unmapped_address, 70000),
    AT(free_of_this_number, 1),
    AT(free_of_this_number, 8),
    AT(free_of_this_number, 16),
    AT(free_of_this_number, 4096),
    AT(free_of_this_number, 65536),
    AT(free_of_this_number, 0x7fffffffffff),
    AT(free_of_this_number, 0x800000000000),
    AT(free_of_this_number, 0x4141414141414141),
    AT(free_of_this_number, 0xffff800000000000),
    AT(free_of_this_number, 0xffffffff81000000),
    AT(free_of_this_number, SIZE_MAX),
    AT(free_of_this_number, SIZE_MAX - 15),
    ONE(free_before_the_first_malloc, 0x5555550),
    ALL_RANGES(free_of_block_plus_1),
    ALL_RANGES(free_of_block_plus_8),
    ALL_RANGES(free_of_block_plus_16),
    ALL_RANGES(free_of_the_middle),
    ALL_RANGES(free_of_the_last_byte),
    AT(free_of_a_later_slab, 200000),
    AT(free_of_a_later_slab, 3000000),
    ALL_RANGES(free_from_another_thread_of_the_middle),
    AT(free_of_a_block_not_carved_yet, 32),
    AT(free_of_a_block_not_carved_yet, 256),
    AT(free_of_block_plus_10_mib, 48),
    AT(free_of_block_plus_10_mib, 20000),
    AT(free_of_block_plus_10_mib, 200000),
    AT(free_of_block_plus_10_mib, 3000000),
    AT(free_of_block_plus_300_mib_and_1, 48),
    AT(free_of_block_plus_1_tib, 48),
    AT(realloc_of_a_stack_address, 100),
    AT(realloc_inside_a_block, 100),
    AT(realloc_inside_a_block, 20000),
    AT(realloc_inside_a_block, 200000),
    AT(realloc_inside_a_block, 3000000),
    ANSWERED(usable_size_of_a_stack_address, 0),
    ANSWERED(usable_size_of_an_unmapped_address, 65552),
    {NULL, NULL, 0, false, NULL},
};
