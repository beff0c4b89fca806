"""The facts that rules of admission and of backups speak of."""

from __future__ import annotations

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.sparse.calls import SparseDone, SparseRequest, SparseReserve
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.units import Pages, page_ceil


@fact(0)
def sparse_backups_due(call: SparseRequest) -> int:
    """How many tokens a step must back up: one, or none where the host has the token before the newest."""
    return call.tokens


@fact(0)
def sparse_admitted(answer: SparseDone) -> bool:
    """Whether the request was admitted."""
    return answer.accepted


@fact(0)
def sparse_wants(state: SparseState, call: SparseReserve) -> Pages:
    """How many pages a request will have that wants to be admitted."""
    return Pages(page_ceil(state.hosted(call.tokens), state.page_size) // state.page_size)


@fact(0)
def sparse_unpromised(state: SparseState, call: SparseReserve) -> int:
    """How many free pages are promised to no other row."""
    return state.free_for(call.row)


@fact(0)
def sparse_row_room(state: SparseState) -> Pages:
    """How many whole pages fit into a row."""
    return Pages(state.width // state.page_size)


@fact(0)
def sparse_alone(state: SparseState, call: SparseReserve) -> bool:
    """Whether all pages are free, and none is promised to another row."""
    return state.free_for(call.row) == state.pages


@fact(0)
def sparse_promise(state: SparseState, call: SparseRequest) -> bool:
    """Whether a request is for tokens of an admitted row within what it was admitted for."""
    pages = state.reserved.get(call.row, 0)
    within = 0 <= call.start <= state.of(call.row).allocated and call.end <= pages * state.page_size
    # Whatever was promised, a peer with pages of another size is to be refused.
    return within and call.tokens > 0 and call.peer in (0, state.page_size)
