/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Test support: the wrapped functions of the os layer. See fake_os.h. Never allocates. */
#include "fake_os.h"

#include "os/os.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

int __real_hak_os_map_at(void *at, size_t bytes);
int __real_hak_os_map(size_t bytes, void **out);
int __real_hak_os_unmap(void *at, size_t bytes);
int __real_hak_os_purge(void *at, size_t bytes);
int __real_hak_os_move(void *from, void *to, size_t bytes, bool keep_source);
int __real_hak_os_find_hole(size_t bytes, uintptr_t *out);
bool __real_hak_os_is_resident(const void *at);
bool __real_hak_os_list_resident(char *at, size_t bytes, unsigned char *in_memory);
bool __real_hak_os_addresses_restricted(void);
uint64_t __real_hak_os_random(void);
uint64_t __real_hak_os_fault_in_ns(char *page);
void __real_hak_os_write_stderr(const char *text, size_t bytes);
_Noreturn void __real_hak_os_die(const char *text);

int __wrap_hak_os_map_at(void *at, size_t bytes);
int __wrap_hak_os_map(size_t bytes, void **out);
int __wrap_hak_os_unmap(void *at, size_t bytes);
int __wrap_hak_os_purge(void *at, size_t bytes);
int __wrap_hak_os_move(void *from, void *to, size_t bytes, bool keep_source);
int __wrap_hak_os_find_hole(size_t bytes, uintptr_t *out);
bool __wrap_hak_os_is_resident(const void *at);
bool __wrap_hak_os_list_resident(char *at, size_t bytes, unsigned char *in_memory);
bool __wrap_hak_os_addresses_restricted(void);
uint64_t __wrap_hak_os_now_ns(void);
unsigned __wrap_hak_os_processors(void);
uint64_t __wrap_hak_os_random(void);
uint64_t __wrap_hak_os_fault_in_ns(char *page);
void __wrap_hak_os_write_stderr(const char *text, size_t bytes);
_Noreturn void __wrap_hak_os_die(const char *text);

/* The calls from `first` to `last` are refused; none when first is 0. */
struct fake_call {
    _Atomic(uint64_t) calls, first, last;
    _Atomic(int) error;
};

static struct {
    struct fake_call call[FAKE_CALLS];
    _Atomic(size_t) mapped_bytes, moves_bytes;
    _Atomic(bool) has_random, restricted, captures, moves_one;
    _Atomic(uint64_t) now_ns, fault_ns, random;
    _Atomic(unsigned) processors;
    char captured[4096];
    size_t captured_bytes;
} fake = {.now_ns = 1000000000000, .processors = 64};

static __thread struct {
    jmp_buf *back;
    char words[256];
} fake_death;

/* --- what tests call --- */

size_t fake_os_mapped_bytes(void)
{
    return fake.mapped_bytes;
}

uint64_t fake_os_calls(enum fake_os_call call)
{
    return fake.call[call].calls;
}

static void fake_refuse(enum fake_os_call call, unsigned nth, uint64_t how_many, int error)
{
    struct fake_call *c = &fake.call[call];
    c->error = error;
    c->last = c->calls + nth + how_many - 1;
    c->first = c->calls + nth;
}

void fake_os_fail(enum fake_os_call call, unsigned nth, int error)
{
    fake_refuse(call, nth, 1, error);
}

void fake_os_fail_from(enum fake_os_call call, unsigned nth, int error)
{
    fake_refuse(call, nth, UINT32_MAX, error);
}

void fake_os_fail_moves_of_several(void)
{
    fake.moves_one = true;
}

void fake_os_move_in_part(size_t bytes)
{
    fake.moves_bytes = bytes;
}

void fake_os_fail_nothing(void)
{
    fake.moves_one = false;
    fake.moves_bytes = 0;
    for (int i = 0; i < FAKE_CALLS; i++)
        fake.call[i].first = 0;
}

void fake_os_set_time_ns(uint64_t now_ns)
{
    fake.now_ns = now_ns;
}

void fake_os_set_processors(unsigned processors)
{
    fake.processors = processors;
}

void fake_os_set_fault_ns(uint64_t fault_ns)
{
    fake.fault_ns = fault_ns;
}

void fake_os_set_random(uint64_t value)
{
    fake.random = value;
    fake.has_random = true;
}

void fake_os_restrict_addresses(void)
{
    fake.restricted = true;
}

void fake_os_capture_stderr(void)
{
    fake.captured_bytes = 0;
    fake.captured[0] = '\0';
    fake.captures = true;
}

const char *fake_os_captured(void)
{
    return fake.captured;
}

const char *fake_os_last_words(void (*call)(void *), void *argument)
{
    jmp_buf back;
    if (setjmp(back) != 0)
        return fake_death.words;
    fake_death.back = &back;
    call(argument);
    fake_death.back = NULL;
    return NULL;
}

