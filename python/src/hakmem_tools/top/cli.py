# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command `hakmem top`. Who uses it: the program hakmem-top."""

import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from hakmem_tools.common import cli, command, sites
from hakmem_tools.common.command import Stat
from hakmem_tools.common.errors import USAGE, ToolError
from hakmem_tools.top import frame as frames
from hakmem_tools.top import views
from hakmem_tools.top.views import BY_NAME, NARROW, Order, View

app = cli.new_app()

EPILOG = cli.examples(
    ("hakmem top", "choose among the processes that run with hakmem"),
    ("hakmem top 4711", "watch process 4711; h shows the keys"),
    ("hakmem top -d 0.5 4711", "look twice a second"),
    ("hakmem top --once 4711", "print one page and end"),
    ("hakmem top -b -n 10 --view threads 4711", "ten pages of threads, for a file"),
    more="The process is not stopped and nothing runs in it. Whoever may debug a process may "
    "watch it.",
)

MOST_SECONDS = 86400


def source(pid: int) -> Callable[[], Stat]:
    """What looks at the process once."""
    return sites.Reader(pid).look


def order_of(view: View, field: str) -> Order:
    """The order that -o asks for: a heading, with a + or - before it as in top."""
    name = field.lstrip("+-").upper()
    headings = [column.heading.upper() for column in view.columns]
    if not field:
        return views.first_order(view)
    if name not in headings:
        known = ", ".join(heading for heading in headings if heading)
        raise ToolError(f"no column {name} in the view {view.name}; it has {known}", USAGE)
    return Order(headings.index(name), not field.startswith("-"))


def batch(look: Callable[[], Stat], view: View, order: Order, delay: float, pages: int) -> None:
    """Prints pages; 0 is without end. The first has no rates: there is nothing to compare with."""
    frame = frames.begin(look())
    shown = 0
    while True:
        lines = views.page(view, frame, order, cli.width(NARROW))
        print("\n".join(line.plain.rstrip() for line in lines), flush=True)
        shown += 1
        if shown == pages:
            return
        print(flush=True)
        time.sleep(delay)
        frame = frames.follow(frame, look())


@app.command(epilog=EPILOG)
def top(
    pid: Annotated[
        int | None,
        typer.Argument(
            metavar="PID", min=1, show_default=False, help="The process; without it, a list."
        ),
    ] = None,
    pid_option: Annotated[
        int | None, typer.Option("-p", metavar="PID", min=1, help="The same, as top has it.")
    ] = None,
    delay: Annotated[
        float,
        typer.Option(
            "-d", "--delay", metavar="SECS", min=0.1, max=MOST_SECONDS, help="Between two looks."
        ),
    ] = 2.0,
    is_batch: Annotated[
        bool, typer.Option("-b", "--batch", help="Print pages instead of a screen.")
    ] = False,
    pages: Annotated[
        int,
        typer.Option("-n", "--iterations", metavar="N", min=0, help="End after so many looks."),
    ] = 0,
    once: Annotated[bool, typer.Option("--once", help="One page: -b -n 1.")] = False,
    view_name: Annotated[
        str, typer.Option("--view", metavar="VIEW", help=f"One of {', '.join(BY_NAME)}.")
    ] = "classes",
    sort: Annotated[
        str,
        typer.Option(
            "-o", "--sort", metavar="COLUMN", help="Sort by this column; -COLUMN: smallest first."
        ),
    ] = "",
) -> None:
    """Shows what a process does with its memory: size classes, threads, call sites, growth."""
    if view_name not in BY_NAME:
        raise ToolError(f"no view {view_name}; there are {', '.join(BY_NAME)}", USAGE)
    view = BY_NAME[view_name]
    order = order_of(view, sort)
    if pid is not None and pid_option not in (None, pid):
        raise ToolError(f"one process at a time: {pid} or -p {pid_option}", USAGE)
    chosen = pid if pid is not None else pid_option
    if is_batch or once:
        if chosen is None:
            raise ToolError("which process? Give its PID; `hakmem top` lists them", USAGE)
        batch(source(chosen), view, order, delay, 1 if once else pages)
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ToolError("the screen needs a terminal; --once or -b prints pages", USAGE)
    if chosen is not None:
        command.stat(chosen)  # what cannot be read is said before the screen changes
    from hakmem_tools.top.app import TopApp  # textual takes a while to load

    shown = TopApp(source, chosen, delay, pages, view, order)
    shown.run()
    if shown.return_code:
        raise typer.Exit(shown.return_code)


def main() -> None:
    """The entry point."""
    cli.run(app, "top")
