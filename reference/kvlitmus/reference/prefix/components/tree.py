"""Components: one correct cache that keeps several kinds of state for a prefix.

All is a value: a call makes a new :class:`Cache` out of an old one.  Where several things would be right it takes the
lowest free places, and evicts what is worth least by the policy, of that what ends last.  A hit uses what it names, an
insert what it fills.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, cast

from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.prefix.calls import Alloc, Evict, Free, Insert, Lock, Match, Reset, Unlock
from kvlitmus.spec.prefix.components.calls import Brought, ComponentHit, Counts, Entries, JointCall
from kvlitmus.spec.prefix.components.state import end_name, ends_at, needed_at, path_to, storage_at_first
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.work import Copy, Fetch
from kvlitmus.spec.words.limits import ALL_TOKENS
from kvlitmus.spec.words.policies import Worth
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import WHOLE_LEAVES, Need, Run, fits, largest
from kvlitmus.spec.words.units import Name


class Entry(NamedTuple):
    """A cached entry: its place, where it ends, and the prefix before it.

    ``touched``, ``created``, ``hits``: when it was needed last and when it came, in ticks, and how often it was used.
    """

    place: int
    end: int
    before: Name
    touched: int
    created: int = 0
    hits: int = 0

    @property
    def priority(self) -> int:
        """Nobody gives an entry of a component a priority."""
        return 0


class Cache(NamedTuple):
    """What a cache has."""

    free: Mapping[str, frozenset[int]]
    """The free places of each pool."""
    held: Mapping[At, Entry]
    """The cached entries."""
    receipts: Mapping[int, frozenset[At]]
    """What each receipt covers."""
    ticks: int
    """How often it was asked something."""
    fetches: Mapping[int, Fetch] = {}
    """The prefetches that are under way."""
    host_free: Mapping[str, frozenset[int]] = {}
    """The free places of each pool of the host."""
    host_held: Mapping[At, Entry] = {}
    """The entries cached there."""
    copies: Mapping[int, Copy] = {}
    """The copies between the tiers and to storage that are under way."""
    attached: bool | None = None
    """Whether storage is there, ``None`` where it doesn't come and go."""

    @property
    def covered(self) -> frozenset[At]:
        """Everything that a receipt covers, that is the anchor of a prefetch, or that the boundary of a copy needs."""
        anchors = [one.anchor for one in self.fetches.values()]
        copies = [one.device for one in self.copies.values()]
        return frozenset[At]().union(*self.receipts.values(), *anchors, *copies)


def empty(setting: Setting) -> Cache:
    """Nothing is cached, and all places are free."""
    free = {pool: frozenset(range(many)) for pool, many in setting.layout.places.items()}
    host = {pool: frozenset(range(many)) for pool, many in setting.layout.host.items()}
    return Cache(free, {}, {}, 0, host_free=host, attached=storage_at_first(setting.config))


def owned(cache: Cache, setting: Setting) -> Mapping[str, frozenset[int]]:
    """The places of each pool that the caller has: neither free, nor cached, nor of a prefetch or a copy."""
    layout = setting.layout
    taken = {pool: set(free) for pool, free in cache.free.items()}
    loads = [one.places for one in cache.copies.values() if one.load]
    for held in ({at: entry.place for at, entry in cache.held.items()}, *loads):
        for (name, _), place in held.items():
            taken[layout.named(name).pool].add(place)
    for fetch in cache.fetches.values():
        for pool, place in fetch.reserved:
            taken[pool].add(place)
    return {pool: frozenset(range(many)) - taken[pool] for pool, many in layout.places.items()}


def from_caller(cache: Cache, setting: Setting, handed: Iterable[tuple[str, int]]) -> None:
    """Raise ``ValueError`` unless all these places are the caller's, each named once (MISUSE-01, -03, -07)."""
    own = {pool: set(places) for pool, places in owned(cache, setting).items()}
    for name, place in handed:
        pool = pool_of(setting, name)
        if place not in own[pool]:
            raise ValueError(f"{place!r} of {name} is not the caller's, or is named twice")
        own[pool].remove(place)


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


