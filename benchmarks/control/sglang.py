"""SGLang's caches as contenders: made as the suite makes them, called as its scheduler calls them.

What is replaced of SGLang, and why it doesn't matter, stands in the suite's adapters.  Calls go to the
cache's own public methods, with parameters made outside of the clock; token ids are ``array("q")``, which
is what the release itself keeps them in.  Where SGLang offers two ways, the faster one is timed.
"""

from __future__ import annotations

from array import array
from functools import partial
from types import SimpleNamespace
from typing import Any

from benchmarks.control.contender import Contender
from benchmarks.control.tokens import Tokens
from benchmarks.timing import Action, Call
from kvlitmus.conformance.ports import Config


class Sglang(Contender):
    """What all of SGLang's caches have in common."""

    def __init__(self, made: Any, name: str, page_size: int) -> None:
        self.name = name
        self.page_size = page_size
        self.cache = made.cache
        self.allocator = made.allocator
        self.base = made.base
        self.key_class = made.key_class
        self.torch = made.torch

    def _key(self, units: Any) -> Any:
        return self.key_class(units, None)

    def _found(self, answer: Any) -> tuple[int, Any, Any]:
        """How many tokens, the node, and the slots."""
        raise NotImplementedError

    def _insert_params(self, key: Any, value: Any, known: int) -> Any:
        raise NotImplementedError

    def native(self, tokens: Tokens) -> Any:
        """See :class:`Contender`."""
        return array("q", tokens.tobytes())

    def _known(self, units: Any) -> tuple[int, Any, Any]:
        return self._found(self.cache.match_prefix(self.base.MatchPrefixParams(key=self._key(units))))

    def _take(self, tokens: int) -> Any:
        return self.allocator.alloc(tokens)

    def _join(self, slots: Any, more: Any) -> Any:
        return self.torch.cat((slots, more))

    def _given(self, units: Any, slots: Any, known: int) -> tuple[Any, ...]:
        return (self._insert_params(self._key(units), slots, known),)

    def evict(self, tokens: int) -> Call:
        """See :class:`Contender`."""
        return partial(self.cache.evict, self.base.EvictParams(num_tokens=tokens))

    def evicted(self, answer: Any) -> int:
        """See :class:`Contender`."""
        return int(answer.num_tokens_evicted)

    def match(self, tokens: Tokens) -> Call:
        """The call that matches a prompt."""
        return partial(self.cache.match_prefix, self.base.MatchPrefixParams(key=self._key(self.native(tokens))))

    def serve(self, tokens: Any) -> int:
        """One request: match, lock, list, evict what is missing, allocate, insert, unlock; returns the tokens found."""
        key = self._key(tokens)
        known, node, slots = self._found(self.cache.match_prefix(self.base.MatchPrefixParams(key=key)))
        receipt = self.lock(node)
        missing = len(tokens) - known
        short = missing - self.allocator.available_size()
        if short > 0:
            self.cache.evict(self.base.EvictParams(num_tokens=short))
        value = self.torch.cat((slots, self.allocator.alloc(missing))) if missing else slots
        self.cache.insert(self._insert_params(key, value, known))
        self.unlock(receipt)
        return known


class Unified(Sglang):
    """0.5.23: ``UnifiedRadixCache`` with one of its cores, or with ours (``kvlitmus``)."""

    def __init__(self, core: str, page_size: int, tokens: int) -> None:
        from kvlitmus.conformance.adapters.sglang.v0_5_23.environment import HICACHE_PLAN
        from kvlitmus.conformance.adapters.sglang.v0_5_23.flat import Unified as Adapter

        class Flat(Adapter):
            """In a process that has hierarchies, too: a release is put in place once."""

            plan = HICACHE_PLAN

        made = Flat(core, Config(page_size=page_size, pages=tokens // page_size))
        super().__init__(made, core, page_size)

    def lock(self, node: Any) -> Any:
        """Lock what ends at a node."""
        return self.cache.lock(node)

    def unlock(self, receipt: Any) -> None:
        """Give a lock back."""
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


class Tiered(Unified):
    """The same with a host below the device, without storage; the scheduler's part is that of the suite's adapter.

    Copies wait on a stream of the suite's until :meth:`land` runs them, outside of the clock.  To begin them is of the
    call, as SGLang does it after each batch (``flush_pending_backups``, ``ready_to_load_host_cache``).
    """

    tiers = True

    def __init__(self, core: str, page_size: int, tokens: int, host_tokens: int = 0) -> None:
        from kvlitmus.conformance.adapters.sglang.v0_5_23.hicache import Tiered as Adapter

        host_pages = (host_tokens or tokens) // page_size
        made = Adapter(core, Config(page_size=page_size, pages=tokens // page_size, host_pages=host_pages))
        Sglang.__init__(self, made, f"{core}, with tiers", page_size)
        self.controller = made.controller

    def land(self) -> None:
        """See :class:`Contender`."""
        self.cache.flush_pending_backups()
        for queue in (self.controller.ack_write_queue, self.controller.ack_load_queue):
            for ack in queue:
                ack.finish_event.synchronize()

    def tick(self) -> None:
        """See :class:`Contender`."""
        self.cache.check_hicache_events()

    def serve(self, tokens: Any) -> int:
        """The same request, and what is on the host alone is loaded back once it is matched."""
        key, cache = self._key(tokens), self.cache
        found = cache.match_prefix(self.base.MatchPrefixParams(key=key))
        node = found.last_device_node
        if int(found.host_hit_length):
            loaded, end = cache.init_load_back(self._load_params(found))
            if loaded:
                node = end
                cache.ready_to_load_host_cache()
        slots = cache.path_device_indices(node)
        known = len(slots)
        receipt = self.lock(node)
        missing = len(tokens) - known
        short = missing - self.allocator.available_size()
        if short > 0:
            cache.evict(self.base.EvictParams(num_tokens=short))
        value = self.torch.cat((slots, self.allocator.alloc(missing))) if missing else slots
        cache.insert(self._insert_params(key, value, known))
        self.unlock(receipt)
        cache.flush_pending_backups()
        return known

    def _load_params(self, found: Any) -> Any:
        """What a load is asked for with, as ``PrefillAdder`` does."""
        request = SimpleNamespace(
            rid="load",
            last_node=found.last_device_node,
            swa_host_hit_length=0,
            mamba_host_hit_length=0,
            kv=SimpleNamespace(mamba_pool_idx=None),
        )
        return self.base.InitLoadBackParams(
            best_match_node=found.best_match_node, host_hit_length=found.host_hit_length, req=request
        )


class Radix(Sglang):
    """0.5.13.post1: ``RadixCache``."""

    def __init__(self, page_size: int, tokens: int) -> None:
        from kvlitmus.conformance.adapters.sglang.v0_5_13.flat import Radix as Adapter

        made = Adapter(Config(page_size=page_size, pages=tokens // page_size))
        super().__init__(made, "radix", page_size)

    def lock(self, node: Any) -> Any:
        """Lock what ends at a node."""
        self.cache.inc_lock_ref(node)
        return node

    def unlock(self, receipt: Any) -> None:
        """Give a lock back."""
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
        from kvlitmus.conformance.adapters.sglang.v0_5_23.environment import HICACHE_PLAN

        plan = HICACHE_PLAN if release == "0.5.23" else v0_5_13.PLAN
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
