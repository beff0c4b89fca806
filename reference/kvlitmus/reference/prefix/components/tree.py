"""Components: one correct cache that keeps several kinds of state for a prefix.

Its state is that of any cache (:class:`~kvlitmus.spec.prefix.state.State`), and what an answered call amounts to says
:func:`~kvlitmus.spec.prefix.components.advance.expect_components`; here is what is chosen and answered.  Where several
things would be right it takes the lowest free places, and evicts what is worth least by the policy, of that what ends
last.  A hit uses what it names, an insert what it fills.  A place is free that is in nobody's hands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.prefix.calls import Alloc, Evict, Free, Insert, Lock, Match, Reset, Unlock
from kvlitmus.spec.prefix.components.advance import expect_components
from kvlitmus.spec.prefix.components.calls import Brought, ComponentHit, Counts, Entries, JointCall, Taken
from kvlitmus.spec.prefix.components.copies import short_pools
from kvlitmus.spec.prefix.components.entries import placed, without
from kvlitmus.spec.prefix.components.state import (
    at_places,
    copying,
    longest_hit,
    needed_at,
    needed_ends,
    path_to,
    places_of,
    pool_places,
    storage_at_first,
    tier_of,
)
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At, Page
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.prefix.work_calls import EvictHost
from kvlitmus.spec.words.limits import ALL_TOKENS
from kvlitmus.spec.words.policies import Worth
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import WHOLE_LEAVES, Need, Run, fits
from kvlitmus.spec.words.units import Name


def empty(setting: Setting) -> State:
    """Nothing is cached, and all places are free."""
    attached = storage_at_first(setting.config)
    return empty_state()._replace(tiers=None if attached is None else Tiers(attached=attached))


def cached(state: State, tier: str = DEVICE) -> dict[At, Page]:
    """Everything that is cached on a tier."""
    return {(name, at): page for name, there in state.on(tier) for at, page in there.pages.items()}


def free_places(state: State, setting: Setting, tier: str = DEVICE) -> dict[str, list[int]]:
    """The free places of each pool of a tier, the lowest first."""
    layout = setting.layout
    taken = at_places(layout, state.places(tier)) | copying(layout, state, load=tier == DEVICE)
    if tier == DEVICE:
        running = [places_of(layout, one.held) for one in state.requests.values()]
        taken = taken.union(state.owned, state.fetching, *running)
    pools = layout.host if tier == HOST else layout.places
    return {pool: [one for one in range(many) if (pool, one) not in taken] for pool, many in pools.items()}


def lowest(state: State, setting: Setting, wants: Mapping[str, int], tier: str = DEVICE) -> Entries | None:
    """The lowest free places for so many entries of each component, for all of them or for none."""
    free, layout = free_places(state, setting, tier), setting.layout
    needs = [Need(layout.named(name), many) for name, many in wants.items()]
    if not fits(needs, {pool: len(some) for pool, some in free.items()}):
        return None
    return {name: tuple([free[layout.named(name).pool].pop(0) for _ in range(many)]) for name, many in wants.items()}


def folded(state: State, setting: Setting, call: JointCall, answer: object) -> State:
    """What a call amounts to that was answered so, when all has gone that was evicted for it."""
    return expect_components(state, setting, call, answer._replace(freed={}) if isinstance(answer, Taken) else answer)


def noted(state: State, tier: str, pages: Mapping[At, Page]) -> State:
    """The same where entries of a tier were used so."""
    found: dict[str, dict[Name, Page]] = {}
    for (name, at), page in pages.items():
        found.setdefault(name, {})[at] = page
    tiers = {name: state.tier(tier, name) for name in found}
    return state.put(
        tier, {name: there._replace(pages={**there.pages, **found[name]}) for name, there in tiers.items()}
    )


def filled(state: State, setting: Setting, brought: Mapping[At, int]) -> tuple[State, Entries]:
    """What is missing on the device is cached, and was used now; what was brought for the rest is left."""
    there, left = cached(state), dict[str, tuple[int, ...]]()
    for at, place in brought.items():
        if at in there:
            left[at[0]] = (*left.get(at[0], ()), place)
    then = placed(state, setting, DEVICE, {at: place for at, place in brought.items() if at not in there})
    counts, now = int(setting.profile.hit_counts == "insert"), state.device.clock
    used = {
        at: page._replace(hits=page.hits + counts)
        if at in there
        else page._replace(touched=now, created=now, hits=counts)
        for at, page in cached(then).items()
        if at in brought
    }
    return noted(then, DEVICE, used), left


def from_caller(state: State, setting: Setting, handed: Iterable[tuple[str, int]]) -> None:
    """Raise ``ValueError`` unless all these places are the caller's, each named once (MISUSE-01, -03, -07)."""
    own = set(state.owned)
    for name, place in handed:
        one = (pool_of(setting, name), place)
        if one not in own:
            raise ValueError(f"{place!r} of {name} is not the caller's, or is named twice")
        own.remove(one)


