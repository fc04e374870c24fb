# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem explain`: each reason from a process, from a core file of it, and from JSON."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import unittest
from pathlib import Path

import support
from support import SANITIZED, CommandCase

# Takes blocks of the given size until there is none; then says how far it came, writes hakmem_stats_json, and pauses.
# With a second argument it ends by abort instead; with GIVE_BACK it frees them before.
TAKE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char text[200000];
static void *blocks[100000];
int main(int argc, char **argv)
{
    int (*stats)(char *, size_t);
    *(void **)&stats = dlsym(RTLD_DEFAULT, "hakmem_stats_json");
    volatile size_t size = strtoull(argv[1], NULL, 0);
    void *volatile block;
    int count = 0;
    while (count < 100000 && (blocks[count] = malloc(size)) != NULL)
        count++;
    while (getenv("GIVE_BACK") != NULL && count > 0)
        free(blocks[--count]);
    if (getenv("MORE") != NULL) {
        block = calloc(size, 4);
        block = aligned_alloc((size_t)1 << 50, 64);
    }
    stats(text, sizeof text);
    write(1, text, strlen(text) + 1);
    if (argc > 2)
        abort();
    pause();
    return 0;
}
"""


# Frees 1,000 blocks that another thread holds, and asks for more than the limit.
HANDED = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile blocks[1000];
static volatile int have;
static void *take(void *unused)
{
    for (int i = 0; i < 1000; i++)
        blocks[i] = malloc(900);
    have = 1;
    pause();
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, take, NULL);
    while (!have)
        usleep(1000);
    for (int i = 0; i < 1000; i++)
        free(blocks[i]);
    void *volatile none = malloc(30 << 20);
    write(1, "x", 1);
    pause();
    return none != NULL;
}
"""


# At its limit, of blocks of two sizes, frees those of one slab, some of which stay in its bin, and takes the other size.
AVERTED = """
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
static void *blocks[100000];
int main(void)
{
    int count = 0;
    while ((blocks[count] = malloc(1000)) != NULL)
        count++;
    while (malloc(200) != NULL)
        continue;
    uintptr_t slot = (uintptr_t)blocks[count / 2] >> 16;
    for (int i = 0; i < count; i++)
        if ((uintptr_t)blocks[i] >> 16 == slot)
            free(blocks[i]);
    void *volatile block = malloc(200);
    write(1, block != NULL ? "x" : "-", 1);
    pause();
    return 0;
}
"""


class ExplainCase(CommandCase):
    """Programs that have failed."""

    def setUp(self) -> None:
        if not self.real_library:
            self.skipTest("needs the library: TEST_HAKMEM_LIBRARY")

    def failing(self, size: int, *more: str, env: dict[str, str] | None = None, address_space: int = 0,
                data: int = 0, cwd: Path | None = None,
                core_filter: str | None = None) -> tuple[subprocess.Popen[bytes], str]:
        """The process at its pause (or at its end), and its hakmem_stats_json."""
        def limit() -> None:
            if address_space:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
            if data:
                resource.setrlimit(resource.RLIMIT_DATA, (data, data))
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            if core_filter:
                Path("/proc/self/coredump_filter").write_text(core_filter, encoding="utf-8")
        full = support.environment() | {"LD_PRELOAD": str(self.library)} | (env or {})
        program = self.compile("take", TAKE, "-ldl")
        process = subprocess.Popen([str(program), str(size), *more], env=full, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, preexec_fn=limit, cwd=cwd)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        seen = b""
        while not seen.endswith(b"\0"):
            part = os.read(process.stdout.fileno(), 65536)
            self.assertNotEqual(part, b"", "the program has ended")
            seen += part
        return process, seen[:-1].decode()

    def explain(self, what: object) -> tuple[str, dict]:
        """Both forms of the answer."""
        text = self.hakmem("explain", str(what))
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        done = self.hakmem("explain", "--json", str(what))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return text.stdout, json.loads(done.stdout)

    def assert_explains(self, what: object, reason: str, why: str, fix: str, state: str = "") -> dict:
        text, answer = self.explain(what)
        last = answer["failures"][-1]
        self.assertEqual(last["reason"], reason)
        for words, where in ((why, last["why"]), (fix, "\n".join(last["fixes"])), (state, "\n".join(last["state"]))):
            if words:
                self.assertRegex(where, words)
                self.assertRegex(" ".join(text.split()), words)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()[1:]), text)
        return last


