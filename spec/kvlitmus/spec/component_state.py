"""What is known of a cache of components, and how it follows from calls and answers.

Below a snapshot evictions are not seen: of what may have gone it is known that it *may* be there, and no more.  So there
are two sets, what may be there (``places``) and what is (``certain``), and hence two sets of boundaries: a hit must end
at one that is possible, and not before the largest one that is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import NamedTuple, cast

from kvlitmus.spec.calls import Path
from kvlitmus.spec.component_calls import (
    After,
    At,
    Committed,
    ComponentAbort,
    ComponentAlloc,
    ComponentBackUp,
    ComponentCall,
    ComponentCommit,
    ComponentCopied,
    ComponentEvict,
    ComponentEvictHost,
    ComponentFinish,
    ComponentFound,
    ComponentFree,
    ComponentGrow,
    ComponentHit,
    ComponentInsert,
    ComponentLoad,
    ComponentLock,
    ComponentMatch,
    ComponentPrefetch,
    ComponentReset,
    ComponentSettled,
    ComponentStart,
    ComponentUnlock,
    Copying,
    Entries,
    Holding,
    Reading,
    Reserved,
)
from kvlitmus.spec.component_fetch import asked, attached, committed
from kvlitmus.spec.component_layouts import Layout
from kvlitmus.spec.component_shapes import WHOLE_LEAVES, Component, Window, needed, step_of
from kvlitmus.spec.component_told import Replayed, replayed
from kvlitmus.spec.setting import Setting
from kvlitmus.spec.units import Name

Place = tuple[str, int]
"""A place of a pool."""


class Fetch(NamedTuple):
    """A prefetch that is under way.

    ``start``: where its anchor ends; ``length``: for how many units behind it there is memory; ``threshold``: with how many it
    is worth it.  ``anchor``: what it protects, the KV of the anchor, until it is over.  ``reserved``: the places that it still has.
    ``taken``: the components of which it got some.  ``boundary``, ``reads``: up to where it reads, and what into which place.
    ``running``: whether its I/O may still write.  ``over``: it was committed or aborted, and has places that I/O may write.
    """

    path: Path
    start: int
    length: int
    threshold: int
    anchor: frozenset[At]
    reserved: frozenset[Place]
    taken: frozenset[str]
    boundary: int
    reads: Mapping[str, Mapping[int, int]] = {}
    running: bool = False
    over: bool = False


class Copy(NamedTuple):
    """A copy that is under way, to the host or, of a ``load``, to the device.

    ``places``: what it is written to, by what it brings there.  ``device``, ``host``: what its boundary needs and each tier
    had when it began; that is protected until the copy has ended.
    """

    load: bool
    places: Mapping[At, int]
    device: frozenset[At]
    host: frozenset[At]


Stored = tuple[At, int]
"""A cached entry: where it belongs, and its place."""


class Running(NamedTuple):
    """A request: its key, how many ``units`` of it are computed, and of each component its places by where they end."""

    path: Path
    units: int
    held: Mapping[str, Mapping[int, int]]


class ComponentState(NamedTuple):
    """What is known.

    ``places``: everything that may be cached, and where it is if it is.  ``certain``: what is cached for certain.
    ``owned``: what the caller has.  ``receipts``: by the suite's number what each receipt covers.  ``available``: the
    free places of each pool as they were last seen; ``None`` where nobody looked.  ``longest``: the most KV that one
    insert or commit brought, in entries: no node is longer.  ``fetches``: the prefetches that are under way, by the
    suite's number.  ``running``: likewise the requests.  ``copies``: further places of what may be cached more than
    once.  ``host``, ``host_certain``, ``host_available``: what may be cached on the host, what is for certain, and what is free
    there.  ``under_way``: by the suite's number the copies that are under way.  ``told``: what all events so far tell.
    """

    places: Mapping[At, int] = {}
    certain: frozenset[At] = frozenset()
    owned: frozenset[Place] = frozenset()
    receipts: Mapping[int, frozenset[At]] = {}
    available: Mapping[str, int] | None = None
    longest: int = 0
    fetches: Mapping[int, Fetch] = {}
    running: Mapping[int, Running] = {}
    copies: frozenset[Stored] = frozenset()
    host: Mapping[At, int] = {}
    host_certain: frozenset[At] = frozenset()
    host_available: Mapping[str, int] | None = None
    under_way: Mapping[int, Copy] = {}
    told: Replayed = Replayed()

    @property
    def stored(self) -> frozenset[Stored]:
        """Everything that may be cached, with its places."""
        return frozenset(self.places.items()) | self.copies

    @property
    def covered(self) -> frozenset[At]:
        """Everything that some receipt covers, that is the anchor of a prefetch, or that the boundary of a copy needs."""
        anchors = [one.anchor for one in self.fetches.values()]
        copies = [one.device for one in self.under_way.values()]
        return frozenset[At]().union(*self.receipts.values(), *anchors, *copies)

    @property
    def host_covered(self) -> frozenset[At]:
        """Everything on the host that the boundary of a copy needs."""
        return frozenset[At]().union(*[one.host for one in self.under_way.values()])

    @property
    def fetching(self) -> frozenset[Place]:
        """The places that prefetches have."""
        return frozenset[Place]().union(*[one.reserved for one in self.fetches.values()])


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
    # A boundary beyond the key is an answer too, however large.
    within = range(ends.start, min(ends.stop, len(path.names) + 1), ends.step) if ends else ()
    return tuple((component.name, end_name(path, end)) for end in within)


def pool_places(layout: Layout, entries: Entries) -> frozenset[Place]:
    """Entries as places of their pools."""
    return frozenset((layout.named(name).pool, entry) for name, some in entries.items() for entry in some)


def places_of(layout: Layout, held: Mapping[str, Mapping[int, int]]) -> frozenset[Place]:
    """What a request holds, as places of pools."""
    return frozenset((layout.named(name).pool, place) for name, some in held.items() for place in some.values())


def stored_by(one: Running) -> frozenset[Stored]:
    """The whole entries that a request holds, by where they belong: what of them is cached is in use."""
    return frozenset(
        ((name, end_name(one.path, end)), place)
        for name, some in one.held.items()
        for end, place in some.items()
        if end <= one.units
    )


def fresh_places(layout: Layout, before: Mapping[str, Mapping[int, int]], answer: Holding) -> tuple[Place, ...]:
    """The places that a request got by a call, as often as it was told: neither had before nor of its hit."""
    return tuple(
        (layout.named(name).pool, place)
        for name, some in answer.held.items()
        for end, place in some.items()
        if before.get(name, {}).get(end) != place and (before or end > answer.length)
    )


def started(call: ComponentStart, answer: Holding) -> Running:
    """The request that a call has begun."""
    return Running(call.path, min(answer.length + call.chunk, len(call.path.names)), answer.held)


def grown(state: ComponentState, call: ComponentGrow, answer: Holding) -> Running:
    """A request after it went on, or was refused to."""
    one = state.running[call.receipt]
    units = min(one.units + call.chunk, len(one.path.names)) if answer.granted else one.units
    return one._replace(units=units, held=answer.held)


def published(layout: Layout, one: Running) -> frozenset[At]:
    """What the largest boundary needs that a request has computed."""
    boundary = one.units - one.units % step_of(layout.components)
    return frozenset(at for each in layout.components for at in needed_at(one.path, each, boundary, "shorter"))


def asked_components(layout: Layout, wants: Mapping[str, int], cascade: str) -> frozenset[str]:
    """The components of which an eviction may take something: those that are asked for, and what goes with them."""
    asked = {name for name, many in wants.items() if many > 0}
    if cascade == "none" or not asked:
        return frozenset(asked)
    if cascade in WHOLE_LEAVES or layout.base.name in asked:
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
    told = replayed(state.told, setting, after.events)
    then = then._replace(available=after.available, host_available=after.host_available, told=told)
    if after.view is None:
        return then
    held, host = after.view.held, after.view.host_held
    then = then._replace(places=held, certain=frozenset(held), copies=after.view.copies)
    return then if host is None else then._replace(host=host, host_certain=frozenset(host))


def _alloc(state: ComponentState, setting: Setting, _: ComponentAlloc, answer: Entries | None) -> ComponentState:
    if answer is None:
        return state
    taken = pool_places(setting.layout, answer)
    return _without(state, setting, taken)._replace(owned=state.owned | taken)


def _without(state: ComponentState, setting: Setting, taken: frozenset[Place]) -> ComponentState:
    """What was granted is cached no more."""
    places = not_in(setting.layout, state.places, taken)
    return state._replace(places=places, certain=state.certain & places.keys())


def not_in(layout: Layout, held: Mapping[At, int], taken: frozenset[Place]) -> Mapping[At, int]:
    """What is cached in other places than these."""
    pools = {one.name: one.pool for one in layout.components}
    return {at: entry for at, entry in held.items() if (pools[at[0]], entry) not in taken}


def _free(state: ComponentState, setting: Setting, call: ComponentFree, _: object) -> ComponentState:
    return state._replace(owned=state.owned - pool_places(setting.layout, call.given))


def _match(state: ComponentState, setting: Setting, call: ComponentMatch, answer: ComponentHit) -> ComponentState:
    root = setting.profile.window_root
    found = {at for one in setting.layout.components for at in needed_at(call.path, one, answer.length, root)}
    return state._replace(certain=state.certain | (found & state.places.keys()))


def _insert(state: ComponentState, setting: Setting, call: ComponentInsert, answer: Entries) -> ComponentState:
    left = pool_places(setting.layout, answer)
    pools = {one.name: one.pool for one in setting.layout.components}
    gone = frozenset((pools[at[0]], entry) for at, entry in call.brought.items())
    if setting.profile.duplicates != "cache_frees":
        gone -= left
    return _with(state, setting, call.brought, left)._replace(owned=state.owned - gone)


def _with(state: ComponentState, setting: Setting, brought: Mapping[At, int], left: frozenset[Place]) -> ComponentState:
    """What was brought is cached, but for what was left, which was there."""
    pools = {one.name: one.pool for one in setting.layout.components}
    taken = {at: entry for at, entry in brought.items() if (pools[at[0]], entry) not in left}
    certain = state.certain | {at for at in brought if at in state.places or at in taken}
    longest = max(state.longest, sum(at[0] == setting.layout.base.name for at in brought))
    return state._replace(places={**state.places, **taken}, certain=certain, longest=longest)


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
    touched = asked_components(setting.layout, call.wants, setting.profile.component_cascade)
    return _doubted(state, touched & {name for name, freed in answer.items() if freed})


def _doubted(state: ComponentState, touched: Collection[str]) -> ComponentState:
    """Of these components anything may have gone that nothing protects."""
    covered = state.covered
    return state._replace(certain=frozenset(at for at in state.certain if at[0] not in touched or at in covered))


def _reset(_state: ComponentState, _setting: Setting, _: ComponentReset, _answer: object) -> ComponentState:
    return EMPTY_COMPONENTS


# Prefetches


def anchor_of(layout: Layout, path: Path, start: int) -> frozenset[At]:
    """What a prefetch protects: the KV of its anchor, and of no other component anything."""
    base = layout.base
    return frozenset((base.name, end_name(path, end)) for end in range(base.unit, start + 1, base.unit))


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


def commit_brings(layout: Layout, fetch: Fetch, came: Mapping[str, Collection[int]]) -> Mapping[At, int]:
    """The entries that a commit has for the cache, by where they belong."""
    end = committed(layout, fetch.start, fetch.boundary, came)
    ends = attached(layout, fetch.start, fetch.boundary, end, came)
    return {
        (name, end_name(fetch.path, at)): fetch.reads[name][at]
        for name, some in ends.items()
        for at in some
        if at in fetch.reads.get(name, ()) and at <= len(fetch.path.names)
    }


def _prefetch(state: ComponentState, setting: Setting, call: ComponentPrefetch, answer: Reserved) -> ComponentState:
    then = made_room(state, setting.layout, call, answer)
    if answer.places is None:
        return then
    fetch = _begun(setting.layout, call, answer.places)
    return _without(then, setting, fetch.reserved)._replace(fetches={**state.fetches, call.number: fetch})


def made_room(state: ComponentState, layout: Layout, call: ComponentPrefetch, answer: Reserved) -> ComponentState:
    """What is known after the eviction for a prefetch, whose anchor is protected already."""
    guarded = state._replace(fetches={**state.fetches, call.number: _begun(layout, call, {})})
    doubted = _doubted(guarded, {name for name, freed in answer.freed.items() if freed})
    return doubted._replace(fetches=state.fetches)


def _begun(layout: Layout, call: ComponentPrefetch, places: Entries) -> Fetch:
    """A prefetch that has these places."""
    length = len(places.get(layout.base.name, ())) * layout.base.unit
    taken = frozenset(need.component.name for need in asked(layout, length) if need.entries)
    anchor = anchor_of(layout, call.path, call.start)
    reserved = pool_places(layout, places)
    return Fetch(call.path, call.start, length, call.threshold, anchor, reserved, taken, call.start)


def _found(state: ComponentState, setting: Setting, call: ComponentFound, answer: Reading) -> ComponentState:
    fetch = state.fetches[call.number]
    reserved = fetch.reserved - pool_places(setting.layout, answer.returned)
    running = any(answer.reads.values())
    then = fetch._replace(boundary=answer.boundary, reads=answer.reads, running=running, reserved=reserved)
    return state._replace(fetches={**state.fetches, call.number: then})


def _settled(state: ComponentState, _: Setting, call: ComponentSettled, _answer: Entries) -> ComponentState:
    fetch = state.fetches[call.number]._replace(running=False)
    return _kept(state, call.number, fetch)


def _commit(state: ComponentState, setting: Setting, call: ComponentCommit, answer: Committed) -> ComponentState:
    fetch, layout = state.fetches[call.number], setting.layout
    left = written(layout, fetch, call.came)
    brought = commit_brings(layout, fetch, call.came)
    then = _with(state, setting, brought, pool_places(layout, answer.returned))
    return _kept(then, call.number, fetch._replace(reserved=left, anchor=frozenset(), over=True))


def _abort(state: ComponentState, setting: Setting, call: ComponentAbort, _: Entries) -> ComponentState:
    fetch = state.fetches[call.number]
    left = written(setting.layout, fetch, {})
    return _kept(state, call.number, fetch._replace(reserved=left, anchor=frozenset(), over=True))


def _kept(state: ComponentState, number: int, fetch: Fetch) -> ComponentState:
    """A prefetch is forgotten when it is over and its I/O has ended."""
    rest = {at: one for at, one in state.fetches.items() if at != number}
    return state._replace(fetches=rest if fetch.over and not fetch.running else {**rest, number: fetch})


# Copies between host and device


def needed_by(setting: Setting, path: Path, boundary: int) -> frozenset[At]:
    """The entries of all components that a boundary of a key needs."""
    root = setting.profile.window_root
    return frozenset(at for one in setting.layout.components for at in needed_at(path, one, boundary, root))


def copied_to(path: Path, answer: Copying) -> Mapping[At, int]:
    """What a copy is written to, by what it brings there."""
    return {
        (name, end_name(path, end)): place
        for name, some in (answer.places or {}).items()
        for end, place in some.items()
        if 0 < end <= len(path.names)
    }


def at_places(layout: Layout, held: Mapping[At, int]) -> frozenset[Place]:
    """Entries by where they belong, as places of their pools."""
    return frozenset((layout.named(at[0]).pool, place) for at, place in held.items())


def copying(layout: Layout, state: ComponentState, *, load: bool) -> frozenset[Place]:
    """The places that running copies are written to: of loads on the device, or of backups on the host."""
    return frozenset[Place]().union(
        *[at_places(layout, one.places) for one in state.under_way.values() if one.load == load]
    )


def _back_up(state: ComponentState, setting: Setting, call: ComponentBackUp, answer: Copying) -> ComponentState:
    needs, brought = needed_by(setting, call.path, call.length), copied_to(call.path, answer)
    touched = {name for name, freed in answer.freed.items() if freed}
    then = _doubted_host(state, touched, needs)
    if answer.places is None:
        return then
    host = not_in(setting.layout, then.host, at_places(setting.layout, brought))
    kept = (needs - brought.keys()) & host.keys()
    one = Copy(load=False, places=brought, device=needs & state.places.keys(), host=kept)
    certain = (then.host_certain & host.keys()) | kept
    return then._replace(host=host, host_certain=certain, under_way={**state.under_way, call.number: one})


def _load(state: ComponentState, setting: Setting, call: ComponentLoad, answer: Copying) -> ComponentState:
    touched = {name for name, freed in answer.freed.items() if freed}
    if answer.places is None:
        # Which boundary it was refused for is not told; what the hit needs was found just now, and may have gone since.
        return _doubted(state, touched)
    needs, brought = needed_by(setting, call.path, answer.boundary), copied_to(call.path, answer)
    kept = (needs - brought.keys()) & state.places.keys()
    one = Copy(load=True, places=brought, device=kept, host=needs & state.host.keys())
    then = _doubted(state._replace(under_way={**state.under_way, call.number: one}), touched)
    then = _without(then, setting, at_places(setting.layout, brought))
    sources = frozenset(brought) & state.host.keys()
    return then._replace(certain=(then.certain | kept) & then.places.keys(), host_certain=then.host_certain | sources)


def _copied(state: ComponentState, setting: Setting, call: ComponentCopied, answer: Entries) -> ComponentState:
    one = state.under_way[call.number]
    rest = {number: other for number, other in state.under_way.items() if number != call.number}
    state = state._replace(under_way=rest)
    if not call.ok:
        return state
    returned = pool_places(setting.layout, answer)
    if one.load:
        return _with(state, setting, one.places, returned)
    landed = not_in(setting.layout, one.places, returned)
    certain = state.host_certain | {at for at in one.places if at in state.host or at in landed}
    # What comes only now wasn't there when other copies began: it would have stayed for them.
    others = {number: other._replace(host=other.host - landed.keys()) for number, other in rest.items()}
    return state._replace(host={**state.host, **landed}, host_certain=certain, under_way=others)


def _evict_host(
    state: ComponentState, setting: Setting, call: ComponentEvictHost, answer: Mapping[str, int]
) -> ComponentState:
    touched = asked_components(setting.layout, call.wants, setting.profile.component_cascade)
    return _doubted_host(state, touched & {name for name, freed in answer.items() if freed}, frozenset())


def _doubted_host(state: ComponentState, touched: Collection[str], spared: frozenset[At]) -> ComponentState:
    """On the host anything of these components may have gone that nothing protects."""
    covered = state.host_covered | spared
    certain = frozenset(at for at in state.host_certain if at[0] not in touched or at in covered)
    return state._replace(host_certain=certain)


# Requests


def _start(state: ComponentState, setting: Setting, call: ComponentStart, answer: Holding | None) -> ComponentState:
    if answer is None:
        return state
    return _holds(state, setting, call.receipt, started(call, answer), fresh_places(setting.layout, {}, answer))


def _grow(state: ComponentState, setting: Setting, call: ComponentGrow, answer: Holding) -> ComponentState:
    fresh = fresh_places(setting.layout, state.running[call.receipt].held, answer)
    then = _holds(state, setting, call.receipt, grown(state, call, answer), fresh)
    # Who is refused has computed nothing, and publishes nothing again.
    return then if answer.granted else then._replace(certain=then.certain & state.certain)


def _holds(
    state: ComponentState, setting: Setting, receipt: int, one: Running, fresh: Sequence[Place]
) -> ComponentState:
    """A request holds this: what was cached in fresh places is gone, and unseen more may be than was told."""
    layout, taken = setting.layout, frozenset(fresh)
    pools = {each.name: each.pool for each in layout.components}
    running = {**state.running, receipt: one}
    stored = {(at, place) for at, place in state.stored if (pools[at[0]], place) not in taken} | stored_by(one)
    held = frozenset[Stored]().union(*[stored_by(each) for each in running.values()])
    # Whichever of its places an entry is cached in: it can't go if requests hold them all.
    loose = {at for at, _ in stored - held}
    if setting.profile.component_copies == "one":
        # What was granted anew may have been the one that was cached, while a request holds another that never was.
        loose |= {at for at, place in state.stored if (pools[at[0]], place) in taken}
    kept = frozenset(at for at in state.certain if at not in loose) if taken else state.certain
    then = with_stored(state, frozenset(stored))
    return then._replace(certain=(kept | published(layout, one)) & then.places.keys(), running=running)


def with_stored(state: ComponentState, stored: frozenset[Stored]) -> ComponentState:
    """What may be cached is this; where it is there more than once, the least place comes first."""
    places: dict[At, int] = {}
    for at, place in sorted(stored, key=lambda one: one[1]):
        places.setdefault(at, place)
    return state._replace(places=places, copies=stored - places.items(), certain=state.certain & places.keys())


def _finish(state: ComponentState, _setting: Setting, call: ComponentFinish, _: object) -> ComponentState:
    return state._replace(running={number: one for number, one in state.running.items() if number != call.receipt})


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
        ComponentPrefetch: _prefetch,
        ComponentFound: _found,
        ComponentSettled: _settled,
        ComponentCommit: _commit,
        ComponentAbort: _abort,
        ComponentBackUp: _back_up,
        ComponentLoad: _load,
        ComponentCopied: _copied,
        ComponentEvictHost: _evict_host,
        ComponentStart: _start,
        ComponentGrow: _grow,
        ComponentFinish: _finish,
    },
)
"""Of each call what is known after it."""
