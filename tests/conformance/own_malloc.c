/* Conformance: a program that has malloc, calloc, realloc and free of its own, which is all that it
 * must have. The functions that it has not, and that are made of these, go by its own: reallocarray
 * calls realloc.
 *
 * Run with the library preloaded.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <stdbool.h>
#include <string.h>

#include "conformance/support/cmocka_all.h"
#include "support/api.h"

enum { POOL_BYTES = 1 << 20, HEAD_BYTES = 16 };

/* From here blocks are taken, none twice. Before each is how long it is. */
static _Alignas(HEAD_BYTES) char pool[POOL_BYTES];
static size_t taken;
static unsigned reallocs;

void *malloc(size_t size)
{
    size_t need = (HEAD_BYTES + size + HEAD_BYTES - 1) & ~(size_t)(HEAD_BYTES - 1);
    if (need < size || need > POOL_BYTES - taken)
        return NULL;
    char *head = pool + taken;
    taken += need;
    memcpy(head, &size, sizeof size);
    return head + HEAD_BYTES;
}

void free(void *p)
{
    (void)p;
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : malloc(bytes);
}

void *realloc(void *p, size_t size)
{
    reallocs++;
    char *q = malloc(size);
    if (p == NULL || q == NULL)
        return q;
    size_t had;
    memcpy(&had, (char *)p - HEAD_BYTES, sizeof had);
    memcpy(q, p, had < size ? had : size);
    return q;
}

static bool in_pool(const char *p)
{
    return p >= pool && p < pool + POOL_BYTES;
}

static void reallocarray_is_by_the_program_s_realloc(void **state)
{
    (void)state;
    char *p = my_malloc(100);
    assert_true(in_pool(p));
    strcpy(p, "what it holds");
    unsigned before = reallocs;
    p = my_reallocarray(p, 10, 50);
    assert_true(in_pool(p));
    assert_string_equal(p, "what it holds");
    char *fresh = my_reallocarray(NULL, 3, 7);
    assert_true(in_pool(fresh));
    assert_int_equal(reallocs, before + 2);
    my_free(p);
    my_free(fresh);
}

/* malloc is not the library's here (allocator_require), what is looked at is. */
static bool has_the_library_s_reallocarray(void)
{
    Dl_info version, found;
    void *of_library = dlsym(RTLD_DEFAULT, "hakmem_version");
    return of_library != NULL && dladdr(of_library, &version) != 0 &&
           dladdr(dlsym(RTLD_DEFAULT, "reallocarray"), &found) != 0 &&
           found.dli_fbase == version.dli_fbase;
}

int main(void)
{
    if (!has_the_library_s_reallocarray() && getenv("HAK_TEST_ANY_ALLOCATOR") == NULL) {
        fputs("this test runs without hakmem: see README.md\n", stderr);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reallocarray_is_by_the_program_s_realloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
