/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: makes a plan of a trace, see plan.h. The trace is walked twice: the first
 * walk finds which blocks another thread releases than the one that allocated them, and where most
 * is live; the second writes the words. */
#include "plan.h"

#include "util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLAN_NOTHING UINT32_MAX

struct plan_block {
    uint64_t address; /* 0: none */
    uint64_t size_bytes;
    uint32_t number; /* of the block: they count from 0 in the order of their allocation */
    uint32_t thread; /* that allocated it */
    uint32_t place;
};

/* What is known of one thread. */
struct plan_lane {
    uint64_t *words;
    size_t count, capacity;
    uint32_t *places; /* that it has released */
    size_t places_count, places_capacity;
    uint64_t first_event, last_turn;
    bool has_begun, is_resizing;
    struct plan_block resized; /* between a realloc's two events; address 0: it was not known */
};

struct plan_maker {
    struct hak_plan plan;
    bool writes; /* the second walk */
    const char *problem;
    /* Live blocks by their address: open addressing with linear probing. */
    struct plan_block *table;
    size_t table_mask, table_count;
    struct plan_lane *lane;
    uint32_t lanes;
    uint32_t last_thread;
    uint64_t last_begin;      /* the event with which a thread began last */
    unsigned char *handed_on; /* a bit for each block that another thread releases */
    size_t handed_on_bytes;
    uint32_t blocks;
    uint64_t event; /* the number of this one */
    uint64_t live_bytes, live_blocks;
    uint64_t most_event; /* after which most is live */
};

/* --- live blocks --- */

static size_t plan_home(const struct plan_maker *m, uint64_t address)
{
    return (size_t)(address * 0x9e3779b97f4a7c15U >> 20) & m->table_mask;
}

static struct plan_block *plan_find(const struct plan_maker *m, uint64_t address)
{
    size_t i = plan_home(m, address);
    while (m->table[i].address != 0 && m->table[i].address != address)
        i = (i + 1) & m->table_mask;
    return &m->table[i];
}

static void plan_table_make(struct plan_maker *m, size_t entries)
{
    m->table = hak_grow(NULL, entries, sizeof *m->table);
    memset(m->table, 0, entries * sizeof *m->table);
    m->table_mask = entries - 1;
    m->table_count = 0;
}

static void plan_insert(struct plan_maker *m, struct plan_block block)
{
    if (m->table_count > m->table_mask / 2) {
        struct plan_block *old = m->table;
        size_t entries = m->table_mask + 1;
        plan_table_make(m, 2 * entries);
        for (size_t i = 0; i < entries; i++)
            if (old[i].address != 0)
                plan_insert(m, old[i]);
        free(old);
    }
    struct plan_block *entry = plan_find(m, block.address);
    if (entry->address == 0)
        m->table_count++;
    *entry = block;
}

/* Takes an entry out and moves those up that it stood in the way of. */
static struct plan_block plan_take(struct plan_maker *m, struct plan_block *entry)
{
    struct plan_block taken = *entry;
    size_t hole = (size_t)(entry - m->table);
    for (size_t i = (hole + 1) & m->table_mask; m->table[i].address != 0;
         i = (i + 1) & m->table_mask) {
        size_t home = plan_home(m, m->table[i].address);
        if (((i - home) & m->table_mask) >= ((i - hole) & m->table_mask)) {
            m->table[hole] = m->table[i];
            hole = i;
        }
    }
    m->table[hole].address = 0;
    m->table_count--;
    return taken;
}

/* --- blocks that are handed on --- */

static void plan_hand_on(struct plan_maker *m, const struct plan_block *block, uint32_t thread)
{
    if (block->thread != thread)
        m->handed_on[block->number / 8] |= (unsigned char)(1U << block->number % 8);
}

static uint32_t plan_number(struct plan_maker *m)
{
    size_t byte = m->blocks / 8;
    if (byte >= m->handed_on_bytes) {
        size_t bytes = 2 * byte + 4096;
        m->handed_on = hak_grow(m->handed_on, bytes, 1);
        memset(m->handed_on + m->handed_on_bytes, 0, bytes - m->handed_on_bytes);
        m->handed_on_bytes = bytes;
    }
    if (m->blocks == PLAN_NOTHING)
        m->problem = "it has more than 4 thousand million blocks";
    return m->blocks == PLAN_NOTHING ? 0 : m->blocks++;
}

