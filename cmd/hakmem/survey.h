/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: every slot, slab and block of another process's allocator, and what of them
 * is in memory. The process runs on while it is read: walks are bounded, whatever does not fit
 * together is read once more and else left out, and `complete` is false then. */
#pragma once

#include "image.h"

#include "api/snapshot.h"

enum hak_line { /* of the waterfall, in its order */
                HAK_LINE_LIVE,
                HAK_LINE_SLACK,
                HAK_LINE_THREAD_CACHES,
                HAK_LINE_FREE_IN_SLABS,
                HAK_LINE_EMPTY_SLOTS,
                HAK_LINE_RETIRED,
                HAK_LINE_HUGE_CACHE,
                HAK_LINE_IN_TRANSITION,
                HAK_LINE_METADATA,
                HAK_LINE_LIBRARY,
                HAK_LINE_NOT_OURS,
                HAK_LINE_COUNT
};

struct hak_amount {
    uint64_t resident_bytes, virtual_bytes;
};

enum hak_block_state {
    HAK_BLOCK_LIVE,
    HAK_BLOCK_BIN,        /* free in its owner's bin */
    HAK_BLOCK_WAITING,    /* on its way back from another thread */
    HAK_BLOCK_QUARANTINE, /* the hardened library keeps it for a while */
    HAK_BLOCK_FREE,
    HAK_BLOCK_FRESH, /* never handed out */
    HAK_BLOCK_STATES
};

/* What the heap profile knows of a block. */
struct hak_sample_seen {
    uint64_t bytes, asked_bytes;
    uint32_t site; /* 0: it is no sample */
};

/* How the line HAK_LINE_SLACK is known. */
enum hak_slack_basis {
    HAK_SLACK_LARGE,     /* of large and huge blocks only: what is in slabs counts as live */
    HAK_SLACK_ESTIMATED, /* in slabs from sampled blocks */
    HAK_SLACK_EXACT
};

/* Where blocks that are not live may be. */
enum hak_seen_bits { HAK_SEEN_FREE, HAK_SEEN_IN_BIN, HAK_SEEN_WAITING, HAK_SEEN_BITMAPS };

/* A slab or a large block. */
struct hak_slab_seen {
    struct hak_sample_seen sample;
    uint32_t lifetime_sample; /* a block whose end the process waits for: its place + 1; 0: none */
    uint32_t colour_bytes;    /* where in its first slot the first block begins */
    uint64_t first_slot;
    unsigned slots;
    unsigned cls;         /* HAK_CLASSES: a large block */
    uint32_t small_bytes; /* of a block of a size class that was sampled; 0: as long as its slots */
    uint32_t front_bytes; /* of a large block: not asked for, before its first byte */
    uint64_t asked_bytes; /* of a large block */
    unsigned heap;        /* index; UINT32_MAX: not known */
    unsigned carved;
    unsigned blocks[HAK_BLOCK_STATES];
    uint64_t resident_bytes, live_resident_bytes;
    uint64_t *bits; /* one bitmap for each of hak_seen_bits; while the survey is made */
};

enum hak_slot_state {
    HAK_SLOT_UNMAPPED,
    HAK_SLOT_UNUSED,
    HAK_SLOT_EMPTY,
    HAK_SLOT_SLAB, /* or a large block */
    HAK_SLOT_TRANSITION,
    HAK_SLOT_RETIRED
};

enum hak_superslab_state {
    HAK_SUPERSLAB_SLOTS,
    HAK_SUPERSLAB_RETIRED,
    HAK_SUPERSLAB_HUGE,
    HAK_SUPERSLAB_WAITING
};

struct hak_superslab_seen {
    uint64_t number, superslabs, mapped_bytes;
    enum hak_superslab_state state;
    bool quarantine, huge_pages;
    struct hak_sample_seen sample;
    uint64_t asked_bytes, front_bytes; /* of a huge block, as of a large one */
    uint64_t released_ns;              /* 0: never; UINT64_MAX - 1: kept before it was ever used */
    uint64_t resident_bytes;
    uint8_t slot_state[HAK_SLOTS];
    uint8_t slot_label[HAK_SLOTS];
    uint32_t slot_slab[HAK_SLOTS]; /* index of the slab + 1 */
    uint32_t slot_resident_bytes[HAK_SLOTS];
};

struct hak_heap_seen {
    uint64_t address;
    struct hak_heap heap; /* but for its arena */
    uint32_t number;
    pid_t tid; /* 0: not known */
    char thread_name[32];
    uint64_t slabs, slab_bytes, resident_bytes, free_bytes;
    uint64_t live_blocks, live_bytes, bin_blocks, bin_bytes, outbox_blocks, outbox_bytes;
    uint64_t inbox_blocks, inbox_bytes;
};

struct hak_class_seen {
    uint64_t slabs, slots, blocks[HAK_BLOCK_STATES], resident_bytes, live_resident_bytes;
};

struct hak_survey {
    struct hak_image *image;
    struct hak_amount lines[HAK_LINE_COUNT];
    enum hak_slack_basis slack_basis;
    uint64_t slack_samples;            /* from which it was estimated */
    uint32_t slack_parts[HAK_CLASSES]; /* of a live block on average, << HAK_SLACK_SHIFT */
    bool complete;
    uint64_t rss_bytes;                                                /* the sum of the lines */
    uint64_t files_bytes, stacks_bytes, shared_bytes, anonymous_bytes; /* of what is not ours */
    struct hak_class_seen classes[HAK_CLASSES];
    struct hak_amount large, huge, waiting;
    uint64_t large_blocks, huge_blocks;
    struct hak_heap_seen *heaps;
    size_t heap_count;
    struct hak_slab_seen *slabs;
    size_t slab_count;
    struct hak_superslab_seen *superslabs;
    size_t superslab_count;
    struct hak_snapshot snapshot; /* what hakmem_ctl would say */
};

/* Of a process whose pages were just looked at (hak_remote_look_at_pages): they are used up. */
void hak_survey_make(struct hak_survey *survey, struct hak_image *image);
void hak_survey_free(struct hak_survey *survey);

/* Blocks that the program holds. (The snapshot has those as well that are on their way back or in
 * quarantine, as the process itself cannot tell them apart.) */
struct hak_held {
    uint64_t blocks, bytes; /* as they were given out */
    uint64_t small_blocks;  /* in slabs */
};
struct hak_held hak_survey_held(const struct hak_survey *survey);

const char *hak_line_name(enum hak_line line);
const char *hak_line_label(enum hak_line line);

/* survey_slabs.c: finds superslabs, slots and slabs, and what state each block is in. */
void hak_survey_walk(struct hak_survey *survey);
/* survey_slack.c: estimates from sampled blocks how much of a block was not asked for; what those
 * blocks themselves have is known exactly. */
#define HAK_SLACK_SHIFT 8
void hak_survey_estimate_slack(struct hak_survey *survey);
/* survey_pages.c: what of all that is in memory. */
void hak_survey_count_pages(struct hak_survey *survey);
