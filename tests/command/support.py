# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of the hakmem command share: the command, a library, programs to run, and patched ELF files.

The command and the library come from the build through TEST_HAKMEM_COMMAND and TEST_HAKMEM_LIBRARY
(these names do not begin with HAKMEM_, which the library would take for its options). Without a
library the tests use a stand-in that only passes malloc on to libc, which is enough for the command.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

COMPILER = os.environ.get("TEST_CC", "gcc")
SANITIZED = os.environ.get("TEST_HAKMEM_SANITIZED", "") == "1"
NOBODY = 65534
LOADER = b"/lib64/ld-linux-x86-64.so.2"

STAND_IN = """
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t n, size_t s) { return __libc_calloc(n, s); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
const char *hakmem_version(void) { return "9.8.7"; }
"""

# Prints which file the process's malloc is in, its process ID, and its arguments.
PROBE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    Dl_info info;
    char *volatile block = malloc(100);
    free(block);
    int known = dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info);
    printf("malloc %s\\npid %d\\n", known ? info.dli_fname : "unknown", (int)getpid());
    for (int i = 0; i < argc; i++)
        printf("argument %s\\n", argv[i]);
    return 0;
}
"""


def environment() -> dict[str, str]:
    """The tests' own environment without what would steer the command, the loader or the library."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_", "TEST_HAKMEM"))}
    kept["LC_ALL"] = "C"
    if SANITIZED:  # a library in LD_PRELOAD comes before the sanitizer's; that is what we test
        kept["ASAN_OPTIONS"] = "verify_asan_link_order=0"
    return kept


def as_nobody() -> None:
    """For preexec_fn: gives up root, whose rights hide what the command has to find out."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def other_proc(options: bytes | None) -> None:
    """For preexec_fn: /proc is mounted with other options for this process, or (None) not at all."""
    new_namespace, private, detach = 0x20000, 0x44000, 2
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(new_namespace) != 0 or libc.mount(b"none", b"/", None, private, None) != 0 or \
            libc.umount2(b"/proc", detach) != 0 or \
            (options is not None and libc.mount(b"proc", b"/proc", b"proc", 0, options) != 0):
        raise OSError(ctypes.get_errno(), "mount")


def patch(source: Path, target: Path, *changes: tuple[int, bytes]) -> Path:
    """Copies a file and its mode with bytes changed at the given offsets."""
    data = bytearray(source.read_bytes())
    for offset, replacement in changes:
        data[offset : offset + len(replacement)] = replacement
    target.write_bytes(data)
    target.chmod(0o755)
    return target


def patch_loader(source: Path, target: Path, loader: bytes) -> Path:
    """Copies a program with another PT_INTERP, which must not be longer than the one it has."""
    offset = source.read_bytes().index(LOADER + b"\0")
    return patch(source, target, (offset, loader.ljust(len(LOADER), b"\0")))


def program_segments(path: Path, kind: int) -> list[tuple[int, int]]:
    """Offset and size in the file of each segment with this p_type."""
    data = path.read_bytes()
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]
    return [(header[2], header[5]) for header in headers if header[0] == kind]


class CommandCase(unittest.TestCase):
    """A folder that everybody may read, with copies of the command and the library, as if installed there."""

    folder: Path
    command: Path
    library: Path
    real_library: bool
    probe: Path

    @classmethod
    def setUpClass(cls) -> None:
        built = os.environ.get("TEST_HAKMEM_COMMAND")
        if not built:
            raise RuntimeError("set TEST_HAKMEM_COMMAND to the path of the hakmem command to test")
        cls.folder = Path(tempfile.mkdtemp(prefix="hakmem-command-")).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.folder.chmod(0o755)
        cls.command = cls.folder / "hakmem"
        cls.library = cls.folder / "libhakmem.so"
        shutil.copy(built, cls.command)
        library = os.environ.get("TEST_HAKMEM_LIBRARY")
        cls.real_library = bool(library)
        if library:
            shutil.copy(library, cls.library)
        else:
            cls.compile("libhakmem.so", STAND_IN, "-shared", "-fPIC")
        cls.probe = cls.compile("probe", PROBE)

    @classmethod
    def compile(cls, name: str, source: str, *options: str | Path) -> Path:
        """Compiles a C program or library into the folder."""
        target = cls.folder / name
        words = [COMPILER, "-O1", "-fno-builtin", "-x", "c", "-", "-o", target, "-x", "none", *options]
        subprocess.run([str(word) for word in words], input=source.encode(), check=True)
        return target

    @classmethod
    def write(cls, name: str, text: str, mode: int = 0o755) -> Path:
        """Writes a script into the folder."""
        target = cls.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)
        return target

    def hakmem(
        self,
        *arguments: str | Path,
        env: dict[str, str] | None = None,
        preexec: Callable[[], None] | None = None,
        command: Path | None = None,
        cwd: Path | None = None,
        stdin: bytes = b"",
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command; a sanitizer's report or a death of the command by a signal is told in stderr."""
        done = subprocess.run(
            [str(command or self.command), *(str(argument) for argument in arguments)],
            env=environment() | (env or {}),
            preexec_fn=preexec,
            cwd=cwd,
            input=stdin,
            capture_output=True,
            timeout=60,
        )
        stdout, stderr = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        self.assertNotRegex(stderr, r"==\d+==|runtime error:", f"of hakmem {arguments}")
        return subprocess.CompletedProcess(done.args, done.returncode, stdout, stderr)

    def start(self, *arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts the command; the caller waits for it."""
        words = [str(self.command), *(str(argument) for argument in arguments)]
        return subprocess.Popen(
            words, env=environment() | (env or {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def assert_taken_over(self, *arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        """The program, which must print what the probe prints, has the library's malloc."""
        done = self.hakmem("run", *arguments, **options)  # type: ignore[arg-type]
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"malloc {self.library}\n", done.stdout, done.stderr)
        return done

    def assert_refused(
        self, status: int, reason: str, *arguments: str | Path, **options: object
    ) -> subprocess.CompletedProcess[str]:
        """`hakmem run` ends with this status and a message that matches the pattern; so does --check."""
        for check in ((), ("--check",)):
            done = self.hakmem("run", *check, *arguments, **options)  # type: ignore[arg-type]
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, reason)
            self.assertTrue(all(line.startswith("hakmem: ") for line in done.stderr.splitlines()), done.stderr)
            self.assertEqual(done.stdout, "")
        return done


def needs_root(test: Callable[..., None]) -> Callable[..., None]:
    """For tests that give files to other users."""
    return unittest.skipUnless(os.getuid() == 0, "needs root to make files of other users")(test)


def main() -> None:
    """Runs the tests of the calling file."""
    unittest.main(verbosity=2)
