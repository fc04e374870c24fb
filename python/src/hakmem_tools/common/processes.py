# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: which processes run with hakmem, by the libraries that they have mapped; what one has used.

Who uses it: top, when it is given no process, and timeline. It looks into /proc only; a program
that is linked with libhakmem.a does not show there.
"""

import re
from dataclasses import dataclass
from pathlib import Path

LIBRARY = re.compile(r"/libhakmem(-hardened|-prefixed)?\.so[^/\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class Process:
    """One process that runs with hakmem."""

    pid: int
    name: str
    command: str
    rss_bytes: int
    library: str


def look(folder: Path) -> Process | None:
    """The process of a folder of /proc; None if it has no hakmem, may not be read or has ended."""
    try:
        found = LIBRARY.search((folder / "maps").read_text(errors="replace"))
        if found is None:
            return None
        status = (folder / "status").read_text(errors="replace")
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    rss_kb = int(fields.get("VmRSS", "0").split()[0])
    name = fields.get("Name", "?").strip()
    library = found.group(0).removeprefix("/")
    return Process(int(folder.name), name, command.strip(), rss_kb * 1024, library)


def running(proc: Path = Path("/proc")) -> list[Process]:
    """All of them that this user may look at, the largest first."""
    folders = (folder for folder in proc.iterdir() if folder.name.isdecimal())
    found = [process for process in map(look, folders) if process is not None]
    return sorted(found, key=lambda process: (-process.rss_bytes, process.pid))


@dataclass(frozen=True)
class Usage:
    """What the kernel counts of a process."""

    state: str
    minor_faults: int
    major_faults: int
    started: int
    """In ticks since the machine began: another process with the same number has another one."""

    @property
    def runs(self) -> bool:
        """Whether it has memory: it has not ended."""
        return self.state not in ("Z", "X")


def usage(pid: int, proc: Path = Path("/proc")) -> Usage | None:
    """Of one process; None if there is none, or it may not be seen."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before may have blanks
    return Usage(fields[0], int(fields[7]), int(fields[9]), int(fields[19]))
