// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Conformance: the entry points of clang -fsanitize=alloc-token, called as the compiler would: they
// do what the functions without a token do.
#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>

extern "C" {
#include <cmocka.h>

void *__alloc_token_malloc(std::size_t, std::size_t);
void *__alloc_token_calloc(std::size_t, std::size_t, std::size_t);
void *__alloc_token_realloc(void *, std::size_t, std::size_t);
void *__alloc_token_reallocarray(void *, std::size_t, std::size_t, std::size_t);
void *__alloc_token_aligned_alloc(std::size_t, std::size_t, std::size_t);
void *__alloc_token_memalign(std::size_t, std::size_t, std::size_t);
int __alloc_token_posix_memalign(void **, std::size_t, std::size_t, std::size_t);
void *__alloc_token_valloc(std::size_t, std::size_t);
void *__alloc_token_pvalloc(std::size_t, std::size_t);
void *__alloc_token__Znwm(std::size_t, std::size_t);
void *__alloc_token__Znam(std::size_t, std::size_t);
void *__alloc_token__ZnwmRKSt9nothrow_t(std::size_t, const std::nothrow_t &, std::size_t);
void *__alloc_token__ZnamRKSt9nothrow_t(std::size_t, const std::nothrow_t &, std::size_t);
void *__alloc_token__ZnwmSt11align_val_t(std::size_t, std::align_val_t, std::size_t);
void *__alloc_token__ZnamSt11align_val_t(std::size_t, std::align_val_t, std::size_t);
void *__alloc_token__ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t, std::align_val_t,
                                                       const std::nothrow_t &, std::size_t);
void *__alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(std::size_t, std::align_val_t,
                                                       const std::nothrow_t &, std::size_t);
}

// What the compiler passes: any number; also the largest.
static const std::size_t tokens[] = {0, 1, 2689373973731826898u, SIZE_MAX};
static const std::size_t sizes[] = {0, 1, 64, 1000, 5000, 60000, 300000, 3000000};

static void block_use(void *block, std::size_t bytes, std::size_t alignment)
{
    assert_non_null(block);
    assert_int_equal(reinterpret_cast<std::uintptr_t>(block) % alignment, 0);
    assert_true(malloc_usable_size(block) >= bytes);
    std::memset(block, 0x5a, bytes);
}

static void blocks_of_every_size(void **)
{
    for (std::size_t token : tokens) {
        for (std::size_t size : sizes) {
            void *p = __alloc_token_malloc(size, token);
            block_use(p, size, 16);
            p = __alloc_token_realloc(p, size + 1000, token);
            block_use(p, size + 1000, 16);
            p = __alloc_token_reallocarray(p, size + 1, 2, token);
            block_use(p, 2 * (size + 1), 16);
            std::free(p);
            p = __alloc_token_realloc(nullptr, size, token);
            block_use(p, size, 16);
            std::free(p);
            auto *zero = static_cast<unsigned char *>(__alloc_token_calloc(size, 3, token));
            assert_non_null(zero);
            for (std::size_t i = 0; i < 3 * size; i++)
                assert_int_equal(zero[i], 0);
            block_use(zero, 3 * size, 16);
            std::free(zero);
        }
    }
}

static void blocks_of_every_alignment(void **)
{
    for (std::size_t token : tokens) {
        for (std::size_t alignment = 8; alignment <= 1 << 16; alignment *= 4) {
            void *p = __alloc_token_aligned_alloc(alignment, 3 * alignment, token);
            block_use(p, 3 * alignment, alignment);
            void *q = __alloc_token_memalign(alignment, 100, token);
            block_use(q, 100, alignment);
            void *r = nullptr;
            assert_int_equal(__alloc_token_posix_memalign(&r, alignment, 100, token), 0);
            block_use(r, 100, alignment);
            std::free(p);
            std::free(q);
            std::free(r);
        }
        void *p = __alloc_token_valloc(100, token);
        block_use(p, 100, 4096);
        void *q = __alloc_token_pvalloc(100, token);
        block_use(q, 4096, 4096);
        std::free(p);
        std::free(q);
    }
}

static void what_cannot_be_had(void **)
{
    const std::size_t much = PTRDIFF_MAX;
    errno = 0;
    assert_null(__alloc_token_malloc(much, 1));
    assert_int_equal(errno, ENOMEM);
    assert_null(__alloc_token_calloc(much, 3, 1));
    assert_null(__alloc_token_reallocarray(nullptr, much, 3, 1));
    assert_null(__alloc_token_pvalloc(SIZE_MAX, 1));
    void *p = __alloc_token_malloc(10, 1);
    assert_null(__alloc_token_realloc(p, much, 1));
    assert_null(__alloc_token_realloc(p, 0, 1)); // frees
    void *unchanged = &p;
    assert_int_equal(__alloc_token_posix_memalign(&unchanged, 3, 10, 1), EINVAL);
    assert_int_equal(__alloc_token_posix_memalign(&unchanged, 64, much, 1), ENOMEM);
    assert_ptr_equal(unchanged, &p);
}

static void operators(void **)
{
    const std::align_val_t wide{256};
    for (std::size_t token : tokens) {
        for (std::size_t size : sizes) {
            void *p = __alloc_token__Znwm(size, token);
            block_use(p, size, 16);
            ::operator delete(p);
            p = __alloc_token__Znam(size, token);
            block_use(p, size, 16);
            ::operator delete[](p);
            p = __alloc_token__ZnwmRKSt9nothrow_t(size, std::nothrow, token);
            block_use(p, size, 16);
            ::operator delete(p);
            p = __alloc_token__ZnamRKSt9nothrow_t(size, std::nothrow, token);
            block_use(p, size, 16);
            ::operator delete[](p);
            p = __alloc_token__ZnwmSt11align_val_t(size, wide, token);
            block_use(p, size, 256);
            ::operator delete(p, wide);
            p = __alloc_token__ZnamSt11align_val_t(size, wide, token);
            block_use(p, size, 256);
            ::operator delete[](p, wide);
            p = __alloc_token__ZnwmSt11align_val_tRKSt9nothrow_t(size, wide, std::nothrow, token);
            block_use(p, size, 256);
            ::operator delete(p, wide);
            p = __alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(size, wide, std::nothrow, token);
            block_use(p, size, 256);
            ::operator delete[](p, wide);
        }
    }
    bool thrown = false;
    try {
        ::operator delete(__alloc_token__Znwm(PTRDIFF_MAX, 1));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    assert_true(thrown);
    assert_null(__alloc_token__ZnwmRKSt9nothrow_t(PTRDIFF_MAX, std::nothrow, 1));
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_every_size),
        cmocka_unit_test(blocks_of_every_alignment),
        cmocka_unit_test(what_cannot_be_had),
        cmocka_unit_test(operators),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
