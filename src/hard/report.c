/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * hard: one line on stderr, then SIGABRT. The lines are promised in docs/hardened.md. */
#include "hard/hard_internal.h"

static void report_number(struct hak_text *text, const char *before, uint64_t number,
                          const char *after)
{
    hak_text_string(text, before);
    hak_text_decimal(text, number);
    hak_text_string(text, after);
}

static void report_begin(struct hak_text *text, char *line, size_t line_bytes, const char *what,
                         const void *p)
{
    hak_text_begin(text, line, line_bytes);
    hak_text_string(text, what);
    hak_text_hex(text, (uintptr_t)p);
    hak_text_string(text, " (");
}

static _Noreturn void report_end(struct hak_text *text, const char *line, unsigned cls)
{
    if (cls == HARD_LARGE) {
        hak_text_string(text, "large block)");
    } else if (cls == HARD_NOTHING) {
        hak_text_string(text, "block of 0 bytes)");
    } else {
        report_number(text, "size class ", cls, ", ");
        report_number(text, "", hak_class(cls)->size_bytes, " bytes)");
    }
    hak_os_die(line);
}

static _Noreturn void report_outside(const char *what, const char *where, const void *p,
                                     unsigned cls, size_t bytes)
{
    char line[200];
    struct hak_text text;
    report_begin(&text, line, sizeof line, what, p);
    report_number(&text, where, bytes, " bytes that were asked for; ");
    report_end(&text, line, cls);
}

HAK_COLD _Noreturn void hak_hard_overflow(const void *p, unsigned cls, size_t bytes)
{
    report_outside("overflow of ", "written behind the ", p, cls, bytes);
}

HAK_COLD void hak_hard_overflow_slow(const void *p, unsigned cls, size_t bytes)
{
    hak_hard_overflow(p, cls, bytes);
}

HAK_COLD _Noreturn void hak_hard_underflow(const void *p, size_t bytes)
{
    report_outside("underflow of ", "written before the ", p, HARD_LARGE, bytes);
}

static size_t report_first_written(const char *p, size_t bytes)
{
    size_t at = 0;
    while (at + 1 < bytes && p[at] == 0)
        at++;
    return at;
}

HAK_COLD _Noreturn void hak_hard_written(const char *p, unsigned cls, uint32_t word)
{
    size_t block_bytes = hak_class(cls)->size_bytes, bytes = word & HARD_SIZE_MASK;
    if ((word & HARD_FREED) && report_first_written(p, block_bytes) >= bytes)
        hak_hard_overflow(p, cls, bytes);
    hak_hard_written_after_free(p, cls, block_bytes);
}

HAK_COLD _Noreturn void hak_hard_written_after_free(const char *p, unsigned cls, size_t bytes)
{
    char line[200];
    struct hak_text text;
    size_t at = report_first_written(p, bytes);
    report_begin(&text, line, sizeof line, "write after free of ", p);
    report_number(&text, "at offset ", at, "; ");
    report_end(&text, line, cls);
}

HAK_COLD _Noreturn void hak_hard_double_free(const void *p, unsigned cls)
{
    char line[200];
    struct hak_text text;
    report_begin(&text, line, sizeof line, "double free of ", p);
    report_end(&text, line, cls);
}

HAK_COLD _Noreturn void hak_hard_mismatch(const void *p, unsigned cls, uint32_t word, size_t bytes,
                                          const struct hard_claim *claim)
{
    static const char *const makers[HAK_MAKERS] = {"malloc", "new", "new[]", "aligned new",
                                                   "aligned new[]"};
    static const char *const breakers[HAK_MAKERS] = {"free", "delete", "delete[]", "aligned delete",
                                                     "aligned delete[]"};
    char line[200];
    struct hak_text text;
    uint32_t wrong = (word ^ claim->word) & claim->mask;
    report_begin(&text, line, sizeof line, "mismatched free of ", p);
    if (wrong & HARD_MAKER_MASK) {
        hak_text_string(&text, "from ");
        hak_text_string(&text, makers[(word & HARD_MAKER_MASK) >> HARD_MAKER_SHIFT]);
        hak_text_string(&text, ", freed by ");
        hak_text_string(&text, breakers[(claim->word & HARD_MAKER_MASK) >> HARD_MAKER_SHIFT]);
        hak_text_string(&text, "; ");
    } else if (wrong & HARD_ALIGN_MASK) {
        uint64_t one = 1;
        report_number(&text, "freed with alignment ",
                      one << ((claim->word & HARD_ALIGN_MASK) >> HARD_ALIGN_SHIFT), ", ");
        report_number(&text, "", one << ((word & HARD_ALIGN_MASK) >> HARD_ALIGN_SHIFT),
                      " was asked for; ");
    } else {
        report_number(&text, "freed with ", claim->size_bytes, " bytes, ");
        report_number(&text, "", bytes, " were asked for; ");
    }
    report_end(&text, line, cls);
}
