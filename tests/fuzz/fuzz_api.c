/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Fuzzing: the whole public interface. The input is a program for a small machine: each operation
 * is two bytes (what, and on which block and thread) and its operands. The machine keeps a record
 * of each block and checks it against what the allocator says and does:
 *
 *   a block is aligned, as large as asked for, and overlaps no other (each has bytes of its own);
 *   what was written stays, also through realloc; calloc's memory is zero;
 *   the usable size does not change; errno is kept by free and set by what fails;
 *   live blocks and bytes, as counted by the allocator, are those of the record when all is freed.
 *
 * Operations run on the main thread or on one of two helpers, one at a time: blocks change hands
 * between threads, threads end with blocks left, but no input depends on timing. */
#include "fuzz.h"

#include "hakmem.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

enum {
    BLOCKS = 48,
    HELPERS = 2,
    LIVE_MAX = 32 << 20,
    WHOLE_BYTES = 1024, /* up to here every byte is written and read, beyond it some of each page */
    EDGE_BYTES = 32,
    PAGE_BYTES = 4096,
    OPERATIONS_MAX = 4096,
    STACK_BYTES = 256 << 10,
};

struct block {
    unsigned char *p; /* NULL: none */
    size_t size, usable, align;
    unsigned char fill;
    bool sized, aligned_sized; /* may go to free_sized, free_aligned_sized */
};

static struct block blocks[BLOCKS];
static size_t live_bytes;
static unsigned char next_fill;

/* --- what is in a block --- */

/* The part of a block from `at` on that is written: all of a small one, of a large one the
 * beginning of each page and the end. Its first byte tells the offset, so that bytes that moved are
 * noticed. */
static size_t block_part(const struct block *b, size_t at)
{
    size_t left = b->usable - at;
    size_t most = b->usable <= WHOLE_BYTES ? WHOLE_BYTES : EDGE_BYTES;
    return left < most ? left : most;
}

static size_t block_next(const struct block *b, size_t at)
{
    if (b->usable <= WHOLE_BYTES)
        return b->usable;
    size_t end = b->usable - EDGE_BYTES;
    if (at >= end)
        return b->usable;
    return at + PAGE_BYTES < end ? at + PAGE_BYTES : end;
}

static unsigned char block_mark(const struct block *b, size_t at)
{
    return (unsigned char)(b->fill + 1 + at / PAGE_BYTES);
}

static void block_write(struct block *b)
{
    for (size_t at = 0; at < b->usable; at = block_next(b, at)) {
        memset(b->p + at, b->fill, block_part(b, at));
        b->p[at] = block_mark(b, at);
    }
}

/* The first `bytes` of a block. A range of equal bytes is its own neighbour: one comparison. */
static void block_read(const struct block *b, size_t bytes)
{
    for (size_t at = 0; at < bytes; at = block_next(b, at)) {
        const unsigned char *p = b->p + at;
        size_t part = block_part(b, at);
        part = part < bytes - at ? part : bytes - at;
        bool same = p[0] == block_mark(b, at) &&
                    (part < 2 || (p[1] == b->fill && memcmp(p + 1, p + 2, part - 2) == 0));
        fuzz_check(same, "bytes %zu to %zu of a block of %zu (usable %zu) were changed", at,
                   at + part, b->size, b->usable);
    }
}

static void block_check(const struct block *b)
{
    fuzz_check(hakmem_malloc_usable_size(b->p) == b->usable, "the usable size has changed");
    block_read(b, b->usable);
}

/* Takes note of a new block, or of the reason why there is none. */
static void block_new(struct block *b, void *p, size_t size, size_t align)
{
    *b = (struct block){0};
    if (p == NULL) {
        fuzz_check(errno == ENOMEM || errno == EINVAL, "NULL and errno %d", errno);
        fuzz_check(size > LIVE_MAX || align > LIVE_MAX, "%zu bytes refused", size);
        return;
    }
    fuzz_check(size <= PTRDIFF_MAX, "%zu bytes granted", size);
    b->p = p;
    b->size = size;
    b->align = align < 16 ? 16 : align;
    b->usable = hakmem_malloc_usable_size(p);
    b->fill = next_fill += 37;
    fuzz_check(b->usable >= size, "usable %zu of %zu", b->usable, size);
    fuzz_check((uintptr_t)p % b->align == 0, "%p is not aligned to %zu", p, b->align);
    for (unsigned i = 0; i < BLOCKS; i++) {
        const struct block *other = &blocks[i];
        fuzz_check(other == b || other->p == NULL || b->p + b->usable <= other->p ||
                       other->p + other->usable <= b->p,
                   "two blocks overlap: %p and %p", p, (void *)other->p);
    }
    live_bytes += b->usable;
    block_write(b);
}

