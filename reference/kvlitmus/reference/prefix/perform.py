"""What a correct cache does when it is called: it chooses, answers, and goes on.

What a call and its answer amount to is said in :mod:`kvlitmus.spec.prefix.advance`, for every cache.  Here is what is
left to the cache: whether there is memory enough, which free pages it hands out, and what it evicts to make room.

:func:`perform` makes these choices itself, or is **given the choice** that another cache was seen to make
(:func:`~kvlitmus.reference.prefix.chosen.choice_of`); see :mod:`kvlitmus.reference.prefix.choose` for both.  Its
answer, and the state after it, are then what that cache has to answer and to be.

A hierarchy does on its device what a flat cache does.  What follows below it is at the end: who makes room, pages that
come back, backups that are due, and the calls of the tiers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from kvlitmus.reference.prefix import backup, fetch, life, load, put, rows, table, tier
from kvlitmus.reference.prefix.choose import (
    NO_CHOICE,
    Choice,
    Decision,
    Names,
    available,
    ends_at_nodes,
    free_pages,
    freed_by,
    hand_out,
    in_order,
    inside_of,
    least_valuable,
    leaves_too_few,
    refuse,
    room_for,
    sizes,
)
from kvlitmus.reference.prefix.chosen import MAKES_ROOM, choice_of, dropped, lets_go
from kvlitmus.reference.prefix.hierarchy import lock as lock_path
from kvlitmus.reference.prefix.hierarchy import works_of
from kvlitmus.reference.prefix.pool import slots_of, whole_pages
from kvlitmus.spec.interface import Begun, Hit, Stored
from kvlitmus.spec.interface.tiers import DONE, FETCH, LOAD, PUT, QUERY, Outcome
from kvlitmus.spec.law.step import Step
from kvlitmus.spec.prefix import calls, effects, work_calls
from kvlitmus.spec.prefix.advance import (
    computed_pages,
    copied_pages,
    duplicate_pages,
    expect,
    offered_by_request,
    opened_needed_by,
)
from kvlitmus.spec.prefix.late_locks import still_locked
from kvlitmus.spec.prefix.own_work import Transfer
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.release import queued, waiting_in, without
from kvlitmus.spec.prefix.rules.order import needless_victims
from kvlitmus.spec.prefix.spare_pages import spares_taken
from kvlitmus.spec.prefix.state import RequestState, State, Tier
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.limits import beyond_vocabulary
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo, Pages, RequestId, Slot, Tokens, pages_needed

__all__ = [
    "DECIDE",
    "MAKES_ROOM",
    "NO_CHOICE",
    "Choice",
    "available",
    "choice_of",
    "free_pages",
    "hand_out",
    "in_order",
    "least_valuable",
    "perform",
    "sizes",
]

Slots = tuple[Slot, ...]


def perform(state: State, setting: Setting, call: PlainCall, choice: Choice | None = None) -> Step[State]:
    """The step that a correct cache makes in this state when it is called.

    Raises ``ValueError`` for a call that the contract doesn't allow (pages that aren't the caller's, a receipt that was
    given back, a request that runs already, a size that is no multiple of the page size), and for a choice that isn't
    legal.
    """
    choice = choice or NO_CHOICE
    if state.works is not None:
        after, answer = perform_tiered(state, setting, call, choice)
        return Step(call, answer, state, after)
    if choice.victims and not lets_go(call, setting):
        refuse(f"a {type(call).__name__} evicts nothing (got {choice.victims})")
    return flat(state, setting, call, choice)


def flat(state: State, setting: Setting, call: PlainCall, choice: Choice = NO_CHOICE) -> Step[State]:
    """The step of a flat cache, or what a call does on the device of a hierarchy."""
    takes = setting.reclaims and isinstance(call, calls.TAKING)
    known = state._replace(leaving=()) if takes else state
    if setting.unlock_delay:
        known = known._replace(device=still_locked(known, choice.victims or ()))
    answer, victims = DECIDE[type(call)](known, setting, call, choice)
    after = expect(state, setting, call, answer)
    if setting.spare_pages:
        after = spares_taken(after, choice.spare)
    if setting.table:
        return Step(call, answer, state, table.after(state, after, choice))
    if victims:
        after = after._replace(device=effects.remove(after.device, frozenset(victims)))
    if setting.filters_in_sight:
        after = queued(state, after, setting, call)
    if takes or after.leaving != state.leaving:  # only who gives something back, or reclaims it, looks at the queue
        after = without(after, waiting_in(after).difference(choice.waiting))
    return Step(call, answer, state, after)


# The pool


def alloc(state: State, setting: Setting, call: calls.Alloc[Tokens], choice: Choice) -> Decision:
    """Whole pages, all or none (POOL-01, POOL-07, POOL-08)."""
    size = setting.size
    if call.asked < 0 or (call.asked % size and setting.profile.align == "reject"):
        raise ValueError(f"asked must be a multiple of {size} and not negative (got {call.asked})", call.asked)
    pages, victims = granted(pages_needed(call.asked, size), state, setting, choice)
    return Decision(None if pages is None else slots_of(pages, size), victims)


def granted(wanted: int, state: State, setting: Setting, choice: Choice) -> tuple[tuple[PageNo, ...] | None, Names]:
    """So many pages, all or none, and what is evicted for them.

    Only where the profile says so does an allocation evict, and then nothing unless that is enough (POOL-20).
    """
    free, victims = free_pages(state, setting), Names()
    if setting.profile.evict_moment == "alloc":
        victims = room_for(wanted, state.device, free, setting, choice)
    elif choice.victims:
        refuse(f"an allocation evicts nothing (got {choice.victims})")
    pages = hand_out(free | freed_by(state.device, victims), wanted, choice.pages)
    return pages, () if pages is None else victims


def extend(state: State, setting: Setting, call: calls.Extend, choice: Choice) -> Decision:
    """The last page is filled first, then whole new pages are opened, no more than needed (POOL-17, POOL-18)."""
    pages, victims = granted(opened_needed_by(call, setting), state, setting, choice)
    if pages is None:
        return Decision(None)
    return Decision(lengthened(call.row, call.asked, pages, setting.size), victims)


def lengthened(row: Sequence[Slot], further: int, pages: Sequence[PageNo], size: int) -> Slots:
    """The slots of further tokens behind a row: the rest of its last page, then the pages opened (POOL-17)."""
    room = min(further, -len(row) % size)
    rest = tuple([Slot(row[-1] + 1 + at) for at in range(room)])
    return rest + slots_of(pages, size)[: further - room]


def free(
    state: State, setting: Setting, call: calls.Free[Slots] | calls.FreeInGroup | calls.EndGroup, _: Choice
) -> Decision:
    """Taken back is what is owned, in whole pages, each once (POOL-09, POOL-10; MISUSE-01, MISUSE-03, MISUSE-04)."""
    pages = whole_pages(call.slots, setting.size)
    if len(set(pages)) < len(pages):
        raise ValueError(f"a page is named twice in {sorted(pages)}", pages)
    strange = sorted(set(pages) - setting.usable)
    if strange:
        raise ValueError(f"pages {strange} are not the pool's", pages)
    unowned = sorted(page for page in pages if page not in state.owners)
    if unowned:
        raise ValueError(f"pages {unowned} are nobody's to give back", pages)
    return Decision(None)


def nothing(state: State, setting: Setting, call: object, choice: Choice) -> Decision:
    """Nothing to decide, nothing to say."""
    return Decision(None)


# The tree


def cached_part(state: State, setting: Setting, path: calls.Path) -> Names:
    """The cached pages that a match covers at most, as far as the profile lets it (TREE-02, TREE-10)."""
    most = setting.cap(len(path.names)) // setting.size
    return path.pages[: effects.cached_prefix(state.device, path.pages[:most])]


def find(state: State, setting: Setting, path: calls.Path, choice: Choice) -> tuple[PageNo, ...]:
    """Where the cached prefix of a key is, page by page (TREE-02, TREE-03).

    Where matches end at nodes, a node that the key leaves in its middle is left out, unless the choice is another.  Of
    several places of a page it is the lowest, or the chosen one.
    """
    covered = cached_part(state, setting, path)
    if setting.table:
        return table.find(state, covered, choice)
    if setting.expires:
        covered = tuple(takewhile(lambda name: name not in (choice.victims or ()), covered))
    if ends_at_nodes(setting):
        covered = covered[: least_found(state, setting, path, covered, choice)]
    return tuple([state.device.pages[name].page for name in covered])


def least_found(state: State, setting: Setting, path: calls.Path, covered: Names, choice: Choice) -> int:
    """How many of these cached pages are found where matches end at nodes: those of whole nodes, unless chosen."""
    whole = path.pages[: effects.cached_prefix(state.device, path.pages)]
    least = min(len(covered), effects.whole_nodes(state.device, whole))
    if choice.found is None:
        return least
    if not least <= len(choice.found) <= len(covered):
        refuse(f"between {least} and {len(covered)} pages are found, not {len(choice.found)}")
    return len(choice.found)


def match(state: State, setting: Setting, call: calls.Match, choice: Choice) -> Decision:
    """The longest cached prefix, where it is, and its last page as the handle for a lock."""
    found = find(state, setting, call.path, choice)
    slots = slots_of(found, setting.size) + inside_of(state, setting, call, len(found), choice)
    gone = in_order(state.device, choice.victims, setting) if setting.expires and choice.victims else ()
    return Decision(Hit(len(slots), slots, call.path.end(len(found))), gone)


def insert(state: State, setting: Setting, call: calls.Insert[Slots], _: Choice) -> Decision:
    """How much was cached before, and what the caller has to free of what it brought (TREE-09, TREE-11, TREE-12)."""
    size, paged = setting.size, call.path.pages
    if why := beyond_vocabulary(setting.profile, call.path.key.tokens):
        raise ValueError(why)
    if len(call.slots) < len(paged) * size:
        raise ValueError(f"expected {len(paged) * size} slots, got {len(call.slots)}", call.slots)
    offered = whole_pages(call.slots[: len(paged) * size], size)
    if len(set(offered)) < len(offered):
        raise ValueError(f"a page is named twice in {offered}", offered)
    cached = [state.device.pages[name].page if name in state.device.pages else None for name in paged]
    strange = [page for page, own in zip(offered, cached, strict=True) if page != own and page not in state.owners]
    if strange:
        raise ValueError(f"pages {strange} are nobody's to cache", strange)
    already = effects.cached_prefix(state.device, paged)
    to_free = duplicate_pages(state, setting, call, already) if setting.profile.duplicates == "caller_frees" else []
    return Decision(Stored(already * size, slots_of(to_free, size)))


def lock(state: State, setting: Setting, call: calls.Lock, _: Choice) -> Decision:
    """The receipt is the caller's number for it."""
    return Decision(call.receipt)


