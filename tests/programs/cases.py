# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem: the table of programs.

Who uses it: tests/programs/run.py. A case has to print the same with and without hakmem, so what
differs from run to run is masked, and what proves that the work was done is expected. It never
runs anything by itself.
"""

import servers
from stage import Case, Step
from wide import WIDE

DATA = "tests/programs/data/"
PYTHON = "/usr/bin/python3"
TEST_NOISE = (
    (r"\d+(\.\d+)? (ms|sec|min)( \d+(\.\d+)? (ms|sec))?", "TIME"),
    (r"\d:\d\d:\d\d load avg: [\d.]+", "CLOCK"),
    (r"Using random seed \d+", "SEED"),
)


def python_tests(name: str, modules: str, env: dict[str, str], without: str = "") -> Case:
    """`without`: the name of a test that is left out."""
    ignore = ("-i", without) if without else ()
    return Case(
        name=name,
        what=f"a part of python3's own test-suite: {modules}",
        needs=(PYTHON,),
        play=(Step((PYTHON, "-m", "test", "-q", *ignore, *modules.split()), env=env),),
        expect=(r"Tests result: SUCCESS",),
        probe=(PYTHON, "-c", "0"),
        mask=TEST_NOISE,
    )


def script(name: str, *arguments: str) -> tuple[Step, ...]:
    """One of the scripts in data/, which stop at the first command that fails."""
    return (Step(("bash", name, *arguments)),)


def multiplication_puzzle() -> str:
    """An SMT formula whose solution needs some search: factors of a number, modulo 2 to the 32."""
    return (
        "(set-logic QF_BV)\n(declare-const x (_ BitVec 32))\n(declare-const y (_ BitVec 32))\n"
        "(assert (= (bvmul x y) (_ bv600550121 32)))\n"
        "(assert (bvugt x (_ bv1 32)))\n(assert (bvuge y x))\n"
        "(assert (bvult y (_ bv2000000 32)))\n(check-sat)\n(get-value (x y))\n"
    )


def pigeon_puzzle(holes: int) -> str:
    """More pigeons than holes: no solution, and a solver has to find that out."""
    lines = ["(set-logic QF_UF)"]
    pigeons = range(holes + 1)
    for p in pigeons:
        lines += [f"(declare-const p{p}h{h} Bool)" for h in range(holes)]
        lines.append("(assert (or " + " ".join(f"p{p}h{h}" for h in range(holes)) + "))")
    for h in range(holes):
        for a in pigeons:
            lines += [f"(assert (or (not p{a}h{h}) (not p{b}h{h})))" for b in range(a)]
    return "\n".join([*lines, "(check-sat)", ""])


CASES: tuple[Case, ...] = (
    Case(
        name="bash",
        what="loops, arrays, strings, subshells and jobs of bash",
        needs=("bash",),
        files=(DATA + "workload.sh",),
        play=script("workload.sh"),
        expect=(r"array: 20000 item0", r"job 4: 17994000", r"match: 0"),
        probe=("bash", "-c", "true"),
    ),
    Case(
        name="python-workload",
        what="python3: JSON and strings, every object from malloc",
        needs=(PYTHON,),
        files=("bench/demo/workload.py",),
        play=(Step((PYTHON, "workload.py", "40"), env={"PYTHONMALLOC": "malloc"}),),
        expect=(r"40 rounds, \d+ characters, 16000 orders kept, [0-9a-f]{64}",),
        probe=(PYTHON, "-c", "0"),
    ),
    python_tests(
        "python-tests-types",
        "test_json test_dict test_list test_re test_set test_bytes test_unicode test_deque "
        "test_collections test_struct test_array test_memoryview",
        {"PYTHONMALLOC": "malloc"},
        without="test_search_anchor_at_beginning",  # fails when it takes more than 0.1 s
    ),
    python_tests(
        "python-tests-modules",
        "test_gc test_decimal test_zlib test_hashlib test_ctypes test_mmap test_xml_etree",
        {},
    ),
    python_tests("python-tests-threads", "test_threading test_thread", {"PYTHONMALLOC": "malloc"}),
    python_tests("python-tests-fork", "test_fork1", {"PYTHONMALLOC": "malloc"}),
    Case(
        name="perl",
        what="hashes, regular expressions, closures and sorting of perl",
        needs=("perl",),
        files=(DATA + "workload.pl",),
        play=(Step(("perl", "workload.pl"), env={"PERL_HASH_SEED": "0"}),),
        expect=(r"\d+ replacements, \d+ characters", r"closures: 37507500", r"kept 500"),
        probe=("perl", "-e", "1"),
    ),
    Case(
        name="git",
        what="sixty commits, log, merge, gc, fsck, blame",
        needs=("git", "bash"),
        files=(DATA + "git.sh",),
        play=script("git.sh"),
        expect=(r"commit 60\n", r"in-pack: \d\d\d", r"6 files changed, 2006 insertions"),
        probe=("git", "--version"),
    ),
    Case(
        name="sqlite3",
        what="an in-memory database: fill, index, join, update, delete",
        needs=("sqlite3",),
        files=("bench/demo/workload.sql",),
        play=(Step(("sqlite3", ":memory:", ".read workload.sql")),),
        expect=(r"town \d+\|", r"\nok\n"),
        probe=("sqlite3", "--version"),
    ),
    Case(
        name="gcc",
        what="gcc compiles files of this project",
        needs=("gcc", "bash"),
        files=(
            DATA + "compile.sh",
            "bench/programs/bench.h",
            "bench/programs/larson.c",
            "bench/programs/free_all.c",
        ),
        play=script("compile.sh", "c"),
        expect=(r"[0-9a-f]{64}  larson\.s", r"checksum [0-9a-f]{16}"),
        probe=("gcc", "--version"),
    ),
    Case(
        name="g++",
        what="g++ compiles a C++ file with much of the standard library, which then runs",
        needs=("g++", "bash"),
        files=(DATA + "compile.sh", DATA + "containers.cc"),
        play=script("compile.sh", "c++"),
        expect=(r"operators 1500", r"failures bad_alloc 300", r"sorted \S+ 3629"),
        probe=("g++", "--version"),
    ),
    Case(
        name="redis",
        what="a redis server on loopback, loaded by redis-benchmark",
        note="Debian's is linked with jemalloc, which hakmem comes before",
        needs=("redis-server", "redis-benchmark", "redis-cli"),
        play=servers.play_redis,
        expect=(r"SET: 20000 requests", r"GET: 20000 requests", r"LPUSH: 20000 requests", r"PONG"),
        probe=("redis-server", "--version"),
    ),
    Case(
        name="z3",
        what="a solver on two formulas that need search",
        needs=("z3",),
        play=(
            Step(("z3", "-in"), stdin=multiplication_puzzle()),
            Step(("z3", "-in"), stdin=pigeon_puzzle(8)),
        ),
        expect=(r"\nsat\n", r"\nunsat\n"),
        probe=("z3", "--version"),
    ),
    Case(
        name="archives",
        what="tar, gzip and xz, there and back",
        needs=("tar", "gzip", "xz", "bash"),
        files=(DATA + "archives.sh",),
        play=script("archives.sh"),
        expect=(r"unpacked the same", r"[0-9a-f]{64}  all.tar.gz"),
        probe=("xz", "--version"),
    ),
    Case(
        name="text-tools",
        what="sort, uniq, cut, awk, sed and grep on 200,000 lines",
        needs=("sort", "awk", "sed", "grep", "bash"),
        files=(DATA + "text-tools.sh",),
        play=script("text-tools.sh"),
        expect=(r"[0-9a-f]{64}  sorted",),
        probe=("sort", "--version"),
    ),
    Case(
        name="openssl",
        what="digests, encryption there and back, a key that signs",
        needs=("openssl", "bash"),
        files=(DATA + "openssl.sh",),
        play=script("openssl.sh"),
        expect=(r"opened", r"Verified OK", r"is prime"),
        probe=("openssl", "version"),
    ),
    Case(
        name="node",
        what="buffers, JSON, compression and worker threads of node",
        note="keeps its objects in memory of its own from mmap; buffers are from malloc",
        needs=("node",),
        files=(DATA + "workload.js",),
        play=(Step(("node", "workload.js")),),
        expect=(r"main [0-9a-f]{64}", r"workers [0-9a-f]{64} [0-9a-f]{64}"),
        probe=("node", "--version"),
        optional=True,
    ),
    Case(
        name="java",
        what="threads, direct buffers and compression of java",
        note="keeps its objects in memory of its own from mmap; the virtual machine uses hakmem",
        needs=("java", "javac"),
        files=(DATA + "Workload.java",),
        play=(Step(("java", "-Xmx256m", "Workload.java")),),
        expect=(r"job \d+", r"words 1000 19901400"),
        probe=("java", "-version"),
        optional=True,
    ),
    *WIDE,
)
