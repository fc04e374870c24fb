/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * policy: the part that is not pure: when it is time, counters are read, the controller is asked,
 * and the knobs are set; files are read at the start and written at the end. Never allocates; no
 * lock of a layer below is held meanwhile but for a moment's reading. See policy.h. */
#include "os/trace.h"
#include "policy/policy.h"
#include "telemetry/telemetry.h"

#include <errno.h>
#include <string.h>

/* Small programs do not look for a control group, and while there is none with a limit, larger ones
 * do only when they have doubled: a process may have put itself under a filter of system calls
 * that ends it when it opens a file. */
#define GROUP_LOOK_BYTES ((size_t)64 << 20)

#define AGE_NS_A_TICK 62500000u /* free pages of idle slabs: 16 ticks at an age of one second */

static struct {
    struct hak_lock lock; /* of all below but the atomics */
    _Atomic(bool) on;     /* there is something to do at ticks */
    _Atomic(uint64_t) next_ns;
    bool watch_group, has_group;
    size_t group_looked_bytes; /* mapped when it was looked for last */
    uint64_t next_tick_ns;
    const char *file;
} policy;
/* Under its lock as well. */
static char policy_group_path[HAK_OS_GROUP_PATH] HAK_RARELY_USED;
static struct hak_policy_state policy_state HAK_RARELY_USED;

/* --- knobs --- */

/* An arm that is not the default, or the default once more. At the start defaults are left as they
 * are: options have set some of them. */
static void apply_arm(enum hak_knob knob, uint64_t value)
{
    switch (knob) {
    case HAK_KNOB_CLASSES:
        hak_store_relaxed(&hak_cache_knobs.refine_slots, value);
        break;
    case HAK_KNOB_KEEP:
        hak_store_relaxed(&hak_pool_knobs.keep_percent, value);
        break;
    case HAK_KNOB_AGE:
        hak_pool_set_age(value);
        hak_store_relaxed(&hak_cache_knobs.idle_ticks, hak_max(1, value / AGE_NS_A_TICK));
        break;
    case HAK_KNOB_GROW:
        hak_store_relaxed(&hak_pool_knobs.grow_divisor, value);
        break;
    case HAK_KNOB_HUGE_PAGES:
        hak_pool_set_huge_pages_from(value);
        break;
    case HAK_KNOB_PREFAULT:
        hak_store_relaxed(&hak_pool_knobs.prefault, value);
        break;
    case HAK_KNOB_PREWARM:
        break; /* done by whoever starts the policy, once all options hold */
    case HAK_KNOB_SPARE:
        hak_store_relaxed(&hak_cache_knobs.spare_bytes, value);
        break;
    default:
        hak_store_relaxed(&hak_pool_knobs.huge_keep_bytes, value);
        break;
    }
}

static void apply_arms(const struct hak_policy_state *s)
{
    for (unsigned k = 0; k < HAK_KNOBS; k++)
        if (s->arm[k] != 0)
            apply_arm(k, hak_knob_info[k].arm[s->arm[k]].value);
}

static void apply_bins(const struct hak_evidence *e)
{
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++)
        hak_store_relaxed(
            &hak_cache_knobs.bin_blocks[cls],
            (uint16_t)hak_min(UINT16_MAX, hak_evidence_mean(e->bin[cls].sum, e->bin[cls].weight)));
}

/* --- the snapshot --- */

static void snapshot_heaps(struct hak_policy_snapshot *s)
{
    for (struct hak_heap *h = hak_cache_first_heap(); h != NULL; h = h->next_heap) {
        s->slow_calls += hak_load_relaxed(&h->stats.refills) + hak_load_relaxed(&h->stats.drains);
        s->heaps += hak_load_relaxed(&h->thread) != 0;
        s->purged_bytes += hak_load_relaxed(&h->stats.purged_bytes);
        if (!hak_load_relaxed(&h->lost) && hak_try_lock(&h->lock)) {
            s->spare_bytes += h->free_bytes;
            hak_unlock(&h->lock);
        }
    }
}

