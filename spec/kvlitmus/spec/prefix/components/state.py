"""What is known of a cache of components; how it follows from calls and answers is in :mod:`~kvlitmus.spec.prefix.components.advance`.

Below a snapshot evictions are not seen: of what may have gone it is known that it *may* be there, and no more.  So there
are two sets, what may be there (``places``) and what is (``certain``), and hence two sets of boundaries: a hit must end
at one that is possible, and not before the largest one that is certain.  What is kept of each component on each tier is a
:class:`~kvlitmus.spec.prefix.page.Tier` as of any cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.prefix.calls import Begin, Grow, Insert, Path
from kvlitmus.spec.prefix.components.calls import Brought, Copying, Entries, Holding, JointCall, Taken, Writing
from kvlitmus.spec.prefix.components.fetch import Origin, attached, committed
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At, Place, Stored
from kvlitmus.spec.prefix.state import RequestState, State
from kvlitmus.spec.prefix.work import Copy, Fetch, Tiers
from kvlitmus.spec.prefix.work_calls import (
    Abandon,
    BackUp,
    Commit,
    Copied,
    Detach,
    EvictHost,
    Fetched,
    LoadBack,
    Prefetch,
)
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import WHOLE_LEAVES, Component, Window, largest, needed, step_of, valid
from kvlitmus.spec.words.units import Key, Name, Unit


def tier_of(state: State, call: JointCall) -> str:
    """The tier on which a call may take and give places, and change what is cached."""
    host = isinstance(call, BackUp | EvictHost)
    ended = isinstance(call, Copied) and not state.under_way[call.number].load
    return HOST if host or ended else DEVICE


def spared_on(setting: Setting, state: State, tier: str) -> frozenset[At]:
    """What an eviction from a tier may spare: what something may protect, and on the host by the profile what the device has too."""
    also = tier == HOST and setting.profile.component_host_spares == "device"
    return state.needed(tier).union(state.places(DEVICE) if also else ())


def loose_on(setting: Setting, state: State, tier: str) -> AbstractSet[At]:
    """What is certainly on a tier, and an eviction there must take before it frees less than it is asked for."""
    return state.certain(tier) - spared_on(setting, state, tier)


def storage_at_first(config: Config) -> bool | None:
    """Whether storage is there in the beginning; ``None`` where it doesn't come and go."""
    return None if config.storage == "none" else config.storage == "attached"


def at_first(state: State, setting: Setting) -> State:
    """The same in the beginning, where of a cache of components nothing is cached, and all places are free."""
    if not setting.layout.components:
        return state
    attached = storage_at_first(setting.config) if "component_storage" in setting.capabilities else None
    tiers = None if attached is None else Tiers(attached=attached)
    return state._replace(free={DEVICE: setting.layout.places, HOST: setting.layout.host}, tiers=tiers)


def end_name(path: Path, end: int) -> Name:
    """The name of the prefix of a key that has so many units."""
    return path.names[end - 1] if end else path.root


def path_to(setting: Setting, name: Name) -> Path:
    """The path to a prefix, as of a key that ends there."""
    namespace, units = setting.names.prefix(name)
    return path_of_units(setting, namespace, units)


def path_of_units(setting: Setting, namespace: str | None, units: Sequence[Unit]) -> Path:
    """The path of a key that has these units."""
    names = setting.names.of(namespace, units)
    tokens = tuple([one[0] if isinstance(one, tuple) else one for one in units])
    if units and isinstance(units[-1], tuple):
        tokens = (*tokens, units[-1][1])
    return Path(Key(namespace, tokens, setting.config.bigram), setting.names.root(namespace), names, (), names)


def ends_at(path: Path, component: str, places: Container[At]) -> frozenset[int]:
    """Where entries of a component end along a key, among these."""
    return frozenset(end for end, name in enumerate(path.names, 1) if (component, name) in places)


def needed_ends(path: Path, component: Component, boundary: int, root: str) -> range:
    """Where the entries of a component end that a boundary of a key needs, within the key; nowhere where it can't be valid."""
    ends = needed(component, boundary, root) or range(0)
    return range(ends.start, min(ends.stop, len(path.names) + 1), ends.step)  # an answer may be however large


def needed_at(path: Path, component: Component, boundary: int, root: str) -> tuple[At, ...]:
    """The entries of a component that a boundary of a key needs, in the order of the prefix; none where it can't be valid."""
    return tuple((component.name, end_name(path, end)) for end in needed_ends(path, component, boundary, root))


