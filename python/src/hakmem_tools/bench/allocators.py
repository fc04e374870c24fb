# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: the allocators, their libraries and versions.

Who uses it: runner, cli and bench/demo.py. Standard library only; it installs and builds nothing.
"""

import ctypes.util
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_tools.bench.places import HOW_TO_BUILD, BenchError, Places

# name: Debian package, file name; found in the folders that the dynamic linker knows.
DEBIAN = {
    "jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
    "tcmalloc-minimal": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
    "mimalloc-debian": ("libmimalloc2.0", "libmimalloc.so.2.0"),
}
# Built by tools/build-peers.sh.
BUILT = ("mimalloc2", "mimalloc3", "snmalloc", "rpmalloc", "jemalloc531", "tcmalloc")
# mimalloc-debian is mimalloc2 of some years ago, so it is measured only when asked for.
DEFAULT = (
    *("hakmem", "glibc", "jemalloc", "jemalloc531", "mimalloc2", "mimalloc3", "snmalloc"),
    *("rpmalloc", "tcmalloc", "tcmalloc-minimal"),
)

WHAT = {
    "hakmem": "this allocator",
    "glibc": "the C library's own",
    "jemalloc": "Debian's jemalloc",
    "jemalloc531": "the latest jemalloc",
    "mimalloc2": "mimalloc, its v2 line",
    "mimalloc3": "mimalloc, its v3 line",
    "mimalloc-debian": "Debian's mimalloc",
    "snmalloc": "snmalloc",
    "rpmalloc": "rpmalloc",
    "tcmalloc": "Google's tcmalloc",
    "tcmalloc-minimal": "Debian's gperftools tcmalloc",
}

# Google's tcmalloc keeps a cache for each CPU only where glibc has not taken the kernel's rseq area first.
ENVIRONMENT = {"tcmalloc": {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}}

LINKER_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib")
SET_UP = "run tools/setup-bench.sh in a source tree"


@dataclass(frozen=True)
class Allocator:
    """A library to preload; an empty path stands for the C library's own malloc."""

    name: str
    library: str
    version: str
    origin: str = ""
    """Where it comes from: a Debian package, a cargo package, a path."""
    environment: dict[str, str] = field(default_factory=dict)
    """What it needs to run at its best, set for its runs only."""


@dataclass(frozen=True)
class Missing:
    """An allocator that is not there, and why."""

    name: str
    reason: str


def digest(library: Path) -> str:
    """A short name for the contents of a library, which tells two builds apart."""
    return "sha256 " + hashlib.sha256(library.read_bytes()).hexdigest()[:12]


