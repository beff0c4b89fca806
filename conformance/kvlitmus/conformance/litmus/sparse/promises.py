"""Litmus tests on what sparse host memory has promised to admitted rows, while prompts come and transfers end."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kvlitmus.conformance.checker.calls import sparse
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.sparse.admission import BACKUPS, decoding, steps, whole_row
from kvlitmus.conformance.litmus.sparse.rows import with_rows
from kvlitmus.conformance.litmus.sparse.transfer import begin, end

PROMISES = ("sparse", "sparse_admission")
SENT = (*PROMISES, "sparse_transfer")
BROKEN_OFF = (*SENT, "sparse_abort")


def promise(checker: Checker, row: int, pages: int) -> int:
    """Admit a request of so many pages to a row, or of as many as it has room for; how many it was promised."""
    state = sparse.state_of(checker)
    slots = min(pages * checker.size, whole_row(checker))
    admitted = sparse.reserve(checker, row, slots * state.ratio)
    return slots // checker.size if admitted else 0


def let_in(checker: Checker, rows: Collection[int]) -> None:
    """Requests that grow as long as can be are admitted to these empty rows while there is room, and end at once."""
    for row in rows:
        promise(checker, row, whole_row(checker) // checker.size)
    for row in rows:
        sparse.free(checker, row)


def take_all(checker: Checker, rows: Iterable[int]) -> None:
    """These rows take page after page, as many as they can get."""
    page = checker.size
    for row in rows:
        for number in range(sparse.state_of(checker).of(row).allocated // page, whole_row(checker) // page):
            if sparse.request(checker, row, number * page, page) is None:
                break


def call_in(checker: Checker, row: int, pages: int) -> None:
    """An admitted row asks for all pages that it was promised, one by one."""
    for number in range(pages):
        sparse.request(checker, row, number * checker.size, checker.size)


def fill(checker: Checker, *, but: int) -> int:
    """The first row is promised all it has room for, others take what they can get; the number of an empty row."""
    rows = sparse.shape(checker).rows
    promise(checker, 0, whole_row(checker) // checker.size)
    take_all(checker, [row for row in range(1, rows - 1) if row != but])
    return rows - 1


def beyond(checker: Checker, row: int) -> int:
    """So many slots as take a page more than is free for a row, which is promised to somebody."""
    return (max(0, sparse.state_of(checker).free_for(row)) + 1) * checker.size


@litmus(rules=("SPARSE-09", "SPARSE-13", "SPARSE-39", "SPARSE-42"), needs=SENT)
@with_rows(2)
def a_promise_ends_with_its_own_transfer(checker: Checker) -> None:
    """Two rows are admitted, and the transfer of one fails: what it was promised is free, and the other's is kept."""
    kept = promise(checker, 1, 3)
    promise(checker, 0, 3)
    end(checker, begin(checker, 0, checker.size + 1), arrived=False)
    others = range(2, sparse.shape(checker).rows)
    let_in(checker, others)
    take_all(checker, others)
    call_in(checker, 1, kept)


@litmus(rules=("SPARSE-09", "SPARSE-13", "SPARSE-39", "SPARSE-42"), needs=BROKEN_OFF)
@with_rows(2)
def a_promise_ends_with_an_abort_of_its_transfer(checker: Checker) -> None:
    """Two admitted rows wait for a peer, and one is aborted: the other is still promised its pages, and decodes."""
    kept = promise(checker, 1, 3)
    promise(checker, 0, 3)
    first, second = begin(checker, 0, 1), begin(checker, 1, 1)
    sparse.abort(checker, 0)
    others = range(2, sparse.shape(checker).rows)
    let_in(checker, others)
    take_all(checker, others)
    end(checker, first)
    take_all(checker, others)
    end(checker, second)
    call_in(checker, 1, kept)


@litmus(rules=("SPARSE-13", "SPARSE-39", "SPARSE-42"), needs=BROKEN_OFF)
def a_late_end_takes_no_promise_back(checker: Checker) -> None:
    """A transfer ends whose request was aborted: its row's next request is still promised what it was admitted for."""
    for arrived in (False, True):
        first = begin(checker, 0, 1)
        sparse.abort(checker, 0)
        kept = promise(checker, 0, 3)
        end(checker, first, arrived=arrived)
        let_in(checker, range(1, sparse.shape(checker).rows))
        take_all(checker, range(1, sparse.shape(checker).rows))
        call_in(checker, 0, kept)
        for row in range(sparse.shape(checker).rows):
            sparse.end(checker, row)


