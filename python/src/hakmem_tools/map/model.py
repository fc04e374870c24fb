# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem map: what the pictures show, from the answer of `hakmem stat --superslabs`. Pure.

    Picture   whose memory, and its superslabs
    Superslab 2 MiB, or a huge block of several; its slots
    Slot      64 KiB: what is in it, how full, how long ago, whose
    Pin       a superslab that is nearly empty, and what keeps it from being given back

Who uses it: terminal, png, page and cli. It reads nothing.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from hakmem_tools.common import homes, sites
from hakmem_tools.common.command import Stat

SLOT_BYTES = 65536
SUPERSLAB_BYTES = 32 * SLOT_BYTES
NEARLY_EMPTY = 0.25
"""Of its mapped bytes: with less in live blocks a superslab is a pin, if it keeps memory."""
LEAST_KEPT_BYTES = SLOT_BYTES
"""In memory and not live: memory goes back in slots, so with less there is nothing to be had."""
SCHEMA_VERSION = 1
USED = ("class", "large", "sampled", "transition")
"""States of slots that somebody holds."""
BLOCKS = ("class", "large", "sampled")


@dataclass(frozen=True)
class Slot:
    """64 KiB."""

    state: str
    """class, large, sampled, transition, empty, unused, unmapped or retired."""
    class_bytes: int | None
    fill: float
    """The live part of its slab, from 0 to 1; 1 for large blocks."""
    owner: int | None
    resident_bytes: int
    age_ns: int | None
    live_blocks: int
    blocks: int
    part: int


@dataclass(frozen=True)
class Superslab:
    """2 MiB that are used slot by slot or kept, or a huge block."""

    address: int
    state: str
    superslabs: int
    age_ns: int | None
    huge_pages: bool
    resident_bytes: int
    virtual_bytes: int
    slots: tuple[Slot, ...]

    @property
    def live_bytes(self) -> float:
        """In live blocks, as far as the slots tell: each slot has its share of its slab."""
        if self.state == "huge":
            return float(self.virtual_bytes)
        return sum(slot.fill for slot in self.slots) * SLOT_BYTES

    @property
    def used_slots(self) -> int:
        """Slots that somebody holds."""
        return sum(slot.state in USED for slot in self.slots)


@dataclass(frozen=True)
class Pin:
    """A superslab that is nearly empty: given back if these blocks went."""

    address: int
    live_bytes: float
    resident_bytes: int
    holders: tuple[str, ...]
    """Blocks by class and owner, those with most bytes first."""
    sites: tuple[str, ...]
    """Call sites of blocks in it, where the process takes samples."""


@dataclass(frozen=True)
class Picture:
    """One look at a process."""

    process: dict[str, Any]
    superslabs: tuple[Superslab, ...]
    owners: dict[int, str]
    pins: tuple[Pin, ...]

    def count(self, state: str) -> int:
        """Superslabs in a state; a huge block counts as many as it takes."""
        return sum(s.superslabs for s in self.superslabs if s.state == state)

    def slot_counts(self) -> Counter[str]:
        """Slots by state, of the superslabs that have slots."""
        return Counter(slot.state for s in self.superslabs for slot in s.slots)

    def classes(self) -> list[int]:
        """The size classes that are in slabs, smallest first."""
        return sorted(
            {
                slot.class_bytes
                for s in self.superslabs
                for slot in s.slots
                if slot.state == "class" and slot.class_bytes is not None
            }
        )

    @property
    def resident_bytes(self) -> int:
        """Of all superslabs."""
        return sum(s.resident_bytes for s in self.superslabs)

    @property
    def live_bytes(self) -> float:
        """In live blocks."""
        return sum(s.live_bytes for s in self.superslabs)


def make_slot(given: dict[str, Any]) -> Slot:
    """A slot as the pictures know it."""
    state = given["kind"] if given["state"] == "active" else given["state"]
    if state == "class":
        fill = given["live_blocks"] / given["blocks"] if given["blocks"] else 0.0
    else:
        fill = 1.0 if state == "large" else 0.0
    sampled = given.get("sample_bytes")
    if state == "large" and sampled is not None:
        state, fill = "sampled", max(sampled / SLOT_BYTES - given["part"], 0.0)
    return Slot(
        state or "transition",
        given["class_bytes"] if sampled is None else sampled,
        min(fill, 1.0),
        given["owner"],
        given["resident_bytes"],
        given["age_ns"],
        given["live_blocks"],
        given["blocks"],
        given["part"],
    )


