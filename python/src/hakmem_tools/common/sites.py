# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: call sites of sampled blocks, with names. Who uses it: top and map.

`hakmem stat --samples` says which sampled blocks are live, `hakmem samples` what they stand for and
which files are mapped. A process that takes no samples has none of both, which is no error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hakmem_tools.common import command
from hakmem_tools.common.command import Stat
from hakmem_tools.common.errors import USAGE, ToolError

if TYPE_CHECKING:  # loaded only where there are samples: reading symbols takes a while to load
    from hakmem_tools.prof.stacks import Stack
    from hakmem_tools.prof.symbols import Function

NAMED = "named_sites"
"""The member that is added to what the command prints: Site by call stack."""


@dataclass(frozen=True)
class Site:
    """A place in the program, and what it holds, estimated from samples."""

    name: str
    live_bytes: float
    live_blocks: float


NONE = Site("", 0, 0)


class Reader:
    """Looks at a process again and again; names that are known are not looked up again."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.known: dict[int, list[Function]] = {}

    def look(self, *options: str) -> Stat:
        """`hakmem stat --json` with samples, and with their sites where there are any."""
        stat = command.stat(self.pid, "--samples", *options)
        if "samples" in stat:
            stat[NAMED] = self.sites(command.run("samples", str(self.pid)))
        return stat

    def sites(self, text: str) -> dict[tuple[int, ...], Site]:
        """Names and figures of the sites of a heap profile."""
        try:
            from hakmem_tools.prof import raw, stacks
            from hakmem_tools.prof.symbols import Symbolizer
        except ImportError as error:
            raise ToolError(
                f"names of call sites need {error.name}; pip install pyelftools", USAGE
            ) from None

        profile = raw.parse(text, f"the profile of process {self.pid}")
        new = [site for site in profile.sites if any(pc not in self.known for pc in site.stack)]
        symbols = Symbolizer(replace(profile, sites=new))
        for site in new:
            for pc in site.stack:
                self.known[pc] = symbols.known.get(pc, [])
        symbols.known = self.known
        return {
            stack.site.stack: Site(
                name_of(stack), float(stack.site.live_bytes), stack.site.live_objects
            )
            for stack in stacks.name_stacks(profile, symbols)
        }


def name_of(stack: Stack) -> str:
    """The function that allocates, where, and who called it."""
    first, *callers = stack.frames
    where = f" ({Path(first.file).name}:{first.line})" if first.file else ""
    caller = next((frame.name for frame in callers if frame.name != first.name), "")
    return f"{first.name}{where}" + (f" < {caller}" if caller else "")


def of(stat: Stat) -> list[Site]:
    """The call sites of a look at a process; stacks with the same name are one."""
    size: defaultdict[str, float] = defaultdict(float)
    blocks: defaultdict[str, float] = defaultdict(float)
    for site in stat.get(NAMED, {}).values():
        size[site.name] += site.live_bytes
        blocks[site.name] += site.live_blocks
    return [Site(name, size[name], blocks[name]) for name in size]


def in_range(stat: Stat, begin: int, end: int) -> Iterator[str]:
    """The call sites of sampled blocks between two addresses, those with most blocks first."""
    named = stat.get(NAMED, {})
    count: defaultdict[str, int] = defaultdict(int)
    for block in stat.get("samples", {}).get("blocks", []):
        if begin <= block["address"] < end:
            stack = tuple(block["stack"])
            plain = hex(stack[0]) if stack else "no call stack"
            count[named[stack].name if stack in named else plain] += 1
    for name in sorted(count, key=lambda name: (-count[name], name)):
        yield f"{count[name]} sampled: {name}"
