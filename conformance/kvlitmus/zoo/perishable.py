"""Perishable: a page that nobody has looked for during twelve lookups is thrown away by the next one.

There is no clock and nothing that runs in the background: whoever looks first clears away what is too old, from the
ends of prefixes, unless somebody holds it.  Explicit evictions take the least recently used as ever.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Config, Hit, Profile, Unsupported
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.page_map import PageMap, Prefix

KEPT = 12
"""What wasn't used during so many uses of anything is too old."""


class Perishable(PageMap):
    """A map of pages that don't keep."""

    def match(self, key: Key) -> Hit:
        """Clear away, then look."""
        while old := self.expired():
            for prefix in old:
                self.unused.add(self.entries.pop(prefix).page)
        return super().match(key)

    def expired(self) -> Sequence[Prefix]:
        """The ends of prefixes that are too old."""
        inner = {(namespace, units[: -self.size]) for namespace, units in self.entries}
        return [
            prefix
            for prefix, entry in self.entries.items()
            if not entry.locks and prefix not in inner and entry.used < self.now - KEPT
        ]


class PerishableTarget:
    """Makes them, by use."""

    profile = Profile(reserved=0, hit_counts="none", expiry="lookup")

    def make(self, config: Config) -> Perishable:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("a map on the device, by use")
        return Perishable(config)


target = PerishableTarget()
