/* Conformance, start and end: allocates in preinit_array, in constructors of all priorities, in
 * main, in atexit handlers and in destructors; blocks taken in one of these places are freed in
 * another. With late.c, a library whose constructor runs before ours and whose destructor runs
 * last.
 *
 * Run by startend.c, which compares what is printed.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/startend/busy.h"
#include "conformance/startend/late.h"

enum { PREINIT, CONSTRUCTOR_101, CONSTRUCTOR, MAIN, PLACES };

static void *kept[PLACES];

static void keep(int place)
{
    kept[place] = my_malloc(1000);
    busy_require(kept[place] != NULL, "an early malloc");
    pattern_fill(kept[place], 1000, (uint64_t)place);
}

static void release(int place)
{
    busy_require(kept[place] && pattern_holds(kept[place], 1000, (uint64_t)place),
                 "an early block");
    my_free(kept[place]);
}

#ifdef __GLIBC__ /* musl does not look at that array */
static void at_preinit(int argc, char **argv, char **environment)
{
    (void)argc, (void)argv, (void)environment;
    keep(PREINIT);
    busy_require(busy_sizes(MIB(3)) && busy_churn(20000, 1), "work in preinit_array");
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
                                                                              char **) = at_preinit;
#endif

__attribute__((constructor(101))) static void first_constructor(void)
{
    keep(CONSTRUCTOR_101);
    busy_require(busy_sizes(MIB(3)) && busy_churn(20000, 2), "work in a constructor");
}

__attribute__((constructor)) static void last_constructor(void)
{
    keep(CONSTRUCTOR);
    busy_require(busy_sizes(MIB(3)), "work in the last constructor");
}

static void at_exit(void)
{
    busy_require(busy_sizes(MIB(3)) && busy_churn(20000, 3), "work in atexit");
#ifdef __GLIBC__
    release(PREINIT);
#endif
    busy_say("atexit\n");
}

static void at_exit_from_atexit(void)
{
    busy_require(atexit(at_exit) == 0 && busy_sizes(KIB(64)), "atexit in atexit");
}

__attribute__((destructor)) static void first_destructor(void)
{
    release(CONSTRUCTOR);
    release(MAIN);
    busy_require(busy_sizes(MIB(3)) && busy_churn(20000, 4), "work in a destructor");
    busy_say("destructor\n");
}

__attribute__((destructor(101))) static void last_destructor(void)
{
    release(CONSTRUCTOR_101);
    busy_require(busy_sizes(MIB(3)), "work in the last destructor");
    busy_say("last destructor\n");
}

int main(void)
{
    busy_require(late_was_constructed(), "the library's constructor");
    keep(MAIN);
    busy_require(atexit(at_exit_from_atexit) == 0, "atexit");
    busy_say("main\n");
    return 0;
}
