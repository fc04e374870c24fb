# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Policy files: what src/policy/policy_file.c writes, read and written here in the same form.

Sums only, so that merging is adding; they stop at SUM_MOST, so that it stays associative. The rule
by which an arm is chosen is that of src/policy/evidence.c; a test holds both to each other.
"""

import re
from dataclasses import dataclass, field
from math import isqrt
from pathlib import Path

from hakmem_tools.common.errors import ToolError

FIRST_LINE = "hakmem-policy 1"
SUM_MOST = 1 << 56
PPM = 1_000_000
CHOOSE_PLAYS = 3
CHOOSE_REWARD = PPM * 51 // 100
SIZE_MOST = 64 << 10
SITES_MOST = 256
GROUPS = ("short", "medium", "long")
SITE_PLACE = re.compile(r"((?:[0-9a-f]{2}){1,20}|token)\+[0-9a-f]{1,16}")
"""A build id, or `token`, and an offset, or the token."""

KNOBS: dict[str, tuple[str, ...]] = {
    "classes": ("fine", "coarse"),
    "keep": ("quarter", "all"),
    "age": ("1s", "100ms"),
    "grow": ("eighth", "double"),
    "huge_pages": ("late", "early"),
    "prefault": ("none", "slabs"),
    "huge_keep": ("any", "none"),
    "spare": ("4m", "512k", "32m"),
    "prewarm": ("none", "64m"),
}
"""Each knob's arms, the default first: hak_knob_info in src/policy/controller.c."""


def added(a: int, b: int) -> int:
    """The sum, as far as sums go."""
    return min(a + b, SUM_MOST)


