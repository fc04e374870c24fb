# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: where programs, libraries and peers are, in a source tree or an installation.

Who uses it: everything here and bench/demo.py. Standard library only; it creates nothing.
"""

import os
from dataclasses import dataclass
from pathlib import Path

HOW_TO_BUILD = (
    "run `make bench-quick`, or `cmake --preset release && cmake --build --preset release`"
)


class BenchError(Exception):
    """Something that the person who started the measurement can mend; says how."""


@dataclass(frozen=True)
class Places:
    """The folders that a measurement needs."""

    programs: Path
    """The launcher and our benchmark programs."""
    library: Path
    """libhakmem.so."""
    peers: Path
    """The allocators that tools/build-peers.sh built, with peers.json."""
    real: Path
    """Work for the real programs."""
    sources: Path
    """Our benchmark programs, for the compilers."""
    demo: Path
    """More of it, which `make run` uses too."""
    results: Path
    """Where results go unless --output is given."""
    shown_root: Path
    """Paths below this one are shown relative to it."""
    command: Path | None = None
    """The hakmem command, where it is known."""

    def shown(self, path: str) -> str:
        """A path as a report names it."""
        if path and Path(path).is_relative_to(self.shown_root):
            return str(Path(path).relative_to(self.shown_root))
        return path


def source_tree() -> Path | None:
    """The source tree that this package lies in, if it does."""
    root = Path(__file__).resolve().parents[4]
    return root if (root / "bench" / "programs").is_dir() else None


def given_command() -> Path | None:
    """HAKMEM_COMMAND, if it is set."""
    given = os.environ.get("HAKMEM_COMMAND")
    return Path(given) if given else None


def in_source(root: Path, build: Path | None) -> Places:
    """The places in a source tree; `build` is build/release unless given."""
    build = (build or root / "build" / "release").absolute()
    return Places(
        programs=build / "bench",
        library=build / "libhakmem.so",
        peers=root / "build" / "peers",
        real=root / "bench" / "real",
        sources=root / "bench" / "programs",
        demo=root / "bench" / "demo",
        results=root / "build" / "bench-results",
        shown_root=root,
        command=given_command() or build / "hakmem",
    )


def installed(home: Path) -> Places:
    """The places of an installation; `home` is PREFIX/libexec/hakmem."""
    library = os.environ.get("HAKMEM_BENCH_LIBRARY", str(home / "libhakmem.so"))
    return Places(
        programs=home / "bench",
        library=Path(library),
        peers=Path(os.environ.get("HAKMEM_BENCH_PEERS", str(home / "peers"))),
        real=home / "real",
        sources=home / "sources",
        demo=home / "demo",
        results=Path.cwd(),
        shown_root=home,
        command=given_command(),
    )


def find(build: Path | None = None) -> Places:
    """An installation (HAKMEM_BENCH_HOME) or a source tree (HAKMEM_BENCH_BUILD is its build).

    hakmem-bench sets these.
    """
    home = os.environ.get("HAKMEM_BENCH_HOME")
    if build is None and "HAKMEM_BENCH_BUILD" in os.environ:
        build = Path(os.environ["HAKMEM_BENCH_BUILD"])
    if home and build is None:
        return installed(Path(home))
    root = source_tree()
    if root is None:
        raise BenchError(
            "the benchmark programs were not found: use the hakmem-bench of an installation or of "
            "a source tree, or set HAKMEM_BENCH_HOME to PREFIX/libexec/hakmem"
        )
    return in_source(root, build)
