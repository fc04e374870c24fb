/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: what clang -fsanitize=alloc-token calls instead of the malloc family: the same functions
 * with one parameter more, a number that says what type the block is for. To the allocator that is
 * a call site, and a better one than the address of a wrapper around malloc. The operators of C++
 * are in operators.cc. Whoever calls these would have called the function without the token: they
 * behave alike in everything else. The other form, with the token in the name of the function
 * (-fsanitize-alloc-token-fast-abi), is not offered: its names are without end. */
#include "api/api_internal.h"
#include "api/blocks.h"

void *hak_token_malloc(size_t size, size_t token);
void *hak_token_calloc(size_t count, size_t size, size_t token);
void *hak_token_realloc(void *p, size_t size, size_t token);
void *hak_token_reallocarray(void *p, size_t count, size_t size, size_t token);
void *hak_token_aligned_alloc(size_t alignment, size_t size, size_t token);
void *hak_token_memalign(size_t alignment, size_t size, size_t token);
int hak_token_posix_memalign(void **out, size_t alignment, size_t size, size_t token);
void *hak_token_valloc(size_t size, size_t token);
void *hak_token_pvalloc(size_t size, size_t token);

#define TOKEN_SITE(token) (HAK_SITE_TOKEN | (token))

void *hak_token_malloc(size_t size, size_t token)
{
    return api_malloc_at(size, TOKEN_SITE(token));
}

void *hak_token_calloc(size_t count, size_t size, size_t token)
{
    return hak_api_calloc(count, size, TOKEN_SITE(token));
}

void *hak_token_realloc(void *p, size_t size, size_t token)
{
    return hak_api_realloc(p, size, TOKEN_SITE(token));
}

void *hak_token_reallocarray(void *p, size_t count, size_t size, size_t token)
{
    return hak_api_reallocarray(p, count, size, TOKEN_SITE(token));
}

void *hak_token_aligned_alloc(size_t alignment, size_t size, size_t token)
{
    return hak_api_memalign(alignment, size, TOKEN_SITE(token));
}

void *hak_token_memalign(size_t alignment, size_t size, size_t token)
{
    return hak_api_memalign(alignment, size, TOKEN_SITE(token));
}

int hak_token_posix_memalign(void **out, size_t alignment, size_t size, size_t token)
{
    return hak_api_posix_memalign(out, alignment, size, TOKEN_SITE(token));
}

void *hak_token_valloc(size_t size, size_t token)
{
    return api_aligned_at(hak_os_page_bytes(), size, TOKEN_SITE(token));
}

void *hak_token_pvalloc(size_t size, size_t token)
{
    return hak_api_pvalloc(size, TOKEN_SITE(token));
}

HAK_ALSO(void *, __alloc_token_malloc, (size_t, size_t), hak_token_malloc)
HAK_ALSO(void *, __alloc_token_calloc, (size_t, size_t, size_t), hak_token_calloc)
HAK_ALSO(void *, __alloc_token_realloc, (void *, size_t, size_t), hak_token_realloc)
HAK_ALSO(void *, __alloc_token_reallocarray, (void *, size_t, size_t, size_t),
         hak_token_reallocarray)
HAK_ALSO(void *, __alloc_token_aligned_alloc, (size_t, size_t, size_t), hak_token_aligned_alloc)
HAK_ALSO(void *, __alloc_token_memalign, (size_t, size_t, size_t), hak_token_memalign)
HAK_ALSO(int, __alloc_token_posix_memalign, (void **, size_t, size_t, size_t),
         hak_token_posix_memalign)
HAK_ALSO(void *, __alloc_token_valloc, (size_t, size_t), hak_token_valloc)
HAK_ALSO(void *, __alloc_token_pvalloc, (size_t, size_t), hak_token_pvalloc)
