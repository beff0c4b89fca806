"""What of a cache of components is a plain hierarchy: each pool that has places on both tiers, and what is copied between them.

Each tier of such a pool is judged as a plain cache by itself (:mod:`kvlitmus.spec.prefix.components.plain`).  Here are both
together, with the copies, writes and prefetches as jobs, so that the laws of hierarchies hold of them.  A copy counts for a
plain hierarchy where what it brings is cached: when it has ended, or by the profile from its beginning.  A prefetch brings
its entries to the device.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from kvlitmus.spec.interface import Hit
from kvlitmus.spec.interface import Stored as Inserted
from kvlitmus.spec.interface import tiers as answers
from kvlitmus.spec.interface.tiers import BACKUP, DONE, FETCH, LOAD, QUERY, Job
from kvlitmus.spec.law.facts import UNKNOWN, Unknown
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix import calls, work_calls
from kvlitmus.spec.prefix.components.calls import Taken
from kvlitmus.spec.prefix.components.copies import largest_together, possible
from kvlitmus.spec.prefix.components.fetch import least_length
from kvlitmus.spec.prefix.components.plain import BOTH, PORTS, Plain, cached_there
from kvlitmus.spec.prefix.components.plain_calls import NO_PATH
from kvlitmus.spec.prefix.components.state import (
    commit_brings,
    copied_to,
    end_name,
    fetch_whole,
    lacking_at,
    longest,
    needed_by,
)
from kvlitmus.spec.prefix.components.steps import ComponentStep
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import NO_DOUBT, At, Tier
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.prefix.work import Copy, Prefetched, Prefetches, Tiers, Work
from kvlitmus.spec.words.config import ENDLESS
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.names import NO_NAME
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tokens

LAWS = frozenset(
    {
        *("TIER-04", "TIER-09", "TIER-11", "TIER-12", "TIER-13", "TIER-17", "TIER-32", "TIER-33", "TIER-41", "TIER-42"),
        *("LOAD-01", "LOAD-02", "LOAD-04", "LOAD-05", "LOAD-08", "LOAD-09", "LOAD-11"),
        *("FETCH-01", "FETCH-02", "FETCH-04", "FETCH-12", "FETCH-13", "FETCH-14"),
        *("LIFE-01", "LIFE-04", "LIFE-08", "LIFE-16"),
    }
)
"""The laws of hierarchies that are judged of such a pool; what each of its tiers owes is judged of that."""

MAKES_ROOM = frozenset({"copies_disturbed"})
"""A fact that can't be told where room is made on the host: there what is on the device too may go as well."""

COMMITS = frozenset({"failed_loads"})
"""A fact that can't be told where a prefetch brings entries: these are no loads."""

SHARED = frozenset({"host_dropped", "host_made_available"})
"""Facts that can't be told without a snapshot where others share the pool."""

UNNUMBERED = frozenset({"host_usable", "moving_left", "taken"})
"""Facts that compare places: by which numbers they go, a look at all of them shows."""


class Hierarchy(NamedTuple):
    """A pool with places on both tiers, as a plain hierarchy; ``setting``: of that; ``hidden``: the facts that can't be told of it."""

    where: str
    device: Plain
    host: Plain
    setting: Setting
    hidden: frozenset[str] = frozenset()

    def on(self, tier: str) -> Plain:
        """One of its tiers."""
        return self.host if tier == HOST else self.device

    def mine(self, some: Iterable[At]) -> tuple[Name, ...]:
        """Which of these entries are of this pool, by name."""
        return tuple([self.device.name(at) for at in some if at[0] in self.device.components])


class TierCall(NamedTuple):
    """A call on a plain hierarchy, its answer, the facts of it that can't be told, and the work that began or ended with it.

    ``commits``: what a prefetch brings that ends with it.
    """

    call: object = UNKNOWN
    answer: object = None
    hidden: frozenset[str] = frozenset()
    begun: tuple[Work, ...] = ()
    ended: tuple[Work, ...] = ()
    commits: tuple[Name, ...] = ()


NO_CALL = TierCall()
"""No call on a plain hierarchy says what happens here: what holds after each holds."""


