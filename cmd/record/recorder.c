/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * libhakmem-record.so: preloaded by `hakmem record`, it passes the program's allocations on to the
 * allocator that would serve them without it, and writes each to a file (trace_format.h).
 *
 * One lock orders all events: an allocation is written once the allocator has returned its address,
 * a release before the allocator learns of it. So the events of one address are in the order in
 * which they happened, whichever threads they are of.
 *
 * The file is written through a mapping that moves on by RECORDER_STEP_BYTES: what was recorded is
 * there also when the program is killed. Nothing here allocates; no descriptor stays open. */
#include "trace_format.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef HAKMEM_VERSION
#error "define HAKMEM_VERSION, as in -DHAKMEM_VERSION='\"1.2.3\"'"
#endif

#define RECORDER_API __attribute__((visibility("default")))

#define RECORDER_STEP_BYTES ((size_t)4 << 20)
/* So often the time is written, in events. */
#define RECORDER_TIME_EVENTS 1024

/* What an error number means, without memory: strerror of glibc may allocate. */
static const char *recorder_error(void)
{
#ifdef __GLIBC__
    return strerrordesc_np(errno);
#else
    return strerror(errno);
#endif
}

/* --- the file --- */

static struct {
    pthread_mutex_t lock;
    bool *is_on;             /* NULL: not yet. In a page that is zero in the child of a fork */
    unsigned char *at, *end; /* where the next event goes, in the mapped part; where that ends */
    unsigned char *mapped;
    off_t mapped_from; /* its place in the file */
    struct hak_trace_header *header;
    uint64_t events;
    uintptr_t address; /* of the last event that had one */
    uint32_t thread;   /* of the last event */
    uint32_t threads;
    struct timespec began;
    char path[PATH_MAX];
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* From 1 on; 0: it has no event yet. */
static __thread uint32_t recorder_number __attribute__((tls_model("initial-exec")));
/* The thread has an event in hand, or waits to. What a signal handler does in between is not
 * recorded; it may also end the program, and then the lock stays as it is. */
static __thread volatile bool recorder_is_busy __attribute__((tls_model("initial-exec")));

__attribute__((format(printf, 1, 2))) static void recorder_say(const char *format, ...)
{
    char text[PATH_MAX + 256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
        return; /* nobody is there to read it */
}

/* Not in a child: the lock may be held there by a thread that is not. */
static bool recorder_is_on(void)
{
    return recorder.is_on != NULL && __atomic_load_n(recorder.is_on, __ATOMIC_RELAXED);
}

static void recorder_switch(bool on)
{
    __atomic_store_n(recorder.is_on, on, __ATOMIC_RELAXED);
}

/* The system would send a signal to whoever goes beyond that limit. */
static bool recorder_may_grow(off_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || (rlim_t)size <= limit.rlim_cur)
        return true;
    errno = EFBIG;
    return false;
}

/* Maps the next part of the file, which grows by it. Space is taken for it at once: a write into a
 * mapping of a full file system would kill the program. */
static bool recorder_map(int fd, off_t from, size_t bytes)
{
    if (!recorder_may_grow(from + (off_t)bytes))
        return false;
    if (fallocate(fd, 0, from, (off_t)bytes) < 0 &&
        (errno != EOPNOTSUPP || ftruncate(fd, from + (off_t)bytes) < 0))
        return false;
    void *part = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, from);
    if (part == MAP_FAILED)
        return false;
    recorder.mapped = part;
    recorder.mapped_from = from;
    recorder.at = part;
    recorder.end = recorder.at + bytes;
    return true;
}

/* The mapped part is nearly full: the next one, which begins at the page where this one goes on. */
static void recorder_move(void)
{
    int saved = errno;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used = (size_t)(recorder.at - recorder.mapped);
    size_t whole = used / page * page;
    unsigned char *old = recorder.mapped;
    size_t old_bytes = (size_t)(recorder.end - old);
    int fd = open(recorder.path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && recorder_map(fd, recorder.mapped_from + (off_t)whole, RECORDER_STEP_BYTES)) {
        recorder.at += used - whole;
        (void)munmap(old, old_bytes);
    } else {
        recorder_switch(false);
        recorder_say("hakmem: the recording ends here, as %s cannot grow: %s\n", recorder.path,
                     recorder_error());
    }
    if (fd >= 0)
        (void)close(fd);
    errno = saved;
}