static void block_forget(struct block *b)
{
    live_bytes -= b->usable;
    *b = (struct block){0};
}

static void block_free(struct block *b, unsigned how)
{
    if (b->p == NULL) {
        hakmem_free(NULL);
        return;
    }
    block_check(b);
    errno = 12345;
    if (how % 4 == 1 && b->sized)
        hakmem_free_sized(b->p, b->size);
    else if (how % 4 == 2 && b->aligned_sized)
        hakmem_free_aligned_sized(b->p, b->align, b->size);
    else if (how % 4 == 3)
        hakmem_cfree(b->p);
    else
        hakmem_free(b->p);
    fuzz_check(errno == 12345, "free has changed errno to %d", errno);
    block_forget(b);
}

/* --- operands --- */

/* Sizes around powers of two up to 8 MiB, exact small ones, and some that no system has. */
static size_t take_size(struct fuzz_input *in)
{
    unsigned kind = fuzz_byte(in);
    unsigned detail = fuzz_byte(in);
    if (kind < 128)
        return kind * 8 + detail % 16;
    if (kind < 248) {
        size_t base = (size_t)1 << (4 + kind % 19);
        return base + (base * (detail / 8) >> 5) + detail % 8 - 4;
    }
    static const size_t extremes[] = {SIZE_MAX, PTRDIFF_MAX, (size_t)1 << 46, (size_t)1 << 62};
    return extremes[kind % 4] - detail;
}

static bool fits(size_t size)
{
    return size > LIVE_MAX || live_bytes + size + size / 4 <= LIVE_MAX;
}

static size_t take_alignment(struct fuzz_input *in)
{
    unsigned code = fuzz_byte(in);
    return (size_t)1 << code % 23; /* to 4 MiB */
}

/* --- operations --- */

static void do_malloc(struct block *b, struct fuzz_input *in)
{
    size_t size = take_size(in);
    if (!fits(size))
        return;
    block_free(b, 0);
    errno = 0;
    block_new(b, hakmem_malloc(size), size, 16);
    b->sized = true;
}

static void do_calloc(struct block *b, struct fuzz_input *in)
{
    size_t size = take_size(in);
    size_t count = fuzz_byte(in) % 8;
    size_t product;
    if (__builtin_mul_overflow(size, count, &product))
        product = SIZE_MAX;
    if (!fits(product))
        return;
    block_free(b, 0);
    errno = 0;
    unsigned char *p = hakmem_calloc(count, size);
    if (p != NULL && product > 0)
        fuzz_check(p[0] == 0 && memcmp(p, p + 1, product - 1) == 0, "calloc(%zu, %zu) is not zero",
                   count, size);
    block_new(b, p, product, 16);
}

static void do_realloc(struct block *b, struct fuzz_input *in)
{
    size_t size = take_size(in);
    if (!fits(size))
        return;
    struct block before = *b;
    if (before.p != NULL)
        block_check(b);
    errno = 0;
    unsigned char *p = size % 5 == 0 && size <= LIVE_MAX ? hakmem_reallocarray(b->p, 5, size / 5)
                                                         : hakmem_realloc(b->p, size);
    if (p == NULL && before.p != NULL && size == 0) {
        block_forget(b); /* freed, as glibc does */
        return;
    }
    if (p == NULL) {
        fuzz_check(errno == ENOMEM && size > LIVE_MAX, "realloc of %zu refused", size);
        if (before.p != NULL)
            block_check(b); /* it is as it was */
        return;
    }
    if (before.p != NULL) {
        struct block kept = before;
        kept.p = p;
        block_read(&kept, before.usable < size ? before.usable : size);
        block_forget(b);
    }
    block_new(b, p, size, 16);
    b->sized = true;
}