@litmus(rules=("SPARSE-39", "SPARSE-42"), needs=BROKEN_OFF)
def what_a_peer_writes_to_is_promised_to_nobody(checker: Checker) -> None:
    """A request is aborted, and its peer may go on: others are admitted as far as pages are free, and get them."""
    first = begin(checker, 0, whole_row(checker))
    sparse.abort(checker, 0)
    rows = range(1, sparse.shape(checker).rows)
    kept = {row: promise(checker, row, whole_row(checker) // checker.size) or promise(checker, row, 2) for row in rows}
    for row, pages in kept.items():
        call_in(checker, row, pages)
    end(checker, first)


@litmus(rules=("SPARSE-13", "SPARSE-39", "SPARSE-42"), needs=SENT)
def a_promise_goes_on_behind_the_prompt(checker: Checker) -> None:
    """A prompt of a page has come for a row that was admitted for more: what it decodes finds its pages."""
    kept = promise(checker, 0, 3)
    end(checker, begin(checker, 0, checker.size))
    let_in(checker, range(1, sparse.shape(checker).rows))
    take_all(checker, range(1, sparse.shape(checker).rows))
    call_in(checker, 0, kept)


@litmus(rules=("SPARSE-06", "SPARSE-13", "SPARSE-42", "SPARSE-48"), needs=SENT)
@with_rows(2)
def a_peer_gets_nothing_that_is_promised(checker: Checker) -> None:
    """All that is free was promised to a row: a prompt that a peer has is refused, and the row gets its pages."""
    empty = fill(checker, but=0)
    if beyond(checker, empty) <= whole_row(checker):
        end(checker, begin(checker, empty, beyond(checker, empty)))
    call_in(checker, 0, whole_row(checker) // checker.size)


@litmus(rules=("SPARSE-06", "SPARSE-13", "SPARSE-34", "SPARSE-42"), needs=(*PROMISES, "sparse_staging"))
@with_rows(2)
def a_staged_prompt_gets_nothing_that_is_promised(checker: Checker) -> None:
    """All that is free was promised to a row: a prompt that was computed is refused, and the row gets its pages."""
    empty = fill(checker, but=0)
    if beyond(checker, empty) <= whole_row(checker):
        sparse.stage(checker, empty, beyond(checker, empty) * sparse.state_of(checker).ratio)
    call_in(checker, 0, whole_row(checker) // checker.size)


@litmus(rules=("SPARSE-06", "SPARSE-13", "SPARSE-38", "SPARSE-42"), needs=(*BACKUPS, "sparse_admission"))
@with_rows(2)
def a_step_gets_nothing_that_is_promised(checker: Checker) -> None:
    """All that is free was promised to a row: another one's step over a page's end is refused, and its own is not."""
    page, ratio = checker.size, sparse.state_of(checker).ratio
    decoding(checker, 1, page * ratio)
    take_all(checker, [fill(checker, but=1)])
    steps(checker, 1, page * ratio + 1, (page + 1) * ratio + 1)
    call_in(checker, 0, whole_row(checker) // page)


@litmus(rules=("SPARSE-06", "SPARSE-09", "SPARSE-13", "SPARSE-34", "SPARSE-42"), needs=(*PROMISES, "sparse_staging"))
@with_rows(2)
def a_refused_prompt_keeps_its_promise(checker: Checker) -> None:
    """A prompt that finds too few pages is refused; another row takes the one left, and a shorter one has its own."""
    kept = promise(checker, 0, 2)
    promise(checker, 1, 1)
    take_all(checker, range(2, sparse.shape(checker).rows))
    sparse.free(checker, 1)
    if kept and beyond(checker, 0) <= whole_row(checker):
        sparse.stage(checker, 0, beyond(checker, 0) * sparse.state_of(checker).ratio)
    take_all(checker, [1])
    if kept:
        decoding(checker, 0, kept * checker.size * sparse.state_of(checker).ratio)


@litmus(rules=("SPARSE-06", "SPARSE-09", "SPARSE-13", "SPARSE-42", "SPARSE-12", "SPARSE-48"), needs=SENT)
@with_rows(2)
def a_refused_peer_leaves_its_promise(checker: Checker) -> None:
    """A peer with other pages is refused, and too long a prompt; others take what is left, and a third one fits."""
    kept, ratio = promise(checker, 0, 2), sparse.state_of(checker).ratio
    take_all(checker, range(2, sparse.shape(checker).rows))
    if kept:
        sparse.prealloc(checker, 0, kept * checker.size * ratio, checker.size + 1)
        if beyond(checker, 0) <= whole_row(checker):
            sparse.prealloc(checker, 0, beyond(checker, 0) * ratio, checker.size)
    take_all(checker, [1])
    if kept:
        end(checker, begin(checker, 0, kept * checker.size))
