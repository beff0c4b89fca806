"""SGLang's caches as contenders: made as the suite makes them, called as its scheduler calls them.

What is replaced of SGLang, and why it doesn't matter, stands in the suite's adapters.  Calls go to the
cache's own public methods, with parameters made outside of the clock; token ids are ``array("q")``, which
is what the release itself keeps them in.  Where SGLang offers two ways, the faster one is timed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.control.timing import Action, Call
from benchmarks.control.tokens import Tokens
from kvlitmus.conformance.ports import Config


def native(tokens: Tokens) -> Any:
    """Tokens as SGLang likes them."""
    return array("q", tokens.tobytes())


class Sglang:
    """What all of SGLang's caches have in common."""

    name: str

    def __init__(self, made: Any, name: str) -> None:
        self.name = name
        self.cache = made.cache
        self.allocator = made.allocator
        self.base = made.base
        self.torch = made.torch

    # -- differs ---------------------------------------------------------------------------------

    def _key(self, tokens: Any) -> Any:
        raise NotImplementedError

    def _lock(self, node: Any) -> Any:
        raise NotImplementedError

    def _unlock(self, receipt: Any) -> None:
        raise NotImplementedError

    def _found(self, answer: Any) -> tuple[int, Any, Any]:
        """How many tokens, the node, and the slots."""
        raise NotImplementedError

    def _insert_params(self, key: Any, value: Any, known: int) -> Any:
        raise NotImplementedError

    # -- common ----------------------------------------------------------------------------------

    def _match_params(self, tokens: Any) -> Any:
        return self.base.MatchPrefixParams(key=self._key(tokens))

    def fill(self, tokens: Tokens, step: int = 0) -> None:
        """Cache a prompt, at once or turn by turn, ``step`` tokens at a time."""
        value = self.allocator.alloc(len(tokens))
        for end in range(step or len(tokens), len(tokens) + 1, step or len(tokens)):
            self.cache.insert(self._insert_params(self._key(native(tokens[:end])), value[:end], max(0, end - step)))

    def fill_leaves(self, prompts: list[Tokens], shared: int) -> None:
        """Cache prompts that go on for one page behind what they share, which is cached."""
        _, _, head = self._found(self.match(prompts[0][:shared])())
        page = len(prompts[0]) - shared
        own = self.allocator.alloc(len(prompts) * page)
        for at, tokens in enumerate(prompts):
            value = self.torch.cat((head, own[at * page : (at + 1) * page]))
            self.cache.insert(self._insert_params(self._key(native(tokens)), value, shared))

    def add(self, tokens: Tokens) -> None:
        """Cache a prompt, whatever of it is cached already."""
        key = self._key(native(tokens))
        known, _, slots = self._found(self.cache.match_prefix(self.base.MatchPrefixParams(key=key)))
        value = self.torch.cat((slots, self.allocator.alloc(len(tokens) - known)))
        self.cache.insert(self._insert_params(key, value, known))

    def match(self, tokens: Tokens) -> Call:
        """The call that matches a prompt."""
        return partial(self.cache.match_prefix, self._match_params(native(tokens)))

    def matched(self, tokens: Tokens) -> int:
        """How many tokens a match finds."""
        return self._found(self.match(tokens)())[0]

    def lock_unlock(self, tokens: Tokens) -> Call:
        """The call that locks a cached prompt and gives the lock back."""
        _, node, _ = self._found(self.match(tokens)())
        lock, unlock = self._lock, self._unlock
        return lambda: unlock(lock(node))

    def evict(self, tokens: int) -> Call:
        """The call that evicts so many tokens."""
        return partial(self.cache.evict, self.base.EvictParams(num_tokens=tokens))

    def evicted(self, answer: Any) -> int:
        """How many tokens such a call evicted."""
        return int(answer.num_tokens_evicted)

    def insert(self, tokens: Tokens, known: int, times: int) -> Action:
        """Inserting a prompt of which ``known`` tokens are cached; the rest is evicted again afterwards."""
        native_tokens, fresh = native(tokens), len(tokens) - known
        _, _, slots = self._found(self.cache.match_prefix(self._match_params(native_tokens)))
        assert len(slots) == known
        params: list[Any] = []

        def before() -> None:
            value = self.torch.cat((slots, self.allocator.alloc(fresh)))
            params[:] = [self._insert_params(self._key(native_tokens), value, known)]

        def run() -> Any:
            return self.cache.insert(params[0])

        evict = self.evict(fresh)

        def after() -> None:
            assert self.evicted(evict()) == fresh

        return Action(run, before, after, times)

    def grow(self, head: Tokens, tails: Iterator[Tokens], times: int) -> Action:
        """Inserting a cached prompt with a new tail behind it, another one each time; all of them stay cached."""
        known, _, slots = self._found(self.match(head)())
        assert known == len(head)
        params: list[Any] = []

        def before() -> None:
            tail = next(tails)
            value = self.torch.cat((slots, self.allocator.alloc(len(tail))))
            key = self._key(native(np.concatenate([head, tail])))
            params[:] = [self._insert_params(key, value, known)]

        def run() -> Any:
            return self.cache.insert(params[0])

        return Action(run, before, times=times)

    def serve(self, tokens: Any) -> int:
        """One request: match, lock, list, evict what is missing, allocate, insert, unlock; returns the tokens found."""
        key = self._key(tokens)
        known, node, slots = self._found(self.cache.match_prefix(self.base.MatchPrefixParams(key=key)))
        receipt = self._lock(node)
        missing = len(tokens) - known
        short = missing - self.allocator.available_size()
        if short > 0:
            self.cache.evict(self.base.EvictParams(num_tokens=short))
        value = self.torch.cat((slots, self.allocator.alloc(missing))) if missing else slots
        self.cache.insert(self._insert_params(key, value, known))
        self._unlock(receipt)
        return known

    def native(self, tokens: Tokens) -> Any:
        """Tokens as this cache likes them."""
        return native(tokens)


