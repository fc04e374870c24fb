/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The hakmem command: what `hakmem explain` says: for each kind of failure why it was, how things
 * stood, and what to change, from the records and, of a process that still runs here, from the
 * system's limits. */
#include "explain.h"

#include "json.h"
#include "system.h"
#include "util.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN(value) ((value) != UINT64_MAX)

struct explain_answer {
    char *why;
    struct hak_strings state, fixes;
};

__attribute__((format(printf, 2, 3))) static void explain_add(struct hak_strings *list,
                                                              const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    hak_strings_add(list, hak_format("%s", text));
}

/* --- one reason each --- */

/* Of a request that no block can serve, what is too much of it. */
enum explain_excess { EXPLAIN_PRODUCT, EXPLAIN_SIZE, EXPLAIN_ALIGNMENT };

static enum explain_excess explain_excess(const struct hak_explained *x)
{
    if (!KNOWN(x->size_bytes))
        return EXPLAIN_PRODUCT;
    bool by_alignment =
        x->size_bytes <= HAK_HUGE_MAX && KNOWN(x->align_bytes) && x->align_bytes > HAK_HUGE_MAX;
    return by_alignment ? EXPLAIN_ALIGNMENT : EXPLAIN_SIZE;
}

static void explain_threshold(struct explain_answer *a, const struct hak_explained *x)
{
    char b[16];
    enum explain_excess excess = explain_excess(x);
    if (excess == EXPLAIN_ALIGNMENT) {
        a->why = hak_format("The program asked for an alignment of %" PRIu64
                            " bytes (%s), more than any block can have.",
                            x->align_bytes, hak_bytes_text(b, x->align_bytes));
        explain_add(&a->fixes, "Look at how the program computes the alignment, and at the order "
                               "of the arguments: aligned_alloc and memalign take the alignment "
                               "first, then the size");
    } else if (excess == EXPLAIN_PRODUCT) {
        a->why = hak_format("The program asked for more bytes than there are numbers for.");
    } else {
        a->why =
            hak_format("The program asked for %" PRIu64 " bytes, more than any block can have.",
                       x->size_bytes);
    }
    if (excess != EXPLAIN_ALIGNMENT)
        explain_add(&a->fixes,
                    "Look at how the program computes the size: a negative number that became "
                    "unsigned, a product of count and size that is too large, or a length from a "
                    "damaged file");
    explain_add(&a->fixes, "To find the place, run it in a debugger and break where malloc returns "
                           "NULL, or set HAKMEM_TRACE_FAILURES=1 to see when it happens");
}

/* Two fifths of the limit and more are held without being live. */
static bool explain_is_sparse(const struct hak_explanation *e)
{
    return KNOWN(e->held_bytes) && e->held_bytes > e->live_bytes &&
           (e->held_bytes - e->live_bytes) / 2 >= e->limit_bytes / 5;
}

static void explain_limit(struct explain_answer *a, const struct hak_explained *x,
                          const struct hak_explanation *e)
{
    char b[3][16];
    a->why = hak_format("HAKMEM_LIMIT_MB is reached: no more memory may be mapped for blocks, and "
                        "nothing that was kept was left to give back.");
    if (KNOWN(e->limit_bytes))
        explain_add(&a->state, "The limit is %s", hak_bytes_text(b[0], e->limit_bytes));
    if (KNOWN(e->live_bytes) && KNOWN(e->limit_bytes) && e->limit_bytes != 0) {
        uint64_t percent = e->live_bytes * 100 / e->limit_bytes;
        explain_add(&a->state, "Live blocks are %s now, %" PRIu64 "%% of it",
                    hak_bytes_text(b[1], e->live_bytes), percent);
        if (explain_is_sparse(e))
            explain_add(&a->fixes,
                        "Much of the limit is held by blocks that are few on many slabs: "
                        "'hakmem stat --superslabs PID' shows which size classes");
    }
    if (KNOWN(x->size_bytes) && x->size_bytes > (1u << 20))
        explain_add(&a->fixes, "A block of %s needs as much in one piece%s",
                    hak_bytes_text(b[2], x->size_bytes),
                    KNOWN(e->limit_bytes) && x->size_bytes > e->limit_bytes
                        ? ", which is more than the limit"
                        : "");
    explain_add(&a->fixes, "Set HAKMEM_LIMIT_MB higher, or while the program runs "
                           "hakmem_ctl(\"option.limit_mb\", NULL, &new_value); 0 is no limit");
    explain_add(&a->fixes, "Or have the program hold less: 'hakmem stat PID' says where it is");
}

