# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What tests of commands with a program of their own share: a build whose program is a script."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from hakmem_tools.bench.places import Places
from hakmem_tools.bench.runner import Result
from rich.console import Console

LIST = '[ "$1" = list ] && printf "wide: pages, 3%%: few\\nthin_1: one\\nlast: two\\n" && exit'
"""A program that has three workloads."""


def program(folder: Path, name: str, script: str) -> Path:
    """A build whose program of this name is this script."""
    path = folder / "bench" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return folder


def places_of(folder: Path) -> Places:
    """A place with programs, and nothing else."""
    programs = folder / "bench"
    return Places(*([programs] + [folder] * 7))


def complete(built: Places, folder: Path, name: str, script: str) -> Path:
    """The same with the launcher and the library, so that it can be measured."""
    build = program(folder / "build", name, script)
    (build / "bench" / "launch").symlink_to(built.programs / "launch")
    (build / "libhakmem.so").symlink_to(built.library)
    return build


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """hakmem bench with arguments."""
    command = [sys.executable, "-m", "hakmem_tools.bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def terminal(show: Callable[[Result, Console], None], result: Result, width: int) -> str:
    """What a terminal of this width shows."""
    out = io.StringIO()
    show(result, Console(file=out, width=width))
    return out.getvalue()
