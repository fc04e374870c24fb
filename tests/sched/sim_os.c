/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Scheduler of the tests: the system, in place of the os layer's calls for memory and time (the
 * linker's --wrap). Of the window only what is mapped, purged and used is kept in mind: the
 * allocator never touches memory that it hands out, so none is there. The arrays beside the window
 * and the records are real, and zeroed for each run. Purging and unmapping take a few steps, in
 * which other threads go on. See sched.h. */
#include "sched.h"

#include "pool/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define AREAS_MAX 48u
#define SIM_SUPERSLABS 64u
#define SIM_SLOTS (SIM_SUPERSLABS * HAK_SLOTS)
#define SIM_BEGIN_NS 1000000000u
#define SIM_PROCESSORS 8u

struct area { /* memory that is really there */
    char *at;
    size_t bytes, used_bytes; /* in this run */
};

enum { SLOT_MAPPED = 1, SLOT_USED = 2, SLOT_DISCARDED = 4 };

static struct sim {
    struct area areas[AREAS_MAX]; /* this outlives a run, the rest does not */
    unsigned area_count;
    unsigned maps; /* hak_os_map */
    uint8_t slots[SIM_SLOTS];
    uint64_t now_ns;
    unsigned processors;
    bool refuse_unmap, refuse_purge;
    void (*on_discard)(const char *at, size_t bytes);
} *sim;

int __wrap_hak_os_map_at(void *at, size_t bytes);
int __wrap_hak_os_map(size_t bytes, void **out);
int __wrap_hak_os_unmap(void *at, size_t bytes);
int __wrap_hak_os_purge(void *at, size_t bytes);
int __wrap_hak_os_move(void *from, void *to, size_t bytes, bool keep_source);
void __wrap_hak_os_advise_huge_pages(void *at, size_t bytes);
void __wrap_hak_os_populate(void *at, size_t bytes);
uint64_t __wrap_hak_os_fault_in_ns(char *page);
bool __wrap_hak_os_is_resident(const void *at);
bool __wrap_hak_os_list_resident(char *at, size_t bytes, unsigned char *in_memory);
int __wrap_hak_os_find_hole(size_t bytes, uintptr_t *out);
bool __wrap_hak_os_addresses_restricted(void);
uint64_t __wrap_hak_os_now_ns(void);
unsigned __wrap_hak_os_processors(void);
uint64_t __wrap_hak_os_random(void);
_Noreturn void __wrap_hak_os_die(const char *text);

