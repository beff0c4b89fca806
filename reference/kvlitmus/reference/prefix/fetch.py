"""Storage to host: reading ahead while a request waits.

A prefetch is an :class:`~kvlitmus.spec.prefix.own_work.Operation` that goes through the stages of
:mod:`kvlitmus.spec.words.prefetch_life`: ``query``, ``answered``, ``revoked``, ``fetch``, ``ended``.

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

from collections.abc import Iterable, Sequence

from kvlitmus.reference.prefix import tier
from kvlitmus.reference.prefix.choose import NO_CHOICE, Choice, Names, refuse
from kvlitmus.reference.prefix.hierarchy import moving, occupied, pin, record, works_of
from kvlitmus.reference.prefix.pool import slots_of
from kvlitmus.reference.prefix.prefetch import Answer, Call, converse, gate, plan_prefetch
from kvlitmus.spec.interface.plans import PrefetchAsk
from kvlitmus.spec.interface.tiers import Prefetched
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.own_work import Operation
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.prefetch_plan import full_length
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Abandon, Poll, Prefetch
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.prefetch_life import ANSWERED, ENDED, FETCH, QUERY, REVOKED
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Pages, RequestId, Tokens

NO_PAGES = Pages(0)


# -- the request's side -----------------------------------------------------------------------------------


def submit(state: State, setting: Setting, call: Prefetch[int | None], choice: Choice) -> tuple[State, Prefetched]:
    """Match a key, and begin to read what follows; or refuse, and have changed nothing but recency.

    Refused is a second prefetch of one request, one without storage, and one whose last known page has no host copy:
    what would be read could not be attached below it.  Then the gates and the memory, as planned by
    :func:`~kvlitmus.reference.prefix.prefetch.plan_prefetch`.
    """
    attached, size = tiers_of(state).attached, setting.size
    rid, path = RequestId(call.rid), call.path
    if not attached or find(state, rid) is not None:
        return state, Prefetched(False, 0, 0)
    state, there, behind = tier.match_all(state, setting, path.pages)
    known = there + behind
    refused, anchor = Prefetched(False, known * size, 0), path.end(known)
    if known and anchor not in state.host.pages:
        return state, refused
    further, config = path.pages[known:], setting.config
    units = len(path.names) - known * size
    ask = PrefetchAsk(units, size, config.threshold, attached, occupied(state), config.rate_limit)
    held: tuple[PageNo, ...] = ()
    if setting.profile.reserve == "hit":
        asked = full_length(ask) if gate(ask) is None else Tokens(0)
        state = pin(state, [anchor]) if asked else state
    else:
        state, held = reserve(state, setting, ask, anchor, further, choice)
        asked = Tokens(len(held) * size)
    if not asked:
        return state, refused
    works = works_of(state)
    serial = works.serial + 1
    since = policies.time_begins(setting.profile.timeout_from, tiers_of(state).clock, None)
    wanted = further[: asked // size]
    one = Operation(serial, rid, QUERY, anchor, wanted, asked, held, None, NO_PAGES, True, since)
    state = state._replace(works=works._replace(serial=serial, operations=(*works.operations, one)))
    return state, Prefetched(True, known * size, asked, known * size)


def reserve(
    state: State, setting: Setting, ask: PrefetchAsk, anchor: Name, names: Names, choice: Choice
) -> tuple[State, tuple[PageNo, ...]]:
    """Hold the conversation of a plan with this host; the pages for these names that came of it, none when refused."""
    size = setting.size

    def reply(call: Call) -> Answer:
        nonlocal state
        if call.name == "alloc":
            state, pages = tier.allocate(state, names[: call.amount // size], choice)
            return None if pages is None else slots_of(pages, size)
        if call.name == "evict":
            state, evicted = tier.evict_host(state, setting, call.amount // size, choice)
            return evicted * size
        if call.name == "available":
            return len(works_of(state).free) * size
        state = pin(state, [anchor], 1 if call.name == "protect" else -1)
        return None

    plan = converse(plan_prefetch(ask), reply)
    return state, tuple([PageNo(slot // size) for slot in plan.slots[::size]])


def find(state: State, rid: RequestId) -> Operation | None:
    """The operation that a request waits for."""
    return next((one for one in works_of(state).operations if one.live and one.rid == rid), None)


def may_stop(state: State, setting: Setting, operation: Operation) -> bool:
    """Whether the request need not wait any more; before its time has begun, none has passed."""
    profile = setting.profile
    found = None if operation.hit is None else operation.hit * setting.size
    units = policies.counted_units(profile.timeout_basis, operation.asked, found)
    elapsed = 0.0 if operation.since is None else tiers_of(state).clock - operation.since
    limit = policies.time_limit(profile.timeout, units)
    return policies.may_stop(setting.config.stop, operation.stage, elapsed, limit)


def poll(state: State, setting: Setting, call: Poll, _: Choice) -> tuple[State, bool]:
    """Whether the request need not wait any more; if so, what was read is committed."""
    operation = find(state, RequestId(call.rid))
    if operation is None:
        return state, True
    if operation.since is None:
        operation = operation._replace(since=tiers_of(state).clock)
        state = change(state, operation)
    if not may_stop(state, setting, operation):
        return state, False
    return commit(state, setting, operation), True


def told(state: State, rid: RequestId, choice: Choice = NO_CHOICE) -> tuple[State, Tokens]:
    """How many units a request's prefetch has added to the cache; told once, then 0.

    Whether that includes what it gave host copies to, though it was cached already, is a choice.
    """
    works = works_of(state)
    loaded, filled = dict(works.loaded), dict(works.filled)
    least, more = loaded.pop(rid, Tokens(0)), filled.pop(rid, Tokens(0))
    units = least if choice.told is None else choice.told
    if not least <= units <= least + more:
        refuse(f"a prefetch added {least} units, and filled {more} more; {units} were told")
    return state._replace(works=works._replace(loaded=loaded, filled=filled)), units


def abandon(state: State, setting: Setting, call: Abandon, _: Choice) -> tuple[State, None]:
    """The request is aborted: nothing of its prefetch is cached, and nothing is told of it."""
    rid = RequestId(call.rid)
    state = told(state, rid)[0]
    operation = find(state, rid)
    if operation is None:
        return state, None
    completed = operation.completed
    return leave(release(state, operation.held[:completed]), operation, completed), None


def leave(state: State, operation: Operation, known: Pages) -> State:
    """No request waits for the operation any more; the first ``known`` of its pages are at home elsewhere.

    Anchor and quota are free at once.  What storage or a thread still works on stays held until that work ends.
    """
    state, held = pin(state, [operation.anchor], -1), operation.held[known:]
    if operation.stage != ENDED:
        return change(state, operation._replace(live=False, held=held))
    return drop(release(state, held), operation)


# -- the commit -------------------------------------------------------------------------------------------


def commit(state: State, setting: Setting, operation: Operation) -> State:
    """Cache the pages that were read, below the anchor; the operation is over for its request.

    Pages that were cached meanwhile stay as they are, and duplicates are freed, unless the choice is to
    fill what is on the device alone (``fill_matched``).  Below a page without a host copy nothing can be attached,
    except under write-back: what was read for there is released.  Where the profile says that what was read counts from
    the next tick on, nothing else is known of.
    """
    known = operation.counted if setting.profile.commit == "tick" else operation.completed
    names, pages = operation.names[:known], operation.held[:known]
    state, _ = told(state, operation.rid)
    if names:
        there, behind = tier.known_prefix(state, names)
        already = there + behind
        state = state._replace(device=effects.touch(state.device, names[:there]))
        state = tier.use_alone(state, setting, names[there:already])
        state = tier.cut(state, names[already - 1] if already else operation.anchor)
        state, filled = fill(state, setting, names[:already], pages[:already])
        state, added = attach(state, setting, operation.anchor, names, pages, Pages(already))
        works = works_of(state)
        if added:
            works = works._replace(loaded={**works.loaded, operation.rid: Tokens(added * setting.size)})
        if filled:
            works = works._replace(filled={**works.filled, operation.rid: Tokens(filled * setting.size)})
        state = state._replace(works=works)
    return leave(state, operation, known)


def fill(state: State, setting: Setting, names: Names, pages: Sequence[PageNo]) -> tuple[State, Pages]:
    """Deal with what was read of pages that are cached already: a host copy for those that lack one, or nothing.

    Returns how many pages were filled so.
    """
    copies, filled = state.host.pages, 0
    for name, page in zip(names, pages, strict=True):
        if setting.profile.fill_matched and name not in copies:
            state = tier.back(state, [name], [page], settled=True, stored=True)
            filled += 1
        else:
            state = tier.free(state, [page])
    return state, Pages(filled)


def attach(
    state: State, setting: Setting, anchor: Name, names: Names, pages: Sequence[PageNo], already: Pages
) -> tuple[State, Pages]:
    """Cache what is new on the host, where it can be; returns how many pages that were."""
    new = names[already:]
    above = names[already - 1] if already else anchor
    if not new:
        return state, NO_PAGES
    bare = above in state.device.pages and above not in state.host.pages
    if bare and setting.config.write != WRITE_BACK:
        return release(state, pages[already:]), NO_PAGES
    cached = above in state.device.pages or above in state.host.pages
    priority = record(state, above).priority if cached else 0
    host = state.host._replace(clock=state.device.clock)
    state = state._replace(host=effects.place(host, above, new, pages[already:], priority=priority))
    return tier.marked(state, new, settled=True, stored=True), Pages(len(new))


# -- storage's side ---------------------------------------------------------------------------------------


def answer(state: State, setting: Setting, job: int, hit: Pages, choice: Choice = NO_CHOICE) -> State:
    """Storage has told how many of the first pages of a query it has.

    What isn't worth going on is over with the next tick; or at once, where the choice is that.
    """
    operation = of_job(state, job)
    if not operation.live:
        return drop(release(state, operation.held), operation)
    operation = operation._replace(hit=Pages(min(hit, len(operation.names))))
    if setting.profile.reserve == "hit":
        return change(state, operation._replace(stage=ANSWERED))
    state = begin_fetch(state, setting, operation)
    over = [one for one in works_of(state).operations if one.job == job and one.stage == REVOKED]
    return let_go(state, over) if choice.at_once else state


def begin_fetch(state: State, setting: Setting, operation: Operation) -> State:
    """Read what storage has, as far as there is memory for it; too little isn't worth a read, and is revoked."""
    size, hit = setting.size, operation.hit or NO_PAGES
    if hit * size < max(setting.config.threshold, size):
        state = release(state, operation.held)
        return change(state, operation._replace(stage=REVOKED, held=()))
    state = release(state, operation.held[hit:])
    works = works_of(state)
    serial = works.serial + 1
    fetching = operation._replace(job=serial, stage=FETCH, held=operation.held[:hit], names=operation.names[:hit])
    return change(state._replace(works=works._replace(serial=serial)), fetching, before=operation)