static void snapshot_group(struct hak_policy_snapshot *s)
{
    struct hak_os_group group;
    if (!policy.has_group) {
        size_t mapped = hak_pool_mapped_superslabs() * HAK_SUPERSLAB_BYTES;
        if (mapped < hak_max(GROUP_LOOK_BYTES, policy.group_looked_bytes * 2))
            return;
        policy.group_looked_bytes = mapped;
        policy_group_path[0] = '\0';
    }
    hak_os_group(policy_group_path, &group);
    policy.has_group = group.max_bytes != UINT64_MAX;
    if (!policy.has_group)
        return;
    s->group_max_bytes = group.max_bytes;
    s->group_used_bytes = group.used_bytes;
    s->group_stalled_us = group.stalled_us;
}

static void snapshot_take(struct hak_policy_snapshot *s, uint64_t now_ns)
{
    struct hak_os_usage usage;
    struct hak_pool_stats pool;
    struct hak_large_stats large;
    *s = (struct hak_policy_snapshot){.now_ns = now_ns};
    if (policy.watch_group)
        snapshot_group(s);
    if (policy_state.mode < HAK_POLICY_LEARN)
        return;
    hak_os_usage(&usage);
    hak_pool_stats(&pool);
    hak_large_stats(&large);
    snapshot_heaps(s);
    s->cpu_ns = usage.cpu_ns;
    s->faults = usage.faults;
    s->resident_bytes = hak_os_resident_bytes();
    s->kept_bytes = hak_pool_kept_bytes();
    s->mapped_superslabs = pool.mapped_superslabs;
    s->regretted_slots = hak_load_relaxed(&hak_pool_knobs.regretted_slots);
    s->aged_slots = hak_load_relaxed(&hak_pool_knobs.aged_slots);
    s->huge_blocks = large.huge_reused + large.huge_fresh;
}

/* What the tests replay: tests/policy. */
static void snapshot_trace(const struct hak_policy_snapshot *s)
{
    HAK_TRACE(HAK_TRACE_POLICY, "event", "tick", {"now_ns", s->now_ns}, {"cpu_ns", s->cpu_ns},
              {"faults", s->faults}, {"resident_bytes", s->resident_bytes},
              {"kept_bytes", s->kept_bytes}, {"spare_bytes", s->spare_bytes},
              {"purged_bytes", s->purged_bytes}, {"slow_calls", s->slow_calls},
              {"mapped_superslabs", s->mapped_superslabs}, {"regretted_slots", s->regretted_slots},
              {"aged_slots", s->aged_slots}, {"huge_blocks", s->huge_blocks}, {"heaps", s->heaps},
              {"group_max_bytes", s->group_max_bytes}, {"group_used_bytes", s->group_used_bytes},
              {"group_stalled_us", s->group_stalled_us});
}

/* --- the tick --- */

static int policy_write_locked(bool at_end);

/* Somebody outside has asked for it: hakmem policy write. */
static bool policy_is_asked(void)
{
    _Atomic(uint64_t) *asked = &hak_root.requests[HAK_ROOT_ASK_POLICY];
    return hak_load_relaxed(asked) != 0 && hak_exchange_relaxed(asked, (uint64_t)0) != 0;
}

static void policy_tick_locked(uint64_t now_ns)
{
    struct hak_policy_snapshot s;
    unsigned before = policy_state.give_back;
    unsigned tried = policy_state.tried_knob;
    unsigned arm_before = policy_state.arm[tried];
    snapshot_take(&s, now_ns);
    snapshot_trace(&s);
    policy.next_tick_ns = now_ns + HAK_POLICY_TICK_NS;
    if (policy_state.mode < HAK_POLICY_LEARN && !policy.has_group && before == HAK_GIVE_BACK_NONE)
        return; /* nothing to decide: most processes do not hold the state's pages */
    struct hak_knobs knobs = hak_policy_step(&policy_state, &s);
    hak_store_relaxed(&hak_pool_knobs.give_back, knobs.give_back);
    if (policy_state.arm[tried] != arm_before) /* it cost too much */
        apply_arm(tried, knobs.value[tried]);
    if (knobs.give_back == HAK_GIVE_BACK_ALL && before != HAK_GIVE_BACK_ALL) {
        hak_large_trim();
        hak_cache_purge();
    }
    if (policy_is_asked() && policy_state.mode >= HAK_POLICY_LEARN)
        policy_write_locked(false);
}

