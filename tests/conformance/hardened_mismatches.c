/* Conformance: frees with a size, an alignment or a function that does not fit the block.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance/hardened_parts.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "conformance/hardened_operators.h"
#include "conformance/support/child.h"
#include "conformance/support/sizes.h"

void free_sized_with_one_more(size_t size)
{
    my_find_free_sized()(block(size), size + 1);
}

void free_sized_with_one_less(size_t size)
{
    my_find_free_sized()(block(size), size - 1);
}

void free_sized_with_its_class(size_t size)
{
    my_find_free_sized()(block(size), (size + 16) / 16 * 16);
}

void free_aligned_sized_with_another_size(size_t size)
{
    my_find_free_aligned_sized()(misuse_announce(my_aligned_alloc(64, size)), 64, size + 64);
}

void free_aligned_sized_with_another_alignment(size_t size)
{
    my_find_free_aligned_sized()(misuse_announce(my_aligned_alloc(64, size)), 32, size);
}

void sized_delete_with_one_more(size_t size)
{
    operator_delete_one(misuse_announce(operator_new_one(size, 0)), size + 1, 0);
}

void sized_array_delete_with_one_less(size_t size)
{
    operator_delete_array(misuse_announce(operator_new_array(size, 0)), size - 1, 0);
}

void aligned_delete_with_another_alignment(size_t size)
{
    operator_delete_one(misuse_announce(operator_new_one(size, 64)), SIZE_MAX, 128);
}

void free_of_new(size_t size)
{
    my_free(misuse_announce(operator_new_one(size, 0)));
}

void free_of_new_array(size_t size)
{
    my_free(misuse_announce(operator_new_array(size, 0)));
}

void free_of_aligned_new(size_t size)
{
    my_free(misuse_announce(operator_new_one(size, 64)));
}

void realloc_of_new(size_t size)
{
    my_free(my_realloc(misuse_announce(operator_new_one(size, 0)), size * 3));
}

void delete_of_malloc(size_t size)
{
    operator_delete_one(block(size), SIZE_MAX, 0);
}

void sized_delete_of_malloc(size_t size)
{
    operator_delete_one(block(size), size, 0);
}

void array_delete_of_malloc(size_t size)
{
    operator_delete_array(block(size), SIZE_MAX, 0);
}

void delete_of_new_array(size_t size)
{
    operator_delete_one(misuse_announce(operator_new_array(size, 0)), SIZE_MAX, 0);
}

void array_delete_of_new(size_t size)
{
    operator_delete_array(misuse_announce(operator_new_one(size, 0)), SIZE_MAX, 0);
}

void delete_of_aligned_new(size_t size)
{
    operator_delete_one(misuse_announce(operator_new_one(size, 64)), SIZE_MAX, 0);
}

void aligned_delete_of_new(size_t size)
{
    operator_delete_one(misuse_announce(operator_new_one(size, 0)), SIZE_MAX, 64);
}

void aligned_delete_of_aligned_new_array(size_t size)
{
    operator_delete_one(misuse_announce(operator_new_array(size, 64)), SIZE_MAX, 64);
}

/* --- a library whose operators new and delete nobody else sees --- */

static void exchange_with_hidden_operators(size_t size)
{
    void *library = dlopen(child_beside("libconformance_hidden_operators.so"), RTLD_NOW);
    int (*exchange)(size_t) = NULL;
    if (library != NULL)
        *(void **)&exchange = dlsym(library, "hidden_exchange");
    if (exchange == NULL || exchange(size) != 0)
        _Exit(1);
}

void objects_are_exchanged_with_hidden_operators(size_t size)
{
    misuse_announce(NULL);
    exchange_with_hidden_operators(size);
}

void delete_of_new_array_beside_hidden_operators(size_t size)
{
    exchange_with_hidden_operators(size);
    delete_of_new_array(size);
}

void sized_delete_with_one_more_beside_hidden_operators(size_t size)
{
    exchange_with_hidden_operators(size);
    sized_delete_with_one_more(size);
}

void double_free_of_new_beside_hidden_operators(size_t size)
{
    exchange_with_hidden_operators(size);
    char *p = misuse_announce(operator_new_one(size, 0));
    my_free(p);
    my_free(p);
}
