"""What a cause can reach of the jobs and of storage: its own job, its own pages, and no others.

A job that is advanced may ask, read or put what it is for.  Work that nobody waits for may end; what somebody waits for
may not.  What threads are doing when storage goes may be let finish, where there was such work.
"""

from __future__ import annotations

from collections.abc import Collection

from kvlitmus.spec.interface.tiers import FETCH, LOAD, PUT, QUERY, Job
from kvlitmus.spec.prefix import work_calls
from kvlitmus.spec.prefix.evictable import reclaimable
from kvlitmus.spec.prefix.judged_step import Look
from kvlitmus.spec.prefix.seen import Put
from kvlitmus.spec.prefix.storage_advance import last_of, query_told
from kvlitmus.spec.prefix.work import WITH_STORAGE, Work, path_to
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.units import Name, pages_needed


def at_work(look: Look, *kinds: str) -> list[Work]:
    """The work of these kinds to which the call can let something happen: its own job, or all where it is for none."""
    works = look.below_before.work
    if isinstance(look.call, work_calls.Advance):
        works = {look.call.job: works[look.call.job]}
    return [work for work in works.values() if work.job.kind in kinds]


def names_asked(look: Look) -> Collection[str]:
    """The names that a query may ask for: as many as its raw tokens need pages, the first ones that were asked."""
    size = look.setting.size
    pages = sum(pages_needed(len(work.job.key.tokens) - work.job.start, size) for work in at_work(look, QUERY))
    return query_told(look.tiers_seen.record)[0][:pages]


def names_read(look: Look) -> Collection[str]:
    """The names that fetches may read: as many as they have pages, the first ones that were read.

    Where they are let finish, a query may go on to its fetch.
    """
    kinds = (FETCH,) if isinstance(look.call, work_calls.Advance) else (QUERY, FETCH)
    pages = sum(len(work.names) for work in at_work(look, *kinds))
    return list(dict.fromkeys(one.name for one in look.tiers_seen.record.got))[:pages]


def names_put(look: Look) -> Collection[str]:
    """The names under which a put may write: of its own pages, and of what is no page of any known prefix (BACKUP-06)."""
    works = at_work(look, PUT)
    puts = look.tiers_seen.record.puts if works else ()
    return written(look, puts, {name for work in works for name in work.names})


def names_put_at_last(look: Look) -> Collection[str]:
    """The same where threads are let finish: whatever was in the tree may be backed up, and put."""
    return written(look, look.tiers_seen.record.puts, look.tiers_seen_before.parent_names)


def written(look: Look, puts: Collection[Put], own: Collection[Name]) -> Collection[str]:
    """The names under which pages of ``own`` were written, or what is no page of any known prefix."""
    known = look.below.stored.units_of
    return [one.name for one in puts if (last := last_of(one.contents)) in own or known.get(last) != one.contents]


def jobs_of_nobody(look: Look) -> Collection[Job]:
    """The queries and fetches that nobody waits for: at a tick those whose prefetch is over or revoked, else the call's."""
    call, fetches, listed = look.call, look.below_before.prefetches, listed_for(look)
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
    rid = getattr(look.call, "rid", None)
    listed = (*look.tiers_seen_before.jobs.values(), *look.tiers_seen.jobs.values())
    return [job for job in listed if job.kind in WITH_STORAGE and (rid is None or job.rid == rid)]


def jobs_over(look: Look) -> Collection[Job]:
    """The queries and fetches of a request that need not wait; at a tick those of all."""
    waits = isinstance(look.call, work_calls.Poll) and not look.answer
    return () if waits else listed_for(look)


def own_job_going_on(look: Look) -> Collection[Job]:
    """The job that was advanced, as it is listed after; a load not as landed before its last layer."""
    job = look.tiers_seen.jobs.get(look.call.job)
    if job is None:
        return ()
    work = look.below.work.get(job.id)
    early = job.kind == LOAD and job.landed and not job.failed and work is not None and not work.over
    return () if early else (job,)


def droppable_for_room(look: Look) -> Collection[Name]:
    """What can leave the host for room: what was there alone, or is when it has left the device, or may be reclaimed."""
    before = look.tiers_seen_before
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
    works, fetches, later = look.below_before.work, look.below_before.prefetches, look.below.prefetches
    gone = [work for number, work in works.items() if number not in look.tiers_seen.jobs]
    ended = [[above for name in work.names for above in path_to(name, look.tiers_seen)] for work in gone]
    going_on = {
        number
        for number in later.running.values()
        if not later.by_number[number].revoked and number in fetches.by_number and not fetches.by_number[number].revoked
    }
    over = [one.anchor for number, one in fetches.by_number.items() if number not in going_on]
    return as_often(look, [*ended, *([anchor] for anchor in over if anchor is not None)])


def as_often(look: Look, reasons: Collection[Collection[Name]]) -> Collection[Name]:
    """The nodes, by their last page, whose pins changed by no more than the number of reasons that are about them."""
    was = {node.named.pages: node.pins for node in look.tiers_seen_before.tier_nodes}
    found = []
    for node in look.tiers_seen.tier_nodes:
        pages, own = node.named.pages, frozenset(node.named.pages)
        change = abs((node.pins or 0) - (was.get(pages) or 0)) if pages in was else 0
        if change and change <= sum(not own.isdisjoint(names) for names in reasons):
            found.append(pages[-1])
    return found
