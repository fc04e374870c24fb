# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of hakmem top: what it computes, the pages of batch mode, the screen and its keys."""

import asyncio
import copy
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import screen
import support
from hakmem_tools.common.errors import ToolError
from hakmem_tools.common.processes import Process
from hakmem_tools.top import cli, views
from hakmem_tools.top import frame as frames
from hakmem_tools.top.app import TopApp
from hakmem_tools.top.views import BY_NAME, NARROW, VIEWS
from textual.pilot import Pilot

PAGES = support.DATA / "top"


def two_looks() -> frames.Frame:
    """A process that was recorded, and what it would be two seconds later with some growth."""
    stat = support.recorded()
    grown = support.later(stat, 2)
    busiest = max(grown["classes"], key=lambda c: c["live_bytes"])
    busiest["live_blocks"] += 1000
    busiest["live_bytes"] += 1000 * busiest["size_bytes"]
    busiest["stages"]["unused"] += 6
    grown["stages"]["unused"] += 6
    grown["process"]["rss_bytes"] += 1 << 20
    grown["waterfall"][0]["resident_bytes"] += 1 << 20
    thread = max(grown["threads"], key=lambda t: t["live_bytes"])
    thread["refills"] += 300
    thread["remote_frees"] += 5
    return frames.follow(frames.begin(stat), grown)


def page(name: str, frame: frames.Frame, width: int = NARROW) -> str:
    """A page in the order it comes in."""
    view = BY_NAME[name]
    shown = views.page(view, frame, views.first_order(view), width)
    return "".join(f"{line.plain.rstrip()}\n" for line in shown)


@pytest.mark.parametrize("name", list(BY_NAME))
def test_a_page_is_what_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """data/top has what it was; record.py writes that anew."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    expected = (PAGES / f"{name}.txt").read_text(encoding="utf-8")
    assert page(name, two_looks()) == expected


@pytest.mark.parametrize("name", list(BY_NAME))
@pytest.mark.parametrize("width", [40, 80, 132])
def test_no_line_is_longer_than_the_screen(name: str, width: int) -> None:
    for line in page(name, two_looks(), width).splitlines():
        assert len(line) <= width


def test_growth_is_from_the_first_look_and_rates_from_the_one_before() -> None:
    frame = two_looks()
    third = frames.follow(frame, support.later(frame.now, 4))
    grown = max(support.recorded()["classes"], key=lambda c: c["live_bytes"])["size_bytes"]

    def row_of(of: frames.Frame) -> frames.Row:
        return next(row for row in frames.class_rows(of) if row["size"] == grown)

    assert row_of(third)["growth"] == 1000 * grown
    assert row_of(third)["growth_rate"] == 0
    assert row_of(frame)["growth_rate"] == 500 * grown
    assert row_of(frame)["taken_rate"] == 3
    assert max(row["refill_rate"] for row in frames.thread_rows(frame)) == 150
    assert frames.memory_rows(frame)[0]["growth_rate"] == 1 << 19
    assert row_of(frames.restart(frame))["growth"] == 0


def test_what_is_new_or_gone_does_no_harm() -> None:
    frame = two_looks()
    now = copy.deepcopy(frame.now)
    now["threads"].append({**now["threads"][0], "heap": 99, "tid": None, "name": None})
    first = frames.Frame(now, frame.now, frame.first)
    assert [row["heap"] for row in frames.thread_rows(first)][-1] == 99
    assert frames.thread_rows(first)[-1]["refill_rate"] == 0
    now["threads"] = []
    assert frames.thread_rows(frames.Frame(now, frame.now, frame.first)) == []
    for view in VIEWS:
        views.page(view, first, views.first_order(view), NARROW)


def test_a_thread_that_came_later_had_nothing_before() -> None:
    """All that it has is growth, and all that it did was done since the look before."""
    frame = two_looks()
    third = frames.follow(frame, support.later(frame.now, 2))
    new = {**max(frame.now["threads"], key=lambda t: t["live_bytes"]), "heap": 99}
    third.now["threads"].append(new)
    row = frames.thread_rows(third)[-1]
    assert (row["heap"], row["growth"]) == (99, new["live_bytes"])
    assert row["refill_rate"] == new["refills"] / 2 > 0
    row = frames.thread_rows(frames.follow(third, support.later(third.now, 2)))[-1]
    assert (row["growth"], row["refill_rate"]) == (new["live_bytes"], 0)


def test_what_threads_have_together_is_nobodys_own() -> None:
    stat = support.recorded()
    home, busy = stat["threads"][1], stat["threads"][2]
    nothing = {"live_bytes": 0, "slab_bytes": 0, "bin_bytes": 1040, "outbox_bytes": 0}
    home["name"] = "thread-of-server"[:15]
    for heap in range(21, 24):
        guest = {**home, **nothing, "heap": heap, "name": f"guest-{heap}", "tid": heap}
        stat["threads"].append({**guest, "home": home["heap"]})
    stat["threads"][-1]["state"] = "idle"
    busy["home"] = home["heap"]  # became a guest with slabs of its own
    shown = page("threads", frames.begin(stat))
    rows = {row.split()[0]: row for row in shown.splitlines()[6:]}
    compact = [rows[str(home["heap"])].split()[i] for i in (1, 3, 4)]
    assert compact == [str(home["heap"]), "thread-of-s…", "+3"]
    assert rows["22"].split()[1:] == [str(home["heap"]), "22", "guest-22"] + (
        ["-", "-", "1.0K", "-", "0", "0"]
    )
    assert "-" not in rows[str(busy["heap"])].split()
    assert all(len(row) <= NARROW - 1 for row in shown.splitlines()[5:])
    order = cli.order_of(BY_NAME["threads"], "home")
    homes = [
        row["home"] for row in views.sorted_rows(BY_NAME["threads"], frames.begin(stat), order)
    ]
    assert homes == sorted(homes, reverse=True)


def test_every_column_can_be_sorted_by() -> None:
    frame = two_looks()
    for view in VIEWS:
        for column in range(len(view.columns)):
            down = views.sorted_rows(view, frame, views.Order(column, True))
            up = views.sorted_rows(view, frame, views.Order(column, False))
            value = view.columns[column].value
            assert [value(r) for r in down] == [value(r) for r in up][::-1]


# --- batch mode, as a program ---


def top(command: Path, *arguments: str, columns: int = 80) -> subprocess.CompletedProcess[str]:
    """hakmem top with arguments."""
    return subprocess.run(
        [sys.executable, "-B", "-m", "hakmem_tools.top", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env=support.with_command(command, COLUMNS=str(columns), TZ="UTC"),
    )


@pytest.fixture
def recorded_command(tmp_path: Path) -> Path:
    """A hakmem command that knows one process."""
    return support.fake_command(tmp_path, f"cat {support.DATA}/stat.json")


def test_once_prints_one_page(recorded_command: Path) -> None:
    done = top(recorded_command, "--once", "4711")
    assert done.returncode == 0, done.stderr
    assert done.stdout == page_without_growth("classes")


def page_without_growth(name: str) -> str:
    """The page of a first look."""
    return page(name, frames.begin(support.recorded()))


def test_batch_prints_as_many_pages_as_asked_for(recorded_command: Path) -> None:
    done = top(recorded_command, *("-b", "-n", "3", "-d", "0.1", "--view", "stages", "-p", "4711"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hakmem top - ") == 3
    assert done.stdout.count("STAGE") == 3


def test_batch_ends_with_the_process(tmp_path: Path) -> None:
    script = f"""
