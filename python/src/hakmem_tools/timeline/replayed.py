# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem timeline: the events of what `hakmem replay --json` printed. Pure: it reads nothing.

A counter for each allocator, the median of its runs, and one for what was live: docs/replay.md.
Who uses it: cli.
"""

import statistics
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from hakmem_tools.common.errors import USAGE, ToolError
from hakmem_tools.timeline import events
from hakmem_tools.timeline.events import Event

SCHEMA_VERSION = 1
PID = 1
"""The replays were processes of their own, and the file has no numbers of them."""
WITH_TIMES = (
    "microseconds of the recording; the file has the time of some samples, those between are spread"
)
WITHOUT_TIMES = (
    "numbers of events, as the file does not say how time went on: an event is a microsecond"
)
KEPT = ("elapsed_ns", "processor_ns", "page_faults", "most_bytes", "end_bytes", "freed_bytes")


@dataclass(frozen=True)
class Replay:
    """What is wanted of the file."""

    trace: dict[str, Any]
    settings: dict[str, Any]
    live: list[int]
    us: list[int]
    allocators: dict[str, dict[str, Any]]
    problems: dict[str, str]
    runs: dict[str, list[list[int]]]
    """Of each allocator the samples of its runs; 0: none was taken."""


def whole_numbers(value: Any, count: int | None = None) -> list[int]:
    """A list of counts, perhaps of a given length."""
    if not isinstance(value, list) or not all(type(one) is int and one >= 0 for one in value):
        raise ValueError("its samples are not whole numbers")
    if count is not None and len(value) != count:
        raise ValueError("its samples are not equally many")
    return value


def parse(told: Any, source: str) -> Replay:
    """The replay that JSON is; `source` names it in messages."""
    if not isinstance(told, dict) or "runs" not in told or "sample_live_bytes" not in told:
        raise ToolError(
            f"{source} is JSON, but not what `hakmem replay --json` prints; "
            "a timeline is made of a process, a trace or that",
            USAGE,
        )
    if told.get("schema_version") != SCHEMA_VERSION:
        raise ToolError(f"{source} is of another version than this tool reads (1)", USAGE)
    try:
        return read(told)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ToolError(f"{source} is not as `hakmem replay --json` prints it: {what}") from None


def read(told: dict[str, Any]) -> Replay:
    """The members that are wanted."""
    live = whole_numbers(told["sample_live_bytes"])
    allocators: dict[str, dict[str, Any]] = {str(one["name"]): one for one in told["allocators"]}
    runs: dict[str, list[list[int]]] = {name: [] for name in allocators}
    for run in told["runs"]:
        if run["is_done"] and run["failed_allocations"] == 0:
            runs[str(run["allocator"])].append(whole_numbers(run["sample_bytes"], len(live)))
    trace = {
        name: value for name, value in told["trace"].items() if isinstance(value, int | str | bool)
    }
    trace["events"] = int(trace["events"])
    return Replay(
        trace,
        {name: told[name] for name in ("rounds", "window", "touch")},
        live,
        whole_numbers(told["sample_us"], len(live)),
        {name: {key: one[key] for key in KEPT} for name, one in allocators.items()},
        {name: str(one["problem"]) for name, one in allocators.items() if one["problem"]},
        runs,
    )


def times(replay: Replay) -> tuple[list[float], bool]:
    """When each sample was, and whether the file says so: those of one time are spread to the next."""
    count = len(replay.us)
    end = max(int(replay.trace.get("recorded_us", 0)), *replay.us, 0) if count else 0
    us = list(accumulate(replay.us, max))  # it never goes back
    if not us or end <= us[0]:
        return [(i + 1) * replay.trace["events"] / count for i in range(count)], False
    begins = [i for i in range(count) if i == 0 or us[i] > us[i - 1]]
    found: list[float] = []
    for i, next_one in zip(begins, [*begins[1:], count], strict=True):
        until = us[next_one] if next_one < count else end
        step = (until - us[i]) / (next_one - i)
        found += [us[i] + step * k for k in range(next_one - i)]
    return [round(ts, 3) for ts in found], True


def median(samples: list[int]) -> int | None:
    """Of the runs that took this sample."""
    taken = [sample for sample in samples if sample > 0]
    return round(statistics.median(taken)) if taken else None


def make(replay: Replay, source: str) -> list[Event]:
    """All events of a replay."""
    ts, has_times = times(replay)
    found: list[Event] = []
    for name, runs in replay.runs.items():
        values = [median(list(samples)) for samples in zip(*runs, strict=True)]
        found += [
            events.counter(when, PID, f"memory of {name}", {"bytes": value})
            for when, value in zip(ts, values, strict=False)
            if value is not None
        ]
    if not found:
        why = "; ".join(f"{name}: {problem}" for name, problem in replay.problems.items())
        raise ToolError(
            f"{source} has no memory over time, so there is nothing to write"
            + (f" ({why})" if why else "")
        )
    args = {
        "file": source,
        "times": WITH_TIMES if has_times else WITHOUT_TIMES,
        "values": "private memory of the process, the median of the rounds",
        **replay.settings,
        "trace": replay.trace,
        "allocators": replay.allocators,
        "problems": replay.problems,
    }
    live = [
        events.counter(when, PID, "live", {"bytes": value})
        for when, value in zip(ts, replay.live, strict=True)
    ]
    title = f"hakmem replay {replay.trace.get('path', '')}".strip()
    first = [events.about(ts[0], PID, "hakmem replay", args), events.process_name(PID, title)]
    return first + live + found
