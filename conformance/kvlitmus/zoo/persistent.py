"""A persistent tree: no value is ever changed, each call makes a new version that shares what it can with the last.

A version is one immutable value; the cache is a variable that holds the newest.  Receipts are plain numbers in the
version, so what is protected is looked up rather than counted.  Taking a lock is a use, as the profile says.  Nodes are
as long as what was inserted at once; an eviction cuts single pages from their ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvlitmus.conformance.ports import Config, Hit, NodeView, Profile, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key, Unit

Page = tuple[Unit, ...]
Path = tuple[str | None, tuple[Page, ...]]
"""A namespace, and the pages of units that lead to a place."""


@dataclass(frozen=True, slots=True)
class Node:
    """Pages of units with the pages of the pool, and what follows, by its first page of units."""

    units: tuple[Page, ...]
    pages: tuple[int, ...]
    used: int
    after: Mapping[Page, Node] = field(default_factory=dict)

    def cut(self, at: int) -> Node:
        """The same in two nodes."""
        if at == len(self.units):
            return self
        lower = replace(self, units=self.units[at:], pages=self.pages[at:])
        return Node(self.units[:at], self.pages[:at], self.used, {lower.units[0]: lower})


@dataclass(frozen=True, slots=True)
class Version:
    """All there is at one moment."""

    free: tuple[int, ...]
    roots: Mapping[str | None, Node] = field(default_factory=dict)
    receipts: Mapping[int, Path] = field(default_factory=dict)
    now: int = 0


def common(one: Sequence[Page], other: Sequence[Page]) -> int:
    """How many pages two sequences begin with alike."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )


def used(node: Node, pages: Sequence[Page], now: int) -> tuple[Node, tuple[int, ...]]:
    """The node after these pages were used that follow it, and where they are."""
    following = node.after.get(pages[0]) if pages else None
    if following is None:
        return node, ()
    shared = common(following.units, pages)
    upper = replace(following.cut(shared), used=now)
    upper, below = used(upper, pages[shared:], now) if shared == len(following.units) else (upper, ())
    return replace(node, after={**node.after, upper.units[0]: upper}), upper.pages + below


def added(node: Node, path: Sequence[Page], units: tuple[Page, ...], pages: tuple[int, ...], now: int) -> Node:
    """The node with a new one at the end of a path, which ends with a node."""
    if path:
        following = node.after[path[0]]
        following = added(following, path[len(following.units) :], units, pages, now)
        return replace(node, after={**node.after, following.units[0]: following})
    return replace(node, after={**node.after, units[0]: Node(units, pages, now)})


def trimmed(node: Node, path: Sequence[Page]) -> Node:
    """The node without the last page of a path, which is a leaf's."""
    following = node.after[path[0]]
    rest = {first: one for first, one in node.after.items() if first != path[0]}
    if len(path) > len(following.units):
        return replace(node, after={**rest, path[0]: trimmed(following, path[len(following.units) :])})
    if len(following.units) == 1:
        return replace(node, after=rest)
    return replace(
        node, after={**rest, path[0]: replace(following, units=following.units[:-1], pages=following.pages[:-1])}
    )


def every(node: Node, path: tuple[Page, ...] = ()) -> Iterator[tuple[Node, tuple[Page, ...]]]:
    """All nodes below, each with the path to its end, parents first."""
    for following in node.after.values():
        end = path + following.units
        yield following, end
        yield from every(following, end)


class Persistent:
    """The variable, and the ports."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = config.page_size
        self.version = Version(tuple(range(1, config.pages + 1)))

    def alloc(self, n: int) -> list[int] | None:
        """The first pages."""
        free, count = self.version.free, n // self.size
        if count > len(free):
            return None
        self.version = replace(self.version, free=free[count:])
        return self.slots(free[:count])

    def free(self, slots: Sequence[int]) -> None:
        """Before the others."""
        pages = tuple(dict.fromkeys(slot // self.size for slot in slots))
        self.version = replace(self.version, free=pages + self.version.free)

    def available(self) -> int:
        """What is free in this version."""
        return len(self.version.free) * self.size

    def slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of these pages."""
        return [page * self.size + at for page in pages for at in range(self.size)]

    def cut(self, key: Key) -> tuple[Page, ...]:
        """The whole pages of a key."""
        units = tuple(key.units)
        return tuple(units[at : at + self.size] for at in range(0, len(units) - self.size + 1, self.size))

    def use(self, namespace: str | None, units: Sequence[Page]) -> tuple[int, ...]:
        """A version in which these were used now; where they are."""
        version = self.version
        root, pages = used(version.roots.get(namespace, Node((), (), 0)), units, version.now + 1)
        self.version = replace(version, roots={**version.roots, namespace: root}, now=version.now + 1)
        return pages

    def match(self, key: Key) -> Hit:
        """A use."""
        units = self.cut(key)
        pages = self.use(key.namespace, units)
        return Hit(len(pages) * self.size, self.slots(pages), (key.namespace, units[: len(pages)]))

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """A use of what is there, and a new node behind it."""
        units = self.cut(key)
        already = len(self.use(key.namespace, units))
        if already < len(units):
            pages = tuple(slots[at * self.size] // self.size for at in range(already, len(units)))
            version = self.version
            root = added(version.roots[key.namespace], units[:already], units[already:], pages, version.now)
            self.version = replace(version, roots={**version.roots, key.namespace: root})
        return Stored(already * self.size)

    def lock(self, handle: object) -> object:
        """A use, and a number in the version."""
        assert isinstance(handle, tuple)
        self.use(*handle)
        version = self.version
        self.version = replace(version, receipts={**version.receipts, version.now: handle})
        return version.now

    def unlock(self, receipt: object) -> None:
        """The number is gone."""
        left = {number: path for number, path in self.version.receipts.items() if number != receipt}
        self.version = replace(self.version, receipts=left)

    def locks(self, namespace: str | None, path: tuple[Page, ...]) -> int:
        """How many receipts go at least as far as here."""
        return sum(
            1 for other, pages in self.version.receipts.values() if other == namespace and pages[: len(path)] == path
        )

    def evict(self, n: int) -> int:
        """A new version for each page."""
        freed = 0
        while freed < n:
            ends = [
                (node.used, -len(path), at, namespace, path, node.pages[-1])
                for at, (namespace, root) in enumerate(self.version.roots.items())
                for node, path in every(root)
                if not node.after and not self.locks(namespace, path)
            ]
            if not ends:
                break
            *_, namespace, path, page = min(ends, key=lambda one: one[:3])
            roots = {**self.version.roots, namespace: trimmed(self.version.roots[namespace], path)}
            self.version = replace(self.version, roots=roots, free=(*self.version.free, page))
            freed += self.size
        return freed

    def view(self) -> View:
        """The newest version."""
        nodes: list[NodeView] = []
        for namespace, root in self.version.roots.items():
            at: dict[tuple[Page, ...], int] = {}
            for node, path in every(root):
                parent = at.get(path[: len(path) - len(node.units)], -1)
                at[path] = len(nodes)
                flat = tuple(unit for page in node.units for unit in page)
                nodes.append(
                    NodeView(parent, namespace, flat, tuple(self.slots(node.pages)), self.locks(namespace, path))
                )
        return View(self.version.free, nodes)


class PersistentTarget:
    """Makes them, by use."""

    profile = Profile(lock_touches=True, hit_counts="none")

    def make(self, config: Config) -> Persistent:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("versions on the device, by use")
        return Persistent(config)


target = PersistentTarget()
