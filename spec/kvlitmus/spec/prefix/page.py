"""Cached pages, and the tree that they make up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvlitmus.spec.words.policies import Worth
from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.units import Name, PageNo, Tick

At = tuple[str, Name]
"""Where an entry of a component belongs: its component, and the prefix that ends with it."""

Place = tuple[str, int]
"""A place of a pool."""

Stored = tuple[At, int]
"""A cached entry: where it belongs, and its place."""

BY_AGE = ("fifo", "filo")
"""The policies that ask when a page was created."""


@lean
class Page(NamedTuple):
    """One cached page.

    ``parent``: the name of the page before it, or of its namespace's root.  ``page``: where it is.
    ``touched``, ``created``: ticks of the last use and of the insertion.  ``hits``: how often it
    was used, as the profile counts.  ``locks``: how many receipts and requests cover it.
    ``first``: whether a node begins here.
    ``undated``: whether nobody knows when it was created.  ``unsure``: whether nobody knows how recently it was used; the
    next use that is certain ends that.
    """

    parent: Name
    page: PageNo
    touched: Tick
    created: Tick
    hits: int = 0
    priority: int = 0
    locks: int = 0
    first: bool = False
    undated: bool = False
    unsure: bool = False

    def is_ageless(self, policy: str) -> bool:
        """Whether nobody knows for certain where the page is in the order of a policy."""
        return self.undated if policy in BY_AGE else self.unsure


class Rank(NamedTuple):
    """When an eviction comes to a page: as its ``least``-th victim at the earliest, as its ``most``-th at the latest.

    ``low``, ``high``: between which worths the page ranks, the pages below it considered.
    """

    least: int
    most: int
    low: Worth
    high: Worth


@lean
class Window(NamedTuple):
    """One step that may have evicted: between ``low`` and ``high`` pages, of these that may be gone by it."""

    low: int
    high: int
    ranks: Mapping[Name, Rank]


@lean
class Doubt(NamedTuple):
    """What isn't known of the tree, where evictions aren't seen.

    ``unsure``: the names of pages that may be gone, whatever is evicted first.  ``windows``: the evictions that may have
    taken some of them; one of ``unsure`` that is in no window is there, if the policy was kept.  ``fallen``: those that
    are gone, if it was.  ``vague``: pages of which another account is as good as the tree's: how they were used is
    between the two.  ``made``: how many windows there were so far.  ``odd``: pages that the last step showed to be
    where no eviction by the policy can have left them: there, or gone.
    """

    unsure: frozenset[Name] = frozenset()
    windows: tuple[Window, ...] = ()
    fallen: frozenset[Name] = frozenset()
    vague: Mapping[Name, Page] = {}
    made: int = 0
    odd: tuple[Name, ...] = ()

    @property
    def open(self) -> frozenset[Name]:
        """The pages that some window leaves open."""
        return frozenset().union(*[window.ranks for window in self.windows]) if self.windows else frozenset()


NO_DOUBT = Doubt()
"""All is known."""


@lean
class Tier(NamedTuple):
    """What is known of one tier: all pages that are cached there, or may be, by name, the time, and the doubt.

    A radix tree groups pages into nodes; here a node is a run of pages whose first one carries the mark ``first``.
    """

    pages: Mapping[Name, Page]
    clock: Tick
    doubt: Doubt = NO_DOUBT


def copy_of(parent: Name, page: PageNo, locks: int = 0) -> Page:
    """The copy on the host of a page that is on the device too, which has its use."""
    return Page(parent, page, Tick(0), Tick(0), locks=locks)


class Block(NamedTuple):
    """One entered page of a block table: the prefix that is found there, and how many requests hold this very page."""

    name: Name
    holders: int


def empty_tier() -> Tier:
    """A tree in which nothing is cached."""
    return Tier({}, Tick(0))
