# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem record` writes all that a program allocates; `hakmem replay` repeats it and counts the same."""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import unittest
from pathlib import Path
from typing import Any

import support
from support import SANITIZED, CommandCase

HEADER_BYTES = 4096
PR_SET_THP_DISABLE = 41

# What each mode does is counted by the tests, so nothing here allocates without being asked.
PROGRAM = """
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile int times, forks;
static sem_t in_an_event, forked;
static pthread_barrier_t all_begun;
/* The recorder asks for the time now and then, in the midst of an event: a signal comes then, or a fork. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (times != 0 && clock == CLOCK_MONOTONIC) {
        times--;
        raise(SIGUSR1);
    }
    if (forks != 0 && clock == CLOCK_MONOTONIC) {
        sem_post(&in_an_event);
        sem_wait(&forked);
    }
    return (int)syscall(SYS_clock_gettime, clock, time);
}
static void *volatile kept[100000];
static void *volatile sink;
static void *release(void *count)
{
    for (size_t i = 0; i < (size_t)count; i++)
        free(kept[i]);
    return NULL;
}
static void *release_one(void *block)
{
    free(block);
    return NULL;
}
static void *allocate_one(void *argument)
{
    return malloc((size_t)argument);
}
static void *allocate_for_ever(void *argument)
{
    for (;;)
        free(malloc((size_t)argument));
}
static void *allocate_when_all_do(void *argument)
{
    free(malloc((size_t)argument));
    pthread_barrier_wait(&all_begun);
    return allocate_for_ever(argument);
}
static void handle(int number)
{
    (void)number;
    free(malloc(32));
}
static void handle_and_exit(int number)
{
    (void)number;
    free(malloc(32));
    exit(5);
}
static void allocate(int count, size_t size)
{
    for (int i = 0; i < count; i++)
        memset(kept[i] = malloc(size), 1, size);
}
int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "kinds") == 0) {
        void *p = NULL;
        for (int i = 0; i < 1000; i++) {
            sink = malloc(100);
            free(sink);
            sink = calloc(10, 10);
            free(sink);
            sink = aligned_alloc(64, 640);
            free(sink);
            if (posix_memalign(&p, 4096, 10) != 0)
                return 1;
            free(p);
            sink = realloc(NULL, 50);
            sink = realloc(sink, 5000);
            sink = reallocarray(sink, 100, 100);
            free(sink);
        }
        if (realloc(sink = malloc(10), (size_t)-1 / 2) != NULL)
            return 2;
        free(sink);
        free(NULL);
        errno = 0;
        return malloc((size_t)-1 / 2) == NULL && errno == ENOMEM ? 0 : 3;
    }
    if (strcmp(mode, "handed") == 0) {
        pthread_t thread;
        allocate(20000, 100);
        pthread_create(&thread, NULL, release, (void *)20000);
        pthread_join(thread, NULL);
    } else if (strcmp(mode, "many") == 0) {
        for (int i = 0; i < 200; i++) {
            pthread_t thread;
            allocate(8000, 16);
            pthread_create(&thread, NULL, release, (void *)8000);
            pthread_join(thread, NULL);
        }
    } else if (strcmp(mode, "brief") == 0) {
        for (int i = 0; i < 2000; i++) {
            pthread_t thread;
            pthread_create(&thread, NULL, release_one, malloc(50));
            pthread_join(thread, NULL);
        }
    } else if (strcmp(mode, "given") == 0) {
        for (int i = 0; i < 50; i++) {
            pthread_t thread;
            void *block;
            pthread_create(&thread, NULL, allocate_one, (void *)100);
            pthread_join(thread, &block);
            free(block);
        }
    } else if (strcmp(mode, "wait") == 0) {
        allocate(100000, 200);
        write(1, "x", 1);
        pause();
    } else if (strcmp(mode, "fork") == 0) {
        allocate(1000, 32);
        if (fork() == 0) {
            allocate(50000, 32);
            _exit(0);
        }
        wait(NULL);
        allocate(1000, 32);
    } else if (strcmp(mode, "forks") == 0) {
        sem_init(&in_an_event, 0, 0);
        sem_init(&forked, 0, 0);
        pthread_barrier_init(&all_begun, NULL, 5);
        for (size_t i = 1; i <= 4; i++) {
            pthread_t thread;
            pthread_create(&thread, NULL, allocate_when_all_do, (void *)(i * 100));
        }
        forks = 1;
        pthread_barrier_wait(&all_begun);
        for (int i = 0; i < 500; i++) {
            int status = 1;
            sem_wait(&in_an_event);
            pid_t child = fork();
            sem_post(&forked);
            if (child == 0) {
                allocate(10, 32);
                _exit(0);
            }
            if (waitpid(child, &status, 0) != child || status != 0)
                return 1;
        }
        _exit(0);
    } else if (strcmp(mode, "handler") == 0) {
        signal(SIGUSR1, handle);
        times = 3;
        allocate(10000, 32);
        return times;
    } else if (strcmp(mode, "exits") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, allocate_for_ever, (void *)100);
        signal(SIGUSR1, handle_and_exit);
        times = 1;
        allocate(100000, 32);
        for (;;)
            pause();
    } else if (strcmp(mode, "child") == 0) {
        if (fork() == 0)
            execl(argv[0], argv[0], "kinds", (char *)0);
        wait(NULL);
    } else if (strcmp(mode, "away") == 0) {
        return chdir("/") == 0 ? (allocate(100000, 100), 7) : 1;
    } else if (strcmp(mode, "big") == 0) {
        allocate(10, 1 << 20);
    } else if (strcmp(mode, "large") == 0) {
        sink = malloc((size_t)5 << 30);
        free(sink);
    }
    return 0;
}
"""

