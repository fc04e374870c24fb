/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: pointers that are not ours. Never reads what they point to. */
#include "api/api_internal.h"

#include <dlfcn.h>
#include <errno.h>

/* Weak: a statically linked program may not have it. */
extern void *dlsym(void *, const char *) __attribute__((weak));

static uintptr_t foreign_first_break;
static _Atomic(uintptr_t) foreign_free;

void hak_foreign_keep_free(uintptr_t address)
{
    hak_store_relaxed(&foreign_free, address);
}

void hak_foreign_start(void)
{
    foreign_first_break = hak_os_break(); /* sbrk would touch two pages of libc's for it */
}

/* hakmem never moves the program break, so what lies between its first place and the present one is
 * another allocator's: glibc's own malloc, reached through a handle. */
static bool foreign_is_on_the_break(const void *p)
{
    return foreign_first_break != 0 && (uintptr_t)p >= foreign_first_break &&
           (uintptr_t)p < hak_os_break();
}

uintptr_t hak_foreign_next(const char *name)
{
    return dlsym == NULL ? 0 : (uintptr_t)dlsym(RTLD_NEXT, name);
}

static void (*foreign_next_free(void))(void *)
{
    uintptr_t kept = hak_load_relaxed(&foreign_free);
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): how POSIX says to get at a function */
    return (void (*)(void *))(kept != 0 ? kept : hak_foreign_next("free"));
}

HAK_COLD _Noreturn void hak_foreign_die(const char *what, const void *p)
{
    char line[160];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_text_string(&text, what);
    hak_text_hex(&text, (uintptr_t)p);
    hak_text_string(&text, " (");
    hak_text_string(&text, hak_heap_why_not(p));
    hak_text_string(&text, ")");
    hak_os_die(line);
}

HAK_COLD void hak_foreign_free(void *p)
{
    int saved = errno;
    void (*next_free)(void *) = NULL;
    if (HAK_INTERPOSE && foreign_is_on_the_break(p))
        next_free = foreign_next_free();
    if (next_free == NULL)
        hak_foreign_die("invalid free of ", p);
    next_free(p);
    errno = saved;
}
