"""The facts that rules of transfers speak of."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseFree, SparseRequest, SparseTransferred
from kvlitmus.spec.sparse.state import SparseState, advance_sparse
from kvlitmus.spec.words.units import PageNo, Pages


@fact(0)
def sparse_peer_page(call: SparseRequest) -> int:
    """Slots in a page of the peer that slots are asked for as destinations of."""
    return call.peer


@fact(0)
def sparse_destinations(answer: SparseDone) -> Sequence[int]:
    """The pages that a peer was told to write to, in order."""
    return answer.pages


@fact(0)
def sparse_destinations_due(state: SparseState, answer: SparseDone) -> Sequence[PageNo]:
    """The pages in which the slots of a prompt lie, each once and in order."""
    return list(dict.fromkeys([PageNo(slot // state.page_size) for slot in answer.slots or ()]))


@fact(0)
def sparse_sending_before(state: SparseState) -> Sequence[int]:
    """The transfers that had not ended before the call."""
    return sorted(state.transfers)


@fact(0)
def sparse_sending_after(answer: SparseDone) -> Sequence[int]:
    """The transfers that have not ended after the call."""
    return sorted(answer.sending)


@fact(0)
def sparse_sending_elsewhere(state: SparseState, call: SparseCall) -> Sequence[int]:
    """The transfers that had not ended before the call, but for those to a row that it gives back."""
    given_back = call.row if isinstance(call, SparseFree) else None
    return sorted(number for number, one in state.transfers.items() if one.row != given_back)


@fact(0)
def sparse_begun_transfers(state: SparseState, answer: SparseDone) -> Sequence[int]:
    """The transfer that begins with the call: the next number, where slots were granted."""
    return [state.sent] if answer.slots else []


@fact(0)
def sparse_transfer_number(call: SparseTransferred) -> int:
    """The transfer that a peer has ended."""
    return call.transfer


@fact(0)
def sparse_returned(state: SparseState, call: SparseCall, answer: SparseDone) -> Pages:
    """How many pages more are free after the call than before, by what is known of rows, copies and peers."""
    return Pages(advance_sparse(state, call, answer).free_pages - state.free_pages)
