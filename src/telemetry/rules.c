/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: rules for call sites: the lines of a policy that say them, what they mean to the table
 * of sites, and those that this run's samples make. See sites.h. */
#include "base/text.h"
#include "telemetry/sites_internal.h"

#include <string.h>

static const char *const group_names[HAK_GROUPS] = {"short", "medium", "long"};
static const char site_word[] = "site";
static const char token_word[] = "token";

static struct {
    struct hak_site_rule rule[HAK_SITE_RULES];
    _Atomic(uint32_t) added, in_force;
} rules HAK_RARELY_USED;

/* --- lines --- */

struct words {
    const char *at, *end;
};

/* The next word of a line; its length, 0 at the end. */
static size_t words_next(struct words *w, const char **word)
{
    while (w->at < w->end && (*w->at == ' ' || *w->at == '\t'))
        w->at++;
    *word = w->at;
    while (w->at < w->end && *w->at != ' ' && *w->at != '\t' && *w->at != '\n' && *w->at != '\r' &&
           *w->at != '#')
        w->at++;
    return (size_t)(w->at - *word);
}

static int words_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool words_hex(const char *word, size_t length, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < length; i++) {
        int digit = words_hex_digit(word[i]);
        if (digit < 0)
            return false;
        *value = *value << 4 | (uint64_t)digit;
    }
    return length >= 1 && length <= 16;
}

/* Whole bytes, one to `most` of them. */
static bool words_bytes(const char *word, size_t length, uint8_t *out, uint8_t most, uint8_t *count)
{
    if (length == 0 || length % 2 != 0 || length / 2 > most)
        return false;
    for (size_t i = 0; i < length; i += 2) {
        int high = words_hex_digit(word[i]);
        int low = words_hex_digit(word[i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i / 2] = (uint8_t)(high << 4 | low);
    }
    *count = (uint8_t)(length / 2);
    return true;
}

static bool rule_parse_place(const char *word, size_t length, struct hak_site_rule *out)
{
    const char *plus = hak_text_find_char(word, '+', length);
    if (plus == NULL)
        return false;
    size_t before = (size_t)(plus - word);
    if (!hak_text_is(word, before, token_word) &&
        !words_bytes(word, before, out->build_id, HAK_BUILD_ID_MOST, &out->build_id_bytes))
        return false;
    return words_hex(plus + 1, length - before - 1, &out->offset);
}

static bool rule_parse_number(const char *word, size_t length, uint32_t *out)
{
    uint64_t value;
    if (!hak_text_parse_size(word, length, &value) || value > UINT32_MAX)
        return false;
    *out = (uint32_t)value;
    return true;
}

/* "64", or "48-96". */
static bool rule_parse_sizes(const char *word, size_t length, struct hak_site_rule *out)
{
    const char *dash = hak_text_find_char(word, '-', length);
    size_t before = dash == NULL ? length : (size_t)(dash - word);
    if (!rule_parse_number(word, before, &out->least_bytes))
        return false;
    out->most_bytes = out->least_bytes;
    if (dash != NULL && !rule_parse_number(dash + 1, length - before - 1, &out->most_bytes))
        return false;
    return out->least_bytes <= out->most_bytes;
}

static bool rule_parse_group(const char *word, size_t length, struct hak_site_rule *out)
{
    for (unsigned group = 0; group < HAK_GROUPS; group++) {
        out->group = (uint8_t)group;
        if (hak_text_is(word, length, group_names[group]))
            return true;
    }
    return false;
}

bool hak_site_rule_parse(const char *line, size_t length, struct hak_site_rule *out)
{
    struct words w = {line, line + length};
    const char *word;
    *out = (struct hak_site_rule){.build_id_bytes = 0};
    size_t n = words_next(&w, &word);
    if (!hak_text_is(word, n, site_word))
        return false;
    n = words_next(&w, &word);
    if (!rule_parse_place(word, n, out))
        return false;
    n = words_next(&w, &word);
    if (!rule_parse_sizes(word, n, out))
        return false;
    n = words_next(&w, &word);
    if (!rule_parse_group(word, n, out))
        return false;
    n = words_next(&w, &word);
    if (!rule_parse_number(word, n, &out->evidence))
        return false;
    words_next(&w, &word);
    return word == w.end || *word == '#' || *word == '\n' || *word == '\r';
}

static void text_hex_bytes(struct hak_text *text, const uint8_t *bytes, unsigned count)
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < count; i++) {
        char pair[3] = {digits[bytes[i] >> 4], digits[bytes[i] & 15], '\0'};
        hak_text_string(text, pair);
    }
}