static void explain_window(struct explain_answer *a)
{
    a->why = hak_format("The window of addresses in which hakmem keeps blocks (4 TiB) is full.");
    explain_add(&a->fixes, "Map what is that large with mmap instead of malloc, or use several "
                           "processes");
}

static void explain_no_heap(struct explain_answer *a)
{
    a->why = hak_format("The thread had no heap: the system gave no memory for hakmem's own "
                        "records when the thread began.");
    explain_add(&a->fixes,
                "Raise the limit that the system has for the process: see 'hakmem doctor'");
}

/* --- the system refused --- */

/* How sure it is that a limit was in the way: how much of it is used was not recorded, and the
 * program may have freed much since. */
enum explain_cause { EXPLAIN_NO_CAUSE, EXPLAIN_MAY_BE, EXPLAIN_IS };

static enum explain_cause explain_cause(const struct hak_explained *x, uint64_t used,
                                        uint64_t limit)
{
    if (!KNOWN(limit))
        return EXPLAIN_NO_CAUSE;
    uint64_t left = used < limit ? limit - used : 0;
    return !KNOWN(used) || left < limit / 8 || left < x->size_bytes ? EXPLAIN_IS : EXPLAIN_MAY_BE;
}

static const char *explain_how_sure(enum explain_cause cause)
{
    return cause == EXPLAIN_IS ? "because the process has used up"
                               : "most likely because the process had used up";
}

static void explain_address_space(struct explain_answer *a, enum explain_cause cause)
{
    a->why = hak_format("The system refused memory %s RLIMIT_AS, its limit on "
                        "addresses%s.",
                        explain_how_sure(cause), cause == EXPLAIN_IS ? "" : ": it has fewer now");
    explain_add(&a->fixes, "Raise it: ulimit -v unlimited before the program starts, LimitAS= in "
                           "its systemd unit, or for a process that runs: prlimit --pid PID --as=");
    explain_add(&a->fixes,
                "RLIMIT_AS counts addresses, of libraries and stacks too, not memory; to limit "
                "memory use a control group, or HAKMEM_LIMIT_MB");
}

static void explain_data(struct explain_answer *a, enum explain_cause cause)
{
    a->why = hak_format("The system refused memory %s RLIMIT_DATA, its limit on memory that can be "
                        "written%s.",
                        explain_how_sure(cause), cause == EXPLAIN_IS ? "" : ": it has less now");
    explain_add(&a->fixes,
                "Raise it: ulimit -d unlimited before the program starts, LimitDATA= in its "
                "systemd unit, or for a process that runs: prlimit --pid PID --data=");
    explain_add(&a->fixes,
                "RLIMIT_DATA counts memory that is mapped, touched or not; to limit what "
                "is used take a control group, or HAKMEM_LIMIT_MB");
}

static void explain_state_of_limits(struct explain_answer *a, const struct hak_explained *x,
                                    const struct hak_explanation *e)
{
    char b[2][16];
    if (KNOWN(x->limits.address_space_bytes)) {
        explain_add(&a->state, "RLIMIT_AS (ulimit -v) was %s",
                    hak_bytes_text(b[0], x->limits.address_space_bytes));
        if (KNOWN(e->address_space_bytes))
            explain_add(&a->state, "The process has %s of addresses %s",
                        hak_bytes_text(b[1], e->address_space_bytes),
                        e->is_live ? "now" : "in the end");
    }
    if (KNOWN(x->limits.data_bytes)) {
        explain_add(&a->state, "RLIMIT_DATA (ulimit -d) was %s",
                    hak_bytes_text(b[0], x->limits.data_bytes));
        if (KNOWN(e->data_bytes))
            explain_add(&a->state, "The process has %s now that it can write to",
                        hak_bytes_text(b[1], e->data_bytes));
    }
}

