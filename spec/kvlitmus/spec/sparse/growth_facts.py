"""The facts that rules of the device's pool behind the buffers speak of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.sparse.buffer import NO_TOKEN
from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseFree, SparseGrow
from kvlitmus.spec.sparse.state import SparseState, advance_sparse
from kvlitmus.spec.words.units import Tokens

GROWTH = ("sparse_growth",)


@fact(1, ports=GROWTH)
def sparse_device_before(state: SparseState) -> Tokens | Unknown:
    """How many slots of the device were free before the call, as the pool said."""
    return state.seen.device


@fact(1, ports=GROWTH)
def sparse_device_after(answer: SparseDone) -> Tokens | Unknown:
    """How many slots of the device are free after the call, as the pool says."""
    return answer.seen.device


@fact(1, ports=GROWTH)
def sparse_device_all(state: SparseState) -> Tokens | Unknown:
    """How many slots of the device were free when nobody had any."""
    return state.device


@fact(3, ports=GROWTH)
def sparse_buffers_before(state: SparseState) -> Mapping[int, Sequence[int]] | Unknown:
    """The device slots of each row's buffer before the call."""
    return state.seen.buffers


@fact(3, ports=GROWTH)
def sparse_buffers_after(answer: SparseDone) -> Mapping[int, Sequence[int]] | Unknown:
    """The device slots of each row's buffer after the call."""
    return answer.seen.buffers


@fact(0, ports=GROWTH)
def sparse_sizes(state: SparseState, call: SparseCall, answer: SparseDone) -> Mapping[int, tuple[int, int]]:
    """How many device slots each row that decodes must have after the call, at least and at most."""
    then = advance_sparse(state, call, answer)
    return {row: then.buffer_bounds(tokens) for row, tokens in then.places.items()}


@fact(0, ports=GROWTH)
def sparse_growth(state: SparseState, call: SparseGrow) -> tuple[int, int]:
    """How many device slots the row lacks for its newest token, at least and at most."""
    had = state.buffer_bounds(state.places[call.row])
    wanted = state.buffer_bounds(max(state.places[call.row], state.hosted(call.length)))
    return (0, 0) if had == wanted else (wanted[0] - had[0], wanted[1] - had[1])


@fact(0, ports=GROWTH)
def sparse_newest_slot(answer: SparseDone) -> int | Unknown:
    """The device slot that was answered for the newest token."""
    return answer.places[0] if answer.places else UNKNOWN


@fact(0, ports=GROWTH)
def sparse_newest_place(state: SparseState, call: SparseGrow) -> int:
    """The place of the newest token: that of its number, or its own one behind the others."""
    return min(state.hosted(call.length) - 1, state.room)


@fact(0, ports=GROWTH)
def sparse_released_row(state: SparseState, call: SparseFree) -> int | Unknown:
    """The row that is given back, where it is known what it has on the device: it decodes."""
    return call.row if call.row in state.places else UNKNOWN


@fact(0, ports=GROWTH)
def sparse_idle(state: SparseState, call: SparseCall, answer: SparseDone) -> bool:
    """Whether no request decodes, waits or is copied after the call."""
    then = advance_sparse(state, call, answer)
    return not (then.places or then.waiting or then.copies or then.transfers)


@fact(0, ports=GROWTH)
def sparse_places_left(state: SparseState, call: SparseCall, answer: SparseDone) -> Mapping[int, Sequence[int]]:
    """The places that hold the same token after the call as before it, of each row that decodes before and after."""
    then = advance_sparse(state, call, answer)
    found = {row: held_by(state, row).items() & held_by(then, row).items() for row in state.buffers}
    return {row: sorted([place for place, _ in same]) for row, same in found.items() if same}


def held_by(state: SparseState, row: int) -> Mapping[int, int]:
    """Which token each place of a row's buffer holds that has one, if that is known; no place of a row that doesn't decode.

    The newest token's own place holds one from growth to the backup of that token: before it nothing was written there, and
    after it the host has the token.
    """
    buffer, length = state.buffers.get(row), state.hosted(state.lengths.get(row, 0))
    if buffer is None:
        return {}
    made = state.places.get(row, 0)
    if length <= buffer.room:
        return {token: token for token in range(min(length, made))}
    held = {place: token for place, token in enumerate(buffer.tokens) if token != NO_TOKEN}
    newest = made >= length == state.backed.get(row, 0) + 1
    return {**held, buffer.room: length - 1} if newest else held
