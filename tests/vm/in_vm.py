#!/usr/bin/env python3
"""Runs a command in a virtual machine, for what depends on the kernel: the machine at hand has one, users have others.

    in_vm.py [OPTIONS] [--file SOURCE[:PLACE]]... -- COMMAND...

The machine is a kernel and a file system in memory: this system's Python with its modules, each SOURCE at PLACE (or
where it is here) with the libraries that it needs, and this file as the first process. That mounts /proc, /sys, /dev
and /tmp and runs COMMAND, whose output and exit status are passed on. The name `python3` stands for the Python.

The kernel is --kernel, else that of build/kernel (tools/setup-kernel.sh), else the oldest of /boot. Needs
qemu-system-x86_64; it emulates, so that it runs anywhere: booting takes ten seconds or so, and work some ten times
as long as outside. What is missing is said, and the exit status is 77.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import NoReturn

LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "ensurepip", "pydoc_data", "dist-packages", "site-packages",
            "tkinter", "turtledemo", "__pycache__"}
ORDER = "/in_vm.json"  # what the first process is to do
BEGINS = "in_vm: begins"
ENDED = "in_vm: ended with status "
SKIP = 77


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}")
    sys.exit(SKIP)


# ---- inside ----


def mount(kind: str, target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", target.encode(), kind.encode(), 0, None) != 0:
        print(f"in_vm: cannot mount {target} ({kind}): {os.strerror(ctypes.get_errno())}", flush=True)


def be_the_first_process() -> None:
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/dev/shm"),
                         ("tmpfs", "/tmp")):
        mount(kind, target)
    order = json.loads(Path(ORDER).read_text(encoding="utf-8"))
    if order["groups"]:
        mount("cgroup2", "/sys/fs/cgroup")
        Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+memory", encoding="ascii")
    os.environ.update(PATH="/usr/bin:/bin", HOME="/tmp", TMPDIR="/tmp")
    print(BEGINS, flush=True)
    try:
        status = subprocess.run(order["command"], stderr=subprocess.STDOUT, check=False).returncode
    except OSError as error:
        print(f"in_vm: {error}")
        status = 127
    print(f"\n{ENDED}{status}", flush=True)
    os.sync()
    ctypes.CDLL(None).reboot(0x4321FEDC)  # power off


# ---- outside ----


def version_of(kernel: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", kernel.name)]


def find_kernel() -> Path | None:
    """The oldest kernel of the set-up's, or of this system's: what is new is what this system runs on already."""
    root = Path(__file__).resolve().parents[2]
    for folder in (root / "build" / "kernel" / "boot", Path("/boot")):
        # Some systems let only root read theirs.
        kernels = [path for path in folder.glob("vmlinuz-*") if os.access(path, os.R_OK)]
        if kernels:
            return min(kernels, key=version_of)
    return None


def libraries_of(program: Path) -> list[Path]:
    """None for what is no dynamic ELF file."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return [Path(word) for word in done.stdout.split() if word.startswith("/") and not word.endswith(":")]


def contents(files: dict[str, Path]) -> dict[str, Path]:
    """What is in the file system, by its path there."""
    python = Path(sys.executable).resolve()
    standard = Path(sysconfig.get_path("stdlib"))
    modules = [path for path in standard.rglob("*") if not LEFT_OUT & set(path.relative_to(standard).parts)]
    found = {str(path): path for path in modules if path.is_file() and path.suffix in (".py", ".so")}
    for needs in (python, *files.values(), *(path for path in modules if path.suffix == ".so")):
        found |= {str(path): path for path in libraries_of(needs)}
    return found | {str(python): python, "/init": Path(__file__).resolve()} | files


def entry(name: str, mode: int, content: bytes, number: int) -> bytes:
    """One file of an archive in cpio's "newc" form: Linux, driver-api/early-userspace/buffer-format.rst."""
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


