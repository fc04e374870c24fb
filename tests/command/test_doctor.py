# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem doctor`: each finding, in a folder that stands for / and in processes of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import time
import unittest
from pathlib import Path

import support
from support import SANITIZED, CommandCase

GIB = 1 << 30
LIMITS = "Limit                     Soft Limit           Hard Limit           Units     \n" \
         "Max address space         {}            unlimited            bytes     \n"
MAPS = "7f0000000000-7f0000001000 r-xp 00000000 00:00 1                          {}\n"

PAUSE = "#include <unistd.h>\nint main(void) { write(1, \"x\", 1); pause(); }\n"

# A machine on which all is well.
WELL = {
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/sys/vm/max_map_count": "65530\n",
    "proc/sys/kernel/yama/ptrace_scope": "0\n",
    "proc/meminfo": "MemTotal:       4194304 kB\nCommitLimit:    1048576 kB\nCommitted_AS:    524288 kB\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00\n",
    "proc/self/status": "Name:\thakmem\nCapEff:\t0000000000000000\nVmSize:\t    9000 kB\n",
    "proc/self/limits": LIMITS.format("unlimited"),
    "proc/self/cgroup": "0::/app\n",
    "proc/self/auxv": struct.pack("<6Q", 6, 4096, 23, 0, 0, 0),
    "sys/fs/cgroup/app/memory.max": "max\n",
    "sys/fs/cgroup/app/memory.high": "max\n",
    "sys/fs/cgroup/app/memory.current": "1000000\n",
    "sys/fs/cgroup/app/memory.stat": "anon 900000\ninactive_file 100000\n",
    "sys/fs/cgroup/app/memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
    "sys/fs/cgroup/app/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
}
PROCESS = {
    "proc/77/maps": MAPS.format("/usr/bin/server") + MAPS.format("/opt/libhakmem.so.0.1.0"),
    "proc/77/environ": b"A=1\0LD_PRELOAD=/opt/libhakmem.so\0",
    "proc/77/status": "Name:\tserver\nVmSize:\t  100000 kB\n",
    "proc/77/limits": LIMITS.format("unlimited"),
    "proc/77/cgroup": "0::/app\n",
    "proc/77/auxv": struct.pack("<6Q", 6, 4096, 23, 0, 0, 0),
    "opt/libhakmem.so": "",
}


