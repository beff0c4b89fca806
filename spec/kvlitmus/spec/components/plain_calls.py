"""What a call on a cache of components is to one of its pools, as a plain cache.

Most calls ask one pool for something, and the others for nothing.  Where a call does two things at once to a pool, as an
eviction for a prefetch and the prefetch itself, no call on a plain cache says that, and it stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.components.calls import (
    At,
    Committed,
    ComponentAlloc,
    ComponentCall,
    ComponentCommit,
    ComponentCopied,
    ComponentEvict,
    ComponentFree,
    ComponentHit,
    ComponentInsert,
    ComponentLoad,
    ComponentLock,
    ComponentMatch,
    ComponentPrefetch,
    ComponentReset,
    ComponentUnlock,
    Copying,
    Entries,
    Reserved,
)
from kvlitmus.spec.components.plain import Plain
from kvlitmus.spec.components.state import (
    ComponentState,
    asked_components,
    commit_brings,
    end_name,
    ends_at,
    refilled,
)
from kvlitmus.spec.components.tree_facts import given_back
from kvlitmus.spec.interface import Hit, Stored
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.calls import Path
from kvlitmus.spec.words.names import NO_NAME
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import largest
from kvlitmus.spec.words.units import Key, Tokens


class PlainCall(NamedTuple):
    """A call on a plain cache, what it answered, and the facts of it that can't be told."""

    call: object
    answer: object
    hidden: frozenset[str] = frozenset()


NOTHING = PlainCall(calls.Free(()), None)
"""The call asks this pool for nothing: it is as if nothing were given back."""

NO_CALL = PlainCall(UNKNOWN, UNKNOWN)
"""No call on a plain cache says what happens here."""

NO_PATH = Path(Key(None, ()), NO_NAME, (), (), ())
"""The path of what comes for no key in particular."""


def plain_call(plain: Plain, setting: Setting, state: ComponentState, call: ComponentCall, answer: object) -> PlainCall:
    """What a call is to one pool; ``state``: what was known before it."""
    match call:
        case ComponentAlloc():
            return _alloc(plain, state, call, answer)
        case ComponentFree():
            return _free(plain, call.given)
        case ComponentMatch():
            return _match(plain, setting, state, call, answer)
        case ComponentInsert():
            if refilled(state, setting, call, call.brought.keys()):
                return NO_CALL  # what is cached moves to what was brought
            return _insert(plain, setting, state, call.path, call.brought, answer)
        case ComponentLock():
            return PlainCall(calls.Lock(end_name(call.path, call.length), call.receipt), None)
        case ComponentUnlock():
            return PlainCall(calls.Unlock(NO_NAME, call.receipt), None)
        case ComponentEvict():
            return _evict(plain, setting, state, call, answer)
        case ComponentReset():
            return PlainCall(calls.Reset(), None)
        case ComponentCommit():
            assert isinstance(answer, Committed)
            brought = commit_brings(setting, state.fetches[call.number], call.came)
            return _landed(plain, setting, state, brought, answer.returned)
        case ComponentCopied():
            copy = state.under_way[call.number]
            if not copy.load:
                return NOTHING
            assert isinstance(answer, Mapping)
            return _landed(plain, setting, state, copy.places if call.ok else {}, answer)
        case ComponentPrefetch() | ComponentLoad():
            return _taken(plain, setting, answer)
        case _:
            return _free(plain, given_back(call, answer))


def _alloc(plain: Plain, state: ComponentState, call: ComponentAlloc, answer: object) -> PlainCall:
    """It is asked for so much of this pool; where it is refused, another pool may have been the one that is short."""
    asked = plain.pages(call.wants)
    if not asked:
        return NOTHING
    if answer is not None:
        assert isinstance(answer, Mapping)
        return PlainCall(calls.Alloc(plain.tokens(asked)), plain.slots(plain.places(answer)))
    others = any(many for name, many in call.wants.items() if name not in plain.components)
    hidden = frozenset({"asked"}) if others and not short_of(plain, state, asked) else frozenset[str]()
    return PlainCall(calls.Alloc(plain.tokens(asked)), None, hidden)


def short_of(plain: Plain, state: ComponentState, asked: int) -> bool:
    """Whether the pool is known to have fewer free places than are asked for."""
    return state.available is not None and state.available[plain.pool] < asked


def _free(plain: Plain, given: Entries) -> PlainCall:
    """So much of this pool is given back."""
    places = plain.places(given)
    return PlainCall(calls.Free(plain.slots(places)), None) if places else NOTHING


