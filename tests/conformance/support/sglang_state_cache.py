"""SGLang 0.5.13.post1's ``HiMambaRadixCache`` with host memory and storage, made by its own constructor on a CPU.

Real, as published: what is so in :mod:`kvlitmus.conformance.adapters.sglang.v0_5_13.hi_mamba`, the functions of the
controller's threads, and ``HiCacheFile`` over files.

Stand-ins, and why:

* What is there, and in :mod:`kvlitmus.conformance.adapters.sglang.v0_5_13.environment`, for there is no GPU: streams,
  threads that stop at their queues, pinned memory, one rank.  A page is read at a time.
* The factory of storage: it makes the published ``HiCacheFile`` in a folder of its own.
* The host pools are as large as a scene says.  The limit of what may be read at a time is none, unless a scene sets it.
* How much room there is: slots are taken off a pool's list of free ones, as a server's other prefixes would have them.
  For a number of tokens that is no whole number of pages the end of the list is cut off.

A scheduler, requests and a model there are none: what a scene calls is what ``Scheduler._prefetch_kvcache`` and its
loop call.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.hicache import BackendFactory
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13 import environment
from kvlitmus.conformance.adapters.sglang.v0_5_13.hi_mamba import PLAN, cache_over, device_pools
from kvlitmus.conformance.ports import Config

PAGE = 4
THRESHOLD = 8
NEVER = 10**9
"""A limit that is never reached."""


class Taken(NamedTuple):
    """How many tokens a prefetch is of, and how many rows of KV and states it has."""

    tokens: int
    rows: int
    states: int


def key_of(*pages: int) -> list[int]:
    """The tokens of these pages."""
    return [page for page in pages for _ in range(PAGE)]


class StateCache:
    """The published cache; its host has so many pages of KV and so many states.

    ``calls``: what was asked of the host's pools and of evictions since they are watched, in order; ``deep``: how many
    of these calls are under way, for what they call themselves is not written down.
    """

    def __init__(self, pages: int, states: int) -> None:
        environment.modules(PLAN)
        self.load, self.torch = install(PLAN), torch_module()
        self.rig = steps.Rig()
        steps.Rig.current = self.rig
        steps.close_with(self, self.rig)
        self.folder = tempfile.TemporaryDirectory()
        self.calls: list[str] = []
        self.deep = 0
        self.tree: Any = self.made(pages, states)
        self.controller = self.tree.cache_controller
        self.controller.prefetch_capacity_limit = NEVER
        self.kv, self.states = self.tree.full_kv_pool_host, self.tree.mamba_pool_host
        for pool in (self.kv, self.states):
            pool.pin_memory = False

    def made(self, pages: int, states: int) -> Any:
        """What the constructor makes, with storage."""
        rows, kv = device_pools(self.load, PAGE, 4 * pages, states)
        storage = self.load(f"{MEM}.hicache_storage")
        options = environment.server_args(Config(page_size=PAGE, pages=pages, stop="best_effort"))
        options.hicache_storage_backend = "file"
        options.hicache_storage_backend_extra_config = f'{{"prefetch_threshold": {THRESHOLD}}}'
        names = SimpleNamespace(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, model_name="litmus", is_mla_model=False)
        self.files: Any = storage.HiCacheFile(names, self.folder.name)
        BackendFactory.made = self.files
        allocator = self.load(f"{MEM}.allocator.paged").PagedTokenToKVPoolAllocator(
            size=kv.size, page_size=PAGE, dtype=kv.dtype, device="cpu", kvcache=kv, need_sort=False
        )
        params = self.load(f"{MEM}.cache_init_params").CacheInitParams(
            disable=False,
            req_to_token_pool=rows,
            token_to_kv_pool_allocator=allocator,
            page_size=PAGE,
            enable_mamba_extra_buffer=True,
        )
        return cache_over(self.load, params, options, pages, states)

    # --- storage

    def hashes(self, tokens: Sequence[int], last: str | None = None) -> list[str]:
        """The names of the pages of these tokens, as the controller says."""
        names = []
        for start in range(0, len(tokens), PAGE):
            last = self.controller.get_hash_str(array("q", tokens[start : start + PAGE]), last)
            names.append(last)
        return names

    def store(self, tokens: Sequence[int], states: Sequence[int]) -> None:
        """Storage has the KV of this key, and the states of these ends; each number says where it belongs."""
        for end, name in zip(range(PAGE, len(tokens) + 1, PAGE), self.hashes(tokens), strict=True):
            self.files.set(name, self.torch.full((2 * PAGE,), float(end)))
            if end in states:
                pool = self.load(f"{MEM}.hicache_storage").PoolName.MAMBA
                self.files.set(self.files._log_key(pool, name), self.torch.full((2,), float(end)))

    # --- what a scheduler does

    def find(self, tokens: Sequence[int]) -> Any:
        """``match_prefix``."""
        key = self.load(f"{MEM}.radix_cache").RadixKey(array("q", tokens), None)
        return self.tree.match_prefix(self.load(f"{MEM}.base_prefix_cache").MatchPrefixParams(key=key))

    def hit(self, tokens: Sequence[int]) -> int:
        """How many tokens of a key are usable, on both tiers."""
        found = self.find(tokens)
        return len(found.device_indices) + int(found.host_hit_length)

    def prefetch(self, name: str, tokens: Sequence[int]) -> Any:
        """A request arrives; its prefetch, if any."""
        found = self.find(tokens)
        anchor, start = found.last_host_node, len(found.device_indices) + int(found.host_hit_length)
        last = anchor.get_last_hash_value()
        self.tree.prefetch_from_storage(name, anchor, array("q", tokens[start:]), last, None)
        return self.operation(name)

    def operation(self, name: str) -> Any:
        """The prefetch of a request; ``None`` if it has none."""
        info = self.tree.ongoing_prefetch.get(name)
        return None if info is None else info[3]

    def taken(self, name: str) -> Taken:
        """What the prefetch of a request has."""
        info = self.tree.ongoing_prefetch.get(name)
        if info is None:
            return Taken(0, 0, 0)
        _, tokens, rows, operation = info
        assert operation.token_ids == tokens and len(operation.host_indices) == len(rows)
        (transfer,) = operation.pool_transfers
        return Taken(len(tokens), len(rows), len(transfer.host_indices))

    def ask(self) -> None:
        """Storage is asked; the scheduler takes note."""
        self.controller.prefetch_thread.resume()
        self.tree.drain_storage_control_queues()

    def finish(self, name: str) -> None:
        """What is there is read, and the request is let in."""
        self.controller.prefetch_io_aux_thread.resume()
        assert self.tree.check_prefetch_progress(name)
        self.tree.drain_storage_control_queues()

    def cached(self, *pages: int) -> Any:
        """These pages come to the host by a prefetch of their own, with the state of their end; the last node."""
        tokens = key_of(*pages)
        self.store(tokens, [len(tokens)])
        assert self.prefetch("before", tokens) is not None
        self.ask()
        self.finish("before")
        found = self.find(tokens)
        assert int(found.host_hit_length) == len(tokens)
        return found.last_host_node

    def stateless(self, *pages: int) -> None:
        """These pages come to the host by a prefetch of their own; the state is lost while they are read."""
        tokens = key_of(*pages)
        self.store(tokens, [len(tokens)])
        assert self.prefetch("before", tokens) is not None
        self.ask()
        self.files.clear()
        self.store(tokens, [])
        self.finish("before")

    def used(self, *pages: int) -> None:
        """A prefetch behind these pages comes to nothing; their state is the one that was used last."""
        assert self.prefetch("nothing", key_of(*pages, 99, 99)) is not None
        self.ask()
        assert self.operation("nothing") is None

    # --- memory

    def free(self) -> tuple[int, int]:
        """How many tokens and how many states are free on the host."""
        return int(self.kv.available_size()), int(self.states.available_size())

    def leave(self, tokens: int | None = None, states: int | None = None) -> None:
        """No more than so much is free from now on."""
        for pool, many in ((self.kv, tokens), (self.states, states)):
            if many is not None:
                pool.free_slots = pool.free_slots[:many]

    def watch(self) -> None:
        """From now on what is asked of the host's pools and of evictions is written down."""
        for name, pool in (("kv", self.kv), ("state", self.states)):
            pool.alloc = self.noted(pool.alloc, f"{name}: take")
            pool.free = self.noted(pool.free, f"{name}: give back")
            pool.available_size = self.noted(pool.available_size, f"{name}: look")
        for name, method in (("kv", "evict_host"), ("state", "evict_mamba_host")):
            setattr(self.tree, method, self.noted(getattr(self.tree, method), f"{name}: evict"))

    def noted(self, call: Any, what: str) -> Any:
        """The same call, which is written down with how many it is about."""

        def wrapped(*arguments: Any) -> Any:
            if self.deep == 0:
                many = [str(one if isinstance(one, int) else len(one)) for one in arguments]
                self.calls.append(" ".join([what, *many]))
            self.deep += 1
            try:
                return call(*arguments)
            finally:
                self.deep -= 1

        return wrapped

    def nodes(self) -> Iterator[Any]:
        """All nodes below the root."""
        rest = list(self.tree.root_node.children.values())
        while rest:
            node = rest.pop()
            yield node
            rest.extend(node.children.values())

    def counts(self, node: Any) -> Mapping[str, int]:
        """How often a node's KV and its state are protected on the host."""
        return {"kv": node.host_ref_counter, "state": node.host_mamba_ref_counter}
