/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: lines for events. See trace.h. */
#include "os/trace.h"

uint32_t hak_trace_kinds;

void hak_trace_line(enum hak_trace_kind kind, const char *name, const char *word,
                    const struct hak_trace_value *values)
{
    static const char *const prefixes[HAK_TRACE_COUNT] = {
        "[SS_ACQUIRE] ", "[SS_FREE] ",   "[SS_LRU] ", "[SUPER_REG] ",
        "[SS_MAP] ",     "[SLL_DRAIN] ", "[POLICY] "};
    char line[768];
    struct hak_text text;
    hak_text_begin(&text, line, sizeof line);
    hak_text_string(&text, prefixes[kind]);
    hak_text_string(&text, name);
    hak_text_string(&text, "=");
    hak_text_string(&text, word);
    for (; values->name != NULL; values++) {
        hak_text_string(&text, " ");
        hak_text_string(&text, values->name);
        hak_text_string(&text, "=");
        hak_text_decimal(&text, values->value);
    }
    hak_text_string(&text, "\n");
    hak_os_write_stderr(line, (size_t)(text.at - line));
}
