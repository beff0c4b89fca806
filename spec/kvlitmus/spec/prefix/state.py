"""What is known of a cache at one moment.

The state is in **groups**: the tree, who owns pages, the requests, the receipts, what slots hold.  Each is a value, and
a step that leaves a group alone keeps the very object, so that unchanged groups are known by identity.

The same type serves the reference, where it is all that there is, and the checker, where it is what the calls so far
amount to, corrected by what was seen.  What a checker can't know for certain, because evictions are not seen below
depth 3, is :attr:`~kvlitmus.spec.prefix.page.Tier.doubt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvlitmus.spec.prefix.calls import Path
from kvlitmus.spec.prefix.late_events import Late
from kvlitmus.spec.prefix.page import Block, Page, Tier, empty_tier
from kvlitmus.spec.prefix.tier_state import Tiers
from kvlitmus.spec.prefix.works import Works
from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.units import Name, PageNo, Slot, pages_needed

__all__ = [
    "EMPTY_GROUP",
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


@lean
class Group(NamedTuple):
    """What is known of one component beside the KV, on each tier."""

    device: Tier = empty_tier()
    host: Tier = empty_tier()


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
    odd: tuple[str, ...] = ()
    """Events that make no sense."""
    twice: tuple[str, ...] = ()
    """Events of pages that are there already."""
    renamed: tuple[str, ...] = ()
    """Events with the id of another page that is there."""
    strays: tuple[str, ...] = ()
    """Events in another namespace than their parent."""
    orphans: tuple[str, ...] = ()
    """Events of pages whose parent is on no tier."""
    aliases: tuple[str, ...] = ()
    """Events of pages that are there by another id, where that is followed: in streams of events."""

    @property
    def faultless(self) -> bool:
        """Whether nothing was wrong with the events of the last step."""
        return not (self.odd or self.twice or self.renamed or self.strays or self.orphans)


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


def empty_state() -> State:
    """Nothing is cached, owned, locked or written."""
    return State(empty_tier(), {}, {}, {}, {})
