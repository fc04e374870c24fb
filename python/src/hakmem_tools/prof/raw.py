# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Heap profiles as the library writes them: text, one line a call stack. Who uses it: all of prof.

The format is described in docs/profiling.md. What is damaged is an error that names the line; a
file that ends early (a process was killed while it wrote) is one too.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_tools.common.errors import USAGE, ToolError

FIRST_LINE = "hakmem heap profile 1"
COLUMNS = (
    "live_objects",
    "live_bytes",
    "live_samples",
    "allocated_objects",
    "allocated_bytes",
    "allocated_samples",
)
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ([rwxsp-]{4}) ([0-9a-f]+) \S+ \d+\s*(.*)")


@dataclass(frozen=True)
class Mapping:
    """A file's part in the address space."""

    start: int
    end: int
    offset: int
    path: str
    deleted: bool = False
    """The file has been removed or replaced since: at its path there is none, or another one."""


@dataclass(frozen=True)
class Site:
    """A call stack, innermost frame first, and what was allocated there, as estimated."""

    stack: tuple[int, ...]
    live_objects: float
    live_bytes: int
    live_samples: int
    allocated_objects: float
    allocated_bytes: int
    allocated_samples: int


@dataclass
class Profile:
    """All of a file."""

    pid: int = 0
    period_bytes: int = 0
    sampling: bool = False
    time_ns: int = 0
    sites: list[Site] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)
    process: int = 0
    """That it was read from just now; 0: it is from a file, and the process may be gone."""

    def mapping_of(self, address: int) -> Mapping | None:
        """What is mapped at an address."""
        for mapping in self.mappings:
            if mapping.start <= address < mapping.end:
                return mapping
        return None


def parse_site(words: list[str]) -> Site:
    """The words behind `site`: six figures and the stack."""
    figures = [float(word) for word in words[: len(COLUMNS)]]
    live_objects, live_bytes, live_samples, objects, bytes_, samples = figures
    return Site(
        tuple(int(word, 16) for word in words[len(COLUMNS) :]),
        live_objects,
        int(live_bytes),
        int(live_samples),
        objects,
        int(bytes_),
        int(samples),
    )


def parse_mapping(line: str) -> Mapping | None:
    """A line of /proc/PID/maps; None if no file is mapped there."""
    match = MAPPING.fullmatch(line.strip())
    if match is None:
        raise ValueError("no mapping")
    start, end, _, offset, path = match.groups()
    if not path.startswith("/"):
        return None
    name = path.removesuffix(" (deleted)")
    return Mapping(int(start, 16), int(end, 16), int(offset, 16), name, name != path)


def parse_line(profile: Profile, line: str) -> None:
    """A line of the part before the mappings."""
    name, _, value = line.partition(" ")
    if name == "site":
        profile.sites.append(parse_site(value.split()))
    elif name == "columns":
        if tuple(value.split()) != (*COLUMNS, "stack"):
            raise ValueError("other columns than this tool knows")
    elif name in ("pid", "period_bytes", "time_ns"):
        setattr(profile, name, int(value))
    elif name == "sampling":
        profile.sampling = value == "1"
    else:
        raise ValueError(f"{name!r} is not known")


def parse(text: str, source: str) -> Profile:
    """The profile that a text is; `source` names it in messages."""
    lines = text.splitlines()
    if not lines or lines[0] != FIRST_LINE:
        raise ToolError(f"{source} is no heap profile of hakmem (version 1)", USAGE)
    profile = Profile()
    in_mappings = False
    for number, line in enumerate(lines[1:], 2):
        if line == "end":
            return profile
        if line == "mappings":
            in_mappings = True
            continue
        try:
            if not in_mappings:
                parse_line(profile, line)
            elif (mapping := parse_mapping(line)) is not None:
                profile.mappings.append(mapping)
        except ValueError as error:
            raise ToolError(f"{source}, line {number}: {error}", USAGE) from None
    raise ToolError(f"{source} ends early: it was not written to its end", USAGE)


def load(path: Path) -> Profile:
    """The profile in a file."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"cannot read {path}: {error}", USAGE) from None
