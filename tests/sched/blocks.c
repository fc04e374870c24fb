/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: blocks that the program holds, and what must hold of the heaps when
 * nobody runs. See scenarios.h. */
#include "scenarios.h"

#define LIVE_MAX 96u
#define BOXES 4u

static struct {
    char *p; /* NULL: none */
    size_t bytes;
} live[LIVE_MAX];
static struct hak_heap *heaps[SCHED_THREADS];
static _Atomic(void *) boxes[BOXES];
void *blocks_given[16];

static void blocks_on_discard(const char *at, size_t bytes)
{
    for (unsigned i = 0; i < LIVE_MAX; i++)
        SCHED_CHECK(live[i].p == NULL || live[i].p + live[i].bytes <= at || live[i].p >= at + bytes,
                    "block %p is in use and the system takes its pages", (void *)live[i].p);
}

void blocks_start(unsigned count)
{
    hak_classes_start();
    SCHED_CHECK(hak_space_start() == 0 && hak_cache_start() == 0, "start");
    sim_os_on_discard(blocks_on_discard);
    for (unsigned i = 0; i < count; i++)
        heaps[i] = hak_cache_thread_start();
}

struct hak_heap *blocks_enter(unsigned who)
{
    hak_self = &heaps[who]->front;
    return heaps[who];
}

struct hak_heap *blocks_begin(unsigned who)
{
    heaps[who] = hak_cache_thread_start();
    SCHED_CHECK(heaps[who] != NULL, "no heap");
    return blocks_enter(who);
}

void blocks_leave(unsigned who)
{
    struct hak_heap *heap = heaps[who];
    heaps[who] = NULL;
    hak_self = &hak_front_shared;
    hak_cache_thread_end(heap);
}

void blocks_leave_for_good(unsigned who)
{
    blocks_leave(who);
    hak_registry_give_kept();
}

static void blocks_took(void *block, unsigned cls)
{
    char *p = block;
    size_t bytes = hak_class(cls)->size_bytes;
    unsigned at = LIVE_MAX;
    SCHED_CHECK(p != NULL, "out of memory");
    sched_note("has block %p", block);
    for (unsigned i = 0; i < LIVE_MAX; i++) {
        if (live[i].p == NULL)
            at = i;
        else
            SCHED_CHECK(live[i].p + live[i].bytes <= p || live[i].p >= p + bytes,
                        "block %p was handed out twice", block);
    }
    SCHED_CHECK(at < LIVE_MAX, "too many blocks");
    live[at].p = p;
    live[at].bytes = bytes;
    memory_plain(p, bytes, true, NULL);
}

void *blocks_allocate(struct hak_heap *heap, unsigned cls)
{
    bool zero = false;
    void *p;
    if (heap == NULL)
        p = hak_cache_shared_alloc(cls, &zero);
    else if ((p = hak_cache_pop(&heap->front, cls * 2u)) == NULL)
        p = hak_cache_refill(heap, cls, &zero);
    blocks_took(p, cls);
    return p;
}

void blocks_give(unsigned count, unsigned cls)
{
    struct hak_heap *heap = blocks_enter(0);
    for (unsigned i = 0; i < count; i++)
        blocks_given[i] = blocks_allocate(heap, cls);
}

void blocks_free(struct hak_heap *heap, void *p)
{
    unsigned i = 0;
    while (i < LIVE_MAX && live[i].p != p)
        i++;
    SCHED_CHECK(i < LIVE_MAX, "block %p is not in use", p);
    sched_note("frees block %p", p);
    size_t bytes = live[i].bytes; /* others may use the place from the next operation on */
    memory_plain(p, bytes, true, NULL);
    live[i].p = NULL;
    uint32_t entry = hak_map_lookup(p);
    uint32_t kind = entry & HAK_KIND_MASK;
    SCHED_CHECK(kind < HAK_KIND_CLASSES && hak_class(kind / 2)->size_bytes == bytes,
                "the map has another class for block %p: entry %x", p, entry);
    if (heap == NULL) {
        hak_cache_free_direct(kind / 2, p);
    } else if ((entry ^ heap->front.tag) != kind) {
        if (!hak_cache_try_free_remote(heap, entry, p))
            hak_cache_free_remote(heap, entry, p);
    } else if (!hak_cache_push(&heap->front, kind, p)) {
        hak_cache_overflow(heap, kind / 2, p);
    }
}

void blocks_send(unsigned box, void *p)
{
    hak_exchange_release(&boxes[box], p);
}

void *blocks_receive(unsigned box)
{
    return hak_exchange_acquire(&boxes[box], NULL);
}

/* --- what must hold --- */

static struct hak_slab *blocks_slab(const void *p, unsigned *index)
{
    size_t slot = hak_slot_of(p);
    unsigned cls = (hak_load_relaxed(hak_map_entry(slot)) & HAK_KIND_MASK) / 2;
    *index = hak_block_index(hak_class(cls), (uintptr_t)p & hak_class(cls)->offset_mask);
    return hak_slab_of_slot(slot, hak_class(cls));
}

static bool message_has(const struct hak_message *m, unsigned from, const void *p)
{
    for (unsigned i = from; m != NULL && i < HAK_MESSAGE_BLOCKS; i++)
        if (m->blocks[i] == p)
            return true;
    return false;
}