void hak_site_rule_format(const struct hak_site_rule *rule, struct hak_text *text)
{
    uint8_t offset[8];
    for (unsigned i = 0; i < 8; i++)
        offset[i] = (uint8_t)(rule->offset >> (56 - 8 * i));
    unsigned zeros = 0;
    while (zeros < 7 && offset[zeros] == 0)
        zeros++;
    hak_text_string(text, site_word);
    hak_text_string(text, " ");
    if (rule->build_id_bytes == 0)
        hak_text_string(text, token_word);
    else
        text_hex_bytes(text, rule->build_id, rule->build_id_bytes);
    hak_text_string(text, "+");
    text_hex_bytes(text, offset + zeros, 8 - zeros);
    hak_text_string(text, " ");
    hak_text_decimal(text, rule->least_bytes);
    if (rule->most_bytes != rule->least_bytes) {
        hak_text_string(text, "-");
        hak_text_decimal(text, rule->most_bytes);
    }
    hak_text_string(text, " ");
    hak_text_string(text, group_names[rule->group]);
    hak_text_string(text, " ");
    hak_text_decimal(text, rule->evidence);
}

/* --- rules in force --- */

bool hak_sites_add_rule(const struct hak_site_rule *rule)
{
    uint32_t at = hak_load_relaxed(&rules.added);
    if (at == HAK_SITE_RULES)
        return false;
    rules.rule[at] = *rule;
    hak_store_relaxed(&rules.added, at + 1);
    return true;
}

typedef bool rule_find_module(uintptr_t address, struct hak_os_module *out);

/* Where an address is, as a rule says it. False: its file has no build id. */
static bool rule_locate(uintptr_t address, rule_find_module *find, struct hak_site_rule *out)
{
    struct hak_os_module module;
    *out = (struct hak_site_rule){.offset = address & ~HAK_SITE_TOKEN};
    if (address & HAK_SITE_TOKEN)
        return true;
    if (!find(address, &module) || module.build_id_bytes == 0)
        return false;
    out->offset = address - module.base;
    out->build_id_bytes = module.build_id_bytes;
    memcpy(out->build_id, module.build_id, module.build_id_bytes);
    return true;
}

static bool rule_is_of(const struct hak_site_rule *rule, const struct hak_site_rule *place)
{
    return rule->offset == place->offset && rule->build_id_bytes == place->build_id_bytes &&
           hak_bytes_are_equal(rule->build_id, place->build_id, rule->build_id_bytes);
}

unsigned hak_site_rule_group(uintptr_t address)
{
    struct hak_site_rule place;
    /* ORDER: [site-rules] the rules themselves */
    uint32_t count = hak_load_acquire(&rules.in_force);
    if (count == 0 || !rule_locate(address, hak_os_find_running_module, &place))
        return HAK_GROUP_SHORT;
    for (uint32_t i = 0; i < count; i++)
        if (rule_is_of(&rules.rule[i], &place))
            return rules.rule[i].group;
    return HAK_GROUP_SHORT;
}

static void classes_add(struct hak_class_set *set, unsigned kind)
{
    set->bits[kind / 2 / 64] |= UINT64_C(1) << kind / 2 % 64;
}

/* All classes that a size of the rule may be placed in, at any time. */
static void rule_add_classes(const struct hak_site_rule *rule, struct hak_class_set *set)
{
    for (size_t bytes = rule->least_bytes; bytes <= rule->most_bytes && bytes <= HAK_SMALL_MAX;
         bytes = hak_round_up(bytes, HAK_ALIGNMENT) + 1) {
        unsigned cls = hak_class_of(bytes);
        classes_add(set, cls * 2);
        if (bytes <= HAK_TINY_MAX) {
            classes_add(set, hak_tables.coarse_kind[(bytes + 15) / 16]);
            classes_add(set, hak_tables.narrow_kind[(bytes + 15) / 16]);
        } else if (cls != 0 && hak_class(cls - 1)->fine &&
                   hak_class(cls - 1)->size_bytes >= bytes) {
            classes_add(set, (cls - 1) * 2);
        }
    }
}

void hak_sites_apply(void)
{
    struct hak_class_set watched = {{0}};
    uint32_t count = hak_load_relaxed(&rules.added);
    hak_store_release(&rules.in_force, count); /* ORDER: [site-rules] */
    for (uint32_t i = 0; i < count; i++)
        if (rules.rule[i].group != HAK_GROUP_SHORT)
            rule_add_classes(&rules.rule[i], &watched);
    for (unsigned i = 0; i < HAK_SITES; i++) {
        uintptr_t address = hak_load_relaxed(&hak_sites[i].address);
        if (address != 0)
            hak_store_relaxed(&hak_sites[i].group, (uint8_t)hak_site_rule_group(address));
    }
    hak_cache_watch(HAK_WATCHER_SITES, watched);
}

/* --- what was learned --- */

#define LONG_LOG16 32u   /* lives four times as long as blocks do on average */
#define MEDIUM_LOG16 16u /* twice */
#define LEAST_SAMPLES 4u
#define LEAST_WEIGHT 8u   /* those that were not taken while enough others lived say as much */
#define LIFE_UNIT_KIB 64u /* shorter lives are all the same */

