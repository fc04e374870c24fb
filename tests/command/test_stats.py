# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs under the library: limits and failed allocations on stderr, all figures as JSON that a parser reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import unittest

import support
from support import SANITIZED, CommandCase

# Takes all there is of each size, three times, and ends well only if as much was there each time.
GREEDY = """
#include <errno.h>
#include <stdlib.h>
#include <string.h>
static void *volatile blocks[100000];
static size_t take_all(size_t size)
{
    size_t n = 0;
    errno = 0;
    while (n < 100000 && (blocks[n] = malloc(size)) != NULL)
        memset(blocks[n++], 1, size < 5000 ? size : 5000);
    return n < 100000 && errno != ENOMEM ? 0 : n;
}
int main(void)
{
    static const size_t sizes[] = {500, 20000, 400000, 3000000};
    for (int i = 0; i < 4; i++) {
        size_t first = 0;
        for (int round = 0; round < 3; round++) {
            size_t n = take_all(sizes[i]);
            if (n == 0 || (round > 0 && n < first))
                return 1 + i;
            first = round == 0 ? n : first;
            while (n > 0)
                free(blocks[--n]);
        }
    }
    return 0;
}
"""

# Fails twice and prints what hakmem_stats_json says; fails if the length it asks for is not what it writes.
STATS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    static char text[200000];
    int (*stats)(char *, size_t);
    *(void **)&stats = dlsym(RTLD_DEFAULT, "hakmem_stats_json");
    volatile size_t most = (size_t)-1;
    void *volatile p = malloc(most);
    p = malloc((size_t)1 << 45);
    for (size_t size = 1; size < 3000000; size += size / 4 + 1)
        p = malloc(size);
    int length = stats(text, sizeof text);
    return p == NULL || length != (int)strlen(text) || puts(text) < 0;
}
"""
# Frees what it had, makes no call for some seconds (with a background thread until nothing is kept, if that comes), and says
# how many threads there are and what is kept.
IDLE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *volatile block;
static char status[4096];
int main(void)
{
    int (*control)(const char *, uint64_t *, const uint64_t *);
    *(void **)&control = dlsym(RTLD_DEFAULT, "hakmem_ctl");
    uint64_t kept[2];
    int times = atoi(getenv("HAKMEM_BACKGROUND_THREAD")) != 0 ? 15 : 1;
    for (int i = 0; i < 4; i++) { /* what is wanted again and again is kept */
        block = malloc(4000000);
        free(block);
    }
    if (control("pool.retired_superslabs", &kept[0], NULL) != 0)
        return 1;
    do {
        sleep(3);
        if (control("pool.retired_superslabs", &kept[1], NULL) != 0)
            return 1;
    } while (kept[1] != 0 && --times > 0);
    int file = open("/proc/self/status", O_RDONLY);
    const char *threads = read(file, status, sizeof status - 1) > 0 ? strstr(status, "Threads:") : NULL;
    printf("%d %d %d\\n", threads == NULL ? 0 : atoi(threads + 8), (int)kept[0], (int)kept[1]);
    return 0;
}
"""
STAGES = {"adopt", "warm", "empty", "unused", "retired", "fresh"}


