"""Calls on the host memory of components; when a copy ends, and how, the suite says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components.answers import entries_text, read_copying, read_counts, read_entries
from kvlitmus.conformance.checker.calls.components.snapshot import judge
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, EvictHost, LoadBack
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def back_up(checker: Checker, key: Key, length: int, handle: object, number: int) -> bool:
    """Copy to the host what a hit of this length needs; whether a copy has begun."""
    number = free_number(checker, number)
    answer = checker.call(f"copy {number}: back up {key_text(key)} up to {length} units", "component_back_up", handle)
    token, places, freed = checker.fields(answer, 3, "(copy, places by component and end, evicted by component)")
    given = read_copying(checker, token, places, length, freed)
    if given.places is not None:
        checker.copying[number] = token
    judge(checker, BackUp(checker.path(key), length, number), given)
    return given.places is not None


def load(checker: Checker, key: Key, start: int, handle: object, number: int) -> int:
    """Load back what is behind a hit that ends there; the boundary that is loaded for, or where the hit ends."""
    number = free_number(checker, number)
    said = f"copy {number}: load back of {key_text(key)} what is behind {start} units"
    answer = checker.call(said, "component_load", handle, key)
    what = "(copy, boundary, places by component and end, evicted by component)"
    token, boundary, places, freed = checker.fields(answer, 4, what)
    given = read_copying(checker, token, places, checker.count(boundary, "a boundary"), freed)
    if given.places is not None:
        checker.copying[number] = token
    judge(checker, LoadBack(checker.path(key), start=start, number=number), given)
    return start if given.places is None else given.boundary


def copies(state: State) -> Mapping[int, Copy]:
    """The copies between the tiers that are under way."""
    return {number: one for number, one in state.under_way.items() if number >= 0}


def free_number(checker: Checker, number: int) -> int:
    """This number for a copy, or the next that is free: a copy whose number went to another would be lost."""
    while number in checker.state.under_way:
        number += 1
    return number


def copied(checker: Checker, number: int, ok: bool = True) -> None:
    """A copy has ended, or failed.

    Copies that count from their beginning, by the profile, end well, and after those of their direction that began
    before.
    """
    if checker.setting.profile.component_landing == "begun":
        ok = True
        for earlier in before(checker, number):
            copied(checker, earlier)
    said = f"copy {number} has {'ended' if ok else 'failed'}"
    answer = checker.call(said, "component_copied", checker.copying.pop(number), ok)
    returned = read_entries(checker, answer)
    checker.history[-1] += f" → gave back {entries_text(returned)}"
    judge(checker, Copied(number, ok), returned)


def before(checker: Checker, number: int) -> list[int]:
    """The copies in the direction of one that began before it, the first one first."""
    under_way = copies(checker.state)
    numbers = list(under_way)
    return [one for one in numbers[: numbers.index(number)] if under_way[one].load == under_way[number].load]


def evict_host(checker: Checker, wants: Mapping[str, int]) -> Mapping[str, int]:
    """Free entries of some components on the host; how many were freed of each."""
    answer = checker.call(f"evict_host({entries_text(wants)})", "component_evict_host", dict(wants))
    freed = read_counts(checker, answer, checker.setting.layout.components_by_name)
    checker.history[-1] += f" → {entries_text(freed)}"
    judge(checker, EvictHost(dict(wants)), freed)
    return freed