def alloc(cache: Cache, setting: Setting, call: Alloc[Counts]) -> tuple[Cache, Entries | None]:
    """The lowest free places, for all components or for none."""
    may_ask(setting, call.asked)
    needs = [Need(setting.layout.named(name), many) for name, many in call.asked.items()]
    if not fits(needs, {pool: len(free) for pool, free in cache.free.items()}):
        return cache, None
    free = dict(cache.free)
    granted: dict[str, tuple[int, ...]] = {}
    for need in needs:
        pool = need.component.pool
        granted[need.component.name] = tuple(sorted(free[pool])[: need.entries])
        free[pool] -= frozenset(granted[need.component.name])
    return cache._replace(free=free), granted


def give(cache: Cache, setting: Setting, entries: Iterable[tuple[str, int]]) -> Cache:
    """These places of components are free again."""
    free = dict(cache.free)
    for name, place in entries:
        free[setting.layout.named(name).pool] |= {place}
    return cache._replace(free=free)


def free(cache: Cache, setting: Setting, call: Free[Entries]) -> tuple[Cache, None]:
    """What the caller gives back is free."""
    handed = [(name, place) for name, places in call.slots.items() for place in places]
    from_caller(cache, setting, handed)
    return give(cache, setting, handed), None


def match(cache: Cache, setting: Setting, call: Match) -> tuple[Cache, ComponentHit]:
    """The largest admitted boundary that is valid for all components; what it needs was needed now."""
    components, profile = setting.layout.components, setting.profile
    ends = {one.name: ends_at(call.path, one.name, cache.held) for one in components}
    units = len(call.path.names)
    root, cap, drop = profile.window_root, profile.match_cap, profile.component_drop
    length = largest(components, units, ends.__getitem__, root=root, cap=cap, drop=drop)
    needed = {one.name: needed_at(call.path, one, length, profile.window_root) for one in components}
    held = dict(cache.held)
    counts = profile.hit_counts == "match"
    for at in (at for some in needed.values() for at in some):
        held[at] = held[at]._replace(touched=cache.ticks, hits=held[at].hits + counts)
    entries = {name: tuple(held[at].place for at in some) for name, some in needed.items()}
    return cache._replace(held=held), ComponentHit(length, entries)


def brought(cache: Cache, setting: Setting, call: Insert[Brought]) -> tuple[Cache, Entries]:
    """A caller's insert: what it brings, it brings in places of its own."""
    if any(not 0 <= token < ALL_TOKENS for token in call.path.key.tokens):
        raise ValueError("a token that no key has")
    from_caller(cache, setting, [(name, place) for (name, _), place in call.slots.items()])
    return insert(cache, setting, call)


def insert(cache: Cache, setting: Setting, call: Insert[Brought]) -> tuple[Cache, Entries]:
    """What is missing is filled; what was brought for what is there is left to the caller."""
    ends = {name: end for end, name in enumerate(call.path.names, 1)}
    held, left = dict(cache.held), dict[str, tuple[int, ...]]()
    counts = setting.profile.hit_counts == "insert"
    for at, place in call.slots.items():
        component, name = at
        if at in held:
            left[component] = (*left.get(component, ()), place)
            held[at] = held[at]._replace(hits=held[at].hits + counts)
        else:
            end = ends[name]
            before = end_name(call.path, end - setting.layout.named(component).unit)
            held[at] = Entry(place, end, before, cache.ticks, cache.ticks, int(counts))
    return cache._replace(held=held), left


def lock(cache: Cache, setting: Setting, call: Lock) -> tuple[Cache, Mapping[str, tuple[int, ...]]]:
    """A receipt covers exactly what the boundary needs."""
    path, root = path_to(setting, call.at), setting.profile.window_root
    needed = {one.name: needed_at(path, one, len(path.names), root) for one in setting.layout.components}
    covers = frozenset(at for some in needed.values() for at in some)
    cover = {name: tuple(cache.held[at].end for at in some) for name, some in needed.items()}
    return cache._replace(receipts={**cache.receipts, call.receipt: covers}), cover


