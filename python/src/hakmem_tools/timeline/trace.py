# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem timeline: a trace of `hakmem record`, read once from end to end.

    steps      the events of the file, as cmd/record/trace_format.h describes them
    Account    what is live after each of them, by thread and over time, with bounded memory
    read       both, for a file

The rules are those of `hakmem replay` (cmd/hakmem/plan.c), so that the counts are the same: a
release of a block that is not known is left out, an address that comes again releases what was
there. Who uses it: recorded. It writes nothing.
"""

import heapq
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from hakmem_tools.common.errors import USAGE, ToolError

NAME = b"hakmem-trace "
MAGIC = b"hakmem-trace 1\n\0"
HEADER = struct.Struct("<16s4Q2048s")
HEADER_BYTES = 4096
MOST_THREADS = 1 << 20
MOST_SIZE = 1 << 47
MOST_ALIGNMENT_LOG2 = 47
MOST_US = 1 << 53
"""Viewers count time in floating point."""
MASK = (1 << 64) - 1

END, MALLOC, CALLOC, ALIGNED, FREE, REALLOC_BEGIN, REALLOC_END, CONTROL = range(8)
CALLS = {MALLOC: "malloc", CALLOC: "calloc", ALIGNED: "aligned", REALLOC_END: "realloc"}
THREAD, TIME = range(2)

WINDOWS = 2048
"""Points of a counter over the events are half of it to all of it, and as many more for peaks."""
LARGEST = 20
"""So many of the largest blocks are kept."""

Step = tuple[int, int, int, int]
"""Kind, thread, bytes, address; of a CONTROL the time in the place of bytes."""
Block = tuple[int, int]
"""Bytes, and the thread that allocated it."""


class CutError(Exception):
    """The file ends within an event."""


class DamagedError(Exception):
    """What is wrong, and at which byte."""


@dataclass(frozen=True)
class Header:
    """What the file says of the recording."""

    process: int
    started_us: int
    failed: int
    is_whole: bool
    words: list[str]


@dataclass
class Large:
    """One of the largest blocks; `freed` is the number of an event."""

    number: int
    thread: int
    size: int
    call: str
    freed: int | None = None


@dataclass(frozen=True)
class Resized:
    """A block between the two events of its realloc."""

    address: int
    block: Block
    large: Large | None


@dataclass
class Lane:
    """What a thread did."""

    first: int
    last: int = 0
    allocations: int = 0
    frees: int = 0
    reallocs: int = 0
    allocated_bytes: int = 0
    others_frees: int = 0
    """Blocks that it freed and another thread had allocated."""
    freed_by_others: int = 0
    is_resizing: bool = False
    resized: Resized | None = None


@dataclass(frozen=True)
class Window:
    """Some events in a row: what is live after them, and the most in between."""

    last: int
    live_bytes: int
    live_blocks: int
    most_bytes: int
    most_at: int


@dataclass
class Span:
    """The events between two times of the file: how many of which kind."""

    first: int
    us: int
    kinds: list[int] = field(default_factory=lambda: [0] * 8)
    others_frees: int = 0
    allocated_bytes: int = 0


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of several bytes, and where it ends."""
    number = 0
    for shift in range(0, 64, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & MASK, at
    damaged("it has a number of more than 64 bits", at)


def damaged(what: str, at: int) -> NoReturn:
    """The file makes no sense here."""
    raise DamagedError(f"{what} (before byte {at:,})")


def steps(data: bytes) -> Iterator[Step]:
    """The events of a file up to its end, or to where it is cut."""
    at, end = HEADER_BYTES, len(data)
    thread = address = 0
    try:
        while at < end:
            kind, upper = data[at] & 7, data[at] >> 3
            if kind == END:
                return
            number = data[at + 1]  # the size, or the address of an event without one
            at += 2
            if number >= 0x80:
                number, at = varint(data, at - 1)
            if kind == CONTROL:
                if upper == TIME and number < MOST_US:
                    yield CONTROL, thread, number, 0
                elif upper == THREAD and number < MOST_THREADS:
                    thread = number
                else:
                    damaged(
                        "it has an event that is not known, too many threads, or too late a time",
                        at,
                    )
                continue
            size = 0
            if kind not in (FREE, REALLOC_BEGIN):
                size = number << 5 | upper
                if size >= MOST_SIZE:
                    damaged("it has a block larger than an address space", at)
                if kind == ALIGNED:
                    if data[at] >= MOST_ALIGNMENT_LOG2:
                        damaged("it has an alignment larger than an address space", at)
                    at += 1
                number = data[at]
                at += 1
                if number >= 0x80:
                    number, at = varint(data, at - 1)
            elif upper:
                damaged("it has an event that is not known", at)
            address = (address + (((number >> 1) ^ -(number & 1)) << 3)) & MASK
            if address == 0 and kind != REALLOC_END:
                damaged("it has a block at address 0", at)
            yield kind, thread, size, address
    except IndexError:
        raise CutError from None


class Account:
    """What is live, event by event; events count from 0."""

    def __init__(self, windows: int = WINDOWS, largest: int = LARGEST) -> None:
        self.most_windows = windows
        self.most_largest = largest
        self.events = 0
        self.live: dict[int, Block] = {}
        self.live_bytes = 0
        self.live_blocks = 0
        self.most_live_bytes = 0
        self.most_live_blocks = 0
        self.unknown_frees = 0
        self.unseen_frees = 0
        self.lanes: list[Lane] = []
        self.span = Span(0, 0)
        self.spans = [self.span]
        self.has_first_time = False
        self.windows: list[Window] = []
        self.width = 1
        self.window_most = (-1, 0)
        self.largest: list[tuple[int, int, Large]] = []
        self.large_at: dict[int, Large] = {}

    # --- over time ---

    def time(self, us: int) -> None:
        """The file says what time it is. It never goes back."""
        if not self.has_first_time and self.events == 0:
            self.span.us = us
        else:
            self.span = Span(self.events, max(us, self.span.us))
            self.spans.append(self.span)
        self.has_first_time = True

    def close_window(self) -> None:
        """The last event of a window has been counted. Where they are many, two become one."""
        most_bytes, most_at = self.window_most
        self.windows.append(
            Window(self.events - 1, self.live_bytes, self.live_blocks, most_bytes, most_at)
        )
        self.window_most = (-1, 0)
        if len(self.windows) == self.most_windows:
            pairs = zip(self.windows[::2], self.windows[1::2], strict=True)
            self.windows = [joined(one, two) for one, two in pairs]
            self.width *= 2

    # --- events ---

    def note_large(self, address: int, size: int, call: str, thread: int) -> None:
        """A block that is among the largest so far."""
        large = Large(self.events, thread, size, call)
        heapq.heappush(self.largest, (size, -self.events, large))
        self.large_at[address] = large
        if len(self.largest) > self.most_largest:
            heapq.heappop(self.largest)

    def add(self, address: int, size: int, kind: int, lane: Lane, thread: int) -> None:
        """A block is there now."""
        if address in self.live:
            self.make_room(address, lane, thread)
        self.live[address] = (size, thread)
        lane.allocated_bytes += size
        self.span.allocated_bytes += size
        if len(self.largest) < self.most_largest or size > self.largest[0][0]:
            self.note_large(address, size, CALLS[kind], thread)

    def allocate(self, address: int, size: int, kind: int, lane: Lane, thread: int) -> None:
        """malloc and the like."""
        self.add(address, size, kind, lane, thread)
        lane.allocations += 1
        self.live_blocks += 1
        self.live_bytes += size

    def leave(self, block: Block, large: Large | None, lane: Lane, thread: int) -> None:
        """A block is no longer where it was."""
        if block[1] != thread:
            lane.others_frees += 1
            self.lanes[block[1]].freed_by_others += 1
            self.span.others_frees += 1
        if large is not None:
            large.freed = self.events

    def release(self, address: int, block: Block, lane: Lane, thread: int) -> None:
        """A block goes."""
        self.leave(block, self.large_at.pop(address, None), lane, thread)
        self.live_blocks -= 1
        self.live_bytes -= block[0]

    def free(self, address: int, lane: Lane, thread: int) -> None:
        """A release, perhaps of a block from before the recording."""
        block = self.live.pop(address, None)
        if block is None:
            self.unknown_frees += 1
            return
        lane.frees += 1
        self.release(address, block, lane, thread)

    def resize_begin(self, address: int, lane: Lane) -> None:
        """The block is somewhere between its old place and its new one."""
        if lane.is_resizing:
            raise DamagedError("it has a realloc within another")
        lane.is_resizing = True
        block = self.live.pop(address, None)
        if block is not None:
            lane.resized = Resized(address, block, self.large_at.pop(address, None))

    def resize_end(self, address: int, size: int, lane: Lane, thread: int) -> None:
        """It has arrived, or was released, or stays because there was no memory."""
        if not lane.is_resizing:
            raise DamagedError("it has the end of a realloc without its beginning")
        old, lane.resized, lane.is_resizing = lane.resized, None, False
        if old is None:
            self.unknown_frees += 1
            if address:
                self.allocate(address, size, REALLOC_END, lane, thread)
        elif address:
            self.leave(old.block, old.large, lane, thread)
            self.add(address, size, REALLOC_END, lane, thread)
            lane.reallocs += 1
            self.live_bytes += size - old.block[0]
        elif size == 0:
            lane.frees += 1
            self.leave(old.block, old.large, lane, thread)
            self.live_blocks -= 1
            self.live_bytes -= old.block[0]
        else:
            self.put_back(old, lane, thread)

    def put_back(self, old: Resized, lane: Lane, thread: int) -> None:
        """The block is where it was."""
        self.make_room(old.address, lane, thread)
        self.live[old.address] = old.block
        if old.large is not None:
            self.large_at[old.address] = old.large

    def make_room(self, address: int, lane: Lane, thread: int) -> None:
        """Another block had the address: its release was not seen, and comes now."""
        block = self.live.pop(address, None)
        if block is not None:
            self.unseen_frees += 1
            self.release(address, block, lane, thread)

    def lane(self, thread: int) -> Lane:
        """The thread whose events follow."""
        if thread > len(self.lanes):
            raise DamagedError("its threads do not begin in the order of their numbers")
        if thread == len(self.lanes):
            self.lanes.append(Lane(self.events))
        return self.lanes[thread]

    def run(self, events: Iterator[Step]) -> None:
        """Counts all events."""
        current, lane = -1, Lane(0)
        for kind, thread, size, address in events:
            if kind == CONTROL:
                self.time(size)
                continue
            if thread != current:
                current, lane = thread, self.lane(thread)
            if kind == FREE:
                self.free(address, lane, thread)
            elif kind <= ALIGNED:
                self.allocate(address, size, kind, lane, thread)
            elif kind == REALLOC_BEGIN:
                self.resize_begin(address, lane)
            else:
                self.resize_end(address, size, lane, thread)
            self.span.kinds[kind] += 1
            if self.live_bytes > self.window_most[0]:
                self.window_most = (self.live_bytes, self.events)
                if self.live_bytes > self.most_live_bytes:
                    self.most_live_bytes = self.live_bytes
                    self.most_live_blocks = self.live_blocks
            lane.last = self.events
            self.events += 1
            if self.events % self.width == 0:
                self.close_window()

    def finish(self) -> None:
        """The events that no window has yet."""
        if self.events and (not self.windows or self.windows[-1].last != self.events - 1):
            self.close_window()

    def total(self, what: str) -> int:
        """A count of all threads."""
        return sum(getattr(lane, what) for lane in self.lanes)


def joined(one: Window, two: Window) -> Window:
    """Two windows as one."""
    peak = one if one.most_bytes >= two.most_bytes else two
    return Window(two.last, two.live_bytes, two.live_blocks, peak.most_bytes, peak.most_at)


class Clock:
    """The time of an event by its number: the file has some times, the events between are spread.

    A trace that does not say how time went on has none (`has_times`): an event is a microsecond.
    """

    def __init__(self, spans: list[Span], events: int) -> None:
        first, last = spans[0], spans[-1]
        self.has_times = last.us > first.us
        self.numbers = [span.first for span in spans] if self.has_times else [0]
        self.times = [span.us for span in spans] if self.has_times else [0]
        self.pace = 1.0  # behind the last time, in microseconds an event
        if self.has_times:
            self.pace = (last.us - first.us) / last.first if last.first else 0.0
        self.end = self.at(events)

    def at(self, number: int) -> float:
        """When it was, in microseconds since the recording began."""
        i = bisect_right(self.numbers, number) - 1
        begin, since = self.times[i], number - self.numbers[i]
        if i + 1 == len(self.numbers):
            return round(begin + since * self.pace, 3)
        events = self.numbers[i + 1] - self.numbers[i]
        return round(begin + (self.times[i + 1] - begin) * since / events, 3)


@dataclass(frozen=True)
class Trace:
    """A trace that was read."""

    header: Header
    account: Account
    clock: Clock
    is_cut: bool
    """Within an event: then it ends with the one before."""


def read_header(data: bytes, source: str) -> Header:
    """The beginning of the file."""
    if len(data) < HEADER_BYTES:
        raise ToolError(f"{source} is cut off within its header; record it again")
    magic, process, started_us, failed, is_whole, command = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ToolError(
            f"{source} is a trace of another version than this tool reads (1); "
            "use the tools of the installation that recorded it",
            USAGE,
        )
    words = command.split(b"\0\0", 1)[0].split(b"\0")
    named = [word.decode("utf-8", "replace") for word in words if word]
    return Header(process, started_us, failed, is_whole != 0, named)


def parse(data: bytes, source: str) -> Trace:
    """A trace in memory; `source` names it in messages."""
    header = read_header(data, source)
    account, is_cut = Account(), False
    try:
        account.run(steps(data))
    except CutError:
        is_cut = True
    except DamagedError as error:
        raise ToolError(f"{source} is damaged: {error}, at event {account.events:,}") from None
    if account.events == 0:
        raise ToolError(
            f"{source} has no event, so there is nothing to write; the program allocates from "
            "another allocator than the one that its libraries use, or was killed before it began"
        )
    account.finish()
    return Trace(header, account, Clock(account.spans, account.events), is_cut)


def read(path: Path) -> Trace:
    """The trace in a file."""
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror}", USAGE) from None
