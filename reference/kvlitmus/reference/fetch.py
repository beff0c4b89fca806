"""Storage to host: reading ahead while a request waits.

A prefetch is an :class:`~kvlitmus.reference.hierarchy.Operation` that goes through the stages of
:mod:`kvlitmus.spec.prefetch_life`: ``query``, ``answered``, ``revoked``, ``fetch``, ``ended``.

In every stage a poll may find that the request need not wait any more (:func:`may_stop`), or the request may be
aborted.  Either ends the operation for the request at once: pin and quota are given back, what was read is committed or
not.  A job still under way then is nobody's any more; it ends at its next step, and returns what it holds.

**Who has the n reserved pages**, when hit of them are in storage, c of these were read, m of those committed, and the
first x were cached already (n ≥ hit ≥ c ≥ m ≥ x ≥ 0):

    [0, x)    freed at the commit            [c, hit)   released when the read ends
    [x, m)    the tree's                     [hit, n)   released when the query is answered
    [m, c)    released at the commit

*Released* means: put into the release queue, which the next tick frees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvlitmus.reference import pool as pools
from kvlitmus.reference import tier
from kvlitmus.reference.hierarchy import (
    NOWHERE,
    Hierarchy,
    Operation,
    occupied,
    pin,
)
from kvlitmus.reference.prefetch import Answer, Call, converse, gate, plan_prefetch
from kvlitmus.spec import effects, policies
from kvlitmus.spec.policies import WRITE_BACK
from kvlitmus.spec.prefetch_life import ANSWERED, ENDED, FETCH, QUERY, REVOKED
from kvlitmus.spec.prefetch_plan import PrefetchAsk, full_length
from kvlitmus.spec.state import Page
from kvlitmus.spec.units import Name, PageNo, Pages, RequestId, Tokens

NO_PAGES = Pages(0)


# -- the request's side -----------------------------------------------------------------------------------


class Submitted(NamedTuple):
    """What came of asking: whether a prefetch ``started``, the pages ``matched``, the units that it is to read."""

    started: bool
    matched: Pages
    asked: Tokens


def submit(
    now: Hierarchy, rid: RequestId, root: Name, names: Sequence[Name], units: int
) -> tuple[Hierarchy, Submitted]:
    """Match a key of ``units`` units, and begin to read what follows; or refuse, and have changed nothing but recency.

    Refused is a second prefetch of one request, one without storage, and one whose last known page has no host copy:
    what would be read could not be attached below it.  Then the gates and the memory, as planned by
    :func:`~kvlitmus.reference.prefetch.plan_prefetch`.
    """
    if not now.storage or find(now, rid) is not None:
        return now, Submitted(False, NO_PAGES, Tokens(0))
    now, pages, behind = tier.match_all(now, names)
    matched = Pages(len(pages) + behind)
    anchor = names[matched - 1] if matched else root
    if matched and anchor not in now.host.copies:
        return now, Submitted(False, matched, Tokens(0))
    size, choices = now.host.pool.page_size, now.choices
    ask = PrefetchAsk(units - matched * size, size, choices.threshold, now.storage, occupied(now), choices.rate_limit)
    if choices.reserve == "hit":
        asked = full_length(ask) if gate(ask) is None else Tokens(0)
        held: tuple[PageNo, ...] = ()
        now = pin(now, [anchor]) if asked else now
    else:
        now, held = reserve(now, ask, anchor)
        asked = Tokens(len(held) * size)
    if not asked:
        return now, Submitted(False, matched, asked)
    serial = now.serial + 1
    since = policies.time_begins(choices.timeout_from, now.now, None)
    wanted = tuple(names[matched : matched + asked // size])
    operation = Operation(serial, rid, QUERY, anchor, wanted, asked, held, None, NO_PAGES, True, since)
    now = now._replace(serial=serial, operations=(*now.operations, operation))
    return now, Submitted(True, matched, asked)


def reserve(now: Hierarchy, ask: PrefetchAsk, anchor: Name) -> tuple[Hierarchy, tuple[PageNo, ...]]:
    """Hold the conversation of a plan with this host; the pages that came of it, none when it was refused."""
    size = now.host.pool.page_size

    def reply(call: Call) -> Answer:
        nonlocal now
        if call.name == "alloc":
            now, pages = tier.allocate(now, call.amount // size)
            return None if pages is None else pools.slots_of(pages, size)
        if call.name == "evict":
            now, evicted = tier.evict_host(now, Pages(call.amount // size))
            return evicted
        if call.name == "available":
            return pools.available(now.host.pool)
        now = pin(now, [anchor], 1 if call.name == "protect" else -1)
        return None

    plan = converse(plan_prefetch(ask), reply)
    return now, tuple([PageNo(slot // size) for slot in plan.slots[::size]])


def find(now: Hierarchy, rid: RequestId) -> Operation | None:
    """The operation that a request waits for."""
    for operation in now.operations:
        if operation.live and operation.rid == rid:
            return operation
    return None


def may_stop(now: Hierarchy, operation: Operation) -> bool:
    """Whether the request need not wait any more; before its time has begun, none has passed."""
    choices, size = now.choices, now.host.pool.page_size
    found = None if operation.hit is None else operation.hit * size
    units = policies.counted_units(choices.timeout_basis, operation.asked, found)
    elapsed = 0.0 if operation.since is None else now.now - operation.since
    return policies.may_stop(choices.stop, operation.stage, elapsed, policies.time_limit(choices.timeout, units))


def poll(now: Hierarchy, rid: RequestId) -> tuple[Hierarchy, bool]:
    """Whether the request need not wait any more; if so, what was read is committed."""
    operation = find(now, rid)
    if operation is None:
        return now, True
    if operation.since is None:
        operation = operation._replace(since=now.now)
        now = change(now, operation)
    if not may_stop(now, operation):
        return now, False
    return commit(now, operation), True


def told(now: Hierarchy, rid: RequestId) -> tuple[Hierarchy, Tokens]:
    """How many units a request's prefetch has added to the cache; told once, then 0."""
    loaded = dict(now.loaded)
    units = loaded.pop(rid, Tokens(0))
    return now._replace(loaded=loaded), units


