"""The calls on a sparse host pool, as values, and what they answer.

A request is refused by ``None`` or by an error; to the rules both are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvlitmus.spec.interface.sparse import SparseView
from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.law.occasions import occasion, occasions_by_answer
from kvlitmus.spec.law.on import On
from kvlitmus.spec.words.units import Slot, Tokens


class SparseRequest(NamedTuple):
    """Ask for the slots of some tokens of a row; answers :class:`SparseDone`."""

    row: int
    """The row."""
    start: int
    """Its first token that is asked for."""
    tokens: int
    """How many tokens are asked for."""
    staged: bool = False
    """A copy of these tokens from the device to their slots begins with the answer."""
    length: int = 0
    """A step of decoding of a sequence that is so long asks for them; 0 for none."""
    prompt: int = 0
    """How many tokens of the model are staged; 0 if as many as are asked for."""
    peer: int = 0
    """A peer with pages of so many tokens begins to write to these slots; 0 for none."""

    @property
    def end(self) -> int:
        """The token behind the last one."""
        return self.start + self.tokens


@occasion(On.SPARSE_READ)
class SparseRead(NamedTuple):
    """Read back all slots of a row; answers :class:`SparseDone`."""

    row: int


@occasion(On.SPARSE_FREE)
class SparseFree(NamedTuple):
    """Give a row back; answers :class:`SparseDone`.  ``why``: one of :data:`ENDINGS`."""

    row: int
    why: str = "finished"


ENDINGS = ("finished", "aborted", "retracted")
"""Why a row is given back: its request is at its end, its client gave it up, or it will be computed anew."""


@occasion(On.SPARSE_RESERVE)
class SparseReserve(NamedTuple):
    """Ask whether a request that will have no more than so many tokens is admitted; answers :class:`SparseDone`."""

    row: int
    tokens: int


@occasion(On.SPARSE_COPIED)
class SparseCopied(NamedTuple):
    """A copy of staged tokens ends, the one that began as this number from 0 on; answers :class:`SparseDone`."""

    copy: int


@occasion(On.SPARSE_READY)
class SparseReady(NamedTuple):
    """Ask which staged rows are acknowledged; answers :class:`SparseDone`."""


class SparseGrow(NamedTuple):
    """A step makes room on the device for the newest token of a row; answers :class:`SparseDone` with its device slot for
    ``places``, or not ``accepted``.
    """

    row: int
    length: int


@occasion(On.SPARSE_TRANSFERRED)
class SparseTransferred(NamedTuple):
    """A peer has ended its transfer, with all KV or without; answers :class:`SparseDone`."""

    transfer: int
    arrived: bool


@occasion(On.SPARSE_ADMIT)
class SparseAdmit(NamedTuple):
    """The request of a row begins to decode; answers :class:`SparseDone`."""

    row: int
    length: int


@occasion(On.SPARSE_SWAP)
class SparseSwap(NamedTuple):
    """Ask where some tokens of a row lie in its buffer; answers :class:`SparseDone` with places for ``slots``."""

    row: int
    length: int
    wanted: tuple[int, ...]


@occasion(On.SPARSE_MISUSE)
class SparseMisuse(NamedTuple):
    """The same with tokens that can't be wanted; answers :class:`SparseDone`, not ``accepted`` where that was an error.

    ``declared``: whether the profile says what happens then; else nobody knows what the buffer holds.
    """

    row: int
    length: int
    wanted: tuple[int, ...]
    declared: bool = True


@occasion(On.SPARSE_CONNECT)
class SparseConnect(NamedTuple):
    """A peer with pages of so many tokens wants to write into the rows; answers :class:`SparseDone`."""

    page_size: int


class SparseSeen(NamedTuple):
    """What was seen of the pool after a call: its own count of free slots, and the snapshot.

    ``device``: its count of free slots on the device; ``buffers``: the device slots of each row that has some.
    """

    available: Tokens | Unknown = UNKNOWN
    view: SparseView | Unknown = UNKNOWN
    device: Tokens | Unknown = UNKNOWN
    buffers: Mapping[int, tuple[int, ...]] | Unknown = UNKNOWN


class SparseDone(NamedTuple):
    """What was answered, and what was seen after it."""

    slots: tuple[Slot, ...] | None
    """Those that were granted or read; ``None`` for a request that was refused."""
    seen: SparseSeen
    """What was seen after it."""
    accepted: bool = True
    """Whether a peer was, or a request was admitted."""
    places: tuple[int, ...] = ()
    """Those of a row's buffer."""
    copying: tuple[int, ...] = ()
    """The copies of staged tokens that have not ended."""
    ready: tuple[int, ...] = ()
    """The rows that were acknowledged."""
    sending: tuple[int, ...] = ()
    """The transfers that have not ended."""
    pages: tuple[int, ...] = ()
    """Those that a peer was told to write to."""


SparseCall = (
    SparseRequest
    | SparseRead
    | SparseFree
    | SparseAdmit
    | SparseSwap
    | SparseMisuse
    | SparseConnect
    | SparseCopied
    | SparseReady
    | SparseReserve
    | SparseTransferred
    | SparseGrow
)
"""Every call on a sparse host pool."""


@occasions_by_answer(SparseRequest)
def sparse_occasions(call: SparseRequest, answer: SparseDone) -> tuple[On, ...]:
    """A request for slots of a row is granted or refused, one that is to be staged or written to like any other."""
    if call.peer:
        if answer.slots is None:
            return (On.REFUSED_SPARSE_REQUEST, On.REFUSED_SPARSE_PREALLOC)
        return (On.SPARSE_REQUEST, On.SPARSE_PREALLOC)
    if answer.slots is None:
        return (On.REFUSED_SPARSE_REQUEST, On.REFUSED_SPARSE_STAGE) if call.staged else (On.REFUSED_SPARSE_REQUEST,)
    if call.length:
        return (On.SPARSE_REQUEST, On.SPARSE_BACKUP)
    return (On.SPARSE_REQUEST, On.SPARSE_STAGE) if call.staged else (On.SPARSE_REQUEST,)


@occasions_by_answer(SparseGrow)
def sparse_grow_occasions(_: SparseGrow, answer: SparseDone) -> tuple[On, ...]:
    """A buffer grows, or the device has no room."""
    return (On.SPARSE_GROW,) if answer.accepted else (On.REFUSED_SPARSE_GROW,)
