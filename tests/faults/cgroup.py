#!/usr/bin/env python3
"""Runs a program in a control group with a limit of memory: it must not be killed while what is live fits.

    cgroup.py MIB program [arguments]

Prints what the program held at most and ends with its status; with 77 where no such group can be made.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import os
import subprocess
import sys
from pathlib import Path

SKIP = 77


def make_group(limit: int) -> tuple[Path, Path] | str:
    """A group below this process's own, and the file that tells its peak. Else the reason why not."""
    lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    here = {line.split(":")[1]: line.split(":")[2] for line in lines}
    tries = []
    for mount in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        is_old = mount.name == "memory"
        parent = mount / here.get("memory" if is_old else "", "/").lstrip("/")
        group = parent / f"hakmem-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError as error:
            tries.append(str(error))
            continue
        try:
            (group / ("memory.limit_in_bytes" if is_old else "memory.max")).write_text(str(limit), encoding="ascii")
            return group, group / ("memory.max_usage_in_bytes" if is_old else "memory.peak")
        except OSError as error:
            tries.append(str(error))
            group.rmdir()
    return "; ".join(tries)


def main() -> int:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    made = make_group(int(sys.argv[1]) << 20)
    if isinstance(made, str):
        print(f"skipped: no control group with a limit can be made here ({made})")
        return SKIP
    group, peak = made
    members = group / "cgroup.procs"
    try:
        done = subprocess.run(sys.argv[2:], check=False,
                              preexec_fn=lambda: members.write_text(str(os.getpid()), encoding="ascii"))
        if peak.exists():
            print(f"cgroup: limit {sys.argv[1]} MiB, at most {int(peak.read_text(encoding='ascii')) >> 20} MiB used")
    finally:
        group.rmdir()
    if done.returncode == -9:
        print("cgroup: FAILED: the kernel killed the program")
    return 1 if done.returncode < 0 else done.returncode


if __name__ == "__main__":
    sys.exit(main())
