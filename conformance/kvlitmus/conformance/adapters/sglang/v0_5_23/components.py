"""SGLang 0.5.23's unified radix cache with a sliding window, with Mamba states, and with both, on a CPU.

Targets: ``swa``, ``mamba`` and ``swa_mamba``; ``UnifiedRadixCache`` with the tree in Python and the components
FULL, SWA and MAMBA, over ``SWATokenToKVPoolAllocator`` and ``MambaSlotAllocator``.  What is real and what is
replaced: :mod:`kvlitmus.conformance.adapters.sglang.common.components`; besides:

* The server's options: no limit of states on a path, a chunk of states as long as a page.  With pages of more than
  one token the states are kept as with ``enable_mamba_extra_buffer``, without which SGLang asks for pages of one.

Where a node is locked, an insert that recovers its window takes the window's slots alone.

Limits: single process, no host tier, no storage, no requests, no sessions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common.components import (
    CAPABILITIES,
    PAIRED,
    PROFILE,
    STATED,
    WINDOWED,
    HybridCache,
)
from kvlitmus.conformance.adapters.sglang.common.pools import MEM, POLICIES
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer
from kvlitmus.conformance.adapters.sglang.v0_5_23.flat import COMMON, PLAN, UNIFIED, require_core
from kvlitmus.conformance.ports import Config

RUNTIME = "sglang.srt.runtime_context"
EXECUTION = SimpleNamespace(mamba=SimpleNamespace(mamba_max_states_per_path=-1, enable_mamba_extra_buffer_lazy=False))

COMPONENT_PLAN = replace(
    PLAN,
    real=PLAN.real | {f"{MEM}.allocator.swa", f"{MEM}.allocator.mamba", "sglang.srt.utils.invariants"},
    lifted={
        **PLAN.lifted,
        "sglang.srt.utils.common": {COMMON: ("async_h2d", "ceil_align", "ceil_div", "get_num_new_pages")},
    },
    answers={
        **PLAN.answers,
        "sglang.srt.platforms": {
            "current_platform": SimpleNamespace(
                capabilities=SimpleNamespace(supports_triton=False), get_paged_allocator_cls=lambda: None
            )
        },
        "sglang.srt.utils.common": {"is_pin_memory_available": lambda _device=None: False},
        RUNTIME: {
            **PLAN.answers[RUNTIME],
            "get_exec": lambda: EXECUTION,
            "mamba_cache_chunk_size": lambda: 1,
            "mamba_checkpoint_grid": lambda page: page,
        },
    },
)


class Hybrid(HybridCache):
    """The tree in Python, unless a subclass asks for another and reads that."""

    plan = COMPONENT_PLAN
    kinds = f"{UNIFIED}.component_type"
    core = "python"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        require_core(self.cache, self.core)

    def _params(self, load: Foreign, **more: object) -> Foreign:
        return super()._params(load, tree_core_backend=self.core, **more)

    def _length(self, found: Foreign) -> int:
        return int(found.device_prefix_len)

    def _root(self) -> Foreign:
        return self.cache.tree_core.root_node

    def _node(self, handle: object) -> Foreign:
        return self.cache.tree_core.node_by_id(handle)

    def _lock(self, handle: object) -> object:
        """``lock``."""
        receipt: object = self.cache.lock(handle)
        return receipt

    def component_unlock(self, receipt: object) -> None:
        """``unlock``."""
        self.cache.unlock(receipt)

    def _from(self, params: Foreign, window: int) -> None:
        params.set_evicted_seqlen(self.types["swa"], window)


_target = partial(Peer, plan=COMPONENT_PLAN, capabilities=CAPABILITIES, build=Hybrid, policies=POLICIES)

swa = _target(profile=PAIRED, configs=WINDOWED)
mamba = _target(profile=replace(PROFILE, component_points="end"), configs=STATED)
swa_mamba = _target(
    profile=replace(PAIRED, component_points="end"),
    configs=(Config(page_size=4, pages=16, components="kv+swa+state"),),
)
