"""Litmus tests on a sparse host pool: pages behind rows of tokens, and all that can't be granted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from kvlitmus.conformance.checker.calls import sparse
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus

SPARSE = ("sparse",)
SWAPS = ("sparse", "sparse_buffers", "sparse_swaps")
SEEN = ("sparse", "sparse_inspect")


def with_rows(many: int) -> Callable[[Callable[[Checker], None]], Callable[[Checker], None]]:
    """For a program that uses so many rows: nothing is played where the pool has fewer, as it may."""

    def of(program: Callable[[Checker], None]) -> Callable[[Checker], None]:
        @functools.wraps(program)
        def played(checker: Checker) -> None:
            if sparse.shape(checker).rows >= many:
                program(checker)

        return played

    return of


def fill(checker: Checker, leave: int = 0) -> int:
    """Fill rows until no more than so many pages are free; the first row that was left alone, or the last one."""
    page, row = checker.size, 0
    for row in range(1, sparse.shape(checker).rows):
        room, width = sparse.state_of(checker).free_pages - leave, sparse.shape(checker).width // page
        if room <= 0:
            break
        sparse.request(checker, row, 0, min(room, width) * page)
    return row


@litmus(rules=("POOL-06", "SPARSE-01", "SPARSE-03", "SPARSE-06", "SPARSE-07"), needs=SPARSE)
@with_rows(3)
def a_request_is_rounded_up_to_the_page(checker: Checker) -> None:
    """One token takes a page; with a page and one token more, two are taken, and all are read back."""
    for row, tokens in enumerate((1, checker.size, checker.size + 1)):
        sparse.request(checker, row, 0, tokens)
        sparse.read(checker, row)


@litmus(rules=("SPARSE-02", "SPARSE-06"), needs=SPARSE)
def the_same_is_asked_for_twice(checker: Checker) -> None:
    """Asking again, from the middle, or token by token gives the same slots and takes nothing."""
    page = checker.size
    sparse.request(checker, 0, 0, page + 1)
    sparse.request(checker, 0, 0, page + 1)
    sparse.request(checker, 0, page // 2, page)
    for token in range(min(page + 2, 2 * page)):
        sparse.request(checker, 0, token, 1)


@litmus(rules=("POOL-04", "SPARSE-02", "SPARSE-03", "SPARSE-06"), needs=SPARSE)
@with_rows(2)
def rows_grow_token_by_token_in_turn(checker: Checker) -> None:
    """Two rows are backed up one token at a time: a new page only at a page's end, and never one of the other row."""
    for token in range(2 * checker.size + 1):
        for row in (0, 1):
            sparse.request(checker, row, token, 1)
    for row in (0, 1):
        sparse.read(checker, row)


@litmus(rules=("SPARSE-02", "SPARSE-06"), needs=SPARSE, min_page=2)
@with_rows(2)
def a_page_used_in_part_is_the_rows(checker: Checker) -> None:
    """The rest of a page goes to the row's next tokens, and the whole page is freed with the row."""
    sparse.request(checker, 0, 0, 1)
    sparse.request(checker, 1, 0, 1)
    sparse.request(checker, 0, 1, checker.size - 1)
    sparse.free(checker, 0)
    sparse.read(checker, 1)
    sparse.request(checker, 0, 0, 1)


@litmus(rules=("POOL-04", "SPARSE-06", "SPARSE-07"), needs=SPARSE)
@with_rows(2)
def a_row_is_used_again(checker: Checker) -> None:
    """A row that was given back is empty; giving it back once more frees nothing; its pages serve another row."""
    sparse.request(checker, 0, 0, 2 * checker.size + 1)
    sparse.free(checker, 0)
    sparse.read(checker, 0)
    sparse.free(checker, 0)
    fill(checker)
    sparse.free(checker, 1)
    sparse.request(checker, 0, 0, 1)
    sparse.read(checker, 0)


@litmus(rules=("SPARSE-06", "SPARSE-09", "SPARSE-13"), needs=SPARSE)
def the_pool_is_exhausted(checker: Checker) -> None:
    """With one page left a request that lacks two is refused and takes nothing; one that lacks one is granted."""
    row, page = fill(checker, leave=1), checker.size
    sparse.request(checker, row, 0, page + 1)
    sparse.request(checker, row, 0, page)
    sparse.request(checker, row, page, 1)
    sparse.read(checker, row)
    sparse.free(checker, row)
    sparse.request(checker, row, 0, 1)


