# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command `hakmem bench`.

    hakmem bench [--quick] [...]      measure, show, and write result.json and report.html
    hakmem bench --program NAME=COMMAND    the same with a program of yours
    hakmem bench list                 what can be measured, and the allocators
    hakmem bench compare OLD NEW      what changed between two results
    hakmem bench report RESULT        the table and the page of a result again
    hakmem bench docs RESULT          docs/benchmarks.md and its pictures
    hakmem bench learn [--quick]      what learning is worth: fixed, live, learned and frozen
    hakmem bench learn-docs RESULT    docs/learning-evaluation.md of such a result
    hakmem bench bounds               whether the figures that have a bound hold here
    hakmem bench bounds-docs RESULT   docs/bounds.md of such a result
    hakmem bench drawn                workloads that nobody has chosen, drawn from numbers
    hakmem bench drawn-docs RESULT    docs/drawn.md of such a result
    hakmem bench shapes [NAME...]     how much more than they must allocators hold
    hakmem bench shapes-docs RESULT   docs/shapes.md of such a result
    hakmem bench latency [NAME...]    how long single calls take at worst
    hakmem bench latency-docs RESULT  docs/latency.md of such a result

Exit status: 0, 1 when hakmem or a library given with --lib failed somewhere or a bound does not
hold, 2 for wrong usage or something that has to be set up first, 130 when interrupted. Failures of
peers are shown in all outputs and do not change it. It never changes a setting of the system.
"""

import contextlib
import datetime
import functools
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_tools.bench import allocators as alloc
from hakmem_tools.bench import (
    bounds,
    bounds_text,
    comparison,
    docs,
    drawn,
    drawn_text,
    html,
    latency,
    latency_text,
    learning,
    learning_text,
    places,
    shapes,
    shapes_text,
    suite,
    summary,
    table,
)
from hakmem_tools.bench.places import BenchError
from hakmem_tools.bench.runner import Plan, Result, failures, forecast, missing_program, refusal
from hakmem_tools.bench.runner import run as run_plan
from hakmem_tools.common import cli, files
from hakmem_tools.common.errors import INTERRUPTED, USAGE

ROUNDS_FULL = 5
ROUNDS_QUICK = 2

app = typer.Typer(
    help="Measures allocators: time, peak memory, memory after idle, page faults, system calls.",
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
)


@functools.cache
def out() -> Console:
    """Standard output; without a terminal a file is as wide as it needs to be."""
    return Console(width=cli.width(100) if sys.stdout.isatty() else 200)


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


def with_ours(
    given: str, extra: list[str], where: places.Places
) -> tuple[list[alloc.Allocator], list[alloc.Missing]]:
    """The same for what is relative to ours."""
    found, missing = chosen_allocators(given, extra, where)
    if all(allocator.name != drawn.OURS for allocator in found):
        raise BenchError(f"all is relative to {drawn.OURS}: name it with --allocators too")
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


def measure_and_show(
    plan: Plan, output: Path | None, show: Callable[[Result, Console], None]
) -> Result:
    """Runs a plan, shows what came out, and says where it is."""
    folder = output_folder(output, plan.places.results)
    with interruptible(folder):
        result = measure(plan, folder)
    show(result, out())
    out().print(f"{folder}/result.json, {result['seconds']:.0f} s", markup=False, soft_wrap=True)
    return result


def failed_here(result: Result, extra: list[str]) -> bool:
    """Whether hakmem or a library of --lib failed somewhere; peers may."""
    watched = {"hakmem", *(spec.partition("=")[0] for spec in extra)}
    return any(allocator in watched for _, allocator, _ in failures(result))


def chosen(
    only: list[str], skip: list[str], programs: list[str], where: places.Places
) -> list[suite.Benchmark]:
    """What to measure: with programs that were given no others, unless they are named."""
    given = [suite.given(spec) for spec in programs]
    names = [benchmark.name for benchmark in given]
    for name in names:
        if names.count(name) > 1:
            raise BenchError(f"--program {name} is given twice: choose another name for one")
    for benchmark in given:
        reason = refusal(benchmark, where)
        if reason:
            raise BenchError(f"--program {benchmark.name}: {reason}; no allocator can be measured")
    return (suite.select(only, skip) if only or skip or not given else []) + given


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small work, under three minutes.")
    ] = False,
    rounds: Annotated[
        int, typer.Option(min=0, help="Rounds; 0: 5, or 2 with --quick.", show_default=False)
    ] = 0,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only benchmarks that match: part of a name, a pattern, a group."),
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Not those that match.")] = None,
    program: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COMMAND",
            help="A program of yours, run here; alone unless --only says what else. "
            "What it prints must be the same each time.",
        ),
    ] = None,
    allocators: AllocatorNames = "",
    lib: Libraries = None,
    strace: Annotated[bool, typer.Option("--strace", help="Also count system calls.")] = False,
    callgrind: Annotated[
        bool, typer.Option("--callgrind", help="Also count instructions; takes many minutes.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="For result and report; made if need be."
        ),
    ] = None,
    build: BuildFolder = None,
    timeout: Timeout = 120,
) -> None:
    """Measures programs under several allocators, interleaved, and shows what came out."""
    if context.invoked_subcommand is not None:
        return
    where = places.find(build)
    benchmarks = chosen(only or [], skip or [], program or [], where)
    found, missing = chosen_allocators(allocators, lib or [], where)
    plan = Plan(
        benchmarks=benchmarks,
        allocators=found,
        missing=missing,
        places=where,
        rounds=rounds or (ROUNDS_QUICK if quick else ROUNDS_FULL),
        quick=quick,
        command=command_to_repeat(),
        seconds=timeout,
        strace=strace,
        callgrind=callgrind,
    )
    folder = output_folder(output, where.results)
    if said := forecast(plan):
        err().print(f"hakmem bench: {said}", highlight=False, markup=False, soft_wrap=True)
    with interruptible(folder):
        result = measure(plan, folder)
    table.show(result, out())
    files.write(folder / "report.html", html.render(result))
    out().print(
        f"{folder}/result.json and {folder}/report.html, {result['seconds']:.0f} s",
        markup=False,
        soft_wrap=True,
    )
    if failed_here(result, lib or []):
        raise typer.Exit(1)


@app.command("list")
def list_all() -> None:
    """Lists the benchmarks and the allocators."""
    where = places.find()
    shown = Table("name", "group", "what", "", box=None, header_style="bold")
    for benchmark in suite.all_benchmarks():
        shown.add_row(benchmark.name, benchmark.group, benchmark.what, missing_program(benchmark))
    out().print(shown)
    out().print()
    shown = Table("allocator", "version", "what", "from", box=None, header_style="bold")
    for name in (*alloc.DEFAULT, "mimalloc-debian"):
        try:
            found = alloc.find(name, where)
        except BenchError as error:
            found = alloc.Missing(name, str(error))
        what = alloc.WHAT.get(name, "")
        if isinstance(found, alloc.Missing):
            shown.add_row(name, "-", what, f"[yellow]{escape(found.reason)}[/]")
        else:
            shown.add_row(name, found.version, what, found.origin)
    out().print(shown)


@app.command("compare")
def compare(
    old: Annotated[Path, typer.Argument(help="A result.json or its folder.")],
    new: Annotated[Path, typer.Argument(help="A result.json or its folder.")],
    allocator: Annotated[str, typer.Option(help="Of this allocator.")] = "hakmem",
    least: Annotated[
        float, typer.Option(min=0, help="Percent below which a change is none.")
    ] = 3.0,
    everything: Annotated[
        bool, typer.Option("--all", help="Also show what did not change.")
    ] = False,
) -> None:
    """Shows what changed between two results, and whether it is more than noise."""
    changes = comparison.compare(
        summary.read_result(old), summary.read_result(new), allocator, least / 100
    )
    comparison.show(changes, out(), everything)
    if any(change.worse for change in changes.changes) or changes.newly_failed:
        raise typer.Exit(1)


@app.command("report")
def report(
    result_path: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A result.json or its folder.")
    ],
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the HTML page here.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show only all others relative to this allocator."),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With --against: as a table for a document.")
    ] = False,
) -> None:
    """Shows the tables of a result again, and makes its page."""
    result = summary.read_result(result_path)
    if markdown and against is None:
        raise BenchError("--markdown is for --against NAME: say relative to which allocator")
    if against is not None and against not in result["allocators"]:
        raise BenchError(
            f"there is no '{against}' in {result_path}; there are: {', '.join(result['allocators'])}"
        )
    if against is None:
        table.show(result, out())
    elif markdown:
        for line in docs.pairs_part(summary.rows_of(result), against):
            out().print(line, markup=False, highlight=False, soft_wrap=True)
    else:
        out().print(table.pairs_table(summary.rows_of(result), against))
    if page is not None:
        files.write(page, html.render(result))


def docs_folder() -> Path:
    """The folder docs of the source tree."""
    root = places.source_tree()
    if root is None:
        raise BenchError("there is no source tree here: give --folder DIR")
    return root / "docs"


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
    out().print(str(written), markup=False, highlight=False, soft_wrap=True)


def beside_ours(
    found: Callable[[Result], Sequence[object]],
) -> Callable[[Result], Sequence[object]]:
    """The same, or nothing where ours was not measured: all is relative to it."""
    return lambda result: found(result) if drawn.OURS in result["allocators"] else ()


@app.command("docs")
def make_docs(result_path: CommittedResult, folder: DocsFolder = None) -> None:
    """Writes docs/benchmarks.md and its pictures from a result file."""
    target = folder or docs_folder()
    for path in docs.write(summary.read_result(result_path), result_path, target):
        out().print(str(path), markup=False, highlight=False, soft_wrap=True)


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
    folder = output_folder(output, where.results)
    with interruptible(folder):
        result = learning.run(
            plan,
            functools.partial(err().print, highlight=False, markup=False),
            functools.partial(save, folder=folder),
        )
    learning_text.show(result, out())
    out().print(f"{folder}/result.json, {result['seconds']:.0f} s", markup=False, soft_wrap=True)
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
    out().print(str(written), markup=False, highlight=False, soft_wrap=True)


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


def main() -> None:
    """The entry point."""
    try:
        cli.run(app, "bench")
    except BenchError as error:
        cli.fail("bench", str(error), USAGE)
