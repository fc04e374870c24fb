# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem top: two looks at a process and what changed between them. Pure: it reads nothing.

    first      the look with which watching began: growth is counted from there
    before     the one before the last: rates are from there
    now        the last one

Who uses it: views, and app and cli, which make frames.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hakmem_tools.common import homes, sites
from hakmem_tools.common.command import Stat

SLOT_BYTES = 65536
LARGE_MOST = 31 * SLOT_BYTES
"""Longer blocks are huge ones."""
SLACK = {"large": ">", "estimated": "~", "exact": ""}
"""Before the line of what was not asked for: of large blocks only, or estimated from samples."""
Row = dict[str, Any]
"""One line of a view; what its columns show is under the names that views.py gives them."""


@dataclass(frozen=True)
class Frame:
    """What a screen shows."""

    now: Stat
    before: Stat
    first: Stat

    @property
    def seconds(self) -> float:
        """Between the last two looks; 0 where there was only one."""
        nanoseconds = self.now["process"]["time_unix_ns"] - self.before["process"]["time_unix_ns"]
        return max(float(nanoseconds) / 1e9, 0.0)

    def rate(self, after: float, before: float) -> float:
        """A change a second."""
        return (after - before) / self.seconds if self.seconds > 0 else 0.0


def begin(stat: Stat) -> Frame:
    """The first frame: nothing has changed yet."""
    return Frame(stat, stat, stat)


def follow(frame: Frame, stat: Stat) -> Frame:
    """The next one."""
    return Frame(stat, frame.now, frame.first)


def restart(frame: Frame) -> Frame:
    """Growth is counted from here."""
    return Frame(frame.now, frame.before, frame.now)


def resident(stat: Stat, name: str) -> int:
    """The resident bytes of a line of the waterfall; 0 where there is no such line."""
    return sum(line["resident_bytes"] for line in stat["waterfall"] if line["name"] == name)


def itself(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is new has not changed."""
    return item


def nothing(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is new had nothing and did nothing before."""
    return dict.fromkeys(item, 0)


def matched(
    frame: Frame,
    section: str,
    key: str,
    of_new: Callable[[Mapping[str, Any]], Mapping[str, Any]] = itself,
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]]:
    """Each member of a list with what it was before and at first, or what `of_new` says it was."""
    before = {item[key]: item for item in frame.before[section]}
    first = {item[key]: item for item in frame.first[section]}
    for item in frame.now[section]:
        new = of_new(item)
        yield item, before.get(item[key], new), first.get(item[key], new)


def large_rows(frame: Frame) -> Iterator[Row]:
    """Blocks that are no class's, as if they were two classes."""
    for name, least, what in (("large", 1 << 16, ">64K"), ("huge", LARGE_MOST, ">1.9M")):
        now, before, first = (stat[name] for stat in (frame.now, frame.before, frame.first))
        # The stages count runs of slots; huge blocks come from two places of their own.
        taken = [
            sum(part["stages"].values()) if name == "large" else part["reused"] + part["fresh"]
            for part in (now, before)
        ]
        if now["blocks"] or first["blocks"]:
            yield {
                "name": what,
                "size": least + 1,
                "live": now["bytes"],
                "blocks": now["blocks"],
                "room": now["bytes"],
                "resident": now["resident_bytes"],
                "growth": now["bytes"] - first["bytes"],
                "growth_rate": frame.rate(now["bytes"], before["bytes"]),
                "slabs": now["blocks"],
                "taken_rate": frame.rate(*taken),
            }


def class_rows(frame: Frame) -> list[Row]:
    """Size classes in use, or that were, and large and huge blocks."""
    rows = [
        {
            "name": str(now["size_bytes"]),
            "size": now["size_bytes"],
            "live": now["live_bytes"],
            "blocks": now["live_blocks"],
            "room": now["slots"] * SLOT_BYTES,
            "resident": now["resident_bytes"],
            "growth": now["live_bytes"] - first["live_bytes"],
            "growth_rate": frame.rate(now["live_bytes"], before["live_bytes"]),
            "slabs": now["slabs"],
            "taken_rate": frame.rate(sum(now["stages"].values()), sum(before["stages"].values())),
        }
        for now, before, first in matched(frame, "classes", "size_bytes")
        if now["slabs"] or first["slabs"]
    ]
    return rows + list(large_rows(frame))


