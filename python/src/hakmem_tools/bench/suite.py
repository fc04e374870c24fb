# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: the list of what is measured, and with which arguments.

Full sizes take 0.3 to 1.5 seconds under a good allocator, quick ones some 50 milliseconds.
Who uses it: cli and runner. It never runs anything.
"""

import fnmatch
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_tools.bench.places import BenchError, Places

GROUPS = {
    "small": "Small blocks, one thread or threads that share nothing",
    "threads": "Blocks that cross threads, threads that come and go",
    "large": "Large and huge blocks",
    "memory": "What is kept: phases, peaks, survivors",
    "c++": "C++ containers, trees, documents",
    "real": "Real programs",
    "given": "Programs that were given",
    "bounds": "Workloads of `hakmem bench bounds`",
    "drawn": "Workloads of `hakmem bench drawn`",
    "shapes": "Shapes of `hakmem bench shapes`",
    "latency": "Workloads of `hakmem bench latency`",
}

WARM_MIB = 512
"""More than any program of the full set has at its peak."""


@dataclass(frozen=True)
class Benchmark:
    """One program with its arguments."""

    name: str
    group: str
    what: str
    """One line for a reader of the report."""
    command: tuple[str, ...]
    """The program and its arguments at full size. {work}, {real} and {demo} stand for folders."""
    quick: tuple[str, ...]
    """The arguments of --quick, and of the runs that count instructions or calls."""
    repeats: int = 1
    """How often the launcher starts the program in one measurement."""
    rounds_most: int = 100
    """Limit to the number of rounds, for a program that takes long under some allocator."""
    idle: bool = False
    """Whether the program can wait when its work is freed, for RSS after idle."""
    package: str = ""
    """The Debian package of a program of the system; empty for one of ours."""
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Path, Places], None] | None = None
    """Makes input in {work}, once."""
    results: tuple[str, ...] = ()
    """Files in {work} that the program writes and that belong to what is checked."""
    client: Callable[[Path, bool], tuple[int, str]] | None = None
    """For a server: uses it; returns the time in ns, and what must be the same every time."""
    folder: Path | None = None
    """For a program that was given: where it runs. Its arguments are taken as they are."""
    own_allocator: bool = False
    """The program is linked with another allocator: glibc's malloc has to be preloaded too."""
    warm_mib: int = WARM_MIB
    """What the launcher touches and frees before each run."""
    rest_s: float = 0
    """Seconds of rest before each run, in which a virtual machine's host may take memory back."""
    under: tuple[str, ...] = ()
    """The allocators that it is measured under, where others take minutes; empty: all."""

    def command_for(self, quick: bool) -> tuple[str, ...]:
        """The whole command line."""
        return (self.command[0], *self.quick) if quick else self.command


def words(text: str) -> tuple[str, ...]:
    """A command line without quoting."""
    return tuple(text.split())


def ours(
    name: str, group: str, full: str, quick: str, what: str, *, idle: bool = False, most: int = 100
) -> Benchmark:
    """A program of bench/programs."""
    return Benchmark(name, group, what, words(full), words(quick), idle=idle, rounds_most=most)


def random_mixed(slots: int, threads: int, what: str) -> Benchmark:
    """The same work in each thread. With much memory in use a cycle takes several times as long."""
    cycles = 5000000 if slots > 100000 else 10000000
    return ours(
        f"random_mixed-{slots}-{threads}t",
        "small",
        f"random_mixed {cycles} {slots} 42 {threads}",
        f"1000000 {min(slots, 20000)} 42 {threads}",
        what,
        idle=slots > 100000,
    )


def large(scenario: str, cycles: int, quick: int, what: str) -> Benchmark:
    """Blocks of one size, the oldest scenarios of this project."""
    return ours(
        f"large-{scenario}",
        "large",
        f"large_scenarios {scenario} {cycles}",
        f"{scenario} {quick}",
        what,
        idle=scenario == "mixed",
    )


