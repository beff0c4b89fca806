"""What a call amounts to below the device, and what a snapshot of a hierarchy shows.

A step of a hierarchy is folded in this order:

1. what the call and its answer say (:func:`expect`): a job went on, a prefetch began, a poll let a request go;
2. jobs that are listed no more have ended, and protect nothing any more (:func:`note_ended`); this is what is expected;
3. the device is followed as for a flat cache; pages that came back to it get their records (:func:`restored`);
4. jobs that are listed for the first time protect what they copy (:func:`note_begun`);
5. the host is followed, too; what left the device lives on there (:func:`hosted`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence

from kvlitmus.spec.interface.tiers import BACKUP, FETCH, LOAD, PUT, QUERY, Loaded, Prefetched
from kvlitmus.spec.prefix import calls, effects, work_calls
from kvlitmus.spec.prefix.advance import as_seen, follow, used, used_path
from kvlitmus.spec.prefix.page import Tier, copy_of
from kvlitmus.spec.prefix.partial import known_part
from kvlitmus.spec.prefix.prefetch_advance import (
    allocated,
    begin_prefetch,
    bind,
    change,
    end_prefetch,
    ending,
    fetch_ended,
    fetched,
    led_to,
    perhaps_used,
    polled,
    pruned,
    put,
    queried,
    ticked,
    tiers_of,
)
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.storage_advance import attached, cut_off, detached, note_puts, owing
from kvlitmus.spec.prefix.work import COPIES, WITH_STORAGE, Tiers, Work
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, Slot, Tick

# -- the calls -------------------------------------------------------------------------------------


def behind(state: State, paged: Sequence[Name]) -> Sequence[Name]:
    """The pages of a key that are on the host, directly behind those on the device."""
    there = effects.cached_prefix(state.device, paged)
    return paged[there : there + effects.cached_prefix(state.host, paged[there:])]


def used_behind(state: State, setting: Setting, paged: Sequence[Name], *, hits: int = 0) -> State:
    """What of a key is on the host alone was used together with what is on the device, a moment ago."""
    names = behind(state, paged) if setting.seen and state.host.pages else ()
    if not names:
        return state
    return state._replace(host=used(state.host, setting, names, hits=hits, now=state.device.clock))


def match(state: State, setting: Setting, call: calls.Match | calls.Begin) -> State:
    """What is on the host alone is matched too, as far as the key's cap lets it; a request begins with a match."""
    paged = call.path.pages[: setting.cap(len(call.path.names)) // setting.size]
    return used_behind(state, setting, paged, hits=int(setting.profile.hit_counts == "match"))


def load_back(state: State, setting: Setting, call: work_calls.LoadBack, answer: Loaded) -> State:
    """The key was used, on both tiers; whether it was, nobody says where the load is declined.

    Where contents can't be seen, the slots of a load hold what it is to bring.
    """
    paged = call.path.pages
    there = effects.cached_prefix(state.device, paged)
    if answer.slots is None:
        return perhaps_used(state, paged[: there + len(behind(state, paged))])
    if "data" not in setting.capabilities:
        units = call.path.names[answer.before :][: len(answer.slots)]
        slots = tuple(map(Slot, answer.slots[: len(units)]))
        state = state._replace(contents=effects.write(state.contents, slots, units))
    return used_behind(state._replace(device=used(state.device, setting, paged[:there])), setting, paged)


def advance(state: State, setting: Setting, call: work_calls.Advance, after: TierSeen) -> State:
    """A job went on; what storage saw of it is noted."""
    tiers, outcome = tiers_of(state), call.outcome
    work = tiers.work[call.job]
    kind = work.job.kind
    if kind in COPIES:
        if outcome.how == "fail":
            work = work._replace(failed=True, layers=0)
        elif call.layers is not None:
            layers = min(call.layers, work.layers + outcome.pages) if outcome.how == "part" else call.layers
            work = work._replace(layers=layers, landed=layers == call.layers)
        else:
            work = work._replace(landed=True)
        return put(state, tiers._replace(work={**tiers.work, call.job: work}))
    if kind == QUERY:
        return put(state, queried(tiers, setting, work, after.record))
    if kind == FETCH:
        return put(state, fetched(tiers, setting, work, after.record))
    tiers, refused = note_puts(tiers, after.record)
    if refused or outcome.how in ("short", "fail"):
        tiers = cut_off(tiers, work.names)
    job = after.jobs.get(call.job)
    if not refused and outcome.how in ("done", "part") and (job is None or job.landed):
        missing = tuple(name for name in work.names if name not in tiers.stored.pages)
        tiers = tiers._replace(stored=tiers.stored._replace(put_missing=(*tiers.stored.put_missing, *missing)))
    return put(state, tiers)


def tick(state: State, setting: Setting, after: TierSeen) -> State:
    """The cache takes note of what has landed; where it commits at ticks, prefetches whose fetch has ended are over."""
    tiers, _ = note_puts(tiers_of(state), after.record)
    fetches = tiers.prefetches
    for number in ending(state, setting):
        fetches = change(fetches, number, counted=fetches.by_number[number].got)
        fetches = end_prefetch(fetches, number)
    return put(state, tiers._replace(prefetches=fetches))


def attach(state: State, call: work_calls.Attach, answer: bool) -> State:
    """Storage is there."""
    return put(state, attached(tiers_of(state), call.storage)) if answer else state


def detach(state: State, answer: bool) -> State:
    """Storage is gone: every prefetch is over, and what one has added may be told or not."""
    if not answer:
        return state
    tiers = detached(tiers_of(state))
    fetches = tiers.prefetches
    for number in list(fetches.running.values()):
        fetches = end_prefetch(fetches, number)
    fetches = fetches._replace(added={rid: (0, most) for rid, (_, most) in fetches.added.items()})
    work = {
        number: one._replace(sources={}) if one.job.kind in WITH_STORAGE else one for number, one in tiers.work.items()
    }
    return put(state, tiers._replace(prefetches=fetches, work=work))


def settled(state: State) -> State:
    """Revoked prefetches are gone, and all is at rest."""
    tiers = tiers_of(state)._replace(rests=True)
    fetches = tiers.prefetches
    for number in [number for number in fetches.running.values() if fetches.by_number[number].revoked]:
        fetches = end_prefetch(fetches, number)
    return put(state, tiers._replace(prefetches=fetches))


def prefetch(state: State, setting: Setting, call: work_calls.Prefetch[int | None], answer: Prefetched) -> State:
    """The part that is cached was used; whether it was, nobody says where the prefetch is refused."""
    paged = call.path.pages
    if not answer.started:
        return perhaps_used(state, known_part(state, paged) if setting.seen else paged)
    state = begin_prefetch(state, setting, call, answer.matched, answer.asked)
    tree = used(state.device, setting, paged[: effects.cached_prefix(state.device, paged)])
    if setting.profile.reserve == "submit":
        state = put(state, allocated(tiers_of(state)))
    return used_behind(state._replace(device=tree), setting, paged)


def poll(state: State, call: work_calls.Poll, answer: bool) -> State:
    """A request that need not wait any more has its prefetch ended."""
    tiers = tiers_of(state)
    fetches = tiers.prefetches
    number = fetches.running.get(call.rid)
    if number is not None:
        if fetches.by_number[number].polled is None:
            fetches = change(fetches, number, polled=tiers.clock)
        if answer:
            fetches = end_prefetch(fetches, number)
    return put(state, tiers._replace(prefetches=fetches))


def tell_loaded(state: State, call: work_calls.TellLoaded) -> State:
    """What a prefetch added is told once."""
    tiers = tiers_of(state)
    fetches = tiers.prefetches
    added = {rid: told for rid, told in fetches.added.items() if rid != call.rid}
    stale = {rid: most for rid, most in tiers.stale.items() if rid != call.rid}
    return put(state, tiers._replace(prefetches=fetches._replace(added=added), stale=stale))


def abandon(state: State, call: work_calls.Abandon) -> State:
    """The request waits no more, and nothing will be told."""
    tiers = tiers_of(state)
    fetches = tiers.prefetches
    number = fetches.running.get(call.rid)
    if number is not None:
        fetches = end_prefetch(fetches, number)
    added = {rid: told for rid, told in fetches.added.items() if rid != call.rid}
    fetches = fetches._replace(waiting=fetches.waiting - {call.rid}, added=added)
    return put(state, tiers._replace(prefetches=fetches))


def fail_host_alloc(state: State, call: work_calls.FailHostAlloc) -> State:
    """An allocation of host memory is going to fail."""
    return put(state, tiers_of(state)._replace(fault=call.after))


def fail_memory(state: State, call: work_calls.FailMemory) -> State:
    """Memory is going to run out, or not any more."""
    return put(state, tiers_of(state)._replace(starved=call.after is not None))


def out_of_memory(state: State, call: work_calls.OutOfMemory) -> State:
    """Whether the call counts as a use of the key is nobody's promise."""
    return perhaps_used(state, call.path.pages)


def set_clock(state: State, call: work_calls.SetClock) -> State:
    """Time has passed."""
    return put(state, tiers_of(state)._replace(clock=call.seconds))


EXPECT: dict[type, Callable[..., State]] = {
    calls.Match: match,
    calls.Begin: match,
    work_calls.LoadBack: load_back,
    work_calls.Advance: advance,
    work_calls.Tick: tick,
    work_calls.Attach: attach,
    work_calls.Detach: detach,
    work_calls.Settled: settled,
    work_calls.Prefetch: prefetch,
    work_calls.Poll: poll,
    work_calls.TellLoaded: tell_loaded,
    work_calls.Abandon: abandon,
    work_calls.FailHostAlloc: fail_host_alloc,
    work_calls.FailMemory: fail_memory,
    work_calls.OutOfMemory: out_of_memory,
    work_calls.SetClock: set_clock,
}
"""What each call on the tiers amounts to; of others it is seen, in the snapshot or in the cache's own words."""

INPUTS_OF = {kind: tuple(inspect.signature(fold).parameters) for kind, fold in EXPECT.items()}
"""What each of these functions is handed, by name: of a step of :func:`follow_tiers` what it asks for."""


# -- following what is seen ------------------------------------------------------------------------


def note_ended(state: State, setting: Setting, after: TierSeen, *, forgot: bool) -> State:
    """Jobs that are listed no more have ended; copies that did protect nothing any more.

    ``forgot``: the call was a reset, after which nobody asks how a job ended.
    """
    tiers = tiers_of(state)
    gone = [work for number, work in tiers.work.items() if number not in after.jobs]
    if not gone:
        return state if not tiers.ended else put(state, tiers._replace(ended=()))
    copies = [work for work in gone if work.job.kind in COPIES] if setting.steps else []
    tree, backed = state.device, tiers.backed
    for work in copies:
        tree = effects.lock(tree, work.end, -1)
        if not work.failed and work.job.kind == BACKUP and tiers.attached and not behind_refused(tiers, setting, work):
            backed = backed.union(work.names)
    left = {number: work for number, work in tiers.work.items() if number in after.jobs}
    ended = () if forgot else tuple(copies)
    return state._replace(device=tree, tiers=tiers._replace(work=left, backed=backed, ended=ended))


def behind_refused(tiers: Tiers, setting: Setting, work: Work) -> bool:
    """Whether storage has refused a page before those of this job, or one of them: a cache may wait for it."""
    refused, key = tiers.stored.refused, work.job.key
    if not refused:
        return False
    return not refused.isdisjoint(page_names(setting.names.of(key.namespace, key.units), setting.size))


def restored(state: State, expected: State, setting: Setting, before: TierSeen, after: TierSeen) -> State:
    """Pages that are back on the device are worth what they were worth when they left it, and what brought them back.

    An insert, which is part of what was ``expected``, brings a priority with it; a load brings none.
    """
    host = state.host
    back = [name for name in after.cached if name not in before.cached and name in host.pages]
    if not back:
        return state
    tree, bare = effects.promote(state.device, host, back, counts=setting.profile.restored_counts)
    loaded = {name: host.pages[name].priority for name in back if name not in expected.device.pages}
    pages = {name: tree.pages[name]._replace(priority=priority) for name, priority in loaded.items()}
    return state._replace(device=tree._replace(pages={**tree.pages, **pages}), host=bare)


def note_begun(state: State, setting: Setting, after: TierSeen) -> State:
    """Jobs that have begun protect what they copy."""
    tiers, tree = tiers_of(state), state.device
    fresh: list[Work] = []
    for number, job in after.jobs.items():
        if number in tiers.work:
            continue
        names = setting.names.of(job.key.namespace, job.key.units)
        paged = page_names(names, setting.size)
        own = paged[job.start // setting.size :]
        end = paged[-1] if paged else setting.names.root(job.key.namespace)
        sources = {name: after.hosted[name] for name in own if name in after.hosted} if job.kind in (LOAD, PUT) else {}
        fresh.append(Work(job, own, end, sources, landed=job.landed))
        if job.kind in COPIES:
            tree = effects.lock(tree, end)
    if not fresh:
        return state if not tiers.begun else put(state, tiers._replace(begun=()))
    tiers = tiers._replace(work={**tiers.work, **{work.job.id: work for work in fresh}}, begun=tuple(fresh))
    return state._replace(device=tree, tiers=tiers)


def hosted(state: State, then: State, after: TierSeen) -> State:
    """The host is as the snapshot shows it: what left the device lives on there, and what came from storage begins."""
    host = as_seen(then.host, after.hosted, lambda name, page: copy_of(after.parent_names[name], page))
    left = [name for name in host.pages if name in state.device.pages and name not in then.device.pages]
    if not left and host is then.host:
        return then
    known = {*then.host.pages, *state.device.pages, *then.device.pages}
    fresh = [name for name in host.pages if name not in known]
    if left:
        _, host = effects.demote(state.device, host, left)
    return then._replace(host=from_storage(host, then.device.clock, fresh, after))


def from_storage(host: Tier, clock: Tick, names: Collection[Name], after: TierSeen) -> Tier:
    """The host, to which these pages came from storage: without hits, and of the priority that the cache gave them."""
    found = dict(host.pages)
    for node in after.tier_nodes if names else ():
        for name in node.named.pages:
            if name in names:
                found[name] = found[name]._replace(
                    touched=clock,
                    created=clock,
                    priority=node.priority or 0,
                    first=name == node.named.pages[0],
                    undated=True,
                    unsure=True,
                )
    return host._replace(pages=found)


def stirred(state: State, call: PlainCall) -> State:
    """Whatever else is asked for than room on the host ends the rest."""
    tiers = tiers_of(state)
    return put(state, tiers._replace(rests=False)) if tiers.rests and type(call) is not work_calls.EvictHost else state


def follow_tiers(
    state: State, expected: State, setting: Setting, call: PlainCall, answer: object, before: TierSeen, after: TierSeen
) -> tuple[State, State]:
    """What is expected after a call, and what is known then; ``expected``: what it amounts to on the device."""
    below, expected = EXPECT.get(type(call)), stirred(expected, call)
    if below is not None:
        step = {"state": expected, "setting": setting, "call": call, "answer": answer, "before": before, "after": after}
        expected = below(*[step[name] for name in INPUTS_OF[type(call)]])
    expected = note_ended(expected, setting, after, forgot=type(call) is calls.Reset)
    followed = follow(expected, setting, after)
    then = note_begun(restored(followed, expected, setting, before, after), setting, after)
    return expected, conclude(state, then, setting, call, answer, before, after)


def conclude(
    state: State, then: State, setting: Setting, call: PlainCall, answer: object, before: TierSeen, after: TierSeen
) -> State:
    """What is known once the snapshot was followed: what depends on which jobs began, and what was added."""
    then = bind(then, after)
    if tiers_of(then).paths and (gone := state.device.pages.keys() - then.device.pages.keys()):
        then = put(then, tiers_of(then)._replace(left=tiers_of(then).left | gone))
    then = hosted(state, then, after) if setting.seen else then
    if isinstance(call, calls.INSERTS):
        tiers = tiers_of(then)
        if any(work.job.kind == BACKUP for work in tiers.begun):
            tiers = allocated(tiers)
        path = used_path(state, setting, call)
        if setting.profile.backup_moment == "tick" and setting.config.write != policies.WRITE_BACK:
            tiers = tiers._replace(paths=(*tiers.paths, path), left=tiers.left.difference(path))
        then = put(then, owing(tiers, path, after))
    if isinstance(call, work_calls.Advance):
        job = tiers_of(state).work[call.job].job
        if job.kind == QUERY:
            then = led_to(then, setting, call)
        elif job.kind == FETCH:
            then = fetch_ended(then, call, after)
    elif isinstance(call, work_calls.Tick):
        then = ticked(then, setting, ending(state, setting), before, after)
        if tiers_of(then).paths:
            then = put(then, tiers_of(then)._replace(paths=(), left=frozenset()))
        if tiers_of(then).used:
            then = put(then, tiers_of(then)._replace(used=frozenset(), owed=frozenset()))
    elif isinstance(call, work_calls.Poll):
        number = tiers_of(state).prefetches.running.get(call.rid)
        then = polled(then, setting, number, call, bool(answer), before, after)
    return pruned(then)