/* --- words --- */

static void plan_put(struct plan_lane *lane, uint64_t word)
{
    if (lane->count == lane->capacity) {
        lane->capacity = lane->capacity == 0 ? 16 : 2 * lane->capacity;
        lane->words = hak_grow(lane->words, lane->capacity, sizeof *lane->words);
    }
    lane->words[lane->count++] = word;
}

static void plan_write(struct plan_lane *lane, enum hak_plan_what what, uint32_t place,
                       uint64_t size)
{
    bool follows = size >= HAK_PLAN_SIZE_FOLLOWS;
    plan_put(lane, (uint64_t)what | (uint64_t)place << HAK_PLAN_WHAT_BITS |
                       (follows ? HAK_PLAN_SIZE_FOLLOWS : size) << HAK_PLAN_SIZE_SHIFT);
    if (follows)
        plan_put(lane, size);
}

static void plan_leave_place(struct plan_lane *lane, uint32_t place)
{
    if (lane->places_count == lane->places_capacity) {
        lane->places_capacity = 2 * lane->places_capacity + 16;
        lane->places = hak_grow(lane->places, lane->places_capacity, sizeof *lane->places);
    }
    lane->places[lane->places_count++] = place;
}

static uint32_t plan_place(struct plan_maker *m, struct plan_lane *lane, uint32_t number)
{
    bool handed_on = (m->handed_on[number / 8] >> number % 8 & 1) != 0;
    if (!handed_on && lane->places_count > 0)
        return lane->places[--lane->places_count];
    if (m->plan.places == HAK_PLAN_MOST_PLACES)
        m->problem = "it has more than 500 million live blocks, or blocks handed on";
    return m->plan.places == HAK_PLAN_MOST_PLACES ? 0 : m->plan.places++;
}

/* --- events --- */

static void plan_count_live(struct plan_maker *m, uint64_t add, uint64_t take)
{
    m->live_bytes += add - take;
    if (m->live_bytes > m->plan.most_live_bytes) {
        m->plan.most_live_bytes = m->live_bytes;
        m->plan.most_live_blocks = m->live_blocks;
        m->most_event = m->event;
    }
}

static void plan_release(struct plan_maker *m, uint32_t thread, struct plan_block block)
{
    struct plan_lane *lane = &m->lane[thread];
    m->live_blocks--;
    plan_count_live(m, 0, block.size_bytes);
    if (m->writes) {
        plan_write(lane, HAK_PLAN_FREE, block.place, block.size_bytes > 0);
        plan_leave_place(lane, block.place);
    } else {
        plan_hand_on(m, &block, thread);
    }
}

/* Another block had the address: its release was not seen, and comes now. */
static void plan_make_room(struct plan_maker *m, uint32_t thread, uint64_t address)
{
    struct plan_block *entry = plan_find(m, address);
    if (entry->address == 0)
        return;
    m->plan.unseen_frees++;
    plan_release(m, thread, plan_take(m, entry));
}

/* The block that an event has allocated, wherever it will be. */
static struct plan_block plan_new_block(struct plan_maker *m, const struct hak_trace_step *step)
{
    plan_make_room(m, step->thread, step->address);
    return (struct plan_block){.address = step->address,
                               .size_bytes = step->size_bytes,
                               .number = plan_number(m),
                               .thread = step->thread};
}

static void plan_allocate(struct plan_maker *m, const struct hak_trace_step *step,
                          enum hak_plan_what what)
{
    struct plan_lane *lane = &m->lane[step->thread];
    struct plan_block block = plan_new_block(m, step);
    m->plan.allocations++;
    m->live_blocks++;
    plan_count_live(m, block.size_bytes, 0);
    if (m->writes) {
        block.place = plan_place(m, lane, block.number);
        plan_write(lane, what, block.place, block.size_bytes);
        if (what == HAK_PLAN_ALIGNED)
            plan_put(lane, step->alignment);
    }
    plan_insert(m, block);
}

static void plan_free(struct plan_maker *m, const struct hak_trace_step *step)
{
    struct plan_block *entry = plan_find(m, step->address);
    if (entry->address == 0) {
        m->plan.unknown_frees++;
        return;
    }
    m->plan.frees++;
    plan_release(m, step->thread, plan_take(m, entry));
}