class TestFindings(CommandCase):
    """With --root."""

    def doctor(self, changes: dict[str, str | bytes | None], pid: str = "") -> tuple[int, dict[str, dict]]:
        root = self.folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        for name, content in (WELL | (PROCESS if pid else {}) | changes).items():
            if content is None:
                continue
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        arguments = ["--root", str(root), *([pid] if pid else [])]
        done = self.hakmem("doctor", "--json", *arguments)
        self.assertEqual(done.stderr, "")
        answer = json.loads(done.stdout)
        text = self.hakmem("doctor", "--all", *arguments)
        self.assertEqual(text.returncode, done.returncode)
        words = text.stdout.split()
        self.assertTrue(all(len(line) <= 80 or " " not in line.strip() for line in text.stdout.splitlines()), text.stdout)
        findings = {}
        for finding in answer["findings"]:
            findings[finding["name"]] = finding
            for said in (finding["value"], finding["effect"] or "", finding["fix"] or ""):
                self.assertIn(" ".join(said.split()), " ".join(words))
            self.assertEqual(finding["effect"] is None, finding["level"] == "ok", finding)
            self.assertEqual(finding["fix"] is None, finding["level"] == "ok", finding)
            self.assertIn(f"{finding['level']} {finding['name']}: {finding['value']}", " ".join(words))
        problems = sum(f["level"] == "problem" for f in answer["findings"])
        self.assertEqual((answer["problems"], done.returncode), (problems, int(problems > 0)))
        return done.returncode, findings

    def assert_found(self, name: str, level: str, value: str, fix: str, changes: dict[str, str | bytes | None],
                     pid: str = "") -> None:
        """One thing is wrong and nothing else."""
        status, findings = self.doctor(changes, pid)
        self.assertEqual(status, int(level == "problem"), findings)
        self.assertEqual({n for n, f in findings.items() if f["level"] != "ok"}, {name})
        self.assertEqual(findings[name]["level"], level)
        self.assertRegex(findings[name]["value"], value)
        self.assertRegex(findings[name]["fix"], fix)

    def test_all_is_well(self) -> None:
        for pid in ("", "77"):
            status, findings = self.doctor({}, pid)
            self.assertEqual((status, {f["level"] for f in findings.values()}), (0, {"ok"}), findings)
        self.assertIn("preload", findings)

    def test_root_without_what_is_needed(self) -> None:
        """Nothing there is not the same as nothing wrong."""
        root = self.folder / "bare"
        for missing, folder in ((r"has proc and sys: .*/bare/proc/: No such file", "proc/sys"),
                                (r"has proc and sys: .*/bare/sys/: No such file", "sys"),
                                (r"there is no .*/bare/proc/self", "proc/self")):
            done = self.hakmem("doctor", "--root", root)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, f"^hakmem: doctor: .*{missing}")
            (root / folder).mkdir(parents=True)
        self.assertEqual(self.hakmem("doctor", "--root", root).returncode, 0)
        done = self.hakmem("doctor", "--root", root, "1")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "there is no process 1 below .*/bare")

    def test_huge_pages(self) -> None:
        file = "sys/kernel/mm/transparent_hugepage/enabled"
        self.assert_found("huge_pages", "note", "always", "echo madvise", {file: "[always] madvise never\n"})
        self.assert_found("huge_pages", "note", "never", "echo madvise", {file: "always madvise [never]\n"})
        self.assertEqual(self.doctor({file: None})[0], 0)

    def test_middle_pages(self) -> None:
        file = "sys/kernel/mm/transparent_hugepage/hugepages-{}kB/enabled"
        always, inherit = "[always] inherit madvise never\n", "always [inherit] madvise never\n"
        self.assert_found("middle_pages", "note", "^pages of 16, 64 KiB come unasked$", "HUGE_PAGES_FROM_MB=0",
                          {file.format(16): always, file.format(64): always, file.format(128): inherit,
                           file.format(2048): always})
        mode = {"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"}
        found = self.doctor(mode | {file.format(64): inherit})[1]["middle_pages"]
        self.assertEqual((found["level"], found["value"]), ("note", "pages of 64 KiB come unasked"))

    def test_overcommit(self) -> None:
        strict = {"proc/sys/vm/overcommit_memory": "2\n"}
        self.assert_found("overcommit", "note", r"512 MiB of 1\.0 GiB promised", "overcommit_memory=0", strict)
        full = {"proc/meminfo": "CommitLimit:    1048576 kB\nCommitted_AS:    1000000 kB\n"}
        self.assert_found("overcommit", "problem", "promised", "overcommit_memory=0", strict | full)

    def test_mappings(self) -> None:
        self.assert_found("mappings", "note", "=1000$", "max_map_count=262144", {"proc/sys/vm/max_map_count": "1000\n"})
        many = MAPS.format("/opt/libhakmem.so") * 60000
        self.assert_found("mappings", "problem", "60000 of 65530", "max_map_count", {"proc/77/maps": many}, "77")

    def test_address_space(self) -> None:
        self.assert_found("address_space", "note", r"RLIMIT_AS is 8\.0 GiB", "ulimit -v",
                          {"proc/self/limits": LIMITS.format(8 * GIB)})
        self.assert_found("address_space", "note", r"97\.7 MiB of 8\.0 GiB", "ulimit -v",
                          {"proc/77/limits": LIMITS.format(8 * GIB)}, "77")
        self.assert_found("address_space", "problem", r"97\.7 MiB of 100 MiB", "prlimit",
                          {"proc/77/limits": LIMITS.format(100 << 20)}, "77")

    @support.needs_root
    @unittest.skipIf(SANITIZED, "sanitizers read /proc")
    def test_without_proc(self) -> None:
        """Where nothing can be looked at not all is well."""
        def without() -> None:
            support.other_proc(None)
        try:
            done = self.hakmem("doctor", "--json", preexec=without)
            of_process = self.hakmem("doctor", "1", preexec=without)
        except subprocess.SubprocessError as error:
            self.skipTest(f"nothing can be mounted: {error}")
        found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
        self.assertEqual((done.returncode, found["proc"]["level"]), (1, "problem"))
        self.assertEqual(found["proc"]["value"], "/proc is not mounted")
        self.assertEqual(of_process.returncode, 2)
        self.assertRegex(of_process.stderr, "process 1 cannot be looked at: /proc is not mounted")

    def test_data(self) -> None:
        """What can be written to is limited by itself."""
        rows = "Max data size             {}            unlimited            bytes     \n" + LIMITS.format("unlimited")
        self.assert_found("data", "note", r"RLIMIT_DATA is 8\.0 GiB", "ulimit -d",
                          {"proc/self/limits": rows.format(8 * GIB)})
        server = {"proc/77/limits": rows.format(100 << 20)}
        for used, level, value in ((50000, "note", r"48\.8 MiB of 100 MiB"), (100000, "problem", r"97\.7 MiB of 100 MiB")):
            server["proc/77/status"] = f"Name:\tserver\nVmSize:\t  900000 kB\nVmData:\t  {used} kB\n"
            self.assert_found("data", level, value, "--data=", server, "77")

    def test_page_size(self) -> None:
        self.assert_found("page_size", "note", "65536 bytes", "4096", {"proc/self/auxv": struct.pack("<4Q", 6, 65536, 0, 0)})

    def test_ptrace(self) -> None:
        scope = "proc/sys/kernel/yama/ptrace_scope"
        self.assert_found("ptrace", "note", "ptrace_scope=1", "as root", {scope: "1\n"})
        self.assert_found("ptrace", "note", "ptrace_scope=3", "at boot", {scope: "3\n"})
        self.assert_found("ptrace", "note", "container", "cap-add=SYS_PTRACE", {".dockerenv": ""})
        user = {"proc/self/status": "CapEff:\t0000000000000000\nCapBnd:\t0000000000080000\n", ".dockerenv": ""}
        found = self.doctor(user)[1]["ptrace"]
        self.assertEqual((found["level"], found["value"]), ("ok", "processes of the same user can be read, all by root"))
        self.assert_found("ptrace", "note", "ptrace_scope=1", "as root", user | {scope: "1\n"})
        root = {"proc/self/status": "CapEff:\t0000000000080000\n", scope: "1\n", ".dockerenv": ""}
        self.assertEqual(self.doctor(root)[1]["ptrace"]["level"], "ok")

    def test_cgroup_2(self) -> None:
        app = "sys/fs/cgroup/app/"
        _, findings = self.doctor({app + "memory.max": f"{GIB}\n"})
        self.assertRegex(findings["cgroup_limit"]["value"], r"879 KiB of 1\.0 GiB \(memory\.max\)")
        near = {app + "memory.max": f"{GIB}\n", app + "memory.current": f"{GIB - 4096}\n"}
        self.assert_found("cgroup_limit", "problem", "of 1.0 GiB", "HAKMEM_LIMIT_MB", near)
        cached = near | {app + "memory.stat": f"inactive_file {GIB // 2}\n"}  # files that nobody uses do not count
        self.assertEqual(self.doctor(cached)[1]["cgroup_limit"]["level"], "ok")
        high = {app + "memory.high": f"{GIB}\n", app + "memory.current": f"{GIB}\n", app + "memory.stat": ""}
        self.assert_found("cgroup_limit", "problem", r"\(memory\.high\)", "raise memory.high", high)
        parent = {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "5000\n",
                  "sys/fs/cgroup/a/memory.current": "4999\n"}
        self.assert_found("cgroup_limit", "problem", "4.9 KiB of 4.9 KiB", "raise memory.max", parent)

    def test_cgroup_1(self) -> None:
        group = "sys/fs/cgroup/memory/app/"
        one = {"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/app\n0::/\n", group + "memory.limit_in_bytes": "9223372036854771712\n",
               group + "memory.usage_in_bytes": "900000\n"}
        self.assertEqual(self.doctor(one)[1]["cgroup_limit"]["value"], "none")
        self.assert_found("cgroup_limit", "problem", r"of 977 KiB \(limit_in_bytes\)", "HAKMEM_LIMIT_MB",
                          one | {group + "memory.limit_in_bytes": "1000000\n", group + "memory.usage_in_bytes": "990000\n"})
        self.assert_found("cgroup_kills", "problem", "^3 processes", "raise the limit",
                          one | {group + "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"})

    def test_cgroup_kills_and_pressure(self) -> None:
        app = "sys/fs/cgroup/app/"
        self.assert_found("cgroup_kills", "problem", "^2 processes", "raise the limit", {app + "memory.events": "oom 2\noom_kill 2\n"})
        self.assert_found("pressure", "problem", r"^34\.5%", "more memory",
                          {app + "memory.pressure": "some avg10=34.50 avg60=1.00 avg300=0.10 total=9\nfull avg10=1.00\n"})
        self.assert_found("pressure", "problem", r"^20\.0%", "more memory",
                          {app + "memory.pressure": None, "proc/pressure/memory": "some avg10=20.00 avg60=0\n"})

    def test_no_hakmem(self) -> None:
        maps = MAPS.format("/usr/bin/server")
        self.assert_found("preload", "problem", "hakmem is not in the process", "hakmem run",
                          {"proc/77/maps": maps, "proc/77/environ": b"A=1\0"}, "77")
        self.assert_found("preload", "problem", "the loader did not take it", "--check", {"proc/77/maps": maps}, "77")
        self.assert_found("preload", "problem", "does not exist here", "finds the library itself",
                          {"proc/77/maps": maps, "opt/libhakmem.so": None}, "77")
        self.assert_found("preload", "problem", "raised rights", "libhakmem.a",
                          {"proc/77/maps": maps, "proc/77/auxv": struct.pack("<6Q", 6, 4096, 23, 1, 0, 0)}, "77")

    def test_other_allocators(self) -> None:
        both = PROCESS["proc/77/maps"] + MAPS.format("/usr/lib/libjemalloc.so.2")
        self.assert_found("other_allocator", "note", r"jemalloc \(/usr/lib/libjemalloc\.so\.2\)", "use one allocator only",
                          {"proc/77/maps": both}, "77")
        self.assert_found("other_allocator", "problem", "jemalloc", "take it out of LD_PRELOAD",
                          {"proc/77/maps": both, "proc/77/environ": b"LD_PRELOAD=libjemalloc.so.2:/opt/libhakmem.so\0"}, "77")


