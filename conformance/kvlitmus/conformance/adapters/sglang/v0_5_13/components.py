"""SGLang 0.5.13.post1's unified radix cache with a sliding window, with Mamba states, and with both, on a CPU.

Targets: ``swa``, ``mamba`` and ``swa_mamba``; ``UnifiedRadixCache`` with the components FULL, SWA and MAMBA, over
``SWATokenToKVPoolAllocator`` and ``MambaSlotAllocator``.  What is real and what is replaced:
:mod:`kvlitmus.conformance.adapters.sglang.common.components`; besides:

* The server's options: a chunk of states as long as a page.

A key of whose end the window is not brought this release does not cache at all; its requests hold that window, so
the profile says that it is always brought.

Limits: single process, no host tier, no storage, no requests.
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
from kvlitmus.conformance.adapters.sglang.v0_5_13.environment import PLAN
from kvlitmus.conformance.ports import Config

COMPONENT_PLAN = replace(
    PLAN,
    real=PLAN.real | {f"{MEM}.allocator.swa"},
    lifted={**PLAN.lifted, "sglang.srt.utils.common": {"srt/utils/common.py": ("get_num_new_pages",)}},
    answers={
        **PLAN.answers,
        "sglang.srt.server_args": {"get_global_server_args": lambda: SimpleNamespace(mamba_cache_chunk_size=1)},
    },
)


class Hybrid(HybridCache):
    """The handles are nodes."""

    plan = COMPONENT_PLAN
    kinds = f"{MEM}.unified_cache_components"

    def _length(self, found: Foreign) -> int:
        return len(found.device_indices)

    def _root(self) -> Foreign:
        return self.cache.root_node

    def _node(self, handle: object) -> Foreign:
        return handle

    def _lock(self, handle: object) -> object:
        """``inc_lock_ref``; the receipt is the node and what is to be given back."""
        return handle, self.cache.inc_lock_ref(handle).to_dec_params()

    def component_unlock(self, receipt: object) -> None:
        """``dec_lock_ref``."""
        assert isinstance(receipt, tuple)
        self.cache.dec_lock_ref(*receipt)

    def _from(self, params: Foreign, window: int) -> None:
        params.swa_evicted_seqlen = window


_target = partial(Peer, plan=COMPONENT_PLAN, capabilities=CAPABILITIES, build=Hybrid, policies=POLICIES)

WHOLE = replace(PAIRED, component_grants="whole")

swa = _target(profile=WHOLE, configs=WINDOWED)
mamba = _target(profile=replace(PROFILE, component_points="end"), configs=STATED)
swa_mamba = _target(
    profile=replace(WHOLE, component_points="end"),
    configs=(Config(page_size=4, pages=16, components="kv+swa+state"),),
)
