# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem top: the screen. Lines come from views.py; here are the keys, the clock and the chooser.

Looks are taken one after the other in a thread of their own, the next one `delay` after the last
has come back: a slow look never makes a queue. Who uses it: cli.
"""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from hakmem_tools.common import processes
from hakmem_tools.common.command import Stat
from hakmem_tools.common.errors import FAILED, ToolError
from hakmem_tools.common.processes import Process
from hakmem_tools.common.text import compact, cut
from hakmem_tools.top import frame as frames
from hakmem_tools.top import views
from hakmem_tools.top.frame import Frame
from hakmem_tools.top.views import VIEWS, Order, View

Look = Callable[[], Stat]

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

HELP = """\
Views
  1 classes    size classes, large and huge blocks
  2 threads    threads and their heaps
  3 sites      call sites, where the process takes samples
  4 stages     where the shared pool finds memory
  5 memory     from live bytes to all that is resident
  6 locks      who waits
  7 lifetimes  how long blocks of a call site live, where that is learned
  Tab          the next view

Order
  M  by memory             P  by activity
  G  by growth             N  by number or name
  <  >  the column to the left, to the right
  R  the other way round
Other
  s, d   seconds between two looks
  Space  look now
  =      count growth from here
  ↑ ↓ PgUp PgDn   move in a long table
  Esc    another process     q  end
Growth is counted from the first look, rates from the one before.
Any key closes this page."""

KEYS = "1-7 views  M P G N sort  R reverse  s delay  = growth from here  h help  q quit"


class HelpScreen(ModalScreen[None]):
    """What the keys do."""

    def compose(self) -> ComposeResult:
        yield Static(HELP, id="help", markup=False)

    def on_key(self) -> None:
        self.dismiss()


class Watch(Screen[None]):
    """One process."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"view({n - 1})", show=False) for n in range(1, len(VIEWS) + 1)),
        Binding("tab", "next_view", show=False, priority=True),
        Binding("M", "sort('memory')", show=False),
        Binding("P", "sort('activity')", show=False),
        Binding("G", "sort('growth')", show=False),
        Binding("N", "sort('number')", show=False),
        Binding("less_than_sign,comma", "column(-1)", show=False),
        Binding("greater_than_sign,full_stop", "column(1)", show=False),
        Binding("R,r", "reverse", show=False),
        Binding("s,d", "delay", show=False),
        Binding("space,enter", "look", show=False),
        Binding("equals_sign", "restart", show=False),
        Binding("h,question_mark", "help", show=False),
        Binding("escape", "leave", show=False),
    ]

    def __init__(self, look: Look, delay: float, looks: int, view: View, order: Order) -> None:
        super().__init__()
        self.take = look
        self.seconds = delay
        self.looks = looks
        self.view = view
        self.orders = {other.name: views.first_order(other) for other in VIEWS}
        self.orders[view.name] = order
        self.data: Frame | None = None
        self.message = ""
        self.wake = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield Static(id="summary")
        yield Static(id="heading")
        with VerticalScroll(id="scroll", can_focus=True):
            yield Static(id="table")
        yield Static(id="keys")
        yield Input(id="delay", compact=True)

    def on_mount(self) -> None:
        self.query_one("#delay", Input).display = False
        self.query_one("#scroll").focus()
        self.run_worker(self.watch_process(), exclusive=True)

    def on_resize(self) -> None:
        self.draw()

    async def watch_process(self) -> None:
        """Looks again and again; ends when the process does."""
        taken = 0
        while self.looks == 0 or taken < self.looks:
            try:
                stat = await asyncio.to_thread(self.take)
            except ToolError as error:
                if self.data is None:
                    self.app.exit(return_code=FAILED, message=f"hakmem top: {error}")
                self.message = f"{error} - these are the last figures"
                self.draw()
                return
            self.data = frames.begin(stat) if self.data is None else frames.follow(self.data, stat)
            taken += 1
            self.draw()
            if taken != self.looks:
                await self.pause()
        self.app.exit()

    async def pause(self) -> None:
        """The delay, or until somebody wants to see something sooner."""
        self.wake.clear()
        try:
            await asyncio.wait_for(self.wake.wait(), self.seconds)
        except TimeoutError:
            return

    def draw(self) -> None:
        """Puts the frame on the screen."""
        if self.data is None or not self.is_mounted:
            return
        width = self.size.width - 1  # a column for the scroll bar
        order = self.orders[self.view.name]
        rows = views.table(self.view, self.data, order, width)
        self.query_one("#summary", Static).update(join(views.summary(self.data, width)))
        self.query_one("#heading", Static).update(views.heading(self.view, order, width))
        self.query_one("#table", Static).update(join(rows))
        keys = Text(cut(self.message or KEYS, width), style="bold red" if self.message else "dim")
        self.query_one("#keys", Static).update(keys)

    def action_view(self, number: int) -> None:
        self.view = VIEWS[number]
        self.query_one("#scroll").scroll_home(animate=False)
        self.draw()

    def action_next_view(self) -> None:
        self.action_view((VIEWS.index(self.view) + 1) % len(VIEWS))

    def reorder(self, order: Order) -> None:
        """Another order for the view that is shown."""
        self.orders[self.view.name] = order
        self.draw()

    def action_sort(self, role: str) -> None:
        column = self.view.column_of(role)
        if column is not None:
            self.reorder(Order(column, role != "number"))

    def action_column(self, step: int) -> None:
        order = self.orders[self.view.name]
        column = min(max(order.column + step, 0), len(self.view.columns) - 1)
        self.reorder(replace(order, column=column))

    def action_reverse(self) -> None:
        order = self.orders[self.view.name]
        self.reorder(replace(order, descending=not order.descending))

    def action_look(self) -> None:
        self.wake.set()

    def action_restart(self) -> None:
        if self.data is not None:
            self.data = frames.restart(self.data)
            self.draw()

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen())

    def action_leave(self) -> None:
        """Out of the question for the delay, or back to the list, if there was one."""
        field = self.query_one("#delay", Input)
        if field.display:
            self.close_delay()
        elif len(self.app.screen_stack) > 2:
            self.app.pop_screen()

    def action_delay(self) -> None:
        field = self.query_one("#delay", Input)
        field.value = ""
        field.placeholder = f"Seconds between two looks, now {self.seconds:g}:"
        field.display = True
        self.query_one("#keys").display = False
        field.focus()

    def close_delay(self) -> None:
        """Back to the table."""
        self.query_one("#delay", Input).display = False
        self.query_one("#keys").display = True
        self.query_one("#scroll").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            seconds = float(event.value) if event.value.strip() else self.seconds
        except ValueError:
            seconds = 0
        is_good = 0.1 <= seconds <= 86400  # and a number
        self.message = "" if is_good else "the delay is a number of seconds, 0.1 at least"
        self.seconds = seconds if is_good else self.seconds
        self.close_delay()
        self.wake.set()
        self.draw()


