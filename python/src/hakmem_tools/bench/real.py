# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: real programs, with work whose output must be the same under all allocators.

A program that is not installed is reported as skipped, with the package that has it
(tools/setup-bench.sh installs them all). Who uses it: suite. Nothing runs when it is imported.
"""

import subprocess
import time
from pathlib import Path

from hakmem_tools.bench.places import BenchError, Places
from hakmem_tools.bench.suite import Benchmark, words

PYTHON_MALLOC = {"PYTHONMALLOC": "malloc"}
GIT_ALONE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_PAGER": "cat"}
START_SECONDS = 20.0


def program(
    name: str,
    package: str,
    full: str,
    quick: str,
    what: str,
    **more: object,
) -> Benchmark:
    """A program of the system."""
    return Benchmark(
        name,
        "real",
        what,
        words(full),
        words(quick),
        package=package,
        **more,  # type: ignore[arg-type]
    )


# ---- input that is made ----


def make_small_sql(work: Path, places: Places) -> None:
    """The demonstration's SQL, and the same with a tenth of the rows."""
    text = (places.demo / "workload.sql").read_text(encoding="utf-8")
    text = text.replace("i < 130000", "i < 60000").replace("i < 20000", "i < 10000")
    small = text.replace("i < 60000", "i < 6000").replace("i < 10000", "i < 1000")
    (work / "small.sql").write_text(small, encoding="utf-8")
    (work / "full.sql").write_text(text, encoding="utf-8")


def queens(size: int) -> str:
    """The queens of a chess board as a problem of integers for z3."""
    lines = ["(set-option :smt.random_seed 1)", "(set-option :sat.random_seed 1)"]
    lines += [f"(declare-const q{i} Int)" for i in range(size)]
    lines += [f"(assert (and (<= 0 q{i}) (< q{i} {size})))" for i in range(size)]
    for i in range(size):
        for j in range(i + 1, size):
            apart = f"(distinct (- q{i} q{j}) {j - i} (- {j - i}))"
            lines.append(f"(assert (and (distinct q{i} q{j}) {apart}))")
    values = " ".join(f"q{i}" for i in range(size))
    return "\n".join([*lines, "(check-sat)", f"(get-value ({values}))"]) + "\n"


def make_queens(work: Path, _: Places) -> None:
    """Problems of two sizes."""
    for name, size in (("small", 8), ("full", 20)):
        (work / f"{name}.smt2").write_text(queens(size), encoding="utf-8")


def history(commits: int) -> str:
    """A stream for git fast-import: each commit changes a few of 60 files."""
    out = []
    lines: dict[str, list[str]] = {}
    for number in range(commits):
        message = f"Change {number}\n"
        who = f"committer Bench <bench@localhost> {1700000000 + number * 60} +0000"
        out.append(f"commit refs/heads/main\n{who}\ndata {len(message)}\n{message}")
        for step in range(number % 3 + 1):
            name = f"src/part{(number * 7 + step * 13) % 60}.txt"
            file = lines.setdefault(name, [f"line {i} of {name}" for i in range(40)])
            file[(number * 11 + step) % len(file)] = f"changed by {number}"
            if number % 5 == 0:
                file.append(f"added by {number}")
            content = "\n".join(file) + "\n"
            out.append(f"M 100644 inline {name}\ndata {len(content)}\n{content}")
        out.append("")
    return "\n".join(out)


def make_repository(work: Path, _: Places) -> None:
    """A repository with a history, the same every time."""
    git = ["git", "-C", str(work / "repository")]
    subprocess.run(
        ["git", "init", "-q", "-b", "main", str(work / "repository")],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        [*git, "fast-import", "--quiet"],
        input=history(4000),
        text=True,
        check=True,
        capture_output=True,
    )


# ---- redis: a server and its client ----

FILL = """
for i = 1, tonumber(ARGV[1]) do
    redis.call('hset', 'h' .. i % 500, i, string.rep('v', i % 300))
    redis.call('rpush', 'l' .. i % 50, string.rep('w', i % 90))
    if i % 3 == 0 then redis.call('set', 's' .. i, string.rep('x', i % 2000)) end
end
local sum = 0
for i = 0, 499 do
    for _, v in ipairs(redis.call('hvals', 'h' .. i)) do sum = sum + #v end
end
return {sum, redis.call('dbsize'), redis.call('llen', 'l7')}
"""


