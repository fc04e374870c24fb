# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem top: frames as lines of text, the same on the screen and in batch mode. Pure.

A view is a table: columns, and rows from frame.py. Each column can be sorted by; those with a role
have a key of their own (M, P, G, N). Who uses it: app and cli.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from rich.text import Text

from hakmem_tools.common.text import (
    compact,
    cut,
    duration,
    number,
    percent,
    rate,
    signed_compact,
)
from hakmem_tools.top import frame as frames
from hakmem_tools.top.frame import Frame, Row

NARROW = 80
BAR = 12


@dataclass(frozen=True)
class Column:
    """A column: heading, width (0: what is left of the line), what is shown and sorted by."""

    heading: str
    width: int
    show: Callable[[Row], str]
    value: Callable[[Row], float | str]
    role: str = ""
    """memory, activity, growth or number: the key that sorts by it."""
    left: bool = False


def amount(heading: str, name: str, width: int, role: str = "") -> Column:
    """Bytes."""
    return Column(heading, width, lambda r: compact(r[name]), lambda r: float(r[name]), role)


def change(heading: str, name: str, width: int, role: str = "") -> Column:
    """Bytes with their sign."""
    return Column(heading, width, lambda r: signed_compact(r[name]), lambda r: float(r[name]), role)


def count(heading: str, name: str, width: int, role: str = "") -> Column:
    """A number."""
    return Column(heading, width, lambda r: number(r[name]), lambda r: float(r[name]), role)


def per_second(heading: str, name: str, width: int, role: str = "") -> Column:
    """A number a second."""
    return Column(heading, width, lambda r: rate(r[name]), lambda r: float(r[name]), role)


def share(heading: str, part: str, whole: str, width: int) -> Column:
    """A part of a whole."""
    return Column(
        heading,
        width,
        lambda r: percent(r[part], r[whole]),
        lambda r: float(r[part]) / r[whole] if r[whole] else -1.0,
    )


def words(heading: str, name: str, width: int = 0, role: str = "", key: str = "") -> Column:
    """Text; sorted by another member where `key` names one."""
    return Column(
        heading,
        width,
        lambda r: str(r[name]),
        (lambda r: float(r[key])) if key else (lambda r: str(r[name])),
        role,
        left=True,
    )


def own(column: Column) -> Column:
    """The same, but nothing of a thread whose blocks are counted at its home."""
    return replace(column, show=lambda row: "-" if row["has_nothing"] else column.show(row))


THREAD_WIDTH = 15


def thread(row: Row) -> str:
    """A thread's name, and how many more have their blocks from its heap."""
    sharing = str(row["sharing"])
    return cut(str(row["name"]), THREAD_WIDTH - len(sharing)) + sharing


def bar(row: Row) -> str:
    """A line of the waterfall as a part of all."""
    filled = round(BAR * row["resident"] / row["total"]) if row["total"] else 0
    return "█" * filled


@dataclass(frozen=True)
class View:
    """A table of its own."""

    name: str
    title: str
    rows: Callable[[Frame], list[Row]]
    columns: tuple[Column, ...]
    sort: int
    """The column it is sorted by at first."""
    descending: bool = True
    empty: str = "nothing yet"

    def column_of(self, role: str) -> int | None:
        """The column that a key sorts by."""
        return next((i for i, c in enumerate(self.columns) if c.role == role), None)


