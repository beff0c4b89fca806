"""What an eviction frees is on the free list after it; that it was there before is POOL-12's to say."""

from __future__ import annotations

import pytest

from kvlitmus.spec.law.facts import FACTS
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.calls import Evict
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.words.units import Name, PageNo, Tokens

ONE, TWO = Name(1), Name(2)


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [
        ({3}, {1, 3}, True),
        ({1, 3}, {1, 3}, True),  # the page was free already, and cached: that is not the eviction's doing
        ({3}, {3}, False),
        ({3}, {1, 2, 3}, False),
        ({3}, {1}, False),
    ],
)
def test_what_is_evicted_is_free_then_and_nothing_else_changed(
    before: set[PageNo], after: set[PageNo], holds: bool
) -> None:
    all_rules()
    places = {ONE: PageNo(1), TWO: PageNo(2)}
    seen = Seen()
    freed = FACTS["freed"].compute(
        Evict(Tokens(1)), seen, seen, frozenset(before), frozenset(after), frozenset({ONE}), places
    )
    assert all_rules()["EVICT-04"].predicate(frozenset({ONE}), places, {TWO: PageNo(2)}, freed) is holds
