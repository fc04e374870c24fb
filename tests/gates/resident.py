#!/usr/bin/env python3
"""Gate: how much of the library's file a small program has in memory.

    resident.py --shared libhakmem.so

A python3 that imports json and starts a thread reads its own /proc/self/smaps: the code that it does not use must not
be there (cmake/layout.ld, written by tools/layout.py).

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, threading
thread = threading.Thread(target=lambda: json.loads(json.dumps(list(range(10000)))))
thread.start()
thread.join()
print(open("/proc/self/smaps").read())
"""
MOST_KB = 96  # tables 32, code in use 44, and some room; all of the file would be 170


def file_kb(smaps: str, name: str) -> int:
    """Resident kB of a file's mappings that are shared with the page cache."""
    total = 0
    for block in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE):
        if name in block.split("\n", 1)[0]:
            fields = dict(re.findall(r"^(Rss|Anonymous): +(\d+) kB", block, re.MULTILINE))
            total += int(fields["Rss"]) - int(fields["Anonymous"])
    return total


def main() -> None:
    """Runs the program and compares."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shared", required=True)
    shared = parser.parse_args().shared
    done = subprocess.run([sys.executable, "-S", "-c", PROGRAM], env={**os.environ, "LD_PRELOAD": shared},
                          capture_output=True, text=True, check=True)
    kb = file_kb(done.stdout, Path(shared).resolve().name)
    print(f"{kb} kB of the library's file in memory, {MOST_KB} allowed")
    if kb == 0:
        sys.exit("the library was not loaded")
    if kb > MOST_KB:
        sys.exit("run tools/layout.py: functions that programs use are among those that lie apart")


if __name__ == "__main__":
    main()
