"""No known bug of several components, of ranks or of what a slot holds is without a mutant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants

OF_COMPONENTS = frozenset(("S42", "S51", "S73", "S78", "S83", "S87", "S101", "V05", "V09"))
PARTLY = frozenset(
    ("S37", "S44", "S65", "S69", "S71", "S72", "S79", "S81", "S84", "S90", "S99", "S102", "S112", "V07", "V18")
)
"""Those that break another rule first."""

KNOWN: dict[str, frozenset[str]] = {
    "all or nothing across components": OF_COMPONENTS | PARTLY,
    "all ranks decide the same": frozenset(("S06", "S34", "S60", "S62", "S63", "S64", "L08", "S19", "S108")),
    "the right place, and all that belongs to it": frozenset(("S65", "S102", "S110", "L11", "T04", "T02")),
}
"""The bugs that break a rule, first or beside another."""

FORMS: dict[str, Callable[[Mutant], bool]] = {
    "all or nothing across components": lambda one: bool(one.configs[0].components),
    "all ranks decide the same": lambda one: one.configs[0].pool == "ranks",
    "the right place, and all that belongs to it": lambda _: True,
}
"""Whether a mutant is of a cache that has several components, or of several ranks."""

OTHERWISE = {
    "S87": "which window an eviction takes is the cache's own, so it is a mutant of caches whose order is declared",
    "S19": "what ranks call their pages is a matter of the page store",
    "S108": "what ranks call their pages is a matter of the page store",
}
"""Why a bug has no mutant of its class's own kind."""

REAL = [one for one in all_mutants().values() if not one.null]


@pytest.mark.parametrize(("rule", "bug"), [(rule, bug) for rule, bugs in KNOWN.items() for bug in sorted(bugs)])
def test_a_known_bug_has_a_mutant_of_its_kind(rule: str, bug: str) -> None:
    mutants = [one for one in REAL if bug in one.bugs]
    assert mutants
    assert any(FORMS[rule](one) for one in mutants) != (bug in OTHERWISE)


def test_the_table_is_whole() -> None:
    assert [len(bugs) for bugs in KNOWN.values()] == [24, 9, 6]
    assert KNOWN.keys() == FORMS.keys()
    assert OTHERWISE.keys() <= frozenset().union(*KNOWN.values())
