"""How what is known of a cache of components follows from a call and its answer, and from a look where somebody looked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from kvlitmus.spec.interface.tiers import BACKUP, LOAD, PUT
from kvlitmus.spec.prefix.advance import reset
from kvlitmus.spec.prefix.calls import Alloc, Begin, End, Evict, Free, Grow, Insert, Lock, Match, Reset, Unlock
from kvlitmus.spec.prefix.components.calls import (
    Brought,
    ComponentHit,
    Copying,
    Counts,
    Entries,
    Holding,
    JointCall,
    PoolsSeen,
    Reading,
    Reserved,
    Taken,
    Writing,
)
from kvlitmus.spec.prefix.components.entries import perhaps, placed, shown, surely, without
from kvlitmus.spec.prefix.components.fetch import asked
from kvlitmus.spec.prefix.components.replay import told_too, with_told
from kvlitmus.spec.prefix.components.state import (
    anchor_of,
    asked_components,
    at_places,
    commit_brings,
    copied_to,
    end_name,
    fresh_of,
    held_by,
    needed_by,
    not_in,
    origin_of,
    path_to,
    pool_places,
    published,
    served,
    spared_for,
    stored_by,
    tier_of,
    written,
    written_from,
)
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At, Place, Stored
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy, Fetch, Tiers
from kvlitmus.spec.prefix.work_calls import (
    Abandon,
    Attach,
    BackUp,
    Commit,
    Copied,
    Detach,
    EvictHost,
    Fetched,
    Found,
    LoadBack,
    Prefetch,
    Write,
    Written,
)
from kvlitmus.spec.words.layouts import KV
from kvlitmus.spec.words.policies import SELECTIVE
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name


def expect_components(state: State, setting: Setting, call: JointCall, answer: object) -> State:
    """What a call amounts to that was answered so, whatever was seen then."""
    return FOLLOW[type(call)](state, setting, call, answer)


def looked_at(state: State, then: State, setting: Setting, call: JointCall, after: PoolsSeen) -> State:
    """What is known after a call that amounts to this (``then``), and after a look where somebody looked.

    What is as it was expected is the same object: who works something out of it sees at once that it can be kept.
    """
    told = {one.name: state.mirror(one.name) for one in setting.layout.components} if isinstance(call, Reset) else {}
    if after.events is not None:
        told = {**told, **told_too(state, setting, after.events)}
    copies = then.copies
    if after.held is not None:
        copies, then = after.copies, shown(then, setting, DEVICE, after.held)
    if after.host_held is not None:
        then = shown(then, setting, HOST, after.host_held)
    counted = {DEVICE: after.available, HOST: after.host_available}
    free = {tier: some for tier, some in counted.items() if some is not None}
    then = then._replace(free=then.free if free == then.free else free, copies=copies)
    then = with_told(then, told)
    used = used_after(then, setting, call)
    return then if used == then.used else then._replace(used=used)


def used_after(then: State, setting: Setting, call: JointCall) -> frozenset[Name]:
    """The prefixes that inserts have gone through and that have been boundaries for certain since, after this call."""
    if setting.config.write != SELECTIVE or not setting.config.tiered:
        return frozenset()  # only there it is of use
    through = then.used.union(call.path.names) if isinstance(call, Insert) else then.used
    certain = then.certain(DEVICE)
    return frozenset(name for name in through if (KV, name) in certain and whole(setting, name, certain))


def whole(setting: Setting, name: Name, certain: AbstractSet[At]) -> bool:
    """Whether all that a prefix needs as a boundary is among what is certainly there."""
    path = path_to(setting, name)
    return needed_by(setting, path, len(path.names)) <= certain


def _alloc(state: State, setting: Setting, _: Alloc[Counts], answer: Entries | None) -> State:
    if answer is None:
        return state
    taken = pool_places(setting.layout, answer)
    return emptied(state, setting, DEVICE, taken)._replace(owned=state.owned | taken)


def emptied(state: State, setting: Setting, tier: str, taken: frozenset[Place]) -> State:
    """What was granted on a tier is cached there no more."""
    there = state.places(tier)
    gone = there.keys() - not_in(setting.layout, there, taken).keys()
    return without(state, tier, gone) if gone else state


def _free(state: State, setting: Setting, call: Free[Entries], _: object) -> State:
    return state._replace(owned=state.owned - pool_places(setting.layout, call.slots))


def _match(state: State, setting: Setting, call: Match, answer: ComponentHit) -> State:
    return surely(state, DEVICE, needed_by(setting, call.path, answer.length))


def _insert(state: State, setting: Setting, call: Insert[Brought], answer: Entries) -> State:
    left = pool_places(setting.layout, answer)
    gone = at_places(setting.layout, call.slots)
    if setting.profile.duplicates != "cache_frees":
        gone -= left
    return _with(state, setting, call.slots, left)._replace(owned=state.owned - gone)


def _with(state: State, setting: Setting, brought: Mapping[At, int], left: frozenset[Place]) -> State:
    """What was brought is cached, but for what was left, which was there."""
    taken = not_in(setting.layout, brought, left)
    longest = max(state.longest, sum(component == KV for component, _ in brought))
    return surely(placed(state, setting, DEVICE, taken), DEVICE, brought)._replace(longest=longest)


def _lock(state: State, setting: Setting, call: Lock, answer: Mapping[str, Sequence[int]]) -> State:
    path = path_to(setting, call.at)
    covered = {(name, end_name(path, end)) for name, ends in answer.items() for end in ends if end <= len(path.names)}
    kept = frozenset(covered & state.places(DEVICE).keys())
    return surely(state._replace(covers={**state.covers, call.receipt: kept}), DEVICE, kept)


def _unlock(state: State, _setting: Setting, call: Unlock, _: object) -> State:
    return state._replace(covers={number: at for number, at in state.covers.items() if number != call.receipt})


def _evict(
    state: State,
    setting: Setting,
    call: Evict[Counts] | EvictHost[Counts],
    answer: Mapping[str, int],
) -> State:
    touched = asked_components(setting.layout, call.asked, setting.profile.component_cascade)
    return _doubted(state, tier_of(state, call), touched & {name for name, freed in answer.items() if freed})


def _doubted(state: State, tier: str, touched: Collection[str], spared: frozenset[At] = frozenset()) -> State:
    """On a tier anything of these components may have gone that nothing protects."""
    stays = state.covered(tier) | spared
    return perhaps(state, tier, lambda at: at[0] in touched and at not in stays)


# Prefetches


def _prefetch(state: State, setting: Setting, call: Prefetch[int], answer: Reserved) -> State:
    then = made_room(state, setting, call, answer)
    if answer.places is None:
        return then
    fetch = _begun(setting, call, answer.places)
    return emptied(then, setting, DEVICE, fetch.reserved)._replace(fetches={**state.fetches, call.rid: fetch})


def made_room(state: State, setting: Setting, call: Prefetch[int] | LoadBack | BackUp, answer: object) -> State:
    """What is known after the eviction for a call that takes places, and before these are taken.

    The anchor of a prefetch and what a copy needs are protected already.  Which boundary a refused load was for is not
    told; what its hit needs was found just now, and may have gone since.
    """
    assert isinstance(answer, Taken)
    touched = {name for name, freed in answer.freed.items() if freed}
    if not touched:
        return state
    if isinstance(call, BackUp):
        return _doubted(state, HOST, touched, needed_by(setting, call.path, call.length))
    guarded = state
    if isinstance(call, Prefetch):
        guarded = state._replace(fetches={**state.fetches, call.rid: _begun(setting, call, {})})
    elif not answer.refused:
        guarded = state._replace(under_way={**state.under_way, call.number: _loading(state, setting, call, answer)})
    return _doubted(guarded, DEVICE, touched)._replace(fetches=state.fetches, under_way=state.under_way)


def _begun(setting: Setting, call: Prefetch[int], places: Entries) -> Fetch:
    """A prefetch that has these places."""
    layout = setting.layout
    length = len(places.get(layout.base.name, ())) * layout.base.unit
    needs = asked(layout, origin_of(setting, call.start), length)
    taken = frozenset(need.component.name for need in needs if need.entries)
    anchor = anchor_of(layout, call.path, call.start)
    reserved = pool_places(layout, places)
    held = held_by(setting, call.path, call.start)
    return Fetch(call.path, call.start, length, call.threshold, anchor, reserved, taken, call.start, needs=held)


def _found(state: State, setting: Setting, call: Found, answer: Reading) -> State:
    fetch = state.fetches[call.rid]
    reserved = fetch.reserved - pool_places(setting.layout, answer.returned)
    running = any((answer.places or {}).values())
    then = fetch._replace(
        boundary=answer.boundary, reads=answer.places or {}, answered=True, running=running, reserved=reserved
    )
    return state._replace(fetches={**state.fetches, call.rid: then})


def _settled(state: State, _: Setting, call: Fetched, _answer: Entries) -> State:
    fetch = state.fetches[call.rid]._replace(running=False)
    return _kept(state, call.rid, fetch)


def _commit(state: State, setting: Setting, call: Commit, answer: Reading) -> State:
    brought = commit_brings(setting, state.fetches[call.rid], call.came)
    then = _with(state, setting, brought, pool_places(setting.layout, answer.returned))
    return over(then, setting, call.rid, call.came)


def _abort(state: State, setting: Setting, call: Abandon, _: Entries) -> State:
    return over(state, setting, call.rid, {})


def over(state: State, setting: Setting, number: int, came: Mapping[str, Collection[int]]) -> State:
    """A prefetch of which this came has no more than what its I/O may still write."""
    fetch = state.fetches[number]
    left = written(setting.layout, fetch, came)
    return _kept(state, number, fetch._replace(reserved=left, anchor=frozenset(), over=True, needs=frozenset()))


def _kept(state: State, number: int, fetch: Fetch) -> State:
    """A prefetch is forgotten when it is over and its I/O has ended."""
    rest = {at: one for at, one in state.fetches.items() if at != number}
    return state._replace(fetches=rest if fetch.over and not fetch.running else {**rest, number: fetch})


# Copies between host and device


def _back_up(state: State, setting: Setting, call: BackUp, answer: Copying) -> State:
    needs, brought = needed_by(setting, call.path, call.length), copied_to(call.path, answer)
    then = made_room(state, setting, call, answer)
    if answer.places is None:
        return then
    then = emptied(then, setting, HOST, at_places(setting.layout, brought))
    by_path = setting.profile.component_extent == "path"
    # By its path it goes in parts: it may have stopped earlier, or its end has lacked nothing and no part was begun for it.
    last = not by_path or any(name == end_name(call.path, call.length) for _, name in brought)
    if not last or not needs <= brought.keys() | (then.certain(HOST) if by_path else then.places(HOST).keys()):
        needs = frozenset(brought)  # it is answerable for what it brings alone
    kept = (needs - brought.keys()) & then.places(HOST).keys()
    read = (needs | brought.keys()) & state.places(DEVICE).keys()
    spared = spared_for(setting, call.path, call.length)
    one = Copy(BACKUP, places=brought, device=read, host=kept, needs=spared)
    if setting.profile.component_landing == "begun":
        one = one._replace(places={}, host=kept | brought.keys(), landing=frozenset(brought))
        then = placed(_new_on_host(then, brought), setting, HOST, brought)
    return surely(then, HOST, one.host)._replace(under_way={**then.under_way, call.number: one})


def _load(state: State, setting: Setting, call: LoadBack, answer: Copying) -> State:
    then = made_room(state, setting, call, answer)
    if answer.places is None:
        return then
    one = _loading(state, setting, call, answer)
    kept, brought = one.device, one.places
    then = emptied(then, setting, DEVICE, at_places(setting.layout, brought))
    then = surely(surely(then, DEVICE, kept), HOST, brought)
    if setting.profile.component_landing == "begun":
        one = one._replace(places={}, device=kept | brought.keys())
        then = surely(placed(then, setting, DEVICE, brought), DEVICE, brought)
    return then._replace(under_way={**state.under_way, call.number: one})


def _loading(state: State, setting: Setting, call: LoadBack, answer: Copying) -> Copy:
    """A load back that was granted."""
    needs, brought = needed_by(setting, call.path, answer.boundary), copied_to(call.path, answer)
    kept = (needs - brought.keys()) & state.places(DEVICE).keys()
    read = (needs | brought.keys()) & state.places(HOST).keys()
    spared = spared_for(setting, call.path, answer.boundary)
    return Copy(LOAD, places=brought, device=kept, host=read, needs=spared)


def _copied(state: State, setting: Setting, call: Copied, answer: Entries) -> State:
    one = state.under_way[call.number]
    state = _written(state, setting, call, answer)
    if not call.ok:
        return state
    returned = pool_places(setting.layout, answer)
    if one.load:
        return _with(state, setting, one.places, returned)
    landed = not_in(setting.layout, one.places, returned)
    return surely(placed(_new_on_host(state, landed), setting, HOST, landed), HOST, one.places)


def _new_on_host(state: State, landed: Collection[At]) -> State:
    """What comes only now wasn't there when other copies began: it would have stayed for them."""
    copies = {number: one._replace(host=one.host - set(landed)) for number, one in state.under_way.items()}
    return state._replace(under_way=copies)


