"""The optimized cache as a contender: its tree over its pool, tokens as int32 arrays."""

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
    """``kvlitmus.optimized``: ``Tree`` over ``PagePool``."""

    name = "ours"

    def __init__(self, page_size: int, tokens: int, policy: str = "lru") -> None:
        from kvlitmus.optimized.pool import PagePool
        from kvlitmus.optimized.tree import Tree

        self.page_size = page_size
        self.pool = PagePool(tokens // page_size, page_size, 1)
        self.tree = Tree(page_size, policy, self.pool)

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
            self.tree.insert(None, units[:end], pages[: end // self.page_size])

    def leaf(self, tokens: Tokens) -> None:
        """Cache a prompt whose last page alone may be new."""
        units = native(tokens)
        found = self.tree.match(None, units[: -self.page_size])
        self.tree.insert(None, units, np.concatenate([self.tree.path_pages(found.place), self._take(self.page_size)]))

    def match(self, tokens: Tokens) -> Call:
        """The call that matches a prompt."""
        return partial(self.tree.match, None, native(tokens))

    def match_slots(self, tokens: Tokens) -> Call:
        """The call that matches a prompt and lists its slots."""
        match, path, slots = self.match(tokens), self.tree.path_pages, self.pool.slots
        return lambda: slots(path(match().place))

    def matched(self, tokens: Tokens) -> int:
        """How many tokens a match finds."""
        return int(self.match(tokens)().resident) * self.page_size

    def resume(self, tokens: Tokens, kept: int) -> Call:
        """The call that matches what is behind the first ``kept`` tokens, by a caller that kept their place."""
        place = self.tree.match(None, native(tokens)[:kept]).place
        self.tree.lock(place)
        return partial(self.tree.resume, place, native(tokens[kept:]))

    def lock_unlock(self, tokens: Tokens) -> Call:
        """The call that locks a cached prompt and gives the lock back."""
        place = self.tree.match(None, native(tokens)).place
        lock, unlock = self.tree.lock, self.tree.unlock

        def call() -> None:
            lock(place)
            unlock(place)

        return call

    def evict(self, tokens: int) -> Call:
        """The call that evicts so many tokens."""
        return partial(self.tree.evict, tokens // self.page_size)

    def evicted(self, answer: Any) -> int:
        """How many tokens such a call evicted."""
        return int(answer) * self.page_size

    def insert(self, tokens: Tokens, known: int) -> Action:
        """Inserting a prompt of which ``known`` tokens are cached; the rest is evicted again afterwards."""
        units, fresh = native(tokens), len(tokens) - known
        found = self.tree.match(None, units)
        assert found.resident * self.page_size == known
        held: list[Any] = []

        def before() -> None:
            held[:] = [np.concatenate([self.tree.path_pages(found.place), self._take(fresh)])]

        def run() -> Any:
            return self.tree.insert(None, units, held[0])

        evict = self.evict(fresh)

        def after() -> None:
            assert self.evicted(evict()) == fresh

        return Action(run, before, after)

    def serve(self, units: Any) -> tuple[int, list[int]]:
        """One request: match, lock, evict what is missing, insert, unlock.

        Returns the tokens found and the nanoseconds of these five, and of allocating and listing pages.
        """
        clock, tree, pool = time.perf_counter_ns, self.tree, self.pool
        began = clock()
        found = tree.match(None, units)
        matched = clock()
        place = found.place
        tree.lock(place)
        locked = clock()
        missing = len(units) // self.page_size - found.resident
        short = missing - pool.free_count
        asked = clock()
        if short > 0:
            tree.evict(short)
        evicted = clock()
        pages = tree.path_pages(place)
        if missing:
            pages = np.concatenate([pages, pool.take(missing)])
        allocated = clock()
        tree.insert(None, units, pages)
        inserted = clock()
        tree.unlock(place)
        ended = clock()
        return found.resident * self.page_size, [
            matched - began,
            locked - matched,
            evicted - asked,
            inserted - allocated,
            ended - inserted,
            (allocated - evicted) + (asked - locked),
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
