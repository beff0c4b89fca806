"""The prefetch plan, the way engines write it: one function that calls the pool as it goes."""

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


class PrefetchPlanner:
    """Plans prefetches; mutants replace one of its methods."""

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        """Reserve host memory for a read from storage, or refuse and leave nothing behind."""
        wanted = self.wanted(ask)
        refusal = self.gate(ask, wanted)
        if refusal is not None:
            return PrefetchPlan(refusal)
        host.protect()
        length = wanted
        slots = host.alloc(length)
        if slots is None:
            self.evict(host, wanted, ask)
            slots = host.alloc(length)
        if slots is None:
            length = self.shorten(ask, wanted, host)
            slots = self.last_alloc(host, length) if length else None
        if slots is None:
            return self.give_up(host)
        return self.start(ask, wanted, length, slots)

    def wanted(self, ask: PrefetchAsk) -> int:
        """The key's length in whole pages."""
        return ask.key_length - ask.key_length % ask.page_size

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        """Why not to try at all."""
        if not ask.storage_on:
            return STORAGE_OFF
        if wanted == 0 or wanted < ask.threshold:
            return TOO_SHORT
        if ask.occupied >= ask.capacity:
            return RATE_LIMITED
        return None

    def evict(self, host: HostPool, wanted: int, ask: PrefetchAsk) -> None:
        """Make room for what is lacking."""
        lacking = wanted - host.available()
        pages = max(1, (lacking + ask.page_size - 1) // ask.page_size)
        host.evict(pages * ask.page_size)

    def shorten(self, ask: PrefetchAsk, wanted: int, host: HostPool) -> int:
        """How much to fetch when not all fits; 0 when that isn't worth it."""
        available = host.available()
        length = min(wanted, available - available % ask.page_size)
        return length if length >= ask.threshold else 0

    def last_alloc(self, host: HostPool, length: int) -> Sequence[int] | None:
        """The shortened allocation."""
        return host.alloc(length)

    def give_up(self, host: HostPool) -> PrefetchPlan:
        """Undo, and say why."""
        host.release()
        return PrefetchPlan(NO_MEMORY)

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        """The plan, once there is memory; ``wanted`` is what it would have been without shortening."""
        return PrefetchPlan(
            None,
            slots=slots,
            key_start=0,
            key_length=length,
            hashed_pages=length // ask.page_size,
            accounted=length,
            prefix_keys=ask.prefix_keys,
        )