def places_at(state: State, at: At) -> list[int]:
    """The places in which an entry may be cached on the device; mostly one."""
    first = state.tier(DEVICE, at[0]).pages.get(at[1])
    more = [place for one, place in state.copies if one == at] if state.copies else []
    return more if first is None else [first.page, *more]


def ends_of(setting: Setting, path: Path, places: Container[At]) -> Mapping[str, frozenset[int]]:
    """Where entries end along a key, among these, by component."""
    return {one.name: ends_at(path, one.name, places) for one in setting.layout.components}


def lacking_in(setting: Setting, ends: Mapping[str, Container[int]], boundary: int) -> list[str]:
    """The components for which a boundary isn't valid by entries that end there."""
    root = setting.profile.window_root
    return [one.name for one in setting.layout.components if not valid(one, boundary, ends[one.name], root)]


def lacking_at(setting: Setting, path: Path, boundary: int, places: Container[At]) -> list[str]:
    """The components for which a boundary of a key isn't valid by these entries."""
    return lacking_in(setting, ends_of(setting, path, places), boundary)


def longest_hit(setting: Setting, path: Path, places: Container[At], most: int | None = None) -> int:
    """The largest boundary at which a hit of a key may end that has these entries; the largest up to ``most``."""
    profile = setting.profile
    return longest(setting, path, places, most=most, cap=profile.match_cap, drop=profile.component_drop)


def longest(
    setting: Setting,
    path: Path,
    places: Container[At],
    *,
    cap: str = "full",
    drop: str = "none",
    most: int | None = None,
) -> int:
    """The largest boundary of a key that is valid for all components by these entries; the limits are :func:`largest`'s."""
    held, root = ends_of(setting, path, places).__getitem__, setting.profile.window_root
    return largest(setting.layout.components, len(path.names), held, root=root, cap=cap, drop=drop, most=most)


def pool_places(layout: Layout, entries: Entries) -> frozenset[Place]:
    """Entries as places of their pools."""
    return frozenset((layout.named(name).pool, entry) for name, some in entries.items() for entry in some)


def places_of(layout: Layout, held: Mapping[str, Mapping[int, int]]) -> frozenset[Place]:
    """What a request holds, as places of pools."""
    return frozenset((layout.named(name).pool, place) for name, some in held.items() for place in some.values())


def stored_by(one: RequestState) -> frozenset[Stored]:
    """The whole entries that a request holds, by where they belong: what of them is cached is in use."""
    return frozenset(
        ((name, end_name(one.path, end)), place)
        for name, some in one.held.items()
        for end, place in some.items()
        if end <= one.computed
    )


def fresh_places(layout: Layout, before: Mapping[str, Mapping[int, int]], answer: Holding) -> tuple[Place, ...]:
    """The places that a request got by a call, as often as it was told: neither had before nor of its hit."""
    return tuple(
        (layout.named(name).pool, place)
        for name, some in answer.held.items()
        for end, place in some.items()
        if before.get(name, {}).get(end) != place and (before or end > answer.length)
    )


def fresh_of(layout: Layout, state: State, call: JointCall, answer: object) -> tuple[Place, ...]:
    """The places that a request got by a call; none where it isn't one of requests."""
    if not isinstance(call, Begin | Grow) or not isinstance(answer, Holding):
        return ()
    return fresh_places(layout, state.requests[call.rid].held if isinstance(call, Grow) else {}, answer)


def serving(path: Path, computed: int, held: Mapping[str, Mapping[int, int]]) -> RequestState:
    """A request of which so much is computed, and that holds this of each component."""
    return RequestState(path, (), 0, computed, path.root, held=held)


def served(state: State, call: Begin | Grow, answer: Holding) -> RequestState:
    """A request after it began, or went on, or was refused to."""
    if isinstance(call, Begin):
        return serving(call.path, call.at_once(answer.length), answer.held)
    one = state.requests[call.rid]
    units = min(one.computed + call.tokens, len(one.path.names)) if answer.granted else one.computed
    return one._replace(computed=units, held=answer.held)


def published(layout: Layout, one: RequestState) -> frozenset[At]:
    """What the largest boundary needs that a request has computed."""
    boundary = one.computed - one.computed % step_of(layout.components)
    return frozenset(at for each in layout.components for at in needed_at(one.path, each, boundary, "shorter"))


