"""SGLang 0.5.23: its unified radix cache with both tree cores, its allocators and its host pool, on a CPU.

Targets:

``unified_python`` (also the module itself), ``unified_rust``
    ``UnifiedRadixCache`` with the component FULL over the real allocator; the tree is the one
    written in Python, or the compiled one from the wheel.  SGLang falls back to Python silently
    where it can't load the compiled core; here that is ``Unsupported``.
``unified_python_requests``, ``unified_rust_requests``
    The same, and requests go through ``checkpoint`` and ``release_kv_cache``.
``unified_kvlitmus``, ``unified_kvlitmus_requests``
    Both with the optimized cache's tree (:mod:`kvlitmus.optimized.sglang`), looked at like the compiled one.
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
from collections.abc import Sequence
from dataclasses import replace
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
    Rows,
    host_pool_class,
)
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, Plan, install
from kvlitmus.conformance.adapters.sglang.common.tree import Requests, Tree, node_view, walk
from kvlitmus.conformance.adapters.sglang.v0_5_23.probe import Probe
from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key, page_floor

PLATFORM = SimpleNamespace(capabilities=SimpleNamespace(supports_triton=False))

UNIFIED = f"{MEM}.unified_cache"
COMMON = "srt/utils/common.py"

PLAN = Plan(
    release="0.5.23",
    real=frozenset(
        [
            *(
                f"{MEM}.{name}"
                for name in (
                    "allocator",
                    "allocator.base",
                    "allocator.page_interleave",
                    "allocator.paged",
                    "allocator.token",
                    "base_prefix_cache",
                    "buffer_mode.storage_existence_cache",
                    "cache_init_params",
                    "common",
                    "cpp_utils.native_hash",
                    "events",
                    "evict_policy",
                    "hicache_storage",
                    "host_memory",
                    "pool_host.base",
                    "pool_host.common",
                    "radix_cache",
                    "rust_tree_core",
                    "rust_tree_core.adapter",
                    "rust_tree_core.extension",
                    "rust_tree_core.mem_cache",
                    "storage_prefetch",
                    "unified_radix_cache",
                    "utils",
                )
            ),
            UNIFIED,
            *(
                f"{UNIFIED}.{name}"
                for name in (
                    "cache_action",
                    "component_type",
                    "components",
                    "components.base",
                    "components.full",
                    "components.mamba",
                    "components.swa",
                    "session_ref_tracker",
                    "tree_core_registry",
                    "unified_tree_core",
                    "unified_tree_core_interface",
                )
            ),
            "sglang.kernels.ops.memory.allocator",
            "sglang.srt.disaggregation.kv_events",
            "sglang.srt.environ",
            "sglang.srt.rust_extensions",
            "sglang.srt.rust_extensions.loader",
            "sglang.srt.rust_extensions.torch_build",
            "sglang.srt.session.streaming_session",
            "sglang.srt.utils.poll_timer",
            "sglang.srt.utils.rank_consensus_checker",
        ]
    ),
    lifted={
        "sglang.srt.utils": {COMMON: ("assert_int64_array", "get_num_new_pages", "next_power_of_2")},
        "sglang.srt.utils.common": {COMMON: ("ceil_align", "ceil_div")},
        "sglang.srt.managers.schedule_batch": {
            COMMON: ("ceil_align", "ceil_div"),
            "srt/managers/schedule_batch.py": ("ReqKvInfo",),
        },
    },
    answers={
        "sglang.srt.platforms": {"current_platform": PLATFORM},
        "sglang.srt.runtime_context": {
            "get_serving": lambda: SimpleNamespace(strip_thinking_cache=False),
            "get_spec": lambda: SimpleNamespace(speculative_algorithm=None),
        },
    },
    absent=("zmq", "pydantic"),
)

PROFILE = replace(pools.PROFILE, duplicates="cache_frees", split_created="keeps")
PAGEWISE = replace(PROFILE, evict_granularity="page")
"""With the optimized cache's tree, which evicts a page at a time."""

CORES = {"python": "UnifiedTreeCore", "rust": "RustUnifiedTreeCore", "kvlitmus": "KvlitmusTreeCore"}


def require_core(cache: Foreign, core: str) -> None:
    """Raise ``Unsupported`` if a cache has another tree than was asked for: SGLang falls back silently."""
    found = type(cache.tree_core).__name__
    if found != CORES[core]:
        raise Unsupported(f"{PLAN.judged} fell back to {found} where {CORES[core]} was asked for")


