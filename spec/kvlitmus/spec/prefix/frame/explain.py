"""Explaining a step: what was seen to change, as effects, each with a cause that the table of actions allows.

:func:`changes` takes a step apart, group by group, by comparing what was seen before it and after it.  :func:`explain`
holds each effect against the rows of the step (:data:`~kvlitmus.spec.law.actions.ACTIONS`): a cause explains the subjects
that it can reach (:data:`REACH`).  What no cause reaches is the **remainder**; it breaks the frame.

A cause that isn't in :data:`REACH` explains whatever it is named for; how much of that, and which first, other rules say.
Of locks, and of hits and priorities, snapshots show sums; what they must be is worked out for each step (LOCK-02,
TREE-13, TREE-14), so they need no explanation.  How pages are grouped into nodes is the cache's own affair.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from kvlitmus.spec.interface.tiers import BACKUP, FETCH, LOAD, PUT, QUERY, Job
from kvlitmus.spec.law.actions import Cause, Group, What
from kvlitmus.spec.prefix import calls, work_calls
from kvlitmus.spec.prefix.advance import computed_pages
from kvlitmus.spec.prefix.frame.job_scope import (
    droppable_for_room,
    jobs_of_nobody,
    jobs_over,
    names_asked,
    names_put,
    names_put_at_last,
    names_read,
    own_job_going_on,
    pinned_by_jobs,
    unpinned_by_jobs,
)
from kvlitmus.spec.prefix.judged_step import Look
from kvlitmus.spec.prefix.memory_needed import lacking, wanted_pages
from kvlitmus.spec.prefix.release import waiting_in
from kvlitmus.spec.prefix.rules.tier import failed
from kvlitmus.spec.prefix.seen import Record, Seen, TierSeen
from kvlitmus.spec.prefix.work import WITH_STORAGE, Work, orphaned
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.units import Name, PageNo, pages_in_order, pages_of


class Effect(NamedTuple):
    """An effect that was seen, the cause that explains it (``None`` for none), and what it happened to.

    ``subjects`` are names of prefixes on the device tree and on the host, page numbers on the free lists, jobs, and what
    storage or the world was told.
    """

    what: What
    cause: Cause | None
    subjects: tuple[Any, ...]


Change = tuple[What, Collection[Any]]
"""An effect and its subjects."""


# -- what changed ----------------------------------------------------------------------------------


def table_changes(before: Seen, after: Seen) -> Iterator[Change]:
    """What is found in which pages of a block table, and was not, and the other way round."""
    was, now = ({(name, page) for page, name in seen.places().items()} for seen in (before, after))
    yield What.PLACE, now - was
    yield What.EVICT, was - now


def device_changes(before: Seen, after: Seen) -> Iterator[Change]:
    """Pages that came to the device, left it, or moved on it."""
    was, now = before.cached, after.cached
    if was is now:
        return
    known = before.parent_names if isinstance(before, TierSeen) else ()
    gone: list[Name] = []
    moved: list[Name] = []
    for name, page in was.items():
        found = now.get(name)
        if found != page:
            (gone if found is None else moved).append(name)
    if len(now) > len(was) - len(gone):
        new = [name for name in now if name not in was]
        yield What.PLACE, [name for name in new if name not in known] if known else new
        yield What.RESTORE, [name for name in new if name in known] if known else ()
    if gone:
        tiers = isinstance(before, TierSeen) and isinstance(after, TierSeen)
        hosted = before.hosted.keys() | after.hosted.keys() if tiers else ()  # type: ignore[attr-defined]
        yield What.EVICT, [name for name in gone if name not in hosted]
        yield What.DEMOTE, [name for name in gone if name in hosted]
    yield What.MOVE, moved


def pool_changes(before: Seen, after: Seen) -> Iterator[Change]:
    """Pages that left the free list of the device, or came to it."""
    was, now = before.free, after.free
    if was == now:
        return
    yield What.TAKE, was - now
    yield What.RELEASE, now - was


def host_changes(before: TierSeen, after: TierSeen) -> Iterator[Change]:
    """Host copies that appeared, vanished, or moved."""
    was, now = before.hosted, after.hosted
    if was == now:
        return
    yield What.BACK, now.keys() - was.keys()
    yield What.DROP, was.keys() - now.keys()
    yield What.MOVE_COPY, [name for name in was.keys() & now.keys() if was[name] != now[name]]


def host_pool_changes(before: TierSeen, after: TierSeen) -> Iterator[Change]:
    """Pages that left the free list of the host, or came to it."""
    if before.host_free == after.host_free:
        return
    was, now = frozenset(before.host_free), frozenset(after.host_free)
    yield What.HOST_TAKE, was - now
    yield What.HOST_RELEASE, now - was


def pin_changes(before: TierSeen, after: TierSeen) -> Iterator[Change]:
    """Nodes that are protected on the host more often, or less often, than before, by their last page.

    Of nodes that were split nothing is said.
    """
    was, now = before.pinned, after.pinned
    if was == now:
        return
    nodes = {node.named.pages for node in before.tier_nodes}.intersection(
        [node.named.pages for node in after.tier_nodes if node.named.pages]
    )
    yield What.PIN, [pages[-1] for pages, pins in now.items() if pins > was.get(pages, 0) and pages in nodes]
    yield What.UNPIN, [pages[-1] for pages, pins in was.items() if pins > now.get(pages, 0) and pages in nodes]


def job_changes(before: TierSeen, after: TierSeen) -> Iterator[Change]:
    """Jobs that began, ended, or show progress; whether one is ready says where it is in a queue."""
    was, now = before.jobs, after.jobs
    if was == now:
        return
    yield What.BEGIN_JOB, [now[number] for number in now.keys() - was.keys()]
    yield What.END_JOB, [was[number] for number in was.keys() - now.keys()]
    yield (
        What.GO_ON,
        [now[number] for number in was.keys() & now.keys() if progress_of(was[number]) != progress_of(now[number])],
    )


def progress_of(job: Job) -> tuple[int, bool, bool]:
    """How far a job has come."""
    return job.done, job.landed, job.failed


def storage_changes(record: Record) -> Iterator[Change]:
    """What storage was asked and given."""
    yield What.ASK, [name for one in record.asked for name in one.names]
    yield What.READ, [one.name for one in record.got]
    yield What.PUT, [one.name for one in record.puts]


def event_changes(after: Seen) -> Iterator[Change]:
    """What was told."""
    yield What.TELL, after.events


def changes(look: Look, group: Group) -> Iterator[Change]:
    """What was seen to change in a group; empty collections may be among it."""
    before, after = look.before, look.after
    if group is Group.DEVICE:
        return table_changes(before, after) if look.setting.table else device_changes(before, after)
    if group is Group.POOL:
        return pool_changes(before, after)
    if group is Group.EVENTS:
        return event_changes(after)
    if not (isinstance(before, TierSeen) and isinstance(after, TierSeen)):
        return iter(())
    if group is Group.STORAGE:
        return storage_changes(after.record)
    return BELOW[group](before, after) if group in BELOW else iter(())


BELOW: Mapping[Group, Callable[[TierSeen, TierSeen], Iterator[Change]]] = {
    Group.HOST: host_changes,
    Group.HOST_POOL: host_pool_changes,
    Group.PINS: pin_changes,
    Group.JOBS: job_changes,
}
"""What changes below the device."""


# -- what can be explained -------------------------------------------------------------------------


def explain(look: Look, *groups: Group) -> list[Effect]:
    """What was seen to change in these groups (in all, if none is given), as effects; those without a cause are the remainder."""
    causes = look.causes
    found: list[Effect] = []
    for group in groups or Group:
        for what, subjects in changes(look, group):
            left: AbstractSet[Any] = frozenset(subjects)
            for cause in causes.get(what, ()) if left else ():
                reach = REACH.get((what, cause))
                reached = left if reach is None else left & frozenset(reach(look))
                if reached:
                    found.append(Effect(what, cause, in_order(reached)))
                    left -= reached
            if left:
                found.append(Effect(what, None, in_order(left)))
    return found


def unexplained(look: Look, group: Group) -> list[Effect]:
    """The remainder of one group alone: what :func:`explain` finds no cause for."""
    found: list[Effect] = []
    for what, subjects in changes(look, group):
        if not subjects:
            continue
        reaches = reaches_of(what, look.causes.get(what, ()))
        if reaches is None:
            continue
        left: frozenset[Any] = frozenset(subjects)
        for reach in reaches:
            left = left.difference(reach(look))
            if not left:
                break
        if left:
            found.append(Effect(what, None, in_order(left)))
    return found


@functools.cache
def reaches_of(what: What, causes: tuple[Cause, ...]) -> tuple[Callable[[Look], Collection[Any]], ...] | None:
    """What each of these causes can explain of an effect; ``None`` where one explains whatever it is named for."""
    reaches = [REACH.get((what, cause)) for cause in causes]
    found = tuple([reach for reach in reaches if reach is not None])
    return found if len(found) == len(causes) else None


def in_order(subjects: Iterable[Any]) -> tuple[Any, ...]:
    """Subjects in an order that is the same in every run."""
    return tuple(sorted(subjects, key=lambda one: (one.id,) if isinstance(one, Job) else one))


def key_pages(look: Look) -> Collection[Name]:
    """The pages of the key that the call caches, or brings back."""
    call = look.call
    if isinstance(call, calls.OF_REQUESTS):
        return computed_pages(look.state.requests[call.rid], look.setting, call.upto)
    pages: Collection[Name] = call.path.pages
    return pages


def short(look: Look) -> bool:
    """Whether the call may want more of the device than is free; how much more, the rules about room say."""
    wanted = wanted_pages(look.state, look.setting, look.call, look.answer)
    return wanted is None or lacking(wanted, look.before.free_count, look.setting) > 0


def unlocked_if_short(look: Look) -> Collection[Name]:
    """What may go so that there is room: all that was on the device, where there is too little."""
    return look.before.cached.keys() if short(look) else ()


def unprotected(look: Look) -> Collection[Name]:
    """What nothing protected before the call, and was on the device."""
    pages = look.state.device.pages
    return [name for name in look.before.cached if name not in pages or not pages[name].locks]


def pages_of_victims(look: Look) -> Collection[PageNo]:
    """The device pages of what has left the device."""
    was, now = look.before.cached, look.after.cached
    return [page for name, page in was.items() if name not in now]


def pages_disowned(look: Look) -> Collection[PageNo]:
    """The device pages that the call's request or caller owned, and owns no more; with them what waits to be released."""
    if look.setting.table and isinstance(look.call, calls.End):
        return pages_of(look.state.requests[look.call.rid].row, look.setting.size)
    disowned = look.state.owners.keys() - look.expected.owners.keys()
    return disowned | waiting_in(look.state) if disowned else ()


