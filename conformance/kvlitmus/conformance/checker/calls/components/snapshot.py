"""After a call on a cache of components: it is looked at, what is known of it follows, and the step is judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components.answers import (
    listed,
    mapped,
    named,
    read_copying,
    read_every_count,
    read_every_list,
    read_sizes,
)
from kvlitmus.conformance.checker.calls.components.plain import Pools
from kvlitmus.conformance.support.text import shown
from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.prefix.components.calls import Begun, JointCall, PoolsSeen, Telling
from kvlitmus.spec.prefix.components.state import path_to
from kvlitmus.spec.prefix.components.steps import component_steps
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.work_calls import BackUp

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

EVENTS, SNAPSHOT = 2, 3
OWN = 100
"""The first number of copies that a cache begins by itself: who asks for copies counts from 0."""
ENDED = "ended"
"""In the place of a copy that was waited for."""
BEGUN_FORM = "(copy, namespace, units, places by component and end, evicted by component)"
EVENT_FORM = "(what, tier, component, namespace, units)"


def judge(checker: Checker, call: JointCall, answer: object) -> None:
    """A call was answered: the cache is looked at, what is known of it follows, and each step is judged."""
    look = seen(checker, begun(checker, call))
    if checker.blind:
        checker.answered(call, answer, pools=look)
        return
    for one in component_steps(checker.state, checker.setting, call, answer, look):
        checker.state = one.then
        if one.judged:
            checker.answered(one.call, one.answer, one.before, one.after, one.then)
        for lifted in pools_of(checker).lifted(one):
            checker.lifted(lifted)


def pools_of(checker: Checker) -> Pools:
    """The pools of the cache, each a plain cache by itself."""
    if checker.component_pools is None:
        checker.component_pools = Pools(checker.setting)
    return checker.component_pools


def seen(checker: Checker, began: tuple[Begun, ...] = ()) -> PoolsSeen:
    """What is seen after a call."""
    return glimpse(checker)._replace(events=events(checker), begun=began)


def begun(checker: Checker, call: JointCall) -> tuple[Begun, ...]:
    """The backups that the cache has begun by itself with the call; each gets a number of the suite's."""
    if "component_writes" not in checker.capabilities:
        return ()
    number = max([*checker.state.under_way, getattr(call, "number", 0), OWN - 1]) + 1
    found = []
    for row in listed(checker, checker.look("component_begun"), "backups"):
        token, namespace, units, places, freed = checker.fields(row, 5, BEGUN_FORM)
        path = path_to(checker.setting, named(checker, namespace, units))
        checker.history[-1] += f"; copy {number}, begun by itself"
        ended = token is None and places is not None and len(mapped(checker, places, "component")) > 0
        given = read_copying(checker, ENDED if ended else token, places, len(path.names), freed)
        if token is not None:
            checker.copying[number] = token
        found.append(Begun(BackUp(path, len(path.names), number), given, ended))
        number += 1
    return tuple(found)


def available(checker: Checker) -> Mapping[str, int] | None:
    """The free places of each pool, where somebody may look."""
    if checker.depth < 1 or "component_counters" not in checker.capabilities:
        return None
    with checker.looked("component_available") as counts:
        return read_every_count(checker, counts, checker.setting.layout.places)


def sizes(checker: Checker) -> Mapping[str, Sizes] | None:
    """How many entries of each component could be evicted, and how many are protected, where somebody may look."""
    if checker.depth < 1 or "component_sizes" not in checker.capabilities:
        return None
    with checker.looked("component_sizes") as counts:
        return read_sizes(checker, counts)


def available_host(checker: Checker) -> Mapping[str, int] | None:
    """The free places of each pool of the host, where somebody may look."""
    if checker.depth < 1 or "component_host_counters" not in checker.capabilities:
        return None
    with checker.looked("component_available_host") as counts:
        return read_every_count(checker, counts, checker.setting.layout.host)


def events(checker: Checker) -> tuple[Telling, ...]:
    """What was told since the call before, where somebody listens."""
    if checker.depth < EVENTS or "component_events" not in checker.capabilities:
        return ()
    with checker.looked("component_events") as told:
        return tuple(telling(checker, row) for row in listed(checker, told, "events"))


def telling(checker: Checker, row: object) -> Telling:
    """One event as it was told."""
    what, tier, component, namespace, units = checker.fields(row, 5, EVENT_FORM)
    if type(what) is not str or type(tier) is not str:
        raise checker.broken("PORT-03", f"expected {EVENT_FORM}, got {shown(row)}")
    if what == "cleared":
        return Telling(what, tier, None)
    if type(component) is not str or component not in checker.setting.layout.components_by_name:
        raise checker.broken("PORT-03", f"expected an event of a component, got {shown(row)}")
    return Telling(what, tier, (component, named(checker, namespace, units)))


def glimpse(checker: Checker) -> PoolsSeen:
    """What is seen of the pools now, where somebody may look; nobody listens."""
    look = PoolsSeen(available(checker), events=None, sizes=sizes(checker))
    if checker.depth >= SNAPSHOT and "component_view" in checker.capabilities:
        with checker.looked("component_free_places") as places:
            free = read_every_list(checker, places, checker.setting.layout.places)
        held, copies = cached(checker, "component_entries")
        look = look._replace(free=free, held=held, copies=copies)
        if "component_host_view" in checker.capabilities:
            with checker.looked("component_free_host") as places:
                host_free = read_every_list(checker, places, checker.setting.layout.host)
            host_held, _ = cached(checker, "component_host_entries", once=True)
            look = look._replace(host_free=host_free, host_held=host_held)
    return look._replace(host_available=available_host(checker))


def cached(checker: Checker, method: str, *, once: bool = False) -> tuple[dict[At, int], frozenset[tuple[At, int]]]:
    """The entries that a snapshot shows, and further places of what is cached more than once, where that may be."""
    once = once or checker.profile.component_copies != "kept"
    components = checker.setting.layout.components_by_name
    held: dict[At, int] = {}
    copies: set[tuple[At, int]] = set()
    with checker.looked(method) as entries:
        for row in listed(checker, entries, "entries"):
            component, namespace, units, place = checker.fields(row, 4, "(component, namespace, units, place)")
            component = component if type(component) is str else ""
            name = named(checker, namespace, units)
            entry = (component, name), checker.count(place, "a place")
            if component not in components:
                raise checker.broken("PORT-03", f"expected an entry of {', '.join(components)}, got {shown(row)}")
            if (entry[0] in held and once) or entry in copies:
                raise checker.broken("PORT-03", f"expected each prefix of a component once, got {shown(row)}")
            copies.add(entry)
            held[entry[0]] = min(entry[1], held.get(entry[0], entry[1]))
    return held, frozenset(copies - held.items())
