"""Which choices of the profile a cache seems to make that has declared others.

Where a rule is broken, the cache may be wrong, or what its target declares of it.  So the schedules that broke a rule
are played again under every other value of each field, one field at a time: a value under which nothing is broken any
more, in these schedules and in those that broke nothing before, fits.  A value may fit because the rules that were
broken aren't judged under it: how often they are is counted, so that what a value only silences is not taken for what
the cache does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from kvlitmus.conformance.ports import Profile
from kvlitmus.conformance.run.results import Choice, Item, ItemResult
from kvlitmus.spec.words.profile import PROFILE_VALUES

NOT_TRIED = frozenset({"attach", "hash_scheme", "least_key", "misuse", "namespaces", "timeout", "vocabulary"})
"""Under which other schedules are played, storage, keys and misuse; and a name and a span of time, which nobody
guesses.
"""

NUMBERS = (0, 1, 2, 3, 4, 8, 16)
"""The values of a number that are tried."""

Play = Callable[[Sequence[Item]], Iterable[ItemResult]]
"""Plays items, and gives what came of each in their order."""


class Declaring:
    """A target that is taken to declare something else."""

    def __init__(self, target: Any, choice: Choice) -> None:
        self._target, self._choice = target, choice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    @property
    def profile(self) -> Profile:
        """What the target declares, but for the choice."""
        choice: dict[str, Any] = dict(self._choice)
        declared: Profile = self._target.profile
        return replace(declared, **choice)


class Fit(NamedTuple):
    """A value under which nothing is broken.

    ``evaluations``: how often the rules that were broken are judged under it, in the schedules that broke them.
    """

    field: str
    value: bool | int | str
    evaluations: int


def choices(profile: Profile) -> Iterator[Choice]:
    """Each other value of each field that can be tried."""
    for one in fields(Profile):
        now, legal = getattr(profile, one.name), PROFILE_VALUES.get(one.name)
        values: Iterable[bool | int | str] = ()
        if isinstance(legal, range):
            values = [number for number in NUMBERS if number in legal]
        elif legal is not None:
            values = legal
        elif type(now) is bool:
            values = (False, True)
        if one.name not in NOT_TRIED:
            yield from [((one.name, value),) for value in values if value != now]


def fits(play: Play, profile: Profile, items: Sequence[Item], results: Sequence[ItemResult]) -> list[Fit]:
    """The values that fit: of each field the first under which the broken rules are judged most.

    ``results``: what came of the items under the profile that is declared.
    """
    broken = {rule for result in results for finding in result.findings for rule in finding.rules}
    failing = [item for item, result in zip(items, results, strict=True) if result.findings]
    sound = [item for item, result in zip(items, results, strict=True) if not result.findings and result.steps]
    left = dict.fromkeys(choices(profile) if failing else (), 0)
    for item in (*failing, *sound) if left else ():
        # The first schedule tells most values apart, so that few are left for the others.
        played = zip(list(left), play([replace(item, declared=choice) for choice in left]), strict=True)
        left = {
            choice: left[choice] + (sum(result.evaluated[rule] for rule in broken) if item in failing else 0)
            for choice, result in played
            if not (result.findings or result.error or result.unsupported)
        }
    found: dict[str, Fit] = {}
    for ((field, value),), evaluations in left.items():
        fit = Fit(field, value, evaluations)
        found[field] = max(found.get(field, fit), fit, key=lambda one: one.evaluations)
    return sorted(found.values(), key=lambda one: -one.evaluations)
