# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A program for the demonstration and for tests/programs: JSON and strings, as a web service does.

Each round makes a batch of orders, encodes it as JSON, parses it again, groups and joins strings,
and drops most of it; a sliding window of parsed batches stays alive. It prints a digest of all
results, which depends on the number of rounds only. It never reads or writes a file.

Usage: python3 workload.py ROUNDS
"""

import collections
import hashlib
import json
import random
import re
import sys

WORDS = """
please deliver before noon running late morning parcel fragile urgent waiting calling leave
at the door neighbour garden shipping returning gift wrapping card birthday thanks again
""".split()
ORDERS_PER_ROUND = 400
WINDOW_ROUNDS = 40


def make_order(dice: random.Random, number: int) -> dict[str, object]:
    return {
        "id": number,
        "customer": f"customer-{dice.randrange(5000):05d}",
        "notes": " ".join(dice.choice(WORDS) for _ in range(dice.randrange(3, 40))),
        "lines": [
            {
                "item": f"sku/{dice.randrange(10**6)}",
                "count": dice.randrange(1, 9),
                "price": p / 100,
            }
            for p in (dice.randrange(100, 99999) for _ in range(dice.randrange(1, 8)))
        ],
    }


def summarise(orders: list[dict[str, object]]) -> str:
    """Text work: word counts, replacements, a sorted report."""
    by_customer: dict[str, list[str]] = collections.defaultdict(list)
    words: collections.Counter[str] = collections.Counter()
    for order in orders:
        notes = str(order["notes"])
        words.update(notes.split())
        by_customer[str(order["customer"])].append(re.sub(r"(\w+)ing\b", r"\1ed", notes).title())
    lines = [f"{name}: {' | '.join(sorted(texts))}" for name, texts in sorted(by_customer.items())]
    lines += [f"{word}={count}" for word, count in words.most_common(50)]
    return "\n".join(lines)


def main() -> None:
    rounds = int(sys.argv[1])
    dice = random.Random(42)
    window: collections.deque[list[dict[str, object]]] = collections.deque(maxlen=WINDOW_ROUNDS)
    digest = hashlib.sha256()
    characters = 0
    for number in range(rounds):
        batch = [make_order(dice, number * ORDERS_PER_ROUND + i) for i in range(ORDERS_PER_ROUND)]
        text = json.dumps(batch, indent=1 if number % 4 == 0 else None)
        parsed = json.loads(text)
        window.append(parsed)
        report = summarise(parsed)
        characters += len(text) + len(report)
        digest.update(text.encode())
        digest.update(report.encode())
    kept = sum(len(batch) for batch in window)
    print(f"{rounds} rounds, {characters} characters, {kept} orders kept, {digest.hexdigest()}")


if __name__ == "__main__":
    main()
