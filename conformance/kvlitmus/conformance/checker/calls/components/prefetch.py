"""Calls on prefetches of several components; storage and its I/O are the suite's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components.answers import (
    by_end,
    entries_text,
    nothing_beside,
    read_counts,
    read_entries,
)
from kvlitmus.conformance.checker.calls.components.snapshot import judge
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.spec.prefix.components.calls import Taken
from kvlitmus.spec.prefix.work_calls import Abandon, Commit, Fetched, Found, Prefetch
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

Ends = Mapping[str, Collection[int]]


def prefetch(checker: Checker, key: Key, length: int, handle: object, threshold: int, number: int) -> bool:
    """Begin to fetch what storage has behind a hit of this length; whether it has begun."""
    said = f"prefetch {number} of {key_text(key)} behind {length} units, {threshold} or more"
    answer = checker.call(said, "component_prefetch", handle, key, threshold)
    token, places, freed = checker.fields(answer, 3, "(prefetch, places by component, evicted by component)")
    evicted = read_counts(checker, freed, checker.setting.layout.components_by_name)
    given = None
    if token is None:
        nothing_beside(checker, places, "prefetch")
    else:
        given = read_entries(checker, places)
    evicted_text = f", evicted {entries_text(evicted)}" if any(evicted.values()) else ""
    checker.history[-1] += f" → {'None' if given is None else entries_text(given)}{evicted_text}"
    if given is not None:
        checker.fetching[number] = token
    judge(checker, Prefetch(number, checker.path(key), length, threshold), Taken(given, evicted))
    return given is not None


def found(checker: Checker, number: int, stored: Ends) -> int:
    """Storage has entries that end there; the boundary up to which is read."""
    layout = checker.setting.layout
    answer = checker.call(
        f"storage has for prefetch {number} {ends_text(stored)}",
        "component_prefetch_found",
        checker.fetching[number],
        plain(stored),
    )
    boundary, reads, back = checker.fields(answer, 3, "(boundary, places by component and end, places given back)")
    end = checker.count(boundary, "a boundary")
    into, returned = by_end(checker, reads, layout.components_by_name), read_entries(checker, back)
    checker.history[-1] += f" → reads up to {end} units: {entries_text(into)}"
    judge(checker, Found(number, sets(stored)), Taken(into, boundary=end, returned=returned))
    return end


def settled(checker: Checker, number: int) -> None:
    """The I/O of a prefetch has ended."""
    said = f"the I/O of prefetch {number} has ended"
    answer = checker.call(said, "component_prefetch_settled", checker.fetching[number])
    returned = read_entries(checker, answer)
    checker.history[-1] += f" → gave back {entries_text(returned)}"
    judge(checker, Fetched(number), returned)
    forget(checker, number)


def commit(checker: Checker, number: int, came: Ends) -> int:
    """Commit a prefetch of which these entries came; where the KV ends that was cached."""
    answer = checker.call(
        f"commit(prefetch {number}, came {ends_text(came)})",
        "component_prefetch_commit",
        checker.fetching[number],
        plain(came),
    )
    end, back = checker.fields(answer, 2, "(where the KV ends, places given back)")
    boundary, returned = checker.count(end, "an end"), read_entries(checker, back)
    checker.history[-1] += f" → {boundary} units, gave back {entries_text(returned)}"
    judge(checker, Commit(number, sets(came)), Taken({}, boundary=boundary, returned=returned))
    forget(checker, number)
    return boundary


def abort(checker: Checker, number: int) -> None:
    """Give a prefetch up."""
    answer = checker.call(f"abort(prefetch {number})", "component_prefetch_abort", checker.fetching[number])
    returned = read_entries(checker, answer)
    checker.history[-1] += f" → gave back {entries_text(returned)}"
    judge(checker, Abandon(number), returned)
    forget(checker, number)


def forget(checker: Checker, number: int) -> None:
    """Nothing is called on a prefetch any more that is over and writes nothing."""
    if number not in checker.state.fetches:
        del checker.fetching[number]


def sets(ends: Ends) -> dict[str, frozenset[int]]:
    """Ends as sets."""
    return {name: frozenset(some) for name, some in ends.items()}


def plain(ends: Ends) -> dict[str, list[int]]:
    """Ends as lists, in their order, as they are handed over."""
    return {name: sorted(some) for name, some in ends.items()}


def ends_text(ends: Ends) -> str:
    """Ends as a reader wants them."""
    return entries_text({name: tuple(some) for name, some in plain(ends).items()})
