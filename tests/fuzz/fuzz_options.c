/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: the options in the environment. The input's lines are HAKMEM_ variables, or what follows
 * HAKMEM_CONF= where a line begins with ':'. What the options would do to the process is caught
 * (the linker's --wrap); what they are, and what is said of them, is checked:
 *
 *   every message is one line, begins with "hakmem: " and has no control character;
 *   no value is beyond its bound; a number that was understood is what strtoull reads;
 *   reading the same environment once more changes nothing; the environment stays as it was. */
#include "fuzz.h"

#include "api/api_internal.h"

enum { VARIABLES_MAX = 16 };

static char said[1 << 16];
static size_t said_length;
static uint64_t prewarmed;

/* --- what the options reach --- */

void __wrap_hak_os_write_stderr(const char *text, size_t bytes);
void __wrap_hak_os_write_stderr(const char *text, size_t bytes)
{
    fuzz_check(said_length + bytes < sizeof said, "far too much is said");
    memcpy(said + said_length, text, bytes);
    said_length += bytes;
}

void __wrap_hak_pool_prewarm(size_t superslabs);
void __wrap_hak_pool_prewarm(size_t superslabs)
{
    prewarmed = superslabs;
}

void __wrap_hak_pool_prewarm_at_growth(size_t superslabs);
void __wrap_hak_pool_prewarm_at_growth(size_t superslabs)
{
    prewarmed = superslabs;
}

void __wrap_hak_pool_configure(const struct hak_pool_config *config);
void __wrap_hak_pool_configure(const struct hak_pool_config *config)
{
    fuzz_check(config->retired_max_count == hak_options.superslab_max_cached, "count");
    fuzz_check(config->retired_max_bytes == hak_options.superslab_max_memory_mb << 20, "bytes");
}

void __wrap_hak_pool_set_limit(size_t superslabs);
void __wrap_hak_pool_set_limit(size_t superslabs)
{
    fuzz_check((superslabs == 0) == (hak_options.limit_mb == 0), "limit");
}

void __wrap_hak_failure_trace(bool on);
void __wrap_hak_failure_trace(bool on)
{
    fuzz_check(on == hak_options.trace_failures, "trace");
}

int __wrap_hak_policy_start(const struct hak_policy_config *config);
int __wrap_hak_policy_start(const struct hak_policy_config *config)
{
    fuzz_check(config->watch_group == hak_options.cgroup, "group");
    fuzz_check(config->mode == HAK_POLICY_FIXED || *hak_options.policy != '\0', "mode");
    fuzz_check((config->mode == HAK_POLICY_FIXED) == (config->file == NULL), "file");
    if (config->file == NULL)
        return 0;
    return (int)strlen(config->file) % 3 - 1; /* good, unreadable, bad */
}

/* --- checks --- */

static void check_said(void)
{
    size_t begin = 0;
    for (size_t i = 0; i < said_length; i++) {
        unsigned char c = (unsigned char)said[i];
        if (c != '\n') {
            fuzz_check(c >= 0x20 && c != 0x7f, "control character %d in a message", c);
            continue;
        }
        fuzz_check(i - begin > 8 && memcmp(said + begin, "hakmem: ", 8) == 0,
                   "a line without the library's name: %.*s", (int)(i - begin), said + begin);
        begin = i + 1;
    }
    fuzz_check(begin == said_length, "a message without an end of line");
}

static void check_bounds(const struct hak_options *o)
{
    uint64_t numbers[] = {o->superslab_max_cached, o->superslab_max_memory_mb, o->superslab_ttl_sec,
                          o->huge_pages_from_mb, o->limit_mb};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fuzz_check(numbers[i] <= UINT32_MAX, "number %zu: %llu", i, (unsigned long long)numbers[i]);
    uint64_t all = o->prewarm_superslabs;
    for (int i = 0; i < 8; i++) {
        fuzz_check(o->prewarm_of_class[i] <= 65536, "prewarm of %d", i);
        all += o->prewarm_of_class[i];
    }
    fuzz_check(o->prewarm_superslabs <= 65536 && prewarmed <= all, "prewarm");
    for (int i = 0; i < HAK_TRACE_COUNT; i++)
        fuzz_check(((hak_trace_kinds >> i) & 1) >= (uint32_t)o->trace[i], "trace %d", i);
}

/* A plain number in the last HAKMEM_LIMIT_MB= arrives as it is, if it is one that is allowed. */
static void check_number(char **environment)
{
    static const char name[] = "HAKMEM_LIMIT_MB=";
    const char *digits = NULL;
    for (char **e = environment; *e != NULL; e++)
        if (strncasecmp(*e, name, sizeof name - 1) == 0 && strncmp(*e, name, 7) == 0)
            digits = *e + sizeof name - 1;
    if (digits == NULL || *digits == '\0' || strspn(digits, "0123456789") != strlen(digits))
        return;
    unsigned long long value = strlen(digits) > 19 ? UINT64_MAX : strtoull(digits, NULL, 10);
    if (value <= UINT32_MAX)
        fuzz_check(hak_options.limit_mb == value, "HAKMEM_LIMIT_MB=%s is %llu", digits,
                   (unsigned long long)hak_options.limit_mb);
}

/* --- an input --- */

static char *make_variable(const uint8_t *line, size_t length)
{
    const char *head = length > 0 && line[0] == ':' ? "HAKMEM_CONF=" : "HAKMEM_";
    size_t skip = length > 0 && line[0] == ':';
    char *rest = fuzz_string(line + skip, length - skip);
    size_t head_length = strlen(head);
    char *variable = malloc(head_length + strlen(rest) + 1);
    fuzz_check(variable != NULL, "the test has no memory");
    memcpy(variable, head, head_length);
    memcpy(variable + head_length, rest, strlen(rest) + 1);
    free(rest);
    return variable;
}

static size_t make_environment(char **environment, const uint8_t *data, size_t size)
{
    size_t count = 0;
    while (size > 0 && count < VARIABLES_MAX) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t length = end != NULL ? (size_t)(end - data) : size;
        environment[count++] = make_variable(data, length);
        data += length + (end != NULL);
        size -= length + (end != NULL);
    }
    environment[count] = NULL;
    return count;
}

static void read_environment(char **environment)
{
    said_length = 0;
    hak_trace_kinds = 0;
    prewarmed = 0;
    hak_options_read(environment);
    check_said();
    check_bounds(&hak_options);
    check_number(environment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hak_options defaults;
    static bool have_defaults;
    char *environment[VARIABLES_MAX + 1];
    char *copies[VARIABLES_MAX];
    if (!have_defaults)
        defaults = hak_options;
    have_defaults = true;
    hak_options = defaults;
    size_t count = make_environment(environment, data, size);
    for (size_t i = 0; i < count; i++)
        copies[i] = strdup(environment[i]);
    read_environment(environment);
    struct hak_options once = hak_options;
    size_t said_once = said_length;
    hak_options = defaults;
    read_environment(environment);
    fuzz_check(memcmp(&once, &hak_options, sizeof once) == 0 && said_length == said_once,
               "reading once more gives something else");
    for (size_t i = 0; i < count; i++) {
        fuzz_check(strcmp(copies[i], environment[i]) == 0, "the environment was changed");
        free(copies[i]);
        free(environment[i]);
    }
    return 0;
}
