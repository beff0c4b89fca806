"""What a cache tells the world: which pages came to a tier and which left it.

Whoever replays the events has exactly the pages that are on each tier, after each call.  A page that came and went
within one call is not told of.  Removals come first, from the leaves up, then what was stored, parents first, the
device before the host.  A host copy is told of when its backup has been acknowledged; until then it may hold anything.

Telling costs a hash and a few objects per page, so a cache tells only when asked to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from kvlitmus.optimized.tree import Place, Run, Tree, Units

STORED, REMOVED, CLEARED = "stored", "removed", "cleared"
DEVICE, HOST = "device", "host"


class Told(NamedTuple):
    """One event: a page ``stored`` on a tier or ``removed`` from it, or everything everywhere ``cleared``.

    ``page``: its name in storage; ``parent``: the name of the page before, ``None`` at a root; ``units``: its own.  The
    last three are told of what was stored.
    """

    what: str
    tier: str = ""
    page: str = ""
    parent: str | None = None
    units: Units | None = None
    namespace: Hashable = None


class EventLog:
    """The events of one cache, of the tree that it follows.

    ``fresh`` has the net effect of the call under way, by tier and page, with the depth of the page.
    """

    def __init__(self) -> None:
        self.fresh: dict[tuple[str, str], tuple[int, Told]] = {}
        self.log: list[Told] = []

    def follow(self, tree: Tree, names: Callable[[Place, int], Sequence[str]]) -> None:
        """Hear of this tree's pages; ``names``: what the pages of a path from a depth on are called."""
        self.tree = tree
        self.names = names
        tree.tell = self.tell

    def tell(self, what: str, tier: str, run: Run) -> None:
        """These pages were stored on a tier just now, or are about to be removed from it.

        Of a path that has no names in storage (a token of more than 32 bits, a namespace that is no text) nothing is
        told, ever.
        """
        branch, lo, hi = run
        base = self.tree.depth(Place(branch, lo))
        above = base - 1 if base else 0
        try:
            names: list[str | None] = [*self.names(Place(branch, hi), above)]
        except (TypeError, ValueError):
            return
        if not base:
            names.insert(0, None)
        size = self.tree.page_size
        for at in range(hi - lo):
            page = names[at + 1]
            assert page is not None
            if self.fresh.pop((tier, page), None) is not None:
                continue
            told = Told(what, tier, page)
            if what == STORED:
                units = branch.units[(lo + at) * size : (lo + at + 1) * size].copy()
                told = Told(what, tier, page, names[at], units, branch.namespace)
            self.fresh[tier, page] = (base + at, told)

    def end_call(self) -> None:
        """The call under way is over: what it came to is told."""
        if not self.fresh:
            return
        fresh = list(self.fresh.values())
        self.fresh.clear()
        for what, sign in ((REMOVED, -1), (STORED, 1)):
            for tier in (DEVICE, HOST):
                some = [entry for entry in fresh if entry[1].what == what and entry[1].tier == tier]
                some.sort(key=lambda entry, sign=sign: sign * entry[0])  # type: ignore[misc]
                self.log += [told for _, told in some]

    def clear(self) -> None:
        """Everything is gone."""
        self.fresh.clear()
        self.log.append(Told(CLEARED))

    def take(self) -> list[Told]:
        """What was told since the last call, in order."""
        log, self.log = self.log, []
        return log