# Storage behind the host


def _attach(state: State, _setting: Setting, _: Attach, _answer: object) -> State:
    return state._replace(tiers=Tiers(attached=True))


def _detach(state: State, setting: Setting, _: Detach, _answer: Entries) -> State:
    for number in [number for number, fetch in state.fetches.items() if not fetch.over]:
        state = _abort(state, setting, Abandon(number), {})
    return state._replace(tiers=Tiers())


def _write(state: State, setting: Setting, call: Write, answer: Writing) -> State:
    if answer.refused:
        return state
    there = state.places(HOST).keys()
    takes = written_from(call.path, answer) & there
    needs = needed_by(setting, call.path, call.length) & there
    spared = spared_for(setting, call.path, call.length)
    one = Copy(PUT, {}, frozenset(), needs | takes, spared, landing=takes)
    return surely(state._replace(under_way={**state.under_way, call.number: one}), HOST, takes)


def _written(state: State, _setting: Setting, call: Copied | Written, _: object) -> State:
    return state._replace(under_way={number: one for number, one in state.under_way.items() if number != call.number})


# Requests


def _start(state: State, setting: Setting, call: Begin, answer: Holding | None) -> State:
    return state if answer is None else _holds(state, setting, call, answer)


def _grow(state: State, setting: Setting, call: Grow, answer: Holding) -> State:
    then = _holds(state, setting, call, answer)
    # Who is refused has computed nothing, and publishes nothing again.
    if answer.granted:
        return then
    certain = state.certain(DEVICE)
    return perhaps(then, DEVICE, lambda at: at not in certain)


