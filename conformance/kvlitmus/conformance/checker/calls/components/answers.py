"""What a cache of components answers, read with care: anything of another form breaks PORT-03."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from kvlitmus.conformance.support.integers import integer
from kvlitmus.conformance.support.text import harmless, shown, type_name
from kvlitmus.spec.components.calls import Copying, Entries
from kvlitmus.spec.words.units import Unit

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

MAX_UNITS = 1 << 20
"""More units than any key of the suite has."""

PAIR = 2


def named(checker: Checker, namespace: object, units: object) -> Any:
    """The name of a prefix in a snapshot."""
    if namespace is not None and type(namespace) is not str:
        raise checker.broken("PORT-03", f"expected a namespace, a string or None, got {shown(namespace)}")
    try:
        given = tuple(islice(cast("Iterable[Any]", units), MAX_UNITS))
        names = checker.names.of(namespace, given if {*map(type, given)} <= {int} else tuple(map(unit, given)))
    except Exception as error:
        raise checker.broken("PORT-03", f"expected units, got {harmless(error) or type_name(error)}") from error
    if not names:
        raise checker.broken("PORT-03", "expected the units of a prefix, got none")
    return names[-1]


def unit(given: Any) -> Unit:
    """A token, or a pair of them, in plain integers; raises ``TypeError`` for anything else."""
    if type(given) is tuple and len(given) == PAIR:
        return integer(given[0]), integer(given[1])
    return integer(given)


def listed(checker: Checker, answer: object, what: str) -> list[Any]:
    """A list or tuple; anything else breaks PORT-03."""
    if type(answer) is not list and type(answer) is not tuple:
        raise checker.broken("PORT-03", f"expected a list of {what}, got {type_name(answer)}")
    return list(answer)


def mapping(checker: Checker, answer: object, names: Mapping[str, object]) -> dict[str, Any]:
    """An answer by known names; anything else breaks PORT-03."""
    if type(answer) is not dict or not answer.keys() <= names.keys():
        raise checker.broken("PORT-03", f"expected a dict by {', '.join(names)}, got {shown(answer)}")
    return answer


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
    if any(type(some) not in (dict, list, tuple) or len(some) for some in told.values()):
        raise checker.broken("PORT-03", f"expected no places beside a {what} that is None, got {shown(places)}")


def read_counts(checker: Checker, answer: object, names: Mapping[str, object]) -> Mapping[str, int]:
    """An answer of counts by name."""
    return {name: checker.count(many, "a count") for name, many in mapping(checker, answer, names).items()}


def entries_text(entries: Mapping[str, object]) -> str:
    """What is said of each component, as a reader wants it."""
    words = []
    for name, what in entries.items():
        if what in ((), []):
            continue
        text = str(list(what)) if isinstance(what, tuple) else str(what)
        words.append(f"{name} {text}")
    return ", ".join(words) or "nothing"


def by_end(checker: Checker, answer: object) -> Mapping[object, object]:
    """Places by where an entry ends; anything else breaks PORT-03."""
    if type(answer) is not dict:
        raise checker.broken("PORT-03", f"expected a dict by end, got {type(answer).__name__}")
    return answer


def read_copying(checker: Checker, token: object, places: object, boundary: int, freed: object) -> Copying:
    """The answer of a copy that was asked for."""
    names = checker.setting.layout.components_by_name
    evicted = read_counts(checker, freed, names)
    given: dict[str, dict[int, int]] | None = None
    if token is None:
        nothing_beside(checker, places, "copy")
    else:
        given = {
            name: {
                checker.count(end, "an end"): checker.count(place, "a place")
                for end, place in by_end(checker, some).items()
            }
            for name, some in mapping(checker, places, names).items()
        }
    evicted_text = f", evicted {entries_text(evicted)}" if any(evicted.values()) else ""
    begun_text = "None" if given is None else f"{entries_text(given)} for {boundary} units"
    checker.history[-1] += f" → {begun_text}{evicted_text}"
    return Copying(given, boundary, evicted)
