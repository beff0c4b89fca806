"""Each rank as a plain cache: what ranks are asked, seen as calls on one cache with a host.

A rank shows which pages it has on its device and its host, the least recently used first, and how many are free.  It
shows no places, nodes or counts of uses, so the facts that are read from these are :data:`HIDDEN`; for the rest it is
judged by the laws of a cache.  An insert is two calls of a plain cache: an allocation that makes room for itself, and an
insert of what that got.

Memory is granted by agreement, so what is free is the least that any rank of the tree has.  Of a call that did not
return on all of them no more is said than that each page of a rank has one home, nor where one of them can't be seen.
Where one has lost what it had, what is found or read is held against what all of them have.

Windows and states are pools of their own, each a plain cache of which no more is seen than what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.interface import Hit, Stored
from kvlitmus.spec.interface import tiers as answers
from kvlitmus.spec.interface.ranks import Ask, Decision, Prefix, RankView
from kvlitmus.spec.interface.tiers import BACKUP, LOAD
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix import work_calls
from kvlitmus.spec.prefix.calls import Alloc, Evict, Insert, Match, Path, path_of
from kvlitmus.spec.prefix.evictable import droppable
from kvlitmus.spec.prefix.partial import SOMEWHERE
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.ranks.calls import RETURNED, RankAsk, RankCall, Together, Views
from kvlitmus.spec.ranks.one_rank import (
    Lift,
    Moment,
    copy_of,
    homes,
    in_common,
    known,
    moment,
    names_of,
    noted,
    of_view,
    seen,
)
from kvlitmus.spec.ranks.state import Agreed, RanksState, decided
from kvlitmus.spec.words.units import Key, Slot, Tokens

Step = Lifted[State, Seen]

EVERY_RANK = "every rank"
"""Where something is that all ranks of a tree have alike."""

# -- calls -------------------------------------------------------------------------------------------


class Told(NamedTuple):
    """A call on one rank: what it was asked, what it decided, and the rank before and after it."""

    lift: Lift
    ask: Ask
    decisions: tuple[Decision, ...]
    was: Moment
    now: Moment

    def named(self, kind: str, of: str) -> tuple[Prefix, ...]:
        """What was decided of this kind."""
        return decided(self.decisions, kind, of) or ()

    @property
    def pages(self) -> list[Prefix]:
        """The pages of the key, from the first one on."""
        return [self.ask.key[:at] for at in range(1, len(self.ask.key) + 1)]

    def path(self, pages: int) -> Path:
        """So many pages of the key, named."""
        return path_of(self.lift.setting.names, Key(None, self.ask.key[:pages]), 1)

    def has_parts(self, pages: int) -> bool:
        """Whether enough is free for the window and the state of a prefetch of so many pages, and nothing has to go for them."""
        world = self.lift.world
        window = world.window if pages >= world.window else 0
        return self.was.window_free >= window and self.was.state_free >= min(1, world.state_slots)

    def step(self, call: object, answer: object, kept: Prefix = ()) -> Step:
        """This call, or a part of it, as a step of a plain cache; ``kept``: the path that it uses.

        Whether a page may go whose copy has ended on every rank, and was not noted, is not said here.
        """
        begun = [
            copy_of(self.lift, kind, page, at)
            for kind, of in ((BACKUP, "write"), (LOAD, "load"))
            for at, page in enumerate(self.named("grant", of))
        ]
        before, after = (seen(self.lift, one, rid=self.ask.rid) for one in (self.was, self.now))
        state, then = known(self.lift, self.was, kept), known(self.lift, self.now, begun=begun)
        expected = known(self.lift, self.was, kept, over=self.was.over) if self.was.over else state
        hides = self.lift.hidden
        released = [name for name, page in state.device.pages.items() if page.locks > expected.device.pages[name].locks]
        if any(name not in after.cached for name in released):
            hides |= {"locked_names"}
        return Lifted("", self.lift.setting, state, expected, then, call, answer, before, after, hides)


def _match(told: Told) -> Iterator[Step]:
    """What is found on the device."""
    found = told.named("match", "device")[0]
    call = Match(told.path(len(told.ask.key)))
    yield told.step(call, Hit(len(found)))


def _evict(told: Told) -> Iterator[Step]:
    """Pages of the device go."""
    freed = len(told.named("victims", "device"))
    yield told.step(Evict(Tokens(told.ask.pages)), freed)


def _insert(told: Told) -> Iterator[Step]:
    """An allocation for what is missing, and an insert of what that got.

    Whether anything goes for it is a choice.  Where there is not room for all of it on every rank, the first pages are
    cached that there is room for, or none.
    """
    lift, (was, now) = told.lift, map(_with_copies, (told.was, told.now))
    there = run_of(told.pages, was.on_device)
    missing = told.pages[there:]
    got = run_of(missing, now.on_device)
    kept = told.ask.key[:there]
    stayed = tuple([page for page in was.on_device if page in now.on_device])
    gone = len(was.on_device) - len(stayed)
    room = was.free + (_evictable(known(lift, was, kept)) if gone else 0)
    between = was._replace(on_device=stayed, free=was.free + gone - got)
    if missing or gone:
        asked = min(len(missing), room) if got else len(missing)
        slots = (Slot(SOMEWHERE),) * got if got or not missing else None
        alloc = told._replace(was=was, now=between).step(Alloc(Tokens(asked)), slots, kept)
        # What the allocation got is nobody's yet.
        yield alloc._replace(before=seen(lift, was, room), hidden=alloc.hidden | {"cached_homes"})
    insert = Insert(told.path(there + got), (Slot(SOMEWHERE),) * (there + got), there)
    yield told._replace(was=between, now=now).step(insert, Stored(there), kept)


def _evictable(state: State) -> int:
    """How many pages of the device may go."""
    return sum(not page.locks for page in state.device.pages.values())


def _with_copies(one: Moment) -> Moment:
    """A moment at which a page has a host copy as soon as that is begun."""
    begun = [page for page in one.writing if page not in one.on_host]
    return one._replace(on_host=(*one.on_host, *dict.fromkeys(begun)))


def _load(told: Told) -> Iterator[Step]:
    """What is on the host alone comes back; nothing is said of a key of which something is coming back already."""
    if any(page in told.was.loading for page in told.pages):
        return
    came = told.named("grant", "load")
    on_device = (*told.now.on_device, *[page for page in came if page not in told.now.on_device])
    call = work_calls.LoadBack(told.path(len(told.ask.key)))
    before = run_of(told.pages, told.was.on_device)
    answer = answers.Loaded(before, (SOMEWHERE,) * len(came) if came else None)
    told = told._replace(now=told.now._replace(on_device=on_device))
    yield told.step(call, answer)


def _prefetch(told: Told) -> Iterator[Step]:
    """Memory of the host is taken for what is not cached: all of it, or what there is room for.

    Where a prefetch begins is a choice, behind what the host has or behind what either tier has.  It counts as asked for
    what follows of the key without a gap, and isn't on the host.  Nothing is said of one that is declined where by one of
    these there is nothing to read, or too little is free for a window or a state.
    """
    lift, was = told.lift, told.was
    granted, pages = told.named("grant", "read"), told.pages
    hosted, either = run_of(pages, was.on_host), run_of(pages, {*was.on_host, *was.on_device})
    start = len(granted[0]) - 1 if granted else hosted
    if not granted and not (either < len(pages) and told.has_parts(len(pages) - start)):
        return
    alone = start == hosted != either  # it looks at the host alone
    own, now = (one._replace(on_device=()) if alone else one for one in (was, told.now))
    spare = droppable(known(lift, was), seen(lift, was), names_of(lift, pages))
    fresh = [page for page in pages[start:] if page not in was.on_host]
    asked = next((at for at, pair in enumerate(zip(granted, fresh, strict=False)) if pair[0] != pair[1]), len(granted))
    step = told._replace(was=own, now=now).step(
        work_calls.Prefetch(told.ask.rid, told.path(len(pages)), None), answers.Prefetched(bool(granted), start, asked)
    )
    if was.host_free + len(spare) < len(pages) - start and (was.on_device or not granted):
        # Whether the host lets go of what the device has, too, is a choice, and so is to begin a prefetch cut short.
        step = step._replace(hidden=step.hidden | {"reservable"})
    if not alone:
        yield step
        return
    # Where the device is left out, a page of the host may hang from one that is left out, too; and one that the device
    # has may be passed over: where a prefetch begins, and what may go, are choices of their own.
    kept = {"choosing"} if any(page in was.on_device for page in was.on_host) else set[str]()
    yield step._replace(hidden=step.hidden | {"homeless"} | kept)
    yield from _other(told)


def _other(told: Told) -> Iterator[Step]:
    """No call of a plain cache that a rank shows enough of: what holds at any time holds after it, unless all begin anew.

    Where nothing has changed that was judged before.
    """
    changed = told.was.view is not told.now.view or told.was.agreed != told.now.agreed
    if changed and decided(told.decisions, "commit", "reset") is None:
        yield told.step(UNKNOWN, UNKNOWN)


SEEN_AS: Mapping[str, Callable[[Told], Iterator[Step]]] = {
    "match": _match,
    "evict": _evict,
    "insert": _insert,
    "load": _load,
    "prefetch": _prefetch,
}
"""What ranks are asked, as calls on a plain cache; the rest is :func:`_other`."""


# -- all ranks ---------------------------------------------------------------------------------------


def lifted(lift: Lift, state: RanksState, call: RankCall, answer: Together | Views, then: RanksState) -> Iterator[Step]:
    """A step of ranks, rank by rank, as steps of plain caches; of ranks that are alike in everything once for all."""
    judged: Sequence[int] = ()
    ended = then.followed and (not isinstance(answer, Together) or all(one.ended == RETURNED for one in answer.traces))
    if isinstance(call, RankAsk) and isinstance(answer, Together) and ended and _seen(state, then, call.ranks):
        yield from _asked(lift, state, call, answer, then)
        judged = call.ranks if _whole(state, call.ranks) and _whole(then, call.ranks) else ()
    yield from _looked_at(lift, state, then, judged, ended=ended)


def _seen(state: RanksState, then: RanksState, members: Sequence[int]) -> bool:
    """Whether these ranks were seen before and after a call."""
    return all(rank < len(known.seen) and known.seen[rank] is not None for known in (state, then) for rank in members)


def _whole(ranks: RanksState, members: Sequence[int]) -> bool:
    """Whether none of these ranks has lost something since all began together."""
    return all(ranks.own[rank].whole for rank in members)


COMMON = ("match", "load", "prefetch")
"""What is judged by what all ranks have, where one has lost something."""


def _asked(lift: Lift, state: RanksState, call: RankAsk, answer: Together, then: RanksState) -> Iterator[Step]:
    """A call on ranks that all returned from."""
    look, all_before, all_after = (
        SEEN_AS.get(call.ask.what, _other),
        moment(state, call.ranks),
        moment(then, call.ranks),
    )
    if not (_whole(state, call.ranks) and _whole(then, call.ranks)):
        if call.ask.what in COMMON:
            decisions = answer.traces[0].decisions
            told = Told(lift, call.ask, decisions, noted(in_common(state, call.ranks), decisions), all_after)
            room = {"load_room", "reservable"}
            for step in look(told):
                yield step._replace(where=EVERY_RANK, then=UNKNOWN, after=UNKNOWN, hidden=step.hidden | room)
        return
    alike: list[tuple[tuple[object, ...], Told, list[int]]] = []
    for one in answer.traces:
        before, after = state.seen[one.rank], then.seen[one.rank]
        mine = (before, after, one.decisions)
        ranks = next((ranks for other, _, ranks in alike if other == mine), None)
        if ranks is None:
            was, now = of_view(all_before, before), of_view(all_after, after)
            alike.append((mine, Told(lift, call.ask, one.decisions, noted(was, one.decisions), now), [one.rank]))
        else:
            ranks.append(one.rank)
    for _, told, ranks in alike:
        where = EVERY_RANK if len(ranks) == len(call.ranks) else f"rank {' and '.join(map(str, ranks))}"
        for step in look(told):
            yield step._replace(where=where)


# -- looks -------------------------------------------------------------------------------------------


def _looked_at(
    lift: Lift, state: RanksState, then: RanksState, judged: Sequence[int], *, ended: bool
) -> Iterator[Step]:
    """How each rank looks after a step, where it looks otherwise than before: its pages, unless they were ``judged`` with a
    call, its windows and its states.  ``ended``: whether the call returned on all ranks, so that one knows what they agreed on.
    """
    for at in range(len(then.world.trees)):
        members = [rank for rank in then.world.tree(at) if then.seen[rank] is not None]
        new = [rank for rank in members if not _as_before(state, then, rank)]
        if not new:
            continue
        shared = moment(then, members)
        if not (ended and _whole(then, members)):
            shared = shared._replace(agreed=Agreed(), counts=False)
        alike: list[tuple[RankView | None, list[int]]] = []
        for rank in new:
            ranks = next((ranks for view, ranks in alike if view == then.seen[rank]), None)
            if ranks is None:
                alike.append((then.seen[rank], [rank]))
            else:
                ranks.append(rank)
        for view, ranks in alike:
            where = EVERY_RANK if len(ranks) == len(then.world.tree(at)) else f"rank {' and '.join(map(str, ranks))}"
            one = of_view(shared, view)
            if ranks[0] not in judged:
                yield Lifted(where, lift.setting, then=known(lift, one), after=seen(lift, one), hidden=lift.hidden)
            if state.seen and _of_parts(state.seen[ranks[0]]) == _of_parts(view):
                continue
            yield from _parts(lift, one, where)


def _as_before(state: RanksState, then: RanksState, rank: int) -> bool:
    """Whether a rank looks as it did, and others occupy as much."""
    if rank >= len(state.seen) or state.own[rank].pinched != then.own[rank].pinched:
        return False
    return state.seen[rank] == then.seen[rank] and state.own[rank].pinched_states == then.own[rank].pinched_states


def _of_parts(view: RankView | None) -> object:
    """What is seen of windows and states."""
    return view and (view.window, view.window_free, view.reading, view.states)


def _parts(lift: Lift, one: Moment, where: str) -> Iterator[Step]:
    """The windows and the states of a rank, each as a pool: how much of it is held, and how much is free."""
    world, view = lift.world, one.view
    read = sum(pages for rid, _, pages in view.reading if one.holds(rid))
    counts = [("windows", world.window_pages, world.window * len(view.window) + read, view.window_free)]
    if view.states is not None:
        held = len(view.states.cached) + sum(one.holds(rid) for rid, _ in view.states.held)
        others = view.states.free - one.state_free
        counts.append(("states", world.state_slots, held + others, one.state_free))
    for part, places, held, free in counts:
        taken, listed, free_set = homes(places, held, free)
        after = Seen(seen=True, listed=listed, free=free_set, cached_listed=[*taken])
        yield Lifted(f"{part} of {where}", lift.parts[part], then=empty_state(), after=after, hidden=lift.hidden)


def run_of(pages: Sequence[Prefix], there: Collection[Prefix]) -> int:
    """How many of the pages are there, from the first one on without a gap."""
    return next((at for at, page in enumerate(pages) if page not in there), len(pages))