static void plan_resize_begin(struct plan_maker *m, const struct hak_trace_step *step)
{
    struct plan_lane *lane = &m->lane[step->thread];
    struct plan_block *entry = plan_find(m, step->address);
    if (lane->is_resizing)
        m->problem = "it has a realloc within another";
    lane->is_resizing = true;
    lane->resized = entry->address == 0 ? *entry : plan_take(m, entry);
}

static void plan_resize(struct plan_maker *m, const struct hak_trace_step *step,
                        struct plan_block old)
{
    struct plan_lane *lane = &m->lane[step->thread];
    struct plan_block block = plan_new_block(m, step);
    m->plan.reallocs++;
    plan_count_live(m, block.size_bytes, old.size_bytes);
    if (m->writes) {
        plan_leave_place(lane, old.place);
        block.place = plan_place(m, lane, block.number);
        plan_write(lane, HAK_PLAN_REALLOC, old.place, block.size_bytes);
        plan_put(lane, block.place);
    } else {
        plan_hand_on(m, &old, step->thread);
    }
    plan_insert(m, block);
}

static void plan_resize_end(struct plan_maker *m, const struct hak_trace_step *step)
{
    struct plan_lane *lane = &m->lane[step->thread];
    struct plan_block old = lane->resized;
    if (!lane->is_resizing)
        m->problem = "it has the end of a realloc without its beginning";
    lane->is_resizing = false;
    bool is_known = old.address != 0;
    if (!is_known)
        m->plan.unknown_frees++;
    if (step->address != 0 && is_known) {
        plan_resize(m, step, old);
    } else if (step->address != 0) {
        plan_allocate(m, step, HAK_PLAN_MALLOC);
    } else if (is_known && step->size_bytes == 0) {
        m->plan.frees++;
        plan_release(m, step->thread, old);
    } else if (is_known) { /* it failed: the block is where it was */
        plan_make_room(m, step->thread, old.address);
        plan_insert(m, old);
    }
}

/* False: the trace is wrong. */
static bool plan_lane_begin(struct plan_maker *m, uint32_t thread)
{
    if (thread > m->plan.threads) {
        m->problem = "its threads do not begin in the order of their numbers";
        return false;
    }
    if (thread >= m->lanes) {
        uint32_t lanes = thread + thread / 2 + 8;
        m->lane = hak_grow(m->lane, lanes, sizeof *m->lane);
        memset(m->lane + m->lanes, 0, (lanes - m->lanes) * sizeof *m->lane);
        m->lanes = lanes;
    }
    struct plan_lane *lane = &m->lane[thread];
    bool first = !lane->has_begun;
    if (first) {
        lane->has_begun = true;
        lane->first_event = m->event;
        m->last_begin = m->event;
        if (thread >= m->plan.threads)
            m->plan.threads = thread + 1;
    }
    bool is_far = m->event - lane->last_turn >= m->plan.window / 8;
    bool is_due = m->last_begin > lane->last_turn; /* it may want a block of a thread that somebody
                                                      has to begin first */
    if (m->writes && (first || (thread != m->last_thread && (is_far || is_due)))) {
        lane->last_turn = m->event;
        plan_write(lane, HAK_PLAN_TURN, 0, 0);
        plan_put(lane, m->event);
    }
    m->last_thread = thread;
    return true;
}

/* Events are counted by the first walk, so the second knows where a share of them ends. */
static void plan_sample(struct plan_maker *m, const struct hak_trace_step *step, uint64_t events)
{
    struct plan_lane *lane = &m->lane[step->thread];
    uint64_t before = m->event * HAK_PLAN_SAMPLES / events;
    uint64_t sample = (m->event + 1) * HAK_PLAN_SAMPLES / events;
    if (m->event == m->most_event)
        plan_write(lane, HAK_PLAN_SAMPLE, 0, HAK_PLAN_SAMPLES);
    if (sample > before)
        plan_write(lane, HAK_PLAN_SAMPLE, 0, sample - 1);
    for (uint64_t i = before; i < sample; i++) {
        m->plan.sample_live_bytes[i] = m->live_bytes;
        m->plan.sample_us[i] = step->time_us;
    }
    if (m->event == m->most_event) {
        m->plan.sample_live_bytes[HAK_PLAN_SAMPLES] = m->live_bytes;
        m->plan.sample_us[HAK_PLAN_SAMPLES] = step->time_us;
    }
}

