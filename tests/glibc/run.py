#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The C library's own tests under hakmem: those of malloc, threads, processes, stdio and the loader.

    tests/glibc/run.py [--lib build/release/libhakmem.so] [--hardened build/release/libhakmem-hardened.so]
                       [--work build/glibc] [--jobs 2] [DIRECTORY/TEST...]

Builds Debian's glibc from the package glibc-source, with its tests (on 2 cores a quarter of an hour, 2 GB
below --work; only once), and runs each test program with that glibc three times: as it is, with the library
preloaded, and with the hardened one. Its exit status has to be the same, but for the tests of DIFFERENCES.
Programs that fail as they are, because they need what only glibc's own make gives them, are counted and say
nothing. What differs is run once more by itself before it is believed: some tests wait by the clock.

Exit status 0: nothing differs but what is known; 1: something does, or a known difference is gone;
2: it cannot be built, or there is no such test.
Who runs it: a person, after tools/setup-glibc.sh. It writes below --work alone, and stops what it has started.
"""

import argparse
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

DIRECTORIES = ("malloc", "stdlib", "libio", "dlfcn", "posix", "nptl", "elf")
SOURCE = Path("/usr/src/glibc")
SECONDS_MOST = 60
BOTH = frozenset({"default", "hardened"})
DEFAULT = frozenset({"default"})
# Tests that come out differently, under which of the libraries, and why that is right.
DIFFERENCES: dict[str, tuple[frozenset[str], str]] = {
    "malloc/tst-dynarray-fail": (
        BOTH,
        "wants the copy of an array to fail after the address space is used up; there is room",
    ),
    "malloc/tst-malloc-backtrace": (
        BOTH,
        "writes before a freed block and wants SIGABRT; it is SIGSEGV, no page is there",
    ),
    "malloc/tst-malloc-stats-cancellation": (
        BOTH,
        "wants the words that glibc's malloc_stats prints",
    ),
    "malloc/tst-mallocstate": (BOTH, "makes up a heap of glibc's as an old emacs dumped it"),
    "malloc/tst-mallopt": (
        frozenset({"hardened"}),
        "M_PERTURB is refused there: memory is cleared as it is",
    ),
    "malloc/tst-safe-linking": (
        BOTH,
        "writes into free blocks and wants to die of glibc's free lists; there are none in them",
    ),
    "malloc/tst-tcfree1": (DEFAULT, "ends before the bin with the double free is drained"),
    "malloc/tst-tcfree2": (DEFAULT, "the same"),
    "nptl/tst-key1": (BOTH, "creates all 1,024 keys for thread data; the library has one of them"),
    "nptl/tst-key4": (DEFAULT, "the same"),
    "elf/tst-recursive-tls": (
        BOTH,
        "counts calls of a malloc of its own, before which the preloaded one comes",
    ),
}


def build(work: Path, jobs: int) -> Path:
    """The directory of the built glibc and its tests."""
    archives = sorted(SOURCE.glob("glibc-*.tar.xz"))
    if not archives:
        raise SystemExit(f"{sys.argv[0]}: no glibc-*.tar.xz in {SOURCE}: run tools/setup-glibc.sh")
    source = work / archives[-1].name.removesuffix(".tar.xz")
    built = work / "build"
    log = work / "build.log"
    work.mkdir(parents=True, exist_ok=True)
    if not source.exists():
        with tarfile.open(archives[-1]) as archive:
            archive.extractall(work)
    built.mkdir(exist_ok=True)
    with log.open("w", encoding="utf-8") as out:

        def do(directory: Path, *command: str, check: bool = True) -> None:
            done = subprocess.run(command, cwd=directory, stdout=out, stderr=out, check=False)
            if check and done.returncode != 0:
                print(f"{sys.argv[0]}: {' '.join(command)} failed: see {log}", file=sys.stderr)
                raise SystemExit(2)

        if not (built / "config.make").exists():
            do(built, f"{source}/configure", "--prefix=/usr", "--disable-werror")
        if not (built / "libc.so").exists() or not (built / "elf/ld-linux-x86-64.so.2").exists():
            do(built, "make", f"-j{jobs}")
        for name in DIRECTORIES:  # some need a compiler that is not there: those are not run
            arguments = (
                f"subdir={name}",
                "..=../",
                f"objdir={built}",
                "run-built-tests=no",
                "tests",
            )
            do(source / name, "make", f"-j{jobs}", "-k", *arguments, check=False)
    return built


def is_program(path: Path) -> bool:
    """A dynamically linked test, not a library or an object of one."""
    if (
        not path.name.startswith(("tst", "test", "bug"))
        or "." in path.name
        or not os.access(path, os.X_OK)
    ):
        return False
    return path.is_file() and b"/ld-linux-x86-64.so.2\0" in path.read_bytes()


def play(built: Path, test: str, library: Path | None) -> str:
    """How the test ended: its status, "signal N", or that it did not end."""
    path = [built] + [
        built / name
        for name in ("nptl", "dlfcn", "math", "elf", "rt", "nss", "resolv", "malloc", "debug")
    ]
    loader = [
        str(built / "elf/ld-linux-x86-64.so.2"),
        "--library-path",
        ":".join(map(str, path)) + ":/lib/x86_64-linux-gnu",
    ]
    if library is not None:
        loader += ["--preload", str(library)]
    directory = built / Path(test).parent
    with subprocess.Popen(
        [*loader, f"./{Path(test).name}"],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as program:
        try:
            status = program.wait(SECONDS_MOST)
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):  # also what it has left behind
            os.killpg(program.pid, signal.SIGKILL)
    if status is None:
        return f"not done after {SECONDS_MOST} s"
    return f"signal {-status}" if status < 0 else str(status)


def compare(built: Path, test: str, libraries: dict[str, Path]) -> dict[str, str] | None:
    """Under which libraries it comes out differently, and how; None: it fails without any."""
    if play(built, test, None) != "0":
        return None
    return {
        name: how
        for name, library in libraries.items()
        if (how := play(built, test, library)) != "0"
    }


def judge(test: str, differs: dict[str, str]) -> str:
    """What is wrong with the outcome; empty: nothing."""
    expected = DIFFERENCES.get(test, (frozenset(), ""))[0]
    wrong = [f"{name}: {how}" for name, how in differs.items() if name not in expected]
    wrong += [
        f"{name}: no longer differs, take it out of DIFFERENCES"
        for name in sorted(expected - differs.keys())
    ]
    return "; ".join(wrong)


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lib", type=Path, default=Path("build/release/libhakmem.so"))
    parser.add_argument(
        "--hardened", type=Path, default=Path("build/release/libhakmem-hardened.so")
    )
    parser.add_argument("--work", type=Path, default=Path("build/glibc"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("tests", nargs="*", metavar="DIRECTORY/TEST")
    arguments = parser.parse_args()
    libraries = {"default": arguments.lib.resolve(), "hardened": arguments.hardened.resolve()}
    for library in libraries.values():
        if not library.exists():
            parser.error(f"{library}: not there; build it first: make")
    built = build(arguments.work.resolve(), arguments.jobs)
    found = (
        f"{name}/{path.name}"
        for name in DIRECTORIES
        for path in sorted((built / name).iterdir())
        if is_program(path)
    )
    tests = arguments.tests or list(found)
    for test in tests:
        if not (built / test).is_file():
            parser.error(f"{test}: no such test in {built}")
    same = alone = known = 0
    wrong: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs * 2) as pool:
        outcomes = list(pool.map(lambda test: compare(built, test, libraries), tests))
    for test, differs in zip(tests, outcomes, strict=True):
        if differs and judge(test, differs):
            differs = compare(built, test, libraries)
        if differs is None:
            alone += 1
            continue
        problem = judge(test, differs)
        if problem:
            wrong.append(f"{test}: {problem}")
        elif differs:
            known += 1
            print(f"{test}: {', '.join(sorted(differs))}: {DIFFERENCES[test][1]}")
        else:
            same += 1
    for line in wrong:
        print(f"DIFFERS {line}")
    print(
        f"{len(tests)} tests: {same} the same, {known} known to differ, {len(wrong)} differ, "
        f"{alone} fail without the library too"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
