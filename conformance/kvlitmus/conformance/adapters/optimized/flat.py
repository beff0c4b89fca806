"""The optimized cache as a target.

``target`` (also the module itself)
    with its pools, its tree, its requests; as a hierarchy over tensors on the CPU; and its file store by itself.
``cuda``
    the same, with the device pools of its hierarchies on a CUDA device, and the host pools page-locked.
``audited``
    on the CPU, and whenever it is looked at, its counters, sets and heaps are counted again.
``native``, ``python``
    with this core and no other; audited, too.

Without numpy and numba there is no tree, and without torch no hierarchy: the target then says what to install.  A flat
configuration imports no torch.

What the adapter adds to the cache is little: lists for arrays, slots for pages, and the tree as the suite wants to see
it.  The hierarchy is in :mod:`~kvlitmus.conformance.adapters.optimized.tiers`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Sizes, Stored, View
from kvlitmus.spec.interface.plans import HostPool, PrefetchAsk, PrefetchPlan
from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.words.units import Key, Unit, key_length

if TYPE_CHECKING:
    from kvlitmus.optimized.cache import CacheConfig, Parts

PROFILE = Profile(misuse="reject", hash_scheme="kvlitmus-2", store_put="first", vocabulary=1 << 31)

NEEDS = ("numpy", "numba", "torch")
"""What the optimized cache is made with."""


def missing() -> list[str]:
    """Which of these are not installed."""
    return [name for name in NEEDS if importlib.util.find_spec(name) is None]


class OptimizedPorts:
    """The ports of the optimized cache, with a host below the device or without.

    A handle is a place of the tree, a receipt the cache's own.  ``audited``: whether a look counts everything again;
    ``core``: whose pool and tree these are.
    """

    cache: Any
    audited = False

    def __init__(self, config: Config, profile: Profile, parts: Parts | None = None, core: str = "auto") -> None:
        from kvlitmus.optimized.hashing import page_hashes
        from kvlitmus.optimized.prefetch import PrefetchPlanner

        self.config = config
        self.profile = profile
        self.core = core
        self.size = config.page_size
        self.planner: PrefetchPlanner = getattr(parts, "planner", PrefetchPlanner)()
        self.hashes = page_hashes
        self.cache = self.make_cache(parts)

    def make_cache(self, parts: Parts | None) -> Any:
        """A fresh cache, which tells events."""
        from kvlitmus.optimized.cache import FlatCache

        return FlatCache(self.cache_config(), parts, events=True)

    def cache_config(self) -> CacheConfig:
        """Configuration and profile in the cache's own words."""
        from kvlitmus.optimized.cache import CacheConfig

        config, profile = self.config, self.profile
        return CacheConfig(
            page_size=config.page_size,
            pages=config.pages,
            reserved=profile.reserved if config.pool == "device" else 0,
            policy=config.policy,
            bigram=config.bigram,
            host_pages=config.host_pages,
            write=config.write,
            stop=config.stop,
            threshold=config.threshold,
            rate_limit=config.rate_limit,
            timeout=profile.timeout,
            timeout_basis=profile.timeout_basis,
            timeout_from=profile.timeout_from,
            load_threshold=profile.load_threshold,
            restored_counts=profile.restored_counts,
            core=self.core,
        )

    def reset(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.Resettable`."""
        self.cache.reset(abort=True)

    # -- pool ----------------------------------------------------------------------------------

    def alloc(self, n: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        return listed(self.cache.pool.alloc(n))

    def free(self, slots: Sequence[int]) -> None:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        self.cache.pool.free(slots)

    def available(self) -> int:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        return int(self.cache.available())

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Extend`."""
        return listed(self.cache.pool.alloc_extend(before, after, last))

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Extend`."""
        return listed(self.cache.pool.alloc_decode(after, last))

    def free_group_begin(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.FreeGroup`."""
        self.cache.pool.group_begin()

    def free_group_end(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.FreeGroup`."""
        self.cache.pool.group_end()

    # -- tree ----------------------------------------------------------------------------------

    def match(self, key: Key) -> Hit:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        found = self.cache.match(key.tokens, key.namespace)
        return self.hit(found, self.slots(found.pages))

    def hit(self, found: Any, slots: Sequence[int]) -> Hit:
        """A match as the port tells it."""
        return Hit(len(slots), slots, found.place)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`: duplicates are found by comparing pages."""
        return self.inserted(key.length, key.tokens, slots, key.namespace, protected, priority, chunked=chunked)

    def inserted(
        self,
        length: int,
        tokens: Any,
        slots: Any,
        namespace: str | None,
        protected: int = 0,
        priority: int = 0,
        *,
        chunked: bool = False,
    ) -> Stored:
        """Insert a key of ``length`` units."""
        size = self.size
        whole = length - length % size
        if len(slots) < whole:  # fewer pages than the key has are a shorter insert to the cache itself
            raise ValueError(f"expected {whole} slots, got {len(slots)}", len(slots))
        pages = self.cache.pool.pages_of(slots[:whole])
        inserted = self.cache.insert(tokens, pages, namespace, priority=priority, chunked=chunked)
        kept = self.cache.tree.path_pages(inserted.place)
        start, end = protected // size, inserted.already
        twice = [at for at in range(start, end) if pages[at] != kept[at]]
        to_free = [slot for at in twice for slot in slots[at * size : (at + 1) * size]]
        return Stored(inserted.already * size, to_free)

    def lock(self, handle: object) -> object:
        """See :class:`~kvlitmus.conformance.ports.Locks`."""
        return self.cache.lock(handle)

    def unlock(self, receipt: object) -> None:
        """See :class:`~kvlitmus.conformance.ports.Locks`."""
        self.cache.unlock(receipt)

    def evict(self, n: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.Evict`."""
        return len(self.cache.evict(n)) * self.size

    # -- requests ------------------------------------------------------------------------------

    def begin(self, rid: int, key: Key) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        return self.raw_begin(rid, key.tokens, key.namespace)

    def grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        return listed(self.cache.grow(rid, tokens))

    def take_back(self, rid: int, n: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.TakeBack`."""
        freed: int = self.cache.take_back(rid, n)
        return freed

    def fork(self, rid: int, of: int) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Fork`."""
        return begun(self.cache.fork(rid, of))

    def retract(self, rid: int) -> bool:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        return bool(self.cache.retract(rid))

    def resume(self, rid: int) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        return begun(self.cache.resume_request(rid))

    def discard(self, rid: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        self.cache.discard(rid)

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        return self.publish_upto(rid, None, chunked=chunked)

    def end(self, rid: int, *, keep: bool) -> None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        self.end_upto(rid, keep)

    def publish_upto(self, rid: int, upto: int | None, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`; ``None``: all."""
        running = self.cache.publish(rid, chunked=chunked, upto=upto)
        return Begun(running.row.tolist(), running.cached)

    def end_upto(self, rid: int, upto: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`; ``True``: all, ``False``: aborted."""
        self.cache.end(rid, keep=upto)

    # -- hashes and prefetch -------------------------------------------------------------------

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        """See :class:`~kvlitmus.conformance.ports.Hashes`."""
        return self.hashes(self.units_of(key), page_size, key.namespace, prior, bigram=key.bigram)

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        """See :class:`~kvlitmus.conformance.ports.Prefetch`."""
        return self.planner.plan_prefetch(ask, host)

    # -- arrays as callers have them ------------------------------------------------------------

    def raw_array(self, values: Sequence[int], form: str) -> object:
        """See :class:`~kvlitmus.conformance.ports.Raw`: numpy's, of the tree's own 32 bits; narrow ones of 16 where the
        values fit.
        """
        import numpy as np

        whole = np.array(values, np.int32)
        if form == "narrow" and not np.array_equal(whole.astype(np.int16), whole):
            return None
        made: dict[str, Callable[[], object]] = {
            "own": lambda: whole,
            "narrow": lambda: whole.astype(np.int16),
            "floats": lambda: whole.astype(np.float64),
            "flags": lambda: whole.astype(np.bool_),
            "rows": lambda: whole[None],
            "single": lambda: whole[0],
        }
        return made[form]()

    def raw_match(self, tokens: Any, namespace: str | None) -> Hit:
        """See :class:`~kvlitmus.conformance.ports.Raw`."""
        found = self.cache.match(tokens, namespace)
        return self.hit(found, SlotsOfPages(self.slots(found.pages), found.pages, self.size))

    def raw_insert(self, tokens: Any, slots: Any, namespace: str | None) -> Stored:
        """See :class:`~kvlitmus.conformance.ports.Raw`."""
        return self.inserted(key_length(len(tokens), self.config.bigram), tokens, slots, namespace)

    def raw_free(self, slots: Any) -> None:
        """See :class:`~kvlitmus.conformance.ports.Raw`."""
        self.cache.free(slots)

    def raw_begin(self, rid: int, tokens: Any, namespace: str | None) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.RawRequests`."""
        return begun(self.cache.begin(rid, tokens, namespace))

    # -- observation ---------------------------------------------------------------------------

    def sizes(self) -> Sizes:
        """See :class:`~kvlitmus.conformance.ports.Counters`."""
        return Sizes(*self.cache.sizes())

    def events(self) -> Sequence[Event]:
        """See :class:`~kvlitmus.spec.interface.tiers.Events`."""
        return [
            Event(
                told.what,
                told.tier,
                told.page or None,
                told.parent,
                () if told.units is None else self.plain(told.units),
                told.namespace,
            )
            for told in self.cache.events()
        ]

    def nodes(self) -> Sequence[Any]:
        """The nodes of the tree; raises ``AssertionError`` where its counters or links are wrong, if it is audited."""
        from kvlitmus.optimized.audit import audit
        from kvlitmus.optimized.view import nodes_of

        if self.audited:
            audit(self.cache.tree)
        return nodes_of(self.cache.tree)

    # -- slots and units -----------------------------------------------------------------------

    def slots(self, pages: Any) -> list[int]:
        """The slots of some pages."""
        found: list[int] = self.cache.pool.slots(pages).tolist()
        return found

    def units_of(self, key: Key) -> Any:
        """The units of a key as the cache has them; of as many bits as it takes."""
        import numpy as np

        from kvlitmus.optimized.hashing import pack_bigrams

        tokens = np.asarray(key.tokens, np.int64)
        return pack_bigrams(tokens) if key.bigram else tokens

    def plain(self, units: Any) -> tuple[Unit, ...]:
        """Units of the tree as the suite has them."""
        numbers = units.tolist()
        if not self.config.bigram:
            return tuple(numbers)
        return tuple([(number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF) for number in numbers])


class SlotsOfPages(list[int]):
    """The slots of an array of page numbers; what is written into it is written into the array."""

    def __init__(self, slots: Sequence[int], pages: Any, size: int) -> None:
        super().__init__(slots)
        self.pages = pages
        self.size = size

    def __setitem__(self, at: Any, slot: Any) -> None:
        super().__setitem__(at, slot)
        self.pages[at // self.size] = slot // self.size


class OptimizedCache(OptimizedPorts):
    """One optimized cache without a host behind the ports."""

    def flush(self) -> bool:
        """See :class:`~kvlitmus.conformance.ports.Flush`: it never refuses."""
        self.cache.flush()
        return True

    def view(self) -> View:
        """See :class:`~kvlitmus.conformance.ports.Inspect`."""
        seen = [
            NodeView(
                node.parent,
                node.namespace,
                self.plain(node.units),
                tuple(self.slots(node.pages)),
                node.locks,
                node.hits,
                node.priority,
            )
            for node in self.nodes()
        ]
        return View(self.free_pages(), seen)

    def free_pages(self) -> Sequence[int]:
        """The pages that could be handed out now."""
        free: list[int] = self.cache.pool.free_pages().tolist()
        return free


def listed(slots: Any) -> list[int] | None:
    """An array as a list."""
    return None if slots is None else slots.tolist()


def begun(running: Any) -> Begun | None:
    """A request that has begun, as the port tells it."""
    return None if running is None else Begun(running.row.tolist(), running.cached)