/* --- events; with the lock held --- */

static void recorder_put_number(uint64_t number)
{
    while (number >= 0x80) {
        *recorder.at++ = (unsigned char)(number | 0x80);
        number >>= 7;
    }
    *recorder.at++ = (unsigned char)number;
}

static void recorder_put_control(enum hak_trace_control what, uint64_t number)
{
    *recorder.at++ = (unsigned char)(HAK_TRACE_CONTROL | (unsigned)what << HAK_TRACE_OP_BITS);
    recorder_put_number(number);
}

static void recorder_put_size(enum hak_trace_event event, size_t size)
{
    *recorder.at++ = (unsigned char)((unsigned)event | (unsigned)(size & 31) << HAK_TRACE_OP_BITS);
    recorder_put_number(size >> 5);
}

static void recorder_put_address(const void *block)
{
    uintptr_t address = (uintptr_t)block;
    int64_t step = (int64_t)(address - recorder.address) >> HAK_TRACE_ADDRESS_SHIFT;
    recorder_put_number((uint64_t)step << 1 ^ (uint64_t)(step >> 63));
    recorder.address = address;
}

static uint64_t recorder_time_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)((now.tv_sec - recorder.began.tv_sec) * 1000000 +
                      (now.tv_nsec - recorder.began.tv_nsec) / 1000);
}

/* For a while. True: the lock is the thread's. */
static bool recorder_wait(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    return pthread_mutex_timedlock(&recorder.lock, &until) == 0;
}

static void recorder_done(void)
{
    (void)pthread_mutex_unlock(&recorder.lock);
    recorder_is_busy = false;
}

/* Takes the lock; true: an event may be put, and is followed by recorder_done. */
static bool recorder_begin(void)
{
    if (!recorder_is_on() || recorder_is_busy)
        return false;
    recorder_is_busy = true;
    bool taken = pthread_mutex_trylock(&recorder.lock) == 0;
    while (!taken && recorder_is_on())
        taken = recorder_wait();
    if (!taken) {
        recorder_is_busy = false;
        return false;
    }
    if (recorder_is_on() && recorder.end - recorder.at < 4 * HAK_TRACE_EVENT_MOST_BYTES)
        recorder_move();
    if (!recorder_is_on()) {
        recorder_done();
        return false;
    }
    if (recorder_number == 0)
        recorder_number = ++recorder.threads;
    if (recorder.events++ % RECORDER_TIME_EVENTS == 0)
        recorder_put_control(HAK_TRACE_TIME, recorder_time_us());
    if (recorder.thread != recorder_number - 1) {
        recorder.thread = recorder_number - 1;
        recorder_put_control(HAK_TRACE_THREAD, recorder.thread);
    }
    return true;
}

static void *recorder_allocated(enum hak_trace_event event, size_t size, size_t alignment,
                                void *block)
{
    if (!recorder_begin())
        return block;
    if (block == NULL) {
        recorder.header->failed++;
    } else {
        recorder_put_size(event, size);
        if (event == HAK_TRACE_ALIGNED)
            *recorder.at++ = (unsigned char)__builtin_ctzll(alignment);
        recorder_put_address(block);
    }
    recorder_done();
    return block;
}

static void recorder_released(enum hak_trace_event event, const void *block)
{
    if (!recorder_begin())
        return;
    *recorder.at++ = (unsigned char)event;
    recorder_put_address(block);
    recorder_done();
}

static void recorder_resized(size_t size, const void *block)
{
    if (!recorder_begin())
        return;
    if (block == NULL && size > 0) {
        recorder.header->failed++;
        size = 1;
    }
    recorder_put_size(HAK_TRACE_REALLOC_END, size);
    recorder_put_address(block);
    recorder_done();
}

/* --- the allocator behind --- */

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void (*free)(void *);
} next;

