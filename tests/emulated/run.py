#!/usr/bin/env python3
"""Runs the libraries that were built for another processor under qemu's emulator: for aarch64 with pages of 4, 16 and
64 KiB, for riscv64 with those of 4 KiB; and in an address space of 64 GiB.

    run.py BUILD-DIRECTORY

Debian packages qemu-user, and libc6-arm64-cross or libc6-riscv64-cross. The emulator (7.2) unmaps, as far as it knows,
what mremap leaves mapped with MREMAP_DONTUNMAP, and then gives those addresses to others; so that flag is refused, as
kernels before Linux 5.7 do. Memory orders are no weaker than this machine's under it: tests/sched and the model are what
tells about those.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import ctypes
import re
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

MACHINES = {183: ("aarch64", (4096, 16384, 65536)), 243: ("riscv64", (4096,))}  # of the ELF header: elf(5)
FEW_ADDRESSES = 1 << 36
FIGURES_OF_A_SITE = 7  # the word "site" among them
STACKS_LEAST, DEPTH_LEAST = 20, 8
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
        header = (build / "libhakmem.so").read_bytes()[:20]
        self.machine, self.pages = MACHINES[struct.unpack_from("<H", header, 18)[0]]
        self.passed = self.failed = 0

    def run(self, page: int, program: str, library: str = "", addresses: int = 0,
            **options: str) -> subprocess.CompletedProcess[str]:
        """A program under the emulator; `addresses`: the size of its address space, 0 for what is usual; `options` are
        the library's."""
        emulator = [f"qemu-{self.machine}", "-p", str(page), "-R", str(addresses), "-L", f"/usr/{self.machine}-linux-gnu"]
        given = {f"HAKMEM_{name}": value for name, value in options.items()}
        if library:
            given["LD_PRELOAD"] = str(self.build / library)
        environment = [word for name, value in given.items() for word in ("-E", f"{name}={value}")]
        name, *arguments = program.split()
        return subprocess.run([*emulator, *environment, str(self.build / name), *arguments],
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


def judge_profile(runner: Runner) -> None:
    """The stacks of a heap profile reach through the library, the C++ runtime and the program to its beginning; but for
    what the loader asks for, which has no unwind tables on riscv64."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile"
        done = runner.run(4096, "bench/cxx_json 2", "libhakmem.so", PROF="1", PROF_SAMPLE_BYTES="4096", PROF_FILE=str(path))
        sites = [line.split() for line in path.read_text().splitlines() if line.startswith("site ")] if path.exists() else []
    depths = [len(site) - FIGURES_OF_A_SITE for site in sites]
    deep = sum(depth >= DEPTH_LEAST for depth in depths)
    runner.judge(f"stacks of a heap profile: {deep} of {len(depths)} have {DEPTH_LEAST} frames or more",
                 deep >= STACKS_LEAST and len(depths) - deep <= 1, done)


def main() -> int:
    """All cases."""
    runner = Runner(Path(sys.argv[1]).resolve())
    expected = {program: checksum(runner.run(4096, f"bench/{program}")) for program in PROGRAMS}
    for page in runner.pages:
        done = runner.run(page, "tests/emulated/larger_pages", "libhakmem.so")
        runner.judge(f"pages of {page}: what goes back and what stays", done.stdout == f"{page}\n", done)
        done = runner.run(page, STRESS.format(page=page), "libhakmem.so")
        runner.judge(f"pages of {page}: stress", done.returncode == 0 and "all blocks were intact" in done.stdout, done)
        for program in PROGRAMS:
            done = runner.run(page, f"bench/{program}", "libhakmem.so")
            same = expected[program] != "" and checksum(done) == expected[program]
            runner.judge(f"pages of {page}: {program}", same, done)
        done = runner.run(page, STRESS.format(page=page), "libhakmem-hardened.so")
        if page == 4096:
            runner.judge(f"pages of {page}: stress, hardened", "all blocks were intact" in done.stdout, done)
        else:
            refused = done.returncode == -signal.SIGABRT and done.stderr.startswith(REFUSAL)
            runner.judge(f"pages of {page}: the hardened library says that it cannot", refused, done)
    for library in ("libhakmem.so", "libhakmem-hardened.so"):
        done = runner.run(4096, f"bench/{PROGRAMS[0]}", library, FEW_ADDRESSES)
        runner.judge(f"64 GiB of addresses, {library}", checksum(done) == expected[PROGRAMS[0]] != "", done)
    judge_profile(runner)
    print(f"{runner.passed} passed, {runner.failed} failed")
    return 0 if runner.failed == 0 and runner.passed != 0 else 1


if __name__ == "__main__":
    sys.exit(main())
