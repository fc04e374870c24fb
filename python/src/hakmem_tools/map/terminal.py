# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem map: the picture for a terminal: a line for each superslab, a character for each slot.

Who uses it: cli. A slot of a size class is a bar as high as its slab is full, in the class's
colour; without colours the bars and letters say enough.
"""

from collections.abc import Iterable

from rich.text import Text

from hakmem_tools.common.text import compact, cut, duration, percent, size
from hakmem_tools.map.model import SUPERSLAB_BYTES, USED, Picture, Slot, Superslab

BARS = "▁▂▃▄▅▆▇█"
PLAIN = str.maketrans(f"{BARS}·…", "12345678.~")
"""Where the encoding of the output has no bars."""
SIGNS = {
    "large": ("L", "bold white on blue", "large block"),
    "sampled": ("s", "bold", "a sampled block of a size class, by itself"),
    "transition": ("?", "yellow", "between two states"),
    "empty": ("·", "default", "empty: free, its pages are kept"),
    "unused": (" ", "default", "unused: free, no pages"),
    "unmapped": ("x", "dim", "not mapped"),
    "retired": ("-", "dim", "the whole superslab is kept for later"),
}
# Of a terminal's own colours, so that they suit its background.
COLOURS = ("green", "cyan", "magenta", "yellow", "red", "blue", "bright_green", "bright_cyan")
WIDTH = 78


def colour_of(class_bytes: int | None, classes: list[int]) -> str:
    """The same for a class everywhere in a picture."""
    return COLOURS[classes.index(class_bytes) % len(COLOURS)] if class_bytes in classes else ""


def sign(slot: Slot, classes: list[int]) -> tuple[str, str]:
    """A slot's character and style."""
    if slot.state in SIGNS:
        return SIGNS[slot.state][:2]
    level = min(int(slot.fill * len(BARS)), len(BARS) - 1)
    return BARS[level], colour_of(slot.class_bytes, classes)


def slots_of(superslab: Superslab, classes: list[int]) -> Text:
    """32 characters."""
    if not superslab.slots:
        what = "huge block" if superslab.state == "huge" else "freed huge block"
        return Text(f"{what}, {size(superslab.superslabs * SUPERSLAB_BYTES)}".ljust(32))
    text = Text()
    for slot in superslab.slots:
        text.append(*sign(slot, classes))
    return text


def line(superslab: Superslab, classes: list[int]) -> Text:
    """A superslab: where, its slots, how much of it is live, resident, and since when it is so."""
    age = "" if superslab.age_ns is None else duration(superslab.age_ns)
    live = percent(superslab.live_bytes, superslab.virtual_bytes)
    text = Text(f"{superslab.address:#14x} ")
    text.append("|", style="dim").append_text(slots_of(superslab, classes)).append("|", style="dim")
    text.append(f" {live:>5} {compact(superslab.resident_bytes):>8} {age:>8}")
    if superslab.huge_pages:
        text.append(" huge")
    text.rstrip()
    return text


def legend(picture: Picture) -> Iterable[Text]:
    """What the characters mean, those that are in the picture."""
    there = picture.slot_counts()
    if there["class"]:
        yield Text(f"{BARS[0]}..{BARS[-1]}  a size class, as high as its slab is full")
    for state, (character, style, meaning) in SIGNS.items():
        if there[state]:
            yield Text(character, style=style).append(f"     {meaning}", style="default")
    classes = picture.classes()
    text = Text("classes:")
    for class_bytes in classes:
        if text.cell_len + len(str(class_bytes)) >= WIDTH:
            yield text
            text = Text("        ")
        text.append(" ").append(str(class_bytes), style=colour_of(class_bytes, classes))
    if classes:
        yield text


def summary(picture: Picture) -> Iterable[Text]:
    """Whose memory, and how much of each kind."""
    process = picture.process
    slots = picture.slot_counts()
    used = sum(slots[state] for state in USED)
    yield Text(f"{process['name']} (pid {process['pid']}), hakmem {process['hakmem_version']}")
    yield Text(
        f"superslabs of 2 MiB: {picture.count('slots')} in use slot by slot, "
        f"{picture.count('retired')} kept, {picture.count('huge')} in huge blocks"
    )
    yield Text(
        f"slots of 64 KiB: {used} in use, {slots['empty']} empty, {slots['unused']} unused, "
        f"{slots['unmapped']} not mapped"
    )
    yield Text(
        f"resident {size(picture.resident_bytes)}, in live blocks {size(picture.live_bytes)}"
    )


def pins(picture: Picture, most: int, width: int = WIDTH) -> Iterable[Text]:
    """Superslabs that a few blocks keep, those with most pages first."""
    if not picture.pins:
        return
    kept = sum(pin.resident_bytes - pin.live_bytes for pin in picture.pins)
    count = len(picture.pins)
    many = (
        f"{count} superslabs are nearly empty and keep"
        if count > 1
        else "A superslab is nearly empty and keeps"
    )
    yield Text(
        f"{many} {size(max(kept, 0))} that is not live:",
        style="bold",
    )
    for pin in picture.pins[:most]:
        head = f"{pin.address:#14x}  {compact(pin.live_bytes):>6} of {compact(pin.resident_bytes)}"
        yield Text(cut(f"{head}: {', '.join(pin.holders) or 'no live block'}", width))
        for site in pin.sites[:3]:
            yield Text(cut(f"{'':16}{site}", width), style="dim")
    if len(picture.pins) > most:
        yield Text(f"  and {len(picture.pins) - most} more (--limit 0 shows all)", style="dim")


def show(picture: Picture, limit: int, width: int = WIDTH) -> Iterable[Text]:
    """All of it; at most `limit` superslabs, 0 for all of them."""
    yield from summary(picture)
    yield Text()
    shown = picture.superslabs[: limit or None]
    classes = picture.classes()
    heading = (
        f"{'superslab':>14}  {'slots of 64 KiB':<32}  {'live':>5} {'resident':>8} {'idle for':>8}"
    )
    yield Text(heading, style="bold")
    for superslab in shown:
        yield line(superslab, classes)
    if len(shown) < len(picture.superslabs):
        rest = len(picture.superslabs) - len(shown)
        yield Text(f"  and {rest} more (--limit 0 shows all, --html a page)", style="dim")
    yield Text()
    yield from legend(picture)
    found = list(pins(picture, limit or len(picture.pins), width))
    if found:
        yield Text()
        yield from found
