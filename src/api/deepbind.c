/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: libraries that are loaded with RTLD_DEEPBIND. In libhakmem.so and libhakmem-hardened.so
 * only.
 *
 * Such a library looks for names in itself and in what it depends on before it looks where
 * everybody looks: its free is libc's, not ours. When it frees a block that the program has
 * allocated (modules of php do), libc crashes. So before the first such library is loaded, libc's
 * own table of symbols is told where our functions are: whoever finds libc's malloc from then on
 * has found ours. All other names are bound as deeply as the program wants, the C++
 * operators too: the C++ runtime's are made of malloc and free, which the hardened library then
 * takes for new and delete. Where the table cannot
 * be changed the flag is dropped.
 *
 * Called by the program in the place of the loader's function. Does nothing in a program that never
 * uses the flag, and nothing for dlmopen: a second libc has a malloc of its own. */
#include "api/api_internal.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#ifdef RTLD_DEEPBIND /* not in other libcs */
void *dlopen(const char *file, int mode);

#define DEEPBIND_EACH(x)                                                                           \
    x(malloc) x(free) x(calloc) x(realloc) x(reallocarray) x(memalign) x(aligned_alloc)            \
        x(posix_memalign) x(valloc) x(pvalloc) x(malloc_usable_size)
#define DEEPBIND_DECLARE(name) void hakmem_##name(void);
#define DEEPBIND_ENTRY(name) {#name, (uintptr_t)hakmem_##name, 0},
DEEPBIND_EACH(DEEPBIND_DECLARE) /* of interest are their addresses alone */
#define DEEPBIND_COUNT (sizeof deepbind_functions / sizeof deepbind_functions[0])
#define DEEPBIND_FREE 1u
static struct hak_os_redirect deepbind_functions[] = {DEEPBIND_EACH(DEEPBIND_ENTRY)};

/* False: libc's table is as it was, or in part. Where libc's functions were is noted for good: the
 * child of a fork in the midst of this finds the table changed, and does the rest. */
static bool deepbind_redirect(void)
{
    static struct hak_lock lock;
    hak_heap_lock(&lock);
    bool done = hak_os_redirect((uintptr_t)getauxval, deepbind_functions, DEEPBIND_COUNT);
    if (deepbind_functions[DEEPBIND_FREE].from != 0)
        hak_foreign_keep_free(deepbind_functions[DEEPBIND_FREE].from);
    hak_unlock(&lock);
    return done;
}

/* A tail call: the loader looks at who calls, for the paths in which it searches. */
HAK_PUBLIC void *dlopen(const char *file, int mode)
{
    static _Atomic(uintptr_t) real;
    uintptr_t next = hak_load_relaxed(&real);
    if (HAK_UNLIKELY(next == 0)) {
        next = hak_foreign_next("dlopen");
        hak_store_relaxed(&real, next);
        if (next == 0)
            return NULL;
    }
    if ((mode & RTLD_DEEPBIND) && !deepbind_redirect())
        mode &= ~RTLD_DEEPBIND;
    if (mode & RTLD_DEEPBIND)
        hak_os_expect_hidden_operators();
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): how POSIX says to get at a function */
    return ((void *(*)(const char *, int))next)(file, mode);
}
#endif
