# SPDX-License-Identifier: Apache-2.0 OR MIT
"""gdb: hakmem's records in the process that gdb looks at: the root, the table of layouts, and what is where.

Used by hakmem-gdb.py, which has the commands and lies in the same folder. It needs no debug information: the library's
root structure points to a table of the layout of its records (src/telemetry/layout.h). It only reads memory.
"""

import struct
from pathlib import Path

import gdb

# The only two places that have to be known: tests/gdb compares them with the library's own.
ROOT_MAGIC = b"\x7fhakmem root\r\n\x1a\x01\xd1\xc6\xa3\x5e\x90\xf4\x2b\x88\xbe\x17\x63\xfa\x09\xcd\x72\x40"
ROOT_ALIGN = 64
ROOT_CONSTANT_BYTES = 108  # versions, a hash of places, the first sizes: as they are in the library's file
ROOT_LAYOUT_AT = 256
LAYOUT_LINE = struct.Struct("<36sHH")
LAYOUT_MOST_LINES = 400

LIBRARY_HINT = "set sysroot or solib-search-path to where the one is that ran"

HARD_SIZE_MASK = 0x1FFFF
HARD_LIVE = 1 << 31
NUMBERS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}


class UnreadableError(Exception):
    """What is wanted cannot be had; the text says why."""


def read(address, count):
    """Bytes of the process."""
    try:
        return gdb.selected_inferior().read_memory(address, count).tobytes()
    except gdb.error:
        raise UnreadableError(f"the memory at {address:#x} cannot be read") from None


def number(address, count=8):
    """An unsigned number in the process."""
    return struct.unpack(NUMBERS[count], read(address, count))[0]


# --- finding the root ---


def by_symbol():
    """The root's address, where the symbols were not stripped."""
    try:
        return [int(gdb.parse_and_eval("(unsigned long) &hak_root"))]
    except gdb.error:
        return []


def by_search():
    """Places in the data of all programs and libraries that begin like a root."""
    for line in gdb.execute("info files", to_string=True).splitlines():
        words = line.split()
        if len(words) < 5 or words[1] != "-" or words[3] != "is" or not words[4].startswith(".data"):
            continue
        yield from roots_between(int(words[0], 16), int(words[2], 16))


def by_mappings():
    """The same for libraries of ours that gdb has no file of: removed or replaced since they were loaded."""
    try:
        lines = gdb.execute("info proc mappings", to_string=True).splitlines()
    except gdb.error:
        return
    for line in lines:
        words = line.split()
        if "/libhakmem" in line and words[0].startswith("0x"):
            yield from roots_between(int(words[0], 16), int(words[1], 16))


def roots_between(begin, end):
    """Places that begin like a root; none where the memory cannot be read."""
    try:
        data = read(begin, end - begin)
    except UnreadableError:
        return
    at = data.find(ROOT_MAGIC)
    while at >= 0:
        if (begin + at) % ROOT_ALIGN == 0:
            yield begin + at
        at = data.find(ROOT_MAGIC, at + 1)


def other_file(root):
    """Of a core file: the file that gdb takes constants from, if another build wrote its root."""
    if "core dump file" not in gdb.execute("info files", to_string=True):
        return None
    path = gdb.solib_name(root) or gdb.current_progspace().filename
    try:
        data = Path(path).read_bytes()
    except (OSError, TypeError):
        return None
    return path if ROOT_MAGIC in data and read(root, ROOT_CONSTANT_BYTES) not in data else None


class Layout:
    """The library's own description of its records."""

    def __init__(self, root):
        self.root = root
        self.lines = {}
        at = number(root + ROOT_LAYOUT_AT)
        for i in range(LAYOUT_MOST_LINES):
            line = read(at + i * LAYOUT_LINE.size, LAYOUT_LINE.size)
            name, offset, count = LAYOUT_LINE.unpack(line)
            name = name.rstrip(b"\0").decode("ascii", "replace")
            if not name:
                return
            self.lines[name] = (offset, count)
        raise UnreadableError("the library's table of layouts has no end: is this its hakmem-gdb.py?")

    def __getitem__(self, name):
        """The offset of a member, the size of a structure, or the value of a constant."""
        try:
            return self.lines[name][0]
        except KeyError:
            raise UnreadableError(
                f"this libhakmem does not say where {name} is: use the hakmem-gdb.py of its version"
            ) from None

    def get(self, address, name):
        """A member of the structure at an address."""
        offset = self[name]
        return number(address + offset, self.lines[name][1])

    def part(self, name):
        """The address of what the root points to."""
        return number(self.root + self["hak_root.at"] + 8 * self[name])


def holds(layout, address):
    """Whether an address is in the window of a library."""
    space = layout.part("HAK_ROOT_SPACE")
    place = address - layout.get(space, "hak_space.base")
    return 0 <= place < layout.get(space, "hak_space.slots") << layout["HAK_SLOT_SHIFT"]


