"""What comes to a tier of a cache of components, what leaves it, and what may have left it.

Entries are told by component and prefix; what is kept of each component is a tier of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from kvlitmus.spec.prefix import effects, windows
from kvlitmus.spec.prefix.page import At, Page, Tier
from kvlitmus.spec.prefix.state import State
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
    parent = setting.names.above(name, setting.layout.base.unit) if component == KV else NO_NAME
    return Page(parent, PageNo(place), Tick(0), Tick(0))


def changed(
    state: State, tier: str, chosen: Callable[[At, Tier], bool], change: Callable[[Tier, Sequence[Name]], Tier]
) -> State:
    """The same where something has become of the entries of a tier that are chosen, component by component."""
    known = {}
    for component, there in state.on(tier):
        names = [name for name in there.pages if chosen((component, name), there)]
        if names:
            known[component] = change(there, names)
    return state.put(tier, known) if known else state


def without(state: State, tier: str, gone: Container[At]) -> State:
    """This is cached on a tier no more."""

    def change(there: Tier, names: Sequence[Name]) -> Tier:
        return effects.remove(there, names)._replace(doubt=windows.forgotten(there.doubt, names))

    return changed(state, tier, lambda at, _: at in gone, change)


def surely(state: State, tier: str, found: Container[At]) -> State:
    """Of what may be cached on a tier this is there for certain."""
    if not any(there.doubt.unsure for _, there in state.on(tier)):
        return state

    def change(there: Tier, names: Sequence[Name]) -> Tier:
        return there._replace(doubt=windows.present(there.doubt, names))

    return changed(state, tier, lambda at, there: at[1] in there.doubt.unsure and at in found, change)


def perhaps(state: State, tier: str, gone: Callable[[At], bool]) -> State:
    """On a tier this may be cached, or not, in whatever order it has gone; how it was used, if it is there, is known as before."""

    def change(there: Tier, names: Sequence[Name]) -> Tier:
        return there._replace(doubt=windows.left_open(there.doubt, names)._replace(vague=there.doubt.vague))

    return changed(state, tier, lambda at, there: at[1] not in there.doubt.unsure and gone(at), change)


def shown(state: State, setting: Setting, tier: str, held: Mapping[At, int]) -> State:
    """This is cached on a tier, and nothing else, as a look has shown; what is as it was known is the same object."""
    places = state.places(tier)
    if held == places:
        return surely(state, tier, held)
    then = without(state, tier, places.keys() - held.keys())
    moved = {at: place for at, place in held.items() if places.get(at) != place}
    return surely(placed(then, setting, tier, moved), tier, held)
