"""The optimized cache as a contender: ``FlatCache``, called as a scheduler would, tokens as int32 arrays."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.control_timing import Action, Call
from benchmarks.control_tokens import Tokens

Units = NDArray[np.int32]


def native(tokens: Tokens) -> Units:
    """Tokens as the optimized cache likes them; a copy, so that none is compared with itself."""
    return tokens.astype(np.int32)


class Ours:
    """``kvlitmus.optimized``: ``FlatCache``."""

    name = "ours"

    def __init__(self, page_size: int, tokens: int, policy: str = "lru") -> None:
        from kvlitmus.optimized.cache import CacheConfig, FlatCache

        self.page_size = page_size
        self.cache = FlatCache(CacheConfig(page_size=page_size, pages=tokens // page_size, policy=policy))
        self.pool, self.tree = self.cache.pool, self.cache.tree

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

    def leaf(self, tokens: Tokens) -> None:
        """Cache a prompt whose last page alone may be new."""
        units = native(tokens)
        found = self.cache.match(units[: -self.page_size])
        self.cache.insert(units, np.concatenate([found.pages, self._take(self.page_size)]))

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

    def serve(self, units: Any) -> tuple[int, list[int]]:
        """One request: match, lock, evict what is missing, insert, unlock.

        Returns the tokens found and the nanoseconds (CPU time) of these five, and of allocating and listing pages.
        """
        clock, cache, tree, pool = time.thread_time_ns, self.cache, self.tree, self.pool
        began = clock()
        found = tree.match(None, units)
        matched = clock()
        tree.path_pages(found.place)
        listed = clock()
        receipt = cache.lock(found.place)
        locked = clock()
        known = found.resident
        missing = len(units) // self.page_size - known
        short = missing - pool.free_count
        asked = clock()
        if short > 0:
            cache.evict(short * self.page_size)
        evicted = clock()
        fresh = pool.take(missing)
        assert fresh is not None
        allocated = clock()
        tree.insert_behind(found.place, units[known * self.page_size :], fresh)
        inserted = clock()
        cache.unlock(receipt)
        ended = clock()
        return known * self.page_size, [
            matched - began,
            locked - listed,
            evicted - asked,
            inserted - allocated,
            ended - inserted,
            (allocated - evicted) + (asked - locked) + (listed - matched),
        ]


class Pool:
    """The optimized cache's pool, alone."""

    def __init__(self, page_size: int, tokens: int) -> None:
        from kvlitmus.optimized.pool import PagePool

        self.pool = PagePool(tokens // page_size, page_size, 1)

    def free(self, tokens: int) -> Action:
        """Freeing so many slots at once."""
        held: list[Any] = []

        def before() -> None:
            held[:] = [self.pool.alloc(tokens)]

        return Action(lambda: self.pool.free(held[0]), before, times=5)
