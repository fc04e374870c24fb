#!/usr/bin/env python3
"""Gate: the probes of libhakmem.so are those that docs/probes.md lists, with the same arguments.

    probes.py --shared libhakmem.so --docs docs/probes.md

- Each probe in the notes of the file (.note.stapsdt) is a row of the table, and the other way round.
- It has as many arguments as the row names, and its place in the code is a nop.
- Each row's line for bpftrace names the probe.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import re
import sys
from pathlib import Path

import gate

NOTE = re.compile(r"Provider: (\S+)\s+Name: (\S+)\s+Location: 0x([0-9a-f]+),.*?\s+Arguments:[ ]?([^\n]*)")
ROW = re.compile(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \| `([^|]*)` \|$", re.MULTILINE)
NOP = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)", re.MULTILINE)


def notes(text: str) -> list[tuple[str, int, int]]:
    """(name, address, number of arguments) of hakmem's probes, from `readelf -n`."""
    return [(name, int(address, 16), len(arguments.split()))
            for provider, name, address, arguments in NOTE.findall(text) if provider == "hakmem"]


def rows(text: str) -> dict[str, tuple[int, str]]:
    """Name to (number of arguments, line for bpftrace), from the document."""
    return {name: (len(re.findall(r"`\w+`", arguments)), line)
            for name, arguments, _, line in ROW.findall(text)}


def compare(found: list[tuple[str, int, int]], listed: dict[str, tuple[int, str]]) -> list[str]:
    """What does not agree."""
    names = {name for name, _, _ in found}
    problems = [f"probe {name} is not in the document" for name in sorted(names - set(listed))]
    problems += [f"probe {name} of the document is not in the library" for name in sorted(set(listed) - names)]
    problems += [f"probe {name} has {arguments} arguments, the document names {listed[name][0]}"
                 for name, _, arguments in found if name in listed and arguments != listed[name][0]]
    problems += [f"the line for bpftrace of {name} does not name it"
                 for name, (_, line) in sorted(listed.items()) if f"hakmem:{name} " not in line]
    return problems


def not_nops(shared: Path, found: list[tuple[str, int, int]]) -> list[str]:
    """Probes at whose place something else than a nop stands."""
    problems = []
    for name, address, _ in found:
        limits = (f"--start-address={address:#x}", f"--stop-address={address + 1:#x}")
        text = gate.run("objdump", "-d", "--no-show-raw-insn", *limits, shared)
        words = {int(at, 16): word for at, word in NOP.findall(text)}
        if words.get(address) != "nop":
            problems.append(f"probe {name} at {address:#x} is {words.get(address)}, not a nop")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares probes with their document.")
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--docs", type=Path, required=True)
    arguments = parser.parse_args()
    found = notes(gate.run("readelf", "-nW", arguments.shared))
    problems = compare(found, rows(arguments.docs.read_text(encoding="utf-8")))
    problems += not_nops(arguments.shared, found)
    return gate.report("probes", problems, f"{len(found)} places, " + ", ".join(sorted({n for n, _, _ in found})))


if __name__ == "__main__":
    sys.exit(main())
