"""What is known of a cache of components, and how it follows from calls and answers.

Below a snapshot evictions are not seen: of what may have gone it is known that it *may* be there, and no more.  So there
are two sets, what may be there (``places``) and what is (``certain``), and hence two sets of boundaries: a hit must end
at one that is possible, and not before the largest one that is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple, cast

from kvlitmus.spec.calls import Path
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
)
from kvlitmus.spec.component_layouts import Layout
from kvlitmus.spec.component_shapes import Component, Window, needed
from kvlitmus.spec.setting import Setting
from kvlitmus.spec.units import Name

Place = tuple[str, int]
"""A place of a pool."""


class ComponentState(NamedTuple):
    """What is known.

    ``places``: everything that may be cached, and where it is if it is.  ``certain``: what is cached for certain.
    ``owned``: what the caller has.  ``receipts``: by the suite's number what each receipt covers.  ``available``: the
    free places of each pool as they were last seen; ``None`` where nobody looked.  ``longest``: the most KV that one
    insert brought, in entries: no node is longer.
    """

    places: Mapping[At, int] = {}
    certain: frozenset[At] = frozenset()
    owned: frozenset[Place] = frozenset()
    receipts: Mapping[int, frozenset[At]] = {}
    available: Mapping[str, int] | None = None
    longest: int = 0

    @property
    def covered(self) -> frozenset[At]:
        """Everything that some receipt covers."""
        return frozenset[At]().union(*self.receipts.values())


EMPTY_COMPONENTS = ComponentState()


def end_name(path: Path, end: int) -> Name:
    """The name of the prefix of a key that has so many units."""
    return path.names[end - 1] if end else path.root


def ends_at(path: Path, component: str, places: Mapping[At, object] | frozenset[At]) -> frozenset[int]:
    """Where entries of a component end along a key, among these."""
    return frozenset(end for end, name in enumerate(path.names, 1) if (component, name) in places)


def needed_at(path: Path, component: Component, boundary: int, root: str) -> tuple[At, ...]:
    """The entries of a component that a boundary of a key needs, in the order of the prefix; none where it can't be valid."""
    ends = needed(component, boundary, root) or ()
    return tuple((component.name, end_name(path, end)) for end in ends if end <= len(path.names))


def pool_places(layout: Layout, entries: Entries) -> frozenset[Place]:
    """Entries as places of their pools."""
    return frozenset((layout.named(name).pool, entry) for name, some in entries.items() for entry in some)


def asked_components(layout: Layout, wants: Mapping[str, int], cascade: str) -> frozenset[str]:
    """The components of which an eviction may take something: those that are asked for, and what goes with them."""
    asked = {name for name, many in wants.items() if many > 0}
    if cascade == "none" or not asked:
        return frozenset(asked)
    if cascade == "leaf" or layout.base.name in asked:
        return frozenset(one.name for one in layout.components)
    return frozenset(asked)


def refilled(state: ComponentState, setting: Setting, call: ComponentInsert, gone: Container[At]) -> frozenset[At]:
    """The KV that an insert brings to take the place of what is cached, by the profile; ``gone``: the windows' entries that are missing."""
    if setting.profile.component_refill == "fills":
        return frozenset()
    base = setting.layout.base.name
    windows = [one.name for one in setting.layout.components if isinstance(one.shape, Window)]
    return frozenset(
        (base, name)
        for component, name in call.brought
        if component in windows
        and (component, name) in gone
        and (base, name) in call.brought
        and (base, name) not in state.covered
    )


def advance_components(state: ComponentState, setting: Setting, call: ComponentCall, after: After) -> ComponentState:
    """What is known after a call that was answered so, and after a look where somebody looked."""
    then = FOLLOW[type(call)](state, setting, call, after.answer)
    then = then._replace(available=after.available)
    if after.view is None:
        return then
    held = after.view.held
    return then._replace(places=held, certain=frozenset(held))


def _alloc(state: ComponentState, setting: Setting, _: ComponentAlloc, answer: Entries | None) -> ComponentState:
    if answer is None:
        return state
    taken = pool_places(setting.layout, answer)
    pools = {one.name: one.pool for one in setting.layout.components}
    places = {at: entry for at, entry in state.places.items() if (pools[at[0]], entry) not in taken}
    return state._replace(owned=state.owned | taken, places=places, certain=state.certain & places.keys())


def _free(state: ComponentState, setting: Setting, call: ComponentFree, _: object) -> ComponentState:
    return state._replace(owned=state.owned - pool_places(setting.layout, call.given))


def _match(state: ComponentState, setting: Setting, call: ComponentMatch, answer: ComponentHit) -> ComponentState:
    root = setting.profile.window_root
    found = {at for one in setting.layout.components for at in needed_at(call.path, one, answer.length, root)}
    return state._replace(certain=state.certain | (found & state.places.keys()))


def _insert(state: ComponentState, setting: Setting, call: ComponentInsert, answer: Entries) -> ComponentState:
    left = pool_places(setting.layout, answer)
    pools = {one.name: one.pool for one in setting.layout.components}
    taken = {at: entry for at, entry in call.brought.items() if (pools[at[0]], entry) not in left}
    gone = frozenset((pools[at[0]], entry) for at, entry in taken.items())
    if setting.profile.duplicates == "cache_frees":
        gone |= left
    certain = state.certain | {at for at in call.brought if at in state.places or at in taken}
    longest = max(state.longest, sum(at[0] == setting.layout.base.name for at in call.brought))
    places = {**state.places, **taken}
    return state._replace(places=places, certain=certain, owned=state.owned - gone, longest=longest)


def _lock(
    state: ComponentState,
    _: Setting,
    call: ComponentLock,
    answer: Mapping[str, Sequence[int]],
) -> ComponentState:
    covered = {
        (name, end_name(call.path, end)) for name, ends in answer.items() for end in ends if end <= len(call.path.names)
    }
    kept = frozenset(covered & state.places.keys())
    return state._replace(receipts={**state.receipts, call.receipt: kept}, certain=state.certain | kept)


def _unlock(state: ComponentState, _setting: Setting, call: ComponentUnlock, _: object) -> ComponentState:
    return state._replace(receipts={number: at for number, at in state.receipts.items() if number != call.receipt})


def _evict(
    state: ComponentState,
    setting: Setting,
    call: ComponentEvict,
    answer: Mapping[str, int],
) -> ComponentState:
    touched = asked_components(setting.layout, call.wants, setting.profile.component_cascade) & {
        name for name, freed in answer.items() if freed
    }
    covered = state.covered
    return state._replace(certain=frozenset(at for at in state.certain if at[0] not in touched or at in covered))


def _reset(_state: ComponentState, _setting: Setting, _: ComponentReset, _answer: object) -> ComponentState:
    return EMPTY_COMPONENTS


Follow = Callable[[ComponentState, Setting, object, object], ComponentState]

FOLLOW: Mapping[type, Follow] = cast(
    "Mapping[type, Follow]",
    {
        ComponentAlloc: _alloc,
        ComponentFree: _free,
        ComponentMatch: _match,
        ComponentInsert: _insert,
        ComponentLock: _lock,
        ComponentUnlock: _unlock,
        ComponentEvict: _evict,
        ComponentReset: _reset,
    },
)
"""Of each call what is known after it."""
