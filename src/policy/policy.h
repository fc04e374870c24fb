/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * policy: entry header. The adaptive control engine: about seven times a second, on some slow path,
 * counters become a snapshot, a pure function turns snapshot and state into knobs, and the knobs
 * are set as relaxed atomics in the layers that they limit. docs/learning.md has the model, the
 * formulas and where they come from.
 *
 *   counters of os, pool, cache, large --> snapshot --> hak_policy_step --> knobs --> pool, cache
 *                                                           |
 *                                     evidence <------------+------> decisions, for explaining
 *                                        |
 *                                   policy file
 *
 * controller.c, bandit.c, evidence.c, policy_file.c are pure: integers only, no clock, no system,
 * no allocation, so that a recorded run decides the same everywhere. apply.c does the rest. Called
 * by heap (the tick) and api (start, end, reports). Never on the fast path. */
#pragma once

#include "cache/cache.h"
#include "large/large.h"
#include "telemetry/telemetry.h"

/* --- knobs --- */

enum hak_knob {
    HAK_KNOB_CLASSES,
    HAK_KNOB_KEEP,
    HAK_KNOB_AGE,
    HAK_KNOB_GROW,
    HAK_KNOB_HUGE_PAGES,
    HAK_KNOB_PREFAULT,
    HAK_KNOB_HUGE_KEEP,
    HAK_KNOB_SPARE,
    HAK_KNOB_PREWARM,
    HAK_KNOBS
};
#define HAK_ARMS 3u /* named policies of a knob, at most; the first is the fixed default */

struct hak_knob_info {
    const char *name;
    struct {
        const char *name;
        uint64_t value;
    } arm[HAK_ARMS];
};
extern HAK_HIDDEN const struct hak_knob_info hak_knob_info[HAK_KNOBS];

struct hak_knobs {
    uint64_t value[HAK_KNOBS];
    uint64_t give_back; /* HAK_GIVE_BACK_* */
};

/* --- what was learned: sums only, so that adding is merging --- */

#define HAK_PPM UINT64_C(1000000)
#define HAK_SUM_MOST (UINT64_C(1) << 56) /* of any; of some dozens there is no overflow */

/* Runs with one arm that is not the default; each against the mean of the runs with the defaults
 * that were known then. */
struct hak_arm_evidence {
    uint64_t plays, reward, squares; /* rewards in millionths; their squares in 10^-8 */
    uint64_t time, memory;           /* sums of the ratios, in millionths: see hak_policy_end */
    uint64_t hints;                  /* ticks at which counters said that it may pay */
};
struct hak_mean_evidence {
    uint64_t weight, sum;
};
struct hak_evidence {
    uint64_t runs, ticks;                                /* that were watched */
    uint64_t base_plays, base_us, base_cpu_us, base_kib; /* whole runs with the defaults */
    struct hak_arm_evidence arm[HAK_KNOBS]
                               [HAK_ARMS];     /* nothing of the default: it is the measure */
    struct hak_mean_evidence bin[HAK_CLASSES]; /* blocks that a class's bins came to hold */
};

void hak_evidence_add(struct hak_evidence *to, const struct hak_evidence *from);
/* Mean of a sum, 0 without weight. */
uint64_t hak_evidence_mean(uint64_t sum, uint64_t weight);
/* A run with the arm has ended. */
void hak_arm_play(struct hak_arm_evidence *arm, uint64_t time, uint64_t memory);
/* An arm is not to gain in one by much of the other: what is more than the default's, on average,
 * counts twice. So much comes off the reward, in millionths. The arm was played. */
uint64_t hak_arm_loss(const struct hak_arm_evidence *arm);
/* The arm that the evidence is for: 0, the default, unless one is better by more than chance. And
 * how much it is worth, in millionths; 0 for the default. */
unsigned hak_evidence_choose(const struct hak_evidence *e, enum hak_knob knob, uint64_t *worth);
#define HAK_CHOOSE_PLAYS 3u
#define HAK_CHOOSE_REWARD (HAK_PPM * 51 / 100)

/* --- the file: text with a version, see docs/learning.md --- */

/* Both need the table of classes. The text as a whole, or as far as it fits; its length in any
 * case. */
size_t hak_policy_print(const struct hak_evidence *e, char *buffer, size_t size);
/* 0, or the number of the line that is not understood; *e is then left alone. */
unsigned hak_policy_parse(const char *text, size_t length, struct hak_evidence *e);
/* The rules for call sites in a text that hak_policy_parse has accepted. Returns how many. */
unsigned hak_policy_parse_sites(const char *text, size_t length, struct hak_site_rule *out,
                                unsigned most);
/* Their lines, as hak_policy_print does it. */
size_t hak_policy_print_sites(const struct hak_site_rule *rules, unsigned count, char *buffer,
                              size_t size);
#define HAK_POLICY_FILE_MOST ((size_t)64 << 10)

/* --- bandit.c --- */

/* The largest integer whose square is not above x. */
uint64_t hak_square_root(uint64_t x);

/* What a run is to try next: an arm of a knob. False: the defaults, against which arms are
 * measured. */
bool hak_bandit_pick(const struct hak_evidence *e, const bool fixed[HAK_KNOBS], unsigned *knob,
                     unsigned *arm);
/* The upper confidence bound of a mean reward, in millionths (P. Auer, N. Cesa-Bianchi, P. Fischer,
 * "Finite-time Analysis of the Multiarmed Bandit Problem", 2002: UCB1), UINT64_MAX for an arm that
 * was never played. */
uint64_t hak_bandit_bound(const struct hak_arm_evidence *arm, uint64_t all_plays);

/* --- the controller --- */

