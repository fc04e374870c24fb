/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: options. One table; HAKMEM_<NAME>=value beats HAKMEM_CONF="name:value,name:value", and both
 * are ignored in programs with raised privileges, as secure_getenv does. What is not understood is
 * said once on stderr, with the nearest name. */
#include "api/api_internal.h"
#include "hard/hard.h"

#include <string.h>
#include <sys/auxv.h>

struct hak_options hak_options = {
    .superslab_max_cached = 1024,
    .superslab_ttl_sec = 1,
    .huge_pages_from_mb = HAK_POOL_HUGE_PAGES_FROM_MB,
    .check_mismatch = 1,
    .check_sizes = 1,
    .prof_sample_bytes = HAK_PROF_DEFAULT_PERIOD,
    .cgroup = 1,
};

enum option_kind { OPTION_FLAG, OPTION_NUMBER, OPTION_MIB, OPTION_CAPS, OPTION_TEXT };

/* No pointers: what the loader relocates is a page of its own in each process. */
struct option {
    char name[28]; /* as in the environment, without the prefix */
    uint16_t kind; /* enum option_kind */
    uint16_t at;   /* in hak_options */
    uint64_t most;
};
#define AT(member) offsetof(struct hak_options, member)

#define PREWARM_MOST 65536u

/* docs/options.md is made of this table by tools/options_md.py: name, default, comment. */
/* clang-format off */
static const struct option options[] = {
    {"STATS", OPTION_FLAG, AT(stats), 1}, /* print a summary on stderr when the process ends */
    {"SHARED_POOL_STAGE_STATS", OPTION_FLAG, AT(stage_stats), 1}, /* print how often each stage of the shared pool served a slot, when the process ends */
    {"SUPERSLAB_MAX_CACHED", OPTION_NUMBER, AT(superslab_max_cached), UINT32_MAX}, /* superslabs (2 MiB) kept when none of their slots is in use, at most */
    {"SUPERSLAB_MAX_MEMORY_MB", OPTION_MIB, AT(superslab_max_memory_mb), UINT32_MAX}, /* the same limit in MiB; 0 decides by what is in use: an eighth of it, at least 1 MiB */
    {"SUPERSLAB_TTL_SEC", OPTION_NUMBER, AT(superslab_ttl_sec), UINT32_MAX}, /* seconds after which a kept superslab goes back to the system, at the next release */
    {"HUGE_PAGES_FROM_MB", OPTION_MIB, AT(huge_pages_from_mb), UINT32_MAX}, /* MiB in use from which on huge pages (MADV_HUGEPAGE) are asked for, where memory is expected to be used up, while the heap grows quickly; otherwise from twice as many MiB mapped on, and for a block that need not be zero from half as many on; 4294967295 never does */
    {"HOMES", OPTION_NUMBER, AT(homes), HAK_HOMES_MOST}, /* so many threads have memory of their own; the next ones share it, which holds less and makes them share a lock now and then; 0: twice as many as processors, but at most 32 or as many as processors */
    {"LIMIT_MB", OPTION_MIB, AT(limit_mb), UINT32_MAX}, /* MiB that may be mapped for blocks, in steps of 2 MiB, at least 2; what is kept goes before an allocation fails; 0: no limit */
    {"SOFT_CAP", OPTION_CAPS, 0, 0}, /* "SIZE:MIB,SIZE:MIB", in HAKMEM_CONF and hakmem_conf, where commas part options, "SIZE:MIB;SIZE:MIB": a class that uses more than so many MiB has all threads' freed blocks collected before memory is mapped for it; never makes an allocation fail */
    {"PREWARM_SUPERSLABS", OPTION_NUMBER, AT(prewarm_superslabs), PREWARM_MOST}, /* superslabs (2 MiB) mapped and touched at the start, and kept beyond the limits until they are used; at most an eighth of RLIMIT_AS */
    {"PREWARM_SUPERSLABS_C0", OPTION_NUMBER, AT(prewarm_of_class[0]), PREWARM_MOST}, /* added to PREWARM_SUPERSLABS: all classes share superslabs, so that the class does not matter */
    {"PREWARM_SUPERSLABS_C1", OPTION_NUMBER, AT(prewarm_of_class[1]), PREWARM_MOST}, /* the same */
    {"PREWARM_SUPERSLABS_C2", OPTION_NUMBER, AT(prewarm_of_class[2]), PREWARM_MOST}, /* the same */
    {"PREWARM_SUPERSLABS_C3", OPTION_NUMBER, AT(prewarm_of_class[3]), PREWARM_MOST}, /* the same */
    {"PREWARM_SUPERSLABS_C4", OPTION_NUMBER, AT(prewarm_of_class[4]), PREWARM_MOST}, /* the same */
    {"PREWARM_SUPERSLABS_C5", OPTION_NUMBER, AT(prewarm_of_class[5]), PREWARM_MOST}, /* the same */
    {"PREWARM_SUPERSLABS_C6", OPTION_NUMBER, AT(prewarm_of_class[6]), PREWARM_MOST}, /* the same */
    {"PREWARM_SUPERSLABS_C7", OPTION_NUMBER, AT(prewarm_of_class[7]), PREWARM_MOST}, /* the same */
    {"PREWARM_LAZY", OPTION_FLAG, AT(prewarm_lazy), 1}, /* prewarm when memory is first asked of the system rather than at the start */
    {"BACKGROUND_THREAD", OPTION_FLAG, AT(background_thread), 1}, /* start a thread that, four times a second, takes in what was freed for sleeping threads and gives back what is older than SUPERSLAB_TTL_SEC, even if the program makes no call; in the child of a fork it starts again with the first call that is more than a look into a bin; it ends when the main thread does by pthread_exit */
    {"CHECK_MISMATCH", OPTION_FLAG, AT(check_mismatch), 1}, /* hardened library only: free is for blocks of malloc and its family, delete for new, delete[] for new[], and the aligned kinds for their own; 0 for programs that mix them */
    {"CHECK_SIZES", OPTION_FLAG, AT(check_sizes), 1}, /* hardened library only: free_sized, free_aligned_sized and delete name the size and the alignment that were asked for; 0 for programs that delete an object as one of a base class without a virtual destructor */
    {"PROF", OPTION_FLAG, AT(prof), 1}, /* sample the heap from the start and write the profile when the process ends: docs/profiling.md */
    {"PROF_SAMPLE_BYTES", OPTION_NUMBER, AT(prof_sample_bytes), HAK_PROF_MOST_PERIOD}, /* one sample for each so many bytes that are allocated, on average; 0: the default */
    {"PROF_FILE", OPTION_TEXT, AT(prof_file), sizeof hak_options.prof_file - 1}, /* where profiles go, %p the number of the process and %n that of the dump; empty: hakmem-%p.%n.prof */
    {"PROF_LEAKS", OPTION_FLAG, AT(prof_leaks), 1}, /* sample, and print by call stack what is not freed when the process ends; with PROF_SAMPLE_BYTES=1 every block is a sample */
    {"POLICY", OPTION_TEXT, AT(policy), HAK_POLICY_TEXT - 1}, /* FILE: what was learned before, see docs/learning.md; learn:FILE: the same, and watches this run; try:FILE: this run tries something new; both add what they saw to FILE when the process ends; off: the defaults */
    {"CGROUP", OPTION_FLAG, AT(cgroup), 1}, /* keep less, and at last nothing, as the memory limit of the control group comes near; 0: no file of /proc or /sys is opened, also not to record how many mappings there were and how the control group stood when the system refused memory (unless TRACE_FAILURES is set) */
    {"PERTURB", OPTION_NUMBER, AT(perturb), UINT8_MAX}, /* as glibc's M_PERTURB, whose MALLOC_PERTURB_ is read as well: blocks are filled with the complement of this number when they are given out, those up to 64 KiB with the number when they are freed; every call is slow then; not together with PROF, and not in the hardened library; 0: off */
    {"TRACE_FAILURES", OPTION_FLAG, AT(trace_failures), 1}, /* print the first failed allocation of each reason on stderr */
    {"SHARED_POOL_LOCK_STATS", OPTION_FLAG, AT(lock_stats), 1}, /* print how often each lock was acquired and how often it was not free, when the process ends */
    {"SS_ACQUIRE_DEBUG", OPTION_FLAG, AT(trace[HAK_TRACE_ACQUIRE]), 1}, /* debug build only: a line [SS_ACQUIRE] on stderr for each slot taken from the pool */
    {"SS_FREE_DEBUG", OPTION_FLAG, AT(trace[HAK_TRACE_FREE]), 1}, /* debug build only: a line [SS_FREE] for each slot given back */
    {"SS_LRU_DEBUG", OPTION_FLAG, AT(trace[HAK_TRACE_LRU]), 1}, /* debug build only: a line [SS_LRU] for each superslab kept, used again or unmapped */
    {"SUPER_REG_DEBUG", OPTION_FLAG, AT(trace[HAK_TRACE_REGISTRY]), 1}, /* debug build only: a line [SUPER_REG] for each range of superslabs taken in the window or given back */
    {"SS_MAP_TRACE", OPTION_FLAG, AT(trace[HAK_TRACE_MAP]), 1}, /* debug build only: a line [SS_MAP] for each mmap at a fixed place and each munmap */
    {"TINY_SLL_DRAIN_DEBUG", OPTION_FLAG, AT(trace[HAK_TRACE_DRAIN]), 1}, /* debug build only: a line [SLL_DRAIN] for each batch of blocks that leaves a thread's bin */
    {"POLICY_TRACE", OPTION_FLAG, AT(trace[HAK_TRACE_POLICY]), 1}, /* debug build only: a line [POLICY] with what the controller sees at each tick */
};
/* clang-format on */
#define OPTIONS (sizeof options / sizeof options[0])