@dataclass
class Arm:
    """Runs with one arm: sums of rewards, of their squares, and of the two ratios; hints."""

    plays: int = 0
    reward: int = 0
    squares: int = 0
    time: int = 0
    memory: int = 0
    hints: int = 0

    def numbers(self) -> list[int]:
        """In the order of the file."""
        return [self.plays, self.reward, self.squares, self.time, self.memory, self.hints]

    def lower(self) -> int:
        """The mean reward less two standard errors, in millionths; with at least two plays."""
        mean = self.reward // self.plays
        mean_square = self.squares // self.plays
        variance = max(mean_square - (mean // 100) ** 2, 0)
        return max(mean - 200 * isqrt(variance // (self.plays - 1)), 0)

    def loss(self) -> int:
        """What time and memory are more than the defaults', on average: it counts twice."""
        time, memory = (max(total // self.plays - PPM, 0) for total in (self.time, self.memory))
        return time + memory // 2

    def worth(self) -> int:
        """By which arms are chosen."""
        return max(self.lower() - self.loss(), 0)


@dataclass(frozen=True)
class Site:
    """A rule for a call site: sizes of its blocks, their group, samples that say so."""

    least: int
    most: int
    group: str
    evidence: int


@dataclass
class Policy:
    """What a policy file says."""

    runs: list[int] = field(default_factory=lambda: [0, 0])
    base: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    arms: dict[tuple[str, str], Arm] = field(default_factory=dict)
    bins: dict[int, list[int]] = field(default_factory=dict)
    sites: dict[str, Site] = field(default_factory=dict)
    """Rules for call sites, by build id and offset."""

    def best(self) -> tuple[str, str]:
        """The arm that a frozen run uses, the best of all by more than chance; ("", ""): none."""
        found, most = ("", ""), CHOOSE_REWARD - 1
        for knob, names in KNOBS.items():
            for name in names[1:]:
                arm = self.arms.get((knob, name), Arm())
                if arm.plays >= CHOOSE_PLAYS and arm.worth() > most:
                    found, most = (knob, name), arm.worth()
        return found

    def chosen(self, knob: str) -> str:
        """The arm of a knob that a frozen run uses."""
        best = self.best()
        return best[1] if best[0] == knob else KNOBS[knob][0]


def number(word: str) -> int:
    """A decimal number of the file."""
    if not (word.isascii() and word.isdigit() and len(word) <= 19 and int(word) <= SUM_MOST):
        raise ValueError(f"{word} is no number up to {SUM_MOST}")
    return int(word)


def numbers(words: list[str], count: int) -> list[int]:
    """Just so many numbers."""
    if len(words) != count:
        raise ValueError(f"{count} numbers are wanted, not {len(words)}")
    return [number(word) for word in words]


def parse_arm(policy: Policy, words: list[str]) -> None:
    """The rest of a line that begins with `arm`."""
    if len(words) < 2 or words[1] not in KNOBS.get(words[0], ())[1:]:
        raise ValueError(f"{' '.join(words[:2])} is no arm of a knob")
    key = (words[0], words[1])
    if key in policy.arms:
        raise ValueError(f"{' '.join(key)} is there twice")
    arm = Arm(*numbers(words[2:], 6))
    if arm.plays + arm.hints == 0 or arm.reward // PPM > arm.plays:
        raise ValueError("these numbers cannot be")
    policy.arms[key] = arm


def parse_bin(policy: Policy, words: list[str]) -> None:
    """The rest of a line that begins with `bin`."""
    size, weight, total = numbers(words, 3)
    if weight == 0 or size in policy.bins:
        raise ValueError(f"bin {size} has no weight, or is there twice")
    policy.bins[size] = [weight, total]


def parse_site(policy: Policy, words: list[str]) -> None:
    """The rest of a line that begins with `site`."""
    if len(words) != 4 or not SITE_PLACE.fullmatch(words[0]) or words[2] not in GROUPS:
        raise ValueError("no rule for a call site: site PLACE SIZES short|medium|long EVIDENCE")
    least, _, most = words[1].partition("-")
    sizes = numbers([least, most or least], 2)
    if sizes[0] > sizes[1] or words[0] in policy.sites:
        raise ValueError(f"site {words[0]} has no sizes, or is there twice")
    policy.sites[words[0]] = Site(sizes[0], sizes[1], words[2], numbers(words[3:], 1)[0])


def parse_line(policy: Policy, line: str) -> None:
    """Any line but the first."""
    words = line.split(" ")
    words = [word for word in words if word]
    if not words or words[0].startswith("#"):
        return
    match words[0]:
        case "runs":
            policy.runs = numbers(words[1:], 2)
        case "base":
            policy.base = numbers(words[1:], 4)
        case "arm":
            parse_arm(policy, words[1:])
        case "bin":
            parse_bin(policy, words[1:])
        case "site":
            parse_site(policy, words[1:])
        case _:
            raise ValueError(f"{words[0]!r} is not known")


def parse(text: str, name: str) -> Policy:
    """The policy in a text; a ToolError names the line that is wrong."""
    lines = text.split("\n")
    policy = Policy()
    if lines[0] != FIRST_LINE:
        raise ToolError(f"{name}: no policy of this version: its first line is not '{FIRST_LINE}'")
    if lines.pop() != "":
        raise ToolError(f"{name}: line {len(lines) + 1}: cut off")
    for at, line in enumerate(lines[1:], 2):
        try:
            parse_line(policy, line)
        except ValueError as error:
            raise ToolError(f"{name}: line {at}: {error}") from None
    return policy


def read(path: Path) -> Policy:
    """The policy in a file."""
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MOST)  # it may have no end, as /dev/zero
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror}") from None
    if len(data) >= SIZE_MOST:
        raise ToolError(f"{path}: no policy: larger than {SIZE_MOST} bytes")
    return parse(data.decode("utf-8", "replace"), str(path))


def write(policy: Policy) -> str:
    """The text of a policy: the lines in the order in which the library writes them."""
    lines = [FIRST_LINE, f"runs {' '.join(map(str, policy.runs))}"]
    lines.append(f"base {' '.join(map(str, policy.base))}")
    for knob, names in KNOBS.items():
        for name in names[1:]:
            if (knob, name) in policy.arms:
                sums = policy.arms[knob, name].numbers()
                lines.append(f"arm {knob} {name} {' '.join(map(str, sums))}")
    for size in sorted(policy.bins):
        lines.append(f"bin {size} {' '.join(map(str, policy.bins[size]))}")
    for place, site in policy.sites.items():
        sizes = str(site.least) if site.least == site.most else f"{site.least}-{site.most}"
        lines.append(f"site {place} {sizes} {site.group} {site.evidence}")
    return "\n".join(lines) + "\n"


def merge_site(a: Site, b: Site) -> Site:
    """Of two rules for a place the one with more evidence; where both have as much, what either says.

    So what is left out of a merge, for there being enough with more, is missing in no later one.
    """
    if a.evidence != b.evidence:
        return max(a, b, key=lambda site: site.evidence)
    return Site(min(a.least, b.least), max(a.most, b.most), max(a.group, b.group), a.evidence)


def merge_sites(policies: list[Policy]) -> dict[str, Site]:
    """The rules of all, those with most evidence: as many as the library takes."""
    total: dict[str, Site] = {}
    for place, site in (item for p in policies for item in p.sites.items()):
        total[place] = merge_site(total.get(place, site), site)
    first = sorted(total.items(), key=lambda item: (-item[1].evidence, item[0]))
    return dict(first[:SITES_MOST])


def merge(policies: list[Policy]) -> Policy:
    """The sum of policies, in any order."""
    total = Policy()
    for p in policies:
        total.runs = [added(a, b) for a, b in zip(total.runs, p.runs, strict=True)]
        total.base = [added(a, b) for a, b in zip(total.base, p.base, strict=True)]
        for key, arm in p.arms.items():
            old = total.arms.get(key, Arm()).numbers()
            total.arms[key] = Arm(*(added(a, b) for a, b in zip(old, arm.numbers(), strict=True)))
        for size, sums in p.bins.items():
            before = total.bins.get(size, [0, 0])
            total.bins[size] = [added(a, b) for a, b in zip(before, sums, strict=True)]
    total.sites = merge_sites(policies)
    return total