static void do_aligned(struct block *b, struct fuzz_input *in)
{
    size_t align = take_alignment(in);
    unsigned how = fuzz_byte(in) % 5;
    size_t size = take_size(in);
    void *p = NULL;
    if (!fits(size) || (size <= LIVE_MAX && !fits(size + align)))
        return;
    block_free(b, 0);
    errno = 0;
    if (how == 0) {
        p = hakmem_aligned_alloc(align, size);
    } else if (how == 1) {
        p = hakmem_memalign(align, size);
    } else if (how == 2) {
        void *const untouched = &p;
        p = untouched;
        int error = hakmem_posix_memalign(&p, align, size);
        fuzz_check(error == 0 || p == untouched, "a failed posix_memalign wrote its result");
        fuzz_check((error == EINVAL) == (align < sizeof(void *)), "posix_memalign(%zu): %d", align,
                   error);
        if (error == EINVAL)
            return;
        p = error == 0 ? p : NULL;
        errno = error;
    } else {
        align = PAGE_BYTES;
        p = how == 3 ? hakmem_valloc(size) : hakmem_pvalloc(size);
        if (how == 4 && p != NULL)
            fuzz_check(hakmem_malloc_usable_size(p) % PAGE_BYTES == 0, "pvalloc: not whole pages");
    }
    block_new(b, p, size, align);
    b->aligned_sized = how == 0 && b->p != NULL && align >= 16;
}

/* Everything that is told, into buffers that may be too small. */
static void do_tell(struct fuzz_input *in)
{
    size_t size = fuzz_number(in, 2) % 40000;
    char *buffer = malloc(size + 1);
    fuzz_check(buffer != NULL, "the test has no memory");
    buffer[size] = '#';
    int length =
        fuzz_byte(in) % 2 ? hakmem_stats_json(buffer, size) : hakmem_last_failures(buffer, size);
    fuzz_check(length >= 0 && buffer[size] == '#', "written beyond the buffer");
    if (size > 0)
        fuzz_check(strlen(buffer) == ((size_t)length < size ? (size_t)length : size - 1),
                   "the length is not that of the text");
    free(buffer);
    struct mallinfo2 m = hakmem_mallinfo2();
    fuzz_check(m.uordblks + m.hblkhd >= live_bytes, "mallinfo2: %zu in use, %zu live",
               m.uordblks + m.hblkhd, live_bytes);
}

static void do_control(struct fuzz_input *in)
{
    char name[64];
    uint64_t value = 0;
    unsigned which = fuzz_byte(in);
    uint64_t cap = fuzz_number(in, 4);
    const char *known = hakmem_ctl_name(which);
    if (known != NULL) {
        fuzz_check(hakmem_ctl(known, &value, NULL) == 0, "%s cannot be read", known);
        bool option = strncmp(known, "option.", strlen("option.")) == 0;
        fuzz_check(hakmem_ctl(known, NULL, option ? &value : &cap) == (option ? 0 : EPERM),
                   "%s: only options can be set", known);
        return;
    }
    uint64_t size = fuzz_number(in, 3);
    (void)snprintf(name, sizeof name, "class.%llu.soft_cap_bytes", (unsigned long long)size);
    int error = hakmem_ctl(name, &value, &cap);
    fuzz_check(error == (size == 0 || size > 65536 ? EINVAL : 0), "%s: %d", name, error);
    if (error == 0) {
        fuzz_check(hakmem_ctl(name, &value, NULL) == 0, "%s cannot be read", name);
        fuzz_check(value % 65536 == 0 && value <= (cap < 65536 ? 65536 : cap),
                   "%s is %llu after %llu", name, (unsigned long long)value,
                   (unsigned long long)cap);
    }
}

static void do_tune(struct fuzz_input *in)
{
    int parameter = (int)(int8_t)fuzz_byte(in);
    int value = (int)fuzz_number(in, 4);
    int answer = hakmem_mallopt(parameter, value);
    fuzz_check(answer == 0 || answer == 1, "mallopt: %d", answer);
}