/* Whether a block waits in an outbox or an inbox. */
static bool blocks_is_sent(const void *p)
{
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        for (unsigned i = 0; i < HAK_OUTBOXES; i++)
            if (message_has(h->outbox[i].message, h->outbox[i].free, p))
                return true;
        unsigned waiting = 0;
        for (struct hak_message *m = hak_load_relaxed(&h->inbox); m != NULL;
             m = hak_load_relaxed(&m->next)) {
            SCHED_CHECK(++waiting < 64, "an inbox goes round");
            if (message_has(m, m->free, p))
                return true;
        }
    }
    return false;
}

void blocks_between(void)
{
    for (unsigned i = 0; i < LIVE_MAX; i++) {
        if (live[i].p == NULL)
            continue;
        unsigned index;
        const struct hak_slab *s = blocks_slab(live[i].p, &index);
        uint64_t bit = 1ull << (index % 64);
        SCHED_CHECK(hak_load_relaxed(&s->owner) != NULL, "block %p is in use, its slab is released",
                    (void *)live[i].p);
        SCHED_CHECK(hak_class(s->cls)->size_bytes == live[i].bytes,
                    "block %p is in use, its slab has another class", (void *)live[i].p);
        SCHED_CHECK(!(hak_load_relaxed(&s->free_bits[index / 64]) & bit),
                    "block %p is in use and free", (void *)live[i].p);
        SCHED_CHECK(!blocks_is_sent(live[i].p), "block %p is in use and was freed",
                    (void *)live[i].p);
    }
}

static void verify_slab(const struct hak_heap *h, const struct hak_slab *s, unsigned cls)
{
    hak_slab_verify_owner(s);
    SCHED_CHECK(s->cls == cls, "a slab of class %u in a list of class %u", s->cls, cls);
    SCHED_CHECK(hak_load_relaxed(&s->owner) == h, "a slab in the list of another heap");
    SCHED_CHECK(hak_slab_used_blocks(s) != 0, "an empty slab is kept: a lost EMPTY");
    SCHED_CHECK(hak_load_relaxed(hak_map_entry(hak_slab_slot(s))) == (h->tag | cls * 2u),
                "the map has another owner than the slab");
}

/* Returns the slots that the heap's slabs have. */
static size_t verify_heap(struct hak_heap *h, bool usable)
{
    size_t slots = 0;
    size_t free_bytes = 0;
    unsigned waiting = 0;
    for (struct hak_message *m = hak_load_relaxed(&h->inbox); m != NULL;
         m = hak_load_relaxed(&m->next))
        SCHED_CHECK(++waiting < 64 && m->free < HAK_MESSAGE_BLOCKS, "the inbox is broken");
    SCHED_CHECK(!usable || waiting == 0, "%u messages wait in an inbox", waiting);
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        for (unsigned list = 0; list < HAK_LISTS; list++) {
            for (struct hak_slab *s = h->classes[cls].lists[list]; s != NULL; s = s->next) {
                SCHED_CHECK(slots < 1000, "a list of slabs goes round");
                verify_slab(h, s, cls);
                slots += hak_class(cls)->slots;
                free_bytes += hak_slab_free_bytes(s);
            }
        }
    }
    SCHED_CHECK(h->free_bytes == free_bytes, "%zu bytes are free, counted %zu", free_bytes,
                h->free_bytes);
    SCHED_CHECK(h->slab_bytes == slots * HAK_SLOT_BYTES, "%zu slots, counted %zu bytes", slots,
                h->slab_bytes);
    return slots;
}

static size_t verify_heaps(bool usable)
{
    size_t slots = 0;
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap)
        slots += verify_heap(h, usable);
    size_t entries = 0;
    for (size_t slot = 0; slot < hak_space_high_water() * HAK_SLOTS; slot++)
        entries += hak_load_relaxed(hak_map_entry(slot)) != 0;
    SCHED_CHECK(entries == slots, "%zu slots in slabs, %zu in the map", slots, entries);
    pool_verify(slots);
    return slots;
}

static void blocks_tick(void)
{
    for (unsigned i = 0; i < 3; i++) { /* the first may only look at the clock */
        sim_os_set_time_ns(sim_os_time_ns() + HAK_TICK_NS * 2);
        hak_cache_tick_any();
    }
}

static void blocks_flush(void)
{
    hak_registry_give_kept();
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned t = 0; t < SCHED_THREADS; t++)
            if (heaps[t] != NULL)
                hak_cache_flush(heaps[t]);
        hak_cache_collect_orphans();
    }
}

static void verify_with(void (*settle)(void))
{
    blocks_between();
    verify_heaps(false);
    settle();
    verify_heaps(true);
    for (unsigned i = 0; i < LIVE_MAX; i++)
        if (live[i].p != NULL)
            blocks_free(NULL, live[i].p);
    blocks_flush();
    settle();
    size_t held = verify_heaps(true);
    SCHED_CHECK(held == 0, "all blocks are free, and %zu slots are held", held);
}

void blocks_verify(void)
{
    verify_with(blocks_flush);
}

void blocks_verify_by_ticks(void)
{
    for (unsigned t = 0; t < SCHED_THREADS; t++)
        if (heaps[t] != NULL)
            hak_outbox_flush(heaps[t]);
    verify_with(blocks_tick);
}
