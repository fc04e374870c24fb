# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The heap profile of real processes, against what they are known to have allocated (program.c).

Estimates are checked within five standard deviations, so that one run in a million fails by chance.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import tempfile
import time
import unittest
from dataclasses import dataclass
from pathlib import Path

COMMAND = os.environ["TEST_HAKMEM_COMMAND"]
LIBRARY = os.environ["TEST_HAKMEM_LIBRARY"]
HARDENED = os.environ["TEST_HAKMEM_HARDENED"]
PROGRAM = os.environ["TEST_PROGRAM"]
STATIC = os.environ["TEST_PROGRAM_STATIC"]

PERIOD = 16384
SIGMAS = 5.0
SECONDS = 120

# Function: (blocks, bytes of a block as the allocator gives it out: 8,192 are not a size class).
KEPT = {"keep_small": (200_000, 112), "keep_medium": (3_000, 8448), "keep_large": (40, None)}


@dataclass
class Site:
    figures: list[float]
    functions: list[str]


class Profile:
    """A file of the library, with the functions of its addresses."""

    def __init__(self, text: str, program: str) -> None:
        self.text = text
        lines = text.splitlines()
        assert lines[0] == "hakmem heap profile 1" and lines[-1] == "end", text[:300] + text[-300:]
        self.head = dict(line.split(" ", 1) for line in lines[1:6])
        stacks = [line.split() for line in lines if line.startswith("site ")]
        addresses = sorted({int(word, 16) for stack in stacks for word in stack[7:]})
        names = self.names(addresses, program)
        self.sites = [
            Site([float(word) for word in stack[1:7]], [names.get(int(w, 16), "?") for w in stack[7:]])
            for stack in stacks
        ]

    def names(self, addresses: list[int], program: str) -> dict[int, str]:
        """Functions of the program itself."""
        bases = [line.split("-")[0] for line in self.text.splitlines() if line.endswith(program)]
        dynamic = b"\x03\x00" == Path(program).read_bytes()[16:18]
        base = min(int(b, 16) for b in bases) if dynamic else 0
        words = "".join(f"{address - base - 1:#x}\n" for address in addresses)
        command = ["addr2line", "-f", "-e", program]
        done = subprocess.run(command, input=words, capture_output=True, text=True, check=True)
        return dict(zip(addresses, done.stdout.splitlines()[::2], strict=True))

    def sums(self, function: str) -> list[float]:
        """The figures of all sites that go through a function."""
        found = [site.figures for site in self.sites if function in site.functions]
        return [sum(column) for column in zip(*found, strict=True)] if found else [0.0] * 6


class ProfileTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = Path(self.folder.name)

    def environment(self, library: str = LIBRARY, **options: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_"))}
        named = {f"HAKMEM_{name}": value for name, value in options.items()}
        return kept | named | ({"LD_PRELOAD": library} if library else {})

    def run_program(self, *words: str, library: str = LIBRARY, program: str = PROGRAM, **options: str) -> str:
        done = subprocess.run([program, *words], env=self.environment(library, **options), cwd=self.at,
                              capture_output=True, text=True, check=False, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def start_program(self, what: str, **options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([PROGRAM, what], env=self.environment(**options), cwd=self.at,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        assert process.stdout
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def hakmem(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([COMMAND, *words], env=self.environment(""), capture_output=True, text=True,
                              check=False, timeout=SECONDS)

    def assert_near(self, estimate: float, blocks: int, size: float, period: int, of_bytes: bool) -> None:
        p = -math.expm1(-size / period)
        sigma = math.sqrt(blocks * (1 - p) / p)
        unit = size if of_bytes else 1
        allowed = (SIGMAS * sigma + 0.01 * blocks + 1) * unit
        self.assertLessEqual(abs(estimate - blocks * unit), allowed, f"{estimate} of {blocks * unit}")

    def assert_is_known_heap(self, profile: Profile, period: int = PERIOD, times: int = 1) -> None:
        for function, (blocks, size) in KEPT.items():
            live, live_bytes, _, objects, _, samples = profile.sums(function)
            self.assertGreater(samples, 10, function)
            bytes_each = live_bytes / live
            if size:
                self.assertAlmostEqual(bytes_each, size, delta=0.005 * size)
            self.assert_near(live, blocks, bytes_each, period, of_bytes=False)
            self.assert_near(live_bytes, blocks, bytes_each, period, of_bytes=True)
            self.assert_near(objects, blocks * times, bytes_each, period, of_bytes=False)
        live, live_bytes, live_samples, objects, _, _ = profile.sums("come_and_go")
        self.assertEqual((live, live_bytes, live_samples), (0, 0, 0))
        self.assert_near(objects, 200_000, 112, period, of_bytes=False)

    def test_written_at_the_end(self) -> None:
        stderr = self.run_program("exit", PROF="1", PROF_SAMPLE_BYTES=str(PERIOD), PROF_FILE="a-%p.%n.prof")
        self.assertEqual(stderr, "")
        [path] = self.at.iterdir()
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        profile = Profile(path.read_text(), PROGRAM)
        self.assertEqual(path.name, f"a-{profile.head['pid']}.1.prof")
        self.assertEqual(profile.head["period_bytes"], str(PERIOD))
        self.assert_is_known_heap(profile)
        stack = next(site.functions for site in profile.sites if "keep_small" in site.functions)
        wanted = ["keep_small", "allocate_all", "thread_main"]
        self.assertEqual([name for name in stack if name != "?" and name != "??"][:3], wanted)

    def test_static_program(self) -> None:
        path = self.at / "s.prof"
        self.run_program("exit", library="", program=STATIC, PROF="1", PROF_SAMPLE_BYTES=str(PERIOD),
                         PROF_FILE=str(path))
        self.assert_is_known_heap(Profile(path.read_text(), STATIC))

    def test_nothing_unless_asked(self) -> None:
        self.assertEqual(self.run_program("exit", PROF_SAMPLE_BYTES="4096", PROF_FILE="x"), "")
        self.assertEqual(list(self.at.iterdir()), [])

    def test_child_of_fork_writes_its_own(self) -> None:
        self.run_program("fork", PROF="1", PROF_SAMPLE_BYTES=str(PERIOD))
        profiles = [Profile(path.read_text(), PROGRAM) for path in sorted(self.at.glob("hakmem-*.1.prof"))]
        self.assertEqual(len(profiles), 2)
        by_objects = sorted(profiles, key=lambda profile: profile.sums("come_and_go")[3])
        self.assert_is_known_heap(by_objects[0])
        self.assert_near(by_objects[1].sums("come_and_go")[3], 400_000, 112, PERIOD, of_bytes=False)
        self.assertEqual(by_objects[0].sums("keep_small"), by_objects[1].sums("keep_small"))

    def test_leaks(self) -> None:
        stderr = self.run_program("exit", PROF_LEAKS="1", PROF_SAMPLE_BYTES=str(PERIOD))
        self.assertEqual(list(self.at.iterdir()), [])
        self.assertTrue(all(line.startswith("hakmem: ") for line in stderr.splitlines()), stderr)
        first = re.match(r"hakmem: not freed: (\d+) bytes in (\d+) blocks\n"
                         r"hakmem: estimated from samples: (\d+) bytes in ([\d.]+) blocks from (\d+) call stacks; "
                         r"sampled every 16384 bytes\n", stderr)
        assert first, stderr
        frames = re.findall(r"samples: \d+\) from\nhakmem:     program\+(0x[0-9a-f]+)\n", stderr)
        words = "".join(f"{int(frame, 16) - 1:#x}\n" for frame in frames)
        done = subprocess.run(["addr2line", "-f", "-e", PROGRAM], input=words, capture_output=True, text=True,
                              check=True)
        self.assertLessEqual(set(KEPT), set(done.stdout.splitlines()[::2]), stderr)

    def test_every_block_is_a_leak_at_period_one(self) -> None:
        source = "int main(void) { for (int i = 0; i < 7; i++) *(char *volatile *)&(char *){malloc(100 * i + 60)}; }"
        program = self.at / "seven"
        subprocess.run(["cc", "-O0", "-include", "stdlib.h", "-x", "c", "-", "-o", str(program)], input=source,
                       text=True, check=True)
        stderr = self.run_program(program=str(program), PROF_LEAKS="1", PROF_SAMPLE_BYTES="1")
        self.assertRegex(stderr, r"7\.000 blocks \(samples: 7\)")

    def test_what_is_not_freed_is_counted_whatever_the_samples(self) -> None:
        """The program's 203,041 blocks are there even if the period is so long that none is a sample."""
        stderr = self.run_program("exit", PROF_LEAKS="1", PROF_SAMPLE_BYTES=str(1 << 40))
        found = re.match(r"hakmem: not freed: (\d+) bytes in (\d+) blocks\n", stderr)
        assert found, stderr
        expected = sum(blocks for blocks, _ in KEPT.values())
        self.assertTrue(expected <= int(found[2]) < expected + 100, stderr)

    def test_a_profile_that_cannot_be_written_is_named(self) -> None:
        stderr = self.run_program("exit", PROF="1", PROF_FILE="/proc/none/%p.%n")
        self.assertRegex(stderr, r"^hakmem: HAKMEM_PROF: the profile could not be written to /proc/none/\d+\.1 "
                                 r"\(errno 2\)\n$")

    def test_api(self) -> None:
        path = self.at / "api.prof"
        self.run_program("api", str(path))
        profile = Profile(path.read_text(), PROGRAM)
        self.assertEqual(profile.head["sampling"], "0")
        self.assert_is_known_heap(profile, 65536)

    def test_of_a_running_process(self) -> None:
        process = self.start_program("idle", PROF="1", PROF_SAMPLE_BYTES=str(PERIOD))
        done = self.hakmem("samples", str(process.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        profile = Profile(done.stdout, PROGRAM)
        self.assertEqual(profile.head["pid"], str(process.pid))
        self.assert_is_known_heap(profile)

    def test_switched_from_outside(self) -> None:
        process = self.start_program("wait", PROF_FILE=str(self.at / "asked.prof"))
        pid = str(process.pid)
        done = self.hakmem("samples", pid)
        self.assertEqual(done.returncode, 1)
        self.assertIn("it has no heap profile", done.stderr)
        self.assertEqual(self.hakmem("ask", pid, "prof", "start", "64k").returncode, 0)
        samples = 0.0
        deadline = time.monotonic() + SECONDS
        while samples < 100 and time.monotonic() < deadline:
            time.sleep(0.1)
            profile = Profile(self.hakmem("samples", pid).stdout, PROGRAM)
            samples = profile.sums("keep_small")[5]
        self.assertGreaterEqual(samples, 100)
        self.assertEqual(profile.head["period_bytes"], "65536")
        self.assertEqual(self.hakmem("ask", pid, "prof", "stop").returncode, 0)
        self.assertEqual(self.hakmem("ask", pid, "prof", "dump").returncode, 0)
        while not self.is_whole(self.at / "asked.prof") and time.monotonic() < deadline:
            time.sleep(0.05)
        profile = Profile((self.at / "asked.prof").read_text(), PROGRAM)
        self.assertEqual(profile.head["sampling"], "0")

    def test_a_start_that_fails_over_there_is_told(self) -> None:
        process = self.start_program("wait", PERTURB="3")
        done = self.hakmem("ask", str(process.pid), "prof", "start")
        self.assertEqual(done.returncode, 1)
        self.assertIn("it cannot begin: ", done.stderr)

    def is_whole(self, path: Path) -> bool:
        return path.exists() and path.read_text().endswith("\nend\n")

    def test_hardened_says_that_it_cannot(self) -> None:
        stderr = self.run_program("exit", library=HARDENED, PROF="1")
        self.assertEqual(stderr, "hakmem: HAKMEM_PROF: the hardened library has no heap profile; nothing is sampled\n")
        self.assertEqual(list(self.at.iterdir()), [])

    def test_wrong_words(self) -> None:
        for words in (["samples"], ["samples", "1", "2"], ["ask"], ["ask", "1"], ["ask", "1", "prof"],
                      ["ask", "1", "prof", "begin"], ["ask", "1", "prof", "start", "many"], ["ask", "x", "prof", "stop"],
                      ["ask", "1", "policy"], ["ask", "1", "policy", "read"], ["ask", "1", "policy", "write", "now"]):
            self.assertEqual(self.hakmem(*words).returncode, 2, words)
        self.assertEqual(self.hakmem("samples", str(os.getpid())).returncode, 1)
        self.assertEqual(self.hakmem("ask", str(os.getpid()), "prof", "stop").returncode, 1)


if __name__ == "__main__":
    unittest.main()
