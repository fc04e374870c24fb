# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A profile with names: without the allocator's own frames, each stack as functions.

Who uses it: the reports. Figures are chosen by name: VALUES.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from hakmem_tools.prof.raw import Profile, Site
from hakmem_tools.prof.symbols import Function, Symbolizer

VALUES = ("live_bytes", "live_objects", "allocated_bytes", "allocated_objects")

OWN_LIBRARY = re.compile(r"libhakmem[\w-]*\.so.*")
OWN_FUNCTION = re.compile(
    r"(hak_|hakmem_|api_|route_|profile_|malloc_refuse|operators_)\w+"
    r"|(__libc_)?(malloc|calloc|realloc|reallocarray|memalign|valloc|pvalloc)"
    r"|aligned_alloc|posix_memalign|operator new(\[\])?(\(.*)?"
)

NO_STACK = Function("[no call stack]")


@dataclass(frozen=True)
class Stack:
    """A site whose frames outside of the allocator have names."""

    addresses: tuple[int, ...]
    frames: tuple[Function, ...]
    """Innermost first, inlined functions as frames of their own."""
    site: Site

    def value(self, name: str) -> float:
        """One of VALUES."""
        return float(getattr(self.site, name))


def is_own(profile: Profile, symbols: Symbolizer, pc: int) -> bool:
    """True for a frame of the allocator itself, linked dynamically or statically."""
    mapping = profile.mapping_of(pc)
    if mapping is not None and OWN_LIBRARY.fullmatch(Path(mapping.path).name):
        return True
    return OWN_FUNCTION.fullmatch(symbols.functions(pc)[-1].name) is not None


def name_stacks(profile: Profile, symbols: Symbolizer) -> list[Stack]:
    """All sites of a profile."""
    own: dict[int, bool] = {}
    stacks = []
    for site in profile.sites:
        first = 0
        for pc in site.stack:
            if pc not in own:
                own[pc] = is_own(profile, symbols, pc)
            if not own[pc]:
                break
            first += 1
        addresses = site.stack[first:] or site.stack
        frames = [function for pc in addresses for function in symbols.functions(pc)]
        stacks.append(Stack(addresses, tuple(frames) or (NO_STACK,), site))
    return stacks


def read(profile: Profile) -> list[Stack]:
    """The stacks of a profile, symbolised."""
    return name_stacks(profile, Symbolizer(profile))


def folded(stacks: list[Stack], value: str) -> dict[tuple[str, ...], float]:
    """Stacks as names, outermost first, with the sum of a value; those of 0 are left out."""
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for stack in stacks:
        names = tuple(function.name for function in reversed(stack.frames))
        sums[names] += stack.value(value)
    return {names: total for names, total in sums.items() if total != 0}


@dataclass(frozen=True)
class Row:
    """A function in the table: by itself, and with what it calls."""

    name: str
    own: float
    total: float


def rows(sums: dict[tuple[str, ...], float]) -> list[Row]:
    """Functions, the largest of their own first."""
    own: dict[str, float] = defaultdict(float)
    total: dict[str, float] = defaultdict(float)
    for names, value in sums.items():
        own[names[-1]] += value
        for name in set(names):
            total[name] += value
    found = [Row(name, own[name], value) for name, value in total.items()]
    return sorted(found, key=lambda row: (-abs(row.own), -abs(row.total), row.name))


def difference(
    before: dict[tuple[str, ...], float], after: dict[tuple[str, ...], float]
) -> dict[tuple[str, ...], float]:
    """What came, and (below 0) what went."""
    changed = {names: after.get(names, 0.0) - before.get(names, 0.0) for names in before | after}
    return {names: value for names, value in changed.items() if value != 0}
