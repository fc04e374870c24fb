#!/usr/bin/env python3
"""Gate: the lines that a debug build prints for single events agree with its counters.

    debug_lines.py --shared libhakmem.so --program free_all

free_all takes slabs for 12 MB, frees all blocks, and so gives whole superslabs back. Each event has its line, so there
are as many lines as the summary at the end counts: slots taken, by stage, and given back; superslabs mapped (taken in
the window) and unmapped; batches that left bins. Without the options there is none.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import gate

ARGUMENTS = ("owner", "50000")
OPTIONS = ("SS_ACQUIRE_DEBUG", "SS_FREE_DEBUG", "SS_LRU_DEBUG", "SUPER_REG_DEBUG", "SS_MAP_TRACE",
           "TINY_SLL_DRAIN_DEBUG")
COUNTED = {  # a line as far as it tells one event from another, and what the summary calls it
    **{rf"\[SS_ACQUIRE\] stage={stage} ": f"slots acquired, stage {stage}"
       for stage in ("warm", "empty", "unused", "retired", "fresh")},
    r"\[SS_FREE\] purged=": "slots released",
    r"\[SUPER_REG\] event=take superslab=\d+ count=1$": "superslabs mapped",
    r"\[SUPER_REG\] event=give superslab=\d+ count=1$": "superslabs unmapped",
    r"\[SS_LRU\] event=unmap superslab=\d+ count=1$": "superslabs unmapped",
    r"\[SLL_DRAIN\] to=slabs class=\d+ blocks=\d+ left=\d+$": "bin drains",
}
LEAST_UNMAPPED = 1  # or nothing was seen of the LRU cache


def said(shared: Path, program: Path, options: tuple[str, ...]) -> str:
    """What the program prints on stderr."""
    env = gate.preloaded(shared)
    env.update({f"HAKMEM_{name}": "1" for name in ("SHARED_POOL_STAGE_STATS", *options)})
    done = subprocess.run([program, *ARGUMENTS], env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        gate.give_up("debug_lines", f"{program.name} ended with {done.returncode}:\n{done.stderr}")
    return done.stderr


def main() -> int:
    """Compares lines and counters."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    arguments = parser.parse_args()
    text = said(arguments.shared, arguments.program, OPTIONS)
    counters = dict(re.findall(r"^hakmem: ([a-z, ]+) (\d+)", text, re.MULTILINE))
    problems = []
    for line, counter in COUNTED.items():
        seen = len(re.findall("^" + line, text, re.MULTILINE))
        if counter not in counters:
            problems.append(f"the summary does not tell '{counter}': change COUNTED, or restore it")
        elif seen != int(counters[counter]):
            problems.append(f"{seen} lines {line} for '{counter} {counters[counter]}': see who counts, and who prints")
    maps = len(re.findall(r"^\[SS_MAP\] call=map address=\d+ bytes=\d+ refused=0$", text, re.MULTILINE))
    if maps < int(counters.get("superslabs mapped", 0)):
        problems.append(f"{maps} lines [SS_MAP] for {counters['superslabs mapped']} superslabs: each is mapped")
    if int(counters.get("superslabs unmapped", 0)) < LEAST_UNMAPPED:
        problems.append("no superslab was unmapped: nothing was seen of the LRU cache, let the program free more")
    lines = len(re.findall(r"^\[", text, re.MULTILINE))
    silent = said(arguments.shared, arguments.program, ())
    if re.search(r"^\[", silent, re.MULTILINE):
        problems.append("lines although no option asks for them")
    return gate.report("debug_lines", problems, f"{lines} lines, as counted")


if __name__ == "__main__":
    sys.exit(main())