/* One of the limits of the process, if the cause is `wanted`; of two the smaller one. */
static bool explain_limits(struct explain_answer *a, const struct hak_explained *x,
                           const struct hak_explanation *e, enum explain_cause wanted)
{
    const struct hak_os_limits *l = &x->limits;
    bool addresses = explain_cause(x, e->address_space_bytes, l->address_space_bytes) == wanted;
    bool data = explain_cause(x, e->data_bytes, l->data_bytes) == wanted;
    if (data && (!addresses || l->data_bytes < l->address_space_bytes))
        explain_data(a, wanted);
    else if (addresses)
        explain_address_space(a, wanted);
    return a->why != NULL;
}

static bool explain_mappings(struct explain_answer *a, const struct hak_explained *x,
                             const struct hak_explanation *e)
{
    uint64_t most = hak_system_number("/proc/sys/vm/max_map_count");
    bool is_recorded = KNOWN(x->limits.mappings); /* not with HAKMEM_CGROUP=0 */
    uint64_t have = is_recorded ? x->limits.mappings : e->mappings;
    uint64_t limit = e->is_live ? most : UINT64_MAX;
    if (!KNOWN(have))
        return false;
    explain_add(&a->state, "The process %s %" PRIu64 " mappings%s",
                is_recorded || !e->is_live ? "had" : "has", have,
                is_recorded  ? ""
                : e->is_live ? " now"
                             : " in the end");
    if (have < (KNOWN(limit) ? limit - limit / 20 : 62000))
        return false;
    a->why = hak_format("The system refused memory because the process has as many mappings as "
                        "vm.max_map_count allows.");
    explain_add(&a->fixes, "Raise it: sysctl vm.max_map_count=%" PRIu64,
                (KNOWN(limit) ? limit : 65530) * 4);
    explain_add(&a->fixes, "See in /proc/PID/maps whose they are; guard pages and mapped files of "
                           "the program count too");
    return true;
}

static bool explain_commit(struct explain_answer *a, const struct hak_explained *x,
                           const struct hak_explanation *e)
{
    char b[2][16];
    if (!e->is_live)
        return false;
    uint64_t mode = hak_system_number("/proc/sys/vm/overcommit_memory");
    uint64_t limit = hak_system_meminfo("CommitLimit");
    uint64_t used = hak_system_meminfo("Committed_AS");
    uint64_t total = hak_system_meminfo("MemTotal"), swap = hak_system_meminfo("SwapTotal");
    if (mode == 2) {
        explain_add(&a->state, "vm.overcommit_memory is 2: %s of %s are promised now",
                    hak_bytes_text(b[0], used), hak_bytes_text(b[1], limit));
        a->why = hak_format("The system refused memory because it promises no more than its commit "
                            "limit (vm.overcommit_memory=2).");
        explain_add(&a->fixes, "sysctl vm.overcommit_memory=0, or a larger vm.overcommit_ratio, or "
                               "more swap");
        return true;
    }
    if (mode == 0 && KNOWN(total) && KNOWN(x->size_bytes) &&
        x->size_bytes > total + (KNOWN(swap) ? swap : 0)) {
        a->why = hak_format("The system refused one piece that is larger than all memory and swap "
                            "together (vm.overcommit_memory=0).");
        explain_add(&a->state, "Memory and swap are %s", hak_bytes_text(b[0], total + swap));
        explain_add(&a->fixes, "If so much is wanted and only part of it is touched: "
                               "sysctl vm.overcommit_memory=1");
        return true;
    }
    return false;
}