def unlock(state: State, setting: Setting, call: calls.Unlock, _: Choice) -> Decision:
    """A receipt is worth one unlock, once (LOCK-04, MISUSE-06)."""
    if call.receipt not in state.receipts:
        raise ValueError(f"receipt {call.receipt} was given back already", call.receipt)
    return Decision(None)


def evict(state: State, setting: Setting, call: calls.Evict[Tokens], choice: Choice) -> Decision:
    """At least what was asked for, if there is so much, and nothing after that (EVICT-01, EVICT-02, EVICT-06)."""
    tree, size = state.device, setting.size
    wanted = pages_needed(call.asked, size)
    if choice.victims is None:
        victims = least_valuable(tree, wanted, setting)
    else:
        victims = in_order(tree, choice.victims, setting)
        evictable = sum(1 for page in tree.pages.values() if not page.locks)
        if len(victims) < min(wanted, evictable) or needless(tree, victims, call.asked, setting):
            refuse(f"expected {wanted} pages to be evicted, got {sorted(victims)}")
    return Decision(len(victims) * size, victims)


def needless(tree: Tier, victims: Names, asked: int, setting: Setting) -> bool:
    """Whether fewer victims would have been enough, or fewer batches of them."""
    most = setting.in_batches(pages_needed(asked, setting.size)) * setting.size
    granularity = setting.profile.evict_granularity
    return bool(needless_victims(effects.nodes(tree), victims, most, setting.size, granularity))


