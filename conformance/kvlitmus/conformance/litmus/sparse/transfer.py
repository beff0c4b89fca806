"""Litmus tests on prompts that a peer writes into sparse host memory."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import sparse
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.sparse.admission import steps, whole_row
from kvlitmus.conformance.litmus.sparse.rows import with_rows

TRANSFERS = ("sparse", "sparse_transfer")
ABORTS = ("sparse", "sparse_transfer", "sparse_abort")


def begin(checker: Checker, row: int, slots: int) -> int | None:
    """A peer is to write a prompt that takes so many slots; the number of its transfer, if it began."""
    state = sparse.state_of(checker)
    sparse.prealloc(checker, row, slots * state.ratio, checker.size)
    return sparse.state_of(checker).receiving.get(row)


def end(checker: Checker, transfer: int | None, *, arrived: bool = True) -> None:
    """A transfer ends, if it goes on."""
    if transfer is not None and transfer in sparse.state_of(checker).transfers:
        sparse.transferred(checker, transfer, arrived=arrived)


@litmus(rules=("SPARSE-01", "SPARSE-17", "SPARSE-38", "SPARSE-47", "SPARSE-48"), needs=TRANSFERS)
def a_prompt_comes_from_a_peer(checker: Checker) -> None:
    """A page and a token arrive, and the request decodes: its first step backs up nothing, the next ones do."""
    slots = checker.size + 1
    end(checker, begin(checker, 0, slots))
    sparse.read(checker, 0)
    if "sparse_backups" in checker.capabilities:
        ratio = sparse.state_of(checker).ratio
        steps(checker, 0, slots * ratio + 1, (slots + 2) * ratio + 1)
    sparse.free(checker, 0)


@litmus(rules=("SPARSE-06", "SPARSE-47"), needs=TRANSFERS)
@with_rows(3)
def a_last_page_is_sent_whole(checker: Checker) -> None:
    """Prompts of a token, of a page less one, and of two pages and one: all pages that they touch are destinations."""
    page = checker.size
    for row, slots in enumerate((1, max(1, page - 1), 2 * page + 1)):
        end(checker, begin(checker, row, slots), arrived=row != 1)


@litmus(rules=("SPARSE-06", "SPARSE-12", "SPARSE-48"), needs=TRANSFERS)
def a_peer_with_other_pages_has_no_destination(checker: Checker) -> None:
    """A peer with pages of another size is refused before anything is allocated; one with equal pages gets the row."""
    size, ratio = checker.size, sparse.state_of(checker).ratio
    for other in dict.fromkeys((1, 2 * size, size + 1)):
        if other != size:
            sparse.prealloc(checker, 0, (size + 1) * ratio, other)
    end(checker, begin(checker, 0, 1))


@litmus(rules=("SPARSE-06", "SPARSE-09", "SPARSE-13", "SPARSE-48"), needs=TRANSFERS)
def destinations_are_refused(checker: Checker) -> None:
    """A prompt that no row can take is refused, and so is one for which the pool has too few pages: nothing begins."""
    begin(checker, 0, whole_row(checker) + 1)
    for row in range(sparse.shape(checker).rows):
        begin(checker, row, whole_row(checker))
    for row in list(sparse.state_of(checker).receiving):
        sparse.end(checker, row)
    end(checker, begin(checker, 0, 1))


@litmus(rules=("SPARSE-06", "SPARSE-17", "SPARSE-48"), needs=TRANSFERS)
@with_rows(2)
def a_transfer_fails(checker: Checker) -> None:
    """A row whose transfer fails has nothing any more; another one's goes on, and its request decodes."""
    second = begin(checker, 1, 1)
    first = begin(checker, 0, checker.size + 1)
    end(checker, first, arrived=False)
    sparse.read(checker, 0)
    sparse.request(checker, 0, 0, 1)
    end(checker, second)
    sparse.read(checker, 1)


@litmus(rules=("POOL-04", "POOL-12", "SPARSE-06", "SPARSE-48"), needs=ABORTS)
@with_rows(2)
def a_request_is_aborted_while_a_peer_writes(checker: Checker) -> None:
    """The row is given back, and nobody gets its pages as long as the peer goes on; when it ends, all are free."""
    page = checker.size
    first = begin(checker, 0, page + 1)
    second = begin(checker, 1, 1)
    sparse.abort(checker, 0)
    for row in (0, *range(2, sparse.shape(checker).rows)):
        room = min(sparse.state_of(checker).free_pages, whole_row(checker) // page)
        sparse.request(checker, row, 0, room * page)
    end(checker, first)
    end(checker, second, arrived=False)
    for row in range(sparse.shape(checker).rows):
        sparse.free(checker, row)


@litmus(rules=("POOL-04", "POOL-12", "SPARSE-06", "SPARSE-13"), needs=ABORTS)
@with_rows(2)
def prompts_come_while_a_peer_writes_for_an_aborted_one(checker: Checker) -> None:
    """All other rows get prompts; nobody gets the pages that are written to, and who lacks some is refused."""
    page, rows = checker.size, sparse.shape(checker).rows
    each = min(whole_row(checker) // page, -(-checker.config.pages // rows))
    first = begin(checker, 0, (each - 1) * page + 1)
    sparse.abort(checker, 0)
    transfers = [begin(checker, row, (each - 1) * page + 1) for row in (*range(1, rows), 0)]
    end(checker, first)
    for transfer in transfers:
        end(checker, transfer, arrived=False)


@litmus(rules=("SPARSE-06",), needs=ABORTS)
def an_aborted_transfer_fails(checker: Checker) -> None:
    """A transfer fails whose request was aborted before, and whose row another one has: that row stays as it is."""
    first = begin(checker, 0, 1)
    sparse.abort(checker, 0)
    sparse.request(checker, 0, 0, checker.size)
    end(checker, first, arrived=False)
    sparse.read(checker, 0)
    sparse.free(checker, 0)
