"""Litmus tests on the device's slots behind the buffers that sparse rows decode from."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.checker.calls import sparse
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.sparse.admission import decoding, whole_row
from kvlitmus.conformance.litmus.sparse.promises import call_in, promise, take_all
from kvlitmus.conformance.litmus.sparse.rows import with_rows
from kvlitmus.conformance.litmus.sparse.transfer import begin, end

GROWTH = ("sparse", "sparse_buffers", "sparse_growth")
SWAPPED = (*GROWTH, "sparse_swaps")


def start(checker: Checker, row: int, slots: int) -> None:
    """A row begins to decode with so many slots, if host and device have them."""
    if sparse.request(checker, row, 0, slots) is not None:
        sparse.admit(checker, row, slots * sparse.state_of(checker).ratio)


def grow_to(checker: Checker, row: int, slots: int) -> bool:
    """Steps of a row, until it has so many tokens here or the device has no room; whether it had."""
    state = sparse.state_of(checker)
    if row not in state.places:
        return False
    for length in range(state.lengths[row] + 1, slots * state.ratio + 1):
        if sparse.back_up(checker, row, length) is None or not sparse.grow(checker, row, length):
            return False
    return True


def want(checker: Checker, row: int, tokens: Sequence[int]) -> None:
    """The step that a row is in wants those of these tokens that it has, as many as its buffer has room for."""
    state = sparse.state_of(checker)
    length = state.lengths.get(row, 0)
    if row in state.buffers and state.places.get(row, 0) >= state.hosted(length):
        wishes = [token for token in tokens if 0 <= token < state.hosted(length)]
        sparse.swap(checker, row, length, wishes[: state.room])


def grow_when_others_have_ended(checker: Checker, row: int) -> None:
    """The growth that was refused is tried again each time that another row has ended, until it is granted."""
    for other in [other for other in sparse.state_of(checker).places if other != row]:
        sparse.free(checker, other)
        if row not in sparse.state_of(checker).places or sparse.grow(
            checker, row, sparse.state_of(checker).lengths[row]
        ):
            return


def fill_device(checker: Checker) -> None:
    """Other rows decode sequences that are longer than their buffers, as many as there is room for; a page is left."""
    room, page = sparse.state_of(checker).room, checker.size
    for row in range(1, sparse.shape(checker).rows):
        free = sparse.state_of(checker).free_pages - 1
        if room + 1 <= min(free * page, whole_row(checker)):
            start(checker, row, room + 1)


@litmus(rules=("SPARSE-06", "SPARSE-17", "SPARSE-52", "SPARSE-54", "SPARSE-55", "SPARSE-58"), needs=GROWTH)
def a_buffer_grows_with_its_sequence(checker: Checker) -> None:
    """From one token over each page's end to the room of the buffer, and two tokens further."""
    room = sparse.state_of(checker).room
    start(checker, 0, 1)
    grow_to(checker, 0, min(room + 2, whole_row(checker)))
    sparse.free(checker, 0)


@litmus(rules=("SPARSE-53", "SPARSE-54", "SPARSE-59", "SPARSE-60"), needs=GROWTH)
@with_rows(3)
def two_buffers_grow_in_turn(checker: Checker) -> None:
    """Two rows take slots from one pool, one after the other; each is given back whole, and serves another row."""
    page = checker.size
    for row in (0, 1):
        start(checker, row, page)
    for slots in (page + 1, page + 2):
        for row in (0, 1):
            grow_to(checker, row, slots)
    sparse.free(checker, 0)
    start(checker, 2, page)
    grow_to(checker, 2, page + 1)
    for row in (1, 2):
        sparse.free(checker, row)


@litmus(rules=("SPARSE-56", "SPARSE-57", "SPARSE-59"), needs=GROWTH)
@with_rows(2)
def the_device_has_no_room(checker: Checker) -> None:
    """The device is filled by others: growth is refused and takes nothing; when one of them has ended it is granted."""
    start(checker, 0, 1)
    fill_device(checker)
    room = sparse.state_of(checker).room
    if grow_to(checker, 0, room + 1):
        return
    sparse.free(checker, 1)
    length = sparse.state_of(checker).lengths.get(0, 0)
    if length:
        sparse.grow(checker, 0, length)


@litmus(rules=("SPARSE-52", "SPARSE-58"), needs=GROWTH)
@with_rows(2)
def a_long_sequence_has_its_newest_slot(checker: Checker) -> None:
    """A request begins with as many tokens as its buffer has room for, and with one more, which has the slot behind."""
    room = sparse.state_of(checker).room
    for row, slots in ((0, room), (1, room + 1)):
        if slots < whole_row(checker):
            start(checker, row, slots)
            grow_to(checker, row, slots + 1)


@litmus(rules=("SPARSE-59", "SPARSE-60"), needs=(*GROWTH, "sparse_abort"))
def an_aborted_request_gives_its_buffer_back(checker: Checker) -> None:
    """A request is aborted after its buffer has grown to the end."""
    room = sparse.state_of(checker).room
    start(checker, 0, 1)
    grow_to(checker, 0, min(room + 1, whole_row(checker)))
    sparse.abort(checker, 0)


