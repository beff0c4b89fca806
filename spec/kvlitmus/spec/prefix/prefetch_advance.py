"""What becomes of prefetches, and what storage was asked and given: the part of :mod:`kvlitmus.spec.prefix.work_advance` about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kvlitmus.spec.interface.tiers import FETCH, QUERY
from kvlitmus.spec.prefix import effects, work_calls
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.seen import Record, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.storage_advance import note_name, query_hit_of, query_told
from kvlitmus.spec.prefix.work import Prefetched, Prefetches, Tiers, Work, path_to
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.prefetch_life import ENDED, REVOKED
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, page_floor


def tiers_of(state: State) -> Tiers:
    """What is known below the device, of a state of a hierarchy."""
    assert state.tiers is not None
    return state.tiers


def put(state: State, tiers: Tiers) -> State:
    """The state with other tiers."""
    return state._replace(tiers=tiers)


def put_prefetches(state: State, **values: Any) -> State:
    """The state with these fields of its prefetches replaced."""
    tiers = tiers_of(state)
    return put(state, tiers._replace(prefetches=tiers.prefetches._replace(**values)))


def perhaps_used(state: State, names: Iterable[Name]) -> State:
    """These pages were used, or not: nobody says."""
    names = frozenset(names)
    return state._replace(device=effects.blur(state.device, names), host=effects.blur(state.host, names))


# -- prefetches ------------------------------------------------------------------------------------


def change(fetches: Prefetches, number: int, **values: Any) -> Prefetches:
    """One prefetch is otherwise."""
    one = fetches.by_number[number]._replace(**values)
    return fetches._replace(by_number={**fetches.by_number, number: one})


def begin_prefetch(
    state: State, setting: Setting, call: work_calls.Prefetch[int | None], matched: int, asked: int
) -> State:
    """A prefetch has begun."""
    tiers, size, paged = tiers_of(state), setting.size, call.path.pages
    at = matched // size
    anchor = paged[at - 1] if at and at <= len(paged) else None
    one = Prefetched(call.rid, paged[at : at + asked // size], asked, anchor, tiers.clock)
    fetches = tiers.prefetches
    number = fetches.serial + 1
    return put_prefetches(
        state,
        by_number={**fetches.by_number, number: one},
        running={**fetches.running, call.rid: number},
        waiting=fetches.waiting | {call.rid},
        serial=number,
    )


def end_prefetch(fetches: Prefetches, number: int) -> Prefetches:
    """The request does not wait for this prefetch any more: it holds nothing and counts nothing from now on."""
    rid = fetches.by_number[number].rid
    running = fetches.running
    if running.get(rid) == number:
        running = {other: one for other, one in running.items() if other != rid}
    fetches = change(fetches, number, over=True)
    return fetches._replace(running=running, ended_lately=fetches.ended_lately - {rid})


def committed(
    state: State, setting: Setting, number: int, one: Prefetched, before: TierSeen, after: TierSeen
) -> tuple[frozenset[Name], list[Name]]:
    """What the commit of a prefetch may have added, and what of it is missing.

    A page that would hang below one that isn't on the tier to which it is brought could not be added.
    """
    device = setting.fetches_to == DEVICE
    was, there = (before.cached, after.cached) if device else (before.hosted, after.parent_names)
    tiers, size = tiers_of(state), setting.size
    least = 0 if one.revoked else one.counted if setting.profile.commit == "tick" else one.got
    for work in tiers.work.values():
        job = work.job
        if tiers.prefetches.of_job.get(job.id) == number and job.kind == FETCH and job.id in after.jobs:
            least = min(least, job.done)
    missing: list[Name] = []
    reachable = one.anchor is None or one.anchor in was
    for name in one.names[: least // size]:
        if not reachable:
            break
        if name not in there:
            missing.append(name)
        reachable = device or name in after.hosted or name not in after.cached
    return frozenset(one.names[: one.got // size]), missing


def note_commit(state: State, setting: Setting, one: Prefetched, before: TierSeen, after: TierSeen) -> State:
    """What a prefetch added may be told; how recently its pages were used nobody knows."""
    size = setting.size
    new = len(after.parent_names.keys() - before.parent_names.keys()) * size
    filled = len(after.hosted.keys() - before.hosted.keys()) * size if setting.profile.fill_matched else 0
    above: Sequence[Name] = ()
    if one.anchor is not None:
        prefix = setting.names.of(*setting.names.prefix(one.anchor))
        above = path_to(one.anchor, before) if setting.seen else page_names(prefix, size)
    state = perhaps_used(state, [*one.names, *above])
    # What went to make room at a tick, and came again with its commit, is in another page of the host.
    again = sum([before.hosted.get(name, page) != page for name, page in after.hosted.items() if name in one.names])
    range_ = (new, max(new, filled) + again * size) if setting.seen else (0, one.got)
    return put_prefetches(state, added={**tiers_of(state).prefetches.added, one.rid: range_})


def ending(state: State, setting: Setting) -> list[int]:
    """The prefetches that a tick commits: those whose fetch has ended, where a tick does that."""
    if setting.profile.commit != "tick":
        return []
    fetches = tiers_of(state).prefetches
    return [number for number in fetches.running.values() if fetches.by_number[number].ended]


def time_of(one: Prefetched, setting: Setting, now: float) -> tuple[float, float]:
    """When the time of a prefetch began, or begins if its request asks ``now``, and how many seconds it has."""
    profile = setting.profile
    begun = policies.time_begins(profile.timeout_from, one.begun, now if one.polled is None else one.polled)
    units = policies.counted_units(profile.timeout_basis, one.asked, one.hit)
    return now if begun is None else begun, policies.time_limit(profile.timeout, units)


def stop_allowed_now(state: State, setting: Setting, rid: int) -> tuple[bool, ...]:
    """What a poll may answer now."""
    tiers = tiers_of(state)
    one = tiers.prefetches.of(rid)
    if one is None:
        return (True,)
    stage = REVOKED if one.revoked else ENDED if one.ended else QUERY if one.hit is None else FETCH
    start, limit = time_of(one, setting, tiers.clock)
    elapsed = tiers.clock - start
    answer = policies.may_stop(setting.config.stop, stage, elapsed, limit)
    lately = one.revoked or (one.ended and rid in tiers.prefetches.ended_lately)
    if setting.config.stop != policies.BEST_EFFORT and lately:
        return (True, False)  # the cache need not know of it before the next tick
    return (answer,)


# -- what storage saw ------------------------------------------------------------------------------


def queried(tiers: Tiers, setting: Setting, work: Work, record: Record) -> Tiers:
    """A query has asked storage."""
    asked, told = query_told(record)
    stored = tiers.stored
    for prefix, name in zip(work.names, asked, strict=False):
        stored = note_name(stored, prefix, name)
    has = frozenset(work.names[:told])
    stored = stored._replace(told=stored.told | has, gone=stored.gone - has)
    tiers = tiers._replace(stored=stored)
    fetches = tiers.prefetches
    number = fetches.of_job.get(work.job.id)
    if number is None:
        return tiers
    fetches = change(fetches, number, told=tuple(asked[:told]))
    if not fetches.by_number[number].over:
        hit = query_hit_of(setting, work, record)
        late = setting.profile.reserve == "hit"  # a late reservation may fail, until a fetch shows that it hasn't
        least = max(setting.config.threshold, setting.size)
        fetches = change(fetches, number, hit=hit, revoked=hit < least or late)
    return tiers._replace(prefetches=fetches)


def fetched(tiers: Tiers, setting: Setting, work: Work, record: Record) -> Tiers:
    """A fetch has read from storage."""
    fetches, stored = tiers.prefetches, tiers.stored
    number = fetches.of_job.get(work.job.id)
    if number is None:
        return tiers
    one = fetches.by_number[number]
    got, missed = one.got, one.missed
    for name, whole in record.got:
        at = got // setting.size
        if at >= len(one.told) or one.told[at] != name:
            stored = stored._replace(disorder=(*stored.disorder, (name, at)))
        elif whole:
            got += setting.size
        missed = missed or not whole
    return tiers._replace(prefetches=change(fetches, number, got=got, missed=missed), stored=stored)


def fetch_ended(state: State, call: work_calls.Advance, after: TierSeen) -> State:
    """After the fetch of a prefetch that is under way went on: whether that was its end."""
    tiers = tiers_of(state)
    fetches = tiers.prefetches
    number = fetches.of_job.get(call.job)
    if number is None or fetches.by_number[number].over:
        return state
    job = after.jobs.get(call.job)
    if job is not None and not job.landed:
        return state
    one = fetches.by_number[number]
    fetches = change(fetches, number, ended=True)
    return put(state, tiers._replace(prefetches=fetches._replace(ended_lately=fetches.ended_lately | {one.rid})))


def ticked(state: State, setting: Setting, numbers: Sequence[int], before: TierSeen, after: TierSeen) -> State:
    """After a tick: what it committed may be told; revoked prefetches may be gone, ended ones are known to the cache."""
    for number in numbers:
        state = note_commit(state, setting, tiers_of(state).prefetches.by_number[number], before, after)
    tiers = tiers_of(state)
    fetches = tiers.prefetches
    if len(numbers) > 1:
        added = dict(fetches.added)
        for number in numbers:
            rid = fetches.by_number[number].rid
            added[rid] = (0, added[rid][1])
        fetches = fetches._replace(added=added)
    for number in fetches.running.values():
        if fetches.by_number[number].counted != fetches.by_number[number].got:
            fetches = change(fetches, number, counted=fetches.by_number[number].got)
    return put(state, tiers._replace(prefetches=fetches._replace(ended_lately=frozenset())))


def gate_of(tiers: Tiers, before: TierSeen, setting: Setting, rid: int, units: int, known: int) -> str | None:
    """Why a prefetch must be refused, empty when no gate is shut, ``None`` when that isn't known.

    ``units``: of the key, of which the first ``known`` pages are cached on either tier.
    """
    config, one = setting.config, tiers.prefetches.of(rid)
    length, occupied = page_floor(units - known * setting.size, setting.size), before.occupied or 0
    if not tiers.attached:
        return "no storage is attached"
    if one is not None:
        return None if one.revoked else "one of this request is under way"
    if length < max(1, config.threshold):
        return f"{length} units are below the threshold of {config.threshold}"
    if occupied >= config.rate_limit:
        return f"{occupied} units are occupied, and the limit is {config.rate_limit}"
    return ""


def allocated(tiers: Tiers) -> Tiers:
    """An allocation of host memory was made at least: the fault that was asked for comes nearer."""
    if tiers.fault is None:
        return tiers
    return tiers._replace(fault=tiers.fault - 1 if tiers.fault else None)


def polled(
    state: State,
    setting: Setting,
    number: int | None,
    call: work_calls.Poll,
    answer: bool,
    before: TierSeen,
    after: TierSeen,
) -> State:
    """After a poll: what was committed may be told, and the request waits no more."""
    if number is not None and answer:
        state = note_commit(state, setting, tiers_of(state).prefetches.by_number[number], before, after)
    waiting = tiers_of(state).prefetches.waiting
    return put_prefetches(state, waiting=waiting - {call.rid}) if answer and call.rid in waiting else state


def bind(state: State, after: TierSeen) -> State:
    """Queries and fetches that have begun belong to the prefetch of their request; a fetch shows that it isn't revoked."""
    tiers = tiers_of(state)
    fetches = tiers.prefetches
    for work in tiers.begun:
        number, job = fetches.running.get(work.job.rid), work.job
        if number is None or (job.kind != QUERY and (job.kind != FETCH or job.id in fetches.of_job)):
            continue
        fetches = fetches._replace(of_job={**fetches.of_job, job.id: number})
        if job.kind == FETCH:
            fetches = change(fetches, number, revoked=False)
    stored = tiers.stored
    units: dict[Name, tuple[Name, ...]] = {}
    for node in after.tier_nodes:
        if node.named.pages and node.named.pages[-1] not in stored.units_of:
            units.update(node.named.of_page)
    if units:
        stored = stored._replace(units_of={**stored.units_of, **units})
    if fetches is tiers.prefetches and stored is tiers.stored and tiers.failing == after.failing:
        return state
    return put(state, tiers._replace(prefetches=fetches, stored=stored, failing=after.failing))


def led_to(then: State, setting: Setting, call: work_calls.Advance) -> State:
    """The fetch that a query led to belongs to its prefetch, and not to a newer one of the same request."""
    tiers = tiers_of(then)
    fetches = tiers.prefetches
    number = fetches.of_job.get(call.job)
    if number is None or setting.profile.reserve == "hit":
        return then
    for work in tiers.begun:
        if work.job.kind == FETCH and work.job.rid == fetches.by_number[number].rid:
            return put_prefetches(then, of_job={**fetches.of_job, work.job.id: number})
    return then


def pruned(state: State) -> State:
    """Prefetches that are neither under way nor have a job are forgotten."""
    tiers = tiers_of(state)
    fetches = tiers.prefetches
    if len(fetches.by_number) <= len(fetches.running):
        return state
    of_job = {job: number for job, number in fetches.of_job.items() if job in tiers.work}
    kept = {*fetches.running.values(), *of_job.values()}
    by_number = {number: one for number, one in fetches.by_number.items() if number in kept}
    return put_prefetches(state, by_number=by_number, of_job=of_job)