@litmus(rules=("SPARSE-06", "SPARSE-09", "SPARSE-12"), needs=SPARSE)
def a_row_is_full(checker: Checker) -> None:
    """What ends beyond the row is refused before anything is allocated; the row's last whole page is granted."""
    page = checker.size
    whole = sparse.shape(checker).width // page * page
    sparse.request(checker, 0, 0, whole + 1)
    sparse.read(checker, 0)
    sparse.request(checker, 0, 0, whole - 1)
    sparse.request(checker, 0, whole - 1, 2)
    sparse.request(checker, 0, whole, 1)
    sparse.request(checker, 0, whole - 1, 1)
    sparse.free(checker, 0)


@litmus(rules=("SPARSE-06", "SPARSE-12"), needs=SPARSE)
def a_request_starts_beyond_the_end(checker: Checker) -> None:
    """A start behind what is allocated would leave a hole: it is refused, in an empty row and behind a page."""
    page = checker.size
    sparse.request(checker, 0, 1, 1)
    sparse.request(checker, 0, 0, 1)
    sparse.request(checker, 0, page + 1, 1)
    sparse.request(checker, 0, page, 1)
    sparse.read(checker, 0)


@litmus(rules=("SPARSE-06", "SPARSE-12"), needs=SPARSE)
def a_start_is_negative(checker: Checker) -> None:
    """A negative start is refused: it would count from the row's end."""
    sparse.request(checker, 0, -1, 2)
    sparse.request(checker, 0, 0, checker.size + 1)
    sparse.request(checker, 0, -1, 1)
    sparse.request(checker, 0, -checker.size, 2 * checker.size)
    sparse.read(checker, 0)


@litmus(rules=("SPARSE-14",), needs=SPARSE, profile={"sparse_count": "empty"})
def nothing_is_asked_for(checker: Checker) -> None:
    """No tokens, and fewer, are none: no slots, whatever the start."""
    for start, tokens in ((0, 0), (0, -1), (checker.size, 0), (3, -3)):
        sparse.request(checker, 0, start, tokens)
    sparse.request(checker, 0, 0, 1)
    sparse.request(checker, 0, 1, -1)
    sparse.read(checker, 0)


@litmus(rules=("SPARSE-12",), needs=SPARSE, profile={"sparse_count": "reject"})
def fewer_than_none_are_asked_for(checker: Checker) -> None:
    """No tokens are none, where the row is; fewer are refused."""
    for start, tokens in ((0, 0), (0, -1), (checker.size, 0), (3, -3)):
        sparse.request(checker, 0, start, tokens)
    sparse.read(checker, 0)


@litmus(rules=("POOL-12", "POOL-13", "SPARSE-06", "SPARSE-17"), needs=SEEN)
@with_rows(3)
def each_page_is_free_or_in_one_row(checker: Checker) -> None:
    """Rows come, grow, are refused and go in another order; every page is always somewhere, and once."""
    page = checker.size
    for row, tokens in ((0, 1), (1, page + 1), (2, 2 * page)):
        sparse.request(checker, row, 0, tokens)
    sparse.free(checker, 1)
    sparse.request(checker, 0, page, page)
    sparse.request(checker, 2, 9 * page, 1)
    sparse.request(checker, 1, 0, 1)
    for row in (2, 0, 1):
        sparse.read(checker, row)
        sparse.free(checker, row)


@litmus(rules=("POOL-04", "SPARSE-06", "SPARSE-07"), needs=("sparse", "sparse_abort"))
@with_rows(2)
def a_request_is_aborted(checker: Checker) -> None:
    """A row whose request is aborted is given back whole, and is empty for the next one; an empty one stays so."""
    page = checker.size
    sparse.abort(checker, 0)
    sparse.request(checker, 0, 0, page + 1)
    sparse.request(checker, 1, 0, 1)
    sparse.abort(checker, 0)
    sparse.read(checker, 0)
    sparse.request(checker, 0, 0, 1)
    sparse.free(checker, 0)
    sparse.abort(checker, 1)
    sparse.read(checker, 1)


def decoding(checker: Checker, slots: int) -> int:
    """A row gets so many slots, if it can have them, and begins to decode; the room of its buffer."""
    state = sparse.state_of(checker)
    if sparse.request(checker, 0, 0, slots) is not None:
        sparse.admit(checker, 0, slots * state.ratio)
    return state.room


