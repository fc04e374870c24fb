#!/usr/bin/env python3
"""Writes cmake/layout.ld: which functions of libhakmem.so programs do not use, so that they lie apart.

The kernel maps 64 KiB of a file around each page that is touched, and all of it counts as the process's memory. So
what ordinary programs do not reach stands behind the rest, where it costs nothing until it is used. (Not the other way
round: valgrind names only functions of the section .text. So the library is first built with all of them there.)

    cmake --preset release && cmake --build --preset release && python3 -B tools/layout.py

Functions that are missing in the list, or wrong in it, cost a few pages of memory and nothing else.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "build/release/libhakmem.so"
BENCH = ROOT / "build/release/bench"

PYTHON = """
import json, threading
rows = [{"a": i, "b": str(i) * 3} for i in range(3000)]
thread = threading.Thread(target=lambda: json.loads(json.dumps(rows)))
thread.start()
thread.join()
print(open("/proc/self/smaps").read())
"""
SQL = """
create table t(a, b);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 5000)
    insert into t select x, hex(randomblob(20)) from c;
create index i on t(b);
select count(*) from t;
"""
PROGRAMS = (
    ("true",),
    ("bash", "-c", "for i in 1 2; do /bin/true; done; echo $(echo a)"),
    ("ls", "-l", "/usr/bin"),
    ("sh", "-c", "cat /etc/passwd | sort | sed s/a/b/ | grep -c b; awk 'BEGIN { print 1 }'; cp /etc/passwd /dev/null"),
    ("git", "--version"),
    ("gcc", "-c", "-O1", "-x", "c", "/dev/null", "-o", "/dev/null"),
    ("perl", "-e", 'my %h; $h{"k$_"} = "v" x ($_ % 50) for 1..10000; print scalar keys %h'),
    ("python3", "-c", PYTHON),
    ("sqlite3", ":memory:", SQL),
    (BENCH / "random_mixed", "200000", "8192", "42"),
    (BENCH / "random_mixed", "100000", "256", "42", "2"),
    (BENCH / "larson", "0", "8", "100", "1000", "5", "42", "4"),
    (BENCH / "prodcons", "10"),
    (BENCH / "mid_threads", "2000", "100", "42", "2"),
    (BENCH / "large_scenarios", "mir", "500"),  # without huge blocks, beside which their code is little
    (BENCH / "lifetimes", "random", "20000", "3"),
    (BENCH / "cxx_json", "1"),
)

# Valgrind hides the vDSO, in which every other process looks for its clock.
UNSEEN = {"hak_os_read_symbols", "hak_os_find_symbol"}

HEAD = """/* Where things lie in libhakmem.so: the constants that every process reads with the tables that are read when it is
 * loaded, and the code; in a mapping of their own the other constants, texts mostly, and the functions that ordinary
 * programs do not use; first of all variables those that the loader writes; behind the small variables the large ones,
 * of which few are used; last those that are written when the library is loaded: they share their page with the first
 * zeroed ones. Written by tools/layout.py, which says why; GNU ld reads it beside its own script.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
SECTIONS
{
  .rodata_first : { *classes.c*(.rodata .rodata.*) *options.c*(.rodata .rodata.*) *deepbind.c*(.rodata .rodata.*) *clock_linux.c*(.rodata .rodata.*) *(.rodata.cst*) }
}
INSERT AFTER .rela.plt;

SECTIONS
{
  .data_first : { *crtbegin*.o(.data.rel.local) *(.data.rel.local.DW.ref.*) *(.data.first) }
}
INSERT BEFORE .data;

SECTIONS
{
  .data_last : { *(.data.last) *(.data.start) }
}
INSERT AFTER .data;

/* A mapping of its own: the other physical address, which nobody looks at, keeps the linker from making one of both, and
 * the same page of the file in both the kernel. No page lies between: the loader would have to protect it. */
SECTIONS
{
  . = . + 0x1000;
  .rodata_rest : AT(ADDR(.rodata_rest) + 0x1000000) { *(.rodata .rodata.*) }
}
INSERT AFTER .fini;

SECTIONS
{
  .text_rest :
  {
    *operators.cc*(.text.unlikely .text.unlikely.* .text.__alloc_token__* .text.*nothrow_t)
"""
TAIL = """  }
}
INSERT AFTER .gcc_except_table;

SECTIONS
{
  .bss_rest (NOLOAD) : { *(.bss.rest) }
}
INSERT AFTER .bss;
"""


def functions_run(program: tuple[str | pathlib.Path, ...]) -> set[str]:
    """The library's functions that a program and its children run, by valgrind's callgrind."""
    found = set()
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--demangle=no",
                   f"--callgrind-out-file={folder}/%p"]
        done = subprocess.run([*command, *map(str, program)], env={**os.environ, "LD_PRELOAD": str(LIBRARY)},
                              capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit(f"layout: {program[0]} failed under valgrind: {done.stderr.decode()[-500:]}")
        for profile in pathlib.Path(folder).iterdir():
            names: dict[tuple[str, str], str] = {}
            ours = False
            for kind, number, name in re.findall(r"^c?(ob|fn)=\((\d+)\)(?: (.*))?$", profile.read_text(), re.MULTILINE):
                if name:
                    names[kind, number] = name
            for kind, number in re.findall(r"^(ob|fn)=\((\d+)\)", profile.read_text(), re.MULTILINE):
                if kind == "ob":
                    ours = "libhakmem.so" in names[kind, number]
                elif ours:
                    found.add(re.sub(r"'\d+$", "", names[kind, number]))  # how often it calls itself
    return found


def functions_not_in(used: set[str]) -> set[str]:
    """The library's other functions: those of which no name is among these."""
    names: dict[str, set[str]] = {}
    symbols = subprocess.run(["nm", str(LIBRARY)], capture_output=True, text=True, check=True).stdout
    for address, name in re.findall(r"^([0-9a-f]+) [tTwW] (\S+)$", symbols, re.MULTILINE):
        names.setdefault(address, set()).add(name.split(".")[0].split("@")[0])
    return set().union(*(group for group in names.values() if not group & used)) - used


def write_layout(rest: list[str]) -> None:
    """Writes the file, and builds the library with it."""
    lines = [f"    *(.text.{name} .text.{name}.* .text.unlikely.{name} .text.unlikely.{name}.*)\n" for name in rest]
    (ROOT / "cmake/layout.ld").write_text(HEAD + "".join(lines) + TAIL)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "hakmem_shared"], cwd=ROOT,
                   stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    """Runs the programs and writes the file."""
    write_layout([])
    used = UNSEEN | {name.split(".")[0] for program in PROGRAMS for name in functions_run(program)}
    rest = sorted(name for name in functions_not_in(used) if re.fullmatch(r"[a-zA-Z]\w+", name))
    write_layout(rest)
    print(f"cmake/layout.ld: {len(used)} functions used, {len(rest)} not")


if __name__ == "__main__":
    main()