def read(state: State, job: int, pages: int, *, over: bool) -> State:
    """The contents of ``pages`` more pages of a fetch are on the host; ``over``: nothing more will come."""
    operation = of_job(state, job)
    if not operation.live:
        return drop(release(state, operation.held), operation)
    completed = Pages(operation.completed + pages)
    operation = operation._replace(completed=completed)
    if over or completed == operation.hit:
        state = release(state, operation.held[completed:])
        operation = operation._replace(stage=ENDED, held=operation.held[:completed])
    return change(state, operation)


def settle(state: State, setting: Setting, choice: Choice) -> State:
    """What a tick does for prefetches: it ends the revoked ones, and takes memory for those that were answered.

    Where the profile says so, it takes note of what was read, and commits what has ended.
    """
    for operation in noted(state, choice):
        if operation.stage == ANSWERED and operation.live:
            state = take_memory(state, setting, operation, choice)
    state = let_go(state, [one for one in noted(state, choice) if one.stage in (ANSWERED, REVOKED)])
    for operation in works_of(state).operations if setting.profile.commit == "tick" else ():
        if operation.live and operation.stage in (FETCH, ENDED):
            operation = operation._replace(counted=operation.completed)
            state = change(state, operation)
            state = commit(state, setting, operation) if operation.stage == ENDED else state
    return state


