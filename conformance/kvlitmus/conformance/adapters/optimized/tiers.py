"""The optimized cache with a host below the device, and storage below that, behind the ports.

It runs stepped, so that the suite says when a job goes on; the contents are those of real tensors
(:mod:`~kvlitmus.conformance.adapters.optimized.contents`), copied by the mover that an engine would use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.adapters.optimized.contents import Contents, SuiteStore, Variant
from kvlitmus.conformance.adapters.optimized.flat import OptimizedPorts, listed
from kvlitmus.conformance.ports import Begun, Config, Hit, Profile
from kvlitmus.spec.interface.tiers import (
    COPY_FAILURES,
    FETCH,
    Job,
    Loaded,
    Outcome,
    PageStore,
    Prefetched,
    TierNode,
    TierView,
)
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.optimized.cache import Parts


logging.getLogger("kvlitmus.optimized").addHandler(logging.NullHandler())  # copies fail because they are asked to


class TieredOptimized(OptimizedPorts):
    """One optimized hierarchy behind the ports."""

    def __init__(
        self,
        config: Config,
        profile: Profile,
        parts: Parts | None,
        variant: Variant,
        device: str = "cpu",
        core: str = "auto",
    ) -> None:
        from kvlitmus.optimized.testing import Faults, FaultyMover, SetClock

        self.contents = Contents(config, profile.reserved, variant, device)
        self.faults, self.clock = Faults(), SetClock()
        self.memory: int | None = None
        self.mover = FaultyMover(self.contents.mover, self.faults, self.contents.spoil)
        super().__init__(config, profile, parts, core)

    def make_cache(self, parts: Any) -> Any:
        """A fresh hierarchy, which tells events, and parts of which fail when the suite says so."""
        from kvlitmus.optimized.cores import core_of
        from kvlitmus.optimized.hierarchy import HierarchicalCache
        from kvlitmus.optimized.life import tier_parts_of
        from kvlitmus.optimized.testing import faulty_parts

        faulty = faulty_parts(self.faults, parts or tier_parts_of(core_of(self.core)))
        return HierarchicalCache(self.cache_config(), self.mover, events=True, clock=self.clock, parts=faulty)

    def reset(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.Resettable`."""
        super().reset()
        self.faults.clear()

    # -- tree and host tier --------------------------------------------------------------------

    def hit(self, found: Any, slots: Sequence[int]) -> Hit:
        """A match as the port tells it."""
        return Hit(len(slots), slots, found.place, found.behind * self.size)

    def host_available(self) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.HostTier`."""
        return int(self.cache.host_available())

    def evict_host(self, n: int) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.HostTier`."""
        return int(self.cache.evict_host(n))

    def load_back(self, key: Key) -> Loaded:
        """See :class:`~kvlitmus.spec.interface.tiers.HostTier`."""
        return self.loaded_back(self.cache.load_back(key.tokens, key.namespace))

    def load_back_within(self, key: Key, quota: int) -> Loaded:
        """See :class:`~kvlitmus.spec.interface.tiers.Quota`."""
        return self.loaded_back(self.cache.load_back(key.tokens, key.namespace, quota=quota))

    def loaded_back(self, loaded: Any) -> Loaded:
        """The answer to a load back, in units."""
        return Loaded(loaded.before * self.size, None if loaded.pages is None else self.slots(loaded.pages))

    def layers(self) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Layers`."""
        return int(self.cache.layers())

    def layers_ready(self, job: int) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Layers`."""
        return int(self.cache.layers_ready(job))

    # -- jobs ----------------------------------------------------------------------------------

    def jobs(self) -> Sequence[Job]:
        """See :class:`~kvlitmus.spec.interface.tiers.Steps`."""
        return [self.job(work) for work in self.cache.jobs()]

    def job(self, work: Any) -> Job:
        """A job as the port shows it."""
        namespace, units, start = self.cache.span(work)
        done = work.done * self.size if work.kind == FETCH else 0
        key = self.key(namespace, units)
        failed = work.error is not None
        return Job(work.id, work.kind, key, start, work.rid, done, work.landed, not work.landed, failed)

    def key(self, namespace: str | None, units: Any) -> Key:
        """The key that has these units."""
        bigram = self.config.bigram
        plain = self.plain(units)
        tokens = [unit[0] if isinstance(unit, tuple) else unit for unit in plain]
        tokens += [unit[1] for unit in plain[-1:] if isinstance(unit, tuple)]
        return Key(namespace, tuple(tokens), bigram)

    def advance(self, job: int, outcome: Outcome) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Steps`: what is short or fails, does so in storage or mover."""
        ticket = self.cache.works.works[job].ticket
        if outcome.how == "fail" and ticket is not None:
            ticket.fail()
        self.cache.advance(job, outcome.pages if outcome.how == "part" else None)

    def tick(self) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Steps`."""
        self.cache.tick()

    # -- prefetches ----------------------------------------------------------------------------

    def prefetch(self, rid: int, key: Key) -> Prefetched:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        return self.raw_prefetch(rid, key.tokens, key.namespace)

    def raw_prefetch(self, rid: int, tokens: Any, namespace: str | None) -> Prefetched:
        """See :class:`~kvlitmus.spec.interface.tiers.RawPrefetching`."""
        told = self.cache.prefetch(rid, tokens, namespace)
        matched = told.matched * self.size
        return Prefetched(told.started, matched, told.asked, matched if told.started else None)

    def poll(self, rid: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        return bool(self.cache.poll(rid))

    def loaded(self, rid: int) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        return int(self.cache.loaded(rid))

    def abandon(self, rid: int) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        self.cache.abandon(rid)

    def occupied(self) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        return int(self.cache.occupied())

    # -- storage, time, faults, contents -------------------------------------------------------

    def attach(self, store: PageStore) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.Lifecycle`."""
        return bool(self.cache.attach(SuiteStore(store, self.contents)))

    def detach(self) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.Lifecycle`."""
        return bool(self.cache.detach())

    def set_clock(self, seconds: float) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Clock`."""
        self.clock.seconds = seconds

    def fail_host_alloc(self, after: int) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Faults`."""
        from kvlitmus.optimized.testing import HOST_PAGES

        self.faults.fail(HOST_PAGES, after)

    def fail_copy(self, kind: str, after: int) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.CopyFaults`."""
        self.faults.fail(kind, after)

    def failing(self) -> Sequence[str]:
        """See :class:`~kvlitmus.spec.interface.tiers.CopyFaults`."""
        return [kind for kind in self.faults.pending() if kind in COPY_FAILURES]

    def fail_memory(self, after: int | None) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.MemoryFaults`: of branches, host copies or slots, in turn."""
        self.memory = after

    @contextmanager
    def short_of_memory(self) -> Iterator[None]:
        """Within this call memory runs out as was asked for."""
        from kvlitmus.optimized.testing import BRANCH, COPIES, SLOTS

        if self.memory is None:
            yield
            return
        kinds = (BRANCH, COPIES, SLOTS)
        kind = kinds[self.memory % len(kinds)]
        self.faults.fail(kind, self.memory // len(kinds))
        try:
            yield
        finally:
            self.faults.left.pop(kind, None)

    def raw_begin(self, rid: int, tokens: Any, namespace: str | None) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.RawRequests`."""
        with self.short_of_memory():
            return super().raw_begin(rid, tokens, namespace)

    def publish_upto(self, rid: int, upto: int | None, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        with self.short_of_memory():
            return super().publish_upto(rid, upto, chunked=chunked)

    def end_upto(self, rid: int, upto: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        with self.short_of_memory():
            super().end_upto(rid, upto)

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Data`."""
        self.contents.poke(slots, values)

    def peek(self, tier: str, slots: Sequence[int]) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.tiers.Data`."""
        return self.contents.peek(tier, slots)

    # -- observation ---------------------------------------------------------------------------

    def tiers(self) -> TierView:
        """See :class:`~kvlitmus.spec.interface.tiers.TierInspect`."""
        cache = self.cache
        nodes = [
            TierNode(
                node.parent,
                node.namespace,
                self.plain(node.units),
                self.some(node.pages),
                self.some(node.host_pages),
                node.locks,
                node.hits,
                node.priority,
                node.pins,
            )
            for node in self.nodes()
        ]
        host = cache.host.pool
        return TierView(
            cache.pool.free_pages().tolist(),
            nodes,
            host.free_pages().tolist(),
            listed(host.slots(cache.moving())) or (),
        )

    def some(self, pages: Any) -> tuple[int, ...] | None:
        """The slots of some pages, if there are any."""
        return None if pages is None else tuple(self.slots(pages))
