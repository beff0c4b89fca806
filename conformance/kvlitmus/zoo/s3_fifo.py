"""Three queues: a page comes into a small one, and only what is used there gets into the main one (S3-FIFO).

The main queue goes round: a page at its head that was used since it came there goes to the end, and has one use less.
What left the small queue unused is remembered for a while; if it comes again, it comes into the main one.  Both queues
pass over what is locked and what others hang below.  So which page goes is nothing that a usual policy would say.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Config, Profile, Stored, Unsupported
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.page_map import PageMap, Prefix

MOST_USES = 3
"""More uses aren't counted."""


class S3Fifo(PageMap):
    """A map of pages with queues of prefixes."""

    def reset(self) -> None:
        """The queues are empty."""
        super().reset()
        self.small: dict[Prefix, None] = {}
        self.main: dict[Prefix, None] = {}
        self.ghosts: dict[Prefix, None] = {}
        self.uses: dict[Prefix, int] = {}

    def found(self, prefixes: Sequence[Prefix]) -> int:
        """Each page that is found was used once more."""
        count = super().found(prefixes)
        for prefix in prefixes[:count]:
            self.uses[prefix] = min(self.uses[prefix] + 1, MOST_USES)
        return count

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """What is new comes to the end of a queue."""
        stored = super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        for prefix in self.prefixes(key)[stored.already // self.size :]:
            queue = self.main if prefix in self.ghosts else self.small
            self.ghosts.pop(prefix, None)
            queue[prefix], self.uses[prefix] = None, 0
        return stored

    def victim(self, leaves: Sequence[Prefix]) -> Prefix:
        """From the small queue while it has more than a tenth of all, else from the main one."""
        for prefix in [one for one in self.small if one in leaves]:
            if len(self.small) * 10 <= len(self.entries):
                break
            del self.small[prefix]
            if not self.uses[prefix]:
                self.ghosts[prefix] = None
                if len(self.ghosts) > self.pages:
                    del self.ghosts[next(iter(self.ghosts))]
                return self.gone(prefix)
            self.main[prefix], self.uses[prefix] = None, 0
        while heads := [one for one in self.main if one in leaves]:
            for prefix in heads:
                del self.main[prefix]
                if not self.uses[prefix]:
                    return self.gone(prefix)
                self.main[prefix], self.uses[prefix] = None, self.uses[prefix] - 1
        prefix = next(one for one in self.small if one in leaves)
        del self.small[prefix]
        return self.gone(prefix)

    def gone(self, prefix: Prefix) -> Prefix:
        """Nobody counts any more how often it is used."""
        del self.uses[prefix]
        return prefix


class S3FifoTarget:
    """Makes them, under whatever name a policy is asked for that goes by use."""

    profile = Profile(reserved=0, hit_counts="none", evict_order="own")

    def make(self, config: Config) -> S3Fifo:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("three queues on the device")
        return S3Fifo(config)


target = S3FifoTarget()