class Unified(Sglang):
    """0.5.23: ``UnifiedRadixCache`` with one of its cores."""

    def __init__(self, core: str, page_size: int, tokens: int) -> None:
        from kvlitmus.conformance.adapters.sglang.v0_5_23.flat import Unified as Adapter

        made = Adapter(core, Config(page_size=page_size, pages=tokens // page_size))
        self.key_class = made.key_class
        super().__init__(made, core)

    def _key(self, tokens: Any) -> Any:
        return self.key_class(tokens, None)

    def _lock(self, node: Any) -> Any:
        return self.cache.lock(node)

    def _unlock(self, receipt: Any) -> None:
        self.cache.unlock(receipt)

    def _found(self, answer: Any) -> tuple[int, Any, Any]:
        node = answer.last_device_node
        return int(answer.device_prefix_len), node, self.cache.path_device_indices(node)

    def _insert_params(self, key: Any, value: Any, known: int) -> Any:
        return self.base.InsertParams(key=key, value=value, prev_prefix_len=known)

    def match_slots(self, tokens: Tokens) -> Call:
        """The call that matches a prompt and lists its slots."""
        match, path = self.match(tokens), self.cache.path_device_indices
        return lambda: path(match().last_device_node)


class Radix(Sglang):
    """0.5.13.post1: ``RadixCache``."""

    def __init__(self, page_size: int, tokens: int) -> None:
        from kvlitmus.conformance.adapters.sglang.v0_5_13.flat import Radix as Adapter

        made = Adapter(Config(page_size=page_size, pages=tokens // page_size))
        self.key_class = made.key_class
        super().__init__(made, "radix")

    def _key(self, tokens: Any) -> Any:
        return self.key_class(tokens, None)

    def _lock(self, node: Any) -> Any:
        self.cache.inc_lock_ref(node)
        return node

    def _unlock(self, receipt: Any) -> None:
        self.cache.dec_lock_ref(receipt)

    def _found(self, answer: Any) -> tuple[int, Any, Any]:
        return len(answer.device_indices), answer.last_device_node, answer.device_indices

    def _insert_params(self, key: Any, value: Any, known: int) -> Any:
        del known  # the tree doesn't ask
        return self.base.InsertParams(key=key, value=value)

    def match_slots(self, tokens: Tokens) -> Call:
        """The same call as ``match``, which lists the slots too."""
        return self.match(tokens)


class Allocator:
    """One of SGLang's allocators, alone."""

    def __init__(self, release: str, page_size: int, tokens: int) -> None:
        from kvlitmus.conformance.adapters.sglang.common.pools import DevicePool
        from kvlitmus.conformance.adapters.sglang.v0_5_13 import flat as v0_5_13
        from kvlitmus.conformance.adapters.sglang.v0_5_23 import flat as v0_5_23

        plan = (v0_5_23 if release == "0.5.23" else v0_5_13).PLAN
        self.allocator = DevicePool(plan, Config(page_size=page_size, pages=tokens // page_size)).allocator

    def free(self, tokens: int, *, segment: bool = False) -> Action:
        """Freeing so many slots at once; by ``free_segment`` where the release has it and it is asked for."""
        held: list[Any] = []
        release = partial(self.allocator.free_segment, start_pos=0) if segment else self.allocator.free

        def before() -> None:
            held[:] = [self.allocator.alloc(tokens)]

        return Action(lambda: release(held[0]), before)

    @property
    def segments(self) -> bool:
        """Whether the release can free whole pages without looking for duplicates."""
        return hasattr(self.allocator, "free_segment")
