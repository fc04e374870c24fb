#!/usr/bin/env python3
"""Gate: what libhakmem.so exports and needs, and what libhakmem.a shows to the linker.

    exports.py --shared libhakmem.so --static libhakmem.a --list exports.txt --undefined undefined.txt

- The exported symbols are those of the list: names of the malloc family without a version, ours with one.
- Needs no library but the C library and the loader.
- Takes no symbol from outside that is not in the second list (a name with ? must be weak): no stdio, no dl*.
- The archive defines the same names as the shared library, but for the loader's, and no other global one.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import re
import sys
from pathlib import Path

import gate

# In archives: the compilers' own and that of probes, of which the linker keeps one copy a program.
COMPILERS_OWN = re.compile(r"DW\.ref\..*|__clang_call_terminate|_\.stapsdt\.base")
# What only the shared libraries take the place of: in a program linked with -static it would stand in its own way.
SHARED_ONLY = {"dlopen"}
ALLOWED_NEEDED = re.compile(r"libc\.so\.6|ld-linux[\w-]*\.so\.\d+")


def read_list(path: Path) -> list[str]:
    """The names of a list file, without comments."""
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def symbols(*nm: str | Path) -> list[tuple[str, str]]:
    """(type, name) of each symbol that nm prints."""
    rows = (line.split() for line in gate.run("nm", *nm).splitlines())
    return [(row[-2], row[-1]) for row in rows if len(row) in (2, 3)]


def compare(seen: set[str], listed: set[str], what: str, hint: str) -> list[str]:
    """Both differences between two sets of names."""
    problems = [f"{what} {name}, which is not in {hint}" for name in sorted(seen - listed)]
    return problems + [f"does not {what.removesuffix('s')} {name}, which is in {hint}"
                       for name in sorted(listed - seen)]


def check_exports(shared: Path, listed: list[str], list_name: str) -> list[str]:
    """The dynamic symbols against the list."""
    seen = {name for kind, name in symbols("-D", "--defined-only", shared) if kind != "A"}
    problems = [] if listed == sorted(listed) else [f"{list_name} is not sorted (LC_ALL=C sort)"]
    return problems + [f"{shared.name}: {p}" for p in compare(seen, set(listed), "exports", list_name)]


def check_needed(shared: Path) -> list[str]:
    """The libraries that it needs."""
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", gate.run("readelf", "-dW", shared))
    return [f"{shared.name}: needs {name}; only the C library is allowed"
            for name in needed if not ALLOWED_NEEDED.fullmatch(name)]


def check_undefined(shared: Path, listed: list[str], list_name: str) -> list[str]:
    """The symbols it takes from outside."""
    strong = {name for name in listed if not name.endswith("?")}
    weak = {name.removesuffix("?") for name in listed} | strong
    problems = []
    for kind, versioned in symbols("-D", "--undefined-only", shared):
        name = versioned.split("@")[0]
        if kind in "wv" and name not in weak:
            problems.append(f"{shared.name}: takes {name} (weak) from outside, which is not in {list_name}")
        elif kind == "U" and name not in strong:
            reason = "must be weak according to" if name in weak else "is not in"
            problems.append(f"{shared.name}: takes {name} from outside, which {reason} {list_name}")
    return problems


def check_static(static: Path, listed: list[str], list_name: str) -> list[str]:
    """The global symbols of the archive: the same names, without versions."""
    seen = {name for kind, name in symbols("--defined-only", "--extern-only", static)
            if not COMPILERS_OWN.fullmatch(name)}
    expected = {n.split("@")[0] for n in listed} - SHARED_ONLY
    return [f"{static.name}: {p}" for p in compare(seen, expected, "defines", list_name)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the symbols of the libraries.")
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--static", type=Path, help="left out: there is none")
    parser.add_argument("--list", type=Path, required=True)
    parser.add_argument("--undefined", type=Path, required=True)
    arguments = parser.parse_args()
    listed = read_list(arguments.list)
    problems = check_exports(arguments.shared, listed, arguments.list.name)
    problems += check_needed(arguments.shared)
    problems += check_undefined(arguments.shared, read_list(arguments.undefined), arguments.undefined.name)
    if arguments.static:
        problems += check_static(arguments.static, listed, arguments.list.name)
    return gate.report("exports", problems, f"{len(listed)} symbols")


if __name__ == "__main__":
    sys.exit(main())