static void policy_tick_or_look_locked(uint64_t now_ns)
{
    bool looks = policy_state.mode == HAK_POLICY_TRY;
    hak_store_relaxed(&policy.next_ns, now_ns + (looks ? HAK_POLICY_LOOK_NS : HAK_POLICY_TICK_NS));
    if (now_ns >= policy.next_tick_ns)
        policy_tick_locked(now_ns);
    else
        hak_policy_look(&policy_state, now_ns, hak_os_resident_bytes());
}

void hak_policy_tick_any(void)
{
    if (!hak_load_relaxed(&policy.on))
        return;
    uint64_t now = hak_os_now_ns();
    if (now < hak_load_relaxed(&policy.next_ns) || !hak_try_lock(&policy.lock))
        return;
    if (policy.next_tick_ns == 0) {
        policy.next_tick_ns = now + HAK_POLICY_TICK_NS;
        hak_store_relaxed(&policy.next_ns, policy.next_tick_ns);
    } else if (now >= hak_load_relaxed(&policy.next_ns)) {
        policy_tick_or_look_locked(now);
    }
    hak_unlock(&policy.lock);
}

/* --- start and end --- */

/* What the file says of call sites: as read, or put together to be written. */
static struct {
    struct hak_site_rule rule[HAK_SITE_RULES];
    unsigned count;
} policy_sites HAK_RARELY_USED;

static int policy_read(const char *file, struct hak_evidence *e)
{
    policy_sites.count = 0;
    void *text;
    size_t length = 0;
    int error = hak_os_map(HAK_POLICY_FILE_MOST, &text);
    if (error != 0)
        return error;
    error = hak_os_read_file(file, text, HAK_POLICY_FILE_MOST, &length);
    if (error == 0 && length == HAK_POLICY_FILE_MOST)
        error = EFBIG;
    if (error == 0)
        error = -(int)hak_policy_parse(text, length, e);
    if (error == 0)
        policy_sites.count =
            hak_policy_parse_sites(text, length, policy_sites.rule, HAK_SITE_RULES);
    hak_os_unmap(text, HAK_POLICY_FILE_MOST);
    return error;
}

/* The hardened library has none: its own functions are what calls heap, and a sample is a large
 * block, where they have asked for one of a class. */
static void policy_start_sites(enum hak_policy_mode mode)
{
    if (HAK_HARDENED)
        return;
    if (mode == HAK_POLICY_LEARN)
        hak_sites_learn(true);
    if ((mode != HAK_POLICY_FROZEN && mode != HAK_POLICY_LEARN) || policy_sites.count == 0)
        return;
    for (unsigned i = 0; i < policy_sites.count; i++)
        hak_sites_add_rule(&policy_sites.rule[i]);
    hak_sites_apply();
}

/* The state as the file wants it; without a good one *mode becomes that of the defaults. */
static HAK_NOINLINE int policy_load_locked(const struct hak_policy_config *config,
                                           enum hak_policy_mode *mode)
{
    struct hak_evidence before = {0};
    int error = policy_read(config->file, &before);
    if (error == ENOENT && *mode >= HAK_POLICY_LEARN)
        error = 0;
    else if (error != 0)
        *mode = HAK_POLICY_FIXED;
    hak_policy_init(&policy_state, *mode, &before, config->fixed);
    apply_arms(&policy_state);
    if (*mode == HAK_POLICY_FROZEN || *mode == HAK_POLICY_LEARN)
        apply_bins(&before);
    return error;
}

/* Without a policy the state stays as it is from the beginning, all zero: every process would hold
 * the pages that are written here. */
int hak_policy_start(const struct hak_policy_config *config)
{
    enum hak_policy_mode mode = config->mode;
    hak_root.sizes[HAK_ROOT_POLICY] = sizeof policy_state;
    hak_root.at[HAK_ROOT_POLICY] = &policy_state;
    if (mode == HAK_POLICY_FIXED && !config->watch_group)
        return 0;
    hak_lock(&policy.lock);
    int error = mode == HAK_POLICY_FIXED ? 0 : policy_load_locked(config, &mode);
    policy.file = config->file;
    policy.watch_group = config->watch_group;
    /* 0: counted from the first tick on, and no time is needed here. */
    policy.next_tick_ns = mode == HAK_POLICY_FIXED ? 0 : hak_os_now_ns() + HAK_POLICY_TICK_NS;
    hak_store_relaxed(&policy.next_ns, mode == HAK_POLICY_TRY ? (uint64_t)0 : policy.next_tick_ns);
    hak_store_relaxed(&policy.on, mode >= HAK_POLICY_LEARN || config->watch_group);
    hak_unlock(&policy.lock);
    policy_start_sites(mode);
    return error;
}

