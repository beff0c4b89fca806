"""Calls on a cache of components, and what is known of it afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.support.integers import integer
from kvlitmus.conformance.support.text import harmless, shown, type_name
from kvlitmus.spec.component_advance import advance_components
from kvlitmus.spec.component_calls import (
    After,
    At,
    ComponentAlloc,
    ComponentCall,
    ComponentEvict,
    ComponentFree,
    ComponentHit,
    ComponentInsert,
    ComponentLock,
    ComponentMatch,
    ComponentReset,
    ComponentUnlock,
    Entries,
    Telling,
    View,
)
from kvlitmus.spec.component_state import end_name
from kvlitmus.spec.units import Key, Unit

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

EVENTS, SNAPSHOT = 2, 3
EVENT_FORM = "(what, tier, component, namespace, units)"
MAX_UNITS = 1 << 20
"""More units than any key of the suite has."""
PAIR = 2


def alloc(checker: Checker, wants: Mapping[str, int]) -> Entries | None:
    """Allocate entries of some components."""
    call = ComponentAlloc(dict(wants))
    answer = checker.call(f"alloc({entries_text(wants)})", "component_alloc", dict(wants))
    granted = None if answer is None else read_entries(checker, answer)
    checker.history[-1] += f" → {'None' if granted is None else entries_text(granted)}"
    judge(checker, call, granted)
    return granted


def free(checker: Checker, given: Mapping[str, Sequence[int]]) -> None:
    """Give entries back."""
    call = ComponentFree({name: tuple(some) for name, some in given.items()})
    checker.call(f"free({entries_text(given)})", "component_free", {name: list(some) for name, some in given.items()})
    judge(checker, call, None)


def match(checker: Checker, key: Key) -> tuple[int, object]:
    """Match a key; the length of the hit, and its handle."""
    answer = checker.call(f"match({key_text(key)})", "component_match", key)
    length, entries, handle = checker.fields(answer, 3, "(length, entries by component, handle)")
    hit = ComponentHit(checker.count(length, "the length of the match"), read_entries(checker, entries))
    checker.history[-1] += f" → {hit.length} units, {entries_text(hit.entries)}"
    judge(checker, ComponentMatch(checker.path(key)), hit)
    return hit.length, handle


def insert(checker: Checker, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Entries:
    """Cache entries of a key, for each component by where they end; answers those that are left to the caller."""
    path = checker.path(key)
    brought = {(name, end_name(path, end)): place for name, some in entries.items() for end, place in some.items()}
    answer = checker.call(
        f"insert({key_text(key)}, {entries_text(entries)})",
        "component_insert",
        key,
        {name: dict(some) for name, some in entries.items()},
    )
    left = read_entries(checker, answer)
    checker.history[-1] += f" → left {entries_text(left)}"
    judge(checker, ComponentInsert(path, brought), left)
    return left


def lock(checker: Checker, key: Key, length: int, handle: object, receipt: int) -> None:
    """Lock what a match of this length found; ``receipt`` is the suite's number for it."""
    answer = checker.call(f"lock(match of {length} units) → receipt {receipt}", "component_lock", handle)
    token, cover = checker.fields(answer, 2, "(receipt, ends by component)")
    covered = read_entries(checker, cover)
    checker.history[-1] += f" covers {entries_text(covered)}"
    checker.tokens[receipt] = token
    judge(checker, ComponentLock(checker.path(key), length, receipt), covered)


def unlock(checker: Checker, receipt: int) -> None:
    """Give a receipt back."""
    checker.call(f"unlock(receipt {receipt})", "component_unlock", checker.tokens.pop(receipt))
    judge(checker, ComponentUnlock(receipt), None)


def evict(checker: Checker, wants: Mapping[str, int]) -> Mapping[str, int]:
    """Free entries of some components; how many were freed of each."""
    answer = checker.call(f"evict({entries_text(wants)})", "component_evict", dict(wants))
    freed = read_counts(checker, answer, checker.setting.layout.components_by_name)
    checker.history[-1] += f" → {entries_text(freed)}"
    judge(checker, ComponentEvict(dict(wants)), freed)
    return freed


