/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: how long blocks live, by call site: samples. The clock is what the process allocates:
 * KiB that bins were refilled with. A block that is sampled is a large one, whose end passes by the
 * slow path of free; so nothing else is any slower. See sites.h.
 *
 * A sample costs a microsecond and a page or two, so one is taken every SAMPLE_BYTES, fewer in a
 * program that runs on, and at most a few are alive of each site, and of all in proportion to what
 * is in use: a site of which that many live on has shown what it is. A program that uses less than
 * LEARN_FROM_BYTES is left alone: it has little to gain, and the slots of samples could bring it to
 * where huge pages begin (python3 at 20 MB: 2 MB more). Slots of samples lie together, and that of
 * one that ends is kept for the next: the pool is not to learn anything from samples. */
#include "telemetry/sites_internal.h"

#define SAMPLE_BYTES ((int64_t)256 << 10)
#define OFTEN_KIB (512u << 10) /* of the clock: with more, samples are further apart */
#define SAMPLES HAK_LIFETIME_SAMPLES
#define SAMPLE_MOST_BYTES 4096u /* of larger blocks few share a slab */
#define LIVE_OF_SITE 4u         /* at a time, of a site that little is known of */
#define LIVE_OF_KNOWN_SITE 1u   /* so that there is room for rare ones */
#define SAMPLES_OF_KNOWN_SITE 24u
#define LEARN_FROM_BYTES ((size_t)24 << 20)
#define LIVE_LEAST 8u                     /* of all sites, */
#define IN_USE_A_SAMPLE ((size_t)8 << 20) /* and one more for so much in use */

struct hak_lifetimes hak_lifetimes HAK_RARELY_USED;
static _Atomic(size_t) spare_slots[HAK_LIFETIME_SAMPLES] HAK_RARELY_USED; /* + 1; 0: none */
_Atomic(bool) hak_sites_learning;

void hak_sites_learn(bool on)
{
    hak_store_relaxed(&hak_sites_learning, on);
}

/* Twice as far apart for four times as much: what a run pays grows with the root of its length. */
static int64_t sample_distance(void)
{
    uint32_t passed = hak_load_relaxed(&hak_lifetimes.clock_kib) / OFTEN_KIB;
    return SAMPLE_BYTES << (passed == 0 ? 0 : hak_log2_floor(passed) / 2 + 1);
}

bool hak_sites_count_refill(struct hak_heap *heap, size_t bytes)
{
    heap->watch_turn = (uint8_t)(hak_load_relaxed(&heap->stats.refills) + HAK_SITES_TURN);
    heap->unwatched_bytes -= (int64_t)(bytes * HAK_SITES_TURN);
    if (heap->unwatched_bytes > 0)
        return false;
    int64_t distance = sample_distance();
    if (distance < -heap->unwatched_bytes) /* what is counted may be more: that much time passed */
        distance = -heap->unwatched_bytes;
    hak_add_relaxed(&hak_lifetimes.clock_kib, (uint32_t)(distance >> 10));
    heap->unwatched_bytes += distance;
    return true;
}

static size_t samples_in_use_bytes(void)
{
    size_t slots = 0;
    for (unsigned label = 0; label < HAK_CLASSES; label++)
        slots += hak_pool_slots_in_use(label);
    return slots * HAK_SLOT_BYTES;
}

static size_t samples_live_most(void)
{
    size_t in_use = samples_in_use_bytes();
    return in_use < LEARN_FROM_BYTES ? 0 : LIVE_LEAST + in_use / IN_USE_A_SAMPLE;
}

/* A free place; SAMPLES: none. */
static uint32_t sample_claim(uint32_t site)
{
    static _Atomic(uint32_t) next;
    uint32_t from = hak_add_relaxed(&next, 1u);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t at = (from + i) % SAMPLES;
        uint32_t none = 0;
        if (hak_load_relaxed(&hak_lifetimes.samples[at].site) == 0 &&
            hak_cas_relaxed(&hak_lifetimes.samples[at].site, &none, site))
            return at;
    }
    return SAMPLES;
}

static void sample_keep_slot(size_t slot)
{
    for (unsigned i = 0;; i = (i + 1) % SAMPLES) { /* there are no more slots than places */
        size_t none = 0;
        /* ORDER: [sample-slot] */
        if (hak_load_relaxed(&spare_slots[i]) == 0 &&
            hak_cas_acq_rel(&spare_slots[i], &none, slot + 1))
            return;
    }
}

/* A superslab for samples alone, of which a page or two of each slot are touched: a slot here and
 * one there would keep many others from going back, and the program's slabs out of their places. */
static void samples_add_slots(void)
{
    static _Atomic(uint32_t) superslabs;
    size_t slot;
    if (hak_add_relaxed(&superslabs, 1u) >= SAMPLES / HAK_SLOTS ||
        hak_pool_acquire_apart(&slot) != 0) {
        hak_sub_relaxed(&superslabs, 1u);
        return;
    }
    for (size_t i = 0; i < HAK_SLOTS; i++)
        sample_keep_slot(slot + i);
}

