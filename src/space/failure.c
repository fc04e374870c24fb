/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * space: the last failed allocations, in a ring under a lock of its own. See failure.h. */
#include "os/probes.h"
#include "space/space_internal.h"

#include <errno.h>

#define LIMITS_AGE_NS 1000000000u /* so that programs that fail in a loop do so fast */

struct hak_failures hak_failures HAK_RARELY_USED;

/* What threads were refused last, so that no program pays for this with storage of every thread. A
 * place is a thread's until it has made its record, or, where more threads than there are places
 * are refused at once, until another takes it, and then one may be told the other's reason. */
#define FAILURE_PLACE_BITS 6
#define FAILURE_PLACES (1u << FAILURE_PLACE_BITS)
#define FAILURE_REASON_BITS 2
#define FAILURE_ERROR_BITS 14
/* Addresses have 48 bits. */
#define FAILURE_STAGE_SHIFT (FAILURE_REASON_BITS + FAILURE_ERROR_BITS)
_Static_assert(HAK_FAILURE_COUNT <= 1 << FAILURE_REASON_BITS, "a reason has its bits");

static struct failure_place {
    _Atomic(uintptr_t) thread; /* 0: nobody's */
    _Atomic(uint64_t) refusal;
} failure_places[FAILURE_PLACES] HAK_RARELY_USED;

/* The place that `whose` has, made the calling thread's; NULL: none. */
static struct failure_place *failure_find(uintptr_t whose, unsigned first)
{
    for (unsigned i = 0; i < FAILURE_PLACES; i++) {
        struct failure_place *place = &failure_places[(first + i) % FAILURE_PLACES];
        uintptr_t found = whose;
        if (hak_load_relaxed(&place->thread) == whose &&
            hak_cas_relaxed(&place->thread, &found, hak_os_this_thread()))
            return place;
    }
    return NULL;
}

static struct failure_place *failure_place(void)
{
    uintptr_t me = hak_os_this_thread();
    unsigned first = (unsigned)(me * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FAILURE_PLACE_BITS));
    struct failure_place *place = failure_find(me, first);
    if (place == NULL)
        place = failure_find(0, first);
    if (place == NULL) {
        place = &failure_places[first];
        hak_store_relaxed(&place->thread, me);
    }
    return place;
}

int hak_refused(enum hak_failure_reason reason, int error, const char *stage)
{
    uint64_t word = (uint64_t)(uintptr_t)stage << FAILURE_STAGE_SHIFT |
                    (uint64_t)(unsigned)error << FAILURE_REASON_BITS | reason;
    hak_store_relaxed(&failure_place()->refusal, word);
    return error;
}

static enum hak_failure_reason failure_reason(uint64_t word)
{
    return (enum hak_failure_reason)(word & hak_low_bits32(FAILURE_REASON_BITS));
}

enum hak_failure_reason hak_refused_why(void)
{
    return failure_reason(hak_load_relaxed(&failure_place()->refusal));
}

static struct hak_refusal failure_take_last(void)
{
    struct failure_place *place = failure_place();
    uint64_t word = hak_exchange_relaxed(&place->refusal, (uint64_t)0);
    hak_store_relaxed(&place->thread, (uintptr_t)0);
    return (struct hak_refusal){
        .reason = failure_reason(word),
        .error = (int)(word >> FAILURE_REASON_BITS & hak_low_bits32(FAILURE_ERROR_BITS)),
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): where it came from */
        .stage = (const char *)(uintptr_t)(word >> FAILURE_STAGE_SHIFT)};
}

static const char *failure_error_name(int error)
{
    switch (error) {
    case ENOMEM:
        return "ENOMEM";
    case EPERM:
        return "EPERM";
    case EINVAL:
        return "EINVAL";
    case EAGAIN:
        return "EAGAIN";
    default:
        return "an unusual error";
    }
}

static void failure_write_number(struct hak_text *text, const char *before, uint64_t value,
                                 const char *after)
{
    if (value == UINT64_MAX) /* unknown, or unlimited */
        return;
    hak_text_string(text, before);
    hak_text_decimal(text, value);
    hak_text_string(text, after);
}

static void failure_write_reason(struct hak_text *text, const struct hak_failure *f)
{
    if (f->why.reason == HAK_FAILURE_THRESHOLD) {
        hak_text_string(text, "no block can be that large");
    } else if (f->why.reason == HAK_FAILURE_EXHAUSTION) {
        hak_text_string(text, f->why.error == ENOSPC ? "the window of addresses is full"
                              : f->why.error != 0    ? "HAKMEM_LIMIT_MB is reached"
                                                     : "the thread has no heap");
    } else {
        hak_text_string(text, "the system refused memory (");
        hak_text_string(text, failure_error_name(f->why.error));
        hak_text_string(text, ")");
        const struct hak_os_limits *l = &f->limits;
        failure_write_number(text, "; RLIMIT_AS ", l->address_space_bytes, "");
        failure_write_number(text, "; RLIMIT_DATA ", l->data_bytes, "");
        failure_write_number(text, "; ", l->mappings, " mappings");
        if (l->cgroup_max_bytes != UINT64_MAX)
            failure_write_number(text, ", cgroup at ", l->cgroup_used_bytes, "");
        failure_write_number(text, " of ", l->cgroup_max_bytes, "");
    }
}