unsigned hak_site_group_for(unsigned life_log16, unsigned usual_log16)
{
    if (life_log16 >= usual_log16 + LONG_LOG16)
        return HAK_GROUP_LONG;
    return life_log16 >= usual_log16 + MEDIUM_LOG16 ? HAK_GROUP_MEDIUM : HAK_GROUP_SHORT;
}

/* The logarithm of 1 + a mean life, in sixteenths of a doubling. */
static unsigned life_log16(uint64_t kib, uint64_t samples)
{
    uint64_t x = 1 + kib / (LIFE_UNIT_KIB * hak_max(samples, 1));
    unsigned whole = hak_log2_floor(x);
    return whole * 16 + (unsigned)(x << (63 - whole) >> 59 & 15);
}

static unsigned site_log16(const struct hak_site *s)
{
    uint64_t kib = hak_load_relaxed(&s->life_kib) + hak_site_live_life_kib(s);
    return life_log16(kib, hak_load_relaxed(&s->samples));
}

static unsigned site_weight(const struct hak_site *s)
{
    return hak_load_relaxed(&s->samples) + hak_load_relaxed(&s->skipped);
}

/* The mean over all that was allocated and did not die at once: what lives in a thread's bin only
 * does no harm to anybody. */
static unsigned usual_log16(void)
{
    uint64_t sum = 0;
    uint64_t weight = 0;
    for (unsigned i = 0; i < HAK_SITES; i++) {
        if (hak_load_relaxed(&hak_sites[i].samples) == 0 || site_log16(&hak_sites[i]) == 0)
            continue;
        sum += (uint64_t)site_log16(&hak_sites[i]) * site_weight(&hak_sites[i]);
        weight += site_weight(&hak_sites[i]);
    }
    return weight == 0 ? 0 : (unsigned)(sum / weight);
}

/* What this run says of a site. False: too little. */
static bool rule_learn(const struct hak_site *s, unsigned usual, struct hak_site_rule *out)
{
    uintptr_t address = hak_load_relaxed(&s->address);
    if (address == 0 || hak_load_relaxed(&s->samples) < LEAST_SAMPLES ||
        site_weight(s) < LEAST_WEIGHT || !rule_locate(address, hak_os_find_module, out))
        return false;
    out->group = (uint8_t)hak_site_group_for(site_log16(s), usual);
    out->evidence = site_weight(s) - hak_load_relaxed(&s->told);
    out->least_bytes = hak_load_relaxed(&s->least_bytes);
    out->most_bytes = hak_load_relaxed(&s->most_bytes);
    return true;
}

/* Into a list that has the most evident first and room for `most`. Returns the new length. */
static unsigned rules_insert(struct hak_site_rule *list, unsigned length, unsigned most,
                             const struct hak_site_rule *rule)
{
    unsigned at = length;
    while (at > 0 && list[at - 1].evidence < rule->evidence)
        at--;
    if (at == most)
        return length;
    unsigned kept = length == most ? length - 1 : length;
    memmove(list + at + 1, list + at, (kept - at) * sizeof *list);
    list[at] = *rule;
    return kept + 1;
}

/* Takes the rule of a place out; the former one is added to `rule`. Returns the new length. */
static unsigned rules_take_out(struct hak_site_rule *list, unsigned length,
                               struct hak_site_rule *rule)
{
    for (unsigned i = 0; i < length; i++) {
        if (!rule_is_of(&list[i], rule))
            continue;
        rule->evidence = (uint32_t)hak_min((size_t)rule->evidence + list[i].evidence, UINT32_MAX);
        rule->least_bytes = (uint32_t)hak_min(rule->least_bytes, list[i].least_bytes);
        rule->most_bytes = (uint32_t)hak_max(rule->most_bytes, list[i].most_bytes);
        memmove(list + i, list + i + 1, (length - i - 1) * sizeof *list);
        return length - 1;
    }
    return length;
}

unsigned hak_sites_merge(struct hak_site_rule *list, unsigned length, unsigned most)
{
    unsigned usual = usual_log16();
    struct hak_site_rule rule;
    for (unsigned i = 0; i < HAK_SITES; i++) {
        if (!rule_learn(&hak_sites[i], usual, &rule))
            continue;
        length = rules_take_out(list, length, &rule);
        if (rule.group != HAK_GROUP_SHORT)
            length = rules_insert(list, length, most, &rule);
    }
    return length;
}

/* A sample that was taken since the merge counts as told: one of some dozens. */
void hak_sites_told(void)
{
    for (unsigned i = 0; i < HAK_SITES; i++)
        if (hak_load_relaxed(&hak_sites[i].address) != 0)
            hak_store_relaxed(&hak_sites[i].told, site_weight(&hak_sites[i]));
}

unsigned hak_sites_learned(struct hak_site_rule *out, unsigned most)
{
    return hak_sites_merge(out, 0, most);
}