VIEWS = (
    View(
        "classes",
        "size classes",
        frames.class_rows,
        (
            Column("SIZE", 6, lambda r: r["name"], lambda r: float(r["size"]), "number"),
            amount("LIVE", "live", 7, "memory"),
            count("BLOCKS", "blocks", 8),
            share("FILL", "live", "room", 5),
            amount("RESIDENT", "resident", 8),
            change("GROWTH", "growth", 8, "growth"),
            change("GROWTH/s", "growth_rate", 8),
            count("SLABS", "slabs", 6),
            per_second("SLABS/s", "taken_rate", 7, "activity"),
        ),
        sort=1,
    ),
    View(
        "threads",
        "threads and their heaps",
        frames.thread_rows,
        (
            count("HEAP", "heap", 5, "number"),
            count("HOME", "home", 5),
            Column("TID", 7, lambda r: r["tid_text"], lambda r: float(r["tid"])),
            Column("THREAD", THREAD_WIDTH, thread, lambda r: str(r["name"]), left=True),
            own(amount("LIVE", "live", 5, "memory")),
            own(amount("HELD", "held", 5)),
            amount("CACHED", "cached", 6),
            own(change("GROWTH", "growth", 6, "growth")),
            per_second("REFILL/s", "refill_rate", 8, "activity"),
            per_second("REMOTE/s", "remote_rate", 8),
        ),
        sort=4,
    ),
    View(
        "sites",
        "call sites, estimated from samples",
        frames.site_rows,
        (
            amount("LIVE", "live", 7, "memory"),
            count("BLOCKS", "blocks", 8),
            change("GROWTH", "growth", 8, "growth"),
            change("GROWTH/s", "growth_rate", 8, "activity"),
            words("CALL SITE", "name"),
        ),
        sort=0,
        empty="The process takes no samples. `hakmem prof start PID` makes it do so.",
    ),
    View(
        "stages",
        "where the shared pool finds memory, cheapest first",
        frames.stage_rows,
        (
            words("STAGE", "name", 8, "number", key="order"),
            count("TOTAL", "count", 10, "memory"),
            share("SHARE", "count", "total", 6),
            per_second("PER SECOND", "rate", 10, "activity"),
            words("TAKES", "what"),
        ),
        sort=0,
        descending=False,
    ),
    View(
        "memory",
        "from live bytes to all that is resident",
        frames.memory_rows,
        (
            words("LINE", "name", 0, "number", key="order"),
            amount("RESIDENT", "resident", 8, "memory"),
            share("SHARE", "resident", "total", 6),
            change("GROWTH", "growth", 8, "growth"),
            change("GROWTH/s", "growth_rate", 8, "activity"),
            Column("", BAR, bar, lambda r: float(r["resident"]), left=True),
        ),
        sort=0,
        descending=False,
    ),
    View(
        "locks",
        "locks",
        frames.lock_rows,
        (
            words("LOCK", "name", 0, "number"),
            count("ACQUIRED", "acquired", 12, "memory"),
            per_second("PER SECOND", "acquired_rate", 10, "activity"),
            count("CONTENDED", "contended", 10),
            per_second("PER SECOND", "contended_rate", 10),
            share("SHARE", "contended", "acquired", 6),
        ),
        sort=1,
    ),
    View(
        "lifetimes",
        "how long blocks of a call site live, in bytes allocated meanwhile",
        frames.lifetime_rows,
        (
            amount("LIFE", "life", 7, "memory"),
            count("LOOKED AT", "samples", 9, "activity"),
            count("LIVE", "live", 5),
            words("SIZES", "sizes", 11, key="least"),
            words("GROUP", "group", 6),
            words("CALL SITE", "name", 0, "number"),
        ),
        sort=0,
        empty="The process learns no lifetimes. HAKMEM_POLICY=learn:FILE makes it do so.",
    ),
)

BY_NAME = {view.name: view for view in VIEWS}


@dataclass(frozen=True)
class Order:
    """Which column a view is sorted by."""

    column: int
    descending: bool


def first_order(view: View) -> Order:
    """As it comes."""
    return Order(view.sort, view.descending)


def sorted_rows(view: View, frame: Frame, order: Order) -> list[Row]:
    """The rows of a view in their order; equal ones stay as they were."""
    value = view.columns[order.column].value
    return sorted(view.rows(frame), key=value, reverse=order.descending)