def noted(state: State, choice: Choice) -> tuple[Operation, ...]:
    """The operations of which a tick takes note."""
    return tuple([one for one in works_of(state).operations if not (one.live and one.rid in choice.unnoted)])


def let_go(state: State, operations: Iterable[Operation]) -> State:
    """These operations are over, and hold nothing any more; nothing was read."""
    for operation in operations:
        state = pin(state, [operation.anchor], -1) if operation.live else state
        state = drop(state, operation)
    return state


def take_memory(state: State, setting: Setting, operation: Operation, choice: Choice) -> State:
    """Memory for what storage has, truncated to what is available; where that isn't worth a read, it is revoked."""
    size = setting.size
    ask = PrefetchAsk((operation.hit or NO_PAGES) * size, size, setting.config.threshold)
    state, held = reserve(state, setting, ask, operation.anchor, operation.names, choice)
    if held:
        state = pin(state, [operation.anchor], -1)
    return begin_fetch(state, setting, operation._replace(hit=Pages(len(held)), held=held))


def end_all(state: State) -> State:
    """Storage is gone: every prefetch ends, and what it held is released."""
    for operation in works_of(state).operations:
        state = release(state, operation.held)
        if operation.live:
            state = pin(state, [operation.anchor], -1)
    return state._replace(works=works_of(state)._replace(operations=()))


