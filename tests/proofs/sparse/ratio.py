"""What is proven of compressed tokens: every rule in all states of small pools, and what steps back up for any length.

The search goes through all that two rows can do that stage prompts of any length, take steps and are given back.  The
arithmetic is that of :func:`~kvlitmus.spec.sparse.state.backup_place`, run on terms (``support/terms.py``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.sparse import ratio as sparse_ratio
from kvlitmus.spec.sparse.calls import (
    SparseAdmit,
    SparseCall,
    SparseCopied,
    SparseDone,
    SparseFree,
    SparseReady,
    SparseRequest,
)
from kvlitmus.spec.sparse.state import SparseState, backup
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import Slot
from tests.proofs.support.sparse_search import RULES, Found, Perform, SparseSearch, seen

OF_RATIOS = [rule for rule in RULES if rule.predicate.__module__ == sparse_ratio.__name__]
ROWS, PAGES, ROW_PAGES, COPIES = (0, 1), 3, 2, 2
SCOPES = [(size, ratio) for size in (1, 2) for ratio in (1, 2, 3)]
"""Slots in a page, and tokens that are compressed to one."""
RATIOS = (1, 2, 4, 128)


def perform(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A step of the reference."""
    slots: tuple[Slot, ...] | None = ()
    rows: tuple[int, ...] = ()
    if isinstance(call, SparseRequest):
        if call.length:
            pool, slots = reference.back_up(pool, call.row, call.length)
        else:
            pool, slots = reference.stage(pool, call.row, call.prompt)
    elif isinstance(call, SparseFree):
        pool = reference.free(pool, call.row)
    elif isinstance(call, SparseAdmit):
        pool = reference.admit(pool, call.row, call.length)
    elif isinstance(call, SparseCopied):
        pool = reference.copied(pool, call.copy)
    elif isinstance(call, SparseReady):
        pool, rows = reference.ready(pool)
    return pool, SparseDone(slots, seen(pool), copying=tuple(pool.copies), ready=rows)


def calls(pool: SparseState) -> Iterator[SparseCall]:
    """All that can be done, with copies that are waited for: prompts without a whole group begin at once."""
    most = (ROW_PAGES + 1) * pool.page_size * pool.ratio
    for row in ROWS:
        if row in pool.lengths:
            if pool.lengths[row] < most:
                yield backup(pool, row, pool.lengths[row] + 1)
        elif not pool.of(row).pages:
            for tokens in range(1, most):
                if not pool.hosted(tokens):
                    yield SparseAdmit(row, tokens)
                elif pool.begun < COPIES:
                    yield SparseRequest(row, 0, pool.hosted(tokens), staged=True, prompt=tokens)
        yield SparseFree(row, "retracted" if any(one.row == row for one in pool.waiting) else "finished")
    for copy in pool.copies:
        yield SparseCopied(copy)
    if not pool.copies:
        yield SparseReady()


def key(pool: SparseState) -> Hashable:
    """What tells states apart."""
    rows = [(pool.of(row).pages, pool.lengths.get(row), pool.backed.get(row)) for row in ROWS]
    return tuple(rows), tuple(pool.copies), pool.waiting, pool.begun


SEARCH = SparseSearch(calls, key)


def broken_in(size: int, ratio: int, performed: Perform = perform) -> Found:
    """What is found with pages of so many slots, and so many tokens compressed to one."""
    empty = reference.empty_pool(size, PAGES, ROW_PAGES * size, 1, ratio=ratio)
    return SEARCH.broken_in(empty, performed, Profile(sparse_ratio=ratio))


BOUNDS = (
    f"{len(ROWS)} rows of {ROW_PAGES} pages, {PAGES} pages of 1 and 2 slots, {COPIES} prompts; 1, 2 and 3 tokens to one"
)

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_of_ratios_holds": ((*(rule.id for rule in OF_RATIOS), "SPARSE-38"), BOUNDS),
    "groups_are_backed_up_each_once_and_in_order": (
        ("SPARSE-43", "SPARSE-44", "SPARSE-45"),
        f"any lengths; pages of 1 to 128 slots, {', '.join(map(str, RATIOS))} tokens to one (z3)",
    ),
}
"""What is proven, for which rules, within which bounds."""
