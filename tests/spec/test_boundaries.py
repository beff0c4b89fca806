"""Facts, predicates and what they call say what they must on values made by hand (``support/boundaries.py`` …)."""

from __future__ import annotations

import pytest

from tests.spec.support.boundaries import Row
from tests.spec.support.edges import ALL_ROWS
from tests.spec.support.functions import FUNCTIONS


@pytest.mark.parametrize(
    "row", [pytest.param(one, id=f"{one.name}-{at}") for at, one in enumerate((*ALL_ROWS, *FUNCTIONS))]
)
def test_a_fact_or_a_predicate_says_what_it_must(row: Row) -> None:
    said = row.function(**row.values)
    assert said == row.says or said is row.says
    if row.name[0].isupper():
        assert type(said) is bool