def abandon(now: Hierarchy, rid: RequestId) -> Hierarchy:
    """The request is aborted: nothing of its prefetch is cached, and nothing is told of it."""
    now, _ = told(now, rid)
    operation = find(now, rid)
    if operation is None:
        return now
    return leave(release(now, operation.held[: operation.completed]), operation)


def leave(now: Hierarchy, operation: Operation) -> Hierarchy:
    """No request waits for the operation any more; its completed pages are at home elsewhere.

    Anchor and quota are free at once.  What storage or a thread still works on stays held until that work ends.
    """
    now = pin(now, [operation.anchor], -1)
    if operation.stage != ENDED:
        return change(now, operation._replace(live=False, held=operation.held[operation.completed :]))
    return drop(now, operation)


# -- the commit -------------------------------------------------------------------------------------------


def commit(now: Hierarchy, operation: Operation) -> Hierarchy:
    """Cache the pages that were read, below the anchor; the operation is over for its request.

    Pages that were cached meanwhile stay as they are, and those brought in vain are freed, unless the choice is to
    fill what is on the device alone (``fill_matched``).  Below a page without a host copy nothing can be attached,
    except under write-back: what was read for there is released.
    """
    names, pages = operation.names[: operation.completed], operation.held[: operation.completed]
    now, _ = told(now, operation.rid)
    if names:
        there, behind = tier.known_prefix(now, names)
        already = there + behind
        now = now._replace(cache=now.cache._replace(tree=effects.touch(now.cache.tree, names[:there])))
        now = tier.use_alone(now, names[there:already])
        now = tier.cut(now, names[already - 1] if already else operation.anchor)
        now = fill(now, names[:already], pages[:already])
        now, added = attach(now, operation.anchor, names, pages, Pages(already))
        if added:
            units = Tokens(added * now.host.pool.page_size)
            now = now._replace(loaded={**now.loaded, operation.rid: units})
    return leave(now, operation)


def fill(now: Hierarchy, names: Sequence[Name], pages: Sequence[PageNo]) -> Hierarchy:
    """Deal with what was read of pages that are cached already: a host copy for those that lack one, or nothing."""
    bare = [now.choices.fill_matched and name not in now.host.copies for name in names]
    filled = [(name, page) for name, page, lacks in zip(names, pages, bare, strict=True) if lacks]
    for name, page in filled:
        now = tier.back(now, [name], [page], settled=True, stored=True)
    return tier.free(now, [page for page, lacks in zip(pages, bare, strict=True) if not lacks])


