# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A core file whose headers are right and whose memory is not: what the command reads there never crashes it."""

from __future__ import annotations

import os
import resource
import shutil
import struct
import subprocess
import unittest
from itertools import pairwise

import support
from stat_support import StatCase
from support import SANITIZED

MAGIC = b"\x7fhakmem root\r\n\x1a\x01\xd1\xc6\xa3\x5e\x90\xf4\x2b\x88\xbe\x17\x63\xfa\x09\xcd\x72\x40"
# As src/telemetry/root.h has them.
ROOT_SIZES, ROOT_ADDRESSES, ROOT_PARTS = 52, 136, 20
PARTS = {0: "space", 1: "window", 2: "meta", 3: "failures", 5: "pool", 6: "large", 7: "registry"}
META, TABLES, REGISTRY = 2, 4, 7
PT_LOAD = 1
# As src/slab/classes.h has them: the classes are at the end of the tables.
CLASSES, CLASS_BYTES, CLASS_BLOCKS, CLASS_SLOTS = 88, 32, 4, 6


class Core:
    """Where a core file has the allocator's records."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        (start,) = struct.unpack_from("<Q", data, 32)
        (count,) = struct.unpack_from("<H", data, 56)
        self.headers = [start + 56 * i for i in range(count)]
        root = data.index(MAGIC + b"\x02\0\0\0")
        self.sizes = struct.unpack_from(f"<{ROOT_PARTS}I", data, root + ROOT_SIZES)
        self.addresses = struct.unpack_from(f"<{ROOT_PARTS}Q", data, root + ROOT_ADDRESSES)

    def part(self, part: int) -> int:
        """Its place in the file."""
        for header in self.headers:
            kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", self.data, header)
            if kind == PT_LOAD and address <= self.addresses[part] < address + size:
                return offset + self.addresses[part] - address
        raise RuntimeError("the core has not the library's data")

    def classes(self, field: int, value: bytes) -> list[tuple[int, bytes]]:
        """A field of every class but the last, which tells whether the library has started."""
        first = self.part(TABLES) + self.sizes[TABLES] - CLASSES * CLASS_BYTES
        return [(first + i * CLASS_BYTES + field, value) for i in range(CLASSES - 1)]

    def words(self, part: int, width: int) -> list[tuple[int, int]]:
        """Each word of a part: its place in the file and what it is."""
        form = {4: "I", 8: "Q"}[width]
        at = self.part(part)
        values = struct.unpack_from(f"<{self.sizes[part] // width}{form}", self.data, at)
        return [(at + width * i, value) for i, value in enumerate(values)]


def little_memory() -> None:
    """For preexec_fn."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


PROGRAM = """
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    for (int i = 0; i < 1000; i++)
        if (malloc(i) == NULL)
            return 1;
    write(1, "x", 1);
    pause();
    return 0;
}
"""


@unittest.skipIf(shutil.which("gcore") is None, "gdb is not installed")
class TestCores(StatCase):
    """Of a program that pauses."""

    def setUp(self) -> None:
        super().setUp()
        process = self.running(self.compile("pauses", PROGRAM))
        self.assertEqual(os.read(process.stdout.fileno(), 1), b"x")
        done = subprocess.run(["gcore", "-o", str(self.folder / "core"), str(process.pid)], check=False,
                              capture_output=True, text=True, env=support.environment())
        whole = self.folder / f"core.{process.pid}"
        if not whole.exists():
            self.skipTest(f"gcore: {done.stderr[-200:]}")
        self.core = Core(whole.read_bytes())
        self.file = whole.rename(self.folder / "damaged")
        self.addCleanup(self.file.unlink)

    def read(self, *changes: tuple[int, bytes]) -> list[subprocess.CompletedProcess[str]]:
        """What is said of the core with these bytes in it."""
        data = bytearray(self.core.data)
        for offset, replacement in changes:
            data[offset : offset + len(replacement)] = replacement
        self.file.write_bytes(data)
        return [self.hakmem(command, self.file, preexec=None if SANITIZED else little_memory)
                for command in ("stat", "explain")]

    def test_nothing_changed(self) -> None:
        self.assertEqual([done.returncode for done in self.read()], [0, 0])

    def test_classes(self) -> None:
        """Sizes that whoever walks the slabs divides by."""
        for field, value in ((0, b"\0\0\0\0"), (CLASS_BLOCKS, b"\0\0"), (CLASS_BLOCKS, b"\xff\xff"), (CLASS_SLOTS, b"\0"),
                             (CLASS_SLOTS, b"\x07")):
            with self.subTest(field=field, value=value):
                for done in self.read(*self.core.classes(field, value)):
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertRegex(done.stderr, "its records cannot be read\nhakmem: hint: .*")

    def test_number_of_heaps(self) -> None:
        """It is one of the small numbers of the registry."""
        small = [at for at, value in self.core.words(REGISTRY, 4) if 0 < value < 100]
        self.assertNotEqual(small, [])
        for at in small:
            for many in (2**32 - 2, 2**32 - 3):
                with self.subTest(at=at, many=many):
                    self.assertEqual([done.returncode for done in self.read((at, struct.pack("<I", many)))], [0, 0])

    def test_whole_records(self) -> None:
        """Nothing in them is what it was: it is said that they do not fit, or what does is told; there is memory for it."""
        for part, name in PARTS.items():
            for byte in (b"\0", b"\x01", b"\xff"):
                with self.subTest(part=name, byte=byte):
                    for done in self.read((self.core.part(part), byte * self.core.sizes[part])):
                        self.assertIn(done.returncode, (0, 1), done.stderr)

    def test_memory_at_the_end_of_all_addresses(self) -> None:
        """A mapping up to the last byte but one, of which the records say that it is theirs."""
        start, size = 2**64 - 0x1800, 0x17FF
        words = self.core.words(META, 8)
        ranges = [at for (at, value), (_, after) in pairwise(words)
                  if value > 2**32 and value % 4096 == 0 and 0 < after < 2**32 and after % 4096 == 0]
        self.assertNotEqual(ranges, [])
        last = [header for header in self.core.headers if self.core.data[header] == PT_LOAD][-1]
        done = self.read((last + 16, struct.pack("<Q", start)), (last + 32, struct.pack("<QQ", size, size)),
                         (ranges[0], struct.pack("<QQ", start, size)))
        self.assertEqual([one.returncode for one in done], [0, 0])


if __name__ == "__main__":
    support.main()
