# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A trace as the recorder would write it (cmd/record/trace_format.h), of events that are made up."""

import random
from typing import Self

from hakmem_tools.timeline import trace
from hakmem_tools.timeline.trace import ALIGNED, FREE, MALLOC, REALLOC_BEGIN, REALLOC_END

BASE = 0x7F0000000000


def varint(number: int) -> bytes:
    """A number, seven bits a byte."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


class Maker:
    """Bytes of a file, event by event."""

    def __init__(self, *words: str, process: int = 4711, failed: int = 0, whole: int = 1) -> None:
        command = b"".join(word.encode() + b"\0" for word in words)
        header = trace.HEADER.pack(
            trace.MAGIC, process, 1_700_000_000_000_000, failed, whole, command
        )
        self.data = bytearray(header.ljust(trace.HEADER_BYTES, b"\0"))
        self.last = 0
        self.events = 0

    def address(self, address: int) -> None:
        step = (address - self.last) >> 3
        self.data += varint((step << 1) ^ (step >> 63))
        self.last = address

    def control(self, what: int, number: int) -> Self:
        self.data += bytes([trace.CONTROL | what << 3]) + varint(number)
        return self

    def time(self, us: int) -> Self:
        return self.control(trace.TIME, us)

    def thread(self, number: int) -> Self:
        return self.control(trace.THREAD, number)

    def sized(self, kind: int, size: int, address: int, more: bytes = b"") -> Self:
        self.data += bytes([kind | (size & 31) << 3]) + varint(size >> 5) + more
        self.address(address)
        self.events += 1
        return self

    def plain(self, kind: int, address: int) -> Self:
        self.data.append(kind)
        self.address(address)
        self.events += 1
        return self

    def malloc(self, size: int, address: int) -> Self:
        return self.sized(MALLOC, size, address)

    def aligned(self, size: int, log2: int, address: int) -> Self:
        return self.sized(ALIGNED, size, address, bytes([log2]))

    def free(self, address: int) -> Self:
        return self.plain(FREE, address)

    def realloc(self, old: int, size: int, new: int) -> Self:
        return self.plain(REALLOC_BEGIN, old).sized(REALLOC_END, size, new)


def anything(seed: int, events: int, threads: int = 4, times: bool = True) -> Maker:
    """All kinds of events in random order; addresses are few, so that they come again unseen."""
    draw = random.Random(seed)
    maker, begun = Maker("app", "--x", "a b", failed=3), 1
    places = [BASE + 16 * i for i in range(1, 400)]
    while maker.events < events:
        if times and maker.events % 64 < 2:
            maker.time(maker.events * 3)
        if draw.random() < 0.1:
            maker.thread(number := draw.randrange(min(begun + 1, threads)))
            begun = max(begun, number + 1)
            maker.malloc(1, BASE)  # a thread begins with its first event
        place, other = draw.choice(places), draw.choice(places)
        size = draw.choice((0, 1, 100, 5000, 1 << 33))
        what = draw.randrange(8)
        if what == 0:
            maker.malloc(size, place)
        elif what == 1:
            maker.sized(trace.CALLOC, size, place)
        elif what == 2:
            maker.aligned(size, 6, place)
        elif what == 3:
            maker.realloc(place, size, other)
        elif what == 4:
            maker.realloc(place, 0, 0)
        elif what == 5:
            maker.realloc(place, 1, 0)
        else:
            maker.free(place)
    return maker
