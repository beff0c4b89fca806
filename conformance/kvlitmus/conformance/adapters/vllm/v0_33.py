"""vLLM 0.33.0's KV cache manager with several KV cache groups, on a CPU.

Real, as published: ``KVCacheManager``, ``HybridKVCacheCoordinator``, the managers of each kind of group, ``BlockPool``
with its free queue, block hashing, ``Request``, the specs of the groups.

Replaced: sampling parameters (a stand-in that asks for nothing special), logging, statistics (off), the classes of KV
events (what the block pool puts into them is what is told), multimodal inputs (none).  One rank, no drafts, no
connector, no HiSparse, no sparse retention.

The adapter does what vLLM's scheduler does with its manager, and nothing else.  A request is made with the hashes of
its blocks; ``new_step_starts``, ``get_computed_blocks`` and ``allocate_slots`` begin it, ``allocate_slots`` goes on,
``free`` ends it.  A reset ends all of them before ``reset_prefix_cache``, as a scheduler that preempts all of them
does.  Each call is a step of the scheduler of its own.  Which places a request holds is read from its block tables.
The snapshot reads the map from hashes to blocks (what is cached, by the prefix that was hashed) and the free queue.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common.features import taken
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, Plan, install, torch_module
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.shapes import Chunk, Component, Point, Run, Window, step_of
from kvlitmus.spec.words.units import Key

CORE = "vllm.v1.core"
INTERFACE = "vllm.v1.kv_cache_interface"


class Quiet:
    """A logger that says nothing."""

    def __getattr__(self, _name: str) -> object:
        return lambda *_arguments, **_options: None


class Constant(Sequence[int]):
    """What ``vllm.v1.utils.ConstantList`` is: a view of a list that others may lengthen, and nobody through it."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, at: Foreign) -> Foreign:
        return self.tokens[at]


