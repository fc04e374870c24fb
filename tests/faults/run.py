#!/usr/bin/env python3
"""Fault injection: runs programs under libhakmem.so with the k-th system call of the library refused, for each k.

    run.py --refuse PROGRAM --library LIBHAKMEM [--stress STRESS] [--sample | --all] [--jobs N] CASE...

A case is `stress`, a real program, or `mappings`: the stress test where a process may have no more than so many
mappings, as the kernel's vm.max_map_count would have it. Of each call (mmap,
munmap, mprotect, mremap, madvise, any of them) the k-th is refused once, or that and the next 19, with ENOMEM and with
EAGAIN, for k from 1 to 500 or until the program makes no such call any more. `--sample` takes a few k only.

What must hold: no signal ends a program inside the library, the library does not end it, nothing hangs. (Some programs
do not look whether they got memory: a signal in their own code is theirs if it is for a null pointer.) The stress test
must find its blocks intact and, when the refusals are over, get memory of all sizes, and hold no more than without a
refusal. A real program prints what it prints without refusals, or ends with a status and a message of its own.

Ends with a line for each case, and status 0, 1 (something failed) or 77 (the system permits no tracing).

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

MOST = 500
WHILE = 20
SKIP = 77
TIMEOUT_SECONDS = 120
KINDS = ("any", "mmap", "munmap", "mprotect", "mremap", "madvise")
SPARE_RESIDENT_KIB = 4 << 10
SPARE_MAPPED_KIB = 48 << 10
SAMPLE = (1, 2, 3, 5, 9, 17, 33, 65, 129)

PYTHON = """
import json, re
d = {str(i): [i] * 10 for i in range(4000)}
text = json.dumps(d)
b = bytearray()
for i in range(40):
    b += bytes(100000)
print(len(text), len(b), sum(len(x) for x in re.split("[,:]", text)))
"""
SQLITE = """
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000)
  INSERT INTO t SELECT i, hex(i * 7919 % 100003) || 'some text to fill the row' FROM n;
CREATE INDEX tb ON t(b);
SELECT count(*), min(b), max(b) FROM t;
SELECT count(DISTINCT substr(b, 1, 3)) FROM t;
"""
PERL = """
my %h; $h{$_ % 5000} .= "x$_ " for 1 .. 40000; my $s = "";
$s .= $h{$_} for sort { $a <=> $b } keys %h; $s =~ s/x(\\d)/y$1$1/g; print length($s), "\\n";
"""


@dataclass(frozen=True)
class Case:
    """A program and what it is given."""

    command: list[str]
    stdin: str = ""
    is_stress: bool = False


@dataclass
class Run:
    """How one run ended."""

    status: int
    out: str
    err: str
    report: Counter[str]
    signals: list[str]


@dataclass
class Result:
    """What came of all runs of a case."""

    runs: int = 0
    refused: int = 0
    unaffected: int = 0
    own_error: Counter[str] = field(default_factory=Counter)
    elsewhere: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    worst_resident_kib: int = 0
    worst_mapped_kib: int = 0


def cases(stress: str | None) -> dict[str, Case]:
    """Those that can be run here."""
    known = {
        "python3": Case(["python3", "-I", "-c", PYTHON]),
        "sqlite3": Case(["sqlite3", ":memory:"], SQLITE),
        "perl": Case(["perl", "-e", PERL]),
        "git": Case(["git", "--no-pager", "diff", "--no-index", "--stat", "--", "/usr/include/linux",
                     "/usr/include/asm-generic"]),
    }
    found = {name: case for name, case in known.items() if shutil.which(case.command[0])}
    if stress:
        found["stress"] = Case([stress, "--threads", "4", "--ops", "15000", "--lives", "2", "--max-bytes", "32m",
                                "--allow-enomem", "--recover", "--seed", "1"], is_stress=True)
    return found


class Runner:
    """Runs cases under the tracer."""

    def __init__(self, refuse: str, library: str, jobs: int) -> None:
        self.refuse = refuse
        self.library = library
        self.pool = ThreadPoolExecutor(jobs)

    def run(self, case: Case, options: list[str]) -> Run:
        """One run with the tracer's options."""
        with tempfile.NamedTemporaryFile("r", prefix="faults-") as report:
            command = [self.refuse, "--report", report.name, *options, "--", "env", f"LD_PRELOAD={self.library}",
                       *case.command]
            try:
                done = subprocess.run(command, input=case.stdin, capture_output=True, text=True, errors="replace",
                                      timeout=TIMEOUT_SECONDS, check=False)
            except subprocess.TimeoutExpired as expired:
                return Run(-1, "", f"hung: {' '.join(expired.cmd[:10])}", Counter(), [])
            counts: Counter[str] = Counter()
            signals = []
            for line in report:
                name, value = line.rstrip().split(" ", 1)
                if name == "signal":
                    signals.append(value)
                else:
                    counts[name] = int(value)
            return Run(done.returncode, done.stdout, done.stderr, counts, signals)

    def footprint(self, run: Run) -> tuple[int, int]:
        """Mapped and resident KiB that the stress test told at its end."""
        for line in run.out.splitlines():
            if line.startswith("recovered:"):
                words = line.split()
                return int(words[1]), int(words[4])
        return -1, -1

    def judge(self, case: Case, plain: Run, run: Run, result: Result) -> str:
        """What is wrong with a run; empty if nothing is."""
        if run.status == -1:
            return run.err
        if "hakmem:" in run.err:
            return f"the library ended it: {run.err[-500:]}"
        if any("libhakmem" in signal or "not a null" in signal for signal in run.signals):
            return f"signal {run.signals}"
        return self.judge_stress(plain, run, result) if case.is_stress else self.judge_program(plain, run, result)

    def judge_stress(self, plain: Run, run: Run, result: Result) -> str:
        """The stress test: it may not fail, nor hold more than without refusals."""
        mapped, resident = self.footprint(run)
        if run.status != 0 or mapped < 0:
            return f"status {run.status}, signals {run.signals}: {run.err[-700:]}"
        base_mapped, base_resident = self.footprint(plain)
        result.unaffected += 1
        result.worst_resident_kib = max(result.worst_resident_kib, resident - base_resident)
        result.worst_mapped_kib = max(result.worst_mapped_kib, mapped - base_mapped)
        if resident > base_resident + SPARE_RESIDENT_KIB or mapped > base_mapped + SPARE_MAPPED_KIB:
            return (f"memory is lost: {mapped} KiB mapped, {resident} resident; "
                    f"{base_mapped} and {base_resident} without refusals")
        return ""

    def judge_program(self, plain: Run, run: Run, result: Result) -> str:
        """A real program: its usual output, or an error of its own."""
        if run.status == plain.status and run.out == plain.out:
            result.unaffected += 1
        elif run.signals:
            result.elsewhere[" ".join(sorted(set(run.signals)))] += 1
        elif run.status == 0:
            return f"another output and no error: {run.out[:200]!r} {run.err[:300]!r}"
        else:
            last = run.err.strip().splitlines()[-1][:80] if run.err.strip() else ""
            result.own_error[f"status {run.status}: {last}"] += 1
        return ""

    def series(self, case: Case, plain: Run, ks: list[int], options: list[str], result: Result) -> None:
        """One kind of refusal for each k, until one comes too late to refuse anything."""
        step = 16
        for begin in range(0, len(ks), step):
            some = ks[begin:begin + step]
            runs = list(self.pool.map(lambda k: self.run(case, [*options, "--nth", str(k)]), some))
            for k, run in zip(some, runs, strict=True):
                result.runs += 1
                result.refused += run.report["refused_any"]
                wrong = self.judge(case, plain, run, result)
                if wrong:
                    result.failures.append(f"refuse {' '.join(options)} --nth {k}: {wrong}")
            if any(run.status != -1 and run.report["refused_any"] == 0 for run in runs):
                return


