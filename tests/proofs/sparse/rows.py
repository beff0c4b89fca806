"""What is proven of sparse rows: every rule in all states of small pools, and the algebra of a row for any numbers.

The search goes through every state that two rows can get into, by every request with any start and count around the
edges, whichever free pages are taken; each step of the reference is judged by all rules, with a snapshot.  The algebra
is that of :func:`~kvlitmus.spec.sparse.state.missing_pages`, run on terms (``support/terms.py``), for each page size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import NamedTuple

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.law.on import On
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.sparse import rows as sparse
from kvlitmus.spec.sparse.calls import SparseCall, SparseConnect, SparseDone, SparseFree, SparseRead, SparseRequest
from kvlitmus.spec.sparse.lift import LAWS
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import PageNo, Slot
from tests.proofs.support.sparse_search import CAPABILITIES, Found, broken_as_pool, seen
from tests.support.step_judge import StepJudge

SWAPPING = {On.SPARSE_ADMIT, On.SPARSE_SWAP}
OF_THE_PACK = [rule for rule in all_rules().values() if rule.predicate.__module__ == sparse.__name__]
RULES = [rule for rule in OF_THE_PACK if not SWAPPING.issuperset(rule.on)]
"""Those of rows; what is said of their buffers is searched in ``sparse_swaps.py``."""
ROWS, PAGES = (0, 1), 3

Perform = Callable[[SparseState, SparseCall, tuple[PageNo, ...] | None, str], tuple[SparseState, SparseDone]]
"""What a pool does: the state and a call, the pages that are taken, and what a count below one is."""


class Scope(NamedTuple):
    """A small pool: slots in a page, the width of its rows, and what a count below one is."""

    page_size: int
    width: int
    below: str


SCOPES = [Scope(size, width, count) for size, width, count in ((1, 2, "empty"), (2, 5, "empty"), (3, 6, "reject"))]


def perform(
    pool: SparseState, call: SparseCall, choice: tuple[PageNo, ...] | None, count: str
) -> tuple[SparseState, SparseDone]:
    """A step of the reference."""
    slots: tuple[Slot, ...] = ()
    accepted = True
    if isinstance(call, SparseRequest):
        then, granted = reference.request(pool, call.row, call.start, call.tokens, count=count, choice=choice)
        return then, SparseDone(granted, seen(then))
    if isinstance(call, SparseRead):
        slots = reference.read(pool, call.row)
    elif isinstance(call, SparseFree):
        pool = reference.free(pool, call.row)
    elif isinstance(call, SparseConnect):
        accepted = reference.connects(pool, call.page_size)
    return pool, SparseDone(slots, seen(pool), accepted)


def calls(pool: SparseState) -> Iterator[SparseCall]:
    """Every call: with starts and counts from below nothing to beyond the row."""
    for row in ROWS:
        for start, tokens in product(range(-2, pool.width + 2), range(-2, pool.width + pool.page_size + 1)):
            yield SparseRequest(row, start, tokens)
        yield SparseRead(row)
        yield SparseFree(row)
    for size in range(1, 2 * pool.page_size + 1):
        yield SparseConnect(size)


def choices(pool: SparseState, call: SparseCall, count: str) -> Iterator[tuple[PageNo, ...] | None]:
    """Which pages a request may take, in any order; ``None`` where it takes none."""
    if not isinstance(call, SparseRequest) or reference.refusal(pool, call.row, call.start, call.tokens, count=count):
        yield None
        return
    yield from permutations(reference.free_pages(pool), reference.missing(pool, call.row, call.start, call.tokens))


def broken_in(scope: Scope, performed: Perform = perform) -> Found:
    """What is found in a small pool."""
    setting = Setting(
        Config(page_size=scope.page_size, pages=PAGES, pool="sparse"),
        Profile(sparse_count=scope.below),
        SNAPSHOT,
        CAPABILITIES,
    )
    empty = reference.empty_pool(scope.page_size, PAGES, scope.width)
    found, todo, judge = {key(empty)}, [empty], StepJudge(RULES, CAPABILITIES, setting)
    while todo:
        pool = todo.pop()
        for call in calls(pool):
            for choice in choices(pool, call, scope.below):
                then, answer = performed(pool, call, choice, scope.below)
                state = pool._replace(seen=seen(pool))
                if wrong := judge.broken(state, call, answer) or broken_as_pool(judge, state, call, answer):
                    why = f"{', '.join(wrong)}: {call} in {dict(pool.rows)} → {answer.slots}"
                    return judge.evaluated, len(found), [why]
                if key(then) not in found:
                    found.add(key(then))
                    todo.append(then)
    return judge.evaluated, len(found), []


def key(pool: SparseState) -> tuple[tuple[PageNo, ...], ...]:
    """What tells states apart."""
    return tuple([pool.of(row).pages for row in ROWS])


BOUNDS = f"{len(ROWS)} rows, {PAGES} pages of 1, 2 and 3 slots, every start and count; whichever free pages are taken"
ALGEBRA = "any row, start and count; pages of 1 to 128 tokens (z3)"

PROVEN: dict[str, tuple[tuple[str, ...], str]] = {
    "every_rule_of_sparse_rows_holds": ((*(rule.id for rule in RULES), *sorted(LAWS)), BOUNDS),
    "what_is_missing_is_enough_and_no_page_more": (("SPARSE-01", "SPARSE-06"), ALGEBRA),
    "who_asks_again_lacks_nothing": (("SPARSE-02", "SPARSE-06"), ALGEBRA),
    "two_requests_are_one_up_to_the_later_end": (("SPARSE-06",), ALGEBRA),
}
"""What is proven, for which rules, within which bounds."""
