"""Requests that reuse parts of pages: where no cached page goes on as the key does, one that begins so is copied.

It is the scheduler that runs a step ahead, with a look at the pages behind the last whole one: the page that is like
the key for longest is the source, and what is alike is copied to the request's own page before anybody writes there.
The source is nobody's, so it may be the page that makes room.  A match names the source's slots themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Begun, Config, Hit
from kvlitmus.spec.words.units import Key, Unit
from kvlitmus.zoo.step_ahead import StepAhead, StepAheadTarget


class PartialReuse(StepAhead):
    """Such a scheduler, with what is in its slots."""

    def reset(self) -> None:
        """Nothing is written anywhere that counts."""
        super().reset()
        self.kv = [0] * ((self.count + 1) * self.size)

    def source(self, key: Key) -> list[int]:
        """The slots of the longest beginning of a cached page that goes on as the key does behind its whole pages."""
        behind = len(self.found(key)) * self.size
        units = tuple(key.units)
        best: list[int] = []
        for (space, prefix), one in self.shared.items():
            if space != key.namespace or len(prefix) != behind + self.size or prefix[:behind] != units[:behind]:
                continue
            alike = self.alike(units[behind:], prefix[behind:])
            if alike > len(best):
                best = self.slots([one.page])[:alike]
        return best

    def alike(self, mine: Sequence[Unit], theirs: Sequence[Unit]) -> int:
        """How many units both begin with."""
        pairs = enumerate(zip(mine, theirs, strict=False))
        return next((at for at, (one, other) in pairs if one != other), min(len(mine), len(theirs)))

    def copy(self, kv: Sequence[int], slots: Sequence[int]) -> None:
        """What was read from the source is written to the request's own page."""
        self.poke(slots, kv)

    def match(self, key: Key) -> Hit:
        """What is cached, and what is alike."""
        hit = super().match(key)
        assert hit.slots is not None
        slots = [*hit.slots, *self.source(key)]
        return hit._replace(length=len(slots), slots=slots)

    def begin(self, rid: int, key: Key) -> Begun | None:
        """The request's own page has what is alike."""
        kv = [self.kv[slot] for slot in self.source(key)]
        begun = super().begin(rid, key)
        if begun is None:
            return None
        end = begun.cached + len(kv)
        self.copy(kv, begun.row[begun.cached : end])
        return begun._replace(cached=end)

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """Somebody writes."""
        for slot, value in zip(slots, values, strict=True):
            self.kv[slot] = value

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """Somebody reads."""
        return [self.kv[slot] for slot in slots]


class PartialReuseTarget(StepAheadTarget):
    """Makes them, by use."""

    profile = replace(StepAheadTarget.profile, match_ends="inside")
    configs = (Config(page_size=4, pages=8), Config(page_size=4, pages=16), Config(page_size=3, pages=8))

    def make(self, config: Config) -> PartialReuse:
        """A fresh one."""
        super().make(config)
        return PartialReuse(config)


target = PartialReuseTarget()
