"""What the suite knows of a page store: per rank and key, which values may be there.

A store under judgement is not asked for its content; what it may hold follows from what was put, what it
answered, what the suite damaged, and what was read since.  Where the profile leaves it open which of two
values is kept, both may be there until one of them is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

VAGUE = "perhaps"
"""Damage to an object that another rank's clear may have removed: nothing can be said of it until a clear."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one key.

    there: whether an object is there, ``None`` where it can't be known.  puts: every value that may be read.
    due: the one that must be, where that is certain.  damage: how it was damaged, empty if it wasn't; ``torn`` after
    a crash that showed.  mended: what may be there by puts that were accepted after that.
    """

    there: bool | None = False
    puts: tuple[bytes, ...] = ()
    due: bytes | None = None
    damage: str = ""
    mended: tuple[bytes, ...] = ()

    def put(self, value: bytes, accepted: bool, policy: str) -> Entry:
        """After a put that was accepted or not."""
        puts = (*self.puts, value) if value not in self.puts else self.puts
        if self.damage:
            mended = self.mended
            if accepted and self.damage != VAGUE and not (policy == "first" and mended):
                mended = (value,) if policy == "last" else (*mended, value)
            # A batch that raised may have written this page before it did: nobody knows whether it is mended.
            return replace(self, there=None, puts=puts, mended=mended, damage=self.damage if accepted else VAGUE)
        if self.there is False:
            return Entry(True, (value,), value) if accepted else Entry(None, (value,))
        if self.there and policy == "first":
            return replace(self, puts=puts)
        if accepted and policy == "last":
            return replace(self, there=True, puts=puts, due=value)
        return replace(self, there=True if accepted else self.there, puts=puts, due=None)

    def read(self, got: bytes | None) -> Entry:
        """After a get."""
        if self.damage:
            return Entry(True, self.puts, got) if got in self.mended else self
        if got is None:
            return self if self.there else Entry()
        return replace(self, there=True, due=got) if got in self.puts else self

    def counted(self, found: bool) -> Entry:
        """After ``exists`` has said whether it is there."""
        if self.there is not None or self.damage:
            return self
        return replace(self, there=True) if found else Entry()

    def damaged(self, how: str) -> Entry:
        """After the suite damaged it."""
        return Entry() if how == "gone" else replace(self, there=None, damage=how, mended=())


NOTHING = Entry()


class StoreModel:
    """Everything that is known of one store.  ``policy`` is the profile's ``store_put``."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.rank = 0
        self.entries: dict[tuple[int, str], Entry] = {}
        self.serial = 0
        self.odd: set[bytes] = set()
        """What was put under keys out of the ordinary."""

    def entry(self, key: str) -> Entry:
        """What is known of a key, to the present rank."""
        return self.entries.get((self.rank, key), NOTHING)

    def note(self, key: str, entry: Entry) -> None:
        """From now on this is known."""
        self.entries[self.rank, key] = entry

    def foreign(self, key: str) -> Collection[bytes]:
        """What the other ranks may have there."""
        return frozenset(
            value
            for (rank, other), entry in self.entries.items()
            if other == key and rank != self.rank
            for value in entry.puts
        )

    def known(self) -> list[str]:
        """The keys under which something may be there, to the present rank, in the order of their first puts."""
        return [key for (rank, key), entry in self.entries.items() if rank == self.rank and entry.there is not False]

    def clear(self) -> None:
        """After a clear: nothing of this rank is there; of the others nobody promised anything."""
        for (rank, key), entry in self.entries.items():
            if rank == self.rank:
                self.entries[rank, key] = NOTHING
            elif entry.there is not False:
                self.entries[rank, key] = replace(entry, there=None, mended=(), damage=VAGUE if entry.damage else "")
