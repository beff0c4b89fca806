"""SGLang 0.5.13.post1's radix caches for hybrid models, as a server without host memory makes them, on a CPU.

Targets: ``swa_radix`` and ``mamba_radix``; ``SWARadixCache`` over ``SWATokenToKVPoolAllocator`` and ``MambaRadixCache``
over a paged allocator and ``MambaSlotAllocator``.  ``default_radix_cache_factory`` makes one of these for a model with
a sliding window or with Mamba states, and ``UnifiedRadixCache``
(:mod:`kvlitmus.conformance.adapters.sglang.v0_5_13.components`) where there is host memory.

What is real and what is replaced: as there.  Their nodes have a value for KV and a mark, or a state, for the rest:

* The window's slots are those that the allocator has for a node's KV, unless the node is marked
  (``swa_tombstone``).
* These classes have no eviction policy but LRU, and ``MambaRadixCache`` has no bigrams.
* What an eviction freed is the difference of the cache's own ``total_size()``: ``EvictResult`` of these classes leaves
  out some of what goes along, and nobody in this release reads theirs.

Limits: single process, no requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from kvlitmus.conformance.adapters.sglang.common.components import CAPABILITIES, PROFILE
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer
from kvlitmus.conformance.adapters.sglang.v0_5_13.components import COMPONENT_PLAN, WHOLE, Hybrid
from kvlitmus.conformance.ports import Config, Unsupported

HYBRID_PLAN = replace(COMPONENT_PLAN, real=COMPONENT_PLAN.real | {f"{MEM}.swa_radix_cache", f"{MEM}.mamba_radix_cache"})


class Separate(Hybrid):
    """A cache whose class is of one kind of component: what differs on its nodes."""

    plan = HYBRID_PLAN
    made: str
    """The module and the class."""
    components: str
    """The layout that it is for."""
    count: str
    """The node's count of locks of what it has besides KV."""

    def __init__(self, config: Config) -> None:
        if config.components != self.components:
            name = self.made.partition(":")[2]
            raise Unsupported(f"{name} is a cache of {self.components}, and not of {config.components}")
        super().__init__(config)

    def _cache(self, load: Foreign) -> Foreign:
        module, name = self.made.split(":")
        return getattr(load(f"{MEM}.{module}"), name)(self._params(load))

    def _value(self, node: Foreign, name: str, tier: str) -> Foreign:
        assert tier == "value"
        return node.value if name == "kv" else self._beside(node)

    def _beside(self, node: Foreign) -> Foreign:
        """What a node has besides KV, or ``None``."""
        raise NotImplementedError

    def component_evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """``evict``, and how much less the cache has then."""
        before = self.cache.total_size()
        super().component_evict(wants)
        units = {"kv": self.page, "swa": self.page, "state": 1}
        sizes = zip(self.names, before, self.cache.total_size(), strict=True)
        return {name: (old - new) // units[name] for name, old, new in sizes}

    def _locks(self, path: Sequence[Foreign]) -> list[dict[str, int]]:
        return [
            {name: getattr(node, "full_lock_ref" if name == "kv" else self.count) for name in self.names}
            for node in path
        ]


class WindowRadix(Separate):
    """``SWARadixCache``."""

    made = "swa_radix_cache:SWARadixCache"
    components = "kv+swa"
    count = "swa_lock_ref"

    def _beside(self, node: Foreign) -> Foreign:
        """The window's slots of a node's KV."""
        return None if node.swa_tombstone else self.allocator.full_to_swa_index_mapping[node.value]


class StateRadix(Separate):
    """``MambaRadixCache``."""

    made = "mamba_radix_cache:MambaRadixCache"
    components = "kv+state"
    count = "mamba_lock_ref"

    def _beside(self, node: Foreign) -> Foreign:
        """A node's state."""
        return node.mamba_value


_target = partial(Peer, plan=HYBRID_PLAN, capabilities=CAPABILITIES, policies=("lru",))

swa_radix = _target(
    profile=WHOLE,
    build=WindowRadix,
    configs=(
        Config(page_size=4, pages=16, components="kv+swa"),
        Config(page_size=16, pages=16, components="kv+swa"),
        Config(page_size=4, pages=16, components="kv+swa", bigram=True),
    ),
)
mamba_radix = _target(
    profile=replace(PROFILE, component_points="end"),
    build=StateRadix,
    configs=(
        Config(page_size=4, pages=16, components="kv+state"),
        Config(page_size=1, pages=16, components="kv+state"),
    ),
)
