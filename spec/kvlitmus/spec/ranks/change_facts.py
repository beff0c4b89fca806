"""The facts that rules of ranks speak of what came and what went by: what was named, and what is seen.

Each rank is judged by its own words and by its own looks before and after a step, so that all of this is said of ranks
that change alike, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.interface.ranks import Decision, Prefix, RankView
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.ranks.calls import RETURNED, RankAsk, RankCall, RankLocal, RankStart, Together, Trace
from kvlitmus.spec.ranks.facts import PORT, VICTIMS, WITH_PAGES, cached_states, looks_of, some_unseen
from kvlitmus.spec.ranks.state import Fetch, RanksState, decided, fetching, still_restorable

PLACES = ("device", "host", "window", "state")
"""Where something is cached."""

BRINGS = {"device": "load", "host": "write"}
"""By which copies pages come to a tier, as decisions name them."""

ENDED = {"device": "loaded", "host": "wrote"}
"""The same as events name their end."""


class Changed(NamedTuple):
    """A rank, what it did in the call, if it was asked, and how it looked before and after it."""

    rank: int
    trace: Trace | None
    before: RankView | None
    after: RankView | None


@fact(0, ports=PORT)
def ranks_changed(state: RanksState, answer: object, ranks_then: RanksState) -> Sequence[Changed]:
    """How each rank changed; of those of a tree that are alike in everything the first."""
    traces = {one.rank: one for one in answer.traces} if isinstance(answer, Together) else {}
    was, now = looks_of(state), looks_of(ranks_then)
    found: list[Changed] = []
    for at in range(len(ranks_then.world.trees)):
        alike = []
        for rank in ranks_then.world.tree(at):
            trace, before, after = traces.get(rank), was.get(rank), now.get(rank)
            here = rank not in state.own or state.own[rank].alive
            mine = (trace and (trace.decisions, trace.ended), before, after, here)
            if mine not in alike:
                alike.append(mine)
                found.append(Changed(rank, trace, before, after))
    return found


# What is named, and what goes


@fact(0)
def ranks_named(answer: Together) -> bool:
    """Whether some rank names a victim, or something that is cached now."""
    return any(one.prefixes for trace in answer.traces for one in trace.decisions if one.kind in ("commit", VICTIMS))


@fact(0, ports=PORT)
def named_falsely(ranks_changed: Sequence[Changed]) -> Sequence[tuple[int, str, Prefix]] | Unknown:
    """The ranks, each with a place and a prefix named as a victim there that it had not before the call, or has after it,
    though nothing was brought by it; or named in a commit that is not there after it, and was no victim of it either;
    unknown where none is found, and one can't be seen.
    """
    blind, found = False, []
    for rank, trace, before, after in ranks_changed:
        if trace is None or trace.ended != RETURNED:
            continue
        blind = blind or after is None or (before is None and any(one.kind == VICTIMS for one in trace.decisions))
        if after is not None:
            found += [(rank, of, page) for of, page in _commits_kept_from(trace.decisions, after)]
        if before is not None and after is not None:
            for place, had, has in zip(PLACES, _places(before), _places(after), strict=True):
                found += [(rank, place, page) for page in _kept(trace.decisions, place, had, has)]
    return UNKNOWN if blind and not found else found


def _commits_kept_from(decisions: Sequence[Decision], after: RankView) -> Iterator[tuple[str, Prefix]]:
    """What commits name that is not there, each with its kind."""
    for of, there in _cached(after).items():
        again = [place for place in PLACES if place == of or of == "kv" or (place == "host" and of in WITH_PAGES)]
        gone = [page for place in again for page in decided(decisions, VICTIMS, place) or ()]
        named = decided(decisions, "commit", of) or ()
        yield from ((of, page) for page in named if page not in there and page not in gone)


def _kept(
    decisions: Sequence[Decision], place: str, before: Collection[Prefix], after: Collection[Prefix]
) -> list[Prefix]:
    """What is named as a victim, and was not there or is."""
    named = decided(decisions, VICTIMS, place) or ()
    brought = (
        {page for one in decisions if one.kind in ("grant", "commit", "ack") for page in one.prefixes} if named else ()
    )
    return [page for page in named if page not in brought and (page in after or page not in before)]


@fact(0, ports=PORT)
def gone_unnamed(
    state: RanksState, call: RankCall, ranks_then: RanksState, ranks_changed: Sequence[Changed]
) -> Sequence[tuple[int, str, Prefix]] | Unknown:
    """The ranks, each with a place and what was there before the call, is not after it, and was no victim; of what happens
    to one rank alone those of trees of which none is lost; unknown where none is found, and one can't be seen.
    """
    blind, found = False, []
    alone = isinstance(call, RankLocal) and call.event.what not in ("die", "restart")
    whole = [rank for members in _whole_trees(state, ranks_then) for rank in members if alone]
    for rank, trace, before, after in ranks_changed:
        if not (trace.ended == RETURNED if trace is not None else rank in whole):
            continue
        if before is None or after is None:
            blind = True
            continue
        decisions = () if trace is None else trace.decisions
        for place, had, has in zip(PLACES, _places(before), _places(after), strict=True):
            found += [(rank, place, page) for page in _unnamed(decisions, place, had, has)]
    return UNKNOWN if blind and not found else found


def _unnamed(
    decisions: Sequence[Decision], place: str, before: Collection[Prefix], after: Collection[Prefix]
) -> list[Prefix]:
    """What went, and was no victim, unless all began anew."""
    gone = [page for page in before if page not in after]
    if not gone or decided(decisions, "commit", "reset") is not None:
        return []
    named = set(decided(decisions, VICTIMS, place) or ())
    with_page = () if place in ("device", "host") else (decided(decisions, VICTIMS, "host") or ())
    return [page for page in gone if page not in named and page not in with_page]


def _places(view: RankView) -> tuple[Collection[Prefix], ...]:
    """What is cached, place by place, as :data:`PLACES` names them."""
    return view.device, view.host, view.window, cached_states(view)


# What comes


@fact(0, ports=PORT)
def pages_come(
    state: RanksState, call: RankCall, ranks_changed: Sequence[Changed]
) -> Sequence[tuple[Changed, str, Prefix]]:
    """The ranks, each with a place and what it has there that it had not before: a page on its device or its host, a
    window, or a state.
    """
    return [*_coming(state, call, ranks_changed)]


@fact(0, ports=PORT)
def pages_from_nothing(
    state: RanksState,
    call: RankCall,
    ranks_then: RanksState,
    pages_come: Sequence[tuple[Changed, str, Prefix]],
) -> Sequence[tuple[int, str, Prefix]] | Unknown:
    """The ranks, each with a place and a prefix that is there now, was not before, was brought by no commit and no copy that
    this rank named in this call, and by none that was under way and has ended on every rank; unknown where none is found,
    and one can't be seen.
    """
    found = []
    for one, place, page in pages_come:
        trace = one.trace or Trace(one.rank)
        named = page in _brought(trace.decisions, place) or _copied(state, ranks_then, one.rank, place, page)
        # Of a call that did not end there RANKS-06 and RANKS-25 speak.
        if trace.ended == RETURNED and not named:
            found.append((one.rank, place, page))
    return UNKNOWN if not found and (_blind(state, call, ranks_then) or some_unseen(ranks_then)) else found


def _coming(state: RanksState, call: RankCall, changed: Sequence[Changed]) -> Iterator[tuple[Changed, str, Prefix]]:
    for one in changed:
        before = None if isinstance(call, RankStart) else one.before
        # Of one that was there, and could not be seen, nobody knows what it had.
        if one.after is None or (before is None and not isinstance(call, RankStart) and state.own[one.rank].alive):
            continue
        had = ((),) * len(PLACES) if before is None else _places(before)
        for place, was, now in zip(PLACES, had, _places(one.after), strict=True):
            yield from ((one, place, page) for page in now if page not in was)


def _blind(state: RanksState, call: RankCall, then: RanksState) -> Collection[int]:
    """The ranks of which nobody knows what they had; one that was gone, and is back, had nothing."""
    if isinstance(call, RankStart):
        return ()
    seen = looks_of(state)
    return [one for one in looks_of(then) if one not in seen and state.own[one].alive]


def _copied(state: RanksState, then: RanksState, rank: int, tier: str, page: Prefix) -> bool:
    """Whether a copy of this page to this tier was under way, and has ended on every rank: it may be noted later."""
    if tier not in BRINGS:
        return False
    had = looks_of(state).get(rank)
    queue = () if had is None else had.loading if tier == "device" else had.writing
    members = then.world.tree(then.tree_of(rank))
    return page in queue and all(page in getattr(then.own[one], ENDED[tier]) for one in members)


def _brought(decisions: Sequence[Decision], tier: str) -> Collection[Prefix]:
    """The pages that a rank says to have brought to a tier, or the windows; what a prefetch has read is cached on one or the other."""
    commits = (tier, "kv") if tier in BRINGS else (tier,)
    return {
        page
        for one in decisions
        if (one.kind == "commit" and one.of in commits) or (one.kind in ("grant", "ack") and one.of == BRINGS.get(tier))
        for page in one.prefixes
    }


def _cached(view: RankView) -> Mapping[str, Collection[Prefix]]:
    """What may be named as cached, by what a commit is of; a page whose copy is under way has its memory."""
    device, host = (*view.device, *view.loading), (*view.host, *view.writing)
    there: dict[str, Collection[Prefix]] = {
        "device": device,
        "host": host,
        "kv": {*device, *host},
        "window": view.window,
    }
    return there if view.states is None else {**there, "state": view.states.cached}


def _whole_trees(state: RanksState, then: RanksState) -> Iterator[tuple[int, ...]]:
    """The trees none of whose ranks is gone, or has lost something since all began together."""
    for at in range(len(then.world.trees)):
        members = then.world.tree(at)
        if all(own.alive and own.whole for known in (state, then) for own in map(known.own.__getitem__, members)):
            yield members


# What a prefetch holds


@fact(0)
def ranks_fetching(ranks_then: RanksState) -> bool:
    """Whether a prefetch is under way."""
    return any(agreed.fetches for agreed in ranks_then.trees)


class Held(NamedTuple):
    """What a prefetch holds memory for: pages, so many pages of the window, so many states."""

    pages: Collection[Prefix]
    window: int
    states: int


@fact(0, ports=PORT)
def prefetches_cut(
    state: RanksState, call: RankCall, ranks_then: RanksState, ranks_changed: Sequence[Changed]
) -> Sequence[tuple[int, int, str]] | Unknown:
    """The ranks, each with a prefetch that goes on and the part of it, pages, window or state, for which it had memory, or
    took some in this call, and has none now, though storage may have it and it isn't cached; nothing is said of trees that
    have lost a rank, or storage on one, nor of a prefetch whose reading has ended early; unknown where none is found, and
    one can't be seen.
    """
    blind, found = False, []
    for members in _whole_trees(state, ranks_then):
        if not all(known.own[rank].attached for known in (state, ranks_then) for rank in members):
            continue
        for rank, trace, before, after in [one for one in ranks_changed if one.rank in members]:
            for rid, fetch, begins in _going_on(state, call, rank, trace):
                if any(rid in ranks_then.own[one].failed for one in members):
                    continue
                if before is None or after is None:
                    blind = True
                    continue
                had = _taken(fetch, state.world.window) if begins else _held(before, rid)
                many = still_restorable(ranks_then, members, rid, fetch) if fetch.hit is None else fetch.hit
                found += [(rank, rid, what) for what in _cut(fetch, many, had, after, rid, state.world.window)]
    return UNKNOWN if not found and (blind or some_unseen(ranks_then)) else found


def _going_on(state: RanksState, call: RankCall, rank: int, trace: Trace | None) -> Iterator[tuple[int, Fetch, bool]]:
    """The prefetches that go on, to this rank's own words, and whether each begins with this call; none where the call
    did not end there.
    """
    agreed = state.trees[state.tree_of(rank)]
    decisions: Sequence[Decision] = ()
    if trace is not None and isinstance(call, RankAsk):
        if trace.ended != RETURNED or decided(trace.decisions, "commit", "reset") is not None:
            return
        decisions, agreed = trace.decisions, fetching(state, call.ask, trace.decisions, agreed)
    begun = call.ask.rid if isinstance(call, RankAsk) and decided(decisions, "grant", "read") else None
    for rid, fetch in agreed.fetches.items():
        yield rid, fetch, rid == begun


def _taken(fetch: Fetch, window: int) -> Held:
    """What a prefetch says to take memory for when it begins."""
    return Held(fetch.granted, window * fetch.window, int(fetch.state))


def _held(view: RankView, rid: int) -> Held:
    """What a prefetch holds."""
    mine = [(pages, window) for other, pages, window in view.reading if other == rid]
    states = () if view.states is None else view.states.held
    return Held(
        {page for pages, _ in mine for page in pages},
        sum(window for _, window in mine),
        sum(other == rid for other, _ in states),
    )


def _cut(fetch: Fetch, many: int, had: Held, after: RankView, rid: int, window: int) -> Iterator[str]:
    """What a prefetch had, and has no more, of the first pages, so many, that storage may have of it."""
    kept, has = fetch.granted[:many], _held(after, rid)
    cached = {*after.device, *after.host, *after.writing}
    if any(page in had.pages and page not in has.pages and page not in cached for page in kept):
        yield "pages"
    if fetch.window and many >= window <= had.window and has.window < window and kept[-1] not in after.window:
        yield "window"
    stated = after.states is not None and fetch.state and many and had.states
    if stated and not has.states and kept[-1] not in cached_states(after):
        yield "state"