/* Options of hakmem's predecessor that have nothing left to switch. */
/* clang-format off */
static const struct {
    const char *name, *instead;
} replaced[] = {
    {"TINY_USE_SUPERSLAB", "small blocks always come from superslabs"},
    {"SS_EMPTY_REUSE", "empty slots are always used again"},
    {"SS_EMPTY_SCAN_LIMIT", "all superslabs with room are found, by bits, without a limit"},
};
/* clang-format on */

/* Names that mean something to others: to the hakmem command and its tools, or to the reader of
 * this very table. */
static const char *const options_of_others[] = {
    "CONF",           "CONF_FILE",  "LIBRARY",     "COMMAND",       "PYTHON",     "RECORD",
    "RECORD_PROCESS", "BENCH_HOME", "BENCH_BUILD", "BENCH_LIBRARY", "BENCH_PEERS"};

#define PREFIX "HAKMEM_"
#define OPTIONS_FILE_MOST ((size_t)4096)

/* Of the program, if it has one: see hakmem.h. */
extern const char *hakmem_conf __attribute__((weak, visibility("default")));

static int options_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

/* Not strncasecmp, nor strncmp or strcspn below: they and their tables bring 200 kB of libc's file
 * into each process that a command of ours has started, and that so finds a name to compare. */
static bool options_same_name(const char *s, size_t length, const char *name)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] == '\0' || options_lower(s[i]) != options_lower(name[i]))
            return false;
    return name[length] == '\0';
}

