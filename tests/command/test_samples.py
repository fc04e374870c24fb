# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem samples` and `hakmem ask`: the heap profile of a process and of its core file, and switching it from outside."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import unittest
from pathlib import Path

import support
from support import CommandCase

# Holds 2000 blocks of 1000 bytes and 10 of 200,000; then pauses.
HOLD = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *held[2010];
int main(void)
{
    for (int i = 0; i < 2010; i++)
        memset(held[i] = malloc(i < 2000 ? 1000 : 200000), 1, 1000);
    write(1, "x", 1);
    pause();
}
"""

# Turns two blocks of one size over, for ever: once it has them no slow path is ever needed again. With a second
# argument it takes calloc, and waits for a byte before each five million rounds.
ROUND = """
#include <stdlib.h>
#include <unistd.h>
static void *volatile a, *volatile b;
int main(int argc, char **argv)
{
    char byte;
    size_t size = strtoul(argv[1], 0, 10);
    for (int i = 0; i < 1000; i++) {
        a = malloc(size), b = malloc(size);
        free(a), free(b);
    }
    write(1, "x", 1);
    while (argc > 2 ? read(0, &byte, 1) == 1 : 1)
        for (int i = 0; i < 5000000; i++) {
            a = argc > 2 ? calloc(1, size) : malloc(size), b = aligned_alloc(16, size);
            free(a), free(b);
        }
}
"""

# Runs a program, each of whose mappings takes a second once it has written something.
SLOW = """
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    int status, written = 0;
    do {
        struct __ptrace_syscall_info info = {0};
        ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_write && written++ == 0)
            dprintf(1, "%d ", (int)child);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_mmap && written > 0)
            sleep(1);
        ptrace(PTRACE_SYSCALL, child, 0, 0);
        waitpid(child, &status, 0);
    } while (!WIFEXITED(status) && !WIFSIGNALED(status));
}
"""


class SamplesCase(CommandCase):
    """Programs under the library."""

    def setUp(self) -> None:
        if not self.real_library:
            self.skipTest("needs the library: TEST_HAKMEM_LIBRARY")

    def running(self, *words: str | Path, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A program that has printed its x; killed when the test ends."""
        full = support.environment() | {"LD_PRELOAD": str(self.library), "HAKMEM_PROF_FILE": "/dev/null"} | (env or {})
        process = subprocess.Popen([str(w) for w in words], env=full, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(os.read(process.stdout.fileno(), 1), b"x")
        return process

    def samples(self, source: int | Path) -> str:
        """What `hakmem samples` prints."""
        done = self.hakmem("samples", str(source))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("hakmem heap profile 1\n"))
        self.assertTrue(done.stdout.endswith("\nend\n"))
        return done.stdout

    @staticmethod
    def sites(text: str) -> list[list[float]]:
        """The six figures of each site."""
        return [[float(w) for w in line.split()[1:7]] for line in text.splitlines() if line.startswith("site ")]


class TestSamples(SamplesCase):
    """`hakmem samples`."""

    @unittest.skipIf(shutil.which("gcore") is None, "gdb is not installed")
    def test_a_core_has_what_the_process_has(self) -> None:
        program = self.compile("hold", HOLD)
        process = self.running(program, env={"HAKMEM_PROF": "1", "HAKMEM_PROF_SAMPLE_BYTES": "4096"})
        live = self.samples(process.pid)
        done = subprocess.run(["gcore", "-o", str(self.folder / "core"), str(process.pid)], capture_output=True, text=True,
                              check=False)
        core = self.folder / f"core.{process.pid}"
        if not core.exists():
            self.skipTest(f"gcore: {done.stderr[-200:]}")
        process.kill()
        process.wait()
        dead = self.samples(core)
        lines = [[line for line in text.splitlines() if re.match("site|period_bytes|sampling|pid|columns", line)]
                 for text in (live, dead)]
        self.assertEqual(*lines)
        sites = self.sites(dead)
        self.assertAlmostEqual(sum(site[1] for site in sites), 2000 * 1024 + 10 * 262144, delta=400000)
        self.assertIn(f" {program}\n", dead)

    @unittest.skipIf(shutil.which("gcore") is None, "gdb is not installed")
    def test_a_core_without_a_profile(self) -> None:
        process = self.running(self.compile("hold", HOLD))
        subprocess.run(["gcore", "-o", str(self.folder / "plain"), str(process.pid)], capture_output=True, check=False)
        core = self.folder / f"plain.{process.pid}"
        if not core.exists():
            self.skipTest("gcore wrote none")
        for source in (str(core), str(process.pid)):
            done = self.hakmem("samples", source)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, f"^hakmem: samples: {source}: it has no heap profile\nhakmem: hint: .*HAKMEM_PROF=1")
            self.assertEqual("prof start" in done.stderr, source == str(process.pid))  # nobody can ask a core

    def test_hardened(self) -> None:
        """It has no profile, whatever is in its environment."""
        library = Path(os.environ["TEST_HAKMEM_LIBRARY"]).with_name("libhakmem-hardened.so")
        if not library.exists():
            self.skipTest("no hardened library")
        process = self.running(self.compile("hold", HOLD), env={"LD_PRELOAD": str(library)})
        done = self.hakmem("samples", str(process.pid))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "it has the hardened library, which has no heap profile\n.*hint: .*libhakmem.so")

    def test_refusals(self) -> None:
        for words, status, message in (
            ((), 2, "one process or core file"),
            (("--nonsense",), 2, "unknown option '--nonsense'"),
            (("2000000000",), 1, "^hakmem: samples: there is no process 2000000000"),
            (("/nonexistent",), 1, "^hakmem: samples: /nonexistent cannot be read: No such file"),
            ((str(self.write("text", "nothing\n")),), 1, "is not a core file"),
        ):
            done = self.hakmem("samples", *words)
            self.assertEqual((done.returncode, done.stdout), (status, ""))
            self.assertRegex(done.stderr, message)


