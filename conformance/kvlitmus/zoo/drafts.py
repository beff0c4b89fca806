"""A desk where everybody drafts: beside the pages of its tokens each guest has some for tokens that may never be.

A guest who grows writes on the pages of the drafts first, and has new ones brought.  Who can't be given pages for
drafts isn't let in, and doesn't grow.  What is left of them is empty again when the guest goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Begun, Config, Sizes
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.desk import Desk, DeskTarget

AHEAD = 2
"""So many pages of drafts."""


class Drafts(Desk):
    """A desk with pages of drafts."""

    def reset(self) -> None:
        """Nobody drafts."""
        super().reset()
        self.drafts: dict[int, list[int]] = {}
        self.brought: list[int] = []

    def admit(self, count: int) -> list[int] | None:
        """The pages of a guest who comes, and those of the drafts."""
        pages = self.room(count + AHEAD)
        if pages is None:
            return None
        self.brought = pages[count:]
        return pages[:count]

    def begin(self, rid: int, key: Key) -> Begun | None:
        """A guest, with drafts."""
        begun = super().begin(rid, key)
        if begun is not None:
            self.drafts[rid] = self.brought
        return begun

    def fork(self, rid: int, of: int) -> Begun | None:
        """Another guest, with drafts of its own."""
        drafts = self.room(AHEAD)
        begun = None if drafts is None else super().fork(rid, of)
        if begun is None:
            self.empty += drafts or []
        else:
            self.drafts[rid] = drafts or []
        return begun

    def grow(self, rid: int, tokens: Sequence[int]) -> tuple[int, ...] | None:
        """On the pages of the drafts, once there are as many as ever behind them."""
        guest, drafts = self.guests[rid], self.drafts[rid]
        before = len(guest.key.tokens)
        opened = -(-(before + len(tokens)) // self.size) - len(guest.pages)
        pages = self.room(opened + AHEAD - len(drafts))
        if pages is None:
            return None
        drafts += pages
        guest.pages += drafts[:opened]
        del drafts[:opened]
        guest.key = guest.key._replace(tokens=(*guest.key.tokens, *tokens))
        return self.slots(guest)[before:]

    def end_upto(self, rid: int, upto: int) -> None:
        """The drafts are thrown away."""
        super().end_upto(rid, upto)
        self.empty += self.drafts.pop(rid)

    def alloc(self, n: int) -> list[int] | None:
        """Empty pages, for somebody who is no guest."""
        if n > self.available():
            return None
        return [page * self.size + at for page in self.room(n // self.size) or () for at in range(self.size)]

    def free(self, slots: Sequence[int]) -> None:
        """They are empty again."""
        self.empty += [slot // self.size for slot in slots[:: self.size]]

    def available(self) -> int:
        """What is empty."""
        return len(self.empty) * self.size

    def sizes(self) -> Sizes:
        """What nobody stands on, and what somebody does."""
        idle = sum(1 for standing in self.standing.values() if not standing)
        return Sizes(idle * self.size, (len(self.standing) - idle) * self.size)


class DraftsTarget(DeskTarget):
    """Makes them, by use."""

    profile = replace(DeskTarget.profile, spare_pages=AHEAD)
    configs = (Config(page_size=1, pages=12), Config(page_size=4, pages=12), Config(page_size=4, pages=20))

    def make(self, config: Config) -> Drafts:
        """A fresh one."""
        super().make(config)
        return Drafts(config)


target = DraftsTarget()
