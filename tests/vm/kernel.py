#!/usr/bin/env python3
"""The libraries on the oldest kernel to be had, in a virtual machine: kernels differ in what system calls leave behind.

    kernel.py BUILD [KERNEL]    BUILD is a folder of the release preset

Before Linux 6.17, for one, mremap to a fixed place unmapped that place also where it then refused. What huge pages
matter for runs in both modes of them that systems are delivered with.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import os
import subprocess
import sys
import time
from pathlib import Path

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
DEFAULT = "libhakmem.so"
HARDENED = "libhakmem-hardened.so"
LAYERS = ("os", "space", "pool", "large")  # which make most of the system calls
AGAIN = ("unit_pool_grow", "unit_pool_huge_pages", "unit_pool_old", "unit_pool_retired", "unit_pool_runs",
         "unit_large_dense")
REPLACE = ["bench/replace_huge", "100"]
STRESS = ["tests/stress/stress", "--threads", "4", "--max-bytes", "256m", "--seed", "1"]
STEADY = [*STRESS, "--ops", "40000", "--lives", "1"]
FORKS = [*STRESS, "--ops", "4000", "--fork"]
CONFORMANCE = ("basic", "aligned", "errno", "limits", "introspect")
PROCESSORS = 2
TIMEOUT = 240  # of a program: the longest takes a quarter on a busy machine
TOTAL = 1000

Job = tuple[str, list[str]]  # the library, and the program with its arguments


def jobs(units: list[str]) -> dict[str, list[Job]]:
    """What runs, by the mode of huge pages."""
    both: list[Job] = [(DEFAULT, REPLACE), (HARDENED, REPLACE), (DEFAULT, STEADY)]
    tested: list[Job] = [("", [unit]) for unit in units]
    again: list[Job] = [("", [unit]) for unit in units if unit.startswith(AGAIN)]
    contract: list[Job] = [(DEFAULT, [f"tests/conformance/bin/conformance_{name}"]) for name in CONFORMANCE]
    once: list[Job] = [(HARDENED, STEADY), (DEFAULT, FORKS), (HARDENED, FORKS)]
    return {"always": both + once + tested + contract, "madvise": both + again}


def execute(library: str, program: list[str]) -> bool:
    """Runs a program and says how it ended; what it printed only where it failed."""
    environment = dict(os.environ, LD_PRELOAD=f"/{library}") if library else dict(os.environ)
    # All but the stress stay on one processor: telling others of a change of the mappings, and waiting for a lock whose
    # holder is not running, take many times as long there as elsewhere.
    os.sched_setaffinity(0, range(PROCESSORS) if program[0] == STRESS[0] else [0])
    begin = time.monotonic()
    try:
        done = subprocess.run([f"/{program[0]}", *program[1:]], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
        status, output = str(done.returncode), done.stdout
    except subprocess.TimeoutExpired as error:
        status, output = f"none after {TIMEOUT} s", error.stdout or b""
    how = "ok" if status == "0" else f"FAILED, status {status}"
    name = " ".join(part for part in (Path(program[0]).name, *program[1:], library and f"under {library}") if part)
    print(f"  {name}: {how} ({time.monotonic() - begin:.1f} s)", flush=True)
    if status != "0":
        lines = output.decode(errors="replace").splitlines()
        print("\n".join(f"    {line}" for line in lines[-40:]), flush=True)
    return status == "0"


def inside(units: list[str]) -> int:
    print(f"Linux {os.uname().release}")
    failed = 0
    for mode, programs in jobs(units).items():
        HUGE_PAGES.write_text(mode, encoding="ascii")
        print(f"huge pages: {HUGE_PAGES.read_text(encoding='ascii').strip()}")
        failed += sum(not execute(library, program) for library, program in programs)
    print(f"{failed} failed")
    return min(failed, 1)


def outside(build: Path, kernel: Path | None) -> int:
    import in_vm  # not there in the machine

    units = sorted(path.name for layer in LAYERS for path in build.glob(f"unit_{layer}_*") if os.access(path, os.X_OK))
    if not units:
        in_vm.skip("there are no unit tests (cmocka was missing when this was built)")
    programs = {program[0] for listed in jobs(units).values() for _, program in listed}
    files = {f"/{name}": build / name for name in (DEFAULT, HARDENED, *sorted(programs))}
    command = ["python3", "-B", "/kernel.py", "--inside", *units]
    files["/kernel.py"] = Path(__file__).resolve()
    return in_vm.run(files, command, kernel=kernel, timeout=TOTAL, processors=PROCESSORS)


def main() -> int:
    if sys.argv[1] == "--inside":
        return inside(sys.argv[2:])
    return outside(Path(sys.argv[1]).resolve(), Path(sys.argv[2]) if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    sys.exit(main())
