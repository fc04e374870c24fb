#!/usr/bin/env python3
"""HAKMEM_POLICY in whole processes: what is written, what is said, what stays open.

    test_process.py LIBRARY HARDENED COMMAND

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

# Works in blocks that come from malloc, for so many ticks of the policy at least (four a second).
TICKS = """
import ctypes, os, select, sys, time
control, ticks = ctypes.CDLL(None).hakmem_ctl, ctypes.c_uint64()
def work():
    kept = [bytes(1000 + i % 3000) for i in range(5000)]
    big = bytearray(3 << 20)
    control(b"policy.ticks", ctypes.byref(ticks), None)
def work_for(more):
    end = ticks.value + more
    while ticks.value < end:
        work()
"""

# For so many ticks, and so many seconds of processor time; says which files are open at its end.
WORK = TICKS + """
work_for(int(sys.argv[1]))
while time.process_time() < float(sys.argv[2]):
    work()
print(sorted(os.listdir("/proc/self/fd")))
if len(sys.argv) > 3 and os.fork() == 0:
    sys.exit(0)
"""

# Says when it has had two ticks, works until it is told not to, and for two more.
ASKED = TICKS + """
work_for(2)
print(flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    work()
work_for(2)
"""

# 64 MB in blocks of classes, so that call sites are looked at, half of them freed again.
MANY = "kept = [bytes(1000 + i % 100) for i in range(60000)]; del kept[::2]; print(sum(map(len, kept)))"
SITE = "site 5d1bf05a2da54b5f+1234 17-4096 long 99"

# What of the knob `keep` is in force, at the beginning and after a second's work.
KEEPS = """
import ctypes, time
control = ctypes.CDLL(None).hakmem_ctl
percent = ctypes.c_uint64(99)
for seconds in (0, 1):
    end = time.process_time() + seconds
    while time.process_time() < end:
        kept = [bytes(1000 + i % 3000) for i in range(5000)]
    control(b"policy.keep", ctypes.byref(percent), None)
    print(percent.value)
"""


def run(policy: str | None, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    environment |= {"LD_PRELOAD": LIBRARY, "PYTHONMALLOC": "malloc", **more}
    if policy is not None:
        environment["HAKMEM_POLICY"] = policy
    command = [sys.executable, "-c", WORK, *(words or ("4", "0.1"))]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


class Process(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "policy"

    def lines(self) -> dict[str, list[int]]:
        """The lines with numbers only, by their first word."""
        rows = [line.split() for line in self.file.read_text(encoding="ascii").splitlines()]
        return {row[0]: [int(word) for word in row[1:]] for row in rows if row[0] in ("runs", "base")}

    def test_runs_add_up_in_the_file_and_nothing_stays_open(self) -> None:
        usual = run(None, "0", "0.1").stdout
        for count in (1, 2):
            done = run(f"learn:{self.file}")
            self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", usual))
            self.assertEqual(self.lines()["runs"][0], count)
        self.assertEqual(self.lines()["base"], [0, 0, 0, 0])
        self.assertEqual([path.name for path in self.file.parent.iterdir()], ["policy"])

    def test_the_first_runs_that_try_are_the_measure(self) -> None:
        for _ in range(3): # six ticks are five quarters of a second, but for a beginning
            self.assertEqual(run(f"try:{self.file}", "6", "0.1").stderr, "")
        plays, us, cpu_us, kib = self.lines()["base"]
        self.assertEqual(plays, 3)
        self.assertGreater(us, 2_000_000)
        self.assertGreater(cpu_us, 100_000)
        self.assertGreater(kib, 3 * 4096)
        self.assertIn("\narm ", self.file.read_text(encoding="ascii"))  # hints
        run(f"try:{self.file}")
        self.assertEqual(self.lines()["base"][0], 3)  # the fourth tries something

    def test_what_a_run_tries_is_given_up_when_it_costs_too_much(self) -> None:
        environment = {**os.environ, "LD_PRELOAD": LIBRARY, "PYTHONMALLOC": "malloc", "HAKMEM_POLICY": f"try:{self.file}"}
        for usual_us, found in ((100_000, ["100", "25"]), (100_000_000, ["100", "100"])):
            self.file.write_text(f"hakmem-policy 1\nruns 3 30\nbase 3 3000000 {3 * usual_us} 3000000\n"
                                 "arm keep all 0 0 0 0 0 9\n", encoding="ascii")
            done = subprocess.run([sys.executable, "-c", KEEPS], env=environment, capture_output=True, text=True,
                                  check=False, timeout=300)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout.split(), found)
            self.assertIn("\narm keep all 1 ", self.file.read_text(encoding="ascii"))

    def test_a_child_of_a_fork_writes_nothing(self) -> None:
        self.assertEqual(run(f"learn:{self.file}", "4", "0.1", "fork").stderr, "")
        self.assertEqual(self.lines()["runs"][0], 1)

    def test_a_moment_teaches_nothing(self) -> None:
        """Of a program that needs memory so seldom that it has no tick, however long that takes."""
        environment = {**os.environ, "LD_PRELOAD": LIBRARY, "HAKMEM_POLICY": f"learn:{self.file}"}
        done = subprocess.run(["true"], env=environment, capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(self.file.exists())

    def test_what_is_no_policy_gets_one_warning_and_stays(self) -> None:
        for text in ("\x7fELF", "hakmem-policy 99\n", "hakmem-policy 1\nruns"):
            self.file.write_text(text, encoding="ascii")
            for policy in (f"{self.file}", f"learn:{self.file}", f"try:{self.file}"):
                done = run(policy, "0", "0.6")
                self.assertEqual(done.returncode, 0)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn("the defaults hold", done.stderr)
            self.assertEqual(self.file.read_text(encoding="ascii"), text)

    def test_a_file_that_is_not_there_is_none_to_freeze(self) -> None:
        done = run(str(self.file), "0", "0")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (0, 1))
        self.assertEqual(run("off", "0", "0").stderr, "")

    def test_a_folder_that_cannot_be_written_is_said_once(self) -> None:
        done = run("learn:/proc/hakmem-policy")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (0, 1))
        self.assertIn("could not be written to /proc/hakmem-policy (errno ", done.stderr)


    def test_the_hardened_library_learns_without_call_sites(self) -> None:
        environment = {**os.environ, "LD_PRELOAD": HARDENED, "PYTHONMALLOC": "malloc"}

        def learn_or_use(policy: str) -> None:
            done = subprocess.run([sys.executable, "-c", MANY], env={**environment, "HAKMEM_POLICY": policy},
                                  capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", "31500000\n"))

        learn_or_use(f"learn:{self.file}")
        self.file.write_text(f"hakmem-policy 1\n{SITE}\n", encoding="ascii")
        learn_or_use(f"learn:{self.file}")
        learn_or_use(str(self.file))
        self.assertIn(f"\n{SITE}\n", self.file.read_text(encoding="ascii"))

    def start(self, policy: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "LD_PRELOAD": LIBRARY, "PYTHONMALLOC": "malloc", "HAKMEM_POLICY": policy}
        process = subprocess.Popen([sys.executable, "-c", ASKED], env=environment, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ask(self, process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run([COMMAND, "ask", str(process.pid), "policy", "write"], capture_output=True, text=True,
                              check=False, timeout=120)

    def wait_for_file(self) -> None:
        deadline = time.monotonic() + 120
        while not self.file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    def test_a_process_writes_when_it_is_asked_and_adds_the_rest_at_its_end(self) -> None:
        process = self.start(f"learn:{self.file}")
        self.assertEqual(process.stdout.readline(), "\n")
        done = self.ask(process)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.wait_for_file()
        runs, ticks = self.lines()["runs"]
        self.assertEqual(runs, 0)  # it is not over
        self.assertGreater(ticks, 0)
        self.assertIsNone(process.poll())
        self.assertEqual(process.communicate("\n", timeout=240)[1], "")
        self.assertEqual(self.lines()["runs"][0], 1)
        self.assertGreater(self.lines()["runs"][1], ticks)

    def test_a_process_that_learns_nothing_is_not_asked(self) -> None:
        self.file.write_text("hakmem-policy 1\n", encoding="ascii")
        for policy in ("off", str(self.file)):
            process = self.start(policy)
            deadline = time.monotonic() + 60
            while True:  # it may not have begun
                done = self.ask(process)
                if "it learns nothing" in done.stderr or time.monotonic() > deadline:
                    break
            self.assertEqual(done.returncode, 1)
            self.assertIn("HAKMEM_POLICY=learn:FILE", done.stderr)
        self.assertEqual(self.file.read_text(encoding="ascii"), "hakmem-policy 1\n")


if __name__ == "__main__":
    COMMAND = sys.argv.pop(3)
    HARDENED = sys.argv.pop(2)
    LIBRARY = sys.argv.pop(1)
    unittest.main()
