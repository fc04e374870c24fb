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

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hakmem_tools.bench import allocators as alloc
from hakmem_tools.bench import comparison, docs, kinds, places, suite, summary, table
from hakmem_tools.bench.places import BenchError
from hakmem_tools.bench.runner import Plan, Result, forecast, missing_program, refusal
from hakmem_tools.bench.session import (
    AllocatorNames,
    BuildFolder,
    CommittedResult,
    DocsFolder,
    Libraries,
    Timeout,
    chosen_allocators,
    command_to_repeat,
    docs_folder,
    err,
    failed_here,
    interruptible,
    measure,
    out,
    output_folder,
    print_line,
)
from hakmem_tools.common import cli, files
from hakmem_tools.common.errors import USAGE

ROUNDS_FULL = 5
ROUNDS_QUICK = 2

app = typer.Typer(
    help="Measures allocators: time, peak memory, memory after idle, page faults, system calls.",
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
)
app.add_typer(kinds.app)


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


def write_report(path: Path, result: Result) -> None:
    """The HTML page of a result."""
    from hakmem_tools.bench import html  # plotly takes a while to load

    files.write(path, html.render(result))


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
    write_report(folder / "report.html", result)
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
            print_line(line)
    else:
        out().print(table.pairs_table(summary.rows_of(result), against))
    if page is not None:
        write_report(page, result)


@app.command("docs")
def make_docs(result_path: CommittedResult, folder: DocsFolder = None) -> None:
    """Writes docs/benchmarks.md and its pictures from a result file."""
    target = folder or docs_folder()
    for path in docs.write(summary.read_result(result_path), result_path, target):
        print_line(str(path))


def main() -> None:
    """The entry point."""
    try:
        cli.run(app, "bench")
    except BenchError as error:
        cli.fail("bench", str(error), USAGE)
