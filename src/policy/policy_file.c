/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * policy: the policy file, as text in memory. Pure: nobody opens a file here. See docs/learning.md
 * for the form and policy.h.
 *
 *     hakmem-policy 1
 *     runs 30 912        that were watched, and ticks
 *     base 8 20123000 16123000 512000
 *                        runs with the defaults; sums of us, processor us, resident KiB
 *     arm keep all 5 2750000 152000000 4500000 5010000 112
 *     bin 64 912 932976  weight, and sum of blocks times weight
 *     site 2f51..713a+1a6e 64 long 40
 *                        a rule for a call site: see telemetry/sites.h, which keeps them
 *
 * An arm: plays; sums of reward, its squares, time, memory; hints. */
#include "base/text.h"
#include "policy/policy.h"

#include <string.h>

#define FILE_FIRST_LINE "hakmem-policy 1"

/* --- writing --- */

static void file_numbers(struct hak_text *text, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hak_text_string(text, " ");
        hak_text_decimal(text, numbers[i]);
    }
    hak_text_string(text, "\n");
}

size_t hak_policy_print(const struct hak_evidence *e, char *buffer, size_t size)
{
    struct hak_text text;
    hak_text_begin(&text, buffer, size);
    hak_text_string(&text, FILE_FIRST_LINE "\nruns");
    file_numbers(&text, (uint64_t[]){e->runs, e->ticks}, 2);
    hak_text_string(&text, "base");
    file_numbers(&text, (uint64_t[]){e->base_plays, e->base_us, e->base_cpu_us, e->base_kib}, 4);
    for (unsigned k = 0; k < HAK_KNOBS; k++) {
        for (unsigned a = 1; a < HAK_ARMS; a++) {
            const struct hak_arm_evidence *arm = &e->arm[k][a];
            if (arm->plays == 0 && arm->hints == 0)
                continue;
            hak_text_string(&text, "arm ");
            hak_text_string(&text, hak_knob_info[k].name);
            hak_text_string(&text, " ");
            hak_text_string(&text, hak_knob_info[k].arm[a].name);
            file_numbers(&text,
                         (uint64_t[]){arm->plays, arm->reward, arm->squares, arm->time, arm->memory,
                                      arm->hints},
                         6);
        }
    }
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        if (e->bin[cls].weight == 0)
            continue;
        hak_text_string(&text, "bin ");
        hak_text_decimal(&text, hak_class(cls)->size_bytes);
        file_numbers(&text, (uint64_t[]){e->bin[cls].weight, e->bin[cls].sum}, 2);
    }
    return text.length;
}

/* --- reading --- */

struct words {
    const char *at, *end; /* of one line */
};

/* The next word of a line; words are parted by one space or more. */
static size_t file_word(struct words *w, const char **word)
{
    while (w->at < w->end && *w->at == ' ')
        w->at++;
    *word = w->at;
    while (w->at < w->end && *w->at != ' ')
        w->at++;
    return (size_t)(w->at - *word);
}

static bool file_number(struct words *w, uint64_t *value)
{
    const char *word;
    size_t length = file_word(w, &word);
    uint64_t v = 0;
    if (length == 0 || length > 19)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (word[i] < '0' || word[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(word[i] - '0');
    }
    *value = v;
    return v <= HAK_SUM_MOST;
}

static bool file_numbers_of(struct words *w, uint64_t *const *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!file_number(w, values[i]))
            return false;
    return true;
}

static bool file_end(struct words *w)
{
    const char *word;
    return file_word(w, &word) == 0;
}

static bool file_arm(struct words *w, struct hak_evidence *e)
{
    const char *knob;
    const char *arm;
    size_t knob_length = file_word(w, &knob);
    size_t arm_length = file_word(w, &arm);
    for (unsigned k = 0; k < HAK_KNOBS; k++) {
        for (unsigned a = 1; a < HAK_ARMS; a++) {
            struct hak_arm_evidence *to = &e->arm[k][a];
            uint64_t *const numbers[] = {&to->plays, &to->reward, &to->squares,
                                         &to->time,  &to->memory, &to->hints};
            const char *name = hak_knob_info[k].arm[a].name;
            if (name == NULL || !hak_text_is(knob, knob_length, hak_knob_info[k].name) ||
                !hak_text_is(arm, arm_length, name))
                continue;
            bool first = to->plays == 0 && to->hints == 0;
            return first && file_numbers_of(w, numbers, 6) && file_end(w) &&
                   to->reward / HAK_PPM <= to->plays && to->plays + to->hints != 0;
        }
    }
    return false;
}

/* Of a size that is no class's it is evidence of a library with other classes: left out. */
static bool file_bin(struct words *w, struct hak_evidence *e)
{
    uint64_t size, left_out[2];
    if (!file_number(w, &size))
        return false;
    for (unsigned cls = 0; cls < HAK_CLASSES; cls++) {
        struct hak_mean_evidence *to = &e->bin[cls];
        if (hak_class(cls)->size_bytes == size)
            return to->weight == 0 && file_number(w, &to->weight) && file_number(w, &to->sum) &&
                   to->weight != 0 && file_end(w);
    }
    return file_numbers_of(w, (uint64_t *[]){&left_out[0], &left_out[1]}, 2) && file_end(w);
}

static bool file_line(struct words *w, struct hak_evidence *e)
{
    const char *word;
    size_t length = file_word(w, &word);
    if (length == 0 || *word == '#')
        return true;
    if (hak_text_is(word, length, "runs"))
        return file_numbers_of(w, (uint64_t *[]){&e->runs, &e->ticks}, 2) && file_end(w);
    if (hak_text_is(word, length, "base"))
        return file_numbers_of(
                   w, (uint64_t *[]){&e->base_plays, &e->base_us, &e->base_cpu_us, &e->base_kib},
                   4) &&
               file_end(w);
    if (hak_text_is(word, length, "arm"))
        return file_arm(w, e);
    if (hak_text_is(word, length, "bin"))
        return file_bin(w, e);
    struct hak_site_rule rule;
    return hak_site_rule_parse(word, (size_t)(w->end - word), &rule);
}

unsigned hak_policy_parse_sites(const char *text, size_t length, struct hak_site_rule *out,
                                unsigned most)
{
    unsigned count = 0;
    const char *end = text + length;
    while (text < end && count < most) {
        const char *newline = hak_text_find_char(text, '\n', (size_t)(end - text));
        const char *line_end = newline != NULL ? newline : end;
        count += hak_site_rule_parse(text, (size_t)(line_end - text), &out[count]);
        text = line_end + 1;
    }
    return count;
}

size_t hak_policy_print_sites(const struct hak_site_rule *rules, unsigned count, char *buffer,
                              size_t size)
{
    struct hak_text text;
    hak_text_begin(&text, buffer, size);
    for (unsigned i = 0; i < count; i++) {
        hak_site_rule_format(&rules[i], &text);
        hak_text_string(&text, "\n");
    }
    return text.length;
}

unsigned hak_policy_parse(const char *text, size_t length, struct hak_evidence *e)
{
    struct hak_evidence read = {0};
    unsigned line = 0;
    const char *end = text + length;
    while (text < end) {
        const char *newline = hak_text_find_char(text, '\n', (size_t)(end - text));
        struct words w = {text, newline != NULL ? newline : end};
        line++;
        if (line == 1 ? !hak_text_is(text, (size_t)(w.end - text), FILE_FIRST_LINE)
                      : !file_line(&w, &read))
            return line;
        if (newline == NULL)
            return line; /* cut off: a whole file ends in a newline */
        text = newline + 1;
    }
    if (line == 0)
        return 1;
    *e = read;
    return 0;
}