def pool_of(setting: Setting, name: str) -> str:
    """The pool of a component; raises ``ValueError`` where there is none of this name."""
    if name not in setting.layout.components_by_name:
        raise ValueError(f"there is no component {name!r}")
    return setting.layout.named(name).pool


def may_ask(setting: Setting, wants: Mapping[str, int]) -> None:
    """Raise ``ValueError`` where nobody can have so many entries of these components (MISUSE-02)."""
    for name, many in wants.items():
        if many < 0:
            raise ValueError(f"fewer than none of {pool_of(setting, name)}")
        pool_of(setting, name)


def alloc(state: State, setting: Setting, call: Alloc[Counts]) -> tuple[State, Entries | None]:
    """The lowest free places, for all components or for none."""
    may_ask(setting, call.asked)
    granted = lowest(state, setting, call.asked)
    return folded(state, setting, call, granted), granted


def free(state: State, setting: Setting, call: Free[Entries]) -> tuple[State, None]:
    """What the caller gives back is free."""
    from_caller(state, setting, [(name, place) for name, places in call.slots.items() for place in places])
    return folded(state, setting, call, None), None


def match(state: State, setting: Setting, call: Match) -> tuple[State, ComponentHit]:
    """The largest admitted boundary that is valid for all components; what it needs was needed now."""
    profile, there = setting.profile, cached(state)
    length = longest_hit(setting, call.path, there)
    needed = {one.name: needed_at(call.path, one, length, profile.window_root) for one in setting.layout.components}
    counts, now = profile.hit_counts == "match", state.device.clock
    used = {
        at: there[at]._replace(touched=now, hits=there[at].hits + counts) for some in needed.values() for at in some
    }
    entries = {name: tuple([int(there[at].page) for at in some]) for name, some in needed.items()}
    return noted(state, DEVICE, used), ComponentHit(length, entries)


def insert(state: State, setting: Setting, call: Insert[Brought]) -> tuple[State, Entries]:
    """What is missing is filled with what the caller brings in places of its own; what is left stays the caller's."""
    if any(not 0 <= token < ALL_TOKENS for token in call.path.key.tokens):
        raise ValueError("a token that no key has")
    from_caller(state, setting, [(name, place) for (name, _), place in call.slots.items()])
    then, left = filled(state, setting, call.slots)
    gone = at_places(setting.layout, call.slots) - pool_places(setting.layout, left)
    return then._replace(owned=state.owned - gone), left


def lock(state: State, setting: Setting, call: Lock) -> tuple[State, Mapping[str, tuple[int, ...]]]:
    """A receipt covers exactly what the boundary needs; raises ``ValueError`` where not all of that is cached."""
    path, root = path_to(setting, call.at), setting.profile.window_root
    cover = {one.name: tuple(needed_ends(path, one, len(path.names), root)) for one in setting.layout.components}
    then = folded(state, setting, call, cover)
    if len(then.covers[call.receipt]) < sum(map(len, cover.values())):
        raise ValueError("what is to be locked is not all cached")
    return then, cover


def unlock(state: State, setting: Setting, call: Unlock) -> tuple[State, None]:
    """What the receipt covered is protected by it no more."""
    if call.receipt not in state.covers:
        raise ValueError(f"receipt {call.receipt} is not out")
    return folded(state, setting, call, None), None


