/* Conformance: the misuse cases of hardened_mismatches.c and hardened_large.c, for the list in
 * hardened_cases.c, and what all of them begin with. Used by these three only.
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef HAK_TEST_HARDENED_PARTS_H
#define HAK_TEST_HARDENED_PARTS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/misuse_cases.h"
#include "support/api.h"

static inline char *block(size_t size)
{
    char *p = my_malloc(size);
    memset(p, 0x5a, size);
    return misuse_announce(p);
}

static inline void *thread_free(void *p)
{
    my_free(p);
    return NULL;
}

static inline void free_in_thread(void *p)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_free, p) == 0)
        pthread_join(thread, NULL);
}

static inline void use_again(size_t size)
{
    for (int i = 0; i < 3000; i++)
        my_free(my_malloc(size));
}

static inline void expect_zeros(const volatile char *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (p[i] != 0)
            _Exit(1);
}

void free_sized_with_one_more(size_t size);
void free_sized_with_one_less(size_t size);
void free_sized_with_its_class(size_t size);
void free_aligned_sized_with_another_size(size_t size);
void free_aligned_sized_with_another_alignment(size_t size);
void sized_delete_with_one_more(size_t size);
void sized_array_delete_with_one_less(size_t size);
void aligned_delete_with_another_alignment(size_t size);
void free_of_new(size_t size);
void free_of_new_array(size_t size);
void free_of_aligned_new(size_t size);
void realloc_of_new(size_t size);
void delete_of_malloc(size_t size);
void sized_delete_of_malloc(size_t size);
void array_delete_of_malloc(size_t size);
void delete_of_new_array(size_t size);
void array_delete_of_new(size_t size);
void delete_of_aligned_new(size_t size);
void aligned_delete_of_new(size_t size);
void aligned_delete_of_aligned_new_array(size_t size);
void objects_are_exchanged_with_hidden_operators(size_t size);
void delete_of_new_array_beside_hidden_operators(size_t size);
void sized_delete_with_one_more_beside_hidden_operators(size_t size);
void double_free_of_new_beside_hidden_operators(size_t size);

/* hardened_large.c */
void write_after_free_to_a_large_block(size_t size);
void read_after_free_of_a_large_block(size_t size);
void write_after_free_to_a_warm_block(size_t size);
void write_after_free_to_a_warm_block_found_at_the_end(size_t size);
void write_before_a_warm_block_after_its_free(size_t size);
void write_to_a_large_block_after_realloc_moved_it(size_t size);
void memory_that_realloc_moved_a_block_from_reads_as_zero(size_t size);
void double_free_of_a_warm_block(size_t size);
void warm_memory_of_changing_sizes_reads_as_zero(size_t size);
void kept_ranges_serve_similar_sizes(size_t size);
void random_sizes_take_little_of_the_system(size_t size);
void underflow_before_a_block_of_a_longer_range(size_t size);
void write_after_free_to_what_an_ended_thread_freed(size_t size);
void resized_ranges_read_as_zero(size_t size);
void what_realloc_adds_reads_as_zero(size_t size);
void overflow_without_guards(size_t size);
void overflow_without_guards_found_by_realloc(size_t size);
void underflow_without_guards(size_t size);

#endif