def ask_redis(socket: Path, *command: str) -> str:
    """One command to the server."""
    done = subprocess.run(
        ["redis-cli", "-s", str(socket), *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise BenchError(f"redis-cli {command[0]}: {done.stdout}{done.stderr}".strip())
    return done.stdout


def wait_for_redis(socket: Path) -> None:
    """Until the server answers."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if socket.exists():
            try:
                if ask_redis(socket, "ping").strip() == "PONG":
                    return
            except (BenchError, subprocess.TimeoutExpired):
                pass
        time.sleep(0.02)
    raise BenchError(f"the server did not answer within {START_SECONDS:.0f} s")


def use_redis(work: Path, quick: bool) -> tuple[int, str]:
    """redis-benchmark's load, then work with a result that can be checked; ends the server."""
    socket = work / "redis.sock"
    wait_for_redis(socket)
    requests = "5000" if quick else "30000"
    load = ["-t", "set,get,lpush,lpop,sadd,hset", "-n", requests, "-r", "20000", "-d", "300"]
    begin = time.monotonic_ns()
    try:
        done = subprocess.run(
            ["redis-benchmark", "-s", str(socket), "-P", "16", "-c", "20", "--csv", *load],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        if done.returncode != 0 or '"SET"' not in done.stdout:
            raise BenchError(f"redis-benchmark failed: {done.stdout}{done.stderr}".strip()[:200])
        ask_redis(socket, "flushall", "sync")
        answer = ask_redis(socket, "eval", FILL, "0", "3000" if quick else "30000")
        elapsed = time.monotonic_ns() - begin
        ask_redis(socket, "shutdown", "nosave")
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"no answer within {error.timeout:.0f} s") from error
    finally:
        socket.unlink(missing_ok=True)
    return elapsed, answer


REDIS = (
    *("--port", "0", "--unixsocket", "{work}/redis.sock", "--dir", "{work}"),
    *("--save", "", "--appendonly", "no"),
)

REAL: tuple[Benchmark, ...] = (
    program(
        "python3-json",
        "python3",
        "/usr/bin/python3 {demo}/workload.py 25",
        "{demo}/workload.py 2",
        "JSON and strings, all objects from malloc",
        environment=PYTHON_MALLOC,
    ),
    program(
        "python3-objects",
        "python3",
        "/usr/bin/python3 {real}/objects.py 60",
        "{real}/objects.py 5",
        "a changing population of objects, all from malloc",
        environment=PYTHON_MALLOC,
    ),
    program(
        "python3-text",
        "python3",
        "/usr/bin/python3 {real}/text.py 25",
        "{real}/text.py 2",
        "text, with Python's own allocator for small objects",
    ),
    Benchmark(
        "sqlite3",
        "real",
        "an in-memory database: fill, index, join, update, delete",
        ("sqlite3", ":memory:", ".read {work}/full.sql"),
        (":memory:", ".read {work}/small.sql"),
        package="sqlite3",
        prepare=make_small_sql,
    ),
    Benchmark(
        "redis",
        "real",
        "a server under redis-benchmark's load; the time is the client's",
        ("redis-server", *REDIS),
        REDIS,
        package="redis-server",
        client=use_redis,
        own_allocator=True,
    ),
    program(
        "gcc",
        "g++",
        "gcc -O2 -std=c++17 -c {sources}/cxx_maps.cpp -o {work}/out.o",
        "-O2 -D_GNU_SOURCE -c {sources}/larson.c -o {work}/out.o",
        "gcc -O2 compiles a C++ program of ours",
        results=("out.o",),
        rounds_most=3,
    ),
    program(
        "clang",
        "clang-19",
        "clang-19 -O2 -std=c++17 -c {sources}/cxx_maps.cpp -o {work}/out.o",
        "-O2 -D_GNU_SOURCE -c {sources}/larson.c -o {work}/out.o",
        "clang -O2 compiles the same",
        results=("out.o",),
        rounds_most=3,
    ),
    program(
        "z3",
        "z3",
        "z3 {work}/full.smt2",
        "{work}/small.smt2",
        "a solver places queens on a board",
        prepare=make_queens,
    ),
    program(
        "perl",
        "perl",
        "perl {real}/work.pl 20",
        "{real}/work.pl 2",
        "hashes of arrays of strings, patterns, sorting",
    ),
    program(
        "lua",
        "lua5.4",
        "lua5.4 {real}/work.lua 80",
        "{real}/work.lua 8",
        "tables, strings, garbage collection",
    ),
    program(
        "node",
        "nodejs",
        "node {real}/work.js 40",
        "{real}/work.js 4",
        "buffers from malloc, JSON, compression",
    ),
    program(
        "git",
        "git",
        "git -C {work}/repository log --stat",
        "-C {work}/repository log --stat -n 150",
        "log --stat of a repository with 4,000 commits",
        environment=GIT_ALONE,
        prepare=make_repository,
    ),
    program(
        "ghostscript",
        "ghostscript",
        "gs -q -dSAFER -dPAGES=8 -sDEVICE=ppmraw -r100 -o {work}/out.ppm {real}/pages.ps",
        "-q -dSAFER -dPAGES=1 -sDEVICE=ppmraw -r50 -o {work}/out.ppm {real}/pages.ps",
        "renders pages of text and curves",
        results=("out.ppm",),
    ),
)
