#!/usr/bin/env python3
"""Makes the examples in docs/ anew: runs the commands that they show on a small server and puts in what comes out.

    tools/examples.py [NAME...]

Needs build/release (`make`), build/venv (tools/setup-venv.sh) and gdb. An example is a line `<!-- example: NAME -->`
and the fenced block behind it; without NAME all are made. Numbers differ from run to run: see them before a commit.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("TEST_HAKMEM_BUILD", str(ROOT / "build" / "release")))
DOCS = ROOT / "docs"
LINES = 18
BLOCK = re.compile(r"(<!-- example: ([\w-]+) -->\n```\w*\n)(.*?)(```\n)", re.DOTALL)


def environment() -> dict[str, str]:
    """For all commands: 80 columns, no colours."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return {**kept, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}


def run(*words: str) -> str:
    """What a command prints; it has to end well."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
                          env=environment(), cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def hakmem(*words: str) -> str:
    """What the hakmem command of the build prints."""
    return run(str(BUILD / "hakmem"), *words)


@contextlib.contextmanager
def workload(entries: int = 60_000, **variables: str) -> Iterator[int]:
    """The server under hakmem, as its PID; it ends with the block."""
    words = [str(BUILD / "hakmem"), "run", "--", "/usr/bin/python3", str(ROOT / "tools" / "examples_workload.py")]
    words.append(str(entries))
    env = {**environment(), "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1", **variables}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            assert server.stdout is not None
            if server.stdout.readline() != "ready\n":
                raise SystemExit("the server did not start")
            yield server.pid
        finally:
            server.kill()


def top(view: str) -> Callable[[int], str]:
    """A page of hakmem top, the second: with rates."""

    def page(pid: int) -> str:
        pages = hakmem("top", "-b", "-n", "2", "-d", "2", "--view", view, str(pid))
        lines = f"hakmem top{pages.split('hakmem top')[2]}".splitlines()
        return "\n".join(lines[:LINES] + (["..."] if len(lines) > LINES else []))

    return page


def top_sites(_: int) -> str:
    """The same of call sites, of a server that takes samples."""
    with workload(HAKMEM_PROF="1", HAKMEM_PROF_SAMPLE_BYTES="16384", HAKMEM_PROF_FILE="/dev/null") as pid:
        return top("sites")(pid)


def map_text(pid: int) -> str:
    """The map on a terminal."""
    return hakmem("map", "--limit", "12", str(pid))


def map_picture(pid: int) -> str:
    """The picture in the page, and the command that made it."""
    hakmem("map", "--png", "-o", str(DOCS / "pictures" / "map.png"), str(pid))
    return "$ hakmem map --png -o map.png $(pgrep -x server)\n"


def gdb(*commands: str) -> Callable[[int], str]:
    """A session with gdb on the program of gdb's tests, without what gdb says of itself."""

    def session(_: int) -> str:
        words = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-x", "tools/gdb/hakmem-gdb.py"]
        words += ["-ex", f"set exec-wrapper env LD_PRELOAD={BUILD / 'libhakmem.so'}", "-ex", "break stop", "-ex", "run"]
        for command in commands:
            words += ["-ex", f"echo \\n(gdb) {command}\\n", "-ex", command]
        text = run(*words, str(BUILD / "tests" / "gdb" / "gdb_blocks"))
        return "(gdb)" + text.partition("\n(gdb)")[2].replace("\n\n(gdb)", "\n(gdb)")

    return session


PROFILED = BUILD / "tests" / "profile" / "profile_program"


def sampled(folder: Path, **options: str) -> str:
    """Runs the program of the profiler's tests under the profiler; returns what it says on stderr."""
    env = {**environment(), "LD_PRELOAD": str(BUILD / "libhakmem.so"), "HAKMEM_PROF_FILE": str(folder / "server.prof")}
    done = subprocess.run([PROFILED], env=env | options, capture_output=True, text=True, check=True, timeout=60)
    return done.stderr


