"""The facts that rules of sparse host pools speak of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.sparse.buffer import swapped
from kvlitmus.spec.sparse.calls import (
    SparseCall,
    SparseConnect,
    SparseCopied,
    SparseDone,
    SparseFree,
    SparseMisuse,
    SparseRead,
    SparseReady,
    SparseRequest,
    SparseSwap,
    SparseTransferred,
)
from kvlitmus.spec.sparse.state import SparseState, advance_sparse, granted_pages
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo, Pages, Slot, Tokens, page_ceil

# What was asked for


@fact(0)
def sparse_page(state: SparseState) -> int:
    """Slots in a page of the sparse pool."""
    return state.page_size


@fact(0)
def sparse_start(call: SparseRequest) -> int:
    """The first token that a request is about."""
    return call.start


@fact(0)
def sparse_tokens(call: SparseRequest) -> int:
    """How many tokens a request is about; it may be none or a negative number."""
    return call.tokens


@fact(0)
def sparse_missing(state: SparseState, call: SparseRequest) -> Pages:
    """How many pages the row lacks up to the end of the last page that is asked for."""
    return state.missing(call)


@fact(0)
def sparse_nothing(setting: Setting, call: SparseRequest) -> bool:
    """Whether a request is about no token, and is answered with no slots whatever else it says."""
    return call.tokens <= 0 and setting.profile.sparse_count == "empty"


@fact(0)
def sparse_refusal(state: SparseState, call: SparseRequest, sparse_nothing: bool) -> str:
    """Why a request must be refused whatever is free, in words; empty where nothing is wrong with it."""
    if (call.start < 0 or call.tokens < 0) and not sparse_nothing:
        return "its start or its count is negative"
    if call.start > state.of(call.row).allocated and not sparse_nothing:
        return f"the row has no slots before token {call.start}"
    if call.tokens > 0 and page_ceil(call.end, state.page_size) > state.width:
        return "the row is not wide enough"
    return "" if call.peer in (0, state.page_size) else f"the pool has pages of {state.page_size}"


@fact(0)
def sparse_short(state: SparseState, call: SparseRequest) -> bool:
    """Whether fewer pages are free, and promised to no other row, than the row lacks."""
    return state.missing(call) > state.free_for(call.row)


# What was answered


@fact(0)
def sparse_refused(answer: SparseDone) -> bool:
    """Whether the request was refused."""
    return answer.slots is None


@fact(0)
def sparse_granted(answer: SparseDone) -> Sequence[Slot]:
    """The slots that were answered."""
    return answer.slots or ()


@fact(0)
def sparse_held(state: SparseState, call: SparseRequest) -> Sequence[Slot]:
    """The slots that the row had already for the first of the tokens that are asked for."""
    row = state.of(call.row)
    return [row.slot(token) for token in range(call.start, min(call.end, row.allocated))] if call.start >= 0 else []


@fact(0)
def sparse_new(state: SparseState, call: SparseRequest, answer: SparseDone) -> Sequence[PageNo]:
    """The pages that were allocated for a request, as its answer shows them."""
    return granted_pages(state, call, answer.slots or ())


@fact(0)
def sparse_row_slots(state: SparseState, call: SparseRead) -> Sequence[Slot]:
    """All slots of the row that is read: those of all its pages, in order."""
    return state.of(call.row).slots


@fact(0)
def sparse_freed(state: SparseState, call: SparseCall, answer: SparseDone) -> int | Unknown:
    """How many pages more must be free after the call, or fewer, by what is known of rows, copies and peers; unknown where nobody declares what it does."""
    if isinstance(call, SparseRequest):
        return 0 if answer.slots is None else -state.missing(call)
    if isinstance(call, SparseFree | SparseCopied | SparseTransferred):
        return advance_sparse(state, call, answer).free_pages - state.free_pages
    return UNKNOWN if undeclared(call) else 0


def undeclared(call: SparseCall) -> bool:
    """Whether a call is misuse of which the profile doesn't say what happens."""
    return isinstance(call, SparseMisuse) and not call.declared


