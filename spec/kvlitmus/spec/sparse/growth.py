"""The device's pool behind the buffers that sparse rows decode from: how a buffer grows, and how it is given back.

A buffer takes slots by the page as its sequence grows; when it has as many as it has room for tokens, it gets more for the
newest token alone, which is on the device only and never makes room for another one.  Whether there are enough is looked at
before anything is taken, and what was taken is given back to the last slot, however the request ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.sparse import rows as _rows  # noqa: F401 - its facts
from kvlitmus.spec.sparse.buffer import NO_TOKEN
from kvlitmus.spec.sparse.calls import SparseDone, SparseFree, SparseGrow
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.units import Tokens, same

GROWTH = ("sparse_growth",)


@fact(1, ports=GROWTH, before="sparse_device_before")
def sparse_device_after(sparse_then: SparseState) -> Tokens | Unknown:
    """How many slots of the device are free after the call, as the pool says."""
    return sparse_then.seen.device


@fact(1, ports=GROWTH)
def sparse_device_all(state: SparseState) -> Tokens | Unknown:
    """How many slots of the device were free when nobody had any."""
    return state.device


@fact(3, ports=GROWTH, before="sparse_buffers_before")
def sparse_buffers_after(sparse_then: SparseState) -> Mapping[int, Sequence[int]] | Unknown:
    """The device slots of each row's buffer after the call."""
    return sparse_then.seen.buffers


@fact(0, ports=GROWTH)
def sparse_sizes(sparse_then: SparseState) -> Mapping[int, tuple[int, int]]:
    """How many device slots each row that decodes must have after the call, at least and at most."""
    return {row: sparse_then.buffer_bounds(tokens) for row, tokens in sparse_then.places.items()}


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
def sparse_idle(sparse_then: SparseState) -> bool:
    """Whether no request decodes, waits or is copied after the call."""
    return not (sparse_then.places or sparse_then.waiting or sparse_then.copies or sparse_then.transfers)


@fact(0, ports=GROWTH)
def sparse_places_left(state: SparseState, sparse_then: SparseState) -> Mapping[int, Sequence[int]]:
    """The places that hold the same token after the call as before it, of each row that decodes before and after."""
    found = {row: held_by(state, row).items() & held_by(sparse_then, row).items() for row in state.buffers}
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


# Rules


GROWTH_SOURCE = "R-SP-13"
GROWN = (On.SPARSE_GROW, On.REFUSED_SPARSE_GROW)
HELD = (*GROWN, On.SPARSE_ADMIT, On.SPARSE_READY, On.SPARSE_TRANSFERRED, On.SPARSE_FREE)

growth_rule = partial(rule, source=GROWTH_SOURCE, reference="sparse.grow")


@growth_rule("SPARSE-52", on=HELD, allowed="{sparse_sizes} slots for the rows that decode")
def a_buffer_is_as_large_as_its_sequence_takes(
    sparse_buffers_after: Mapping[int, Sequence[int]], sparse_sizes: Mapping[int, tuple[int, int]]
) -> bool:
    """The buffer of a row that decodes MUST have the whole pages that its tokens take, and no more. When these reach
    the room of a buffer, it has that many slots, and one to a page more for the newest token. The profile may say that
    it has all of them from the beginning.
    """
    return all(least <= len(sparse_buffers_after.get(row, ())) <= most for row, (least, most) in sparse_sizes.items())


@growth_rule(
    "SPARSE-53",
    on=HELD,
    allowed="distinct slots, beside {sparse_device_after} that are free, out of {sparse_device_all}",
)
def no_device_slot_is_in_two_buffers(
    sparse_buffers_after: Mapping[int, Sequence[int]], sparse_device_after: Tokens, sparse_device_all: Tokens
) -> bool:
    """A slot of the device MUST be in one place of one buffer at most, and no slot that is free in any."""
    slots = [slot for own in sparse_buffers_after.values() for slot in own]
    return len(set(slots)) == len(slots) and len(slots) + sparse_device_after <= sparse_device_all


