#!/usr/bin/env python3
"""Makes docs/options.md of the option table in src/api/options.c, and docs/control.md of the tables in
src/api/snapshot.c and src/api/settings.c.

    options_md.py [--check]      --check: fails if a file is not what it would write

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTION = re.compile(r'^\s*\{"(\w+)", OPTION_(\w+), (?:AT\()?([\w\[\]]+)\)?, (.*?)\}, /\* (.*) \*/$', re.M)
REPLACED = re.compile(r'^\s*\{"(\w+)", "(.*)"\},$', re.M)
VALUES = {"FLAG": "0 or 1", "NUMBER": "a number", "MIB": "MiB", "CAPS": "a list", "TEXT": "a text"}
HEADERS = ("src/telemetry/prof.h", "src/pool/pool.h", "src/cache/cache.h", "src/api/options.c")  # where numbers have names
DEFAULT = re.compile(r"^\s*\.(\w+) = (.+),$", re.M)
CONTROL = re.compile(r'^\s*\{"([\w.]+)", FROM_SNAPSHOT\(.*\)\}, /\* (.*) \*/$', re.M)

OPTIONS_HEAD = """# Options

Made by tools/options_md.py from src/api/options.c.

An option is set, the strongest first,

1. by `HAKMEM_<NAME>=value` in the environment;
2. in `HAKMEM_CONF="name:value,name:value"`;
3. in the file that `HAKMEM_CONF_FILE` names: a line `name value` (or with `:` or `=`) for each, `#` begins a comment line, 4 KiB at most;
4. by the program itself, which may define `const char *hakmem_conf = "name:value,name:value";` (a program that is preloaded has to export it: `-rdynamic`).

But for the first, names may be written in either case, and with the prefix `HAKMEM_` or without. Numbers may end in k, m, g or t (times 1024 each);
numbers of MiB are bytes then, and have to be whole MiB: `HAKMEM_LIMIT_MB=512` is `HAKMEM_LIMIT_MB=512m`. The largest number is 4294967295 where no other
one is given. Programs with raised privileges
(set-user-ID and the like) ignore all but the last. An unknown name or a bad value is reported once on stderr, with the nearest name,
and changes nothing. An empty value is as good as none.

What a process prints or writes when it ends (STATS and the other statistics, PROF, PROF_LEAKS, POLICY) comes when it returns from main or calls
exit, not when it ends by `_exit` or by a signal: `hakmem stat -- COMMAND` tells of any end, `hakmem prof dump PID` and `hakmem policy write PID`
write before it.

| option | value | default | meaning |
|---|---|---|---|
"""
REPLACED_HEAD = """
Names of hakmem's predecessor that are accepted, with one warning, and change nothing:

| option | because |
|---|---|
"""
SETTING = re.compile(r'^\s*\{"(option\.\w+)", SETTING_(\w+), &hak_options\.(\w+), (\w+)\},', re.M)
CLASS_VALUE = re.compile(r'^\s*\{"([\w.]+)", CLASS_.*?\}, /\* (.*) \*/$', re.M)

CONTROL_HEAD = """# Names for hakmem_ctl

Made by tools/options_md.py from src/api/snapshot.c and src/api/settings.c. All values are 64-bit. `hakmem_ctl_name(i)` lists the
names of the first two tables.

## Figures

They can only be read: setting one is EPERM. What is not of the moment is counted since the start of the process.

| name | is |
|---|---|
"""
SETTINGS_HEAD = """
## Options that can be set while the program runs

Each is the option of the same name ([options.md](options.md)), and holds from the next slow path on. A value out of range is EINVAL
and changes nothing. They can be read by any thread, and are to be set by one at a time. A limit below what is in use takes nothing
away; it holds for what is asked for next.

| name | values |
|---|---|
"""
CLASSES_HEAD = """
## Single size classes

`class.SIZE.NAME` is about the class in which blocks of SIZE bytes are (1 to 65536, else EINVAL). A thread places sizes up to 1 KiB in coarser
classes (powers of two) until it uses more memory, and in finer ones where it asks for little else.

| NAME | |
|---|---|
"""
CLASSES_TAIL = """
`soft_cap_bytes` is how much memory, in slots of 64 KiB, the class may use before all threads are made to take in what was freed for
them; only then is memory mapped for it.

## Actions

`policy.write`, with any new value, adds what this run has learned so far to the file of `HAKMEM_POLICY` ([learning.md](learning.md)): 0, EINVAL without a
new value, EDEADLK in a signal handler that has interrupted this very work, or the errno of the file. 0, too, where there is nothing to add, as in a run without `learn:FILE` or `try:FILE`. It has no value to read and is not listed by `hakmem_ctl_name`.
"""


def constants() -> dict[str, str]:
    """Numbers that have names: NAME ((uint64_t)A << B), or NAME A."""
    text = "".join((ROOT / file).read_text(encoding="utf-8") for file in HEADERS)
    shifted = re.findall(r"#define (\w+) \(\(uint64_t\)(\d+) << (\d+)\)", text)
    plain = re.findall(r"#define (\w+) (\d+)u?\b", text)
    return dict(plain) | {name: str(int(a) << int(b)) for name, a, b in shifted} | {"UINT8_MAX": "255"}


def number_of(name: str, value: str) -> str:
    """A number, also where the source has a name for it."""
    value = constants().get(value, value)
    if not value.isdigit():
        sys.exit(f"options_md.py: {name} has {value}, for which {', '.join(HEADERS)} have no number")
    return value


def values_of(name: str, kind: str, most: str) -> str:
    if kind == "NUMBER" and most != "UINT32_MAX":
        return f"0 to {number_of(name, most)}"
    return "a path" if name.endswith("_FILE") else VALUES[kind]


def options_page() -> str:
    source = (ROOT / "src/api/options.c").read_text(encoding="utf-8")
    defaults = dict(DEFAULT.findall(source))
    rows = []
    for name, kind, member, most, meaning in OPTION.findall(source):
        default = "" if kind in ("CAPS", "TEXT") else number_of(name, defaults.get(member, "0"))
        rows.append(f"| `HAKMEM_{name}` | {values_of(name, kind, most)} | {default} | {meaning} |\n")
    if not rows:
        sys.exit("options_md.py: found no table in src/api/options.c")
    replaced = [f"| `HAKMEM_{name}` | {instead} |\n" for name, instead in REPLACED.findall(source)]
    return OPTIONS_HEAD + "".join(rows) + REPLACED_HEAD + "".join(replaced)


def control_page() -> str:
    names = CONTROL.findall((ROOT / "src/api/snapshot.c").read_text(encoding="utf-8"))
    if not names:
        sys.exit("options_md.py: found no table in src/api/snapshot.c")
    rows = [f"| `{name}` | {meaning} |\n" for name, meaning in names]
    settings = (ROOT / "src/api/settings.c").read_text(encoding="utf-8")
    set_rows = [f"| `{name}` | {values_of(name, kind, most)} |\n" for name, kind, _, most in SETTING.findall(settings)]
    class_rows = [f"| `{name}` | {meaning} |\n" for name, meaning in CLASS_VALUE.findall(settings)]
    if not set_rows or not class_rows:
        sys.exit("options_md.py: found no tables in src/api/settings.c")
    return CONTROL_HEAD + "".join(rows) + SETTINGS_HEAD + "".join(set_rows) + CLASSES_HEAD + "".join(class_rows) + CLASSES_TAIL


def main() -> int:
    stale = []
    for name, text in (("docs/options.md", options_page()), ("docs/control.md", control_page())):
        path = ROOT / name
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"not up to date: {', '.join(stale)}; run tools/options_md.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
