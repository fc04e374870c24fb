# SPDX-License-Identifier: Apache-2.0 OR MIT
"""gdb's `hakmem whereis` and `hakmem heap`: live, on core files, on stripped, static and hardened programs.

What it needs is in the environment: TEST_GDB, TEST_GDB_SCRIPT, TEST_LIBRARY, TEST_HARDENED, TEST_BLOCKS,
TEST_BLOCKS_STATIC, and TEST_TYPES=1 where the library has debug information for its types."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GDB = os.environ["TEST_GDB"]
SCRIPT = os.environ["TEST_GDB_SCRIPT"]
LIBRARY = Path(os.environ["TEST_LIBRARY"])
HARDENED = Path(os.environ["TEST_HARDENED"])
BLOCKS = Path(os.environ["TEST_BLOCKS"])
STATIC = Path(os.environ["TEST_BLOCKS_STATIC"])

# The variable of blocks.c, and what `whereis` says of it.
STATES = {
    "live": r"the first byte of a block of 128 bytes\n.*\n +state +live\n",
    "in_bin": r"first byte of a block of 512 bytes\n.*\n +state +free, in the bin of heap \d+, of thread 1 .*"
    r"malloc number 1 from now gets it\n",
    "in_slab": r"first byte of a block of 32 bytes\n.*\n +state +free, in its slab\n",
    "kept": r"first byte of a block of 32 bytes\n.*\n +state +live\n",
    "in_outbox": r"first byte of a block of 64 bytes\n.*\n +state +free, in the outbox of heap \d+, of thread [23] ",
    "remote": r"first byte of a block of 256 bytes\n.*\n +state +free: another thread freed it",
    "in_large": r"first byte of a large block of \d+ bytes\n.*\n +state +live, 200000 bytes were asked for\n",
    "(char *) in_large + 150000": r"is byte 150000 of a large block of \d+ bytes\n",
    "(char *) in_huge + 3000000": r"is byte 3000000 of a huge block of \d+ bytes\n"
    r".*\n +state +live, 5000000 bytes were asked for\n",
    "gone": r"is in no block\n +slot +empty: what was here has been freed",
    "(char *) live + 17": r"is byte 17 of a block of 128 bytes\n.*\n +state +live\n",
    "(char *) live + 60000": r"\n +state +free: never used since the slab was made\n",
    "$sp": r"is not hakmem's",
}
# Live blocks and those that nobody but the hardened library knows to be free.
HARDENED_STATES = {
    "live": r"first byte of a block of 128 bytes\n.*\n +state +live, 100 bytes were asked for\n",
    "in_bin": r"\n +state +free, in quarantine\n",
    "in_large": r"large block of \d+ bytes\n.*\n +state +live, 200000 bytes were asked for\n",
    "gone": r"large block of \d+ bytes\n.*\n +state +free, in quarantine\n",
}
# With a sample for each 64 bytes or so a block of 100 may be none; these always are.
CALL_STACK = r" block of \d+ bytes\n.*\n +state +live, \d+ bytes were asked for\n"
CALL_STACK += r" +sampled: it was allocated by\n(.*\n)* +0x[0-9a-f]+ main"
SAMPLED_STATES = {"in_large": f"large{CALL_STACK}", "(char *) in_huge + 5": f"huge{CALL_STACK}"}
BEGIN = "=== "


def gdb(program: Path, *commands: str, core: Path | None = None, script: str = SCRIPT) -> str:
    """What gdb prints for commands about a program or its core file."""
    words = [GDB, "-nx", "-batch", "-iex", "set debuginfod enabled off", "-x", script]
    for command in commands:
        words += ["-ex", command]
    words.append(str(program))
    words += [str(core)] if core else []
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)
    return done.stdout


def start(library: Path | None) -> list[str]:
    """Commands that run the program to where all is in place."""
    preload = [f"set exec-wrapper env LD_PRELOAD={library}"] if library else []
    return [*preload, "set breakpoint pending on", "break stop", "run"]


def questions(states: dict[str, str]) -> list[str]:
    """Commands that ask for each, with a line between them."""
    return [word for what in states for word in (f"echo \\n{BEGIN}{what}\\n", f"hakmem whereis {what}")]


def answers(text: str) -> dict[str, str]:
    """What was answered to each question."""
    parts = text.split(f"\n{BEGIN}")[1:]
    return {what: answer for what, _, answer in (part.partition("\n") for part in parts)}


class Gdb(unittest.TestCase):
    """The same questions, asked in different circumstances."""

    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="hakmem-gdb-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def stripped(self, path: Path) -> Path:
        """A copy without any symbols that can be removed."""
        target = self.folder / path.name
        subprocess.run(["strip", "-s", "-o", str(target), str(path)], check=True)
        return target

    def check(self, text: str, states: dict[str, str]) -> None:
        """Each answer is the one that it must be."""
        given = answers(text)
        self.assertEqual(list(given), list(states), text)
        for what, expected in states.items():
            self.assertRegex(given[what], expected, f"of {what}")

    def test_a_live_process(self) -> None:
        self.check(gdb(BLOCKS, *start(LIBRARY), *questions(STATES)), STATES)

    def test_a_stripped_library_is_found_by_its_root(self) -> None:
        self.check(gdb(BLOCKS, *start(self.stripped(LIBRARY)), *questions(STATES)), STATES)

    def test_a_static_program(self) -> None:
        self.check(gdb(STATIC, *start(None), *questions(STATES)), STATES)

    def test_a_core_file(self) -> None:
        core = self.folder / "core"
        written = gdb(BLOCKS, *start(LIBRARY), f"generate-core-file {core}")
        self.assertTrue(core.exists(), written)
        self.check(gdb(BLOCKS, *questions(STATES), core=core), STATES)
        self.assertRegex(gdb(BLOCKS, "hakmem heap", core=core), r"superslabs of 2 MiB: 1 in use")

    def test_a_core_file_of_a_library_that_was_replaced(self) -> None:
        """What the file has now is not taken for what was there: the table of layouts is in no core file."""
        library, core = self.folder / "libhakmem-replaced.so", self.folder / "core.replaced"
        shutil.copy(LIBRARY, library)
        gdb(BLOCKS, *start(library), f"generate-core-file {core}")
        self.assertRegex(gdb(BLOCKS, "hakmem heap", core=core), r"superslabs of 2 MiB: 1 in use")
        data = bytearray(library.read_bytes())
        data[data.index(b"\x7fhakmem root\r\n\x1a\x01") + 48] += 1  # its version
        library.write_bytes(data)
        for command in ("hakmem heap", "hakmem whereis live"):
            text = gdb(BLOCKS, command, core=core)
            self.assertRegex(text, rf"hakmem: {library} is not the hakmem of this core file, but of another build: set")
            self.assertNotRegex(text, "superslabs|is the first byte")

    def test_a_library_that_was_removed(self) -> None:
        """A process has all of it in memory; a core file has not, and that is said."""
        library, core = self.folder / "libhakmem-removed.so", self.folder / "core.removed"
        shutil.copy(LIBRARY, library)
        text = gdb(BLOCKS, *start(library), f"generate-core-file {core}", f"shell rm {library}", "nosharedlibrary",
                   "hakmem heap")
        self.assertRegex(text, r"superslabs of 2 MiB: 1 in use")
        self.assertIn("gdb does not find the file of this hakmem: set sysroot", gdb(BLOCKS, "hakmem heap", core=core))

    def test_two_libraries(self) -> None:
        """The one that an address is of; else the one that is malloc."""
        prefixed = LIBRARY.with_name("libhakmem-prefixed.so")
        commands = start(Path(f"{prefixed}:{LIBRARY}"))
        text = gdb(BLOCKS, *commands, "hakmem heap", *questions({"live": "", "other": ""}))
        self.assertRegex(text, r"large blocks 0\.2 MiB\n")
        of = answers(text)
        self.assertRegex(of["live"], STATES["live"])
        self.assertRegex(of["other"], r"first byte of a block of \d+ bytes\n.*\n +state +live\n")

    def test_the_hardened_library(self) -> None:
        self.check(gdb(BLOCKS, *start(HARDENED), *questions(HARDENED_STATES)), HARDENED_STATES)

    def test_a_sampled_block_has_its_call_stack(self) -> None:
        profile = "HAKMEM_PROF_SAMPLE_BYTES=64 HAKMEM_PROF=1"
        commands = [word.replace("env ", f"env {profile} ") for word in start(LIBRARY)]
        text = answers(gdb(BLOCKS, "cd " + str(self.folder), *commands, *questions(SAMPLED_STATES)))
        for what, expected in SAMPLED_STATES.items():
            self.assertRegex(text[what], expected)

    def test_the_bins_of_the_heap_profile(self) -> None:
        """While it counts, malloc takes from other bins; what is in those is as free as in any."""
        profile = "HAKMEM_PROF=1 HAKMEM_PROF_FILE=/dev/null HAKMEM_PROF_SAMPLE_BYTES=1g"  # no block of these
        commands = [word.replace("env ", f"env {profile} ") for word in start(LIBRARY)]
        state = {"(char *) live + 128": r"free, in the bin of heap \d+, of thread 1 .*; malloc number 1 from now"}
        self.check(gdb(BLOCKS, *commands, *questions(state)), state)

    def test_the_heaps(self) -> None:
        text = gdb(BLOCKS, *start(LIBRARY), "hakmem heap")
        self.assertRegex(text, r"hakmem \d+\.\d+\.\d+, window at 0x[0-9a-f]+\n")
        self.assertRegex(text, r"1 huge blocks \(4\.8 MiB\)")
        self.assertRegex(text, r"\n +1 +\d+ .*the shared one")
        self.assertRegex(text, r"\n +2 +\d+ .*of thread 1 ")

    def test_gdb_loads_the_script_with_an_installed_library(self) -> None:
        libraries = self.folder / "prefix" / "lib"
        scripts = self.folder / "prefix" / "share" / "gdb" / "auto-load"
        for folder in (libraries, scripts / str(libraries).lstrip("/")):
            folder.mkdir(parents=True)
        real = LIBRARY.resolve().name
        shutil.copy(LIBRARY, libraries / real)
        shutil.copy(SCRIPT, scripts / str(libraries).lstrip("/") / f"{real}-gdb.py")
        shutil.copy(Path(SCRIPT).with_name("hakmem_gdb_records.py"), scripts / str(libraries).lstrip("/"))
        (libraries / "libhakmem.so").symlink_to(real)
        where = [f"set auto-load scripts-directory {scripts}", f"set auto-load safe-path {scripts}"]
        text = gdb(BLOCKS, *where, *start(libraries / "libhakmem.so"), "hakmem heap", script="/dev/null")
        self.assertRegex(text, r"superslabs of 2 MiB: 1 in use")

    def test_what_cannot_be_answered_is_one_line(self) -> None:
        for commands, expected in (
            (["hakmem whereis 1"], "no hakmem here"),
            (["hakmem heap"], "no hakmem here"),
            ([*start(LIBRARY), "kill", "hakmem heap"], "no hakmem here"),
            ([*start(LIBRARY), "hakmem whereis"], "which address"),
            ([*start(LIBRARY), "hakmem whereis nothing_like_it"], "hakmem whereis: nothing_like_it: No symbol"),
            ([*start(LIBRARY), "hakmem whereis 1 +"], "hakmem whereis: 1 +: "),
        ):
            text = gdb(BLOCKS, *commands)
            self.assertIn(expected, text)
            self.assertNotRegex(text, "Traceback|Python Exception")
        self.assertIn("no hakmem here", gdb(STATIC, "hakmem heap"))

    @unittest.skipUnless(os.environ.get("TEST_TYPES") == "1", "a build without debug information for types")
    def test_the_table_is_what_the_debug_information_says(self) -> None:
        check = self.folder / "check.py"
        check.write_text(CHECK_LAYOUT, encoding="utf-8")
        text = gdb(BLOCKS, *start(LIBRARY), f"source {check}")
        found = re.search(r"(\d+) members compared", text)
        self.assertIsNotNone(found, text)
        self.assertGreater(int(found.group(1)) if found else 0, 50, text)
        self.assertNotIn("differs", text)


# Runs in gdb: each member, each structure and each enumerator of the table, as gdb itself finds them.
CHECK_LAYOUT = """
import gdb
from hakmem_gdb_records import LAYOUT_LINE, ROOT_LAYOUT_AT, find_layout
compared = 0
layout = find_layout()
def value(text):
    return int(gdb.parse_and_eval("(unsigned long) (" + text + ")"))
if value("&((struct hak_root *) 0)->at[HAK_ROOT_LAYOUT]") != ROOT_LAYOUT_AT:
    print("ROOT_LAYOUT_AT differs")
if value("sizeof(struct hak_layout_line)") != LAYOUT_LINE.size:
    print("LAYOUT_LINE differs")
for name, (offset, count) in layout.lines.items():
    structure, _, member = name.partition(".")
    if member:
        at = "((struct " + structure + " *) 0)->" + member
        true = value("&" + at), value("sizeof(" + at + ")")
    elif name.startswith("HAK_ROOT_"):
        true = value(name), 0
    elif name.startswith("HAK_"):
        continue
    else:
        true = value("sizeof(struct " + name + ")"), 0
    compared += 1
    if true != (offset, count):
        print(name, "differs:", (offset, count), "in the table,", true, "in the debug information")
print(compared, "members compared")
"""

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main(verbosity=2)