def line(view: View, cells: list[str], width: int) -> str:
    """One line of a table, at most as long as it may be."""
    fixed = sum(c.width for c in view.columns if c.width) + len(view.columns) - 1
    rest = max(width - fixed, 8)
    shown = []
    for column, cell in zip(view.columns, cells, strict=True):
        room = column.width or rest
        text = cut(cell, room)
        shown.append(text.ljust(room) if column.left else text.rjust(room))
    return " ".join(shown)[:width].rstrip()


def heading(view: View, order: Order, width: int) -> Text:
    """The line above a table; the column that it is sorted by stands out."""
    cells = [column.heading for column in view.columns]
    text = Text(line(view, cells, width).ljust(width), style="reverse")
    chosen = cells[order.column]
    at = -1
    for column in view.columns[: order.column + 1]:
        at = text.plain.find(column.heading, at + 1)
    if chosen and at >= 0:
        text.stylize("bold underline", at, at + len(chosen))
    return text


def table(view: View, frame: Frame, order: Order, width: int) -> list[Text]:
    """The lines below the heading."""
    rows = sorted_rows(view, frame, order)
    if not rows:
        return [Text(cut(view.empty, width), style="dim")]
    lines = [[column.show(row) for column in view.columns] for row in rows]
    return [Text(line(view, cells, width)) for cells in lines]


def clock(frame: Frame) -> str:
    """The time of the look, where we are."""
    moment = datetime.fromtimestamp(frame.now["process"]["time_unix_ns"] / 1e9)
    return moment.strftime("%H:%M:%S")


def summary(frame: Frame, width: int) -> list[Text]:
    """The lines on top: whose memory, how much of it, what is kept and why."""
    process = frame.now["process"]
    rss, before = process["rss_bytes"], frame.before["process"]["rss_bytes"]
    live = frames.resident(frame.now, "live") + frames.resident(frame.now, "slack")
    foreign = frames.resident(frame.now, "not_ours")
    threads = frame.now["threads"]
    up = "" if process["uptime_ns"] is None else f" up {duration(process['uptime_ns'])},"
    sums = {what: sum(thread[what] for thread in threads) for what in ("refills", "remote_frees")}
    earlier = {what: sum(thread[what] for thread in frame.before["threads"]) for what in sums}
    failures = sum(frame.now["failures"][why] for why in ("exhaustion", "map", "threshold"))
    kept = [
        (name, frames.resident(frame.now, key))
        for name, key in (
            ("caches", "thread_caches"),
            ("slabs", "free_in_slabs"),
            ("empty slots", "empty_slots"),
            ("retired", "retired"),
            ("records", "metadata"),
        )
    ]
    lines = [
        f"hakmem top - {clock(frame)}{up} {process['name']} (pid {process['pid']}), "
        f"hakmem {process['hakmem_version']} {process['build']}",
        f"Memory: {compact(rss)} resident, {compact(live)} live, {compact(foreign)} not hakmem's; "
        f"growth {signed_compact(rss - frame.first['process']['rss_bytes'])}, "
        f"{signed_compact(frame.rate(rss, before))}/s",
        "Kept:   " + ", ".join(f"{compact(amount)} {name}" for name, amount in kept),
        f"Heaps:  {len(threads)}, {sum(t['state'] == 'running' for t in threads)} with a thread; "
        f"{rate(frame.rate(sums['refills'], earlier['refills']))} refills/s, "
        f"{rate(frame.rate(sums['remote_frees'], earlier['remote_frees']))} remote frees/s; "
        f"{number(failures)} failures",
    ]
    return [
        Text(cut(text, width), style="bold" if failures and i == 3 else "")
        for i, text in enumerate(lines)
    ]


def page(view: View, frame: Frame, order: Order, width: int) -> list[Text]:
    """All of it, as batch mode prints it."""
    return [
        *summary(frame, width),
        Text(""),
        heading(view, order, width),
        *table(view, frame, order, width),
    ]
