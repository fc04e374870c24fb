/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base: branch hints and the constants that tell the builds apart. The variants are constants that
 * the compiler folds (`if (HAK_CHECKS)`), so every line is compiled in every build. */
#pragma once

#ifndef HAK_CHECKS
#define HAK_CHECKS 0
#endif

/* The hardened library: see docs/hardened.md. */
#ifndef HAK_HARDENED
#define HAK_HARDENED 0
#endif

#define HAK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HAK_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The compiler forgets what it knows about a variable; no instruction is made. */
#define HAK_OPAQUE(x) __asm__("" : "+r"(x))
/* The compiler may rely on it. */
#define HAK_ASSUME(x) ((x) ? (void)0 : __builtin_unreachable())

#define HAK_NOINLINE __attribute__((noinline))
#define HAK_COLD __attribute__((noinline, cold))
#define HAK_ALWAYS_INLINE static inline __attribute__((always_inline))
/* On declarations of variables: reached without the global offset table. */
#define HAK_HIDDEN __attribute__((visibility("hidden")))
#define HAK_PUBLIC __attribute__((visibility("default")))

/* Behind definitions of zeroed variables that most processes do not touch: they lie together, so
 * that those that all touch share few pages. See cmake/layout.ld. */
#define HAK_RARELY_USED __attribute__((section(".bss.rest")))
/* The same of variables that are not zero, for three places: those that the loader writes pointers
 * into, in every process, and nobody else; large ones that are not touched before the first
 * allocation; and small ones that are written when the library is loaded, by it or by the loader.
 */
#define HAK_RELOCATED __attribute__((section(".data.first")))
#define HAK_USED_LATER __attribute__((section(".data.last")))
#define HAK_USED_AT_START __attribute__((section(".data.start")))

#define HAK_CACHE_LINE 64

/* On functions whose fast path is about as long as a cache line: it lies in as few as it can,
 * wherever the linker puts it. (A loop of malloc(64) and free takes up to 8% longer else.) */
#define HAK_FAST __attribute__((aligned(HAK_CACHE_LINE)))

/* The public functions are named hakmem_x; in the libraries that replace malloc each has its usual
 * name as an alias. A function that is declared as HAK_FOUND is the one that the program finds
 * under that name: it may have one of its own (cmake/operators.list names it, too). */
#ifndef HAK_INTERPOSE
#define HAK_INTERPOSE 0
#endif
#if HAK_INTERPOSE
#define HAK_ALSO(result, name, parameters, target)                                                 \
    HAK_PUBLIC result name parameters __attribute__((alias(#target)));
#define HAK_FOUND(name, target) __asm__(#name)
#else
#define HAK_ALSO(result, name, parameters, target)
#define HAK_FOUND(name, target) __asm__(#target)
#endif