static void explain_cgroup(struct explain_answer *a, const struct hak_explained *x)
{
    char b[2][16];
    if (KNOWN(x->limits.cgroup_max_bytes))
        explain_add(&a->state, "Its control group used %s of %s",
                    hak_bytes_text(b[0], x->limits.cgroup_used_bytes),
                    hak_bytes_text(b[1], x->limits.cgroup_max_bytes));
}

static void explain_system(struct explain_answer *a, const struct hak_explained *x,
                           const struct hak_explanation *e)
{
    explain_cgroup(a, x);
    if (strcmp(x->error, "ENOMEM") == 0 || x->error[0] == '\0') {
        bool found = explain_mappings(a, x, e);
        explain_state_of_limits(a, x, e);
        if (found || explain_limits(a, x, e, EXPLAIN_IS) || explain_commit(a, x, e) ||
            explain_limits(a, x, e, EXPLAIN_MAY_BE))
            return;
    }
    if (strcmp(x->error, "EAGAIN") == 0) {
        a->why = hak_format("The system refused memory because so much may not be locked "
                            "(mlockall, RLIMIT_MEMLOCK).");
        explain_add(&a->fixes, "Raise it: ulimit -l, or LimitMEMLOCK= in the systemd unit");
        return;
    }
    a->why = hak_format("The system refused memory (%s), and none of the limits that are known "
                        "was near.",
                        x->error[0] == '\0' ? "no error was told" : x->error);
    explain_add(&a->fixes,
                "'hakmem doctor PID' looks at all limits; a sandbox (seccomp) may refuse "
                "mmap too");
    if (!KNOWN(x->limits.mappings))
        explain_add(&a->fixes, "Without HAKMEM_CGROUP=0, or with HAKMEM_TRACE_FAILURES=1, it is "
                               "recorded how many mappings there are and how the control group "
                               "stands when it fails");
}

static void explain_one(struct explain_answer *a, const struct hak_explained *x,
                        const struct hak_explanation *e)
{
    if (x->reason == HAK_FAILURE_THRESHOLD)
        explain_threshold(a, x);
    else if (x->reason == HAK_FAILURE_MAP)
        explain_system(a, x, e);
    else if (x->window_full)
        explain_window(a);
    else if (x->no_heap)
        explain_no_heap(a);
    else
        explain_limit(a, x, e);
}

static void explain_free(struct explain_answer *a)
{
    free(a->why);
    hak_strings_free(&a->state);
    hak_strings_free(&a->fixes);
}

/* --- together --- */

static bool explain_is_same(const struct hak_explained *a, const struct hak_explained *b)
{
    return a->reason == b->reason && a->window_full == b->window_full && a->no_heap == b->no_heap &&
           strcmp(a->error, b->error) == 0 &&
           (a->reason != HAK_FAILURE_THRESHOLD || explain_excess(a) == explain_excess(b));
}

static void explain_print_sizes(const struct hak_explanation *e, size_t first, size_t end)
{
    char a[16], b[16];
    for (size_t i = first; i < end; i++) {
        const struct hak_explained *x = &e->last[i];
        bool aligned = KNOWN(x->align_bytes) && x->align_bytes > 16;
        (void)printf(
            "  %s%s%s", KNOWN(x->size_bytes) ? hak_bytes_text(a, x->size_bytes) : "too much",
            aligned ? ", aligned to " : "", aligned ? hak_bytes_text(b, x->align_bytes) : "");
        if (KNOWN(x->class_bytes))
            (void)printf(", in the size class of %" PRIu64, x->class_bytes);
        else if (x->reason != HAK_FAILURE_THRESHOLD && x->kind[0] != '\0')
            (void)printf(", a %s block", x->kind);
        if (x->stage[0] != '\0')
            (void)printf(", at the stage %s", x->stage);
        if (KNOWN(x->age_ns))
            (void)printf(", %.1f s ago", (double)x->age_ns / 1e9);
        (void)printf("\n");
    }
}

