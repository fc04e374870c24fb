# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem map: the picture as PNG, by matplotlib. Who uses it: cli."""

from collections import Counter
from collections.abc import Callable, Iterable
from io import BytesIO

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import colormaps
from matplotlib import pyplot as plt
from matplotlib.patches import Patch

from hakmem_tools.common.text import duration, size
from hakmem_tools.map.model import Picture, Slot, Superslab

SLOTS = 32
ROWS = 64
"""Superslabs below each other; more go into the next column."""
MOST_NAMES = 14
Colour = tuple[float, float, float]
OTHERS: Colour = (0.45, 0.45, 0.45)
STATES: dict[str, tuple[Colour, str]] = {
    "large": ((0.20, 0.40, 0.64), "large block"),
    "huge": ((0.13, 0.29, 0.53), "huge block"),
    "sampled": ((0.45, 0.62, 0.81), "sampled block"),
    "transition": ((0.88, 0.63, 0.0), "between two states"),
    "empty": ((0.80, 0.80, 0.77), "empty, pages kept"),
    "unused": ((0.95, 0.95, 0.95), "unused, no pages"),
    "unmapped": ((0.99, 0.99, 0.99), "not mapped"),
    "retired": ((0.62, 0.62, 0.60), "superslab kept"),
    "waiting": ((0.4, 0.4, 0.4), "freed huge block"),
}
WAYS = ("class", "fill", "age", "owner")


def from_map(name: str, at: float) -> Colour:
    """A colour of one of matplotlib's maps."""
    red, green, blue, _ = colormaps[name](at)
    return (float(red), float(green), float(blue))


def paler(colour: Colour, fill: float) -> Colour:
    """Nearer to the paper the emptier it is."""
    strength = 0.25 + 0.75 * fill
    red, green, blue = (1 - strength * (1 - part) for part in colour)
    return (red, green, blue)


def most_used(values: Iterable[int | None]) -> list[int]:
    """Those that there are, the most frequent first."""
    counts = Counter(value for value in values if value is not None)
    return sorted(counts, key=lambda value: (-counts[value], value))


class Colours:
    """What colour a slot has, and what that means."""

    def __init__(self, picture: Picture, way: str) -> None:
        slots = [slot for s in picture.superslabs for slot in s.slots]
        self.way = way
        self.classes = most_used(slot.class_bytes for slot in slots if slot.state == "class")
        self.owners = most_used(slot.owner for slot in slots)
        self.names = picture.owners
        self.oldest = max((slot.age_ns or 0 for slot in slots), default=0) or 1
        self.states = {slot.state for slot in slots} | {
            s.state for s in picture.superslabs if not s.slots
        }
        self.of_class: dict[str, Callable[[Slot], Colour]] = {
            "class": lambda s: paler(self.turn(self.classes, s.class_bytes), s.fill),
            "owner": lambda s: paler(self.turn(self.owners, s.owner), s.fill),
            "fill": lambda s: from_map("RdYlGn", s.fill),
            "age": lambda s: (0.55, 0.70, 0.55),
        }

    @staticmethod
    def turn(known: list[int], value: int | None) -> Colour:
        """A colour of its own for each of those with most slots, grey for the others."""
        at = known.index(value) if value in known else MOST_NAMES
        return from_map("tab20", (at + 0.5) / 20) if at < MOST_NAMES else OTHERS

    def of(self, slot: Slot) -> Colour:
        """A slot's colour."""
        if self.way == "age" and slot.age_ns is not None:
            return from_map("YlOrRd", 0.15 + 0.85 * slot.age_ns / self.oldest)
        return self.of_class[self.way](slot) if slot.state == "class" else STATES[slot.state][0]

    def names_of_way(self) -> list[tuple[Colour, str]]:
        """The legend's part that is about slabs."""
        if self.way == "class":
            return [(self.turn(self.classes, c), f"{c} bytes") for c in self.classes]
        if self.way == "owner":
            return [
                (self.turn(self.owners, o), f"heap {o} {self.names.get(o, '')}")
                for o in self.owners
            ]
        if self.way == "fill":
            return [(from_map("RdYlGn", f), f"{f:.0%} live") for f in (0.0, 0.5, 1.0)]
        return [
            (from_map("YlOrRd", 0.15 + 0.85 * part), f"free for {duration(part * self.oldest)}")
            for part in (0.0, 0.5, 1.0)
        ] + [((0.55, 0.70, 0.55), "in use")]

    def legend(self) -> list[Patch]:
        """What the colours mean; those with most slots by name."""
        lines = self.names_of_way()
        patches = [Patch(color=colour, label=label) for colour, label in lines[:MOST_NAMES]]
        if len(lines) > MOST_NAMES:
            patches.append(Patch(color=OTHERS, label=f"{len(lines) - MOST_NAMES} others"))
        for state, (colour, label) in STATES.items():
            if state in self.states:
                patches.append(Patch(facecolor=colour, edgecolor="grey", label=label))
        return patches


def row(superslab: Superslab, colours: Colours) -> list[Colour]:
    """The cells of a superslab."""
    if not superslab.slots:
        return [STATES[superslab.state][0]] * SLOTS
    return [colours.of(slot) for slot in superslab.slots]


def cells(
    picture: Picture, colours: Colours
) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    """All superslabs, from the top to the bottom, in columns."""
    count = max(len(picture.superslabs), 1)
    rows = min(max(ROWS, int(count**0.5)), count)
    columns = -(-count // rows)
    image = np.ones((rows, columns * (SLOTS + 1) - 1, 3))
    for i, superslab in enumerate(picture.superslabs):
        left = i // rows * (SLOTS + 1)
        image[i % rows, left : left + SLOTS] = row(superslab, colours)
    return image


def draw(picture: Picture, way: str) -> bytes:
    """Draws the picture."""
    colours = Colours(picture, way)
    image = cells(picture, colours)
    high, wide = image.shape[:2]
    figure, axes = plt.subplots(
        figsize=(min(max(wide * 0.16, 6), 40) + 3, min(max(high * 0.16, 3.5), 40) + 1), dpi=110
    )
    axes.imshow(image, interpolation="nearest", aspect="equal")
    axes.set_xticks(np.arange(-0.5, wide), minor=True)
    axes.set_yticks(np.arange(-0.5, high), minor=True)
    axes.grid(which="minor", color="white", linewidth=0.6)
    axes.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
    for side in axes.spines.values():
        side.set_visible(False)
    process = picture.process
    axes.set_title(
        f"{process['name']} (pid {process['pid']}): {size(picture.resident_bytes)} resident, "
        f"{size(picture.live_bytes)} live, by {way}",
        fontsize=10,
        loc="left",
    )
    axes.set_xlabel("a row: a superslab of 2 MiB; a cell: a slot of 64 KiB", fontsize=8)
    axes.legend(
        handles=colours.legend(), loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8,
        frameon=False,
    )  # fmt: skip
    drawn = BytesIO()
    figure.savefig(drawn, bbox_inches="tight", format="png")
    plt.close(figure)
    return drawn.getvalue()