def thread_rows(frame: Frame) -> list[Row]:
    """Heaps: one a thread, and the shared one. What threads have together is that of their home."""
    sharing = homes.guests(frame.now["threads"])
    return [
        {
            "heap": now["heap"],
            "home": homes.home(now),
            "has_nothing": homes.has_nothing(now),
            "sharing": f" +{sharing[now['heap']]}" if sharing[now["heap"]] else "",
            "tid": now["tid"] or 0,
            "tid_text": "-" if now["tid"] is None else str(now["tid"]),
            "name": now["name"] if now["state"] == "running" else f"({now['state']})",
            "live": now["live_bytes"],
            "held": now["slab_bytes"],
            "cached": now["bin_bytes"] + now["outbox_bytes"],
            "growth": now["live_bytes"] - first["live_bytes"],
            "refill_rate": frame.rate(now["refills"], before["refills"]),
            "drain_rate": frame.rate(now["drains"], before["drains"]),
            "remote_rate": frame.rate(now["remote_frees"], before["remote_frees"]),
        }
        for now, before, first in matched(frame, "threads", "heap", nothing)
    ]


def site_rows(frame: Frame) -> list[Row]:
    """Call sites with sampled blocks; none unless the process takes samples."""
    before = {site.name: site for site in sites.of(frame.before)}
    first = {site.name: site for site in sites.of(frame.first)}
    return [
        {
            "name": site.name,
            "live": site.live_bytes,
            "blocks": site.live_blocks,
            "growth": site.live_bytes - first.get(site.name, sites.NONE).live_bytes,
            "growth_rate": frame.rate(
                site.live_bytes, before.get(site.name, sites.NONE).live_bytes
            ),
        }
        for site in sites.of(frame.now)
        if site.live_bytes or first.get(site.name, sites.NONE).live_bytes
    ]


def lifetime_rows(frame: Frame) -> list[Row]:
    """Call sites and how long their blocks live; none unless the process learns it."""
    return [
        {
            "name": site.name,
            "group": site.group,
            "life": site.life_bytes,
            "samples": site.samples,
            "live": site.live_samples,
            "least": site.least_bytes,
            "sizes": f"{site.least_bytes}-{site.most_bytes}" if site.most_bytes else "-",
        }
        for site in sites.lifetimes(frame.now)
    ]


STAGES = {
    "adopt": "a slab whose thread ended",
    "warm": "an empty slot that the class had last",
    "empty": "an empty slot of any class",
    "unused": "an unused slot of a superslab in use",
    "retired": "a superslab that was kept",
    "fresh": "memory from the system",
}


def stage_rows(frame: Frame) -> list[Row]:
    """How the shared pool served, cheapest stage first."""
    total = sum(frame.now["stages"].values())
    return [
        {
            "order": order,
            "name": name,
            "what": STAGES.get(name, ""),
            "count": count,
            "total": total,
            "rate": frame.rate(count, frame.before["stages"].get(name, 0)),
        }
        for order, (name, count) in enumerate(frame.now["stages"].items())
    ]


def lock_rows(frame: Frame) -> list[Row]:
    """Locks: how often they were taken, and how often somebody else had them."""
    return [
        {
            "name": name,
            "acquired": now["acquired"],
            "contended": now["contended"],
            "acquired_rate": frame.rate(now["acquired"], before["acquired"]),
            "contended_rate": frame.rate(now["contended"], before["contended"]),
        }
        for name, now in frame.now["locks"].items()
        for before in (frame.before["locks"].get(name, now),)
    ]


def memory_rows(frame: Frame) -> list[Row]:
    """The waterfall: from live bytes to all that is resident."""
    basis = frame.now["slack"]["basis"]
    return [
        {
            "order": order,
            "name": (SLACK[basis] if line["name"] == "slack" else "") + line["label"],
            "resident": line["resident_bytes"],
            "virtual": line["virtual_bytes"],
            "total": frame.now["process"]["rss_bytes"],
            "growth": line["resident_bytes"] - resident(frame.first, line["name"]),
            "growth_rate": frame.rate(line["resident_bytes"], resident(frame.before, line["name"])),
        }
        for order, line in enumerate(frame.now["waterfall"])
    ]
