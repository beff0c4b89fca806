"""What is known of a sparse host pool: the pages of each row, and what was seen of the pool last.

All memory is of some row, free, or still written to by a copy whose row was given back; so rows and copies say how much
is free.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.sparse.buffer import SparseBuffer, acknowledged, admitted, grown, swapped
from kvlitmus.spec.sparse.calls import (
    SparseAdmit,
    SparseCall,
    SparseDone,
    SparseFree,
    SparseGrow,
    SparseMisuse,
    SparseReady,
    SparseRequest,
    SparseReserve,
    SparseSeen,
    SparseSwap,
    SparseTransferred,
)
from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.units import PageNo, Pages, Slot, Tokens, page_ceil

Value = TypeVar("Value")


@lean
class SparseRow(NamedTuple):
    """The pages of a row, in order.

    Token ``i`` lies in page ``i // page_size`` of the row, ``i % page_size`` slots behind that page's first one.
    """

    row: int
    pages: tuple[PageNo, ...]
    page_size: int

    @property
    def allocated(self) -> Tokens:
        """How many tokens there are slots for: a multiple of the page."""
        return Tokens(len(self.pages) * self.page_size)

    def slot(self, token: int) -> Slot:
        """The slot of a token below :attr:`allocated`."""
        return Slot(self.pages[token // self.page_size] * self.page_size + token % self.page_size)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All slots of the row."""
        return tuple(map(self.slot, range(self.allocated)))


