"""What is proven of admission and backups: every rule, in all states of a small pool.

The search goes through all that two rows can do that are admitted or not, ask for pages one by one, begin to decode,
take steps, and are given back.  Each step is judged by every rule of sparse pools, with a snapshot.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.sparse import admission as sparse_admission
from kvlitmus.spec.sparse.calls import SparseAdmit, SparseCall, SparseDone, SparseFree, SparseRequest, SparseReserve
from kvlitmus.spec.sparse.state import SparseState, backup
from kvlitmus.spec.words.profile import Profile
from tests.proofs.support.sparse_search import RULES, Found, Perform, SparseSearch, seen

OF_ADMISSION = [rule for rule in RULES if rule.predicate.__module__ == sparse_admission.__name__]
ROWS, PAGES, ROW_PAGES = (0, 1), 3, 2
SIZES = (1, 2)


def perform(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A step of the reference."""
    accepted = True
    if isinstance(call, SparseReserve):
        pool, accepted = reference.reserve(pool, call.row, call.tokens)
    elif isinstance(call, SparseRequest):
        if call.length:
            pool, granted = reference.back_up(pool, call.row, call.length)
        else:
            pool, granted = reference.request(pool, call.row, call.start, call.tokens)
        return pool, SparseDone(granted, seen(pool))
    elif isinstance(call, SparseAdmit):
        pool = reference.admit(pool, call.row, call.length)
    elif isinstance(call, SparseFree):
        pool = reference.free(pool, call.row)
    return pool, SparseDone((), seen(pool), accepted)


def calls(pool: SparseState) -> Iterator[SparseCall]:
    """All that can be done."""
    size = pool.page_size
    for row in ROWS:
        own = pool.of(row)
        if not own.pages and row not in pool.reserved:
            for tokens in range(1, (ROW_PAGES + 1) * size + 1):
                yield SparseReserve(row, tokens)
        if row in pool.backed:
            length = pool.buffers[row].length + 1
            if length <= (ROW_PAGES + 1) * size:
                yield backup(pool, row, length)
        else:
            yield SparseRequest(row, own.allocated, 1)
            for length in range(1, own.allocated + 1):
                yield SparseAdmit(row, length)
        yield SparseFree(row)


def key(pool: SparseState) -> Hashable:
    """What tells states apart."""
    rows = [(pool.of(row).pages, pool.reserved.get(row), pool.backed.get(row)) for row in ROWS]
    return tuple(rows), tuple([pool.buffers[row].length if row in pool.buffers else 0 for row in ROWS])


SEARCH = SparseSearch(calls, key)


def broken_in(size: int, performed: Perform = perform) -> Found:
    """What is found with pages of so many slots."""
    return SEARCH.broken_in(reference.empty_pool(size, PAGES, ROW_PAGES * size, 1), performed, Profile())


BOUNDS = f"{len(ROWS)} rows of {ROW_PAGES} pages, {PAGES} pages of 1 and 2 slots, admitted or not, all lengths"

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_of_admission_holds": ((*(rule.id for rule in OF_ADMISSION), "SPARSE-09", "SPARSE-13"), BOUNDS),
}
"""What is proven, for which rules, within which bounds."""
