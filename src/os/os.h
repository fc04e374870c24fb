/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * os: the contract with the operating system: memory, time, locks, randomness, the last words of a
 * process. One file a platform behind it; tests replace single functions (the linker's --wrap).
 * Nothing here touches errno, allocates, or calls anything in libc that might. All functions: any
 * thread.
 *
 * Errors: functions that can be refused return 0 on success and a positive errno value otherwise.
 */
#pragma once

#include "base/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#define HAK_PAGE_BYTES ((size_t)4096) /* the smallest page of the supported machines */

/* The system's pages, of which memory is mapped and given back: 4, 16 or 64 KiB on aarch64. No more
 * than a slot. */
static inline size_t hak_os_page_bytes(void)
{
#if defined(__x86_64__)
    return HAK_PAGE_BYTES;
#else
    return (size_t)getpagesize(); /* a variable of the dynamic linker's, known from the start */
#endif
}

/* --- memory: private, anonymous, readable and writable, zero when first touched --- */

/* Maps [at, at + bytes) exactly there; EEXIST if anything is mapped in that range. at and bytes
 * page aligned. */
int hak_os_map_at(void *at, size_t bytes);
/* Maps bytes anywhere. */
int hak_os_map(size_t bytes, void **out);
int hak_os_unmap(void *at, size_t bytes);
/* Gives the pages back; the range stays mapped and reads as zero afterwards. EINVAL if it does not
 * begin and end with pages. */
int hak_os_purge(void *at, size_t bytes);
/* Asks for huge pages (2 MiB) where the range covers them; a hint, refused silently. */
void hak_os_advise_huge_pages(void *at, size_t bytes);
/* Asks for no huge pages here any more: the system would put together what was given back. */
void hak_os_advise_small_pages(void *at, size_t bytes);
/* Touches all pages for writing at once, as far as the kernel knows how (Linux 5.14). */
void hak_os_populate(void *at, size_t bytes);
/* Touches one page for writing and returns the processor time that it took. */
uint64_t hak_os_fault_in_ns(char *page);
/* True if the page that this address lies in is in memory. */
bool hak_os_is_resident(const void *at);
/* The same for each of the system's pages that begin in [at, at + bytes), by one call; at page
 * aligned. False, and in_memory is as it was, if the system does not tell. */
bool hak_os_list_resident(char *at, size_t bytes, unsigned char *in_memory);
/* Makes a range read as zero: writes to pages that are in memory, and leaves out those that are not
 * where 16 of them or more lie side by side. Any range. */
void hak_os_zero(char *at, size_t bytes);
/* Moves the pages of [from, from + bytes) to [to, to + bytes), which must be mapped and is
 * replaced. With keep_source the source stays mapped and reads as zero; without, it is unmapped.
 * When it is refused, part of `to` may not be mapped any more, and of several mappings the first
 * ones may have been moved, which with keep_source read as zero then. */
int hak_os_move(void *from, void *to, size_t bytes, bool keep_source);
/* How much of the beginning of [from, from + bytes), pages, is not mapped: what such a move without
 * keep_source has moved. */
size_t hak_os_moved_bytes(char *from, size_t bytes);
/* Maps one page that reads as zero in the child of every fork (and raw clone) from now on. */
int hak_os_map_wiped_on_fork(void **out);
/* The system has such pages: Linux 4.14. */
bool hak_os_can_wipe_on_fork(void);
/* An address at which `bytes` were free a moment ago, chosen by the system; nothing is kept mapped.
 */
int hak_os_find_hole(size_t bytes, uintptr_t *out);
/* True where the program's address space is not ours to choose addresses in (under a sanitizer with
 * a shadow). */
bool hak_os_addresses_restricted(void);

/* --- locks: small futex mutexes, not recursive, for slow paths --- */

struct hak_lock {
    _Atomic uint32_t state;    /* 0 free, 1 held, 2 held and waited for */
    _Atomic(uintptr_t) holder; /* its thread pointer: a fork in a signal handler finds itself */
    _Atomic(uint64_t) acquired, contended; /* written by the holder */
};

struct hak_lock_counts {
    uint64_t acquired, contended; /* times it was taken, and how often it was not free at once */
};

void hak_lock(struct hak_lock *lock);
bool hak_try_lock(struct hak_lock *lock);
void hak_unlock(struct hak_lock *lock);
bool hak_lock_is_mine(struct hak_lock *lock);
/* The calling thread, by its thread pointer: the same in the child of a fork. Never 0. */
uintptr_t hak_os_this_thread(void);
/* The process began with the calling thread: in the child of a fork it is the one that forked. One
 * that the child has begun since may well have the thread pointer of one that is no more. */
bool hak_os_is_first_thread(void);
/* Makes the lock free; true if it was held by a thread that is no more, so that what it guards may
 * be half changed. A lock of the thread that forked, if that calls, stays as it is: a signal
 * handler forked, and the work that it interrupted goes on. For the child of a fork, by one thread.
 */
bool hak_lock_recover(struct hak_lock *lock);
/* A thread that waits for a lock calls this now and then, with whatever other locks it holds: in
 * the child of a fork by a signal handler the holder may be a thread that stayed behind, and only
 * hak_lock_recover makes the lock free then. Takes no lock that its caller may hold. */
typedef void hak_lock_waits(void);
void hak_lock_set_waits(hak_lock_waits *call);
void hak_lock_add_counts(const struct hak_lock *lock, struct hak_lock_counts *sum);

/* --- limits: what cannot be read, and what is not limited, is UINT64_MAX --- */

uint64_t hak_os_address_space_limit(void); /* RLIMIT_AS */
uint64_t hak_os_data_limit(void);          /* RLIMIT_DATA: of what can be written to */
struct hak_os_limits {
    uint64_t address_space_bytes; /* RLIMIT_AS */
    uint64_t data_bytes;          /* RLIMIT_DATA */
    uint64_t mappings;            /* that the process has */
    uint64_t cgroup_max_bytes, cgroup_used_bytes;
};
/* Opens files of /proc and /sys, and closes them again. Slow: for the record of a failure. */
void hak_os_limits(struct hak_os_limits *out);

/* --- which file an address of the program's code belongs to --- */

#define HAK_BUILD_ID_MOST 20u
struct hak_os_module {
    uint8_t build_id[HAK_BUILD_ID_MOST]; /* the linker's, cut to so many bytes */
    uint8_t build_id_bytes;              /* 0: the file has none */
    uintptr_t base; /* an address minus this is the file's own address for it */
};
/* False: no loaded file has this address. Takes a lock of the loader's: the caller holds none that
 * the loader could wait for. */
bool hak_os_find_module(uintptr_t address, struct hak_os_module *out);
/* The same of code that the calling thread returns to, whose file stays loaded meanwhile. From
 * glibc 2.35 on no lock is taken: glibc leaves that one to whoever held it in the child of a fork.
 */
bool hak_os_find_running_module(uintptr_t address, struct hak_os_module *out);

/* How much thread-local data the loaded files have, at most. Takes a lock of the loader's. */
size_t hak_os_thread_data_bytes(void);

/* A function of a loaded library, and where it is to be found from now on. */
struct hak_os_redirect {
    const char *name;
    uintptr_t to;
    uintptr_t from; /* where it was; 0 until it is changed, or if there is none */
};
/* Whoever looks for these functions in the library that `in` is an address of finds the others. One
 * caller at a time. False: the system refuses, or the library is made in an unknown way; some may
 * be changed. */
bool hak_os_redirect(uintptr_t in, struct hak_os_redirect *functions, unsigned count);
/* The address of a function of this name in the first loaded library that has it and no function
 * `not_beside`; also in those whose names only some may see. 0: there is none. Takes a lock of the
 * loader's. */
uintptr_t hak_os_find_function(const char *name, const char *not_beside);
/* A library will be loaded that finds the C++ runtime's operators before anybody else's:
 * hak_os_has_hidden_operators is true from now on. */
void hak_os_expect_hidden_operators(void);

/* --- files: for what the program has asked to be written --- */

/* A descriptor, or a negative errno value. A file that is written is made anew, for its owner only;
 * ENXIO: a pipe that nobody reads. */
int hak_os_open(const char *path, bool write);
/* Bytes read; 0 at the end and on errors. */
size_t hak_os_read(int file, char *buffer, size_t bytes);
/* All of it: 0 or an errno. Never ends the process: SIGPIPE and SIGXFSZ do not come of it. */
int hak_os_write(int file, const char *text, size_t bytes);
void hak_os_close(int file);
/* The folder that paths are relative to: its length. 0: it is not known, or longer than `size`. */
size_t hak_os_folder(char *folder, size_t size);
uint64_t hak_os_process_id(void);
/* The program break: where the heap of brk and sbrk ends. */
uintptr_t hak_os_break(void);

/* --- the program as it is loaded --- */

struct hak_registers {
    uintptr_t pc, sp, fp;
};
/* Of the caller. */
HAK_ALWAYS_INLINE struct hak_registers hak_os_registers(void)
{
    struct hak_registers r = {0};
#if defined(__x86_64__)
    __asm__ volatile("leaq 0(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2"
                     : "=&r"(r.pc), "=&r"(r.sp), "=&r"(r.fp));
#elif defined(__aarch64__)
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"
                     : "=&r"(r.pc), "=&r"(r.sp), "=&r"(r.fp));
#elif defined(__riscv)
    __asm__ volatile("auipc %0, 0\n\tmv %1, sp\n\tmv %2, s0"
                     : "=&r"(r.pc), "=&r"(r.sp), "=&r"(r.fp));
#endif
    return r;
}
/* The table with which frames of the code at an address are unwound (.eh_frame_hdr); NULL if there
 * is none. Lock-free, from glibc 2.35 on. */
