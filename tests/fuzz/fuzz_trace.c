/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: traces of `hakmem record`, and the plan that `hakmem replay` makes of one. The input is
 * what follows the header, but for its first byte, which says by how much threads may be apart.
 * Whatever it is, it is refused with a reason, or the plan can be followed: its words end where
 * they should, places are within the table, and each is filled and emptied in turns. */
#include "command.h"

#include "plan.h"

#include <stdlib.h>
#include <sys/mman.h>

struct follow_place {
    bool is_filled;
    uint32_t filler; /* the thread */
    uint64_t fills;
};

struct follow {
    const struct hak_plan *plan;
    struct follow_place *place;
    uint64_t *next; /* word, of each thread */
    uint64_t filled, allocations, frees, reallocs;
};

static uint64_t follow_word(struct follow *f, uint32_t thread)
{
    const struct hak_plan_thread *t = &hak_plan_threads(f->plan)[thread];
    fuzz_check(f->next[thread] < t->words, "a word beyond the thread's last");
    fuzz_check(t->first_word + t->words <= f->plan->words, "a word beyond the plan's last");
    return hak_plan_words(f->plan)[t->first_word + f->next[thread]++];
}

static void follow_fill(struct follow *f, uint32_t thread, uint32_t place)
{
    fuzz_check(place < f->plan->places, "place %u of %u", place, f->plan->places);
    fuzz_check(!f->place[place].is_filled, "place %u has two blocks", place);
    f->place[place] = (struct follow_place){true, thread, f->place[place].fills + 1};
    f->filled++;
}

/* By another thread than the one that filled it only where nothing had been there before: that is
 * how it knows, when both run at a time, that what it finds is the block that it waits for. */
static void follow_empty(struct follow *f, uint32_t thread, uint32_t place)
{
    fuzz_check(place < f->plan->places, "place %u of %u", place, f->plan->places);
    fuzz_check(f->place[place].is_filled, "place %u has no block", place);
    fuzz_check(f->place[place].filler == thread || f->place[place].fills == 1,
               "place %u was used before", place);
    f->place[place].is_filled = false;
    f->filled--;
}

/* One word and what belongs to it. */
static void follow_step(struct follow *f, uint32_t thread)
{
    uint64_t word = follow_word(f, thread);
    uint32_t place = (uint32_t)word >> HAK_PLAN_WHAT_BITS;
    uint64_t size = word >> HAK_PLAN_SIZE_SHIFT;
    if (size == HAK_PLAN_SIZE_FOLLOWS)
        size = follow_word(f, thread);
    fuzz_check(size <= HAK_TRACE_MOST_SIZE, "a block of 2^48 bytes");
    switch ((enum hak_plan_what)(word & ((1U << HAK_PLAN_WHAT_BITS) - 1))) {
    case HAK_PLAN_ALIGNED:
        fuzz_check(__builtin_popcountll(follow_word(f, thread)) == 1, "no power of two");
        follow_fill(f, thread, place);
        f->allocations++;
        break;
    case HAK_PLAN_MALLOC:
    case HAK_PLAN_CALLOC:
        follow_fill(f, thread, place);
        f->allocations++;
        break;
    case HAK_PLAN_FREE:
        follow_empty(f, thread, place);
        f->frees++;
        break;
    case HAK_PLAN_REALLOC:
        follow_empty(f, thread, place);
        follow_fill(f, thread, (uint32_t)follow_word(f, thread));
        f->reallocs++;
        break;
    case HAK_PLAN_TURN:
        fuzz_check(follow_word(f, thread) < f->plan->events, "a turn after the end");
        break;
    case HAK_PLAN_SAMPLE:
        fuzz_check(size <= HAK_PLAN_SAMPLES, "a sample too many");
        break;
    }
}

static bool follow_can_turn(const struct follow *f, uint32_t thread, uint64_t *event)
{
    const struct hak_plan_thread *t = &hak_plan_threads(f->plan)[thread];
    const uint64_t *words = hak_plan_words(f->plan) + t->first_word + f->next[thread];
    if (f->next[thread] + 1 >= t->words ||
        (words[0] & ((1U << HAK_PLAN_WHAT_BITS) - 1)) != HAK_PLAN_TURN)
        return false;
    *event = words[1];
    return true;
}

/* In the order of the recording: always the thread whose turn comes first, up to its next one. A
 * plan has all turns if its window is 0. */
static void follow_all(struct follow *f)
{
    for (;;) {
        uint32_t first = UINT32_MAX;
        uint64_t first_event = UINT64_MAX;
        for (uint32_t i = 0; i < f->plan->threads; i++) {
            uint64_t event;
            if (follow_can_turn(f, i, &event) && event < first_event) {
                first = i;
                first_event = event;
            }
        }
        if (first == UINT32_MAX)
            break;
        uint64_t event;
        do
            follow_step(f, first);
        while (f->next[first] < hak_plan_threads(f->plan)[first].words &&
               !follow_can_turn(f, first, &event));
    }
    for (uint32_t i = 0; i < f->plan->threads; i++)
        fuzz_check(f->next[i] == hak_plan_threads(f->plan)[i].words, "words are left over");
}

static void check_plan(const struct hak_plan *plan)
{
    struct follow f = {.plan = plan,
                       .place = calloc(plan->places + 1U, sizeof(struct follow_place)),
                       .next = calloc(plan->threads + 1U, sizeof(uint64_t))};
    fuzz_check(f.place != NULL && f.next != NULL, "no memory");
    fuzz_check(plan->places <= plan->allocations + plan->reallocs, "more places than blocks");
    if (plan->window == 0) {
        follow_all(&f);
        fuzz_check(f.allocations == plan->allocations, "allocations are missing");
        fuzz_check(f.reallocs == plan->reallocs, "reallocs are missing");
        fuzz_check(f.frees == plan->frees + plan->unseen_frees, "releases are missing");
        fuzz_check(plan->most_live_bytes >= plan->end_live_bytes, "more is live at the end");
    }
    free(f.place);
    free(f.next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hak_trace trace;
    const char *problem = NULL;
    if (size == 0 || setjmp(command_refused) != 0)
        return 0;
    unsigned char *file = calloc(1, HAK_TRACE_HEADER_BYTES + size);
    fuzz_check(file != NULL, "no memory");
    memcpy(file, HAK_TRACE_MAGIC, sizeof HAK_TRACE_MAGIC);
    memcpy(file + HAK_TRACE_HEADER_BYTES, data + 1, size - 1);
    fuzz_check(hak_trace_from(&trace, file, HAK_TRACE_HEADER_BYTES + size - 1) == NULL, "no trace");
    int fd = hak_plan_make(&trace, *data % 16, &problem);
    fuzz_check((fd < 0) == (problem != NULL), "no reason");
    if (fd >= 0) {
        size_t bytes = (size_t)lseek(fd, 0, SEEK_END);
        const struct hak_plan *plan = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
        fuzz_check(plan != MAP_FAILED, "the plan cannot be mapped");
        fuzz_check(bytes == sizeof *plan + plan->threads * sizeof(struct hak_plan_thread) +
                                plan->words * sizeof(uint64_t),
                   "the plan has %zu bytes", bytes);
        check_plan(plan);
        (void)munmap((void *)(uintptr_t)plan, bytes);
        (void)close(fd);
    }
    free(file);
    return 0;
}
