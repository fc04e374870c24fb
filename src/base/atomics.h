/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base: atomic operations with the memory order in the name.
 *
 * The only file that names memory_order_*. Everything stronger than relaxed is followed, where it
 * is used, by a comment "ORDER: [tag]" that names the operation on the other side; a gate checks
 * that each tag has both sides. Any layer may include it. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Every operation is one of these. The tests' scheduler (tests/sched) is built with HAK_SCHED and
 * brings its own, each of which is a place where another thread may go on; nothing of that is left
 * in any other build. */
#ifndef HAK_SCHED
#define HAK_SCHED 0
#endif
#if !HAK_SCHED
#define HAK_LOAD(p, order) atomic_load_explicit((p), memory_order_##order)
#define HAK_STORE(p, v, order) atomic_store_explicit((p), (v), memory_order_##order)
#define HAK_EXCHANGE(p, v, order) atomic_exchange_explicit((p), (v), memory_order_##order)
#define HAK_FETCH(what, p, v, order) atomic_fetch_##what##_explicit((p), (v), memory_order_##order)
#define HAK_CAS_INLINE(p, expected, v, order)                                                      \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_##order,            \
                                            memory_order_relaxed)
/* For processors without an instruction for it: compares and swaps the word around the byte, again
 * as long as its other bytes change. On success at least as strong as any order asked for. */
static inline int hak_cas_byte(_Atomic(uint8_t) *p, uint8_t *expected, uint8_t v)
{
    uintptr_t at = (uintptr_t)p;
    unsigned shift = (unsigned)(at % sizeof(uint32_t)) * 8; /* little endian */
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the word that the byte is in */
    _Atomic(uint32_t) *word = (_Atomic(uint32_t) *)(at - at % sizeof(uint32_t));
    uint32_t is = atomic_load_explicit(word, memory_order_relaxed);
    do {
        uint8_t found = (uint8_t)(is >> shift);
        if (found != *expected) {
            *expected = found;
            return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(word, &is,
                                                    is ^ (uint32_t)(*expected ^ v) << shift,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return 1;
}
/* Compilers for RISC-V before gcc 13 would call libatomic. */
#if defined(__riscv) && !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_1)
#define HAK_CAS(p, expected, v, order)                                                             \
    _Generic((p),                                                                                  \
        _Atomic(uint8_t) *: hak_cas_byte((_Atomic(uint8_t) *)(void *)(p),                          \
                                         (uint8_t *)(void *)(expected), (uint8_t)(uintptr_t)(v)),  \
        default: HAK_CAS_INLINE(p, expected, v, order))
#else
#define HAK_CAS HAK_CAS_INLINE
#endif
#endif

#define hak_load_relaxed(p) HAK_LOAD(p, relaxed)
#define hak_load_acquire(p) HAK_LOAD(p, acquire)
#define hak_load_seq_cst(p) HAK_LOAD(p, seq_cst)

#define hak_store_relaxed(p, v) HAK_STORE(p, v, relaxed)
#define hak_store_release(p, v) HAK_STORE(p, v, release)
#define hak_store_seq_cst(p, v) HAK_STORE(p, v, seq_cst)

#define hak_exchange_relaxed(p, v) HAK_EXCHANGE(p, v, relaxed)
#define hak_exchange_acquire(p, v) HAK_EXCHANGE(p, v, acquire)
#define hak_exchange_release(p, v) HAK_EXCHANGE(p, v, release)
#define hak_exchange_acq_rel(p, v) HAK_EXCHANGE(p, v, acq_rel)

#define hak_add_relaxed(p, v) HAK_FETCH(add, p, v, relaxed)
#define hak_add_release(p, v) HAK_FETCH(add, p, v, release)
#define hak_sub_relaxed(p, v) HAK_FETCH(sub, p, v, relaxed)
#define hak_or_relaxed(p, v) HAK_FETCH(or, p, v, relaxed)
#define hak_or_release(p, v) HAK_FETCH(or, p, v, release)
#define hak_and_relaxed(p, v) HAK_FETCH(and, p, v, relaxed)
#define hak_and_acquire(p, v) HAK_FETCH(and, p, v, acquire)
#define hak_and_seq_cst(p, v) HAK_FETCH(and, p, v, seq_cst)

/* Compare and swap; on failure *expected holds what was found, read relaxed unless the name says
 * otherwise. */
#define hak_cas_relaxed(p, expected, v) HAK_CAS(p, expected, v, relaxed)
#define hak_cas_release(p, expected, v) HAK_CAS(p, expected, v, release)
#define hak_cas_acquire(p, expected, v) HAK_CAS(p, expected, v, acquire)
#define hak_cas_acq_rel(p, expected, v) HAK_CAS(p, expected, v, acq_rel)

/* A counter that only one thread at a time writes (its owner, or whoever holds its lock) and any
 * may read: no locked instruction. */
#define hak_count_owner(p, n) hak_store_relaxed((p), hak_load_relaxed(p) + (n))

static inline void hak_cpu_pause(void)
{
#if HAK_SCHED
    hak_sched_pause();
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#elif defined(__riscv)
    __asm__ volatile(".word 0x0100000f" ::: "memory"); /* pause (Zihintpause); older ones: no-op */
#endif
}
