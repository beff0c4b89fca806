"""Compressed tokens: every rule holds in all small states, the arithmetic for any length, and slips are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseRequest
from kvlitmus.spec.sparse.state import SparseState, backup_place, missing_pages
from tests.proofs.sparse import ratio as sparse_ratio
from tests.proofs.sparse.ratio import RATIOS, SCOPES, broken_in, perform
from tests.proofs.support.sparse_search import Perform

z3 = pytest.importorskip("z3")
from tests.proofs.support.solving import can_be  # noqa: E402 - needs z3
from tests.proofs.support.terms import formula_of  # noqa: E402 - needs z3
from tests.support.night import by_turns  # noqa: E402 - needs z3

pytestmark = pytest.mark.proof

PAGE_SIZES = range(1, 129)
n, m, g, k = (z3.Int(name) for name in "nmgk")
"""Lengths of a sequence with a step, and with another one; a group; pages that a row has."""
Formula = Any


@pytest.mark.parametrize("scopes", [SCOPES[1:2], pytest.param(SCOPES, marks=pytest.mark.nightly)])
def test_every_rule_of_ratios_holds(scopes: Sequence[tuple[int, int]]) -> None:
    counts: Counter[str] = Counter()
    for size, ratio in scopes:
        evaluated, states, broken = broken_in(size, ratio)
        assert broken == []
        assert states > 100
        counts += evaluated
    assert {id for ids, _ in sparse_ratio.PROVEN.values() for id in ids} <= counts.keys()
    assert min(counts[rule.id] for rule in sparse_ratio.OF_RATIOS) > 100


def backs_up_parts(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A step backs up the group that its token is in, whole or not."""
    if isinstance(call, SparseRequest) and call.length > 2:
        place = (call.length - 2) // pool.ratio
        if 0 <= place < pool.of(call.row).allocated:
            then, answer = perform(pool, call)
            return then, answer._replace(slots=(pool.of(call.row).slot(place),))
    return perform(pool, call)


def postpones(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A step backs up what the step before had to."""
    late = isinstance(call, SparseRequest) and call.length > 2
    return perform(pool, call._replace(length=call.length - 1) if late else call)  # type: ignore[union-attr,call-arg]


def rounds_up(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A prompt has a slot for the tokens that are left, too."""
    if isinstance(call, SparseRequest) and call.prompt:
        call = call._replace(prompt=-(-call.prompt // pool.ratio) * pool.ratio)
    return perform(pool, call)


@pytest.mark.parametrize(
    ("slip", "rule"), by_turns([(backs_up_parts, "SPARSE-43"), (postpones, "SPARSE-38"), (rounds_up, "SPARSE-45")])
)
def test_a_planted_slip_is_found(slip: Perform, rule: str) -> None:
    assert any(rule in one for size in (1, 2) for one in broken_in(size, 2, slip)[2])


def place(length: Formula, ratio: int) -> Formula:
    return formula_of(lambda of: backup_place(of, ratio)[0], length)


def rest(length: Formula, ratio: int) -> Formula:
    return formula_of(lambda of: backup_place(of, ratio)[1], length)


def refuted(claim: Formula) -> bool:
    """Whether there are numbers against a claim about steps of sequences, groups and rows."""
    return can_be(n >= 1, m >= 1, g >= 0, k >= 0, z3.Not(claim))


def each_group_has_its_step(ratio: int) -> Formula:
    """Group ``g`` is backed up by the step after its last token."""
    length = (g + 1) * ratio + 1
    return z3.And(place(length, ratio) == g, rest(length, ratio) == 0)


def no_group_has_two(ratio: int) -> Formula:
    """Two steps that back up one group are one."""
    both = z3.And(rest(n, ratio) == 0, rest(m, ratio) == 0, place(n, ratio) == place(m, ratio))
    return z3.Implies(both, n == m)


def none_is_left_out(ratio: int) -> Formula:
    """After a prompt of ``m`` tokens, the first step that backs up something goes on where the prompt has ended."""
    first = z3.And(n > m + 1, n <= m + 1 + ratio, rest(n, ratio) == 0)
    return z3.Implies(first, place(n, ratio) == m / ratio)


@pytest.mark.parametrize("claim", [each_group_has_its_step, no_group_has_two, none_is_left_out])
def test_the_arithmetic_of_groups(claim: Callable[[int], Formula]) -> None:
    assert [ratio for ratio in RATIOS if refuted(claim(ratio))] == []


def grows_by_a_page_at_its_end(page: int, ratio: int) -> Formula:
    """Where the row has the pages of the groups before and no others, a backup takes a page at a page's end only."""
    group = place(n, ratio)
    lacks = formula_of(lambda *of: missing_pages(of[0], of[1], 1, page), k * page, group)
    whole = z3.And(rest(n, ratio) == 0, group >= 0, k * page >= group, k * page - group < page)
    return z3.Implies(whole, lacks == z3.If(group == k * page, 1, 0))


@pytest.mark.parametrize("ratio", by_turns(RATIOS, every=2))
def test_a_row_grows_by_whole_pages(ratio: int) -> None:
    assert [page for page in PAGE_SIZES if refuted(grows_by_a_page_at_its_end(page, ratio))] == []


def by_the_newest(ratio: int) -> Formula:
    """A slip: the step of a group's last token has it whole."""
    return place((g + 1) * ratio, ratio) == g


def rounded_up(ratio: int) -> Formula:
    """A slip: a prompt has its last group whole."""
    first = z3.And(n > m + 1, n <= m + 1 + ratio, rest(n, ratio) == 0)
    return z3.Implies(first, place(n, ratio) == (m + ratio) / ratio)


@pytest.mark.parametrize("slip", [by_the_newest, rounded_up])
def test_a_slip_of_the_arithmetic_is_refuted(slip: Callable[[int], Formula]) -> None:
    assert all(refuted(slip(ratio)) for ratio in RATIOS)


@pytest.mark.parametrize("ratio", RATIOS)
def test_formula_and_function_agree(ratio: int) -> None:
    for length in (1, 2, ratio, ratio + 1, ratio + 2, 3 * ratio, 3 * ratio + 1):
        formulas = place(z3.IntVal(length), ratio), rest(z3.IntVal(length), ratio)
        assert tuple([z3.simplify(one).as_long() for one in formulas]) == backup_place(length, ratio)