# -- small steps ------------------------------------------------------------------------------------------


def of_job(state: State, job: int) -> Operation:
    """The operation whose query or fetch this is; raises ``KeyError`` when there is none."""
    for operation in works_of(state).operations:
        if operation.job == job and operation.stage in (QUERY, FETCH):
            return operation
    raise KeyError(job)


def release(state: State, pages: Sequence[PageNo]) -> State:
    """Put host pages into the queue that the next tick frees."""
    works = works_of(state)
    return state._replace(works=works._replace(release=(*works.release, *pages)))


def given_back(before: State, after: State, wanted: int) -> State:
    """The state after a call in which ``wanted`` pages in the hands of work became free, whichever those are.

    Of what a call gives back, pages may be free at once instead of waiting in the release queue, or wait there instead.
    """
    works, hands = works_of(after), frozenset(moving(before))
    freed = sorted(hands & works.free)
    if len(freed) > wanted:
        return release(after._replace(works=works._replace(free=works.free.difference(freed[wanted:]))), freed[wanted:])
    more = [page for page in works.release if page in hands][: wanted - len(freed)]
    if len(freed) + len(more) < wanted:
        refuse(f"{wanted} pages of the host became free, and work gave {len(freed) + len(more)} back")
    if not more:
        return after
    left = tuple([page for page in works.release if page not in more])
    return tier.free(after._replace(works=works._replace(release=left)), more)


def change(state: State, operation: Operation, before: Operation | None = None) -> State:
    """The operation is now like this; ``before`` where its job has changed, too."""
    job, works = (before or operation).job, works_of(state)
    operations = tuple([operation if one.job == job else one for one in works.operations])
    return state._replace(works=works._replace(operations=operations))


def drop(state: State, operation: Operation) -> State:
    """The operation is no more."""
    works = works_of(state)
    left = tuple([one for one in works.operations if one.job != operation.job])
    return state._replace(works=works._replace(operations=left))