def reset(checker: Checker) -> None:
    """Forget everything."""
    checker.call("reset()", "component_reset")
    checker.tokens.clear()
    checker.fetching.clear()
    checker.copying.clear()
    judge(checker, ComponentReset(), None)


# -- what all of them need -------------------------------------------------------------------------


def judge(checker: Checker, call: ComponentCall, answer: object) -> None:
    """A call was answered: the cache is looked at, what is known of it follows, and the step is judged."""
    before = checker.component_state
    after = After(answer, available(checker), view(checker), available_host(checker), events(checker))
    checker.component_state = advance_components(before, checker.setting, call, after)
    checker.answered(call, after, before)


def available(checker: Checker) -> Mapping[str, int] | None:
    """The free places of each pool, where somebody may look."""
    if checker.depth < 1 or "component_counters" not in checker.capabilities:
        return None
    return read_counts(checker, checker.look("component_available"), checker.setting.layout.places)


def available_host(checker: Checker) -> Mapping[str, int] | None:
    """The free places of each pool of the host, where somebody may look."""
    if checker.depth < 1 or "component_host_counters" not in checker.capabilities:
        return None
    return read_counts(checker, checker.look("component_available_host"), checker.setting.layout.host)


def events(checker: Checker) -> tuple[Telling, ...]:
    """What was told since the call before, where somebody listens."""
    if checker.depth < EVENTS or "component_events" not in checker.capabilities:
        return ()
    told = []
    for row in listed(checker, checker.look("component_events"), "events"):
        what, tier, component, namespace, units = checker.fields(row, 5, EVENT_FORM)
        if type(what) is not str or type(tier) is not str:
            raise checker.broken("PORT-03", f"expected {EVENT_FORM}, got {shown(row)}")
        if what == "cleared":
            told.append(Telling(what, tier, None))
            continue
        if type(component) is not str or component not in checker.setting.layout.components_by_name:
            raise checker.broken("PORT-03", f"expected an event of a component, got {shown(row)}")
        told.append(Telling(what, tier, (component, named(checker, namespace, units))))
    return tuple(told)


def view(checker: Checker) -> View | None:
    """A snapshot, where somebody may look; what is on the host, if nobody may look there, as far as it is known."""
    if checker.depth < SNAPSHOT or "component_view" not in checker.capabilities:
        return None
    free = read_entries(checker, checker.look("component_free_places"), checker.setting.layout.places)
    held, copies = cached(checker, "component_entries")
    if "component_host_view" not in checker.capabilities:
        return View(free, held, copies)
    host_free = read_entries(checker, checker.look("component_free_host"), checker.setting.layout.host)
    host_held, _ = cached(checker, "component_host_entries", once=True)
    return View(free, held, copies, host_free, host_held)


def cached(checker: Checker, method: str, *, once: bool = False) -> tuple[dict[At, int], frozenset[tuple[At, int]]]:
    """The entries that a snapshot shows, and further places of what is cached more than once, where that may be."""
    once = once or checker.profile.component_copies != "kept"
    held: dict[At, int] = {}
    copies: set[tuple[At, int]] = set()
    for row in listed(checker, checker.look(method), "entries"):
        component, namespace, units, place = checker.fields(row, 4, "(component, namespace, units, place)")
        component = component if type(component) is str else ""
        name = named(checker, namespace, units)
        entry = (component, name), checker.count(place, "a place")
        again = entry[0] in held and once
        if component not in checker.setting.layout.components_by_name or again or entry in copies:
            raise checker.broken("PORT-03", f"expected each prefix of a component once, got {shown(row)}")
        copies.add(entry)
        held[entry[0]] = min(entry[1], held.get(entry[0], entry[1]))
    return held, frozenset(copies - held.items())


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
