# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Work for python3: objects. A population of small objects in lists, dicts and sets that changes.

`hakmem bench` runs it with PYTHONMALLOC=malloc, so that every object comes from malloc. It prints
figures that depend on the number of rounds only.

Usage: python3 objects.py ROUNDS
"""

import random
import sys


class Account:
    """A small object with a few fields of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: list[tuple[int, float, str]] = []
        self.tags: set[str] = set()

    def book(self, day: int, amount: float) -> None:
        """Adds an entry, and drops the oldest of many."""
        self.entries.append((day, amount, f"booking {day} of {self.number}"))
        if len(self.entries) > 40:
            self.entries = self.entries[20:]
        self.tags.add(f"tag-{day % 17}-{self.number % 5}")


def main() -> None:
    """Runs the rounds and prints what came out."""
    rounds = int(sys.argv[1])
    dice = random.Random(7)
    accounts: dict[int, Account] = {}
    next_number = 0
    for day in range(rounds):
        for _ in range(300):
            accounts[next_number] = Account(next_number)
            next_number += 1
        numbers = list(accounts)
        for number in dice.choices(numbers, k=3000):
            accounts[number].book(day, dice.random())
        for number in dice.sample(numbers, k=len(numbers) // 12):
            del accounts[number]
    entries = sum(len(a.entries) for a in accounts.values())
    total = sum(amount for a in accounts.values() for _, amount, _ in a.entries)
    tags = len({tag for a in accounts.values() for tag in a.tags})
    print(f"{rounds} rounds, {len(accounts)} accounts, {entries} entries, {total:.6f}, {tags} tags")


if __name__ == "__main__":
    main()
