# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem prof: from profiles that are made up, and from a program that is compiled and run here."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hakmem_tools.common.errors import ToolError
from hakmem_tools.prof import page, pprof, raw, stacks, symbols
from hakmem_tools.prof.raw import Profile, Site

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("TEST_HAKMEM_BUILD", ROOT / "build" / "release"))

SOURCE = r"""
#include <stdlib.h>
#include <unistd.h>
#define FRAME(p) __asm__ volatile("" : : "r"(p) : "memory")
static inline __attribute__((always_inline)) void *inlined(size_t n)
{
    void *p = malloc(n);
    FRAME(p);
    return p;
}
__attribute__((noinline)) void *apple(void)
{
    void *p = inlined(5000);
    FRAME(p);
    return p;
}
__attribute__((noinline)) void *pear(void)
{
    void *p = calloc(10, 1000);
    FRAME(p);
    return p;
}
__attribute__((noinline)) void fruit(void)
{
    for (int i = 0; i < 4000; i++)
        apple();
    for (int i = 0; i < 2000; i++)
        free(pear());
}
int main(int argc, char **argv)
{
    fruit();
    if (argc > 1 && write(1, "ready\n", 6) == 6)
        pause();
    return 0;
}
"""

PERIOD = 4096


def environment(**options: str) -> dict[str, str]:
    """Without what the caller's shell has for hakmem."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_"))}
    source = str(ROOT / "python" / "src")
    return kept | {"HAKMEM_COMMAND": str(BUILD / "hakmem"), "PYTHONPATH": source} | options


def sampled(**options: str) -> dict[str, str]:
    """The environment of a program that is sampled."""
    preload = str(BUILD / "libhakmem.so")
    return environment(
        LD_PRELOAD=preload, HAKMEM_PROF="1", HAKMEM_PROF_SAMPLE_BYTES=str(PERIOD), **options
    )


def run(*words: str | Path, status: int = 0) -> str:
    """Runs `hakmem prof` and returns what it printed, or on failure what it said."""
    command = [sys.executable, "-m", "hakmem_tools.prof", *map(str, words)]
    done = subprocess.run(
        command, env=environment(COLUMNS="120"), capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program above."""
    path = tmp_path_factory.mktemp("program") / "fruits"
    command = ["gcc", "-O2", "-g", "-Wl,--build-id", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return path


@pytest.fixture(scope="module")
def profile_file(program: Path) -> Path:
    """Its profile."""
    path = program.with_name("fruits.prof")
    subprocess.run([program], env=sampled(HAKMEM_PROF_FILE=str(path)), check=True)
    return path


def live(sums: dict[tuple[str, ...], float], function: str) -> float:
    """What went through a function."""
    return sum(value for names, value in sums.items() if function in names)


def test_functions_lines_and_inlined_frames(profile_file: Path) -> None:
    named = stacks.read(raw.load(profile_file))
    apple = next(s for s in named if any(f.name == "apple" for f in s.frames))
    names = [function.name for function in apple.frames]
    assert names[:4] == ["inlined", "apple", "fruit", "main"]
    line = SOURCE.splitlines().index("    void *p = malloc(n);") + 1
    assert apple.frames[0].line == line
    sums = stacks.folded(named, "live_bytes")
    assert live(sums, "apple") == pytest.approx(4000 * 5120, rel=0.1)
    assert live(sums, "pear") == 0
    sums = stacks.folded(named, "allocated_objects")
    assert live(sums, "pear") == pytest.approx(2000, rel=0.1)


def test_without_addr2line_names_come_from_the_symbol_table(
    profile_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbols, "addr2line", lambda: None)
    sums = stacks.folded(stacks.read(raw.load(profile_file)), "live_bytes")
    assert live(sums, "apple") > 0
    assert live(sums, "inlined") == 0


def test_pprof_message(profile_file: Path, program: Path) -> None:
    profile = raw.load(profile_file)
    found = symbols.Symbolizer(profile)
    message = pprof.read(pprof.Writer(profile, found).write(stacks.name_stacks(profile, found)))
    text = message.string_table
    assert text[0] == ""
    assert [text[t.type] for t in message.sample_type] == [n for n, _, _ in pprof.SAMPLE_TYPES]
    assert message.period == PERIOD
    ids = {location.id for location in message.location}
    assert all(one in ids for sample in message.sample for one in sample.location_id)
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True)
    build_id = notes.stdout.split("Build ID: ")[1].split()[0]
    assert build_id in {text[m.build_id] for m in message.mapping}
    assert text[message.mapping[0].filename] == str(program)  # the format's word for the program
    live_bytes = [t.type for t in message.sample_type].index(text[:].index("inuse_space"))
    total = sum(sample.value[live_bytes] for sample in message.sample)
    assert total == sum(site.live_bytes for site in profile.sites)