const unsigned char *hak_os_unwind_table(uintptr_t pc);
/* The name of what is loaded at an address ("" for the program itself), and the difference of its
 * addresses from those in its file; NULL: nothing is. */
const char *hak_os_image_of(uintptr_t pc, uintptr_t *base);
/* Whether the page of an address, a multiple of 4, can be read: the system is asked. */
bool hak_os_is_readable(uintptr_t address);
/* The control group of the process: the one of it and those around it that leaves least. Files are
 * opened and closed again; without /sys, without a limit, or where they may not be read, *out says
 * so with max_bytes UINT64_MAX. Version 2 of control groups, else version 1. */
struct hak_os_group {
    uint64_t max_bytes, used_bytes; /* memory.max or memory.high, whichever is less */
    uint64_t stalled_us;            /* time that some task waited for memory (PSI); version 2 */
};
/* With `path` empty looks for the group and keeps its path there, for the next time. */
#define HAK_OS_GROUP_PATH 512u
void hak_os_group(char path[HAK_OS_GROUP_PATH], struct hak_os_group *out);

/* What the process has used since its start. */
struct hak_os_usage {
    uint64_t cpu_ns, faults; /* of all threads; faults that needed no reading from a disk */
};
void hak_os_usage(struct hak_os_usage *out);
/* Resident memory of the process, from /proc; 0 where that cannot be read. */
uint64_t hak_os_resident_bytes(void);