@growth_rule("SPARSE-54", on=GROWN, allowed="{sparse_buffers_before}, and what was added behind them")
def what_a_buffer_has_stays_when_it_grows(
    sparse_buffers_before: Mapping[int, Sequence[int]],
    sparse_buffers_after: Mapping[int, Sequence[int]],
    sparse_row: int,
    sparse_device_before: Tokens,
    sparse_device_after: Tokens,
) -> bool:
    """Growth MUST leave all slots of all buffers in their places: it adds behind those of its row what was free, or nothing
    where it is refused.
    """
    for row, own in sparse_buffers_before.items():
        if not same(sparse_buffers_after.get(row, ())[: len(own)], own):
            return False
    added = {row: len(own) - len(sparse_buffers_before.get(row, ())) for row, own in sparse_buffers_after.items()}
    others = any(many for row, many in added.items() if row != sparse_row)
    return not others and added.get(sparse_row, 0) == sparse_device_before - sparse_device_after


@growth_rule(
    "SPARSE-55",
    on=(On.SPARSE_GROW,),
    allowed="{sparse_growth} slots fewer than the {sparse_device_before} that were free",
)
def growth_takes_what_is_missing(
    sparse_device_before: Tokens, sparse_device_after: Tokens, sparse_growth: tuple[int, int]
) -> bool:
    """Growth MUST take the slots that the buffer lacks for its newest token, and none where it has room."""
    least, most = sparse_growth
    return least <= sparse_device_before - sparse_device_after <= most


@rule(
    "SPARSE-56",
    on=(On.REFUSED_SPARSE_GROW,),
    source="R-SP-13; R-SP-05",
    reference="sparse.grow",
    allowed="{sparse_device_before} free slots as before",
)
def a_refused_growth_takes_nothing(sparse_device_before: Tokens, sparse_device_after: Tokens) -> bool:
    """Growth that is refused MUST leave as much of the device free as there was: nothing is taken before all is there."""
    return sparse_device_before == sparse_device_after


@growth_rule(
    "SPARSE-57",
    on=(On.REFUSED_SPARSE_GROW,),
    allowed="the newest token's slot: {sparse_device_before} are free, and {sparse_growth} are missing",
)
def growth_that_finds_room_is_granted(sparse_device_before: Tokens, sparse_growth: tuple[int, int]) -> bool:
    """Growth MUST NOT be refused where as much is free as the buffer may lack, nor where it lacks nothing."""
    return sparse_growth[1] > sparse_device_before


@growth_rule("SPARSE-58", on=(On.SPARSE_GROW,), allowed="the slot at {sparse_newest_place} of the row's buffer")
def the_newest_token_has_the_slot_of_its_place(
    sparse_newest_slot: int,
    sparse_newest_place: int,
    sparse_row: int,
    sparse_buffers_after: Mapping[int, Sequence[int]],
) -> bool:
    """The newest token MUST have the device slot at the place of its number while its sequence fits, and after that the
    one behind the buffer's room, which no other token ever has.
    """
    own = sparse_buffers_after.get(sparse_row, ())
    return sparse_newest_place < len(own) and own[sparse_newest_place] == sparse_newest_slot


@rule(
    "SPARSE-59",
    on=(On.SPARSE_FREE,),
    source="R-SP-06, R-SP-13",
    reference="sparse.free",
    allowed="as many more than {sparse_device_before} as the row's buffer had",
)
def a_buffer_is_given_back_whole(
    sparse_released_row: int,
    sparse_buffers_before: Mapping[int, Sequence[int]],
    sparse_buffers_after: Mapping[int, Sequence[int]],
    sparse_device_before: Tokens,
    sparse_device_after: Tokens,
) -> bool:
    """When the request of a row that decodes ends, is aborted or retracted, all slots of its buffer MUST be free, each
    once, and of no other.
    """
    had = len(sparse_buffers_before.get(sparse_released_row, ()))
    left = sparse_buffers_after.get(sparse_released_row, ())
    return not left and sparse_device_after - sparse_device_before == had


@rule(
    "SPARSE-60",
    on=(On.SPARSE_FREE, On.SPARSE_TRANSFERRED),
    source="R-SP-06, R-LIFE-05",
    reference="sparse.free",
    allowed="{sparse_device_all} free slots: nobody has any",
    premise="sparse_idle",
)
def an_idle_device_is_free(sparse_idle: bool, sparse_device_after: Tokens, sparse_device_all: Tokens) -> bool:
    """When no request decodes, is staged or waits for a peer, all slots of the device MUST be free."""
    return not sparse_idle or sparse_device_after == sparse_device_all
