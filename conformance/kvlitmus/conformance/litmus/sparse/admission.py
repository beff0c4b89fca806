"""Litmus tests on admission to sparse host memory, and on the backups that it must keep room for."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import sparse
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.sparse.rows import with_rows

ADMISSION = ("sparse", "sparse_admission")
BACKUPS = ("sparse", "sparse_staging", "sparse_backups")


def whole_row(checker: Checker) -> int:
    """How many tokens fit into a row, in whole pages."""
    return sparse.shape(checker).width // checker.size * checker.size


def decoding(checker: Checker, row: int, tokens: int) -> None:
    """A prompt is staged, copied and acknowledged."""
    copy = sparse.state_of(checker).begun
    sparse.stage(checker, row, tokens)
    if copy in sparse.state_of(checker).copies:
        sparse.copied(checker, copy)
    sparse.ready(checker)


def steps(checker: Checker, row: int, first: int, last: int) -> None:
    """The steps of a row that decodes, for as long as its tokens find slots."""
    for length in range(first, last + 1):
        if row not in sparse.state_of(checker).backed or sparse.back_up(checker, row, length) is None:
            return
        if not sparse.grow(checker, row, length):
            return


@litmus(rules=("SPARSE-02", "SPARSE-06", "SPARSE-38"), needs=BACKUPS)
def each_token_is_backed_up_once(checker: Checker) -> None:
    """The first step after a prompt backs up nothing, each later one the token before, over a page's end."""
    page = checker.size
    decoding(checker, 0, page)
    steps(checker, 0, page + 1, 2 * page + 2)
    sparse.read(checker, 0)
    sparse.free(checker, 0)


@litmus(rules=("POOL-04", "SPARSE-38"), needs=BACKUPS)
def a_row_that_was_used_backs_up_from_its_own_prompt(checker: Checker) -> None:
    """A row's next request has a shorter prompt: what the host had of the one before says nothing of it."""
    page = checker.size
    decoding(checker, 0, page + 1)
    steps(checker, 0, page + 2, page + 4)
    sparse.free(checker, 0)
    decoding(checker, 0, 1)
    steps(checker, 0, 2, page + 2)


@litmus(rules=("SPARSE-06", "SPARSE-13", "SPARSE-38"), needs=BACKUPS)
@with_rows(2)
def a_step_finds_no_page(checker: Checker) -> None:
    """The pool is full when a page's end is reached: the step is refused; with a page free it is not."""
    page, ratio = checker.size, sparse.state_of(checker).ratio
    decoding(checker, 0, page * ratio)
    steps(checker, 0, page * ratio + 1, (page + 1) * ratio)
    for row in range(1, sparse.shape(checker).rows):
        room = min(sparse.state_of(checker).free_pages, whole_row(checker) // page)
        sparse.request(checker, row, 0, room * page)
    if 0 in sparse.state_of(checker).backed and not sparse.state_of(checker).free_pages:
        sparse.back_up(checker, 0, (page + 1) * ratio + 1)
        sparse.free(checker, 1)
        sparse.back_up(checker, 0, (page + 1) * ratio + 1)


@litmus(rules=("SPARSE-06", "SPARSE-17", "SPARSE-39", "SPARSE-40"), needs=ADMISSION)
def a_request_is_admitted_if_it_fits(checker: Checker) -> None:
    """The first request is admitted with a whole row; one that no row can take isn't; more, while there is room."""
    page, most, ratio = checker.size, whole_row(checker), sparse.state_of(checker).ratio
    sparse.reserve(checker, 0, (most + 1) * ratio)
    sparse.reserve(checker, 0, min(most, checker.config.pages * page) * ratio)
    for row in range(1, sparse.shape(checker).rows):
        if not sparse.reserve(checker, row, most * ratio):
            sparse.reserve(checker, row, (page + 1) * ratio)


@litmus(rules=("SPARSE-09", "SPARSE-13", "SPARSE-39", "SPARSE-42"), needs=ADMISSION)
def what_is_promised_is_kept(checker: Checker) -> None:
    """Others take what they can get; the admitted row still finds its pages, one by one, and to its end."""
    page, pages = checker.size, min(3, whole_row(checker) // checker.size)
    if not sparse.reserve(checker, 0, pages * page * sparse.state_of(checker).ratio):
        return
    sparse.request(checker, 0, 0, 1)
    for row in range(1, sparse.shape(checker).rows):
        for number in range(whole_row(checker) // page):
            if sparse.request(checker, row, number * page, page) is None:
                break
    for number in range(pages):
        sparse.request(checker, 0, number * page, page)


@litmus(rules=("SPARSE-13", "SPARSE-39", "SPARSE-42"), needs=ADMISSION)
@with_rows(2)
def a_promise_ends_with_its_row(checker: Checker) -> None:
    """What was promised is free for others when the row was given back, used or not; what it was given counts once."""
    page, most, ratio = checker.size, whole_row(checker), sparse.state_of(checker).ratio
    for row in range(sparse.shape(checker).rows):
        sparse.reserve(checker, row, most * ratio)
    sparse.request(checker, 0, 0, page)
    sparse.free(checker, 0)
    sparse.free(checker, 1)
    sparse.reserve(checker, 1, page * ratio)
    sparse.request(checker, 1, 0, 1)
    sparse.request(checker, 0, 0, most)
    sparse.request(checker, 1, 0, page)
    for row in range(sparse.shape(checker).rows):
        sparse.free(checker, row)
    sparse.reserve(checker, 0, most * ratio)