/* What follows the prefix; NULL if s does not begin with it. */
static const char *options_behind(const char *s, const char *prefix)
{
    for (; *prefix != '\0'; s++, prefix++)
        if (*s != *prefix)
            return NULL;
    return s;
}

/* The Levenshtein distance, for names of up to 40 characters (R. A. Wagner and M. J. Fischer,
 * 1974). */
static unsigned options_distance(const char *a, size_t a_length, const char *b)
{
    unsigned row[41];
    size_t b_length = hak_min(strlen(b), 40);
    for (unsigned j = 0; j <= b_length; j++)
        row[j] = j;
    for (unsigned i = 1; i <= a_length; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= b_length; j++) {
            unsigned change = diagonal + ((a[i - 1] & ~0x20) != (b[j - 1] & ~0x20));
            diagonal = row[j];
            unsigned step = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < step ? change : step;
        }
    }
    return row[b_length];
}

#define OPTIONS_SHOWN 120u /* bytes of a name or a value */

static void options_warn(const char *what, const char *s, size_t length, const char *advice,
                         const char *name)
{
    char line[256];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_text_string(&text, "hakmem: ");
    hak_text_string(&text, what);
    hak_text_printable(&text, s, hak_min(length, OPTIONS_SHOWN));
    hak_text_string(&text, advice);
    hak_text_string(&text, name);
    hak_text_string(&text, "\n");
    hak_os_write_stderr(line, (size_t)(text.at - line));
}