# Requests


def begin(state: State, setting: Setting, call: calls.Begin, choice: Choice) -> Decision:
    """The cached prefix, and own slots for the rest (REQ-01); or nothing without memory (REQ-10).

    The cached prefix is locked *before* room is made, so that making room can't take it.
    """
    if call.rid in state.requests:
        raise ValueError(f"request {call.rid} is running already", call.rid)
    size, tokens, unused = setting.size, len(call.path.key.tokens), free_pages(state, setting)
    found = find(state, setting, call.path, choice)
    if setting.table:
        unused = unused.difference(found)
    protected = effects.lock(expect(state, setting, call, None).device, call.path.end(len(found)))
    wanted = pages_needed(tokens, size) - len(found)
    victims = room_for(wanted, protected, unused, setting, choice)
    unused |= freed_by(state.device, victims)
    if choice.declined and leaves_too_few(protected, victims, len(unused) - wanted, setting):
        return Decision(None, victims)
    own = hand_out(unused, wanted, choice.pages)
    if own is None:
        return Decision(None, victims)
    row = slots_of(found, size) + slots_of(own, size)
    inside = len(inside_of(state, setting, call, len(found), choice))
    return Decision(Begun(row[:tokens], len(found) * size + inside), victims)


def grow(state: State, setting: Setting, call: calls.Grow, choice: Choice) -> Decision:
    """Slots for further tokens, the last page filled first (POOL-17); without memory nothing (REQ-10)."""
    row, unused, wanted = state.requests[call.rid].row, free_pages(state, setting), opened_by(state, setting, call)
    victims = room_for(wanted, state.device, unused, setting, choice)
    unused |= freed_by(state.device, victims) | state.requests[call.rid].spare
    own = hand_out(unused, wanted, choice.pages)
    if choice.declined and wanted + setting.spare_pages > len(unused):
        own = None
    return Decision(None if own is None else lengthened(row, call.tokens, own, setting.size), victims)