/* Serves calls that come while the allocator behind is looked for: the loader's own. Never freed.
 */
static _Alignas(16) unsigned char recorder_early[16384];
static size_t recorder_early_used;

static void *recorder_early_take(size_t size)
{
    size_t from = recorder_early_used;
    size_t room = sizeof recorder_early - from;
    if (size > room - (room > 32 ? 32 : room))
        return NULL;
    memcpy(recorder_early + from, &size, sizeof size);
    recorder_early_used += 16 + ((size + 15) & ~(size_t)15);
    return recorder_early + from + 16;
}

static bool recorder_is_early(const void *block)
{
    return (uintptr_t)block - (uintptr_t)recorder_early < sizeof recorder_early;
}

/* A pointer to a function from one to an object, as dlsym hands it out. */
static void recorder_find(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        recorder_say("hakmem: no allocator behind libhakmem-record.so has %s\n", name);
        abort();
    }
    memcpy(function, &found, sizeof found);
}

/* --- beginning and end --- */

/* `%p` in a file's name is the process's ID. */
static bool recorder_name(const char *pattern, pid_t process)
{
    const char *mark = strstr(pattern, "%p");
    int length = mark == NULL ? snprintf(recorder.path, sizeof recorder.path, "%s", pattern)
                              : snprintf(recorder.path, sizeof recorder.path, "%.*s%d%s",
                                         (int)(mark - pattern), pattern, (int)process, mark + 2);
    return length > 0 && (size_t)length < sizeof recorder.path;
}

/* Whether this process is the one to be recorded: HAKMEM_RECORD_PROCESS, or any where each has a
 * file of its own. */
static bool recorder_is_wanted(const char *pattern, pid_t process)
{
    const char *wanted = secure_getenv("HAKMEM_RECORD_PROCESS");
    return strstr(pattern, "%p") != NULL ||
           (wanted != NULL && strtol(wanted, NULL, 10) == (long)process);
}

static void recorder_read_command(struct hak_trace_header *header)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, header->command, sizeof header->command - 2) < 0)
        header->command[0] = '\0';
    (void)close(fd);
}

/* A child's memory is a copy of all but this. */
static bool recorder_make_switch(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, page, MADV_WIPEONFORK) < 0)
        return false; /* Linux before 4.14 */
    recorder.is_on = memory;
    return true;
}