def prof(*words: str) -> Callable[[int], str]:
    """A report on that program's profile."""

    def report(_: int) -> str:
        with tempfile.TemporaryDirectory() as folder:
            sampled(Path(folder), HAKMEM_PROF="1")
            text = hakmem("prof", words[0], str(Path(folder) / "server.prof"), *words[1:])
            return "\n".join(line.rstrip() for line in text.splitlines())

    return report


def pprof(_: int) -> str:
    """The same in Go's tool."""
    with tempfile.TemporaryDirectory() as folder:
        sampled(Path(folder), HAKMEM_PROF="1")
        packed = Path(folder) / "server.pb.gz"
        hakmem("prof", "pprof", str(Path(folder) / "server.prof"), "-o", str(packed))
        text = run("go", "tool", "pprof", "-top", "-nodecount=6", str(packed))
        return f"$ hakmem prof pprof server.prof -o server.pb.gz\n$ go tool pprof -top server.pb.gz\n{text}"


def raw(_: int) -> str:
    """The file itself, its long lines cut."""
    with tempfile.TemporaryDirectory() as folder:
        sampled(Path(folder), HAKMEM_PROF="1")
        lines = (Path(folder) / "server.prof").read_text(encoding="utf-8").splitlines()
        at = lines.index("mappings")
        cut = [line if len(line) <= 100 else f"{line[:97]}..." for line in lines[: at + 2]]
        return "\n".join([*cut, "...", lines[-1]]).replace(str(PROFILED.parent), "/srv")


def leaks(_: int) -> str:
    """What is not freed, by the program itself at its end."""
    with tempfile.TemporaryDirectory() as folder:
        lines = sampled(Path(folder), HAKMEM_PROF_LEAKS="1").splitlines()
        text = "\n".join(line for line in lines[:13] if "/lib/" not in line)
        return f"$ HAKMEM_PROF_LEAKS=1 hakmem run -- ./server\n{text}\n..."


EXAMPLES: dict[str, Callable[[int], str]] = {
    "top-classes": top("classes"),
    "top-threads": top("threads"),
    "top-memory": top("memory"),
    "top-sites": top_sites,
    "top-help": lambda _: hakmem("top", "--help"),
    "map": map_text,
    "map-picture": map_picture,
    "map-help": lambda _: hakmem("map", "--help"),
    "gdb-whereis": gdb("hakmem whereis live", "hakmem whereis in_bin", "hakmem whereis (char *) in_large + 5000"),
    "gdb-heap": gdb("hakmem heap"),
    "timeline-help": lambda _: hakmem("timeline", "--help"),
    "prof-top": prof("top"),
    "prof-pprof": pprof,
    "prof-leaks": leaks,
    "prof-raw": raw,
    "prof-help": lambda _: hakmem("prof", "--help"),
}


def used() -> dict[str, Path]:
    """The names of the examples in docs/, and where they are."""
    return {match.group(2): page for page in sorted(DOCS.glob("*.md"))
            for match in BLOCK.finditer(page.read_text(encoding="utf-8"))}


def put(page: Path, name: str, text: str) -> None:
    """Replaces an example's block."""
    old = page.read_text(encoding="utf-8")
    new = BLOCK.sub(lambda m: f"{m.group(1)}{text.rstrip()}\n{m.group(4)}" if m.group(2) == name else m.group(0), old)
    page.write_text(new, encoding="utf-8")


def main() -> None:
    wanted = sys.argv[1:] or list(EXAMPLES)
    places = used()
    for name in wanted:
        if name not in EXAMPLES or name not in places:
            raise SystemExit(f"no example {name}: there are {', '.join(EXAMPLES)}, in docs/ {', '.join(places)}")
    with workload() as pid:
        time.sleep(1)
        for name in wanted:
            print(f"{name} ...", flush=True)
            put(places[name], name, EXAMPLES[name](pid))


if __name__ == "__main__":
    main()
