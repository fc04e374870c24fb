#!/usr/bin/env python3
"""Shows that each gate accepts a good input and fails on bad ones, with small trees made for the purpose.

    selftest.py [--cc COMPILER]

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import debug_lines
import recycling

HERE = Path(__file__).resolve().parent
compiler = "cc"

ATOMICS = """
#pragma once
#define hak_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define hak_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define hak_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define hak_exchange_acq_rel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)
"""

GOOD_TREE = {
    "src/base/base.h": '#pragma once\n#include "base/atomics.h"\n#include <stddef.h>\n',
    "src/base/atomics.h": ATOMICS,
    "src/slab/slab.h": '#pragma once\n#include "base/base.h"\nsize_t hak_slab(void);\n',
    "src/slab/slab_internal.h": '#pragma once\n#include "slab/slab.h"\n',
    "src/slab/slab.c": '#include "slab/slab_internal.h"\nsize_t hak_slab(void) { return 1; }\n',
    "src/pool/pool.h": '#pragma once\n#include "slab/slab.h"\n',
    "src/large/large.h": '#pragma once\n#include "pool/pool.h"\n',
    "src/api/api.h": '#pragma once\n#include "hakmem.h"\n#include <stdio.h>\n',
    "include/hakmem.h": "#pragma once\n",
}


class GateTest(unittest.TestCase):
    """A temporary folder, and ways to run a gate in it."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def gate(self, name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-B", str(HERE / f"{name}.py"), *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def compile(self, output: str, source: str, *flags: str) -> Path:
        """Compiles a C source given as text."""
        path = self.folder / output
        command = [compiler, "-O2", "-fPIC", "-xc", "-", "-o", str(path), *flags]
        subprocess.run(command, input=source, text=True, check=True, capture_output=True)
        return path

    def assert_passes(self, done: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_fails(self, done: subprocess.CompletedProcess[str], message: str) -> None:
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(message, done.stdout + done.stderr)


class Layers(GateTest):
    def run_with(self, **changes: str) -> subprocess.CompletedProcess[str]:
        """Runs the gate on the good tree with some files replaced; __ in a name stands for /, _h for .h."""
        self.write(GOOD_TREE)
        self.write({"src/" + name.replace("__", "/").replace("_DOT_", "."): text for name, text in changes.items()})
        return self.gate("layers", "src", "--cc", compiler)

    def test_good_tree(self) -> None:
        self.assert_passes(self.run_with())

    def test_upward(self) -> None:
        self.assert_fails(self.run_with(slab__slab_DOT_c='#include "pool/pool.h"\n'), "upward: slab lies below pool")

    def test_upward_between_neighbours(self) -> None:
        self.assert_fails(self.run_with(pool__a_DOT_c='#include "large/large.h"\n'), "upward: pool lies below large")

    def test_internal_header_of_another_layer(self) -> None:
        self.assert_fails(self.run_with(pool__a_DOT_c='#include "slab/slab_internal.h"\n'), "internal header of slab")

    def test_indented_include(self) -> None:
        self.assert_fails(self.run_with(slab__a_DOT_c='  #  include  "pool/pool.h"\n'), "src/slab/a.c:1")

    def test_commented_include_is_no_include(self) -> None:
        self.assert_passes(self.run_with(slab__a_DOT_c='/* not this:\n#include "pool/pool.h"\n*/\n'))

    def test_header_that_needs_another(self) -> None:
        self.assert_fails(self.run_with(slab__b_DOT_h="size_t hak_b(void);\n"), "src/slab/b.h: does not compile alone")

    def test_missing_entry_header(self) -> None:
        self.assert_fails(self.run_with(heap__a_DOT_c="\n"), "has no entry header src/heap/heap.h")

    def test_unknown_layer(self) -> None:
        self.assert_fails(self.run_with(extra__a_DOT_c="\n"), "does not lie in a layer")

    def test_include_without_folder(self) -> None:
        self.assert_fails(self.run_with(slab__a_DOT_c='#include "slab.h"\n'), "write the folder too")

    def test_include_of_source(self) -> None:
        self.assert_fails(self.run_with(slab__a_DOT_c='#include "slab/slab.c"\n'), "include headers only")

    def test_angle_brackets(self) -> None:
        self.assert_fails(self.run_with(slab__a_DOT_c="#include <pool/pool.h>\n"), "use quotes")

    def test_stdio_below_api(self) -> None:
        self.assert_fails(self.run_with(slab__a_DOT_c="#include <stdio.h>\n"), "only api may use this header")

    def test_public_header_below_api(self) -> None:
        self.assert_fails(self.run_with(slab__a_DOT_c='#include "hakmem.h"\n'), "only api includes the public header")

    def test_empty_tree(self) -> None:
        self.assert_fails(self.gate("layers", "src"), "no sources")


class Orders(GateTest):
    def run_on(self, code: str) -> subprocess.CompletedProcess[str]:
        self.write({"src/base/atomics.h": ATOMICS, "src/slab/slab.c": code})
        return self.gate("orders", "src")

    def test_both_sides(self) -> None:
        self.assert_passes(self.run_on("""
            void a(void) {
                hak_store_release(&x, 1); /* ORDER: [x-set] to b */
                hak_load_relaxed(&x);
                /* ORDER: [x-set] from a, in a longer
                 * comment */
                if (y &&
                    hak_load_acquire(&x))
                    return;
                hak_exchange_acq_rel(&z,
                                     1); /* ORDER: [z] with itself */
                hak_pool_acquire(p); hak_slot_release(p);
            }"""))

    def test_untagged(self) -> None:
        self.assert_fails(self.run_on("int a(void) { return hak_load_acquire(&x); }"), "has no comment ORDER: [tag]")

    def test_comment_of_the_line_before_is_not_shared(self) -> None:
        done = self.run_on("hak_exchange_acq_rel(&x, 1); /* ORDER: [x] */\nhak_load_acquire(&y);\n")
        self.assert_fails(done, "src/slab/slab.c:2: hak_load_acquire has no comment")

    def test_only_one_side(self) -> None:
        self.assert_fails(self.run_on("hak_load_acquire(&x); /* ORDER: [x] */"), "[x] acquires at src/slab/slab.c:1")
        self.assert_fails(self.run_on("hak_store_release(&x, 1); /* ORDER: [x] */"), "nothing acquires")

    def test_stale_comment(self) -> None:
        self.assert_fails(self.run_on("hak_load_relaxed(&x); /* ORDER: [x] */"), "stands at no ordered operation")

    def test_raw_order(self) -> None:
        self.assert_fails(self.run_on("f(&x, memory_order_relaxed);"), "memory_order_relaxed: use an operation")

    def test_raw_builtin(self) -> None:
        self.assert_fails(self.run_on("__atomic_load_n(&x, __ATOMIC_ACQUIRE);"), "__ATOMIC_ACQUIRE: use an operation")

    def test_raw_sequential_default(self) -> None:
        self.assert_fails(self.run_on("atomic_fetch_add(&x, 1);"), "atomic_fetch_add: use an operation")

    def test_missing_atomics(self) -> None:
        self.write({"src/slab/slab.c": "\n"})
        self.assert_fails(self.gate("orders", "src"), "src/base/atomics.h does not exist")


class Syscalls(GateTest):
    def run_on(self, page: str) -> subprocess.CompletedProcess[str]:
        self.write({"src/os/a.c": "/* SYS_open */\nlong a = SYS_mmap + SYS_close;\n", "page.md": page})
        return self.gate("syscalls", "src", "page.md")

    def test_all_named(self) -> None:
        self.assert_passes(self.run_on("| call | for |\n|---|---|\n| `mmap`, `close` | memory, `files` |\n"))

    def test_one_missing(self) -> None:
        self.assert_fails(self.run_on("`close`\n| `mmap` | memory |\n"), "close is not in docs/seccomp.md")

    def test_one_too_many(self) -> None:
        self.assert_fails(self.run_on("| `mmap` | |\n| `close`, `open` | |\n"), "nothing in src calls open")


class Documents(GateTest):
    def run_on(self, page: str) -> subprocess.CompletedProcess[str]:
        self.write({"Makefile": "test: build\n", "src/a.c": "", "README.md": "# One\n", "docs/a.md": page})
        return self.gate("documents", ".")

    def test_all_there(self) -> None:
        links = "[x](../README.md#one) [y](#a-b-c) [z](https://example.org/nowhere)"
        self.assert_passes(self.run_on(f"# A `b`: c\n{links} `make test`, `src/a.c`\n\n| a |\n|---|\n"))

    def test_a_link_that_leads_nowhere(self) -> None:
        self.assert_fails(self.run_on("[x](README.md)\n"), "docs/a.md:1: the link to README.md leads nowhere")
        self.assert_fails(self.run_on("\n[x](../README.md#two)\n"), "docs/a.md:2: README.md has no heading #two")

    def test_a_name_of_nothing(self) -> None:
        self.assert_fails(self.run_on("`src/b.c`\n"), "there is no src/b.c")
        self.assert_fails(self.run_on("`make tests`\n"), "make has no target tests")

    def test_a_table_in_two_parts(self) -> None:
        self.assert_fails(self.run_on("| a |\n|---|\n| b |\n\n| c |\n"), "docs/a.md:5: this table has no head")


class Exports(GateTest):
    SOURCE = "#include <string.h>\n__attribute__((visibility(\"default\"))) void *malloc(unsigned long n) " \
             "{ return n ? (void *)strlen((char *)n) : 0; }\n"

    def run_on(self, source: str, *flags: str, archive_source: str | None = None) -> subprocess.CompletedProcess[str]:
        base = ["-fno-builtin", "-fvisibility=hidden"]
        shared = self.compile("libhakmem.so", source, "-shared", *base, *flags)
        member = self.compile("member.o", archive_source or source, "-c", *base)
        subprocess.run(["ar", "qc", "libhakmem.a", member.name], cwd=self.folder, check=True)
        self.write({"exports.txt": "# the list\nmalloc\n", "undefined.txt": "strlen\nputs?\n__cxa_finalize?\n"
                    "_ITM_deregisterTMCloneTable?\n_ITM_registerTMCloneTable?\n__gmon_start__?\n"})
        return self.gate("exports", "--shared", shared, "--static", "libhakmem.a",
                         "--list", "exports.txt", "--undefined", "undefined.txt")

    def test_good(self) -> None:
        self.assert_passes(self.run_on(self.SOURCE))

    def test_extra_symbol(self) -> None:
        extra = self.SOURCE + '__attribute__((visibility("default"))) int hak_leak;\n'
        done = self.run_on(extra)
        self.assert_fails(done, "libhakmem.so: exports hak_leak, which is not in exports.txt")
        self.assertIn("libhakmem.a: defines hak_leak", done.stdout)

    def test_missing_symbol(self) -> None:
        self.assert_fails(self.run_on(self.SOURCE.replace("malloc", "other")), "does not export malloc")

    def test_version_where_none_belongs(self) -> None:
        self.write({"bad.map": "HAKMEM_1 { global: malloc; };"})
        done = self.run_on(self.SOURCE, f"-Wl,--version-script={self.folder / 'bad.map'}")
        self.assert_fails(done, "exports malloc@@HAKMEM_1")

    def test_needed_library(self) -> None:
        self.assert_fails(self.run_on(self.SOURCE, "-Wl,--no-as-needed", "-lm"), "needs libm.so.6")

    def test_unlisted_undefined(self) -> None:
        source = self.SOURCE.replace("strlen", "strdup")
        self.assert_fails(self.run_on(source), "takes strdup from outside, which is not in undefined.txt")

    def test_strong_where_weak_is_allowed(self) -> None:
        source = "int puts(char *);\n" + self.SOURCE.replace("strlen", "puts")
        self.assert_fails(self.run_on(source), "takes puts from outside, which must be weak")

    def test_hidden_symbol_leaks_from_archive(self) -> None:
        done = self.run_on(self.SOURCE, archive_source=self.SOURCE + "int hak_internal = 1;\n")
        self.assert_fails(done, "libhakmem.a: defines hak_internal")


class LinkTest(GateTest):
    def run_on(self, **layers: str) -> subprocess.CompletedProcess[str]:
        lines = []
        for layer, source in layers.items():
            lines.append(f"{layer};{self.compile(f'{layer}.o', source, '-c')}\n")
        self.write({"manifest.txt": "".join(lines)})
        return self.gate("linktest", "manifest.txt", "--cc", compiler)

    def test_downward(self) -> None:
        self.assert_passes(self.run_on(base="int hak_a(void) { return 1; }",
                                       slab="int hak_a(void); int hak_b(void) { return hak_a(); }"))

    def test_upward(self) -> None:
        done = self.run_on(base="int hak_b(void); int hak_a(void) { return hak_b(); }",
                           slab="int hak_b(void) { return 1; }")
        self.assert_fails(done, "base needs something from above it: hak_b")

    def test_nothing(self) -> None:
        self.assert_fails(self.run_on(), "names no layer")


class Instructions(GateTest):
    ALLOCATOR = """
        static char block[64];
        static volatile int lock;
        void *malloc(unsigned long n) { %s return n ? block : 0; }
        void *calloc(unsigned long m, unsigned long n) { %s return m && n ? block : 0; }
        void free(void *p) { (void)p; }
        """
    PROGRAM = """
        #include <stdlib.h>
        int main(int argc, char **argv) {
            for (long i = atol(argv[argc - 1]); i > 0; i--) {
                void *p = malloc(64);
                __asm__ volatile("" : : "r"(p) : "memory");
                free(p);
            }
        }"""

    def run_on(self, body: str, calloc_body: str = "") -> subprocess.CompletedProcess[str]:
        shared = self.compile("liballoc.so", self.ALLOCATOR % (body, calloc_body), "-shared", "-fno-builtin", "-w")
        program = self.compile("loop", self.PROGRAM)
        other = self.compile("calloc_loop", self.PROGRAM.replace("malloc(64)", "calloc(1, 64)"))
        return self.gate("instructions", "--shared", shared, "--program", program, "--calloc-program", other)

    def test_good(self) -> None:
        done = self.run_on("")
        self.assert_passes(done)
        self.assertRegex(done.stdout, r"pair 1\d\.\d\d, malloc [3-6]\.\d\d, free [1-3]\.00, calloc [3-9]\.\d\d")

    def test_too_many_in_calloc(self) -> None:
        self.assert_fails(self.run_on("", "for (int i = 0; i < 100; i++) lock = i;"), "instructions, allowed are 34")

    def test_locked_in_calloc(self) -> None:
        done = self.run_on("", "__atomic_fetch_add(&lock, 1, __ATOMIC_RELAXED);")
        self.assert_fails(done, "calloc: locked instruction in the fast path")

    def test_too_many(self) -> None:
        done = self.run_on("for (int i = 0; i < 100; i++) lock = i;")
        self.assert_fails(done, "instructions, allowed are 16")
        self.assertIn("instructions, allowed are 48", done.stdout)

    def test_locked_prefix(self) -> None:
        done = self.run_on("__atomic_fetch_add(&lock, 1, __ATOMIC_RELAXED);")
        self.assert_fails(done, "malloc: locked instruction in the fast path")

    def test_locked_exchange(self) -> None:
        done = self.run_on("__atomic_exchange_n(&lock, 1, __ATOMIC_SEQ_CST);")
        self.assert_fails(done, "malloc: locked instruction in the fast path")

    def test_library_that_took_nothing_over(self) -> None:
        shared = self.compile("empty.so", "int x;", "-shared")
        program = self.compile("loop", self.PROGRAM.replace("malloc(64)", "argv").replace("free(p)", "(void)p"))
        done = self.gate("instructions", "--shared", shared, "--program", program, "--calloc-program", program)
        self.assert_fails(done, "malloc: no instruction was counted")


class Parked(GateTest):
    def run_on(self, printed: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Runs the gate with a program that prints this; the library is one that does nothing."""
        shared = self.compile("empty.so", "int x;", "-shared")
        self.write({"program": f"#!/bin/sh\n{printed}\nexit {status}\n"})
        (self.folder / "program").chmod(0o755)
        return self.gate("parked", "--shared", shared, "--program", "program")

    def metric(self, kb: float) -> str:
        return f"echo hakmem: summary of a version >&2; echo parked_threads: metric rss_per_parked_thread {kb} kB"

    def test_good(self) -> None:
        self.assert_passes(self.run_on(self.metric(39.9)))

    def test_too_much(self) -> None:
        self.assert_fails(self.run_on(self.metric(40.0)), "40.0 kB a thread, less than 40 are allowed")

    def test_nothing_measured(self) -> None:
        self.assert_fails(self.run_on("echo hakmem: summary of a version >&2"), "printed no rss_per_parked_thread")

    def test_without_the_library(self) -> None:
        self.assert_fails(self.run_on("echo parked_threads: metric rss_per_parked_thread 1 kB"), "without the library")

    def test_program_that_fails(self) -> None:
        self.assert_fails(self.run_on(self.metric(1), 3), "ended with status 3")


class Recycling(GateTest):
    LIBRARY = """
        #include <stdio.h>
        #include <sys/mman.h>
        __attribute__((constructor)) static void start(void)
        {
            for (int i = 0; i < %d; i++)
                madvise(NULL, 0, MADV_NORMAL);
            fprintf(stderr, "hakmem: superslabs mapped %d\\n");
        }"""

    def run_on(self, calls: int, superslabs: int, **environment: str) -> subprocess.CompletedProcess[str]:
        shared = self.compile("liballoc.so", self.LIBRARY % (calls, superslabs), "-shared")
        program = self.compile("program", "int main(void) { return 0; }")
        arguments = ["--shared", str(shared), "--program", str(program)]
        return subprocess.run([sys.executable, "-B", str(HERE / "recycling.py"), *arguments], capture_output=True,
                              text=True, check=False, env={**os.environ, **environment})

    def test_good(self) -> None:
        self.assert_passes(self.run_on(1, 4))

    def test_too_many_superslabs(self) -> None:
        self.assert_fails(self.run_on(1, 5), "5 superslabs mapped, allowed are 4")

    @unittest.skipUnless(recycling.can_trace(), "strace cannot run here")
    def test_too_many_calls(self) -> None:
        self.assert_fails(self.run_on(100, 1), "memory system calls, allowed are 60")

    def test_without_strace(self) -> None:
        done = self.run_on(100, 1, PATH="/nowhere")
        self.assert_passes(done)
        self.assertIn("system calls not counted", done.stdout)
        self.assert_fails(self.run_on(100, 5, PATH="/nowhere"), "5 superslabs mapped")


class DebugLines(GateTest):
    LINES = ("[SS_FREE] purged=no class=1", "[SUPER_REG] event=take superslab=0 count=1",
             "[SUPER_REG] event=give superslab=0 count=1", "[SS_LRU] event=unmap superslab=0 count=1",
             "[SS_MAP] call=map address=1 bytes=1 refused=0", "[SLL_DRAIN] to=slabs class=1 blocks=1 left=0")

    def run_on(self, lines: tuple[str, ...], *, always: bool = False,
               **counters: int) -> subprocess.CompletedProcess[str]:
        """Runs the gate with a program that prints these lines where it is asked to, and counters."""
        told = {**{counter: int("acquired" not in counter) for counter in debug_lines.COUNTED.values()},
                **{name.replace("_", " "): count for name, count in counters.items()}}
        said = "".join(f"echo '{line}' >&2\n" for line in lines)
        asked = said if always else f'if [ -n "$HAKMEM_SS_FREE_DEBUG" ]; then\n{said}fi\n'
        summary = "".join(f"echo 'hakmem: {name} {count}' >&2\n" for name, count in told.items())
        self.write({"program": f"#!/bin/sh\n{asked}{summary}"})
        (self.folder / "program").chmod(0o755)
        return self.gate("debug_lines", "--shared", self.compile("empty.so", "int x;", "-shared"), "--program",
                         self.folder / "program")

    def test_good(self) -> None:
        self.assert_passes(self.run_on(self.LINES))

    def test_lines_that_are_missing(self) -> None:
        for line in self.LINES:
            kept = tuple(other for other in self.LINES if other != line)
            self.assert_fails(self.run_on(kept), "0 lines")

    def test_one_line_too_many(self) -> None:
        self.assert_fails(self.run_on((*self.LINES, "[SS_ACQUIRE] stage=warm class=1")), "1 lines")

    def test_nothing_to_see(self) -> None:
        self.assert_fails(self.run_on(self.LINES, superslabs_unmapped=0), "no superslab was unmapped")

    def test_lines_that_nobody_asked_for(self) -> None:
        self.assert_fails(self.run_on(self.LINES, always=True), "lines although no option asks for them")


class Install(GateTest):
    def test_incomplete(self) -> None:
        self.write({"hakmem.h": "", "CMakeLists.txt": """
            cmake_minimum_required(VERSION 3.25)
            project(incomplete LANGUAGES NONE)
            install(FILES hakmem.h DESTINATION include)"""})
        subprocess.run(["cmake", "-B", "build"], cwd=self.folder, check=True, capture_output=True)
        done = self.gate("install", "--build", "build")
        self.assert_fails(done, "libhakmem.so was not installed")
        self.assertNotIn("hakmem.h was not installed", done.stdout)

    def test_program_that_fails(self) -> None:
        self.write({"program": "#!/bin/sh\necho broken; exit 3\n"})
        (self.folder / "program").chmod(0o755)
        sys.path.insert(0, str(HERE))
        import install
        self.assertIn("broken", "".join(install.check_run(self.folder / "program", self.folder)))


def main() -> None:
    global compiler
    parser = argparse.ArgumentParser(description="Tests the gates.")
    parser.add_argument("--cc", default=compiler)
    arguments, rest = parser.parse_known_args()
    compiler = arguments.cc
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