@fact(0)
def sparse_peer_fits(state: SparseState, call: SparseConnect) -> bool:
    """Whether the peer's pages have as many tokens as the pool's own."""
    return call.page_size == state.page_size


@fact(0)
def sparse_accepted(answer: SparseDone) -> bool:
    """Whether the peer was accepted; of what can't be wanted, whether it was not answered by an error."""
    return answer.accepted


@fact(0)
def sparse_misuse(setting: Setting) -> str | Unknown:
    """What the profile declares of tokens that can't be wanted, ``reject`` or ``ignore``; unknown where that is undefined."""
    declared = setting.profile.misuse
    return UNKNOWN if declared == "undefined" else declared


# What a row decodes from


@fact(0)
def sparse_wanted(call: SparseSwap) -> Sequence[int]:
    """The tokens whose places in the row's buffer are asked for."""
    return call.wanted


@fact(0)
def sparse_places(answer: SparseDone) -> Sequence[int]:
    """The places in the row's buffer that were answered."""
    return answer.places


@fact(0)
def sparse_room(state: SparseState) -> int:
    """How many tokens a row's buffer has room for."""
    return state.room


@fact(0)
def sparse_newest(state: SparseState, call: SparseSwap) -> int:
    """The newest token of the sequence, which was computed on the device."""
    return state.hosted(call.length) - 1


@fact(0)
def sparse_fits(state: SparseState, call: SparseSwap, sparse_room: int) -> bool:
    """Whether the buffer has room for the whole sequence."""
    return state.hosted(call.length) <= sparse_room


@fact(0)
def sparse_kept(state: SparseState, call: SparseSwap) -> Mapping[int, int]:
    """The places of the wanted tokens that are in the buffer of a sequence that has no room there."""
    buffer = state.buffers[call.row]
    kept = {} if state.hosted(call.length) <= buffer.room else dict(zip(buffer.tokens, range(buffer.room), strict=True))
    return {token: kept[token] for token in call.wanted if token in kept}


@fact(0)
def sparse_places_due(state: SparseState, call: SparseSwap) -> Sequence[int]:
    """The places that the wanted tokens must have."""
    return swapped(state.buffers[call.row], state.hosted(call.length), call.wanted)[1]


@fact(0)
def sparse_swaps_in(
    sparse_wanted: Sequence[int], sparse_newest: int, sparse_kept: Mapping[int, int], sparse_fits: bool
) -> bool:
    """Whether some of the wanted tokens must be copied from the host."""
    return not sparse_fits and any(token != sparse_newest and token not in sparse_kept for token in sparse_wanted)


# What was seen


@fact(1, ports=("sparse",))
def sparse_free_before(state: SparseState) -> Tokens | Unknown:
    """How many slots were free before the call, as the pool said."""
    return state.seen.available


@fact(1, ports=("sparse",))
def sparse_free_after(answer: SparseDone) -> Tokens | Unknown:
    """How many slots are free after the call, as the pool says."""
    return answer.seen.available


@fact(3, ports=("sparse_inspect",))
def sparse_rows(answer: SparseDone) -> Mapping[int, Sequence[int]] | Unknown:
    """The slots of each row that has some, as the snapshot shows them."""
    view = answer.seen.view
    return UNKNOWN if view is UNKNOWN else {row: slots for row, slots in view.rows.items() if slots}


@fact(0)
def sparse_rows_due(state: SparseState, call: SparseCall, answer: SparseDone) -> Mapping[int, Sequence[Slot]] | Unknown:
    """The slots that each row must have after the call, rows without any left out; unknown where nobody declares what it does."""
    if undeclared(call):
        return UNKNOWN
    return {number: row.slots for number, row in advance_sparse(state, call, answer).rows.items() if row.pages}


@fact(0)
def sparse_row(call: SparseCall) -> int:
    """The row that the call is about; −1 for none."""
    return -1 if isinstance(call, (SparseConnect, SparseCopied, SparseReady, SparseTransferred)) else call.row
