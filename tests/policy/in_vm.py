#!/usr/bin/env python3
"""test_group.py in a virtual machine, whose control groups are of version 2: the machine at hand may have others.

    in_vm.py LIBRARY [KERNEL]

KERNEL is a bzImage with CONFIG_MEMCG and CONFIG_PSI, as Debian's linux-image-cloud-amd64 has one (apt-get download,
dpkg -x); without it the newest of /boot. Needs qemu-system-x86_64; it emulates, so half a minute or two pass.
What is missing is said, and the exit status is 77.

The machine is a kernel and a file system in memory: this system's Python, the library, the test, and this file as the
first process.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import ctypes
import gzip
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "ensurepip", "pydoc_data", "dist-packages", "site-packages",
            "tkinter", "turtledemo", "__pycache__"}
PASSED = "hakmem-vm: passed"
SKIP = 77


def skip(reason: str) -> None:
    print(f"skipped: {reason}")
    sys.exit(SKIP)


# ---- inside ----


def mount(kind: str, target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    ctypes.CDLL(None, use_errno=True).mount(b"none", target.encode(), kind.encode(), 0, None)


def be_the_first_process() -> None:
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("cgroup2", "/sys/fs/cgroup")):
        mount(kind, target)
    Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+memory", encoding="ascii")
    test = [sys.executable, "/test_group.py", "/library.so", "-v"]
    done = subprocess.run(test, stderr=subprocess.STDOUT, check=False)
    print(PASSED if done.returncode == 0 else "hakmem-vm: failed", flush=True)
    os.sync()
    ctypes.CDLL(None).reboot(0x4321FEDC)  # power off


# ---- outside ----


def libraries_of(program: Path) -> list[Path]:
    lines = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout.split()
    return [Path(word) for word in lines if word.startswith("/")]


def contents(library: Path) -> dict[str, Path]:
    """What is in the file system, by its path there."""
    python = Path(sys.executable).resolve()
    standard = Path(sysconfig.get_path("stdlib"))
    found = {str(python): python, "/init": Path(__file__).resolve(), "/library.so": library.resolve(),
             "/test_group.py": Path(__file__).resolve().with_name("test_group.py")}
    modules = [path for path in standard.rglob("*") if not LEFT_OUT & set(path.relative_to(standard).parts)]
    found |= {str(path): path for path in modules if path.is_file() and path.suffix in (".py", ".so")}
    for needs in (python, library, *(path for path in modules if path.suffix == ".so")):
        found |= {str(path): path for path in libraries_of(needs)}
    return found


def entry(name: str, mode: int, content: bytes, number: int) -> bytes:
    """One file of an archive in cpio's "newc" form: Linux, driver-api/early-userspace/buffer-format.rst."""
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


def archive(files: dict[str, Path]) -> bytes:
    folders = sorted({str(folder) for path in files for folder in Path(path).parents} - {"/"}) + ["/dev", "/tmp"]
    parts = [entry(folder[1:], 0o40755, b"", i) for i, folder in enumerate(folders)]
    for i, (path, source) in enumerate(files.items()):
        content = source.read_bytes()
        if path == "/init":
            content = f"#!{Path(sys.executable).resolve()} -B\n".encode() + content
        parts.append(entry(path[1:], 0o100755, content, len(folders) + i))
    return gzip.compress(b"".join(parts) + entry("TRAILER!!!", 0, b"", 0), 1)


def main() -> int:
    qemu = shutil.which("qemu-system-x86_64")
    if qemu is None:
        skip("qemu-system-x86_64 is not installed")
    kernels = [Path(sys.argv[2])] if len(sys.argv) > 2 else sorted(Path("/boot").glob("vmlinuz*"))
    if not kernels:
        skip("there is no kernel in /boot, and none is named")
    with tempfile.NamedTemporaryFile(suffix=".gz") as image:
        image.write(archive(contents(Path(sys.argv[1]))))
        image.flush()
        done = subprocess.run(
            [qemu, "-accel", "tcg", "-cpu", "max", "-m", "3072", "-nic", "none", "-nographic", "-no-reboot",
             "-kernel", str(kernels[-1]), "-initrd", image.name, "-append", "console=ttyS0 panic=-1 psi=1 quiet"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False, timeout=500)
    print(done.stdout[done.stdout.find("test_version"):], done.stderr)
    return 0 if PASSED in done.stdout else 1


if __name__ == "__main__":
    if os.getpid() == 1:
        be_the_first_process()
    else:
        sys.exit(main())
