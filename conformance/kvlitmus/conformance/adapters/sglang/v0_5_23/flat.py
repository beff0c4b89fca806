"""SGLang 0.5.23: its unified radix cache with both tree cores, its allocators and its host pool, on a CPU.

Targets:

``unified_python`` (also the module itself), ``unified_rust``
    ``UnifiedRadixCache`` with the component FULL over the real allocator; the tree is the one
    written in Python, or the compiled one from the wheel.  SGLang falls back to Python silently
    where it can't load the compiled core; here that is ``Unsupported``.
``unified_python_requests``, ``unified_rust_requests``
    The same, and requests go through ``checkpoint`` and ``release_kv_cache``.
``device_pool``, ``device_pool_triton``
    The allocators alone; ``alloc_extend`` and ``alloc_decode`` by the functions in torch that SGLang
    uses where there is no Triton, or by the Triton kernels, in Triton's interpreter.
``host_pool``
    ``HostKVCache``, the pool of host memory, alone.

What is replaced, and why the judged logic isn't touched:

* The rest of SGLang is stubs (:mod:`kvlitmus.conformance.adapters.sglang.common.stubs`): nothing that is
  judged calls into it.  Small functions of arithmetic and the record of a request's KV
  (``ReqKvInfo``) are taken out of modules that would import the server, and run as published.
* The platform says whether there is Triton; the pools hold no KV; recency is SGLang's own counter.
* Requests are small objects with the fields that the cache reads and writes.  What SGLang's
  scheduler does around the cache (match, lock, allocate, and the check that memory suffices) is
  done here, in the same order.

Limits: single process, no host tier behind the tree, no storage, no events, no sessions.  The
Rust core shows neither hit counts nor priorities, and of locks only whether there are any; its
nodes are found by asking, without changing anything, for every key that was inserted.  An insert
of a chunk (``chunked``) is passed on as *inserted before*, which is how this release says that it
is no new use.  In the targets with requests, hit counts and priorities aren't shown: here a request
counts each node once, however it is published, and a prompt gains one priority when its request
has generated something; neither can be declared.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
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
    Rows,
)
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, Plan, install
from kvlitmus.conformance.adapters.sglang.v0_5_23.plan import PLAN, PLATFORM, UNIFIED
from kvlitmus.conformance.adapters.sglang.v0_5_23.probe import Probe
from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Sizes, Stored, Unsupported, View
from kvlitmus.spec.units import Key, page_floor

PROFILE = Profile(
    reserved=1,
    align="reject",
    evict_granularity="node",
    evict_moment="call",
    match_cap="full",
    duplicates="cache_frees",
    publish="explicit",
    hit_counts="insert",
    lock_touches=False,
    split_created="keeps",
    slru_hits=2,
    clock="counter",
    misuse="undefined",
    hash_scheme="sglang-1",
)

CORES = {"python": "UnifiedTreeCore", "rust": "RustUnifiedTreeCore"}


class Unified(DevicePool):
    """``UnifiedRadixCache`` with the component FULL."""

    plan: Plan = PLAN
    rows: Rows | None = None

    def __init__(self, core: str, config: Config) -> None:
        super().__init__(self.plan, config)
        load = install(self.plan)
        self.base = load(f"{MEM}.base_prefix_cache")
        self.key_class = load(f"{MEM}.radix_cache").RadixKey
        self.full = load(f"{UNIFIED}.component_type").ComponentType.FULL
        self.params: Foreign = self._params(core, config)
        self.cache: Foreign = load(f"{MEM}.unified_radix_cache").UnifiedRadixCache(self.params)
        found = type(self.cache.tree_core).__name__
        if found != CORES[core]:
            raise Unsupported(f"SGLang {PLAN.release} fell back to {found} where {CORES[core]} was asked for")
        self.probe = Probe(self.cache, self._key) if core == "rust" else None

    def _params(self, core: str, config: Config) -> Foreign:
        """What the cache is made with."""
        return install(self.plan)(f"{MEM}.cache_init_params").CacheInitParams(
            disable=False,
            req_to_token_pool=self.rows,
            token_to_kv_pool_allocator=self.allocator,
            page_size=config.page_size,
            is_eagle=config.bigram,
            eviction_policy=config.policy,
            tree_components=(self.full,),
            tree_core_backend=core,
        )

    def _key(self, key: Key) -> Foreign:
        return self.key_class(array("q", key.tokens), key.namespace)

    def match(self, key: Key) -> Hit:
        """``match_prefix``; the handle is the last node's id."""
        length, slots, node = self._match(key)
        return Hit(length, slots, node)

    def _match(self, key: Key) -> tuple[int, list[int], Foreign]:
        found = self.cache.match_prefix(self.base.MatchPrefixParams(key=self._key(key)))
        length, node = int(found.device_prefix_len), found.last_device_node
        return length, list(self.cache.path_device_indices(node).tolist()), node

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """``insert``; SGLang frees the duplicates behind ``protected`` itself."""
        self._remember(key)
        params = self.base.InsertParams(
            key=self._key(key),
            value=self._tensor(slots),
            prev_prefix_len=protected,
            inserted_len=page_floor(key.length, self.page_size) if chunked else 0,
            priority=priority,
        )
        return Stored(int(self.cache.insert(params).prefix_len))

    def _remember(self, key: Key) -> None:
        if self.probe is not None:
            self.probe.remember(key)

    def lock(self, handle: object) -> object:
        """``lock``; the receipt is SGLang's own."""
        receipt: object = self.cache.lock(handle)
        return receipt

    def unlock(self, receipt: object) -> None:
        """``unlock``."""
        self.cache.unlock(receipt)

    def evict(self, n: int) -> int:
        """``evict``."""
        return int(self.cache.evict(self.base.EvictParams(num_tokens=n)).num_tokens_evicted)

    def sizes(self) -> Sizes:
        """``evictable_size()`` and ``protected_size()``."""
        return Sizes(int(self.cache.evictable_size()), int(self.cache.protected_size()))

    def view(self) -> View:
        """The free list, and the tree: by a walk over the nodes, or by asking the compiled core."""
        nodes = self._walk() if self.probe is None else self.probe.nodes()
        return View(free=self._free_pages(), nodes=nodes)

    def _walk(self) -> list[NodeView]:
        nodes: list[NodeView] = []
        queue = [(-1, child) for child in self.cache.tree_core.root_node.children.values()]
        for parent, node in queue:  # grows while it is walked
            queue.extend((len(nodes), child) for child in node.children.values())
            data = node.component_data[self.full]
            nodes.append(
                NodeView(
                    parent=parent,
                    namespace=node.key.extra_key,
                    units=tuple(node.key),
                    slots=tuple(data.value.tolist()),
                    locks=data.lock_ref,
                    hits=node.hit_count,
                    priority=node.priority,
                )
            )
        return nodes

    def reset(self) -> None:
        """The cache's ``reset()`` and the allocator's ``clear()``, as SGLang's flush does."""
        self.cache.reset()
        if self.probe is not None:
            self.probe.forget()
        super().reset()