def inject(runner: Runner, case: Case, sample: bool) -> Result:
    """All kinds of refusals in one program."""
    result = Result()
    plain = runner.run(case, [])
    if plain.status == SKIP:
        print("skipped: this system permits no tracing")
        sys.exit(SKIP)
    if plain.status not in (0, 1) or plain.report["mmap"] == 0 or not plain.out or plain.err:
        result.failures.append(f"without refusals: status {plain.status}, {plain.report['mmap']} calls: "
                               f"{plain.err[-500:]}")
        return result
    ks = list(SAMPLE) if sample else list(range(1, MOST + 1))
    kinds = ("any", "munmap", "madvise", "mremap") if sample else KINDS
    for kind in kinds:
        if kind != "any" and plain.report[kind] == 0 and not case.is_stress:
            continue
        for error in ("ENOMEM",) if sample else ("ENOMEM", "EAGAIN"):
            for count in (1, WHILE):
                options = ["--kind", kind, "--error", error, "--count", str(count)]
                runner.series(case, plain, ks, options, result)
    return result


def limit_mappings(runner: Runner, case: Case, sample: bool) -> Result:
    """The stress test where a process may have no more than so many mappings."""
    result = Result()
    plain = runner.run(case, ["--mappings", "1000000"])
    if plain.status == SKIP:
        print("skipped: this system permits no tracing")
        sys.exit(SKIP)
    few = plain.report["mappings"]
    print(f"mappings: {few} at most without a limit")
    for most in range(few - 3, few // 2, -max(1, few // (12 if sample else 60))):
        if most <= few * 3 // 4 and result.refused:  # one run needs a third more than another: threads decide
            break
        run = runner.run(case, ["--mappings", str(most)])
        result.runs += 1
        result.refused += run.report["refused_any"]
        wrong = runner.judge(case, plain, run, result)
        if wrong:
            result.failures.append(f"refuse --mappings {most}: {wrong}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description="Refuses system calls of the library, one after another.")
    parser.add_argument("--refuse", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--stress")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--sample", action="store_true")
    which.add_argument("--all", action="store_true")
    parser.add_argument("case", nargs="*")
    arguments = parser.parse_args()
    os.environ["LC_ALL"] = "C"
    runner = Runner(str(Path(arguments.refuse).resolve()), str(Path(arguments.library).resolve()), arguments.jobs)
    known = cases(arguments.stress)
    failed = False
    if "stress" in known:
        known["mappings"] = known["stress"]
    names = arguments.case or [*known]
    for name in names:
        if name not in known:
            print(f"{name}: skipped, not found here")
            if names == [name]:
                return SKIP
            continue
        begin = time.monotonic()
        result = (limit_mappings if name == "mappings" else inject)(runner, known[name], not arguments.all)
        print(f"{name}: {result.runs} runs, {result.refused} calls refused, {len(result.failures)} failures, "
              f"{time.monotonic() - begin:.0f} s; unaffected {result.unaffected}, "
              f"own error {result.own_error.total()}, signal in its own code {result.elsewhere.total()}; "
              f"at most {result.worst_resident_kib} KiB more resident, {result.worst_mapped_kib} more mapped",
              flush=True)
        for what, count in (result.own_error + result.elsewhere).most_common(12):
            print(f"    {count} x {what}")
        for failure in result.failures[:20]:
            print(f"    FAILED: {failure}")
        failed |= bool(result.failures) or result.runs == 0 or result.refused == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
