"""A doorkeeper: a page is let in when it comes a second time, so that what comes once doesn't push out what stays.

Who was at the door is remembered by the hash of the whole prefix, in a few bits; some are taken for others, and let in
at once.  What is turned away takes all with it that goes on from there.  After a while the doorkeeper forgets all.
"""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from kvlitmus.conformance.ports import Begun, Config
from kvlitmus.zoo.leftovers import Leftovers, LeftoversTarget, Prefix

DOORS = 64
"""So many bits."""

MEMORY = 40
"""So many are turned away until all are forgotten."""


class Doorkeeper(Leftovers):
    """Requests that leave what was asked for before."""

    def reset(self) -> None:
        """Nobody was here."""
        super().reset()
        self.seen: set[int] = set()
        self.turned_away = 0

    def knows(self, prefix: Prefix) -> bool:
        """Whether a page may come in; if not, next time it may."""
        door = crc32(repr(prefix).encode()) % DOORS
        if door in self.seen:
            return True
        self.turned_away += 1
        if self.turned_away % MEMORY == 0:
            self.seen.clear()
        self.seen.add(door)
        return False

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """The first pages of a request, up to one that is new here."""
        visitor = self.visitors[rid]
        prefixes = self.prefixes(visitor.key)
        inside = next((at for at, one in enumerate(prefixes) if one not in self.kept and not self.knows(one)), None)
        return self.share(visitor, prefixes[:inside])

    def end(self, rid: int, *, keep: bool) -> None:
        """Those who are turned away leave nothing; no more do those who give up."""
        if keep:
            self.publish(rid, chunked=False)
        self.leave(rid)


class DoorkeeperTarget(LeftoversTarget):
    """Makes them, by use."""

    profile = replace(LeftoversTarget.profile, aborted="dropped", admission="own")

    def make(self, config: Config) -> Doorkeeper:
        """A fresh one."""
        super().make(config)
        return Doorkeeper(config)


target = DoorkeeperTarget()