class TestReasons(ExplainCase):
    """Of a running process, and of its figures in a file."""

    def everywhere(self, process: subprocess.Popen[bytes], stats: str, reason: str, why: str, fix: str,
                   state: str = "") -> None:
        last = self.assert_explains(process.pid, reason, why, fix, state)
        of_library = self.write("library.json", stats, mode=0o644)
        stat = self.hakmem("stat", "--json", str(process.pid))
        self.assertEqual(stat.returncode, 0, stat.stderr)
        of_command = self.write("command.json", stat.stdout, mode=0o644)
        for file in (of_library, of_command):
            other = self.assert_explains(file, reason, why, fix)
            for member in ("size_bytes", "reason", "kind", "stage", "why"):
                self.assertEqual(other[member], last[member], (file, member))

    def test_limit(self) -> None:
        process, stats = self.failing(20000, env={"HAKMEM_LIMIT_MB": "8"})
        self.everywhere(process, stats, "exhaustion", "HAKMEM_LIMIT_MB is reached", "Set HAKMEM_LIMIT_MB higher",
                        "")
        _, answer = self.explain(process.pid)
        self.assertRegex("\n".join(answer["failures"][-1]["state"]),
                         r"The limit is 8\.0 MiB\nLive blocks are [\d.]+ MiB now, \d+% of it")

    def test_blocks_on_their_way_back_are_not_live(self) -> None:
        """The owner has not looked, but the program holds next to nothing."""
        full = support.environment() | {"LD_PRELOAD": str(self.library), "HAKMEM_LIMIT_MB": "8"}
        process = subprocess.Popen([str(self.compile("handed", HANDED, "-pthread"))], env=full, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.read(1), b"x")
        text = self.explain(process.pid)[0]
        self.assertNotIn("few on many slabs", text)
        self.assertIn("A block of 30.0 MiB needs as much in one piece, which is more than the limit.", " ".join(text.split()))
        self.assertRegex(text, r"Live blocks are [\d.]+ (B|KiB) now, 0% of it\.")

    def test_address_space(self) -> None:
        process, stats = self.failing(100000, address_space=96 << 20)
        self.everywhere(process, stats, "map", "has used up RLIMIT_AS", "ulimit -v unlimited",
                        r"RLIMIT_AS \(ulimit -v\) was 96\.0 MiB")

    def test_data(self) -> None:
        """Also where there is a limit on addresses, far from what the process has of them."""
        for address_space in (0, 8 << 30):
            process, stats = self.failing(100000, data=96 << 20, address_space=address_space)
            self.everywhere(process, stats, "map", "has used up RLIMIT_DATA", "ulimit -d unlimited",
                            r"RLIMIT_DATA \(ulimit -d\) was 96\.0 MiB")

    def test_address_space_that_is_there_again(self) -> None:
        process, _ = self.failing(64 << 20, address_space=1 << 30, env={"GIVE_BACK": "1"})
        self.assert_explains(process.pid, "map", "most likely because the process had used up RLIMIT_AS.*fewer now",
                             "ulimit -v unlimited", r"RLIMIT_AS \(ulimit -v\) was 1\.0 GiB")

    def test_threshold(self) -> None:
        process, stats = self.failing((1 << 63) + 5)
        self.everywhere(process, stats, "threshold", "more than any block can have",
                        "how the program computes the size")

    def test_what_is_too_much(self) -> None:
        """A size, a product of two, an alignment: each is told by itself, and to blame alone."""
        process, stats = self.failing((1 << 63) + 5, env={"MORE": "1"})
        self.everywhere(process, stats, "threshold", r"an alignment of 1125899906842624 bytes \(1\.0 PiB\), more than any",
                        "how the program computes the alignment")
        text, answer = self.explain(process.pid)
        size, product, alignment = answer["failures"]
        self.assertRegex(size["why"], "asked for 9223372036854775813 bytes, more")
        self.assertRegex(product["why"], "more bytes than there are numbers for")
        self.assertNotIn("how the program computes the size", "".join(alignment["fixes"]))
        self.assertRegex(text, r"(?s)alignment of .*\n  64 B, aligned to 1\.0 PiB.*numbers for\.\n  too much, .*"
                               r"9223372036854775813 bytes, more than any block can have\.\n  8\.0 EiB, ")

    def test_huge_request(self) -> None:
        process, stats = self.failing(1 << 45)
        last = self.explain(process.pid)[1]["failures"][-1]
        self.assertEqual(last["size_bytes"], 1 << 45)
        self.assertIn(last["reason"], ("map", "exhaustion"))
        self.assertTrue(last["fixes"])

    def test_what_would_have_failed_is_told(self) -> None:
        program = self.compile("averted", AVERTED)
        process = subprocess.Popen([program], stdout=subprocess.PIPE,
                                   env=support.environment() | {"LD_PRELOAD": str(self.library), "HAKMEM_LIMIT_MB": "8"})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.read(1), b"x")
        text, answer = self.explain(process.pid)
        self.assertIn("2 allocations have failed; the last 2 are known.\n"
                      "And 1 would have if the thread had not emptied its caches.\n", text)
        self.assertEqual(answer["averted"], 1)
        file = self.folder / "averted.json"
        file.write_text(self.hakmem("stat", "--json", str(process.pid)).stdout, encoding="utf-8")
        self.assertEqual(self.explain(file)[1]["averted"], 1)

    def test_nothing_failed(self) -> None:
        process, stats = self.failing(0, env={"HAKMEM_STATS": "0"})
        text, answer = self.explain(process.pid)
        self.assertRegex(text, r"^take \(process \d+\): no allocation has failed\.\n$")
        self.assertEqual((answer["failures"], sum(answer["counts"].values())), ([], 0))