/* What the mechanisms below have come to by themselves. */
static void policy_add_bins(struct hak_evidence *e)
{
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        unsigned blocks = hak_cache_bin_capacity(cls);
        if (blocks != 0)
            e->bin[cls] = (struct hak_mean_evidence){e->ticks, blocks * e->ticks};
    }
}

/* What is written, under the lock. Not on the stack: the process may end on the small one of a
 * signal handler. */
static struct {
    struct hak_evidence run, all;
    struct hak_policy_snapshot snapshot;
} policy_end HAK_RARELY_USED;

/* The file may have been written by others since this process read it. */
static int policy_add_to_file(void)
{
    void *text;
    policy_end.all = (struct hak_evidence){0};
    int error = policy_read(policy.file, &policy_end.all);
    if (error != 0 && error != ENOENT)
        return error < 0 ? EINVAL : error;
    hak_evidence_add(&policy_end.all, &policy_end.run);
    error = hak_os_map(HAK_POLICY_FILE_MOST, &text);
    if (error != 0)
        return error;
    policy_sites.count = hak_sites_merge(policy_sites.rule, policy_sites.count, HAK_SITE_RULES);
    size_t length = hak_policy_print(&policy_end.all, text, HAK_POLICY_FILE_MOST);
    length += hak_policy_print_sites(policy_sites.rule, policy_sites.count, (char *)text + length,
                                     HAK_POLICY_FILE_MOST - length);
    error = hak_os_write_file(policy.file, text, length);
    hak_os_unmap(text, HAK_POLICY_FILE_MOST);
    return error;
}

static int policy_write_locked(bool at_end)
{
    struct hak_policy_state *state = &policy_state;
    snapshot_take(&policy_end.snapshot, hak_os_now_ns());
    if (at_end)
        hak_policy_end(state, &policy_end.snapshot);
    if (at_end ? state->learned.runs == 0 : state->learned.ticks == 0)
        return 0;
    policy_end.run = state->learned;
    policy_add_bins(&policy_end.run);
    int error = policy_add_to_file();
    if (error != 0)
        return error;
    state->learned = (struct hak_evidence){0}; /* it is in the file */
    hak_sites_told();
    return 0;
}

/* Who has no file does not learn, and the state's page stays untouched. */
static bool policy_learns(void)
{
    return policy.file != NULL && policy_state.mode >= HAK_POLICY_LEARN;
}

const char *hak_policy_file(void)
{
    return policy.file;
}

/* False: a signal handler asks that has interrupted a tick, and the lock is held below it. */
static bool policy_lock(void)
{
    if (hak_lock_is_mine(&policy.lock))
        return false;
    hak_lock(&policy.lock);
    return true;
}

int hak_policy_write(bool at_end)
{
    if (!policy_learns())
        return 0;
    if (!policy_lock())
        return EDEADLK;
    int error = policy_write_locked(at_end);
    hak_unlock(&policy.lock);
    return error;
}

void hak_policy_fork_child(void)
{
    hak_lock_recover(&policy.lock);
    if (policy_learns())
        policy_state.mode = HAK_POLICY_FROZEN;
}

/* What the interrupted tick is changing is figures alone. */
void hak_policy_summary(struct hak_policy_summary *out)
{
    bool locked = policy_lock();
    hak_policy_summarize(&policy_state, out);
    if (locked)
        hak_unlock(&policy.lock);
}

void hak_policy_explain_any(struct hak_text *text, const char *before, const char *after,
                            const char *between)
{
    bool locked = policy_lock();
    hak_policy_explain(&policy_state, text, before, after, between);
    if (locked)
        hak_unlock(&policy.lock);
}
