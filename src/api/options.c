/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * api: options. One table; HAKMEM_<NAME>=value beats HAKMEM_CONF="name:value,name:value", and both
 * are ignored in programs with raised privileges, as secure_getenv does. What is not understood is
 * said once on stderr, with the nearest name. */
#include "api/api_internal.h"

#include <string.h>
#include <strings.h>
#include <sys/auxv.h>

struct hak_options hak_options = {
    .superslab_max_cached = 1024,
    .superslab_ttl_sec = 1,
};

enum option_kind { OPTION_FLAG, OPTION_NUMBER };

struct option {
    const char *name; /* as in the environment, without the prefix */
    enum option_kind kind;
    void *value;
    uint64_t most;
};

/* docs/options.md is made of this table by tools/options_md.py: name, default, comment. */
/* clang-format off */
static const struct option options[] = {
    {"STATS", OPTION_FLAG, &hak_options.stats, 1}, /* print a summary on stderr when the process ends */
    {"SHARED_POOL_STAGE_STATS", OPTION_FLAG, &hak_options.stage_stats, 1}, /* print how often each stage of the shared pool served a slot, when the process ends */
    {"SUPERSLAB_MAX_CACHED", OPTION_NUMBER, &hak_options.superslab_max_cached, UINT32_MAX}, /* superslabs (2 MiB) kept when none of their slots is in use, at most */
    {"SUPERSLAB_MAX_MEMORY_MB", OPTION_NUMBER, &hak_options.superslab_max_memory_mb, UINT32_MAX}, /* the same limit in MiB; 0 decides by what is in use: an eighth of it, at least 8 MiB */
    {"SUPERSLAB_TTL_SEC", OPTION_NUMBER, &hak_options.superslab_ttl_sec, UINT32_MAX}, /* seconds after which a kept superslab goes back to the system, at the next release */
};
/* clang-format on */
#define OPTIONS (sizeof options / sizeof options[0])

/* Names that mean something to others: to the hakmem command, or to the reader of this very table.
 */
static const char *const options_of_others[] = {"CONF", "LIBRARY"};

#define PREFIX "HAKMEM_"
#define PREFIX_LENGTH (sizeof PREFIX - 1)

static bool options_same_name(const char *s, size_t length, const char *name)
{
    return strlen(name) == length && strncasecmp(s, name, length) == 0;
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

static void options_add_n(struct hak_text *text, const char *s, size_t length)
{
    char piece[48];
    size_t n = hak_min(length, sizeof piece - 1);
    memcpy(piece, s, n);
    piece[n] = '\0';
    hak_text_string(text, piece);
}

static void options_warn(const char *what, const char *s, size_t length, const char *advice,
                         const char *name)
{
    char line[256];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_text_string(&text, "hakmem: ");
    hak_text_string(&text, what);
    options_add_n(&text, s, length);
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

static void options_set(const char *name, size_t name_length, const char *value,
                        size_t value_length)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option *o = &options[i];
        if (!options_same_name(name, name_length, o->name))
            continue;
        uint64_t number;
        if (o->kind == OPTION_FLAG) {
            if (!options_parse_flag(value, value_length, o->value))
                options_warn("bad value \"", value, value_length,
                             "\" (0 or 1 is wanted) for " PREFIX, o->name);
        } else if (hak_text_parse_size(value, value_length, &number) && number <= o->most) {
            *(uint64_t *)o->value = number;
        } else {
            options_warn("bad value \"", value, value_length,
                         "\" (a number below 2^32 is wanted) for " PREFIX, o->name);
        }
        return;
    }
    options_warn_unknown(name, name_length);
}

static void options_parse_list(const char *s)
{
    while (*s != '\0') {
        size_t length = strcspn(s, ",");
        size_t name_length = hak_min(strcspn(s, ":="), length);
        if (name_length < length)
            options_set(s, name_length, s + name_length + 1, length - name_length - 1);
        else if (length > 0)
            options_warn("\"", s, length, "\" in HAKMEM_CONF has no value; write name:value", "");
        s += length + (s[length] == ',');
    }
}

static bool options_is_of_others(const char *s, size_t length)
{
    for (size_t i = 0; i < sizeof options_of_others / sizeof options_of_others[0]; i++)
        if (options_same_name(s, length, options_of_others[i]))
            return true;
    return false;
}

static void options_apply(void)
{
    struct hak_pool_config config = {
        .retired_max_count = hak_options.superslab_max_cached,
        .retired_max_bytes = hak_options.superslab_max_memory_mb << 20,
        .retired_max_age_ns = hak_options.superslab_ttl_sec * 1000000000u,
    };
    hak_pool_configure(&config);
}

void hak_options_read(char **environment)
{
    if (environment == NULL || getauxval(AT_SECURE) != 0)
        return;
    for (char **e = environment; *e != NULL; e++)
        if (strncmp(*e, PREFIX "CONF=", PREFIX_LENGTH + 5) == 0)
            options_parse_list(*e + PREFIX_LENGTH + 5);
    for (char **e = environment; *e != NULL; e++) {
        if (strncmp(*e, PREFIX, PREFIX_LENGTH) != 0)
            continue;
        const char *name = *e + PREFIX_LENGTH;
        size_t length = strcspn(name, "=");
        if (name[length] == '=' && !options_is_of_others(name, length))
            options_set(name, length, name + length + 1, strlen(name + length + 1));
    }
    options_apply();
}