# The file is cut to nothing once so many bytes of it have been read.
SHORTER = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t read(int fd, void *bytes, size_t size)
{
    struct stat file, this;
    if (stat(getenv("TEST_FILE"), &file) != 0 || fstat(fd, &this) != 0 || file.st_ino != this.st_ino)
        return syscall(SYS_read, fd, bytes, size);
    size_t length = strtoul(getenv("TEST_LENGTH"), NULL, 10);
    ssize_t done = syscall(SYS_read, fd, bytes, size < length ? size : length);
    return truncate(getenv("TEST_FILE"), 0) == 0 ? done : -1;
}
"""


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])


def write_random_trace(path: Path, chance: random.Random) -> int:
    """Threads that begin at any time and release each other's blocks; returns how many releases."""
    threads, begun, at, frees = chance.randrange(1, 40), 1, 0, 0
    late = chance.choice((0.01, 0.2))
    data, live = bytearray(b"hakmem-trace 1\n".ljust(HEADER_BYTES, b"\0")), [0]
    for i in range(1, chance.randrange(2, 3000)):
        if i > 1 and chance.random() < 0.3:
            thread = begun if begun < threads and chance.random() < late else chance.randrange(begun)
            begun = max(begun, thread + 1)
            data += b"\x07" + varint(thread)
        if chance.random() < 0.5 and live[1:]:
            block = live.pop(chance.choice((1, -1, chance.randrange(1, len(live)))))
            data += b"\x04"
            frees += 1
        else:
            block = i
            live.append(block)
            data += bytes([1 | 16 << 3]) + varint(0)  # 16 bytes
        data += varint((block - at) * 2 if block >= at else (at - block) * 2 - 1)
        at = block
    path.write_bytes(data)
    return frees


class ReplayCase(CommandCase):
    """The program and the recording library beside the command."""

    program: Path

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        shutil.copy(os.environ["TEST_HAKMEM_RECORD"], cls.folder / "libhakmem-record.so")
        cls.program = cls.compile("program", PROGRAM, "-pthread", "-rdynamic")

    def record(self, mode: str, status: int = 0) -> Path:
        """The trace of one mode of the program."""
        trace = self.folder / f"{mode}.trace"
        done = self.hakmem("record", "-o", trace, "--", self.program, mode)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (status, "", ""))
        self.assertTrue(trace.exists())
        return trace

    def replay(self, trace: Path, *options: str, only: str = "libc") -> Any:
        """What the replay says of itself as JSON."""
        done = self.hakmem("replay", "--json", "--rounds", "1", "--only", only, *options, trace)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def refused(self, status: int, reason: str, *arguments: str | Path) -> None:
        """The command ends with this status and one line on stderr."""
        done = self.hakmem(*arguments)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, rf"^hakmem: {reason}")