def pages_given(look: Look) -> Collection[PageNo]:
    """The device pages that the caller gives back, with what waits to be released; at the end of a group, whatever was given back in it."""
    if isinstance(look.call, calls.GIVES_BACK):
        return pages_of(look.call.slots, look.setting.size) | waiting_in(look.state)
    return look.setting.usable


def key_places(look: Look) -> Collection[Any]:
    """The pages of the key that the call caches; of a block table with the place of each in the request's row."""
    if not look.setting.table:
        return key_pages(look)
    running = look.expected.requests[look.call.rid]
    return set(zip(running.path.pages, pages_in_order(running.row, look.setting.size), strict=False))


def places_handed_out(look: Look) -> Collection[Any]:
    """What was found in the pages that have left the free list."""
    taken = look.before.free - look.after.free
    return {(name, page) for page, name in look.before.places().items() if page in taken}


def pages_handed_out(look: Look) -> Collection[PageNo]:
    """The device pages that somebody owns now, and those of what was brought to the device."""
    if look.setting.table and isinstance(look.call, calls.Begin | calls.Grow | calls.Fork | calls.Resume):
        return pages_of(look.expected.requests[look.call.rid].row, look.setting.size)
    was, now = look.before.cached, look.after.cached
    owned = (look.then if look.setting.spare_pages else look.expected).owners.keys() - look.state.owners.keys()
    if now is was or now.keys() <= was.keys():
        return owned
    return owned | {page for name, page in now.items() if name not in was}


