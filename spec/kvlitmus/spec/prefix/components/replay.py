"""What somebody knows who replays the events of a cache of components from the beginning.

An event names an entry by its component and its prefix, in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvlitmus.spec.prefix.components.calls import Telling
from kvlitmus.spec.prefix.listener import DEVICE, HOST, Listener
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import EMPTY_GROUP, Amiss, EventMirror, State
from kvlitmus.spec.words.layouts import KV
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name


def told_too(state: State, setting: Setting, events: Iterable[Telling]) -> Mapping[str, EventMirror]:
    """What is known after these events too, of each component of which they tell something new, or may have."""
    before = {one.name: state.mirror(one.name) for one in setting.layout.components}
    events = tuple(events)
    if not events:
        return {name: told._replace(odd=(), twice=()) for name, told in before.items() if told.odd or told.twice}
    tiers = (DEVICE, HOST) if setting.layout.host else (DEVICE,)
    heard = {
        name: Listener[Name](setting.profile, {tier: told.host if tier == HOST else told.device for tier in tiers})
        for name, told in before.items()
    }
    odd, twice = [{name: list[Amiss]() for name in before} for _ in range(2)]
    for one in events:
        if one.what == "cleared":
            for listener in heard.values():
                listener.cleared()
        elif one.tier not in tiers or one.what not in ("stored", "removed") or one.at is None:
            for some in odd.values():
                some.append(Amiss("", "an event of another kind, or of a tier that there is not"))
        elif one.what == "stored":
            if heard[one.at[0]].stored(one.tier, one.at[1]):
                text = f"stored on the {one.tier}, where it is already: {text_of(setting, one.at)}"
                twice[one.at[0]].append(Amiss(one.tier, text))
        elif not heard[one.at[0]].removed(one.tier, one.at[1]):
            text = f"removed from the {one.tier} without being there: {text_of(setting, one.at)}"
            odd[one.at[0]].append(Amiss(one.tier, text))
    return {
        name: EventMirror(one.tiers[DEVICE], one.tiers.get(HOST, {}), odd=tuple(odd[name]), twice=tuple(twice[name]))
        for name, one in heard.items()
    }


def with_told(state: State, told: Mapping[str, EventMirror]) -> State:
    """The same where events tell this of some components."""
    if not told:
        return state
    groups = {name: state.beside.get(name, EMPTY_GROUP) for name in told if name != KV}
    beside = {name: group._replace(told=told[name]) for name, group in groups.items()}
    return state._replace(told=told.get(KV, state.told), beside={**state.beside, **beside})


def told_of(state: State, setting: Setting) -> frozenset[At]:
    """What is on the device by all events."""
    return frozenset((one.name, at) for one in setting.layout.components for at in state.mirror(one.name).device)


def text_of(setting: Setting, at: At) -> str:
    """An entry in words; its units may be too many or too large to be told."""
    return f"{at[0]} that ends after {len(setting.names.prefix(at[1])[1])} units"