static void options_warn_unknown(const char *s, size_t length)
{
    const char *nearest = options[0].name;
    unsigned best = UINT32_MAX;
    for (size_t i = 0; i < OPTIONS; i++) {
        unsigned d = options_distance(s, length, options[i].name);
        if (d < best) {
            best = d;
            nearest = options[i].name;
        }
    }
    options_warn("unknown option " PREFIX, s, length, " is ignored; the nearest name is " PREFIX,
                 nearest);
}

static bool options_parse_flag(const char *s, size_t length, bool *value)
{
    static const char *const yes[] = {"1", "true", "on", "yes"};
    static const char *const no[] = {"0", "false", "off", "no"};
    for (int i = 0; i < 4; i++) {
        if (options_same_name(s, length, yes[i]) || options_same_name(s, length, no[i])) {
            *value = options_same_name(s, length, yes[i]);
            return true;
        }
    }
    return false;
}

/* A number of MiB. With a suffix it is bytes, as whoever writes 512m or 512MB means it: read as so
 * many MiB times 1024 it would be no limit at all. */
static bool options_parse_mib(const char *s, size_t length, uint64_t *mib)
{
    enum { MIB_SHIFT = 20 };
    uint64_t value;
    if (!hak_text_parse_size(s, length, &value))
        return false;
    bool is_bytes = s[length - 1] < '0' || s[length - 1] > '9';
    *mib = is_bytes ? value >> MIB_SHIFT : value;
    return !is_bytes || value % (UINT64_C(1) << MIB_SHIFT) == 0;
}

/* "SIZE:MIB,SIZE:MIB", with `set` for good. */
static bool options_parse_caps(const char *s, size_t length, bool set)
{
    const char *end = s + length;
    while (s < end) {
        size_t item = hak_min(strcspn(s, ",;"), (size_t)(end - s));
        size_t size_length = hak_min(strcspn(s, ":"), item);
        uint64_t size;
        uint64_t mib;
        if (size_length == item || !hak_text_parse_size(s, size_length, &size) ||
            !options_parse_mib(s + size_length + 1, item - size_length - 1, &mib) ||
            mib > UINT32_MAX || size == 0 || size > HAK_SLOT_BYTES ||
            (set && !hak_control_set_soft_cap(size, mib << 20)))
            return false;
        s += item + (s + item < end);
    }
    return true;
}

static bool options_is_replaced(const char *s, size_t length)
{
    for (size_t i = 0; i < sizeof replaced / sizeof replaced[0]; i++) {
        if (!options_same_name(s, length, replaced[i].name))
            continue;
        options_warn("option " PREFIX, s, length, " has no effect: ", replaced[i].instead);
        return true;
    }
    return false;
}

static void options_copy(char *to, const char *value, size_t length)
{
    memcpy(to, value, length);
    to[length] = '\0';
}

/* False: it is none of this kind, and nothing has changed. */
static bool options_parse(const struct option *o, const char *s, size_t length)
{
    void *to = (char *)&hak_options + o->at;
    uint64_t number;
    if (o->kind == OPTION_FLAG)
        return options_parse_flag(s, length, to);
    if (o->kind == OPTION_CAPS)
        return options_parse_caps(s, length, false) && options_parse_caps(s, length, true);
    if (o->kind == OPTION_TEXT) {
        if (length <= o->most)
            options_copy(to, s, length);
        return length <= o->most;
    }
    if (!(o->kind == OPTION_MIB ? options_parse_mib(s, length, &number)
                                : hak_text_parse_size(s, length, &number)) ||
        number > o->most)
        return false;
    *(uint64_t *)to = number;
    return true;
}

