# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of the tools share: looks at a process that were recorded, and changes of them."""

import copy
import json
import os
import stat as modes
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(__file__).resolve().parent / "data"


def recorded(name: str = "stat.json") -> dict[str, Any]:
    """What the command said of a process."""
    return dict(json.loads((DATA / name).read_text(encoding="utf-8")))


def later(stat: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same process some time later, nothing changed but the clock."""
    copied = copy.deepcopy(stat)
    copied["process"]["time_unix_ns"] += int(seconds * 1e9)
    return copied


def fake_command(folder: Path, script: str) -> Path:
    """A program that stands for the hakmem command."""
    program = folder / "hakmem"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | modes.S_IXUSR)
    return program


def with_command(program: Path, **more: str) -> dict[str, str]:
    """An environment in which the tools use it."""
    source = str(ROOT / "python" / "src")
    return {**os.environ, "HAKMEM_COMMAND": str(program), "PYTHONPATH": source, **more}


def built(name: str) -> Path:
    """A file of the release build."""
    folder = Path(os.environ.get("TEST_HAKMEM_BUILD", ROOT / "build" / "release"))
    if not (folder / name).exists():
        pytest.skip(f"{folder / name} is not built")
    return folder / name
