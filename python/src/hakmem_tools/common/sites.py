# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: call sites of sampled blocks, with names, and how long blocks of a site live. Who uses
it: top and map.

`hakmem stat --samples` says which sampled blocks are live, `hakmem samples` what they stand for and
which files are mapped. A process that takes no samples has none of both, which is no error; nor is
one without a policy, which learns no lifetimes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hakmem_tools.common import command
from hakmem_tools.common.command import Stat
from hakmem_tools.common.errors import USAGE, ToolError
from hakmem_tools.common.text import size

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


LIFETIME_NAMES = "named_lifetime_sites"
"""The member that is added to what the command prints: name by address."""


@dataclass(frozen=True)
class Lifetime:
    """A place in the program, and how long its blocks live, in bytes that are allocated meanwhile."""

    address: int
    name: str
    group: str
    samples: int
    live_samples: int
    life_bytes: int
    least_bytes: int
    most_bytes: int
    blocks: tuple[int, ...]


class Reader:
    """Looks at a process again and again; names that are known are not looked up again."""

    def __init__(self, pid: int | str) -> None:
        self.pid = pid  # or the path of a core file
        self.process = int(pid) if str(pid).isdecimal() else 0
        self.known: dict[int, list[Function]] = {}

    def look(self, *options: str) -> Stat:
        """`hakmem stat --json` with samples, and with their sites where there are any."""
        stat = command.stat(self.pid, "--samples", *options)
        if "samples" in stat:
            stat[NAMED] = self.sites(command.run("samples", str(self.pid)))
        if stat.get("lifetime_sites"):
            stat[LIFETIME_NAMES] = self.names(stat["lifetime_sites"])
        return stat

    def names(self, found: list[dict[str, Any]]) -> dict[int, str]:
        """The functions of sites, of which the command has said where in a file they are."""
        raw, _, symbolizer = modules()
        new = [site for site in found if site["file"] and site["address"] not in self.known]
        profile = raw.Profile(
            process=self.process,
            mappings=[
                raw.Mapping(s["address"] - 1, s["address"] + 1, s["offset"] - 1, s["file"])
                for s in new
            ],
            sites=[raw.Site((s["address"],), 0, 0, 0, 0, 0, 0) for s in new],
        )
        self.known.update(symbolizer(profile).known)
        return {site["address"]: plain_name(self.known, site) for site in found}

    def sites(self, text: str) -> dict[tuple[int, ...], Site]:
        """Names and figures of the sites of a heap profile."""
        raw, stacks, symbolizer = modules()
        profile = raw.parse(text, f"the profile of process {self.pid}")
        profile.process = self.process
        new = [site for site in profile.sites if any(pc not in self.known for pc in site.stack)]
        symbols = symbolizer(replace(profile, sites=new))
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


def modules() -> tuple[Any, Any, Any]:
    """What makes names of addresses: raw, stacks and Symbolizer of hakmem_tools.prof."""
    try:
        from hakmem_tools.prof import raw, stacks
        from hakmem_tools.prof.symbols import Symbolizer
    except ImportError as error:
        raise ToolError(
            f"names of call sites need {error.name}; pip install pyelftools", USAGE
        ) from None
    return raw, stacks, Symbolizer


def plain_name(known: dict[int, list[Function]], site: dict[str, Any]) -> str:
    """A function and where it is; what can be said where that is not known."""
    functions = known.get(site["address"])
    if site["token"]:
        return f"token {site['address']:#x}"
    if not functions:
        return f"{site['address']:#x}"
    where = f" ({Path(functions[0].file).name}:{functions[0].line})" if functions[0].file else ""
    return f"{functions[0].name}{where}"


def lifetimes(stat: Stat) -> list[Lifetime]:
    """Of a look at a process: the sites whose blocks were looked at, or that have a group."""
    names = stat.get(LIFETIME_NAMES, {})
    return [
        Lifetime(
            site["address"],
            names.get(site["address"], f"{site['address']:#x}"),
            site["group"],
            site["samples"],
            site["live_samples"],
            site["life_bytes"] or 0,
            site["least_bytes"],
            site["most_bytes"],
            tuple(site["blocks"]),
        )
        for site in stat.get("lifetime_sites", [])
        if site["samples"] or site["group"] != "short"
    ]


def name_of(stack: Stack) -> str:
    """The function that allocates, where, and who called it."""
    first, *callers = stack.frames
    where = f" ({Path(first.file).name}:{first.line})" if first.file else ""
    caller = next((frame.name for frame in callers if frame.name != first.name), "")
    return f"{first.name}{where}" + (f" < {caller}" if caller else "")


def of(stat: Stat) -> list[Site]:
    """The call sites of a look at a process; stacks with the same name are one."""
    held: defaultdict[str, float] = defaultdict(float)
    blocks: defaultdict[str, float] = defaultdict(float)
    for site in stat.get(NAMED, {}).values():
        held[site.name] += site.live_bytes
        blocks[site.name] += site.live_blocks
    return [Site(name, held[name], blocks[name]) for name in held]


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
    for site in sorted(lifetimes(stat), key=lambda site: -site.life_bytes):
        blocks = sum(begin <= address < end for address in site.blocks)
        if blocks:
            yield f"{blocks} watched, lives {size(site.life_bytes)}: {site.name}"