def make_superslab(given: dict[str, Any]) -> Superslab:
    """A superslab as the pictures know it."""
    return Superslab(
        address=given["address"],
        state=given["state"],
        superslabs=given["superslabs"],
        age_ns=given["age_ns"],
        huge_pages=given["huge_pages"],
        resident_bytes=given["resident_bytes"],
        virtual_bytes=given["virtual_bytes"],
        slots=tuple(make_slot(slot) for slot in given["slots"]),
    )


def owner_name(heap: dict[str, Any], guests: int) -> str:
    """A heap as people know it: by its thread, and how many more have their blocks from it."""
    is_running = heap["state"] == "running"
    name = heap["name"] or heap["state"] if is_running else f"({heap['state']})"
    return f"{name} +{guests} more" if guests else str(name)


def owner_names(stat: Stat) -> dict[int, str]:
    """Heaps by number."""
    sharing = homes.guests(stat["threads"])
    return {heap["heap"]: owner_name(heap, sharing[heap["heap"]]) for heap in stat["threads"]}


def slabs(superslab: Superslab) -> Iterator[tuple[Slot, int]]:
    """The slabs and large blocks of a superslab, by their first slots, with their lengths."""
    begin, length = None, 0
    for slot in (*superslab.slots, None):
        if slot is None or slot.state not in BLOCKS or slot.part == 0:
            if begin is not None:
                yield begin, length
            begin, length = None, 0
        if slot is not None and slot.state in BLOCKS:
            begin, length = begin or slot, length + 1


def holders(superslab: Superslab, owners: dict[int, str]) -> tuple[str, ...]:
    """What is live in a superslab, in words."""
    found: Counter[tuple[str, str]] = Counter()
    weight: Counter[tuple[str, str]] = Counter()
    for slot, length in slabs(superslab):
        if slot.live_blocks == 0 and slot.state == "class":
            continue
        what = "large" if slot.state == "large" else f"{slot.class_bytes} bytes"
        whose = "" if slot.owner is None else owners.get(slot.owner, f"heap {slot.owner}")
        found[what, whose] += slot.live_blocks if slot.state == "class" else 1
        weight[what, whose] += int(slot.fill * length * SLOT_BYTES)
    return tuple(
        f"{found[key]} x {key[0]}" + (f" of {key[1]}" if key[1] else "")
        for key, _ in weight.most_common()
    )


def is_pin(superslab: Superslab) -> bool:
    """Whether memory is kept for a few blocks only."""
    return (
        superslab.state == "slots"
        and superslab.used_slots > 0
        and superslab.live_bytes < NEARLY_EMPTY * superslab.virtual_bytes
        and superslab.resident_bytes - superslab.live_bytes >= LEAST_KEPT_BYTES
    )


def make_pin(superslab: Superslab, owners: dict[int, str], stat: Stat) -> Pin:
    """What keeps a superslab."""
    end = superslab.address + SUPERSLAB_BYTES
    return Pin(
        superslab.address,
        superslab.live_bytes,
        superslab.resident_bytes,
        holders(superslab, owners),
        tuple(sites.in_range(stat, superslab.address, end)),
    )


def read(stat: Stat) -> Picture:
    """The picture of a look at a process."""
    superslabs = tuple(make_superslab(given) for given in stat.get("superslabs", []))
    owners = owner_names(stat)
    pins = [make_pin(s, owners, stat) for s in superslabs if is_pin(s)]
    pins.sort(key=lambda pin: (-pin.resident_bytes, pin.address))
    return Picture(dict(stat["process"]), superslabs, owners, tuple(pins))


def as_json(picture: Picture) -> dict[str, Any]:
    """The picture for other programs: what the pages show, with nothing left out."""
    return {
        "schema_version": SCHEMA_VERSION,
        "process": picture.process,
        "resident_bytes": picture.resident_bytes,
        "live_bytes": round(picture.live_bytes),
        "superslab_counts": {
            state: picture.count(state) for state in ("slots", "retired", "huge", "waiting")
        },
        "slot_counts": dict(sorted(picture.slot_counts().items())),
        "owners": {str(heap): name for heap, name in picture.owners.items()},
        "pins": [{**asdict(pin), "live_bytes": round(pin.live_bytes)} for pin in picture.pins],
        "superslabs": [asdict(superslab) for superslab in picture.superslabs],
    }