def hierarchies(setting: Setting, pools: Sequence[Plain]) -> list[Hierarchy]:
    """What of a cache of components that has these pools is a plain hierarchy."""
    device = [one for one in pools if one.tier == DEVICE]
    host = {(one.pool, *one.components): one for one in pools if one.tier == HOST}
    pairs = [(one, host[key]) for one in device if (key := (one.pool, *one.components)) in host]
    found = [
        Hierarchy(f"{one.where} on both tiers", one, below, hosted_by(setting, one, below)) for one, below in pairs
    ]
    return [one._replace(hidden=untold(one)) for one in found]


def hosted_by(setting: Setting, device: Plain, host: Plain) -> Setting:
    """What such a pool was asked to be."""
    given, own = setting.config, device.setting
    config = replace(
        own.config,
        host_pages=host.setting.config.pages,
        write=given.write,
        storage=given.storage,
        rate_limit=ENDLESS,
    )
    profile = replace(own.profile, reserve="submit", backup_moment="insert", commit="poll")
    return Setting(config, profile, setting.depth, ports_of_both(setting), setting.names)


def ports_of_both(setting: Setting) -> frozenset[str]:
    """What such a pool has of the ports of plain hierarchies."""
    return frozenset[str]().union(*[PORTS[BOTH][port] for port in PORTS[BOTH].keys() & setting.capabilities])


def both_numbered(one: Hierarchy, device: Plain, host: Plain) -> Hierarchy:
    """The same where it is known by which numbers the places of both tiers go."""
    if one.device is device and one.host is host:
        return one
    setting = replace(one.setting, host_places=host.setting.places)
    one = one._replace(device=device, host=host, setting=setting)
    return one._replace(hidden=untold(one))


def untold(one: Hierarchy) -> frozenset[str]:
    """The facts that can't be told, as long as numbers aren't known, nor where others share the pool."""
    shared = "granted" in one.device.hidden
    known = not shared and not any("usable" in each.hidden for each in (one.device, one.host))
    return (frozenset() if known else UNNUMBERED) | (SHARED if shared and not one.setting.seen else frozenset())


def steps_of(
    one: Hierarchy,
    setting: Setting,
    step: ComponentStep,
    known: tuple[State | None, State],
    seen: tuple[TierSeen | Unknown, TierSeen],
) -> Iterator[Lifted[State, Seen]]:
    """A step as one of such a hierarchy; and where nothing is under way after it any more, that everything has settled.

    known, seen: before it, as far as there was a look, and after it.
    """
    made, (before, after) = tier_call(one, setting, step), seen
    state = known[0] or tiered(one, step, setting)
    tiers = goes_on(one, state, step) or tiers_known(one, step.then, step.expected)
    then = known[1]._replace(tiers=tiers)
    if made.begun or made.ended:
        then = known[1]._replace(tiers=tiers._replace(begun=made.begun, ended=made.ended))
    if isinstance(step.call, work_calls.Commit):
        assert state.tiers is not None
        state = state._replace(tiers=committing(state.tiers, step.call.rid, made.commits, one.setting.size))
    hidden = one.hidden | made.hidden if made.hidden else one.hidden
    call = UNKNOWN if before is UNKNOWN and isinstance(made.call, work_calls.Prefetch) else made.call
    yield Lifted(one.where, one.setting, state, then, then, call, made.answer, before, after, hidden, LAWS)
    if not tiers.work and state.tiers is not None and state.tiers.work and setting.seen:
        yield Lifted(one.where, one.setting, then, then, then, SETTLED, None, after, after, one.hidden, LAWS)


def reached(base: Plain, setting: Setting, step: ComponentStep) -> Iterator[Lifted[State, Seen]]:
    """What the answer of a load back says alone: where it ends; ``base``: the KV on the device."""
    call, answer = step.call, step.answer
    if not isinstance(call, work_calls.LoadBack) or not isinstance(answer, Taken) or answer.refused:
        return
    least = max(largest_together(setting, step.before, call.path), call.start + 1)
    there, end = possible(step.before), answer.boundary
    most = longest(setting, call.path, there, most=end, cap=setting.profile.match_cap)
    lacking = () if most == end else tuple(lacking_at(setting, call.path, end, there))
    load = work_calls.LoadBack(NO_PATH, reach=work_calls.Reach(Tokens(end), Tokens(least), Tokens(most), lacking))
    both = replace(base.setting, capabilities=ports_of_both(setting))
    where = f"{base.where} on both tiers"
    yield Lifted(where, both, empty_state(), call=load, answer=answers.Loaded(0, ()), laws=LAWS)