@unittest.skipIf(shutil.which("gcore") is None, "gdb is not installed")
class TestCores(ExplainCase):
    """Of a core file."""

    def core(self, process: subprocess.Popen[bytes]) -> Path:
        done = subprocess.run(["gcore", "-o", str(self.folder / "core"), str(process.pid)], capture_output=True, text=True,
                              env=support.environment())
        file = self.folder / f"core.{process.pid}"
        if not file.exists():
            self.skipTest(f"gcore: {done.stderr[-200:]}")
        self.addCleanup(file.unlink)
        return file

    def test_limit(self) -> None:
        process, _ = self.failing(20000, env={"HAKMEM_LIMIT_MB": "8"})
        live = self.assert_explains(process.pid, "exhaustion", "HAKMEM_LIMIT_MB is reached", "higher", "The limit is 8")
        core = self.assert_explains(self.core(process), "exhaustion", "HAKMEM_LIMIT_MB is reached", "higher",
                                    "The limit is 8")
        self.assertEqual({k: v for k, v in live.items() if k != "age_ns"}, {k: v for k, v in core.items() if k != "age_ns"})

    def test_address_space(self) -> None:
        process, _ = self.failing(100000, address_space=96 << 20)
        self.assert_explains(self.core(process), "map", "has used up RLIMIT_AS", "ulimit -v unlimited", "96")

    def test_stat_of_a_core(self) -> None:
        process, stats = self.failing(0)
        done = self.hakmem("stat", "--json", self.core(process))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        stat = json.loads(done.stdout)
        self.assertEqual(stat["process"]["source"], "core")
        self.assertEqual(stat["counters"]["live.bytes"], json.loads(stats)["control"]["live.bytes"])
        self.assertEqual(sum(line["resident_bytes"] for line in stat["waterfall"]), stat["process"]["rss_bytes"])

    def crashed(self, size: int, core_filter: str | None = None, env: dict[str, str] | None = None) -> Path:
        """A core that the kernel wrote, where it writes them into the working directory."""
        pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
        if pattern.startswith("|") or "/" in pattern:
            self.skipTest(f"cores go to {pattern}")
        process, _ = self.failing(size, "abort", env=env, cwd=self.folder, core_filter=core_filter)
        process.wait(timeout=60)
        cores = [file for file in self.folder.iterdir() if file.name.startswith("core")]
        if not cores:
            self.skipTest("the kernel wrote no core")
        self.addCleanup(cores[0].unlink)
        return cores[0]

    def test_crash(self) -> None:
        core = self.crashed(20000, env={"HAKMEM_LIMIT_MB": "8"})
        self.assert_explains(core, "exhaustion", "HAKMEM_LIMIT_MB is reached", "higher", "The limit is 8")

    def test_memory_left_out(self) -> None:
        """What the library's file has is not taken for what the process had in that place."""
        core = self.crashed(0, core_filter="0x10")
        for command in ("stat", "explain", "samples"):
            done = self.hakmem(command, core)
            self.assertEqual((done.returncode, done.stdout), (1, ""), command)
            self.assertRegex(done.stderr, "memory of hakmem was left out of the core file .*\n.*hint: .*coredump_filter")

    def test_cut_off(self) -> None:
        """What is missing is not taken for nothing: as little as a page at the end."""
        process, _ = self.failing((1 << 63) + 5)
        file = self.core(process)
        whole = file.stat().st_size
        for left in (whole - 4096, whole // 2):
            os.truncate(file, left)
            for command in ("stat", "explain", "samples"):
                done = self.hakmem(command, file)
                self.assertEqual((done.returncode, done.stdout), (1, ""), command)
                self.assertRegex(done.stderr, rf"cut off: it has {left} of \d+ bytes\nhakmem: hint: .*ulimit -c")

    def test_damaged(self) -> None:
        """A core that is cut off or has nonsense in its headers is refused, without a crash."""
        process, _ = self.failing(0)
        data = self.core(process).read_bytes()
        for name, bad in (("cut", data[:3000]), ("head", data[:60]), ("count", data[:56] + b"\xff\xff" + data[58:]),
                          ("notes", data[:64] + b"\xff" * 400 + data[464:])):
            file = self.folder / f"bad-{name}"
            file.write_bytes(bad)
            done = self.hakmem("explain", file)
            if name == "notes":  # what is left of the segments may be enough
                self.assertIn(done.returncode, (0, 1))
                continue
            self.assertEqual((done.returncode, done.stdout), (1, ""), name)
            self.assertRegex(done.stderr, "^hakmem: explain: .*\nhakmem: hint: ", name)


class TestRefusals(ExplainCase):
    """What cannot be explained."""

    def test_arguments(self) -> None:
        for words, message in (((), "no process given; for example"), (("1", "2"), "one process or file"),
                               (("--jsn", "1"), "unknown option '--jsn'"), (("/nonexistent",), "neither the number")):
            done = self.hakmem("explain", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertRegex(done.stderr, rf"^hakmem: explain: .*{message}.*\n$")

    def test_not_json(self) -> None:
        deep = "[" * 100000
        for text in ("{", "[]", '{"failures": {"last": 3}}', '{"failures": {"last": [3]}}', "\x00", deep,
                     '{"failures": {"last": ["what"]}}', '"\\ud800', "1e5", "nul"):
            done = self.hakmem("explain", self.write("bad.json", text, mode=0o644))
            self.assertEqual((done.returncode, done.stdout), (1, ""), text[:50])
            self.assertRegex(done.stderr, "neither a core file nor the JSON")

    def test_json_with_escapes(self) -> None:
        text = '{"schema_version": 1, "process": {"name": "a\\"b\\u00e9\\ud800\\n"}, "failures": {"exhaustion": 2, "last": []}}'
        done = self.hakmem("explain", "--json", self.write("good.json", text, mode=0o644))
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["who"].startswith('a"bé?\n (from '), answer["who"])
        self.assertEqual(answer["counts"]["exhaustion"], 2)

    @unittest.skipIf(SANITIZED, "once is enough")
    def test_help(self) -> None:
        for words in (("explain", "--help"), ("help", "explain")):
            self.assertTrue(self.hakmem(*words).stdout.startswith("Usage: hakmem explain "))


if __name__ == "__main__":
    support.main()
