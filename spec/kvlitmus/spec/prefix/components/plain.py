"""What of a cache of components is a plain cache: each pool of each tier, with the entries that have places there.

The KV alone in its pool is a plain cache in every respect.  Entries of other components are pages too that somebody owns,
inserts, protects and evicts, but what they are cached for isn't closed towards the root; and where several components
share a pool, the pool is the subject of its laws, and an entry is named by its prefix and its component.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from kvlitmus.spec.interface.cache import Sizes
from kvlitmus.spec.interface.tiers import PUT, Event
from kvlitmus.spec.prefix.components.calls import Entries, PoolsSeen, Telling
from kvlitmus.spec.prefix.components.state import copying
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import NO_DOUBT, At, Stored, Tier
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import EventMirror, State
from kvlitmus.spec.prefix.windows import left_open
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import NO_NAME
from kvlitmus.spec.words.setting import EVENTS, Setting
from kvlitmus.spec.words.shapes import Component
from kvlitmus.spec.words.units import Name, PageNo, Slot, Tick, Tokens, Unit, page_slots

NAMED = frozenset({"found_lately", "told_orphans", "told_renamed", "told_strays"})
"""Facts of events that name a page by an id, below another one: of an entry they name the whole prefix."""

ALWAYS = NAMED | {"node_counts", "broken_nodes", "broken_pages", "choosing", "protected_length", "usable"}
"""What is told of no component: of entries nobody says how nodes group them, and each use is known in bounds.  How much of
a key is protected says no more than where a hit may end.  By which numbers the places of a pool go is the cache's own
affair (:func:`numbered`).
"""

UNTOLD = frozenset({"told", "told_length"})
"""Facts of what was told, where nobody has listened yet."""

LOOKING_UP = frozenset({"parents"})
"""Facts of a prefix that is found from the root on."""

SEVERAL = frozenset({"unlocked_before", "evictable_pages"})
"""Facts of how much an eviction can free: where several components share a pool, each is asked for by itself."""

OF_POOLS = frozenset(
    {
        "asked",
        "free_after",
        "free_before",
        "free_listed",
        "freed_slots",
        "granted",
        "granted_count",
        "granted_pages",
        "odd_in_pool",
        "owned_twice",
    }
)
"""Facts of the pool: of a component that shares one they are told of that."""

BESIDES = frozenset({"late_count", "quiet"})
"""Facts of how much a cache counts as protected, where something protects that is no receipt."""

BOTH = "both"
"""Both tiers together."""

PORTS: Mapping[str, Mapping[str, frozenset[str]]] = {
    DEVICE: {
        "component_lookup": frozenset({"lookup", "reset"}),
        "components": frozenset({"tree", "locks", "evict"}),
        "component_requests": frozenset({"requests"}),
        "component_counters": frozenset({"pool"}),
        "component_sizes": frozenset({"counters"}),
        "component_view": frozenset({"inspect"}),
        "component_events": frozenset({"events"}),
    },
    HOST: {
        "component_host": frozenset({"lookup", "tree", "evict"}),
        "component_host_counters": frozenset({"pool"}),
        "component_host_view": frozenset({"inspect"}),
        "component_events": frozenset({"events"}),
    },
    BOTH: {
        "component_lookup": frozenset({"lookup", "reset"}),
        "components": frozenset({"locks", "evict"}),
        "component_host": frozenset({"tiers", "host", "steps", "copy_faults"}),
        "component_host_counters": frozenset({"pool", "counters"}),
        "component_host_view": frozenset({"inspect"}),
        "component_prefetch": frozenset({"prefetching", "component_prefetch"}),
        "component_storage": frozenset({"reattach"}),
    },
}
"""What each tier of a cache with the ports of components, and both together, has of those of plain caches."""


class Plain(NamedTuple):
    """A pool of a tier of a cache of components, and the components whose entries it holds, as a plain cache.

    ``tree``: whether it is the KV alone, all of whose prefixes are cached with it.  ``setting``: of that plain cache.
    ``hidden``: the facts that can't be told of it.
    """

    where: str
    tier: str
    pool: str
    components: Mapping[str, Component]
    tree: bool
    setting: Setting
    hidden: frozenset[str]

    def name(self, at: At) -> Name:
        """The name of an entry: that of its prefix; where there are several components, with its own behind."""
        if len(self.components) == 1:
            return at[1]
        return self.setting.names.extend(at[1], (cast("Unit", (at[0], 0)),))[0]

    def above(self, name: Name) -> Name:
        """The prefix that is one entry shorter, where that has to be cached too."""
        return self.setting.names.above(name, self.setting.size) if self.tree else NO_NAME

    def places(self, entries: Entries) -> list[int]:
        """The places of this pool among these."""
        return [place for name in self.components for place in entries.get(name, ())]

    def pages(self, counts: Mapping[str, int]) -> int:
        """How many places of this pool are counted."""
        return sum([counts.get(name, 0) for name in self.components])

    def slots(self, places: Iterable[int]) -> tuple[Slot, ...]:
        """The slots of these places."""
        size = self.setting.size
        return tuple([slot for place in places for slot in page_slots(PageNo(place), size)])

    def sizes(self, look: PoolsSeen) -> Sizes | None:
        """How many slots of its entries could be evicted, and how many are protected, as the cache counts them."""
        if self.tier == HOST or look.sizes is None:
            return None
        own = [look.sizes[name] for name in self.components]
        evictable, protected = sum([one.evictable for one in own]), sum([one.protected for one in own])
        return Sizes(self.tokens(evictable), self.tokens(protected))

    def tokens(self, pages: int) -> Tokens:
        """So many places, in slots."""
        return Tokens(pages * self.setting.size)


def plain_caches(setting: Setting) -> tuple[Plain, ...]:
    """What of a cache of components is a plain cache; on the host, where that can be seen as well as the device."""
    layout, has = setting.layout, setting.capabilities
    if has.isdisjoint(("components", "component_requests")) or not layout.components:
        return ()
    found = on_tier(setting, DEVICE, layout.places)
    if layout.host and "component_host" in has and (not setting.seen or "component_host_view" in has):
        found += on_tier(setting, HOST, layout.host)
    return tuple(found)


def on_tier(setting: Setting, tier: str, pools: Mapping[str, int]) -> list[Plain]:
    """The pools of a tier, and the KV by itself where it shares its pool."""
    layout = setting.layout
    found = [plain_of(setting, tier, pool, [one for one in layout.components if one.pool == pool]) for pool in pools]
    if not any(one.tree for one in found):
        base = plain_of(setting, tier, layout.base.pool, [layout.base])
        has = base.setting.capabilities - {"pool"}
        found.append(base._replace(setting=replace(base.setting, capabilities=has), hidden=base.hidden | OF_POOLS))
    return found


def plain_of(setting: Setting, tier: str, pool: str, own: Sequence[Component]) -> Plain:
    """These components of a pool, as a plain cache."""
    layout, given, profile = setting.layout, setting.config, replace(setting.profile, reserved=0)
    serves = "component_requests" in setting.capabilities
    # Duplicates that a cache frees itself are judged as if it left them to its caller, and the caller freed them.
    profile = replace(profile, duplicates="kept" if serves else "caller_frees")
    if serves:
        profile = replace(profile, publish="at_alloc")
    tree = [*own] == [layout.base]
    pages = (layout.host if tier == HOST else layout.places)[pool]
    size = layout.base.unit if tree else 1
    config = Config(page_size=size, pages=pages, policy=given.policy, bigram=given.bigram)
    ports = PORTS[tier]
    has = frozenset[str]().union(*[ports[port] for port in ports.keys() & setting.capabilities])
    hidden = ALWAYS if tree else ALWAYS | LOOKING_UP
    if len(own) > 1:
        hidden |= SEVERAL
    if profile.evict_granularity == "node":
        hidden |= {"needless", "evicted_most"}
    where = f"component {own[0].name}" if len(own) == 1 else f"pool {pool}"
    where += " on the host" if tier == HOST else ""
    plain = Setting(config, profile, setting.depth, has, setting.names)
    return Plain(where, tier, pool, {one.name: one for one in own}, tree, plain, hidden)


def numbered(plain: Plain, after: Seen, then: State) -> Plain:
    """The same, where a look shows all places of the pool: from now on they are known by their numbers."""
    if "usable" not in plain.hidden or not after.seen:
        return plain
    places = after.free.union(after.cached_listed, then.owners)
    if len(places) != plain.setting.config.pages:
        return plain
    setting = replace(plain.setting, places=places)
    return plain._replace(setting=setting, hidden=plain.hidden - {"usable"})


# What is known and seen


def known(plain: Plain, state: State, setting: Setting, there: Tier) -> State:
    """What is known of a cache of components, of one of its pools; ``there``: what is cached in it."""
    copies = copying(setting.layout, state, load=plain.tier == DEVICE)
    others = () if plain.tier == HOST else (*state.owned, *state.fetching)
    owned = [place for pool, place in (*copies, *others) if pool == plain.pool]
    there = there._replace(doubt=NO_DOUBT) if setting.seen else there
    receipts = {} if plain.tier == HOST else dict.fromkeys(state.covers, NO_NAME)
    return State(there, cast("Mapping[PageNo, int]", Counter(owned)), {}, receipts, {})


def cached_there(plain: Plain, state: State, locks: Mapping[At, int]) -> Tier:
    """What may be cached in a pool, and how often each entry is protected (:func:`covers`) that is there for certain."""
    known = {name: state.tier(plain.tier, name) for name in plain.components}
    if len(known) == 1:
        ((component, there),) = known.items()
        there = Tier(there.pages, Tick(0), there.doubt)
        return locked(there, {name: many for (one, name), many in locks.items() if one == component})
    name = plain.name
    pages = {name((one, at)): page for one, there in known.items() for at, page in there.pages.items()}
    unsure = [name((one, at)) for one, there in known.items() for at in there.doubt.unsure]
    doubt = left_open(NO_DOUBT, unsure) if unsure else NO_DOUBT
    merged = Tier({at: page._replace(parent=NO_NAME) for at, page in pages.items()}, Tick(0), doubt)
    return locked(merged, {name(at): many for at, many in locks.items() if at[0] in known})


def locked(there: Tier, locks: Mapping[Name, int]) -> Tier:
    """A tier on which pages that are there for certain are protected so often."""
    unsure = there.doubt.unsure
    pages = {
        name: there.pages[name]._replace(locks=many)
        for name, many in locks.items()
        if name in there.pages and name not in unsure
    }
    return there._replace(pages={**there.pages, **pages}) if pages else there


def covers(state: State, tier: str) -> Mapping[At, int]:
    """How often each entry of a tier is protected."""
    found: dict[At, int] = {}
    for entries in state.holds(tier):
        for at in entries:
            found[at] = found.get(at, 0) + 1
    return found


def besides(state: State) -> bool:
    """Whether a copy or a prefetch protects entries of the device, too: whether that is counted is the cache's own affair."""
    copies = (one.device or one.needs for one in state.under_way.values() if one.kind != PUT)
    return any(copies) or any(one.anchor or one.needs for one in state.fetches.values())


