"""What a cache of components answers, read with care: anything of another form breaks PORT-03."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kvlitmus.conformance.checker.guard import got_text
from kvlitmus.conformance.support.integers import integer, is_integer
from kvlitmus.conformance.support.text import shown
from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.prefix.components.calls import Copying, Entries, Taken
from kvlitmus.spec.words.units import Unit

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

PAIR = 2
ToldOf = TypeVar("ToldOf")
"""What is told of each name."""


def named(checker: Checker, namespace: object, units: object) -> Any:
    """The name of a prefix in a snapshot."""
    if namespace is not None and type(namespace) is not str:
        raise checker.broken("PORT-03", f"expected a namespace, a string or None, got {shown(namespace)}")
    if (type(units) is list or type(units) is tuple) and {*map(type, units)} == {int}:
        return checker.names.of(namespace, units)[-1]
    with checker.reading("the units of a prefix"):
        given = tuple(checker.listed(units, "units"))
        names = checker.names.of(namespace, given if {*map(type, given)} <= {int} else tuple(map(unit, given)))
    if not names:
        raise checker.broken("PORT-03", "expected the units of a prefix, got none")
    return names[-1]


def unit(given: Any) -> Unit:
    """A token, or a pair of them, in plain integers; raises ``TypeError`` for anything else."""
    if type(given) is tuple and len(given) == PAIR:
        return integer(given[0]), integer(given[1])
    return integer(given)


def listed(checker: Checker, answer: object, what: str) -> list[Any]:
    """Whatever iterates, as a list that isn't too long; anything else breaks PORT-03."""
    return list(checker.listed(answer, what))


def mapped(checker: Checker, answer: object, what: str) -> dict[Any, Any]:
    """Whatever maps, as a dict; anything else breaks PORT-03."""
    if type(answer) is dict:
        return answer
    with checker.reading(f"a mapping by {what}"):
        if issubclass(type(answer), Mapping):
            return dict(cast("Mapping[Any, Any]", answer))
    raise checker.broken("PORT-03", f"expected a mapping by {what}, got {got_text(answer)}")


def mapping(checker: Checker, answer: object, names: Mapping[str, object]) -> dict[str, Any]:
    """An answer by known names; anything else breaks PORT-03."""
    found = mapped(checker, answer, ", ".join(names))
    if {*map(type, found)} <= {str} and found.keys() <= names.keys():
        return found
    raise checker.broken("PORT-03", f"expected a mapping by {', '.join(names)}, got {shown(answer)}")


def read_entries(checker: Checker, answer: object, names: Mapping[str, object] | None = None) -> Entries:
    """An answer of integers by component."""
    rows = mapping(checker, answer, checker.setting.layout.components_by_name if names is None else names)
    return {
        name: tuple([checker.count(one, "a place") for one in listed(checker, some, "places")])
        for name, some in rows.items()
    }


def nothing_beside(checker: Checker, places: object, what: str) -> None:
    """What is refused has no places beside it: somebody would wait for them for ever; anything else breaks PORT-03."""
    if places is None:
        return
    told = mapping(checker, places, checker.setting.layout.components_by_name)
    if any(
        mapped(checker, some, "end") if type(some) is dict else listed(checker, some, "places")
        for some in told.values()
    ):
        raise checker.broken("PORT-03", f"expected no places beside a {what} that is None, got {shown(places)}")


def read_counts(checker: Checker, answer: object, names: Mapping[str, object]) -> Mapping[str, int]:
    """An answer of counts by name."""
    return {name: checker.count(many, "a count") for name, many in mapping(checker, answer, names).items()}


def read_every_count(checker: Checker, answer: object, names: Mapping[str, object]) -> Mapping[str, int]:
    """The same where each name has its count."""
    return every(checker, read_counts(checker, answer, names), names, "a count")


def read_every_list(checker: Checker, answer: object, names: Mapping[str, object]) -> Entries:
    """Lists of places by name, where each name has its list, an empty one too."""
    return every(checker, read_entries(checker, answer, names), names, "a list of places")


def read_sizes(checker: Checker, answer: object) -> Mapping[str, Sizes]:
    """What a cache counts of each component: any integers; one that is left out breaks PORT-03."""
    names = checker.setting.layout.components_by_name
    found = {}
    for name, row in every(checker, mapping(checker, answer, names), names, "a count").items():
        pair = checker.fields(row, PAIR, "(evictable, protected)")
        if not all(map(is_integer, pair)):
            raise checker.broken("PORT-03", f"expected (evictable, protected), integers, got {shown(row)}")
        found[name] = Sizes(integer(pair[0]), integer(pair[1]))
    return found


def every(checker: Checker, told: Mapping[str, ToldOf], names: Mapping[str, object], what: str) -> Mapping[str, ToldOf]:
    """What is told by name; a name that is left out breaks PORT-03."""
    if missing := [name for name in names if name not in told]:
        lacks = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise checker.broken("PORT-03", f"expected {what} for each of {', '.join(names)}, got {shown(told)}: {lacks}")
    return told


def entries_text(entries: Mapping[str, object]) -> str:
    """What is said of each component, as a reader wants it."""
    words = []
    for name, what in entries.items():
        if what in ((), []):
            continue
        text = str(list(what)) if isinstance(what, tuple) else str(what)
        words.append(f"{name} {text}")
    return ", ".join(words) or "nothing"


def by_end(checker: Checker, answer: object, names: Mapping[str, object]) -> dict[str, dict[int, int]]:
    """Places by component, and by where an entry ends; anything else breaks PORT-03."""
    return {
        name: {
            checker.count(end, "where an entry ends"): checker.count(place, "a place")
            for end, place in mapped(checker, some, "where an entry ends").items()
        }
        for name, some in mapping(checker, answer, names).items()
    }


def read_copying(checker: Checker, token: object, places: object, boundary: int, freed: object) -> Copying:
    """The answer of a copy that was asked for."""
    names = checker.setting.layout.components_by_name
    evicted = read_counts(checker, freed, names)
    given: dict[str, dict[int, int]] | None = None
    if token is None:
        nothing_beside(checker, places, "copy")
    else:
        given = by_end(checker, places, names)
    evicted_text = f", evicted {entries_text(evicted)}" if any(evicted.values()) else ""
    begun_text = "None" if given is None else f"{entries_text(given)} for {boundary} units"
    checker.history[-1] += f" → {begun_text}{evicted_text}"
    return Taken(given, evicted, boundary)
