"""What a call on a cache of components is to one of its pools, as a plain cache.

Most calls ask one pool for something, and the others for nothing.  Where a call does several things to a pool, as an
eviction for a prefetch and the prefetch itself, these are several calls on a plain cache.  Nobody looks between them; what is
known and seen there follows from what was seen before and after.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.interface import Hit, Stored
from kvlitmus.spec.interface.tiers import BACKUP, LOAD
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.calls import Path, Within
from kvlitmus.spec.prefix.components.advance import expect_components, made_room
from kvlitmus.spec.prefix.components.calls import Brought, ComponentHit, Counts, Entries, JointCall, Taken
from kvlitmus.spec.prefix.components.copies import copy_needs
from kvlitmus.spec.prefix.components.entries import without
from kvlitmus.spec.prefix.components.plain import Plain, contents, listens
from kvlitmus.spec.prefix.components.replay import told_of
from kvlitmus.spec.prefix.components.state import (
    asked_components,
    brought_by,
    by_pool,
    copied_to,
    ends_at,
    free_least,
    given_back,
    longest_hit,
    needed_at,
    needed_ends,
    not_in,
    places_at,
    pool_places,
    replaced,
    spared_on,
    tier_of,
)
from kvlitmus.spec.prefix.components.steps import ComponentStep
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.page import At, Place
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Commit, Copied, EvictHost, LoadBack, Prefetch
from kvlitmus.spec.words.names import NO_NAME
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key, Name, Slot, Tokens

UNFOLLOWED = frozenset({"unexplained"})
"""Where evictions are not seen, in which order they go isn't followed: of what is handed out alone it is said what can't be."""

OF_AMOUNTS = UNFOLLOWED | {"asked", "needless", "evicted_most"}
"""How much an eviction had to free, and might, where it was made for something else: other rules say that."""

REPLACES = OF_AMOUNTS | {"cut_off"}
"""What is replaced leaves a gap that is filled at once."""


UNMEASURED = UNFOLLOWED | {"certain_length", "inside_length", "match_cap", "told_length"}
"""Facts of how long a hit is, on what isn't found from the root on."""


class PoolCall(NamedTuple):
    """What a call is to a pool: one on a plain cache, with what that answers, and the facts of it that can't be told.

    ``then``: where another one follows, what is known between them; ``later``: the places that this one takes; ``back``: those
    that it gives back.  ``spared``: what the call protects itself.  ``odd``: what certainly was in what is handed out.
    ``contents``: what the slots hold that belong into a hit.
    """

    call: object
    answer: object
    hidden: frozenset[str] = UNFOLLOWED
    then: State | None = None
    later: Sequence[int] = ()
    spared: frozenset[At] = frozenset()
    odd: Sequence[Name] = ()
    contents: Mapping[Slot, Name] | None = None
    back: Sequence[int] = ()


NOTHING = PoolCall(calls.Free(()), None)
"""The call asks this pool for nothing: it is as if nothing were given back."""

NO_CALL = PoolCall(UNKNOWN, UNKNOWN)
"""No call on a plain cache says what happens here."""

NO_PATH = Path(Key(None, ()), NO_NAME, (), (), ())
"""The path of what comes for no key in particular."""


def plain_calls(plain: Plain, setting: Setting, one: ComponentStep) -> Sequence[PoolCall]:
    """What a step is to one pool of a tier."""
    state, call, answer = one.before, one.call, one.answer
    if tier_of(state, call) != plain.tier and not isinstance(call, calls.Reset):
        return [NOTHING]
    match call:
        case calls.Alloc() if answer is not None:
            assert isinstance(answer, Mapping)
            return _allocated(plain, setting, state, call, answer)
        case calls.Insert():
            return _inserted(plain, setting, one, call)
        case Commit() | Copied():
            return _landed(plain, setting, one, brought_by(setting, state, call, answer), given_back(call, answer))
        case Prefetch() | LoadBack() | BackUp():
            return _taken(plain, setting, one, call)
        case _:
            return [plain_call(plain, setting, state, call, answer)]


