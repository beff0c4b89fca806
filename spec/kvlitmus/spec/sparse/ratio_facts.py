"""The facts that rules of compressed tokens speak of."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.sparse.calls import SparseRequest
from kvlitmus.spec.sparse.state import SparseState, backup_place
from kvlitmus.spec.words.units import Slot


@fact(0)
def sparse_ratio(state: SparseState) -> int:
    """How many tokens of the model are compressed to one that has a slot."""
    return state.ratio


@fact(0)
def sparse_length(call: SparseRequest) -> int:
    """How many tokens of the model a sequence has with this step."""
    return call.length


@fact(0)
def sparse_backup_place(state: SparseState, call: SparseRequest) -> int:
    """Where in its row the last whole group before the newest token has its slot; −1 if there is none."""
    return backup_place(call.length, state.ratio)[0]


@fact(0)
def sparse_backup_slots(state: SparseState, call: SparseRequest, sparse_backup_place: int) -> Sequence[Slot]:
    """The slot of that group, if its row has the page already."""
    row = state.of(call.row)
    return [row.slot(sparse_backup_place)] if 0 <= sparse_backup_place < row.allocated else []


@fact(0)
def sparse_prompt(call: SparseRequest) -> int:
    """How many tokens of the model are staged, or come from a peer."""
    return call.prompt or call.tokens
