"""The prefetch plan: how much of a key to read from storage, and the host memory for it.

Either all whole pages of the key get memory, if need be after one eviction; or as many as there is memory for, if that
is worth a read; or the plan is refused and leaves nothing behind.  What the read covers, the names that it asks for and
what counts against the quota all follow from the length that got memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.interface.plans import (
    NO_MEMORY,
    RATE_LIMITED,
    STORAGE_OFF,
    TOO_SHORT,
    HostPool,
    PrefetchAsk,
    PrefetchPlan,
)
from kvlitmus.spec.prefix.prefetch_plan import deficit, full_length, least_length, truncated_length


class PrefetchPlanner:
    """Plans prefetches over any host memory that looks like a :class:`~kvlitmus.spec.interface.plans.HostPool`.

    Slots may come as any sequence, an array too: they are handed on as they came.
    """

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        """Reserve host memory for a read from storage, or refuse and leave nothing behind."""
        refusal = self.gate(ask)
        if refusal is not None:
            return PrefetchPlan(refusal)
        host.protect()
        length, slots = self.reserve(ask, host)
        if slots is None:
            host.release()
            return PrefetchPlan(NO_MEMORY)
        return self.start(ask, length, slots)

    def gate(self, ask: PrefetchAsk) -> str | None:
        """Why not to try at all; the quota is looked at before this prefetch counts, so the last one may overshoot."""
        if not ask.storage_on:
            return STORAGE_OFF
        if full_length(ask) < least_length(ask):
            return TOO_SHORT
        if ask.occupied >= ask.capacity:
            return RATE_LIMITED
        return None

    def reserve(self, ask: PrefetchAsk, host: HostPool) -> tuple[int, Sequence[int] | None]:
        """Memory for the full length, else for the whole pages there are, else none: units and slots."""
        length: int = full_length(ask)
        slots = host.alloc(length)
        if slots is None:
            host.evict(self.lacking(ask, length, host))
            slots = host.alloc(length)
        if slots is None:
            length = self.shorten(ask, host)
            slots = host.alloc(length) if length else None
        return length, slots

    def lacking(self, ask: PrefetchAsk, length: int, host: HostPool) -> int:
        """How much to evict for this length: what is lacking, at least a page."""
        return deficit(length, host.available(), ask.page_size)

    def shorten(self, ask: PrefetchAsk, host: HostPool) -> int:
        """How much to read when not all fits; 0 when that isn't worth it."""
        return truncated_length(ask, host.available())

    def start(self, ask: PrefetchAsk, length: int, slots: Sequence[int]) -> PrefetchPlan:
        """The plan, once there is memory."""
        return PrefetchPlan(
            None,
            slots=slots,
            key_start=0,
            key_length=length,
            hashed_pages=length // ask.page_size,
            accounted=length,
            prefix_keys=ask.prefix_keys,
        )