/* --- what the layers call instead of the os layer --- */

static int fake_error_of(enum fake_os_call call)
{
    struct fake_call *c = &fake.call[call];
    uint64_t n = ++c->calls;
    return c->first != 0 && n >= c->first && n <= c->last ? c->error : 0;
}

static int fake_refusal(enum fake_os_call call)
{
    int own = fake_error_of(call);
    int any = fake_error_of(FAKE_ANY);
    return own != 0 ? own : any;
}

int __wrap_hak_os_map_at(void *at, size_t bytes)
{
    int error = fake_refusal(FAKE_MAP_AT);
    if (error == 0)
        error = __real_hak_os_map_at(at, bytes);
    if (error == 0)
        fake.mapped_bytes += bytes;
    return error;
}

int __wrap_hak_os_map(size_t bytes, void **out)
{
    int error = fake_refusal(FAKE_MAP);
    if (error == 0)
        error = __real_hak_os_map(bytes, out);
    if (error == 0)
        fake.mapped_bytes += bytes;
    return error;
}

int __wrap_hak_os_unmap(void *at, size_t bytes)
{
    int error = fake_refusal(FAKE_UNMAP);
    if (error == 0)
        error = __real_hak_os_unmap(at, bytes);
    if (error == 0)
        fake.mapped_bytes -= bytes;
    return error;
}

int __wrap_hak_os_purge(void *at, size_t bytes)
{
    int error = fake_refusal(FAKE_PURGE);
    return error != 0 ? error : __real_hak_os_purge(at, bytes);
}

static bool fake_is_one_mapping(const char *from, size_t bytes)
{
    uintptr_t low = 0;
    uintptr_t high = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fscanf(maps, "%" SCNxPTR "-%" SCNxPTR "%*[^\n]", &low, &high) == 2)
        if ((uintptr_t)from >= low && (uintptr_t)from < high)
            break;
    if (maps != NULL)
        (void)fclose(maps);
    return (uintptr_t)from >= low && (uintptr_t)from + bytes <= high;
}

int __wrap_hak_os_move(void *from, void *to, size_t bytes, bool keep_source)
{
    int error = fake_refusal(FAKE_MOVE);
    if (error == 0 && fake.moves_one && !fake_is_one_mapping(from, bytes)) {
        __wrap_hak_os_unmap(to, bytes);
        error = EFAULT;
    }
    size_t part = fake.moves_bytes;
    fake.moves_bytes = 0;
    if (error == 0)
        error = __real_hak_os_move(from, to, part != 0 ? part : bytes, keep_source);
    if (error == 0 && part != 0) {
        __real_hak_os_unmap((char *)to + part, HAK_PAGE_BYTES);
        return EFAULT;
    }
    if (error == 0 && !keep_source)
        fake.mapped_bytes -= bytes;
    return error;
}

int __wrap_hak_os_find_hole(size_t bytes, uintptr_t *out)
{
    int error = fake_refusal(FAKE_FIND_HOLE);
    return error != 0 ? error : __real_hak_os_find_hole(bytes, out);
}

bool __wrap_hak_os_is_resident(const void *at)
{
    fake.call[FAKE_RESIDENT].calls++;
    return __real_hak_os_is_resident(at);
}

bool __wrap_hak_os_list_resident(char *at, size_t bytes, unsigned char *in_memory)
{
    fake.call[FAKE_RESIDENT].calls++;
    return __real_hak_os_list_resident(at, bytes, in_memory);
}

bool __wrap_hak_os_addresses_restricted(void)
{
    return fake.restricted || __real_hak_os_addresses_restricted();
}

uint64_t __wrap_hak_os_now_ns(void)
{
    return fake.now_ns;
}

unsigned __wrap_hak_os_processors(void)
{
    return fake.processors;
}

uint64_t __wrap_hak_os_fault_in_ns(char *page)
{
    (void)__real_hak_os_fault_in_ns(page);
    return fake.fault_ns;
}

uint64_t __wrap_hak_os_random(void)
{
    return fake.has_random ? fake.random : __real_hak_os_random();
}

void __wrap_hak_os_write_stderr(const char *text, size_t bytes)
{
    if (!fake.captures) {
        __real_hak_os_write_stderr(text, bytes);
        return;
    }
    size_t n = hak_min(bytes, sizeof fake.captured - 1 - fake.captured_bytes);
    memcpy(fake.captured + fake.captured_bytes, text, n);
    fake.captured_bytes += n;
    fake.captured[fake.captured_bytes] = '\0';
}

_Noreturn void __wrap_hak_os_die(const char *text)
{
    jmp_buf *back = fake_death.back;
    if (back == NULL)
        __real_hak_os_die(text);
    struct hak_text out;
    hak_text_begin(&out, fake_death.words, sizeof fake_death.words);
    hak_text_string(&out, text);
    fake_death.back = NULL;
    longjmp(*back, 1);
}
