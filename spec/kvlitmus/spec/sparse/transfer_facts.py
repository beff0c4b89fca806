"""The facts that rules of transfers speak of."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseFree, SparseRequest, SparseTransferred
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.units import PageNo


@fact(0)
def sparse_destinations(answer: SparseDone) -> Sequence[int]:
    """The pages that a peer was told to write to, in order."""
    return answer.pages


@fact(0)
def sparse_destinations_due(state: SparseState, answer: SparseDone) -> Sequence[PageNo]:
    """The pages in which the slots of a prompt lie, each once and in order."""
    return list(dict.fromkeys([PageNo(slot // state.page_size) for slot in answer.slots or ()]))


@fact(0)
def sparse_sending_after(answer: SparseDone) -> Sequence[int]:
    """The transfers that have not ended after the call."""
    return sorted(answer.sending)


@fact(0)
def sparse_sending_due(state: SparseState, call: SparseCall, answer: SparseDone) -> Sequence[int]:
    """The transfers that may go on: those before the call, without one that its peer has ended; and the next, where slots were granted to a peer."""
    ended = call.transfer if isinstance(call, SparseTransferred) else None
    begun = [state.sent] if isinstance(call, SparseRequest) and call.peer and answer.slots else []
    return [*sorted(number for number in state.transfers if number != ended), *begun]


@fact(0)
def sparse_sending_lasts(sparse_sending_due: Sequence[int], state: SparseState, call: SparseCall) -> Sequence[int]:
    """Those of them that must go on: whose rows the call doesn't give back."""
    given_back = call.row if isinstance(call, SparseFree) else None
    return [one for one in sparse_sending_due if one not in state.transfers or state.transfers[one].row != given_back]
