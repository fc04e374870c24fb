# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: call sites in the answer of `hakmem stat --samples`, where the process keeps them.

Who uses it: top and map. A process that takes no samples has none, which is no error.
"""

from dataclasses import dataclass

from hakmem_tools.common.command import Stat


@dataclass(frozen=True)
class Site:
    """A place in the program, and what it holds, estimated from samples."""

    key: str
    name: str
    live_bytes: float
    live_blocks: float


NONE = Site("", "", 0, 0)


def of(stat: Stat) -> list[Site]:
    """The call sites of a look at a process."""
    return []


def in_range(stat: Stat, begin: int, end: int) -> list[str]:
    """The names of the call sites of sampled blocks between two addresses."""
    return []
