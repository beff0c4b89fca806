"""What a cache tells the world: which pages came to a tier and which left it.

Whoever replays the events has exactly the pages that are on each tier, after each call.  A page that came and went
within one call is not told of; of a cache without tiers, within those since somebody last asked.  Removals come first,
from the leaves up, then what was stored, parents first, the device before the host.  A host copy is told of when its
backup has been acknowledged; until then it may hold anything.

Telling costs a hash and a few objects per page, so a cache tells only when asked to.

**Nobody has to listen.**  At most ``limit`` events wait.  When there would be more, or when there is no memory for one,
all that wait are dropped, and nothing more is kept until somebody asks: the answer is then an ``overflow``, which says
that whoever replays the events has to forget all he knew, and after it what is on the tiers now, as ``stored``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kvlitmus.optimized.tree import Branch, Place, Run, Tree, Units

STORED, REMOVED, CLEARED, OVERFLOW = "stored", "removed", "cleared", "overflow"
DEVICE, HOST = "device", "host"


LIMIT = 1 << 17
"""How many events wait, if nobody says otherwise."""


class CacheEvent(NamedTuple):
    """One event: a page ``stored`` on a tier or ``removed`` from it, or everything everywhere ``cleared``.

    Or an ``overflow``: events were lost, everything is to be forgotten, and what there is now follows.

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

    ``fresh`` has the net effect of what hasn't come to an end (:meth:`end_call`), by tier and page, with the depth of
    the page.  ``lost``: whether events were dropped.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.fresh: dict[tuple[str, str], tuple[int, CacheEvent]] = {}
        self.log: list[CacheEvent] = []
        self.lost = False

    def follow(
        self, tree: Tree, names: Callable[[Place, int], Sequence[str]], arriving: Callable[[], Sequence[Run]]
    ) -> None:
        """Hear of this tree's pages.

        ``names``: what the pages of a path from a depth on are called; ``arriving``: the pages whose host copies are
        not told of yet.
        """
        self.tree = tree
        self.names = names
        self.arriving = arriving
        tree.tell = self.tell

    def tell(self, what: str, tier: str, run: Run) -> None:
        """These pages were stored on a tier just now, or are about to be removed from it.

        Of pages that have no names in storage (in a namespace that is no text) nothing is told, ever.  It never raises:
        what can't be told is lost.
        """
        if self.lost:
            return
        base = run.branch.base + run.lo
        try:
            for at, told in enumerate(self.records(what, tier, run)):
                if self.fresh.pop((tier, told.page), None) is None:
                    self.fresh[tier, told.page] = (base + at, told)
        except MemoryError:
            self.lose()
        if len(self.fresh) + len(self.log) > self.limit:
            self.lose()

    def records(self, what: str, tier: str, run: Run) -> Iterator[CacheEvent]:
        """What there is to tell of each of these pages; nothing, where they have no names."""
        branch, lo, _ = run
        base = branch.base + lo
        names: list[str | None] = [*self.names_of(run)]
        if not base:
            names.insert(0, None)
        size = self.tree.page_size
        for at, page in enumerate(names[1:]):
            assert page is not None
            if what == STORED:
                units = branch.units[(lo + at) * size : (lo + at + 1) * size].copy()
                yield CacheEvent(what, tier, page, names[at], units, branch.namespace)
            else:
                yield CacheEvent(what, tier, page)

    def names_of(self, run: Run) -> Sequence[str]:
        """The names of these pages and of the one before them; none in a namespace that is no text."""
        branch, lo, hi = run
        try:
            return self.names(self.tree.place(branch, hi), max(0, branch.base + lo - 1))
        except TypeError:
            return ()

    def end_call(self) -> None:
        """What has changed until now is told, as what it came to."""
        if not self.fresh:
            return
        fresh = list(self.fresh.values())
        self.fresh.clear()
        for what, sign in ((REMOVED, -1), (STORED, 1)):
            for tier in (DEVICE, HOST):
                some = [entry for entry in fresh if entry[1].what == what and entry[1].tier == tier]
                some.sort(key=lambda entry, sign=sign: sign * entry[0])  # type: ignore[misc]
                self.log += [told for _, told in some]

    def lose(self) -> None:
        """Keep nothing until somebody asks."""
        self.lost = True
        self.fresh.clear()
        self.log.clear()

    def clear(self) -> None:
        """Everything is gone."""
        self.fresh.clear()
        if not self.lost:
            self.log.append(CacheEvent(CLEARED))

    def take(self) -> list[CacheEvent]:
        """What was told since the last call, in order; or, where events were lost, that, and what there is now."""
        self.end_call()
        if self.lost:
            found = [CacheEvent(OVERFLOW), *self.everything()]
            self.lost = False
            return found
        log, self.log = self.log, []
        return log

    def everything(self) -> list[CacheEvent]:
        """What is on the tiers now: the device before the host, parents first."""
        device: list[CacheEvent] = []
        host: list[CacheEvent] = []
        arriving: dict[Branch, list[Run]] = {}
        for run in self.arriving():
            arriving.setdefault(run.branch, []).append(run)
        for branch in self.tree.branches():
            if branch.dev:
                device += self.records(STORED, DEVICE, Run(branch, 0, branch.dev))
            if self.tree.host is None:
                continue
            there = self.tree.host_run(Run(branch, 0, branch.n)) >= 0
            for run in arriving.get(branch, ()):
                there[run.lo : run.hi] = False
            edges = np.flatnonzero(np.diff(np.concatenate(([False], there, [False]))))
            for lo, hi in edges.reshape(-1, 2).tolist():
                host += self.records(STORED, HOST, Run(branch, lo, hi))
        return device + host
