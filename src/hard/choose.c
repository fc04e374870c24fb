/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: which of the two forms of malloc and free this machine gets: chosen by the dynamic linker,
 * so that the choice lies in memory that cannot be written to. */
#include "hard/hard_internal.h"

#include <features.h>

/* One form: other processors have no other, other libcs' dynamic linkers do not choose, and under
 * sanitizers it is too early to. */
#if !defined(__x86_64__) || !defined(__GLIBC__) || defined(__SANITIZE_THREAD__) ||                 \
    defined(__SANITIZE_ADDRESS__)
#define CHOOSE(result, name, parameters, arguments)                                                \
    result name parameters                                                                         \
    {                                                                                              \
        return name##_plain arguments;                                                             \
    }
#else
static bool choose_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
}

#define CHOOSE(result, name, parameters, arguments)                                                \
    __attribute__((unused)) /* says clang 14 of what only ifunc names */                           \
    static __typeof__(name) *choose_##name(void)                                                   \
    {                                                                                              \
        return choose_avx2() ? name##_avx2 : name##_plain;                                         \
    }                                                                                              \
    result name parameters __attribute__((ifunc("choose_" #name)));
#endif

HARD_PATHS(CHOOSE)
