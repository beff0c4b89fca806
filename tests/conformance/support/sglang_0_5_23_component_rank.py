"""A rank of SGLang 0.5.23's unified cache with a window or states, for the scenes of ``sglang_component_ranks``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, install
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_host import PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_prefetch import ComponentPrefetch
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key
from tests.conformance.support.sglang_component_fetch import prefetch

WIDEST = "kv+swa+state"
"""The layout with most components for which this release has a host's memory."""

CONTROL = "sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller"
CACHE = "sglang.srt.mem_cache.unified_radix_cache"


class Rank(ComponentPrefetch):
    """One of the two; ``group`` is that of its tensor parallelism."""

    group: Foreign = None

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        install(PLAN)("sglang.srt.utils.poll_timer").time = SimpleNamespace(perf_counter=steps.Time.now, time=time.time)

    def _params(self, load: Foreign, **more: object) -> Foreign:
        return super()._params(load, tp_cache_group=self.group, **more)

    def look(self) -> None:
        """Two scheduler steps, as many on each rank, whatever it has to free."""
        while self.controller.prefetch_sync_queue.queue:
            self.controller.prefetch_sync_thread.resume()
        self.cache.drain_storage_control_queues()
        self.cache.drain_storage_control_queues()

    def begin(self, key: Key, stored: Mapping[str, Sequence[int]]) -> Any:
        """A request arrives, and storage has pages that end there; its operation, if there is something to read."""
        return prefetch(self, key, stored)

    def takes(self, key: Key, stored: Mapping[str, Sequence[int]]) -> bool:
        """Whether a prefetch of this key gets memory here, which it does when storage has answered."""
        return self.begin(key, stored).operation is not None

    def batch(self, pages: int) -> None:
        """So many pages are read by one call of storage."""
        install(PLAN)("sglang.srt.managers.cache_controller").STORAGE_BATCH_SIZE = pages

    def read(self) -> None:
        """SGLang's own thread reads as far as it can."""
        self.controller.prefetch_io_aux_thread.resume()


def planted(slip: str) -> None:
    """What ranks agree on there is each rank's own.

    Ranks that part in that way don't agree on the number of their collectives either, so one of them may end by an
    error.
    """
    load = install(PLAN)
    controller, cache = load(CONTROL).HybridCacheController, load(CACHE).UnifiedRadixCache
    agree, ends = controller._all_reduce, cache._can_terminate_prefetch

    def own(self: Foreign, tensor: Foreign, op: Foreign, groups: Foreign) -> None:
        hits = groups is self.prefetch_hits_sync_groups
        agree(self, tensor.clone() if hits == (slip == "hits") else tensor, op, groups)

    def alone(self: Foreign, operation: Foreign) -> bool:
        ends(self, operation)
        return bool(self._prefetch_deadline_expired(operation))

    if slip == "ends":
        cache._can_terminate_prefetch = alone
    elif slip:
        controller._all_reduce = own
