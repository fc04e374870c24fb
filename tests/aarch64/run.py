#!/usr/bin/env python3
"""Runs the libraries that were built for aarch64 under qemu's emulator, with pages of 4, 16 and 64 KiB.

    run.py BUILD-DIRECTORY

Debian packages qemu-user and libc6-arm64-cross. The emulator (7.2) unmaps, as far as it knows, what mremap leaves mapped
with MREMAP_DONTUNMAP, and then gives those addresses to others; so that flag is refused, as kernels before Linux 5.7 do.
Memory orders are no weaker than this machine's under it: tests/sched and the model are what tells about those.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import ctypes
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

PAGES = (4096, 16384, 65536)
ROOT = "/usr/aarch64-linux-gnu"
STRESS = "tests/stress/stress --threads 4 --ops 150000 --seed {page} --max-bytes 128m"
PROGRAMS = ("random_mixed 200000 4096 1234567", "large_scenarios mixed 300", "realloc_grow 64", "return_peak 60 2",
            "replace_huge 20", "churn_phases 4 100000 42", "larson 0 8 1000 1000 4 42 2", "producers 20 16 1000",
            "thread_churn 200", "cxx_json 2", "cxx_maps 5000")
REFUSAL = ("hakmem: the hardened library is made for pages of 4096 bytes, and this system's are larger: boot a kernel "
           "with such pages, or use libhakmem.so\n")

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SYS_MREMAP, MREMAP_DONTUNMAP, EINVAL = 25, 4, 22  # of x86-64, on which the emulator runs


class Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def refuse_dontunmap() -> None:
    """In the child: mremap with that flag fails with EINVAL from now on (seccomp(2); the system call's number is at 0,
    its fourth argument at 40)."""
    instructions = ((0x20, 0, 0, 0), (0x15, 0, 3, SYS_MREMAP), (0x20, 0, 0, 40), (0x45, 0, 1, MREMAP_DONTUNMAP),
                    (0x06, 0, 0, 0x00050000 | EINVAL), (0x06, 0, 0, 0x7FFF0000))
    code = b"".join(struct.pack("HBBI", *i) for i in instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Filter(len(instructions), code)), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


class Runner:
    """Runs programs of a build and counts."""

    def __init__(self, build: Path) -> None:
        self.build = build
        self.passed = self.failed = 0

    def run(self, page: int, program: str, library: str = "") -> subprocess.CompletedProcess[str]:
        """A program under the emulator."""
        preload = ["-E", f"LD_PRELOAD={self.build / library}"] if library else []
        name, *arguments = program.split()
        return subprocess.run(["qemu-aarch64", "-p", str(page), "-L", ROOT, *preload, str(self.build / name), *arguments],
                              capture_output=True, text=True, check=False, timeout=300, preexec_fn=refuse_dontunmap)

    def judge(self, what: str, holds: bool, done: subprocess.CompletedProcess[str]) -> None:
        """Counts a case; shows what a failed one printed."""
        self.passed += holds
        self.failed += not holds
        print(f"{'ok    ' if holds else 'FAILED'} {what}", flush=True)
        if not holds:
            print(f"    status {done.returncode}\n    {done.stdout[-400:]}\n    {done.stderr[-800:]}")


def checksum(done: subprocess.CompletedProcess[str]) -> str:
    """What a benchmark program says of the work that it did; '' if it failed."""
    found = re.search(r"\bchecksum\W+(\w+)", done.stdout) if done.returncode == 0 else None
    return found.group(1) if found else ""


def main() -> int:
    """All cases."""
    runner = Runner(Path(sys.argv[1]).resolve())
    expected = {program: checksum(runner.run(PAGES[0], f"bench/{program}")) for program in PROGRAMS}
    for page in PAGES:
        done = runner.run(page, "tests/aarch64/aarch64_pages", "libhakmem.so")
        runner.judge(f"pages of {page}: what goes back and what stays", done.stdout == f"{page}\n", done)
        done = runner.run(page, STRESS.format(page=page), "libhakmem.so")
        runner.judge(f"pages of {page}: stress", done.returncode == 0 and "all blocks were intact" in done.stdout, done)
        for program in PROGRAMS:
            done = runner.run(page, f"bench/{program}", "libhakmem.so")
            same = expected[program] != "" and checksum(done) == expected[program]
            runner.judge(f"pages of {page}: {program}", same, done)
        done = runner.run(page, STRESS.format(page=page), "libhakmem-hardened.so")
        if page == PAGES[0]:
            runner.judge(f"pages of {page}: stress, hardened", "all blocks were intact" in done.stdout, done)
        else:
            refused = done.returncode == -signal.SIGABRT and done.stderr.startswith(REFUSAL)
            runner.judge(f"pages of {page}: the hardened library says that it cannot", refused, done)
    print(f"{runner.passed} passed, {runner.failed} failed")
    return 0 if runner.failed == 0 and runner.passed != 0 else 1


if __name__ == "__main__":
    sys.exit(main())