def find_layout(address=None):
    """The layout of the library that runs; of several in use the one that has the address, or that is malloc."""
    found = None
    problem = (
        "no hakmem here: load the core file or attach to the process first; "
        "for a core file, gdb must also find the program and its libraries"
    )
    if gdb.selected_inferior().pid == 0:  # what can be read now is how the files are
        raise UnreadableError(problem)
    roots = dict.fromkeys([*by_symbol(), *by_search(), *by_mappings()])
    for root in sorted(roots, key=lambda root: "libhakmem-prefixed" in (gdb.solib_name(root) or "")):
        try:
            if read(root, len(ROOT_MAGIC)) != ROOT_MAGIC:
                continue
            if path := other_file(root):
                problem = f"{path} is not the hakmem of this core file, but of another build: {LIBRARY_HINT}"
                continue
            problem = (
                f"gdb does not find the file of this hakmem: {LIBRARY_HINT}; "
                "or /proc/PID/coredump_filter left its memory out of the core file"
            )
            layout = Layout(root)
            if layout.get(layout.part("HAK_ROOT_SPACE"), "hak_space.slots"):
                if address is None or holds(layout, address):
                    return layout
                found = found or layout
            problem = "hakmem is loaded, but nothing has been allocated yet"
        except UnreadableError:
            continue
    if found is None:
        raise UnreadableError(problem)
    return found


# --- what is where ---


class Class:
    """A size class."""

    def __init__(self, state, cls):
        layout = state.layout
        at = state.tables + layout["hak_class_tables.classes"] + cls * layout["hak_class"]
        self.cls = cls
        self.size = layout.get(at, "hak_class.size_bytes")
        self.blocks = layout.get(at, "hak_class.blocks")
        self.slots = layout.get(at, "hak_class.slots")


class Slab:
    """The record of a slab."""

    def __init__(self, state, address):
        layout = state.layout
        self.at, self.layout = address, layout
        self.cls = Class(state, layout.get(address, "hak_slab.cls"))
        self.base = layout.get(address, "hak_slab.base")
        self.carved = layout.get(address, "hak_slab.carved")
        self.free_blocks = layout.get(address, "hak_slab.free_blocks")
        self.owner = layout.get(address, "hak_slab.owner")

    def bit(self, bits, index):
        """Whether a block's bit is set in one of the two bitmaps."""
        words = self.layout.get(self.at, f"hak_slab.{bits}")
        return number(words + index // 64 * 8) >> (index % 64) & 1


class State:
    """The allocator in the process, as far as it does not change with the question."""

    def __init__(self, address=None):
        self.layout = layout = find_layout(address)
        self.space = layout.part("HAK_ROOT_SPACE")
        self.tables = layout.part("HAK_ROOT_TABLES")
        self.base = layout.get(self.space, "hak_space.base")
        self.slots = layout.get(self.space, "hak_space.slots")
        self.map = layout.get(self.space, "hak_space.map")
        self.slot_bytes = 1 << layout["HAK_SLOT_SHIFT"]
        self.superslab_slots = layout["HAK_SLOTS"]
        self.hardened = layout.get(layout.root, "hak_root.flags") & 1

    def entry(self, slot):
        """The map's entry of a slot."""
        return number(self.map + 4 * slot, 4) if slot < self.slots else 0

    def address(self, slot):
        """Where a slot begins."""
        return self.base + slot * self.slot_bytes

    def slab_record(self, slot):
        """Where the record of a slot is."""
        layout = self.layout
        meta = layout.get(self.space, "hak_space.meta")
        superslab, rest = divmod(slot, self.superslab_slots)
        return meta + superslab * layout["HAK_META_BYTES"] + rest * layout["hak_slab"]

    def record(self, superslab):
        """Where the record of a superslab is."""
        records = self.layout.get(self.space, "hak_space.records")
        return records + superslab * self.layout["HAK_RECORD_BYTES"]

    def high_water(self):
        """How many superslabs there are or were."""
        window = self.layout.part("HAK_ROOT_WINDOW")
        return self.layout.get(window, "hak_window.high_water")

    def run_waits(self, slot):
        """Whether a slot is in a run that was freed and waits in a cache of runs."""
        layout = self.layout
        caches = layout.part("HAK_ROOT_LARGE") + layout["large_counters.caches"]
        for cache in range(layout["HAK_RUN_CACHES"]):
            runs = caches + cache * layout["run_cache"] + layout["run_cache.runs"]
            for i in range(layout["HAK_RUN_CACHE_RUNS"]):
                run = number(runs + 8 * i, 8)
                first, slots = (run & 0xFFFFFFFF) - 1, run >> layout["HAK_RUN_SLOTS_SHIFT"] & 0xFF
                if run and first <= slot < first + slots:
                    return True
        return False

    def heaps(self):
        """The addresses of all heaps."""
        at = self.layout.get(self.layout.part("HAK_ROOT_REGISTRY"), "hak_registry.all")
        for _ in range(1 << 20):
            if at == 0:
                return
            yield at
            at = self.layout.get(at, "hak_heap.next_heap")

    def heap_number(self, heap):
        """As `hakmem stat` numbers them."""
        return self.layout.get(heap, "hak_heap.tag") >> 8

    def word(self, slab, index):
        """What the hardened library notes of a block, in one of three arrays (hak_class_word_shift)."""
        part = (slab.cls.slots << self.layout["HAK_SLOT_SHIFT"]) // slab.cls.blocks
        shifts = [self.layout[f"HAK_WORD_{name}"] for name in ("FEW", "SOME", "MANY")]
        shift = next((s for s in shifts[:2] if part >> s), shifts[2])
        words = number(self.space + self.layout["hak_space.words"] + 8 * (shift - shifts[2]), 8)
        return number(words + 4 * (((slab.base - self.base) >> shift) + index), 4)