/* --- small files, for policies: whole, without a descriptor that stays open --- */

/* Reads up to `size` bytes; *got says how many. Returns 0 or an errno. */
int hak_os_read_file(const char *path, char *buffer, size_t size, size_t *got);
/* Writes a file of this name, at once: a reader finds the old one or the new one. A symbolic link
 * of this name is replaced, not what it leads to. */
int hak_os_write_file(const char *path, const char *text, size_t bytes);

/* --- for the hardened build only (guard_linux.c, operators_linux.c, random.c) --- */

/* Makes pages inaccessible, or accessible again with what they had. Returns 0 or an errno. */
int hak_os_protect(void *at, size_t bytes, bool accessible);
/* hak_os_map with an inaccessible page before and behind, as far as the system grants these. */
int hak_os_map_guarded(size_t bytes, void **out);
/* True if a loaded library seems to have C++ operators new and delete of its own, hidden from all
 * others: it uses C++ functions of other libraries and libc's free, but nobody's operators and no
 * C++ runtime. Takes a lock of the loader's. */
bool hak_os_has_hidden_operators(void);
/* A number from 0 to n - 1, n > 0, that cannot be foreseen from those before it. */
uint32_t hak_os_random_below(uint32_t n);
/* Puts them into an order that cannot be foreseen. */
void hak_os_shuffle(void **things, uint32_t count);
/* In the child of a fork: the parent's numbers are not used again. */
void hak_os_random_forget(void);

/* --- the rest --- */

/* That the calling thread may run on, or one that has called this before; 1 at least. A system
 * call. */
unsigned hak_os_processors(void);
void hak_os_sleep_ns(uint64_t ns);
/* The same, as long as the word is this and nobody wakes it; may end earlier. hak_os_wake wakes one
 * that sleeps. */
void hak_os_sleep_while(_Atomic(uint32_t) *word, uint32_t is, uint64_t ns);
void hak_os_wake(_Atomic(uint32_t) *word);
uint64_t hak_os_now_ns(void); /* monotonic, milliseconds of resolution are enough */
uint64_t hak_os_random(void);
/* Keeps a duplicate of stderr for what is written from now on: many programs close theirs before
 * the last destructor runs. Only for a process that has asked for a report at its end. Once: what
 * is stderr then is what is written to, and nothing if there is none. */
void hak_os_keep_stderr(void);
/* Writes all of it to stderr as far as that is possible, and to no other file. */
void hak_os_write_stderr(const char *text, size_t bytes);
/* Ends the process with SIGABRT after "hakmem: " and the text and a newline on stderr. */
_Noreturn void hak_os_die(const char *text);
