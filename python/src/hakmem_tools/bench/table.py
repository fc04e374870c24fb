# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: tables on the terminal, and the progress bar.

Who uses it: cli. It never measures.
"""

from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from hakmem_tools.bench import summary, text
from hakmem_tools.bench.runner import Listener, Plan, Result, failures
from hakmem_tools.bench.suite import GROUPS, Benchmark
from hakmem_tools.bench.summary import Mean, Row


def style_of(row: Row) -> str:
    """Red for a failure, bold for hakmem."""
    if row.problem:
        return "red"
    return "bold" if row.allocator == "hakmem" else ""


WIDE = 140
"""Columns of a terminal that has room for everything."""


TITLE = "bold cyan"


def titled(title: str) -> Table:
    """An empty table as all of them look."""
    return Table(title=title, title_justify="left", title_style=TITLE, box=box.SIMPLE)


def numbers(
    title: str, headings: Sequence[str], lines: list[list[str]], left: Sequence[str] = ("",)
) -> Table:
    """A table of numbers; what is below the headings `left` is text."""
    shown = titled(title)
    for heading in headings:
        side: JustifyMethod = "left" if heading in left else "right"
        shown.add_column(heading, justify=side, overflow="fold")
    for line in lines:
        shown.add_row(*(escape(cell) for cell in line))
    return shown


def benchmark_table(rows: list[Row], title: str, narrow: bool) -> Table:
    """One benchmark, a line for each allocator."""
    columns = text.columns_for(rows, narrow)
    table = titled(escape(title))
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for row in rows:
        if not row.problem:
            table.add_row(row.allocator, *text.cells(row, columns), style=style_of(row))
    return table


def means_table(means: list[Mean], title: str) -> Table:
    """Geometric means."""
    table = titled(title)
    table.add_column("")
    for heading in ("time", "peak RSS", "RSS after idle", "completed", "failed"):
        table.add_column(heading, justify="right")
    for mean in means:
        table.add_row(
            mean.allocator,
            text.ratio(mean.time),
            text.ratio(mean.rss),
            text.ratio(mean.idle),
            f"{mean.done} of {mean.total}",
            str(mean.failed) if mean.failed else text.NOTHING,
            style="red" if mean.failed else "bold" if mean.allocator == "hakmem" else "",
        )
    return table


def groups_table(rows: list[Row]) -> Table:
    """Geometric means of each group: time and peak RSS."""
    groups = [group for group in GROUPS if any(row.group == group for row in rows)]
    table = titled("time / peak RSS in each group of benchmarks")
    table.add_column("")
    cells: dict[str, list[str]] = {}
    for group in groups:
        table.add_column(group, justify="right", no_wrap=True)
        for mean in summary.geometric_means(rows, group):
            failed = "!" if mean.failed else ""
            shown = f"{failed}{text.ratio(mean.time)} / {text.ratio(mean.rss)}"
            cells.setdefault(mean.allocator, []).append(shown)
    for name, line in cells.items():
        table.add_row(name, *line, style="bold" if name == "hakmem" else "")
    return table


def pairs_table(rows: list[Row], base: str) -> Table:
    """Each other allocator relative to one."""
    headings, lines = text.pair_lines(rows, base, list(GROUPS))
    table = titled(f"relative to {base}: geometric means over what both completed")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    for line in lines:
        table.add_row(*line)
    return table


def scaling_table(rows: list[Row]) -> Table | None:
    """Two threads against one."""
    derived = summary.scaling(rows)
    if not derived:
        return None
    names = list(dict.fromkeys(name for _, found in derived for name in found))
    table = titled("work of two threads in the time of one (2.00 is perfect)")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for benchmark, found in derived:
        table.add_row(benchmark, *(text.ratio(found.get(name)) for name in names))
    return table


def show_failures(result: Result, console: Console) -> None:
    """A line for each."""
    for benchmark, allocator, problem in failures(result):
        line = f"FAILED: {benchmark} under {allocator}: {problem}"
        console.print(line, style="red", markup=False, highlight=False)


def show(result: Result, console: Console, details: bool = True) -> None:
    """Everything that a result says."""
    rows = summary.rows_of(result)
    for benchmark in result["benchmarks"] if details else ():
        title = f"{benchmark['name']}: {benchmark['what']}"
        if benchmark["skipped"]:
            console.print(f"[yellow]{escape(title)}: skipped: {escape(benchmark['skipped'])}[/]\n")
            continue
        mine = summary.rows_of_benchmark(benchmark)
        if all(row.problem for row in mine):
            console.print(title, style=TITLE, markup=False, highlight=False)
        else:
            console.print(benchmark_table(mine, title, console.width < WIDE))
        for row in mine:
            if row.problem:
                console.print(f"  [red]{row.allocator} FAILED: {escape(row.problem)}[/]")
        for line in text.metric_lines(mine):
            console.print(f"  {escape(line)}", style="dim")
    if not result["complete"]:
        console.print("[red]This run was not completed.[/]")
    if not rows:
        return
    console.print(means_table(summary.geometric_means(rows), "geometric mean, 1.00 = best of each"))
    if len({row.group for row in rows}) > 1:
        console.print(groups_table(rows))
    scaled = scaling_table(rows)
    if scaled is not None:
        console.print(scaled)
    for name, reason in result["missing_allocators"].items():
        console.print(f"[yellow]not measured: {name}: {escape(reason)}[/]")
    show_failures(result, console)


class Bar(Listener):
    """A progress bar; hands finished benchmarks to `save`."""

    def __init__(self, console: Console, save: Callable[[Result], None]) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self.task: TaskID | None = None
        self.console = console
        self.save = save
        self.last = ""

    def begin(self, plan: Plan, steps: int) -> None:
        self.task = self.progress.add_task("", total=steps)
        self.progress.start()

    def step(self, benchmark: Benchmark, what: str) -> None:
        if self.task is not None:
            self.progress.update(self.task, description=f"{benchmark.name} [dim]{what}[/]")
        if not self.console.is_terminal and benchmark.name != self.last:
            self.last = benchmark.name
            self.console.print(f"{benchmark.name} ...", highlight=False)

    def done(self, steps: int = 1) -> None:
        if self.task is not None:
            self.progress.advance(self.task, steps)

    def result(self, result: Result) -> None:
        self.save(result)

    def stop(self) -> None:
        """Takes the bar away."""
        self.progress.stop()