static void plan_step(struct plan_maker *m, const struct hak_trace_step *step)
{
    if (!plan_lane_begin(m, step->thread))
        return;
    switch (step->event) {
    case HAK_TRACE_MALLOC:
        plan_allocate(m, step, HAK_PLAN_MALLOC);
        break;
    case HAK_TRACE_CALLOC:
        plan_allocate(m, step, HAK_PLAN_CALLOC);
        break;
    case HAK_TRACE_ALIGNED:
        plan_allocate(m, step, HAK_PLAN_ALIGNED);
        break;
    case HAK_TRACE_FREE:
        plan_free(m, step);
        break;
    case HAK_TRACE_REALLOC_BEGIN:
        plan_resize_begin(m, step);
        break;
    case HAK_TRACE_REALLOC_END:
        plan_resize_end(m, step);
        break;
    case HAK_TRACE_END:
    case HAK_TRACE_CONTROL: /* the reader keeps these to itself */
        break;
    }
}

static void plan_walk(struct plan_maker *m, const struct hak_trace *trace, uint64_t events)
{
    struct hak_trace_cursor cursor;
    struct hak_trace_step step;
    plan_table_make(m, 1024);
    hak_trace_begin(&cursor, trace);
    while (m->problem == NULL && hak_trace_next(&cursor, &step)) {
        plan_step(m, &step);
        if (m->writes && m->problem == NULL && m->event < events)
            plan_sample(m, &step, events);
        m->event++;
    }
    free(m->table);
    if (m->problem == NULL)
        m->problem = cursor.problem;
    m->plan.events = m->event;
    m->plan.recorded_us = cursor.time_us;
    m->plan.end_live_bytes = m->live_bytes;
}

static void plan_lanes_free(struct plan_maker *m)
{
    for (uint32_t i = 0; i < m->lanes; i++) {
        free(m->lane[i].words);
        free(m->lane[i].places);
    }
    free(m->lane);
}

/* What the second walk counts anew; what the first found stays. */
static void plan_again(struct plan_maker *m, uint64_t window)
{
    plan_lanes_free(m);
    m->lane = NULL;
    m->lanes = 0;
    m->writes = true;
    m->blocks = 0;
    m->event = m->last_begin = m->live_bytes = m->live_blocks = 0;
    m->plan = (struct hak_plan){.window = window,
                                .most_live_bytes = m->plan.most_live_bytes,
                                .most_live_blocks = m->plan.most_live_blocks};
}

static bool plan_save_bytes(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno != EINTR)
            return false;
        at += written < 0 ? 0 : written;
        size -= written < 0 ? 0 : (size_t)written;
    }
    return true;
}

/* Into a file in memory, which exec leaves open. */
static int plan_save(struct plan_maker *m)
{
    int fd = memfd_create("hakmem-plan", 0);
    for (uint32_t i = 0; i < m->plan.threads; i++)
        m->plan.words += m->lane[i].count;
    bool done = fd >= 0 && plan_save_bytes(fd, &m->plan, sizeof m->plan);
    uint64_t words = 0;
    for (uint32_t i = 0; done && i < m->plan.threads; i++) {
        const struct plan_lane *lane = &m->lane[i];
        struct hak_plan_thread thread = {words, lane->count, lane->first_event};
        done = plan_save_bytes(fd, &thread, sizeof thread);
        words += lane->count;
    }
    for (uint32_t i = 0; done && i < m->plan.threads; i++)
        done = plan_save_bytes(fd, m->lane[i].words, m->lane[i].count * sizeof *m->lane[i].words);
    if (done)
        return fd;
    m->problem = strerror(errno);
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

int hak_plan_make(const struct hak_trace *trace, uint64_t window, const char **problem)
{
    struct plan_maker m = {.plan.window = window};
    int fd = -1;
    plan_walk(&m, trace, 0);
    uint64_t events = m.event;
    if (m.problem == NULL && events == 0)
        m.problem = "it has no event: the program allocates nothing, or from another allocator "
                    "than the one that its libraries use, or was killed before it began";
    if (m.problem == NULL) {
        plan_again(&m, window);
        plan_walk(&m, trace, events);
        fd = m.problem == NULL ? plan_save(&m) : -1;
    }
    *problem = m.problem;
    plan_lanes_free(&m);
    free(m.handed_on);
    return fd;
}
