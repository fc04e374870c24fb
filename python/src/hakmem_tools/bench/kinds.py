# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Commands of `hakmem bench` for measurements of other kinds, and for the documents of their results.

`learn`, `bounds`, `drawn`, `shapes`, `latency`, each with its `-docs`; cli.py lists them.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hakmem_tools.bench import allocators as alloc
from hakmem_tools.bench import (
    bounds,
    bounds_text,
    drawn,
    drawn_text,
    latency,
    latency_text,
    learning,
    learning_text,
    places,
    shapes,
    shapes_text,
    suite,
    summary,
)
from hakmem_tools.bench.places import BenchError
from hakmem_tools.bench.runner import Result
from hakmem_tools.bench.session import (
    AllocatorNames,
    BuildFolder,
    CommittedResult,
    DocsFolder,
    Libraries,
    ResultFolder,
    Rounds,
    Timeout,
    chosen_allocators,
    command_to_repeat,
    docs_folder,
    err,
    failed_here,
    measure_and_show,
    print_line,
    run_and_show,
    save,
    whole_plan,
)

app = typer.Typer()


def with_ours(
    given: str, extra: list[str], where: places.Places
) -> tuple[list[alloc.Allocator], list[alloc.Missing]]:
    """The same for what is relative to ours."""
    found, missing = chosen_allocators(given, extra, where)
    if all(allocator.name != drawn.OURS for allocator in found):
        raise BenchError(f"all is relative to {drawn.OURS}: name it with --allocators too")
    return found, missing


def write_page(
    result_path: Path,
    folder: Path | None,
    command: str,
    found: Callable[[Result], Sequence[object]],
    write: Callable[[Result, Path, Path], Path],
) -> None:
    """Writes the page of a result, if something that the command measures is found in it."""
    result = summary.read_result(result_path)
    if not found(result):
        raise BenchError(f"{result_path} is no result of `hakmem bench {command}`")
    written = write(result, result_path, folder or docs_folder())
    print_line(str(written))


def beside_ours(
    found: Callable[[Result], Sequence[object]],
) -> Callable[[Result], Sequence[object]]:
    """The same, or nothing where ours was not measured: all is relative to it."""
    return lambda result: found(result) if drawn.OURS in result["allocators"] else ()


@app.command("learn")
def learn(
    quick: Annotated[bool, typer.Option("--quick", help="Small work.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the three ways.")] = 3,
    only: Annotated[
        list[str] | None, typer.Option(help="Only workloads whose names contain this.")
    ] = None,
    learns: Annotated[int, typer.Option(min=1, help="Runs that watch, before.")] = 1,
    tries: Annotated[
        int, typer.Option(min=0, help="Short runs before, in each of which one knob is tried.")
    ] = 0,
    pairs: Annotated[
        int,
        typer.Option(
            min=0, help="Short runs, fixed and live in turns; also counts instructions and calls."
        ),
    ] = 0,
    output: ResultFolder = None,
    build: BuildFolder = None,
    timeout: Timeout = 300,
) -> None:
    """Measures what learning is worth: fixed defaults, learning live, learned and frozen."""
    where = places.find(build)
    plan = learning.LearningPlan(
        workloads=learning.select(only or []),
        places=where,
        rounds=rounds,
        quick=quick,
        learns=learns,
        tries=tries,
        command=command_to_repeat(),
        seconds=timeout,
        pairs=pairs,
    )
    said = functools.partial(err().print, highlight=False, markup=False)

    def run(folder: Path) -> Result:
        return learning.run(plan, said, functools.partial(save, folder=folder))

    result = run_and_show(where, output, run, learning_text.show)
    if any(w["problem"] for w in result["workloads"] if not w["skipped"]):
        raise typer.Exit(1)


@app.command("learn-docs")
def make_learn_docs(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT...", help="Results of `learn`; of a workload the last."),
    ],
    folder: DocsFolder = None,
) -> None:
    """Writes docs/learning-evaluation.md from results of `learn`."""
    target = folder or docs_folder()
    results = learning.read_results(paths)
    notes = target / "results" / "learning-notes.md"
    page = target / "learning-evaluation.md"
    written = learning_text.write(learning.joined(results), notes, page)
    print_line(str(written))


