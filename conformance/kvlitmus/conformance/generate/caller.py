"""A lawful caller: what it has, so that the operations of a schedule keep the caller's side of the contract.

What it allocates it frees, what it locks it unlocks, a handle is used at once, and a request that runs is ended once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection

from kvlitmus.conformance.checker.calls import ranks, sparse
from kvlitmus.conformance.checker.calls.components import host as component_host
from kvlitmus.conformance.checker.calls.components import prefetch as component_prefetch
from kvlitmus.conformance.checker.calls.components import requests as component_requests
from kvlitmus.conformance.checker.calls.components import storing as component_storing
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.calls.prefix import pool, request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.naming import Naming
from kvlitmus.conformance.generate.schedule import fitted, make_key, more_tokens
from kvlitmus.spec.prefix.components.calls import (
    Entries,
)
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.words.units import Key

PAST = 24
"""Maximum number of keys that are remembered as computed before."""


class Caller:
    """Makes its calls through one checker; remembers what the checker has no need to know."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.config = checker.config
        self.waiting: dict[int, Key] = {}
        self.waits: dict[int, Key] = {}
        self.waited: list[int] = []
        self.past: dict[int, Key] = {}
        self.computations = 0
        self.naming: Naming | None = None
        self.entries: dict[int, Entries] = {}
        self.in_storage: set[At] = set()
        self.serial = 0
        self.begun = 0
        self.misused = ""
        self.afterwards: Callable[[], object] = lambda: None

    def key(self, a: int, b: int, c: int) -> Key:
        """The key that three numbers stand for, within the limits of the cache."""
        return self.fit(make_key(self.config, a, b, c))

    def fit(self, key: Key) -> Key:
        """A key within the limits of the cache."""
        return fitted(self.checker.profile, key)

    def tokens(self, a: int, b: int) -> list[int]:
        """Some further tokens that the cache takes."""
        return [token % self.checker.profile.vocabulary for token in more_tokens(self.config, a, b)]

    def computed(self, key: Key) -> None:
        """Somebody has computed this key, and may want it again."""
        if key.tokens and self.past.get(self.computations) != key:
            self.computations += 1
            self.past[self.computations] = key
            self.past.pop(self.computations - PAST, None)

    def pick(self, what: str, among: Collection[int], which: int) -> int | None:
        """One of the things that are alive, or ``None`` where there are none; ``what`` they are (:meth:`alive`)."""
        if self.naming is not None:
            return self.naming.pick(what, list(among), which)
        if not among:
            return None
        return next(itertools.islice(among, which % len(among), None))

    def again(self, which: int) -> Key:
        """One of the keys that were computed before, of which there must be some."""
        number = self.pick("past", self.past, which)
        assert number is not None
        return self.past[number]

    def alive(self) -> dict[str, Collection[int]]:
        """What is alive, by what it is: what operations pick from."""
        checker, parts = self.checker, self.checker.state
        found: dict[str, Collection[int]] = {
            "request": checker.requests,
            "receipt": checker.receipts,
            "loan": checker.loans,
            "retracted": self.waiting,
            "saved": checker.state.retracted.requests,
            "wait": self.waits,
            "waited": self.waited,
            "past": self.past,
            "entry": self.entries,
            "component request": parts.requests,
            "component receipt": parts.covers,
            "component copy": component_host.copies(parts),
            "component write": component_storing.writes(parts),
            "component fetch": parts.fetches,
            "rank fetch": [rid for tree in checker.ranks_state.trees for rid in tree.fetches],
        }
        if isinstance(checker.before, TierSeen):
            found["job"] = checker.before.jobs
        if checker.sparse_state is not None:
            found |= {"sparse copy": checker.sparse_state.copies, "sparse transfer": checker.sparse_state.transfers}
        return found

    def settle(self) -> None:
        """End everything that is still going on, and evict everything: nothing may be left."""
        checker = self.checker
        if "components" in checker.capabilities:
            self.settle_components()
            return
        if "component_requests" in checker.capabilities:
            for receipt in list(checker.state.requests):
                component_requests.finish(checker, receipt)
            return
        self.give_back()
        if checker.store is not None and checker.setting.steps:
            tiers.settle(checker)
            self.waits.clear()
        if "ranks" in checker.capabilities:
            ranks.settle(checker)
        if "evict" in checker.capabilities:
            tree.evict(checker, checker.capacity)
        if checker.store is not None and checker.setting.steps:
            tiers.settle(checker)
            if "host" in checker.capabilities:
                tiers.evict_host(checker, checker.config.host_pages * checker.size)

    def settle_components(self) -> None:
        """The same of a cache of components: all is given back, then all is evicted and the pools are whole."""
        checker, layout = self.checker, self.checker.setting.layout
        for number, fetch in list(checker.state.fetches.items()):
            if not fetch.over:
                component_prefetch.abort(checker, number)
            if fetch.running:
                component_prefetch.settled(checker, number)
        for number in component_storing.writes(checker.state):
            component_storing.written(checker, number)
        for at, number in enumerate(component_host.copies(checker.state)):
            component_host.copied(checker, number, at % 2 == 0)
        for receipt in list(checker.state.covers):
            components.unlock(checker, receipt)
        for given in self.entries.values():
            components.free(checker, given)
        self.entries.clear()
        for one in reversed(layout.components):
            components.evict(checker, {one.name: layout.places[one.pool]})
            if "component_host" in checker.capabilities:
                component_host.evict_host(checker, {one.name: layout.host[one.pool]})
        components.alloc(checker, {layout.base.name: layout.places[layout.base.pool]})

    def give_back(self) -> None:
        """End requests, give back receipts, free loans."""
        checker = self.checker
        for at, rid in enumerate(list(checker.requests)):
            request.end(checker, rid, keep=at % 2 == 0, upto=checker.requests[rid].upto)
        for receipt in list(checker.receipts):
            tree.unlock(checker, receipt)
        for loan in list(checker.loans):
            pool.free(checker, checker.loans.pop(loan).slots)
        known = checker.sparse_state
        for row in {**known.rows, **known.reserved} if known else ():
            sparse.end(checker, row)
