// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// api: the C++ operators new and delete, all of them ([new.delete] in ISO C++20).
//
// In libhakmem.so everything of the C++ runtime is a weak reference (HAK_CXX_WEAK), so that C
// programs need no libstdc++; in a C++ program libstdc++ (or libc++) is there and the references
// find it. To a C program it may come later, with a library that is loaded at run time (python3
// with a module in C++): then it is looked for when an allocation has failed. The static library
// has ordinary references: only programs that use the operators pull this member in.
//
// A program may replace some of them, and the standard says which others then call its own: new[]
// calls new, nothrow forms those that throw, delete[] and the forms with a size delete. So what
// calls another one calls what the program finds under that name (cmake/operators.list keeps the
// linker from binding it within the library). In the static library all are weak: a program that
// has its own may be linked with it. In the shared libraries none is: valgrind replaces no weak
// function of a library that it does not know, but would replace free, which is what delete ends
// in.
#include <cstddef>
#include <cstdint>
#include <new>

extern "C" {
void *hakmem_malloc(std::size_t size) noexcept;
void *hakmem_memalign(std::size_t alignment, std::size_t size) noexcept;
void hakmem_free(void *p) noexcept;
// The same for a call site: see tokens.c.
void *__alloc_token_malloc(std::size_t size, std::size_t token);
void *__alloc_token_memalign(std::size_t alignment, std::size_t size, std::size_t token);
void *hak_operator_new(std::size_t size, void *(*failed)(std::size_t size));
[[noreturn]] void hak_os_die(const char *text);
std::uintptr_t hak_os_find_function(const char *name, const char *not_beside);
// The hardened library's: they know which operator calls. See operators_hardened.c.
void *hak_hardened_new(std::size_t size, int array) noexcept;
void *hak_hardened_new_aligned(std::size_t size, std::size_t alignment, int array) noexcept;
void hak_hardened_delete(void *p, int array, std::size_t size) noexcept;
void hak_hardened_delete_aligned(void *p, int array, std::size_t size,
                                 std::size_t alignment) noexcept;
}

#ifndef HAK_HARDENED
#define HAK_HARDENED 0
#endif

#ifndef HAK_CXX_WEAK
#define HAK_CXX_WEAK 0
#endif

#if HAK_CXX_WEAK
#define HAK_OPERATOR __attribute__((visibility("default")))
__asm__(".weak __gxx_personality_v0, __cxa_begin_catch, __cxa_end_catch, _Unwind_Resume\n"
        ".weak _ZSt15get_new_handlerv, _ZSt17__throw_bad_allocv, _ZSt9terminatev");
extern "C" std::new_handler operators_get_handler() __asm__("_ZSt15get_new_handlerv")
    __attribute__((weak));
extern "C" void operators_throw() __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));
extern "C" void operators_personality() __asm__("__gxx_personality_v0") __attribute__((weak));

// Not in a library that has hakmem_malloc: its operators are these.
template <class function> static function *operators_find(const char *name)
{
    return reinterpret_cast<function *>(hak_os_find_function(name, "hakmem_malloc"));
}

template <class function>
static function *operators_find_unless_bound(function *bound, const char *name)
{
    return bound != nullptr ? bound : operators_find<function>(name);
}

static std::new_handler operators_handler()
{
    auto *get = operators_find_unless_bound(operators_get_handler, "_ZSt15get_new_handlerv");
    return get != nullptr ? get() : nullptr;
}

[[noreturn]] static void operators_fail()
{
    auto *fail = operators_find_unless_bound(operators_throw, "_ZSt17__throw_bad_allocv");
    if (fail != nullptr)
        fail();
    hak_os_die("operator new: out of memory, and no C++ runtime to throw std::bad_alloc");
}

// Where there was no runtime when this library was loaded, whatever is thrown goes through it:
// nothing is caught. Then a form that does not throw is the runtime's own, which calls the one here
// that does. False: there is none.
static bool operators_try_catching(std::size_t size, std::size_t alignment, bool array, void **out)
{
    using form = void *(std::size_t, const std::nothrow_t &);
    using form_aligned = void *(std::size_t, std::align_val_t, const std::nothrow_t &);
    static const std::nothrow_t nothrow{};
    if (operators_personality != nullptr)
        return false;
    if (alignment == 0) {
        auto *call = operators_find<form>(array ? "_ZnamRKSt9nothrow_t" : "_ZnwmRKSt9nothrow_t");
        if (call != nullptr)
            *out = call(size, nothrow);
        return call != nullptr;
    }
    auto *call = operators_find<form_aligned>(array ? "_ZnamSt11align_val_tRKSt9nothrow_t"
                                                    : "_ZnwmSt11align_val_tRKSt9nothrow_t");
    if (call != nullptr)
        *out = call(size, static_cast<std::align_val_t>(alignment), nothrow);
    return call != nullptr;
}
#else
#define HAK_OPERATOR __attribute__((visibility("default"), weak))

