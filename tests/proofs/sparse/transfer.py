"""What is proven of transfers: every rule, in all states that two rows get into by prompts that peers write there.

Transfers arrive and fail in any order, before and after their rows are given back.  Each step is judged by every rule
of sparse pools, with a snapshot; once where pages are put aside until the peer has ended, and once where it is told to
stop.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.sparse import transfer as sparse_transfer
from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseFree, SparseRequest, SparseTransferred
from kvlitmus.spec.sparse.state import SparseState, backup
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import PageNo, Slot
from tests.proofs.support.sparse_search import RULES, Found, Perform, SparseSearch, seen

OF_TRANSFERS = [rule for rule in RULES if rule.predicate.__module__ == sparse_transfer.__name__]
ROWS, PAGES, TRANSFERS = (0, 1), 3, 3
SIZES = (1, 2)


def perform(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A step of the reference, which puts pages aside until their transfers end."""
    slots: tuple[Slot, ...] | None = ()
    pages: tuple[PageNo, ...] = ()
    if isinstance(call, SparseRequest):
        if call.length:
            pool, slots = reference.back_up(pool, call.row, call.length)
        else:
            pool, slots = reference.prealloc(pool, call.row, call.prompt, call.peer)
            pages = reference.destinations(pool, call.row) if slots else ()
    elif isinstance(call, SparseFree):
        pool = reference.free(pool, call.row)
    elif isinstance(call, SparseTransferred):
        pool = reference.transferred(pool, call.transfer, arrived=call.arrived)
    return pool, SparseDone(slots, seen(pool), sending=tuple(pool.transfers), pages=pages)


def breaking_off(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """As the reference, but a peer is told to stop when its row is given back, and has."""
    if isinstance(call, SparseFree):
        going = {number: one for number, one in pool.transfers.items() if one.row != call.row}
        return perform(pool._replace(transfers=going), call)
    return perform(pool, call)


def calls(pool: SparseState) -> Iterator[SparseCall]:
    """All that can be done, with no more than so many transfers, and two steps of each request."""
    size = pool.page_size
    for row in ROWS:
        if not pool.of(row).pages and pool.sent < TRANSFERS:
            for tokens in range(1, (PAGES + 1) * size):
                yield SparseRequest(row, 0, tokens, prompt=tokens, peer=size)
            yield SparseRequest(row, 0, 1, prompt=1, peer=size + 1)
        if row in pool.lengths and pool.lengths[row] < (PAGES + 1) * size:
            yield backup(pool, row, pool.lengths[row] + 1)
        yield SparseFree(row, "aborted" if row in pool.receiving else "finished")
    for number in pool.transfers:
        yield SparseTransferred(number, True)
        yield SparseTransferred(number, False)


def key(pool: SparseState) -> Hashable:
    """What tells states apart."""
    rows = [(pool.of(row).pages, pool.lengths.get(row), pool.backed.get(row)) for row in ROWS]
    return tuple(rows), tuple(sorted(pool.transfers.items())), pool.sent


SEARCH = SparseSearch(calls, key)


def broken_in(size: int, performed: Perform = perform) -> Found:
    """What is found with pages of so many slots."""
    return SEARCH.broken_in(reference.empty_pool(size, PAGES, PAGES * size, 1), performed, Profile())


BOUNDS = (
    f"{len(ROWS)} rows, {PAGES} pages of 1 and 2 slots, {TRANSFERS} transfers, all orders; put aside and broken off"
)

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_of_transfers_holds": (
        (
            *(rule.id for rule in OF_TRANSFERS),
            "POOL-04",
            "SPARSE-06",
            "SPARSE-09",
            "POOL-12",
            "SPARSE-38",
            "SPARSE-48",
        ),
        BOUNDS,
    ),
}
"""What is proven, for which rules, within which bounds."""
