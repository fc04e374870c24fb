# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: what machine a result comes from, and what all results begin with.

Who uses it: runner, learning. Standard library only; it never changes a setting.
"""

import datetime
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hakmem_tools


def first_match(path: str, pattern: str) -> str:
    """The first group of a pattern in a file; "unknown" where there is none."""
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1).strip() if found else "unknown"


def first_line(command: list[str]) -> str:
    """The first line that a command prints."""
    if shutil.which(command[0]) is None:
        return "unknown"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else "unknown"


def describe() -> dict[str, str]:
    """The machine and the state it is in."""
    memory = first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)")
    return {
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(memory) / 1024 / 1024:.1f} GiB" if memory.isdigit() else memory,
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "distribution": first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
        "transparent_huge_pages": first_match(
            "/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"
        ),
        "overcommit_memory": first_match("/proc/sys/vm/overcommit_memory", r"(\d+)"),
        "compiler": first_line(["cc", "--version"]),
        "load_at_start": f"{os.getloadavg()[0]:.2f}",
    }


def head(schema: int, command: str, quick: bool, rounds: int, **more: int) -> dict[str, Any]:
    """What a result begins with, before anything is measured; `more` are figures of its own."""
    return {
        "schema": schema,
        "tool": f"hakmem bench {hakmem_tools.__version__}",
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": command,
        "set": "quick" if quick else "full",
        "rounds": rounds,
        **more,
        "complete": False,
        "seconds": 0.0,
        "machine": describe(),
    }