def _holds(state: State, setting: Setting, call: Begin | Grow, answer: Holding) -> State:
    """A request holds this: what was cached in fresh places is gone, and unseen more may be than was told."""
    layout, one = setting.layout, served(state, call, answer)
    taken = frozenset(fresh_of(layout, state, call, answer))
    pools = {each.name: each.pool for each in layout.components}
    running = {**state.requests, call.rid: one}
    stored = {(at, place) for at, place in state.stored if (pools[at[0]], place) not in taken} | stored_by(one)
    held = frozenset[Stored]().union(*[stored_by(each) for each in running.values()])
    # Whichever of its places an entry is cached in: it can't go if requests hold them all.
    loose = {at for at, _ in stored - held}
    # What was granted anew may have been the one that was cached, while a request holds another that never was: where
    # equal entries are all kept, that is one behind the request's last boundary.
    kept_all = setting.profile.component_copies == "kept"
    sure = frozenset[At]().union(*[published(layout, each) for each in running.values()]) if kept_all else frozenset()
    loose |= {at for at, place in state.stored if (pools[at[0]], place) in taken and at not in sure}
    kept = state.certain(DEVICE) - loose if taken else state.certain(DEVICE)
    then = with_stored(state, setting, frozenset(stored), kept | published(layout, one))
    return then._replace(requests=running, longest=max(state.longest, one.computed // layout.base.unit))


def with_stored(state: State, setting: Setting, stored: frozenset[Stored], certain: AbstractSet[At]) -> State:
    """What may be cached is this, some of it for ``certain``; where it is there more than once, the least place comes first."""
    places: dict[At, int] = {}
    for at, place in sorted(stored, key=lambda one: one[1]):
        places.setdefault(at, place)
    then = perhaps(shown(state, setting, DEVICE, places), DEVICE, lambda at: at not in certain)
    return then._replace(copies=stored - places.items())


def _finish(state: State, _setting: Setting, call: End, _: object) -> State:
    return state._replace(requests={number: one for number, one in state.requests.items() if number != call.rid})


Follow = Callable[[State, Setting, object, object], State]

FOLLOW: Mapping[type, Follow] = cast(
    "Mapping[type, Follow]",
    {
        Alloc: _alloc,
        Free: _free,
        Match: _match,
        Insert: _insert,
        Lock: _lock,
        Unlock: _unlock,
        Evict: _evict,
        Reset: reset,
        Prefetch: _prefetch,
        Found: _found,
        Fetched: _settled,
        Commit: _commit,
        Abandon: _abort,
        BackUp: _back_up,
        LoadBack: _load,
        Copied: _copied,
        EvictHost: _evict,
        Attach: _attach,
        Detach: _detach,
        Write: _write,
        Written: _written,
        Begin: _start,
        Grow: _grow,
        End: _finish,
    },
)
"""Of each call what is known after it."""
