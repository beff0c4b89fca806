"""What is known of a cache at one moment.

The state is in **groups**: the tree, who owns pages, the requests, the receipts, what slots hold.  Each is a value, and
a step that leaves a group alone keeps the very object, so that unchanged groups are known by identity.

The same type serves the reference, where it is all that there is, and the checker, where it is what the calls so far
amount to, corrected by what was seen.  What a checker can't know for certain, because evictions are not seen below
depth 3, is :attr:`~kvlitmus.spec.prefix.page.Tier.doubt`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from kvlitmus.spec.interface.tiers import PUT
from kvlitmus.spec.prefix.calls import Path
from kvlitmus.spec.prefix.late_events import Late
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.own_work import Works
from kvlitmus.spec.prefix.page import At, Block, Page, Place, Stored, Tier, empty_tier
from kvlitmus.spec.prefix.work import Copy, Fetch, Tiers
from kvlitmus.spec.words.layouts import KV
from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.units import Name, PageNo, Slot, pages_needed

__all__ = [
    "EMPTY_GROUP",
    "Amiss",
    "Block",
    "EventMirror",
    "Group",
    "Page",
    "RequestState",
    "State",
    "Tier",
    "empty_state",
    "empty_tier",
]


class Amiss(NamedTuple):
    """What is wrong with an event, in words; ``tier``: on which, if it is of one."""

    tier: str
    text: str


@lean
class EventMirror(NamedTuple):
    """What all events so far tell; and of the last step alone, in words, what was wrong with its events."""

    device: Mapping[Name, int] = {}
    """The pages on the device by name, and how often each is there: once, unless copies count."""
    host: Mapping[Name, int] = {}
    """The same of the host."""
    pages: Mapping[object, Name] = {}
    """Which page each page id stands for."""
    roots: Mapping[Name, Name] = {}
    """Of each page that was told, the root of its namespace."""
    odd: tuple[Amiss, ...] = ()
    """Events that make no sense."""
    twice: tuple[Amiss, ...] = ()
    """Events of pages that are there already."""
    renamed: tuple[str, ...] = ()
    """Events with the id of another page that is there."""
    strays: tuple[str, ...] = ()
    """Events in another namespace than their parent."""
    orphans: tuple[str, ...] = ()
    """Events of pages whose parent is on no tier."""
    aliases: tuple[str, ...] = ()
    """Events of pages that are there by another id, where that is followed: in streams of events."""

    def of(self, tier: str) -> EventMirror:
        """What it tells of one tier alone, as if that were the device; what is amiss with events of none is so for each."""
        odd, twice = [tuple([one for one in some if one.tier in ("", tier)]) for some in (self.odd, self.twice)]
        return EventMirror(self.host if tier == HOST else self.device, odd=odd, twice=twice)

    @property
    def faultless(self) -> bool:
        """Whether nothing was wrong with the events of the last step."""
        return not (self.odd or self.twice or self.renamed or self.strays or self.orphans)


@lean
class Group(NamedTuple):
    """What is known of one component beside the KV: what is on each tier, and what events tell of it."""

    device: Tier = empty_tier()
    host: Tier = empty_tier()
    told: EventMirror = EventMirror()


EMPTY_GROUP = Group()


@lean
class RequestState(NamedTuple):
    """A running request.

    ``row``: its slots, one per token.  The first ``cached`` of them are the tree's, protected by a lock on the path
    to ``locked``.  Into the first ``computed`` of them KV was written; the caller has not come to the others yet.
    ``spare``: the pages that it holds beside its row (:mod:`kvlitmus.spec.prefix.spare_pages`); ``unseen``: how many more there
    may be.
    """

    path: Path
    row: tuple[Slot, ...]
    cached: int
    computed: int
    locked: Name
    spare: frozenset[PageNo] = frozenset()
    unseen: int = 0
    held: Mapping[str, Mapping[int, int]] = {}
    """Of each component its places by where they end, where it keeps more than a row."""

    @property
    def upto(self) -> int | None:
        """How many slots are computed, where that is not all of them."""
        return self.computed if self.computed < len(self.row) else None


@lean
class Retracted(NamedTuple):
    """The requests that are on the host, by id; and how many pages of it they have had at most, all at once."""

    requests: Mapping[int, RequestState] = {}
    most: int = 0

    def pages(self, size: int) -> int:
        """How many pages of the host they have."""
        return sum([pages_needed(len(one.row), size) for one in self.requests.values()])


@lean
class State(NamedTuple):
    """What is known of one cache.

    ``device``: what is cached there, or may be, and what isn't known of it, where nobody saw evictions; ``host``: the
    same of the host.  Of a page that is on both tiers the device has the use.  ``owners``: how many
    requests and callers own each page that is owned.  ``requests``: by id.  ``receipts``: by the suite's number, where
    the protected path ends.  ``contents``: which prefix's KV was written last into each slot.
    ``tiers``: what is known of what is below the device, where anything is; ``told``: what somebody knows who replays the
    events, where there are any.  ``works``: what only the cache itself knows, where the state is its own, as the
    reference's is.  ``table``: of a block table (:mod:`kvlitmus.spec.prefix.tables`) the entered pages; the ``page``
    of a name in the tree is then one of its places.
    ``late``: what is remembered of the calls before, where events may lag.  ``leaving``: the pages that may wait in a release
    queue (:mod:`kvlitmus.spec.prefix.release`), by the call that gave them back, the oldest first.  ``retracted``: the
    requests whose KV is on the host meanwhile.  ``unlocking``: the pages whose locks were given
    back and may end later (:mod:`kvlitmus.spec.prefix.late_locks`), by call as well.

    Of a cache of components ``device`` and ``host`` have the KV, and the groups ``beside`` what it keeps of the others.
    ``free``: the free places of each pool of a tier as they were last seen, where somebody looked.  ``owned``: the places
    that the caller has.  ``covers``: by the suite's number what each receipt covers.  ``longest``: the most KV that one
    insert or commit brought, in entries: no node is longer.  ``fetches``, ``under_way``: the prefetches, and the
    copies between the tiers and to storage, that are under way, by the suite's number.  ``copies``: further
    places of what may be cached more than once.  ``used``: with the selective policy the prefixes that an insert has
    gone through and that have certainly been boundaries since.
    """

    device: Tier
    owners: Mapping[PageNo, int]
    requests: Mapping[int, RequestState]
    receipts: Mapping[int, Name]
    contents: Mapping[Slot, Name]
    tiers: Tiers | None = None
    told: EventMirror | None = None
    host: Tier = empty_tier()
    works: Works | None = None
    table: Mapping[PageNo, Block] = {}
    late: Late = Late()
    leaving: tuple[frozenset[PageNo], ...] = ()
    retracted: Retracted = Retracted()
    unlocking: tuple[tuple[Name, ...], ...] = ()
    beside: Mapping[str, Group] = {}
    free: Mapping[str, Mapping[str, int]] = {}
    owned: frozenset[Place] = frozenset()
    covers: Mapping[int, frozenset[At]] = {}
    longest: int = 0
    fetches: Mapping[int, Fetch] = {}
    under_way: Mapping[int, Copy] = {}
    copies: frozenset[Stored] = frozenset()
    used: frozenset[Name] = frozenset()

    @property
    def attached(self) -> bool | None:
        """Whether storage is there; ``None`` where it doesn't come and go."""
        return None if self.tiers is None else self.tiers.attached

    def on(self, tier: str) -> Iterator[tuple[str, Tier]]:
        """What is known of one tier, component by component."""
        yield KV, self.host if tier == HOST else self.device
        for name, group in self.beside.items():
            yield name, group.host if tier == HOST else group.device

    def tier(self, tier: str, component: str) -> Tier:
        """What is known of one component there."""
        group = self if component == KV else self.beside.get(component, EMPTY_GROUP)
        return group.host if tier == HOST else group.device

    def mirror(self, component: str) -> EventMirror:
        """What events tell of one component."""
        told = self.told if component == KV else self.beside.get(component, EMPTY_GROUP).told
        return EventMirror() if told is None else told

    def put(self, tier: str, known: Mapping[str, Tier]) -> State:
        """The same where this is known of some components on a tier."""
        state = self
        if KV in known:
            state = self._replace(host=known[KV]) if tier == HOST else self._replace(device=known[KV])
        groups = {name: self.beside.get(name, EMPTY_GROUP) for name in known if name != KV}
        if not groups:
            return state
        beside = {
            name: group._replace(host=known[name]) if tier == HOST else group._replace(device=known[name])
            for name, group in groups.items()
        }
        return state._replace(beside={**self.beside, **beside})

    def places(self, tier: str) -> Mapping[At, int]:
        """Everything that may be cached on a tier, and where it is if it is."""
        return {(name, at): page.page for name, there in self.on(tier) for at, page in there.pages.items()}

    def certain(self, tier: str) -> AbstractSet[At]:
        """What is cached there for certain."""
        unsure = [(name, at) for name, there in self.on(tier) for at in there.doubt.unsure]
        return self.places(tier).keys() - unsure if unsure else self.places(tier).keys()

    def holds(self, tier: str) -> Sequence[frozenset[At]]:
        """What protects entries there, each with what it protects: receipts, anchors of prefetches, copies and writes."""
        if tier == HOST:
            return [one.host for one in self.under_way.values()]
        anchors = [one.anchor for one in self.fetches.values()]
        return [*self.covers.values(), *anchors, *[one.device for one in self.under_way.values()]]

    @property
    def stored(self) -> frozenset[Stored]:
        """Everything that may be cached, with its places."""
        return frozenset(self.places(DEVICE).items()) | self.copies

    def covered(self, tier: str) -> frozenset[At]:
        """Everything that something protects on a tier."""
        return frozenset[At]().union(*self.holds(tier))

    def needed(self, tier: str) -> frozenset[At]:
        """What is covered, and what a copy or a write needs that has come there since it began, or a prefetch holds besides: that may be spared too."""
        if tier == HOST:
            return self.covered(tier).union(*[one.needs for one in self.under_way.values()])
        copies = [one.needs for one in self.under_way.values() if one.kind != PUT]
        return self.covered(tier).union(*copies, *[one.needs for one in self.fetches.values()])

    @property
    def fetching(self) -> frozenset[Place]:
        """The places that prefetches have."""
        if not self.fetches:
            return frozenset()
        return frozenset[Place]().union(*[one.reserved for one in self.fetches.values()])


def empty_state() -> State:
    """Nothing is cached, owned, locked or written."""
    return State(empty_tier(), {}, {}, {}, {})