void hak_failure_describe(struct hak_text *text, const struct hak_failure *f, uint64_t now_ns)
{
    failure_write_number(text, "allocation of ", f->size_bytes, " bytes");
    if (f->size_bytes == UINT64_MAX)
        hak_text_string(text, "allocation of more bytes than a size_t counts");
    if (f->align_bytes > 16) /* what every block has */
        failure_write_number(text, " aligned to ", f->align_bytes, "");
    hak_text_string(text, " failed: ");
    failure_write_reason(text, f);
    if (f->kind < HAK_KIND_CLASSES)
        failure_write_number(text, "; class ", f->kind / 2, "");
    else
        hak_text_string(text, f->kind == HAK_KIND_LARGE ? "; large" : "; huge");
    hak_text_string(text, ", stage ");
    hak_text_string(text, f->why.stage != NULL ? f->why.stage : "none");
    /* Another thread may have failed since `now_ns` was read. */
    failure_write_number(text, ", ", (now_ns - hak_min(now_ns, f->time_ns)) / 1000000, " ms ago");
}

static void failure_print(const struct hak_failure *f)
{
    char line[320];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_text_string(&text, "hakmem: ");
    hak_failure_describe(&text, f, f->time_ns);
    hak_text_string(&text, "\n");
    hak_os_write_stderr(line, (size_t)(text.at - line));
}

/* How the system stands, or stood within the last second. All but the limits of the process is in
 * files, and a filter of system calls may end a process that opens one where malloc was to return
 * NULL. */
static struct hak_os_limits failure_limits_locked(uint64_t now_ns)
{
    if (hak_load_relaxed(&hak_failures.no_files))
        return (struct hak_os_limits){hak_os_address_space_limit(), hak_os_data_limit(), UINT64_MAX,
                                      UINT64_MAX, UINT64_MAX};
    if (now_ns >= hak_failures.limits_until_ns) {
        hak_os_limits(&hak_failures.limits);
        hak_failures.limits_until_ns = now_ns + LIMITS_AGE_NS;
    }
    return hak_failures.limits;
}

void hak_failure_record(size_t size_bytes, size_t align_bytes, unsigned kind)
{
    struct hak_failure f = {failure_take_last(), size_bytes, align_bytes, kind,
                            hak_os_now_ns(),     {0}};
    HAK_PROBE3(fail, (unsigned)f.why.reason, size_bytes, align_bytes);
    hak_lock(&hak_failures.lock);
    if (f.why.reason == HAK_FAILURE_MAP)
        f.limits = failure_limits_locked(f.time_ns);
    hak_failures.ring[hak_failures.recorded++ % HAK_FAILURES_KEPT] = f;
    hak_count_owner(&hak_failures.counts[f.why.reason], 1u);
    bool print = hak_load_relaxed(&hak_failures.trace) && !hak_failures.traced[f.why.reason];
    hak_failures.traced[f.why.reason] |= print;
    hak_unlock(&hak_failures.lock);
    if (print)
        failure_print(&f);
}

uint64_t hak_failure_count(enum hak_failure_reason reason)
{
    return hak_load_relaxed(&hak_failures.counts[reason]);
}

void hak_failure_avert(void)
{
    hak_add_relaxed(&hak_failures.averted, 1u);
}

uint64_t hak_failures_averted(void)
{
    return hak_load_relaxed(&hak_failures.averted);
}

const char *hak_failure_name(enum hak_failure_reason reason)
{
    static const char *const names[HAK_FAILURE_COUNT] = {"exhaustion", "map", "threshold"};
    return names[reason];
}

void hak_failure_write(struct hak_text *text, const char *before, const char *after,
                       const char *between)
{
    uint64_t now = hak_os_now_ns();
    hak_lock(&hak_failures.lock);
    size_t kept = hak_min(hak_failures.recorded, HAK_FAILURES_KEPT);
    for (size_t i = kept; i > 0; i--) {
        hak_text_string(text, before);
        hak_failure_describe(
            text, &hak_failures.ring[(hak_failures.recorded - i) % HAK_FAILURES_KEPT], now);
        hak_text_string(text, after);
        hak_text_string(text, i > 1 ? between : "");
    }
    hak_unlock(&hak_failures.lock);
}

void hak_failure_open_files(bool on)
{
    if (hak_load_relaxed(&hak_failures.no_files) == on)
        hak_store_relaxed(&hak_failures.no_files, !on);
}

void hak_failure_trace(bool on)
{
    if (hak_load_relaxed(&hak_failures.trace) != on) /* most processes never write into that page */
        hak_store_relaxed(&hak_failures.trace, on);
}

void hak_failure_fork_child(void)
{
    if (hak_lock_recover(&hak_failures.lock))
        hak_failures.recorded = 0; /* one of them may be half written */
}