def opened_by(state: State, setting: Setting, call: calls.Grow) -> int:
    """How many pages further tokens of a request need beyond its last page."""
    return opened_needed_by(calls.Extend(state.requests[call.rid].row, call.tokens), setting)


def publish(state: State, setting: Setting, call: calls.Publish, choice: Choice) -> Decision:
    """The request goes on in the tree's slots: its own pages, and those that another request cached first (REQ-03).

    In a block table its own pages are where they were.
    """
    running, tree, size = state.requests[call.rid], state.device, setting.size
    paged = computed(running, setting, call.upto)
    paged = paged[: admitted(tree, paged, setting, choice)]
    if setting.table:
        return Decision(Begun(running.row, len(paged) * size))
    gone = in_order(tree, choice.victims, setting) if setting.expires and choice.victims else ()
    own = offered_by_request(running, setting, paged)
    pages = [tree.pages[name].page if name in tree.pages else page for name, page in zip(paged, own, strict=True)]
    kept = len(paged) * size
    return Decision(Begun(slots_of(pages, size) + running.row[kept:], kept), gone)


def end(state: State, setting: Setting, call: calls.End, choice: Choice) -> Decision:
    """Nothing to say: what becomes of its pages is no choice (REQ-07, TREE-08, REQ-09), but for a filter's."""
    paged = computed(state.requests[call.rid], setting, call.upto)
    return Decision(None, paged[admitted(state.device, paged, setting, choice) :] if call.keep else ())


def admitted(tree: Tier, paged: Names, setting: Setting, choice: Choice) -> int:
    """How many of these pages of a request are cached from now on: all, unless a filter ends them behind what is."""
    if not setting.filters or choice.kept is None:
        return len(paged)
    if not effects.cached_prefix(tree, paged) <= choice.kept <= len(paged):
        refuse(f"{choice.kept} pages of {len(paged)} are cached")
    return choice.kept


def computed(running: RequestState, setting: Setting, upto: int | None) -> Names:
    """The whole pages of a request that are computed.

    Raises ``ValueError`` when ``upto`` is less than what is cached, or more than the request has (REQ-04, REQ-13).
    """
    if upto is not None and not running.cached <= upto <= len(running.row):
        raise ValueError(f"computed are between {running.cached} and {len(running.row)} units (got {upto})", upto)
    return computed_pages(running, setting, upto)


DECIDE: dict[type, Callable[..., Decision]] = {
    calls.Alloc: alloc,
    calls.Extend: extend,
    calls.Free: free,
    calls.FreeInGroup: free,
    calls.EndGroup: free,
    calls.Reset: nothing,
    calls.Flush: rows.flush,
    calls.Match: match,
    calls.Insert: insert,
    calls.Lock: lock,
    calls.Unlock: unlock,
    calls.Evict: evict,
    calls.Begin: begin,
    calls.Grow: grow,
    calls.TakeBack: rows.take_back,
    calls.Fork: rows.copied,
    calls.Retract: rows.retract,
    calls.Resume: rows.copied,
    calls.Discard: rows.discard,
    calls.Compute: nothing,
    calls.Publish: publish,
    calls.End: end,
}
"""How each call is decided."""


# Hierarchies


