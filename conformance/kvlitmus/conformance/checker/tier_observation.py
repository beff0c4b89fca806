"""Observation of a hierarchical cache: both tiers, what is in flight, and the jobs.

What is on the device is read as :mod:`kvlitmus.conformance.checker.observation` reads a flat cache, so that
all rules of flat caches hold for it; the rest is added here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.observation import MAX_NUMBER, Observer
from kvlitmus.conformance.support.bounds import MAX_COUNT
from kvlitmus.conformance.support.integers import EXACT, integer, is_integer, whether
from kvlitmus.conformance.support.text import shown, type_name
from kvlitmus.spec.interface import ORPHAN
from kvlitmus.spec.interface.tiers import JOB_KINDS, Job, TierNode
from kvlitmus.spec.prefix.seen import Named, NodeInfo, NodeSeen, TierNodeSeen, TierSeen
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.units import Key, Name, PageNo

MANY = 200_000
"""Maximum number of nodes that are remembered by content."""


FLAGS = frozenset({bool})
"""The type of what a job says of itself, in most caches."""

PLACES = frozenset({tuple, type(None)})
"""Types of where nodes are, in most caches."""

LED = frozenset({"steps", "host"})
"""What it takes to know anything of a hierarchy without a snapshot: its jobs are listed, and led on by the suite."""


class Content(NamedTuple):
    """What of a node stays as long as its units and its places do.

    ``named``: its names; ``slots``, ``host``: where it is on both tiers; ``above``: of each page the page (or root)
    before it; ``hosted``: where its pages are on the host; ``broken``: those that aren't whole pages there, in words;
    ``info``: the node as a flat cache has it, where it is on the device.
    """

    named: Named
    slots: tuple[int, ...] | None
    host: tuple[int, ...] | None
    above: dict[Name, Name]
    hosted: dict[Name, PageNo]
    broken: tuple[str, ...]
    info: NodeInfo | None


def share_nodes(last: TierSeen, seen: TierSeen) -> None:
    """What was read of the nodes at the look before holds for this one: nothing of it is changed any more."""
    seen.nodes, seen.cached, seen.cached_listed = last.nodes, last.cached, last.cached_listed
    seen.parents, seen.broken = last.parents, last.broken
    seen.tier_nodes, seen.pinned, seen.parent_names = last.tier_nodes, last.pinned, last.parent_names
    seen.hosted, seen.host_listed = last.hosted, last.host_listed
    seen.homeless, seen.gaps = last.homeless, last.gaps


class TierObserver(Observer):
    """Reads snapshots of hierarchical caches."""

    def __init__(self, names: Names, page_size: int, most: int = 100_000) -> None:
        super().__init__(names, page_size, most)
        self.contents: dict[Any, Content] = {}

    def read_tiers(self, available: int | None, sizes: Any, view: Any, jobs: Any) -> TierSeen:
        """What was seen; raises when the form is not the one that the port promises."""
        free, nodes, host_free, moving = view
        seen = TierSeen()
        rows, last = self.bounded(nodes, "the list of nodes"), self.last
        same = self.unchanged(rows)
        if same == len(rows) and isinstance(last, TierSeen) and len(last.tier_nodes) == same and not last.host_broken:
            share_nodes(last, seen)
        else:
            self.read_tier_nodes(seen, rows)
            self.check_form(seen)
        self.read_counters(seen, available, sizes)
        self.read_pool(seen, free)
        self.last = seen
        seen.host_free = self.pages(host_free, "the host's free list")
        seen.moving = self.whole_pages(seen, self.bounded(moving, "what is moving"))
        seen.jobs = self.read_jobs(jobs)
        return seen

    def unchanged(self, rows: Sequence[Any]) -> int:
        """How many rows, from the first one on, are those of the look before."""
        same = 0
        for row, known in zip(rows, self.rows, strict=False):
            if type(row) is not TierNode:
                break
            parent, _, units, slots, host, locks, hits, priority, pins = row
            if not (type(units) is tuple and type(slots) in PLACES and type(host) in PLACES):  # no array
                break
            if not (type(parent) is type(locks) is type(hits) is type(priority) is type(pins) is int and row == known):
                break
            same += 1
        return same

    def read_tier_nodes(self, seen: TierSeen, rows: Sequence[Any]) -> None:
        """Read the nodes of both tiers; those that are on the device as a flat cache's, too."""
        contents, tier_nodes, resident = self.contents, seen.tier_nodes, seen.nodes
        kept: list[tuple[Any, ...]] = []
        places: list[int] = []  # of each node, which one it is of those on the device
        ends: list[Name] = []
        roots = set()
        for parent, namespace, units, slots, host, locks, hits, priority, pins in rows:
            if not (type(parent) is type(locks) is type(hits) is type(priority) is type(pins) is int):
                parent, locks, hits, priority = self.numbers(parent, locks, hits, priority)
                pins = self.pinned(pins)
            if parent >= len(ends):
                raise ValueError("the parent of a node must be the number of a node before it, or -1")
            if type(units) is not tuple or len(units) > self.most:
                raise ValueError(f"the units of a node must be a tuple (got {type_name(units)})")
            if not {*map(type, units)} <= EXACT:
                units = self.named_by(units)
            if parent >= 0:
                before = ends[parent]
            else:
                before = self.names.lost(namespace) if parent == ORPHAN else self.names.root(namespace)
            whole = {type(slots), type(host)} <= PLACES
            content = contents.get((before, units, slots, host)) if whole else None
            if content is None:
                content = self.read_content(before, units, slots, host)
            named, slots, host, above, hosted, broken, info = content
            kept.append((parent, namespace, units, slots, host, locks, hits, priority, pins))
            ends.append(named.units[-1] if units else before)
            tier_nodes.append(TierNodeSeen(named, before, slots, host, pins, hits, priority))
            seen.parent_names.update(above)
            if pins:
                seen.pinned[named.pages] = pins
            if host is not None:
                seen.hosted.update(hosted)
                seen.host_listed += hosted.values()
                seen.host_broken += broken
            if info is None:
                places.append(-1)
                if host is None or parent == ORPHAN:
                    seen.homeless.append(named.pages[0] if named.pages else before)
            elif parent >= 0 and places[parent] < 0:
                places.append(-1)
                seen.gaps.append(named.pages[0] if named.pages else before)
            else:
                if parent < 0:
                    self.check_namespace(namespace)
                    if parent != ORPHAN:
                        roots.add(before)
                places.append(len(resident))
                resident.append(NodeSeen(info, places[parent] if parent >= 0 else parent, locks, hits, priority))
                seen.cached.update(info.items)
                seen.cached_listed += info.pages
                seen.parents.add(before)
        seen.parents -= roots
        self.rows = kept

    def read_content(self, before: Name, units: tuple[Any, ...], slots: Any, host: Any) -> Content:
        """What of a node stays as long as its units and its places do; raises when their form is wrong."""
        slots, host = self.places_of("slots", slots, len(units)), self.places_of("host", host, len(units))
        units = self.named_by(units)
        size = self.size
        names = self.names.extend(before, units)
        pages = names[size - 1 :: size]
        named = Named(names, pages, {name: names[at * size : at * size + size] for at, name in enumerate(pages)})
        above = dict(zip(pages, (before, *pages), strict=False))
        hosted: dict[Name, PageNo] = {}
        broken: list[str] = []
        for at, name in enumerate(pages if host is not None else ()):
            assert host is not None
            part = host[at * size : at * size + size]
            page = hosted[name] = PageNo(part[0] // size)
            if part != tuple(range(page * size, page * size + size)):
                broken.append(f"a page is on the host in slots {part}")
        info = None if slots is None else self.name_node(before, units, slots)[1]
        if len(self.contents) > MANY:
            self.contents.clear()
        found = Content(named, slots, host, above, hosted, tuple(broken), info)
        self.contents[before, units, slots, host] = found
        return found

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

    def whole_pages(self, seen: TierSeen, slots: Sequence[Any]) -> list[PageNo]:
        """The pages that slots in flight make up, each as often as its slots are listed."""
        if not slots:
            return []
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
            given = row if type(row) is Job else Job(*self.bounded(row, "a job"))
            numbers, flags = (given.id, given.start, given.rid, given.done), (given.landed, given.ready, given.failed)
            plain = {*map(type, numbers)} <= EXACT and {*map(type, flags)} <= FLAGS
            if type(given.kind) is not str or given.kind not in JOB_KINDS or not all(map(is_integer, numbers)):
                raise ValueError(f"this is no job: {shown(row)}")
            key = self.key_of(given.key)
            id, start, rid, done = numbers if plain else map(integer, numbers)
            if not (0 <= start <= key.length and 0 <= done <= MAX_COUNT) or id in found:
                raise ValueError(f"this is no job, or one that is listed twice: {shown(row)}")
            if not plain or key is not given.key:
                given = Job(id, given.kind, key, start, rid, done, *map(whether, flags))
            found[id] = given
        return found

    def key_of(self, given: Any) -> Key:
        """A key of plain values, the very one where it is that already."""
        namespace, tokens, bigram = given if type(given) is Key else self.bounded(given, "a key")
        self.check_namespace(namespace)
        if type(given) is Key and type(tokens) is tuple and type(bigram) is bool and {*map(type, tokens)} <= EXACT:
            return given
        return Key(
            namespace, tuple(self.plain(self.bounded(tokens, "a key"), "tokens must be integers")), whether(bigram)
        )


def begun(at: int, before: Tiers | None, then: Tiers | None) -> dict[int, str]:
    """Which copies a call has begun, by its number, for its text: under way they protect what they copy."""
    if before is None or then is None or before.work.keys() >= then.work.keys():
        return {}
    new = [one.job for id, one in then.work.items() if id not in before.work]
    return {at: ", begins " + " and ".join(f"{job.kind} {job.id}" for job in new)}