static void explain_print_item(const char *sentence)
{
    enum { INDENT = 6 };
    char *text = hak_format("%s.", sentence);
    hak_print_folded((size_t)printf("    - "), INDENT, text);
    free(text);
}

static void explain_print_list(const char *title, const struct hak_strings *list)
{
    if (list->count > 0)
        (void)printf("  %s\n", title);
    for (size_t i = 0; i < list->count; i++)
        explain_print_item(list->at[i]);
}

static void explain_print_averted(const char *before, const struct hak_explanation *e)
{
    if (KNOWN(e->averted) && e->averted != 0)
        (void)printf("%s%" PRIu64 " would have if the thread had not emptied its caches.\n", before,
                     e->averted);
}

void hak_explain_print(const struct hak_explanation *e)
{
    uint64_t all = 0;
    for (enum hak_failure_reason r = 0; r < HAK_FAILURE_COUNT; r++)
        all += e->counts[r];
    if (all == 0 && e->count == 0) {
        (void)printf("%s: no allocation has failed.\n", e->who);
        explain_print_averted("But ", e);
        return;
    }
    if (all == 1)
        (void)printf("%s: one allocation has failed.\n", e->who);
    else
        (void)printf("%s: %" PRIu64 " allocations have failed; the last %zu are known.\n", e->who,
                     all, e->count);
    explain_print_averted("And ", e);
    for (size_t i = e->count; i > 0;) { /* the newest first */
        size_t end = i;
        struct explain_answer a = {0};
        for (i--; i > 0 && explain_is_same(&e->last[i - 1], &e->last[end - 1]);)
            i--;
        explain_one(&a, &e->last[end - 1], e);
        (void)printf("\n");
        hak_print_folded(0, 0, a.why);
        explain_print_sizes(e, i, end);
        explain_print_list("How things stood:", &a.state);
        explain_print_list("What to change:", &a.fixes);
        explain_free(&a);
    }
}

static void explain_json_list(struct hak_json *j, const char *key, const struct hak_strings *list)
{
    hak_json_open(j, key, '[');
    for (size_t i = 0; i < list->count; i++)
        hak_json_string(j, NULL, list->at[i]);
    hak_json_close(j, '[');
}

void hak_explain_print_json(const struct hak_explanation *e)
{
    struct hak_json j = {.out = stdout};
    hak_json_open(&j, NULL, '{');
    hak_json_number(&j, "schema_version", 1);
    hak_json_string(&j, "who", e->who);
    hak_json_open_line(&j, "counts", '{');
    for (enum hak_failure_reason r = 0; r < HAK_FAILURE_COUNT; r++)
        hak_json_number(&j, hak_failure_name(r), e->counts[r]);
    hak_json_close(&j, '{');
    hak_json_number_or_null(&j, "averted", e->averted);
    hak_json_open(&j, "failures", '[');
    for (size_t i = 0; i < e->count; i++) {
        const struct hak_explained *x = &e->last[i];
        struct explain_answer a = {0};
        explain_one(&a, x, e);
        hak_json_open(&j, NULL, '{');
        hak_json_number(&j, "size_bytes", x->size_bytes);
        hak_json_string(&j, "reason", hak_failure_name(x->reason));
        hak_json_string(&j, "error", x->error[0] == '\0' ? NULL : x->error);
        hak_json_string(&j, "kind", x->kind);
        hak_json_string(&j, "stage", x->stage[0] == '\0' ? NULL : x->stage);
        hak_json_number_or_null(&j, "age_ns", x->age_ns);
        hak_json_string(&j, "why", a.why);
        explain_json_list(&j, "state", &a.state);
        explain_json_list(&j, "fixes", &a.fixes);
        hak_json_close(&j, '{');
        explain_free(&a);
    }
    hak_json_close(&j, '[');
    hak_json_close(&j, '{');
}
