"""What the suite knows of a page store: per rank and key, which values may be there.

A store under judgement is not asked for its content; what it may hold follows from what was put, what it
answered, what the suite damaged, and what was read since.  Where the profile leaves it open which of two
values is kept, both may be there until one of them is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kvlitmus.spec.prefix.calls import Raised
from kvlitmus.spec.stores.calls import (
    Crashed,
    StoreCall,
    StoreClear,
    StoreCrash,
    StoreDamage,
    StoreExists,
    StoreGet,
    StorePut,
    StoreRank,
)
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.schemes import ordinary

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


@lean
class StoreState(NamedTuple):
    """Everything that is known of one store.

    ``rank``: whose calls they are now.  ``entries``: what is known, by rank and key, in the order of the first puts.
    ``odd``: what was put under keys out of the ordinary.
    """

    rank: int
    entries: Mapping[tuple[int, str], Entry]
    odd: frozenset[bytes]

    def entry(self, key: str) -> Entry:
        """What is known of a key, to the present rank."""
        return self.entries.get((self.rank, key), NOTHING)

    def foreign(self, key: str) -> frozenset[bytes]:
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


EMPTY_STORE = StoreState(0, {}, frozenset())
"""Nothing was ever put."""


def advance_store(state: StoreState, profile: Profile, call: StoreCall, answer: Any) -> StoreState:
    """What is known after a call that was answered so, of a store of this profile.

    A read that raised tells nothing; of a put that raised it isn't known what it has done.  Where a store evicts, a put, or
    a writer that died, may have taken anything, the pages of its own batch among it, but for the last that was stored.
    """
    if profile.store_room == "evicts" and isinstance(call, StorePut | StoreCrash):
        state = state._replace(entries={at: doubtful(entry) for at, entry in state.entries.items()})
    policy = profile.store_put
    if isinstance(call, StoreRank):
        return state._replace(rank=call.rank)
    if isinstance(call, StoreClear):
        return state._replace(entries=cleared(state))
    if isinstance(call, StorePut):
        after = after_put(state, policy, call, answer.accepted)
        return crowded(after, call, answer.accepted) if profile.store_room == "evicts" else after
    entries = dict(state.entries)
    if isinstance(call, StoreExists) and not isinstance(answer, Raised):
        for key in call.keys[: answer + 1]:
            entries[state.rank, key] = state.entry(key).counted(key in call.keys[:answer])
    elif isinstance(call, StoreGet) and not isinstance(answer, Raised):
        for key, got in zip(call.keys, answer, strict=False):
            entries[state.rank, key] = entries.get((state.rank, key), NOTHING).read(got)
    elif isinstance(call, StoreDamage) and answer:
        entries[state.rank, call.key] = state.entry(call.key).damaged(call.how)
    elif isinstance(call, StoreCrash):
        entries[state.rank, call.key] = after_crash(state.entry(call.key), call.value, answer)
    return state._replace(entries=entries)


def after_put(state: StoreState, policy: str, call: StorePut, accepted: Sequence[bool] | None) -> StoreState:
    """After a put of a batch; none of it was accepted where it raised."""
    if accepted is None:
        accepted = [False] * len(call.keys)
    entries = dict(state.entries)
    for key, value, stored in zip(call.keys, call.values, accepted, strict=False):
        entries[state.rank, key] = entries.get((state.rank, key), NOTHING).put(value, stored, policy)
    odd = {value for key, value in zip(call.keys, call.values, strict=False) if not ordinary(key)}
    return StoreState(state.rank, entries, state.odd | odd)


def crowded(state: StoreState, call: StorePut, accepted: Sequence[bool] | None) -> StoreState:
    """After a put into a store that evicts: what was stored first of the batch may be gone by what was stored last."""
    stored = [key for key, yes in zip(call.keys, accepted or (), strict=False) if yes]
    entries = dict(state.entries)
    for key in stored:
        if key != stored[-1]:
            entries[state.rank, key] = doubtful(state.entry(key))
    return state._replace(entries=entries)


def doubtful(entry: Entry) -> Entry:
    """What is known of a key when its object may have gone, and nobody said so."""
    if entry.there is False:
        return entry
    return replace(entry, there=None, mended=(), damage=VAGUE if entry.damage else "")


def after_crash(entry: Entry, value: bytes, answer: Crashed) -> Entry:
    """After a writer of this value died, and the key was looked at: what was seen whole is there, else nothing is sure."""
    puts, page = (*entry.puts, value), answer.pages[0] if answer.pages else None
    if page in puts:
        return Entry(True, puts, page)
    torn = bool(answer.counted) or page is not None or not answer.answered
    return Entry(None, puts, damage="torn") if torn else Entry()


def cleared(state: StoreState) -> dict[tuple[int, str], Entry]:
    """After a clear: nothing of this rank is there; of the others nobody promised anything."""
    entries = dict(state.entries)
    for (rank, key), entry in state.entries.items():
        if rank == state.rank:
            entries[rank, key] = NOTHING
        else:
            entries[rank, key] = doubtful(entry)
    return entries