class Reason(Enum):
    """The reasons for which a request ends; none is ever told here."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    REPETITION = "repetition"


class Backend(Enum):
    """The kinds of recurrent states; which one it is decides nothing here."""

    MAMBA2 = "mamba2"


class VllmEvent:
    """A KV event: what the block pool says of it; ``what``: what becomes of its blocks."""

    what = ""

    def __init__(self, **said: Foreign) -> None:
        vars(self).update(said)


class Stored(VllmEvent):
    """Blocks have got their hashes."""

    what = "stored"


class Removed(VllmEvent):
    """Blocks have lost their hashes."""

    what = "removed"


class Cleared(VllmEvent):
    """All of them have."""


class Structured:
    """What a request says of the structure of its output: nothing."""

    @staticmethod
    def from_sampling_params(_parameters: object) -> None:
        """No structure was asked for."""


PLAN = Plan(
    release="0.33.0",
    root="vllm",
    title="vLLM",
    real=frozenset(
        {
            f"{CORE}.block_pool",
            f"{CORE}.kv_cache_coordinator",
            f"{CORE}.kv_cache_manager",
            f"{CORE}.kv_cache_metrics",
            f"{CORE}.kv_cache_utils",
            f"{CORE}.single_type_kv_cache_manager",
            INTERFACE,
            "vllm.utils.hashing",
            "vllm.utils.math_utils",
            "vllm.v1.hisparse.block_pool",
            "vllm.v1.kv_cache_layout",
            "vllm.v1.kv_cache_spec_registry",
            "vllm.v1.request",
        }
    ),
    lifted={"vllm.utils": {"utils/__init__.py": ("length_from_prompt_token_ids_or_embeds",)}},
    answers={
        "vllm": {"envs": SimpleNamespace(VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=True)},  # its default
        "vllm.distributed.kv_events": {
            "AllBlocksCleared": Cleared,
            "BlockRemoved": Removed,
            "BlockStored": Stored,
            "MEDIUM_GPU": "GPU",
        },
        "vllm.logger": {"init_logger": lambda _name: Quiet()},
        "vllm.platforms": {"current_platform": SimpleNamespace(register_custom_kv_cache_specs=lambda _config: None)},
        "vllm.v1.attention.backends.registry": {"MambaAttentionBackendEnum": Backend},
        "vllm.v1.engine": {"FinishReason": Reason},
        "vllm.v1.structured_output.request": {"StructuredOutputRequest": Structured},
        "vllm.v1.utils": {"ConstantList": Constant},
    },
)

SAMPLING = SimpleNamespace(max_tokens=1, extra_args=None, skip_reading_prefix_cache=False)
"""What a request asks for: nothing that concerns the cache."""

PROFILE = replace(Profile(), match_cap="len-1", component_cascade="none", component_copies="kept")
"""The last token of a request is always computed, blocks are evicted each alone, and equal blocks are all kept."""

CONFIGS = (
    *(
        Config(page_size=4, pages=24, components=name)
        for name in ("groups", "blocks+swa", "blocks+state", "blocks+chunk")
    ),
    Config(page_size=1, pages=20, components="groups"),
    Config(page_size=1, pages=12, components="blocks+swa"),
    Config(page_size=1, pages=14, components="blocks+state"),
)

Held = dict[str, dict[int, int]]
Prefix = tuple[str | None, tuple[int, ...]]
"""A namespace, and the tokens of a prefix."""


class Managed:
    """A ``KVCacheManager``, and the requests that are made for it."""

    eagle = False
    report = "incremental"

    def __init__(self, size: int) -> None:
        load = install(PLAN)
        self.size = size
        self.interface = load(INTERFACE)
        self.utils = load(f"{CORE}.kv_cache_utils")
        self.request = load("vllm.v1.request").Request
        self.hash = load("vllm.utils.hashing").sha256
        self.utils.init_none_hash(self.hash)
        self.made = load(f"{CORE}.kv_cache_manager").KVCacheManager
        self.sampling = SimpleNamespace(**{**vars(SAMPLING), "extra_args": {"kv_cache_report_mode": self.report}})
        self.names: dict[bytes, Prefix] = {}
        self.told_names: dict[object, Prefix] = {}
        self.numbers = itertools.count()

    def manage(self, specs: Mapping[str, Foreign], blocks: int, step: int) -> Foreign:
        """A manager of groups with these specs over so many blocks that can be handed out."""
        groups = [self.interface.KVCacheGroupSpec([name], spec) for name, spec in specs.items()]
        config = self.interface.KVCacheConfig(
            num_blocks=blocks + 1,  # block 0 is vLLM's null block
            kv_cache_tensors=[],
            kv_cache_groups=groups,
        )
        sizes = taken(self.made, scheduler_block_size=step, hash_block_size=self.size, block_size=self.size)
        manager = self.made(config, max_model_len=1 << 20, use_eagle=self.eagle, enable_kv_cache_events=True, **sizes)
        self.step_starts = getattr(manager, "new_step_starts", lambda: None)
        self.pool: Foreign = manager.block_pool
        return manager

    def asked(self, key: Key) -> Foreign:
        """A request for a key; the namespace is its cache salt."""
        request = self.request(
            request_id=f"request-{next(self.numbers)}",
            prompt_token_ids=list(key.units),
            sampling_params=self.sampling,
            pooling_params=None,
            cache_salt=key.namespace,
            block_hasher=self.utils.get_request_block_hasher(self.size, self.hash),
        )
        self.remember(request)
        return request

    def remember(self, request: Foreign) -> None:
        """Which prefixes the hashes of a request's blocks stand for."""
        tokens = tuple(request.all_token_ids)
        for number, name in enumerate(request.block_hashes, 1):
            prefix = (request.cache_salt, tokens[: number * self.size])
            self.names[name] = self.told_names[self.utils.maybe_convert_block_hash(name)] = prefix

    def cached(self) -> Iterator[tuple[int, Prefix, Foreign]]:
        """The blocks that a look-up finds: the number of the group, the prefix in its hash, and the block."""
        for key, some in self.pool.cached_block_hash_to_block._cache.items():  # noqa: SLF001 - nothing tells it
            prefix = self.names[self.utils.get_block_hash(key)]
            for block in some.values() if isinstance(some, dict) else [some]:
                yield self.utils.get_group_id(key), prefix, block


