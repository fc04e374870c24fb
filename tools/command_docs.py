#!/usr/bin/env python3
"""Makes the examples in docs/stat.md, docs/doctor.md, docs/explain.md and docs/examples/stat.json: real output of the command.

    command_docs.py [--build FOLDER] [--check]

--check writes nothing and fails if what the command prints now has another structure: other lines or members, whatever
the numbers are.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = """
import sys, threading
x = [bytes(i % 3000) for i in range(30000)]
del x[::2]
y = [bytes(200000) for i in range(30)]
threading.Thread(target=sys.stdin.read).start()
print("ready", flush=True)
"""
GREEDY = "while len(x) < 9999: x.append(bytes(20000))"
DOCTOR = {
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/sys/vm/max_map_count": "65530\n",
    "proc/meminfo": "MemTotal: 4194304 kB\n",
    "proc/4711/status": "VmSize: 900000 kB\n",
    "proc/4711/cgroup": "0::/server\n",
    "proc/4711/maps": "7f00-7f01 r-xp 00000000 00:00 1 /usr/lib/libhakmem.so\n7f01-7f02 r-xp 00000000 00:00 2 /usr/lib/libjemalloc.so.2\n",
    "sys/fs/cgroup/server/memory.max": "1073741824\n",
    "sys/fs/cgroup/server/memory.current": "1052770304\n",
}


class Examples:
    """The command and the library of a build, and what they print."""

    def __init__(self, build: Path) -> None:
        self.command = build / "hakmem"
        self.library = build / "libhakmem.so"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_"))}
        self.environment = kept | {"PYTHONMALLOC": "malloc", "LC_ALL": "C"}

    def hakmem(self, *words: str, status: int = 0) -> str:
        done = subprocess.run([str(self.command), *words], capture_output=True, text=True, env=self.environment)
        if done.returncode != status:
            sys.exit(f"hakmem {' '.join(words)}: {done.stderr}")
        return done.stdout

    def running(self, source: str, **env: str) -> subprocess.Popen:
        return subprocess.Popen(["python3", "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env=self.environment | {"LD_PRELOAD": str(self.library)} | env)

    def stat(self) -> tuple[str, dict]:
        process = self.running(WORK, HAKMEM_PROF="1", HAKMEM_PROF_FILE="/dev/null")
        process.stdout.readline()
        text = self.hakmem("stat", str(process.pid))
        stat = json.loads(self.hakmem("stat", "--superslabs", str(process.pid)))
        process.communicate("")
        stat["classes"] = [c for c in stat["classes"] if c["live_blocks"]][:2]
        stat["superslabs"] = stat["superslabs"][:1]
        stat["superslabs"][0]["slots"] = stat["superslabs"][0]["slots"][:3]
        return f"    $ hakmem stat {process.pid}\n" + indent(text), stat

    def doctor(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in DOCTOR.items():
                file = Path(folder, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
            return "    $ hakmem doctor 4711\n" + indent(self.hakmem("doctor", "--root", folder, "4711", status=1))

    def explain(self) -> str:
        process = self.running("import sys\nx = []\ntry:\n " + GREEDY + "\nexcept MemoryError:\n print('', flush=True)\nsys.stdin.read()",
                               HAKMEM_LIMIT_MB="16")
        process.stdout.readline()
        text = self.hakmem("explain", str(process.pid))
        process.communicate("")
        return f"    $ hakmem explain {process.pid}\n" + indent(text)


def indent(text: str) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def place(page: str, name: str, text: str) -> str:
    """The page with its example replaced."""
    pattern = re.compile(rf"(<!-- example: {name} -->\n).*?(<!-- end -->)", re.S)
    if not pattern.search(page):
        sys.exit(f"no place for the example {name}")
    return pattern.sub(lambda m: m.group(1) + "\n" + text + "\n" + m.group(2), page)


def structure(text: str) -> list[str]:
    """Lines without what varies: numbers, units, bars; those that are only there if they are not 0."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"[#.]{20,}|[-+]?\d+(\.\d+)*(th)?|\b([KMGT]i)?B\b", "#", line)
        line = re.sub(r" checked$", "", re.sub(r"\s+", " ", line))
        if not re.search(r"^ (freed huge blocks|in transition) |are in swap|that were never used$", line):
            lines.append(line)
    return lines


def members(value: object) -> object:
    """The names of all members, whatever their values; of an array those of all items."""
    if isinstance(value, dict):
        return {key: members(item) for key, item in value.items()}
    if isinstance(value, list):
        found: dict = {}
        for item in value:
            inner = members(item)
            if isinstance(inner, dict):
                found |= inner
        return [found]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the examples in docs/ of the command's real output.")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("python3") is None or not (arguments.build / "hakmem").exists():
        sys.exit(f"needs python3 and a build in {arguments.build}")
    examples = Examples(arguments.build.resolve())
    text, stat = examples.stat()
    pages = {"stat": text, "doctor": examples.doctor(), "explain": examples.explain()}
    stale = []
    for name, example in pages.items():
        path = ROOT / "docs" / f"{name}.md"
        old = path.read_text(encoding="utf-8")
        new = place(old, name, example)
        if not arguments.check:
            path.write_text(new, encoding="utf-8")
        elif structure(old) != structure(new):
            stale.append("\n".join(difflib.unified_diff(structure(old), structure(new), f"docs/{name}.md", "now", lineterm="")))
    path = ROOT / "docs" / "examples" / "stat.json"
    if not arguments.check:
        path.write_text(json.dumps(stat, indent=1) + "\n", encoding="utf-8")
    elif members(json.loads(path.read_text(encoding="utf-8"))) != members(stat):
        stale.append("docs/examples/stat.json has other members")
    for problem in stale:
        print(f"{problem}\nnot up to date; run tools/command_docs.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
