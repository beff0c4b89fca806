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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace

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
    DevicePool,
    ExtendPool,
    HostPool,
    NullAddress,
    Rows,
)
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, Plan, install
from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Sizes, Stored, View
from kvlitmus.spec.units import Key

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

PROFILE = Profile(
    reserved=1,
    align="reject",
    evict_granularity="node",
    evict_moment="call",
    match_cap="full",
    duplicates="caller_frees",
    publish="explicit",
    hit_counts="insert",
    lock_touches=False,
    split_created="renews",
    slru_hits=2,
    clock="counter",
    misuse="undefined",
    hash_scheme="sglang-1",
)


class ExtendPool13(ExtendPool):
    """``alloc_extend`` and ``alloc_decode``, watched for what would end a process."""

    def _check_address(self, before: Sequence[int], after: Sequence[int]) -> None:
        # Both launch their kernel before they look whether there are enough pages, and the address
        # of an empty free list is 0: a GPU faults there, and Triton's interpreter takes the
        # process with it.
        if self._opens(before, after) and self.allocator.free_pages.data_ptr() == 0:
            raise NullAddress("the allocation kernel was launched on an empty free list and loads from address 0")


class Radix(DevicePool):
    """``RadixCache`` over the device's allocator."""

    rows: Rows | None = None

    def __init__(self, config: Config, *, need_sort: bool = False) -> None:
        super().__init__(PLAN, config, need_sort=need_sort)
        load = install(PLAN)
        self.radix = load(f"{MEM}.radix_cache")
        self.radix.time = SimpleNamespace(
            monotonic=itertools.count(1).__next__, perf_counter=time.perf_counter, time=time.time
        )
        self.base = load(f"{MEM}.base_prefix_cache")
        self.cache: Foreign = self.radix.RadixCache(
            load(f"{MEM}.cache_init_params").CacheInitParams(
                disable=False,
                req_to_token_pool=self.rows,
                token_to_kv_pool_allocator=self.allocator,
                page_size=config.page_size,
                is_eagle=config.bigram,
                eviction_policy=config.policy,
            )
        )

    def _key(self, key: Key) -> Foreign:
        return self.radix.RadixKey(array("q", key.tokens), key.namespace)

    def match(self, key: Key) -> Hit:
        """``match_prefix``; the handle is the last node."""
        found = self.cache.match_prefix(self.base.MatchPrefixParams(key=self._key(key)))
        slots = found.device_indices.tolist()
        return Hit(len(slots), slots, found.last_device_node)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """``insert``; SGLang leaves the duplicates between ``protected`` and the result to its caller."""
        del protected  # the tree doesn't ask
        params = self.base.InsertParams(
            key=self._key(key), value=self._tensor(slots), priority=priority, chunked=chunked
        )
        return Stored(int(self.cache.insert(params).prefix_len))

    def lock(self, handle: object) -> object:
        """``inc_lock_ref``; the receipt is the node."""
        self.cache.inc_lock_ref(handle)
        return handle

    def unlock(self, receipt: object) -> None:
        """``dec_lock_ref``."""
        self.cache.dec_lock_ref(receipt)

    def evict(self, n: int) -> int:
        """``evict``."""
        return int(self.cache.evict(self.base.EvictParams(num_tokens=n)).num_tokens_evicted)

    def sizes(self) -> Sizes:
        """``evictable_size()`` and ``protected_size()``."""
        return Sizes(int(self.cache.evictable_size()), int(self.cache.protected_size()))

    def view(self) -> View:
        """The free list, and the tree by a walk from its root, parents first."""
        nodes: list[NodeView] = []
        queue = [(-1, child) for child in self.cache.root_node.children.values()]
        for parent, node in queue:  # grows while it is walked
            queue.extend((len(nodes), child) for child in node.children.values())
            nodes.append(
                NodeView(
                    parent=parent,
                    namespace=node.key.extra_key,
                    units=tuple(node.key),
                    slots=tuple(node.value.tolist()),
                    locks=node.lock_ref,
                    hits=node.hit_count,
                    priority=node.priority,
                )
            )
        return View(free=self._free_pages(), nodes=nodes)

    def reset(self) -> None:
        """The tree's ``reset()`` and the allocator's ``clear()``, as SGLang's flush does."""
        self.cache.reset()
        super().reset()


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