def test_go_tool_pprof_reads_it(profile_file: Path, tmp_path: Path) -> None:
    # Debian's brings pprof; newer ones build it first, which takes a minute, so they may keep it.
    go = shutil.which("go", path="/usr/bin") or shutil.which("go")
    assert go, "tools/setup-test.sh installs golang-go"
    packed = tmp_path / "fruits.pb.gz"
    run("pprof", profile_file, "-o", packed)
    more = {
        "HOME": str(tmp_path),
        "PPROF_TMPDIR": str(tmp_path),
        "GOFLAGS": "",
        "GOTOOLCHAIN": "local",
        "GOCACHE": str(BUILD / "go-cache"),
    }
    command = [go, "tool", "pprof", "-top", "-sample_index=inuse_space", "-unit=B", str(packed)]
    done = subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Type: inuse_space" in done.stdout
    [line] = [line for line in done.stdout.splitlines() if line.rstrip().endswith(" apple")]
    assert float(line.split()[3].removesuffix("B")) == pytest.approx(4000 * 5120, rel=0.1)


def test_folded_stacks(profile_file: Path) -> None:
    lines = run("folded", profile_file, "--value", "allocated_bytes").splitlines()
    assert all(line.rpartition(" ")[2].isdecimal() for line in lines)
    assert any(";main;fruit;pear " in line for line in lines)