static bool recorder_open(void)
{
    int fd = open(recorder.path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool done = recorder_make_switch() && recorder_map(fd, 0, RECORDER_STEP_BYTES);
    if (done) {
        void *header =
            mmap(NULL, HAK_TRACE_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        done = header != MAP_FAILED;
        recorder.header = done ? header : NULL;
    }
    int error = errno;
    (void)close(fd);
    errno = error;
    return done;
}

static void recorder_start(void)
{
    pid_t process = getpid();
    const char *pattern = secure_getenv("HAKMEM_RECORD");
    if (pattern == NULL || *pattern == '\0' || !recorder_is_wanted(pattern, process))
        return;
    if (!recorder_name(pattern, process)) {
        recorder_say(
            "hakmem: nothing is recorded, as the file's name in HAKMEM_RECORD is too long\n");
    } else if (!recorder_open()) {
        recorder_say("hakmem: nothing is recorded, as %s cannot be written: %s\n", recorder.path,
                     recorder_error());
    } else {
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        (void)clock_gettime(CLOCK_MONOTONIC, &recorder.began);
        recorder_read_command(recorder.header);
        memcpy(recorder.header->magic, HAK_TRACE_MAGIC, sizeof HAK_TRACE_MAGIC);
        recorder.header->process = (uint64_t)process;
        recorder.header->started_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
        recorder.at += HAK_TRACE_HEADER_BYTES;
        recorder_switch(true);
    }
}

/* Before the first call: finds the allocator, and begins as soon as there is an environment (the
 * loader calls before there is one). A program has one thread then. */
static bool recorder_prepare(void)
{
    static bool looking, started;
    if (looking)
        return false;
    if (next.free == NULL) {
        looking = true;
        recorder_find(&next.malloc, "malloc");
        recorder_find(&next.calloc, "calloc");
        recorder_find(&next.realloc, "realloc");
        recorder_find(&next.memalign, "memalign");
        recorder_find(&next.free, "free");
        looking = false;
    }
    if (!started && environ != NULL) {
        started = true;
        recorder_start();
    }
    return true;
}

__attribute__((constructor)) static void recorder_constructor(void)
{
    (void)recorder_prepare();
}

__attribute__((destructor)) static void recorder_destructor(void)
{
    if (recorder_is_busy && recorder_is_on())
        recorder_switch(false); /* a handler ends the program: others are not to wait */
    if (!recorder_begin())
        return;
    recorder_switch(false);
    recorder_put_control(HAK_TRACE_TIME, recorder_time_us());
    recorder.header->is_whole = 1;
    off_t used = recorder.mapped_from + (recorder.at - recorder.mapped);
    if (truncate(recorder.path, used) < 0)
        recorder_say("hakmem: %s cannot be cut to its length: %s\n", recorder.path,
                     recorder_error());
    recorder_done();
}

/* --- what takes the place of the allocator's functions --- */

/* `hakmem record` knows the library by it. */
RECORDER_API const char *hakmem_version(void);

const char *hakmem_version(void)
{
    return HAKMEM_VERSION;
}

RECORDER_API void *malloc(size_t size)
{
    if (!recorder_prepare())
        return recorder_early_take(size);
    return recorder_allocated(HAK_TRACE_MALLOC, size, 0, next.malloc(size));
}

RECORDER_API void *calloc(size_t nmemb, size_t size)
{
    size_t bytes;
    bool fits = !__builtin_mul_overflow(nmemb, size, &bytes);
    if (!recorder_prepare())
        return fits ? recorder_early_take(bytes) : NULL;
    return recorder_allocated(HAK_TRACE_CALLOC, fits ? bytes : 0, 0, next.calloc(nmemb, size));
}

RECORDER_API void free(void *ptr)
{
    if (ptr == NULL || recorder_is_early(ptr) || !recorder_prepare())
        return;
    recorder_released(HAK_TRACE_FREE, ptr);
    next.free(ptr);
}

RECORDER_API void *realloc(void *ptr, size_t size)
{
    if (ptr == NULL)
        return malloc(size);
    if (recorder_is_early(ptr)) {
        size_t had;
        memcpy(&had, (unsigned char *)ptr - 16, sizeof had);
        void *moved = malloc(size);
        if (moved != NULL)
            memcpy(moved, ptr, had < size ? had : size);
        return moved;
    }
    (void)recorder_prepare();
    recorder_released(HAK_TRACE_REALLOC_BEGIN, ptr);
    void *now = next.realloc(ptr, size);
    recorder_resized(size, now);
    return now;
}

RECORDER_API void *reallocarray(void *ptr, size_t nmemb, size_t size)
{
    size_t bytes;
    if (!__builtin_mul_overflow(nmemb, size, &bytes))
        return realloc(ptr, bytes);
    errno = ENOMEM;
    return NULL;
}

RECORDER_API void *memalign(size_t alignment, size_t size)
{
    if (!recorder_prepare())
        return alignment <= 16 ? recorder_early_take(size) : NULL;
    bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    return recorder_allocated(is_power ? HAK_TRACE_ALIGNED : HAK_TRACE_MALLOC, size, alignment,
                              next.memalign(alignment, size));
}

RECORDER_API void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

RECORDER_API int posix_memalign(void **memptr, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    int saved = errno;
    void *made = memalign(alignment, size);
    errno = saved;
    if (made == NULL)
        return ENOMEM;
    *memptr = made;
    return 0;
}

RECORDER_API void *valloc(size_t size)
{
    return memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

RECORDER_API void *pvalloc(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return memalign(page, size > SIZE_MAX - page ? size : (size + page - 1) / page * page);
}

/* C23; older libcs have neither. */
RECORDER_API void free_sized(void *block, size_t size);
RECORDER_API void free_aligned_sized(void *block, size_t alignment, size_t size);

void free_sized(void *block, size_t size)
{
    (void)size;
    free(block);
}

void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    free(block);
}