count=$(cat {tmp_path}/count 2>/dev/null || echo 0)
echo $((count + 1)) >{tmp_path}/count
[ $count -lt 2 ] && exec cat {support.DATA}/stat.json
echo 'hakmem: no process 4711' >&2
exit 1"""
    done = top(support.fake_command(tmp_path, script), "-b", "-d", "0.1", "4711")
    assert done.returncode == 1
    assert done.stdout.count("hakmem top - ") == 2
    assert done.stderr == "hakmem top: no process 4711\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--once"], "which process"),
        (["--view", "nothing", "--once", "1"], "no view nothing; there are classes"),
        (["-o", "NOTHING", "--once", "1"], "no column NOTHING"),
        (["4711"], "needs a terminal"),
        (["-b", "-d", "inf", "1"], "should be less than or equal to 86400"),
        (["-b", "-d", "1e12", "1"], "less than or equal to 86400"),
        (["-b", "-d", "nan", "1"], "Invalid value for '-d'"),
        (["--once", "-p", "1", "2"], "one process at a time: 2 or -p 1"),
    ],
)
def test_wrong_usage_says_what_to_do(
    recorded_command: Path, arguments: list[str], message: str
) -> None:
    done = top(recorded_command, *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_reader_that_ends_early_is_no_error(recorded_command: Path) -> None:
    words = [sys.executable, "-B", "-m", "hakmem_tools.top", "-b", "-d", "0.1", "4711"]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=support.with_command(recorded_command),
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline().startswith("hakmem top")
        running.stdout.close()
        assert "Traceback" not in running.stderr.read()
        assert running.wait(60) == 1


def test_sort_columns_are_named_as_in_top() -> None:
    view = BY_NAME["classes"]
    assert cli.order_of(view, "-blocks") == views.Order(2, False)
    assert cli.order_of(view, "+FILL") == views.Order(3, True)
    assert cli.order_of(view, "") == views.first_order(view)


# --- the screen ---


class Source:
    """Looks in a row, then the last one again, or the end of the process."""

    def __init__(self, *looks: dict[str, Any], ends: bool = False) -> None:
        self.looks, self.ends, self.taken = list(looks), ends, 0

    def __call__(self) -> dict[str, Any]:
        self.taken += 1
        if self.taken <= len(self.looks):
            return self.looks[self.taken - 1]
        if self.ends:
            raise ToolError("no process 4711")
        return support.later(self.looks[-1], self.taken)


async def wait(pilot: Pilot[None], what: Callable[[], bool]) -> None:
    """Until it is so; a test that waits in vain fails."""
    for _ in range(600):
        if what():
            return
        await pilot.pause(0.05)
    raise AssertionError("\n".join(screen.lines(pilot.app)))


def run(
    source: Source,
    steps: Callable[[TopApp, Pilot[None]], Awaitable[None]],
    found: list[Process] | None = None,
    delay: float = 3600.0,
) -> TopApp:
    """Runs the application with keys pressed by `steps`; with `found` it begins with the list."""
    view = BY_NAME["classes"]
    app = TopApp(
        lambda pid: source,
        None if found is not None else 4711,
        delay,
        0,
        view,
        views.first_order(view),
        lambda: found or [],
    )

    async def drive() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await steps(app, pilot)

    asyncio.run(drive())
    return app


def has(app: TopApp, text: str) -> Callable[[], bool]:
    """Whether the screen shows a text."""
    return lambda: any(text in line for line in screen.lines(app))


def test_the_screen_is_the_page() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await wait(pilot, has(app, "hakmem top - "))
        await pilot.press("space")
        await wait(pilot, lambda: source.taken == 2)
        await pilot.pause()
        # The last column is the scroll bar's.
        shown = [cut for line in screen.lines(app) if (cut := line[:79].rstrip())]
        expected = [line for line in page("classes", two_looks(), 79).splitlines() if line]
        most = 24 - 2  # the blank line and the keys
        assert shown[:-1] == expected[: len(shown) - 1]
        assert len(shown) - 1 == min(len(expected), most)
        assert shown[-1].startswith("1-7 views")

    frame = two_looks()
    source = Source(frame.before, frame.now)
    run(source, steps)


def test_keys_change_view_and_order() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await wait(pilot, has(app, "GROWTH/s"))
        for key, expected in (
            ("2", "REFILL/s"),
            ("4", "an empty slot of any class"),
            ("6", "CONTENDED"),
            ("7", "HAKMEM_POLICY=learn:FILE"),
            ("tab", "GROWTH/s"),
            ("h", "seconds between two looks"),
            ("x", "GROWTH/s"),
        ):
            await pilot.press(key)
            await wait(pilot, has(app, expected))
        sizes = [row["size"] for row in frames.class_rows(frames.begin(support.recorded()))]
        for keys, first in (("N", min(sizes)), ("R", max(sizes))):
            await pilot.press(keys)
            shown = BY_NAME["classes"].columns[0].show
            row = next(r for r in frames.class_rows(two_looks()) if r["size"] == first)
            await wait(pilot, partial(starts_with, app, shown(row)))
        await pilot.press("greater_than_sign", "less_than_sign", "less_than_sign", "M", "P", "G")

    run(Source(support.recorded()), steps)


def starts_with(app: TopApp, word: str) -> bool:
    """Whether this is the first word of the first row of the table."""
    shown = screen.lines(app)
    at = next(i for i, line in enumerate(shown) if line.lstrip().startswith("SIZE"))
    return shown[at + 1].split()[0] == word


def test_the_delay_can_be_changed() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await wait(pilot, has(app, "hakmem top - "))
        await pilot.press("s", *"0.1", "enter")
        await wait(pilot, lambda: source.taken >= 4)
        for wrong in ("x", "inf", "nan"):
            await pilot.press("d", *wrong, "enter")
            await wait(pilot, has(app, "the delay is a number"))
            await pilot.press("s", *"0.2", "enter")
            await wait(pilot, has(app, "1-7 views"))

    source = Source(support.recorded())
    run(source, steps)


def test_the_last_figures_stay_when_the_process_ends() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await wait(pilot, has(app, "no process 4711 - these are the last figures"))
        assert has(app, "Memory: ")()
        await pilot.press("2")
        await wait(pilot, has(app, "REFILL/s"))

    run(Source(support.recorded(), ends=True), steps, delay=0.1)


def test_a_process_that_cannot_be_read_ends_the_screen_with_its_reason() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await wait(pilot, lambda: app.return_code is not None)

    assert run(Source(ends=True), steps).return_code == 1


def test_a_process_is_chosen_from_the_list() -> None:
    found = [
        Process(12, "other", "other", 5 << 20, "libhakmem.so"),
        Process(4711, "server", "server --port [1]", 3 << 20, "libhakmem.so"),
    ]

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await wait(pilot, has(app, "server --port [1]"))
        await pilot.press("down", "enter")
        await wait(pilot, has(app, "hakmem top - "))
        await pilot.press("escape")
        await wait(pilot, has(app, "Enter watch it"))
        await pilot.press("q")
        await wait(pilot, lambda: app.return_code == 0)

    run(Source(support.recorded()), steps, found)


def test_an_empty_list_says_how_to_start_one() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await wait(pilot, has(app, "`hakmem run PROGRAM` starts one"))
        await pilot.press("enter", "q")

    run(Source(), steps, [])