@litmus(rules=("SPARSE-52", "SPARSE-59", "SPARSE-60"), needs=(*GROWTH, "sparse_staging"))
@with_rows(2)
def a_staged_request_gives_its_buffer_back(checker: Checker) -> None:
    """A prompt is retracted while it is staged, and another one when it decodes and has grown."""
    ratio, page = sparse.state_of(checker).ratio, checker.size
    sparse.stage(checker, 0, (page + 1) * ratio)
    sparse.retract(checker, 0)
    for copy in sorted(sparse.state_of(checker).copies):
        sparse.copied(checker, copy)
    sparse.free(checker, 0)
    decoding(checker, 1, page * ratio)
    grow_to(checker, 1, page + 1)
    sparse.retract(checker, 1)


@litmus(rules=("SPARSE-52", "SPARSE-60"), needs=(*GROWTH, "sparse_transfer"))
@with_rows(2)
def a_failed_transfer_has_no_buffer(checker: Checker) -> None:
    """The device is free when a prompt failed to come; one that came has a buffer of its size, and grows."""
    end(checker, begin(checker, 0, checker.size), arrived=False)
    end(checker, begin(checker, 1, checker.size))
    grow_to(checker, 1, checker.size + 1)
    sparse.free(checker, 1)


@litmus(rules=("SPARSE-52", "SPARSE-58", "SPARSE-60"), needs=(*GROWTH, "sparse_transfer"))
def a_long_prompt_from_a_peer_has_its_buffer(checker: Checker) -> None:
    """A prompt comes that fills its buffer, one with a token more, and one of a whole row: each has what it takes."""
    room, most = sparse.state_of(checker).room, whole_row(checker)
    for slots in dict.fromkeys((min(room, most), min(room + 1, most), most)):
        end(checker, begin(checker, 0, slots))
        grow_to(checker, 0, min(slots + 1, most))
        sparse.end(checker, 0)


@litmus(rules=("SPARSE-65",), needs=GROWTH)
@with_rows(3)
def slots_stay_while_others_come_and_go(checker: Checker) -> None:
    """A row decodes; others ask for pages, begin to decode, are refused and are given back, and the row is read."""
    page, room = checker.size, sparse.state_of(checker).room
    start(checker, 0, 1)
    grow_to(checker, 0, min(page + 1, whole_row(checker)))
    start(checker, 1, page)
    sparse.request(checker, 2, 0, 1)
    sparse.request(checker, 2, 9 * page, 1)
    sparse.free(checker, 2)
    sparse.read(checker, 0)
    grow_to(checker, 0, min(room + 1, whole_row(checker)))
    sparse.free(checker, 1)
    start(checker, 2, page)
    sparse.request(checker, 0, 0, 1)
    sparse.free(checker, 2)


@litmus(rules=("SPARSE-27", "SPARSE-28", "SPARSE-65"), needs=SWAPPED)
@with_rows(2)
def a_swap_moves_nothing_that_is_there(checker: Checker) -> None:
    """A long sequence wants what is there, with something that isn't; another row decodes beside it."""
    room = sparse.state_of(checker).room
    start(checker, 1, 1)
    start(checker, 0, room)
    for slots, wanted in ((room + 1, range(room)), (room + 2, (room, room - 1, 0)), (room + 3, (0, room, 1))):
        if slots <= whole_row(checker) and grow_to(checker, 0, slots):
            want(checker, 0, wanted)
            want(checker, 1, (0,))


@litmus(rules=("SPARSE-27", "SPARSE-28", "SPARSE-56", "SPARSE-57"), needs=SWAPPED)
@with_rows(2)
def a_row_that_could_not_grow_goes_on(checker: Checker) -> None:
    """Growth is refused, and granted when others have ended; the steps after it find the buffer as it was."""
    room, most = sparse.state_of(checker).room, whole_row(checker)
    start(checker, 0, 1)
    fill_device(checker)
    if not grow_to(checker, 0, min(room + 1, most)):
        grow_when_others_have_ended(checker, 0)
    for slots, wanted in ((room + 1, range(room)), (room + 2, (room, 0)), (room + 3, (room + 1, 1))):
        if slots <= most and grow_to(checker, 0, slots):
            want(checker, 0, wanted)


@litmus(rules=("SPARSE-09", "SPARSE-13", "SPARSE-42"), needs=(*GROWTH, "sparse_admission"))
@with_rows(2)
def a_row_that_could_not_grow_keeps_its_promise(checker: Checker) -> None:
    """Growth of an admitted row is refused; others take the pages that are left, and it still finds its own."""
    page, room, most = checker.size, sparse.state_of(checker).room, whole_row(checker)
    kept = promise(checker, 0, min(room // page + 1, most // page))
    start(checker, 0, 1)
    fill_device(checker)
    if not grow_to(checker, 0, min(room + 1, most)):
        take_all(checker, range(1, sparse.shape(checker).rows))
        call_in(checker, 0, kept)