def _match(plain: Plain, setting: Setting, state: ComponentState, call: ComponentMatch, answer: object) -> PlainCall:
    """A hit ends where all components have what it needs; of the KV it has the whole prefix."""
    assert isinstance(answer, ComponentHit)
    path = call.path._replace(pages=call.path.names[plain.setting.size - 1 :: plain.setting.size])
    slots = plain.slots(plain.places(answer.entries))
    bounds = within(setting, state, path) if plain.tree else None
    return PlainCall(calls.Match(path, bounds), Hit(answer.length, slots, None))


def within(setting: Setting, state: ComponentState, path: Path) -> tuple[Tokens, Tokens]:
    """The largest boundary of a key that is valid for all components: certainly, and possibly."""
    layout, profile = setting.layout, setting.profile
    certain, possible = [
        largest(
            layout.components,
            len(path.names),
            {one.name: ends_at(path, one.name, held) for one in layout.components}.__getitem__,
            root=profile.window_root,
            cap=profile.match_cap,
            drop=profile.component_drop,
        )
        for held in (state.certain, state.places)
    ]
    return Tokens(certain), Tokens(possible)


def _insert(
    plain: Plain,
    setting: Setting,
    state: ComponentState,
    path: Path,
    brought: Mapping[At, int],
    answer: object,
) -> PlainCall:
    """What is brought is cached, in these places; what is there comes first, so that what is missing is the rest."""
    assert isinstance(answer, Mapping)
    mine = [at for at in brought if at[0] in plain.components]
    if not mine:
        return NOTHING
    mine.sort(key=lambda at: (at not in state.certain, at not in state.places))
    names = tuple([plain.name(at) for at in mine])
    row = plain.slots([brought[at] for at in mine])
    left = plain.places(answer)
    hidden = frozenset[str]()
    if any(at in state.places and at not in state.certain for at in mine):
        hidden |= {"pages_in_vain"}
    own = path._replace(names=names, pages=names, tokens=names)
    to_free = plain.slots(left) if setting.profile.duplicates == "caller_frees" else ()
    return PlainCall(calls.Insert(own, row), Stored(plain.tokens(len(left)), to_free), hidden)


def _landed(
    plain: Plain, setting: Setting, state: ComponentState, brought: Mapping[At, int], returned: Entries
) -> PlainCall:
    """What was read or copied is cached, or given back; where both happens, no call says it.

    Nobody is told what was cached already: the places may be those where it is.
    """
    mine = {at: place for at, place in brought.items() if at[0] in plain.components}
    if not mine:
        return _free(plain, returned)
    if plain.places(returned):
        return NO_CALL
    one = _insert(plain, setting, state, NO_PATH, mine, {})
    return one._replace(hidden=one.hidden | {"reported_already", "pages_in_vain"})


def _evict(plain: Plain, setting: Setting, state: ComponentState, call: ComponentEvict, answer: object) -> PlainCall:
    """So much of this pool is to be freed; where more goes along, nobody can say how much is enough."""
    assert isinstance(answer, Mapping)
    touched = asked_components(setting.layout, call.wants, setting.profile.component_cascade)
    if touched.isdisjoint(plain.components):
        return NOTHING
    hidden = frozenset[str]()
    if any(many for name, many in call.wants.items() if name not in plain.components) or len(plain.components) > 1:
        hidden |= {"needless", "evicted_most"}
    if any(at[0] in plain.components for at in state.needed - state.covered if at in state.places):
        hidden |= {"unlocked_before", "evictable_pages"}
    asked, freed = plain.tokens(plain.pages(call.wants)), plain.tokens(plain.pages(answer))
    return PlainCall(calls.Evict(asked), freed, hidden)


def _taken(plain: Plain, setting: Setting, answer: object) -> PlainCall:
    """Places are taken for a prefetch or a load back, without an eviction; how many had to be, other rules say."""
    assert isinstance(answer, Reserved | Copying)
    if any(answer.freed.values()):
        return NO_CALL
    given = answer.places or {}
    places = [place for name in plain.components for place in places_in(given.get(name, ()))]
    if not places:
        return NOTHING
    if isinstance(answer, Copying) and setting.profile.component_landing == "begun":
        return NO_CALL
    return PlainCall(calls.Alloc(plain.tokens(len(places))), plain.slots(places), frozenset({"asked"}))


def places_in(given: Sequence[int] | Mapping[int, int]) -> Sequence[int]:
    """Places, listed or by where the entries end."""
    return list(given.values()) if isinstance(given, Mapping) else given
