# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Malformed ELF files never crash the hakmem command: it says what is wrong and exits with a status of its own.

Each mutation comes from a seed, so that a failure can be repeated: the message names it.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path

import support
from support import SANITIZED, STAND_IN, CommandCase, environment, program_segments

# The sanitizers see what the command as it is only sees when it crashes: that tries every fourth seed.
STEP = 1 if SANITIZED else 4
# The search for leaks at the end takes as long as all else: after every fourth mutation.
LEAKS_STEP = 4
PT_LOAD, PT_DYNAMIC = 1, 2
HEADER_BYTES, PROGRAM_HEADER_BYTES = 64, 56
EXTREMES = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 64)


def leaks(seed: int) -> dict[str, str]:
    """The sanitized command looks for leaks after some seeds."""
    options = environment().get("ASAN_OPTIONS", "")
    return {"ASAN_OPTIONS": f"{options}:detect_leaks={int(seed % LEAKS_STEP == 0)}"}


class Mutator:
    """Makes files that are broken where the command reads: headers, dynamic section, hash table, symbols, strings."""

    def __init__(self, original: Path) -> None:
        self.data = original.read_bytes()
        (start,) = struct.unpack_from("<Q", self.data, 32)
        (count,) = struct.unpack_from("<H", self.data, 56)
        self.regions = [(0, HEADER_BYTES), (start, count * PROGRAM_HEADER_BYTES)]
        self.regions += program_segments(original, PT_DYNAMIC)
        self.regions += program_segments(original, PT_LOAD)[:1]  # holds hash tables, symbols, strings

    def mutate(self, seed: int) -> bytes:
        """Changes one to four places, or cuts the file off."""
        choose = random.Random(seed)
        data = bytearray(self.data)
        for _ in range(choose.randint(1, 4)):
            start, size = choose.choice(self.regions)
            kind = choose.randrange(8)
            if kind == 0:
                del data[choose.randrange(start, start + size) :]
                data.extend(bytes(choose.choice((0, 0, 1, 4096))))
            elif kind <= 3:
                self.change(data, start + choose.randrange(size), bytes([choose.randrange(256)]))
            else:
                width = choose.choice((1, 2, 4, 8))
                value = choose.choice(EXTREMES) % 2 ** (8 * width)
                self.change(data, start + choose.randrange(size) // width * width, value.to_bytes(width, "little"))
        return bytes(data)

    @staticmethod
    def change(data: bytearray, offset: int, replacement: bytes) -> None:
        for index, byte in enumerate(replacement, offset):
            if index < len(data):
                data[index] = byte


class TestMutations(CommandCase):
    """Two thousand of them: of a program, of the library, of a library that the program needs."""

    def check_mutations(self, original: Path, mutated: Path, *arguments: str | Path, count: int) -> None:
        mutator = Mutator(original)
        statuses: Counter[int] = Counter()
        mutated.write_bytes(mutator.data)
        mutated.chmod(0o755)
        self.assertEqual(self.hakmem("run", "--check", *arguments).returncode, 0)
        for seed in range(0, count, STEP):
            mutated.write_bytes(mutator.mutate(seed))
            with self.subTest(file=original.name, seed=seed):
                done = self.hakmem("run", "--check", *arguments, env=leaks(seed))
                self.assertIn(done.returncode, (0, 125, 126, 127), done.stderr)
                if done.returncode != 0:
                    self.assertRegex(done.stderr, r"\Ahakmem: [^\n]+\n(hakmem: [^\n]+\n)*\Z")
                statuses[done.returncode] += 1
        self.assertGreater(statuses[0], count // 20 // STEP, statuses)  # some change nothing that matters
        self.assertGreater(statuses[125] + statuses[126], count // 5 // STEP, statuses)

    def test_program(self) -> None:
        target = self.folder / "mutated"
        self.check_mutations(self.probe, target, target, count=1000)

    def test_library(self) -> None:
        target = self.folder / "mutated.so"
        self.check_mutations(self.library, target, "--lib", target, self.probe, count=700)

    def test_needed_library(self) -> None:
        """It defines malloc, in a table of the older kind: refused, unless the mutation hides that."""
        source = STAND_IN.replace("hakmem_version", "other_version")
        original = self.compile("liboriginal.so", source, "-shared", "-fPIC", "-Wl,--hash-style=sysv")
        target = self.folder / "libmutated.so"
        target.write_bytes(original.read_bytes())
        program = self.compile("needs", "int main(void) { return 0; }", "-Wl,--no-as-needed", target)
        mutator = Mutator(original)
        statuses: Counter[int] = Counter()
        for seed in range(0, 300, STEP):
            target.write_bytes(mutator.mutate(seed))
            with self.subTest(file=original.name, seed=seed):
                done = self.hakmem("run", "--check", program, env=leaks(seed))
                self.assertIn(done.returncode, (0, 125), done.stderr)
                statuses[done.returncode] += 1
        self.assertGreater(min(statuses[0], statuses[125]), 30 // STEP, statuses)


if __name__ == "__main__":
    support.main()
