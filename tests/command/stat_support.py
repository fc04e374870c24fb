# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of `hakmem stat` share."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import support
from support import CommandCase

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = ROOT / "docs" / "schema" / "stat.schema.json"
LINES = ["live", "slack", "thread_caches", "free_in_slabs", "empty_slots", "retired", "huge_cache",
         "in_transition", "metadata", "library", "not_ours"]

VALIDATE = """
import json, sys
import jsonschema
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])), cls=jsonschema.Draft202012Validator)
"""


def python_with(module: str) -> str:
    """A Python that has the package: this one, or the system's, for which tools/setup-test.sh installs it."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    raise RuntimeError(f"no Python package {module}; tools/setup-test.sh installs it")


class StatCase(CommandCase):
    """Programs that run under the library until the test ends."""

    def setUp(self) -> None:
        if not self.real_library:
            self.skipTest("needs the library: TEST_HAKMEM_LIBRARY")

    def running(self, *words: str | Path, env: dict[str, str] | None = None, pipe: bool = True,
                library: Path | None = None) -> subprocess.Popen[bytes]:
        """A program under the library, killed when the test ends."""
        full = support.environment() | {"LD_PRELOAD": str(library or self.library)} | (env or {})
        process = subprocess.Popen([str(w) for w in words], env=full, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE if pipe else subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(self.stop, process)
        return process

    @staticmethod
    def stop(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.communicate()

    @staticmethod
    def wait_until_mapped(process: subprocess.Popen[bytes], library: str | Path) -> None:
        """Until the dynamic linker has come to it."""
        while Path(library).name not in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8"):
            time.sleep(0.01)

    def stat_json(self, *arguments: str | Path) -> dict:
        done = self.hakmem("stat", "--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def assert_adds_up(self, stat: dict) -> None:
        self.assertEqual([line["name"] for line in stat["waterfall"]], LINES)
        resident = sum(line["resident_bytes"] for line in stat["waterfall"])
        process = stat["process"]
        self.assertEqual(resident, process["rss_bytes"])
        self.assertLess(abs(process["kernel_rss_bytes"] - resident), 0.02 * process["kernel_rss_bytes"], process)
        rest = stat["not_ours"]
        self.assertEqual(sum(rest.values()), stat["waterfall"][-1]["resident_bytes"])
        live = sum(c["live_bytes"] for c in stat["classes"]) + stat["large"]["bytes"] + stat["huge"]["bytes"]
        line = {w["name"]: w for w in stat["waterfall"]}
        self.assertEqual(live, line["live"]["virtual_bytes"] + line["slack"]["virtual_bytes"])
        self.assertLessEqual(line["live"]["resident_bytes"], line["live"]["virtual_bytes"])
        of_heaps = sum(t["live_blocks"] for t in stat["threads"])
        self.assertEqual(of_heaps, sum(c["live_blocks"] for c in stat["classes"]))

    def validate(self, text: str) -> None:
        file = self.write("stat.json", text, mode=0o644)
        done = subprocess.run([python_with("jsonschema"), "-c", VALIDATE, str(file), str(SCHEMA)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