OURS: tuple[Benchmark, ...] = (
    random_mixed(256, 1, "random slots of 16-1039 bytes, 256 slots (70 kB)"),
    random_mixed(256, 2, "two threads with 256 slots each"),
    random_mixed(8192, 1, "random slots of 16-1039 bytes, 8,192 slots (2 MB)"),
    random_mixed(8192, 2, "two threads with 8,192 slots each"),
    random_mixed(400000, 1, "random slots of 16-1039 bytes, 400,000 slots (100 MB)"),
    random_mixed(400000, 2, "two threads with 400,000 slots each"),
    ours("pair_loop", "small", "pair_loop 50000000", "5000000", "malloc(64) and free in turn"),
    ours(
        "deep_pool",
        "small",
        "deep_pool 20000000 1600 64",
        "2000000 1600 64",
        "1,600 live blocks of one size, replaced oldest first",
    ),
    ours(
        "lifetimes-lifo",
        "small",
        "lifetimes lifo 100000 30",
        "lifo 20000 30",
        "100,000 blocks of 16-512 bytes, freed last first",
    ),
    ours(
        "lifetimes-fifo",
        "small",
        "lifetimes fifo 100000 30",
        "fifo 20000 30",
        "the same, freed first first",
    ),
    ours(
        "lifetimes-random",
        "small",
        "lifetimes random 100000 20",
        "random 20000 30",
        "the same, freed in random order",
    ),
    ours(
        "burst_reverse",
        "small",
        "burst_reverse 12000 1000",
        "2000 1000",
        "bursts of 1,000 blocks of 16-96 bytes, freed in reverse",
    ),
    ours(
        "churned_list",
        "small",
        "churned_list 300000 32 64 10",
        "30000 32 64 5",
        "a list of 150,000 nodes in a heap that was in use for a while, walked along ten times",
    ),
    ours(
        "window",
        "small",
        "window 100000 16 400 4000000",
        "20000 16 400 200000",
        "100,000 blocks of 16-400 bytes, the oldest read, freed and replaced four million times",
    ),
    Benchmark(
        "true",
        "small",
        "start-up: 100 starts of /bin/true",
        ("true",),
        (),
        repeats=100,
        package="coreutils",
    ),
    ours(
        "prodcons",
        "threads",
        "prodcons 2000",
        "200",
        "one thread allocates, another frees; batches of 4,096 blocks of 64 bytes",
    ),
    ours(
        "prodcons_one",
        "threads",
        "prodcons_one 1000000",
        "100000",
        "one thread allocates, another frees; handed over one by one",
    ),
    ours(
        "producers-64",
        "threads",
        "producers 1000 64 64",
        "100 64 64",
        "four threads allocate blocks of 64 bytes, a fifth frees them",
    ),
    ours(
        "producers-mixed",
        "threads",
        "producers 600 16 1000",
        "60 16 1000",
        "four threads allocate blocks of 16-1,000 bytes, a fifth frees them",
    ),
    ours(
        "falloff",
        "threads",
        "falloff 1500000 1500 2",
        "150000 1500 2",
        "8-16,000 bytes, small ones far more often; a third is freed by another thread",
    ),
    ours(
        "false_sharing-active",
        "threads",
        "false_sharing active 400000",
        "active 40000",
        "two threads write to small blocks that they allocated themselves",
    ),
    ours(
        "false_sharing-passive",
        "threads",
        "false_sharing passive 400000",
        "passive 40000",
        "two threads write to small blocks that descend from one thread's neighbours",
    ),
    ours(
        "cache_thrash",
        "threads",
        "cache_thrash 1000000 2",
        "50000 2",
        "both kinds of false sharing at once",
    ),
    ours(
        "larson-small",
        "threads",
        "larson 0 8 1000 1000 400 42 2",
        "0 8 1000 1000 20 42 2",
        "threads inherit small blocks from ended threads",
        idle=True,
    ),
    ours(
        "larson-many",
        "threads",
        "larson 0 8 1000 10000 5 42 8",
        "0 8 1000 100 20 42 8",
        "eight such threads at once",
    ),
    ours(
        "mid_threads",
        "threads",
        "mid_threads 500000 200 42 2",
        "50000 50 42 2",
        "blocks of 8-32 KiB in two threads",
        idle=True,
    ),
    ours(
        "parked_threads",
        "threads",
        "parked_threads 1000",
        "100",
        "1,000 threads allocate 100 small blocks each and sleep",
    ),
    ours(
        "thread_churn",
        "threads",
        "thread_churn 5000",
        "300",
        "threads one after the other, each hands on 20 blocks",
    ),
    ours(
        "task_threads",
        "threads",
        "task_threads 12000 16 4000",
        "1000 16 4000",
        "16 threads at a time come and go, each with 100 blocks of up to 4,000 bytes",
        idle=True,
    ),
    large("json", 1500000, 100000, "blocks of 64 KiB"),
    large("mir", 500000, 20000, "blocks of 256 KiB"),
    large("vm", 20000, 1000, "blocks of 2 MiB"),
    large("mixed", 40000, 1500, "blocks of 64 KiB, 256 KiB and 2 MiB"),
    ours(
        "matrix-512",
        "large",
        "matrix_columns 512 400",
        "256 100",
        "a matrix of 512 rows of 4 KiB, added up by columns",
    ),
    ours(
        "matrix-2048",
        "large",
        "matrix_columns 2048 10",
        "1024 3",
        "a matrix of 2,048 rows of 16 KiB, added up by columns",
    ),
    ours(
        "block_heads",
        "large",
        "block_heads 300 1025 8000 20000000",
        "300 1025 8000 2000000",
        "a list of 300 blocks of 1 to 8 KiB, of which only the beginnings are read",
    ),
    ours(
        "side_by_side",
        "large",
        "side_by_side 16 4096 12",
        "16 4096 2",
        "16 arrays of 4 MiB and a few bytes, read side by side",
    ),
    ours(
        "replace_huge",
        "large",
        "replace_huge 100",
        "20",
        "100 replacements of blocks of 5-25 MiB, all written",
        idle=True,
        most=3,
    ),
    ours(
        "realloc_grow",
        "large",
        "realloc_grow 256",
        "64",
        "one block grows from 1 MiB to 256 MiB",
        most=3,
    ),
    ours(
        "free_all-owner",
        "memory",
        "free_all owner 800000",
        "owner 50000",
        "800,000 blocks of 240 bytes, all freed by their thread",
        idle=True,
        most=3,
    ),
    ours(
        "free_all-other",
        "memory",
        "free_all other 800000",
        "other 50000",
        "800,000 blocks of 240 bytes, all freed by another thread",
        idle=True,
        most=3,
    ),
    ours(
        "return_peak",
        "memory",
        "return_peak 200",
        "50",
        "200 MiB of blocks of 16 bytes to 64 KiB come and go; what stays resident",
        idle=True,
        most=3,
    ),
    ours(
        "churn_phases",
        "memory",
        "churn_phases 64 3000000 42",
        "4 500000 42",
        "ten phases with blocks of different sizes, one in 16 survives each",
        idle=True,
    ),
    ours(
        "long_lived",
        "memory",
        "long_lived 10000000",
        "1000000",
        "one in a hundred blocks of 64 bytes lives on",
        idle=True,
    ),
    ours(
        "cxx_maps", "c++", "cxx_maps 120000", "30000", "maps of strings: filled, asked, thinned out"
    ),
    ours("cxx_trees", "c++", "cxx_trees 17 50", "13 20", "binary trees built and destroyed"),
    ours(
        "cxx_json",
        "c++",
        "cxx_json 25",
        "3",
        "JSON documents parsed, changed, written, in a sliding window",
        idle=True,
    ),
)


