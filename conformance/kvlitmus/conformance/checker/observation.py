"""Seen: from what an adapter shows to what rules speak of.

An :class:`Observer` reads a snapshot into a :class:`~kvlitmus.spec.prefix.seen.Seen`: free pages, cached pages by
name, and what the nodes say of themselves.  Naming is remembered by content, so an unchanged
node costs one look-up; where a look shows the very nodes of the look before, what was read of them then is shared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any, cast

from kvlitmus.conformance.ports import NodeView, View
from kvlitmus.conformance.support.bounds import UNORDERED
from kvlitmus.conformance.support.integers import EXACT, integer, integers, is_integer
from kvlitmus.conformance.support.text import shown, type_name
from kvlitmus.spec.interface import ORPHAN, Sizes
from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.prefix.seen import NodeInfo, NodeSeen, Seen
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.units import Name, PageNo, page_slots, pages_in_order

PLAIN = frozenset({int, type(None)})
"""Types of what a node says of itself, in most caches."""

NAMES = frozenset({type(None), int, str, bytes})
"""Types of the names of pages in events, in most caches."""

MAX_NUMBER = 1 << 62
"""A token or slot beyond this is nonsense."""

PAIR = 2
"""A unit of a bigram key is two tokens."""


class Observer:
    """Reads snapshots of caches with one page size, with one table of names; of block tables, if ``table`` says so.

    steady: whether what is shown is the suite's own, so that nobody else changes it: as from a cache behind a pipe.
    """

    def __init__(
        self, names: Names, page_size: int, most: int = 100_000, *, table: bool = False, steady: bool = False
    ) -> None:
        self.names = names
        self.steady = steady
        self.shown: object = None  # the list of nodes of the last look, where it can't have changed since
        self.table = table
        self.size = page_size
        self.most = most
        self.known: dict[Any, tuple[Any, NodeInfo]] = {}
        self.rows: list[tuple[Any, ...]] = []  # of the last look, in plain numbers: what a stranger shows may change
        self.infos: list[NodeInfo] = []  # of the same nodes
        self.last = Seen()

    def forget(self) -> None:
        """Names may stand for other prefixes from now on."""
        self.known.clear()
        self.rows, self.infos, self.last, self.shown = [], [], Seen(), None

    def read(self, available: int | None, sizes: Any, view: View | None) -> Seen:
        """What was seen; raises when the form is not the one that the port promises.

        Nothing that a stranger handed out is kept: what is read are integers, texts and ``None``.
        """
        seen = Seen()
        self.read_into(seen, available, sizes, view)
        return seen

    def read_into(self, seen: Seen, available: int | None, sizes: Any, view: View | None) -> None:
        """Read counters and snapshot into an observation."""
        self.read_counters(seen, available, sizes)
        if view is None:
            return
        self.read_pool(seen, view.free)
        rows = self.bounded(view.nodes, "the list of nodes")
        same, last = len(rows) if rows is self.shown else self.unchanged(rows), self.last
        if same == len(rows) == len(last.nodes):
            seen.nodes, seen.cached, seen.cached_listed = last.nodes, last.cached, last.cached_listed
            seen.parents, seen.broken = last.parents, last.broken
        else:
            self.read_nodes(seen, rows, same)
        self.last, self.shown = seen, rows if self.steady else None

    def unchanged(self, rows: Sequence[Any]) -> int:
        """How many rows, from the first one on, are those of the look before."""
        same = 0
        for row, known in zip(rows, self.rows, strict=False):
            if type(row) is not NodeView:
                break
            parent, _, units, slots, locks, hits, priority = row
            if type(units) is not tuple or type(slots) is not tuple:  # arrays compare to arrays
                break
            if not (type(parent) is type(locks) is type(hits) is type(priority) is int and row == known):
                break
            same += 1
        return same

    def read_nodes(self, seen: Seen, rows: Sequence[Any], same: int) -> None:
        """Read the nodes, of which the first so many are the ``same`` as at the look before."""
        known, nodes, kept, infos = self.known, seen.nodes, self.rows[:same], self.infos[:same]
        nodes += self.last.nodes[:same]
        for parent, namespace, units, slots, locks, hits, priority in rows[same:]:
            if not (type(parent) is type(locks) is type(hits) is type(priority) is int):
                parent, locks, hits, priority = self.numbers(parent, locks, hits, priority)
            if type(slots) is not tuple or type(units) is not tuple:
                units, slots = tuple(self.bounded(units, "a node")), tuple(self.bounded(slots, "a node"))
            if parent >= len(nodes):
                raise ValueError("parents must come before their children")
            if parent >= 0:
                start = infos[parent].end
            else:
                self.check_namespace(namespace)
                start = self.names.root(namespace)
                if parent == ORPHAN:
                    above, units = units[: -len(slots)], units[-len(slots) :]
                    start = self.names.extend(start, above)[-1] if above else self.names.lost(namespace)
            (_, own_units, own_slots), info = known.get((start, units, slots)) or self.name_node(start, units, slots)
            kept.append((parent, namespace, own_units, own_slots, locks, hits, priority))
            nodes.append(NodeSeen(info, parent, locks, hits, priority))
            infos.append(info)
        last = self.last
        if infos == self.infos and not last.broken:  # what nodes say of themselves may differ
            seen.cached, seen.cached_listed, seen.parents = last.cached, last.cached_listed, last.parents
        else:
            self.read_cached(seen, infos)
        self.rows, self.infos = kept, infos

    def read_cached(self, seen: Seen, infos: Sequence[NodeInfo]) -> None:
        """Put together what all nodes cache."""
        cached, listed, table = seen.cached, seen.cached_listed, self.table
        for info in infos:
            if table:
                cached.update({name: min(page, cached.get(name, page)) for name, page in info.items.items()})
            else:
                cached.update(info.items)
            listed += info.pages
        roots = {node.info.parent for node in seen.nodes if node.parent < 0 and node.parent != ORPHAN}
        seen.parents = {info.parent for info in infos} - roots
        self.check_form(seen)

    def read_counters(self, seen: Seen, available: int | None, sizes: Any) -> None:
        """Read the counters of pool and tree."""
        seen.available = available
        if sizes is not None:
            seen.sizes = self.read_sizes(sizes)

    def read_pool(self, seen: Seen, free: Any) -> None:
        """Read the free list of the device, which every snapshot has."""
        seen.seen = True
        seen.listed = listed = self.pages(free, "the free list")
        seen.free = self.last.free if listed == self.last.listed else frozenset(listed)

    def pages(self, given: Any, what: str) -> tuple[PageNo, ...]:
        """The pages that a free list names, as it stands."""
        listed = self.plain(self.bounded(given, what), f"{what} must consist of integers")
        return cast("tuple[PageNo, ...]", tuple(listed))

    def check_namespace(self, namespace: Any) -> None:
        """Raise ``ValueError`` for a namespace that can't be one."""
        if namespace is not None and type(namespace) is not str:
            raise ValueError(f"a namespace must be text or None (got {type_name(namespace)})")

    def bounded(self, given: Any, what: str) -> Sequence[Any]:
        """What a stranger lists, as an honest sequence that isn't too long."""
        if type(given) is list or type(given) is tuple:
            rows: Sequence[Any] = given
        elif isinstance(given, UNORDERED):
            raise TypeError(f"{what} must be a sequence (got {type_name(given)})")
        else:
            rows = list(islice(given, self.most + 1))
        if len(rows) > self.most:
            raise ValueError(f"{what} has more than {self.most} entries")
        return rows

    def read_sizes(self, sizes: Any) -> Sizes:
        """The tree's counters."""
        evictable, protected = self.bounded(sizes, "sizes")
        if not is_integer(evictable) or not is_integer(protected):
            raise ValueError(f"sizes must be integers (got {type_name(evictable)} and {type_name(protected)})")
        return Sizes(integer(evictable), integer(protected))

    def plain(self, given: Sequence[Any], wrong: str) -> Collection[int]:
        """Integers of whatever class as plain ones; raises ``ValueError`` with these words for anything else."""
        try:
            return integers(given)
        except TypeError as error:
            raise ValueError(wrong) from error

    def numbers(self, parent: Any, *counts: Any) -> tuple[Any, ...]:
        """What a node says of itself, in plain integers and ``None``."""
        if {type(parent), *map(type, counts)} <= PLAIN:
            return (parent, *counts)
        told = [one for one in counts if one is not None]
        self.plain([parent, *told], "parent, locks, hits and priority of a node must be integers")
        return (integer(parent), *(None if one is None else integer(one) for one in counts))

    def unit(self, given: Any) -> Any:
        """A unit in plain integers: a token, or a pair of them; raises ``TypeError`` for anything else."""
        if type(given) is tuple and len(given) == PAIR:
            return integer(given[0]), integer(given[1])
        return integer(given)

    def read_event(self, row: Any) -> Event:
        """An event with plain texts, units and names of pages; raises for anything else."""
        given = row if type(row) is Event else Event(*self.bounded(row, "an event"))
        what, tier, page, parent, units, namespace = given
        if not (type(what) is type(tier) is str):
            raise TypeError(f"what an event says, and of which tier, must be text (got {shown(what)}, {shown(tier)})")
        self.check_namespace(namespace)
        plain = tuple(self.bounded(units, "an event"))
        if not {*map(type, plain)} <= EXACT:
            plain = self.named_by(plain)
        return Event(what, tier, self.page_name(page), self.page_name(parent), plain, namespace)

    def page_name(self, given: Any) -> object:
        """How a cache names a page: anything that can be compared; integers of whatever class are plain ones."""
        if type(given) in NAMES:
            return given
        if is_integer(given):
            return integer(given)
        if hash(given) != hash(given) or given != given:
            raise ValueError("a page must be named by something that is equal to itself")
        return given

    def check_form(self, seen: Seen) -> None:
        """Nodes that are empty or partial, and siblings that begin alike.

        Where every node is made of whole pages, siblings that begin alike cache a page twice.
        """
        partial = [node.info.broken_node for node in seen.nodes if node.info.broken_node]
        if self.table:
            if any(not node.info.names for node in seen.nodes):
                seen.broken.append("a node is empty")
        elif len(seen.cached) < len(seen.cached_listed) or (partial and self.begin_alike(seen)):
            seen.broken.append("two siblings share their first page, or a node is empty")
        seen.broken += partial

    def begin_alike(self, seen: Seen) -> bool:
        """Whether two nodes begin with the same page, or one with none."""
        return len({node.info.names[0] for node in seen.nodes if node.info.names}) < len(seen.nodes)

    def name_node(self, start: Name, units: Any, slots: Any) -> tuple[Any, NodeInfo]:
        """Name the pages of a node; remembered by content, with it."""
        given_units, given = tuple(self.bounded(units, "a node")), tuple(self.bounded(slots, "a node"))
        size = self.size
        try:
            slots = tuple(integers(given))
        except TypeError as error:
            raise self.no_slots(given) from error
        if slots and not (min(slots) >= 0 and max(slots) < MAX_NUMBER):
            raise self.no_slots(given)
        units = self.named_by(given_units)
        names = self.names.extend(start, units)
        ends = names[size - 1 :: size]
        pages = pages_in_order(slots, size)[: len(ends)]
        broken = ""
        if not units or len(units) % size or len(units) != len(slots):
            broken = f"a node has {len(units)} units and {len(slots)} slots; both must be the same multiple of {size}"
        odd: tuple[str, ...] = ()
        whole = tuple([slot for page in pages for slot in range(page * size, (page + 1) * size)])
        if slots[: len(whole)] != whole:
            parts = [(page, slots[at * size : (at + 1) * size]) for at, page in enumerate(pages)]
            odd = tuple([f"page {page} is cached in slots {p}" for page, p in parts if p != page_slots(page, size)])
        info = NodeInfo(
            ends, pages, start, names[-1] if names else start, broken, odd, dict(zip(ends, pages, strict=False))
        )
        if len(self.known) > 200_000:
            self.known.clear()
        content = (start, units, slots)
        found = self.known[content] = (content, info)
        return found

    def named_by(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The units of a node in plain integers."""
        try:
            exact = {*map(type, given)} <= EXACT
            units = given if exact else tuple(map(self.unit, given))
        except TypeError as error:
            raise self.no_units(given) from error
        tokens = units if exact else [unit for unit in units if type(unit) is int]
        if tokens and not (min(tokens) > -MAX_NUMBER and max(tokens) < MAX_NUMBER):
            raise self.no_units(given)
        return units

    def no_slots(self, given: tuple[Any, ...]) -> ValueError:
        """What to raise for these."""
        return ValueError(f"slots of a node must be integers from 0 on (got {shown(given[:8])})")

    def no_units(self, given: tuple[Any, ...]) -> ValueError:
        """What to raise for these."""
        return ValueError(f"units of a node must be integers, or pairs of them (got {shown(given[:8])})")
