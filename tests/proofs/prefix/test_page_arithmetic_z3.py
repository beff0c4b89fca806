"""Page arithmetic and the bounds of truncation, proven by z3 for every page size.

A lemma is proven when its negation is unsatisfiable; ``unknown`` fails.  Each comes with a slip
of which z3 must produce a model, and the model is checked in plain Python.  The formulas are the
spec's functions, run on terms (``support/terms.py``); a grid of concrete values shows that both agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from kvlitmus.spec.interface.plans import PrefetchAsk
from kvlitmus.spec.prefix.prefetch_plan import deficit, least_length, truncated_length
from kvlitmus.spec.words.units import page_ceil, page_floor, pages_needed

z3 = pytest.importorskip("z3")
from tests.proofs.support.solving import model_of  # noqa: E402 - needs z3
from tests.proofs.support.terms import formula_of  # noqa: E402 - needs z3

pytestmark = pytest.mark.proof

p, n, m, t, a, b = (z3.Int(name) for name in "pnmtab")
Formula = Any


def div(number: Formula, page: Formula) -> Formula:
    """Python's ``//``; z3 rounds the same way where the divisor is positive."""
    return number / page


def floor(number: Formula, page: Formula = p) -> Formula:
    return formula_of(page_floor, number, page)


def ceil(number: Formula, page: Formula = p) -> Formula:
    return formula_of(page_ceil, number, page)


def smaller(one: Formula, other: Formula) -> Formula:
    return z3.If(one <= other, one, other)


def larger(one: Formula, other: Formula) -> Formula:
    return z3.If(one >= other, one, other)


def truncated(key: Formula, threshold: Formula, available: Formula) -> Formula:
    return formula_of(
        lambda *of: truncated_length(PrefetchAsk(of[0], of[1], of[2]), of[3]), key, p, threshold, available
    )


def lacking(wanted: Formula, available: Formula) -> Formula:
    return formula_of(deficit, wanted, available, p)


def check(assumed: list[Formula], claim: Formula) -> Mapping[str, int] | None:
    """``None`` when the claim follows from what is assumed, else values that refute it; fails on ``unknown``."""
    model = model_of(p >= 1, *assumed, z3.Not(claim))
    if model is None:
        return None
    return {str(name): model.eval(name, model_completion=True).as_long() for name in (p, n, m, t, a, b)}


class Lemma(NamedTuple):
    """A claim under assumptions, and a slip of it that must be refuted."""

    name: str
    assumed: list[Formula]
    claim: Formula
    slip: Formula
    slip_holds: Callable[..., bool]
    """The slip in plain Python, over the page size and the numbers."""


