# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stateful tests: a model of an allocator, and hypothesis, which looks for calls in which the library
does something else.

The model is a table of blocks: address, size asked for, usable size, alignment, and the byte that
fills it. The rules call the library from one of several threads, or from all at once; blocks are
freed by any thread. Invariants hold after every rule. Who uses it: test_machine.py.
"""

import bisect
import ctypes
import errno
import os
from ctypes import c_void_p
from dataclasses import dataclass

import library
from hypothesis import assume, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from workers import Worker

THREADS = 4
LIVE_MOST = 64 << 20
WHOLE_BYTES = 1 << 16
EDGE_BYTES = 4096
IMPOSSIBLE = (2**63, 2**64 - 1, 2**63 - 1, 2**64 - 4096)
LARGE_FROM, HUGE_FROM, HUGE_MOST = 65537, (1 << 20) + 1, 6 << 20
FAILURES_KEPT = 16

LIB = library.load()

sizes = st.one_of(
    st.integers(0, 1024),
    st.integers(0, 65536),
    st.integers(LARGE_FROM, HUGE_FROM - 1),
    st.integers(HUGE_FROM, HUGE_MOST),
    st.builds(
        lambda power, off: max(0, (1 << power) + off), st.integers(4, 22), st.integers(-2, 2)
    ),
)
alignments = st.integers(0, 21).map(lambda power: 1 << power)
threads = st.integers(0, THREADS - 1)
choices = st.integers(0, 10**6)


@dataclass
class Block:
    """What the model knows of a block."""

    address: int
    size: int
    usable: int
    alignment: int
    fill: int

    @property
    def end(self) -> int:
        return self.address + self.usable

    @property
    def cost(self) -> int:
        """As live.bytes counts it: large blocks begin a little behind the run of slots that they are
        in. Above 60 KiB, 64 KiB is the only size that is not large."""
        return self.usable + (self.address % 65536 if self.usable > 66688 else 0)


def fill(block: Block) -> None:
    """Writes all of it."""
    ctypes.memset(block.address, block.fill, block.usable)


def check_filled(block: Block, address: int, size: int) -> None:
    """The bytes are the block's own; of a large one, those at both ends and in the middle."""
    parts = [(0, size)]
    if size > WHOLE_BYTES:
        parts = [(at, EDGE_BYTES) for at in (0, size // 2, size - EDGE_BYTES)]
    for at, length in parts:
        found = ctypes.string_at(address + at, length)
        assert found == bytes([block.fill]) * length, f"{block}: changed from byte {at} on"


class AllocatorMachine(RuleBasedStateMachine):
    """The rules. Every example begins and ends with nothing allocated."""

    def __init__(self) -> None:
        super().__init__()
        self.workers = [Worker() for _ in range(THREADS)]
        self.blocks: list[Block] = []  # by address
        self.next_fill = 1
        self.exact = True  # no block waits to be taken in by its owner
        # Not 0 only after an example that failed.
        self.before = {name: LIB.get(name) for name in ("live.bytes", "live.blocks")}
        self.totals = {name: LIB.get(name) for name in self.growing()}

    # --- the model ---

    @staticmethod
    def growing() -> list[str]:
        """Controls that count since the start."""
        ends = ("_total", ".acquired", ".contended", ".released_slots", ".unmapped_superslabs")
        return [name for name in LIB.names() if name.startswith("failures.") or name.endswith(ends)]

    @property
    def live(self) -> int:
        return sum(block.cost for block in self.blocks)

    def pick(self, choice: int) -> Block:
        return self.blocks[choice % len(self.blocks)]

    def add(self, address: int | None, size: int, alignment: int) -> Block:
        """Takes note of a new block: it must fit between its neighbours."""
        assert address, f"no memory for {size} bytes"
        alignment = max(alignment, 16)
        usable = LIB.malloc_usable_size(address)
        block = Block(address, size, usable, alignment, self.next_fill)
        self.next_fill = self.next_fill % 255 + 1
        assert usable >= size and address % alignment == 0, block
        at = bisect.bisect(self.blocks, address, key=lambda other: other.address)
        assert at == 0 or self.blocks[at - 1].end <= address, (self.blocks[at - 1], block)
        assert at == len(self.blocks) or block.end <= self.blocks[at].address, block
        self.blocks.insert(at, block)
        fill(block)
        return block

    def check(self, block: Block) -> None:
        assert LIB.malloc_usable_size(block.address) == block.usable, block
        check_filled(block, block.address, block.usable)

    # --- single calls ---

    @rule(thread=threads, size=sizes)
    def malloc(self, thread: int, size: int) -> None:
        assume(self.live + size <= LIVE_MOST)
        self.add(self.workers[thread].run(lambda: LIB.malloc(size)), size, 16)

    @rule(thread=threads, size=sizes, count=st.integers(0, 4))
    def calloc(self, thread: int, size: int, count: int) -> None:
        assume(self.live + size * count <= LIVE_MOST)
        address = self.workers[thread].run(lambda: LIB.calloc(count, size))
        assert ctypes.string_at(address, size * count) == bytes(size * count)
        self.add(address, size * count, 16)

    @rule(thread=threads, size=sizes, alignment=alignments)
    def aligned_alloc(self, thread: int, size: int, alignment: int) -> None:
        assume(self.live + size + alignment <= LIVE_MOST)
        address = self.workers[thread].run(lambda: LIB.aligned_alloc(alignment, size))
        self.add(address, size, alignment)

    @rule(thread=threads, size=sizes, alignment=alignments)
    def posix_memalign(self, thread: int, size: int, alignment: int) -> None:
        assume(self.live + size + alignment <= LIVE_MOST)
        out = c_void_p(4711)
        call = self.workers[thread].run
        error = call(lambda: LIB.posix_memalign(ctypes.addressof(out), alignment, size))
        if alignment < 8:
            assert error == errno.EINVAL and out.value == 4711
        else:
            assert error == 0
            self.add(out.value, size, alignment)

    @precondition(lambda self: self.blocks)
    @rule(thread=threads, choice=choices, size=sizes.filter(bool))
    def realloc(self, thread: int, choice: int, size: int) -> None:
        block = self.pick(choice)
        assume(self.live + size <= LIVE_MOST)
        self.check(block)
        address = self.workers[thread].run(lambda: LIB.realloc(block.address, size))
        assert address, f"no memory for {size} bytes"
        check_filled(block, address, min(block.usable, size))
        self.blocks.remove(block)
        self.add(address, size, 16)
        self.exact = False

    @precondition(lambda self: self.blocks)
    @rule(thread=threads, choice=choices, how=st.integers(0, 3))
    def free(self, thread: int, choice: int, how: int) -> None:
        block = self.pick(choice)
        self.check(block)
        calls = (
            lambda: LIB.free(block.address),
            lambda: LIB.free_sized(block.address, block.size),
            lambda: LIB.free_aligned_sized(block.address, block.alignment, block.size),
            lambda: LIB.realloc(block.address, 0),
        )
        assert self.workers[thread].run(calls[how]) is None
        self.blocks.remove(block)
        self.exact = False

    @rule(thread=threads, size=st.sampled_from(IMPOSSIBLE), choice=choices)
    def refused(self, thread: int, size: int, choice: int) -> None:
        """Too large for any system: NULL, ENOMEM, a record of why, and nothing else changes."""
        old = self.pick(choice).address if self.blocks else None

        def call() -> tuple[int | None, int]:
            ctypes.set_errno(0)
            return LIB.realloc(old, size), ctypes.get_errno()

        before = (
            LIB.get("failures.threshold") + LIB.get("failures.map") + LIB.get("failures.exhaustion")
        )
        assert self.workers[thread].run(call) == (None, errno.ENOMEM)
        after = (
            LIB.get("failures.threshold") + LIB.get("failures.map") + LIB.get("failures.exhaustion")
        )
        assert after == before + 1
        lines = LIB.text("last_failures").splitlines()
        assert 1 <= len(lines) <= FAILURES_KEPT
        assert all(line.startswith("hakmem: allocation of ") for line in lines), lines

    # --- many calls ---

    @rule(thread=threads, size=st.integers(1, 3000), count=st.integers(1, 300))
    def row(self, thread: int, size: int, count: int) -> None:
        """A row of equal blocks, of which every other one goes: slabs fill and become sparse."""
        assume(self.live + size * count <= LIVE_MOST)

        def call() -> list[int]:
            row = [LIB.malloc(size) for _ in range(count)]
            for address in row[::2]:
                LIB.free(address)
            return row[1::2]

        for address in self.workers[thread].run(call):
            self.add(address, size, 16)

    @rule(size=st.integers(1, 70000), count=st.integers(1, 60))
    def together(self, size: int, count: int) -> None:
        """All threads at once: each allocates and frees, and frees blocks of the others."""
        assume(self.live + 2 * THREADS * size * count <= LIVE_MOST)
        given = [[LIB.malloc(size) for _ in range(count)] for _ in range(THREADS)]

        def call(index: int) -> list[int]:
            mine = []
            for address in given[index]:
                mine.append(LIB.malloc(size))
                ctypes.memset(mine[-1], index, size)
                LIB.free(address)
            for address in mine:
                assert ctypes.string_at(address, size) == bytes([index]) * size
            return mine

        waits = [worker.begin(lambda index=i: call(index)) for i, worker in enumerate(self.workers)]
        for wait in waits:
            for address in wait():
                self.add(address, size, 16)
        self.exact = False

    # --- the rest of the interface ---

    @rule(thread=threads)
    def trim(self, thread: int) -> None:
        assert self.workers[thread].run(lambda: LIB.malloc_trim(0)) in (0, 1)

    @rule(thread=threads)
    def end_thread(self, thread: int) -> None:
        self.workers[thread].end()

    @rule(mib=st.integers(-1, 64))
    def trim_threshold(self, mib: int) -> None:
        assert LIB.mallopt(-1, mib << 20 if mib >= 0 else -1) == 1

    @rule(size=st.integers(0, 70000), cap=st.integers(0, 1 << 30))
    def soft_cap(self, size: int, cap: int) -> None:
        name = f"class.{size}.soft_cap_bytes"
        if not 1 <= size <= 65536:
            assert LIB.set(name, cap) == errno.EINVAL
            return
        assert LIB.set(name, cap) == 0
        kept = LIB.get(name)
        assert kept % 65536 == 0 and (kept == 0) == (cap == 0) and kept <= max(cap, 65536)
        assert LIB.set(name, 0) == 0

    @rule(choice=choices, value=choices)
    def read_only(self, choice: int, value: int) -> None:
        names = LIB.figures()
        assert LIB.set(names[choice % len(names)], value) == errno.EPERM
        assert LIB.set("no." + names[choice % len(names)], value) == errno.ENOENT

    @rule()
    def settle(self) -> None:
        """Every thread sends what it freed for others, then takes in what was sent to it: the counts
        must be exact."""
        for _ in range(2):
            for worker in self.workers:
                worker.run(lambda: LIB.malloc_trim(0))
            LIB.malloc_trim(0)
        self.exact = True
        self.counts_agree()

    # --- invariants ---

    @invariant()
    def counts_agree(self) -> None:
        """Live bytes and blocks are the model's; until all have settled, at least those."""
        for name, model in (("live.bytes", self.live), ("live.blocks", len(self.blocks))):
            counted = LIB.get(name) - self.before[name]
            assert counted >= model, f"{name}: {counted}, {model} in the model"
            assert not self.exact or counted == model, f"{name}: {counted}, {model} in the model"
        assert LIB.get("held.bytes") >= self.live

    @invariant()
    def totals_grow(self) -> None:
        """What counts since the start never falls."""
        for name, before in self.totals.items():
            now = LIB.get(name)
            assert now >= before, f"{name} fell from {before} to {now}"
            self.totals[name] = now

    @rule()
    def statistics(self) -> None:
        """The JSON agrees with itself, and with the model where that is exact."""
        figures = LIB.statistics()
        control = figures["control"]
        assert list(control) == LIB.figures()
        small = sum(c["used_blocks"] * c["size_bytes"] for c in figures["classes"])
        parts = small + control["large.bytes"] + control["huge.bytes"]
        assert control["live.bytes"] == parts, (control["live.bytes"], parts)
        assert figures["large"]["blocks"] == control["large.blocks"]
        assert not self.exact or control["live.bytes"] == self.before["live.bytes"] + self.live
        for lock, counts in figures["locks"].items():
            assert counts["contended"] <= counts["acquired"], lock
        assert len(figures["failures"]["last"]) <= FAILURES_KEPT

    def teardown(self) -> None:
        """Everything goes; nothing may be left."""
        note(f"{len(self.blocks)} blocks at the end")
        for block in self.blocks:
            self.check(block)
            self.workers[block.fill % THREADS].run(lambda address=block.address: LIB.free(address))
        self.blocks.clear()
        self.settle()
        for worker in self.workers:
            worker.end()
        LIB.malloc_trim(0)
        self.counts_agree()


def examples(default: int) -> int:
    """How many examples: more in a soak."""
    return int(os.environ.get("TEST_STATEFUL_EXAMPLES", str(default)))
