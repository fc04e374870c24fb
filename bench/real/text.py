# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Work for python3: text, with Python's own small-object allocator, as python3 is run every day.

Words are made, joined, split, searched, sorted and counted; large strings come from malloc, small
objects from Python's arenas. It prints a digest that depends on the number of rounds only.

Usage: python3 text.py ROUNDS
"""

import collections
import hashlib
import random
import re
import sys


def main() -> None:
    """Runs the rounds and prints what came out."""
    rounds = int(sys.argv[1])
    dice = random.Random(11)
    words = [
        "".join(dice.choices("abcdefghijklmnop", k=dice.randrange(2, 12))) for _ in range(3000)
    ]
    digest = hashlib.sha256()
    kept: collections.deque[str] = collections.deque(maxlen=20)
    for number in range(rounds):
        text = " ".join(dice.choices(words, k=20000))
        counted = collections.Counter(text.split())
        changed = re.sub(r"\b(\w)(\w*)e\b", r"\2\1ay", text)
        lines = [changed[i : i + 72] for i in range(0, len(changed), 72)]
        report = "\n".join(sorted(lines))
        report += "".join(f"{word}={count};" for word, count in counted.most_common(200))
        kept.append(report * (number % 4 + 1))
        digest.update(report.encode())
    print(f"{rounds} rounds, {sum(map(len, kept))} characters kept, {digest.hexdigest()}")


if __name__ == "__main__":
    main()