def goes_on(one: Hierarchy, state: State, step: ComponentStep) -> Tiers | None:
    """What was under way before a step, where that is the same after it, and what it reads is where it was."""
    before, then, tiers = step.before, step.then, state.tiers
    if tiers is None or before.attached != then.attached:
        return None
    if not (before.under_way is then.under_way and before.fetches is then.fetches) or any(
        step.expected.tier(HOST, name) is not before.tier(HOST, name) for name in one.host.components
    ):
        return None
    return tiers._replace(begun=(), ended=()) if tiers.begun or tiers.ended else tiers


SETTLED = work_calls.Settled(())


def committing(tiers: Tiers, number: int, names: tuple[Name, ...], size: int) -> Tiers:
    """The same where a prefetch is about to bring this."""
    fetches = tiers.prefetches
    mine = fetches.by_number[number]._replace(names=names, got=len(names) * size, anchor=None)
    return tiers._replace(prefetches=fetches._replace(by_number={**fetches.by_number, number: mine}))


def leaves_alone(step: ComponentStep, last: TierSeen, device: Seen, host: Seen) -> bool:
    """Whether a step has nothing to do with such a pool, and has changed nothing that is cached there."""
    quiet = isinstance(step.call, calls.Alloc | calls.Free)
    return quiet and device.cached is last.cached and host.cached is last.hosted


# What is known and seen


def tiered(one: Hierarchy, step: ComponentStep, setting: Setting) -> State:
    """What was known of such a pool before a step."""
    device, host = (tier_known(plain, step.before, setting) for plain in (one.device, one.host))
    return together(device, host, tiers_known(one, step.before, step.before))


def together(device: Tier, host: Tier, tiers: Tiers | None = None) -> State:
    """What is known of such a pool, of which this is known of each tier."""
    return State(device, {}, {}, {}, {}, tiers, host=host)


def tier_known(plain: Plain, state: State, setting: Setting) -> Tier:
    """What is cached of a pool on a tier."""
    there = cached_there(plain, state, {})
    return there._replace(doubt=NO_DOUBT) if setting.seen else there


def tiers_known(one: Hierarchy, state: State, sources: State) -> Tiers:
    """What is under way in such a pool.  ``sources``: where what is read on the host is."""
    if not (state.fetches or state.under_way):
        return Tiers(attached=state.attached is not False)
    work = {}
    for number, copy in state.under_way.items():
        work[job_of(number)] = copying(one, sources, number, copy)
    for number, fetch in state.fetches.items():
        work[2 * number] = work_of(2 * number, FETCH if fetch.answered else QUERY, ())
    return Tiers(work, prefetches=prefetches(one, state), attached=state.attached is not False)


def prefetches(one: Hierarchy, state: State) -> Prefetches:
    """The prefetches under way: of the KV it is protected behind what they begin."""
    if not state.fetches:
        return Prefetches()
    made = {
        number: Prefetched(
            number,
            (),
            0,
            end_name(fetch.path, fetch.start) if one.device.tree and fetch.start and not fetch.over else None,
            0.0,
            over=fetch.over,
        )
        for number, fetch in state.fetches.items()
    }
    running = {number: number for number, fetch in state.fetches.items() if not fetch.over}
    return Prefetches(made, running, {2 * number: number for number in made}, serial=len(made))


def job_of(number: int) -> int:
    """The number of the job that a copy is: prefetches are numbered by themselves."""
    return 2 * number + 1


def copying(one: Hierarchy, sources: State, number: int, copy: Copy) -> Work:
    """A copy as a job: what it brings, and what it reads on the host."""
    read = {} if copy.kind == BACKUP else where(one, sources, copy.host)
    return work_of(job_of(number), copy.kind, one.mine(copy.places), read)