def archive(files: dict[str, Path], order: dict[str, object]) -> bytes:
    """Not compressed: the emulated processor would take longer to unpack it than it takes to read it."""
    read = {path: source.read_bytes() for path, source in files.items()}
    read["/init"] = f"#!{Path(sys.executable).resolve()} -B\n".encode() + read["/init"]
    read[ORDER] = json.dumps(order).encode()
    folders = sorted({str(folder) for path in read for folder in Path(path).parents} - {"/"} | {"/dev", "/tmp"})
    parts = [entry(folder[1:], 0o40755, b"", i) for i, folder in enumerate(folders)]
    parts += [entry(path[1:], 0o100755, content, len(folders) + i) for i, (path, content) in enumerate(read.items())]
    return b"".join(parts) + entry("TRAILER!!!", 0, b"", 0)


def follow(machine: subprocess.Popen[str]) -> tuple[int | None, bool]:
    """Prints what the command prints. Its status, if it came to an end, and whether it was begun."""
    assert machine.stdout is not None
    before: list[str] = []
    begun = False
    status = None
    for line in machine.stdout:
        text = line.rstrip("\r\n")
        if not begun and BEGINS in text:
            begun = True
        elif not begun:
            before.append(text)
        elif (place := text.find(ENDED)) >= 0:
            status = int(text[place + len(ENDED):])
        elif status is None:
            print(text, flush=True)
    if not begun:
        print("\n".join(before))
    return status, begun


def run(files: dict[str, Path], command: list[str], *, kernel: Path | None = None, timeout: float = 300,
        memory_mib: int = 3072, processors: int = 2, boot: str = "", groups: bool = False) -> int:
    """Runs the command in a machine that has the files at the places named; its exit status. Does not return where
    something is missing. `boot` goes to the kernel; with `groups` there are control groups of version 2."""
    qemu = shutil.which("qemu-system-x86_64")
    if qemu is None:
        skip("qemu-system-x86_64 is not installed (tools/setup-kernel.sh)")
    kernel = kernel or find_kernel()
    if kernel is None:
        skip("there is no kernel: none of tools/setup-kernel.sh, none in /boot that can be read, and none is named")
    command = [str(Path(sys.executable).resolve()) if word == "python3" else word for word in command]
    print(f"in a virtual machine, {kernel.name}:", flush=True)
    with tempfile.NamedTemporaryFile(suffix=".cpio") as image:
        image.write(archive(contents(files), {"command": command, "groups": groups}))
        image.flush()
        machine = subprocess.Popen(
            [qemu, "-accel", "tcg", "-cpu", "max", "-smp", str(processors), "-m", str(memory_mib), "-nic", "none",
             "-nographic", "-no-reboot", "-kernel", str(kernel), "-initrd", image.name,
             "-append", f"console=ttyS0 panic=-1 quiet {boot}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        late = threading.Event()

        def stop() -> None:
            late.set()
            machine.kill()

        clock = threading.Timer(timeout, stop)
        clock.start()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the machine ends with this process
        try:
            status, begun = follow(machine)
        finally:
            clock.cancel()
            machine.kill()
            machine.wait()
    if status is not None:
        # The number of a signal is negative: as a shell says it.
        return status if status >= 0 else 128 - status
    what = "the command had not ended" if begun else "the machine had not started the command"
    if late.is_set():
        print(f"in_vm: {what} after {timeout:.0f} s, and was stopped")
    else:
        print(f"in_vm: the machine went down, and {what}")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a command in a virtual machine.")
    parser.add_argument("--file", action="append", default=[], metavar="SOURCE[:PLACE]")
    parser.add_argument("--kernel", type=Path)
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS")
    parser.add_argument("--memory", type=int, default=3072, metavar="MIB")
    parser.add_argument("--processors", type=int, default=2)
    parser.add_argument("--boot", default="", help="more words for the kernel")
    parser.add_argument("--groups", action="store_true", help="with control groups of version 2")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    files = {}
    for word in asked.file:
        source, _, place = word.partition(":")
        files[place or str(Path(source).resolve())] = Path(source).resolve()
    return run(files, asked.command, kernel=asked.kernel, timeout=asked.timeout, memory_mib=asked.memory,
               processors=asked.processors, boot=asked.boot, groups=asked.groups)


if __name__ == "__main__":
    if os.getpid() == 1:
        be_the_first_process()
    else:
        sys.exit(main())