static void options_warn_bad(const struct option *o, const char *s, size_t length)
{
    char most[64];
    struct hak_text text;
    hak_text_begin(&text, most, sizeof most);
    hak_text_string(&text, "\" (a number is wanted, ");
    hak_text_decimal(&text, o->most);
    hak_text_string(&text, " at most) for " PREFIX);
    const char *wanted = most;
    if (o->kind == OPTION_FLAG)
        wanted = "\" (0 or 1 is wanted) for " PREFIX;
    else if (o->kind == OPTION_MIB)
        wanted = "\" (whole MiB are wanted: 512, or 512m; 1024, or 1g) for " PREFIX;
    else if (o->kind == OPTION_CAPS)
        wanted = "\" (SIZE:MIB,SIZE:MIB is wanted, sizes to 64k) for " PREFIX;
    if (o->kind == OPTION_TEXT)
        options_warn("too long a value for " PREFIX, o->name, strlen(o->name), "", "");
    else
        options_warn("bad value \"", s, length, wanted, o->name);
}

/* Options that somebody has set, to the default maybe: a bit for each. */
static uint64_t options_given HAK_RARELY_USED;
_Static_assert(OPTIONS <= 64, "a bit for each");

static bool options_is_given(const void *member)
{
    bool is_given = false;
    for (size_t i = 0; i < OPTIONS; i++)
        is_given |= (char *)&hak_options + options[i].at == member && (options_given >> i & 1);
    return is_given;
}

/* An empty value is as good as none: so scripts undo what others have set. */
static void options_set(const char *name, size_t name_length, const char *value,
                        size_t value_length)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option *o = &options[i];
        if (!options_same_name(name, name_length, o->name))
            continue;
        if (value_length == 0 && o->kind != OPTION_TEXT)
            return;
        if (options_parse(o, value, value_length))
            options_given |= UINT64_C(1) << i;
        else
            options_warn_bad(o, value, value_length);
        return;
    }
    if (!options_is_replaced(name, name_length))
        options_warn_unknown(name, name_length);
}

static bool options_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* "name:value", "name=value" or, of a file, "name value" */
static void options_parse_item(const char *s, size_t length, const char *where)
{
    while (length > 0 && options_is_space(s[length - 1]))
        length--;
    while (length > 0 && options_is_space(*s))
        s++, length--;
    if (length == 0 || *s == '#')
        return;
    if (length > sizeof PREFIX - 1 && options_same_name(s, sizeof PREFIX - 1, PREFIX)) {
        s += sizeof PREFIX - 1; /* whole, as in the environment */
        length -= sizeof PREFIX - 1;
    }
    size_t name_length = hak_min(strcspn(s, ":= \t"), length);
    size_t value = name_length;
    while (value < length && options_is_space(s[value]))
        value++;
    value += value < length && (s[value] == ':' || s[value] == '=');
    while (value < length && options_is_space(s[value]))
        value++;
    if (name_length < length)
        options_set(s, name_length, s + value, length - value);
    else
        options_warn("\"", s, length, "\" has no value; write name:value in ", where);
}

static void options_parse_list(const char *s, const char *separator, const char *where)
{
    while (*s != '\0') {
        size_t length = strcspn(s, separator);
        options_parse_item(s, length, where);
        s += length + (s[length] != '\0');
    }
}

static void options_parse_file(const char *path)
{
    char text[OPTIONS_FILE_MOST + 1];
    size_t got = 0;
    if (hak_os_read_file(path, text, sizeof text, &got) != 0) {
        options_warn(PREFIX "CONF_FILE ", path, strlen(path), " cannot be read", "");
    } else if (got > OPTIONS_FILE_MOST || memchr(text, '\0', got) != NULL) {
        options_warn(PREFIX "CONF_FILE ", path, strlen(path),
                     " is no list of options: it is longer than 4 KiB, or no text", "");
    } else {
        text[got] = '\0';
        options_parse_list(text, "\n", PREFIX "CONF_FILE");
    }
}

/* What the program itself has, which is the weakest. */
static bool options_parse_program(void)
{
    if (&hakmem_conf == NULL || hakmem_conf == NULL)
        return false;
    options_parse_list(hakmem_conf, ",", "hakmem_conf");
    return true;
}

