"""What a cause can reach of the jobs and of storage: its own job, its own pages, and no others.

A job that is advanced may ask, read or put what it is for.  Work that nobody waits for may end; what somebody waits for
may not.  What threads are doing when storage goes may be let finish, where there was such work.
"""

from __future__ import annotations

from collections.abc import Collection

from kvlitmus.spec.interface.tiers import FETCH, LOAD, PUT, QUERY, Job
from kvlitmus.spec.prefix import work_calls
from kvlitmus.spec.prefix.evictable import reclaimable
from kvlitmus.spec.prefix.frame.judged_step import Look
from kvlitmus.spec.prefix.seen import Put, Record, TierSeen
from kvlitmus.spec.prefix.storage_advance import last_of, query_told
from kvlitmus.spec.prefix.work import WITH_STORAGE, Tiers, Work, path_to
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.units import Name, pages_needed


def tiers_before(look: Look) -> Tiers:
    """What was known below the device before the step."""
    assert look.state.tiers is not None
    return look.state.tiers


def record_of(look: Look) -> Record:
    """What storage was asked and given during the step."""
    assert isinstance(look.after, TierSeen)
    return look.after.record


def at_work(look: Look, *kinds: str) -> list[Work]:
    """The work of these kinds to which the call can let something happen: its own job, or all where it is for none."""
    works = tiers_before(look).work
    if isinstance(look.call, work_calls.Advance):
        works = {look.call.job: works[look.call.job]}
    return [work for work in works.values() if work.job.kind in kinds]


def names_asked(look: Look) -> Collection[str]:
    """The names that a query may ask for: as many as its raw tokens need pages, the first ones that were asked."""
    size = look.setting.size
    pages = sum(pages_needed(len(work.job.key.tokens) - work.job.start, size) for work in at_work(look, QUERY))
    return query_told(record_of(look))[0][:pages]


def names_read(look: Look) -> Collection[str]:
    """The names that fetches may read: as many as they have pages, the first ones that were read.

    Where they are let finish, a query may go on to its fetch.
    """
    kinds = (FETCH,) if isinstance(look.call, work_calls.Advance) else (QUERY, FETCH)
    pages = sum(len(work.names) for work in at_work(look, *kinds))
    return list(dict.fromkeys(one.name for one in record_of(look).got))[:pages]


def names_put(look: Look) -> Collection[str]:
    """The names under which a put may write: of its own pages, and of what is no page of any known prefix (BACKUP-06)."""
    works = at_work(look, PUT)
    puts = record_of(look).puts if works else ()
    return written(look, puts, {name for work in works for name in work.names})


def names_put_at_last(look: Look) -> Collection[str]:
    """The same where threads are let finish: whatever was in the tree may be backed up, and put."""
    assert isinstance(look.before, TierSeen)
    return written(look, record_of(look).puts, look.before.parent_names)


def written(look: Look, puts: Collection[Put], own: Collection[Name]) -> Collection[str]:
    """The names under which pages of ``own`` were written, or what is no page of any known prefix."""
    known = look.below.stored.units_of
    return [one.name for one in puts if (last := last_of(one.contents)) in own or known.get(last) != one.contents]


def jobs_of_nobody(look: Look) -> Collection[Job]:
    """The queries and fetches that nobody waits for: at a tick those whose prefetch is over or revoked, else the call's."""
    call, fetches, listed = look.call, tiers_before(look).prefetches, listed_for(look)
    if isinstance(call, work_calls.Advance):
        return [job for job in listed if job.id == call.job]
    if not isinstance(call, work_calls.Tick) or call.detached:
        return listed
    waited = {
        job
        for job, number in fetches.of_job.items()
        if number in fetches.running.values() and not fetches.by_number[number].revoked
    }
    return [job for job in listed if job.kind != PUT and job.id not in waited]


def listed_for(look: Look) -> list[Job]:
    """The jobs that go to storage, as they were listed before and are after: of the call's request, or of all."""
    assert isinstance(look.before, TierSeen) and isinstance(look.after, TierSeen)
    rid = getattr(look.call, "rid", None)
    listed = (*look.before.jobs.values(), *look.after.jobs.values())
    return [job for job in listed if job.kind in WITH_STORAGE and (rid is None or job.rid == rid)]


def jobs_over(look: Look) -> Collection[Job]:
    """The queries and fetches of a request that need not wait; at a tick those of all."""
    waits = isinstance(look.call, work_calls.Poll) and not look.answer
    return () if waits else listed_for(look)


def own_job_going_on(look: Look) -> Collection[Job]:
    """The job that was advanced, as it is listed after; a load not as landed before its last layer."""
    assert isinstance(look.after, TierSeen)
    job = look.after.jobs.get(look.call.job)
    if job is None:
        return ()
    work = look.below.work.get(job.id)
    early = job.kind == LOAD and job.landed and not job.failed and work is not None and not work.over
    return () if early else (job,)


def droppable_for_room(look: Look) -> Collection[Name]:
    """What can leave the host for room: what was there alone, or is when it has left the device, or may be reclaimed."""
    before = look.before
    assert isinstance(before, TierSeen)
    spare = reclaimable(look.state, look.setting)
    if look.setting.config.write == policies.WRITE_BACK:
        spare |= before.cached.keys() - look.after.cached.keys()
    return [name for name in before.hosted if name not in before.cached or name in spare]


def pinned_by_jobs(look: Look) -> Collection[Name]:
    """The nodes from which jobs read that began, and those behind which prefetches began, if pinned no oftener than that."""
    begun = [work.names for work in look.below.begun if work.job.kind in (LOAD, PUT)]
    rids = {work.job.rid for work in look.below.begun if work.job.kind in (QUERY, FETCH)}
    anchors = [[one.anchor] for one in look.below.prefetches.under_way() if one.anchor is not None and one.rid in rids]
    return as_often(look, [*begun, *anchors])


def unpinned_by_jobs(look: Look) -> Collection[Name]:
    """The nodes from which jobs have read that ended, and those behind which prefetches began that nobody waits for, if unpinned no oftener.

    Where a node was split meanwhile, both halves were protected: so what is above counts, too.
    """
    assert isinstance(look.after, TierSeen)
    works, fetches, later = tiers_before(look).work, tiers_before(look).prefetches, look.below.prefetches
    gone = [work for number, work in works.items() if number not in look.after.jobs]
    ended = [[above for name in work.names for above in path_to(name, look.after)] for work in gone]
    going_on = {
        number
        for number in later.running.values()
        if not later.by_number[number].revoked and number in fetches.by_number and not fetches.by_number[number].revoked
    }
    over = [one.anchor for number, one in fetches.by_number.items() if number not in going_on]
    return as_often(look, [*ended, *([anchor] for anchor in over if anchor is not None)])


def as_often(look: Look, reasons: Collection[Collection[Name]]) -> Collection[Name]:
    """The nodes, by their last page, whose pins changed by no more than the number of reasons that are about them."""
    before, after = look.before, look.after
    assert isinstance(before, TierSeen) and isinstance(after, TierSeen)
    was = {node.named.pages: node.pins for node in before.tier_nodes}
    found = []
    for node in after.tier_nodes:
        pages, own = node.named.pages, frozenset(node.named.pages)
        change = abs((node.pins or 0) - (was.get(pages) or 0)) if pages in was else 0
        if change and change <= sum(not own.isdisjoint(names) for names in reasons):
            found.append(pages[-1])
    return found
