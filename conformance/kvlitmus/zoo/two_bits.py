"""Two bits for each page: how often it was inserted, up to three.

Caches that keep millions of pages count their uses in a few bits.  What is used all the time is soon worth as much as
it can be, and among pages that have come so far the one goes first that was used the longest time ago.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Config, Profile, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.page_map import PageMap, Prefix

MOST = 3
"""What two bits can say."""


class TwoBits(PageMap):
    """A map of pages with counters."""

    def reset(self) -> None:
        """Nothing was inserted."""
        super().reset()
        self.counters: dict[Prefix, int] = {}

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """One more for each page of the key, as long as it fits."""
        stored = super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        for prefix in self.prefixes(key):
            self.counters[prefix] = min(self.counters.get(prefix, 0) + (not chunked), MOST)
        return stored

    def victim(self, leaves: Sequence[Prefix]) -> Prefix:
        """The least counter, and of these the oldest use."""
        prefix = min(leaves, key=lambda one: (self.counters[one], self.entries[one].used))
        del self.counters[prefix]
        return prefix

    def view(self) -> View:
        """The counters are shown."""
        free, nodes = super().view()
        ordered = sorted(self.entries, key=lambda one: len(one[1]))
        shown = [self.counters[prefix] for prefix in ordered]
        return View(free, [node._replace(hits=hits) for node, hits in zip(nodes, shown, strict=True)])


class TwoBitsTarget:
    """Makes them, by how often pages are used."""

    profile = Profile(reserved=0, most_hits=MOST)
    configs = (
        Config(page_size=1, policy="lfu"),
        Config(page_size=4, policy="lfu"),
        Config(page_size=2, policy="lfu", pages=12, bigram=True),
    )

    def make(self, config: Config) -> TwoBits:
        """A fresh one."""
        if config.policy != "lfu" or config.pool != "device" or config.tiered:
            raise Unsupported("counters on the device")
        return TwoBits(config)


target = TwoBitsTarget()