class Request(SimpleNamespace):
    """A request, with the fields that the cache reads and writes."""

    def finished(self) -> bool:
        """Whether the request has ended."""
        return bool(self.ended)

    def owned_kv_len(self) -> int:
        """How many tokens have KV: all."""
        return int(self.kv.kv_committed_len)

    def refresh_fill_ids(self) -> None:
        """The tokens are kept up to date as the request grows."""


class UnifiedRequests(Unified, ExtendPool):
    """``UnifiedRadixCache`` with requests that live as SGLang's do."""

    rows: Rows

    def __init__(self, core: str, config: Config) -> None:
        self.rows = Rows(config)
        super().__init__(core, config)
        self.common = install(PLAN)(f"{MEM}.common")
        self.kv_class = install(PLAN)("sglang.srt.managers.schedule_batch").ReqKvInfo
        self.requests: dict[int, Request] = {}
        self.bigram = config.bigram

    def _row(self, request: Request) -> list[int]:
        return self.rows.read(request.kv.req_pool_idx, request.kv.kv_committed_len)

    def _extend(self, before: int, after: int, last: int, *, decode: bool = False) -> list[int] | None:
        """Slots for further tokens; the scheduler asks for no more than there is."""
        if self._opens([before], [after]) * self.page_size > self.available():
            return None
        if decode:
            return self.alloc_decode([after], [last])
        return self.alloc_extend([before], [after], [last]) if after > before else []

    def begin(self, rid: int, key: Key) -> Begun | None:
        """Match, lock, allocate and write the row."""
        cached, slots, node = self._match(key)
        lock = self.cache.lock(node)
        fresh = self._extend(cached, len(key.tokens), slots[-1] if slots else -1)
        if fresh is None:
            self.cache.unlock(lock)
            return None
        length = len(key.tokens)
        kv = self.kv_class(
            req_pool_idx=self.rows.unused.pop(),
            cache_protected_len=cached,
            kv_committed_len=length,
            kv_allocated_len=length,
        )
        self.requests[rid] = Request(
            rid=rid,
            kv=kv,
            origin_input_ids=array("q", key.tokens),
            full_untruncated_fill_ids=array("q", key.tokens),
            extra_key=key.namespace,
            cache_salt=None,
            session=None,
            session_id=None,
            priority=0,
            kv_rotation_base=None,
            skip_radix_cache_insert=False,
            finished_len=None,
            last_node=node,
            lock=lock,
            ended=False,
        )
        self.rows.write((kv.req_pool_idx, slice(0, length)), self._tensor([*slots, *fresh]))
        return Begun(self._row(self.requests[rid]), cached)

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """One token by ``alloc_decode``, several by ``alloc_extend``."""
        request = self.requests[rid]
        row = self._row(request)
        before, after = len(row), len(row) + len(tokens)
        fresh = self._extend(before, after, row[-1] if row else -1, decode=len(tokens) == 1 and before > 0)
        if fresh is None:
            return None
        request.full_untruncated_fill_ids.extend(tokens)
        request.kv.kv_committed_len = request.kv.kv_allocated_len = after
        self.rows.write((request.kv.req_pool_idx, slice(before, after)), self._tensor(fresh))
        return fresh

    def _remember_request(self, request: Request) -> None:
        self._remember(Key(request.extra_key, tuple(request.full_untruncated_fill_ids), self.bigram))

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """``checkpoint``; a request counts each node once, chunked or not."""
        del chunked
        request = self.requests[rid]
        self._remember_request(request)
        self.cache.checkpoint(request, up_to=request.kv.kv_committed_len)
        return Begun(self._row(request), request.kv.cache_protected_len)

    def end(self, rid: int, *, keep: bool) -> None:
        """``release_kv_cache``, which frees the row too."""
        request = self.requests.pop(rid)
        if not request.kv.kv_allocated_len:
            # SGLang admits no request without tokens, and refuses to release one.
            self.cache.unlock(request.lock)
            self.rows.free(request)
            return
        self._remember_request(request)
        request.ended = True
        self.common.release_kv_cache(request, self.cache, checkpoint=keep)

    def view(self) -> View:
        """As without requests, but hit counts and priorities aren't shown."""
        seen = super().view()
        return seen._replace(nodes=[node._replace(hits=None, priority=None) for node in seen.nodes])

    def reset(self) -> None:
        """Forget the requests too."""
        super().reset()
        self.rows.clear()
        self.requests.clear()


