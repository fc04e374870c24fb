/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: texts that the hakmem command reads. The first byte chooses which:
 *
 *   0  a script: its #! line, env's options in it
 *   1  the answer of a dynamic loader to --list
 *   2  a file like /etc/ld.so.conf
 *   3  two names (up to the first end of line, and the rest): LD_PRELOAD, and how far they are
 * apart
 */
#include "command.h"

#include "allocators.h"
#include "loader.h"
#include "script.h"

enum { STEPS_MOST = 40 };

static void read_script(const uint8_t *data, size_t size)
{
    struct hak_start start;
    hak_script_follow(&start, command_file(data, size));
    fuzz_check(start.program != NULL && start.program[0] != '\0', "a script leads to no program");
    fuzz_check(start.steps <= STEPS_MOST, "%u scripts", start.steps);
    hak_start_free(&start);
}

static void read_answer(const uint8_t *data, size_t size)
{
    struct hak_loaded loaded = {0};
    char *text = fuzz_string(data, size);
    size_t lines = 1;
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    hak_loader_understand(&loaded, text, "/lib/libhakmem.so");
    fuzz_check(loaded.files.count <= lines, "%zu files in %zu lines", loaded.files.count, lines);
    fuzz_check(!loaded.has_library || hak_strings_have(&loaded.files, "/lib/libhakmem.so"),
               "the library is loaded, and not in the list");
    fuzz_check(loaded.complaint == NULL || strstr(loaded.complaint, "/lib/libhakmem.so") != NULL,
               "a complaint about something else");
    free(text);
    hak_loaded_free(&loaded);
}

/* Such a file belongs to the system. Patterns would read other files, so none are passed on. */
static void read_conf(const uint8_t *data, size_t size)
{
    char *list = NULL;
    if (memmem(data, size, "include", strlen("include")) == NULL)
        hak_loader_read_conf(&list, command_file(data, size));
    fuzz_check(list == NULL || *list == '/', "a directory that is no path: %s", list);
    free(list);
}

static void compare_names(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t first = end != NULL ? (size_t)(end - data) : size;
    char *a = fuzz_string(data, first);
    char *b = fuzz_string(data + first, size - first);
    struct hak_strings kept = {0};
    fuzz_check(hak_edit_distance(a, b) == hak_edit_distance(b, a), "not the same from both sides");
    fuzz_check(strlen(a) > 63 || hak_edit_distance(a, a) == 0, "a name is far from itself");
    (void)hak_allocator_name(a);
    char *value = hak_preload_value("/lib/libhakmem.so", b, &kept);
    fuzz_check(hak_starts_with(value, "/lib/libhakmem.so"), "the library is not the first");
    fuzz_check(!hak_strings_have(&kept, "/lib/libhakmem.so"), "the library is there twice");
    for (size_t i = 0; i < kept.count; i++)
        fuzz_check(strpbrk(kept.at[i], ": ") == NULL && *kept.at[i] != '\0', "an entry of two");
    hak_strings_free(&kept);
    free(value);
    free(a);
    free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const uint8_t *, size_t) = {read_script, read_answer, read_conf,
                                                               compare_names};
    if (size == 0 || setjmp(command_refused) != 0)
        return 0;
    readers[data[0] % 4](data + 1, size - 1);
    return 0;
}