def sizes(state: State, setting: Setting) -> Mapping[str, Sizes]:
    """How many entries of each component could be evicted, and how many receipts and copies protect (LOCK-02)."""
    held = Counter(name for name, _ in cached(state))
    protected = Counter(name for name, _ in state.covered(DEVICE))
    return {
        one.name: Sizes(held[one.name] - protected[one.name], protected[one.name]) for one in setting.layout.components
    }


def spared(state: State, setting: Setting, tier: str) -> frozenset[At]:
    """What an eviction leaves alone: what is covered, and on the host by the profile what the device has too."""
    also = tier == HOST and setting.profile.component_host_spares == "device"
    return state.covered(tier).union(state.places(DEVICE) if also else ())


def evictable(state: State, setting: Setting, name: str, tier: str = DEVICE) -> list[At]:
    """The entries of a component that may go now: unprotected, and of a run with nothing behind them."""
    there, covered = state.tier(tier, name).pages, spared(state, setting, tier)
    inner = {page.parent for page in there.values()} if isinstance(setting.layout.named(name).shape, Run) else ()
    return [(name, at) for at in there if (name, at) not in covered and at not in inner]


def next_to_go(state: State, setting: Setting, choices: Iterable[At], tier: str = DEVICE) -> At:
    """What is worth least of these by the policy, of that what ends last."""

    def order(at: At) -> tuple[Worth, int, At]:
        return setting.order(state.tier(tier, at[0]).pages[at[1]]), -len(setting.names.prefix(at[1])[1]), at

    return min(choices, key=order)


def goes_with(state: State, setting: Setting, victim: At, tier: str) -> list[At]:
    """What an eviction of an entry takes: the entry, and what goes with it by the profile."""
    base, cascade = setting.layout.base.name, setting.profile.component_cascade
    beside = [(name, victim[1]) for name, there in state.on(tier) if victim[1] in there.pages]
    takes_all = cascade != "none" and victim[0] == base
    if cascade in WHOLE_LEAVES and not takes_all:
        takes_all = (base, victim[1]) in evictable(state, setting, base, tier)
    if takes_all:
        return beside
    order = [one.name for one in setting.layout.components]
    later = order[order.index(victim[0]) + 1 :] if cascade == "later" else ()
    return [victim, *[at for at in beside if at[0] in later and at not in spared(state, setting, tier)]]


def evict(state: State, setting: Setting, call: Evict[Counts] | EvictHost[Counts]) -> tuple[State, Mapping[str, int]]:
    """Of each component what is worth least goes first, on the host as on the device."""
    may_ask(setting, call.asked)
    tier, freed = tier_of(state, call), {one.name: 0 for one in setting.layout.components}
    for name, many in call.asked.items():
        while freed[name] < many:
            choices = evictable(state, setting, name, tier)
            if not choices:
                break
            gone = goes_with(state, setting, next_to_go(state, setting, choices, tier), tier)
            state = without(state, tier, gone)
            for at in gone:
                freed[at[0]] += 1
    return state, freed


def short_of(state: State, setting: Setting, wants: Mapping[str, int], tier: str = DEVICE) -> frozenset[str]:
    """The pools of a tier that have fewer free places than so many entries need."""
    free = {pool: len(some) for pool, some in free_places(state, setting, tier).items()}
    return short_pools(setting.layout, wants, free)


def make_room(
    state: State, setting: Setting, wants: Mapping[str, int], tier: str = DEVICE
) -> tuple[State, Mapping[str, int]]:
    """Evict once, of each component whose pool is short as many entries as are wanted of it."""
    short = short_of(state, setting, wants, tier)
    asked = {name: many for name, many in wants.items() if setting.layout.named(name).pool in short}
    return evict(state, setting, EvictHost(asked) if tier == HOST else Evict(asked)) if asked else (state, {})


def reset(state: State, setting: Setting, call: Reset) -> tuple[State, None]:
    """Everything is forgotten, but whether storage is there."""
    return folded(state, setting, call, None), None


Perform = Callable[[State, Setting, object], tuple[State, object]]
"""A call as it is performed: the cache after it, and the answer."""

CALLS = {
    Alloc: alloc,
    Free: free,
    Match: match,
    Insert: insert,
    Lock: lock,
    Unlock: unlock,
    Evict: evict,
    EvictHost: evict,
    Reset: reset,
}
"""How these calls are performed; the others are in :mod:`~kvlitmus.reference.prefix.components.perform`."""
