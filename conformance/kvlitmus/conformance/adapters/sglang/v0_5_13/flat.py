"""SGLang 0.5.13.post1: its radix cache, its allocators and its host pool, on a CPU.

Targets:

``radix`` (also the module itself)
    ``RadixCache`` over the real allocator: ``TokenToKVPoolAllocator`` for pages of one token,
    ``PagedTokenToKVPoolAllocator`` for larger ones.
``radix_sorted``
    The same with ``need_sort``: freed pages wait in a second list until they are needed.
``radix_requests``
    The same, and requests go through ``cache_unfinished_req`` and ``cache_finished_req``.
``device_pool``
    The allocators alone.
``host_pool``
    ``HostKVCache``, the pool of host memory, alone.

What is replaced, and why the judged logic isn't touched:

* The rest of SGLang is stubs (:mod:`kvlitmus.conformance.adapters.sglang.common.stubs`): nothing that is
  judged calls into it.  ``get_num_new_pages`` and ``next_power_of_2`` are the published functions.
* ``time.monotonic`` inside ``radix_cache`` is a counter, so that two accesses are never equally
  old; the policies compare these times and do nothing else with them.
* ``alloc_extend`` and ``alloc_decode`` launch their Triton kernels in Triton's interpreter.  With
  pages of one token SGLang's scheduler calls ``alloc`` instead, and so does this adapter.  Where a
  kernel would load from address 0, the adapter raises :class:`NullAddress` instead of letting the
  process die.
* The pools hold no KV: allocators are built without one, the host pool has eight bytes a token
  and no pinned memory.  Who owns which slot does not depend on it.
* ``radix_requests``: the request and its row of slots are small objects with the fields that the
  tree reads and writes.  What SGLang's scheduler does around the tree (match, lock, allocate,
  and the check that memory suffices) is done here, in the same order.

Limits: single process, no host tier behind the tree, no storage, no events.  ``unlock`` takes a
node, so a receipt is the node that was locked.  The scheduler leaves one token uncomputed; here a
request begins with the longest match, because that choice isn't the tree's.
"""

from __future__ import annotations

import itertools
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common import pools
from kvlitmus.conformance.adapters.sglang.common.pools import (
    DEVICE_CONFIGS,
    EXTEND_PORTS,
    HOST_CONFIGS,
    HOST_PORTS,
    MEM,
    POLICIES,
    REQUEST_CONFIGS,
    REQUEST_PORTS,
    TREE_CONFIGS,
    TREE_PORTS,
    ExtendPool,
    HostPool,
    NullAddress,
    Rows,
    host_pool_class,
)
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, Plan, install
from kvlitmus.conformance.adapters.sglang.common.tree import Requests, Tree, node_view, walk
from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Stored
from kvlitmus.spec.words.units import Key

PLAN = Plan(
    release="0.5.13.post1",
    real=frozenset(
        f"{MEM}.{name}"
        for name in (
            "allocator",
            "allocator.base",
            "allocator.paged",
            "allocator.token",
            "base_prefix_cache",
            "cache_init_params",
            "events",
            "evict_policy",
            "memory_pool_host",
            "radix_cache",
            "triton_ops.allocator",
            "utils",
        )
    ),
    lifted={"sglang.srt.utils": {"srt/utils/common.py": ("get_num_new_pages", "next_power_of_2")}},
)

PROFILE = replace(pools.PROFILE, duplicates="caller_frees", split_created="renews")


class ExtendPool13(ExtendPool):
    """``alloc_extend`` and ``alloc_decode``, watched for what would end a process."""

    def _check_address(self, before: Sequence[int], after: Sequence[int]) -> None:
        # Both launch their kernel before they look whether there are enough pages, and the address
        # of an empty free list is 0: a GPU faults there, and Triton's interpreter takes the
        # process with it.
        if self._opens(before, after) and self.allocator.free_pages.data_ptr() == 0:
            raise NullAddress("the allocation kernel was launched on an empty free list and loads from address 0")