class Choose(Screen[None]):
    """The processes that run with hakmem."""

    def __init__(self, found: Callable[[], list[Process]]) -> None:
        super().__init__()
        self.find = found
        self.shown: list[Process] = []

    def compose(self) -> ComposeResult:
        yield Static(f"{'PID':>7} {'RSS':>7} COMMAND", id="heading", markup=False)
        yield OptionList(id="processes", compact=True)
        yield Static("Enter watch it  ↑ ↓ choose  q quit", id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#heading", Static).update(
            Text("    PID     RSS COMMAND".ljust(400), style="reverse", no_wrap=True)
        )
        self.fill()
        self.set_interval(2.0, self.fill)

    def fill(self) -> None:
        """Looks which there are; what was chosen stays chosen."""
        shown = self.query_one("#processes", OptionList)
        chosen = self.chosen()
        self.shown = self.find()
        shown.clear_options()
        shown.add_options(
            Option(
                Text(f"{p.pid:>7} {compact(p.rss_bytes):>7} {p.command or p.name}", no_wrap=True)
            )
            for p in self.shown
        )
        if not self.shown:
            shown.add_option(
                Option(
                    "No process runs with hakmem. `hakmem run PROGRAM` starts one.", disabled=True
                )
            )
            return
        pids = [process.pid for process in self.shown]
        shown.highlighted = pids.index(chosen) if chosen in pids else 0

    def chosen(self) -> int | None:
        """The process at the cursor."""
        at = self.query_one("#processes", OptionList).highlighted
        return self.shown[at].pid if at is not None and at < len(self.shown) else None

    def on_option_list_option_selected(self) -> None:
        pid = self.chosen()
        if pid is not None and isinstance(self.app, TopApp):
            self.app.watch_pid(pid)


def join(lines: list[Text]) -> Text:
    """Lines as one text that is never wrapped."""
    return Text("\n", no_wrap=True, overflow="crop").join(lines)


class TopApp(App[None]):
    """Both screens, and the keys that they share."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    #summary { height: auto; margin: 0 0 1 0; }
    #heading, #keys { height: 1; }
    #scroll { height: 1fr; scrollbar-size-vertical: 1; }
    #table { height: auto; }
    #processes { height: 1fr; border: none; padding: 0; background: ansi_default; }
    #delay { height: 1; dock: bottom; background: ansi_default; }
    HelpScreen { align: center middle; }
    #help { width: auto; height: auto; padding: 0 2; border: round ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(
        self,
        source: Callable[[int], Look],
        pid: int | None,
        delay: float,
        looks: int,
        view: View,
        order: Order,
        found: Callable[[], list[Process]] = processes.running,
    ) -> None:
        super().__init__(ansi_color=True)
        self.source, self.pid = source, pid
        self.delay, self.looks = delay, looks
        self.start_view, self.start_order = view, order
        self.found = found

    def on_load(self) -> None:
        """Before the terminal is changed: what ends us changes it back."""
        loop = asyncio.get_running_loop()
        for number in ENDING_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self.end_by, number)

    def end_by(self, number: int) -> None:
        """Ends with the status that shells give to what a signal has ended."""
        self.exit(return_code=128 + number)

    def on_mount(self) -> None:
        if self.pid is None:
            self.push_screen(Choose(self.found))
        else:
            self.watch_pid(self.pid)

    def watch_pid(self, pid: int) -> None:
        """Shows a process."""
        look = self.source(pid)
        self.push_screen(Watch(look, self.delay, self.looks, self.start_view, self.start_order))