static std::new_handler operators_handler()
{
    return std::get_new_handler();
}

[[noreturn]] static void operators_fail()
{
    throw std::bad_alloc();
}

static bool operators_try_catching(std::size_t, std::size_t, bool, void **)
{
    return false;
}
#endif

static const std::size_t operators_unknown = static_cast<std::size_t>(-1); // a size

static inline void *operators_try(std::size_t size, std::size_t alignment, bool array)
{
    if (HAK_HARDENED)
        return alignment == 0 ? hak_hardened_new(size, array)
                              : hak_hardened_new_aligned(size, alignment, array);
    return alignment == 0 ? hakmem_malloc(size) : hakmem_memalign(alignment, size);
}

// The loop that the standard asks for: try, call the handler, try again; without a handler throw.
__attribute__((noinline, cold)) static void *operators_new_slow(std::size_t size,
                                                                std::size_t alignment, bool array)
{
    for (;;) {
        std::new_handler handler = operators_handler();
        if (handler == nullptr)
            operators_fail();
        handler();
        void *p = operators_try(size, alignment, array);
        if (p != nullptr)
            return p;
    }
}

__attribute__((noinline, cold)) static void *operators_new_slow_nothrow(std::size_t size,
                                                                        std::size_t alignment,
                                                                        bool array) noexcept
{
    void *p = nullptr;
    try {
        if (operators_handler() == nullptr || operators_try_catching(size, alignment, array, &p))
            return p;
        return operators_new_slow(size, alignment, array);
    } catch (...) {
        return nullptr;
    }
}

// The usual one of the shared library is malloc's fast path and a tail call. The static library's
// is an archive member of its own, which sees only public names.
static constexpr bool operators_tail_call = HAK_CXX_WEAK && !HAK_HARDENED;

template <bool array> static void *operators_failed(std::size_t size)
{
    return operators_new_slow(size, 0, array);
}

template <bool array> static void *operators_failed_nothrow(std::size_t size)
{
    return operators_new_slow_nothrow(size, 0, array);
}

static inline void *operators_new(std::size_t size, std::size_t alignment, bool array)
{
    if (operators_tail_call && alignment == 0)
        return hak_operator_new(size, array ? operators_failed<true> : operators_failed<false>);
    void *p = operators_try(size, alignment, array);
    return __builtin_expect(p != nullptr, 1) ? p : operators_new_slow(size, alignment, array);
}

// What clang -fsanitize=alloc-token calls. (The hardened library knows no sites.)
static inline void *operators_try_token(std::size_t size, std::size_t alignment, bool array,
                                        std::size_t token)
{
    if (HAK_HARDENED)
        return alignment == 0 ? hak_hardened_new(size, array)
                              : hak_hardened_new_aligned(size, alignment, array);
    return alignment == 0 ? __alloc_token_malloc(size, token)
                          : __alloc_token_memalign(alignment, size, token);
}

static inline void *operators_new_token(std::size_t size, std::size_t alignment, bool array,
                                        std::size_t token)
{
    void *p = operators_try_token(size, alignment, array, token);
    return __builtin_expect(p != nullptr, 1) ? p : operators_new_slow(size, alignment, array);
}

static inline void *operators_new_token_nothrow(std::size_t size, std::size_t alignment, bool array,
                                                std::size_t token) noexcept
{
    void *p = operators_try_token(size, alignment, array, token);
    return __builtin_expect(p != nullptr, 1) ? p
                                             : operators_new_slow_nothrow(size, alignment, array);
}

static inline void *operators_new_nothrow(std::size_t size, std::size_t alignment,
                                          bool array) noexcept
{
    if (operators_tail_call && alignment == 0)
        return hak_operator_new(size, array ? operators_failed_nothrow<true>
                                            : operators_failed_nothrow<false>);
    void *p = operators_try(size, alignment, array);
    return __builtin_expect(p != nullptr, 1) ? p
                                             : operators_new_slow_nothrow(size, alignment, array);
}

