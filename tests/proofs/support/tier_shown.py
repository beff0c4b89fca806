"""What a snapshot would show of the reference's hierarchy, and what a judge would remember who has followed it.

Each page is shown in a node of its own: so nothing counts as protected because a neighbour in its node is.  A judge
remembers jobs, prefetches and what was told; the rest of the state is the same for both.
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.reference.prefix import event
from kvlitmus.reference.prefix.choose import free_pages, sizes
from kvlitmus.reference.prefix.hierarchy import DEVICE, HOST, Listed, alone_of, jobs_of, moving, occupied, works_of
from kvlitmus.spec.interface.tiers import BACKUP, LOAD, Event, Job
from kvlitmus.spec.prefix.own_work import Operation
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.seen import Held, Named, NodeInfo, NodeSeen, TierNodeSeen, TierSeen
from kvlitmus.spec.prefix.state import EventMirror, State
from kvlitmus.spec.prefix.work import Prefetched, Prefetches, Stored, Work
from kvlitmus.spec.words.prefetch_life import ANSWERED, ENDED, REVOKED
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key, Name, PageNo, Slot, page_slots

Contents = dict[str, dict[PageNo, Name]]
NOTHING = Name(-1)
"""What a slot holds that nobody has written."""


class Paged(NamedTuple):
    """One page of a key: the key that ends with it, and its units with their names."""

    key: Key
    units: tuple[int, ...]
    named: Named


class Shower:
    """Reads hierarchies whose pages are those of these keys."""

    def __init__(self, setting: Setting, keys: tuple[tuple[int, ...], ...]) -> None:
        table, page_size = setting.names, setting.size
        self.setting, self.size, self.root = setting, page_size, table.root(None)
        self.pages: dict[Name, Paged] = {}
        for key in keys:
            names = table.of(None, key)
            for end in range(page_size, len(key) + 1, page_size):
                own, start = names[end - 1], end - page_size
                named = Named(names[start:end], (own,), {own: names[start:end]})
                self.pages[own] = Paged(Key(None, key[:end]), key[start:end], named)
        self.stored = Stored(units_of={name: page.named.units for name, page in self.pages.items()})
        self.slots: dict[PageNo, tuple[Slot, ...]] = {}

    # -- what is seen --------------------------------------------------------------------------

    def shown(self, now: State, contents: Contents) -> TierSeen:
        """What a snapshot shows of it."""
        seen = TierSeen()
        self.show_tree(seen, now)
        seen.seen, seen.free = True, free_pages(now, self.setting)
        seen.listed = tuple(seen.free)
        seen.sizes = sizes(now, self.setting)
        seen.host_free = tuple(works_of(now).free)
        seen.moving = list(moving(now))
        seen.jobs = self.jobs(now)
        seen.host_available = len(works_of(now).free) * self.size
        seen.occupied = occupied(now)
        seen.failing = frozenset(works_of(now).failing)
        seen.odd = (
            *self.odd(HOST, seen.hosted, contents[HOST]),
            *self.odd(DEVICE, seen.cached, contents[DEVICE]),
        )
        return seen

    def show_tree(self, seen: TierSeen, now: State) -> None:
        """Add what is on which tier."""
        resident, alone, copies = now.device.pages, alone_of(now), now.host.pages
        number: dict[Name, int] = {}
        for pages in (resident, alone):
            for name, page in pages.items():
                over, copy = page.parent, copies.get(name)
                seen.parent_names[name] = over
                there = host = None
                if pages is resident:
                    there = self.slots_of(page.page)
                    items = {name: page.page}
                    info = NodeInfo((name,), (page.page,), over, name, "", (), items)
                    seen.nodes.append(NodeSeen(info, number.get(over, -1), page.locks, page.hits, page.priority))
                    number[name] = len(number)
                    seen.cached[name] = page.page
                    seen.cached_listed.append(page.page)
                    if over != self.root:
                        seen.parents.add(over)
                        if over not in resident:
                            seen.gaps.append(name)
                elif copy is None:
                    seen.homeless.append(name)
                if copy is not None:
                    host = self.slots_of(copy.page)
                    seen.hosted[name] = copy.page
                    seen.host_listed.append(copy.page)
                pins = copy.locks if copy is not None else 0
                named = self.pages[name].named
                if pins:
                    seen.pinned[named.pages] = pins
                seen.tier_nodes.append(TierNodeSeen(named, over, there, host, pins, page.hits, page.priority))
        parents = seen.parent_names
        seen.homeless += [name for name, over in parents.items() if over not in parents and over != self.root]
        seen.homeless += [name for name in copies if name not in parents]

    def slots_of(self, page: PageNo) -> tuple[Slot, ...]:
        """The slots of a page."""
        found = self.slots.get(page)
        if found is None:
            found = self.slots[page] = page_slots(page, self.size)
        return found

    def odd(self, tier: str, places: dict[Name, PageNo], contents: dict[PageNo, Name]) -> list[Held]:
        """The pages of a tier that don't hold what belongs there."""
        return [
            Held(name, tier, self.slots_of(page), (contents.get(page, NOTHING),))
            for name, page in places.items()
            if contents.get(page) != name
        ]

    def jobs(self, now: State) -> dict[int, Job]:
        """The work under way, as it is listed."""
        return {one.id: self.job(one) for one in jobs_of(now)}

    def job(self, one: Listed) -> Job:
        """One job."""
        key = self.pages[one.names[-1]].key
        start, done = len(key.tokens) - len(one.names) * self.size, one.completed * self.size
        return Job(one.id, one.kind, key, start, one.rid, done, one.landed, not one.landed, one.failed)

    # -- what is known -------------------------------------------------------------------------

    def known(self, now: State, seen: TierSeen) -> State:
        """What is known of it by whoever has judged every step so far."""
        tiers = tiers_of(now)._replace(
            work=self.work(now, seen),
            prefetches=self.prefetches(now, seen),
            stored=self.stored,
            fault=works_of(now).fault,
            failing=seen.failing,
        )
        roots = {name: self.setting.names.root(page.key.namespace) for name, page in self.pages.items()}
        there, below = dict.fromkeys(now.device.pages, 1), dict.fromkeys(event.on_host(now), 1)
        told = EventMirror(there, below, {name: name for name in self.pages}, roots)
        return now._replace(tiers=tiers, told=told)

    def work(self, now: State, seen: TierSeen) -> dict[int, Work]:
        """The jobs, and the host copies that they read from."""
        jobs, work = seen.jobs, dict[int, Work]()

        def read(names: tuple[Name, ...]) -> dict[Name, PageNo]:
            return {name: seen.hosted[name] for name in names if name in seen.hosted}

        for one in works_of(now).transfers:
            sources = {} if one.kind == BACKUP else read(one.names)
            landed, layers = one.landed and not one.failed, one.done if one.kind == LOAD else 0
            work[one.id] = Work(jobs[one.id], one.names, one.names[-1], sources, landed, one.failed, layers)
        for own in works_of(now).operations:
            if own.job in jobs:
                work[own.job] = Work(jobs[own.job], own.names, own.names[-1], {}, jobs[own.job].landed)
        return work

    def prefetches(self, now: State, seen: TierSeen) -> Prefetches:
        """The prefetches.

        Those that have ended count as having done so before the last tick: a poll may not put their requests off any
        more.
        """
        numbered = dict(enumerate(works_of(now).operations, 1))
        running = {int(one.rid): number for number, one in numbered.items() if one.live}
        return Prefetches(
            {number: self.prefetched(one) for number, one in numbered.items()},
            running,
            {one.job: number for number, one in numbered.items() if one.job in seen.jobs},
            frozenset(running),
            serial=len(numbered),
        )

    def prefetched(self, one: Operation) -> Prefetched:
        """One prefetch."""
        size = self.size
        hit = None if one.hit is None else one.hit * size
        return Prefetched(
            one.rid,
            one.names,
            one.asked,
            None if one.anchor == self.root else one.anchor,
            one.since or 0.0,
            one.since,
            hit,
            one.completed * size,
            one.completed * size,
            in_storage(one.names[: one.hit or 0]),
            one.stage == ENDED,
            one.stage in (ANSWERED, REVOKED),
            not one.live,
        )

    # -- what is told --------------------------------------------------------------------------

    def events(self, before: State, after: State) -> list[Event]:
        """What the world is told of a step; pages are called by their names."""
        return [self.event(told) for told in event.changes(before, after)]

    def event(self, told: event.PageChange) -> Event:
        """One event, as the port tells it."""
        if told.what == event.REMOVED:
            return Event(told.what, told.tier, told.name)
        parent = None if told.parent == self.root else told.parent
        return Event(told.what, told.tier, told.name, parent, self.pages[told.name].units, None)


def in_storage(names: tuple[Name, ...]) -> tuple[str, ...]:
    """What pages are called in storage."""
    return tuple(map(str, names))
