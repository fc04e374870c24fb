# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: the tables, from a result that bench/compare.py has measured or read from a file.

Who uses it: bench/compare.py. It never measures: what it prints follows from the JSON alone, so a
page of figures can be made again from the result it came from.
"""

import math
import statistics
from dataclasses import dataclass
from typing import Any

Result = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One benchmark under one allocator, summed up over its rounds."""

    allocator: str
    problem: str
    time_ms: float = 0.0
    best_ms: float = 0.0
    spread: float = 0.0
    cpu_ms: float = 0.0
    rss_kb: float = 0.0
    faults: float = 0.0


def time_ns(run: dict[str, Any], repeats: int) -> float:
    """A program's own measure where it has one, else the launcher's, for one start."""
    return float(run["elapsed_ns"] or run["wall_ns"] / repeats)


def row_of(allocator: str, entry: dict[str, Any], repeats: int) -> Row:
    if entry["problem"]:
        return Row(allocator, entry["problem"])
    times = [time_ns(run, repeats) / 1e6 for run in entry["runs"]]
    middle = statistics.median(times)
    return Row(
        allocator,
        "",
        time_ms=middle,
        best_ms=min(times),
        spread=(max(times) - min(times)) / middle if middle else 0.0,
        cpu_ms=min(run["user_us"] + run["sys_us"] for run in entry["runs"]) / 1e3 / repeats,
        rss_kb=statistics.median(run["maxrss_kb"] for run in entry["runs"]),
        faults=statistics.median(run["minflt"] + run["majflt"] for run in entry["runs"]) / repeats,
    )


def rows_of(benchmark: dict[str, Any]) -> list[Row]:
    return [row_of(a, entry, benchmark["repeats"]) for a, entry in benchmark["results"].items()]


def relative(value: float, values: list[float]) -> str:
    least = min(values, default=0.0)
    return f"{value / least:.2f}" if least > 0 else "-"


HEADINGS = (
    "",
    "time ms",
    "relative",
    "best ms",
    "spread",
    "best CPU ms",
    "peak RSS MB",
    "relative",
    "faults",
)