enum hak_policy_mode {
    HAK_POLICY_FIXED,  /* the defaults */
    HAK_POLICY_FROZEN, /* what a file says */
    HAK_POLICY_LEARN,  /* the same, and watches */
    HAK_POLICY_TRY,    /* the defaults but for one arm, and watches */
};

/* All counts since the start of the process. */
struct hak_policy_snapshot {
    uint64_t now_ns, cpu_ns, faults;
    uint64_t resident_bytes, kept_bytes, spare_bytes; /* now; spare: free blocks in slabs */
    uint64_t purged_bytes;                            /* free pages of those */
    uint64_t slow_calls, mapped_superslabs, regretted_slots, aged_slots, huge_blocks, heaps;
    uint64_t group_max_bytes, group_used_bytes, group_stalled_us; /* max 0: no limit is known */
};

enum hak_policy_rule {
    HAK_RULE_LOADED, /* from a policy file; the counter is the mean reward */
    HAK_RULE_TRY,    /* this run tries it; the counter is how often it was played before */
    HAK_RULE_HINT,   /* the counter says that the arm may pay: noted, nothing is changed */
    HAK_RULE_NEAR,   /* the control group's limit is near; the counter is its use in per cent */
    HAK_RULE_STALL,  /* tasks of the group wait for memory */
    HAK_RULE_FAR,    /* and again far enough */
    HAK_RULE_ENDED,  /* what this run tries costs too much: the default again; the counter is how
                      * much of the default's, in per cent */
};

enum hak_policy_counter {
    HAK_COUNTER_REWARD,
    HAK_COUNTER_PLAYS,
    HAK_COUNTER_PERCENT,
    HAK_COUNTER_STALLED_US,
    HAK_COUNTER_MAPPED,
    HAK_COUNTER_FAULTS,
    HAK_COUNTER_REGRETTED,
    HAK_COUNTER_HEAPS,
    HAK_COUNTER_KEPT,
    HAK_COUNTER_SPARE,
    HAK_COUNTER_PURGED,
    HAK_COUNTERS
};

#define HAK_KNOB_GIVE_BACK HAK_KNOBS /* no knob with arms; here only */
struct hak_policy_decision {         /* numbers only: readers outside of the process copy it */
    uint64_t tick;
    uint8_t knob, rule, counter;
    uint64_t count, before, after;
};
#define HAK_DECISIONS_KEPT 64u

struct hak_policy_state {
    enum hak_policy_mode mode;
    uint8_t arm[HAK_KNOBS];        /* in force */
    bool fixed[HAK_KNOBS];         /* by an option of the user's: left alone */
    uint8_t tried_knob, tried_arm; /* of this run; arm 0: it is a run with the defaults */
    uint8_t give_back;
    uint8_t calm_ticks; /* that must still pass without a stall before less is given back */
    struct hak_evidence before, learned; /* from the file; in this run */
    struct hak_policy_snapshot last;
    uint64_t ticks;
    uint64_t watched_ns;
    unsigned __int128 kib_us; /* resident over time: 64 bits are full in two days of 100 GB, */
    uint64_t looked_ns, looked_kib; /* as last seen */
    struct hak_policy_decision decisions[HAK_DECISIONS_KEPT];
    uint64_t decided;
};

void hak_policy_init(struct hak_policy_state *state, enum hak_policy_mode mode,
                     const struct hak_evidence *before, const bool fixed[HAK_KNOBS]);
/* Pure: one tick. */
struct hak_knobs hak_policy_step(struct hak_policy_state *state,
                                 const struct hak_policy_snapshot *now);
/* Pure: what is resident at a moment. At ticks, and more often in a run that tries: a program that
 * works and waits in turns is seen after its waits otherwise, when it is smallest. */
void hak_policy_look(struct hak_policy_state *state, uint64_t now_ns, uint64_t resident_bytes);
/* Pure: the run ends; what it has shown goes to state->learned. */
void hak_policy_end(struct hak_policy_state *state, const struct hak_policy_snapshot *now);
/* The knobs in force. */
struct hak_knobs hak_policy_knobs(const struct hak_policy_state *state);
/* A line for each of the last decisions, oldest first: each between `before` and `after`, and
 * `between` two of them. */
void hak_policy_explain(const struct hak_policy_state *state, struct hak_text *text,
                        const char *before, const char *after, const char *between);

/* --- apply.c: the process's own --- */

#define HAK_POLICY_TICK_NS 150000000u
#define HAK_POLICY_LOOK_NS 10000000u

struct hak_policy_config {
    enum hak_policy_mode mode;
    const char *file;      /* of all but fixed; stays valid */
    bool watch_group;      /* the control group's limit */
    bool fixed[HAK_KNOBS]; /* by options */
};
/* Once, by the constructor. Returns 0, or why the file is no policy: an errno, or minus the number
 * of its first bad line; the defaults hold then. No file where one will be written is no error. */
int hak_policy_start(const struct hak_policy_config *config);
/* Slow paths call it now and then, with no lock held. */
void hak_policy_tick_any(void);
/* Adds what this run has learned to the file: what was watched so far, or at its end also what it
 * has cost. Returns 0 or an errno; EDEADLK in a signal handler that has interrupted a tick. */
int hak_policy_write(bool at_end);
/* Where to; NULL: nothing is learned, and hak_policy_write does nothing. */
const char *hak_policy_file(void);
/* The child of a fork keeps the knobs and learns no more. */
void hak_policy_fork_child(void);
/* For reports. */
struct hak_policy_summary {
    uint64_t mode, ticks, decisions;
    struct hak_knobs knobs;
};
void hak_policy_summarize(const struct hak_policy_state *state, struct hak_policy_summary *out);
void hak_policy_summary(struct hak_policy_summary *out);
void hak_policy_explain_any(struct hak_text *text, const char *before, const char *after,
                            const char *between);
