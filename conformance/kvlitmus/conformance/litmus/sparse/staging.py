"""Litmus tests on staging: prompts that are copied to sparse host memory before they decode."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import sparse
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.sparse.rows import fill, step, with_rows

STAGING = ("sparse", "sparse_staging")


def stage(checker: Checker, row: int, slots: int) -> None:
    """Stage a prompt that takes so many slots, in a row that has none: nobody may in another one."""
    state = sparse.state_of(checker)
    if not state.of(row).allocated:
        sparse.stage(checker, row, slots * state.ratio)


def end(checker: Checker, copy: int) -> None:
    """The device does a copy, if it began and nobody had to wait for it."""
    if copy in sparse.state_of(checker).copies:
        sparse.copied(checker, copy)


@litmus(rules=("SPARSE-01", "SPARSE-06", "SPARSE-17", "SPARSE-30", "SPARSE-32"), needs=STAGING)
def a_prompt_is_staged(checker: Checker) -> None:
    """Nothing is acknowledged before the copy has ended, the row then, and nothing after that; it ends as any other."""
    sparse.ready(checker)
    stage(checker, 0, checker.size + 1)
    sparse.ready(checker)
    end(checker, 0)
    sparse.ready(checker)
    sparse.ready(checker)
    sparse.read(checker, 0)
    sparse.free(checker, 0)


@litmus(rules=("SPARSE-30", "SPARSE-31", "SPARSE-32", "SPARSE-34"), needs=STAGING)
@with_rows(3)
def a_later_copy_ends_first(checker: Checker) -> None:
    """The second of three copies ends first, then the last, then the first: all rows are acknowledged in order."""
    for row in (2, 0, 1):
        stage(checker, row, checker.size + 1)
    for copy in (1, 2, 0):
        end(checker, copy)
        sparse.ready(checker)
    sparse.ready(checker)
    sparse.ready(checker)
    for row in range(3):
        sparse.free(checker, row)


@litmus(rules=("SPARSE-06", "SPARSE-13", "SPARSE-34"), needs=STAGING)
def a_prompt_finds_no_room(checker: Checker) -> None:
    """With one page left a prompt of two is refused and nothing is copied; one of one page is staged."""
    row, page = fill(checker, leave=1), checker.size
    stage(checker, row, page + 1)
    sparse.ready(checker)
    stage(checker, row, page)
    sparse.ready(checker)
    end(checker, 0)
    sparse.ready(checker)


@litmus(rules=("POOL-04", "SPARSE-06", "SPARSE-13", "SPARSE-30"), needs=STAGING)
@with_rows(2)
def a_staged_request_is_retracted(checker: Checker) -> None:
    """A row is given back while its copy goes on: nobody gets its pages before that has ended, and all after it."""
    page = checker.size
    stage(checker, 0, page + 1)
    stage(checker, 1, 1)
    sparse.retract(checker, 0)
    sparse.read(checker, 0)
    row = fill(checker)
    end(checker, 1)
    sparse.ready(checker)
    end(checker, 0)
    sparse.ready(checker)
    sparse.request(checker, row, 0, 1)
    sparse.free(checker, row)
    sparse.retract(checker, 1)
    sparse.ready(checker)


@litmus(rules=("SPARSE-06", "SPARSE-30"), needs=(*STAGING, "sparse_abort"))
@with_rows(2)
def a_staged_request_is_aborted(checker: Checker) -> None:
    """As when it is retracted, first in the queue and last; a row that is staged again waits for its own copy."""
    page = checker.size
    for row in range(2):
        stage(checker, row, page + 1)
    sparse.abort(checker, 0)
    stage(checker, 0, 1)
    end(checker, 0)
    end(checker, 1)
    sparse.ready(checker)
    sparse.abort(checker, 0)
    end(checker, 2)
    sparse.ready(checker)
    sparse.free(checker, 1)


@litmus(rules=("SPARSE-25", "SPARSE-27", "SPARSE-28"), needs=(*STAGING, "sparse_buffers", "sparse_swaps"))
def a_staged_prompt_decodes(checker: Checker) -> None:
    """What the buffer holds when decoding begins is what the profile says: the first tokens, or nothing."""
    room = sparse.state_of(checker).room
    stage(checker, 0, room + 2)
    end(checker, 0)
    sparse.ready(checker)
    step(checker, room + 3, (room, 0, room + 2))
    step(checker, room + 4, range(room - 1, -1, -1))