def attach(
    now: Hierarchy, anchor: Name, names: Sequence[Name], pages: Sequence[PageNo], already: Pages
) -> tuple[Hierarchy, Pages]:
    """Cache what is new on the host, where it can be; returns how many pages that were."""
    new = names[already:]
    above = names[already - 1] if already else anchor
    resident, alone = now.cache.tree.pages, dict(now.host.alone)
    if not new:
        return now, NO_PAGES
    if above in resident and above not in now.host.copies and now.choices.write != WRITE_BACK:
        return release(now, pages[already:]), NO_PAGES
    tick = now.cache.tree.clock
    parent = resident.get(above) or alone.get(above)
    priority = parent.priority if parent else 0
    for name in new:
        alone[name] = Page(above, NOWHERE, tick, tick, 0, priority, 0, name == new[0])
        above = name
    now = now._replace(host=now.host._replace(alone=alone))
    return tier.back(now, new, pages[already:], settled=True, stored=True), Pages(len(new))


# -- storage's side ---------------------------------------------------------------------------------------


def answer(now: Hierarchy, job: int, hit: Pages) -> Hierarchy:
    """Storage has told how many of the first pages of a query it has."""
    operation = of_job(now, job)
    if not operation.live:
        return drop(release(now, operation.held), operation)
    operation = operation._replace(hit=Pages(min(hit, len(operation.names))))
    if now.choices.reserve == "hit":
        return change(now, operation._replace(stage=ANSWERED))
    return begin_fetch(now, operation)


def begin_fetch(now: Hierarchy, operation: Operation) -> Hierarchy:
    """Read what storage has, as far as there is memory for it; too little isn't worth a read, and is revoked."""
    size, hit = now.host.pool.page_size, operation.hit or NO_PAGES
    if hit * size < max(now.choices.threshold, size):
        now = release(now, operation.held)
        return change(now, operation._replace(stage=REVOKED, held=()))
    now = release(now, operation.held[hit:])
    serial = now.serial + 1
    fetching = operation._replace(job=serial, stage=FETCH, held=operation.held[:hit], names=operation.names[:hit])
    return change(now._replace(serial=serial), fetching, before=operation)


def read(now: Hierarchy, job: int, pages: int, *, over: bool) -> Hierarchy:
    """The contents of ``pages`` more pages of a fetch are on the host; ``over``: nothing more will come."""
    operation = of_job(now, job)
    if not operation.live:
        return drop(release(now, operation.held), operation)
    completed = Pages(operation.completed + pages)
    operation = operation._replace(completed=completed)
    if over or completed == operation.hit:
        now = release(now, operation.held[completed:])
        operation = operation._replace(stage=ENDED, held=operation.held[:completed])
    return change(now, operation)


def settle(now: Hierarchy) -> Hierarchy:
    """What a tick does for prefetches: it ends the revoked ones, and takes memory for those that were answered."""
    for operation in now.operations:
        if operation.stage == ANSWERED and operation.live:
            now = take_memory(now, operation)
    for operation in now.operations:
        if operation.stage in (ANSWERED, REVOKED):
            now = pin(now, [operation.anchor], -1) if operation.live else now
            now = drop(now, operation)
    return now


def take_memory(now: Hierarchy, operation: Operation) -> Hierarchy:
    """Memory for what storage has, truncated to what is available; where that isn't worth a read, it is revoked."""
    size = now.host.pool.page_size
    hit = (operation.hit or NO_PAGES) * size
    now, held = reserve(now, PrefetchAsk(hit, size, now.choices.threshold), operation.anchor)
    if held:
        now = pin(now, [operation.anchor], -1)
    return begin_fetch(now, operation._replace(hit=Pages(len(held)), held=held))


def end_all(now: Hierarchy) -> Hierarchy:
    """Storage is gone: every prefetch ends, and what it held is released."""
    for operation in now.operations:
        now = release(now, operation.held)
        if operation.live:
            now = pin(now, [operation.anchor], -1)
    return now._replace(operations=())


# -- small steps ------------------------------------------------------------------------------------------


def of_job(now: Hierarchy, job: int) -> Operation:
    """The operation whose query or fetch this is; raises ``KeyError`` when there is none."""
    for operation in now.operations:
        if operation.job == job and operation.stage in (QUERY, FETCH):
            return operation
    raise KeyError(job)


def release(now: Hierarchy, pages: Sequence[PageNo]) -> Hierarchy:
    """Put host pages into the queue that the next tick frees."""
    return now._replace(release=(*now.release, *pages))


def change(now: Hierarchy, operation: Operation, before: Operation | None = None) -> Hierarchy:
    """The operation is now like this; ``before`` where its job has changed, too."""
    job = (before or operation).job
    return now._replace(operations=tuple([operation if one.job == job else one for one in now.operations]))


def drop(now: Hierarchy, operation: Operation) -> Hierarchy:
    """The operation is no more."""
    return now._replace(operations=tuple([one for one in now.operations if one.job != operation.job]))
