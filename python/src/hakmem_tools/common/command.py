# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: the hakmem command, which reads other processes; the tools only read what it prints.

Who uses it: top, map and whoever shows a process. It never opens another process's memory itself.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hakmem_tools.common.errors import USAGE, ToolError

SCHEMA_VERSION = 1
SECONDS = 60.0
"""For one look at a process: generous, since a machine may be busy and a heap large."""

Stat = dict[str, Any]
"""What `hakmem stat --json` prints: docs/schema/stat.schema.json."""


def find() -> str:
    """The command: HAKMEM_COMMAND (which the programs hakmem-NAME set), else from PATH."""
    given = os.environ.get("HAKMEM_COMMAND", "")
    if given and not os.access(given, os.X_OK):
        raise ToolError(f"HAKMEM_COMMAND is {given}, which cannot be executed", USAGE)
    found = given or shutil.which("hakmem")
    if not found:
        raise ToolError("the hakmem command is not on PATH; set HAKMEM_COMMAND to it", USAGE)
    return found


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without what would preload an allocator into the command too, and more."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return kept | dict(more or {})


def explain(stderr: str, what: str) -> str:
    """The command's own messages as one line, without its name in front and hints last."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    parts = [line.removeprefix("hakmem: ").removeprefix("hint: ") for line in lines[:3]]
    return "; ".join(parts) or f"{what} failed and did not say why"


def run(
    *arguments: str, more_seconds: float = 0, variables: Mapping[str, str] | None = None
) -> str:
    """Runs the command and returns what it printed; a failure is a ToolError in its own words.

    `variables` are set in its environment beside what is there.
    """
    seconds = SECONDS + more_seconds
    try:
        done = subprocess.run(
            [find(), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=seconds,
            env=environment(variables),
        )
    except subprocess.TimeoutExpired:
        what = " ".join(["hakmem", *arguments])
        raise ToolError(f"{what} took longer than {seconds:.0f} s") from None
    except OSError as error:
        raise ToolError(f"the hakmem command could not be started: {error}", USAGE) from None
    if done.returncode != 0:
        raise ToolError(explain(done.stderr, f"hakmem {arguments[0]}"))
    return done.stdout


def parse(text: str, source: str) -> Stat:
    """The JSON of `hakmem stat`, of the version that the tools know."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ToolError(f"{source} is not JSON: {error}") from None
    version = value.get("schema_version") if isinstance(value, dict) else None
    if version is None:
        raise ToolError(f"{source} is not what `hakmem stat --json` prints: no schema_version")
    if version != SCHEMA_VERSION:
        raise ToolError(
            f"{source} has schema version {version}, this tool reads {SCHEMA_VERSION}; "
            "use the tools and the command of one installation",
            USAGE,
        )
    return dict(value)


def stat(pid: int | str, *options: str) -> Stat:
    """`hakmem stat PID --json` with more options, as a dictionary; or of a core file."""
    return parse(run("stat", "--json", *options, str(pid)), f"the answer about process {pid}")


def load(path: Path) -> Stat:
    """The same from a file that was saved."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"cannot read {path}: {error}", USAGE) from None
