"""The choice that a cache was seen to make, read off two snapshots."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kvlitmus.reference.prefix.choose import NO_CHOICE, Choice, Names, ends_at_nodes
from kvlitmus.spec.interface import Begun, Hit
from kvlitmus.spec.interface.tiers import BACKUP, FETCH, PUT, Job, Outcome
from kvlitmus.spec.law.step import Step
from kvlitmus.spec.prefix import calls, work_calls
from kvlitmus.spec.prefix.advance import computed_pages
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.seen import Record, Seen, TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.storage_advance import query_told
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.policies import SELECTIVE, WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Slot, page_floor, pages_in_order

MAKES_ROOM = frozenset({calls.Alloc, calls.Extend, calls.Evict, calls.Begin, calls.Grow, calls.Fork, calls.Resume})
"""The calls that may evict; the profile says whether an allocation does."""

LEAVES_DEVICE = MAKES_ROOM | {work_calls.LoadBack}
"""The same of a hierarchy."""

TAKES_HOST = frozenset(
    {calls.Insert, calls.Publish, calls.End, work_calls.EvictHost, work_calls.Prefetch, work_calls.Tick}
)
"""The calls that may evict from the host under every write policy."""

GIVES_BACK = frozenset({work_calls.Advance, work_calls.Poll, work_calls.Abandon, work_calls.Detach, work_calls.Tick})
"""The calls in which work under way may give back memory of the host."""


def lets_go(call: PlainCall, setting: Setting) -> bool:
    """Whether a call on a flat cache may take pages from it: it may evict, or look where pages expire."""
    return type(call) in MAKES_ROOM or setting.table or (setting.expires and isinstance(call, calls.LOOKING))


def choice_of(step: Step[Any], state: State, setting: Setting) -> Choice:
    """The choice that a cache was seen to make: what vanished, the pages that it granted, where the host has what.

    The step is between two snapshots (:class:`~kvlitmus.spec.prefix.seen.Seen`, of a hierarchy
    :class:`~kvlitmus.spec.prefix.seen.TierSeen`).  ``state``: what was known before it.
    """
    call, answer, size = step.call, step.answer, setting.size
    before, after = step.before, step.after
    if isinstance(call, calls.Reset):
        return NO_CHOICE
    victims: Names = ()
    if type(call) in LEAVES_DEVICE or lets_go(call, setting):
        victims = tuple(sorted(before.cached.keys() - after.cached.keys()))
    granted: Sequence[Slot] | None = None
    if answer is not None and isinstance(call, calls.Alloc):
        granted = answer
    elif answer is not None and isinstance(call, calls.Begin | calls.Fork | calls.Resume):
        granted = answer.row[page_floor(answer.cached, size) :]
    elif answer is not None and isinstance(call, calls.Extend | calls.Grow):
        row = call.row if isinstance(call, calls.Extend) else state.requests[call.rid].row
        granted = answer[-len(row) % size :]
    elif isinstance(call, work_calls.LoadBack):
        granted = answer.slots
    kept = kept_of(call, answer, state, after, setting) if setting.filters else None
    pages = None if granted is None else pages_in_order(granted, size)
    refusal = {
        **dict.fromkeys((calls.Begin, calls.Grow, calls.Fork, calls.Resume)),
        **dict.fromkeys((calls.Retract, calls.Flush), False),
    }
    declined = type(call) in refusal and answer is refusal[type(call)]
    waiting = setting.usable - after.free if setting.profile.release_delay or setting.reclaims else frozenset[PageNo]()
    if not isinstance(after, TierSeen):
        found = found_by(call, answer, state, setting) if setting.table or ends_at_nodes(setting) else None
        spare = before.free.union(before.cached.values()).difference(after.free, after.cached.values(), pages or ())
        inside = ended_inside(answer, size) if setting.inside else ()
        return Choice(victims, pages, found, declined=declined, spare=spare, inside=inside, kept=kept, waiting=waiting)
    lost: Names | None = None
    if may_drop(call, setting):
        lost = dropped(before.parent_names, after.parent_names, before.hosted, after.hosted, setting)
    places = {name: page for name, page in after.hosted.items() if before.hosted.get(name) != page}
    if isinstance(call, work_calls.Prefetch) and answer.started:
        taken = map(PageNo, sorted(set(after.moving).difference(before.moving)))
        places |= zip(call.path.pages[answer.matched // size :], taken, strict=False)
    outcome = outcome_of(call, after.record)
    choice = Choice(victims, pages, None, lost, places, outcome=outcome, declined=declined, kept=kept, waiting=waiting)
    if lost and setting.config.write == WRITE_BACK and type(call) in LEAVES_DEVICE:
        choice = choice._replace(given_up=frozenset(victims).intersection(lost).difference(before.hosted))
    if isinstance(call, work_calls.LoadBack):
        choice = choice._replace(declined=granted is None)
    if not setting.steps:
        return choice_of_no_jobs(choice, call, places, setting)
    if isinstance(call, work_calls.Tick):
        choice = choice._replace(unnoted=unnoted(state, after, setting))
    elif isinstance(call, work_calls.Advance):
        choice = choice._replace(at_once=over_at_once(call, state, before, after))
    return choice_of_jobs(choice, call, answer, before, after, setting)


def ended_inside(answer: Any, size: int) -> tuple[Slot, ...]:
    """The slots behind the last whole page of what was found."""
    if isinstance(answer, Begun):
        return tuple(map(Slot, answer.row[page_floor(answer.cached, size) : answer.cached]))
    if isinstance(answer, Hit):
        return tuple(map(Slot, (answer.slots or ())[page_floor(answer.length, size) :]))
    return ()


def kept_of(call: PlainCall, answer: Any, state: State, after: Seen, setting: Setting) -> int | None:
    """How many pages of its request a call has left in the cache."""
    if isinstance(call, calls.Publish):
        return int(answer.cached // setting.size)
    if not isinstance(call, calls.End) or not call.keep:
        return None
    paged = computed_pages(state.requests[call.rid], setting, call.upto)
    return next((at for at, name in enumerate(paged) if name not in after.cached), len(paged))


def choice_of_no_jobs(choice: Choice, call: PlainCall, copied: Collection[Name], setting: Setting) -> Choice:
    """The same of a cache that has no jobs: it copies at once, page by page, of chunks as well if it likes to."""
    chunks = isinstance(call, calls.Insert | calls.Publish) and call.chunked and bool(copied)
    copies, filtered = tuple([(name,) for name in copied]), setting.profile.backup_filter == "own"
    return choice._replace(at_once=True, chunks=chunks, copies=copies, filtered=filtered)


def found_by(call: PlainCall, answer: Any, state: State, setting: Setting) -> tuple[PageNo, ...] | None:
    """Where the cached prefix was found that a match or a request answers with; ``None`` where it doesn't say."""
    if answer is None or not isinstance(call, calls.Match | calls.Begin):
        return None
    if isinstance(call, calls.Begin):
        return tuple(pages_in_order(answer.row[: answer.cached], setting.size))
    if answer.slots is not None:
        return tuple(pages_in_order(answer.slots, setting.size))
    names = call.path.pages[: answer.length // setting.size]
    return tuple([state.device.pages[name].page for name in names if name in state.device.pages])


def choice_of_jobs(
    choice: Choice, call: PlainCall, answer: Any, before: TierSeen, after: TierSeen, setting: Setting
) -> Choice:
    """The same, with what a cache was seen to choose of work under way; jobs are called by its own numbers."""
    fresh = [job for number, job in after.jobs.items() if number not in before.jobs]

    def path_of(job: Job) -> Names:
        return page_names(setting.names.of(job.key.namespace, job.key.units), setting.size)

    def runs(kind: str) -> tuple[Names, ...]:
        return tuple([path_of(job)[job.start // setting.size :] for job in fresh if job.kind == kind])

    late = isinstance(call, calls.INSERTS) and not any(job.kind == PUT for job in fresh)
    # What could not begin shows in no job; what could not begin again stays listed, behind the others.
    tried = before.failing - after.failing
    unknown = uncounted(call, setting)
    choice = choice._replace(
        late=late,
        copies=runs(BACKUP),
        uncounted=unknown,
        filtered=(setting.profile.backup_filter == "own" or unknown) and BACKUP not in tried,
        postponed=setting.profile.backup_moment == "tick" and isinstance(call, calls.INSERTS) and BACKUP not in tried,
        landed=any(job.landed for job in fresh if job.kind in COPIES),
    )
    if isinstance(call, work_calls.TellLoaded) and setting.profile.fill_matched:
        return choice._replace(told=answer)
    if type(call) in GIVES_BACK:
        choice = choice._replace(released=len(set(before.moving).intersection(after.host_free)))
    if not isinstance(call, work_calls.Tick):
        return choice
    begun = {(job.kind, job.key) for job in fresh}
    ended = [
        job
        for number, job in before.jobs.items()
        if number not in after.jobs or (job.failed and job.kind in tried and after.jobs[number].failed)
    ]

    def goes_on(job: Job) -> bool:
        """Whether a copy that failed, or a put, is begun anew; a backup that moves was given up and is another."""
        if not (job.failed or job.kind == PUT) or (job.kind, job.key) not in begun:
            return False
        last = path_of(job)[-1]
        return job.kind != BACKUP or before.hosted.get(last) == after.hosted.get(last)

    again = [job.id for job in ended if job.id in after.jobs or goes_on(job)]
    return choice._replace(ended=[job.id for job in ended], again=again, puts=runs(PUT))


def unnoted(state: State, after: TierSeen, setting: Setting) -> tuple[int, ...]:
    """Requests whose prefetch isn't worth going on, and counts against the rate limit after a tick all the same.

    If of several some do, these are the last ones.
    """
    fetches = tiers_of(state).prefetches
    running = {rid: fetches.by_number[number] for rid, number in fetches.running.items()}
    reading = {job.rid for job in after.jobs.values() if job.kind == FETCH}
    revoked = {rid: one.asked for rid, one in running.items() if one.revoked and rid not in reading}
    if after.occupied is None or not revoked:
        return ()
    commits = setting.profile.commit == "tick"
    others = [one.asked for rid, one in running.items() if rid not in revoked and not (commits and one.ended)]
    left, found = after.occupied - sum(others), []
    for rid, asked in reversed(revoked.items()):
        if asked <= left:
            found.append(rid)
            left -= asked
    return tuple(found)


def over_at_once(call: work_calls.Advance, state: State, before: TierSeen, after: TierSeen) -> bool:
    """Whether a prefetch counts against the rate limit no more when its query is answered."""
    fetches = tiers_of(state).prefetches
    number = fetches.of_job.get(call.job)
    if number is None or fetches.by_number[number].over or before.occupied is None or after.occupied is None:
        return False
    return before.occupied - after.occupied == fetches.by_number[number].asked


def uncounted(call: PlainCall, setting: Setting) -> bool:
    """Whether a backup may depend on insertions before the last one, and these are not what the cache counts."""
    waits = setting.config.write == SELECTIVE or isinstance(call, work_calls.Tick)
    return waits and setting.profile.hit_counts != "insert"


def may_drop(call: PlainCall, setting: Setting) -> bool:
    """Whether a call may evict from the host: to make room there for what is backed up, read ahead, or written back."""
    return type(call) in TAKES_HOST or (type(call) in LEAVES_DEVICE and setting.config.write == WRITE_BACK)


def outcome_of(call: PlainCall, record: Record) -> Outcome | None:
    """How a job went on that storage was asked for, as storage saw it; ``None`` where it saw nothing."""
    if not isinstance(call, work_calls.Advance) or not (record.asked or record.got or record.puts):
        return None
    if record.asked:
        return Outcome("short", query_told(record)[1])
    done = [one.whole for one in record.got] + [one.accepted for one in record.puts]
    cut = not all(done) or call.outcome.how in ("short", "fail")
    return Outcome("short" if cut else "part", sum(done))


def dropped(
    before: Collection[Name],
    after: Collection[Name],
    copies: Mapping[Name, PageNo],
    left: Mapping[Name, PageNo],
    setting: Setting,
) -> Names:
    """What left the host, of what was cached ``before`` and ``after``; there were ``copies``, and some are ``left``.

    Under write-back what leaves the device comes to the host, and may leave it in the same call; and copies of what is
    on the device too may leave it, where the profile says so.  Where such a page is to leave the device later in the
    call it is copied anew, so that its copy is elsewhere.
    """
    spills = setting.config.write == WRITE_BACK
    gone = [name for name in before if name not in after and (spills or name in copies)]
    if spills and setting.profile.host_duplicates == "reclaimed":
        gone += [name for name, page in copies.items() if name in after and left.get(name) != page]
    return tuple(sorted(gone))
