"""What comes to a tier of a cache of components, what leaves it, and what may have left it.

Entries are told by component and prefix; what is kept of each component is a tier of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.page import NO_DOUBT, At, Doubt, Page, Rank, Tier, Window
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.windows import LEAST, MOST
from kvlitmus.spec.words.layouts import KV
from kvlitmus.spec.words.names import NO_NAME
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tick


def placed(state: State, setting: Setting, tier: str, places: Mapping[At, int]) -> State:
    """This is cached on a tier too, in these places."""
    found: dict[str, dict[Name, Page]] = {}
    for (component, name), place in places.items():
        old = state.tier(tier, component).pages.get(name)
        new = old._replace(page=PageNo(place)) if old else page_at(setting, component, name, place)
        found.setdefault(component, {})[name] = new
    tiers = {one: state.tier(tier, one) for one in found}
    return state.put(tier, {one: there._replace(pages={**there.pages, **found[one]}) for one, there in tiers.items()})


def page_at(setting: Setting, component: str, name: Name, place: int) -> Page:
    """An entry of which nobody knows how it was used; KV is found from the root on, and so goes on from some."""
    above = NO_NAME
    if component == KV:
        above = name
        for _ in range(setting.layout.base.unit):
            above = setting.names.parent(above)
    return Page(above, PageNo(place), Tick(0), Tick(0))


def without(state: State, tier: str, gone: Container[At]) -> State:
    """This is cached on a tier no more."""
    found = {}
    for component, there in state.on(tier):
        lost = [name for name in there.pages if (component, name) in gone]
        if lost:
            unsure = there.doubt.unsure.difference(lost)
            found[component] = effects.remove(there, lost)._replace(doubt=anything(there.doubt, unsure))
    return state.put(tier, found) if found else state


def surely(state: State, tier: str, found: Container[At]) -> State:
    """Of what may be cached on a tier this is there for certain."""
    return _doubting(
        state,
        tier,
        lambda component, there: frozenset([name for name in there.doubt.unsure if (component, name) not in found]),
    )


def perhaps(state: State, tier: str, gone: Callable[[At], bool]) -> State:
    """On a tier this may be cached, or not."""
    return _doubting(
        state,
        tier,
        lambda component, there: there.doubt.unsure.union([name for name in there.pages if gone((component, name))]),
    )


def _doubting(state: State, tier: str, unsure_of: Callable[[str, Tier], frozenset[Name]]) -> State:
    found = {}
    for component, there in state.on(tier):
        unsure = unsure_of(component, there)
        if len(unsure) != len(there.doubt.unsure):
            found[component] = there._replace(doubt=anything(there.doubt, unsure))
    return state.put(tier, found) if found else state


def anything(doubt: Doubt, unsure: frozenset[Name]) -> Doubt:
    """Whatever of this is gone may have gone in any order."""
    if not unsure:
        return NO_DOUBT._replace(vague=doubt.vague)
    ranks = dict.fromkeys(unsure, Rank(1, len(unsure), (LEAST,), (MOST,)))
    return doubt._replace(unsure=unsure, windows=(Window(0, len(unsure), ranks),), made=1)


def shown(state: State, setting: Setting, tier: str, held: Mapping[At, int]) -> State:
    """This is cached on a tier, and nothing else, as a look has shown; what is as it was known is the same object."""
    places = state.places(tier)
    if held == places:
        return surely(state, tier, held)
    then = without(state, tier, places.keys() - held.keys())
    moved = {at: place for at, place in held.items() if places.get(at) != place}
    return surely(placed(then, setting, tier, moved), tier, held)