// size and alignment as the caller of delete states them.
static inline void operators_delete(void *p, bool array, std::size_t size = operators_unknown,
                                    std::size_t alignment = 0) noexcept
{
    if (HAK_HARDENED && alignment == 0)
        hak_hardened_delete(p, array, size);
    else if (HAK_HARDENED)
        hak_hardened_delete_aligned(p, array, size, alignment);
    else
        hakmem_free(p);
}

using std::align_val_t;
using std::nothrow_t;
using std::size_t;

// The library's own ones, to tell whether they are what the program finds under their names.
#define OPERATORS_OWN(symbol) __attribute__((alias(symbol)))
#define OPERATORS_OWN_NEW(symbol) OPERATORS_OWN(symbol) __attribute__((malloc, alloc_size(1)))
static void *own_new(size_t n) OPERATORS_OWN_NEW("_Znwm");
static void *own_new_array(size_t n) OPERATORS_OWN_NEW("_Znam");
static void *own_new_aligned(size_t n, align_val_t a) OPERATORS_OWN_NEW("_ZnwmSt11align_val_t");
static void *own_new_array_aligned(size_t n, align_val_t a)
    OPERATORS_OWN_NEW("_ZnamSt11align_val_t");
static void own_delete(void *p) noexcept OPERATORS_OWN("_ZdlPv");
static void own_delete_array(void *p) noexcept OPERATORS_OWN("_ZdaPv");
static void own_delete_aligned(void *p, align_val_t a) noexcept
    OPERATORS_OWN("_ZdlPvSt11align_val_t");
static void own_delete_array_aligned(void *p, align_val_t a) noexcept
    OPERATORS_OWN("_ZdaPvSt11align_val_t");

template <class function> static inline bool operators_are(function *found, function *own)
{
    return __builtin_expect(found == own, 1);
}

static inline bool operators_own_new(bool array)
{
    using function = void *(size_t);
    return operators_are<function>(::operator new, own_new) &&
           (!array || operators_are<function>(::operator new[], own_new_array));
}

static inline bool operators_own_new_aligned(bool array)
{
    using function = void *(size_t, align_val_t);
    return operators_are<function>(::operator new, own_new_aligned) &&
           (!array || operators_are<function>(::operator new[], own_new_array_aligned));
}

// The hardened library knows how a block was allocated, and its delete[] is not its delete: it
// calls others only where they are the program's.
static inline bool operators_hardened_delete(bool array)
{
    using function = void(void *) noexcept;
    return HAK_HARDENED && operators_are<function>(::operator delete, own_delete) &&
           (!array || operators_are<function>(::operator delete[], own_delete_array));
}

static inline bool operators_hardened_delete_aligned(bool array)
{
    using function = void(void *, align_val_t) noexcept;
    return HAK_HARDENED && operators_are<function>(::operator delete, own_delete_aligned) &&
           (!array || operators_are<function>(::operator delete[], own_delete_array_aligned));
}

// Forms that do not throw, where the program has replaced those that do.
template <class call> static void *operators_caught(call new_form) noexcept
{
    try {
        return new_form();
    } catch (...) {
        return nullptr;
    }
}

HAK_OPERATOR void *operator new(size_t n)
{
    return operators_new(n, 0, false);
}

HAK_OPERATOR void *operator new(size_t n, align_val_t a)
{
    return operators_new(n, static_cast<size_t>(a), false);
}

HAK_OPERATOR void *operator new[](size_t n)
{
    return HAK_HARDENED && operators_own_new(false) ? operators_new(n, 0, true) : ::operator new(n);
}

HAK_OPERATOR void *operator new[](size_t n, align_val_t a)
{
    return HAK_HARDENED && operators_own_new_aligned(false)
               ? operators_new(n, static_cast<size_t>(a), true)
               : ::operator new(n, a);
}

HAK_OPERATOR void *operator new(size_t n, const nothrow_t &) noexcept
{
    return operators_own_new(false) ? operators_new_nothrow(n, 0, false)
                                    : operators_caught([=] { return ::operator new(n); });
}

HAK_OPERATOR void *operator new[](size_t n, const nothrow_t &) noexcept
{
    return operators_own_new(true) ? operators_new_nothrow(n, 0, true)
                                   : operators_caught([=] { return ::operator new[](n); });
}