def work_of(
    number: int,
    kind: str,
    names: tuple[Name, ...],
    sources: Mapping[Name, PageNo] | None = None,
    *,
    failed: bool = False,
) -> Work:
    """A job on these entries."""
    return Work(Job(number, kind, NO_PATH.key, 0, failed=failed), names, NO_NAME, sources or {}, failed=failed)


def where(one: Hierarchy, state: State, some: Iterable[At]) -> dict[Name, PageNo]:
    """Where these entries are on the host, as far as they are of this pool and there."""
    found = {}
    for at in some:
        if at[0] in one.host.components:
            page = state.tier(HOST, at[0]).pages.get(at[1])
            if page is not None:
                found[one.host.name(at)] = page.page
    return found


def both_seen(one: Hierarchy, device: Seen, host: Seen, last: TierSeen | None, owned: Collection[int]) -> TierSeen:
    """What was seen of both tiers; what is as in the ``last`` look is the same object."""
    if not device.seen:
        return TierSeen(device.available, host_available=host.available)
    if last is not None and last.cached is device.cached and last.hosted is host.cached:
        above, homeless = last.parent_names, last.homeless
    else:
        above = {name: one.device.above(name) for some in (device.cached, host.cached) for name in some}
        names, closed = one.setting.names, above.items() if one.device.tree else ()
        homeless = [name for name, over in closed if over not in above and names.parent(over) != NO_NAME]
    seen = TierSeen(device.available, None, True, device.listed, device.free, device.cached, device.cached_listed)
    seen.hosted, seen.host_listed, seen.host_free = host.cached, host.cached_listed, host.listed
    seen.parent_names, seen.homeless, seen.host_available = above, homeless, host.available
    if not one.hidden:
        there = one.device.setting.usable.difference(device.free, device.cached_listed, owned)
        seen.moving = [*there, *one.host.setting.usable.difference(host.free, host.cached_listed)]
    return seen


# What a call is


def tier_call(one: Hierarchy, setting: Setting, step: ComponentStep) -> TierCall:
    """What a step is to such a hierarchy."""
    call, answer = step.call, step.answer
    match call:
        case calls.Match():
            return TierCall(calls.Match(NO_PATH), Hit(0))
        case calls.Lock():
            return TierCall(calls.Lock(NO_NAME, call.receipt))
        case calls.Unlock() | calls.Reset() | work_calls.Abandon():
            return TierCall(call)
        case calls.Insert():
            return INSERTED
        case calls.Evict():
            return TierCall(calls.Evict(Tokens(0)), Tokens(0))
        case work_calls.EvictHost():
            assert isinstance(answer, Mapping)
            asked, freed = (int(one.host.tokens(one.host.pages(some))) for some in (call.asked, answer))
            return TierCall(work_calls.EvictHost(asked), freed, MAKES_ROOM)
        case work_calls.Attach() | work_calls.Detach():
            return TierCall(call, answer=True)
        case work_calls.Prefetch():
            return asked_for(one, setting.layout, call, answer)
        case work_calls.Found() | work_calls.Fetched():
            return TierCall(work_calls.Advance(2 * call.rid, DONE))
        case work_calls.Commit():
            brought = commit_brings(setting, step.before.fetches[call.rid], call.came)
            return TierCall(work_calls.Poll(call.rid), answer=True, hidden=COMMITS, commits=one.mine(brought))
        case work_calls.Write():
            return TierCall(work_calls.Tick())
        case work_calls.Written():
            return TierCall(work_calls.Advance(job_of(call.number), DONE))
        case work_calls.BackUp() | work_calls.LoadBack():
            return begun(one, setting, step, call)
        case work_calls.Copied():
            return ended(one, setting, step, call)
        case (
            (calls.Alloc() | calls.Free() | calls.Begin() | calls.Grow() | calls.End())
            | (calls.Extend() | calls.ExtendBatch() | calls.ExtendOne() | calls.FreeInGroup() | calls.EndGroup())
            | (calls.CloseGroup() | calls.Flush() | calls.TakeBack() | calls.Fork() | calls.Retract() | calls.Resume())
            | (calls.Discard() | calls.Compute() | calls.Publish() | calls.PlayedAgain() | work_calls.Advance())
            | (work_calls.Tick() | work_calls.Settled() | work_calls.Poll() | work_calls.TellLoaded())
            | (work_calls.FailCopy() | work_calls.FailHostAlloc() | work_calls.FailMemory())
            | (work_calls.OutOfMemory() | work_calls.SetClock())
        ):
            return NO_CALL
        case _:
            assert_never(call)


