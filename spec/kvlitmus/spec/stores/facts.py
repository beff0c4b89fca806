"""What the rules of a page store speak of: what can lie in an object's place, and the facts that are theirs alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.prefix.calls import Raised
from kvlitmus.spec.stores.calls import (
    Cleared,
    Crashed,
    Filled,
    PutDone,
    Raced,
    StoreBatch,
    StoreCrash,
    StoreGet,
    StoreGetInto,
    StorePut,
    StoreRace,
)
from kvlitmus.spec.stores.state import VAGUE, Entry, StoreState
from kvlitmus.spec.words.schemes import ordinary
from kvlitmus.spec.words.setting import Setting

Value = TypeVar("Value")

SHORT = ("short", "empty")
"""Damage that leaves an object with fewer bytes than it had."""
CORRUPT = ("flip", "other")
"""Damage that leaves all its bytes: one of them changed, or those of another object in its place."""
DAMAGES = (*SHORT, *CORRUPT)
STRANGE = ("long", "folder", "pipe", "link")
"""Something else in its place: far more bytes than it had, a container, a pipe, a link to another object."""
UNSEEN = (*CORRUPT, "link")
"""Damage of which a look at the length says nothing."""


class Read(NamedTuple):
    """A key that was read: what the store returned, ``None`` for a miss; what was known of it; what other ranks put there."""

    got: bytes | None
    known: Entry
    foreign: Collection[bytes] = ()


def misread(one: Read) -> bool:
    """Whether the store returned what this rank never put under the key."""
    return one.got is not None and one.got not in one.known.puts


# What the call names, and what was known of it


@fact(0)
def store_asked(call: StoreBatch) -> int:
    """How many keys the call named."""
    return len(call.keys)


@fact(0)
def store_excused(call: StoreBatch) -> bool:
    """Whether the call named a key that a store may refuse by raising."""
    return not all(map(ordinary, call.keys))


@fact(0)
def store_entries(state: StoreState, call: StoreBatch) -> Sequence[Entry]:
    """For each key: what was known of it before the call."""
    return [state.entry(key) for key in call.keys]


@fact(0)
def odd_positions(state: StoreState, call: StoreBatch, answer: object) -> frozenset[int]:
    """Where the answer of a get is judged apart: at keys out of the ordinary, and at what was put under such a key."""
    if not isinstance(call, StoreGet) or not isinstance(answer, tuple) or isinstance(answer, Raised):
        return frozenset()
    pairs = enumerate(zip(call.keys, answer, strict=False))
    return frozenset(at for at, (key, got) in pairs if not ordinary(key) or got in state.odd)


def others(values: Iterable[Value], positions: frozenset[int]) -> Sequence[Value]:
    """The values at all other positions."""
    return [value for at, value in enumerate(values) if at not in positions]


@fact(0)
def plain_entries(store_entries: Sequence[Entry], odd_positions: frozenset[int]) -> Sequence[Entry]:
    """The same as store_entries, without the odd positions."""
    return others(store_entries, odd_positions) if odd_positions else store_entries


@fact(0)
def store_ordinary(
    state: StoreState, setting: Setting, call: StorePut, store_entries: Sequence[Entry]
) -> Sequence[bool]:
    """For each key: whether it is a key that every store takes, with nothing in its way: in a store that may be full, the first one, while there is nothing else."""
    # A store need not remove a folder, which may be somebody's.
    takes = [
        ordinary(key) and entry.damage not in ("folder", VAGUE)
        for key, entry in zip(call.keys, store_entries, strict=True)
    ]
    if setting.profile.store_room == "endless":
        return takes
    empty = all(entry.there is False for entry in state.entries.values())
    return [yes and empty and not at for at, yes in enumerate(takes)]


@fact(0)
def store_there(plain_entries: Sequence[Entry]) -> Sequence[bool | None]:
    """For each key: whether an object is there (None: it can't be known), before the call."""
    return [entry.there for entry in plain_entries]


@fact(0)
def store_expected(store_there: Sequence[bool | None]) -> bool:
    """Whether an object is there under one of the keys, before the call."""
    return True in store_there


@fact(0)
def store_decided(plain_entries: Sequence[Entry]) -> bool:
    """Whether the profile decides which value one of the keys has."""
    return any(one.due is not None for one in plain_entries)


@fact(0)
def store_damaged(plain_entries: Sequence[Entry]) -> bool:
    """Whether the suite damaged the object of one of the keys."""
    return any(one.damage for one in plain_entries)


def foreign_of(state: StoreState, call: StoreBatch, odd_positions: frozenset[int]) -> Sequence[Collection[bytes]]:
    """For each key, without the odd positions: the values that other ranks put under it."""
    return others([state.foreign(key) for key in call.keys], odd_positions)


@fact(0)
def store_shared(state: StoreState, call: StoreBatch, odd_positions: frozenset[int]) -> bool:
    """Whether other ranks put something under one of the keys."""
    return any(foreign_of(state, call, odd_positions))


@fact(0)
def store_checks(setting: Setting) -> str:
    """What the profile says a store looks at when it reads: all bytes, or the length alone."""
    return setting.profile.store_checks


# What it answered


@fact(0)
def store_raised(answer: object) -> bool:
    """Whether the call raised."""
    if isinstance(answer, PutDone):
        return answer.accepted is None
    if isinstance(answer, Crashed):
        return not answer.answered
    return isinstance(answer, Raised) or (isinstance(answer, Raced) and answer.raised)


@fact(0)
def store_counted(answer: int | Raised) -> int | Unknown:
    """How many leading keys the store says are there; unknown where it raised."""
    return UNKNOWN if isinstance(answer, Raised) else answer


@fact(0)
def store_answered(answer: tuple[bytes | None, ...] | PutDone | Filled | Raised) -> int | Unknown:
    """How many positions the answer has; unknown where the call raised."""
    if isinstance(answer, Filled):
        return len(answer.filled)
    if isinstance(answer, PutDone):
        return UNKNOWN if answer.accepted is None else len(answer.accepted)
    return UNKNOWN if isinstance(answer, Raised) else len(answer)


@fact(0)
def store_reads(
    state: StoreState,
    call: StoreBatch,
    answer: tuple[bytes | None, ...] | Crashed | Raised,
    plain_entries: Sequence[Entry],
    odd_positions: frozenset[int],
) -> Sequence[Read] | Unknown:
    """For each key: what the store returned, beside what was known of it; without the odd positions, and unknown where it raised."""
    if isinstance(answer, Raised):
        return UNKNOWN
    got = others(answer.pages if isinstance(answer, Crashed) else answer, odd_positions)
    foreign = foreign_of(state, call, odd_positions)
    return [Read(*one) for one in zip(got, plain_entries, foreign, strict=False)]


@fact(0)
def store_odd_reads(
    answer: tuple[bytes | None, ...] | Raised, store_entries: Sequence[Entry], odd_positions: frozenset[int]
) -> Sequence[Read] | Unknown:
    """The same as store_reads, for keys out of the ordinary and for what was put under such keys."""
    if isinstance(answer, Raised):
        return UNKNOWN
    return [Read(answer[at], store_entries[at]) for at in sorted(odd_positions)]


@fact(0)
def store_found(store_reads: Sequence[Read]) -> bool:
    """Whether the store returned something for one of the keys."""
    return any(one.got is not None for one in store_reads)


@fact(0)
def store_leading(call: StoreGet | StoreCrash, answer: object) -> int:
    """How many leading keys the store said are there, just before they were read."""
    if isinstance(call, StoreGet):
        return call.leading or 0
    return int(isinstance(answer, Crashed) and answer.counted != 0)


@fact(0)
def store_accepted(answer: PutDone) -> Sequence[bool] | Unknown:
    """For each key: whether the put says that the value is stored; unknown where it raised."""
    return UNKNOWN if answer.accepted is None else answer.accepted


@fact(0, ports=("store_yard",))
def store_strays(answer: PutDone) -> Sequence[str] | Unknown:
    """What lies beside the store's own place although only the store could have put it there; unknown where nobody looked."""
    return UNKNOWN if answer.strays is None else answer.strays


@fact(0)
def store_filled(answer: Filled | Raised) -> Sequence[bool] | Unknown:
    """For each key: whether the store says that it filled the buffer; unknown where it raised."""
    return UNKNOWN if isinstance(answer, Raised) else answer.filled


@fact(0)
def buffers_before(call: StoreGetInto) -> Sequence[bytes]:
    """The buffers that were passed, before the call."""
    return call.buffers


@fact(0)
def buffers_after(answer: Filled | Raised) -> Sequence[bytes] | Unknown:
    """The buffers that were passed, after the call; not looked at where it raised."""
    return UNKNOWN if isinstance(answer, Raised) else answer.buffers


@fact(0)
def store_left(answer: Cleared) -> Sequence[str]:
    """The keys that are there, or can be read, after everything was cleared."""
    return answer.left


# What a reader saw of an unfinished put


@fact(0)
def store_glimpses(answer: Crashed | Raced) -> Sequence[bytes | None]:
    """What was read under the key while, or after, a put did not get to its end."""
    return answer.pages if isinstance(answer, Crashed) else answer.glimpses


@fact(0)
def store_wholes(state: StoreState, call: StoreCrash | StoreRace) -> frozenset[bytes]:
    """The values that were whole under the key: the one that was there, and the one being put."""
    if isinstance(call, StoreRace):
        return frozenset(call.wholes)
    return frozenset((*state.entry(call.key).puts, call.value))