class Radix(Tree):
    """``RadixCache`` over the device's allocator."""

    plan = PLAN

    def __init__(self, config: Config, *, need_sort: bool = False) -> None:
        super().__init__(config, need_sort=need_sort)
        load = install(PLAN)
        radix = load(f"{MEM}.radix_cache")
        radix.time = SimpleNamespace(
            monotonic=itertools.count(1).__next__, perf_counter=time.perf_counter, time=time.time
        )
        self.cache: Foreign = radix.RadixCache(self._params())

    def match(self, key: Key) -> Hit:
        """``match_prefix``; the handle is the last node."""
        found = self._find(key)
        slots = found.device_indices.tolist()
        return Hit(len(slots), slots, found.last_device_node)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """``insert``; SGLang leaves the duplicates between ``protected`` and the result to its caller."""
        del protected  # the tree doesn't ask
        return Stored(int(self._insert(key, slots, priority=priority, chunked=chunked).prefix_len))

    def _nodes(self) -> list[NodeView]:
        return [node_view(parent, node, node) for parent, node in walk(self.cache.root_node)]


@dataclass(slots=True, kw_only=True)
class Request:
    """A request, with the fields that the tree reads and writes."""

    origin_input_ids: Foreign
    extra_key: str | None
    req_pool_idx: int
    last_node: Foreign
    cache_protected_len: int
    output_ids: Foreign = field(default_factory=lambda: array("q"))
    prefix_indices: Foreign = None
    priority: int = 0

    def get_fill_ids(self) -> Foreign:
        """All tokens so far."""
        return self.origin_input_ids + self.output_ids

    def pop_committed_kv_cache(self) -> int:
        """How many tokens have KV: all."""
        return len(self.origin_input_ids) + len(self.output_ids)


class RadixRequests(Requests, Radix, ExtendPool13):
    """``RadixCache`` with requests that live as SGLang's do."""

    def __init__(self, config: Config) -> None:
        self.rows, self.requests = Rows(config), {}
        super().__init__(config)

    def _made(self, rid: int, key: Key, index: int, hit: Hit, receipt: object) -> Request:
        return Request(
            origin_input_ids=array("q", key.tokens),
            extra_key=key.namespace,
            req_pool_idx=index,
            last_node=hit.handle,
            cache_protected_len=hit.length,
            prefix_indices=self._tensor(hit.slots or ()),
        )

    def _place(self, request: Foreign) -> tuple[int, int]:
        return request.req_pool_idx, request.pop_committed_kv_cache()

    def _append(self, request: Foreign, tokens: Sequence[int]) -> None:
        request.output_ids.extend(tokens)

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """``cache_unfinished_req``."""
        request = self.requests[rid]
        self.cache.cache_unfinished_req(request, chunked=chunked)
        return Begun(self._row(request), request.cache_protected_len)

    def end(self, rid: int, *, keep: bool) -> None:
        """``cache_finished_req``; the row is free afterwards."""
        request = self.requests.pop(rid)
        self.cache.cache_finished_req(request, is_insert=keep)
        self.rows.unused.append(request.req_pool_idx)


def _host_pool(config: Config) -> HostPool:
    """The pool of host memory; it has eight bytes a token."""
    module = install(PLAN)(f"{MEM}.memory_pool_host")
    module.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0  # 10 GiB are kept free on a server; these pools are tiny
    made = host_pool_class(module, get_size_per_token=lambda _self: 8, init_kv_buffer=lambda _self: None)
    # The constructor adds one page to what the ratio gives, and must exceed the device's size.
    tokens = (config.pages - 1) * config.page_size
    device = SimpleNamespace(size=tokens, store_dtype=None, start_layer=0, end_layer=1)
    return HostPool(config, made(device, 1.0, 0, config.page_size, "layer_first", False, "cpu"))


_flat = partial(Peer, plan=PLAN, profile=PROFILE, policies=POLICIES)

radix = _flat(build=Radix, capabilities=TREE_PORTS, configs=TREE_CONFIGS)
radix_sorted = _flat(build=partial(Radix, need_sort=True), capabilities=TREE_PORTS, configs=TREE_CONFIGS)
radix_requests = _flat(build=RadixRequests, capabilities=REQUEST_PORTS, configs=REQUEST_CONFIGS)
device_pool = _flat(build=partial(ExtendPool13, PLAN), capabilities=EXTEND_PORTS, configs=DEVICE_CONFIGS)
host_pool = Peer(
    plan=PLAN,
    profile=replace(PROFILE, reserved=0),
    capabilities=HOST_PORTS,
    build=_host_pool,
    configs=HOST_CONFIGS,
    pool="host",
)

profile = radix.profile
capabilities = radix.capabilities
make = radix.make