static void *sample_try_slot(size_t bytes, size_t align_bytes)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        size_t slot = hak_load_relaxed(&spare_slots[i]);
        /* ORDER: [sample-slot] what the program wrote to the block before */
        if (slot != 0 && hak_cas_acquire(&spare_slots[i], &slot, (size_t)0))
            return hak_large_place_sampled(slot - 1, bytes, align_bytes);
    }
    return NULL;
}

static void *sample_block(size_t bytes, size_t align_bytes, bool *zero)
{
    void *p = sample_try_slot(bytes, align_bytes);
    *zero = false;
    if (p != NULL)
        return p;
    samples_add_slots();
    return sample_try_slot(bytes, align_bytes);
}

static void site_sized(struct hak_site *s, uint32_t bytes)
{
    if (hak_load_relaxed(&s->least_bytes) == 0 || bytes < hak_load_relaxed(&s->least_bytes))
        hak_store_relaxed(&s->least_bytes, bytes);
    if (bytes > hak_load_relaxed(&s->most_bytes))
        hak_store_relaxed(&s->most_bytes, bytes);
}

static unsigned site_live_most(const struct hak_site *s)
{
    return hak_load_relaxed(&s->samples) < SAMPLES_OF_KNOWN_SITE ? LIVE_OF_SITE
                                                                 : LIVE_OF_KNOWN_SITE;
}

void *hak_site_try_sample(uintptr_t address, size_t bytes, size_t align_bytes, bool *zero)
{
    struct hak_site *s = hak_site_find(address);
    if (s == NULL || bytes > SAMPLE_MOST_BYTES || align_bytes > SAMPLE_MOST_BYTES)
        return NULL;
    site_sized(s, (uint32_t)bytes);
    if (hak_load_relaxed(&s->live) >= site_live_most(s)) {
        hak_add_relaxed(&s->skipped, 1u);
        return NULL;
    }
    if (hak_load_relaxed(&hak_lifetimes.live) >= samples_live_most())
        return NULL;
    uint32_t at = sample_claim((uint32_t)(s - hak_sites) + 1);
    if (at == SAMPLES)
        return NULL;
    void *p = sample_block(hak_round_up(hak_max(bytes, 1), HAK_ALIGNMENT), align_bytes, zero);
    if (p == NULL) {
        hak_store_relaxed(&hak_lifetimes.samples[at].site, 0u);
        return NULL;
    }
    hak_store_relaxed(&hak_lifetimes.samples[at].born_kib,
                      hak_load_relaxed(&hak_lifetimes.clock_kib));
    hak_add_relaxed(&s->samples, 1u);
    hak_add_relaxed(&s->live, 1u);
    hak_add_relaxed(&hak_lifetimes.live, 1u);
    hak_add_relaxed(&hak_lifetimes.taken, 1u);
    hak_store_relaxed(&hak_slab_record(hak_slot_of(p))->large_sample, at + 1);
    return p;
}

void hak_site_count_large(uintptr_t address, size_t bytes)
{
    struct hak_site *s = hak_site_find(address);
    if (s == NULL)
        return;
    hak_add_relaxed(&s->large_blocks, 1u);
    hak_add_relaxed(&s->large_kib, bytes >> 10);
}

static void sample_end(uint32_t at)
{
    struct hak_site *s = &hak_sites[hak_load_relaxed(&hak_lifetimes.samples[at].site) - 1];
    hak_add_relaxed(&s->life_kib,
                    (uint64_t)(hak_load_relaxed(&hak_lifetimes.clock_kib) -
                               hak_load_relaxed(&hak_lifetimes.samples[at].born_kib)));
    hak_sub_relaxed(&s->live, 1u);
    hak_sub_relaxed(&hak_lifetimes.live, 1u);
    hak_store_relaxed(&hak_lifetimes.samples[at].site, 0u);
}

bool hak_site_free_sample(void *p, uint32_t entry)
{
    size_t slot = hak_slot_of(p);
    uint32_t sample = hak_load_relaxed(&hak_slab_record(slot)->large_sample);
    if (!hak_large_take_back(p, entry))
        return false;
    sample_keep_slot(slot);
    sample_end(sample - 1);
    return true;
}

uint64_t hak_site_live_life_kib(const struct hak_site *site)
{
    uint64_t sum = 0;
    uint32_t now = hak_load_relaxed(&hak_lifetimes.clock_kib);
    for (unsigned i = 0; i < SAMPLES; i++)
        if (hak_load_relaxed(&hak_lifetimes.samples[i].site) == (uint32_t)(site - hak_sites) + 1)
            sum += now - hak_load_relaxed(&hak_lifetimes.samples[i].born_kib);
    return sum;
}
