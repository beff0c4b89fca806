"""The ports of a hierarchical cache (:mod:`kvlitmus.spec.interface.tiers`), and a helper for adapters."""

from __future__ import annotations

from kvlitmus.spec.interface.tiers import (
    BACKUP,
    COPY_FAILURES,
    DONE,
    EVENT_PORTS,
    FAILED,
    FETCH,
    JOB_KINDS,
    LOAD,
    PUT,
    QUERY,
    SPILL,
    SPILLED,
    TIER_PORTS,
    Clock,
    CopyFaults,
    Data,
    Event,
    Events,
    Faults,
    HostTier,
    Job,
    Layers,
    Lifecycle,
    Loaded,
    MemoryFaults,
    Outcome,
    PageStore,
    Prefetched,
    Prefetching,
    Quota,
    Steps,
    TierInspect,
    TierNode,
    TierView,
)

__all__ = [
    "BACKUP",
    "COPY_FAILURES",
    "DONE",
    "EVENT_PORTS",
    "FAILED",
    "FETCH",
    "JOB_KINDS",
    "LOAD",
    "PUT",
    "QUERY",
    "SPILL",
    "SPILLED",
    "TIER_PORTS",
    "Clock",
    "CopyFaults",
    "Data",
    "Event",
    "Events",
    "Faults",
    "HostTier",
    "Job",
    "Layers",
    "Lifecycle",
    "Loaded",
    "MemoryFaults",
    "Outcome",
    "PageStore",
    "Prefetched",
    "Prefetching",
    "Quota",
    "ShortMemory",
    "Steps",
    "TierInspect",
    "TierNode",
    "TierView",
]


class ShortMemory:
    """The port :class:`MemoryFaults` of an adapter whose cache takes memory once in a call."""

    memory: int | None = None

    def fail_memory(self, after: int | None) -> None:
        """See :class:`MemoryFaults`."""
        self.memory = after

    def take_memory(self) -> None:
        """What a call needs; raises ``MemoryError`` when there is none."""
        if self.memory is not None:
            self.memory -= 1
            if self.memory < 0:
                self.memory = None
                raise MemoryError
