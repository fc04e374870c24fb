#!/usr/bin/env python3
"""Gate: what the heap profile costs, in instructions, at its default rate.

    profiling.py --shared libhakmem.so [--size N] [--only NAME]

Cachegrind counts real programs under the library without the profile and with it (HAKMEM_PROF=1, a sample for each
512 KiB): python3 with all its objects from malloc, sqlite3, and the compiler proper. The profile may cost one in a
hundred, and beside that a fixed number of instructions for its start and for writing it at the end. `--size` multiplies
the work (docs/profiling.md).

The times of samples are random, so the figures differ a little from run to run: less than a tenth of the limit. Each
program allocates enough for fifteen samples and more, as with three one run in twenty has none.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gate
import instructions

MOST_SHARE = 0.01
FIXED = 750_000  # starting, reading /proc/self/maps and the unwind tables once, writing the file

PYTHON = """
import json
rows = [{"a": i, "b": [str(j) for j in range(i % 17)], "c": {"x": i * 1.5}} for i in range(1000)]
text = json.dumps(rows)
for k in range(SIZE):
    words = {}
    for row in json.loads(text):
        for word in row["b"]:
            name = word + str(row["a"] % 100)
            words[name] = words.get(name, 0) + 1
"""

SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000 * SIZE)
insert into t select i, 'row ' || (i * 7919 % 1000), i * 0.5 from n;
create index ti on t(b);
select count(*), sum(c) from t where b like 'row 1%';
select b, count(*) from t group by b order by 2 desc limit 3;
"""

C = """
struct list { struct list *next; long value[8]; };
static long add_N(struct list *l, long x) { long s = 0; for (; l; l = l->next) for (int i = 0; i < 8; i++)
    s += l->value[i] * x + (s >> 3) % (x + i + 1); return s; }
long use_N(struct list *l, int n) { long s = 0; for (int i = 0; i < n; i++) { switch (i % 5) {
    case 0: s += add_N(l, i); break; case 1: s ^= add_N(l->next, s); break; case 2: s -= i * 7; break;
    default: s += add_N(l, s % 11 + 1) / 3; } } return s; }
"""


def programs(folder: Path, size: int) -> dict[str, list[str]]:
    """What is run: name to command line."""
    (folder / "w.py").write_text(PYTHON.replace("SIZE", str(3 * size)))
    (folder / "w.sql").write_text(SQL.replace("SIZE", str(size)))
    (folder / "w.c").write_text("".join(C.replace("_N", f"_{n}").replace("struct list", f"struct list_{n}")
                                        for n in range(size)))
    compiler = gate.run("gcc", "-print-prog-name=cc1").strip()
    return {
        "python3": ["/usr/bin/python3", "-S", "-s", str(folder / "w.py")],
        "sqlite3": ["/usr/bin/sqlite3", "-init", str(folder / "w.sql"), ":memory:", ".exit"],
        "cc1": [compiler, "-quiet", "-O2", str(folder / "w.c"), "-o", os.devnull],
    }


def count(shared: Path, command: list[str], folder: Path, profile: bool) -> int:
    """Instructions that a program executes."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_"))}
    environment = kept | {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "LC_ALL": "C"}
    if profile:
        environment |= {"HAKMEM_PROF": "1", "HAKMEM_PROF_FILE": str(folder / "profile")}
    loader = instructions.interpreter(Path(command[0]).resolve())
    # Only the sum is wanted: callgrind follows the calls as well, which takes half as long again.
    words = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={os.devnull}", loader,
             "--preload", str(shared.resolve())]
    done = subprocess.run([*words, *command], env=environment, capture_output=True, text=True, check=False)
    executed = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode != 0 or executed is None:
        gate.give_up("profiling", f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return int(executed.group(1).replace(",", ""))


def samples(folder: Path) -> int:
    """Samples in the profile that the last program has written."""
    lines = (folder / "profile").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[6]) for line in lines if line.startswith("site "))


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts the instructions of the heap profile.")
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--only", help="one of the programs")
    arguments = parser.parse_args()
    problems, seen = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, command in programs(folder, arguments.size).items():
            if arguments.only not in (None, program):
                continue
            without = count(arguments.shared, command, folder, profile=False)
            more = count(arguments.shared, command, folder, profile=True) - without
            taken = samples(folder)
            text = f"{program} {more / without:+.2%} of {without / 1e6:.0f} million ({taken} samples)"
            print(f"profiling: {text}")
            seen.append(text)
            if more > MOST_SHARE * without + FIXED:
                problems.append(f"{text}: more than {MOST_SHARE:.0%} and {FIXED}")
            if taken == 0:
                problems.append(f"{text}: nothing was profiled")
    return gate.report("profiling", problems, "; ".join(seen))


if __name__ == "__main__":
    sys.exit(main())
