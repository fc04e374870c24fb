#!/usr/bin/env python3
"""Gate: each layer links with the layers below it and nothing else.

    linktest.py MANIFEST... [--cc COMPILER]

A manifest has one line a layer, bottom to top: its name and its object files, separated by semicolons. For
each layer a shared object of it and all below is linked with --no-undefined; the C library is all there is
besides.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gate


def undefined(messages: str) -> list[str]:
    """The names that a linker's messages call undefined."""
    return sorted(set(re.findall(r"undefined (?:reference to|symbol:?) [`']?(\w+)", messages)))


def check(manifest: Path, compiler: str) -> tuple[list[str], list[str]]:
    """All problems, and the layers that were linked."""
    problems = []
    layers = []
    objects: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for line in manifest.read_text(encoding="utf-8").splitlines():
            layer, *own = line.split(";")
            layers.append(layer)
            objects += own
            output = Path(folder) / f"{layer}.so"
            command = [compiler, "-shared", "-Wl,--no-undefined", "-o", str(output), *objects]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                names = undefined(done.stderr)
                what = ", ".join(names) if names else done.stderr.strip()
                problems.append(f"{layer} needs something from above it: {what}")
    return problems, layers


def main() -> int:
    parser = argparse.ArgumentParser(description="Links each layer with those below it.")
    parser.add_argument("manifests", type=Path, nargs="+", metavar="MANIFEST")
    parser.add_argument("--cc", default="cc")
    arguments = parser.parse_args()
    problems = []
    names = []
    for manifest in arguments.manifests:
        found, layers = check(manifest, arguments.cc)
        if not layers:
            gate.give_up("linktest", f"{manifest} names no layer")
        problems += found
        names.append(", ".join(layers))
    return gate.report("linktest", problems, "; ".join(names))


if __name__ == "__main__":
    sys.exit(main())
