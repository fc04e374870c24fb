# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem timeline: the events of a trace. Pure: it reads nothing.

    bytes, blocks                 what is live, as counters over the whole run
    allocations a second, ...     rates, where the trace says what time it was
    thread N                      a slice from its first to its last event
    1.5 MiB from malloc           an instant for each of the largest blocks

Who uses it: cli.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hakmem_tools.common.text import size
from hakmem_tools.timeline import events
from hakmem_tools.timeline.events import Event
from hakmem_tools.timeline.trace import CALLS, FREE, Clock, Large, Span, Trace, Window

RATES = 1000
"""Points of a rate, at most."""
WITH_TIMES = "microseconds since the recording began; the trace has the time of some events, those between are spread"
WITHOUT_TIMES = (
    "numbers of events, as the trace does not say how time went on: an event is a microsecond"
)


def process_of(trace: Trace) -> int:
    """Its number; 1 where the file has none that can be."""
    return trace.header.process if 0 < trace.header.process < 1 << 31 else 1


def summary(trace: Trace, name: str) -> dict[str, Any]:
    """What the file is, with the names of `hakmem replay --json`."""
    account, header = trace.account, trace.header
    return {
        "trace": name,
        "command": shlex.join(header.words),
        "times": WITH_TIMES if trace.clock.has_times else WITHOUT_TIMES,
        "is_whole": header.is_whole and not trace.is_cut,
        "is_cut_within_an_event": trace.is_cut,
        "started_unix_us": header.started_us,
        "recorded_us": account.spans[-1].us,
        "threads": len(account.lanes),
        "events": account.events,
        "allocations": account.total("allocations"),
        "frees": account.total("frees"),
        "reallocs": account.total("reallocs"),
        "failed_allocations": header.failed,
        "unknown_frees": account.unknown_frees,
        "unseen_frees": account.unseen_frees,
        "frees_by_other_threads": account.total("others_frees"),
        "most_live_bytes": account.most_live_bytes,
        "most_live_blocks": account.most_live_blocks,
        "end_live_bytes": account.live_bytes,
        "end_live_blocks": account.live_blocks,
    }


def live(pid: int, clock: Clock, windows: list[Window]) -> Iterator[Event]:
    """Of each window the most bytes and the last; blocks as they are at its end."""
    yield events.counter(clock.at(0), pid, "bytes", {"live": 0})
    yield events.counter(clock.at(0), pid, "blocks", {"live": 0})
    for window in windows:
        if window.most_at != window.last:
            peak = {"live": window.most_bytes}
            yield events.counter(clock.at(window.most_at), pid, "bytes", peak)
        end = clock.at(window.last)
        yield events.counter(end, pid, "bytes", {"live": window.live_bytes})
        yield events.counter(end, pid, "blocks", {"live": window.live_blocks})


def together(spans: list[Span]) -> Span:
    """Spans in a row as one."""
    return Span(
        spans[0].first,
        spans[0].us,
        [sum(counts) for counts in zip(*(span.kinds for span in spans), strict=True)],
        sum(span.others_frees for span in spans),
        sum(span.allocated_bytes for span in spans),
    )


def rates(pid: int, span: Span, begin: float, end: float) -> Iterator[Event]:
    """What a span's events are in a second."""
    scale = 1e6 / (end - begin)
    allocations = {call: round(span.kinds[kind] * scale, 1) for kind, call in CALLS.items()}
    yield events.counter(begin, pid, "allocations a second", allocations)
    frees = {"frees": round(span.kinds[FREE] * scale, 1)}
    yield events.counter(begin, pid, "frees a second", frees)
    others = {"freed": round(span.others_frees * scale, 1)}
    yield events.counter(begin, pid, "blocks of other threads a second", others)
    allocated = {"bytes": round(span.allocated_bytes * scale)}
    yield events.counter(begin, pid, "allocated a second", allocated)


def all_rates(pid: int, clock: Clock, spans: list[Span]) -> Iterator[Event]:
    """Rates over the whole run: spans that are short are taken together."""
    least = (clock.end - clock.times[0]) / RATES
    taken: list[Span] = []
    for number, span in enumerate(spans):
        taken.append(span)
        begin = float(taken[0].us)
        is_last = number + 1 == len(spans)
        end = clock.end if is_last else float(spans[number + 1].us)
        if end > begin and (end - begin >= least or is_last):
            yield from rates(pid, together(taken), begin, end)
            taken = []
    yield from rates(pid, Span(0, 0), clock.end, clock.end + 1)  # nothing from there on


def threads(trace: Trace, pid: int) -> Iterator[Event]:
    """A track for each thread; they count from 0, tracks from 1."""
    for number, lane in enumerate(trace.account.lanes):
        args = {
            "allocations": lane.allocations,
            "frees": lane.frees,
            "reallocs": lane.reallocs,
            "allocated_bytes": lane.allocated_bytes,
            "frees_of_other_threads_blocks": lane.others_frees,
            "blocks_freed_by_other_threads": lane.freed_by_others,
        }
        name = f"thread {number}"
        begin, end = trace.clock.at(lane.first), trace.clock.at(lane.last)
        yield events.thread_name(pid, number + 1, name)
        yield events.life(begin, end, pid, number + 1, name, args)


def largest(pid: int, clock: Clock, blocks: list[Large]) -> Iterator[Event]:
    """An instant where each of the largest blocks is allocated."""
    for block in sorted(blocks, key=lambda block: block.number):
        freed = None if block.freed is None else clock.at(block.freed)
        args = {"bytes": block.size, "call": block.call, "freed_us": freed}
        name = f"{size(block.size)} from {block.call}"
        yield events.instant(clock.at(block.number), pid, name, args, block.thread + 1)


def make(trace: Trace, path: Path) -> Iterator[Event]:
    """All events of a trace."""
    pid, clock, account = process_of(trace), trace.clock, trace.account
    words = trace.header.words
    begin = clock.at(0)
    yield events.about(begin, pid, "hakmem record", summary(trace, path.name))
    yield events.process_name(pid, Path(words[0]).name if words else path.name)
    yield from threads(trace, pid)
    yield from live(pid, clock, account.windows)
    if clock.has_times:
        yield from all_rates(pid, clock, account.spans)
    yield from largest(pid, clock, [block for *_, block in account.largest])