def unlock(cache: Cache, setting: Setting, call: Unlock) -> tuple[Cache, None]:  # noqa: ARG001
    """What the receipt covered is protected by it no more."""
    if call.receipt not in cache.receipts:
        raise ValueError(f"receipt {call.receipt} is not out")
    return cache._replace(receipts={one: at for one, at in cache.receipts.items() if one != call.receipt}), None


def sizes(cache: Cache, setting: Setting) -> Mapping[str, Sizes]:
    """How many entries of each component could be evicted, and how many receipts protect (LOCK-02)."""
    held = Counter(name for name, _ in cache.held)
    protected = Counter(name for name, _ in frozenset[At]().union(*cache.receipts.values()))
    return {
        one.name: Sizes(held[one.name] - protected[one.name], protected[one.name]) for one in setting.layout.components
    }


def evictable(cache: Cache, setting: Setting, name: str) -> list[At]:
    """The entries of a component that may go now: unprotected, and of a run with nothing behind them."""
    covered = cache.covered
    mine = [at for at in cache.held if at[0] == name and at not in covered]
    if not isinstance(setting.layout.named(name).shape, Run):
        return mine
    inner = {cache.held[at].before for at in cache.held if at[0] == name}
    return [at for at in mine if at[1] not in inner]


def next_to_go(cache: Cache, setting: Setting, choices: Iterable[At]) -> At:
    """What is worth least of these by the policy, of that what ends last."""
    worth = setting.order

    def order(at: At) -> tuple[Worth, int, At]:
        one = cache.held[at]
        return worth(one), -one.end, at

    return min(choices, key=order)


def goes_with(cache: Cache, setting: Setting, victim: At) -> list[At]:
    """What an eviction of an entry takes: the entry, and what goes with it by the profile."""
    base, cascade = setting.layout.base.name, setting.profile.component_cascade
    takes_all = cascade != "none" and victim[0] == base
    if cascade in WHOLE_LEAVES and not takes_all:
        takes_all = (base, victim[1]) in evictable(cache, setting, base)
    if takes_all:
        return [at for at in cache.held if at[1] == victim[1]]
    order = [one.name for one in setting.layout.components]
    later = order[order.index(victim[0]) + 1 :] if cascade == "later" else ()
    along = [(name, victim[1]) for name in later]
    return [victim, *[at for at in along if at in cache.held and at not in cache.covered]]


def evict(cache: Cache, setting: Setting, call: Evict[Counts]) -> tuple[Cache, Mapping[str, int]]:
    """Of each component what is worth least goes first."""
    may_ask(setting, call.asked)
    freed = {one.name: 0 for one in setting.layout.components}
    for name, many in call.asked.items():
        while freed[name] < many:
            choices = evictable(cache, setting, name)
            if not choices:
                break
            victim = next_to_go(cache, setting, choices)
            gone = goes_with(cache, setting, victim)
            cache = give(cache, setting, [(at[0], cache.held[at].place) for at in gone])
            cache = cache._replace(held={at: one for at, one in cache.held.items() if at not in gone})
            for at in gone:
                freed[at[0]] += 1
    return cache, freed


def reset(cache: Cache, setting: Setting, call: Reset) -> tuple[Cache, None]:  # noqa: ARG001
    """Everything is forgotten, but whether storage is there."""
    return empty(setting)._replace(attached=cache.attached), None


Perform = Callable[[Cache, Setting, object], tuple[Cache, object]]

CALLS = {
    Alloc: alloc,
    Free: free,
    Match: match,
    Insert: brought,
    Lock: lock,
    Unlock: unlock,
    Evict: evict,
    Reset: reset,
}
PERFORM = cast("Mapping[type, Perform]", CALLS)
"""Of each call how it is performed."""


def perform(cache: Cache, setting: Setting, call: JointCall) -> tuple[Cache, object]:
    """The cache after a call, and the answer."""
    return PERFORM[type(call)](cache._replace(ticks=cache.ticks + 1), setting, call)
