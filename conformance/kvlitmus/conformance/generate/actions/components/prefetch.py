"""Actions on prefetches of several components: what an engine, storage and its I/O do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components import prefetch as calls
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.generate.actions.registry import MAX_REQUESTS, action
from kvlitmus.spec.prefix.components.state import (
    ends_at,
)
from kvlitmus.spec.prefix.work import Fetch
from kvlitmus.spec.words.shapes import Run

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker
    from kvlitmus.conformance.generate.caller import Caller


def stored_of(checker: Checker, fetch: Fetch, a: int, b: int, c: int) -> dict[str, set[int]]:
    """What storage has of a key behind the anchor: all, KV up to somewhere, or entries with holes."""
    layout = checker.setting.layout
    found: dict[str, set[int]] = {}
    for at, one in enumerate(layout.components):
        ends = list(range(one.unit, min(fetch.start + fetch.length, len(fetch.path.names)) + 1, one.unit))
        behind = [end for end in ends if end > fetch.start]
        kind = (a >> (2 * at)) % 4
        if kind == 0 and c % 4 == 0:
            continue  # storage says nothing of this component
        if isinstance(one.shape, Run):
            found[one.name] = set(behind[: 1 + b % max(1, len(behind))] if kind == 0 else behind)
        else:
            holes = b >> at if kind == 1 else 0
            found[one.name] = {end for index, end in enumerate(ends) if not holes >> (index % 8) & 1}
    return found


def written_of(caller: Caller, fetch: Fetch) -> dict[str, frozenset[int]]:
    """What writes have put into storage of a key; empty where they have put nothing there."""
    stored = frozenset(caller.in_storage)
    ends = {one.name: ends_at(fetch.path, one.name, stored) for one in caller.checker.setting.layout.components}
    return {name: some for name, some in ends.items() if some}


def came_of(fetch: Fetch, a: int, b: int, c: int) -> dict[str, set[int]]:
    """What came of what is read: all, or all but some entries."""
    found: dict[str, set[int]] = {}
    for at, (name, some) in enumerate(fetch.reads.items()):
        kind = (a >> (2 * at)) % 4
        if kind == 0 and c % 4 == 0:
            continue
        lost = b >> at if kind == 1 else 0
        found[name] = {end for index, end in enumerate(some) if not lost >> (index % 8) & 1}
    return found


def those(checker: Checker, **values: object) -> dict[int, Fetch]:
    """The prefetches of which these fields have these values."""
    return {
        number: fetch
        for number, fetch in checker.state.fetches.items()
        if all(getattr(fetch, name) == value for name, value in values.items())
    }


def chosen(caller: Caller, which: int, **values: object) -> Iterator[tuple[int, Fetch]]:
    """One of the prefetches of which these fields have these values, or none."""
    among = those(caller.checker, **values)
    number = caller.pick("component fetch", among, which)
    if number is not None:
        yield number, among[number]


@action("component_prefetch")
def component_prefetch(caller: Caller, a: int, b: int, c: int) -> None:
    """Match a key and begin to fetch what is behind the hit; not where a window's places come with the KV's."""
    checker = caller.checker
    fetches = checker.state.fetches
    if len(fetches) < MAX_REQUESTS and checker.profile.component_grants == "each":
        key = caller.key(a, b, c)
        length, handle = components.match(checker, key)
        threshold = (0, 1, 2, 3)[c % 4] * checker.size
        calls.prefetch(checker, key, length, handle, threshold, max(fetches, default=-1) + 1)


@action("component_found")
def component_found(caller: Caller, a: int, b: int, c: int) -> None:
    """Storage says what it has."""
    for number, fetch in chosen(caller, c // 4, over=False, answered=False):
        written = written_of(caller, fetch) if c % 2 and "component_storage" in caller.checker.capabilities else None
        calls.found(caller.checker, number, written or stored_of(caller.checker, fetch, a, b, c))


@action("component_settled")
def component_settled(caller: Caller, a: int, b: int, c: int) -> None:
    """The I/O of a prefetch ends."""
    for number, _ in chosen(caller, a, running=True):
        calls.settled(caller.checker, number)


@action("component_commit")
def component_commit(caller: Caller, a: int, b: int, c: int) -> None:
    """Commit what came of a prefetch."""
    for number, fetch in chosen(caller, c // 4, over=False):
        if fetch.answered:
            calls.commit(caller.checker, number, came_of(fetch, a, b, c))


@action("component_abort")
def component_abort(caller: Caller, a: int, b: int, c: int) -> None:
    """Give a prefetch up, whatever it is at."""
    for number, _ in chosen(caller, a, over=False):
        calls.abort(caller.checker, number)
