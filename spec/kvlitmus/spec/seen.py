"""What was seen of a cache at one moment, by name.

A snapshot lists slots and units.  Rules speak of pages and of the prefixes that they hold, so whoever looks at a cache
reads the snapshot into a :class:`Seen`: free pages, cached pages by name, and what the nodes say of themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kvlitmus.spec.interface.tiers import Event, Job
from kvlitmus.spec.names import NO_NAME
from kvlitmus.spec.units import Name, PageNo


class NodeInfo(NamedTuple):
    """One node, named: its pages in order, where it hangs, where it ends, and what is wrong with its form."""

    names: tuple[Name, ...]
    pages: tuple[PageNo, ...]
    parent: Name
    end: Name
    broken_node: str
    broken_pages: tuple[str, ...]
    items: dict[Name, PageNo]


class NodeSeen(NamedTuple):
    """A node with the counts it showed; ``parent``: the number of the node above, or -1."""

    info: NodeInfo
    parent: int
    locks: int | None
    hits: int | None
    priority: int | None


@dataclass(slots=True, eq=False, repr=False)
class Seen:
    """A cache as it was seen.

    ``available``: what the pool says it could hand out; ``sizes``: the tree's own counters; both ``None`` where nobody
    looked.  ``seen``: whether there was a snapshot; without one the rest is empty.  ``listed``: the free list as it
    stands; ``free``: the pages on it.  ``cached``: every cached page; ``cached_listed``: the pages of all nodes,
    repetitions included.  ``parents``: the names of the parents of all nodes, roots left out.  ``broken``: nodes whose
    form is wrong, in words.  ``events``: what was told since the last look.
    """

    available: int | None = None
    sizes: tuple[int, int] | None = None
    seen: bool = False
    listed: tuple[PageNo, ...] = ()
    free: frozenset[PageNo] = frozenset()
    cached: dict[Name, PageNo] = field(default_factory=dict)
    cached_listed: list[PageNo] = field(default_factory=list)
    parents: set[Name] = field(default_factory=set)
    nodes: list[NodeSeen] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    events: tuple[Event, ...] = ()

    def places(self) -> dict[PageNo, Name]:
        """What is found in each cached page: a name may have several places."""
        return {page: name for node in self.nodes for name, page in node.info.items.items()}

    def parent_of(self, name: Name) -> Name:
        """The name of the page (or root) before this page."""
        for node in self.nodes:
            if name in node.info.items:
                at = node.info.names.index(name)
                return node.info.names[at - 1] if at else node.info.parent
        return NO_NAME


class Named(NamedTuple):
    """The names of a node's units: all of them, those of its pages, and the units of each page."""

    units: tuple[Name, ...]
    pages: tuple[Name, ...]
    of_page: dict[Name, tuple[Name, ...]]


class TierNodeSeen(NamedTuple):
    """One node: its names, the name before it, where it is, and what it shows of its worth."""

    named: Named
    before: Name
    slots: tuple[int, ...] | None
    host: tuple[int, ...] | None
    pins: int | None
    hits: int | None
    priority: int | None


class Asked(NamedTuple):
    """A query on record: the names, and how many from the first one on storage said that it has."""

    names: tuple[str, ...]
    answer: int


class Got(NamedTuple):
    """A read on record: the name, and whether whole contents were given."""

    name: str
    whole: bool


class Put(NamedTuple):
    """A write on record: name, contents, and whether it was accepted."""

    name: str
    contents: tuple[int, ...]
    accepted: bool


class Record(NamedTuple):
    """What the suite's storage was asked and given during a call, and how many pages it has after it."""

    asked: tuple[Asked, ...] = ()
    got: tuple[Got, ...] = ()
    puts: tuple[Put, ...] = ()
    pages: int = 0


class Held(NamedTuple):
    """A page whose slots don't hold what belongs there: which one, where, and what they hold instead."""

    page: Name
    tier: str
    slots: tuple[int, ...]
    holds: tuple[int, ...]


@dataclass(slots=True, eq=False, repr=False)
class TierSeen(Seen):
    """A hierarchical cache as it was seen.

    ``tier_nodes``: all nodes, those on the host alone too.  ``pinned``: how often a node is protected on the host, by its
    pages, where it is.  ``hosted``: every page with a host copy; ``host_listed``:
    their pages, repetitions included.  ``host_free``: the host's free list as it stands; ``moving``: the host pages that
    work in flight holds, each as often as it is listed.  ``host_broken``: what isn't made of whole pages, in words.
    ``homeless``: nodes that are on no tier; ``gaps``: nodes on the device below one that isn't.  ``parent_names``: of
    every page of the tree, the page (or root) before it.  ``jobs``: the work under way, by number.

    ``host_available``, ``occupied``: what the host pool says it could hand out, and what prefetches say they occupy,
    in units; ``None`` where nobody looked.  ``failing``: the kinds of which a copy is still to fail.  ``odd``: pages
    that don't hold what belongs there.  ``layers_ready``: how many layers of the load that was advanced may be read.
    ``record``: what storage saw.
    """

    tier_nodes: list[TierNodeSeen] = field(default_factory=list)
    pinned: dict[tuple[Name, ...], int] = field(default_factory=dict)
    hosted: dict[Name, PageNo] = field(default_factory=dict)
    host_listed: list[PageNo] = field(default_factory=list)
    host_free: tuple[PageNo, ...] = ()
    moving: list[PageNo] = field(default_factory=list)
    host_broken: list[str] = field(default_factory=list)
    homeless: list[Name] = field(default_factory=list)
    gaps: list[Name] = field(default_factory=list)
    parent_names: dict[Name, Name] = field(default_factory=dict)
    jobs: Mapping[int, Job] = field(default_factory=dict)
    host_available: int | None = None
    occupied: int | None = None
    failing: frozenset[str] = frozenset()
    odd: tuple[Held, ...] = ()
    layers_ready: int | None = None
    record: Record = field(default_factory=Record)

    @property
    def in_tree(self) -> frozenset[Name]:
        """Every page of the tree, on either tier."""
        return frozenset(self.parent_names)

    @property
    def hides_pins(self) -> bool:
        """Whether there are nodes, and none shows how often its host copy is protected."""
        return bool(self.tier_nodes) and all(node.pins is None for node in self.tier_nodes)

    def pins(self) -> dict[Name, int]:
        """How often each host copy is protected, by the name of the last page of its node; others left out."""
        return {pages[-1]: pins for pages, pins in self.pinned.items() if pages}