def missing_pages(allocated: int, start: int, tokens: int, page_size: int) -> Pages:
    """How many pages a row lacks that has slots for so many tokens: those up to the end of the last page asked for."""
    if tokens <= 0:
        return Pages(0)
    return Pages(max(0, page_ceil(start + tokens, page_size) - allocated) // page_size)


@lean
class SparseCopy(NamedTuple):
    """A copy of so many tokens of the model to the pages of a row, from the device or by a peer, that has not ended.

    ``left``: whether the row was given back meanwhile; nothing but the copy has the pages then, and they are not free.
    """

    row: int
    pages: tuple[PageNo, ...]
    length: int
    left: bool = False


class Staged(NamedTuple):
    """A row that waits to be acknowledged: the number of its copy, and how many tokens of the model it has."""

    copy: int
    row: int
    length: int


@lean
class SparseState(NamedTuple):
    """What is known of one sparse host pool."""

    page_size: int
    """Slots in a page."""
    pages: int
    """How many pages there are."""
    width: int
    """How many slots a row has room for."""
    rows: Mapping[int, SparseRow]
    """The rows that have pages."""
    seen: SparseSeen = SparseSeen()
    """What was seen of the pool after the call before."""
    room: int = 0
    """How many tokens a row's buffer on the device has room for."""
    buffers: Mapping[int, SparseBuffer] = MappingProxyType({})
    """The buffers of rows that decode."""
    begun: int = 0
    """How many copies of staged tokens have begun."""
    copies: Mapping[int, SparseCopy] = MappingProxyType({})
    """The copies of staged tokens that have not ended, by number."""
    waiting: tuple[Staged, ...] = ()
    """The rows that are not acknowledged yet, in the order in which they were staged."""
    keeps: str = "first"
    """The profile's ``sparse_staged``."""
    backed: Mapping[int, int] = MappingProxyType({})
    """How many tokens of a row that decodes are on the host."""
    reserved: Mapping[int, Pages] = MappingProxyType({})
    """How many pages an admitted row may have."""
    ratio: int = 1
    """How many tokens of the model are one here."""
    lengths: Mapping[int, int] = MappingProxyType({})
    """How many tokens of the model rows have that decode."""
    sent: int = 0
    """How many transfers have begun."""
    transfers: Mapping[int, SparseCopy] = MappingProxyType({})
    """The transfers that have not ended, by number."""
    device: Tokens | Unknown = Tokens(0)
    """How many slots the device has for buffers."""
    grows: str = "page"
    """The profile's ``sparse_grows``."""
    places: Mapping[int, int] = MappingProxyType({})
    """For how many tokens the buffers of rows that decode were made."""
    held: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    """The device slots of these buffers, where a pool keeps them here."""

    def of(self, row: int) -> SparseRow:
        """A row, empty if it has no pages."""
        return self.rows.get(row, SparseRow(row, (), self.page_size))

    @property
    def free_pages(self) -> Pages:
        """How many pages are of no row, and written to by no copy and no peer."""
        taken = {page for row in self.rows.values() for page in row.pages}
        return Pages(self.pages - len(taken.union(self.left_pages)))

    @property
    def left_pages(self) -> tuple[PageNo, ...]:
        """The pages that copies and peers still write to, though their rows were given back."""
        works = (*self.copies.values(), *self.transfers.values())
        return tuple([page for one in works if one.left for page in one.pages])

    @property
    def receiving(self) -> Mapping[int, int]:
        """The rows that wait for a peer, and the numbers of their transfers."""
        return {one.row: number for number, one in self.transfers.items() if not one.left}

    def promised(self, row: int) -> Pages:
        """How many pages an admitted row has not been given yet of what it may have."""
        return Pages(max(0, self.reserved.get(row, 0) - len(self.of(row).pages)))

    def free_for(self, row: int) -> int:
        """How many free pages are not promised to other rows; what admission got wrong makes it negative."""
        return self.free_pages - sum(self.promised(other) for other in self.reserved if other != row)

    def hosted(self, length: int) -> Tokens:
        """How many slots so many tokens of the model take: one for each whole group that is compressed to one."""
        return Tokens(length // self.ratio)

    def buffer_bounds(self, tokens: int) -> tuple[int, int]:
        """How many device slots a buffer has for so many tokens, at least and at most."""
        return grown(tokens, self.room, self.page_size, self.grows)

    def missing(self, call: SparseRequest) -> Pages:
        """How many pages the row lacks for this request."""
        return missing_pages(self.of(call.row).allocated, call.start, call.tokens, self.page_size)


def advance_sparse(state: SparseState, call: SparseCall, answer: SparseDone) -> SparseState:
    """What is known after a call that was answered so, as far as the call and its answer say.

    A row that is given back has nothing; one that begins to decode has a buffer, and its tokens are on the host.
    """
    gone = given_back(state, call)
    rows, buffers, reserved = kept(state.rows, gone), kept(state.buffers, gone), kept(state.reserved, gone)
    backed, lengths, places = kept(state.backed, gone), kept(state.lengths, gone), kept(state.places, gone)
    for row, (length, buffer) in beginning(state, call, answer).items():
        had = places.get(row, 0) if isinstance(call, SparseAdmit) else 0
        buffers[row], lengths[row], backed[row] = buffer, length, state.hosted(length)
        places[row] = max(had, backed[row])
    match call:
        case SparseSwap():
            lengths[call.row] = call.length
            buffers[call.row], found = swapped(buffers[call.row], state.hosted(call.length), call.wanted)
            if found != answer.places:
                del buffers[call.row]  # a rule was broken: what it holds isn't known any more
        case SparseMisuse() if not call.declared:
            buffers.pop(call.row, None)
        case SparseGrow() if answer.accepted:
            lengths[call.row] = call.length
            places[call.row] = max(places.get(call.row, 0), state.hosted(call.length))
        case SparseReserve() if answer.accepted:
            reserved[call.row] = Pages(page_ceil(state.hosted(call.tokens), state.page_size) // state.page_size)
        case SparseRequest() if answer.slots is not None:
            if call.length:
                backed[call.row], lengths[call.row] = state.hosted(call.length - 1), call.length
                if call.row in buffers:
                    buffers[call.row] = buffers[call.row]._replace(length=state.hosted(call.length))
            if pages := state.of(call.row).pages + granted_pages(state, call, answer.slots):
                rows[call.row] = state.of(call.row)._replace(pages=pages)
    state = with_copies(state, call, answer)._replace(rows=rows, buffers=buffers, reserved=reserved, seen=answer.seen)
    return state._replace(backed=backed, lengths=lengths, places=places)


def kept(some: Mapping[int, Value], gone: int | None) -> dict[int, Value]:
    """What rows have, without the one that is given back."""
    return {row: one for row, one in some.items() if row != gone}


def given_back(state: SparseState, call: SparseCall) -> int | None:
    """The row that a call gives back: it says so, or a peer's transfer to a row has failed."""
    if isinstance(call, SparseFree):
        return call.row
    one = state.transfers.get(call.transfer) if isinstance(call, SparseTransferred) and not call.arrived else None
    return one.row if one and not one.left else None


def beginning(state: SparseState, call: SparseCall, answer: SparseDone) -> dict[int, tuple[int, SparseBuffer]]:
    """The rows that begin to decode with a call: how many tokens of the model each has, and what is in its buffer.

    They are admitted or acknowledged, or a transfer has ended with all KV for which the row still waits.
    """
    if isinstance(call, SparseReady):
        return {one.row: (one.length, first_buffer(state, one)) for one in state.waiting if one.row in answer.ready}
    one: SparseAdmit | SparseCopy | None = call if isinstance(call, SparseAdmit) else None
    if isinstance(call, SparseTransferred) and call.arrived and call.transfer in state.transfers:
        one = None if state.transfers[call.transfer].left else state.transfers[call.transfer]
    return {} if one is None else {one.row: (one.length, admitted(state.room, state.hosted(one.length)))}


def backup(state: SparseState, row: int, length: int) -> SparseRequest:
    """What a step of decoding asks the host for: a slot for the token before the newest, unless the token is there.

    Where several are compressed to one, the last of a group makes it whole, and the step after that asks.
    """
    place, rest = backup_place(length, state.ratio)
    due = not rest and place >= state.backed[row]
    return SparseRequest(row, max(0, place), int(due), length=length)


def backup_place(length: int, ratio: int) -> tuple[int, int]:
    """Where in its row the last whole group before the newest token is, −1 if there is none; and how many follow it.

    A step of a sequence that is ``length`` tokens long backs up that group where none follows.
    """
    return (length - 1) // ratio - 1, (length - 1) % ratio


def with_copies(state: SparseState, call: SparseCall, answer: SparseDone) -> SparseState:
    """The copies, transfers and waiting rows after a call.

    Whether a copy has ended is what the answer says, and of a transfer its peer says it.  A row that is given back waits
    no more, and leaves its pages to what goes on.
    """
    copies, transfers = going_on(state.copies, call, answer.copying), going_on(state.transfers, call, answer.sending)
    waiting, begun, sent = state.waiting, state.begun, state.sent
    if isinstance(call, SparseFree):
        waiting = tuple([one for one in waiting if one.row != call.row])
    elif isinstance(call, SparseTransferred):
        transfers.pop(call.transfer, None)
    elif isinstance(call, SparseRequest) and answer.slots and (call.staged or call.peer):
        one = SparseCopy(call.row, granted_pages(state, call, answer.slots), call.prompt or call.tokens)
        if call.peer:
            transfers |= {sent: one} if sent in answer.sending else {}
            sent += 1
        else:
            copies |= {begun: one} if begun in answer.copying else {}
            waiting, begun = (*waiting, Staged(begun, call.row, one.length)), begun + 1
    elif isinstance(call, SparseReady):
        waiting = tuple([one for one in waiting if one.row not in answer.ready])
    return state._replace(copies=copies, transfers=transfers, waiting=waiting, begun=begun, sent=sent)


def going_on(works: Mapping[int, SparseCopy], call: SparseCall, numbers: Container[int]) -> dict[int, SparseCopy]:
    """Those of the copies that have not ended, with the pages of a row that is given back."""
    left = call.row if isinstance(call, SparseFree) else None
    return {n: one._replace(left=one.left or one.row == left) for n, one in works.items() if n in numbers}


def first_buffer(state: SparseState, one: Staged) -> SparseBuffer:
    """The buffer of a row that is acknowledged."""
    return acknowledged(state.room, state.hosted(one.length), state.keeps)


def granted_pages(state: SparseState, call: SparseRequest, slots: tuple[Slot, ...]) -> tuple[PageNo, ...]:
    """The pages that were missing, by the slots that were answered for their first tokens.

    Where fewer slots were answered than asked for, those of the pages that were answered.
    """
    size, held = state.page_size, len(state.of(call.row).pages)
    firsts = [max(page * size, call.start) - call.start for page in range(held, held + state.missing(call))]
    return tuple([PageNo(slots[at] // size) for at in firsts if at < len(slots)])


def as_seen(state: SparseState) -> SparseState:
    """The same with the rows of the snapshot, where there is one: a rule was broken, and the pool is what it is."""
    view = state.seen.view
    if view is UNKNOWN:
        return state
    size = state.page_size
    rows = {
        row: SparseRow(row, tuple([PageNo(slot // size) for slot in slots[::size]]), size)
        for row, slots in view.rows.items()
        if slots
    }
    return state._replace(rows=rows)