def milliseconds(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def cells_of(rows: list[Row]) -> list[list[str]]:
    """The table of one benchmark, a line for each allocator."""
    good = [r for r in rows if not r.problem]
    lines = []
    for r in rows:
        if r.problem:
            lines.append([r.allocator, f"FAILED: {r.problem}"])
            continue
        lines.append(
            [
                r.allocator,
                milliseconds(r.time_ms),
                relative(r.time_ms, [g.time_ms for g in good]),
                milliseconds(r.best_ms),
                f"{r.spread:.0%}",
                milliseconds(r.cpu_ms),
                f"{r.rss_kb / 1000:.1f}",
                relative(r.rss_kb, [g.rss_kb for g in good]),
                f"{r.faults:.0f}",
            ]
        )
    return lines


def metric_lines(benchmark: dict[str, Any]) -> list[str]:
    """What the program itself measured, the median for each allocator."""
    found: dict[str, list[str]] = {}
    for allocator, entry in benchmark["results"].items():
        if entry["problem"]:
            continue
        for name, (_, unit) in entry["runs"][0]["metrics"].items():
            value = statistics.median(run["metrics"][name][0] for run in entry["runs"])
            found.setdefault(f"{name} ({unit})", []).append(f"{allocator} {value:.1f}")
    return [f"{name}: {', '.join(values)}" for name, values in found.items()]


def geometric_means(result: Result) -> list[list[str]]:
    """For each allocator: mean of time and RSS relative to the best, where all have a figure."""
    names = list(result["allocators"])
    complete = [
        rows for rows in map(rows_of, result["benchmarks"]) if not any(r.problem for r in rows)
    ]
    lines = []
    for position, name in enumerate(names):
        time_logs, rss_logs = [], []
        for rows in complete:
            time_logs.append(math.log(rows[position].time_ms / min(r.time_ms for r in rows)))
            rss_logs.append(math.log(rows[position].rss_kb / min(r.rss_kb for r in rows)))
        if complete:
            lines.append(
                [
                    name,
                    f"{math.exp(statistics.fmean(time_logs)):.2f}",
                    f"{math.exp(statistics.fmean(rss_logs)):.2f}",
                ]
            )
    return lines


def count_tables(result: Result) -> list[tuple[str, list[str], list[list[str]]]]:
    """The optional counts: (title, headings, lines) of instructions and of system calls."""
    tables = []
    names = list(result["allocators"])
    for key, title in (
        ("instructions", "Instructions of a whole run (callgrind), in millions"),
        ("memory_calls", "Memory system calls (mmap, munmap, madvise, mremap, brk, mprotect)"),
    ):
        if not result.get(key):
            continue
        lines = []
        for benchmark, counts in result[key].items():
            shown = [show_count(key, counts.get(name)) for name in names]
            lines.append([benchmark, *shown])
        tables.append((title, ["", *names], lines))
    return tables


def show_count(key: str, value: Any) -> str:
    if value is None:
        return "FAILED"
    if key == "instructions":
        return f"{value / 1e6:.1f}"
    return str(sum(value.values()))


# ---- the terminal ----


def plain_table(headings: list[str], lines: list[list[str]]) -> list[str]:
    full = [line for line in [headings, *lines] if len(line) == len(headings)]
    widths = [max(len(line[i]) for line in full) for i in range(len(headings))]
    widths[0] = max([widths[0], *(len(line[0]) for line in lines)])
    shown = []
    for line in [headings, *lines]:
        rest = "  ".join(cell.rjust(widths[i]) for i, cell in enumerate(line) if i > 0)
        shown.append(f"  {line[0].ljust(widths[0])}  {rest}".rstrip())
    return shown


def as_text(result: Result) -> str:
    out: list[str] = []
    for benchmark in result["benchmarks"]:
        out += [f"{benchmark['name']}: {' '.join(benchmark['command'])}"]
        out += plain_table(list(HEADINGS), cells_of(rows_of(benchmark)))
        out += [f"  {line}" for line in metric_lines(benchmark)] + [""]
    means = geometric_means(result)
    if means:
        out += ["geometric mean, relative to the best of each benchmark"]
        out += [*plain_table(["", "time", "peak RSS"], means), ""]
    for title, headings, lines in count_tables(result):
        out += [title, *plain_table(headings, lines), ""]
    return "\n".join(out)


# ---- the page ----


def markdown_table(headings: list[str], lines: list[list[str]]) -> list[str]:
    out = ["| " + " | ".join(headings) + " |", "| --- |" + " ---: |" * (len(headings) - 1)]
    for line in lines:
        cells = line + [""] * (len(headings) - len(line))
        out.append("| " + " | ".join(cells) + " |")
    return out


HOW_TO_READ = (
    "Each program runs {rounds} times under each allocator, in turn (A B C A B C). Time is the "
    "median of what the program itself measures (of the whole process for `true`); relative means "
    "relative to the best allocator in that table; spread is the distance between the fastest and "
    "the slowest round; best CPU is user and system time of the process in its cheapest round, "
    "which other load on the machine disturbs least. Peak RSS is what the kernel reports for the "
    "process. All allocators must print the same checksum; one that crashes or does not is shown "
    "as failed."
)
HOW_TO_READ_MEANS = (
    "Geometric mean over all benchmarks, relative to the best of each; "
    "1.00 would be the best everywhere."
)
GENERATED = "<!-- Generated by bench/compare.py from a result: measure again, do not edit. -->"


def as_markdown(result: Result) -> str:
    machine = result["machine"]
    measured_on = (
        f"Measured {result['date']} on one machine: {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory']} memory, {machine['distribution']}, {machine['kernel']}, transparent "
        f"huge pages `{machine['transparent_huge_pages']}`, {machine['compiler']}."
    )
    out = [
        GENERATED,
        "",
        "# Benchmarks",
        "",
        measured_on,
        "",
        "To repeat it:",
        "",
        "    cmake --preset release",
        "    cmake --build --preset release",
        f"    {result['command']}",
        "",
        HOW_TO_READ.format(rounds=result["rounds"]),
        "",
        "## Allocators",
        "",
        *markdown_table(
            ["allocator", "version", "library"],
            [[n, a["version"], a["library"] or "-"] for n, a in result["allocators"].items()],
        ),
        "",
    ]
    means = geometric_means(result)
    if means:
        out += [
            "## Summary",
            "",
            HOW_TO_READ_MEANS,
            "",
            *markdown_table(["allocator", "time", "peak RSS"], means),
            "",
        ]
    for benchmark in result["benchmarks"]:
        out += [f"## {benchmark['name']}", "", f"{benchmark['what']}: "]
        out[-1] += f"`{' '.join(benchmark['command'])}`"
        out += ["", *markdown_table(["allocator", *HEADINGS[1:]], cells_of(rows_of(benchmark))), ""]
        for line in metric_lines(benchmark):
            out += [f"- {line}"]
        if out[-1]:
            out += [""]
    for title, headings, lines in count_tables(result):
        out += [f"## {title}", "", *markdown_table(["benchmark", *headings[1:]], lines), ""]
    return "\n".join(out).rstrip() + "\n"
