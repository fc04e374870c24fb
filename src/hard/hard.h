/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: entry header. In the hardened library only: stands between api and heap, and catches misuse
 * at the call. docs/hardened.md has the whole picture.
 *
 *   a block:   | what was asked for | canary (8 bytes) | zeros to the end of the class |
 *   its word:  live or freed | alignment | function | size asked for     (beside the window)
 *
 * malloc asks heap for one byte more than the program wants, so that there is always room for a
 * canary; free takes the word from live to freed in one atomic step, looks at the canary, zeroes
 * the block and puts it into the thread's quarantine. Whatever is not live reads as zero: when a
 * block is handed out again and does not, somebody has written to it after it was freed.
 *
 * Called by api, any thread. Misuse ends the process; nothing here trusts what stands in a block.
 */
#pragma once

#include "heap/heap.h"

/* Which function a block is from, or is freed by. */
enum hak_maker {
    HAK_BY_MALLOC, /* malloc and its family, whatever the alignment */
    HAK_BY_NEW,
    HAK_BY_NEW_ARRAY,
    HAK_BY_ALIGNED_NEW,
    HAK_BY_ALIGNED_NEW_ARRAY,
    HAK_MAKERS
};

/* align_bytes: 0, or a power of two. NULL and ENOMEM when there is no memory. All of it reads as
 * zero. */
void *hak_hard_malloc(size_t size_bytes);
void *hak_hard_new(size_t size_bytes, enum hak_maker maker);
void *hak_hard_alloc(size_t size_bytes, size_t align_bytes, enum hak_maker maker);

/* What the caller of a free says of the block. */
struct hak_claim {
    enum hak_maker maker;
    bool sized, aligned;
    size_t size_bytes, align_bytes;
};

/* What is to be done with a pointer that is not NULL and no block of ours: the end of each free,
 * which so needs no frame. */
typedef void hak_free_foreign(void *p);

void hak_hard_free(void *p, hak_free_foreign *foreign);
void hak_hard_free_claimed(void *p, const struct hak_claim *claim, hak_free_foreign *foreign);
/* The usual operators; size_bytes: SIZE_MAX of those without one. */
void hak_hard_delete(void *p, enum hak_maker maker, size_t size_bytes, hak_free_foreign *foreign);
/* p is not NULL, size_bytes > 0; false as above. *out is NULL when there is no memory: the block is
 * as it was. */
bool hak_hard_realloc(void *p, size_t size_bytes, void **out);
/* What was asked for; 0 when p is no live block. */
size_t hak_hard_usable_bytes(const void *p);

/* Large blocks in quarantine, which large counts as in use: the first four figures. */
void hak_hard_kept(struct hak_large_stats *out);
/* Empties the calling thread's quarantine, and gives back what is kept of large blocks. */
void hak_hard_flush(void);
/* The same, and what other threads have of large blocks in quarantine: memory is short. */
void hak_hard_relieve(void);

/* By the destructor: what the calling thread has freed last, and nobody has been given since, is
 * looked at once more. */
void hak_hard_audit(void);

/* Options; before the program has threads. */
struct hak_hard_config {
    bool check_makers; /* the function that frees has to fit the one that allocated */
    bool check_sizes;  /* and the size and alignment that it names, if it does */
};
void hak_hard_configure(const struct hak_hard_config *config);
