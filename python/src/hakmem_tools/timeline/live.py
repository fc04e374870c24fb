# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem timeline: a process that runs. Each look at it becomes the events of its counters.

    sample     the counters of one look. Pure
    Recorder   looks again and again, until the process ends, the time is over or somebody stops it

A rate is drawn from the look before to the look that measured it. Who uses it: cli.
"""

import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from hakmem_tools.common import command, processes
from hakmem_tools.common.command import Stat
from hakmem_tools.common.errors import ToolError
from hakmem_tools.common.processes import Usage
from hakmem_tools.timeline import events
from hakmem_tools.timeline.events import Event, EventFile
from hakmem_tools.top import frame as frames
from hakmem_tools.top.frame import Frame

FAILURES = ("exhaustion", "map", "threshold")
ENDED = "the process ended"
TIME_OVER = "the time was over"
STOPPED = "it was stopped"
PATIENCE_SECONDS = 1.0
"""A process that can no longer be read is about to end, as a rule."""


@dataclass(frozen=True)
class Look:
    """What is known at one moment."""

    frame: Frame
    usage: Usage | None
    before: Usage | None

    @property
    def pid(self) -> int:
        """The process."""
        return int(self.frame.now["process"]["pid"])

    @property
    def ts(self) -> float:
        """Microseconds since the process began."""
        return microseconds(self.frame.now)

    @property
    def ts_before(self) -> float:
        """Of the look before."""
        return microseconds(self.frame.before)

    def rate(self, now: float, before: float) -> float:
        """A change a second; none where the process has become another program."""
        return round(max(self.frame.rate(now, before), 0), 1)

    def counted(self, *names: str) -> dict[str, float]:
        """Rates of counters, under the last part of their names."""
        now, before = self.frame.now["counters"], self.frame.before["counters"]
        return {
            name.rpartition(".")[2]: self.rate(now.get(name, 0), before.get(name, 0))
            for name in names
        }


def microseconds(stat: Stat) -> float:
    """When a look was."""
    return float(stat["process"]["uptime_ns"] // 1000)


def amounts(stat: Stat) -> Iterator[tuple[str, dict[str, float]]]:
    """What there is at a moment: counters and their series."""
    process, counters = stat["process"], stat["counters"]
    yield "memory", {line["name"]: line["resident_bytes"] for line in stat["waterfall"]}
    swapped = process["swap_bytes"] or 0
    yield "process", {"resident": process["rss_bytes"], "swapped": swapped}
    large, huge = stat["large"]["blocks"], stat["huge"]["blocks"]
    small = sum(one["live_blocks"] for one in stat["classes"])
    yield "blocks", {"small": small, "large": large, "huge": huge}
    mapped = counters["pool.mapped_superslabs"] - counters["pool.unmapped_superslabs"]
    retired = counters["pool.retired_superslabs"]
    yield "superslabs", {"in_use": max(mapped - retired, 0), "retired": retired}
    slots = sum(one["slots"] for one in stat["classes"]) + stat["large"]["slots_in_use"]
    yield "slots", {"in_use": slots, "empty": counters["pool.empty_slots"]}
    running = sum(thread["state"] == "running" for thread in stat["threads"])
    yield "heaps", {"with_a_thread": running, "without": len(stat["threads"]) - running}
    yield "failed allocations", {why: stat["failures"][why] for why in FAILURES}


def allocated(stat: Stat) -> tuple[int, int] | None:
    """Blocks and bytes since the profile began, as its samples say; None without a profile."""
    if "samples" not in stat:
        return None
    sites = stat["samples"]["sites"]
    blocks = sum(site["allocated_blocks"] for site in sites)
    return blocks, sum(site["allocated_bytes"] for site in sites)


def rates(look: Look) -> Iterator[tuple[str, dict[str, float]]]:
    """What happened in a second between two looks."""
    now, before = look.frame.now, look.frame.before
    stages = now["stages"].items()
    yield (
        "slots a second",
        {name: look.rate(count, before["stages"].get(name, 0)) for name, count in stages},
    )
    refills = [
        look.rate(heap["refills"], was["refills"])
        for heap, was, _ in frames.matched(look.frame, "threads", "heap")
    ]
    yield "refills a second", {"refills": round(sum(refills), 1)}
    yield "drained blocks a second", look.counted("bins.drained")
    yield "blocks of other threads a second", look.counted("remote.freed", "remote.collected")
    waits = [sum(lock["contended"] for lock in stat["locks"].values()) for stat in (now, before)]
    yield "waits for locks a second", {"waits": look.rate(*waits)}
    if look.usage is not None and look.before is not None:
        faults = {
            "minor": look.rate(look.usage.minor_faults, look.before.minor_faults),
            "major": look.rate(look.usage.major_faults, look.before.major_faults),
        }
        yield "page faults a second", faults
    counts, counts_before = allocated(now), allocated(before)
    if counts is not None and counts_before is not None:
        yield (
            "allocations a second, estimated",
            {"blocks": look.rate(counts[0], counts_before[0])},
        )
        yield "allocated a second, estimated", {"bytes": look.rate(counts[1], counts_before[1])}


def failures(look: Look) -> Iterator[Event]:
    """An instant for each allocation that failed since the look before."""
    now, before = look.frame.now["failures"], look.frame.before["failures"]
    new = sum(now[why] for why in FAILURES) - sum(before[why] for why in FAILURES)
    for failure in now["last"][-new:] if new > 0 else []:
        ts = max(look.ts - (failure["age_ns"] or 0) // 1000, look.ts_before)
        args = {name: failure[name] for name in ("text", "size_bytes", "reason")}
        yield events.instant(ts, look.pid, "allocation failed", args)


def sample(look: Look) -> list[Event]:
    """The events of a look."""
    found = [
        events.counter(look.ts, look.pid, name, values) for name, values in amounts(look.frame.now)
    ]
    if look.ts > look.ts_before:
        found += [
            events.counter(look.ts_before, look.pid, name, values) for name, values in rates(look)
        ]
        found += failures(look)
    return found


def first_events(look: Look, interval: float) -> list[Event]:
    """Whose memory it is."""
    process = look.frame.now["process"]
    told = ("name", "hakmem_version", "build", "kernel", "time_unix_ns", "uptime_ns")
    args: dict[str, Any] = {name: process[name] for name in told}
    args["interval_seconds"] = interval
    args["times"] = "microseconds since the process began"
    return [
        events.about(look.ts, look.pid, "hakmem stat", args),
        events.process_name(look.pid, process["name"]),
    ]


class Recorder:
    """Looks at one process until `signals`, which are blocked, or something else ends it."""

    def __init__(self, pid: int, interval: float, seconds: float | None) -> None:
        self.pid, self.interval, self.seconds = pid, interval, seconds
        self.signals: Collection[signal.Signals] = ()
        self.looks = 0
        self.problem: ToolError | None = None
        usage = processes.usage(pid)
        self.look = Look(frames.begin(self.stat()), usage, usage)

    def stat(self) -> Stat:
        """One look; with samples where the process takes some."""
        return command.stat(self.pid, "--samples")

    def is_stopped(self, seconds: float) -> bool:
        """Waits; true as soon as somebody wants to end this."""
        return signal.sigtimedwait(self.signals, max(seconds, 0)) is not None

    def has_ended(self) -> bool:
        """Whether the process is gone, or another one has its number."""
        now, first = processes.usage(self.pid), self.look.usage
        return now is None or not now.runs or (first is not None and now.started != first.started)

    def look_again(self) -> str:
        """The next look; why there is none, if there is none."""
        begin = time.monotonic()
        while not self.has_ended():
            usage = processes.usage(self.pid)
            try:
                frame = frames.follow(self.look.frame, self.stat())
            except ToolError as error:
                if time.monotonic() - begin > PATIENCE_SECONDS and not self.has_ended():
                    self.problem = error
                    return f"it could not be read any more: {error}"
                if self.is_stopped(PATIENCE_SECONDS / 10):
                    return STOPPED
            else:
                self.look = Look(frame, usage, self.look.usage)
                return ""
        return ENDED

    def wait(self, begin: float) -> str:
        """Until the next look is due; why there will be none, if there will be none."""
        passed = time.monotonic() - begin
        due = (int(passed / self.interval) + 1) * self.interval
        is_last = self.seconds is not None and due > self.seconds
        until = self.seconds if self.seconds is not None and is_last else due
        if self.is_stopped(until - passed):
            return STOPPED
        return TIME_OVER if is_last else ""

    def run(self, file: EventFile) -> str:
        """Looks until the end, and says what ended it. The file is whole then."""
        begin = time.monotonic()
        file.add([*first_events(self.look, self.interval), *sample(self.look)])
        self.looks = 1
        while not (why := self.wait(begin) or self.look_again()):
            file.add(sample(self.look))
            self.looks += 1
        file.add([events.instant(self.look.ts, self.pid, "the end", {"because": why})])
        file.finish()
        return why


def block_signals() -> list[signal.Signals]:
    """Ctrl-C, and what else ends programs politely, wait from here on until they are asked for."""
    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    wanted = [one for one in stopping if signal.getsignal(one) is not signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    return wanted
