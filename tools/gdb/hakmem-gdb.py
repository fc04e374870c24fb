# SPDX-License-Identifier: Apache-2.0 OR MIT
"""gdb: what hakmem knows of an address, and of the whole process. Live processes and core files.

    (gdb) hakmem whereis ADDRESS     the block, whether it is live, its slab and whose it is
    (gdb) hakmem heap                heaps, size classes and superslabs in short

gdb loads this file by itself with libhakmem.so where it is installed (docs/gdb.md); else
`source hakmem-gdb.py`. How it reads the library's records is in hakmem_gdb_records.py beside it.
It calls nothing in the process, and works while the process is stopped anywhere, inside malloc too.
"""

import struct
import sys
from pathlib import Path

import gdb

sys.path.insert(0, str(Path(__file__).absolute().parent))
writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # not into the folder of an installation
from hakmem_gdb_records import (  # noqa: E402
    HARD_LIVE,
    HARD_SIZE_MASK,
    Class,
    Slab,
    State,
    UnreadableError,
    number,
    read,
)

sys.path.pop(0)
sys.dont_write_bytecode = writes

MEGABYTE = float(1 << 20)


def threads():
    """The threads of the process by what the library knows them by."""
    found = {}
    here = gdb.selected_thread()
    for thread in gdb.selected_inferior().threads():
        try:
            thread.switch()
            base = int(gdb.selected_frame().read_register("fs_base"))
        except (gdb.error, ValueError):
            continue
        name = f' "{thread.name}"' if thread.name else ""
        found[base & (1 << 64) - 1] = f"thread {thread.num} (LWP {thread.ptid[1]}{name})"
    if here is not None:
        here.switch()
    return found


def heap_text(state, heap, known):
    """A heap in words: its number and whose it is."""
    if heap == 0:
        return "none: the slab is on its way"
    text = f"{state.heap_number(heap)}"
    if heap == number(state.layout.part("HAK_ROOT_ORPHANS")):
        return f"{text}, the shared one: slabs of threads that ended"
    thread = state.layout.get(heap, "hak_heap.thread")
    if thread == 0:
        return f"{text}, of no thread"
    home = state.layout.get(heap, "hak_heap.home")
    guest = f", which uses the slabs of heap {state.heap_number(home)}" if home != heap else ""
    return f"{text}, of {known.get(thread, f'a thread that gdb does not show ({thread:#x})')}{guest}"


def in_bin(state, heap, cls, block):
    """The place of a block in a heap's bin of its class, counted from the next to go; or None."""
    layout = state.layout
    owner = heap + layout["hak_heap.classes"] + cls * layout["hak_class_heap"]
    stack = layout.get(owner, "hak_class_heap.stack")
    if stack == 0:
        return None
    return in_stack(state, heap, cls, stack, block)


