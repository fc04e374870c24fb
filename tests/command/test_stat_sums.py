# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem stat`: its sums against the kernel's, of real programs at a pause and of commands at their end."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import support
from stat_support import StatCase
from support import SANITIZED


@unittest.skipIf(not Path("/proc/self/pagemap").exists(), "the kernel tells nothing of pages")
class TestSums(StatCase):
    """Real programs at a pause."""

    def wait_for(self, process: subprocess.Popen[bytes], text: bytes) -> None:
        seen = b""
        while text not in seen:
            byte = os.read(process.stdout.fileno(), 4096)
            self.assertNotEqual(byte, b"", f"{process.args} ended: {seen!r}")
            seen += byte

    @staticmethod
    def wait_until_idle(process: subprocess.Popen[bytes]) -> None:
        """Until it has used no time for a while."""
        before, same = "", 0
        while same < 4:
            time.sleep(0.1)
            words = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            same = same + 1 if words[11:13] == before and words[0] == "S" else 0
            before = words[11:13]

    def check(self, process: subprocess.Popen[bytes]) -> dict:
        self.wait_until_idle(process)
        stat = self.stat_json(str(process.pid))
        self.assert_adds_up(stat)
        self.assertTrue(stat["process"]["complete"])
        self.assertGreater(stat["counters"]["live.blocks"], 20)
        return stat

    def test_python(self) -> None:
        process = self.running(sys.executable, "-c", "x = [bytes(i % 3000) for i in range(30000)]; del x[::2]\n"
                               "print('pause', flush=True); input()", env={"PYTHONMALLOC": "malloc"})
        self.wait_for(process, b"pause")
        stat = self.check(process)
        self.assertGreater(stat["waterfall"][0]["resident_bytes"], 20 << 20)
        self.assertEqual([t["tid"] for t in stat["threads"] if t["state"] == "running"], [process.pid])

    def test_many_threads(self) -> None:
        """Their stacks lie between the chunks that the records of their heaps are in."""
        program = self.compile("threads", """
            #include <pthread.h>
            #include <stdlib.h>
            #include <string.h>
            #include <unistd.h>
            static void *begin(void *unused)
            {
                for (int bytes = 16; bytes < 2000; bytes += 100)
                    memset(malloc(bytes), 1, bytes);
                write(1, ".", 1);
                pause();
                return unused;
            }
            int main(void)
            {
                pthread_attr_t small;
                pthread_t thread;
                pthread_attr_init(&small);
                pthread_attr_setstacksize(&small, 65536);
                for (int i = 0; i < 600; i++)
                    if (pthread_create(&thread, &small, begin, NULL) != 0)
                        return 1;
                pause();
            }""", "-pthread")
        process = self.running(program)
        begun = 0
        while begun < 600:
            begun += len(os.read(process.stdout.fileno(), 600) or self.fail("no more threads"))
        self.assertTrue(self.stat_json(str(process.pid))["process"]["complete"])

    def test_sqlite(self) -> None:
        process = self.running("sqlite3")
        process.stdin.write(b"create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n "
                            b"where i < 50000) insert into t select i, hex(randomblob(20)) from n;\n"
                            b"create index x on t(b); select 'pause';\n")
        process.stdin.flush()
        self.wait_for(process, b"pause")
        self.check(process)

    def test_perl(self) -> None:
        process = self.running("perl", "-e", "$| = 1; $h{$_ x 3} = [1 .. 5] for 1 .. 20000; delete $h{$_ x 3} for 1 .. "
                               "9000; print 'pause'; <STDIN>")
        self.wait_for(process, b"pause")
        self.check(process)

    def test_redis(self) -> None:
        if shutil.which("redis-server") is None:
            self.skipTest("redis-server is not installed")
        with tempfile.TemporaryDirectory() as folder:
            socket = f"{folder}/socket"
            process = self.running("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder,
                                   "--enable-debug-command", "yes")
            self.wait_for(process, socket.encode())
            subprocess.run(["redis-cli", "-s", socket, "debug", "populate", "20000", "key", "200"],
                           check=True, capture_output=True)
            stat = self.check(process)
            self.assertGreater(stat["counters"]["live.blocks"], 40000)
            self.stop(process)

    def test_pages_of_zeros(self) -> None:
        """What was only read is the kernel's page of zeros, which is in no resident size."""
        source = "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { volatile char *p = malloc(50 << 20); " \
                 "for (long i = 0; i < 50 << 20; i += 4096) if (i % 40960 == 0) p[i] = 1; else (void)p[i];\n" \
                 "write(1, \"x\", 1); pause(); return 0; }\n"
        process = self.running(self.compile("zeros", source))
        self.wait_for(process, b"x")
        self.wait_until_idle(process)
        stat = self.stat_json(str(process.pid))
        self.assert_adds_up(stat)
        self.assertEqual(stat["huge"]["blocks"], 1)
        self.assertGreaterEqual(stat["huge"]["resident_bytes"], 5 << 20)

    @unittest.skipIf(SANITIZED, "the sanitizer has terabytes of addresses itself")
    def test_a_mapping_that_is_hardly_used(self) -> None:
        """256 GiB, as databases map them: the command needs memory for what is in memory."""
        source = "#include <sys/mman.h>\n#include <unistd.h>\nint main(void) { long size = 1L << 38; " \
                 "char *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);\n" \
                 "for (long i = 0; i < size; i += size >> 6) p[i] = 1; write(1, \"x\", 1); pause(); return 0; }\n"
        process = self.running(self.compile("sparse", source))
        self.wait_for(process, b"x")
        done = self.hakmem("stat", "--json", str(process.pid),
                           preexec=lambda: resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20)))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        stat = json.loads(done.stdout)
        self.assert_adds_up(stat)
        self.assertGreaterEqual(stat["not_ours"]["anonymous_bytes"], 64 * 4096)

    def test_compiler(self) -> None:
        program = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True)
        if program.returncode != 0 or not Path(program.stdout.strip()).is_absolute():
            self.skipTest("gcc's cc1 was not found")
        process = self.running(program.stdout.strip(), "-quiet", "-o", "/dev/null", "-")
        process.stdin.write(b"".join(b"int f%d(int a) { return a * %d + f%d(a - 1); }\n" % (i, i, max(i - 1, 0))
                                     for i in range(3000)))
        process.stdin.flush()
        self.check(process)


