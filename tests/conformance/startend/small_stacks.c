/* Conformance, start and end: threads with 64 KiB of stack do everything, the slow paths and the
 * thread's end included. A guard page lies below; how deep the calls went is measured.
 *
 * Run with the library preloaded, or built against the prefixed one.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <pthread.h>
#include <sys/mman.h>

#include "conformance/startend/busy.h"
#include "conformance/support/cmocka_all.h"

#define STACK_BYTES KIB(64)

enum { THREADS = 8, PAINT = 0x7e };

static void *mixed_work(void *number)
{
    uintptr_t seed = (uintptr_t)number;
    if (!busy_sizes(MIB(3)) || !busy_churn(50000, seed))
        return "work";
    my_malloc_trim(0);
    /* A large one, which is counted by itself: what small ones come to is off by what other threads
     * move from heap to heap meanwhile. */
    void *live = my_malloc(KIB(200));
    if (my_bytes_in_use() < KIB(200))
        return "bytes in use";
    my_free(live);
    if (my_malloc(SIZE_MAX) != NULL)
        return "malloc(SIZE_MAX)";
    return NULL;
}

/* The first call of the thread, and of its heap, comes from nearly the bottom of what it has. */
static void *first_call_deep_down(void *number)
{
    unsigned char used[KIB(36)];
    memset(used, (int)(uintptr_t)number, sizeof used);
    void *p = my_malloc(200);
    bool good = p != NULL && busy_one(40, used[7]);
    my_free(p);
    __asm__ volatile("" : : "r"(used) : "memory");
    return good ? NULL : "a deep first call";
}

static void *free_only(void *block)
{
    my_free(block);
    return NULL;
}

struct stack {
    unsigned char *memory;
    pthread_t thread;
};

static void stack_start(struct stack *s, void *(*run)(void *), void *arg)
{
    unsigned char *p = mmap(NULL, STACK_BYTES + KIB(4), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(p != MAP_FAILED);
    s->memory = p + KIB(4);
    assert_int_equal(mprotect(s->memory, STACK_BYTES, PROT_READ | PROT_WRITE), 0);
    memset(s->memory, PAINT, STACK_BYTES);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, s->memory, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&s->thread, &attributes, run, arg), 0);
    pthread_attr_destroy(&attributes);
}

/* How much of it was ever written, libc's own part included. */
static size_t stack_end(struct stack *s)
{
    void *wrong = NULL;
    assert_int_equal(pthread_join(s->thread, &wrong), 0);
    CHECK(!wrong, "%s in a thread with a small stack", (const char *)wrong);
    size_t untouched = 0;
    while (untouched < STACK_BYTES && s->memory[untouched] == PAINT)
        untouched++;
    munmap(s->memory - KIB(4), STACK_BYTES + KIB(4));
    return STACK_BYTES - untouched;
}

static size_t deepest(void *(*run)(void *), unsigned rounds)
{
    size_t most = 0;
    for (unsigned round = 0; round < rounds; round++) {
        struct stack stacks[THREADS];
        for (size_t i = 0; i < THREADS; i++)
            stack_start(&stacks[i], run, run == free_only ? my_malloc(i * 3000) : (void *)i);
        for (size_t i = 0; i < THREADS; i++) {
            size_t used = stack_end(&stacks[i]);
            most = used > most ? used : most;
        }
    }
    return most;
}

static void all_operations_fit(void **state)
{
    (void)state;
    if (allocator_sanitized())
        SKIP_BECAUSE("sanitizers need more stack");
    size_t used = deepest(mixed_work, 3);
    print_message(
        "%zu of %zu bytes of stack used, libc's and the test's own 4 KiB or so included\n", used,
        STACK_BYTES);
    CHECK(used < KIB(32), "%zu bytes of stack used", used);
}

static void the_first_call_may_come_late(void **state)
{
    (void)state;
    if (allocator_sanitized())
        SKIP_BECAUSE("sanitizers need more stack");
    deepest(first_call_deep_down, 10);
}

static void threads_that_only_free(void **state)
{
    (void)state;
    if (allocator_sanitized())
        SKIP_BECAUSE("sanitizers need more stack");
    deepest(free_only, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_operations_fit),
        cmocka_unit_test(the_first_call_may_come_late),
        cmocka_unit_test(threads_that_only_free),
    };
    return RUN_TESTS(tests);
}