def in_metered_bin(state, heap, cls, block):
    """The same for the bin of the class that malloc takes from while the heap profile counts."""
    layout = state.layout
    meter = layout.get(heap + layout["hak_heap.front"], "hak_front.meter")
    if meter == 0 or cls >= layout["HAK_METERED_CLASSES"]:
        return None
    nulls = layout["HAK_BIN_NULLS"]
    stack = meter + layout["hak_meter.stacks"] + 8 * (cls * (nulls + layout["HAK_METER_BLOCKS"]) + nulls - 1)
    return in_stack(state, heap, layout["HAK_KIND_METERED"] // 2 + cls, stack, block)


def in_stack(state, heap, bin_number, stack, block):
    """The place of a block in the stack of a bin, counted from its top; or None."""
    layout = state.layout
    front = heap + layout["hak_heap.front"] + layout["hak_front.bins"]
    top = layout.get(front + bin_number * layout["hak_bin"], "hak_bin.top")
    count = (top - stack) // 8
    if not 0 < count <= 1 << 16:
        return None
    blocks = struct.unpack(f"<{count}Q", read(stack + 8, 8 * count))
    return count - blocks.index(block) if block in blocks else None


def in_message(state, message, first, block):
    """Whether a block is one of those from number `first` on in a message to another heap."""
    size = (state.layout["HAK_MESSAGE_BLOCKS"] - first) * 8
    data = read(message + state.layout["hak_message.blocks"] + first * 8, size)
    return struct.pack("<Q", block) in (data[at : at + 8] for at in range(0, size, 8))


def in_outbox(state, heap, block):
    """Whether a heap holds a block that it has freed and not sent yet."""
    layout = state.layout
    outbox = heap + layout["hak_heap.outbox"]
    for at in range(outbox, outbox + layout["HAK_OUTBOXES"] * layout["hak_outbox"], layout["hak_outbox"]):
        message = layout.get(at, "hak_outbox.message")
        if message and in_message(state, message, layout.get(at, "hak_outbox.free"), block):
            return True
    return False


def in_inbox(state, heap, block):
    """Whether another thread has sent a block that the heap has not collected yet."""
    layout = state.layout
    message = layout.get(heap, "hak_heap.inbox")
    while message:
        if in_message(state, message, layout.get(message, "hak_message.free"), block):
            return True
        message = layout.get(message, "hak_message.next")
    return False


def block_state(state, slab, index, known):
    """Whether a block of a slab is live, and where it is if it is not."""
    if index >= slab.carved:
        return "free: never used since the slab was made"
    if slab.bit("free_bits", index):
        return "free, in its slab"
    block = slab.base + index * slab.cls.size
    for heap in state.heaps():
        place = in_metered_bin(state, heap, slab.cls.cls, block) or in_bin(state, heap, slab.cls.cls, block)
        if place is not None:
            whose = heap_text(state, heap, known)
            return f"free, in the bin of heap {whose}; malloc number {place} from now gets it"
        if in_outbox(state, heap, block):
            return f"free, in the outbox of heap {heap_text(state, heap, known)}: not sent yet"
        if in_inbox(state, heap, block):
            return "free: another thread freed it, its owner has not collected it yet"
    if not state.hardened:
        return "live"
    word = state.word(slab, index)
    if word & HARD_LIVE:
        return f"live, {word & HARD_SIZE_MASK} bytes were asked for"
    return "free, in quarantine" if word else "on its way: no size was noted yet"


def offset_text(offset):
    """Where in a block an address points."""
    return "the first byte" if offset == 0 else f"byte {offset}"


def place_text(state, slot):
    """A slot in words."""
    superslab, rest = divmod(slot, state.superslab_slots)
    start = state.address(superslab * state.superslab_slots)
    return f"slot {rest} of superslab {superslab} at {start:#x}"


def describe_slab(state, address, slot, cls):
    """An address in a slab of a size class."""
    first_slot = slot & ~(Class(state, cls).slots - 1)
    slab = Slab(state, state.slab_record(first_slot))
    known = threads()
    index, offset = divmod(address - slab.base, slab.cls.size)
    used = slab.carved - slab.free_blocks
    head = f"{address:#x} is before the first or behind the last block of a slab: nobody's"
    if 0 <= index < slab.cls.blocks:
        block = slab.base + index * slab.cls.size
        yield f"{address:#x} is {offset_text(offset)} of a block of {slab.cls.size} bytes"
        yield f"  block   {block:#x}, number {index} of {slab.cls.blocks}"
        yield f"  state   {block_state(state, slab, index, known)}"
    else:
        yield head
    yield f"  class   {slab.cls.cls}, {slab.cls.size} bytes"
    yield (
        f"  slab    {state.address(first_slot):#x}, {slab.cls.slots * state.slot_bytes >> 10} KiB, {used} of "
        f"{slab.cls.blocks} blocks in use or in bins; {place_text(state, slot)}"
    )
    yield f"  heap    {heap_text(state, slab.owner, known)}"


def sample_lines(state, note):
    """Where a block was allocated, if the heap profile has sampled it, as gdb names addresses."""
    layout = state.layout
    number_of_site = 0 if state.hardened else layout.get(note, "hak_note.how")
    if number_of_site == 0:
        return
    profile = layout.part("HAK_ROOT_SAMPLES")
    site = layout.get(profile, "hak_prof.site") + number_of_site * layout["hak_prof_site"]
    stack = layout.get(profile, "hak_prof.stacks") + 8 * layout.get(site, "hak_prof_site.stack")
    depth = min(layout.get(site, "hak_prof_site.depth"), layout["HAK_PROF_FRAMES"])
    yield "  sampled: it was allocated by"
    for pc in struct.unpack(f"<{depth}Q", read(stack, 8 * depth)):
        name = gdb.execute(f"info symbol {pc - 1:#x}", to_string=True).partition(" in section")[0].strip()
        yield f"    {pc:#x} {'' if name.startswith('No symbol') else name}".rstrip()


def describe_block(state, address, begin, count, what, note):
    """An address in a large or huge block; `note` is its state."""
    offset = address - begin
    where = f"{offset_text(offset)} of" if offset >= 0 else f"{-offset} bytes before"
    yield f"{address:#x} is {where} a {what} block of {count} bytes"
    yield f"  block   {begin:#x} to {begin + count:#x}"
    yield f"  state   {note}"


def note_of(state, address, entry):
    """The state of a large or huge block, and where it begins in its range."""
    layout = state.layout
    asked = layout.get(address, "hak_note.bytes")
    front = layout.get(address, "hak_note.front_bytes") if state.hardened else 0
    if entry & layout["HAK_KIND_KEPT"]:
        return "free, in quarantine", front
    return f"live, {asked} bytes were asked for", front


def find_large(state, slot):
    """The first slot of the large block that a slot is in; None if it is in none."""
    layout = state.layout
    first = slot - slot % state.superslab_slots
    for at in range(slot, first - 1, -1):
        entry = state.entry(at) & 0xFF & ~layout["HAK_KIND_KEPT"]
        if entry == layout["HAK_KIND_LARGE"]:
            count = layout.get(state.slab_record(at), "hak_slab.large_bytes")
            return at if (slot - at) * state.slot_bytes < count else None
        if entry == layout["HAK_KIND_HUGE"] or state.entry(at):
            return None
    return None


def find_huge(state, slot):
    """The superslab with which the huge block begins that a slot is in; None if it is in none."""
    layout = state.layout
    last = slot // state.superslab_slots
    step = 4 * state.superslab_slots
    while last >= 0:
        first = max(last - 4095, 0)
        entries = read(state.map + first * step, (last - first) * step + 4)
        for at in range(last, first - 1, -1):
            (entry,) = struct.unpack_from("<I", entries, (at - first) * step)
            if entry & 0xFF & ~layout["HAK_KIND_KEPT"] == layout["HAK_KIND_HUGE"]:
                count = layout.get(state.record(at), "hak_superslab.huge.mapped_bytes")
                inside = (slot - at * state.superslab_slots) * state.slot_bytes < count
                return at if inside else None
        last = first - 1
    return None


def describe_free_slot(state, address, slot):
    """An address in a slot in which no block is."""
    superslab, rest = divmod(slot, state.superslab_slots)
    word = state.layout.get(state.record(superslab), "hak_superslab.state")
    missing = state.layout.get(state.record(superslab), "hak_superslab.missing")
    busy, dirty = word >> rest & 1, word >> (32 + rest) & 1
    what = "unused: no block was here since the system gave the memory"
    if missing >> rest & 1:
        what = "not mapped"
    elif word & 0xFFFFFFFF == 0xFFFFFFFF:
        what = "in a superslab that is kept for later, or not mapped any more"
    elif busy and state.run_waits(slot):
        what = "empty: what was here has been freed"
    elif busy:
        what = "just taken or just given back"
    elif dirty:
        what = "empty: what was here has been freed"
    yield f"{address:#x} is in no block"
    yield f"  slot    {what}; {place_text(state, slot)}"


def describe_outside(state, address):
    """An address that is not in the window."""
    layout = state.layout
    window = layout.part("HAK_ROOT_WINDOW")
    size = layout["hak_area"]
    names = ("map", "groups of superslabs", "records of superslabs", "records of slabs", "words")
    for i, name in enumerate(names):
        area = window + layout["hak_window.areas"] + i * size
        begin = layout.get(area, "hak_area.at")
        if begin <= address < begin + layout.get(area, "hak_area.mapped_bytes"):
            yield f"{address:#x} is in hakmem's own records: {name}"
            return
    for heap in state.heaps():
        if heap <= address < heap + layout["hak_heap"]:
            yield f"{address:#x} is in hakmem's own records: heap {state.heap_number(heap)}"
            return
    yield f"{address:#x} is not hakmem's: no block of it was ever here"


def describe(state, address):
    """All that is known of an address, in lines."""
    layout = state.layout
    slot = (address - state.base) // state.slot_bytes
    if address < state.base or slot >= state.slots:
        return describe_outside(state, address)
    entry = state.entry(slot)
    kind = entry & 0xFF
    if entry and kind < layout["HAK_KIND_CLASSES"]:
        return describe_slab(state, address, slot, kind // 2)
    large = find_large(state, slot)
    if large is not None:
        at = state.slab_record(large)
        record = at + layout["hak_slab.note"]
        note, front = note_of(state, record, state.entry(large))
        colour = layout.get(at, "hak_slab.large_colour") + front
        small = 0 if state.hardened else layout.get(record, "hak_note.small_bytes")
        count = small or layout.get(at, "hak_slab.large_bytes") - colour
        what = "sampled small" if small else "large"
        lines = describe_block(state, address, state.address(large) + colour, count, what, note)
        return [*lines, *sample_lines(state, record)]
    huge = find_huge(state, slot)
    if huge is not None:
        at = state.record(huge)
        entry = state.entry(huge * state.superslab_slots)
        record = at + layout["hak_superslab.huge.note"]
        note, front = note_of(state, record, entry)
        front += layout.get(at, "hak_superslab.huge_colour")
        begin = state.address(huge * state.superslab_slots) + front
        slack = layout.get(at, "hak_superslab.huge.slack_slots") << layout["HAK_SLOT_SHIFT"]
        count = layout.get(at, "hak_superslab.huge.mapped_bytes") - slack - front
        return [*describe_block(state, address, begin, count, "huge", note), *sample_lines(state, record)]
    return describe_free_slot(state, address, slot)


# --- the whole ---


def superslab_counts(state):
    """Superslabs by what they are, and blocks that are no slab's, from the records."""
    layout, counts = state.layout, dict.fromkeys(("slots", "kept", "huge"), 0)
    large = huge = 0
    for superslab in range(state.high_water()):
        slot = superslab * state.superslab_slots
        kinds = [state.entry(slot + i) & 0xFF for i in range(state.superslab_slots)]
        record = state.record(superslab)
        busy = layout.get(record, "hak_superslab.state") & 0xFFFFFFFF
        if kinds[0] == layout["HAK_KIND_HUGE"]:
            counts["huge"] += 1
            huge += layout.get(record, "hak_superslab.huge.mapped_bytes")
        elif any(kinds) or busy not in (0, 0xFFFFFFFF):
            counts["slots"] += 1
            for i, kind in enumerate(kinds):
                if kind == layout["HAK_KIND_LARGE"]:
                    large += layout.get(state.slab_record(slot + i), "hak_slab.large_bytes")
        else:
            counts["kept"] += 1
    return counts, large, huge


def summarise(state):
    """The process in lines."""
    layout = state.layout
    version = layout.get(layout.root, "hak_root.library")
    kind = ", hardened" if state.hardened else ""
    yield (f"hakmem {version >> 16}.{version >> 8 & 255}.{version & 255}{kind}, window at {state.base:#x}")
    counts, large, huge = superslab_counts(state)
    yield (
        f"superslabs of 2 MiB: {counts['slots']} in use slot by slot, {counts['huge']} huge blocks "
        f"({huge / MEGABYTE:.1f} MiB), {counts['kept']} kept or given back; "
        f"large blocks {large / MEGABYTE:.1f} MiB"
    )
    yield f"{'heap':>5} {'slabs':>7} {'MiB':>9} {'free MiB':>9}  whose"
    known = threads()
    for heap in state.heaps():
        slabs = layout.get(heap, "hak_heap.slabs")
        held = layout.get(heap, "hak_heap.slab_bytes") / MEGABYTE
        free = layout.get(heap, "hak_heap.free_bytes") / MEGABYTE
        head, _, whose = heap_text(state, heap, known).partition(", ")
        yield f"{head:>5} {slabs:>7} {held:>9.2f} {free:>9.2f}  {whose}"


# --- commands ---


class Hakmem(gdb.Command):
    """What hakmem knows of the process: `hakmem whereis ADDRESS`, `hakmem heap`."""

    def __init__(self):
        super().__init__("hakmem", gdb.COMMAND_DATA, gdb.COMPLETE_COMMAND, prefix=True)


def show(lines, address=None):
    """Prints lines; what cannot be had is an error of gdb's, in one line."""
    try:
        for line in lines(State(address)):
            print(line)
    except (UnreadableError, struct.error) as error:
        raise gdb.GdbError(f"hakmem: {error}") from None


class WhereIs(gdb.Command):
    """hakmem whereis ADDRESS: the block at an address or around it.

    ADDRESS is any expression: a pointer, a number, $rdi. Says whether the block is live or free
    (and where: slab, bin, outbox, freed by another thread), its size class, slab and heap."""

    def __init__(self):
        super().__init__("hakmem whereis", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        """The command."""
        if not argument.strip():
            raise gdb.GdbError("hakmem whereis: which address? Try: hakmem whereis $rdi")
        try:
            value = int(gdb.parse_and_eval(f"(unsigned long) ({argument})"))
        except gdb.error as error:
            raise gdb.GdbError(f"hakmem whereis: {argument}: {error}") from None
        show(lambda state: describe(state, value), value)


class Heap(gdb.Command):
    """hakmem heap: superslabs and heaps of the process in short."""

    def __init__(self):
        super().__init__("hakmem heap", gdb.COMMAND_DATA, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        """The command."""
        show(summarise)


Hakmem()
WhereIs()
Heap()