def plain_call(plain: Plain, setting: Setting, state: State, call: JointCall, answer: object) -> PoolCall:
    """What a call is that does one thing; ``state``: what was known before it."""
    match call:
        case calls.Alloc():
            return _alloc(plain, setting, state, call)
        case calls.Free():
            return _free(plain, call.slots)
        case calls.Match():
            return _match(plain, setting, state, call, answer)
        case calls.Lock() | calls.Unlock() | calls.Reset():
            return PoolCall(call, None)
        case calls.Evict() | EvictHost():
            return _evict(plain, setting, state, call, answer)
        case _:
            return _free(plain, given_back(call, answer))


def _alloc(plain: Plain, setting: Setting, state: State, call: calls.Alloc[Counts]) -> PoolCall:
    """It is asked for so much of this pool, and refused; another pool may have been the one that is short."""
    asked = plain.pages(call.asked)
    if not asked:
        return NOTHING
    wants, available = by_pool(setting.layout, call.asked), free_least(setting.layout, state, DEVICE)
    others = any(available[pool] < wants[pool] for pool in wants if pool != plain.pool)
    return PoolCall(calls.Alloc(plain.tokens(asked)), None, UNFOLLOWED | {"asked"} if others else UNFOLLOWED)


def _allocated(
    plain: Plain, setting: Setting, state: State, call: calls.Alloc[Counts], answer: Entries
) -> Sequence[PoolCall]:
    """Of each component of this pool so much is asked for, and granted one after the other; a place for two is one grant's."""
    mine = [name for name in plain.components if call.asked.get(name) or answer.get(name)]
    found, later = list[PoolCall](), plain.places(answer)
    if len(set(later)) < len(later):
        asked = calls.Alloc(plain.tokens(plain.pages(call.asked)))
        return [_granted(plain, state, later)._replace(call=asked, hidden=frozenset())]
    for name in mine:
        got = answer.get(name, ())
        one, later = _granted(plain, state, got), later[len(got) :]
        asked = calls.Alloc(plain.tokens(call.asked.get(name, 0)))
        state = expect_components(state, setting, call, {name: got})
        found.append(one._replace(call=asked, hidden=frozenset(), then=state, later=later))
    return found or [NOTHING]


def _granted(plain: Plain, state: State, places: Collection[int]) -> PoolCall:
    """Places of this pool are handed out; how many had to be, other rules say.  ``state``: what is known then."""
    there, got = state.places(plain.tier), set(places)
    certain = state.certain(plain.tier)
    odd = [plain.name(at) for at in certain if there[at] in got and at[0] in plain.components]
    asked = calls.Alloc(plain.tokens(len(places)))
    return PoolCall(asked, plain.slots(places), frozenset({"asked"}), odd=odd)


def _free(plain: Plain, given: Entries) -> PoolCall:
    """So much of this pool is given back."""
    places = plain.places(given)
    return PoolCall(calls.Free(plain.slots(places)), None) if places else NOTHING


def _match(plain: Plain, setting: Setting, state: State, call: calls.Match, answer: object) -> PoolCall:
    """A hit ends where all components have what it needs; of the KV it has the whole prefix."""
    assert isinstance(answer, ComponentHit)
    hit = hit_of(plain, setting, state, call.path, answer.length, plain.places(answer.entries))
    if not plain.tree:
        return hit
    path = paged(plain, call.path)
    bounds = within(setting, state, path, answer.length)
    slots = plain.slots(plain.places(answer.entries))
    return hit._replace(call=calls.Match(path, bounds), answer=Hit(answer.length, slots, None), hidden=UNFOLLOWED)


def paged(plain: Plain, path: Path) -> Path:
    """A path in the pages of a pool."""
    return path._replace(pages=path.names[plain.setting.size - 1 :: plain.setting.size])


def hit_of(plain: Plain, setting: Setting, state: State, path: Path, length: int, places: Sequence[int]) -> PoolCall:
    """A hit on what its end needs of a pool, component by component in the order of the prefix, and is named in these places.

    Where something may not be there at all, TREE-02 says so of all components together, and not what is named for it.
    """
    root = setting.profile.window_root
    needs = [at for one in plain.components.values() for at in needed_at(path, one, length, root)]
    names = tuple([plain.name(at) for at in needs])
    own = path._replace(names=names, pages=names, tokens=names)
    stored = {at: places_at(state, at) for at in needs}
    hidden = UNMEASURED if all(stored.values()) else UNMEASURED | {"match_slots"}
    held = contents(plain, [(at, place) for at, there in stored.items() for place in there])
    return PoolCall(calls.Match(own), Hit(Tokens(len(names)), plain.slots(places), None), hidden, contents=held)


