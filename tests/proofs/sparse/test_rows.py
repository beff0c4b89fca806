"""Sparse rows: every rule holds in all small states, the algebra for any numbers, and slips are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseFree, SparseRequest
from kvlitmus.spec.sparse.lift import LAWS
from kvlitmus.spec.sparse.state import SparseState, missing_pages
from kvlitmus.spec.words.units import PageNo, page_ceil
from tests.proofs.sparse import lemmas as sparse_lemmas
from tests.proofs.sparse import rows as sparse_rows
from tests.proofs.sparse.page_sizes import every_page_size
from tests.proofs.sparse.rows import SCOPES, broken_in, perform
from tests.proofs.support.reader import Ask, confirmed, found_and_real
from tests.proofs.support.sparse_search import seen

z3 = pytest.importorskip("z3")
from tests.proofs.support.solving import can_be  # noqa: E402 - needs z3
from tests.proofs.support.terms import formula_of  # noqa: E402 - needs z3
from tests.support.night import by_turns  # noqa: E402 - needs z3

pytestmark = pytest.mark.proof

k, s, n, t, m = (z3.Int(name) for name in "ksntm")
"""Pages that a row has; start and count of a request, and of a second one."""
Formula = Any


def test_every_rule_of_sparse_rows_holds() -> None:
    counts: Counter[str] = Counter()
    for scope in SCOPES:
        evaluated, states, broken = broken_in(scope)
        assert broken == []
        assert states > 20
        counts += evaluated
    assert counts.keys() == {*(rule.id for rule in sparse_rows.RULES), *LAWS}
    assert min(counts.values()) > 10


def leaks_a_page(
    pool: SparseState, call: SparseCall, choice: tuple[PageNo, ...] | None, count: str
) -> tuple[SparseState, SparseDone]:
    """A row of two pages gives back the first one alone."""
    then, answer = perform(pool, call, choice, count)
    if isinstance(call, SparseFree) and len(pool.of(call.row).pages) > 1:
        row = pool.of(call.row)
        then = pool._replace(rows={**pool.rows, call.row: row._replace(pages=row.pages[1:])})
        return then, answer._replace(seen=seen(then))
    return then, answer


def grants_a_hole(
    pool: SparseState, call: SparseCall, choice: tuple[PageNo, ...] | None, count: str
) -> tuple[SparseState, SparseDone]:
    """A start one behind the end is granted as if it were the end."""
    if isinstance(call, SparseRequest) and call.start == pool.of(call.row).allocated + 1:
        call = call._replace(start=call.start - 1)
    return perform(pool, call, choice, count)


@pytest.mark.parametrize(
    ("slip", "rule"), by_turns([(leaks_a_page, "SPARSE-06"), (grants_a_hole, "SPARSE-12")], every=2)
)
def test_a_planted_slip_is_found(slip: Callable[..., tuple[SparseState, SparseDone]], rule: str) -> None:
    found = [broken for scope in SCOPES for broken in broken_in(scope, slip)[2]]
    assert any(rule in one for one in found), found


def missing(allocated: Formula, start: Formula, tokens: Formula, page: int) -> Formula:
    return formula_of(lambda *of: missing_pages(of[0], of[1], of[2], page), allocated, start, tokens)


def refuted(page: int, claim: Formula) -> bool:
    """Whether there are numbers against a claim about a row of ``k`` pages and requests within what is allocated."""
    return can_be(k >= 0, s >= 0, s <= k * page, n >= 1, t >= 0, m >= 1, z3.Not(claim))


def grown(page: int) -> Formula:
    """How long the row is after the first request."""
    return k * page + missing(k * page, s, n, page) * page


def enough(page: int) -> Formula:
    """All tokens have slots, and the last page that was allocated has one of them."""
    after = grown(page)
    return z3.And(after >= s + n, z3.Or(after == k * page, after - (s + n) < page))


def again(page: int) -> Formula:
    """The same request, or a part of it, lacks nothing then."""
    inside = z3.And(t >= s, t + m <= s + n)
    return z3.Implies(inside, missing(grown(page), t, m, page) == 0)


def composed(page: int) -> Formula:
    """After two requests the row is as long as after one up to the later of both ends."""
    after = grown(page)
    twice = after + missing(after, t, m, page) * page
    end = z3.If(s + n >= t + m, s + n, t + m)
    return z3.Implies(t <= after, twice == k * page + missing(k * page, 0, end, page) * page)


@every_page_size
@pytest.mark.parametrize("claim", [enough, again, composed])
def test_the_algebra_of_a_row(claim: Callable[[int], Formula], sizes: tuple[int, ...]) -> None:
    assert [page for page in sizes if refuted(page, claim(page))] == []


def rounded_down(page: int) -> Formula:
    """A slip: one page less where the end is within a page."""
    return grown(page) - (s + n) <= 0


def never_alone(page: int) -> Formula:
    """A slip: the row's last page is always full."""
    return z3.Or(grown(page) == k * page, grown(page) == s + n)


@every_page_size
@pytest.mark.parametrize("slip", by_turns([rounded_down, never_alone], every=2))
def test_a_slip_of_the_algebra_is_refuted(slip: Callable[[int], Formula], sizes: tuple[int, ...]) -> None:
    assert all(refuted(page, slip(page)) for page in sizes if page > 1)


@pytest.mark.parametrize("page", [1, 2, 7, 128])
def test_formula_and_function_agree(page: int) -> None:
    for start, tokens in ((0, 0), (0, 1), (page, page), (page - 1, 2), (3 * page, 1), (0, 5 * page + 1)):
        for pages in (0, 1, 4):
            said = z3.simplify(missing(z3.IntVal(pages * page), z3.IntVal(start), z3.IntVal(tokens), page))
            assert said.as_long() == missing_pages(pages * page, start, tokens, page)
            assert pages * page + said.as_long() * page == max(
                pages * page, page_ceil(start + tokens, page) if tokens else 0
            )


def test_a_row_grows_as_far_as_it_must(crosshair: Ask) -> None:
    confirmed(crosshair("sparse.lemmas.a_row_grows_as_far_as_it_must"))


def test_a_slip_of_what_a_row_lacks_is_found_and_real(crosshair: Ask) -> None:
    planted = sparse_lemmas.planted_a_last_page_is_left_out
    found_and_real(crosshair("sparse.lemmas.planted_a_last_page_is_left_out"), planted)
