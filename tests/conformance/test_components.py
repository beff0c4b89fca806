"""Caches of components judged alone: odd answers are named, mutants are killed by the litmus tests, and legal caches spared."""

from __future__ import annotations

from typing import Any

import pytest

from kvlitmus.conformance.checker.calls import components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.litmus.components import store
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.components import ComponentSpecimen
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.spec.units import Key

CONFIG = Config(page_size=4, pages=16, components="kv+swa")


class Odd(ComponentSpecimen):
    """A cache that gives one odd answer."""

    entries: Any = None
    length: int | None = None

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        length, entries, handle = super().component_match(key)
        return length if self.length is None else self.length, entries, handle

    def component_entries(self) -> list[Any]:
        found = super().component_entries()
        return found if self.entries is None else self.entries


def odd(**answers: Any) -> Checker:
    """What judges a cache that gives these answers."""
    one = Odd(CONFIG, Parts(), PROFILE)
    vars(one).update(answers)
    return Checker(one, CONFIG, PROFILE)


@pytest.mark.parametrize("length", [40, 10**13])
def test_a_hit_beyond_its_key_is_no_boundary_however_long_it_is(length: int) -> None:
    checker = odd(length=length)
    with pytest.raises(Violation) as found:
        components.match(checker, prompt(checker, "ab"))
    assert "COMP-01" in found.value.rules


@pytest.mark.parametrize(
    "row",
    [
        ([], None, (1, 2, 3, 4), 3),
        ("kv", 5, (1, 2, 3, 4), 3),
        ("kv", [], (1, 2, 3, 4), 3),
        ("kv", None, "abcd", 3),
        ("kv", None, ("a", "b", "c", "d"), 3),
        ("kv", None, (1.5, 2, 3, 4), 3),
        ("kv", None, ([1], 2, 3, 4), 3),
        ("kv", None, None, 3),
        ("kv", None, (), 3),
    ],
    ids=str,
)
def test_a_snapshot_of_another_form_breaks_the_port(row: object) -> None:
    checker = odd(entries=[row])
    with pytest.raises(Violation) as found:
        store(checker, prompt(checker, "ab"))
    assert found.value.rules == ("PORT-03",)
