"""The corpus in memory: schedules that reached something new, and which of them to change next.

A schedule is kept, cut after the last new feature, when it reaches a feature that none reached
before it.  How often it is chosen depends on how rare its features are by now, and how often it was
chosen for nothing: what everything reaches is worth no further try.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import sqrt

from kvlitmus.conformance.fuzz.mutate import Source, mutated
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import OPS

LEAST, GREATEST = 0.2, 0.8
"""Bounds on the share of schedules that are drawn afresh: no search is to be the prisoner of what it has found."""

FADING = 0.98
"""How much of what a way of making schedules brought counts one schedule later."""

OTHER_CONFIG = 0.125
"""How many mutants are played in another configuration than the schedule that they come from."""

WAYS = ("fresh", "mutated")
"""How schedules are made."""

REWEIGH = 64
"""After so many choices the weights are worked out anew."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """One kept schedule.

    features: those that it was the first to reach.  picks: how often it was chosen; gains: how often that
    led to a further entry.
    """

    config: Config
    schedule: tuple[Op, ...]
    features: tuple[int, ...]
    origin: str = ""
    picks: int = 0
    gains: int = 0


@dataclass(slots=True, kw_only=True)
class Choice:
    """What to play next, how it was made, and the entry that it was made from."""

    config: Config
    schedule: tuple[Op, ...]
    origin: str
    parent: Entry | None = field(default=None, repr=False)


class Corpus:
    """The kept schedules, and how many plays reached each feature.

    ``kinds``: the operations that the target can do in each configuration, by its label.
    """

    def __init__(
        self,
        rng: random.Random,
        configs: Sequence[Config],
        kinds: dict[str, tuple[str, ...]],
        *,
        guided: bool = True,
    ) -> None:
        self.rng = rng
        self.configs = [one for one in configs if kinds.get(one.label)]
        self.kinds = kinds
        self.guided = guided
        self.entries: list[Entry] = []
        self.hits: Counter[int] = Counter()
        self.weights: list[float] = []
        self.stale = 0
        self.yields = dict.fromkeys(WAYS, 1.0)

    # -- what was reached ----------------------------------------------------------------------

    def reached(self, choice: Choice, features: Sequence[int], where: Sequence[int]) -> Entry | None:
        """Note what a play reached; returns the entry that it is worth, if any.

        What was only reached while the cache was emptied at the end is no reason to keep a schedule.
        """
        hits, length = self.hits, len(choice.schedule)
        new = [(number, at) for number, at in zip(features, where, strict=True) if number not in hits and at < length]
        hits.update(features)
        if choice.origin in self.yields:
            self.yields[choice.origin] = FADING * self.yields[choice.origin] + (1 - FADING) * len(new)
        if not new:
            return None
        if choice.parent is not None:
            choice.parent.gains += 1
        return Entry(
            config=choice.config,
            schedule=choice.schedule[: 1 + max(at for _, at in new)],
            features=tuple(number for number, _ in new),
            origin=choice.origin,
        )

    def add(self, entry: Entry) -> None:
        """Keep a schedule."""
        self.entries.append(entry)
        self.stale = 0

    def drop(self, labels: Iterable[str]) -> None:
        """Play nothing more in these configurations: the target declines them, or can't make them."""
        gone = set(labels)
        if gone:
            self.configs = [one for one in self.configs if one.label not in gone]

    # -- what to play next ---------------------------------------------------------------------

    def choose(self) -> Choice:
        """The next schedule; the same for the same past."""
        rng = self.rng
        if not self.guided or not self.entries or rng.random() < self.share():
            config = rng.choice(self.configs)
            ops = tuple(Source(rng, self.kinds[config.label]).fresh(OPS))
            return Choice(config=config, schedule=ops, origin=WAYS[0])
        parent, other = self.pick(), self.pick()
        parent.picks += 1
        config = parent.config
        if rng.random() < OTHER_CONFIG or config not in self.configs:
            config = rng.choice(self.configs)
        source = Source(rng, self.kinds[config.label], other.schedule)
        return Choice(config=config, schedule=tuple(mutated(parent.schedule, source)), origin=WAYS[1], parent=parent)

    def share(self) -> float:
        """The share of schedules that are drawn afresh: by what they have brought of late, beside the others."""
        fresh, mutated = (self.yields[way] for way in WAYS)
        return min(GREATEST, max(LEAST, fresh / max(fresh + mutated, 1e-9)))

    def pick(self) -> Entry:
        """An entry, by weight."""
        if self.stale <= 0 or len(self.weights) != len(self.entries):
            self.weights = list(accumulate(map(self.weight, self.entries)))
            self.stale = REWEIGH
        self.stale -= 1
        at = bisect(self.weights, self.rng.random() * self.weights[-1], hi=len(self.entries) - 1)
        return self.entries[at]

    def weight(self, entry: Entry) -> float:
        """How much a further try is worth: the more, the rarer its features and the better its record."""
        rare = sum(1 / self.hits[number] for number in entry.features if self.hits[number])
        return (1e-6 + rare) * (1 + entry.gains) / sqrt(1 + entry.picks)