def within(setting: Setting, state: State, path: Path, length: int | None) -> Within:
    """How long a hit may be that answers this ``length``: its end has to be a boundary that is valid for all components.

    Shorter boundaries that are possible need not be: so possible is no more than the largest one that doesn't end behind it.
    """
    certain = longest_hit(setting, path, state.certain(DEVICE))
    possible = certain if length == certain else longest_hit(setting, path, state.places(DEVICE), length)
    told = Tokens(longest_hit(setting, path, told_of(state, setting))) if listens(setting) else None
    if length is None or length <= possible:
        return Within(Tokens(certain), Tokens(possible), told)
    return Within(Tokens(certain), Tokens(possible), told, lacking(setting, state, path, length))


def lacking(setting: Setting, state: State, path: Path, length: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The components that lack something for a boundary of a key, each with where the entries end that are not there."""
    root, missing = setting.profile.window_root, []
    for one in setting.layout.components:
        there = ends_at(path, one.name, state.places(DEVICE))
        if ends := tuple([end for end in needed_ends(path, one, length, root) if end not in there]):
            missing.append((one.name, ends))
    return tuple(missing)


def _inserted(plain: Plain, setting: Setting, one: ComponentStep, call: calls.Insert[Brought]) -> Sequence[PoolCall]:
    """What takes the place of something takes it when that has gone; what the cache frees itself is left to it, and given back."""
    state, answer, found = one.before, one.answer, list[PoolCall]()
    assert isinstance(answer, Mapping)
    left = plain.places(answer)
    back = left if setting.profile.duplicates == "cache_frees" else ()
    moved = {at for at in replaced(setting, state, call, answer) if at[0] in plain.components}
    if moved:
        asked, certain = plain.tokens(len(moved)), state.certain(DEVICE)
        hidden = REPLACES if moved <= certain else REPLACES | {"freed_slots"}
        state = without(state, DEVICE, moved)
        found.append(PoolCall(calls.Evict(asked), asked, hidden, state, back=back))
    found.append(_insert(plain, state, call.path, call.slots, answer))
    if back:
        owned = one.then.owned | {(plain.pool, place) for place in back}
        found[-1] = found[-1]._replace(then=one.then._replace(owned=owned), back=back)
        found.append(_free(plain, answer))
    return found


def _insert(
    plain: Plain,
    state: State,
    path: Path,
    brought: Mapping[At, int],
    answer: object,
) -> PoolCall:
    """What is brought is cached, in these places; what is there comes first, so that what is missing is the rest.

    Of what may be there that comes first for which what was brought is left.
    """
    assert isinstance(answer, Mapping)
    there, certain = state.places(plain.tier), state.certain(plain.tier)
    mine = [at for at in brought if at[0] in plain.components]
    left = plain.places(answer)
    if not (mine or left):
        return NOTHING
    mine.sort(key=lambda at: (at not in certain, brought[at] not in left, at not in there))
    names = tuple([plain.name(at) for at in mine])
    row = plain.slots([brought[at] for at in mine])
    own = path._replace(names=names, pages=names, tokens=names)
    return PoolCall(calls.Insert(own, row), Stored(plain.tokens(len(left)), plain.slots(left)))


def _lands(plain: Plain, state: State, brought: Mapping[At, int]) -> PoolCall:
    """What was read or copied is cached; nobody is told what was there already: the places may be those where it is."""
    one = _insert(plain, state, NO_PATH, brought, {})
    return one._replace(hidden=one.hidden | {"reported_already", "brought_twice"})


def _landed(
    plain: Plain, setting: Setting, one: ComponentStep, brought: Mapping[At, int], returned: Entries
) -> Sequence[PoolCall]:
    """What was read or copied is given back, and the rest is cached."""
    back = plain.places(returned)
    rest = {at: place for at, place in brought.items() if at[0] in plain.components and place not in back}
    if not rest:
        return [_free(plain, returned)]
    if not back:
        return [_lands(plain, one.before, rest)]
    between = given_up(setting, one.before, one.call, pool_places(setting.layout, returned))
    return [_free(plain, returned)._replace(then=between), _lands(plain, between, rest)]


def given_up(setting: Setting, state: State, call: JointCall, returned: frozenset[Place]) -> State:
    """What is known when a prefetch or a copy that has ended has given this back, and not done more."""
    if isinstance(call, Commit):
        fetch = state.fetches[call.rid]
        fetch = fetch._replace(reserved=fetch.reserved - returned)
        return state._replace(fetches={**state.fetches, call.rid: fetch})
    assert isinstance(call, Copied)
    copy = state.under_way[call.number]
    copy = copy._replace(places=not_in(setting.layout, copy.places, returned))
    return state._replace(under_way={**state.under_way, call.number: copy})


def _evict(
    plain: Plain, setting: Setting, state: State, call: calls.Evict[Counts] | EvictHost[Counts], answer: object
) -> PoolCall:
    """So much of this pool is to be freed; where more goes along, nobody can say how much is enough."""
    assert isinstance(answer, Mapping)
    touched = asked_components(setting.layout, call.asked, setting.profile.component_cascade)
    if touched.isdisjoint(plain.components):
        return NOTHING
    hidden = UNFOLLOWED
    if any(many for name, many in call.asked.items() if name not in plain.components) or len(plain.components) > 1:
        hidden |= {"needless", "evicted_most"}
    may_stay = spared_on(setting, state, plain.tier).difference(*state.holds(plain.tier))
    if any(at[0] in plain.components for at in may_stay & state.places(plain.tier).keys()):
        hidden |= {"unlocked_before", "evictable_pages"}
    asked, freed = plain.tokens(plain.pages(call.asked)), plain.tokens(plain.pages(answer))
    return PoolCall(calls.Evict(asked), freed, hidden)


def _taken(
    plain: Plain, setting: Setting, one: ComponentStep, call: Prefetch[int] | LoadBack | BackUp
) -> Sequence[PoolCall]:
    """Places are taken for a prefetch or a copy, after an eviction, and cached at once where that counts from its beginning."""
    answer = one.answer
    assert isinstance(answer, Taken)
    given, freed = answer.places or {}, plain.pages(answer.freed)
    places = [place for name in plain.components for place in places_in(given.get(name, ()))]
    between = emptied(plain, setting, one, call) if freed or (places and not setting.seen) else one.before
    found = []
    if freed:
        spared = frozenset[At]()
        if not isinstance(call, Prefetch):
            spared = copy_needs(setting, one.before, call, answer) & one.before.certain(plain.tier)
        asked = plain.tokens(freed)
        found = [PoolCall(calls.Evict(asked), asked, OF_AMOUNTS, between, places, spared)]
    if places:
        found.append(_granted(plain, between, places))
        if not isinstance(call, Prefetch) and setting.profile.component_landing == "begun":
            brought = copied_to(call.path, answer)
            copy = Copy(LOAD if plain.tier == DEVICE else BACKUP, brought, frozenset(), frozenset())
            between = between._replace(under_way={**between.under_way, call.number: copy})
            found[-1] = found[-1]._replace(then=between)
            found.append(_lands(plain, between, brought))
    return found or [NOTHING]


def emptied(plain: Plain, setting: Setting, one: ComponentStep, call: Prefetch[int] | LoadBack | BackUp) -> State:
    """What is known when room was made for a call, and not taken yet."""
    if not setting.seen:
        return made_room(one.before, setting, call, one.answer)
    then = one.then.places(plain.tier)
    before = one.before.places(plain.tier)
    return without(one.before, plain.tier, {at for at, place in before.items() if then.get(at) != place})


def places_in(given: Sequence[int] | Mapping[int, int]) -> Sequence[int]:
    """Places, listed or by where the entries end."""
    return list(given.values()) if isinstance(given, Mapping) else given
