# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Addresses to functions, files and lines: outside of the process, from its ELF files.

Names come from addr2line (binutils), which reads debug information in all its forms, also in
separate files; where it knows nothing, from the symbol tables (pyelftools). Who uses it: stacks.py.
"""

import os
import re
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from elftools.elf.segments import NoteSegment

from hakmem_tools.prof.raw import Mapping, Profile

SECONDS = 120


@dataclass(frozen=True)
class Function:
    """Where an address is. Empty or 0: not known."""

    name: str
    file: str = ""
    line: int = 0


@dataclass
class Image:
    """What is needed of an ELF file."""

    path: str
    build_id: str = ""
    segments: list[tuple[int, int, int]] = field(default_factory=list)
    """(offset in the file, length, address) of what is loaded."""
    symbols: list[tuple[int, int, str]] = field(default_factory=list)
    """(address, length, name) of functions, by address."""

    def address(self, mapping: Mapping, pc: int) -> int | None:
        """The address in the file's own terms."""
        offset = pc - mapping.start + mapping.offset
        for at, length, address in self.segments:
            if at <= offset < at + length:
                return offset - at + address
        return None

    def symbol(self, address: int) -> str:
        """The function of the symbol table at an address; "" if there is none."""
        index = bisect_right(self.symbols, (address, 1 << 64, "")) - 1
        if index < 0:
            return ""
        start, length, name = self.symbols[index]
        return name if address < start + max(length, 1) else ""


def read_image(path: str) -> Image:
    """Reads an ELF file; one without anything if it cannot be read (it may be gone)."""
    image = Image(path)
    try:
        with Path(path).open("rb") as file:
            elf = ELFFile(file)
            for segment in elf.iter_segments():
                if segment["p_type"] == "PT_LOAD":
                    entry = (segment["p_offset"], segment["p_filesz"], segment["p_vaddr"])
                    image.segments.append(entry)
                elif isinstance(segment, NoteSegment):
                    for note in segment.iter_notes():
                        if note["n_type"] == "NT_GNU_BUILD_ID":
                            image.build_id = str(note["n_desc"])
            image.symbols = sorted(read_symbols(elf))
    except (OSError, ELFError):
        return image
    return image


def read_symbols(elf: ELFFile) -> Iterable[tuple[int, int, str]]:
    """The functions of all symbol tables."""
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection):
            continue
        for symbol in section.iter_symbols():
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_value"] != 0:
                yield symbol["st_value"], symbol["st_size"], symbol.name


ADDRESS = re.compile(r"0x[0-9a-f]+")


def parse_addr2line(text: str) -> dict[int, list[Function]]:
    """What `addr2line -a -f -i -C` printed: innermost function first, inlined ones included."""
    found: dict[int, list[Function]] = {}
    current: list[Function] = []
    lines = iter(text.splitlines())
    for line in lines:
        if ADDRESS.fullmatch(line):
            current = found.setdefault(int(line, 16), [])
            continue
        file, _, number = next(lines, "??:0").rpartition(":")
        digits = number.split(" ")[0]
        if line != "??":
            known = "" if file == "??" else file
            current.append(Function(line, known, int(digits) if digits.isdecimal() else 0))
    return found


@cache
def addr2line() -> str | None:
    """The program, if there is one."""
    return shutil.which("addr2line")


def ask_addr2line(path: str, addresses: list[int]) -> dict[int, list[Function]]:
    """Functions of addresses of one file."""
    program = addr2line()
    if program is None or not addresses:
        return {}
    command = [program, "-a", "-f", "-i", "-C", "-e", path]
    words = "".join(f"{address:#x}\n" for address in addresses)
    try:
        done = subprocess.run(
            command, input=words, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_addr2line(done.stdout) if done.returncode == 0 else {}


def points_to(link: str, target: str) -> bool:
    """Whether a symbolic link is there, may be read, and says this."""
    try:
        return str(Path(link).readlink()) == target
    except OSError:
        return False


def place(mapping: Mapping, process: int) -> str:
    """Where the file is that was mapped; "" if nowhere. At its path may be another one: it has been
    replaced since, or the process has another root, as in a container."""
    if mapping.deleted:
        part = f"/proc/{process}/map_files/{mapping.start:x}-{mapping.end:x}"  # for root
        links = (part, f"/proc/{process}/exe")
        return next((link for link in links if points_to(link, f"{mapping.path} (deleted)")), "")
    inside = Path(f"/proc/{process}/root{mapping.path}")
    try:
        return mapping.path if inside.samefile(mapping.path) else str(inside)
    except OSError:
        return str(inside) if os.access(inside, os.R_OK) else mapping.path


class Symbolizer:
    """Functions of a profile's addresses. Return addresses: the call is before them."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.images: dict[tuple[str, bool], Image] = {}
        self.known: dict[int, list[Function]] = {}
        by_image: dict[tuple[str, bool], dict[int, int]] = {}
        for pc in {pc for site in profile.sites for pc in site.stack}:
            mapping = profile.mapping_of(pc)
            if mapping is None:
                continue
            address = self.image(mapping).address(mapping, pc - 1)
            if address is not None:
                by_image.setdefault((mapping.path, mapping.deleted), {})[pc] = address
            elif mapping.deleted:
                offset = pc - 1 - mapping.start + mapping.offset
                self.known[pc] = [Function(f"{Path(mapping.path).name} (deleted)+{offset:#x}")]
        for key, addresses in by_image.items():
            self.look_up(key, addresses)

    def image(self, mapping: Mapping) -> Image:
        """The file, read once."""
        key = mapping.path, mapping.deleted
        if key not in self.images:
            self.images[key] = read_image(place(mapping, self.profile.process))
        return self.images[key]

    def look_up(self, key: tuple[str, bool], addresses: dict[int, int]) -> None:
        """Finds the functions of one file's addresses."""
        image = self.images[key]
        found = ask_addr2line(image.path, sorted(set(addresses.values())))
        for pc, address in addresses.items():
            functions = found.get(address, [])
            if not functions and (name := image.symbol(address)):
                functions = [Function(name)]
            self.known[pc] = functions or [Function(f"{Path(key[0]).name}+{address:#x}")]

    def functions(self, pc: int) -> list[Function]:
        """Innermost first; never empty."""
        return self.known.get(pc) or [Function(f"{pc:#x}")]