void sim_os_reset(void)
{
    if (sim == NULL) {
        sim = mmap(NULL, sizeof *sim, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (sim == MAP_FAILED)
            abort();
    }
    for (unsigned i = 0; i < sim->area_count; i++) {
        memset(sim->areas[i].at, 0, sim->areas[i].used_bytes);
        sim->areas[i].used_bytes = 0;
    }
    sim->maps = 0;
    memset(sim->slots, 0, sizeof sim->slots);
    sim->now_ns = SIM_BEGIN_NS;
    sim->processors = SIM_PROCESSORS;
    sim->refuse_unmap = sim->refuse_purge = false;
    sim->on_discard = NULL;
}

void sim_os_set_processors(unsigned processors)
{
    sim->processors = processors;
}

void sim_os_set_time_ns(uint64_t now_ns)
{
    sim->now_ns = now_ns;
}

uint64_t sim_os_time_ns(void)
{
    return sim->now_ns;
}

void sim_os_refuse(bool unmap, bool purge)
{
    sim->refuse_unmap = unmap;
    sim->refuse_purge = purge;
}

bool sim_os_refuses(void)
{
    return sim->refuse_unmap || sim->refuse_purge;
}

void sim_os_on_discard(void (*call)(const char *at, size_t bytes))
{
    sim->on_discard = call;
}

static uint8_t *sim_slot(size_t slot)
{
    if (slot >= SIM_SLOTS)
        sched_fail("slot %zu is beyond what the scheduler's system has", slot);
    return &sim->slots[slot];
}

bool sim_os_is_mapped(size_t slot)
{
    return *sim_slot(slot) & SLOT_MAPPED;
}

bool sim_os_is_used(size_t slot)
{
    return *sim_slot(slot) & SLOT_USED;
}

void sim_os_use(size_t slot)
{
    *sim_slot(slot) |= SLOT_USED;
}

bool sim_os_is_discarding(size_t slot)
{
    return *sim_slot(slot) & SLOT_DISCARDED;
}

static bool sim_is_window(const void *at)
{
    uintptr_t base = hak_load_relaxed(&hak_space.base);
    return base != 0 && (uintptr_t)at >= base;
}

/* Page by page: some may be there from a run in which another area began there. */
static bool sim_add_pages(char *at, size_t bytes)
{
    memory_watch(at, bytes);
    for (size_t done = 0; done < bytes; done += HAK_PAGE_BYTES)
        if (mmap(at + done, HAK_PAGE_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at + done &&
            errno != EEXIST)
            return false;
    return true;
}

static int sim_map_area(void *at, size_t bytes)
{
    for (unsigned i = 0; i < sim->area_count; i++) {
        struct area *a = &sim->areas[i];
        if (a->at != at)
            continue;
        if (a->bytes < bytes && !sim_add_pages(a->at + a->bytes, bytes - a->bytes))
            abort();
        a->bytes = hak_max(a->bytes, bytes);
        a->used_bytes = bytes;
        return 0;
    }
    if (sim->area_count == AREAS_MAX || !sim_add_pages(at, bytes))
        abort();
    sim->areas[sim->area_count++] = (struct area){at, bytes, bytes};
    return 0;
}

int __wrap_hak_os_map_at(void *at, size_t bytes)
{
    if (!sim_is_window(at))
        return sim_map_area(at, bytes);
    sched_point("the system maps");
    for (size_t i = 0; i < bytes / HAK_SLOT_BYTES; i++) {
        uint8_t *slot = sim_slot(hak_slot_of(at) + i);
        if (*slot & SLOT_MAPPED)
            return EEXIST;
        *slot = SLOT_MAPPED;
    }
    return 0;
}

/* Records: a place of its own for each call, the same in each run. */
int __wrap_hak_os_map(size_t bytes, void **out)
{
    char *at = (char *)((uintptr_t)40 << 40) + ((size_t)sim->maps++ << 24); // NOLINT
    *out = at;
    return sim_map_area(at, bytes);
}

/* The pages of whole slots go, in a few steps; nobody may use them meanwhile. */
static void sim_discard(char *at, size_t bytes, bool unmap)
{
    size_t first = hak_slot_of(at);
    size_t slots = bytes / HAK_SLOT_BYTES;
    for (size_t i = 0; i < slots; i++) {
        SCHED_CHECK(sim_os_is_mapped(first + i), "slot %zu", first + i);
        SCHED_CHECK(!sim_os_is_discarding(first + i), "slot %zu goes twice at once", first + i);
        *sim_slot(first + i) |= SLOT_DISCARDED;
    }
    if (sim->on_discard != NULL)
        sim->on_discard(at, bytes);
    sched_point("the system begins to take pages");
    if (sim->on_discard != NULL)
        sim->on_discard(at, bytes);
    sched_point("the system ends taking pages");
    if (sim->on_discard != NULL)
        sim->on_discard(at, bytes);
    for (size_t i = 0; i < slots; i++) {
        memory_plain(hak_slot_address(first + i), HAK_SLOT_BYTES, true, NULL);
        *sim_slot(first + i) = unmap ? 0 : SLOT_MAPPED;
    }
}

int __wrap_hak_os_unmap(void *at, size_t bytes)
{
    if (sim->refuse_unmap)
        return ENOMEM;
    sim_discard(at, bytes, true);
    return 0;
}

int __wrap_hak_os_purge(void *at, size_t bytes)
{
    if (sim->refuse_purge)
        return ENOMEM;
    sim_discard(at, bytes, false);
    return 0;
}

int __wrap_hak_os_move(void *from, void *to, size_t bytes, bool keep_source)
{
    (void)from, (void)to, (void)bytes, (void)keep_source;
    return ENOMEM; /* no scenario moves pages */
}

void __wrap_hak_os_advise_huge_pages(void *at, size_t bytes)
{
    (void)at, (void)bytes;
}

void __wrap_hak_os_populate(void *at, size_t bytes)
{
    (void)at, (void)bytes;
}

uint64_t __wrap_hak_os_fault_in_ns(char *page)
{
    (void)page;
    return 0;
}

bool __wrap_hak_os_is_resident(const void *at)
{
    return sim_os_is_used(hak_slot_of(at));
}

bool __wrap_hak_os_list_resident(char *at, size_t bytes, unsigned char *in_memory)
{
    for (size_t i = 0; i < bytes / hak_os_page_bytes(); i++)
        in_memory[i] = sim_os_is_used(hak_slot_of(at + i * hak_os_page_bytes()));
    return true;
}

int __wrap_hak_os_find_hole(size_t bytes, uintptr_t *out)
{
    (void)bytes, (void)out;
    return ENOMEM;
}

bool __wrap_hak_os_addresses_restricted(void)
{
    return false;
}

unsigned __wrap_hak_os_processors(void)
{
    return sim->processors;
}

uint64_t __wrap_hak_os_now_ns(void)
{
    return sim->now_ns;
}

uint64_t __wrap_hak_os_random(void)
{
    return 1;
}

_Noreturn void __wrap_hak_os_die(const char *text)
{
    sched_fail("hakmem: %s", text);
}
