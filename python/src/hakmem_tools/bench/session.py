# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the commands of `hakmem bench` share: options, a choice of allocators, a run and its result."""

import contextlib
import datetime
import functools
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hakmem_tools.bench import allocators as alloc
from hakmem_tools.bench import places, suite, table
from hakmem_tools.bench.places import BenchError
from hakmem_tools.bench.runner import Plan, Result, failures
from hakmem_tools.bench.runner import run as run_plan
from hakmem_tools.common import cli, files
from hakmem_tools.common.errors import INTERRUPTED


@functools.cache
def out() -> Console:
    """Standard output; without a terminal a file is as wide as it needs to be."""
    return Console(width=cli.width(100) if sys.stdout.isatty() else 200)


def print_line(line: str) -> None:
    """A line of text as it is: a path, or part of a document."""
    out().print(line, markup=False, highlight=False, soft_wrap=True)


@functools.cache
def err() -> Console:
    """Standard error."""
    return Console(stderr=True)


BuildFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Build folder, instead of build/release.")
]
ResultFolder = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="For the result; made if need be."),
]
DocsFolder = Annotated[Path | None, typer.Option(metavar="DIR", help="Instead of docs.")]
AllocatorNames = Annotated[
    str, typer.Option(help="Comma-separated names; all that are installed if not given.")
]
Libraries = Annotated[
    list[str] | None, typer.Option(metavar="NAME=PATH", help="Another library to measure too.")
]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds.")]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds for one run.")]
CommittedResult = Annotated[Path, typer.Argument(metavar="RESULT", help="A committed result file.")]


def command_to_repeat() -> str:
    """What was typed; where the result goes does not matter to who repeats it."""
    words = sys.argv[1:]
    kept, skip = [], False
    for word in words:
        if skip or word.startswith(("--output=", "--build=")):
            skip = False
        elif word in ("--output", "-o", "--build"):
            skip = True
        else:
            kept.append(word)
    return shlex.join(["hakmem", "bench", *kept])


def save(result: Result, folder: Path) -> None:
    """Writes the result so that an interruption leaves the old or the new one."""
    files.write(folder / "result.json", json.dumps(result, indent=1) + "\n")


def chosen_allocators(
    given: str, extra: list[str], where: places.Places
) -> tuple[list[alloc.Allocator], list[alloc.Missing]]:
    """Those with names between commas and those of --lib; says which are left out."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    found, missing = alloc.choose(names, extra, where)
    for absent in missing:
        said = f"{absent.name} is left out: {absent.reason}"
        err().print(said, style="yellow", markup=False, highlight=False)
    return found, missing


def output_folder(given: Path | None, default: Path) -> Path:
    """The folder for the result, created."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = given or default / f"hakmem-bench-{stamp}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(f"cannot write to {folder}: {error}; give another --output") from error
    return folder


@contextlib.contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """An interruption is said, and where what was complete by then is."""
    path = folder / "result.json"

    def written() -> int:
        return path.stat().st_mtime_ns if path.exists() else 0

    before = written()
    try:
        yield
    except KeyboardInterrupt:
        is_new = written() != before
        kept = f"what was complete is in {path}" if is_new else "nothing was complete"
        cli.fail("bench", f"interrupted; {kept}", INTERRUPTED)


def measure(plan: Plan, folder: Path) -> Result:
    """Runs a plan with the progress bar."""
    bar = table.Bar(err(), functools.partial(save, folder=folder))
    try:
        return run_plan(plan, bar)
    finally:
        bar.stop()


def whole_plan(
    benchmarks: list[suite.Benchmark],
    chosen_ones: tuple[list[alloc.Allocator], list[alloc.Missing]],
    where: places.Places,
    rounds: int,
    seconds: float,
) -> Plan:
    """With all of the work; no run waits for what is resident after idle."""
    found, missing = chosen_ones
    return Plan(
        benchmarks=benchmarks,
        allocators=found,
        missing=missing,
        places=where,
        rounds=rounds,
        quick=False,
        command=command_to_repeat(),
        seconds=seconds,
        idle_rounds=0,
    )


def run_and_show(
    where: places.Places,
    output: Path | None,
    run: Callable[[Path], Result],
    show: Callable[[Result, Console], None],
) -> Result:
    """Runs what measures into a folder, shows what came out, and says where it is."""
    folder = output_folder(output, where.results)
    with interruptible(folder):
        result = run(folder)
    show(result, out())
    out().print(f"{folder}/result.json, {result['seconds']:.0f} s", markup=False, soft_wrap=True)
    return result


def measure_and_show(
    plan: Plan, output: Path | None, show: Callable[[Result, Console], None]
) -> Result:
    """The same for a plan."""
    return run_and_show(plan.places, output, functools.partial(measure, plan), show)


def failed_here(result: Result, extra: list[str]) -> bool:
    """Whether hakmem or a library of --lib failed somewhere; peers may."""
    watched = {"hakmem", *(spec.partition("=")[0] for spec in extra)}
    return any(allocator in watched for _, allocator, _ in failures(result))


def docs_folder() -> Path:
    """The folder docs of the source tree."""
    root = places.source_tree()
    if root is None:
        raise BenchError("there is no source tree here: give --folder DIR")
    return root / "docs"