INSERTED = TierCall(calls.Insert(NO_PATH, ()), Inserted(Tokens(0), ()))
"""Something was inserted; what is backed up then has a copy on the host from then on."""


def asked_for(one: Hierarchy, layout: Layout, call: work_calls.Prefetch[int], answer: object) -> TierCall:
    """A prefetch that reserves so much of this pool, or is refused."""
    assert isinstance(answer, Taken)
    started = answer.places is not None
    reserved = one.device.tokens(len(one.device.places(answer.places or {})))
    found = answers.Prefetched(started, call.start, int(reserved))
    worth = fetch_whole(layout, call) >= least_length(layout, call.threshold)
    start = call.start if worth else len(call.path.names)  # too little is as good as nothing
    return TierCall(work_calls.Prefetch(call.rid, call.path, start), found)


def begun(
    one: Hierarchy, setting: Setting, step: ComponentStep, call: work_calls.BackUp | work_calls.LoadBack
) -> TierCall:
    """A copy begins, or is refused: it counts now, or when it has ended."""
    answer = step.answer
    assert isinstance(answer, Taken)
    load = isinstance(call, work_calls.LoadBack)
    if answer.places is None:
        return TierCall(work_calls.LoadBack(NO_PATH), answers.Loaded(0, None)) if load else NO_ROOM
    if setting.profile.component_landing != "begun":
        return NO_CALL if load else NO_ROOM
    brought = copied_to(call.path, answer)
    if not load:
        return NO_ROOM._replace(begun=(work_of(job_of(call.number), BACKUP, one.mine(brought)),))
    return brings(one, setting, step, needed_by(setting, call.path, answer.boundary), brought)


NO_ROOM = INSERTED._replace(hidden=MAKES_ROOM)
"""A backup that may have made room on the host."""


def ended(one: Hierarchy, setting: Setting, step: ComponentStep, call: work_calls.Copied) -> TierCall:
    """A copy has ended: it failed, or counts now, or did so from its beginning."""
    copy = step.before.under_way[call.number]
    if not call.ok:
        there = tier_known(one.on(DEVICE if copy.load else HOST), step.before, setting).pages
        names = tuple([name for name in one.mine(copy.places) if name not in there])
        sources = copying(one, step.before, call.number, copy).sources
        work = work_of(job_of(call.number), copy.kind, names, sources, failed=True)
        return TierCall(work_calls.Tick(), ended=(work,))
    if setting.profile.component_landing == "begun":
        return TierCall(work_calls.Tick())
    assert isinstance(step.answer, Mapping)
    back = step.answer
    landed = {at: place for at, place in copy.places.items() if place not in back.get(at[0], ())}
    if not copy.load:
        return INSERTED._replace(begun=(work_of(job_of(call.number), BACKUP, one.mine(landed)),))
    return brings(one, setting, step, copy.device | copy.host | copy.places.keys(), landed)


def brings(
    one: Hierarchy, setting: Setting, step: ComponentStep, needs: Collection[At], brought: Mapping[At, int]
) -> TierCall:
    """What is loaded back counts from now on: of what its boundary needs that which the device lacks, in order."""
    there = tier_known(one.device, step.before, setting).pages
    found = {one.device.name(at): place for at, place in brought.items() if at[0] in one.device.components}
    pages = tuple(sorted(one.mine(frozenset(needs) | brought.keys()), key=lambda name: (name not in there, name)))
    resident = [name for name in pages if name in there]
    slots = one.device.slots([found[name] for name in pages if name in found and name not in there])
    path = NO_PATH._replace(names=pages, pages=pages)
    loaded = answers.Loaded(int(one.device.tokens(len(resident))), slots)
    return TierCall(work_calls.LoadBack(path), loaded, begun=(work_of(-1, LOAD, tuple(found)),))
