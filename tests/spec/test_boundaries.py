"""Facts and predicates say what they must on values made by hand (``tests/spec/support/boundaries.py``)."""

from __future__ import annotations

import pytest

from tests.spec.support.boundaries import ROWS, Row


@pytest.mark.parametrize("row", [pytest.param(one, id=f"{one.name}-{at}") for at, one in enumerate(ROWS)])
def test_a_fact_or_a_predicate_says_what_it_must(row: Row) -> None:
    said = row.function(**row.values)
    assert said == row.says or said is row.says
    if row.name[0].isupper():
        assert type(said) is bool
