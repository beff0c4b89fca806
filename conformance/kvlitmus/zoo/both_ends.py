"""An allocator from both ends, under a trie of single pages that counts nothing.

Single pages are taken from the low end of the pool and longer runs from the high end, so that long allocations stay in
one piece for as long as that can be; which pages are free is one integer, a bit for each.  The trie above it has a page
on each edge and remembers per edge who uses it, by receipt, instead of a number.  Looking for a victim walks all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvlitmus.conformance.ports import Config, Hit, NodeView, Profile, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key, Unit


class Bits:
    """The free pages as bits of one integer."""

    def __init__(self, first: int, count: int) -> None:
        self.bits = ((1 << count) - 1) << first

    def take(self, count: int) -> list[int] | None:
        """One page from the low end, more from the high end, in rising order."""
        if count > self.bits.bit_count():
            return None
        taken = []
        for _ in range(count):
            page = (self.bits & -self.bits if count == 1 else self.bits).bit_length() - 1
            self.bits ^= 1 << page
            taken.append(page)
        return taken[::-1]

    def give(self, pages: Sequence[int]) -> None:
        """Set their bits again."""
        for page in pages:
            self.bits |= 1 << page

    def __iter__(self) -> Iterator[int]:
        return (page for page in range(self.bits.bit_length()) if self.bits >> page & 1)


class Edge:
    """One page of the trie, and the edges that go on from it."""

    def __init__(self, above: Edge | None, units: tuple[Unit, ...], page: int) -> None:
        self.above = above
        self.units = units
        self.page = page
        self.edges: dict[tuple[Unit, ...], Edge] = {}
        self.users: set[int] = set()
        self.stamp = 0

    def walk(self) -> Iterator[Edge]:
        """All edges below, parents first."""
        for edge in self.edges.values():
            yield edge
            yield from edge.walk()


class BothEnds:
    """The allocator and the trie behind the ports."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = config.page_size
        self.reset()

    def reset(self) -> None:
        """All bits set, no edges."""
        self.bits = Bits(1, self.config.pages)
        self.roots: dict[str | None, Edge] = {}
        self.stamp = self.receipts = 0
        self.paths: dict[int, list[Edge]] = {}

    def alloc(self, n: int) -> list[int] | None:
        """From one end or the other."""
        if n % self.size:
            raise ValueError(f"whole pages of {self.size} (got {n})")
        pages = self.bits.take(n // self.size)
        return None if pages is None else self.slots(pages)

    def free(self, slots: Sequence[int]) -> None:
        """Whichever end they came from."""
        self.bits.give([slot // self.size for slot in slots[:: self.size]])

    def available(self) -> int:
        """As many bits as are set."""
        return self.bits.bits.bit_count() * self.size

    def slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of these pages."""
        return [slot for page in pages for slot in range(page * self.size, (page + 1) * self.size)]

    def path(self, key: Key) -> list[Edge]:
        """The edges along a key, as far as they go; each gets a new stamp, the deepest one the oldest."""
        edge, found, units = self.roots.setdefault(key.namespace, Edge(None, (), 0)), [], key.units
        for start in range(0, len(units) - self.size + 1, self.size):
            after = edge.edges.get(tuple(units[start : start + self.size]))
            if after is None:
                break
            found.append(after)
            edge = after
        for edge in reversed(found):
            self.stamp += 1
            edge.stamp = self.stamp
        return found

    def match(self, key: Key) -> Hit:
        """Along the trie."""
        path = self.path(key)
        return Hit(len(path) * self.size, self.slots([edge.page for edge in path]), path)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """Go on where the path ends; what was brought for the path itself is the caller's, as the profile says."""
        path = self.path(key)
        edge = path[-1] if path else self.roots[key.namespace]
        fresh = []
        for start in range(len(path) * self.size, key.length - self.size + 1, self.size):
            units = tuple(key.units[start : start + self.size])
            edge.edges[units] = Edge(edge, units, slots[start] // self.size)
            edge = edge.edges[units]
            fresh.append(edge)
        for edge in [*reversed(fresh), *reversed(path)]:
            self.stamp += 1
            edge.stamp = self.stamp
        return Stored(len(path) * self.size)

    def lock(self, handle: object) -> object:
        """Everybody on the path is told who uses it."""
        assert isinstance(handle, list)
        self.receipts += 1
        self.paths[self.receipts] = handle
        for edge in handle:
            edge.users.add(self.receipts)
        return self.receipts

    def unlock(self, receipt: object) -> None:
        """Nobody on the path hears of this receipt again."""
        assert isinstance(receipt, int)
        for edge in self.paths.pop(receipt):
            edge.users.remove(receipt)

    def evict(self, n: int) -> int:
        """The edge with the oldest stamp, of those that nobody uses and where nothing goes on."""
        freed = 0
        while freed < n:
            ends = [one for root in self.roots.values() for one in root.walk() if not one.edges and not one.users]
            if not ends:
                break
            victim = min(ends, key=lambda one: one.stamp)
            assert victim.above is not None
            del victim.above.edges[victim.units]
            self.bits.give([victim.page])
            freed += self.size
        return freed

    def view(self) -> View:
        """An edge is a node."""
        nodes: list[NodeView] = []
        at: dict[int, int] = {}
        for namespace, root in self.roots.items():
            for edge in root.walk():
                parent = at.get(id(edge.above), -1)
                at[id(edge)] = len(nodes)
                nodes.append(NodeView(parent, namespace, edge.units, tuple(self.slots([edge.page])), len(edge.users)))
        return View(list(self.bits), nodes)


class BothEndsTarget:
    """Makes them, by use only."""

    profile = Profile(hit_counts="none")

    def make(self, config: Config) -> BothEnds:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("stamps on the device")
        return BothEnds(config)


target = BothEndsTarget()
