"""The specimen's prefetches: from storage to the host, ahead of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvlitmus.conformance.specimen.prefix.hashing import PageHasher
from kvlitmus.conformance.specimen.prefix.host import STORED, Copier, HostPool
from kvlitmus.conformance.specimen.prefix.prefetch import PrefetchPlanner
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.works import (
    ENDED,
    FETCHING,
    QUERYING,
    REVOKED,
    Fetch,
    TieredNode,
    Work,
    WorkTable,
    cut,
)
from kvlitmus.spec.interface import PageStore
from kvlitmus.spec.interface.plans import PrefetchAsk
from kvlitmus.spec.words.units import Key


class FetchSettings(NamedTuple):
    """What decides whether a prefetch starts and when it need not be waited for."""

    threshold: int
    rate_limit: int
    stop: str
    timeout: tuple[float, float, float]
    timeout_basis: str = "hit"
    timeout_from: str = "submit"


class HostSide:
    """The host memory as a prefetch plan sees it (:class:`kvlitmus.spec.interface.plans.HostPool`)."""

    def __init__(self, tree: TierTree, host: HostPool, anchor: TieredNode) -> None:
        self.tree = tree
        self.host = host
        self.anchor = anchor

    def alloc(self, n: int) -> Sequence[int] | None:
        """``n`` slots, or ``None``."""
        return self.host.alloc(n)

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back."""
        self.host.free(slots)

    def available(self) -> int:
        """How many slots could be handed out now."""
        return self.host.available()

    def evict(self, n: int) -> int:
        """Make ``n`` more slots available, or as many as can be; returns how many."""
        return self.tree.evict_host(n)

    def protect(self) -> None:
        """Pin the anchor."""
        self.tree.pin(self.anchor)

    def release(self) -> None:
        """Unpin the anchor."""
        self.tree.unpin(self.anchor)


