"""Observation of a hierarchical cache: both tiers, what is in flight, and the jobs.

What is on the device is read as :mod:`kvlitmus.conformance.checker.observation` reads a flat cache, so that
all rules of flat caches hold for it; the rest is added here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kvlitmus.conformance.checker.observation import MAX_NUMBER, PLAIN, Observer
from kvlitmus.conformance.ports import NodeView, View
from kvlitmus.conformance.support.integers import integer, is_integer
from kvlitmus.conformance.support.text import shown, type_name
from kvlitmus.spec.interface import ORPHAN
from kvlitmus.spec.interface.tiers import JOB_KINDS, Job
from kvlitmus.spec.names import Names
from kvlitmus.spec.seen import Named, TierNodeSeen, TierSeen
from kvlitmus.spec.units import Key, Name, PageNo

MANY = 200_000
"""Maximum number of nodes that are remembered by content."""


PLACES = frozenset({tuple, type(None)})
"""Types of where nodes are, in most caches."""


class TierObserver(Observer):
    """Reads snapshots of hierarchical caches."""

    def __init__(self, names: Names, page_size: int, most: int = 100_000) -> None:
        super().__init__(names, page_size, most)
        self.named: dict[Any, Named] = {}
        self.checked: set[Any] = set()

    def read_tiers(self, available: int | None, sizes: Any, view: Any, jobs: Any) -> TierSeen:
        """What was seen; raises when the form is not the one that the port promises."""
        free, nodes, host_free, moving = view
        rows = self.bounded(nodes, "the list of nodes")
        seen = TierSeen()
        resident: list[NodeView] = []
        places: list[int] = []
        for row in rows:
            parent, namespace, units, slots, host, locks, hits, priority, pins = row
            if not {type(parent), type(locks), type(hits), type(priority), type(pins)} <= PLAIN:
                parent, locks, hits, priority = self.numbers(parent, locks, hits, priority)
                pins = self.pinned(pins)
            units, slots, host = self.row_of(parent, len(places), units, slots, host)
            above = seen.tier_nodes[parent] if parent >= 0 else None
            if parent == ORPHAN:
                before = self.names.lost(namespace)
            else:
                before = self.names.root(namespace) if above is None else (above.named.units or (above.before,))[-1]
            named = self.name_units(before, units)
            seen.tier_nodes.append(TierNodeSeen(named, before, slots, host, pins, hits, priority))
            over = before
            for name in named.pages:
                seen.parent_names[name] = over
                over = name
            if host is not None:
                self.place(seen, named, host)
            if slots is None:
                places.append(-1)
                if host is None or parent == ORPHAN:
                    seen.homeless.append(named.pages[0] if named.pages else before)
            elif parent >= 0 and places[parent] < 0:
                places.append(-1)
                seen.gaps.append(named.pages[0] if named.pages else before)
            else:
                places.append(len(resident))
                resident.append(
                    NodeView(places[parent] if parent >= 0 else parent, namespace, units, slots, locks, hits, priority)
                )
        self.read_into(seen, available, sizes, View(free, resident))
        wrong = "the host's free list must consist of integers"
        host_listed = self.bounded(host_free, "the host's free list")
        seen.host_free = tuple(map(PageNo, self.plain(host_listed, wrong)))
        seen.moving = self.whole_pages(seen, self.bounded(moving, "what is moving"))
        seen.jobs = self.read_jobs(jobs)
        return seen

    def read_jobs_alone(self, available: int | None, sizes: Any, jobs: Any) -> TierSeen:
        """What was seen without a snapshot: counters, and the work under way."""
        seen = TierSeen()
        self.read_into(seen, available, sizes, None)
        seen.jobs = self.read_jobs(jobs)
        return seen

    def pinned(self, pins: Any) -> int | None:
        """How often a node is pinned."""
        if pins is not None and not is_integer(pins):
            raise ValueError(f"pins of a node must be an integer or None (got {type_name(pins)})")
        return None if pins is None else integer(pins)

    def row_of(
        self, parent: int, rows: int, units: Any, slots: Any, host: Any
    ) -> tuple[tuple[Any, ...], tuple[int, ...] | None, tuple[int, ...] | None]:
        """The units of one node and its places on both tiers, in plain integers; raises when the form is wrong."""
        if parent >= rows:
            raise ValueError("the parent of a node must be the number of a node before it, or -1")
        if type(units) is not tuple or len(units) > self.most:
            raise ValueError(f"the units of a node must be a tuple (got {type_name(units)})")
        if {type(slots), type(host)} <= PLACES and (len(units), slots, host) in self.checked:
            return self.named_by(units), slots, host
        slots, host = self.places_of("slots", slots, len(units)), self.places_of("host", host, len(units))
        if len(self.checked) > MANY:
            self.checked.clear()
        self.checked.add((len(units), slots, host))
        return self.named_by(units), slots, host

    def places_of(self, what: str, given: Any, many: int) -> tuple[int, ...] | None:
        """Where a node is on a tier, one slot for each of so many units; ``None`` where it isn't there."""
        if given is None:
            return None
        wrong = f"{what} of a node must be None or one integer per unit (got {shown(given)})"
        if type(given) is str:
            raise ValueError(wrong)
        places = tuple(self.plain(tuple(self.bounded(given, "a node")), wrong))
        if len(places) != many or any(not 0 <= slot < MAX_NUMBER for slot in places):
            raise ValueError(wrong)
        return places

    def name_units(self, before: Name, units: tuple[Any, ...]) -> Named:
        """Name the units of a node; remembered by content."""
        found = self.named.get((before, units))
        if found is None:
            size = self.size
            names = self.names.extend(before, units)
            pages = names[size - 1 :: size]
            parts = {name: names[at * size : at * size + size] for at, name in enumerate(pages)}
            if len(self.named) > MANY:
                self.named.clear()
            found = self.named[before, units] = Named(names, pages, parts)
        return found

    def place(self, seen: TierSeen, named: Named, host: tuple[int, ...]) -> None:
        """Note where the host copies of a node are."""
        size = self.size
        for at, name in enumerate(named.pages):
            page = PageNo(host[at * size] // size)
            if host[at * size : at * size + size] != tuple(range(page * size, page * size + size)):
                seen.host_broken.append(f"a page is on the host in slots {host[at * size : at * size + size]}")
            seen.hosted[name] = page
            seen.host_listed.append(page)

    def whole_pages(self, seen: TierSeen, slots: Sequence[Any]) -> list[PageNo]:
        """The pages that slots in flight make up, each as often as its slots are listed."""
        counted = Counter(self.plain(slots, "what is moving must consist of integers"))
        size = self.size
        pages: list[PageNo] = []
        for page in dict.fromkeys(slot // size for slot in counted):
            times = [counted[slot] for slot in range(page * size, page * size + size)]
            if min(times) != max(times):
                seen.host_broken.append(f"of host page {page} only some slots are in flight")
            pages += [PageNo(page)] * max(times)
        return pages

    def read_jobs(self, jobs: Any) -> dict[int, Job]:
        """The work under way, by its number."""
        found: dict[int, Job] = {}
        for row in self.bounded(jobs, "the list of jobs") if jobs is not None else ():
            given = Job(*row)
            key = Key(*given.key)
            numbers = (given.id, given.start, given.rid, given.done)
            if given.kind not in JOB_KINDS or not all(map(is_integer, numbers)):
                raise ValueError(f"this is no job: {shown(row)}")
            id, start, rid, done = map(integer, numbers)
            if not 0 <= start <= key.length or id in found:
                raise ValueError(f"this is no job, or one that is listed twice: {shown(row)}")
            found[id] = given._replace(id=id, key=key, start=start, rid=rid, done=done)
        return found