def package_version(package: str) -> str:
    """The version of a Debian package; "unknown" elsewhere."""
    if shutil.which("dpkg-query") is None:
        return "unknown"
    query = ["dpkg-query", "-W", "-f", "${Version}", package]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def hakmem_version(library: Path) -> str:
    """The library's own word for its version and the digest; the digest alone for another library."""
    code = (
        "import ctypes; f = ctypes.CDLL(None).hakmem_version; f.restype = ctypes.c_char_p;"
        "print(f().decode())"
    )
    python = shutil.which("python3", path="/usr/bin:/bin") or "python3"
    done = subprocess.run(
        [python, "-c", code],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.strip() if done.returncode == 0 else ""
    return f"{said} ({digest(library)})" if said else digest(library)


def libc_path() -> str:
    """glibc itself as a library to preload, for programs that are linked with another allocator."""
    for folder in ("/lib/x86_64-linux-gnu", *LINKER_FOLDERS):
        path = Path(folder) / (ctypes.util.find_library("c") or "libc.so.6")
        if path.is_file():
            return str(path)
    raise BenchError("the C library libc.so.6 was not found")


def find_debian(name: str) -> Allocator | Missing:
    """A peer that the distribution has."""
    package, file_name = DEBIAN[name]
    for folder in LINKER_FOLDERS:
        path = Path(folder) / file_name
        if path.is_file():
            return Allocator(name, str(path), package_version(package), f"Debian {package}")
    return Missing(name, f"not installed: apt-get install {package}, or {SET_UP}")


def find_built(name: str, peers: Path) -> Allocator | Missing:
    """A peer that tools/build-peers.sh built, or its reason why it could not."""
    record = peers / "peers.json"
    try:
        entries = json.loads(record.read_text(encoding="utf-8"))["peers"]
        entry = next(e for e in entries if e["name"] == name)
    except (OSError, ValueError, KeyError, StopIteration):
        return Missing(name, f"not built: {SET_UP}")
    if "problem" in entry:
        return Missing(name, f"could not be built: {entry['problem']}")
    library = peers / str(entry["library"])
    if not library.is_file():
        return Missing(name, f"{library} is gone: {SET_UP}")
    environment = ENVIRONMENT.get(name, {})
    return Allocator(name, str(library), entry["version"], f"cargo {entry['package']}", environment)


def find(name: str, places: Places) -> Allocator | Missing:
    """An allocator by name."""
    if name == "glibc":
        return Allocator(name, "", package_version("libc6"), "Debian libc6")
    if name == "hakmem":
        if not places.library.is_file():
            raise BenchError(f"{places.library} is not built: {HOW_TO_BUILD}")
        return Allocator(name, str(places.library), hakmem_version(places.library), "this tree")
    if name in DEBIAN:
        return find_debian(name)
    if name in BUILT:
        return find_built(name, places.peers)
    known = ", ".join(("hakmem", "glibc", *DEBIAN, *BUILT))
    raise BenchError(
        f"unknown allocator '{name}': there are {known}; give others as --lib NAME=PATH"
    )


def find_extra(spec: str) -> Allocator:
    """An allocator given as NAME=PATH."""
    name, _, path = spec.partition("=")
    library = Path(path).absolute()
    if not re.fullmatch(r"[\w.+-]+", name) or not path:
        raise BenchError(
            f"--lib '{spec}': give it as NAME=PATH, for example old=/tmp/libhakmem.so; "
            "NAME has letters, digits and . _ + - alone"
        )
    if not library.is_file():
        raise BenchError(f"--lib {spec}: there is no file {path}")
    return Allocator(name, str(library), hakmem_version(library), "given with --lib")


def check_preload(allocator: Allocator) -> str:
    """Why the library cannot be preloaded; empty when it can. The dynamic linker would only warn."""
    if not allocator.library:
        return ""
    maps = subprocess.run(
        ["cat", "/proc/self/maps"],
        env={**os.environ, **allocator.environment, "LD_PRELOAD": allocator.library},
        capture_output=True,
        text=True,
        check=False,
    )
    if str(Path(allocator.library).resolve()) in maps.stdout:
        return ""
    reason = maps.stderr.strip() or "no message"
    return f"{allocator.library} cannot be preloaded (status {maps.returncode}): {reason}"


def choose(
    wanted: Sequence[str], extra: Sequence[str], places: Places
) -> tuple[list[Allocator], list[Missing]]:
    """The allocators to measure. One asked for by name must be there; a default one may be missing."""
    found: list[Allocator] = []
    missing: list[Missing] = []
    for name in wanted or DEFAULT:
        answer = find(name, places)
        if isinstance(answer, Allocator):
            found.append(answer)
        elif wanted:
            raise BenchError(f"{name} is {answer.reason}")
        else:
            missing.append(answer)
    found += [find_extra(spec) for spec in extra]
    if len({a.name for a in found}) != len(found):
        raise BenchError("two allocators have the same name: give each another one")
    usable = []
    for allocator in found:
        problem = check_preload(allocator)
        if problem and (
            allocator.name == "hakmem" or wanted or allocator.origin.startswith("given")
        ):
            raise BenchError(problem)
        if problem:
            missing.append(Missing(allocator.name, problem))
        else:
            usable.append(allocator)
    return usable, missing
