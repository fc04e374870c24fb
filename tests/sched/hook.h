/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: what stands in place of the atomic operations of src/base/atomics.h in
 * the copies of the allocator that it runs. Every file of such a copy is compiled with this header
 * first (-include). Each operation knows where it stands in the source, for the trace.
 *
 * Never included by the product, where HAK_SCHED is 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum sched_order {
    SCHED_ORDER_relaxed,
    SCHED_ORDER_acquire,
    SCHED_ORDER_release,
    SCHED_ORDER_acq_rel,
    SCHED_ORDER_seq_cst
};

enum sched_change {
    SCHED_CHANGE_set,
    SCHED_CHANGE_add,
    SCHED_CHANGE_sub,
    SCHED_CHANGE_or,
    SCHED_CHANGE_and
};

struct sched_site {
    const char *operation, *place, *file;
    int line;
    enum sched_order order;
};

uint64_t sched_load(const volatile void *p, size_t bytes, const struct sched_site *site);
void sched_store(volatile void *p, size_t bytes, uint64_t value, const struct sched_site *site);
/* Returns what was there before. */
uint64_t sched_change(volatile void *p, size_t bytes, enum sched_change change, uint64_t value,
                      const struct sched_site *site);
bool sched_cas(volatile void *p, size_t bytes, void *expected, uint64_t value,
               const struct sched_site *site);

/* The thread waits for others: they go first. */
void hak_sched_pause(void);
/* What futexes do: sleeps if the word has this value; wakes one. */
void hak_sched_sleep(const volatile void *word, uint32_t value);
void hak_sched_wake(const volatile void *word);
/* What the running logical thread is known by; all of them are one to the system. */
uintptr_t hak_sched_thread(void);

/* Writes that the compiler's instrumentation passes over. */
void sched_wrote(const void *p, size_t bytes);
void sched_read(const void *p, size_t bytes);

#define SCHED_SITE(operation_, place_, order_)                                                     \
    ({                                                                                             \
        static const struct sched_site sched_site_ = {operation_, place_, __FILE__, __LINE__,      \
                                                      SCHED_ORDER_##order_};                       \
        &sched_site_;                                                                              \
    })
/* The type of the value: without _Atomic. */
#define SCHED_TYPE(p) __typeof__((void)0, *(p))

#define HAK_LOAD(p, order)                                                                         \
    ((SCHED_TYPE(p))sched_load((p), sizeof *(p), SCHED_SITE("load", #p, order)))
#define HAK_STORE(p, v, order)                                                                     \
    sched_store((p), sizeof *(p), (uint64_t)(SCHED_TYPE(p))(v), SCHED_SITE("store", #p, order))
#define HAK_EXCHANGE(p, v, order)                                                                  \
    ((SCHED_TYPE(p))sched_change((p), sizeof *(p), SCHED_CHANGE_set, (uint64_t)(SCHED_TYPE(p))(v), \
                                 SCHED_SITE("exchange", #p, order)))
#define HAK_FETCH(what, p, v, order)                                                               \
    ((SCHED_TYPE(p))sched_change((p), sizeof *(p), SCHED_CHANGE_##what,                            \
                                 (uint64_t)(SCHED_TYPE(p))(v), SCHED_SITE(#what, #p, order)))
#define HAK_CAS(p, expected, v, order)                                                             \
    sched_cas((p), sizeof *(p), (expected), (uint64_t)(SCHED_TYPE(p))(v),                          \
              SCHED_SITE("cas", #p, order))

static inline void *sched_memset(void *to, int value, size_t bytes)
{
    sched_wrote(to, bytes);
    return memset(to, value, bytes);
}

static inline void *sched_memmove(void *to, const void *from, size_t bytes)
{
    sched_read(from, bytes);
    sched_wrote(to, bytes);
    return memmove(to, from, bytes);
}

/* With arguments, so that (memcpy)(...) is still the library's. */
#define memset(to, value, bytes) sched_memset((to), (value), (bytes))
#define memmove(to, from, bytes) sched_memmove((to), (from), (bytes))
#define memcpy(to, from, bytes) sched_memmove((to), (from), (bytes))
