#!/usr/bin/env python3
"""A small server as the examples in docs/ show one: threads that answer requests, a cache that grew and was cut.

Says `ready` on a line of its own and goes on until its input ends. The same seed gives the same blocks, about.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import ctypes
import random
import sys
import threading
import time

ENTRIES = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
KEPT_EVERY = 40
WORKERS = 3


def name_thread(name: str) -> None:
    """As tools show it."""
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)


def fill(seed: int) -> dict[int, bytes]:
    """A cache after its busy hour: many entries were made, few are left, all over the place."""
    chance = random.Random(seed)
    cache = {key: bytes(chance.choice((24, 120, 400, 900, 3000))) for key in range(ENTRIES // WORKERS)}
    for key in list(cache):
        if key % KEPT_EVERY:
            del cache[key]
    return cache


def serve(number: int, ready: threading.Barrier, kept: list[object]) -> None:
    """One thread: makes answers, forgets most of them."""
    name_thread(f"worker-{number}")
    kept.append(fill(number))
    ready.wait()
    chance = random.Random(number)
    log: list[bytes] = []
    kept.append(log)
    while True:
        answers = [bytes(chance.randrange(40, 2000)) for _ in range(50)]
        log.append(answers[0])
        time.sleep(0.01)


def main() -> None:
    name_thread("server")
    kept: list[object] = [bytearray(300_000), bytearray(5_000_000)]
    ready = threading.Barrier(WORKERS + 1)
    for number in range(1, WORKERS + 1):
        threading.Thread(target=serve, args=(number, ready, kept), daemon=True).start()
    ready.wait()
    time.sleep(0.5)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