static void do_operation(unsigned what, struct block *b, struct fuzz_input *in)
{
    switch (what % 16) {
    case 0:
    case 1:
    case 2:
        do_malloc(b, in);
        break;
    case 3:
        do_calloc(b, in);
        break;
    case 4:
    case 5:
        do_realloc(b, in);
        break;
    case 6:
    case 7:
    case 8:
        block_free(b, fuzz_byte(in));
        break;
    case 9:
        do_aligned(b, in);
        break;
    case 10:
        if (b->p != NULL)
            block_check(b);
        else
            fuzz_check(hakmem_malloc_usable_size(NULL) == 0, "NULL has a size");
        break;
    case 11:
        fuzz_check((unsigned)hakmem_malloc_trim(fuzz_byte(in)) <= 1, "malloc_trim");
        break;
    case 12:
        do_tell(in);
        break;
    case 13:
        do_control(in);
        break;
    case 14:
        do_tune(in);
        break;
    default: /* a row of small blocks at once, so that short inputs fill slabs too */
        for (unsigned i = 0, size = fuzz_byte(in) * 4u; i < BLOCKS; i += 3) {
            block_free(&blocks[i], i);
            block_new(&blocks[i], hakmem_malloc(size), size, 16);
        }
    }
}

/* --- threads: one works at a time --- */

static struct helper {
    pthread_t thread;
    sem_t go, done;
    bool alive, end;
    unsigned what;
    struct block *block;
    struct fuzz_input *in;
} helpers[HELPERS];

static void *helper_run(void *argument)
{
    struct helper *h = argument;
    while (sem_wait(&h->go) == 0 && !h->end) {
        do_operation(h->what, h->block, h->in);
        (void)sem_post(&h->done);
    }
    return NULL;
}

static void helper_do(struct helper *h, unsigned what, struct block *b, struct fuzz_input *in)
{
    if (!h->alive) {
        pthread_attr_t small; /* a sanitizer prepares the whole stack of a thread */
        *h = (struct helper){.alive = true};
        fuzz_check(pthread_attr_init(&small) == 0 &&
                       pthread_attr_setstacksize(&small, STACK_BYTES) == 0,
                   "no attributes");
        fuzz_check(sem_init(&h->go, 0, 0) == 0 && sem_init(&h->done, 0, 0) == 0, "no semaphore");
        fuzz_check(pthread_create(&h->thread, &small, helper_run, h) == 0, "no thread");
        (void)pthread_attr_destroy(&small);
    }
    h->what = what;
    h->block = b;
    h->in = in;
    (void)sem_post(&h->go);
    while (sem_wait(&h->done) != 0)
        ;
}

static void helper_end(struct helper *h)
{
    if (!h->alive)
        return;
    h->end = true;
    (void)sem_post(&h->go);
    (void)pthread_join(h->thread, NULL);
    (void)sem_destroy(&h->go);
    (void)sem_destroy(&h->done);
    h->alive = false;
}

/* --- an input --- */

static uint64_t control(const char *name)
{
    uint64_t value = 0;
    fuzz_check(hakmem_ctl(name, &value, NULL) == 0, "%s cannot be read", name);
    return value;
}

static void clean_up(void)
{
    for (unsigned i = 0; i < HELPERS; i++)
        helper_end(&helpers[i]);
    for (unsigned i = 0; i < BLOCKS; i++)
        block_free(&blocks[i], i);
    (void)hakmem_mallopt(M_TRIM_THRESHOLD, 4 << 20);
    (void)hakmem_malloc_trim(0);
    fuzz_check(live_bytes == 0, "the test's own record is wrong");
    fuzz_check(control("live.blocks") == 0 && control("live.bytes") == 0,
               "all was freed, and %llu blocks, %llu bytes live",
               (unsigned long long)control("live.blocks"),
               (unsigned long long)control("live.bytes"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    for (unsigned i = 0; fuzz_left(&in) > 1 && i < OPERATIONS_MAX; i++) {
        unsigned what = fuzz_byte(&in);
        unsigned who = what >> 4; /* 0 to 9: the main thread, else a helper */
        struct block *b = &blocks[fuzz_byte(&in) % BLOCKS];
        if (who < 10)
            do_operation(what, b, &in);
        else if (who < 15)
            helper_do(&helpers[who % HELPERS], what, b, &in);
        else
            helper_end(&helpers[what % HELPERS]);
    }
    clean_up();
    return 0;
}
