"""Host memory of components: backups and loads back, on the reference's cache of components.

The host is a second cache whose receipts are the running copies, so what evicts on the device evicts on it.  Where
several things are right, one eviction takes as many entries as the copy does of each component whose pool is short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from kvlitmus.reference.prefix.components.prefetch import FETCHES, by_component
from kvlitmus.reference.prefix.components.tree import CALLS, Cache, Entry, evict, give
from kvlitmus.spec.interface.tiers import BACKUP, LOAD
from kvlitmus.spec.prefix.calls import Evict, Path
from kvlitmus.spec.prefix.components.calls import Copying, Counts, Entries, JointCall, Taken
from kvlitmus.spec.prefix.components.copies import counted
from kvlitmus.spec.prefix.components.state import at_places, by_pool, end_name, ends_at, needed_by, on_path
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, EvictHost, LoadBack
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import largest


def host_of(cache: Cache) -> Cache:
    """The host of a cache, as a cache: what running copies need is what its receipts cover."""
    receipts = dict(enumerate([one.host for one in cache.copies.values()]))
    return Cache(cache.host_free, cache.host_held, receipts, cache.ticks)


def with_host(cache: Cache, host: Cache) -> Cache:
    """A cache with this host."""
    return cache._replace(host_free=host.free, host_held=host.held)


def make_room(tier: Cache, setting: Setting, counts: Mapping[str, int]) -> tuple[Cache, Mapping[str, int]]:
    """Evict once, of each component whose pool is short as many entries as are taken of it."""
    layout = setting.layout
    short = {pool for pool, many in by_pool(layout, counts).items() if many > len(tier.free[pool])}
    wants = {name: many for name, many in counts.items() if layout.named(name).pool in short}
    return evict(tier, setting, Evict(wants)) if wants else (tier, {})


def begun(
    cache: Cache, setting: Setting, path: Path, boundary: int, number: int, *, load: bool
) -> tuple[Cache, Copying]:
    """Protect what the boundary needs, make room once on the tier that it goes to, and take all places or none."""
    layout, needs = setting.layout, reach_of(cache, setting, path, boundary, load=load)
    taken = needs - (cache.held if load else cache.host_held).keys()
    if not taken:
        return cache, Taken(None, boundary=boundary)
    guard = Copy(LOAD if load else BACKUP, {}, needs & cache.held.keys(), needs & cache.host_held.keys())
    guarded = cache._replace(copies={**cache.copies, number: guard})
    tier, freed = make_room(guarded if load else host_to_evict(guarded, setting), setting, counted(taken))
    then = tier if load else with_host(guarded, tier)
    if any(many > len(tier.free[pool]) for pool, many in by_pool(layout, counted(taken)).items()):
        return then._replace(copies=cache.copies), Taken(None, freed, boundary)
    free = {pool: sorted(some) for pool, some in tier.free.items()}
    places: dict[At, int] = {}
    ends: dict[str, dict[int, int]] = {one.name: {} for one in layout.components}
    for one in layout.components:
        for end in sorted(ends_at(path, one.name, taken)):
            places[one.name, end_name(path, end)] = ends[one.name][end] = free[one.pool].pop(0)
    tier = tier._replace(free={pool: frozenset(some) for pool, some in free.items()})
    copy = guard._replace(places=places)
    if setting.profile.component_landing == "begun":
        copy = guard._replace(device=needs) if load else guard._replace(host=needs)
        copy = copy._replace(landing=frozenset(places))
        source = cache.host_held if load else cache.held
        tier = tier._replace(
            held={**tier.held, **{at: landed(source, setting, at, places[at], cache.ticks) for at in places}}
        )
    then = tier if load else with_host(guarded, tier)
    return then._replace(copies={**cache.copies, number: copy}), Taken(ends, freed, boundary)


def reach_of(cache: Cache, setting: Setting, path: Path, boundary: int, *, load: bool) -> frozenset[At]:
    """What a copy is for: what its boundary needs, and by the profile what else there is to bring of its path."""
    needs = needed_by(setting, path, boundary)
    if setting.profile.component_extent == "boundary":
        return needs
    read, written = (cache.host_held, cache.held) if load else (cache.held, cache.host_held)
    return needs | (on_path(setting.layout, path, boundary) & read.keys() - written.keys())


def back_up(cache: Cache, setting: Setting, call: BackUp) -> tuple[Cache, Copying]:
    """Copy to the host what the hit needs and the host lacks."""
    return begun(cache, setting, call.path, call.length, call.number, load=False)


def load(cache: Cache, setting: Setting, call: LoadBack) -> tuple[Cache, Copying]:
    """Copy to the device what it lacks for the largest boundary of both tiers together, if that is behind the hit."""
    boundary = together(cache, setting, call.path)
    if boundary <= call.start:
        return cache, Taken(None, boundary=boundary)
    return begun(cache, setting, call.path, boundary, call.number, load=True)


def together(cache: Cache, setting: Setting, path: Path) -> int:
    """The largest admitted boundary of a key that both tiers together make valid."""
    components, profile = setting.layout.components, setting.profile
    there = frozenset(cache.held) | cache.host_held.keys()
    ends = {one.name: ends_at(path, one.name, there) for one in components}
    return largest(components, len(path.names), ends.__getitem__, root=profile.window_root, cap=profile.match_cap)


def copied(cache: Cache, setting: Setting, call: Copied) -> tuple[Cache, Entries]:
    """What a copy brought is cached where it is missing; the rest is free, and everything if it failed."""
    one = cache.copies[call.number]
    cache = cache._replace(copies={number: copy for number, copy in cache.copies.items() if number != call.number})
    tier, source = (cache, cache.host_held) if one.load else (host_of(cache), cache.held)
    held = dict(tier.held)
    for at, place in one.places.items():
        if call.ok and at not in held:
            held[at] = landed(source, setting, at, place, cache.ticks)
    left = {at: place for at, place in one.places.items() if at not in held or held[at].place != place}
    tier = give(tier._replace(held=held), setting, [(name, place) for (name, _), place in left.items()])
    returned = by_component(setting.layout, at_places(setting.layout, left))
    return tier if one.load else with_host(cache, tier), returned


def landed(source: Mapping[At, Entry], setting: Setting, at: At, place: int, ticks: int) -> Entry:
    """An entry that a copy has brought: used just now, and as old as where it came from."""
    before = at[1]
    for _ in range(setting.layout.named(at[0]).unit):
        before = setting.names.parent(before)
    made, hits = (source[at].created, source[at].hits) if at in source else (ticks, 0)
    return Entry(place, len(setting.names.prefix(at[1])[1]), before, ticks, made, hits)


def evict_host(cache: Cache, setting: Setting, call: EvictHost[Counts]) -> tuple[Cache, Mapping[str, int]]:
    """On the host as on the device: what is worth least goes first."""
    host, freed = evict(host_to_evict(cache, setting), setting, Evict(call.asked))
    return with_host(cache, host), freed


def host_to_evict(cache: Cache, setting: Setting) -> Cache:
    """The host as an eviction there sees it: what the device has too is protected, where the profile spares that."""
    host = host_of(cache)
    if setting.profile.component_host_spares == "nothing":
        return host
    return host._replace(receipts={**host.receipts, -1: frozenset(cache.held) & host.held.keys()})


Perform = Callable[[Cache, Setting, object], tuple[Cache, object]]

COPIES = {BackUp: back_up, LoadBack: load, Copied: copied, EvictHost: evict_host}
PERFORM = cast("Mapping[type, Perform]", {**CALLS, **FETCHES, **COPIES})
"""Of each call how it is performed."""


def perform(cache: Cache, setting: Setting, call: JointCall) -> tuple[Cache, object]:
    """The cache after a call, and the answer."""
    return PERFORM[type(call)](cache._replace(ticks=cache.ticks + 1), setting, call)