class TestAsk(SamplesCase):
    """`hakmem ask PID prof ...`."""

    def ask(self, process: subprocess.Popen[bytes], *words: str, wait: int = 30, status: int = 0) -> str:
        done = self.hakmem("ask", "--wait", str(wait), str(process.pid), "prof", *words)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        return done.stderr

    def allocated(self, process: subprocess.Popen[bytes]) -> float:
        """Samples since the start."""
        return sum(site[5] for site in self.sites(self.samples(process.pid)))

    def wait_for_samples(self, process: subprocess.Popen[bytes], more_than: float) -> float:
        """Until there are more."""
        for _ in range(600):
            now = self.allocated(process)
            if now > more_than:
                return now
            time.sleep(0.05)
        self.fail(f"{now} samples, and no more come")

    def test_a_process_that_keeps_to_its_fast_paths(self) -> None:
        program = self.compile("round", ROUND)
        for words in (("48",), ("5008",), ("48", "calloc"), ("5008", "calloc")):
            process = self.running(program, *words)
            process.stdin.write(b"x" * 1000)
            process.stdin.flush()
            self.ask(process, "start", "65536")
            samples = self.wait_for_samples(process, 0)
            self.ask(process, "stop")
            samples = self.allocated(process)
            time.sleep(0.2)
            self.assertEqual(self.allocated(process), samples)
            self.ask(process, "start")
            self.wait_for_samples(process, samples)
            self.assertRegex(self.ask(process, "start", "1000", status=1), "one sample in 65536 bytes, which holds")

    def test_a_process_that_allocates_nothing(self) -> None:
        process = self.running(self.compile("round", ROUND), "48", "wait")
        said = self.ask(process, "start", "65536", wait=1, status=1)
        self.assertRegex(said, rf"^hakmem: ask: {process.pid}: it has allocated nothing since; the request stays")
        process.stdin.write(b"x")
        process.stdin.flush()
        for _ in range(600):  # until it has begun
            if self.hakmem("samples", str(process.pid)).returncode == 0:
                break
            time.sleep(0.05)
        self.wait_for_samples(process, 0)

    def test_a_process_that_is_kept_waiting_while_it_begins(self) -> None:
        """It has taken the request long before it samples."""
        slow, program = self.compile("slow", SLOW), self.compile("round", ROUND)
        process = subprocess.Popen([slow, program, "48"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=support.environment() | {"LD_PRELOAD": str(self.library)})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        said = b""
        while not said.endswith(b"x"):
            part = os.read(process.stdout.fileno(), 16)
            self.assertNotEqual(part, b"")
            said += part
        done = self.hakmem("ask", "--wait=50", said.split()[0].decode(), "prof", "start")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_refusals(self) -> None:
        process = self.running(self.compile("round", ROUND), "48", "wait")
        self.assertRegex(self.ask(process, "dump", status=1), "it has never sampled its heap")
        for words, message in (((), "the number of a process"), (("--wait=x", "1"), "whole seconds"),
                               (("--wait",), "whole seconds"),
                               (("x1",), "'x1' is not the number of a process"), (("--wat", "1"), "did you mean '--wait'"),
                               (("1", "prof", "begin"), r"start \[BYTES\], stop or dump is wanted, not 'begin'"),
                               (("1", "prof", "stop", "5"), "not 'stop 5'"),
                               (("1", "prof", "start", "many"), "no number of bytes")):
            done = self.hakmem("ask", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, message)


if __name__ == "__main__":
    support.main()