class Unified(Tree):
    """``UnifiedRadixCache`` with the component FULL."""

    plan: Plan = PLAN

    def __init__(self, core: str, config: Config) -> None:
        super().__init__(config)
        load = install(self.plan)
        self.full = load(f"{UNIFIED}.component_type").ComponentType.FULL
        if core == "kvlitmus":
            from kvlitmus.optimized.sglang import register

            register()
        self.params = self._params(tree_components=(self.full,), tree_core_backend=core)
        self.cache: Foreign = load(f"{MEM}.unified_radix_cache").UnifiedRadixCache(self.params)
        require_core(self.cache, core)
        self.probe = Probe(self.cache, self._key) if core != "python" else None

    def match(self, key: Key) -> Hit:
        """``match_prefix``; the handle is the last node's id."""
        found = self._find(key)
        slots = self.cache.path_device_indices(found.last_device_node).tolist()
        return Hit(int(found.device_prefix_len), slots, found.last_device_node)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """``insert``; SGLang frees the duplicates behind ``protected`` itself."""
        before = page_floor(key.length, self.page_size) if chunked else 0
        result = self._insert(key, slots, prev_prefix_len=protected, inserted_len=before, priority=priority)
        self._remember(key)  # what the core refused, it can't be asked for either
        return Stored(int(result.prefix_len))

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

    def _nodes(self) -> list[NodeView]:
        """By a walk over the nodes, or by asking the compiled core."""
        if self.probe is not None:
            return self.probe.nodes()
        root = self.cache.tree_core.root_node
        return [node_view(parent, node, node.component_data[self.full]) for parent, node in walk(root)]

    def reset(self) -> None:
        """Forget what was inserted too."""
        super().reset()
        if self.probe is not None:
            self.probe.forget()


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


class UnifiedRequests(Requests, Unified):
    """``UnifiedRadixCache`` with requests that live as SGLang's do."""

    def __init__(self, core: str, config: Config) -> None:
        self.rows, self.requests = Rows(config), {}
        super().__init__(core, config)
        self.common = install(PLAN)(f"{MEM}.common")
        self.kv_class = install(PLAN)("sglang.srt.managers.schedule_batch").ReqKvInfo

    def _made(self, rid: int, key: Key, index: int, hit: Hit, receipt: object) -> Request:
        length = len(key.tokens)
        kv = self.kv_class(
            req_pool_idx=index,
            cache_protected_len=hit.length,
            kv_committed_len=length,
            kv_allocated_len=length,
        )
        return Request(
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
            last_node=hit.handle,
            lock=receipt,
            ended=False,
        )

    def _place(self, request: Foreign) -> tuple[int, int]:
        return request.kv.req_pool_idx, request.kv.kv_committed_len

    def _append(self, request: Foreign, tokens: Sequence[int]) -> None:
        request.full_untruncated_fill_ids.extend(tokens)
        request.kv.kv_committed_len += len(tokens)
        request.kv.kv_allocated_len = request.kv.kv_committed_len

    def _remember_request(self, request: Request) -> None:
        self._remember(Key(request.extra_key, tuple(request.full_untruncated_fill_ids), self.config.bigram))

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


class HostPool23(HostPool):
    """Freed slots wait in a list of their own until an allocation needs them."""

    def _free_slots(self) -> list[int]:
        return pools.listed([self.pool.free_slots, *self.pool.release_slots])


def _host_pool(config: Config) -> HostPool:
    """The pool of host memory; it has eight bytes a token."""
    made = host_pool_class(install(PLAN)(f"{MEM}.pool_host.base"))
    tokens = config.pages * config.page_size
    return HostPool23(
        config,
        made(
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


_flat = partial(Peer, plan=PLAN, profile=PROFILE, policies=POLICIES)
_tree = partial(_flat, capabilities=TREE_PORTS, configs=TREE_CONFIGS)
_requests = partial(_flat, capabilities=REQUEST_PORTS, configs=REQUEST_CONFIGS)
_pool = partial(_flat, capabilities=EXTEND_PORTS, configs=DEVICE_CONFIGS)

unified_python = _tree(build=partial(Unified, "python"))
unified_rust = _tree(build=partial(Unified, "rust"))
unified_python_requests = _requests(build=partial(UnifiedRequests, "python"))
unified_rust_requests = _requests(build=partial(UnifiedRequests, "rust"))
unified_kvlitmus = replace(_tree(build=partial(Unified, "kvlitmus")), profile=PAGEWISE)
unified_kvlitmus_requests = replace(_requests(build=partial(UnifiedRequests, "kvlitmus")), profile=PAGEWISE)
device_pool = _pool(build=partial(_extend_pool, triton=False))
device_pool_triton = _pool(build=partial(_extend_pool, triton=True))
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