class HostPool23(HostPool):
    """Freed slots wait in a list of their own until an allocation needs them."""

    def _free_slots(self) -> list[int]:
        chunks = [self.pool.free_slots, *self.pool.release_slots]
        return [slot for chunk in chunks for slot in chunk.tolist()]


def _host_pool(config: Config) -> HostPool:
    """A concrete host pool; the abstract methods move KV, and there is none."""
    module = install(PLAN)(f"{MEM}.pool_host.base")

    def no_data(*_args: object, **_kwargs: object) -> None:
        raise NotImplementedError("this pool holds no KV")

    members: dict[str, object] = dict.fromkeys(module.HostKVCache.__abstractmethods__, no_data)
    host = type("Host", (module.HostKVCache,), members)
    tokens = config.pages * config.page_size
    return HostPool23(
        config,
        host(
            dtype=None,
            device_capacity_tokens=tokens,
            size_per_token=8,
            start_layer=0,
            end_layer=1,
            host_to_device_ratio=1.0,
            host_size=0,
            page_size=config.page_size,
            layout="layer_first",
            pin_memory=False,
            device="cpu",
            is_dummy=True,  # no buffer, and so no look at the machine's memory
            host_token_capacity=tokens,
        ),
    )


def _extend_pool(config: Config, *, triton: bool) -> ExtendPool:
    PLATFORM.capabilities.supports_triton = triton
    try:
        return ExtendPool(PLAN, config)
    finally:
        PLATFORM.capabilities.supports_triton = False


def _peer(
    build: Callable[[Config], object], capabilities: frozenset[str], configs: tuple[Config, ...] = TREE_CONFIGS
) -> Peer:
    return Peer(plan=PLAN, profile=PROFILE, capabilities=capabilities, build=build, configs=configs, policies=POLICIES)


unified_python = _peer(partial(Unified, "python"), TREE_PORTS)
unified_rust = _peer(partial(Unified, "rust"), TREE_PORTS)
unified_python_requests = _peer(partial(UnifiedRequests, "python"), REQUEST_PORTS, REQUEST_CONFIGS)
unified_rust_requests = _peer(partial(UnifiedRequests, "rust"), REQUEST_PORTS, REQUEST_CONFIGS)
device_pool = _peer(partial(_extend_pool, triton=False), EXTEND_PORTS, DEVICE_CONFIGS)
device_pool_triton = _peer(partial(_extend_pool, triton=True), EXTEND_PORTS, DEVICE_CONFIGS)
host_pool = Peer(
    plan=PLAN,
    profile=replace(PROFILE, reserved=0, misuse="reject"),
    capabilities=HOST_PORTS,
    build=_host_pool,
    configs=HOST_CONFIGS,
    pool="host",
)

profile = unified_python.profile
capabilities = unified_python.capabilities
make = unified_python.make
