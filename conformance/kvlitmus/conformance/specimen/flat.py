"""The flat specimen: pool, tree and requests behind the ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvlitmus.conformance.ports.arrays import PlainArrays
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.prefix.tree import CLEARED, Node
from kvlitmus.spec.interface import Begun, Event, Hit, NodeView, Sizes, Stored, View
from kvlitmus.spec.interface.plans import HostPool as PlannedPool
from kvlitmus.spec.interface.plans import PrefetchAsk, PrefetchPlan
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.limits import beyond_vocabulary
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import Key


@dataclass(slots=True, eq=False, repr=False)
class Receipt:
    """What a lock is worth: one unlock of one path."""

    node: Node | None


class Specimen(PlainArrays):
    """One specimen: pool, tree and requests behind the ports."""

    def __init__(self, config: Config, parts: Parts, profile: Profile = PROFILE) -> None:
        self.config = config
        self.parts = parts
        self.profile = profile
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        config = self.config
        reserved = self.profile.reserved if config.pool == "device" else 0
        told = CLEARED if hasattr(self, "tree") else []
        self.pool = self.parts.pool(config.pages, config.page_size, reserved)
        self.tree = self.parts.tree(config.page_size, config.policy, self.pool.give_back)
        self.tree.hit_counts = self.profile.hit_counts
        self.tree.told += told
        self.requests = self.parts.requests(self.pool, self.tree)
        self.hasher = self.parts.hashing()
        self.planner = self.parts.prefetch()

    # -- pool ----------------------------------------------------------------------------------

    def alloc(self, n: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        return self.pool.alloc(n)

    def free(self, slots: Sequence[int]) -> None:
        """See :class:`~kvlitmus.conformance.ports.Pool`; what the tree has is nobody's to free."""
        if not self.tree.pages_cached().isdisjoint(slot // self.pool.page_size for slot in slots):
            raise ValueError(f"a page of {list(slots)} is cached")
        self.pool.free(slots)

    def available(self) -> int:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        return self.pool.available()

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Extend`."""
        return self.pool.alloc_extend(before, after, last)

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Extend`."""
        return self.pool.alloc_decode(after, last)

    def free_group_begin(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.FreeGroup`."""
        self.pool.free_group_begin()

    def free_group_end(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.FreeGroup`."""
        self.pool.free_group_end()

    # -- tree ----------------------------------------------------------------------------------

    def match(self, key: Key) -> Hit:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        pages, node = self.tree.match(key.namespace, key.units)
        return Hit(len(pages) * self.pool.page_size, self.pool.slots(pages), node)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        size = self.pool.page_size
        if why := beyond_vocabulary(self.profile, key.tokens):
            raise ValueError(why)
        units = key.units
        end = len(units) - len(units) % size
        pages = self.offered(key, slots[:end], end)
        already, _ = self.tree.insert(key.namespace, units[:end], pages, priority, chunked)
        return Stored(already * size)

    def offered(self, key: Key, slots: Sequence[int], end: int) -> list[int]:
        """The pages offered for a key of so many units; they must be the caller's, or those that the tree has."""
        pages = self.pool.whole_pages(slots)
        if len(slots) < end or len(set(pages)) < len(pages):
            raise ValueError(f"expected {end} slots of pages named once (got {list(slots)})")
        if any(self.pool.is_free[page] for page in pages):
            raise ValueError(f"a page of {list(slots)} is free")
        cached = self.tree.pages_cached()
        if not cached.isdisjoint(pages):
            own = self.tree.resident(key.namespace, key.units)
            if any(page in cached and (at >= len(own) or own[at] != page) for at, page in enumerate(pages)):
                raise ValueError(f"a page of {list(slots)} is cached elsewhere")
        return pages

    def flush(self) -> bool:
        """See :class:`~kvlitmus.conformance.ports.Flush`."""
        return self.requests.flush()

    def lock(self, handle: object) -> object:
        """See :class:`~kvlitmus.conformance.ports.Locks`."""
        assert isinstance(handle, Node)
        self.tree.lock(handle)
        return Receipt(handle)

    def unlock(self, receipt: object) -> None:
        """See :class:`~kvlitmus.conformance.ports.Locks`."""
        assert isinstance(receipt, Receipt)
        if receipt.node is None:
            raise ValueError("this receipt was given back already")
        self.tree.unlock(receipt.node)
        receipt.node = None

    def evict(self, n: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.Evict`."""
        return self.tree.evict(n)

    # -- requests ------------------------------------------------------------------------------

    def begin(self, rid: int, key: Key) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        running = self.requests.begin(rid, key)
        return None if running is None else Begun(tuple(running.row), running.cached)

    def grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        return self.requests.grow(rid, tokens)

    def take_back(self, rid: int, n: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.TakeBack`."""
        return self.requests.take_back(rid, n) * self.pool.page_size

    def fork(self, rid: int, of: int) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Fork`."""
        running = self.requests.fork(rid, of)
        return None if running is None else Begun(tuple(running.row), running.cached)

    def retract(self, rid: int) -> bool:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        return self.requests.retract(rid)

    def resume(self, rid: int) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        running = self.requests.resume(rid)
        return None if running is None else Begun(tuple(running.row), running.cached)

    def discard(self, rid: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        self.requests.discard(rid)

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        running = self.requests.publish(rid, chunked)
        return Begun(tuple(running.row), running.cached)

    def end(self, rid: int, *, keep: bool) -> None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        self.requests.end(rid, keep)

    def publish_upto(self, rid: int, upto: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        running = self.requests.publish_upto(rid, upto, chunked)
        return Begun(tuple(running.row), running.cached)

    def end_upto(self, rid: int, upto: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        self.requests.end_upto(rid, upto)

    # -- hashes and prefetch -------------------------------------------------------------------

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        """See :class:`~kvlitmus.conformance.ports.Hashes`."""
        return self.hasher.page_hashes(key, page_size, prior)

    def plan_prefetch(self, ask: PrefetchAsk, host: PlannedPool) -> PrefetchPlan:
        """See :class:`~kvlitmus.conformance.ports.Prefetch`."""
        return self.planner.plan_prefetch(ask, host)

    # -- observation ---------------------------------------------------------------------------

    def events(self) -> Sequence[Event]:
        """See :class:`~kvlitmus.spec.interface.tiers.Events`."""
        told, self.tree.told = self.tree.told, []
        return [Event(*entry) for entry in told]

    def sizes(self) -> Sizes:
        """See :class:`~kvlitmus.conformance.ports.Counters`."""
        return Sizes(self.tree.evictable, self.tree.protected)

    def view(self) -> View:
        """See :class:`~kvlitmus.conformance.ports.Inspect`."""
        nodes: list[NodeView] = []
        slots = self.pool.slots
        for namespace, root in self.tree.roots.items():
            stack = [(-1, child) for child in root.children.values()]
            while stack:
                parent, node = stack.pop()
                nodes.append(
                    NodeView(
                        parent, namespace, node.key, tuple(slots(node.pages)), node.locks, node.hits, node.priority
                    )
                )
                if node.children:
                    here = len(nodes) - 1
                    stack += [(here, child) for child in node.children.values()]
        return View(tuple(self.pool.free_list), nodes)