@unittest.skipIf(SANITIZED, "the command has no part in this")
class TestStats(CommandCase):
    """Run with the library preloaded directly."""

    def preloaded(self, program: str, **options: str) -> subprocess.CompletedProcess[str]:
        if not self.real_library:
            self.skipTest("needs the library: TEST_HAKMEM_LIBRARY")
        path = self.compile(program.lower(), {"GREEDY": GREEDY, "IDLE": IDLE, "STATS": STATS}[program], "-ldl")
        env = support.environment() | {"LD_PRELOAD": str(self.library)} | options
        return subprocess.run([str(path)], env=env, capture_output=True, text=True, timeout=60)

    def test_limit(self) -> None:
        done = self.preloaded("GREEDY", HAKMEM_LIMIT_MB="16", HAKMEM_TRACE_FAILURES="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(
            done.stderr,
            r"^hakmem: allocation of 500 bytes failed: HAKMEM_LIMIT_MB is reached; class \d+, stage fresh, 0 ms ago\n$",
        )

    def test_system_refuses(self) -> None:
        if not self.real_library:
            self.skipTest("needs the library: TEST_HAKMEM_LIBRARY")
        path = self.compile("greedy", GREEDY)
        env = support.environment() | {"LD_PRELOAD": str(self.library), "HAKMEM_TRACE_FAILURES": "1"}
        done = subprocess.run(
            ["prlimit", f"--as={96 << 20}", str(path)], env=env, capture_output=True, text=True, timeout=60
        )
        self.assertRegex(
            done.stderr,
            r"^hakmem: allocation of \d+ bytes failed: the system refused memory \(ENOMEM\); "
            rf"RLIMIT_AS {96 << 20}; \d+ mappings.*; class \d+, stage \w+, 0 ms ago\n$",
        )

    def test_silent_without_the_option(self) -> None:
        done = self.preloaded("GREEDY", HAKMEM_LIMIT_MB="16")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_background_thread(self) -> None:
        for threads in (1, 2):
            done = self.preloaded("IDLE", HAKMEM_BACKGROUND_THREAD=str(threads - 1))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            there, before, after = (int(n) for n in done.stdout.split())
            self.assertEqual(there, threads)
            self.assertGreater(before, 0)
            self.assertEqual(after == 0, threads == 2, f"{after} superslabs are kept")

    def test_json(self) -> None:
        done = self.preloaded("STATS", HAKMEM_SOFT_CAP="64:2")
        self.assertEqual(done.returncode, 0, done.stderr)
        stats = json.loads(done.stdout)
        self.assertEqual(stats["schema_version"], 1)
        self.assertRegex(stats["version"], r"^\d+\.\d+\.\d+$")
        classes = stats["classes"]
        self.assertEqual(len(classes), 88)
        sizes = [c["size_bytes"] for c in classes]
        aligned = [1024 * n for n in (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)]
        self.assertEqual(sizes, sorted(sizes[: -len(aligned)]) + aligned)
        self.assertEqual(len(set(sizes)), len(sizes))  # a policy's file names classes by their sizes
        self.assertEqual([c["soft_cap_bytes"] for c in classes if c["size_bytes"] == 64], [2 << 20])
        control = stats["control"]
        for stage in STAGES:
            of_classes = sum(c["stages"][stage] for c in classes) + stats["large"]["stages"][stage]
            self.assertEqual(of_classes, control[f"pool.acquired.{stage}"], stage)
        self.assertTrue(all(set(c["stages"]) == STAGES for c in classes))
        self.assertGreater(control["live.blocks"], 20)
        failures = stats["failures"]
        self.assertEqual({k: failures[k] for k in ("threshold", "exhaustion", "map")},
                         {k: control[f"failures.{k}"] for k in ("threshold", "exhaustion", "map")})
        self.assertEqual(failures["threshold"], 1)
        self.assertEqual(len(failures["last"]), 2)
        self.assertTrue(failures["last"][1].startswith(f"allocation of {1 << 45} bytes failed: "))
        self.assertEqual(set(stats["locks"]),
                         {"pool_grow", "window", "records", "registry", "heaps"})
        self.assertTrue(all(set(lock) == {"acquired", "contended"} for lock in stats["locks"].values()))

    def test_reports_at_exit(self) -> None:
        done = self.preloaded("STATS", HAKMEM_SHARED_POOL_STAGE_STATS="1", HAKMEM_SHARED_POOL_LOCK_STATS="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        shares = [float(s) for s in re.findall(r"^hakmem: slots acquired, stage \w+ \d+ \((.*)%\)$", done.stderr, re.M)]
        self.assertEqual(len(shares), len(STAGES))
        self.assertAlmostEqual(sum(shares), 100, delta=1)
        self.assertRegex(done.stderr, r"(?m)^hakmem: class of \d+ bytes: adopt \d+, .* slots in use \d+$")
        self.assertRegex(done.stderr, r"(?m)^hakmem: lock pool_grow: acquired [1-9]\d*, contended \d+$")

    def test_docs_name_every_control(self) -> None:
        done = self.preloaded("STATS")
        page = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "control.md")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for name in json.loads(done.stdout)["control"]:
            self.assertIn(f"`{name}`", text)


if __name__ == "__main__":
    support.main()
