"""Names of prefixes: equal prefixes, equal names.

A page's KV depends on its tokens *and on everything before them*, so a page is identified by
the whole prefix that ends with it.  Carrying such prefixes around as tuples would make every
comparison as long as the prompt.  A :class:`Names` table interns them instead: each prefix of
each namespace gets one small integer, and the table remembers how to read it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvlitmus.spec.words.units import Name, Unit

NO_NAME = Name(-1)
"""What stands in a slot that nobody wrote."""

NOBODYS = -(1 << 63)
"""A unit that no key has."""


class Names:
    """A growing bijection between prefixes and small integers.

    The root of a namespace (its empty prefix) has a name too, so that the parent of a first
    page is well defined and two namespaces share nothing but the table.
    """

    __slots__ = ("_chunks", "_ids", "_parents", "_roots", "_units")

    def __init__(self) -> None:
        self._ids: dict[tuple[int, Unit], Name] = {}
        self._chunks: dict[tuple[int, tuple[Unit, ...]], tuple[Name, ...]] = {}
        self._roots: dict[str | None, Name] = {}
        self._parents: list[Name] = []
        self._units: list[Unit | str | None] = []

    def root(self, namespace: str | None) -> Name:
        """The name of the empty prefix of a namespace."""
        found = self._roots.get(namespace)
        if found is None:
            found = self._roots[namespace] = self._new(NO_NAME, namespace)
        return found

    def lost(self, namespace: str | None) -> Name:
        """The name of a prefix of which nobody knows any more what it was: no page that is cached has it."""
        return self.extend(self.root(namespace), (NOBODYS,))[-1]

    def extend(self, start: Name, units: Sequence[Unit]) -> tuple[Name, ...]:
        """The names of ``start`` extended by one, two, … of ``units``."""
        chunk = (start, tuple(units))
        found = self._chunks.get(chunk)
        if found is None:
            found = self._chunks[chunk] = tuple(self._walk(start, units))
        return found

    def of(self, namespace: str | None, units: Sequence[Unit]) -> tuple[Name, ...]:
        """The names of all non-empty prefixes of a key, shortest first."""
        return self.extend(self.root(namespace), units)

    def parent(self, name: Name) -> Name:
        """The prefix that is one unit shorter."""
        return self._parents[name]

    def above(self, name: Name, many: int) -> Name:
        """The prefix that is so many units shorter."""
        for _ in range(many):
            name = self.parent(name)
        return name

    def prefix(self, name: Name) -> tuple[str | None, tuple[Unit, ...]]:
        """The namespace and the units that a name stands for."""
        units: list[Unit] = []
        while self._parents[name] != NO_NAME:
            unit = self._units[name]
            assert isinstance(unit, int | tuple)
            units.append(unit)
            name = self._parents[name]
        namespace = self._units[name]
        assert namespace is None or isinstance(namespace, str)
        return namespace, tuple(reversed(units))

    def knows(self, name: int) -> bool:
        """Whether this number is a name."""
        return 0 <= name < len(self._parents)

    def _walk(self, start: Name, units: Iterable[Unit]) -> Iterable[Name]:
        for unit in units:
            found = self._ids.get((start, unit))
            if found is None:
                found = self._ids[start, unit] = self._new(start, unit)
            yield found
            start = found

    def _new(self, parent: Name, unit: Unit | str | None) -> Name:
        self._parents.append(parent)
        self._units.append(unit)
        return Name(len(self._parents) - 1)


def page_names(names: Sequence[Name], page_size: int) -> tuple[Name, ...]:
    """The names of the whole pages of a key, given the names of all its prefixes."""
    return tuple(names[page_size - 1 :: page_size])
