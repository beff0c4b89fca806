"""What is known of several ranks: what each has done by itself, and what they have agreed on.

The suite ends each rank's copies, answers its queries and sets its clock, so it knows what each has by itself.  What
they agreed on is what they decided: of ranks that decided differently nothing more is said, for that is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.interface.ranks import Ask, Await, Decision, Local, Prefix, World, worlds
from kvlitmus.spec.prefix.calls import Raised
from kvlitmus.spec.ranks.calls import ABSENT, RETURNED, RankAsk, RankLocal, RankStart, Together, Views
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.prefetch_life import ENDED, FETCH
from kvlitmus.spec.words.quick_replace import lean


@lean
class Own(NamedTuple):
    """What one rank has by itself."""

    alive: bool = True
    """Whether it is there."""
    whole: bool = True
    """Whether it has lost nothing since all began together."""
    attached: bool = True
    """Whether its storage is."""
    clock: int = 0
    """Its time, in seconds."""
    pinched: int = 0
    """Pages of its host that others occupy."""
    wrote: frozenset[Prefix] = frozenset()
    """The pages whose copy to the host has ended."""
    loaded: frozenset[Prefix] = frozenset()
    """The pages whose copy to the device has ended."""
    found: Mapping[int, frozenset[int]] = {}
    """What its storage answered, by request."""
    read: Mapping[int, tuple[int, int]] = {}
    """Pages and pages of the window, by request."""
    failed: frozenset[int] = frozenset()
    """The requests whose reading ended early."""
    pinched_states: int = 0
    """Entries for states that others occupy."""
    states: Mapping[int, frozenset[int]] = {}
    """For which boundaries its storage has a state, by request."""
    stated: frozenset[int] = frozenset()
    """The requests whose state was read."""


@lean
class Fetch(NamedTuple):
    """A prefetch that all agreed on: the pages it took memory for, how many of them storage has on all ranks (``None``
    while that isn't agreed), whether it took memory for a window and for a state, and when it began by each rank's clock.
    """

    granted: tuple[Prefix, ...]
    window: bool
    began: Mapping[int, int]
    hit: int | None = None
    state: bool = False


@lean
class Agreed(NamedTuple):
    """What the ranks of one tree agreed on: the copies that have begun and aren't acknowledged, and the prefetches.

    ``used``: the pages on the device of which it is known when they were used, the least recently used first.
    """

    writing: tuple[Prefix, ...] = ()
    loading: tuple[Prefix, ...] = ()
    fetches: Mapping[int, Fetch] = {}
    used: tuple[Prefix, ...] = ()


@lean
class RanksState(NamedTuple):
    """Everything that is known of some ranks.

    ``seen``: how each looked after the last step.  ``followed``: whether it is known what they have agreed on; if it
    isn't, nothing can be asked of ``trees``.
    """

    world: World
    own: Mapping[int, Own]
    trees: tuple[Agreed, ...]
    seen: Views
    followed: bool = True

    def tree_of(self, rank: int) -> int:
        """The number of the tree that a rank is of."""
        return next(at for at in range(len(self.world.trees)) if rank in self.world.tree(at))

    def living(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Those of these ranks that are alive."""
        return tuple(rank for rank in ranks if self.own[rank].alive)


def begun(world: World, seen: Views = ()) -> RanksState:
    """Nothing has happened yet."""
    return RanksState(world, dict.fromkeys(world.ranks, Own()), (Agreed(),) * len(world.trees), seen)


NO_RANKS = begun(worlds()["tp2"])
"""Before any ranks have begun."""


def finished(queue: Sequence[Prefix], ended: frozenset[Prefix]) -> int:
    """How many copies have ended from the first of the queue on without a gap: what ended behind a gap waits."""
    return next((at for at, page in enumerate(queue) if page not in ended), len(queue))


def may_stop(world: World, own: Own, rank: int, rid: int, fetch: Fetch) -> bool:
    """Whether, to this rank alone, the stop policy lets a prefetch end."""
    pages, window = own.read.get(rid, (0, 0))
    whole = fetch.hit is not None and pages >= fetch.hit and (not fetch.window or window >= world.window)
    whole = whole and (not fetch.state or rid in own.stated)
    return policies.may_stop(world.stop, ENDED if whole else FETCH, own.clock - fetch.began[rank], world.limit)


def stops(state: RanksState, ranks: Sequence[int], rid: int, fetch: Fetch) -> bool:
    """Whether a prefetch ends: every rank lets it, or on some rank its reading has ended early."""
    mine = [(rank, state.own[rank]) for rank in ranks]
    return any(rid in own.failed for _, own in mine) or all(
        may_stop(state.world, own, rank, rid, fetch) for rank, own in mine
    )


def common_pages(state: RanksState, ranks: Sequence[int], rid: int, fetch: Fetch) -> int:
    """How many pages of a prefetch every rank has read, of those that storage was agreed to have."""
    return min([fetch.hit or 0, *[state.own[rank].read.get(rid, (0, 0))[0] for rank in ranks]])


def common_parts(state: RanksState, ranks: Sequence[int], rid: int, fetch: Fetch) -> tuple[bool, bool]:
    """Whether every rank has read a whole window, and whether it has read the state, with all pages before its boundary."""
    own = [state.own[rank] for rank in ranks]
    whole = common_pages(state, ranks, rid, fetch) == (fetch.hit or 0) > 0
    window = all(one.read.get(rid, (0, 0))[1] >= state.world.window for one in own)
    return whole and fetch.window and window, whole and fetch.state and all(rid in one.stated for one in own)


def restorable(state: RanksState, ranks: Sequence[int], rid: int, fetch: Fetch) -> int | None:
    """The longest prefix that can be restored on every rank, in pages; ``None`` while a rank has no answer.

    It is the largest boundary of the *intersection*, over ranks and components: the least of each rank's longest is, on
    some rank, no boundary, and where one has a state another one may have none.
    """
    answers = [_restorable_here(state.own[rank], rid, fetch) for rank in ranks]
    return None if None in answers else still_restorable(state, ranks, rid, fetch)


def still_restorable(state: RanksState, ranks: Sequence[int], rid: int, fetch: Fetch) -> int:
    """The longest prefix, in pages, that can be restored on every rank whose storage has answered: all, before one has."""
    answers = [_restorable_here(state.own[rank], rid, fetch) for rank in ranks]
    common = frozenset(range(1, len(fetch.granted) + 1)).intersection(*[one for one in answers if one is not None])
    return max(common, default=0)


def _restorable_here(own: Own, rid: int, fetch: Fetch) -> frozenset[int] | None:
    """The boundaries that one rank can restore; ``None`` while its storage has not answered."""
    found = own.found.get(rid)
    return found if found is None or not fetch.state else found & own.states.get(rid, frozenset())


# -- what a step amounts to --------------------------------------------------------------------------


def decided(decisions: Sequence[Decision], kind: str, of: str) -> tuple[Prefix, ...] | None:
    """What was decided of this kind; ``None`` where nothing was."""
    found = [one.prefixes for one in decisions if one.kind == kind and one.of == of]
    if len(found) < 2:
        return found[0] if found else None
    return tuple(page for pages in found for page in pages)


def advance_ranks(state: RanksState, call: object, answer: object) -> RanksState:
    """What is known after a step."""
    if isinstance(call, RankStart):
        return begun(call.world, answer if isinstance(answer, tuple) else ())
    if isinstance(call, RankLocal):
        state = after_local(state, call.event)
        return state._replace(seen=answer if isinstance(answer, tuple) else ())
    if isinstance(call, RankAsk) and isinstance(answer, Together) and not isinstance(answer, Raised):
        return after_ask(state, call, answer)
    return state


def noted(own: Own, event: Local) -> Own:
    """What a rank has by itself after something happened to it alone; being lost, or back, is no such thing."""
    if event.what in ("wrote", "loaded"):
        return own._replace(**{event.what: getattr(own, event.what) | {event.key}})
    if event.what == "found":
        return own._replace(
            found={**own.found, event.rid: frozenset(event.boundaries)},
            states={**own.states, event.rid: frozenset(event.states)},
        )
    if event.what == "read":
        stated = own.stated | {event.rid} if event.state else own.stated - {event.rid}
        return own._replace(read={**own.read, event.rid: (event.pages, event.window)}, stated=stated)
    if event.what == "failed":
        return own._replace(failed=own.failed | {event.rid})
    if event.what == "clock":
        return own._replace(clock=event.pages)
    if event.what == "pinch":
        return own._replace(pinched=event.pages, pinched_states=event.state)
    return own._replace(attached=bool(event.pages)) if event.what == "attach" else own


def forgotten(own: Own, rid: int) -> Own:
    """What a rank has by itself without what it has of a request: that was of a prefetch which is over, or not begun."""
    if not any(rid in there for there in (own.found, own.read, own.failed, own.states, own.stated)):
        return own
    return own._replace(
        found={other: one for other, one in own.found.items() if other != rid},
        read={other: one for other, one in own.read.items() if other != rid},
        failed=own.failed - {rid},
        states={other: one for other, one in own.states.items() if other != rid},
        stated=own.stated - {rid},
    )


def emptied(own: Own) -> Own:
    """What a rank has by itself after all began anew: its clock, its storage, and what others occupy there."""
    return Own(clock=own.clock, attached=own.attached, pinched=own.pinched, pinched_states=own.pinched_states)


def after_local(state: RanksState, event: Local) -> RanksState:
    """One rank has something by itself that it had not, or it is lost or back."""
    own = noted(state.own[event.rank], event)
    if event.what == "die":
        own = own._replace(alive=False, whole=False)
    elif event.what == "restart":
        own = Own(whole=False, clock=own.clock)
    return state._replace(own={**state.own, event.rank: own})


def awaited(answer: Together, rank: int, what: str) -> frozenset[Prefix]:
    """The pages whose copies, ``wrote`` or ``loaded``, ended on a rank since it waited for them in a call."""
    entered = [one for trace in answer.traces if trace.rank == rank for one in trace.entered]
    return frozenset(page for one in entered if isinstance(one, Await) and one.what == what for page in one.pages)


def after_ask(state: RanksState, call: RankAsk, answer: Together) -> RanksState:
    """What the ranks of a tree decided, as the first of them that returned says."""
    own = state.own
    if any(isinstance(one, Await) for trace in answer.traces for one in trace.entered):
        own = {
            rank: one._replace(
                wrote=one.wrote | awaited(answer, rank, "wrote"), loaded=one.loaded | awaited(answer, rank, "loaded")
            )
            for rank, one in own.items()
        }
    state = state._replace(seen=answer.views, own=own)
    first = next((one for one in answer.traces if one.ended == RETURNED), None)
    if first is None or not state.followed or any(one.ended not in (RETURNED, ABSENT) for one in answer.traces):
        return state
    at = state.tree_of(call.ranks[0])
    agreed, after = _agreed(state, call, first.decisions, state.trees[at])
    return state._replace(trees=(*state.trees[:at], agreed, *state.trees[at + 1 :]), own={**state.own, **after})


def _agreed(
    state: RanksState, call: RankAsk, decisions: Sequence[Decision], agreed: Agreed
) -> tuple[Agreed, Mapping[int, Own]]:
    """What is agreed on after a call, and what each rank has by itself of what goes on."""
    own = {rank: state.own[rank] for rank in call.ranks}
    if call.ask.what == "rejoin" and decided(decisions, "commit", "reset") is not None:
        return Agreed(), {rank: emptied(one) for rank, one in own.items()}
    if call.ask.what == "rejoin":
        return agreed, {rank: one._replace(whole=True) for rank, one in own.items()}
    wrote = frozenset(decided(decisions, "ack", "write") or ())
    loaded = frozenset(decided(decisions, "ack", "load") or ())
    writing = (*[page for page in agreed.writing if page not in wrote], *(decided(decisions, "grant", "write") or ()))
    loading = (*[page for page in agreed.loading if page not in loaded], *(decided(decisions, "grant", "load") or ()))
    if wrote or loaded:
        own = {rank: one._replace(wrote=one.wrote - wrote, loaded=one.loaded - loaded) for rank, one in own.items()}
    used = used_now(state, call, decisions, agreed.used)
    agreed = fetching(state, call.ask, decisions, agreed._replace(writing=writing, loading=loading, used=used))
    if decided(decisions, "grant", "read") or call.ask.rid not in agreed.fetches:
        # A request's number may be used again: what was found and read for the prefetch before is nothing to this one.
        own = {rank: forgotten(one, call.ask.rid) for rank, one in own.items()}
    return agreed, own


def used_now(
    state: RanksState, call: RankAsk, decisions: Sequence[Decision], used: tuple[Prefix, ...]
) -> tuple[Prefix, ...]:
    """The order of use after a call: a match and an insert use the pages of the key that are there.

    Whether a load uses those that it hangs from is a choice, and so is how recent a page counts that has come by one.
    """
    view = next((state.seen[rank] for rank in call.ranks if rank < len(state.seen)), None)
    if view is None:
        return ()
    key = call.ask.key
    if call.ask.what == "match":
        key = (decided(decisions, "match", "device") or ((),))[0]
    path = [key[:at] for at in range(1, len(key) + 1)] if call.ask.what in ("match", "insert", "load") else []
    path = path[: next((at for at, page in enumerate(path) if page not in view.device), len(path))]
    left = [page for page in used if page in view.device and page not in path]
    return tuple(left if call.ask.what == "load" else [*left, *path])


def fetching(state: RanksState, ask: Ask, decisions: Sequence[Decision], agreed: Agreed) -> Agreed:
    """The prefetches after a call."""
    fetches = dict(agreed.fetches)
    granted = decided(decisions, "grant", "read")
    hit = decided(decisions, "grant", "hit")
    over = decided(decisions, "commit", "kv") is not None or hit == () or ask.what == "abort"
    if granted:
        began = {rank: own.clock for rank, own in state.own.items()}
        window, one = (bool(decided(decisions, "grant", of)) for of in ("window", "state"))
        fetches[ask.rid] = Fetch(granted, window, began, state=one)
    elif over:
        fetches.pop(ask.rid, None)
    elif hit is not None and ask.rid in fetches:
        window = fetches[ask.rid].window and len(hit) >= state.world.window
        fetches[ask.rid] = fetches[ask.rid]._replace(hit=len(hit), window=window)
    return agreed._replace(fetches=fetches)