def listens(setting: Setting) -> bool:
    """Whether somebody listens to what is told of components."""
    return setting.depth >= EVENTS and "component_events" in setting.capabilities


def mirror(plain: Plain, state: State) -> EventMirror:
    """What all events tell of a pool."""
    told = {name: state.mirror(name).of(plain.tier) for name in plain.components}
    if len(told) == 1:
        return next(iter(told.values()))
    device = {plain.name((name, at)): many for name, one in told.items() for at, many in one.device.items()}
    odd, twice = [
        tuple(dict.fromkeys(amiss for some in found for amiss in some))
        for found in ([one.odd for one in told.values()], [one.twice for one in told.values()])
    ]
    return EventMirror(device, odd=odd, twice=twice)


def heard(plain: Plain, told: Collection[Telling]) -> tuple[Event, ...]:
    """The events of a call that are of a pool."""
    mine = [one for one in told if one.at is None or (one.tier == plain.tier and one.at[0] in plain.components)]
    return tuple([Event(one.what, one.tier) for one in mine])


def contents(plain: Plain, entries: Iterable[Stored]) -> dict[Slot, Name]:
    """What each slot of these entries holds: of the KV alone the prefix that ends there."""
    names, size = plain.setting.names, plain.setting.size
    found: dict[Slot, Name] = {}
    for at, place in entries:
        if at[0] in plain.components:
            name = plain.name(at)
            for slot in reversed(page_slots(PageNo(place), size)):
                found[slot] = name
                name = names.parent(name)
    return found


def parents_of(plain: Plain, cached: Iterable[Name]) -> set[Name]:
    """The prefixes that have to be cached with these, one entry shorter each."""
    parents = {plain.above(name) for name in cached} if plain.tree else set()
    return {name for name in parents if plain.setting.names.parent(name) != NO_NAME}


def cached_in(plain: Plain, places: Mapping[At, int], copies: Collection[Stored]) -> Seen:
    """What a look shows to be cached in a pool."""
    cached = {plain.name(at): PageNo(place) for at, place in places.items() if at[0] in plain.components}
    listed = [*cached.values(), *[PageNo(place) for at, place in copies if at[0] in plain.components]]
    return Seen(seen=True, cached=cached, cached_listed=listed, parents=parents_of(plain, cached))
