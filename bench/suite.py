# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: the list of what is measured, and with which arguments.

Who uses it: bench/compare.py. It never runs anything. A set is a selection of the list: "first" is
the set of figures in docs/benchmarks.md, "full" is everything at full size, "quick" is everything
with little work, to see that the programs run and agree on their checksums.
"""

from dataclasses import dataclass

SETS = ("first", "full", "quick")


@dataclass(frozen=True)
class Benchmark:
    """One program with its arguments."""

    name: str
    command: tuple[str, ...]
    """The program (a name in build/<preset>/bench, or `true`) and its arguments at full size."""
    quick: tuple[str, ...]
    """The arguments of the set "quick", and of the runs that count instructions or calls."""
    what: str
    """One line for a reader of the report."""
    first: bool = False
    """Whether it belongs to the set "first"."""
    runs: int = 1
    """How often the launcher runs the program in one measurement."""
    rounds_most: int = 100
    """Limit to the number of rounds, for a program that takes minutes under some allocator."""

    def in_set(self, name: str) -> bool:
        return self.first if name == "first" else True

    def command_for(self, set_name: str) -> tuple[str, ...]:
        return (self.command[0], *self.quick) if set_name == "quick" else self.command


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def random_mixed(slots: int, threads: int, what: str) -> Benchmark:
    return Benchmark(
        name=f"random_mixed-{slots}-{threads}t",
        command=words(f"random_mixed 10000000 {slots} 42 {threads}"),
        quick=words(f"1000000 {min(slots, 20000)} 42 {threads}"),
        what=what,
        first=True,
    )


def larson(name: str, arguments: str, quick: str, what: str) -> Benchmark:
    return Benchmark(name, words(f"larson {arguments}"), words(quick), what)


def large(scenario: str, cycles: int, quick: int, what: str) -> Benchmark:
    return Benchmark(
        f"large-{scenario}",
        words(f"large_scenarios {scenario} {cycles}"),
        words(f"{scenario} {quick}"),
        what,
    )


BENCHMARKS: tuple[Benchmark, ...] = (
    random_mixed(256, 1, "random slots of 16-1039 bytes, 256 slots (70 kB)"),
    random_mixed(256, 2, "two threads with 256 slots each"),
    random_mixed(8192, 1, "random slots of 16-1039 bytes, 8,192 slots (2 MB)"),
    random_mixed(8192, 2, "two threads with 8,192 slots each"),
    random_mixed(400000, 1, "random slots of 16-1039 bytes, 400,000 slots (100 MB)"),
    random_mixed(400000, 2, "two threads with 400,000 slots each"),
    Benchmark(
        "pair_loop",
        words("pair_loop 50000000"),
        words("1000000"),
        "malloc(64) and free in turn, the shortest path there is",
    ),
    Benchmark(
        "prodcons",
        words("prodcons 2000"),
        words("100"),
        "one thread allocates, another frees; batches of 4,096 objects of 64 bytes",
        first=True,
    ),
    Benchmark("true", ("true",), (), "start-up: 200 starts of /bin/true", first=True, runs=200),
    Benchmark(
        "parked_threads",
        words("parked_threads 1000"),
        words("50"),
        "1,000 threads allocate 100 small blocks each and sleep",
        first=True,
    ),
    larson(
        "larson-small",
        "0 8 1000 1000 100 42 2",
        "0 8 1000 100 20 42 2",
        "threads inherit small blocks from ended threads",
    ),
    larson(
        "larson-many",
        "0 8 1000 10000 20 42 8",
        "0 8 1000 100 20 42 8",
        "eight such threads at once",
    ),
    Benchmark(
        "mid_threads",
        words("mid_threads 500000 200 42 2"),
        words("10000 50 42 2"),
        "blocks of 8-32 KiB in two threads",
    ),
    large("json", 300000, 5000, "blocks of 64 KiB"),
    large("mir", 100000, 2000, "blocks of 256 KiB"),
    large("vm", 20000, 200, "blocks of 2 MiB"),
    large("mixed", 40000, 400, "blocks of 64 KiB, 256 KiB and 2 MiB"),
    Benchmark(
        "thread_churn",
        words("thread_churn 10000"),
        words("300"),
        "threads one after the other, each hands on 20 blocks",
    ),
    Benchmark(
        "free_all-owner",
        words("free_all owner"),
        words("owner 50000"),
        "1.6 million blocks of 240 bytes, all freed by their thread",
    ),
    Benchmark(
        "free_all-other",
        words("free_all other"),
        words("other 50000"),
        "1.6 million blocks of 240 bytes, all freed by another thread",
    ),
    Benchmark(
        "replace_huge",
        words("replace_huge 2000"),
        words("40"),
        "2,000 replacements of blocks of 5-25 MiB, all written",
        rounds_most=3,
    ),
    Benchmark(
        "realloc_grow",
        words("realloc_grow 1024"),
        words("32"),
        "one block grows from 1 MiB to 1 GiB",
        rounds_most=1,
    ),
    Benchmark(
        "cache_thrash",
        words("cache_thrash 3000000 2"),
        words("20000 2"),
        "false sharing of small objects between two threads",
    ),
    Benchmark(
        "churn_phases",
        words("churn_phases 64 20000000 42"),
        words("4 500000 42"),
        "ten phases with blocks of different sizes",
    ),
)


def select(set_name: str, only: list[str]) -> list[Benchmark]:
    """The benchmarks of a set whose names contain one of `only` (all when it is empty)."""
    chosen = [b for b in BENCHMARKS if b.in_set(set_name)]
    return [b for b in chosen if not only or any(part in b.name for part in only)]
