"""The memory orders of the source, found one by one, and what each can be weakened to. Used by run.py.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import re
import sys
from dataclasses import dataclass

from variant import HERE, SRC

sys.path.insert(0, str(HERE.parent / "gates"))
import gate  # noqa: E402
import orders as gate_orders  # noqa: E402

CALL = re.compile(r"\bhak_(load|store|exchange|or|and|cas)_(acquire|release|acq_rel|seq_cst)\s*\(")
FUNCTION = re.compile(r"^[A-Za-z_][^;{}\n]*?\b(\w+)\([^;{}]*\)\s*\n\{", re.M)
WEAKER = {
    "load": {"acquire": ("relaxed",), "seq_cst": ("acquire", "relaxed")},
    "store": {"release": ("relaxed",), "seq_cst": ("release", "relaxed")},
    "change": {"acquire": ("relaxed",), "release": ("relaxed",), "acq_rel": ("acquire", "release"),
               "seq_cst": ("acq_rel", "relaxed")},
}
# Operations that the header has no names for, in copies of the source.
EXTRA = """
#ifndef hak_and_acq_rel
#define hak_and_acq_rel(p, v) HAK_FETCH(and, p, v, acq_rel)
#endif
#ifndef hak_or_acq_rel
#define hak_or_acq_rel(p, v) HAK_FETCH(or, p, v, acq_rel)
#endif
#ifndef hak_cas_release
#define hak_cas_release(p, expected, v) HAK_CAS(p, expected, v, release)
#endif
"""


@dataclass(frozen=True)
class Weakening:
    """One operation with one weaker order."""

    key: str
    tags: tuple[str, ...]
    file: str
    position: int
    length: int
    replacement: str

    def text(self) -> str:
        """The changed file."""
        source = (SRC / self.file).read_text(encoding="utf-8")
        end = self.position + self.length
        return EXTRA + "#line 1\n" + source[:self.position] + self.replacement + source[end:]


def function_at(code: str, position: int) -> str:
    """The name of the function around a position."""
    name = "?"
    for match in FUNCTION.finditer(code, 0, len(code)):
        if match.start() > position:
            break
        name = match.group(1)
    return name


def weakenings() -> list[Weakening]:
    """All of them, in the order of the source."""
    found = []
    for path in gate.sources(SRC):
        file = str(path.relative_to(SRC))
        if file == gate_orders.ATOMICS:
            continue
        text = path.read_text(encoding="utf-8")
        code = gate.blank_comments(text)
        comments = gate_orders.order_comments(text, code)
        seen: dict[str, int] = {}
        for match in CALL.finditer(code):
            operation, order = match.groups()
            place = f"{file} {function_at(code, match.start())} {operation}_{order}"
            seen[place] = seen.get(place, 0) + 1
            number = f" {seen[place]}" if seen[place] > 1 else ""
            tags = tuple(dict.fromkeys(gate_orders.tags_of(code, match.start(), comments)))
            kind = operation if operation in WEAKER else "change"
            for weaker in WEAKER[kind][order]:
                name = f"hak_{operation}_{weaker}"
                found.append(Weakening(f"{place}{number} -> {weaker}", tags, file, match.start(),
                                       len(match.group()) - 1, name))
    return found