class TestProcesses(CommandCase):
    """Real ones."""

    def finding(self, name: str, *arguments: str | Path) -> dict:
        done = self.hakmem("doctor", "--json", *arguments)
        self.assertEqual(done.stderr, "")
        found = [f for f in json.loads(done.stdout)["findings"] if f["name"] == name]
        self.assertEqual(len(found), 1, done.stdout)
        return found[0]

    def running(self, *words: str | Path, **env: str) -> str:
        """A program that has written the x that it read, or one of its own: its libraries are there."""
        process = subprocess.Popen([str(w) for w in words], env=support.environment() | env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        process.stdin.write(b"x")
        process.stdin.flush()
        self.assertEqual(os.read(process.stdout.fileno(), 1), b"x")
        return str(process.pid)

    def test_under_hakmem(self) -> None:
        if not self.real_library:
            self.skipTest("needs the library: TEST_HAKMEM_LIBRARY")
        found = self.finding("preload", self.running("cat", LD_PRELOAD=str(self.library)))
        self.assertEqual(found["level"], "ok")
        self.assertRegex(found["value"], r"^hakmem \d+\.\d+\.\d+, in libhakmem\.so$")

    def test_a_library_that_cannot_be_read(self) -> None:
        """As after an upgrade: hakmem is at work, but this command can tell nothing of it."""
        if not self.real_library:
            self.skipTest("needs the library: TEST_HAKMEM_LIBRARY")
        data = bytearray(Path(self.library).read_bytes())
        data[data.index(b"\x7fhakmem root\r\n\x1a\x01") + 32] += 1
        other = self.folder / "libhakmem-other.so"
        other.write_bytes(data)
        found = self.finding("preload", self.running("cat", LD_PRELOAD=str(other)))
        self.assertEqual(found["level"], "note")
        self.assertRegex(found["value"], r"^cat uses hakmem \S+, whose records this command")
        self.assertIn("start it again", found["fix"])

    def test_a_process_that_is_recorded(self) -> None:
        """What `hakmem record` preloads is no allocator."""
        recorder = self.compile("libhakmem-record.so", "int nothing;\n", "-shared", "-fPIC")
        found = self.finding("preload", self.running("cat", LD_PRELOAD=str(recorder)))
        self.assertEqual(found["level"], "problem")
        self.assertRegex(found["value"], "not in the process")

    def test_not_under_hakmem(self) -> None:
        self.assertRegex(self.finding("preload", self.running("cat"))["value"], "not in the process")

    def test_static(self) -> None:
        program = self.compile("static", PAUSE, "-static")
        for env in ({"LD_PRELOAD": str(self.library)}, {}):
            found = self.finding("preload", self.running(program, **env))
            self.assertRegex(found["value"], "statically linked")
            self.assertEqual(found["fix"], "link it with libhakmem.a")

    def test_without_memory(self) -> None:
        """A process that has ended, and that nobody has waited for."""
        process = subprocess.Popen(["true"])
        self.addCleanup(process.wait)
        while " Z " not in Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8"):
            time.sleep(0.01)
        found = self.finding("preload", str(process.pid))
        self.assertRegex(found["value"], "has no memory")
        self.assertEqual(found["fix"], "give the number of a running program")

    @unittest.skipIf(shutil.which("musl-gcc") is None, "musl-tools is not installed")
    def test_another_libc(self) -> None:
        """`hakmem run` would refuse it with the library that it finds by itself."""
        program = self.folder / "musl"
        subprocess.run(["musl-gcc", "-x", "c", "-", "-o", program], check=True, text=True,
                       input=PAUSE)
        found = self.finding("preload", self.running(program))
        self.assertRegex(found["value"], "uses musl")
        self.assertRegex(found["fix"], "--lib PATH .* library made for musl")

    def test_own_malloc(self) -> None:
        source = "#include <unistd.h>\nstatic char b[99999]; static unsigned long n; void *malloc(unsigned long s) " \
                 "{ void *p = b + n; n += (s + 15) & ~15ul; return p; } void free(void *p) { (void)p; } int main(void) " \
                 "{ write(1, \"x\", 1); pause(); return malloc(1) == 0; }\n"
        program = self.compile("own", source, "-rdynamic")
        found = self.finding("own_malloc", self.running(program))
        self.assertRegex(found["value"], "defines malloc itself")

    def test_command(self) -> None:
        self.assertEqual(self.finding("takeover", "--", self.probe)["level"], "ok")
        found = self.finding("takeover", "--", "/nonexistent/x")
        self.assertEqual(found["level"], "problem")
        self.assertRegex(found["value"], "'/nonexistent/x' was not found")
        program = self.compile("static", "int main(void) { return 0; }\n", "-static")
        found = self.finding("takeover", "--", program)
        self.assertRegex(found["value"], "statically linked")
        self.assertRegex(found["fix"], "libhakmem.a")

    def test_this_system(self) -> None:
        """Whatever it is, the answer is whole."""
        done = self.hakmem("doctor")
        self.assertIn(done.returncode, (0, 1))
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"^(Nothing is wrong|note|problem)")

    def test_arguments(self) -> None:
        for words, message in ((("x",), "'x' is not the number"), (("1", "2"), "one process at a time"), (("--",), "no command given"),
                               (("--jsn",), "did you mean '--json'"), (("--root",), "needs a folder"), (("2000000000",), "there is no process")):
            done = self.hakmem("doctor", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertRegex(done.stderr, rf"^hakmem: doctor: .*{re.escape(message)}.*\n$")

    @unittest.skipIf(SANITIZED, "once is enough")
    def test_help(self) -> None:
        for words in (("doctor", "--help"), ("help", "doctor")):
            self.assertTrue(self.hakmem(*words).stdout.startswith("Usage: hakmem doctor "))


if __name__ == "__main__":
    support.main()
