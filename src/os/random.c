/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: numbers that cannot be foreseen, for the hardened build's choice of places. Each thread has a
 * generator of its own: ChaCha (D. J. Bernstein, 2008) with 8 rounds, keyed by the system and keyed
 * anew now and then. Never takes a lock; asks the system once in many thousand numbers. */
#include "os/os.h"

#define WORDS 16u
#define BLOCKS_A_KEY 4096u

struct random {
    uint32_t key[4];
    uint32_t block[WORDS];
    uint32_t counter;
    uint32_t left_words; /* of the block */
    uint32_t left_blocks;
};

static __thread struct random random_self;

static uint32_t random_rotate(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

static void random_quarter(uint32_t *x, unsigned a, unsigned b, unsigned c, unsigned d)
{
    x[a] += x[b], x[d] = random_rotate(x[d] ^ x[a], 16);
    x[c] += x[d], x[b] = random_rotate(x[b] ^ x[c], 12);
    x[a] += x[b], x[d] = random_rotate(x[d] ^ x[a], 8);
    x[c] += x[d], x[b] = random_rotate(x[b] ^ x[c], 7);
}

static void random_make_block(struct random *r)
{
    uint32_t first[WORDS] = {0x61707865, 0x3120646e, 0x79622d36,
                             0x6b206574}; /* "expand 16-byte k": the key twice */
    for (unsigned i = 0; i < 8; i++)
        first[4 + i] = r->key[i % 4];
    first[12] = r->counter++;
    uint32_t x[WORDS];
    for (unsigned i = 0; i < WORDS; i++)
        x[i] = first[i];
    for (unsigned round = 0; round < 8; round += 2) {
        for (unsigned i = 0; i < 4; i++)
            random_quarter(x, i, 4 + i, 8 + i, 12 + i);
        for (unsigned i = 0; i < 4; i++)
            random_quarter(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
    for (unsigned i = 0; i < WORDS; i++)
        r->block[i] = x[i] + first[i];
    r->left_words = WORDS;
}

static void random_take_key(struct random *r)
{
    for (unsigned i = 0; i < 4; i += 2) {
        uint64_t fresh = hak_os_random();
        r->key[i] = (uint32_t)fresh;
        r->key[i + 1] = (uint32_t)(fresh >> 32);
    }
    r->left_blocks = BLOCKS_A_KEY;
}

uint32_t hak_os_random_below(uint32_t n)
{
    struct random *r = &random_self;
    if (HAK_UNLIKELY(r->left_words == 0)) {
        if (r->left_blocks == 0)
            random_take_key(r);
        r->left_blocks--;
        random_make_block(r);
    }
    uint32_t number = r->block[--r->left_words];
    r->block[r->left_words] = 0; /* what was used cannot be read later */
    return (uint32_t)(((uint64_t)number * n) >> 32);
}

void hak_os_random_forget(void)
{
    random_self.left_words = random_self.left_blocks = 0;
}
