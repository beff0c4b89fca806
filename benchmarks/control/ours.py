"""The optimized cache as a contender: ``FlatCache``, called as a scheduler would, tokens as int32 arrays."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.control.contender import Contender
from benchmarks.control.goals import CORES
from benchmarks.control.tokens import Tokens
from benchmarks.timing import Action, Call

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


class Ours(Contender):
    """``kvlitmus.optimized``: ``FlatCache``."""

    way = ""
    """How requests are served, where it isn't by single calls; what else it has, where it isn't a flat cache."""

    def __init__(self, page_size: int, tokens: int, policy: str = "lru", core: str = "auto") -> None:
        from kvlitmus.optimized.cache import CacheConfig

        self.name = f"ours{CORES[core]}{self.way}"
        self.page_size = page_size
        self.cache = self.made(CacheConfig(page_size=page_size, pages=tokens // page_size, policy=policy, core=core))
        self.pool, self.tree = self.cache.pool, self.cache.tree
        self.lock, self.unlock = self.cache.lock, self.cache.unlock

    def made(self, config: Any) -> Any:
        """The cache."""
        from kvlitmus.optimized.cache import FlatCache

        return FlatCache(config)

    def native(self, tokens: Tokens | Units) -> Units:
        """As int32; a copy, so that none is compared with itself."""
        return native(tokens)

    def _known(self, units: Units) -> tuple[int, Any, Any]:
        found = self.cache.match(units)
        return len(found.pages) * self.page_size, found.place, found.pages

    def _take(self, tokens: int) -> Any:
        pages = self.pool.take(tokens // self.page_size)
        assert pages is not None
        return pages

    def _cut(self, slots: Any, start: int, end: int) -> Any:
        return slots[start // self.page_size : end // self.page_size]

    def _join(self, slots: Any, more: Any) -> Any:
        return np.concatenate([slots, more])

    def _given(self, units: Units, slots: Any, known: int) -> tuple[Any, ...]:
        return units, slots  # the tree finds by itself what is cached

    def evict(self, tokens: int) -> Call:
        """The call that evicts so many tokens."""
        return partial(self.cache.evict, tokens)

    def evicted(self, answer: Any) -> int:
        """How many tokens such a call evicted."""
        return len(answer) * self.page_size

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

    def resume(self, tokens: Tokens, kept: int) -> Call:
        """The call that matches what is behind the first ``kept`` tokens, by a caller that kept their place."""
        place = self.cache.match(native(tokens)[:kept]).place
        self.cache.lock(place)
        return partial(self.cache.resume, place, native(tokens[kept:]))

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
    """``HierarchicalCache`` with a host of so many tokens, or as large as the device; its mover moves nothing.

    What is inserted is backed up at once, as the write policy says: to begin that is of the call, the copy is not.
    """

    way = ", with tiers"
    tiers = True

    def __init__(self, page_size: int, tokens: int, host_tokens: int = 0) -> None:
        self.host_pages = (host_tokens or tokens) // page_size
        super().__init__(page_size, tokens)

    def made(self, config: Any) -> Any:
        """The cache, stepped."""
        from kvlitmus.optimized.hierarchy import HierarchicalCache

        return HierarchicalCache(replace(config, host_pages=self.host_pages))

    def land(self) -> None:
        """See :class:`Contender`."""
        for work in self.cache.jobs():
            if not work.landed:
                self.cache.advance(work.id)

    def tick(self) -> None:
        """See :class:`Contender`."""
        self.cache.tick()

    def serve(self, units: Any) -> int:
        """The same request, and what is on the host alone is loaded back once it is matched."""
        cache, pool, size = self.cache, self.cache.pool, self.page_size
        found = cache.match(units)
        place, pages = found.place, found.pages
        if found.behind and (loaded := cache.load_back(units)).pages is not None:
            place, pages = found.known, np.concatenate([pages, loaded.pages])
        receipt = cache.lock(place)
        known = len(pages)
        missing = len(units) // size - known
        short = missing - pool.free_count
        if short > 0:
            cache.evict(short * size)
        fresh = pool.take(missing)
        assert fresh is not None
        cache.insert_behind(place, units[known * size :], fresh)
        cache.unlock(receipt)
        return known * size


class OursOverTensors(OursWithTiers):
    """The same with a mover of tensors as small as SGLang's are here: to begin a copy is to write its page tables."""

    way = ", with tiers, over tensors"

    def made(self, config: Any) -> Any:
        """The cache, stepped."""
        import torch

        from kvlitmus.optimized.data.pools import DevicePool, HostPool
        from kvlitmus.optimized.data.shape import KVShape
        from kvlitmus.optimized.data.transfer import TorchMover
        from kvlitmus.optimized.hierarchy import HierarchicalCache

        shape = KVShape(layers=1, head_dim=4, dtype=torch.float32, page_size=config.page_size)
        mover = TorchMover(DevicePool(shape, config.pages + 1), HostPool(shape, self.host_pages), stepped=True)
        return HierarchicalCache(replace(config, host_pages=self.host_pages), mover)


class OurRequestsWithTiers(OursWithTiers):
    """The same cache, served by the calls that it has for a whole request."""

    way = ", with tiers, begin and end"

    def serve(self, units: Any) -> int:
        """One request: ``load_back`` brings what is on the host alone, the rest is as without tiers."""
        self.cache.load_back(units)
        running = self.cache.begin(0, units)
        assert running is not None
        known = int(running.cached)
        self.cache.end(0, keep=True)
        return known


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