static bool options_is_of_others(const char *s, size_t length)
{
    for (size_t i = 0; i < sizeof options_of_others / sizeof options_of_others[0]; i++)
        if (options_same_name(s, length, options_of_others[i]))
            return true;
    return false;
}

static uint64_t options_policy_prewarm(void)
{
    struct hak_policy_summary policy;
    hak_policy_summary(&policy);
    return policy.knobs.value[HAK_KNOB_PREWARM];
}

static void options_prewarm(void)
{
    uint64_t want = hak_options.prewarm_superslabs;
    for (int i = 0; i < 8; i++)
        want += hak_options.prewarm_of_class[i];
    if (want == 0)
        want = options_policy_prewarm();
    if (want == 0)
        return;
    size_t most = hak_os_address_space_limit() / 8 / HAK_SUPERSLAB_BYTES;
    if (want > most) {
        options_warn("prewarming is cut to an eighth of RLIMIT_AS", "", 0, "", "");
        want = most;
    }
    if (hak_options.prewarm_lazy)
        hak_pool_prewarm_at_growth(want);
    else if (hak_heap_self_slow() != NULL)
        hak_pool_prewarm(want);
}

static void options_trace(void)
{
    for (unsigned kind = 0; kind < HAK_TRACE_COUNT; kind++)
        hak_trace_kinds |= (uint32_t)hak_options.trace[kind] << kind;
    if (!HAK_CHECKS && hak_trace_kinds != 0)
        options_warn("only the debug build of the library prints single events", "", 0, "", "");
}

struct hak_pool_config hak_options_pool_config(void)
{
    return (struct hak_pool_config){
        .retired_max_count = hak_options.superslab_max_cached,
        .retired_max_bytes = hak_options.trim_threshold_bytes != 0
                                 ? hak_options.trim_threshold_bytes
                                 : hak_options.superslab_max_memory_mb << 20,
        .retired_max_age_ns = hak_options.superslab_ttl_sec * 1000000000u,
        .huge_pages_from_bytes = hak_options.huge_pages_from_mb << 20,
    };
}

/* A relative path, in a buffer of `size` bytes, as it is now: programs change their folder. It
 * stays as it is if it does not fit. */
static void options_make_absolute(char *path, size_t size, bool is_pattern)
{
    char folder[HAK_POLICY_TEXT];
    size_t length = strlen(path);
    if (*path == '/' || *path == '\0')
        return;
    size_t before = hak_os_folder(folder, sizeof folder);
    if (before == 0 || before + 1 + length >= size ||
        (is_pattern && memchr(folder, '%', before) != NULL))
        return;
    memmove(path + before + 1, path, length + 1);
    memcpy(path, folder, before);
    path[before] = '/';
}

/* What an option says beats a policy. */
static void options_policy(void)
{
    struct hak_policy_config config = {.watch_group = hak_options.cgroup};
    char *text = hak_options.policy;
    config.fixed[HAK_KNOB_AGE] = options_is_given(&hak_options.superslab_ttl_sec);
    config.fixed[HAK_KNOB_HUGE_PAGES] = options_is_given(&hak_options.huge_pages_from_mb);
    config.fixed[HAK_KNOB_KEEP] = options_is_given(&hak_options.superslab_max_memory_mb);
    config.fixed[HAK_KNOB_PREWARM] = options_is_given(&hak_options.prewarm_superslabs);
    const char *learn = options_behind(text, "learn:");
    const char *try = options_behind(text, "try:");
    if (learn != NULL) {
        config.mode = HAK_POLICY_LEARN;
        text += learn - text;
    } else if (try != NULL) {
        config.mode = HAK_POLICY_TRY;
        text += try - text;
    } else if (*text != '\0' && strcmp(text, "off") != 0) {
        config.mode = HAK_POLICY_FROZEN;
    }
    if (config.mode != HAK_POLICY_FIXED) {
        if (config.mode != HAK_POLICY_FROZEN) /* which is read here and now */
            options_make_absolute(text, (size_t)(hak_options.policy + HAK_POLICY_TEXT - text),
                                  false);
        config.file = text;
        hak_heap_self_slow(); /* the tables of classes are filled at the start */
    }
    int error = hak_policy_start(&config);
    if (error > 0)
        options_warn("policy ", text, strlen(text), " cannot be read: the defaults hold", "");
    else if (error < 0)
        options_warn("policy ", text, strlen(text), " is none of this version: the defaults hold",
                     "");
}

