"""After a call on a cache of components: it is looked at, what is known of it follows, and the step is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.component_answers import listed, named, read_copying, read_counts, read_entries
from kvlitmus.conformance.support.text import shown
from kvlitmus.spec.component_advance import advance_components
from kvlitmus.spec.component_calls import (
    After,
    At,
    Begun,
    ComponentBackUp,
    ComponentCall,
    ComponentCopied,
    ComponentLoad,
    Copying,
    Telling,
    View,
)
from kvlitmus.spec.component_host_facts import host_available_after
from kvlitmus.spec.component_policy_facts import path_to
from kvlitmus.spec.component_state import Copy, needed_by
from kvlitmus.spec.policies import WRITE_BACK

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

EVENTS, SNAPSHOT = 2, 3
OWN = 100
"""The first number of copies that a cache begins by itself: who asks for copies counts from 0."""
ENDED = "ended"
"""In the place of a copy that was waited for."""
BEGUN_FORM = "(copy, namespace, units, places by component and end, evicted by component)"
EVENT_FORM = "(what, tier, component, namespace, units)"


def judge(checker: Checker, call: ComponentCall, answer: object) -> None:
    """A call was answered: the cache is looked at, what is known of it follows, and the step is judged.

    What the cache has begun by itself is judged as calls of its own, the rest of :func:`steps`.
    """
    began = begun(checker, call)
    look = After(answer, available(checker), view(checker), available_host(checker), events(checker), began)
    if not began:
        step(checker, call, look)
    elif checker.config.write == WRITE_BACK:
        before_eviction(checker, call, answer, began)
        step(checker, call, look)
    else:
        call_and_backups(checker, call, look)


def before_eviction(checker: Checker, call: ComponentCall, answer: object, began: Sequence[Begun]) -> None:
    """Judge the backups of what a call is about to evict.

    They make no room with what a load back that evicts needs from the host.  Of a refused one nobody is told what it
    would have needed, so a backup that was refused during it is not judged.
    """
    state, setting = checker.component_state, checker.setting
    guard: dict[int, Copy] = {}
    unsure = False
    if isinstance(call, ComponentLoad) and isinstance(answer, Copying):
        unsure = answer.places is None
        needs = frozenset() if unsure else needed_by(setting, call.path, answer.boundary)
        guard[call.number] = Copy(load=True, places={}, device=frozenset(), host=needs & state.host.keys())
    checker.component_state = state._replace(under_way={**state.under_way, **guard})
    for backup, given in steps(began):
        refused = isinstance(given, Copying) and given.places is None
        unseen(checker, backup, given, judged=not (unsure and refused))
    under_way = {number: one for number, one in checker.component_state.under_way.items() if number not in guard}
    checker.component_state = checker.component_state._replace(under_way=under_way)


def steps(began: Sequence[Begun]) -> Sequence[tuple[ComponentBackUp | ComponentCopied, object]]:
    """Backups that a cache has begun by itself, as calls with their answers; what was waited for has ended too."""
    found: list[tuple[ComponentBackUp | ComponentCopied, object]] = []
    for one in began:
        found.append((one.call, one.answer))
        if one.ended:
            found.append((ComponentCopied(one.call.number, ok=True), {}))
    return found


def call_and_backups(checker: Checker, call: ComponentCall, look: After) -> None:
    """Judge a call, and after it the backups that it has begun: the host was seen after the last of them."""
    device = tuple([one for one in look.events or () if one.tier != "host"])
    host = tuple([one for one in look.events or () if one.tier == "host"])
    above = None if look.view is None else look.view._replace(host_free={}, host_held=None)
    count = host_count(checker, call, look.answer)
    step(checker, call, look._replace(view=above, host_available=count, events=device))
    *others, (backup, given) = steps(look.begun)
    for other, told in others:
        unseen(checker, other, told)
    step(checker, backup, look._replace(answer=given, events=host, begun=()))


def step(checker: Checker, call: ComponentCall, after: After, *, judged: bool = True) -> None:
    """What is known follows, and the step is judged."""
    before = checker.component_state
    checker.component_state = advance_components(before, checker.setting, call, after)
    if judged:
        checker.answered(call, after, before)


def unseen(checker: Checker, call: ComponentCall, answer: object, *, judged: bool = True) -> None:
    """A step after which nobody could look: the device is as it was, and the host counts what the answer says."""
    available = checker.component_state.available
    then = After(answer, available, None, host_count(checker, call, answer), None)
    step(checker, call, then, judged=judged)


def host_count(checker: Checker, call: ComponentCall, answer: object) -> Mapping[str, int] | None:
    """The free places of each pool of the host after a call, as they must be by the ones before it."""
    state = checker.component_state
    if state.host_available is None:
        return None
    return host_available_after(checker.setting.layout, state.host_available, state, call, answer)


def begun(checker: Checker, call: ComponentCall) -> tuple[Begun, ...]:
    """The backups that the cache has begun by itself with the call; each gets a number of the suite's."""
    if "component_writes" not in checker.capabilities:
        return ()
    number = max([*checker.component_state.under_way, getattr(call, "number", 0), OWN - 1]) + 1
    found = []
    for row in listed(checker, checker.look("component_begun"), "backups"):
        token, namespace, units, places, freed = checker.fields(row, 5, BEGUN_FORM)
        path = path_to(checker.setting, named(checker, namespace, units))
        checker.history[-1] += f"; copy {number}, begun by itself"
        ended = token is None and type(places) is dict and len(places) > 0
        given = read_copying(checker, ENDED if ended else token, places, len(path.names), freed)
        if token is not None:
            checker.copying[number] = token
        found.append(Begun(ComponentBackUp(path, len(path.names), number), given, ended))
        number += 1
    return tuple(found)


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
