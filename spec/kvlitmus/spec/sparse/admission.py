"""Admission to sparse host memory, and the backups for which it must keep room.

A request that decodes needs a host slot for each token that it computes.  If memory is counted when it is admitted, with all
that it may grow to, no step finds none; if not, the server fails when it can't go back.  A step backs up the token before
the newest one, once: its place on the device is used anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse.calls import SparseRequest, SparseReserve
from kvlitmus.spec.sparse.rows import ASKED
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.units import Pages, Slot, page_ceil


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


# Rules


_ADMISSION = "R-SP-09; sglang#23704"


@rule(
    "SPARSE-38",
    on=(On.SPARSE_BACKUP,),
    source="R-SP-07, R-SP-08",
    reference="sparse.back_up",
    allowed="{sparse_tokens} slots",
)
def a_step_backs_up_the_token_before_once(sparse_granted: Sequence[Slot], sparse_tokens: int) -> bool:
    """A step MUST back up the token before the newest one, unless the host has it. After a prompt was staged or its KV
    came to the host, the first step MUST NOT back up anything.
    """
    return len(sparse_granted) == sparse_tokens


@rule(
    "SPARSE-39",
    on=(On.SPARSE_RESERVE,),
    source=_ADMISSION,
    reference="sparse.reserve",
    allowed="a refusal: {sparse_wants} pages are wanted, and {sparse_unpromised} are free and not promised",
)
def only_what_fits_whole_is_admitted(
    sparse_accepted: bool, sparse_wants: Pages, sparse_unpromised: int, sparse_row_room: Pages
) -> bool:
    """A request MUST NOT be admitted unless its row is wide enough for all that it may have, and so many pages are free and
    promised to no other row.
    """
    return not sparse_accepted or sparse_wants <= min(sparse_unpromised, sparse_row_room)


@rule(
    "SPARSE-40",
    on=(On.SPARSE_RESERVE,),
    source=_ADMISSION,
    reference="sparse.reserve",
    allowed="{sparse_wants} pages: the pool is empty",
    premise="sparse_alone",
)
def an_empty_pool_admits_what_fits(
    sparse_accepted: bool, sparse_alone: bool, sparse_wants: Pages, sparse_unpromised: int, sparse_row_room: Pages
) -> bool:
    """Where all pages are free and none is promised, a request MUST be admitted that the pool and the row can take: nothing
    that it waits for will come.
    """
    return sparse_accepted or not sparse_alone or sparse_wants > min(sparse_unpromised, sparse_row_room)


@rule(
    "SPARSE-42",
    on=ASKED,
    source=_ADMISSION,
    reference="sparse.refusal",
    allowed="the slots: the row was admitted for so many tokens",
    premise="sparse_promise",
)
def what_was_admitted_finds_its_pages(sparse_promise: bool, sparse_refused: bool) -> bool:
    """A request for tokens of an admitted row, within what it was admitted for, MUST NOT be refused, but for a peer whose pages
    have another size.
    """
    return not (sparse_promise and sparse_refused)