/* What a policy may have set since stays, unless it is what the program sets now. */
static void options_apply_to_pool(const void *changed)
{
    struct hak_pool_config config = hak_options_pool_config();
    if (changed == NULL)
        hak_pool_configure(&config);
    else if (changed == &hak_options.superslab_ttl_sec)
        hak_pool_set_age(config.retired_max_age_ns);
    else if (changed == &hak_options.huge_pages_from_mb)
        hak_pool_set_huge_pages_from(config.huge_pages_from_bytes);
    else
        hak_pool_set_kept(config.retired_max_count, config.retired_max_bytes);
}

void hak_options_apply_limits(const void *changed)
{
    options_apply_to_pool(changed);
    hak_store_relaxed(&hak_cache_knobs.homes, (uint32_t)hak_options.homes);
    uint64_t limit = hak_options.limit_mb << 20;
    if (HAK_HARDENED)
        hak_hard_configure(&(struct hak_hard_config){.check_makers = hak_options.check_mismatch,
                                                     .check_sizes = hak_options.check_sizes});
    hak_pool_set_limit(limit == 0 ? 0 : hak_max(limit / HAK_SUPERSLAB_BYTES, 1));
    hak_failure_open_files(hak_options.cgroup || hak_options.trace_failures);
    hak_failure_trace(hak_options.trace_failures);
}

/* As glibc, which says nothing of a value that is none. */
static void options_libc_perturb(const char *value)
{
    uint64_t number;
    if (hak_text_parse_size(value, strlen(value), &number) && number <= UINT8_MAX)
        hak_options.perturb = number;
}

static void options_perturb(void)
{
    if (hak_options.perturb != 0 && !hak_heap_set_perturb((uint8_t)hak_options.perturb))
        options_warn(PREFIX "PERTURB: ", "", 0,
                     HAK_HARDENED ? "the hardened library fills nothing" : "no memory", "");
}

static void options_apply(void)
{
    hak_options_apply_limits(NULL);
    options_perturb();
    options_trace();
    options_make_absolute(hak_options.prof_file, sizeof hak_options.prof_file, true);
    options_policy();
    options_prewarm();
}

/* The file, HAKMEM_CONF and what glibc reads; later ones are stronger. */
static bool options_read_lists(char **environment)
{
    bool any = false;
    const char *list = NULL;
    for (char **e = environment; *e != NULL; e++) {
        const char *file = options_behind(*e, PREFIX "CONF_FILE=");
        const char *conf = options_behind(*e, PREFIX "CONF=");
        const char *perturb = HAK_HARDENED ? NULL : options_behind(*e, "MALLOC_PERTURB_=");
        any = any || file != NULL || conf != NULL || perturb != NULL;
        if (file != NULL && *file != '\0')
            options_parse_file(file);
        else if (perturb != NULL)
            options_libc_perturb(perturb);
        list = conf != NULL ? conf : list;
    }
    if (list != NULL)
        options_parse_list(list, ",", PREFIX "CONF");
    return any;
}

static bool options_read_each(char **environment)
{
    bool any = false;
    for (char **e = environment; *e != NULL; e++) {
        const char *name = options_behind(*e, PREFIX);
        if (name == NULL)
            continue;
        any = true;
        size_t length = 0;
        while (name[length] != '=' && name[length] != '\0')
            length++;
        if (name[length] == '=' && !options_is_of_others(name, length))
            options_set(name, length, name + length + 1, strlen(name + length + 1));
    }
    return any;
}

void hak_options_read(char **environment)
{
    bool trusted = environment != NULL && getauxval(AT_SECURE) == 0;
    bool any = options_parse_program();
    any |= trusted && options_read_lists(environment);
    any |= trusted && options_read_each(environment);
    if (any)
        options_apply();
    else if (trusted) /* the other layers begin with the defaults, and stay untouched; the group is
                         watched */
        options_policy();
}