class TestCommandAtItsEnd(StatCase):
    """`hakmem stat -- COMMAND`."""

    def test_end_of_a_program(self) -> None:
        file = self.folder / "end.json"
        source = "import sys; x = [bytes(5000) for _ in range(2000)]; print('out'); sys.exit(7)"
        done = self.hakmem("stat", "--json", "--output", file, "--", sys.executable, "-c", source,
                           env={"PYTHONMALLOC": "malloc"})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "out\n", ""))
        stat = json.loads(file.read_text())
        self.assert_adds_up(stat)
        self.validate(file.read_text())

    @staticmethod
    def wait_for_looks(process: subprocess.Popen[str]) -> None:
        """Until the command, which sleeps after each look, has looked at its program some times."""
        def sleeps() -> int:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            return int(re.search(r"(?m)^voluntary_ctxt_switches:\s+(\d+)$", status)[1])
        end = sleeps() + 20
        while sleeps() < end:
            time.sleep(0.01)

    def test_peak(self) -> None:
        """At the peak the blocks live; at the end they do not."""
        go = self.folder / "go"
        os.mkfifo(go)
        source = f"x = [bytes(5000) for _ in range(8000)]; print('peak', flush=True); open('{go}').close(); del x"
        at = {}
        for options in ((), ("--peak",)):
            file = self.folder / "peak.json"
            process = self.start("stat", "--json", *options, "--output", file, "--", sys.executable, "-c", source,
                                 env={"PYTHONMALLOC": "malloc"})
            self.assertEqual(process.stdout.readline(), "peak\n")
            if options:
                self.wait_for_looks(process)
            go.write_text("", encoding="utf-8")
            self.assertEqual(process.communicate(), ("", ""))
            self.assertEqual(process.returncode, 0)
            self.validate(file.read_text())
            at[options] = json.loads(file.read_text())
        self.assertNotIn("peak", at[()])
        peak = at["--peak",]["peak"]
        self.assertEqual(peak["seen_bytes"], at["--peak",]["process"]["rss_bytes"])
        self.assertGreater(peak["seen_bytes"], 0.9 * peak["kernel_bytes"])
        live = [stat["waterfall"][0]["resident_bytes"] for stat in at.values()]
        self.assertLess(live[0], 10 << 20)
        self.assertGreater(live[1], 30 << 20)
        self.assert_adds_up(at["--peak",])

    def test_output_that_cannot_be_written(self) -> None:
        """Said before the program has run for nothing."""
        for bad in (self.folder / "none" / "x", self.folder):
            done = self.hakmem("stat", "--output", bad, "--", "echo", "out")
            self.assertEqual((done.returncode, done.stdout), (125, ""))
            self.assertRegex(done.stderr, f"^hakmem: stat: cannot write to {bad}: ")

    def test_peak_in_other_forms(self) -> None:
        """The end of the report has it, whatever the form, and is on stderr with the rest."""
        source = "#include <stdlib.h>\n#include <string.h>\nint main(void) { memset(malloc(9000000), 1, 9000000); }\n"
        program = self.compile("grows", source)  # and is as large at its end
        text, metrics, values = (self.hakmem("stat", "--peak", *form, "--", program).stderr
                                 for form in ((), ("--openmetrics",), ("--json",)))
        self.assertRegex(text, r"\nSeen with ([\d.]+ MiB) in memory; its peak was [\d.]+ MiB \((9\d|100)%\)\n$")
        self.assertRegex(text, rf"^grows, .*: {text.split('Seen with ')[1].split(' in ')[0]} in memory")
        self.assertRegex(metrics, r"hakmem_peak_seen_bytes \d+\n.*\nhakmem_peak_kernel_bytes \d+\n# EOF\n$".replace(".*", "(# .*\n)*#.*"))
        self.assertEqual(metrics.count("# EOF"), 1)
        self.assertIn("seen_bytes", json.loads(values)["peak"])

    def test_words(self) -> None:
        """What is said when the program has ended is of use then, and calls nothing by another's name."""
        source = "#include <stdlib.h>\n#include <unistd.h>\nint main(int c, char **v) { int n = atoi(v[1]); while (n-- > 0) " \
                 "*(char *)malloc(100) = 1; volatile size_t z = -(size_t)c; free(malloc(z)); _exit(0); }\n"
        program = self.compile("few", source)
        plain = self.hakmem("stat", "--", program, "1").stderr
        self.assertRegex(plain, r"(?m)^1 live block of 128 B: 1 small in 1 slab, 0 large, 0 huge$")
        self.assertRegex(plain, r"(?m)^  of live blocks, not asked for   not known    0\.0%")
        self.assertRegex(plain, r"\nWhat of small blocks was not asked for is not known without samples:\n  HAKMEM_PROF=1 in its environment\n")
        self.assertRegex(plain, r"(?m)^1 allocation has failed; 'hakmem explain' says why, of what --json --output FILE writes$")
        none = self.hakmem("stat", "--", program, "0").stderr
        self.assertRegex(none, r"(?m)^  of live blocks, not asked for         0 B ")
        self.assertNotIn("known", none)
        env = {"HAKMEM_PROF": "1", "HAKMEM_PROF_SAMPLE_BYTES": "4096", "HAKMEM_PROF_FILE": "/dev/null"}
        sampled = self.hakmem("stat", "--", program, "2000", env=env).stderr
        small, samples = map(int, re.search(r"2000 live .*: (\d+) small in \d+ slabs, (\d+) small sampled, 0 large", sampled).groups())
        self.assertEqual(small + samples, 2000)
        self.assertGreater(samples, 10)

    def test_killed(self) -> None:
        done = self.hakmem("stat", "--", "sh", "-c", "echo out; kill -TERM $$")
        self.assertEqual((done.returncode, done.stdout), (128 + signal.SIGTERM, "out\n"))
        self.assertRegex(done.stderr, r"(?m)^sh, process \d+: .* in memory")

    def test_what_run_refuses(self) -> None:
        done = self.hakmem("stat", "--", "/nonexistent/program")
        self.assertEqual((done.returncode, done.stdout), (127, ""))
        self.assertRegex(done.stderr, "^hakmem: '/nonexistent/program' was not found")

if __name__ == "__main__":
    support.main()
