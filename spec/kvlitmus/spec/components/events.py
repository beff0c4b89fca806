"""Events of components: what a cache tells the world of each entry, of KV, windows and states alike.

A router that knows of the KV alone sends a request to where its prefix can't be used: the window is gone, or the state.  So
each component's entries are told, with the tier that they came to or left, and whoever replays all events knows what is
cached, and where a hit will end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from kvlitmus.spec.components.calls import After, At, ComponentMatch, ComponentStart
from kvlitmus.spec.components.replay import Replayed, replayed, text_of
from kvlitmus.spec.components.state import ComponentState, ends_at, needed_at, unfollowed_at
from kvlitmus.spec.components.tree import EVERY, HITS
from kvlitmus.spec.components.tree_facts import told_of
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.listener import copies_count, told_too_often
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import largest

TOLD = ("component_events",)


@fact(2, ports=TOLD)
def component_told(setting: Setting, state: ComponentState, answer: After) -> Replayed | Unknown:
    """What all events so far tell, those of the call among them."""
    if answer.events is None:
        return UNKNOWN
    return replayed(state.told, setting, answer.events)


@fact(2, ports=TOLD)
def component_telling(answer: After) -> Collection[At] | Unknown:
    """The entries that the events of the call tell of."""
    if answer.events is None:
        return UNKNOWN
    return [one.at for one in answer.events if one.at is not None]


@fact(2, ports=TOLD)
def component_odd_events(setting: Setting, component_known: ComponentState, component_told: Replayed) -> Sequence[str]:
    """What is wrong with the events of the call, in words, and what is told more often than it has copies, where copies count."""
    if not copies_count(setting.profile):
        return component_told.odd
    if setting.profile.component_copies == "one":
        return (*component_told.odd, *component_told.twice)
    places = Counter(at for at, _ in component_known.stored)
    often = [
        f"told more often than it is there: {text_of(setting, at)}"
        for at in told_too_often(component_told.device, places)
    ]
    return (*component_told.odd, *often)


@fact(2, ports=TOLD)
def component_untold(component_known: ComponentState, component_told: Replayed) -> Collection[At]:
    """The entries that are certainly on a tier, and not by the events so far."""
    return [
        one
        for tier, told in component_told.tiers.items()
        for one in told_of(tier, component_known.on(tier).certain - told.keys())
    ]


@fact(2, ports=TOLD)
def component_told_amiss(component_known: ComponentState, component_told: Replayed) -> Collection[At]:
    """The entries that are on a tier by the events so far, and can't be there."""
    return [
        one
        for tier, told in component_told.tiers.items()
        for one in told_of(tier, told.keys() - component_known.on(tier).places.keys())
    ]


@fact(2, ports=TOLD)
def component_hit_untold(
    setting: Setting,
    layout: Layout,
    window_root: str,
    state: ComponentState,
    call: ComponentMatch | ComponentStart,
    component_length: int,
) -> Collection[At]:
    """What the end of the hit needs that is not on the device by the events before the call; where its last entries are dropped,
    of a component that doesn't go on behind it the end of the key.
    """
    needs = [at for one in layout.components for at in needed_at(call.path, one, component_length, window_root)]
    alone = unfollowed_at(setting, call.path, component_length, state.told.device)
    behind = [(name, call.path.names[-1]) for name in alone]
    return [*[at for at in needs if at not in state.told.device], *behind]


@fact(2, ports=TOLD)
def component_told_least(
    setting: Setting, layout: Layout, window_root: str, state: ComponentState, call: ComponentMatch | ComponentStart
) -> int:
    """The largest admitted boundary of the key that is valid for all components by the events before the call."""
    ends: Mapping[str, frozenset[int]] = {
        one.name: ends_at(call.path, one.name, state.told.device) for one in layout.components
    }
    cap, drop = setting.profile.match_cap, setting.profile.component_drop
    return largest(layout.components, len(call.path.names), ends.__getitem__, root=window_root, cap=cap, drop=drop)


@rule(
    "COMP-48",
    on=EVERY,
    needs=TOLD,
    source="R-EVT-01; design",
    reference="components.events.changes",
    premise="component_telling",
)
def events_of_entries_make_sense(component_odd_events: Sequence[str]) -> bool:
    """An event MUST NOT tell of an entry as removed from a tier where it isn't by the events before, nor, where the profile says that copies count, as stored more often than it has copies there."""
    return not component_odd_events


# EVENT-02 and EVENT-03 hear of pages of KV, by names of their own, and hold them against a snapshot.
@rule(
    "COMP-49",
    on=EVERY,
    needs=TOLD,
    source="R-EVT-02; design",
    reference="components.events.changes",
    allowed="exactly what is cached on each tier: {component_untold} were not told, {component_told_amiss} can't be there",
)
def events_tell_which_entries_a_tier_has(
    component_untold: Collection[At], component_told_amiss: Collection[At]
) -> bool:
    """After each call the events so far MUST tell exactly the entries that are cached on each tier, of every component."""
    return not component_untold and not component_told_amiss


@rule(
    "COMP-51",
    on=HITS,
    needs=TOLD,
    source="R-EVT-02; design",
    reference="components.events.changes",
    allowed="a boundary of which everything was told; of this one {component_hit_untold} were not",
    premise="component_length",
)
def what_a_hit_needs_was_told(component_hit_untold: Collection[At]) -> bool:
    """What the end of a hit needs, of every component, MUST be on the device by the events before it."""
    return not component_hit_untold


@rule(
    "COMP-52",
    on=HITS,
    needs=TOLD,
    source="R-EVT-02; design",
    reference="components.events.changes",
    allowed="at least {component_told_least} units",
    premise="component_told_least",
)
def what_was_told_is_hit(component_length: int, component_told_least: int) -> bool:
    """A hit MUST NOT end before the largest admitted boundary that is valid for all components by the events before it: an eviction that isn't told sends requests where their prefix is gone."""
    return component_length >= component_told_least
