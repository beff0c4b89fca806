"""The reference as a target: the frozen model behind the mutable ports.

Targets:

``target`` (also the module itself)
    evicts page by page.
``node_target``
    evicts whole nodes.
``capped_target``
    a match leaves at least one unit of the key to compute.
``late_target``
    a prefetch takes host memory when storage has told how much it has, and its time begins at the first poll.
``filling_target``
    what a prefetch reads fills pages that are on the device alone, a page that is due for backup takes its ancestors
    along, an insert that brings a page back counts as a hit, and short loads are declined.

With a host tier below (a configuration says so) the adapter is
:class:`~kvlitmus.conformance.adapters.reference.tiers.TieredReference`.

An adapter keeps one :class:`~kvlitmus.reference.cache.Cache` and replaces it with each call.
What it adds to the reference is names for keys, numbers for receipts, and :attr:`~ReferenceCache.choice`
for tests that let the reference choose other pages or victims.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Sizes, Stored, View
from kvlitmus.conformance.ports.tiers import Event
from kvlitmus.reference import cache as caches
from kvlitmus.reference import event
from kvlitmus.reference import pool as pools
from kvlitmus.reference import request as requests
from kvlitmus.reference import tree as trees
from kvlitmus.reference.cache import NO_CHOICE, Cache, Settings
from kvlitmus.reference.hashing import page_hashes
from kvlitmus.reference.prefetch import Answer, Call, converse, plan_prefetch
from kvlitmus.reference.tree import Eviction, Tree
from kvlitmus.spec.names import Names, page_names
from kvlitmus.spec.prefetch_plan import HostPool, PrefetchAsk, PrefetchPlan
from kvlitmus.spec.units import Key, Name, PageNo, Pages, RequestId, Slot, Tokens

PROFILE = Profile(misuse="reject", hash_scheme="kvlitmus-2")


class ReferencePorts:
    """The ports of the reference, with a host below the device or without; what shows it whole is its heirs' affair.

    ``choice`` is handed to every transition that has one; tests set it for a single call.
    """

    cache: Cache

    def __init__(self, config: Config, profile: Profile, names: Names | None = None) -> None:
        self.config = config
        self.profile = profile
        self.size = config.page_size
        self.names = names or Names()
        self.choice = NO_CHOICE
        self.page_units: dict[Name, tuple[str | None, tuple[int | tuple[int, int], ...]]] = {}
        self.reset()

    def reset(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.Resettable`."""
        config = self.config
        reserved = self.profile.reserved if config.pool == "device" else 0
        self.cache = caches.empty_cache(config.pages, config.page_size, reserved=reserved, settings=self.settings())
        self.forget()

    def settings(self) -> Settings:
        """The legal choices that the profile and the configuration come to."""
        eviction = Eviction(self.config.policy, self.profile.evict_granularity)
        return Settings(eviction, self.profile.match_cap, self.profile.hit_counts)

    def forget(self) -> None:
        """No receipts and no requests."""
        self.receipts: dict[int, Name] = {}
        self.keys: dict[int, Key] = {}
        self.serial = 0

    # -- pool ----------------------------------------------------------------------------------

    def alloc(self, n: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        taken = caches.alloc(self.cache, Tokens(n), self.choice.pages)
        if taken is None:
            return None
        self.cache, pages = taken
        return pools.slots_of(pages, self.size)

    def free(self, slots: Sequence[int]) -> None:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        self.cache = caches.free(self.cache, pools.whole_pages([Slot(slot) for slot in slots], self.size))

    def available(self) -> int:
        """See :class:`~kvlitmus.conformance.ports.Pool`."""
        return pools.available(self.cache.pool)

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Extend`: for all requests or for none."""
        pool = self.cache.pool
        slots: list[int] = []
        for old, new, slot in zip(before, after, last, strict=True):
            extended = pools.extend(pool, old, new, slot, self.choice.pages)
            if extended is None:
                return None
            pool, further = extended
            slots += further
        self.cache = self.cache._replace(pool=pool)
        return slots

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Extend`."""
        return self.alloc_extend([length - 1 for length in after], after, last)

    def free_group_begin(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.FreeGroup`."""
        self.cache = self.cache._replace(pool=pools.open_group(self.cache.pool))

    def free_group_end(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.FreeGroup`."""
        self.cache = self.cache._replace(pool=pools.close_group(self.cache.pool))

    # -- tree ----------------------------------------------------------------------------------

    def named(self, key: Key) -> tuple[Name, tuple[Name, ...]]:
        """The root of the key's namespace, and the names of all prefixes of the key."""
        root = self.names.root(key.namespace)
        return root, self.names.extend(root, key.units)

    def match(self, key: Key) -> Hit:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        root, names = self.named(key)
        paged = page_names(names, self.size)
        self.cache, pages = caches.match(self.cache, paged, len(names))
        end = paged[len(pages) - 1] if pages else root
        return Hit(len(pages) * self.size, pools.slots_of(pages, self.size), end)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        root, names = self.named(key)
        paged = page_names(names, self.size)
        offered = pools.whole_pages([Slot(slot) for slot in slots[: len(paged) * self.size]], self.size)
        self.cache, already, vain = caches.insert(
            self.cache,
            root,
            paged,
            offered,
            protected=Pages(protected // self.size),
            priority=priority,
            chunked=chunked,
        )
        return Stored(already * self.size, pools.slots_of(vain, self.size))

    def lock(self, handle: object) -> object:
        """See :class:`~kvlitmus.conformance.ports.Locks`: a handle is the name of the last page of the match."""
        assert isinstance(handle, int)
        self.cache = caches.lock(self.cache, Name(handle))
        self.serial += 1
        self.receipts[self.serial] = Name(handle)
        return self.serial

    def unlock(self, receipt: object) -> None:
        """See :class:`~kvlitmus.conformance.ports.Locks`; a receipt that was given back already is refused."""
        assert isinstance(receipt, int)
        if receipt not in self.receipts:
            raise ValueError(f"receipt {receipt} was given back already", receipt)
        self.cache = caches.unlock(self.cache, self.receipts.pop(receipt))

    def evict(self, n: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.Evict`."""
        self.cache, freed = caches.evict(self.cache, Tokens(n), self.choice.victims)
        return freed

    # -- requests ------------------------------------------------------------------------------

    def begin(self, rid: int, key: Key) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        root, names = self.named(key)
        self.cache, request = requests.begin(self.cache, RequestId(rid), root, names, len(key.tokens), self.choice)
        if request is None:
            return None
        self.keys[rid] = key
        return Begun(request.row, request.cached)

    def grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        key = self.keys[rid]._replace(tokens=self.keys[rid].tokens + tuple(tokens))
        _, names = self.named(key)
        self.cache, new = requests.grow(self.cache, RequestId(rid), names, len(key.tokens), self.choice)
        if new is not None:
            self.keys[rid] = key
        return new

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        self.cache, request = requests.publish(self.cache, RequestId(rid), chunked=chunked)
        return Begun(request.row, request.cached)

    def end(self, rid: int, *, keep: bool) -> None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        self.cache = requests.end(self.cache, RequestId(rid), keep=keep)
        del self.keys[rid]

    def publish_upto(self, rid: int, upto: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        part = Tokens(upto)
        self.cache, request = requests.publish(self.cache, RequestId(rid), chunked=chunked, upto=part)
        return Begun(request.row, request.cached)

    def end_upto(self, rid: int, upto: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        self.cache = requests.end(self.cache, RequestId(rid), keep=True, upto=Tokens(upto))
        del self.keys[rid]

    # -- hashes and prefetch -------------------------------------------------------------------

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        """See :func:`kvlitmus.reference.hashing.page_hashes`."""
        return page_hashes(key, page_size, prior)

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        """See :func:`kvlitmus.reference.prefetch.plan_prefetch`; here its calls are made."""

        def reply(call: Call) -> Answer:
            method = getattr(host, call.name)
            answer: Answer = method(call.amount) if call.name in ("alloc", "evict") else method()
            return answer

        return converse(plan_prefetch(ask), reply)

    # -- observation ---------------------------------------------------------------------------

    def sizes(self) -> Sizes:
        """See :class:`~kvlitmus.conformance.ports.Counters`."""
        evictable, protected = trees.sizes(self.cache.tree)
        return Sizes(evictable * self.size, protected * self.size)

    def units_of(self, name: Name) -> tuple[str | None, tuple[int | tuple[int, int], ...]]:
        """The namespace of a page, and its own units."""
        found = self.page_units.get(name)
        if found is None:
            namespace, units = self.names.prefix(name)
            found = self.page_units[name] = namespace, units[-self.size :]
        return found


class ReferenceCache(ReferencePorts):
    """One reference cache without a host behind the ports."""

    told: Tree | None = None
    """The tree as it was when events were last asked for."""

    def reset(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.Resettable`: those who listen start over, too."""
        super().reset()
        self.cleared = self.told is not None
        self.told = self.cache.tree

    def events(self) -> Sequence[Event]:
        """See :class:`~kvlitmus.conformance.ports.tiers.Events`: a page goes by its name."""
        assert self.told is not None
        first = [Event("cleared")] if self.cleared else []
        changes = event.cached_changes(self.told, self.cache.tree)
        self.cleared, self.told = False, self.cache.tree
        return first + [self.event(told) for told in changes]

    def event(self, told: event.Told) -> Event:
        """An event as the port tells it."""
        if told.what == event.REMOVED:
            return Event(told.what, told.tier, told.name)
        namespace, units = self.units_of(told.name)
        parent = None if told.parent == self.names.root(namespace) else told.parent
        return Event(told.what, told.tier, told.name, parent, units, namespace)

    def view(self) -> View:
        """See :class:`~kvlitmus.conformance.ports.Inspect`: a page that is marked begins a node."""
        runs: list[list[Name]] = []
        node_of: dict[Name, int] = {}
        parents: list[int] = []
        for name, page in self.cache.tree.pages.items():
            above = node_of.get(page.parent, -1)
            if page.first or above < 0:
                node_of[name] = len(runs)
                runs.append([name])
                parents.append(above)
            else:
                node_of[name] = above
                runs[above].append(name)
        return View(sorted(self.cache.pool.free), [self.node(*node) for node in zip(parents, runs, strict=True)])

    def node(self, parent: int, run: Sequence[Name]) -> NodeView:
        """One node as the suite sees it."""
        pages = self.cache.tree.pages
        namespace, _ = self.units_of(run[0])
        units = tuple(unit for name in run for unit in self.units_of(name)[1])
        slots = pools.slots_of([PageNo(pages[name].page) for name in run], self.size)
        first = pages[run[0]]
        return NodeView(parent, namespace, units, slots, first.locks, first.hits, first.priority)
