/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: what the compiler's instrumentation calls (-fsanitize=thread), in place
 * of ThreadSanitizer's runtime: plain accesses of the allocator go to memory.c. */
#include "sched.h"

#define TSAN(name) __attribute__((visibility("default"))) void __tsan_##name
#define TSAN_ACCESS(size)                                                                          \
    TSAN(read##size)(void *p);                                                                     \
    TSAN(write##size)(void *p);                                                                    \
    TSAN(unaligned_read##size)(void *p);                                                           \
    TSAN(unaligned_write##size)(void *p);                                                          \
    TSAN(read##size)(void *p)                                                                      \
    {                                                                                              \
        memory_instrumented(p, size, false, __builtin_return_address(0));                          \
    }                                                                                              \
    TSAN(write##size)(void *p)                                                                     \
    {                                                                                              \
        memory_instrumented(p, size, true, __builtin_return_address(0));                           \
    }                                                                                              \
    TSAN(unaligned_read##size)(void *p)                                                            \
    {                                                                                              \
        memory_instrumented(p, size, false, __builtin_return_address(0));                          \
    }                                                                                              \
    TSAN(unaligned_write##size)(void *p)                                                           \
    {                                                                                              \
        memory_instrumented(p, size, true, __builtin_return_address(0));                           \
    }
TSAN_ACCESS(1)
TSAN_ACCESS(2)
TSAN_ACCESS(4)
TSAN_ACCESS(8)
TSAN_ACCESS(16)

TSAN(init)(void);
TSAN(func_entry)(void *caller);
TSAN(func_exit)(void);
TSAN(read_range)(void *p, size_t bytes);
TSAN(write_range)(void *p, size_t bytes);

TSAN(init)(void) {}

TSAN(func_entry)(void *caller)
{
    (void)caller;
}

TSAN(func_exit)(void) {}

TSAN(read_range)(void *p, size_t bytes)
{
    memory_instrumented(p, bytes, false, __builtin_return_address(0));
}

TSAN(write_range)(void *p, size_t bytes)
{
    memory_instrumented(p, bytes, true, __builtin_return_address(0));
}

/* clang's, in place of the C library's. */
void *__tsan_memset(void *to, int value, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);

void *__tsan_memset(void *to, int value, size_t bytes)
{
    return sched_memset(to, value, bytes);
}

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    return sched_memmove(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    return sched_memmove(to, from, bytes);
}