def perform_tiered(state: State, setting: Setting, call: PlainCall, choice: Choice) -> tuple[State, Any]:
    """The state after a call on a hierarchy, and its answer.

    What leaves the host must be what was chosen.
    """
    goes: Callable[..., tuple[State, Any]] = BELOW.get(type(call), on_device)
    after, answer = goes(state, setting, call, choice)
    if choice.released is not None:
        after = fetch.given_back(state, after, choice.released)
    if choice.host_victims is not None:
        before = {*state.device.pages, *state.host.pages}
        copies, left = ({name: copy.page for name, copy in one.host.pages.items()} for one in (state, after))
        gone = dropped(before, {*after.device.pages, *after.host.pages}, copies, left, setting)
        if gone != tuple(sorted(choice.host_victims)):
            refuse(f"{list(gone)} leave the host, not {sorted(choice.host_victims)}")
    return after, answer


def on_device(state: State, setting: Setting, call: PlainCall, choice: Choice) -> tuple[State, Any]:
    """A call that concerns the device alone."""
    step = flat(state, setting, call, choice)
    return step.after, step.answer


def match_tiers(state: State, setting: Setting, call: calls.Match, choice: Choice) -> tuple[State, Hit]:
    """The longest cached prefix on both tiers; slots are those on the device."""
    covered = cached_part(state, setting, call.path)
    state, _, behind = tier.match(state, setting, call.path.pages, len(call.path.names))
    slots = slots_of([state.device.pages[name].page for name in covered], setting.size)
    return state, Hit(len(slots), slots, call.path.end(len(covered)), behind * setting.size)


def evict_tiers(state: State, setting: Setting, call: calls.Evict[Tokens], choice: Choice) -> tuple[State, int]:
    """Make room on the device: enough, if that can be, and nothing after that."""
    wanted = pages_needed(call.asked, setting.size)
    after, victims = tier.evict(state, setting, wanted, choice)
    if choice.victims is not None and needless(state.device, victims, call.asked, setting):
        refuse(f"expected {wanted} pages to be evicted, got {sorted(victims)}")
    return after, len(victims) * setting.size


def begin_tiers(state: State, setting: Setting, call: calls.Begin, choice: Choice) -> tuple[State, Begun | None]:
    """Start a request.

    What has to be evicted for it depends on what is matched and locked, so that is looked at first; then the flat
    call is made on a device without these pages.
    """
    size, path = setting.size, call.path
    matched, there, _ = tier.match(state, setting, path.pages, len(path.names))
    wanted = pages_needed(len(path.key.tokens), size) - there
    roomy = load.room(lock_path(matched, path.end(there)), setting, wanted, choice)
    after, answer = in_room(state, roomy, setting, call, choice)
    if answer is None and setting.profile.refused_begin == "keeps":
        roomy = load.room(lock_path(state, path.end(there)), setting, wanted, choice)
        return in_room(state, roomy, setting, call, choice)
    return after, answer


def grow_tiers(state: State, setting: Setting, call: calls.Grow, choice: Choice) -> tuple[State, Slots | None]:
    """Slots for further tokens of a request."""
    return in_room(state, load.room(state, setting, opened_by(state, setting, call), choice), setting, call, choice)


def copied_tiers(
    state: State, setting: Setting, call: calls.Fork | calls.Resume, choice: Choice
) -> tuple[State, Begun | None]:
    """A request over the row of another one, or over its own when it comes back."""
    roomy = load.room(state, setting, copied_pages(state, setting, call), choice)
    return in_room(state, roomy, setting, call, choice)


def in_room(
    state: State,
    roomy: State,
    setting: Setting,
    call: calls.Begin | calls.Grow | calls.Fork | calls.Resume,
    choice: Choice,
) -> tuple[State, Any]:
    """Make a flat call that needs no more room: below the device it is as in ``roomy``, which lacks the victims."""
    victims = state.device.pages.keys() - roomy.device.pages.keys()
    left = state._replace(device=effects.remove(state.device, victims))
    own = Choice((), choice.pages, declined=choice.declined, waiting=choice.waiting)
    step = flat(left, setting, call, own)
    return step.after._replace(tiers=roomy.tiers, host=roomy.host, works=roomy.works), step.answer


def insert_tiers(
    state: State, setting: Setting, call: calls.Insert[Slots] | calls.Publish | calls.End, choice: Choice
) -> tuple[State, Any]:
    """What an insert brings back to the device is on the host alone no more; what it uses is due for backup."""
    if isinstance(call, calls.Insert):
        names, chunked = call.path.pages, call.chunked
    else:
        names = computed_pages(state.requests[call.rid], setting, call.upto)
        chunked = isinstance(call, calls.Publish) and call.chunked
    after, answer = on_device(state, setting, call, choice)
    if isinstance(call, calls.End) and not call.keep:
        return after, answer
    if setting.filters:
        names = names[: effects.cached_prefix(after.device, names)]
    after = tier.adopt(state, after, setting, names)
    return (after if chunked and not choice.chunks else backup.used(after, setting, names, choice)), answer