def all_benchmarks() -> tuple[Benchmark, ...]:
    """Ours and the real programs."""
    from hakmem_tools.bench.real import REAL  # it builds on this module

    return OURS + REAL


def matches(benchmark: Benchmark, patterns: Sequence[str]) -> bool:
    """Whether a name or group matches a pattern: part of the name, with * and ? where given."""
    for pattern in patterns:
        if pattern in GROUPS:
            if pattern == benchmark.group:
                return True
            continue
        wild = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
        if fnmatch.fnmatch(benchmark.name, wild):
            return True
    return False


def select(only: Sequence[str], skip: Sequence[str]) -> list[Benchmark]:
    """What matches `only` (everything if it is empty) and not `skip`."""
    everything = all_benchmarks()
    for pattern in (*only, *skip):
        if not any(matches(b, [pattern]) for b in everything):
            raise BenchError(
                f"no benchmark matches '{pattern}': `hakmem bench list` names them all"
            )
    chosen = [b for b in everything if (not only or matches(b, only)) and not matches(b, skip)]
    if not chosen:
        raise BenchError("nothing is left to measure: --skip takes away all that --only chose")
    return chosen


def given(spec: str) -> Benchmark:
    """A program of the user's, as NAME=COMMAND split as by a shell, that runs in the current folder.

    Raises BenchError if that is no name and command, or the program is not found.
    """
    name, _, text = spec.partition("=")
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise BenchError(f"--program '{spec}': {error}") from error
    if not re.fullmatch(r"[\w.+-]+", name) or not command:
        raise BenchError(
            f"--program '{spec}' is not NAME=COMMAND, the name of letters, digits and . _ + - alone, "
            "like --program 'sort=sort big.txt'; "
            "for a pipe or a redirection: \"x=sh -c 'a | b > c'\""
        )
    if any(name == benchmark.name for benchmark in all_benchmarks()):
        raise BenchError(f"--program {name}: a benchmark has this name; choose another")
    if shutil.which(command[0]) is None:
        raise BenchError(f"--program {name}: there is no program {command[0]}")
    folder = Path.cwd()
    return Benchmark(name, "given", f"in {folder}", command, command[1:], folder=folder)


# Pairs whose times show how far two threads that share nothing get: name, with one, with two.
SCALING = tuple(
    (f"random_mixed-{slots}", f"random_mixed-{slots}-1t", f"random_mixed-{slots}-2t")
    for slots in (256, 8192, 400000)
)