class RadixRequests(Radix, ExtendPool13):
    """``RadixCache`` with requests that live as SGLang's do."""

    rows: Rows

    def __init__(self, config: Config, *, need_sort: bool = False) -> None:
        self.rows = Rows(config)
        super().__init__(config, need_sort=need_sort)
        self.requests: dict[int, Request] = {}

    def _row(self, request: Request) -> list[int]:
        return self.rows.read(request.req_pool_idx, request.pop_committed_kv_cache())

    def _extend(self, before: int, after: int, last: int, *, decode: bool = False) -> list[int] | None:
        """Slots for further tokens; the scheduler asks for no more than there is."""
        if self._opens([before], [after]) * self.page_size > self.available():
            return None
        if decode:
            return self.alloc_decode([after], [last])
        return self.alloc_extend([before], [after], [last]) if after > before else []

    def begin(self, rid: int, key: Key) -> Begun | None:
        """Match, lock, allocate and write the row."""
        found = self.cache.match_prefix(self.base.MatchPrefixParams(key=self._key(key)))
        node, cached = found.last_device_node, len(found.device_indices)
        self.cache.inc_lock_ref(node)
        slots = found.device_indices.tolist()
        fresh = self._extend(cached, len(key.tokens), slots[-1] if slots else -1)
        if fresh is None:
            self.cache.dec_lock_ref(node)
            return None
        request = Request(
            origin_input_ids=array("q", key.tokens),
            extra_key=key.namespace,
            req_pool_idx=self.rows.unused.pop(),
            last_node=node,
            cache_protected_len=cached,
            prefix_indices=found.device_indices,
        )
        self.requests[rid] = request
        self.rows.write((request.req_pool_idx, slice(0, len(key.tokens))), self._tensor([*slots, *fresh]))
        return Begun(self._row(request), cached)

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """One token by ``alloc_decode``, several by ``alloc_extend``."""
        request = self.requests[rid]
        row = self._row(request)
        before, after = len(row), len(row) + len(tokens)
        last = row[-1] if row else -1
        fresh = self._extend(before, after, last, decode=len(tokens) == 1 and before > 0)
        if fresh is None:
            return None
        request.output_ids.extend(tokens)
        self.rows.write((request.req_pool_idx, slice(before, after)), self._tensor(fresh))
        return fresh

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

    def reset(self) -> None:
        """Forget the requests too."""
        super().reset()
        self.rows.clear()
        self.requests.clear()


def _host_pool(config: Config) -> HostPool:
    """A concrete host pool; the abstract methods move KV, and there is none."""
    module = install(PLAN)(f"{MEM}.memory_pool_host")
    module.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0  # 10 GiB are kept free on a server; these pools are tiny

    def no_data(*_args: object, **_kwargs: object) -> None:
        raise NotImplementedError("this pool holds no KV")

    members: dict[str, object] = dict.fromkeys(module.HostKVCache.__abstractmethods__, no_data)
    members |= {"get_size_per_token": lambda _self: 8, "init_kv_buffer": lambda _self: None}
    # The constructor adds one page to what the ratio gives, and must exceed the device's size.
    tokens = (config.pages - 1) * config.page_size
    device = SimpleNamespace(size=tokens, store_dtype=None, start_layer=0, end_layer=1)
    host = type("Host", (module.HostKVCache,), members)
    return HostPool(config, host(device, 1.0, 0, config.page_size, "layer_first", False, "cpu"))


def _peer(
    build: Callable[[Config], object], capabilities: frozenset[str], configs: tuple[Config, ...] = TREE_CONFIGS
) -> Peer:
    return Peer(plan=PLAN, profile=PROFILE, capabilities=capabilities, build=build, configs=configs, policies=POLICIES)


radix = _peer(Radix, TREE_PORTS)
radix_sorted = _peer(partial(Radix, need_sort=True), TREE_PORTS)
radix_requests = _peer(RadixRequests, REQUEST_PORTS, REQUEST_CONFIGS)
device_pool = _peer(partial(ExtendPool13, PLAN), EXTEND_PORTS, DEVICE_CONFIGS)
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
