"""The specimen with a host tier and storage below its tree, behind the ports."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from kvlitmus.conformance.ports.arrays import key_of_array
from kvlitmus.conformance.ports.memory import ShortMemory
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.conformance.specimen.prefix.fetch import FetchSettings
from kvlitmus.conformance.specimen.prefix.load import LAYERS
from kvlitmus.conformance.specimen.prefix.tree import CLEARED
from kvlitmus.conformance.specimen.prefix.works import TieredNode, Work
from kvlitmus.spec.interface import Begun, Hit, Job, Loaded, Outcome, PageStore, Prefetched, TierNode, TierView
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import Key, Unit


class TieredSpecimen(ShortMemory, Specimen):
    """One specimen with three tiers."""

    view = None  # type: ignore[assignment]  # the snapshot is :meth:`tiers`
    flush = None  # type: ignore[assignment]  # of flat caches
    tree: Any = None
    store: PageStore | None = None
    seconds = 0.0

    def __init__(self, config: Config, parts: Parts, profile: Profile) -> None:
        self.works = parts.works()
        super().__init__(config, parts, profile)

    def reset(self) -> None:
        """Forget everything but the storage that is attached, what time it is, and how many jobs there were."""
        config, parts, size = self.config, self.parts, self.config.page_size
        told = [] if self.tree is None else CLEARED
        self.pool = parts.pool(config.pages, size, self.profile.reserved)
        self.host = parts.host(config.host_pages, size)
        self.copier = parts.copier(size, self.profile.reserved + config.pages, config.host_pages)
        self.tree = parts.tiers(size, config.policy, self.pool.give_back, self.host, config.write)
        self.tree.hit_counts, self.tree.restored_counts = self.profile.hit_counts, self.profile.restored_counts
        self.tree.told += told
        self.requests = parts.requests(self.pool, self.tree)
        self.hasher = parts.hashing()
        self.planner = parts.prefetch()
        self.works.works.clear()
        self.backups = parts.backups(self.tree, self.host, self.copier, self.works, config.write, config.bigram)
        self.loads = parts.loads(self.tree, self.pool, self.copier, self.works, self.profile.load_threshold)
        self.puts = parts.puts(self.tree, self.host, self.copier, self.works, self.hasher, config.bigram)
        self.fetches = parts.fetches(
            self.tree, self.host, self.copier, self.works, self.hasher, self.planner, self.settings()
        )
        self.fetches.now = self.seconds
        self.tree.inserted = self.inserted
        self.tree.spill = self.spill
        self.backups.backed = self.backed
        self.requests.device = self.copier.device
        self.requests.bringing = self.loads.bringing

    def settings(self) -> FetchSettings:
        """What configuration and profile say of prefetches."""
        config, profile = self.config, self.profile
        return FetchSettings(
            config.threshold,
            config.rate_limit,
            config.stop,
            profile.timeout,
            profile.timeout_basis,
            profile.timeout_from,
        )

    # -- what follows from what ----------------------------------------------------------------

    def inserted(self, namespace: str | None, units: tuple[Unit, ...], path: list[TieredNode]) -> None:
        """A path was used by an insert."""
        self.backups.after_insert(namespace, units, path)
        if self.store is not None:
            self.puts.after_insert(namespace, units, path)

    def spill(self, node: TieredNode, pages: int) -> int:
        """A leaf is to leave the device under write-back."""
        return self.backups.spill(node, pages)

    def backed(self, nodes: list[TieredNode], key: Key, start: int) -> None:
        """Nodes have their contents on the host."""
        if self.store is not None:
            self.puts.start(nodes, [page for node in nodes for page in node.host], key, start)

    # -- requests ------------------------------------------------------------------------------

    def begin(self, rid: int, key: Key) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        self.take_memory()
        return super().begin(rid, key)

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        self.take_memory()
        return super().publish(rid, chunked=chunked)

    def end(self, rid: int, *, keep: bool) -> None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        if keep:
            self.take_memory()
        super().end(rid, keep=keep)

    def publish_upto(self, rid: int, upto: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        self.take_memory()
        return super().publish_upto(rid, upto, chunked=chunked)

    def end_upto(self, rid: int, upto: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        self.take_memory()
        super().end_upto(rid, upto)

    # -- tree and host tier --------------------------------------------------------------------

    def match(self, key: Key) -> Hit:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        pages, node, behind = self.tree.reach(key.namespace, key.units, hit=True)
        return Hit(
            len(pages) * self.pool.page_size, self.pool.slots(pages), node, sum([len(node.key) for node in behind])
        )

    def host_available(self) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.HostTier`."""
        return self.host.available()

    def evict_host(self, n: int) -> int | None:
        """See :class:`~kvlitmus.spec.interface.tiers.HostTier`."""
        return int(self.tree.evict_host(n))

    def load_back(self, key: Key, quota: int | None = None) -> Loaded:
        """See ``HostTier`` and ``Quota`` of :mod:`kvlitmus.spec.interface.tiers`."""
        before, pages = self.loads.load_back(key, quota)
        return Loaded(before, None if pages is None else tuple(self.pool.slots(pages)))

    load_back_within = load_back

    def layers(self) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Layers`."""
        return LAYERS

    def layers_ready(self, job: int) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Layers`."""
        work = self.works.works.get(job)
        return self.loads.ready(work) if work is not None else 0

    # -- jobs ----------------------------------------------------------------------------------

    def jobs(self) -> Sequence[Job]:
        """See :class:`~kvlitmus.spec.interface.tiers.Steps`."""
        return [
            Job(
                work.id,
                work.kind,
                work.key,
                work.start,
                work.rid,
                work.done if work.kind == "fetch" else 0,
                work.landed,
                not work.landed,
                work.failed,
            )
            for work in self.works.works.values()
        ]

    def advance(self, job: int, outcome: Outcome) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Steps`."""
        work = self.works.works.get(job)
        if work is None or work.landed:
            raise ValueError(f"job {job} can't go on: it is over, or there is none")
        if outcome.how == "fail" and work.kind in ("backup", "load"):
            (self.backups if work.kind == "backup" else self.loads).fail(work)
        elif work.kind == "backup":
            self.backups.land(work)
        elif work.kind == "load":
            self.loads.copy(work, outcome.pages if outcome.how == "part" else LAYERS)
        else:
            self.advance_storage(work, outcome)

    def advance_storage(self, work: Work, outcome: Outcome) -> None:
        """Let a job go on that asks storage, which answers for itself: what is short or fails, does so there."""
        assert self.store is not None
        pages = outcome.pages if outcome.how == "part" else None
        if work.kind == "query":
            self.fetches.query(work, self.store)
        elif work.kind == "fetch":
            self.fetches.read(work, self.store, pages)
        else:
            self.puts.put(work, self.store, pages)

    def tick(self) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Steps`."""
        self.backups.acks()
        self.loads.acks()
        self.fetches.drop_revoked()
        self.host.drain()
        self.puts.acks()

    # -- prefetches ----------------------------------------------------------------------------

    def prefetch(self, rid: int, key: Key) -> Prefetched:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        return Prefetched(*self.fetches.start(rid, key, self.store is not None))

    def raw_prefetch(self, rid: int, tokens: object, namespace: str | None) -> Prefetched:
        """See :class:`~kvlitmus.spec.interface.tiers.RawPrefetching`."""
        return self.prefetch(rid, key_of_array(self, tokens, namespace))

    def poll(self, rid: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        return self.fetches.poll(rid)

    def loaded(self, rid: int) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        return self.fetches.told(rid)

    def abandon(self, rid: int) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        self.fetches.abandon(rid)

    def occupied(self) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        return self.fetches.occupied

    # -- storage, time, faults, contents -------------------------------------------------------

    def attach(self, store: PageStore) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.Lifecycle`."""
        if self.store is not None:
            return False
        self.store = store
        return True

    def detach(self) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.Lifecycle`."""
        if self.store is None:
            return False
        self.store = None
        self.fetches.detach()
        self.puts.detach()
        return True

    def set_clock(self, seconds: float) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Clock`."""
        self.seconds = self.fetches.now = seconds

    def fail_host_alloc(self, after: int) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Faults`."""
        self.host.refuse_after = after

    def fail_copy(self, kind: str, after: int) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.CopyFaults`."""
        self.copier.failing[kind] = after

    def failing(self) -> Sequence[str]:
        """See :class:`~kvlitmus.spec.interface.tiers.CopyFaults`."""
        return sorted(self.copier.failing)

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Data`."""
        device = self.copier.device
        for slot, value in zip(slots, values, strict=True):
            device[slot] = value

    def peek(self, tier: str, slots: Sequence[int]) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.tiers.Data`."""
        contents = self.copier.device if tier == "device" else self.copier.host
        return list(map(contents.__getitem__, slots))

    # -- observation ---------------------------------------------------------------------------

    def tiers(self) -> TierView:
        """See :class:`~kvlitmus.spec.interface.tiers.TierInspect`."""
        nodes: list[TierNode] = []
        for namespace, root in self.tree.roots.items():
            stack = [(-1, child) for child in root.children.values()]
            while stack:
                parent, node = stack.pop()
                slots, host = self.shown(node)
                nodes.append(
                    TierNode(parent, namespace, node.key, slots, host, node.locks, node.hits, node.priority, node.pins)
                )
                if node.children:
                    here = len(nodes) - 1
                    stack += [(here, child) for child in node.children.values()]
        moving = self.host.slots(chain(self.host.releasing, self.fetches.holding()))
        return TierView(tuple(self.pool.free_list), nodes, tuple(self.host.free_list), tuple(moving))

    def shown(self, node: TieredNode) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """The slots of a node on device and host; remembered as long as its lists are the same."""
        pages, host, slots, host_slots = node.shown
        if pages is not node.pages or host is not node.host:
            slots = tuple(self.pool.slots(node.pages)) if node.pages else None
            host_slots = tuple(self.host.slots(node.host)) if node.host else None
            node.shown = (node.pages, node.host, slots, host_slots)
        return slots, host_slots
