# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: files that the user has named, written whole or not at all. Who uses it: the tools' cli."""

import os
import shutil
import sys
from pathlib import Path

import typer

from hakmem_tools.common.errors import USAGE, ToolError

STDOUT = Path("/dev/stdout")
"""What `-o -` means."""


def named(text: str) -> Path:
    """What an option or argument names."""
    if not text:
        raise typer.BadParameter("a file has a name, and this is empty.")
    return Path(text)


def output(text: str) -> Path:
    """The same, or standard output."""
    return STDOUT if text == "-" else named(text)


def write(path: Path | None, data: str | bytes) -> None:
    """To a file, or to standard output with None or STDOUT; a ToolError says why a file cannot be written."""
    content = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if path is None or path == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return
    try:
        write_file(path, content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ToolError(f"cannot write {path}: {error.strerror}", USAGE) from None


def write_file(path: Path, content: bytes) -> None:
    """In one step: whoever reads it meanwhile has the old file or the new one, and so has who fails.

    What is no regular file, such as a pipe, is written as it is, and so is a file that has to stay:
    its directory takes no other.
    """
    target = path.resolve()
    is_replaced = target.is_file() and all(os.access(p, os.W_OK) for p in (target, target.parent))
    if target.exists() and not is_replaced:
        target.write_bytes(content)
        return
    beside = target.with_name(f".hakmem.new-{os.getpid()}")
    try:
        beside.write_bytes(content)
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
