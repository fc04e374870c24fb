# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A process as `hakmem stat --superslabs` would describe it, with superslabs that are made up."""

from typing import Any

import support
from hakmem_tools.map import model


def slot(state: str = "unused", kind: str | None = None, **more: Any) -> dict[str, Any]:
    """A slot as the command describes it."""
    plain = {
        "state": state,
        "kind": kind,
        "class_bytes": None,
        "owner": None,
        "part": 0,
        "live_blocks": 0,
        "blocks": 0,
        "resident_bytes": 0,
        "age_ns": None,
    }
    return {**plain, **more}


def slab(class_bytes: int, live: int, blocks: int, owner: int = 2, slots: int = 1) -> list[Any]:
    """A slab of so many slots."""
    figures = {"class_bytes": class_bytes, "live_blocks": live, "blocks": blocks, "owner": owner}
    return [slot("active", "class", part=i, resident_bytes=65536, **figures) for i in range(slots)]


def large(slots: int) -> list[Any]:
    """A large block."""
    return [
        slot("active", "large", part=i, live_blocks=1, blocks=1, resident_bytes=65536)
        for i in range(slots)
    ]


BASE = 0x3F0000000000


def superslab(number: int, parts: list[Any], **more: Any) -> dict[str, Any]:
    """A superslab with these slots, the others unused."""
    full = parts + [slot() for _ in range(32 - len(parts))]
    plain = {
        "address": BASE + number * model.SUPERSLAB_BYTES,
        "state": "slots",
        "superslabs": 1,
        "age_ns": 1_000_000_000,
        "huge_pages": False,
        "resident_bytes": sum(s["resident_bytes"] for s in full),
        "virtual_bytes": model.SUPERSLAB_BYTES,
        "slots": full,
    }
    return {**plain, **more}


def process() -> dict[str, Any]:
    """A process with one superslab of each kind."""
    kept = [slot("retired", resident_bytes=65536, age_ns=5) for _ in range(32)]
    stat = support.recorded()
    thread = stat["threads"][0]
    stat["threads"] = [
        {**thread, "heap": 1, "state": "shared", "name": None},
        {**thread, "heap": 2, "state": "running", "name": "io</script><b>"},
    ]
    full = [part for _ in range(28) for part in slab(64, 1024, 1024)]
    stat["superslabs"] = [
        superslab(0, full + slab(20096, 6, 12, slots=4)),
        superslab(
            1,
            [*slab(128, 3, 512, owner=1), *slab(128, 2, 512), *slab(20096, 1, 12, slots=4)]
            + [*large(2), slot("empty", class_bytes=64, resident_bytes=4096, age_ns=9)],
        ),
        superslab(2, kept, state="retired"),
        superslab(3, [], state="huge", superslabs=2, virtual_bytes=3 << 20, slots=[], age_ns=None),
        superslab(5, [slot("empty", class_bytes=64, resident_bytes=65536, age_ns=7)]),
    ]
    return stat