def step(checker: Checker, slots: int, wanted: Sequence[int]) -> None:
    """The step that fills so many slots, after those before it; of what is wanted, as much as the buffer has room for.

    Nothing is done where the row doesn't decode, or can't get as far: a buffer may have more room than a row.
    """
    state = sparse.state_of(checker)
    if 0 not in state.lengths:
        return
    last = slots * state.ratio
    for length in range(min(state.lengths[0] + 1, last), last + 1):
        if sparse.back_up(checker, 0, length) is None or not sparse.grow(checker, 0, length):
            return
    wishes = [token for token in wanted if 0 <= token < slots]
    sparse.swap(checker, 0, last, wishes[: state.room])


@litmus(rules=("SPARSE-06", "SPARSE-17", "SPARSE-23", "SPARSE-25"), needs=SWAPS)
def a_short_sequence_decodes(checker: Checker) -> None:
    """As long as all tokens fit, each is where its number says, in whatever order they are wanted."""
    room = decoding(checker, 1)
    for slots in range(2, min(room, 4) + 1):
        step(checker, slots, range(slots - 1, -1, -1))


@litmus(rules=("SPARSE-25", "SPARSE-26", "SPARSE-28"), needs=SWAPS)
def a_sequence_outgrows_its_buffer(checker: Checker) -> None:
    """The first token that has no room is in the place behind; the next step swaps it in, to the oldest place."""
    room = sparse.state_of(checker).room
    decoding(checker, room)
    for slots, wanted in ((room + 1, (room, 0)), (room + 2, (room, room + 1)), (room + 3, (room + 1, 0))):
        step(checker, slots, wanted)


@litmus(rules=("SPARSE-24", "SPARSE-26", "SPARSE-28"), needs=SWAPS)
def a_long_sequence_begins_with_an_empty_buffer(checker: Checker) -> None:
    """Of more tokens than there is room for, none is there: what is wanted is swapped in, in the order of the wish."""
    room = sparse.state_of(checker).room
    decoding(checker, room + 2)
    step(checker, room + 3, (room, room + 2, 0))
    step(checker, room + 3, range(room - 1, -1, -1))


@litmus(rules=("SPARSE-27", "SPARSE-28"), needs=SWAPS)
def what_was_wanted_is_kept_longest(checker: Checker) -> None:
    """A token that was there and wanted counts as used after one that was swapped in by the same step."""
    room = sparse.state_of(checker).room
    decoding(checker, room + 2)
    step(checker, room + 3, range(room))
    step(checker, room + 3, (room, room - 1, room - 2))
    step(checker, room + 3, (room + 1, *range(room - 1)))
    step(checker, room + 3, (room, room - 1, 0))


@litmus(rules=("SPARSE-25", "SPARSE-28"), needs=SWAPS)
def a_row_decodes_again(checker: Checker) -> None:
    """The buffer of a row that was given back says nothing of the next one's."""
    room = sparse.state_of(checker).room
    decoding(checker, room + 2)
    step(checker, room + 3, (1, 0))
    sparse.free(checker, 0)
    decoding(checker, room + 2)
    step(checker, room + 3, (0, 1))
    sparse.free(checker, 0)
    decoding(checker, 1)
    step(checker, 2, (1, 0))


@litmus(rules=("SPARSE-06", "SPARSE-17", "SPARSE-63"), needs=SWAPS, misuse=True)
def what_cannot_be_wanted(checker: Checker) -> None:
    """A token twice, one that isn't there, and more than there is room for; the next step finds all as it was."""
    room = sparse.state_of(checker).room
    for slots in (1, room + 2):
        decoding(checker, slots)
        step(checker, slots + 1, range(min(slots, room)))
        length = sparse.state_of(checker).lengths.get(0, 0)
        hosted = sparse.state_of(checker).hosted(length)
        for odd in ([0, 0], [hosted - 1] * 2, [-1], [0, hosted], list(range(room + 1))):
            sparse.misused_swap(checker, 0, length, odd)
        step(checker, slots + 2, (slots, *range(min(slots, room - 1))))
        sparse.free(checker, 0)


@litmus(rules=("SPARSE-22",), needs=("sparse", "sparse_peer"))
def a_peer_has_other_pages(checker: Checker) -> None:
    """A peer is accepted with equal pages alone: not with pages of one token, half as many or twice as many."""
    size = checker.size
    for other in dict.fromkeys((size, 1, max(1, size // 2), 2 * size, size + 1)):
        sparse.connect(checker, other)