def asked_components(layout: Layout, wants: Mapping[str, int], cascade: str) -> frozenset[str]:
    """The components of which an eviction may take something: those that are asked for, and what goes with them."""
    asked = {name for name, many in wants.items() if many > 0}
    if cascade == "none" or not asked:
        return frozenset(asked)
    if cascade in WHOLE_LEAVES or layout.base.name in asked:
        return frozenset(one.name for one in layout.components)
    return frozenset(asked)


def refilled(
    state: State,
    setting: Setting,
    call: Insert[Brought],
    gone: Container[At],
    protected: Container[At] | None = None,
) -> frozenset[At]:
    """The KV that an insert brings to take the place of what is cached, by the profile.

    ``gone``: the windows' entries that are missing.  ``protected``: what stays, else what is covered.
    """
    if setting.profile.component_refill == "fills":
        return frozenset()
    protected = state.covered(DEVICE) if protected is None else protected
    base = setting.layout.base.name
    windows = [one.name for one in setting.layout.components if isinstance(one.shape, Window)]
    return frozenset(
        (base, name)
        for component, name in call.slots
        if component in windows
        and (component, name) in gone
        and (base, name) in call.slots
        and (base, name) not in protected
    )


def replaced(setting: Setting, state: State, call: Insert[Brought], answer: Entries) -> frozenset[At]:
    """The KV whose place is taken by what an insert brings: what it has to replace, and what it may and has not left."""
    if setting.profile.component_refill == "fills":
        return frozenset()
    there, left = state.places(DEVICE), pool_places(setting.layout, answer)
    must = refilled(state, setting, call, call.slots.keys() - there.keys(), state.needed(DEVICE))
    may = refilled(state, setting, call, call.slots.keys() - state.certain(DEVICE))
    pool = setting.layout.base.pool
    return frozenset(at for at in must | may if at in there and (at in must or (pool, call.slots[at]) not in left))


def not_in(layout: Layout, held: Mapping[At, int], taken: frozenset[Place]) -> Mapping[At, int]:
    """What is cached in other places than these."""
    pools = {one.name: one.pool for one in layout.components}
    return {at: entry for at, entry in held.items() if (pools[at[0]], entry) not in taken}


# Prefetches


def anchor_of(layout: Layout, path: Path, start: int) -> frozenset[At]:
    """What a prefetch protects: the KV of its anchor, and of no other component anything."""
    base = layout.base
    return frozenset(
        (base.name, end_name(path, end)) for end in range(base.unit, min(start, len(path.names)) + 1, base.unit)
    )


def origin_of(setting: Setting, start: int) -> Origin:
    """Where a prefetch starts: whether it takes a window there that is shorter, from the root or from anywhere, the profile says."""
    window = setting.profile.component_fetch_window
    return Origin(start, window == "anchor" or (window == "root" and start == 0))


def fetch_whole(layout: Layout, call: Prefetch[int]) -> int:
    """How many units in whole steps the key has behind the anchor of a prefetch."""
    length = len(call.path.names) - call.start
    return length - length % step_of(layout.components)


def held_by(setting: Setting, path: Path, start: int) -> frozenset[At]:
    """What a prefetch may protect at its anchor: its KV, or whatever there is on its path, by the profile."""
    if setting.profile.component_extent == "boundary":
        return anchor_of(setting.layout, path, start)
    return on_path(setting.layout, path, start)


def written(layout: Layout, fetch: Fetch, came: Mapping[str, Collection[int]]) -> frozenset[Place]:
    """The places that the I/O of a prefetch may still write, if these entries came."""
    if not fetch.running:
        return frozenset()
    return frozenset(
        (layout.named(name).pool, place)
        for name, some in fetch.reads.items()
        for end, place in some.items()
        if end not in came.get(name, ())
    )


def commit_end(setting: Setting, fetch: Fetch, came: Mapping[str, Collection[int]]) -> int:
    """Where the KV ends that a commit caches; nowhere, if something is missing and the profile drops all then."""
    lacking = any(end not in came.get(name, ()) for name, some in fetch.reads.items() for end in some)
    if lacking and setting.profile.component_shortfall == "dropped":
        return fetch.start
    return committed(setting.layout, fetch.start, fetch.boundary, came)


