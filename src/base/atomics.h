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

#define hak_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define hak_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define hak_load_seq_cst(p) atomic_load_explicit((p), memory_order_seq_cst)

#define hak_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define hak_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define hak_store_seq_cst(p, v) atomic_store_explicit((p), (v), memory_order_seq_cst)

#define hak_exchange_relaxed(p, v) atomic_exchange_explicit((p), (v), memory_order_relaxed)
#define hak_exchange_acquire(p, v) atomic_exchange_explicit((p), (v), memory_order_acquire)
#define hak_exchange_release(p, v) atomic_exchange_explicit((p), (v), memory_order_release)
#define hak_exchange_acq_rel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define hak_exchange_seq_cst(p, v) atomic_exchange_explicit((p), (v), memory_order_seq_cst)

#define hak_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define hak_sub_relaxed(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define hak_or_relaxed(p, v) atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define hak_or_release(p, v) atomic_fetch_or_explicit((p), (v), memory_order_release)
#define hak_or_seq_cst(p, v) atomic_fetch_or_explicit((p), (v), memory_order_seq_cst)
#define hak_and_relaxed(p, v) atomic_fetch_and_explicit((p), (v), memory_order_relaxed)
#define hak_and_seq_cst(p, v) atomic_fetch_and_explicit((p), (v), memory_order_seq_cst)

/* Compare and swap; on failure *expected holds what was found, read relaxed unless the name says
 * otherwise. */
#define hak_cas_relaxed(p, expected, v)                                                            \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_relaxed,            \
                                            memory_order_relaxed)
#define hak_cas_acquire(p, expected, v)                                                            \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acquire,            \
                                            memory_order_relaxed)
#define hak_cas_acq_rel(p, expected, v)                                                            \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel,            \
                                            memory_order_relaxed)
#define hak_cas_seq_cst(p, expected, v)                                                            \
    atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_seq_cst,              \
                                          memory_order_relaxed)

/* A counter that only one thread at a time writes (its owner, or whoever holds its lock) and any
 * may read: no locked instruction. */
#define hak_count_owner(p, n) hak_store_relaxed((p), hak_load_relaxed(p) + (n))

static inline void hak_cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}
