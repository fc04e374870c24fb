# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem timeline: trace events, and the files that they go to.

A file is a JSON array with an event a line. Viewers take an array without its `]`, so that a file
that grows is good at any moment; what is made in one go takes its name when it is whole. Who uses
it: live, recorded and replayed make events, cli and live write them.

`ts` comes first in an event and `args` last: Perfetto looks for the time before it reads the rest.
"""

import json
import os
import stat
from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hakmem_tools.common.errors import USAGE, ToolError
from hakmem_tools.common.files import STDOUT

VERSION = 1
"""Of the names of tracks and of what they count."""
ABOUT = "about this file"
"""The name of the first event: where the figures are from is in its args."""

Event = dict[str, Any]


def event(ts: float, phase: str, pid: int, name: str, **more: Any) -> Event:
    """Any event. Times are microseconds."""
    return {"ts": ts, "ph": phase, "pid": pid, "name": name, **more}


def counter(ts: float, pid: int, name: str, values: Mapping[str, float]) -> Event:
    """The values of one counter's series from a time on; all of its events have the same series."""
    return event(ts, "C", pid, name, args=dict(values))


def instant(ts: float, pid: int, name: str, args: Mapping[str, Any], tid: int = 0) -> Event:
    """A moment of a thread, or without one of the whole process."""
    if tid == 0:
        return event(ts, "i", pid, name, s="p", args=dict(args))
    return event(ts, "i", pid, name, tid=tid, s="t", args=dict(args))


def life(begin: float, end: float, pid: int, tid: int, name: str, args: Mapping[str, Any]) -> Event:
    """A slice of a thread's track."""
    return event(begin, "X", pid, name, tid=tid, dur=round(end - begin, 3), args=dict(args))


def process_name(pid: int, name: str) -> Event:
    """What the viewer calls a process."""
    return event(0, "M", pid, "process_name", args={"name": name})


def thread_name(pid: int, tid: int, name: str) -> Event:
    """What it calls a thread."""
    return event(0, "M", pid, "thread_name", tid=tid, args={"name": name})


def about(ts: float, pid: int, source: str, args: Mapping[str, Any]) -> Event:
    """Where the figures are from."""
    return instant(ts, pid, ABOUT, {"hakmem_timeline": VERSION, "source": source, **args})


class EventFile:
    """A file to which events are added; whatever ends the program, it has all that was added."""

    def __init__(self, path: Path, shown: Path | None = None) -> None:
        self.path = shown or path
        """As messages name it."""
        self.count = 0
        try:
            self.file = open_output(path)
            is_file = stat.S_ISREG(os.fstat(self.file.fileno()).st_mode)
            self.is_regular = is_file and path != STDOUT
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.file.close()

    def put(self, text: str) -> None:
        """Writes a text; where that fails in the middle, what is there of it goes again."""
        rest = memoryview(text.encode("ascii"))
        begin = self.file.tell() if self.is_regular else 0
        try:
            while rest:
                rest = rest[os.write(self.file.fileno(), rest) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.is_regular:
                os.ftruncate(self.file.fileno(), begin)
            raise cannot_write(self.path, error) from None

    def add(self, events: Iterable[Event]) -> None:
        """Writes events, all at once."""
        lines = [json.dumps(one, separators=(",", ":")) for one in events]
        if lines:
            self.put(("[\n" if self.count == 0 else ",\n") + ",\n".join(lines))
            self.count += len(lines)

    def finish(self) -> None:
        """Nothing more will come."""
        self.put("\n]\n" if self.count else "[]\n")


def open_output(path: Path) -> FileIO:
    """A file that is made anew, or standard output as it is: it may be one that is added to."""
    return FileIO(os.dup(1) if path == STDOUT else path, "wb")


def cannot_write(path: Path, error: OSError) -> ToolError:
    """Why a file cannot be written, and what to do."""
    return ToolError(f"cannot write {path}: {error.strerror}; -o FILE writes elsewhere", USAGE)


def write_whole(path: Path, events: Iterable[Event]) -> int:
    """Writes a file in one step: it is there whole, or as it was. Returns the number of events.

    What is no regular file, such as a pipe, is written as it is.
    """
    if path == STDOUT or (path.exists() and not path.is_file()):
        return write_all(path, path, events)
    target = path.resolve()
    beside = target.with_name(f".{target.name}.new-{os.getpid()}")
    try:
        count = write_all(beside, path, events)
        beside.replace(target)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from None
        raise
    return count


def write_all(path: Path, shown: Path, events: Iterable[Event]) -> int:
    """Writes all events and the end."""
    with EventFile(path, shown) as file:
        file.add(events)
        file.finish()
        return file.count