class Prefetcher:
    """All prefetches.

    Upkeep: ``ongoing`` has the one of each request; ``occupied`` is the sum of what they account for;
    each pins its anchor.  ``revoked``: prefetches that storage had too little for, until the next
    tick.  ``zombies``: prefetches that are over for the scheduler while a job is still under way.
    """

    def __init__(
        self,
        tree: TierTree,
        host: HostPool,
        copier: Copier,
        works: WorkTable,
        hasher: PageHasher,
        planner: PrefetchPlanner,
        settings: FetchSettings,
    ) -> None:
        self.tree = tree
        self.host = host
        self.copier = copier
        self.works = works
        self.hasher = hasher
        self.planner = planner
        self.settings = settings
        self.size = tree.page_size
        self.ongoing: dict[int, Fetch] = {}
        self.zombies: list[Fetch] = []
        self.revoked: list[Fetch] = []
        self.loaded: dict[int, int] = {}
        self.occupied = 0
        self.now = 0.0

    # -- submission ----------------------------------------------------------------------------

    def start(self, rid: int, key: Key, storage_on: bool) -> tuple[bool, int, int, int]:
        """Begin to read what follows the known prefix of a key.

        Returns whether, how long that prefix is, how much will be read, and where the anchor ends.
        """
        if rid in self.ongoing or not storage_on:
            return False, 0, 0, 0
        units = key.units
        _, node, behind = self.tree.reach(key.namespace, units)
        last = behind[-1] if behind else node
        anchor = self.anchor(last)
        matched, depth = self.depth(last), self.depth(anchor)
        if not self.fits(matched, depth):
            return False, matched, 0, depth
        fetch = Fetch(rid, key, matched, anchor)
        if not self.reserve(fetch, len(units) - matched):
            return False, matched, 0, depth
        self.begin(fetch)
        return True, matched, fetch.asked, depth

    def begin(self, fetch: Fetch) -> None:
        """It has begun: count it, and ask storage."""
        self.occupied += fetch.accounted
        fetch.began = self.now if self.settings.timeout_from == "submit" else None
        self.ongoing[fetch.rid] = fetch
        work = self.works.add("query", cut(fetch.key, fetch.start + fetch.asked), fetch.start)
        work.rid, work.fetch = fetch.rid, fetch

    def depth(self, node: TieredNode) -> int:
        """Where a node ends, in units."""
        units = 0
        at: TieredNode | None = node
        while at is not None:
            units += len(at.key)
            at = at.parent
        return units

    def anchor(self, node: TieredNode) -> TieredNode:
        """The last node up to this one that has a host copy, or the root."""
        while node.parent is not None and not node.host:
            node = node.parent
        return node

    def fits(self, matched: int, depth: int) -> bool:
        """Whether what is read can be attached: the anchor ends where the known prefix ends."""
        return matched == depth

    def reserve(self, fetch: Fetch, length: int) -> bool:
        """Plan, and take memory; or leave nothing behind."""
        plan = self.planner.plan_prefetch(self.ask(length), HostSide(self.tree, self.host, fetch.anchor))
        if plan.refusal is not None:
            return False
        size = self.size
        fetch.pages = [slot // size for slot in plan.slots[::size]]
        fetch.start = fetch.matched + plan.key_start
        fetch.asked, fetch.accounted, fetch.hashed = plan.key_length, plan.accounted, plan.hashed_pages
        return True

    def ask(self, length: int) -> PrefetchAsk:
        """What the plan's gates look at."""
        settings = self.settings
        return PrefetchAsk(length, self.size, settings.threshold, True, self.occupied, settings.rate_limit)

    # -- jobs ----------------------------------------------------------------------------------

    def query(self, work: Work, store: PageStore) -> None:
        """Ask storage how much it has; go on with that, or give up."""
        fetch = work.fetch
        assert fetch is not None
        if fetch.over:
            self.bury(work, fetch)
            return
        names = self.names(fetch)
        hit = min(self.found(store, names), len(names)) * self.size
        if hit < max(self.settings.threshold, self.size):
            self.revoke(work, fetch)
        else:
            self.take_hit(work, fetch, names, hit)

    def names(self, fetch: Fetch) -> Sequence[str]:
        """What the pages that are to be read are called in storage."""
        first = fetch.start // self.size
        return self.hasher.page_hashes(fetch.key, self.size, None)[first : first + fetch.hashed]

    def found(self, store: PageStore, names: Sequence[str]) -> int:
        """How many of these pages storage has, from the first one on."""
        try:
            return store.exists(names)
        except Exception:  # noqa: BLE001  whatever storage raises, it told nothing
            return 0

    def revoke(self, work: Work, fetch: Fetch) -> None:
        """There is too little; the memory goes back, and the next tick does the rest."""
        fetch.stage = REVOKED
        self.host.let_go(fetch.pages)
        fetch.pages = []
        self.revoked.append(fetch)
        work.landed = True

    def take_hit(self, work: Work, fetch: Fetch, names: Sequence[str], hit: int) -> None:
        """Read what storage has; the memory for the rest goes back."""
        pages = hit // self.size
        self.host.let_go(fetch.pages[pages:])
        fetch.pages = fetch.pages[:pages]
        fetch.hit = hit
        fetch.stage = FETCHING
        self.works.remove(work)
        next_work = self.works.add("fetch", cut(fetch.key, fetch.start + hit), fetch.start)
        next_work.rid, next_work.fetch, next_work.names = fetch.rid, fetch, names[:pages]

    def read(self, work: Work, store: PageStore, pages: int | None) -> None:
        """Read page by page, at most ``pages``; the first one that doesn't come ends it."""
        fetch = work.fetch
        assert fetch is not None and fetch.hit is not None
        if fetch.over:
            self.bury(work, fetch)
            return
        while fetch.done < fetch.hit and pages != 0:
            at = fetch.done // self.size
            contents = self.contents(store, work.names[at])
            if contents is None:
                break
            self.copier.write(fetch.pages[at], contents)
            fetch.done = work.done = fetch.done + self.size
            pages = pages if pages is None else pages - 1
        if fetch.done == fetch.hit or pages != 0:
            self.end(work, fetch)

    def contents(self, store: PageStore, name: str) -> tuple[int, ...] | None:
        """A whole page, or ``None``."""
        try:
            contents = store.get(name)
        except Exception:  # noqa: BLE001  whatever storage raises, the page didn't come
            return None
        return contents if contents is not None and len(contents) >= self.size else None

    def end(self, work: Work, fetch: Fetch) -> None:
        """Nothing more will come; the memory for what didn't goes back."""
        done = fetch.done // self.size
        self.host.let_go(fetch.pages[done:])
        fetch.pages = fetch.pages[:done]
        fetch.stage = ENDED
        self.works.remove(work)

    def bury(self, work: Work, fetch: Fetch) -> None:
        """The scheduler has done with this prefetch: what its job still holds goes back."""
        self.host.let_go(fetch.pages)
        fetch.pages = []
        self.zombies.remove(fetch)
        self.works.remove(work)

    # -- the end -------------------------------------------------------------------------------

    def poll(self, rid: int) -> bool:
        """Whether the request need not wait; if so what has arrived is cached."""
        fetch = self.ongoing.get(rid)
        if fetch is None:
            return True
        if fetch.began is None:
            fetch.began = self.now
        if not self.may_stop(fetch):
            return False
        self.commit(fetch)
        return True

    def may_stop(self, fetch: Fetch) -> bool:
        """What the stop policy says."""
        stop = self.settings.stop
        if stop == "best_effort" or fetch.stage == ENDED:
            return True
        if stop == "wait_complete" or fetch.stage == REVOKED:
            return False
        assert fetch.began is not None
        return self.now - fetch.began > self.limit(fetch)

    def limit(self, fetch: Fetch) -> float:
        """How long a prefetch may take."""
        base, per, most = self.settings.timeout
        units = fetch.asked if self.settings.timeout_basis == "requested" else fetch.hit or 0
        limit = base + per * units / 1024
        return min(most, limit) if most else limit

    def commit(self, fetch: Fetch) -> None:
        """Cache what has arrived below the anchor; everything else goes back."""
        done = fetch.done // self.size
        arrived, fetch.pages = fetch.pages[:done], fetch.pages[done:]
        units = fetch.key.units[fetch.start : fetch.start + fetch.done]
        known, added = self.tree.insert_host(fetch.anchor, units, arrived) if arrived else (0, 0)
        self.host.give_back(arrived[:known])
        for page in arrived[known : known + added]:
            self.host.stored[page] = STORED
        self.host.let_go(arrived[known + added :])
        self.close(fetch)
        self.loaded[fetch.rid] = added * self.size

    def close(self, fetch: Fetch) -> None:
        """The scheduler has done with this prefetch."""
        del self.ongoing[fetch.rid]
        self.tree.unpin(fetch.anchor)
        self.occupied -= fetch.accounted
        if fetch.stage in (QUERYING, FETCHING):
            fetch.over = True
            self.zombies.append(fetch)

    def told(self, rid: int) -> int:
        """How many units a request's prefetch has added; told once."""
        return self.loaded.pop(rid, 0)

    def abandon(self, rid: int) -> None:
        """The request is gone: nothing is cached."""
        self.loaded.pop(rid, None)
        fetch = self.ongoing.get(rid)
        if fetch is None:
            return
        done = fetch.done // self.size
        self.host.let_go(fetch.pages[:done])
        fetch.pages = fetch.pages[done:]
        self.close(fetch)

    def drop_revoked(self) -> None:
        """Prefetches that were revoked since the last tick are gone."""
        for fetch in self.revoked:
            if self.ongoing.get(fetch.rid) is fetch:
                self.close(fetch)
        self.revoked.clear()
        for work in [work for work in self.works.works.values() if work.kind == "query" and work.landed]:
            self.works.remove(work)

    def detach(self) -> None:
        """Storage goes away: every prefetch ends at once."""
        for fetch in list(self.ongoing.values()):
            self.host.let_go(fetch.pages)
            fetch.pages = []
            self.close(fetch)
        for fetch in self.zombies:
            self.host.let_go(fetch.pages)
        self.zombies.clear()
        self.revoked.clear()
        for work in [work for work in self.works.works.values() if work.fetch is not None]:
            self.works.remove(work)

    def holding(self) -> list[int]:
        """The host pages that prefetches hold."""
        return [page for fetch in (*self.ongoing.values(), *self.zombies) for page in fetch.pages]
