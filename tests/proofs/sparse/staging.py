"""What is proven of staging: every rule, in all states of a small pool, whichever copy ends when.

The search goes through all that two rows can do with three copies: being staged, retracted and given back, copies that
end in any order or are waited for, and acknowledgements between any two of these.  Each step is judged by every rule of
sparse pools, with a snapshot.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.sparse import staging as sparse_staging
from kvlitmus.spec.sparse.calls import SparseCall, SparseCopied, SparseDone, SparseFree, SparseReady, SparseRequest
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import Slot
from tests.proofs.support.sparse_search import RULES, Found, Perform, SparseSearch, seen

OF_STAGING = [rule for rule in RULES if rule.predicate.__module__ == sparse_staging.__name__]
ROWS, PAGES, COPIES = (0, 1), 3, 3
SIZES = (1, 2)


def perform(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A step of the reference, which puts pages aside until their copies end."""
    slots: tuple[Slot, ...] | None = ()
    rows: tuple[int, ...] = ()
    if isinstance(call, SparseRequest):
        pool, slots = reference.stage(pool, call.row, call.tokens)
    elif isinstance(call, SparseFree):
        pool = reference.free(pool, call.row)
    elif isinstance(call, SparseCopied):
        pool = reference.copied(pool, call.copy)
    elif isinstance(call, SparseReady):
        pool, rows = reference.ready(pool)
    return pool, SparseDone(slots, seen(pool), copying=tuple(pool.copies), ready=rows)


def waiting(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """As the reference, but who gives a row back waits for all copies."""
    return perform(pool._replace(copies={}) if isinstance(call, SparseFree) else pool, call)


def one_by_one(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """As the reference, but one row is acknowledged at a time."""
    if not isinstance(call, SparseReady):
        return perform(pool, call)
    then, rows = reference.ready(pool._replace(waiting=pool.waiting[:1]))
    then = then._replace(waiting=then.waiting + pool.waiting[1:])
    return then, SparseDone((), seen(then), copying=tuple(then.copies), ready=rows)


def calls(pool: SparseState) -> Iterator[SparseCall]:
    """All that can be done, with no more than so many copies."""
    for row in ROWS:
        staged = any(one.row == row for one in pool.waiting)
        if not pool.of(row).pages and pool.begun < COPIES:
            for tokens in range(1, (PAGES + 1) * pool.page_size):
                yield SparseRequest(row, 0, tokens, staged=True)
        yield SparseFree(row, "retracted" if staged else "finished")
    for copy in pool.copies:
        yield SparseCopied(copy)
    yield SparseReady()


def key(pool: SparseState) -> Hashable:
    """What tells states apart."""
    copies = tuple(sorted(pool.copies.items()))
    return tuple([pool.of(row).pages for row in ROWS]), copies, pool.waiting, pool.begun


SEARCH = SparseSearch(calls, key, follows=False)


def broken_in(size: int, performed: Perform = perform) -> Found:
    """What is found with pages of so many slots."""
    return SEARCH.broken_in(reference.empty_pool(size, PAGES, PAGES * size, 2), performed, Profile())


BOUNDS = (
    f"{len(ROWS)} rows, {PAGES} pages of 1 and 2 slots, {COPIES} copies, all orders; put aside, waited for, one by one"
)

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_of_staging_holds": (
        (*(rule.id for rule in OF_STAGING), "POOL-04", "SPARSE-06", "SPARSE-13", "POOL-12"),
        BOUNDS,
    ),
}
"""What is proven, for which rules, within which bounds."""