@app.command("bounds")
def measure_bounds(
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds; long workloads have fewer.")
    ] = bounds.ROUNDS,
    only: Annotated[
        list[str] | None, typer.Option(help="Only workloads that match: part of a name, a pattern.")
    ] = None,
    allocators: AllocatorNames = "",
    output: ResultFolder = None,
    build: BuildFolder = None,
    timeout: Timeout = 120,
) -> None:
    """Measures what has a bound, in turns with other allocators, and says whether it holds."""
    where = places.find(build)
    chosen_ones = chosen_allocators(allocators, [], where)
    plan = whole_plan(bounds.select(only or []), chosen_ones, where, rounds, timeout)
    result = measure_and_show(plan, output, bounds_text.show)
    if failed_here(result, []) or any(
        verdict.word == bounds.FAILS for verdict in bounds.verdicts(result)
    ):
        raise typer.Exit(1)


@app.command("bounds-docs")
def make_bounds_docs(result_path: CommittedResult, folder: DocsFolder = None) -> None:
    """Writes docs/bounds.md from a result of `bounds`."""
    write_page(result_path, folder, "bounds", bounds.verdicts, bounds_text.write)


def measure_beside_ours(
    listed: Callable[[places.Places], list[suite.Benchmark]],
    show: Callable[[Result, Console], None],
    given: str,
    extra: list[str],
    rounds: int,
    output: Path | None,
    build: Path | None,
    seconds: float,
) -> None:
    """Measures what is listed, relative to ours; exit status 1 if ours or an extra one failed."""
    where = places.find(build)
    chosen_ones = with_ours(given, extra, where)
    plan = whole_plan(listed(where), chosen_ones, where, rounds, seconds)
    result = measure_and_show(plan, output, show)
    if failed_here(result, extra):
        raise typer.Exit(1)


@app.command("drawn")
def measure_drawn(
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = drawn.FIRST,
    count: Annotated[
        int, typer.Option(min=1, help="Workloads, one of each seed from the first.")
    ] = drawn.COUNT,
    rounds: Rounds = drawn.ROUNDS,
    allocators: AllocatorNames = "",
    lib: Libraries = None,
    worst: Annotated[
        int, typer.Option(min=0, help="Show so many in which hakmem is furthest behind.")
    ] = drawn_text.WORST,
    output: ResultFolder = None,
    build: BuildFolder = None,
    timeout: Timeout = 120,
) -> None:
    """Measures workloads that nobody has chosen, in turns under all allocators."""
    listed = functools.partial(drawn.benchmarks, first, count)
    show = functools.partial(drawn_text.show, worst=worst)
    measure_beside_ours(listed, show, allocators, lib or [], rounds, output, build, timeout)


@app.command("drawn-docs")
def make_drawn_docs(result_path: CommittedResult, folder: DocsFolder = None) -> None:
    """Writes docs/drawn.md from a result of `drawn`."""
    write_page(result_path, folder, "drawn", beside_ours(drawn.workloads), drawn_text.write)


@app.command("shapes")
def measure_shapes(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Only these shapes.")
    ] = None,
    rounds: Rounds = shapes.ROUNDS,
    allocators: AllocatorNames = "",
    lib: Libraries = None,
    output: ResultFolder = None,
    build: BuildFolder = None,
    timeout: Timeout = 120,
) -> None:
    """Measures how much more than it must an allocator holds, in turns under all allocators."""
    listed, show = functools.partial(shapes.benchmarks, names or []), shapes_text.show
    measure_beside_ours(listed, show, allocators, lib or [], rounds, output, build, timeout)


@app.command("shapes-docs")
def make_shapes_docs(result_path: CommittedResult, folder: DocsFolder = None) -> None:
    """Writes docs/shapes.md from a result of `shapes`."""
    write_page(result_path, folder, "shapes", beside_ours(shapes.shapes), shapes_text.write)


@app.command("latency")
def measure_latency(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Only these workloads.")
    ] = None,
    rounds: Rounds = latency.ROUNDS,
    allocators: AllocatorNames = "",
    lib: Libraries = None,
    output: ResultFolder = None,
    build: BuildFolder = None,
    timeout: Timeout = 120,
) -> None:
    """Measures how long single calls take at worst, in turns under all allocators."""
    listed, show = functools.partial(latency.benchmarks, names or []), latency_text.show
    measure_beside_ours(listed, show, allocators, lib or [], rounds, output, build, timeout)


@app.command("latency-docs")
def make_latency_docs(result_path: CommittedResult, folder: DocsFolder = None) -> None:
    """Writes docs/latency.md from a result of `latency`."""
    write_page(result_path, folder, "latency", beside_ours(latency.workloads), latency_text.write)
