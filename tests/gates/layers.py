#!/usr/bin/env python3
"""Gate: the layers of src/ include downward only, and each header compiles alone.

    layers.py SRC [--cc COMPILER] [--include FOLDER]

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import gate

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)

# Only the top layer may know the C library's streams or a malloc: everything below must work inside one.
FORBIDDEN_BELOW_API = {"stdio.h", "malloc.h", "wchar.h", "iostream", "new"}


def includes(text: str) -> list[tuple[int, str, bool]]:
    """(line number, name, whether in quotes) of each include directive outside comments."""
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL)
    return [
        (code.count("\n", 0, match.start()) + 1, match.group(1) or match.group(2), bool(match.group(1)))
        for match in INCLUDE.finditer(code)
    ]


# They describe the records of all layers to readers outside of the process.
DESCRIBE_ALL = {"telemetry/root_internal.h", "telemetry/root.c", "telemetry/layout.c"}


def check_quoted(file_name: str, name: str, src: Path) -> str | None:
    """What is wrong with `#include "name"` in a file, given as layer/file, if anything."""
    layer = file_name.partition("/")[0]
    if name == "hakmem.h":
        return None if layer == "api" or file_name in DESCRIBE_ALL else "only api includes the public header"
    other, _, file = name.partition("/")
    if not file:
        return f'write the folder too: #include "{layer}/{name}"'
    if other not in gate.LAYERS:
        return f"{other} is not a layer (gate.py lists them)"
    if not file.endswith(".h"):
        return "include headers only"
    if not (src / name).exists():
        return f"src/{name} does not exist"
    if gate.LAYERS.index(other) > gate.LAYERS.index(layer):
        return f"upward: {layer} lies below {other}; pass it down as data, or let the caller decide"
    if file.endswith("_internal.h") and other != layer and file_name not in DESCRIBE_ALL:
        return f"internal header of {other}; include {other}/{other}.h"
    return None


def check_file(path: Path, src: Path) -> list[str]:
    """Everything wrong with the includes of one file."""
    layer = path.relative_to(src).parts[0]
    problems = []
    for line, name, quoted in includes(path.read_text(encoding="utf-8")):
        problem = None
        if quoted:
            problem = check_quoted(f"{layer}/{path.name}", name, src)
        elif name.split("/")[0] in gate.LAYERS and (src / name).exists():
            problem = f'use quotes: #include "{name}"'
        elif name in FORBIDDEN_BELOW_API and layer != "api":
            problem = "only api may use this header; format into a buffer and write it"
        if problem:
            problems.append(f"src/{path.relative_to(src)}:{line}: includes {name}: {problem}")
    return problems


def check_folders(src: Path) -> list[str]:
    """Each folder is a layer and has its entry header; nothing lies beside or below the folders."""
    problems = []
    for path in gate.sources(src):
        parts = path.relative_to(src).parts
        if len(parts) != 2 or parts[0] not in gate.LAYERS:
            problems.append(f"src/{'/'.join(parts)}: does not lie in a layer; expected src/<layer>/<file>")
    for layer in gate.LAYERS[:-1]:  # the entry of the topmost one is include/hakmem.h
        if any((src / layer).glob("*.[ch]")) and not (src / layer / f"{layer}.h").exists():
            problems.append(f"src/{layer}: has no entry header src/{layer}/{layer}.h")
    return problems


def check_header_alone(header: Path, src: Path, include: Path, compiler: str) -> list[str]:
    """Compiles a file that consists of one header."""
    name = str(header.relative_to(src))
    command = [
        compiler, "-std=gnu17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
        "-DHAK_CHECKS=1", "-DHAK_INTERPOSE=1", f"-I{src}", f"-I{include}", "-include", name, "-xc", "/dev/null",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    first = next((line for line in done.stderr.splitlines() if "error" in line), "the compiler failed")
    return [f"src/{name}: does not compile alone: {first}"]


def check(src: Path, include: Path, compiler: str) -> list[str]:
    """All problems of the tree."""
    problems = check_folders(src)
    if problems:
        return problems
    for path in gate.sources(src):
        problems += check_file(path, src)
    for header in sorted(src.rglob("*.h")):
        problems += check_header_alone(header, src, include, compiler)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the direction of includes in src/.")
    parser.add_argument("src", type=Path)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--include", type=Path, help="the folder of hakmem.h (default: SRC/../include)")
    arguments = parser.parse_args()
    src = arguments.src
    files = gate.sources(src)
    if not files:
        gate.give_up("layers", f"no sources in {src}")
    problems = check(src, arguments.include or src.parent / "include", arguments.cc)
    return gate.report("layers", problems, f"{len(files)} files in {len({f.parent for f in files})} layers")


if __name__ == "__main__":
    sys.exit(main())