HAK_OPERATOR void *operator new(size_t n, align_val_t a, const nothrow_t &) noexcept
{
    return operators_own_new_aligned(false)
               ? operators_new_nothrow(n, static_cast<size_t>(a), false)
               : operators_caught([=] { return ::operator new(n, a); });
}

HAK_OPERATOR void *operator new[](size_t n, align_val_t a, const nothrow_t &) noexcept
{
    return operators_own_new_aligned(true)
               ? operators_new_nothrow(n, static_cast<size_t>(a), true)
               : operators_caught([=] { return ::operator new[](n, a); });
}

HAK_OPERATOR void operator delete(void *p) noexcept
{
    operators_delete(p, false);
}

HAK_OPERATOR void operator delete(void *p, align_val_t a) noexcept
{
    operators_delete(p, false, operators_unknown, static_cast<size_t>(a));
}

HAK_OPERATOR void operator delete[](void *p) noexcept
{
    operators_hardened_delete(false) ? operators_delete(p, true) : ::operator delete(p);
}

HAK_OPERATOR void operator delete[](void *p, align_val_t a) noexcept
{
    operators_hardened_delete_aligned(false)
        ? operators_delete(p, true, operators_unknown, static_cast<size_t>(a))
        : ::operator delete(p, a);
}

HAK_OPERATOR void operator delete(void *p, size_t n) noexcept
{
    operators_hardened_delete(false) ? operators_delete(p, false, n) : ::operator delete(p);
}

HAK_OPERATOR void operator delete[](void *p, size_t n) noexcept
{
    operators_hardened_delete(true) ? operators_delete(p, true, n) : ::operator delete[](p);
}

HAK_OPERATOR void operator delete(void *p, size_t n, align_val_t a) noexcept
{
    operators_hardened_delete_aligned(false) ? operators_delete(p, false, n, static_cast<size_t>(a))
                                             : ::operator delete(p, a);
}

HAK_OPERATOR void operator delete[](void *p, size_t n, align_val_t a) noexcept
{
    operators_hardened_delete_aligned(true) ? operators_delete(p, true, n, static_cast<size_t>(a))
                                            : ::operator delete[](p, a);
}

HAK_OPERATOR void operator delete(void *p, const nothrow_t &) noexcept
{
    ::operator delete(p);
}

HAK_OPERATOR void operator delete[](void *p, const nothrow_t &) noexcept
{
    ::operator delete[](p);
}

HAK_OPERATOR void operator delete(void *p, align_val_t a, const nothrow_t &) noexcept
{
    ::operator delete(p, a);
}

HAK_OPERATOR void operator delete[](void *p, align_val_t a, const nothrow_t &) noexcept
{
    ::operator delete[](p, a);
}

// clang-format off
extern "C" {
HAK_OPERATOR void *__alloc_token__Znwm(size_t n, size_t token) { return operators_new_token(n, 0, false, token); }
HAK_OPERATOR void *__alloc_token__Znam(size_t n, size_t token) { return operators_new_token(n, 0, true, token); }
HAK_OPERATOR void *__alloc_token__ZnwmRKSt9nothrow_t(size_t n, const nothrow_t &, size_t token) noexcept { return operators_new_token_nothrow(n, 0, false, token); }
HAK_OPERATOR void *__alloc_token__ZnamRKSt9nothrow_t(size_t n, const nothrow_t &, size_t token) noexcept { return operators_new_token_nothrow(n, 0, true, token); }
HAK_OPERATOR void *__alloc_token__ZnwmSt11align_val_t(size_t n, align_val_t a, size_t token) { return operators_new_token(n, static_cast<size_t>(a), false, token); }
HAK_OPERATOR void *__alloc_token__ZnamSt11align_val_t(size_t n, align_val_t a, size_t token) { return operators_new_token(n, static_cast<size_t>(a), true, token); }
HAK_OPERATOR void *__alloc_token__ZnwmSt11align_val_tRKSt9nothrow_t(size_t n, align_val_t a, const nothrow_t &, size_t token) noexcept { return operators_new_token_nothrow(n, static_cast<size_t>(a), false, token); }
HAK_OPERATOR void *__alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(size_t n, align_val_t a, const nothrow_t &, size_t token) noexcept { return operators_new_token_nothrow(n, static_cast<size_t>(a), true, token); }
}
// clang-format on
