# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: numbers as text, and the columns that all outputs share.

Who uses it: table, html, docs, cli. It prints nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hakmem_tools.bench import summary
from hakmem_tools.bench.summary import Row

NOTHING = "-"
FAILED = "FAILED"


def number(value: float) -> str:
    """Four digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


MB_NOTE = "An MB is 1,000 kB, of 1,024 bytes each, as the kernel counts them."


def megabytes(kilobytes: float | None) -> str:
    """A size in MB with one digit; MB_NOTE says what those are."""
    return NOTHING if kilobytes is None else f"{kilobytes / 1000:.1f}"


def nanoseconds(value: float | None) -> str:
    """A time in ns, us or ms, with up to three digits, or more of ms."""
    if value is None:
        return NOTHING
    if value < 999.5:
        return f"{value:.0f} ns"
    scaled, unit = (value / 1e3, "us") if value < 999_500 else (value / 1e6, "ms")
    if scaled >= 99.95:
        return f"{scaled:,.0f} {unit}"
    return f"{scaled:.2f} {unit}" if unit == "ms" and scaled < 9.995 else f"{scaled:.1f} {unit}"


def ratio(value: float | None) -> str:
    """Two digits."""
    return NOTHING if not value else f"{value:.2f}"


def pair_lines(
    rows: list[Row], base: str, groups: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Headings and lines: each other allocator relative to `base`, over all and in each group."""
    groups = [group for group in groups if any(row.group == group for row in rows)]
    if len(groups) == 1:
        groups = []
    headings = ["", "benchmarks", "time", "peak RSS", "RSS after idle"]
    headings += [f"{group}: time / RSS" for group in groups]
    lines = [
        [p.allocator, str(p.count), ratio(p.time), ratio(p.rss), ratio(p.idle)]
        for p in summary.pairs(rows, base)
    ]
    for group in groups:
        here = {p.allocator: p for p in summary.pairs(rows, base, group)}
        for line in lines:
            pair = here.get(line[0])
            line.append(f"{ratio(pair.time)} / {ratio(pair.rss)}" if pair else NOTHING)
    return headings, lines


def maybe(value: float | None) -> str:
    """A number or nothing."""
    return NOTHING if value is None else number(value)


def percent(value: float | None) -> str:
    """A part of one."""
    return NOTHING if value is None else f"{value:.0%}"


def millions(value: float | None) -> str:
    """A count in millions."""
    return NOTHING if value is None else f"{value / 1e6:,.1f}"


def counted(row: Row, what: str, shown: str) -> str:
    """A count, or that it failed."""
    return FAILED if what in row.count_problems else shown


def has_calls(row: Row) -> object:
    """Whether system calls were counted, or should have been."""
    return row.calls or "calls" in row.count_problems


def has_instr(row: Row) -> object:
    """Whether instructions were counted, or should have been."""
    return row.instructions or "instructions" in row.count_problems


@dataclass(frozen=True)
class Column:
    """A column of a benchmark's table: heading, what it shows, what it is made from."""

    heading: str
    show: Callable[[Row], str]
    present: Callable[[Row], object] = lambda _: True
    narrow: bool = False
    """Whether it is shown where there is little room."""


COLUMNS = (
    Column("time ms", lambda r: maybe(r.time_ms), narrow=True),
    Column("relative", lambda r: ratio(r.time_rel), narrow=True),
    Column("best ms", lambda r: maybe(r.best_ms)),
    Column("spread", lambda r: percent(r.spread), narrow=True),
    Column("CPU ms", lambda r: maybe(r.cpu_ms)),
    Column("peak MB", lambda r: megabytes(r.rss_kb), narrow=True),
    Column("relative", lambda r: ratio(r.rss_rel), narrow=True),
    Column("/live", lambda r: ratio(r.rss_over_live), lambda r: r.live_kb),
    Column("freed MB", lambda r: megabytes(r.freed_kb), lambda r: r.freed_kb),
    Column("idle MB", lambda r: megabytes(r.idle_kb), lambda r: r.idle_kb, narrow=True),
    Column("faults", lambda r: maybe(r.faults), narrow=True),
    Column("/live", lambda r: ratio(r.faults_over_live), lambda r: r.live_kb),
    Column("syscalls", lambda r: counted(r, "calls", maybe(r.calls)), has_calls),
    Column("of memory", lambda r: counted(r, "calls", maybe(r.memory_calls)), has_calls),
    Column("instr M", lambda r: counted(r, "instructions", millions(r.instructions)), has_instr),
    Column("/bump", lambda r: ratio(r.instructions_over_bump), lambda r: r.bump_instructions),
)

EXPLAINED = (
    ("time", "median over the rounds of what the program itself measures, or of the whole process"),
    ("relative", "relative to the best allocator in that table: 1.00 is the best"),
    ("spread", "distance between the fastest and the slowest round, as a part of the median"),
    (
        "CPU",
        "user and system time of the process in its cheapest round, "
        "which other load on the machine disturbs least",
    ),
    (
        "peak",
        "largest resident memory that the kernel reports for the process; the harness is not in it",
    ),
    ("MB", "1,000 kB, of 1,024 bytes each, as the kernel counts them"),
    ("peak /live", "that, against the bytes that the program had live at its peak"),
    ("freed, idle", "resident memory when the program has freed its work, and 2 seconds later"),
    ("faults", "page faults"),
    ("faults /live", "those, against the pages that the live bytes fill"),
    (
        "syscalls, of memory",
        "all system calls, and mmap, munmap, madvise, mremap, brk, mprotect, at the small size (strace)",
    ),
    (
        "instr, /bump",
        "instructions at the small size (callgrind), and relative to an allocator that only "
        "counts up and frees nothing",
    ),
)


def columns_for(rows: list[Row], narrow: bool = False) -> list[Column]:
    """The columns that have something to show for these rows; the main ones where it is narrow."""
    good = [row for row in rows if not row.problem]
    return [c for c in COLUMNS if any(c.present(r) for r in good) and (c.narrow or not narrow)]


def cells(row: Row, columns: list[Column]) -> list[str]:
    """A row as text; one that failed says so."""
    if row.problem:
        return [f"FAILED: {row.problem}"]
    return [column.show(row) for column in columns]


SHOWN_AS_COLUMNS = {"live_peak", "rss_freed", "rss_idle"}


def metric_lines(rows: list[Row]) -> list[str]:
    """What the program itself measured besides, the median for each allocator."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, (value, unit) in row.metrics.items():
            if name not in SHOWN_AS_COLUMNS:
                found.setdefault(f"{name} ({unit})", []).append(f"{row.allocator} {number(value)}")
    return [f"{name}: {', '.join(values)}" for name, values in found.items()]
