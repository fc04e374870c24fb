# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem stat`: its figures against the library's own, its formats."""

from __future__ import annotations

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

import support
from stat_support import LINES, ROOT, StatCase, python_with

# Holds 3000 blocks of 100 bytes, 40 of 100000 and one of 5 MB; frees some in another thread; asks for too much;
# prints hakmem_stats_json, malloc_info and, on stderr, malloc_stats; then pauses.
HOLD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *small[4000], *large[40], *huge;
static volatile int freed;
static char text[200000], info[20000];
static void *other(void *unused)
{
    for (int i = 3000; i < 4000; i++)
        free(small[i]);
    freed = 1;
    pause();
    return unused;
}
int main(void)
{
    int (*stats)(char *, size_t);
    *(void **)&stats = dlsym(RTLD_DEFAULT, "hakmem_stats_json");
    for (int i = 0; i < 4000; i++)
        memset(small[i] = malloc(100), 1, 100);
    for (int i = 0; i < 40; i++)
        memset(large[i] = malloc(100000), 1, 100000);
    memset(huge = malloc(5000000), 1, 5000000);
    volatile size_t most = (size_t)-1;
    void *volatile none = malloc(most);
    FILE *stream = fmemopen(info, sizeof info, "w"); /* nothing is allocated behind this */
    setvbuf(stream, NULL, _IONBF, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    while (!freed)
        usleep(1000);
    stats(text, sizeof text);
    write(1, text, strlen(text));
    write(1, "\\0", 1);
    malloc_info(0, stream);
    write(1, info, strlen(info));
    write(1, "\\0", 1);
    malloc_stats();
    write(1, "\\0", 1);
    pause();
    return none != NULL;
}
"""

# Holds 60,000 small blocks of sizes that fit no class, 20 large ones and a huge one, resized once; prints what of the
# small ones and of the others was not asked for. Half of the small ones come when a byte was read.
SLACK = """
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *held[60000];
int main(void)
{
    char byte;
    unsigned long x = 88172645463325252u, slack = 0, large = 0;
    for (int i = 0; i < 60000; i++) {
        if (i == 30000 && (write(1, "half\\n", 5) != 5 || read(0, &byte, 1) != 1))
            return 1;
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t size = 1 + x % (i % 50 == 0 ? 20000 : 900);
        memset(held[i] = malloc(size), 1, size);
        slack += malloc_usable_size(held[i]) - size;
    }
    for (int i = 0; i < 20; i++) {
        char *p = realloc(malloc(90000), 100000 + i);
        memset(p, 1, 100000);
        large += 131072 - 100000 - i;
    }
    memset(realloc(malloc(5000000), 5040000), 1, 5040000);
    large += 77 * 65536 - 5040000;
    printf("%lu %lu\\n", slack, large);
    fflush(stdout);
    pause();
}
"""

# Holds five of ten large blocks and of ten huge ones, and 100 of 300 small ones.
BURIED = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *held[320];
int main(void)
{
    for (int i = 0; i < 320; i++) {
        size_t size = i < 10 ? 300000 : i < 20 ? 5000000 : 50;
        memset(held[i] = malloc(size), 1, size);
    }
    for (int i = 0; i < 320; i++)
        if (i < 20 ? i % 2 == 0 : i >= 120)
            free(held[i]);
    write(1, "x", 1);
    pause();
}
"""

# Keeps some of its blocks of 1000 bytes, which a function of their own allocates; the others live for a moment.
LIVES = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *kept[40000];
__attribute__((noinline)) static char *keep(void)
{
    char *p = malloc(1000);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
__attribute__((noinline)) static char *drop(void)
{
    char *p = malloc(1000);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
int main(void)
{
    static char *some[2000];
    for (int i = 0; i < 40000;) {
        for (int j = 0; j < 2000; j++) {
            some[j] = drop();
            if (j % 20 == 0)
                memset(kept[i++] = keep(), 1, 1000);
        }
        for (int j = 0; j < 2000; j++)
            free(some[j]);
    }
    write(1, "x", 1);
    pause();
}
"""

# Three threads that never stop allocating and freeing blocks of all kinds, also each other's.
CHURN = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *shared[512];
static int begun;
static void *churn(void *seed)
{
    unsigned long x = (unsigned long)seed;
    for (;;) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        unsigned long r = x >> 33;
        size_t size = r % 100 == 0 ? 2000000 : r % 20 == 0 ? 150000 : r % 5 == 0 ? 9000 : r % 900;
        char *p = malloc(size + 1);
        memset(p, 1, size > 5000 ? 5000 : size);
        free(__atomic_exchange_n(&shared[r % 512], p, __ATOMIC_ACQ_REL));
        if (seed != NULL)
            __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED), seed = NULL;
    }
    return NULL;
}
int main(void)
{
    pthread_t t;
    for (unsigned long i = 1; i <= 3; i++)
        pthread_create(&t, NULL, churn, (void *)i);
    while (__atomic_load_n(&begun, __ATOMIC_RELAXED) < 3)
        usleep(1000);
    write(1, "x", 1);
    pause();
}
"""

PARSE_METRICS = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = text_string_to_metric_families(open(sys.argv[1]).read())
print(json.dumps([[s.name, s.labels, s.value] for f in families for s in f.samples]))
"""


# Has a block of malloc, and with an argument one of hakmem_malloc.
TWO = """
#include <hakmem.h>
#include <stdlib.h>
#include <unistd.h>
void *volatile block;
int main(int argc, char **argv)
{
    (void)argv;
    block = argc > 1 ? hakmem_malloc(1) : NULL;
    block = malloc(100000);
    return write(1, "x", 1) == 1 ? pause() : 1;
}
"""


@unittest.skipIf(not Path("/proc/self/pagemap").exists(), "the kernel tells nothing of pages")
class TestFigures(StatCase):
    """A program of which everything is known."""

    def hold(self, **options: object) -> tuple[subprocess.Popen[bytes], dict, str, str]:
        """The process, what hakmem_stats_json, malloc_info and malloc_stats say in it."""
        process = self.running(self.compile("hold", HOLD, "-ldl", "-pthread"), **options)  # type: ignore[arg-type]
        seen = b""
        while seen.count(b"\0") < 3:
            part = os.read(process.stdout.fileno(), 65536)
            self.assertNotEqual(part, b"", process.args)
            seen += part
        stats, info = (text.decode() for text in seen.split(b"\0")[:2])
        os.set_blocking(process.stderr.fileno(), False)
        return process, json.loads(stats), info, os.read(process.stderr.fileno(), 1 << 20).decode()

    @staticmethod
    def held(stat: dict) -> tuple[int, int]:
        """Blocks that the program holds, and their bytes: none that is on its way back or in quarantine."""
        small, others = stat["classes"], (stat["large"], stat["huge"])
        return (sum(c["live_blocks"] for c in small) + sum(part["blocks"] for part in others),
                sum(c["live_bytes"] for c in small) + sum(part["bytes"] for part in others))

    def test_same_numbers_everywhere(self) -> None:
        self.compare_all()

    def test_same_numbers_with_samples(self) -> None:
        """Sampled blocks have slots of their own, and there is one more bin for each class."""
        stat = self.compare_all(HAKMEM_PROF="1", HAKMEM_PROF_SAMPLE_BYTES="5000", HAKMEM_PROF_FILE="/dev/null")
        self.assertGreater(stat["large"]["blocks"], 60)

    def test_samples(self) -> None:
        """With a sample for each block the profile knows all of them."""
        process, *_ = self.hold(env={"HAKMEM_PROF": "1", "HAKMEM_PROF_SAMPLE_BYTES": "64", "HAKMEM_PROF_FILE": "/dev/null"})
        stat = self.stat_json("--samples", str(process.pid))
        self.validate(json.dumps(stat))
        samples = stat["samples"]
        self.assertEqual((samples["sampling"], samples["period_bytes"]), (True, 64))
        big = [b for b in samples["blocks"] if b["bytes"] >= 100000]
        self.assertEqual(len(big), 41)  # of so large ones each is a sample, but for the chance of e^-1562
        site = {s["site"]: s for s in samples["sites"]}
        for size, blocks in ((100000, 40), (5000000, 1)):
            found = {b["site"] for b in big if size <= b["bytes"] < 2 * size}
            self.assertEqual(len(found), 1)
            of_size = site[found.pop()]
            self.assertEqual((of_size["live_blocks"], of_size["live_samples"]), (blocks, blocks))
            files = [m["path"] for m in samples["mappings"] for f in of_size["frames"] if m["start"] <= f < m["end"]]
            self.assertIn(str(self.folder / "hold"), files)
        small = sum(s["live_bytes"] for s in samples["sites"] if s["live_samples"] and s["live_bytes"] // s["live_blocks"] < 200)
        self.assertAlmostEqual(small, 3000 * 112, delta=3000 * 112 // 4)
        self.assertNotIn("samples", self.stat_json(str(process.pid)))

    def compare_all(self, **env: str) -> dict:
        process, stats, info, summary = self.hold(env=env)
        stat = self.stat_json(str(process.pid))
        self.assert_adds_up(stat)
        ours, theirs = stat["counters"], stats["control"]
        self.assertEqual(list(ours), list(theirs))
        for name in ours:
            if not name.startswith("locks."):  # to count is to lock
                self.assertEqual(ours[name], theirs[name], name)
            self.assertGreaterEqual(ours[name], theirs[name] if name.startswith("locks.") else 0, name)
        for mine, other in zip(stat["classes"], stats["classes"], strict=True):
            self.assertEqual(mine["size_bytes"], other["size_bytes"])
            self.assertEqual(mine["slabs"], other["slabs"])
            self.assertEqual(mine["live_blocks"] + mine["waiting_blocks"], other["used_blocks"], mine)
            self.assertEqual((mine["stages"], mine["slots_in_use"]), (other["stages"], other["slots_in_use"]))
        live = re.search(r'<live count="(\d+)" size="(\d+)"/>', info)
        self.assertEqual([int(n) for n in live.groups()], [ours["live.blocks"], ours["live.bytes"]])
        xml = {int(s): (int(n), int(u)) for s, n, u in
               re.findall(r'<class size="(\d+)" slabs="(\d+)" used="(\d+)"/>', info)}
        self.assertEqual(xml, {c["size_bytes"]: (c["slabs"], c["live_blocks"] + c["waiting_blocks"])
                               for c in stat["classes"] if c["slabs"] > 0})
        self.assertIn(f"hakmem: live bytes {ours['live.bytes']}\n", summary)
        self.assertIn(f"hakmem: live blocks {ours['live.blocks']}\n", summary)
        self.assertIn(f"hakmem: in thread caches {ours['bins.bytes']} bytes\n", summary)
        return stat

    def test_known_blocks(self) -> None:
        process, *_ = self.hold()
        stat = self.stat_json("--superslabs", str(process.pid))
        of_size = {c["size_bytes"]: c for c in stat["classes"]}
        blocks = sum(of_size[size]["live_blocks"] for size in (112, 128))
        waiting = sum(of_size[size]["waiting_blocks"] for size in (112, 128))
        self.assertGreaterEqual(blocks, 3000)
        self.assertLess(blocks, 3100)
        self.assertGreater(waiting, 0)  # the other thread has freed them, and this one has not looked
        outbox = sum(t["outbox_blocks"] for t in stat["threads"])
        self.assertTrue(0 < outbox <= waiting, (outbox, waiting))  # the last ones always wait for more
        self.assertGreaterEqual(stat["large"]["blocks"], 40)
        self.assertGreaterEqual(stat["large"]["resident_bytes"], 40 * 100000)
        self.assertEqual(stat["huge"]["blocks"], 1)
        self.assertGreaterEqual(stat["huge"]["resident_bytes"], 5000000)
        tids = {int(t) for t in os.listdir(f"/proc/{process.pid}/task")}
        self.assertEqual({t["tid"] for t in stat["threads"] if t["state"] == "running"}, tids)
        self.assertEqual(stat["failures"]["threshold"], 1)
        failure = stat["failures"]["last"][-1]
        self.assertEqual((failure["reason"], failure["size_bytes"]), ("threshold", (1 << 64) - 1))
        self.validate(json.dumps(stat))
        line = {w["name"]: w["resident_bytes"] for w in stat["waterfall"]}
        self.assertGreater(line["metadata"], 30000)
        self.assertGreater(line["library"], 50000)
        self.assertLess(stat["not_ours"]["anonymous_bytes"], 300000)  # libc's and the program's data
        slots = [slot for s in stat["superslabs"] for slot in s["slots"]]
        first = [slot for slot in slots if slot["kind"] == "class" and slot["part"] == 0]
        self.assertEqual(sum(slot["live_blocks"] for slot in first), sum(c["live_blocks"] for c in stat["classes"]))
        self.assertEqual(sum(s["resident_bytes"] for s in stat["superslabs"]),
                         sum(line["resident_bytes"] for line in stat["waterfall"][:8]))
        self.assertTrue(all(len(s["slots"]) == (32 if s["state"] in ("slots", "retired") else 0)
                            for s in stat["superslabs"]))

    def slack_of(self, *, late: bool = False, **env: str) -> tuple[dict, int, int]:
        """What stat says of the program above, and what is true of its small and its other blocks."""
        process = self.running(self.compile("slack", SLACK), env=env)
        self.assertEqual(process.stdout.readline(), b"half\n")
        if late:
            done = self.hakmem("ask", "--wait=0", str(process.pid), "prof", "start", "4096")
            self.assertEqual(done.returncode, 1, done.stderr)  # it waits for us, and takes it when it goes on
        process.stdin.write(b"x")
        process.stdin.flush()
        small, large = (int(word) for word in process.stdout.readline().split())
        stat = self.stat_json("--samples", str(process.pid))
        self.assert_adds_up(stat)
        self.validate(json.dumps(stat))
        return stat, small, large

    def test_slack_without_samples(self) -> None:
        """Of large and huge blocks it is known to the byte; their last pages are touched no further than asked for."""
        stat, _, large = self.slack_of()
        self.assertEqual(stat["slack"], {"basis": "large", "samples": 0})
        line = stat["waterfall"][1]
        self.assertFalse(line["known"])
        self.assertEqual(line["virtual_bytes"], large)
        self.assertLess(line["resident_bytes"], 21 * 2 * 4096)

    def test_slack_from_samples(self) -> None:
        """Also where sampling began when half of the blocks were there."""
        for late, env in ((False, {"HAKMEM_PROF": "1", "HAKMEM_PROF_SAMPLE_BYTES": "4096"}), (True, {})):
            stat, small, large = self.slack_of(late=late, HAKMEM_PROF_FILE="/dev/null", **env)
            self.assertEqual(stat["slack"]["basis"], "estimated")
            sampled = [b for b in stat["samples"]["blocks"] if b["bytes"] < 90000]
            self.assertEqual(stat["slack"]["samples"], len(sampled))
            self.assertGreater(len(sampled), 1500)
            self.assertTrue(all(b["asked_bytes"] <= b["bytes"] for b in sampled))
            line = stat["waterfall"][1]
            self.assertTrue(line["known"])
            self.assertAlmostEqual(line["virtual_bytes"] - large, small, delta=small / 20)  # some five deviations

    def test_names_of_others_reach_no_terminal_as_they_are(self) -> None:
        """A process chooses its name, and the names of its threads: no escape sequence comes out of them."""
        program = self.compile("named", """
            #include <stdlib.h>
            #include <sys/prctl.h>
            #include <unistd.h>
            int main(void)
            {
                void *volatile p = malloc(100);
                prctl(PR_SET_NAME, "a\\033[31mb\\177\\nc");
                write(1, p, 1);
                pause();
            }""")
        process = self.running(program)
        os.read(process.stdout.fileno(), 1)
        pid, name = str(process.pid), "a?[31mb?"
        stat = self.stat_json("--superslabs", pid)
        self.assertEqual(stat["process"]["name"], name)
        self.assertIn(name, [thread["name"] for thread in stat["threads"]])
        saved = self.folder / "saved\033[32m.json"
        saved.write_text(json.dumps(stat | {"process": stat["process"] | {"name": "a\033[31mb"}}), encoding="utf-8")
        for words in (("stat", pid), ("explain", pid), ("explain", str(saved))):
            done = self.hakmem(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith("a?[31mb"), done.stdout)
            self.assertNotIn("\033", done.stdout)

    def test_lifetimes_of_call_sites(self) -> None:
        """The site that keeps its blocks, and the one that does not, where they are in the program."""
        program = self.compile("lives", LIVES)
        process = self.running(program, env={"HAKMEM_POLICY": f"learn:{self.folder}/policy"})
        os.read(process.stdout.fileno(), 1)
        stat = self.stat_json("--superslabs", str(process.pid))
        self.assert_adds_up(stat)
        self.validate(json.dumps(stat))
        if "checked" in stat["process"]["build"]:
            self.skipTest("built without tail calls the library takes its own functions for the callers")
        ours = [s for s in stat["lifetime_sites"] if s["file"] == str(program) and s["least_bytes"] == 1000]
        self.assertEqual(len(ours), 2, ours)
        kept, dropped = sorted(ours, key=lambda site: -site["live_samples"])
        self.assertEqual(kept["live_samples"], kept["samples"])  # none of them ever ends
        self.assertGreater(kept["life_bytes"], 4 * dropped["life_bytes"])
        self.assertGreater(kept["skipped"], 0)
        self.assertGreater(dropped["samples"], 20)
        self.assertEqual(len(kept["blocks"]), kept["live_samples"])
        names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        at = {name: int(value, 16) for value, _, name in (line.split() for line in names.splitlines() if line[0] != " ")}
        self.assertTrue(at["keep"] < kept["offset"] < at["keep"] + 64, (at, kept))
        self.assertTrue(at["drop"] < dropped["offset"] < at["drop"] + 64, (at, dropped))
        of = {s["address"] + i * 65536: slot for s in stat["superslabs"] for i, slot in enumerate(s["slots"])}
        for block in kept["blocks"]:
            self.assertEqual(of[block & ~0xFFFF]["sample_bytes"], 1008)
        self.assertFalse("lifetime_sites" in self.stat_json(str(self.hold()[0].pid)))

    def test_two_libraries(self) -> None:
        """The one that is malloc is told, wherever the other one lies, and whether that is in use or not."""
        library = Path(os.environ["TEST_HAKMEM_LIBRARY"])
        prefixed = library.with_name("libhakmem-prefixed.so")
        if not prefixed.exists():
            self.skipTest("no prefixed library")
        program = self.compile("two", TWO, f"-I{ROOT / 'include'}", str(prefixed))
        for preload in (f"{library}:{prefixed}", f"{prefixed}:{library}"):
            for words in ((program,), (program, "both")):
                process = self.running(*words, env={"LD_PRELOAD": preload, "LD_LIBRARY_PATH": str(prefixed.parent)})
                self.assertEqual(os.read(process.stdout.fileno(), 1), b"x")
                stat = self.stat_json(str(process.pid))
                self.assertGreater(stat["counters"]["live.bytes"], 99999, (preload, words))

    def test_hardened(self) -> None:
        library = Path(os.environ["TEST_HAKMEM_LIBRARY"]).with_name("libhakmem-hardened.so")
        if not library.exists():
            self.skipTest("no hardened library")
        process, stats, *_ = self.hold(library=library)
        stat = self.stat_json(str(process.pid))
        self.assert_adds_up(stat)
        self.assertIn("hardened", stat["process"]["build"])
        self.assertEqual(stat["counters"]["live.bytes"], stats["control"]["live.bytes"])
        self.assertTrue(stat["waterfall"][1]["known"])
        self.assertEqual(stat["slack"]["basis"], "exact")
        self.assertGreater(stat["waterfall"][1]["virtual_bytes"], 3000 * 12)  # blocks of 100 bytes are 112 or more
        self.assertGreater(sum(c["quarantine_blocks"] for c in stat["classes"]), 0)

    def test_hardened_large_blocks_that_wait_are_not_held(self) -> None:
        library = Path(os.environ["TEST_HAKMEM_LIBRARY"]).with_name("libhakmem-hardened.so")
        if not library.exists():
            self.skipTest("no hardened library")
        process = self.running(self.compile("buried", BURIED), library=library)
        self.assertEqual(process.stdout.read(1), b"x")
        stat = self.stat_json("--superslabs", str(process.pid))
        self.assert_adds_up(stat)
        self.assertEqual((stat["large"]["blocks"], stat["huge"]["blocks"]), (5, 5))
        slots = [slot for s in stat["superslabs"] for slot in s["slots"] if slot["part"] == 0]
        self.assertEqual(sum(slot["kind"] == "large" for slot in slots), 5)
        self.assertEqual(sum(s["state"] == "huge" for s in stat["superslabs"]), 5)
        self.assertIn(f"\n{self.held(stat)[0]} live blocks of ", self.hakmem("stat", str(process.pid)).stdout)

    def test_hardened_blocks_one_by_one(self) -> None:
        """The library's word of each block says whether it is live, and how much was asked for."""
        library = Path(os.environ["TEST_HAKMEM_LIBRARY"]).with_name("libhakmem-hardened.so")
        if not library.exists():
            self.skipTest("no hardened library")
        source = "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { static void *p[5000];\n" \
                 "for (int i = 0; i < 5000; i++) p[i] = malloc(100 + i % 500);\n" \
                 "for (int i = 0; i < 30; i++) free(p[i * 150]);\nwrite(1, \"x\", 1); pause(); }\n"
        process = self.running(self.compile("words", source), library=library)
        os.read(process.stdout.fileno(), 1)
        stat = self.stat_json(str(process.pid))
        self.assertEqual(sum(c["live_blocks"] for c in stat["classes"]), 5000 - 30)
        self.assertEqual(sum(c["quarantine_blocks"] for c in stat["classes"]), 30)
        asked = sum(100 + i % 500 for i in range(5000)) - sum(100 + i * 150 % 500 for i in range(30))
        self.assertEqual(stat["waterfall"][0]["virtual_bytes"], asked)

    def test_static_and_stripped(self) -> None:
        archive = Path(os.environ["TEST_HAKMEM_LIBRARY"]).with_name("libhakmem.a")
        if not archive.exists():
            self.skipTest("no static library")
        source = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint main(void) {\n" \
                 "for (int i = 0; i < 999; i++) memset(malloc(2000), 1, 2000);\nwrite(1, \"x\", 1); pause(); }\n"
        for name, options in (("static", ["-static"]), ("dynamic", ["-Wl,--gc-sections"])):
            program = self.compile(name, source, *options, "-s", "-Wl,--undefined=malloc", archive, "-pthread")
            process = self.running(program, library=Path("/dev/null"))
            os.read(process.stdout.fileno(), 1)
            stat = self.stat_json(str(process.pid))
            self.assert_adds_up(stat)
            self.assertEqual(sum(c["live_blocks"] for c in stat["classes"] if c["size_bytes"] >= 2000), 999)
            self.assertEqual(stat["waterfall"][9]["resident_bytes"], 0)

    def test_a_process_that_does_not_stand_still(self) -> None:
        """Whatever is read in the midst of a change, the answer is whole, and not far off."""
        process = self.running(self.compile("churn", CHURN, "-pthread"))
        os.read(process.stdout.fileno(), 1)
        for _ in range(60):
            stat = self.stat_json("--superslabs", str(process.pid))
            resident = sum(line["resident_bytes"] for line in stat["waterfall"])
            self.assertEqual(resident, stat["process"]["rss_bytes"])
            self.assertLess(abs(stat["process"]["kernel_rss_bytes"] - resident), resident / 50)
            self.assertLess(sum(c["live_blocks"] for c in stat["classes"]), 20000)  # 512, and what moves through the bins
            self.assertEqual(len([t for t in stat["threads"] if t["state"] == "running"]), 4)
        self.validate(json.dumps(stat))

    def test_openmetrics(self) -> None:
        process, stats, *_ = self.hold()
        done = self.hakmem("stat", "--openmetrics", str(process.pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        file = self.write("metrics.txt", done.stdout, mode=0o644)
        parsed = subprocess.run([python_with("prometheus_client"), "-c", PARSE_METRICS, str(file)],
                                capture_output=True, text=True)
        self.assertEqual(parsed.returncode, 0, parsed.stderr[-2000:])
        samples = json.loads(parsed.stdout)
        lines = {labels["line"] for name, labels, _ in samples if name == "hakmem_resident_bytes"}
        self.assertEqual(lines, set(LINES))
        value = {name: value for name, labels, value in samples if not labels}
        stat = self.stat_json(str(process.pid))
        self.assertEqual((value["hakmem_live_blocks"], value["hakmem_live_bytes"]), self.held(stat))
        acquired = sum(v for name, _, v in samples if name == "hakmem_slots_acquired_total")
        self.assertEqual(acquired, sum(v for k, v in stats["control"].items() if k.startswith("pool.acquired.")))

    def test_text(self) -> None:
        process, *_ = self.hold()
        done = self.hakmem("stat", str(process.pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, rf"^hold, process {process.pid}: .* in memory, hakmem \d+\.\d+\.\d+")
        self.assertRegex(done.stdout, r"(?m)^  live blocks +[\d.]+ MiB +[\d.]+%  #+\.+$")
        self.assertRegex(done.stdout, r"(?m)^  of live blocks, not asked for +>[\d.]+ KiB +[\d.]+%  [#.]+$")
        self.assertRegex(done.stdout, rf"(?m)^> of large and huge blocks; .*\n  HAKMEM_PROF=1 in its environment, or: hakmem prof start {process.pid}$")
        self.assertRegex(done.stdout, r"(?m)^  sum .* the kernel says .* \([+-][\d.]+%\)$")
        self.assertIn(f"\n{self.held(self.stat_json(str(process.pid)))[0]} live blocks of ", done.stdout)
        self.assertIn("1 allocation has failed", done.stdout)
        shares = [float(s) for s in re.findall(r" ([\d.]+)%  [#.]+$", done.stdout, re.M)]
        self.assertAlmostEqual(sum(shares), 100, delta=1)

    def test_watch(self) -> None:
        process, *_ = self.hold()
        watch = self.start("stat", "--watch=1", str(process.pid))
        self.addCleanup(watch.kill)
        seen = ""
        while seen.count("  sum ") < 2:
            line = watch.stdout.readline()
            self.assertNotEqual(line, "", "the watch has ended")
            seen += line
        self.stop(process)
        _, errors = watch.communicate(timeout=30)
        self.assertEqual((watch.returncode, errors), (0, ""))

if __name__ == "__main__":
    support.main()