def test_flame_graph_needs_no_network(profile_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    run("html", profile_file, "-o", output)
    text = output.read_text(encoding="utf-8")
    assert "fruit" in text
    assert "<script src" not in text
    assert "<link" not in text


def test_top_and_diff(profile_file: Path, program: Path, tmp_path: Path) -> None:
    text = run("top", profile_file)
    profile = raw.load(profile_file)
    samples = sum(site.live_samples for site in profile.sites)
    assert samples < sum(site.allocated_samples for site in profile.sites)
    title = rf"process {profile.pid}: live bytes [\d.]+ MiB, {samples} samples"
    assert re.fullmatch(title, text.splitlines()[0])
    assert text.splitlines()[2].endswith("inlined") or "inlined" in text.splitlines()[2]
    other = tmp_path / "other.prof"
    raw_text = profile_file.read_text(encoding="utf-8")
    kept = [line for line in raw_text.splitlines() if not line.startswith("site ")]
    other.write_text("\n".join(kept) + "\n", encoding="utf-8")
    assert run("top", other) == (
        f"process {profile.pid}: live bytes 0 B, 0 samples: there is only what was allocated "
        f"since sampling began, one sample for {profile.period_bytes / 1024:.1f} KiB\n"
    )
    text = run("diff", profile_file, other)
    assert re.match(r"live bytes: [\d.]+ MiB before, -[\d.]+ MiB since\n", text)
    assert "inlined" in text
    assert "inlined" not in run("diff", profile_file, profile_file)


def test_running_process(program: Path, tmp_path: Path) -> None:
    process = subprocess.Popen([program, "wait"], env=sampled(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        saved = tmp_path / "now.prof"
        run("dump", str(process.pid), "-o", saved)
        sums = stacks.folded(stacks.read(raw.load(saved)), "live_bytes")
        assert live(sums, "apple") == pytest.approx(4000 * 5120, rel=0.1)
        assert "apple" in run("top", str(process.pid))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def waiting(program: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program, sampled, when it has allocated; ended afterwards."""
    with subprocess.Popen([program, "wait"], env=sampled(), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def core_of(process: subprocess.Popen[bytes], folder: Path) -> Path:
    """A core file of a process that goes on."""
    made = ["gcore", "-o", str(folder / "core"), str(process.pid)]
    subprocess.run(made, capture_output=True, check=True)
    return folder / f"core.{process.pid}"


@pytest.mark.skipif(shutil.which("gcore") is None, reason="gdb is not installed")
def test_core_file(program: Path, tmp_path: Path) -> None:
    """What a core says is what its process said."""
    with waiting(program) as process:
        now = run("folded", str(process.pid))
        core = core_of(process, tmp_path)
    saved = tmp_path / "core.prof"
    run("dump", core, "-o", saved)
    sums = stacks.folded(stacks.read(raw.load(saved)), "live_bytes")
    assert live(sums, "apple") == pytest.approx(4000 * 5120, rel=0.1)
    assert run("folded", core) == run("folded", saved) == now
    assert "apple" in run("top", core)


def test_a_program_that_was_replaced(program: Path, tmp_path: Path) -> None:
    """What is at its path by now has other functions at the same addresses."""
    path = tmp_path / "replaced"
    shutil.copy(program, path)
    with waiting(path) as process:
        before = run("folded", str(process.pid))
        path.unlink()
        shutil.copy(other_program(tmp_path), path)
        assert run("folded", str(process.pid)) == before
        saved = tmp_path / "now.prof"
        run("dump", str(process.pid), "-o", saved)
    text = run("folded", saved)
    assert "replaced (deleted)+0x" in text
    assert not any(name in text for name in ("apple", "plum"))


@pytest.mark.skipif(shutil.which("gcore") is None, reason="gdb is not installed")
def test_a_core_file_of_a_program_that_was_replaced(program: Path, tmp_path: Path) -> None:
    """As on another machine: the number of its build, which a core file has, is another."""
    path = tmp_path / "replaced"
    shutil.copy(program, path)
    with waiting(path) as process:
        core = core_of(process, tmp_path)
    assert "apple" in run("folded", core)
    shutil.copy(other_program(tmp_path), path)
    text = run("folded", core)
    assert "replaced (deleted)+0x" in text
    assert not any(name in text for name in ("apple", "plum"))


def other_program(folder: Path) -> Path:
    """The same with other names."""
    path = folder / "other"
    source = SOURCE.replace("apple", "plum").replace("fruit", "stone")
    command = ["gcc", "-O2", "-g", "-Wl,--build-id", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    return path


@pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0,
    reason="needs a mount namespace",
)
def test_another_mount_namespace(program: Path, tmp_path: Path) -> None:
    """As of a container: a file that has the same path here is another one."""
    path, inner = tmp_path / "program", tmp_path / "inner"
    shutil.copy(other_program(tmp_path), path)
    shutil.copy(program, inner)
    script = f"mount --bind {inner} {path} && LD_PRELOAD={BUILD / 'libhakmem.so'} exec {path} wait"
    options = {k: v for k, v in sampled().items() if k != "LD_PRELOAD"}
    command = ["unshare", "-m", "sh", "-c", script]
    with subprocess.Popen(command, env=options, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            text = run("folded", str(process.pid))
        finally:
            process.kill()
    assert "apple" in text
    assert "plum" not in text


CHURN = """
print("ready", flush=True)
while True:
    bytes(5000)
"""


def test_start_and_stop(tmp_path: Path) -> None:
    """From outside; the period stays what the first start has made it."""
    preload = {"LD_PRELOAD": str(BUILD / "libhakmem.so"), "PYTHONMALLOC": "malloc"}
    process = subprocess.Popen(
        ["/usr/bin/python3", "-c", CHURN],
        env=environment(HAKMEM_PROF_FILE="/dev/null", **preload),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        pid = str(process.pid)
        assert "it has no heap profile" in run("top", pid, status=1)
        assert run("start", pid, "--period", "4k", "--wait", "60") == ""
        assert run("stop", pid, "--wait", "60") == ""
        saved = tmp_path / "now.prof"
        run("dump", pid, "-o", saved)
        profile = raw.load(saved)
        assert (profile.period_bytes, profile.sampling) == (4096, False)
        assert run("start", pid, "--wait", "60") == ""
        assert "one sample in 4096 bytes" in run("start", pid, "--period", "1m", status=1)
    finally:
        process.kill()
        process.communicate()


def test_tree_of_the_page() -> None:
    boxes = page.tree({("main", "a"): 3.0, ("main", "b"): 4.0, ("main",): 1.0})
    assert dict(zip(boxes.labels, boxes.values, strict=True)) == {
        "all": 8.0,
        "main": 8.0,
        "a": 3.0,
        "b": 4.0,
    }
    assert page.tree({("<b>",): 1.0}).labels[1] == "&lt;b&gt;"


def site(*stack: int, live_bytes: int = 64) -> Site:
    """A site with one block."""
    return Site(stack, 1.0, live_bytes, 1, 1.0, live_bytes, 1)


def test_rows_count_recursion_once() -> None:
    rows = {row.name: row for row in stacks.rows({("main", "f", "f"): 5.0, ("main", "f"): 2.0})}
    assert (rows["f"].own, rows["f"].total) == (7.0, 7.0)
    assert (rows["main"].own, rows["main"].total) == (0.0, 7.0)


def test_addresses_that_are_nowhere() -> None:
    profile = Profile(sites=[site(0x1234), site()])
    sums = stacks.folded(stacks.read(profile), "live_bytes")
    assert sums == {("0x1234",): 64.0, ("[no call stack]",): 64.0}


GOOD = """hakmem heap profile 1
pid 7
period_bytes 512
sampling 1
time_ns 9
columns live_objects live_bytes live_samples allocated_objects allocated_bytes allocated_samples stack
site 1.500 96 1 3.000 192 2 0x10 0x20
mappings
10-20 r-xp 00000000 00:00 0 /x (deleted)
20-30 rw-p 00000000 00:00 0 [heap]
end
"""


def test_format() -> None:
    profile = raw.parse(GOOD, "it")
    assert profile.sites == [Site((16, 32), 1.5, 96, 1, 3.0, 192, 2)]
    assert profile.mappings == [raw.Mapping(16, 32, 0, "/x", deleted=True)]
    assert (profile.pid, profile.period_bytes, profile.sampling) == (7, 512, True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("profile 1", "profile 2", "no heap profile"),
        ("1.500", "x", "line 7"),
        ("0x20", "0xzz", "line 7"),
        ("pid 7", "color 7", "line 2: 'color' is not known"),
        ("live_bytes live_s", "live_s", "line 6: other columns"),
        ("10-20", "hello", "line 9: no mapping"),
        ("end\n", "", "ends early"),
        (GOOD, "", "no heap profile"),
    ],
)
def test_damaged(old: str, new: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        raw.parse(GOOD.replace(old, new, 1), "it")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["top", "/no/such/file"], 2, "cannot read /no/such/file"),
        (["top", "/dev/null/core"], 2, "cannot read /dev/null/core"),
        (["start", "x"], 2, "hakmem prof: Invalid value for 'PID': not a whole number; see"),
        (["top", "4194304999"], 1, "hakmem prof: "),
        (["top", "/dev/null", "--value", "size"], 2, "hakmem prof: "),
        (["start", "1", "--period", "x"], 1, "no number of bytes"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_errors_are_one_line(words: list[str], status: int, message: str) -> None:
    said = run(*words, status=status)
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("kind", ["html", "pprof", "folded", "dump"])
def test_a_file_that_cannot_be_written_is_one_line(kind: str, profile_file: Path) -> None:
    said = run(kind, profile_file, "-o", "/", status=1 if kind == "dump" else 2)
    assert kind == "dump" or said == "hakmem prof: cannot write /: Is a directory\n"
    assert said.startswith("hakmem prof: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", [["top"], ["diff", "--nonsense"]])
def test_wrong_usage_names_the_help_of_the_command(words: list[str]) -> None:
    assert run(*words, status=2).endswith(f"; see 'hakmem prof {words[0]} --help'\n")