class Record(ReplayCase):
    """What is recorded, and of which processes."""

    def test_every_call_is_counted(self) -> None:
        trace = self.replay(self.record("kinds"))["trace"]
        self.assertEqual((trace["allocations"], trace["frees"], trace["reallocs"]), (5001, 5001, 2000))
        self.assertEqual((trace["failed_allocations"], trace["threads"], trace["is_whole"]), (2, 1, True))
        self.assertEqual((trace["most_live_bytes"], trace["end_live_bytes"]), (10000, 0))
        self.assertEqual((trace["unknown_frees"], trace["unseen_frees"]), (0, 0))
        self.assertEqual(trace["command"], [str(self.program), "kinds"])

    def test_a_block_is_released_by_the_thread_that_released_it(self) -> None:
        trace = self.replay(self.record("handed"))["trace"]
        self.assertEqual(trace["threads"], 2)
        self.assertGreaterEqual(trace["allocations"], 20000)
        self.assertGreaterEqual(trace["frees"], 20000)
        self.assertGreaterEqual(trace["most_live_bytes"], 2_000_000)
        self.assertLess(trace["end_live_bytes"], 10000)

    def test_the_file_grows_and_is_cut_to_its_length(self) -> None:
        path = self.record("many")
        trace = self.replay(path)["trace"]
        self.assertGreaterEqual(trace["allocations"], 1_600_000)
        self.assertEqual((trace["threads"], trace["unseen_frees"]), (201, 0))
        self.assertGreater(path.stat().st_size, 8 << 20)
        self.assertLess(path.stat().st_size, 12 * trace["events"])

    def test_a_program_that_is_killed_leaves_what_it_did(self) -> None:
        path = self.folder / "killed.trace"
        process = self.start("record", "-o", path, "--", self.program, "wait")
        assert process.stdout is not None
        self.assertEqual(process.stdout.read(1), "x")
        process.kill()
        process.communicate()
        trace = self.replay(path)["trace"]
        self.assertFalse(trace["is_whole"])
        self.assertGreaterEqual(trace["allocations"], 100_000)

    def test_a_signal_handler_may_come_in_the_midst_of_an_event(self) -> None:
        trace = self.replay(self.record("handler"))["trace"]
        self.assertTrue(10000 <= trace["allocations"] < 10100, trace["allocations"])
        self.assertTrue(trace["is_whole"])

    def test_a_signal_handler_may_end_the_program_in_the_midst_of_an_event(self) -> None:
        trace = self.replay(self.record("exits", status=5))["trace"]
        self.assertFalse(trace["is_whole"])
        self.assertGreater(trace["allocations"], 100)

    def test_a_forked_child_is_not_recorded(self) -> None:
        trace = self.replay(self.record("fork"))["trace"]
        self.assertTrue(2000 <= trace["allocations"] < 2100, trace["allocations"])

    def test_children_of_a_program_whose_threads_allocate(self) -> None:
        """They find the recorder's lock as it was: taken."""
        self.assertEqual(self.replay(self.record("forks"), "--touch", "none")["trace"]["threads"], 5)

    def test_a_program_that_changes_its_directory(self) -> None:
        path = self.folder / "away.trace"
        done = self.hakmem("record", f"--output={path.name}", self.program, "away", cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (7, ""))
        self.assertGreaterEqual(self.replay(path)["trace"]["allocations"], 100_000)

    def test_other_programs_have_files_of_their_own(self) -> None:
        folder = self.folder / "each"
        folder.mkdir()
        done = self.hakmem("record", "-o", folder / "run.%p.trace", "--", self.program, "child")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        commands = [self.replay(path)["trace"]["command"][1] for path in folder.iterdir()
                    if b"kinds" in path.read_bytes()[:HEADER_BYTES]]
        self.assertEqual((commands, len(list(folder.iterdir()))), (["kinds"], 2))

    def test_without_a_pattern_only_the_command_is_recorded(self) -> None:
        path = self.record("child")
        self.assertIn(b"child", path.read_bytes()[:HEADER_BYTES])

    def test_a_program_that_is_linked_with_another_allocator(self) -> None:
        """It is that one's calls that are recorded; a sanitizer has to be the first and is refused."""
        source = support.STAND_IN.replace("hakmem_version", "other_version")
        for name in ("libjemalloc.so.2", "libasan.so.8"):
            self.compile(name, source, "-shared", "-fPIC", f"-Wl,-soname,{name}")
            self.compile(f"with-{name}", PROGRAM, "-pthread", "-Wl,--no-as-needed", f"-L{self.folder}", f"-l:{name}",
                         f"-Wl,-rpath,{self.folder}")
        path = self.folder / "linked.trace"
        done = self.hakmem("record", "-o", path, "--", self.folder / "with-libjemalloc.so.2", "kinds")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        trace = self.replay(path)["trace"]
        self.assertEqual((trace["allocations"], trace["frees"], trace["unknown_frees"]), (5001, 5001, 0))
        self.refused(125, "cannot take over .*: it is linked with another allocator, AddressSanitizer", "record", "-o", path,
                     self.folder / "with-libasan.so.8", "kinds")

    def test_what_stands_in_the_way(self) -> None:
        self.refused(125, "record: no command given", "record")
        self.refused(125, "record: unknown option '--ouput'; did you mean '--output'", "record", "--ouput", "x")
        self.refused(125, "record: --output needs the name", "record", "-o")
        self.refused(125, "record: /nowhere/x cannot be written", "record", "-o", "/nowhere/x", "true")
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for bad, why in ((self.folder, "it is a directory"), ("/dev/null", "it is not a regular file"),
                         ("/dev/full", "it is not a regular file"), (pipe, "it is not a regular file"),
                         (f"{self.folder}/new/", "No such file or directory"), ("x" * 300, "File name too long"),
                         (f"{self.folder}/" + "x" * 252 + "%p", "File name too long")):
            self.refused(125, f"record: {bad} cannot be written: {why}", "record", "-o", bad, "true")
        self.refused(127, "'no-such-program' was not found", "record", "no-such-program")
        (self.folder / "libhakmem-record.so").rename(self.folder / "aside")
        self.addCleanup((self.folder / "aside").rename, self.folder / "libhakmem-record.so")
        self.refused(125, "libhakmem-record.so was not found", "record", "true")

    def test_a_file_that_cannot_grow_ends_the_recording_alone(self) -> None:
        limited = ["sh", "-c", f"ulimit -f 12000; exec {self.command} record -o {self.folder}/short.trace -- "
                               f"{self.program} many"]
        done = subprocess.run(limited, env=support.environment(), capture_output=True, text=True, timeout=60)
        if done.returncode == -signal.SIGXFSZ:
            self.fail("the program was killed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"^hakmem: the recording ends here, as \S+short.trace cannot grow: ")
        self.assertFalse(self.replay(self.folder / "short.trace")["trace"]["is_whole"])


class Replay(ReplayCase):
    """What is repeated."""

    def test_memory_is_what_is_live_at_least(self) -> None:
        for window in ("0", "1000", "1000000"):
            told = self.replay(self.record("handed"), "--window", window)
            (run,) = told["runs"]
            self.assertTrue(run["is_done"])
            self.assertGreaterEqual(run["most_live_bytes"], 2_000_000)
            self.assertEqual(len(run["sample_bytes"]), len(told["sample_live_bytes"]))
            self.assertGreater(run["page_faults"], 400)

    def test_hundreds_of_threads(self) -> None:
        told = self.replay(self.record("many"), "--touch", "none")
        self.assertTrue(told["runs"][0]["is_done"])

    def test_blocks_of_threads_that_begin_later(self) -> None:
        """Whoever waits for such a block has to begin the thread that allocates it."""
        for window in ("0", "1", "1000", "1000000"):
            told = self.replay(self.record("given"), "--window", window)
            self.assertTrue(told["runs"][0]["is_done"])
            self.assertEqual(told["trace"]["threads"], 51)

    def test_threads_that_hand_blocks_on_at_random(self) -> None:
        for seed in range(60):
            chance = random.Random(seed)
            trace = self.folder / "random.trace"
            frees = write_random_trace(trace, chance)
            window = chance.choice(("0", "1", "7", "50", "1000", "100000"))
            with self.subTest(seed=seed, window=window):
                told = self.replay(trace, "--window", window, "--touch", "none")
                self.assertTrue(told["runs"][0]["is_done"])
                self.assertEqual(told["trace"]["frees"], frees)

    @unittest.skipIf(SANITIZED, "a sanitizer's threads leave something")
    def test_threads_that_have_ended_leave_nothing(self) -> None:
        told = self.replay(self.record("brief"), "--window=0")
        self.assertEqual(told["trace"]["threads"], 2001)
        self.assertLess(told["runs"][0]["most_bytes"], 2 << 20)

    def test_blocks_of_gigabytes(self) -> None:
        """Whose sizes do not fit into a word of the plan; there is memory for them as nothing is written."""
        told = self.replay(self.record("large"), "--touch", "none")
        self.assertEqual(told["trace"]["most_live_bytes"] >> 30, 5)
        self.assertLess(told["runs"][0]["most_bytes"], 100 << 20)

    def test_touching_decides_what_is_resident(self) -> None:
        libc = ctypes.CDLL(None)
        self.assertEqual(libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0)  # also for what it starts
        self.addCleanup(libc.prctl, PR_SET_THP_DISABLE, 0, 0, 0, 0)
        path = self.record("big")
        runs = {touch: self.replay(path, "--touch", touch)["runs"][0] for touch in ("none", "pages", "all")}
        self.assertGreater(runs["all"]["most_bytes"], 10 << 20)
        self.assertLess(abs(runs["all"]["most_bytes"] - runs["pages"]["most_bytes"]), 1 << 20)
        self.assertLess(runs["none"]["most_bytes"], 5 << 20)
        if not SANITIZED:  # whose malloc keeps what was freed
            self.assertLess(runs["all"]["freed_bytes"], runs["all"]["end_bytes"] - (9 << 20))

    @unittest.skipIf(SANITIZED, "the command itself would have the sanitizer's malloc and another")
    def test_a_table_of_allocators(self) -> None:
        if not self.real_library:
            self.skipTest("needs the library: TEST_HAKMEM_LIBRARY")
        done = self.hakmem("replay", "--rounds=2", "--lib", f"second={self.library}", self.record("handed"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in ("hakmem", "libc", "second"):
            self.assertRegex(done.stdout, rf"(?m)^{name} +[\d.]+ ms +[\d.]+ +[\d.]+ MiB +[\d.]+ +[\d.]+ [KM]iB +[\d.]+ [KM]iB +\d+$")
        told = self.replay(self.record("handed"), only="hakmem")
        self.assertEqual([run["allocator"] for run in told["runs"]], ["hakmem"])

    def test_a_library_that_is_not_taken_is_told(self) -> None:
        other = self.compile("libother.so", "int other;", "-shared", "-fPIC")
        done = self.hakmem("replay", "--only=other", "--lib", f"other={other}", self.record("kinds"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("did not take the library", done.stdout)

    @unittest.skipIf(SANITIZED, "the command itself would have the sanitizer's malloc and another")
    def test_an_allocator_that_fails_is_told(self) -> None:
        crash = self.compile("libcrash.so", support.STAND_IN.replace(
            "void free(void *p) { ", "void free(void *p) { static int n; if (++n == 900) __builtin_trap(); "),
            "-shared", "-fPIC")
        done = self.hakmem("replay", "--only=crash", "--lib", f"crash={crash}", self.record("kinds"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"crash +ended by signal \d+")

    @support.needs_root
    @unittest.skipIf(SANITIZED, "sanitizers read /proc")
    def test_without_proc(self) -> None:
        """Nothing but /proc tells what memory a run takes."""
        trace = self.record("kinds")
        try:
            done = self.hakmem("replay", "--only=libc", trace, preexec=lambda: support.other_proc(None))
        except subprocess.SubprocessError as error:
            self.skipTest(f"nothing can be mounted: {error}")
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertRegex(done.stderr, "^hakmem: replay: .* /proc is not mounted: mount -t proc")

    def test_bad_arguments(self) -> None:
        trace = self.record("kinds")
        self.refused(2, "replay: no trace given", "replay")
        self.refused(2, "replay: one trace at a time", "replay", trace, trace)
        self.refused(2, "replay: --rounds needs a number from 1 to 99, not '0'", "replay", "--rounds=0", trace)
        self.refused(2, "replay: --touch needs none, pages or all", "replay", "--touch", "some", trace)
        self.refused(2, "replay: --lib needs NAME=PATH", "replay", "--lib", "x.so", trace)
        self.refused(2, "replay: the library /no.so cannot be opened", "replay", "--lib", "x=/no.so", trace)
        self.refused(2, "replay: there are two allocators called 'libc'", "replay", "--lib",
                     f"libc={self.library}", "--only=libc", trace)
        for empty in ("", ","):
            self.refused(2, "replay: --only needs names", "replay", "--only", empty, trace)
        self.refused(2, "replay: --only names 'glibc'", "replay", "--only", "glibc", trace)
        self.refused(2, "replay: --rounds needs a value", "replay", trace, "--rounds")
        self.refused(2, "replay: unknown option '--round'; did you mean '--rounds'", "replay", "--round")


class Malformed(ReplayCase):
    """Files that are no traces, and traces that are damaged."""

    def given(self, content: bytes) -> tuple[int, str]:
        """Status and message for a file with this content."""
        path = self.folder / "given.trace"
        path.write_bytes(content)
        done = self.hakmem("replay", "--rounds=1", "--only=libc", "--touch=none", path)
        return done.returncode, done.stderr

    def test_each_is_told(self) -> None:
        whole = self.record("kinds").read_bytes()
        none = "hakmem: replay: " + str(self.folder / "given.trace") + ": "
        for content, reason in (
            (b"", "it is no trace of 'hakmem record'"),
            (b"#!/bin/sh\n" * 1000, "it is no trace of 'hakmem record'"),
            (whole[:1000], "it is cut off within its header"),
            (whole.replace(b"hakmem-trace 1", b"hakmem-trace 2", 1), "it is of another version"),
            (whole[:HEADER_BYTES], "it has no event"),
            (whole[:HEADER_BYTES] + b"\x01\x08", "it is cut off within an event"),
            (whole[:HEADER_BYTES] + b"\x06\x01\x08", "it has the end of a realloc without its beginning"),
            (whole[:HEADER_BYTES] + b"\x05\x08\x05\x08", "it has a realloc within another"),
            (whole[:HEADER_BYTES] + b"\x07\x05\x01\x01\x08", "its threads do not begin in the order"),
            (whole[:HEADER_BYTES] + b"\x01\x01\x00", "it has a block at address 0"),
            (whole[:HEADER_BYTES] + b"\x0c\x08", "it has an event that is not known"),
            (whole[:HEADER_BYTES] + b"\x01" + b"\xff" * 10 + b"\x01", "it has a number of more than 64 bits"),
            (whole[:HEADER_BYTES] + b"\x01" + b"\xff" * 8 + b"\x01\x08", "it has a block larger than an address space"),
            (whole[:HEADER_BYTES] + b"\x03\x01\x40\x08", "it has an alignment larger than an address space"),
        ):
            status, said = self.given(content)
            self.assertEqual(status, 125, said)
            self.assertIn(none + reason, said)

    def test_a_damaged_trace_is_refused_or_repeated(self) -> None:
        chance = random.Random(1)
        whole = self.record("kinds").read_bytes()[: HEADER_BYTES + 3000]
        ends = set()
        for _ in range(60):
            damaged = bytearray(whole)
            for _ in range(chance.randint(1, 8)):
                damaged[chance.randrange(HEADER_BYTES, len(damaged))] = chance.randrange(256)
            status, said = self.given(bytes(damaged))
            self.assertIn(status, (0, 1, 125), said)  # 1: what it asks for is too much
            ends.add(status)
        self.assertGreater(len(ends), 1)

    def test_a_trace_without_a_call_that_is_known(self) -> None:
        """It has the release of a block from before it alone: figures, and not "inf"."""
        path = self.folder / "one.trace"
        path.write_bytes(self.record("kinds").read_bytes()[:HEADER_BYTES] + b"\x04\x08")
        done = self.hakmem("replay", "--rounds=1", "--only=libc", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotRegex(done.stdout, "inf|nan")

    def test_a_file_that_gets_shorter_meanwhile(self) -> None:
        """Another recording begins in it: what was read of it is repeated, if no event is cut off."""
        path = self.folder / "shorter.trace"
        pair = b"\x01\x01\x08" + b"\x04\x00"
        whole = self.record("kinds").read_bytes()[:HEADER_BYTES] + pair * 1000
        library = self.compile("libshorter.so", SHORTER, "-shared", "-fPIC")
        for length, events in ((len(whole), 2000), (HEADER_BYTES + 500 * len(pair), 1000), (HEADER_BYTES + 501, None)):
            path.write_bytes(whole)
            done = self.hakmem("replay", "--json", "--rounds=1", "--only=libc", "--touch=none", path,
                               env={"LD_PRELOAD": str(library), "TEST_FILE": str(path), "TEST_LENGTH": str(length)})
            self.assertEqual(path.stat().st_size, 0)
            if events is not None:
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(json.loads(done.stdout)["trace"]["events"], events)
            else:
                self.assertEqual(done.returncode, 125)
                self.assertIn("it is cut off within an event", done.stderr)

    def test_not_a_file(self) -> None:
        self.refused(125, "replay: /nowhere cannot be read", "replay", "--only=libc", "/nowhere")
        self.refused(125, "replay: /tmp is not a regular file", "replay", "--only=libc", "/tmp")


if __name__ == "__main__":
    support.main()
