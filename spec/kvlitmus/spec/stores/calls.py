"""The calls on a page store judged alone, as values, and what they answer.

A batch answers by position: for each key.  A call that raises is answered by :class:`~kvlitmus.spec.prefix.calls.Raised`; that
is an observation, not the end, since one bad object must not fail the others (STORE-10).
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.spec.law.occasions import occasion, occasions_by_answer
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.calls import Raised


class StoreExists(NamedTuple):
    """How many leading keys are there; answers that number."""

    keys: tuple[str, ...]


class StoreGet(NamedTuple):
    """Read some pages of so many bytes; answers for each key its bytes, or ``None``.

    ``leading``: how many of the keys the store said are there, just before; ``None`` where it wasn't asked.
    """

    keys: tuple[str, ...]
    size: int
    leading: int | None = None


class StorePut(NamedTuple):
    """Put some pages; answers :class:`PutDone`."""

    keys: tuple[str, ...]
    values: tuple[bytes, ...]


class PutDone(NamedTuple):
    """``accepted``: for each key whether the page is stored, ``None`` where the call raised.

    ``strays``: what lies beside the store's own place afterwards; ``None`` where that can't be seen.
    """

    accepted: tuple[bool, ...] | None
    strays: tuple[str, ...] | None = None


class StoreGetInto(NamedTuple):
    """Read some pages into buffers, which hold this; answers :class:`Filled`."""

    keys: tuple[str, ...]
    buffers: tuple[bytes, ...]


class Filled(NamedTuple):
    """``filled``: for each key whether the store says that it filled the buffer; ``buffers``: what these hold then."""

    filled: tuple[bool, ...]
    buffers: tuple[bytes, ...]


@occasion(On.STORE_CLEAR)
class StoreClear(NamedTuple):
    """Clear the store; answers :class:`Cleared`."""


class Cleared(NamedTuple):
    """``left``: the keys, of those that were looked at, that are still counted or can still be read, in words."""

    left: tuple[str, ...]


class StoreDamage(NamedTuple):
    """Damage a stored object behind the store's back; answers whether that could be done."""

    key: str
    how: str


class StoreRank(NamedTuple):
    """From now on the calls are those of this rank."""

    rank: int


@occasion(On.STORE_CRASH, On.STORE_LOOKUP)
class StoreCrash(NamedTuple):
    """A writer of this page dies; answers what is there then: :class:`Crashed`."""

    key: str
    value: bytes

    @property
    def keys(self) -> tuple[str, ...]:
        """The key, as a batch."""
        return (self.key,)


class Crashed(NamedTuple):
    """A look at the key after its writer died.

    ``counted``: what ``exists`` says; ``pages``: what a get of the key answers, all positions; ``answered``: whether
    neither raised.
    """

    counted: int
    pages: tuple[bytes | None, ...]
    answered: bool


@occasion(On.STORE_RACE)
class StoreRace(NamedTuple):
    """No call: pages were put one after the other, each a step of its own, while another thread was reading them.

    ``wholes`` are the pages, and answers have the same form: their first bytes alone.  Answers :class:`Raced`.
    """

    wholes: tuple[bytes, ...]


class Raced(NamedTuple):
    """What the reader saw: each page once that it was given, ``None`` for a miss; and whether it raised."""

    glimpses: tuple[bytes | None, ...]
    raised: bool


StoreBatch = StoreExists | StoreGet | StorePut | StoreGetInto | StoreCrash
"""The calls that name keys."""

StoreCall = StoreBatch | StoreClear | StoreDamage | StoreRank
"""The calls that change what is known of a store."""

BATCHES: dict[type, On] = {
    StoreExists: On.STORE_EXISTS,
    StoreGet: On.STORE_GET,
    StorePut: On.STORE_PUT,
    StoreGetInto: On.STORE_GET_INTO,
}
"""The batches of a page store."""


@occasions_by_answer(*BATCHES)
def store_occasions(call: StoreBatch, answer: object) -> tuple[On, ...]:
    """A batch is one whether it is answered or raised; one that was asked for before it is read is a lookup."""
    occasions: tuple[On, ...] = (BATCHES[type(call)],)
    if isinstance(call, StoreGet) and call.leading is not None:
        occasions += (On.STORE_LOOKUP,)
    failed = isinstance(answer, Raised) or (isinstance(answer, PutDone) and answer.accepted is None)
    return (*occasions, On.RAISED) if failed else occasions
