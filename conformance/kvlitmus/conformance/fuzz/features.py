"""Features: what a play reached, so that schedules that reach more can be told from the rest.

A **feature** is one of these, as seen by the judge after a call:

* ``call``: the call, how it ended, and in which configuration;
* ``then``: the call and the one before it;
* ``fact``: one fact of the rules about this call, its size rounded to a power of two;
* ``state``: the call, how full the pool and the tree are, how many requests run and locks are held.

The facts are what the rules are about, so parts that are added later bring their situations with
them.  Features travel as numbers, the checksum of their text, which is the same in every process.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.spec.law.facts import Facts

FAMILIES = ("call", "then", "fact", "state")

PARTS = 4
"""How full something is comes in so many parts; empty and full count by themselves."""

LARGEST = 7
"""Sizes from two to the power of this on are all alike."""

SELDOM = 4
"""Every so many calls that brought nothing new otherwise, the facts are looked at."""

NOTHING = LARGEST + 1
"""The size of ``None``."""

_SIZED = frozenset({tuple, list, frozenset, set, dict})

Key = tuple[object, ...]


class Collector:
    """The features of one item, in the order in which they were reached.

    reached: the number of each feature, and the position in the schedule at which it was first reached.
    texts: the features that this process has met, by what they are; shared between items.
    sizes: for each call the sizes of each fact that were met, as bits.

    Most calls bring nothing new, and finding that out must cost little beside judging them.  So the facts
    are looked at after calls that brought something new otherwise, and after every fourth of the others.
    """

    def __init__(self, texts: dict[Key, int]) -> None:
        self.texts = texts
        self.reached: dict[int, int] = {}
        self.met: set[Key] = set()
        self.sizes: dict[str, dict[str, int]] = {}
        self.last = ""
        self.at = self.steps = 0

    def begin(self) -> None:
        """A cache is fresh, and nothing was called."""
        self.last = ""
        self.at = 0

    def note(self, key: Key) -> bool:
        """A feature was reached; returns whether it is the first time in this item."""
        if key in self.met:
            return False
        self.met.add(key)
        number = self.texts.get(key)
        if number is None:
            number = self.texts[key] = crc32(text_of(key).encode())
        self.reached.setdefault(number, self.at)
        return True

    def step(self, checker: Checker, kinds: str, facts: Facts) -> None:
        """A call was made, and its facts are known."""
        fresh = self.note(("then", self.last, kinds))
        fresh = self.note(("state", kinds, *fill(checker))) or fresh
        self.last = kinds
        self.steps += 1
        if not fresh and self.steps % SELDOM:
            return
        self.note(("call", kinds, checker.config.label))
        sizes = self.sizes.get(kinds)
        if sizes is None:
            sizes = self.sizes[kinds] = {}
        for name, value in facts.items():
            size = size_of(value)
            if size is not None:
                bits = sizes.get(name, 0)
                if not bits >> size & 1:
                    sizes[name] = bits | 1 << size
                    self.note(("fact", kinds, name, size))


def text_of(key: Key) -> str:
    """A feature in words."""
    return " ".join(map(str, key))


def size_of(value: Any) -> int | None:
    """How large a fact is: the binary length of a number, or of how many there are; ``None`` for what has no size."""
    kind = type(value)
    if kind is int:
        number = value
    elif kind in _SIZED:
        number = len(value)
    elif kind is bool:
        return int(value)
    else:
        return NOTHING if value is None else None
    size: int = number.bit_length()
    return size if number >= 0 and size < LARGEST else LARGEST


def part_of(number: int, whole: int) -> int:
    """How full: 0 for empty, ``PARTS + 1`` for full, and what is between in ``PARTS``."""
    if number <= 0:
        return 0
    return PARTS + 1 if number >= whole else 1 + number * PARTS // whole


def fill(checker: Checker) -> tuple[int, ...]:
    """The state in four small numbers: free slots, cached pages, running requests, receipts."""
    free = checker.before.available
    return (
        -1 if free is None else part_of(free, checker.capacity),
        part_of(len(checker.tree.pages), checker.config.pages),
        min(2, len(checker.requests)),
        min(1, len(checker.receipts)),
    )


def watching(collector: Collector) -> type[Checker]:
    """A judge that notes features."""

    class WatchingJudge(Checker):
        wants_facts = True

        def note_facts(self, occasions: tuple[str, ...], facts: Facts) -> None:
            collector.step(self, "+".join(occasions), facts)

    return WatchingJudge
