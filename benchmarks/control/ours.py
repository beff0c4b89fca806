"""The optimized cache as a contender: ``FlatCache``, called as a scheduler would, tokens as int32 arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.control.goals import CORES
from benchmarks.control.timing import Action, Call
from benchmarks.control.tokens import Tokens

Units = NDArray[np.int32]


def native(tokens: Tokens | Units) -> Units:
    """Tokens as the optimized cache likes them; a copy, so that none is compared with itself."""
    return tokens.astype(np.int32)


def running() -> str:
    """Which core runs where nobody chooses."""
    from kvlitmus.optimized.cores import AUTO, core_of

    return core_of(AUTO)


def cores() -> tuple[str, ...]:
    """The cores to measure: the one that runs where nobody chooses, and the one in Python where that is another."""
    return ("auto",) if running() == "python" else ("auto", "python")


def environment(core: str) -> dict[str, str]:
    """What makes a process use this core where nobody chooses."""
    from kvlitmus.optimized.cores import VARIABLE

    assert core in CORES
    return {VARIABLE: core}


class Ours:
    """``kvlitmus.optimized``: ``FlatCache``."""

    way = ""
    """How requests are served, where it isn't by single calls; what else it has, where it isn't a flat cache."""

    def __init__(self, page_size: int, tokens: int, policy: str = "lru", core: str = "auto") -> None:
        from kvlitmus.optimized.cache import CacheConfig

        self.name = f"ours{CORES[core]}{self.way}"
        self.page_size = page_size
        self.cache = self.made(CacheConfig(page_size=page_size, pages=tokens // page_size, policy=policy, core=core))
        self.pool, self.tree = self.cache.pool, self.cache.tree

    def made(self, config: Any) -> Any:
        """The cache."""
        from kvlitmus.optimized.cache import FlatCache

        return FlatCache(config)

    def native(self, tokens: Tokens) -> Units:
        """Tokens as this cache likes them."""
        return native(tokens)

    def _take(self, tokens: int) -> Any:
        pages = self.pool.take(tokens // self.page_size)
        assert pages is not None
        return pages

    def fill(self, tokens: Tokens, step: int = 0) -> None:
        """Cache a prompt, at once or turn by turn, ``step`` tokens at a time."""
        units, pages = native(tokens), self._take(len(tokens))
        for end in range(step or len(tokens), len(tokens) + 1, step or len(tokens)):
            self.cache.insert(units[:end], pages[: end // self.page_size])

    def fill_leaves(self, prompts: list[Tokens], shared: int) -> None:
        """Cache prompts that go on for one page behind what they share, which is cached."""
        head, own = self.cache.match(native(prompts[0])[:shared]).pages, self._take(len(prompts) * self.page_size)
        for at, tokens in enumerate(prompts):
            self.cache.insert(native(tokens), np.concatenate([head, own[at : at + 1]]))

    def add(self, tokens: Tokens | Units) -> int:
        """Cache a prompt, whatever of it is cached already; how many pages are new."""
        units = native(tokens)
        found = self.cache.match(units).pages
        fresh = self._take(len(tokens) - len(found) * self.page_size)
        self.cache.insert(units, np.concatenate([found, fresh]))
        return len(fresh)

    def match(self, tokens: Tokens) -> Call:
        """The call that matches a prompt; it lists the pages too."""
        return partial(self.cache.match, native(tokens))

    def match_place(self, tokens: Tokens) -> Call:
        """The call that matches a prompt and lists nothing."""
        return partial(self.tree.match, None, native(tokens))

    def match_slots(self, tokens: Tokens) -> Call:
        """The call that matches a prompt and lists its slots, one by one."""
        match, slots = self.match(tokens), self.pool.slots
        return lambda: slots(match().pages)

    def matched(self, tokens: Tokens) -> int:
        """How many tokens a match finds."""
        return len(self.match(tokens)().pages) * self.page_size

    def resume(self, tokens: Tokens, kept: int) -> Call:
        """The call that matches what is behind the first ``kept`` tokens, by a caller that kept their place."""
        place = self.cache.match(native(tokens)[:kept]).place
        self.cache.lock(place)
        return partial(self.cache.resume, place, native(tokens[kept:]))

    def lock_unlock(self, tokens: Tokens) -> Call:
        """The call that locks a cached prompt and gives the lock back."""
        place = self.cache.match(native(tokens)).place
        lock, unlock = self.cache.lock, self.cache.unlock
        return lambda: unlock(lock(place))

    def evict(self, tokens: int) -> Call:
        """The call that evicts so many tokens."""
        return partial(self.cache.evict, tokens)

    def evicted(self, answer: Any) -> int:
        """How many tokens such a call evicted."""
        return int(answer)

    def insert(self, tokens: Tokens, known: int, times: int) -> Action:
        """Inserting a prompt of which ``known`` tokens are cached; the rest is evicted again afterwards."""
        units, fresh = native(tokens), len(tokens) - known
        found = self.cache.match(units)
        assert len(found.pages) * self.page_size == known
        held: list[Any] = []

        def before() -> None:
            held[:] = [np.concatenate([found.pages, self._take(fresh)])]

        def run() -> Any:
            return self.cache.insert(units, held[0])

        evict = self.evict(fresh)

        def after() -> None:
            assert self.evicted(evict()) == fresh

        return Action(run, before, after, times)

    def grow(self, head: Tokens, tails: Iterator[Tokens], times: int) -> Action:
        """Inserting a cached prompt with a new tail behind it, another one each time; all of them stay cached."""
        found = self.cache.match(native(head))
        assert len(found.pages) * self.page_size == len(head)
        held: list[Any] = []

        def before() -> None:
            tail = next(tails)
            held[:] = [native(np.concatenate([head, tail])), np.concatenate([found.pages, self._take(len(tail))])]

        def run() -> Any:
            return self.cache.insert(held[0], held[1])

        return Action(run, before, times=times)

    def serve(self, units: Any) -> int:
        """One request: match, lock, list, evict what is missing, allocate, insert, unlock; returns the tokens found."""
        cache, pool, size = self.cache, self.cache.pool, self.page_size
        found = cache.match(units)
        receipt = cache.lock(found.place)
        known = len(found.pages)
        missing = len(units) // size - known
        short = missing - pool.free_count
        if short > 0:
            cache.evict(short * size)
        fresh = pool.take(missing)
        assert fresh is not None
        cache.insert_behind(found.place, units[known * size :], fresh)
        cache.unlock(receipt)
        return known * size


class OurRequests(Ours):
    """The same cache, served by the two calls that it has for a whole request."""

    way = ", begin and end"

    def serve(self, units: Any) -> int:
        """One request: ``begin`` matches, locks, evicts, allocates and lists its slots, ``end`` inserts and unlocks."""
        running = self.cache.begin(0, units)
        assert running is not None
        known = int(running.cached)
        self.cache.end(0, keep=True)
        return known


class OursWithTiers(Ours):
    """``HierarchicalCache`` with a host as large as the device, which moves nothing.

    What is inserted is backed up at once, as the write policy says; the copies go on outside of the clock.
    """

    way = ", with tiers"

    def made(self, config: Any) -> Any:
        """The cache, stepped."""
        from kvlitmus.optimized.hierarchy import HierarchicalCache

        return HierarchicalCache(replace(config, host_pages=config.pages))

    def settle(self) -> None:
        """End the copies that are under way."""
        for work in self.cache.jobs():
            self.cache.advance(work.id)
        self.cache.tick()
        assert not self.cache.jobs()

    def add(self, tokens: Tokens | Units) -> int:
        """See :class:`Ours`."""
        fresh = super().add(tokens)
        self.settle()
        return fresh

    def grow(self, head: Tokens, tails: Iterator[Tokens], times: int) -> Action:
        """See :class:`Ours`; the backups that an insert begins are of the call, their copies are not."""
        return replace(super().grow(head, tails, times), after=self.settle)


class Pool:
    """The optimized cache's pool, with nothing in the tree."""

    def __init__(self, page_size: int, tokens: int) -> None:
        self.cache = Ours(page_size, tokens).cache

    def free(self, tokens: int) -> Action:
        """Freeing so many slots at once."""
        held: list[Any] = []

        def before() -> None:
            held[:] = [self.cache.alloc(tokens)]

        return Action(lambda: self.cache.free(held[0]), before, times=5)
