/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: call sites. The return address of an allocation, or the token that a compiler gave it,
 * is taken for what the block is for. One table for the process: of each site how long its blocks
 * live, and the group that a policy has put it into.
 *
 *   learning   a block that a bin is refilled for is now and then made a large one, so that its end
 *              is seen: how much was allocated in between is how long it lived (lifetimes.c)
 *   rules      "site BUILDID+OFFSET SIZES GROUP EVIDENCE", of a former run (rules.c); the classes
 * of those sizes are watched (cache.h), and blocks come from the slabs of the site's group
 *
 * Any thread, lock-free. Without rules and without learning nothing here is called and the table is
 * never touched. It never allocates; what it says is a hint: a wrong one costs memory or time,
 * never more. Called by heap and those above it. */
#pragma once

#include "cache/cache.h"
#include "large/large.h"

#define HAK_SITES_SHIFT 10
#define HAK_SITES (1u << HAK_SITES_SHIFT)
#define HAK_SITE_TOKEN ((uintptr_t)1 << 63) /* with a token rather than an address */

struct hak_site {
    _Atomic(uintptr_t) address; /* 0: nobody's yet; set once */
    _Atomic(uint8_t) group;     /* enum hak_group: what the rules say */
    /* What was learned; sizes of blocks that were looked at. */
    _Atomic(uint32_t) least_bytes, most_bytes;
    _Atomic(uint32_t) samples;      /* blocks that were looked at */
    _Atomic(uint32_t) live;         /* of those, the ones that live still */
    _Atomic(uint32_t) skipped;      /* not looked at because too many of the site's were alive */
    _Atomic(uint32_t) told;         /* of its evidence: is in a file already */
    _Atomic(uint32_t) large_blocks; /* beyond HAK_SMALL_MAX: all of them, and their sizes */
    _Atomic(uint64_t) large_kib;
    _Atomic(uint64_t) life_kib; /* sum over the samples that ended */
};
_Static_assert(sizeof(struct hak_site) <= HAK_CACHE_LINE, "one line each");

extern HAK_HIDDEN struct hak_site hak_sites[HAK_SITES];
extern HAK_HIDDEN _Atomic(bool) hak_sites_learning;

static inline unsigned hak_site_place(uintptr_t address)
{
    return (unsigned)(address * UINT64_C(0x9e3779b97f4a7c15) >> (64 - HAK_SITES_SHIFT));
}

/* The entry of a site, made if need be; NULL: the table is full about there. */
struct hak_site *hak_site_find(uintptr_t address);
unsigned hak_site_group_slow(uintptr_t address);

/* The group that the rules put a site into. */
static inline unsigned hak_site_group(uintptr_t address)
{
    const struct hak_site *s = &hak_sites[hak_site_place(address)];
    return HAK_LIKELY(hak_load_relaxed(&s->address) == address) ? hak_load_relaxed(&s->group)
                                                                : hak_site_group_slow(address);
}

/* --- learning: lifetimes.c --- */

/* Blocks whose ends will be seen. The record of the large block that one is (large_sample) has its
 * place here + 1. */
#define HAK_LIFETIME_SAMPLES 64u
struct hak_lifetimes {
    struct {
        _Atomic(uint32_t) site; /* place in the table + 1; 0: free */
        _Atomic(uint32_t) born_kib;
    } samples[HAK_LIFETIME_SAMPLES];
    _Atomic(uint32_t) live, taken;
    _Atomic(uint32_t) clock_kib; /* modulo 4 TiB */
};
extern HAK_HIDDEN struct hak_lifetimes hak_lifetimes;

/* From now on lifetimes are sampled, or no longer. What was learned stays. */
void hak_sites_learn(bool on);
/* One refill in so many is counted, for all of them: a prime, as programs repeat themselves. */
#define HAK_SITES_TURN 7u
/* Whether the refill that `heap` is about to do is counted. */
static inline bool hak_sites_is_turn_owner(const struct hak_heap *heap)
{
    return ((hak_load_relaxed(&heap->stats.refills) ^ heap->watch_turn) & 15) == 0;
}
/* It is, with so many bytes. True when it is time to look at the block that it is done for. */
bool hak_sites_count_refill(struct hak_heap *heap, size_t bytes);
/* A large block in the place of one of `bytes` bytes, whose end will be seen; NULL: not this one.
 */
void *hak_site_try_sample(uintptr_t address, size_t bytes, size_t align_bytes, bool *zero);
/* A block beyond HAK_SMALL_MAX was allocated. */
void hak_site_count_large(uintptr_t address, size_t bytes);
/* hak_large_free of a large block whose record names a sample. */
bool hak_site_free_sample(void *p, uint32_t entry);

/* --- rules: rules.c --- */

struct hak_site_rule {
    uint8_t build_id[HAK_BUILD_ID_MOST];
    uint8_t build_id_bytes; /* 0: `offset` is a token */
    uint8_t group;          /* enum hak_group */
    uint64_t offset;
    uint32_t least_bytes, most_bytes;
    uint32_t evidence; /* samples */
};
#define HAK_SITE_RULES 256u
#define HAK_SITE_LINE_BYTES 128u

/* One line of a policy, with or without its newline; a comment behind # is left out. False: it is
 * none. Pure. */
bool hak_site_rule_parse(const char *line, size_t length, struct hak_site_rule *out);
/* The line for a rule, without a newline; at most HAK_SITE_LINE_BYTES with the NUL. */
void hak_site_rule_format(const struct hak_site_rule *rule, struct hak_text *text);

/* Adds a rule; it counts from the next hak_sites_apply on. False: there are too many. */
bool hak_sites_add_rule(const struct hak_site_rule *rule);
/* The rules added so far count from now on, for all blocks allocated later. Not under a lock. */
void hak_sites_apply(void);
/* What the samples of this run say, as rules: sites whose blocks live longer than the others',
 * those with most evidence first. Returns how many. Not under a lock. */
unsigned hak_sites_learned(struct hak_site_rule *out, unsigned most);

/* The rules of a file and what this run's samples say, in the same list: a site that was seen often
 * enough is as this run saw it, the others stay. Returns the new length. Not under a lock. */
unsigned hak_sites_merge(struct hak_site_rule *list, unsigned length, unsigned most);
/* What hak_sites_merge said last has been written: the next one adds only what came after. */
void hak_sites_told(void);

/* The group for blocks that live so long where blocks live `usual` on average; both are logarithms
 * in sixteenths of a doubling. Pure. */
unsigned hak_site_group_for(unsigned life_log16, unsigned usual_log16);