class Groups(Managed):
    """A ``KVCacheManager`` over the groups of a layout, behind the ports of requests on components."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.page_size)
        self.layout = layout_of(config.components, config.page_size, config.pages)
        self.groups = self.layout.components
        (self.places,) = self.layout.places.values()
        specs = {one.name: self.spec(one) for one in self.groups}
        self.manager = self.manage(specs, self.places, step_of(self.groups))
        self.running: dict[str, Foreign] = {}

    def spec(self, group: Component) -> Foreign:
        """VLLM's spec of a group; ``Unsupported`` for what it has none for."""
        shape, interface = group.shape, self.interface
        plain = {"num_kv_heads": 1, "head_size": 1, "dtype": torch_module().float32}
        if isinstance(shape, Run):
            return interface.FullAttentionSpec(block_size=group.unit, **plain)
        if isinstance(shape, Window):  # a window of w needs the w - 1 tokens before the next one
            return interface.SlidingWindowSpec(block_size=group.unit, sliding_window=shape.reach + 1, **plain)
        if isinstance(shape, Chunk):
            return interface.ChunkedLocalAttentionSpec(block_size=group.unit, attention_chunk_size=shape.size, **plain)
        if isinstance(shape, Point):
            return interface.MambaSpec(
                block_size=group.unit, shapes=((1,),), dtypes=(plain["dtype"],), mamba_cache_mode="align"
            )
        raise Unsupported(f"vLLM has no group like {group.name}")

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        """``get_computed_blocks``; of each group the blocks that the next chunk reads."""
        blocks, length = self.manager.get_computed_blocks(self.asked(key))[:2]
        hit: dict[str, list[int]] = {}
        for group, found in zip(self.groups, blocks.blocks, strict=True):
            manager = self.manager.coordinator.single_type_managers[len(hit)]
            skipped = manager.get_num_skipped_tokens(length) // group.unit
            hit[group.name] = [block.block_id for block in found[skipped:] if not block.is_null]
        return length, hit, None

    def component_start(self, key: Key, chunk: int) -> tuple[object, int, Held] | None:
        """``get_computed_blocks`` and ``allocate_slots``, as for a waiting request."""
        request = self.asked(key)
        self.step_starts()
        blocks, length, *boundary = self.manager.get_computed_blocks(request)
        for units in boundary:  # where the release tells how far others share the prefix
            request.shared_prefix_boundary = units
        chunk = min(chunk, request.num_tokens - length)
        if self.manager.allocate_slots(request, chunk, length, blocks) is None:
            return None
        request.num_computed_tokens = length + chunk
        self.running[request.request_id] = request
        return request.request_id, length, self.held(request.request_id)

    def component_grow(self, receipt: object, chunk: int) -> tuple[bool, Held]:
        """``allocate_slots``, as for a running request."""
        request = self.running[str(receipt)]
        self.step_starts()
        chunk = min(chunk, request.num_tokens - request.num_computed_tokens)
        granted = self.manager.allocate_slots(request, chunk) is not None
        if granted:
            request.num_computed_tokens += chunk
        return granted, self.held(request.request_id)

    def component_finish(self, receipt: object) -> None:
        """``free``."""
        self.manager.free(self.running.pop(str(receipt)))

    def component_reset(self) -> None:
        """All requests are freed, then ``reset_prefix_cache``."""
        for receipt in list(self.running):
            self.component_finish(receipt)
        if not self.manager.reset_prefix_cache():
            raise RuntimeError("reset_prefix_cache: blocks are in use though no request runs")

    def held(self, receipt: str) -> Held:
        """The block tables of a request, without the null block."""
        tables = self.manager.get_blocks(receipt).blocks
        return {
            group.name: {at * group.unit: block.block_id for at, block in enumerate(table, 1) if not block.is_null}
            for group, table in zip(self.groups, tables, strict=True)
        }

    def component_events(self) -> list[ComponentEvent]:
        """``take_events``: a block's hash stands for its prefix, as for a router that hashes prompts as vLLM does."""
        told: list[ComponentEvent] = []
        for event in self.manager.take_events():
            if isinstance(event, Cleared):
                told.append(ComponentEvent("cleared"))
                continue
            group = self.groups[event.group_idx]
            prefixes = [self.told_names[name] for name in event.block_hashes]
            told += [ComponentEvent(event.what, "device", group.name, *prefix) for prefix in prefixes]
        return told

    def component_free_places(self) -> Mapping[str, Sequence[int]]:
        """The blocks of the free queue that have no hash."""
        free = self.pool.free_block_queue.get_all_free_blocks()
        return {self.groups[0].pool: [block.block_id for block in free if block.block_hash is None]}

    def component_entries(self) -> Sequence[tuple[str, str | None, Sequence[object], int]]:
        """The blocks that a look-up finds, by the group and the prefix in their hash."""
        return [(self.groups[group].name, *prefix, block.block_id) for group, prefix, block in self.cached()]


class Drafted(Groups):
    """The same with ``use_eagle``: hits leave their last block out.  Nothing is drafted, so no slots are for drafts."""

    eagle = True

    def __init__(self, config: Config) -> None:
        if any(isinstance(one.shape, Chunk) for one in layout_of(config.components, config.page_size, 1).components):
            raise Unsupported("vLLM has no groups of chunks beside EAGLE")
        super().__init__(config)


class VllmPeer(Peer):
    """The target; it is asked for layouts of one pool."""

    def make(self, config: Config) -> object:
        """A fresh manager; ``Unsupported`` when the release is missing or has no such groups."""
        layout = layout_of(config.components, config.page_size, config.pages)
        if len(layout.places) != 1 or config.bigram:
            raise Unsupported("vLLM's groups of blocks of tokens share one pool")
        return super().make(config)


target = VllmPeer(
    plan=PLAN,
    profile=PROFILE,
    capabilities=frozenset({"component_lookup", "component_requests", "component_events", "component_view"}),
    build=Groups,
    configs=CONFIGS,
)
"""vLLM's groups: full attention, and a window, chunks or recurrent states beside it, over one block pool."""

eagle = VllmPeer(
    plan=PLAN,
    profile=replace(PROFILE, component_drop="last"),
    capabilities=frozenset({"component_lookup", "component_requests", "component_events", "component_view"}),
    build=Drafted,
    configs=tuple(config for config in CONFIGS if config.components != "blocks+chunk"),
)
"""The same for a model with a draft model of EAGLE's kind, which vLLM refuses to serve with chunks."""