def commit_brings(setting: Setting, fetch: Fetch, came: Mapping[str, Collection[int]]) -> Mapping[At, int]:
    """The entries that a commit has for the cache, by where they belong."""
    end = commit_end(setting, fetch, came)
    ends = attached(setting.layout, origin_of(setting, fetch.start), fetch.boundary, end, came)
    return {
        (name, end_name(fetch.path, at)): fetch.reads[name][at]
        for name, some in ends.items()
        for at in some
        if at in fetch.reads.get(name, ()) and at <= len(fetch.path.names)
    }


# Copies between host and device


def needed_by(setting: Setting, path: Path, boundary: int) -> frozenset[At]:
    """The entries of all components that a boundary of a key needs."""
    root = setting.profile.window_root
    return frozenset(at for one in setting.layout.components for at in needed_at(path, one, boundary, root))


def spared_for(setting: Setting, path: Path, boundary: int) -> frozenset[At]:
    """What may be protected for a copy or a write until it ends: what its boundary needs, or all on its path, by the profile."""
    if setting.profile.component_extent == "boundary":
        return needed_by(setting, path, boundary)
    return on_path(setting.layout, path, boundary)


def on_path(layout: Layout, path: Path, boundary: int) -> frozenset[At]:
    """Every entry that there can be of the prefixes of a key up to a boundary."""
    ends = range(1, min(boundary, len(path.names)) + 1)
    return frozenset((one.name, end_name(path, end)) for one in layout.components for end in ends)


def copied_to(path: Path, answer: Copying) -> Mapping[At, int]:
    """What a copy is written to, by what it brings there."""
    return {
        (name, end_name(path, end)): place
        for name, some in (answer.places or {}).items()
        for end, place in some.items()
        if 0 < end <= len(path.names)
    }


def written_from(path: Path, answer: Writing) -> frozenset[At]:
    """What a write reads on the host, by where it belongs."""
    units = len(path.names)
    ends = answer.places or {}
    return frozenset((name, end_name(path, end)) for name, some in ends.items() for end in some if 0 < end <= units)


def brought_by(setting: Setting, state: State, call: JointCall, answer: object) -> Mapping[At, int]:
    """What a call brings to its tier, and where."""
    if isinstance(call, Insert):
        brought: Brought = call.slots
        return brought
    if isinstance(call, Commit):
        return commit_brings(setting, state.fetches[call.rid], call.came)
    if isinstance(call, Copied) and call.ok:
        return state.under_way[call.number].places
    if isinstance(call, LoadBack | BackUp) and setting.profile.component_landing == "begun":
        assert isinstance(answer, Taken)
        return copied_to(call.path, answer)
    return {}


def given_back(call: JointCall, answer: object) -> Entries:
    """The places that a prefetch or a copy gave back in this call, or several did when storage went away, by component."""
    if isinstance(answer, Taken):
        return answer.returned
    gives = isinstance(call, Abandon | Fetched | Detach | Copied)
    return cast("Entries", answer) if gives else {}


def by_pool(layout: Layout, counts: Mapping[str, int]) -> Counter[str]:
    """Counts of entries by component as counts of places by pool."""
    found: Counter[str] = Counter()
    for name, many in counts.items():
        found[layout.named(name).pool] += many
    return found


def at_places(layout: Layout, held: Mapping[At, int]) -> frozenset[Place]:
    """Entries by where they belong, as places of their pools."""
    return frozenset((layout.named(at[0]).pool, place) for at, place in held.items())


def landing_on_host(copies: Collection[Copy]) -> frozenset[At]:
    """What is cached on the host, and still being written there by one of these copies."""
    return frozenset[At]().union(*[one.landing for one in copies if one.kind == BACKUP])


def copying(layout: Layout, state: State, *, load: bool) -> frozenset[Place]:
    """The places that running copies are written to: of loads on the device, or of backups on the host."""
    return frozenset[Place]().union(
        *[at_places(layout, one.places) for one in state.under_way.values() if one.load == load]
    )


def free_least(layout: Layout, state: State, tier: str) -> Mapping[str, int]:
    """How many places of each pool of a tier are free: as they were counted, else at least so many.

    What is neither owned nor may be cached, nor taken for a prefetch or a copy, is free.
    """
    if tier in state.free:
        return state.free[tier]
    held = at_places(layout, state.places(tier)) | copying(layout, state, load=tier == DEVICE)
    pools = layout.host if tier == HOST else layout.places
    if tier == DEVICE:
        held |= state.owned | state.fetching | {(layout.named(at[0]).pool, place) for at, place in state.copies}
    return {pool: many - sum([one == pool for one, _ in held]) for pool, many in pools.items()}
