/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: numbers that cannot be foreseen, for the hardened build's choice of places. Each thread has a
 * generator of its own: ChaCha (D. J. Bernstein, 2008) with 8 rounds, keyed by the system and keyed
 * anew now and then. Never takes a lock; asks the system once in many thousand numbers. */
#include "os/os.h"

#define WORDS 16u
#define BLOCKS_A_KEY 4096u

/* The state is a square of four rows; what is done to its columns is done to all at once. */
typedef uint32_t random_row __attribute__((vector_size(16)));

struct random {
    uint32_t key[4];
    union {
        random_row rows[4];
        uint16_t halves[2 * WORDS];
    };
    uint32_t counter;
    uint32_t left_halves; /* of the block */
    uint32_t left_blocks;
};

static __thread struct random random_self;

static inline random_row random_rotate(random_row x, unsigned by)
{
    return x << by | x >> (32 - by);
}

static inline void random_quarters(random_row *x)
{
    x[0] += x[1], x[3] = random_rotate(x[3] ^ x[0], 16);
    x[2] += x[3], x[1] = random_rotate(x[1] ^ x[2], 12);
    x[0] += x[1], x[3] = random_rotate(x[3] ^ x[0], 8);
    x[2] += x[3], x[1] = random_rotate(x[1] ^ x[2], 7);
}

static void random_make_block(struct random *r)
{
    const random_row key = {r->key[0], r->key[1], r->key[2], r->key[3]};
    const random_row first[4] = {{0x61707865, 0x3120646e, 0x79622d36, 0x6b206574},
                                 key, /* "expand 16-byte k": the key twice */
                                 key,
                                 {r->counter++, 0, 0, 0}};
    random_row x[4] = {first[0], first[1], first[2], first[3]};
    for (unsigned round = 0; round < 8; round += 2) {
        random_quarters(x);
        x[1] = __builtin_shufflevector(x[1], x[1], 1, 2, 3, 0); /* the diagonals become columns */
        x[2] = __builtin_shufflevector(x[2], x[2], 2, 3, 0, 1);
        x[3] = __builtin_shufflevector(x[3], x[3], 3, 0, 1, 2);
        random_quarters(x);
        x[1] = __builtin_shufflevector(x[1], x[1], 3, 0, 1, 2);
        x[2] = __builtin_shufflevector(x[2], x[2], 2, 3, 0, 1);
        x[3] = __builtin_shufflevector(x[3], x[3], 1, 2, 3, 0);
    }
    for (unsigned i = 0; i < 4; i++)
        r->rows[i] = x[i] + first[i];
    r->left_halves = 2 * WORDS;
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

static HAK_NOINLINE void random_refill_slow(struct random *r)
{
    if (r->left_blocks == 0)
        random_take_key(r);
    r->left_blocks--;
    random_make_block(r);
}

/* What was used cannot be read later. */
static uint32_t random_half(struct random *r)
{
    if (HAK_UNLIKELY(r->left_halves == 0))
        random_refill_slow(r);
    uint32_t half = r->halves[--r->left_halves];
    r->halves[r->left_halves] = 0;
    return half;
}

/* Among few, 16 bits are enough: no number comes more often than another by more than 1 in 256. */
static inline uint32_t random_below(struct random *r, uint32_t n)
{
    uint32_t number = random_half(r);
    if (HAK_LIKELY(n <= 256))
        return number * n >> 16;
    number |= random_half(r) << 16;
    return (uint32_t)(((uint64_t)number * n) >> 32);
}

uint32_t hak_os_random_below(uint32_t n)
{
    return random_below(&random_self, n);
}

void hak_os_shuffle(void **things, uint32_t count)
{
    struct random *r = &random_self;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = random_below(r, i);
        void *p = things[i - 1];
        things[i - 1] = things[j];
        things[j] = p;
    }
}

void hak_os_random_forget(void)
{
    random_self.left_halves = random_self.left_blocks = 0;
}