def due_by_policy(look: Look) -> Collection[Name]:
    """The pages that an insertion may back up, or the tick that its backups may wait for."""
    if isinstance(look.call, work_calls.Tick):
        return {name for path in look.below_before.paths for name in path}
    return () if look.setting.config.write == policies.WRITE_BACK else key_pages(look)


def backed_by_policy(look: Look) -> Collection[Name]:
    """Those of them that it does: where jobs can be seen, a backup has begun of each."""
    if not look.setting.steps:
        return due_by_policy(look)
    return {name for work in works_begun(look, BACKUP) for name in work.names}.intersection(due_by_policy(look))


def spilled(look: Look) -> Collection[Name]:
    """The pages that have left the device under write-back."""
    if look.setting.config.write != policies.WRITE_BACK:
        return ()
    return look.before.cached.keys() - look.after.cached.keys()


def committed(look: Look) -> Collection[Name]:
    """The pages that a prefetch has read which the call ends; those on the device alone only where the profile fills them."""
    fetches = look.below_before.prefetches
    if isinstance(look.call, work_calls.Poll):
        ended = [one for one in (fetches.of(look.call.rid),) if one is not None and look.answer]
    else:
        ended = [one for one in fetches.under_way() if one.ended]
    read = {name for one in ended for name in one.names[: one.got // look.setting.size]}
    return read if look.setting.profile.fill_matched else read - look.before.cached.keys()


def dropped_for_room(look: Look) -> Collection[Name]:
    """What may leave the host so that there is room: all that was there alone, where more is wanted than is free.

    A fault that the suite has asked for looks to the cache as if nothing were free.  Where under write-back a page can't
    be copied and is given up, what is below it goes with it.
    """
    before = look.tiers_seen_before
    wanted = host_pages_wanted(look, before)
    if wanted > before.host_free_count or (wanted and look.below_before.fault is not None):
        return droppable_for_room(look)
    return orphaned(before, look.tiers_seen.parent_names) if look.setting.config.write == policies.WRITE_BACK else ()


def host_pages_wanted(look: Look, before: TierSeen) -> int:
    """How many host pages the call may want at most."""
    setting, call = look.setting, look.call
    if isinstance(call, calls.INSERTS):
        return sum(name not in before.hosted for name in due_by_policy(look))
    if isinstance(call, work_calls.Prefetch):
        known = 0
        while known < len(call.path.pages) and call.path.pages[known] in before.parent_names:
            known += 1
        return len(call.path.pages) - known
    if isinstance(call, work_calls.Tick | work_calls.OutOfMemory):
        return setting.config.host_pages + 1
    if setting.config.write != policies.WRITE_BACK or not (isinstance(call, calls.Evict) or short(look)):
        return 0
    return sum(name not in before.hosted for name in before.cached)


def host_pages_dropped(look: Look) -> Collection[PageNo]:
    """The host pages in which copies were that are there no more."""
    return set(look.tiers_seen_before.hosted.values()) - set(look.tiers_seen.hosted.values())


def host_pages_moving(look: Look) -> Collection[PageNo]:
    """The host pages that work in flight held."""
    return set(look.tiers_seen_before.moving)


def works_begun(look: Look, kind: str) -> Iterator[Work]:
    """The jobs of a kind that began."""
    return (work for work in look.below.begun if work.job.kind == kind)


def backups_of_key(look: Look) -> Collection[Job]:
    """Backups that began of pages that the call uses."""
    used = set(due_by_policy(look))
    return [work.job for work in works_begun(look, BACKUP) if used.issuperset(work.names)]


def works_ended(look: Look) -> Iterator[Work]:
    """The jobs that are listed no more."""
    return (work for number, work in look.below_before.work.items() if number not in look.tiers_seen.jobs)


def puts_begun(look: Look) -> Collection[Job]:
    """Puts that began, while there is storage, of what the call has cached, spilled, or seen landed.

    A tick may begin those of what was used since the last one.
    """
    if not look.below.attached:
        return ()
    if isinstance(look.call, calls.INSERTS):
        known = set(key_pages(look))
    elif isinstance(look.call, work_calls.Tick):
        known = {name for work in works_ended(look) for name in work.names} | look.below_before.used
    else:
        known = set(spilled(look))
    return [work.job for work in works_begun(look, PUT) if known.issuperset(work.names)]


def loads_of_key(look: Look) -> Collection[Job]:
    """Loads that began of pages of the key."""
    own = set(key_pages(look))
    return [work.job for work in works_begun(look, LOAD) if own.issuperset(work.names)]


def own_query(look: Look) -> Collection[Job]:
    """The query that was asked for."""
    return [work.job for work in works_begun(look, QUERY) if work.job.rid == look.call.rid]


def fetches_begun(look: Look) -> Collection[Job]:
    """Fetches that began; of a query that was advanced, that of its request."""
    begun = [work.job for work in works_begun(look, FETCH)]
    if not isinstance(look.call, work_calls.Advance):
        return begun
    rid = look.below_before.work[look.call.job].job.rid
    return [job for job in begun if job.rid == rid]


def copies_again(look: Look) -> Collection[Job]:
    """Copies that began of what a copy of that kind has failed to copy."""
    failed = {(work.job.kind, work.names) for work in look.below.ended if work.failed}
    return [work.job for work in look.below.begun if (work.job.kind, work.names) in failed]


def jobs_before(look: Look) -> Collection[Job]:
    """The jobs that were listed."""
    return look.tiers_seen_before.jobs.values()


def own_job(look: Look) -> Collection[Job]:
    """The job that was advanced, as it was listed before and is after."""
    number = look.call.job
    return [jobs[number] for jobs in (look.tiers_seen_before.jobs, look.tiers_seen.jobs) if number in jobs]


def jobs_landed(look: Look) -> Collection[Job]:
    """The jobs that had reached their end, and the one that was advanced to it."""
    own = own_job(look) if isinstance(look.call, work_calls.Advance) else ()
    return [*own, *(job for job in jobs_before(look) if job.landed)]


def jobs_with_storage(look: Look) -> Collection[Job]:
    """The jobs that go to storage, as they were listed before and are after."""
    return [job for job in (*jobs_before(look), *look.tiers_seen.jobs.values()) if job.kind in WITH_STORAGE]


REACH: Mapping[tuple[What, Cause], Callable[[Look], Collection[Any]]] = {
    (What.PLACE, Cause.KEY): key_places,
    (What.RESTORE, Cause.KEY): key_pages,
    (What.RESTORE, Cause.WANTED): key_pages,
    (What.EVICT, Cause.NEED): unlocked_if_short,
    (What.EVICT, Cause.AGE): unprotected,
    (What.EVICT, Cause.HANDED_OUT): places_handed_out,
    (What.DEMOTE, Cause.NEED): unlocked_if_short,
    (What.DEMOTE, Cause.FAILED): lambda look: failed(look.below, LOAD),
    (What.TAKE, Cause.WANTED): pages_handed_out,
    (What.RELEASE, Cause.ASKED): pages_of_victims,
    (What.RELEASE, Cause.NEED): pages_of_victims,
    (What.RELEASE, Cause.FAILED): pages_of_victims,
    (What.RELEASE, Cause.AGE): pages_of_victims,
    (What.RELEASE, Cause.QUEUE): lambda look: waiting_in(look.state),
    (What.RELEASE, Cause.GIVEN): pages_given,
    (What.RELEASE, Cause.DUPLICATE): pages_disowned,
    (What.RELEASE, Cause.OVER): pages_disowned,
    (What.BACK, Cause.POLICY): backed_by_policy,
    (What.BACK, Cause.SPILL): spilled,
    (What.MOVE_COPY, Cause.SPILL): spilled,
    (What.MOVE_COPY, Cause.POLICY): lambda look: failed(look.below, BACKUP),
    (What.BACK, Cause.COMMIT): committed,
    (What.MOVE_COPY, Cause.COMMIT): committed,
    (What.DROP, Cause.NEED): dropped_for_room,
    (What.DROP, Cause.FAILED): lambda look: failed(look.below, BACKUP),
    (What.HOST_RELEASE, Cause.ASKED): host_pages_dropped,
    (What.HOST_RELEASE, Cause.NEED): host_pages_dropped,
    (What.HOST_RELEASE, Cause.FAILED): host_pages_dropped,
    **{
        (What.HOST_RELEASE, cause): host_pages_moving
        for cause in (Cause.QUEUE, Cause.NOBODY, Cause.DUPLICATE, Cause.MISFIT, Cause.OVER, Cause.FOUND, Cause.DETACHED)
    },
    (What.PIN, Cause.COPYING): pinned_by_jobs,
    **{
        (What.UNPIN, cause): unpinned_by_jobs
        for cause in (Cause.LANDED, Cause.FOUND, Cause.OVER, Cause.NOBODY, Cause.DETACHED)
    },
    (What.BEGIN_JOB, Cause.POLICY): backups_of_key,
    (What.BEGIN_JOB, Cause.OUTSTANDING): puts_begun,
    (What.BEGIN_JOB, Cause.WANTED): loads_of_key,
    (What.BEGIN_JOB, Cause.ASKED): own_query,
    (What.BEGIN_JOB, Cause.FOUND): fetches_begun,
    (What.BEGIN_JOB, Cause.FAILED): copies_again,
    (What.GO_ON, Cause.ASKED): own_job_going_on,
    (What.GO_ON, Cause.FAILED): own_job_going_on,
    (What.GO_ON, Cause.NOBODY): jobs_of_nobody,
    (What.GO_ON, Cause.DETACHED): jobs_with_storage,
    (What.END_JOB, Cause.LANDED): jobs_landed,
    (What.END_JOB, Cause.FOUND): own_job,
    (What.END_JOB, Cause.OVER): jobs_over,
    (What.END_JOB, Cause.NOBODY): jobs_of_nobody,
    (What.END_JOB, Cause.DETACHED): jobs_with_storage,
    (What.ASK, Cause.ASKED): names_asked,
    (What.READ, Cause.ASKED): names_read,
    (What.READ, Cause.COPYING): names_read,
    (What.PUT, Cause.ASKED): names_put,
    (What.PUT, Cause.COPYING): names_put_at_last,
}
"""What a cause can explain, of an effect: subjects."""
