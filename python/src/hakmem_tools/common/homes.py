# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tools: threads that share a heap. Who uses it: top and map.

Where there are many threads, the blocks of some are from the slabs of another's heap, their home:
what is counted there belongs to all of them, and nothing tells whose it is.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

Heap = Mapping[str, Any]
"""A member of `threads` in what `hakmem stat --json` prints."""


def home(heap: Heap) -> int:
    """The heap whose slabs its blocks are from: most often itself."""
    return int(heap.get("home", heap["heap"]))


def has_nothing(heap: Heap) -> bool:
    """Whether all that its thread has is counted at its home, which is another heap."""
    return home(heap) != heap["heap"] and not heap["live_bytes"] and not heap["slab_bytes"]


def guests(heaps: list[Heap]) -> Counter[int]:
    """How many threads have the heaps of these numbers as their home, without its own."""
    running = (heap for heap in heaps if heap["state"] == "running")
    return Counter(home(heap) for heap in running if home(heap) != heap["heap"])