k = z3.Int("k")
LEMMAS = (
    Lemma(
        "a floor is the largest multiple that is not above",
        [],
        z3.And(floor(n) <= n, n < floor(n) + p, floor(n) == p * div(n, p)),
        floor(n) < n,
        lambda p, n, **_: page_floor(n, p) < n,
    ),
    Lemma(
        "a ceiling is the smallest multiple that is not below",
        [],
        z3.And(ceil(n) >= n, ceil(n) < n + p, ceil(n) == p * div(n + p - 1, p)),
        ceil(n) == floor(n) + p,
        lambda p, n, **_: page_ceil(n, p) == page_floor(n, p) + p,
    ),
    Lemma(
        "the floor of the smaller is the smaller of the floors",
        [],
        floor(smaller(n, m)) == smaller(floor(n), floor(m)),
        floor(n + m) == floor(n) + floor(m),
        lambda p, n, m, **_: page_floor(n + m, p) == page_floor(n, p) + page_floor(m, p),
    ),
    Lemma(
        "a floor grows with what it is the floor of",
        [n <= m],
        floor(n) <= floor(m),
        floor(n) < floor(m),
        lambda p, n, m, **_: page_floor(n, p) < page_floor(m, p),
    ),
    Lemma(
        "whole pages are not changed by rounding",
        [n == p * k],
        z3.And(floor(n) == n, ceil(n) == n),
        floor(n + 1) == n + 1,
        lambda p, n, **_: page_floor(n + 1, p) == n + 1,
    ),
    Lemma(
        "a truncated length is within its bounds",
        [n >= 0, t >= 0],
        z3.And(truncated(n, t, a) >= 0, truncated(n, t, a) <= floor(n), floor(n) <= n),
        smaller(n, a) == floor(smaller(n, a)),
        lambda p, n, a, **_: min(n, a) == page_floor(min(n, a), p),
    ),
    Lemma(
        "a truncated length is whole pages",
        [n >= 0, t >= 0],
        z3.Or(truncated(n, t, a) == 0, truncated(n, t, a) == p * div(n, p), truncated(n, t, a) == p * div(a, p)),
        z3.Or(truncated(n, t, a) == 0, truncated(n, t, a) == p * div(n, p)),
        lambda p, n, t, a, **_: truncated_length(PrefetchAsk(n, p, t), a) in (0, page_floor(n, p)),
    ),
    Lemma(
        "a truncated length is available and worth a read",
        [n >= 0, t >= 0],
        z3.Or(truncated(n, t, a) == 0, z3.And(truncated(n, t, a) <= a, truncated(n, t, a) >= t)),
        truncated(n, t, a) >= t,
        lambda p, n, t, a, **_: truncated_length(PrefetchAsk(n, p, t), a) >= t,
    ),
    Lemma(
        "more memory never makes a shorter prefetch",
        [n >= 0, t >= 0, a <= b],
        truncated(n, t, a) <= truncated(n, t, b),
        truncated(n, t, a) < truncated(n, t, b),
        lambda p, n, t, a, b, **_: (
            truncated_length(PrefetchAsk(n, p, t), a) < truncated_length(PrefetchAsk(n, p, t), b)
        ),
    ),
    Lemma(
        "a higher threshold never lets more through",
        [n >= 0, m >= t, t >= 0],
        truncated(n, m, a) <= truncated(n, t, a),
        truncated(n, m, a) == truncated(n, t, a),
        lambda p, n, t, m, a, **_: (
            truncated_length(PrefetchAsk(n, p, m), a) == truncated_length(PrefetchAsk(n, p, t), a)
        ),
    ),
    Lemma(
        "an eviction of the deficit makes room for what is wanted",
        [n == p * k, k >= 1],
        z3.And(a + lacking(n, a) >= n, z3.Or(lacking(n, a) == p, a + lacking(n, a) < n + p)),
        a + larger(p, floor(n - a)) >= n,
        lambda p, n, a, **_: a + max(p, page_floor(n - a, p)) >= n,
    ),
)


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.name)
def test_the_lemma_is_proven_for_every_page_size(lemma: Lemma) -> None:
    assert check(lemma.assumed, lemma.claim) is None


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.name)
def test_its_slip_is_refuted_and_the_model_is_real(lemma: Lemma) -> None:
    model = check(lemma.assumed, lemma.slip)
    assert model is not None
    assert not lemma.slip_holds(**model)


GRID = range(-9, 10)


def _value(formula: Formula, **values: int) -> int:
    names = {str(name): name for name in (p, n, m, t, a, b)}
    pairs = [(names[name], z3.IntVal(value)) for name, value in values.items()]
    return int(z3.simplify(z3.substitute(formula, *pairs)).as_long())


@pytest.mark.parametrize("page", [1, 2, 3, 4, 16])
def test_the_formulas_are_the_functions(page: int) -> None:
    for number in (*GRID, -64, 63, 64, 65):
        assert _value(floor(n), p=page, n=number) == page_floor(number, page)
        assert _value(ceil(n), p=page, n=number) == page_ceil(number, page) == pages_needed(number, page) * page
        assert _value(lacking(n, a), p=page, n=page * 3, a=number) == deficit(page * 3, number, page)
    for key, threshold, available in itertools.product((0, 3, 8, 17, 64), (0, 1, 4, 6, 8, 33), (-1, 0, 4, 7, 8, 40)):
        expected = truncated_length(PrefetchAsk(key, page, threshold), available)
        assert _value(truncated(n, t, a), p=page, n=key, t=threshold, a=available) == expected
        assert least_length(PrefetchAsk(key, page, threshold)) == max(threshold, page)