def evict_host(state: State, setting: Setting, call: work_calls.EvictHost[int], choice: Choice) -> tuple[State, int]:
    """Make room on the host."""
    state, freed = tier.evict_host(state, setting, pages_needed(call.asked, setting.size), choice)
    return state, freed * setting.size


def tell_loaded(state: State, setting: Setting, call: work_calls.TellLoaded, choice: Choice) -> tuple[State, int]:
    """What the prefetch of a request has added."""
    return fetch.told(state, RequestId(call.rid), choice)


def advance(state: State, setting: Setting, call: work_calls.Advance, choice: Choice) -> tuple[State, None]:
    """A job goes on; raises ``ValueError`` where there is none of this number, or where it is over."""
    works, outcome = works_of(state), choice.outcome or call.outcome
    for copy in works.transfers:
        if copy.id == call.job and not copy.landed and copy.kind == PUT:
            pages, over = steps_of(outcome, len(copy.names) - copy.done)
            return put.accepted(state, copy, pages, over=over), None
        if copy.id == call.job and not copy.landed:
            return copied(state, copy, outcome), None
    for one in works.operations:
        if one.job == call.job and one.stage == QUERY:
            hit = 0 if outcome.how == "fail" else outcome.pages if outcome.how == "short" else len(one.names)
            return fetch.answer(state, setting, call.job, Pages(hit), choice), None
        if one.job == call.job and one.stage == FETCH:
            pages, over = steps_of(outcome, len(one.names) - one.completed if one.live else 0)
            return fetch.read(state, call.job, pages, over=over), None
    raise ValueError(f"job {call.job} can't go on: it is over, or there is none", call.job)


def copied(state: State, copy: Transfer, outcome: Outcome) -> State:
    """A copy between the tiers goes on."""
    if outcome.how == "fail":
        return backup.fail(state, copy)
    if copy.kind == LOAD:
        return load.copy_layers(state, copy, outcome.pages if outcome.how == "part" else load.LAYERS)
    return backup.land(state, copy)


def steps_of(outcome: Outcome, left: int) -> tuple[int, bool]:
    """For how many of the pages that are ``left`` a read or a put goes on, and whether it ends there in any case."""
    if outcome == DONE:
        return left, False
    return min(outcome.pages, left), outcome.how != "part"


def set_clock(state: State, setting: Setting, call: work_calls.SetClock, _: Choice) -> tuple[State, None]:
    """Time passes."""
    return state._replace(tiers=tiers_of(state)._replace(clock=call.seconds)), None


def fail_host_alloc(state: State, setting: Setting, call: work_calls.FailHostAlloc, _: Choice) -> tuple[State, None]:
    """An allocation of host memory is going to fail."""
    return state._replace(works=works_of(state)._replace(fault=call.after)), None


def fail_copy(state: State, setting: Setting, call: work_calls.FailCopy, _: Choice) -> tuple[State, None]:
    """A copy of this kind is going to fail."""
    works = works_of(state)
    return state._replace(works=works._replace(failing={**works.failing, call.kind: call.after})), None


BELOW: dict[type, Callable[..., tuple[State, Any]]] = {
    calls.Match: match_tiers,
    calls.Evict: evict_tiers,
    calls.Begin: begin_tiers,
    calls.Grow: grow_tiers,
    calls.Fork: copied_tiers,
    calls.Resume: copied_tiers,
    calls.Insert: insert_tiers,
    calls.Publish: insert_tiers,
    calls.End: insert_tiers,
    calls.Reset: life.reset,
    work_calls.EvictHost: evict_host,
    work_calls.LoadBack: load.load_back,
    work_calls.Prefetch: fetch.submit,
    work_calls.Poll: fetch.poll,
    work_calls.TellLoaded: tell_loaded,
    work_calls.Abandon: fetch.abandon,
    work_calls.Advance: advance,
    work_calls.Tick: life.tick,
    work_calls.Attach: life.attach,
    work_calls.Detach: life.detach,
    work_calls.SetClock: set_clock,
    work_calls.FailHostAlloc: fail_host_alloc,
    work_calls.FailCopy: fail_copy,
}
"""What each call does to a hierarchy, where that is more than what it does on the device."""
