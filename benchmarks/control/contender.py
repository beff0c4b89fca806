"""What is timed of every cache in the same way, however it names its calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.control.tokens import Tokens
from benchmarks.timing import Action, Call


class Contender:
    """A cache: ``cache`` has ``insert``; slots are whatever it keeps of where tokens are.

    What a call takes is made outside of the clock.
    """

    name: str
    cache: Any

    page_size: int
    tiers = False
    """Whether there is a host below the device."""
    lock: Callable[[Any], Any]
    unlock: Callable[[Any], object]

    # -- differs ---------------------------------------------------------------------------------

    def native(self, tokens: Tokens) -> Any:
        """Tokens as this cache likes them; the methods below get them so."""
        raise NotImplementedError

    def _known(self, units: Any) -> tuple[int, Any, Any]:
        """How many tokens are cached, where they end, and their slots."""
        raise NotImplementedError

    def _take(self, tokens: int) -> Any:
        """Slots for so many tokens."""
        raise NotImplementedError

    def _cut(self, slots: Any, start: int, end: int) -> Any:
        """The slots of the tokens from ``start`` to ``end``."""
        return slots[start:end]

    def _join(self, slots: Any, more: Any) -> Any:
        """These slots, and those."""
        raise NotImplementedError

    def _given(self, units: Any, slots: Any, known: int) -> tuple[Any, ...]:
        """What ``insert`` takes for a prompt of which so many tokens are cached."""
        raise NotImplementedError

    def evict(self, tokens: int) -> Call:
        """The call that evicts so many tokens."""
        raise NotImplementedError

    def evicted(self, answer: Any) -> int:
        """How many tokens such a call evicted."""
        return int(answer)

    def serve(self, units: Any) -> int:
        """One request from its match to its unlock; how many tokens were found."""
        raise NotImplementedError

    def land(self) -> None:
        """With tiers: make the copies that are under way."""

    def tick(self) -> None:
        """With tiers: what a scheduler calls once per step, which takes note of these."""

    # -- common ----------------------------------------------------------------------------------

    def matched(self, tokens: Tokens) -> int:
        """How many tokens a match finds."""
        return self._known(self.native(tokens))[0]

    def fill(self, tokens: Tokens, step: int = 0) -> None:
        """Cache a prompt, at once or turn by turn, ``step`` tokens at a time."""
        units, slots, step = self.native(tokens), self._take(len(tokens)), step or len(tokens)
        for end in range(step, len(units) + 1, step):
            self.cache.insert(*self._given(units[:end], self._cut(slots, 0, end), end - step))

    def fill_leaves(self, prompts: list[Tokens], shared: int) -> None:
        """Cache prompts that go on for one page behind what they share, which is cached."""
        _, _, head = self._known(self.native(prompts[0][:shared]))
        page = len(prompts[0]) - shared
        own = self._take(len(prompts) * page)
        for at, tokens in enumerate(prompts):
            slots = self._join(head, self._cut(own, at * page, (at + 1) * page))
            self.cache.insert(*self._given(self.native(tokens), slots, shared))

    def add(self, tokens: Any) -> int:
        """Cache a prompt, whatever of it is cached already; how many pages are new."""
        units = self.native(tokens)
        known, _, slots = self._known(units)
        fresh = len(units) - known
        self.cache.insert(*self._given(units, self._join(slots, self._take(fresh)), known))
        self.settle()
        return fresh // self.page_size

    def settle(self) -> None:
        """With tiers: end what goes on in the background."""
        self.land()
        self.tick()

    def lock_unlock(self, tokens: Tokens) -> Call:
        """The call that locks a cached prompt and gives the lock back."""
        _, place, _ = self._known(self.native(tokens))
        lock, unlock = self.lock, self.unlock
        return lambda: unlock(lock(place))

    def insert(self, tokens: Tokens, known: int, times: int) -> Action:
        """Inserting a prompt of which ``known`` tokens are cached; the rest is evicted again afterwards."""
        units, fresh = self.native(tokens), len(tokens) - known
        evict = self.evict(fresh)

        def after() -> None:
            assert self.evicted(evict()) == fresh

        return self._inserting(lambda: units, units, known, times, after)

    def grow(self, head: Tokens, tails: Iterator[Tokens], times: int) -> Action:
        """Inserting a cached prompt with a new tail behind it, another one each time; all of them stay cached."""

        def prompt() -> Any:
            return self.native(np.concatenate([head, next(tails)]))

        return self._inserting(prompt, self.native(head), len(head), times, self.settle)

    def request(self, head: Tokens, tails: Iterator[Tokens], times: int) -> Action:
        """A whole request for a cached prompt with a new tail, another one each time; all of them stay cached.

        It takes so long that CPU time is counted.
        """
        held: list[Any] = []

        def before() -> None:
            held[:] = [self.native(np.concatenate([head, next(tails)]))]

        return Action(lambda: self.serve(held[0]), before, self.settle, times, clock=time.thread_time_ns)

    def _inserting(
        self, prompt: Callable[[], Any], cached: Any, known: int, times: int, after: Call | None = None
    ) -> Action:
        """Inserting a prompt that begins with what is ``cached``."""
        found, _, slots = self._known(cached)
        assert found == known
        held: list[Any] = []

        def before() -> None:
            units = prompt()
            held[:] = self._given(units, self._join(slots, self._take(len(units) - known)), known)

        def run() -> Any:
            return self.cache.insert(*held)

        return Action(run, before, after, times)
