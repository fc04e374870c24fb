# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: programs of ours that say themselves which workloads they have, each with a name.

`PROGRAM list` prints `NAME: what it does` of each; `PROGRAM NAME` runs it. The benchmarks of such a
program are a group called after it. Who uses it: shapes and latency. It never prints.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_tools.bench.places import BenchError, Places
from hakmem_tools.bench.runner import ask, built_program
from hakmem_tools.bench.suite import Benchmark


@dataclass(frozen=True)
class Named:
    """A program and how its workloads are called."""

    program: str
    """The group of the benchmarks too."""
    prefix: str
    """Before the name of a workload in that of its benchmark."""
    one: str
    """What a message calls one of them."""

    def listed(self, places: Places) -> dict[str, str]:
        """What each workload does, as the program says it."""
        found = {}
        for line in ask(built_program(self.program, places), "list") or [""]:
            said = re.fullmatch(r"([\w-]+): *(\S.*)", line)
            if said is None:
                raise BenchError(
                    f"`{self.program} list` does not say what there is: '{line[:200]}'"
                )
            found[said.group(1)] = said.group(2)
        return found

    def benchmarks(self, names: Sequence[str], places: Places) -> list[Benchmark]:
        """The workloads of these names, or all, in the order of the program."""
        known = self.listed(places)
        for name in names:
            if name not in known:
                raise BenchError(f"there is no {self.one} '{name}'; there are: {', '.join(known)}")
        return [
            Benchmark(f"{self.prefix}{name}", self.program, what, (self.program, name), (name,))
            for name, what in known.items()
            if not names or name in names
        ]

    def name_of(self, benchmark: str) -> str:
        """The workload that a benchmark is called after."""
        if not benchmark.startswith(self.prefix):
            raise BenchError(f"the result is damaged: '{benchmark}' is no name of a {self.one}")
        return benchmark.removeprefix(self.prefix)
