#!/usr/bin/env python3
"""Real control groups: near a limit, and while tasks of the group wait for memory, everybody gives back.

    test_group.py LIBRARY

What a machine cannot do is skipped, with the reason; the test policy_vm_group runs all of it in a virtual machine.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import contextlib
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

LIMIT = 200 << 20

JOIN = """
import ctypes, os, sys, time
with open(sys.argv[1] + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
"""

# Goes into a control group with a limit of 200 MiB, and says what is in force with so many MB live (500 blocks of 2,112
# bytes each): what is expected, or what it is after ten seconds. Down it comes only when nobody has waited for memory for
# eight ticks.
LIMITED = JOIN + """
control = ctypes.CDLL(None).hakmem_ctl
level = ctypes.c_uint64(99)
kept = []
for megabytes, expected in zip((100, 163, 187, 152, 60), sys.argv[2:]):
    kept = kept[:megabytes * 500] + [bytes(2000) for _ in range(megabytes * 500 - len(kept))]
    begin = time.monotonic()
    while (passed := time.monotonic() - begin) < 0.6 or (level.value != int(expected) and passed < 10):
        some = [bytes(3000) for _ in range(300)]
        control(b"policy.give_back", ctypes.byref(level), None)
    print(level.value)
"""

# Says what is in force, four times a second, with 100 MB live.
WATCHED = JOIN + """
control = ctypes.CDLL(None).hakmem_ctl
level = ctypes.c_uint64(99)
kept = [bytes(2000) for _ in range(50000)]
while True:
    end = time.monotonic() + 0.25
    while time.monotonic() < end:
        some = [bytes(3000) for _ in range(300)]
    control(b"policy.give_back", ctypes.byref(level), None)
    print(level.value, flush=True)
"""

# Wants more than its group may have, and is made to wait for it.
WAITING = JOIN + """
kept = []
while True:
    kept.append(b"x" * (1 << 20))
"""


def own_group(kind: str) -> str:
    """The path of this process's group: of version 2 (""), or of a controller of version 1."""
    lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    return {line.split(":")[1]: line.split(":")[2] for line in lines}.get(kind, "/")


def new_group(root: str, kind: str, needs: str) -> Path | None:
    """A control group inside of this process's, if this machine lets us make one that has the file `needs`."""
    with contextlib.suppress(OSError):
        group = Path(root + own_group(kind).rstrip("/")) / f"hakmem-test-{os.getpid()}"
        group.mkdir()
        if (group / needs).exists():  # else it is a folder like any other, or has no memory controller
            return group
        group.rmdir()
    return None


def group_v1() -> Path | None:
    return new_group("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes")


def group_v2() -> Path | None:
    return new_group("/sys/fs/cgroup", "", "memory.max")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    return kept | {"LD_PRELOAD": LIBRARY, "PYTHONMALLOC": "malloc", **more}


class Group(unittest.TestCase):
    def need(self, group: Path | None, what: str) -> Path:
        if group is None:
            self.skipTest(f"no control group of {what} with the memory controller can be made here")
        self.addCleanup(group.rmdir)
        return group

    def check_levels(self, group: Path, expected: str, **more: str) -> None:
        done = subprocess.run([sys.executable, "-c", LIMITED, str(group), *expected.split()], env=environment(**more),
                              capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split(), expected.split())

    def check_limit(self, group: Path, limit: str) -> None:
        """Near the limit memory goes back, far from it no longer, and not where the option forbids it."""
        (group / limit).write_text(str(LIMIT), encoding="ascii")
        self.check_levels(group, "0 1 2 1 0")
        self.check_levels(group, "0 0 0 0 0", HAKMEM_CGROUP="0")

    def test_version_1(self) -> None:
        self.check_limit(self.need(group_v1(), "version 1"), "memory.limit_in_bytes")

    def test_version_2_max(self) -> None:
        self.check_limit(self.need(group_v2(), "version 2"), "memory.max")

    def test_version_2_high(self) -> None:
        self.check_limit(self.need(group_v2(), "version 2"), "memory.high")

    def start(self, program: str, group: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", program, str(group)], env=environment(),
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, process: subprocess.Popen[str], level: str) -> None:
        """Reads what a process says until it says this."""
        deadline = time.monotonic() + 60
        said = []
        while time.monotonic() < deadline:
            said.append(process.stdout.readline().strip())
            if said[-1] == level:
                return
        self.fail(f"{level} was not in force: {said}")

    def test_version_2_tasks_that_wait(self) -> None:
        """The limit is far, but a task of the group waits for memory: PSI."""
        group = self.need(group_v2(), "version 2")
        if not (group / "memory.pressure").exists():
            self.skipTest("this kernel counts no waiting for memory (psi=1)")
        (group / "memory.max").write_text(str(2 << 30), encoding="ascii")
        (group / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
        for name in ("watched", "waiting"):
            (group / name).mkdir()
            self.addCleanup((group / name).rmdir)
        (group / "waiting" / "memory.high").write_text(str(16 << 20), encoding="ascii")
        watched = self.start(WATCHED, group / "watched")
        self.assertEqual(watched.stdout.readline(), "0\n")
        waiting = self.start(WAITING, group / "waiting")
        self.wait_for(watched, "2")
        waiting.kill()
        waiting.wait()
        self.wait_for(watched, "0")


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    unittest.main()
