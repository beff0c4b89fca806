"""What was seen of a cache at one moment, by name.

A snapshot lists slots and units.  Rules speak of pages and of the prefixes that they hold, so whoever looks at a cache
reads the snapshot into a :class:`Seen`: free pages, cached pages by name, and what the nodes say of themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvlitmus.spec.interface.cache import Sizes
from kvlitmus.spec.interface.tiers import Event, Job
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.words.names import NO_NAME
from kvlitmus.spec.words.units import Name, PageNo


class NodeInfo(NamedTuple):
    """One node, named: its pages in order, where it hangs, where it ends, and what is wrong with its form."""

    names: tuple[Name, ...]
    """Its pages, in order, by name."""
    pages: tuple[PageNo, ...]
    """Where they are."""
    parent: Name
    """The prefix that it hangs from."""
    end: Name
    """The prefix that it ends."""
    broken_node: str
    """What is wrong with its form, in words; empty if nothing is."""
    broken_pages: tuple[str, ...]
    """Which of its pages aren't whole, in words."""
    items: dict[Name, PageNo]
    """Where each page is, by name."""


class NodeSeen(NamedTuple):
    """A node with the counts it showed; ``parent``: the number of the node above, or -1."""

    info: NodeInfo
    parent: int
    locks: int | None
    hits: int | None
    priority: int | None


@dataclass(slots=True, eq=False, repr=False)
class Seen:
    """A cache as it was seen."""

    available: int | None = None
    """What the pool says it could hand out."""
    sizes: Sizes | None = None
    """The tree's own counters; both ``None`` where nobody looked."""
    seen: bool = False
    """Whether there was a snapshot; without one the rest is empty."""
    listed: tuple[PageNo, ...] = ()
    """The free list as it stands."""
    free: frozenset[PageNo] = frozenset()
    """The pages on it."""
    cached: dict[Name, PageNo] = field(default_factory=dict)
    """Every cached page."""
    cached_listed: list[PageNo] = field(default_factory=list)
    """The pages of all nodes, repetitions included."""
    parents: set[Name] = field(default_factory=set)
    """The names of the parents of all nodes, roots left out."""
    nodes: list[NodeSeen] = field(default_factory=list)
    """All nodes, in the order of the snapshot."""
    broken: list[str] = field(default_factory=list)
    """Nodes whose form is wrong, in words."""
    events: tuple[Event, ...] = ()
    """What was told since the last look."""

    @property
    def free_count(self) -> int:
        """How many pages are free, which may be known where it is not which."""
        return len(self.free)

    def places(self) -> dict[PageNo, Name]:
        """What is found in each cached page: a name may have several places."""
        return {page: name for node in self.nodes for name, page in node.info.items.items()}

    def runs(self, tier: str) -> Iterator[tuple[Sequence[Name], Name]]:
        """Of each node, as evictions of this tier meet it, its pages in order and the name that it hangs from."""
        return ((node.info.names, node.info.parent) for node in self.nodes)

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
    """Its names."""
    before: Name
    """The name before it."""
    slots: tuple[int, ...] | None
    """Where it is on the device."""
    host: tuple[int, ...] | None
    """Where it is on the host."""
    pins: int | None
    """How often its host copy is protected; ``None`` where that isn't shown."""
    hits: int | None
    """How often it was used, where that is shown."""
    priority: int | None
    """Its priority, where that is shown."""


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
    """A hierarchical cache as it was seen."""

    tier_nodes: list[TierNodeSeen] = field(default_factory=list)
    """All nodes, those on the host alone too."""
    pinned: dict[tuple[Name, ...], int] = field(default_factory=dict)
    """How often a node is protected on the host, by its pages, where it is."""
    hosted: dict[Name, PageNo] = field(default_factory=dict)
    """Every page with a host copy."""
    host_listed: list[PageNo] = field(default_factory=list)
    """The pages of all host copies, repetitions included."""
    host_free: tuple[PageNo, ...] = ()
    """The host's free list as it stands."""
    moving: list[PageNo] = field(default_factory=list)
    """The host pages that work in flight holds, each as often as it is listed."""
    host_broken: list[str] = field(default_factory=list)
    """What isn't made of whole pages, in words."""
    homeless: list[Name] = field(default_factory=list)
    """Nodes that are on no tier."""
    gaps: list[Name] = field(default_factory=list)
    """Nodes on the device below one that isn't."""
    parent_names: dict[Name, Name] = field(default_factory=dict)
    """Of every page of the tree, the page (or root) before it."""
    jobs: Mapping[int, Job] = field(default_factory=dict)
    """The work under way, by number."""
    host_available: int | None = None
    """The units that the host pool says it could hand out; ``None`` where nobody looked."""
    occupied: int | None = None
    """The units that prefetches say they occupy; ``None`` where nobody looked."""
    failing: frozenset[str] = frozenset()
    """The kinds of which a copy is still to fail."""
    odd: tuple[Held, ...] = ()
    """Pages that don't hold what belongs there."""
    layers_ready: int | None = None
    """How many layers of the load that was advanced may be read."""
    record: Record = field(default_factory=Record)
    """What storage saw."""

    @property
    def host_free_count(self) -> int:
        """How many pages of the host are free."""
        return len(self.host_free)

    def runs(self, tier: str) -> Iterator[tuple[Sequence[Name], Name]]:
        """Of each node, as evictions of this tier meet it, its pages in order and the name that it hangs from."""
        if tier == DEVICE:
            return super(TierSeen, self).runs(tier)
        return ((node.named.pages, node.before) for node in self.tier_nodes)

    @property
    def in_tree(self) -> frozenset[Name]:
        """Every page of the tree, on either tier."""
        return frozenset(self.parent_names)

    @property
    def unbacked(self) -> list[Name]:
        """The pages without a host copy behind which pages have one."""
        above, hosts = self.parent_names, self.hosted
        return [over for over in [above[name] for name in hosts] if over not in hosts and over in above]

    @property
    def hides_pins(self) -> bool:
        """Whether there are nodes, and none shows how often its host copy is protected."""
        return bool(self.tier_nodes) and all(node.pins is None for node in self.tier_nodes)

    def pins(self) -> dict[Name, int]:
        """How often each host copy is protected, by the name of the last page of its node; others left out."""
        return {pages[-1]: pins for pages, pins in self.pinned.items() if pages}
