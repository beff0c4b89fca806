"""The listener: what somebody knows who hears all events of a cache from the beginning.

A router hears that something was *stored* on a tier or *removed* from it: a page, or an entry of a component.  There is
one meaning of these events for every kind of cache.  The profile says how they are to be read (``event_copies``):

* ``each`` copy counts.  Every ``stored`` is one more, every ``removed`` one less, and what has none left is gone.
* ``one`` name stands for all copies.  A ``stored`` says that it is there, a ``removed`` that it isn't any more.

Either way the listener must end up with what the cache can serve.  Who listens by names is misled by a ``removed`` while
another copy is there; who counts is misled by a ``stored`` without a copy, since nothing will ever take that back.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from kvlitmus.spec.words.profile import Profile

DEVICE, HOST = "device", "host"

What = TypeVar("What", bound=Hashable)
"""What is told of: the name of a page, or an entry of a component."""


def copies_count(profile: Profile) -> bool:
    """Whether a listener counts copies."""
    return profile.event_copies == "each"


class Listener(Generic[What]):
    """What is on each tier by the events so far, and how often: once, unless copies count."""

    def __init__(self, profile: Profile, tiers: Mapping[str, Mapping[What, int]]) -> None:
        self.counting = copies_count(profile)
        self.tiers = {tier: dict(there) for tier, there in tiers.items()}

    def stored(self, tier: str, what: What) -> bool:
        """This came to a tier; whether it was there already."""
        there = self.tiers[tier]
        had = there.get(what, 0)
        there[what] = had + 1 if self.counting else 1
        return had > 0

    def removed(self, tier: str, what: What) -> bool:
        """This left a tier; whether it was there."""
        there = self.tiers[tier]
        had = there.pop(what, 0)
        if had > 1:
            there[what] = had - 1
        return had > 0

    def cleared(self) -> None:
        """Everything has left all tiers."""
        for there in self.tiers.values():
            there.clear()


def told_too_often(told: Mapping[What, int], copies: Mapping[What, int]) -> list[What]:
    """What is told more often than there are copies of it, though it is there."""
    return [what for what, many in told.items() if many > copies.get(what, many)]
