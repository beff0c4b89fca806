"""Calls on several ranks: what happens to one alone, and what all ranks of a tree are asked."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.rendezvous import OddAnswer, number_of, prefix_of, prefixes_of, sequence_of, together
from kvlitmus.conformance.support.text import type_name
from kvlitmus.spec.interface.ranks import Ask, Decision, Local, Prefix, RankView, StatesView, Turns, World, worlds
from kvlitmus.spec.ranks.calls import RAISED, RETURNED, RankAsk, RankCall, RankLocal, RankStart, Together, Views
from kvlitmus.spec.ranks.lift import lifted
from kvlitmus.spec.ranks.one_rank import Lift
from kvlitmus.spec.ranks.state import Agreed, advance_ranks, decided

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

SHAPES = tuple(worlds())
"""The shapes of ranks, by name."""

OWED = ("match", "insert", "evict", "acks", "rejoin")
"""What every cache has, the last one where ranks can be lost; whether it has the rest it says itself."""


def start(checker: Checker, shape: str, **sizes: int | str) -> bool:
    """Begin anew with ranks of this shape; ``False`` where the cache has no such shape."""
    given: dict[str, int | str] = {"pages": checker.config.pages, "host_pages": checker.config.pages}
    world = worlds(**{**given, "stop": checker.config.stop, **sizes})[shape]
    return begin(checker, world, f"{shape}{''.join(f', {name}={size}' for name, size in sizes.items())}")


def begin(checker: Checker, world: World, said: str) -> bool:
    """The same with these very ranks."""
    checker.announce(f"ranks_start({said})", "ranks_start")
    _, error = checker.attempt(lambda: checker.adapter.ranks_start(world))
    if isinstance(error, NotImplementedError):
        checker.history[-1] += " → no such shape"
        return False
    if error is not None:
        raise checker.raised(error, "the call") from error
    call = RankStart(world)
    checker.ranks_state = advance_ranks(checker.ranks_state, call, ())
    _judge(checker, call, _views(checker))
    return True


def local(checker: Checker, event: Local) -> bool:
    """Something happens to one rank alone; ``False`` where it can't happen there."""
    said = [f"{name}={value}" for name, value in event._asdict().items() if value and name not in ("rank", "what")]
    text = f"ranks_local(rank {event.rank} {event.what} {' '.join(said)})".replace(" )", ")")
    try:
        answer = checker.call(text, "ranks_local", event)
    except NotImplementedError:
        checker.history[-1] += " → can't happen there"
        checker.declined.add(event.what)
        return False
    if event.what == "die":
        before = checker.ranks_state
        checker.ranks_state = advance_ranks(before, RankLocal(event), before.seen)
    pages = ended(checker, event, answer)
    if len(pages) > 1:
        checker.history[-1] += f" → so did {[page for page in pages if page != event.key]}"
    for page in pages:
        _judge(checker, RankLocal(event._replace(key=page)), _views(checker))
    return True


def ended(checker: Checker, event: Local, answer: object) -> list[Prefix]:
    """The pages whose copies ended with an event: that of its key, and those of the same operation."""
    if event.what not in ("wrote", "loaded") or answer is None:
        return [event.key]
    with checker.reading("the pages whose copies have ended"):
        pages = list(prefixes_of(answer))
    if event.key not in pages:
        raise checker.broken("PORT-03", f"the copy of {event.key} is not among those that have ended: {pages}")
    return pages


def ask(checker: Checker, what: str, key: Prefix = (), *, rid: int = 0, pages: int = 0, tree: int = 0) -> Together:
    """Ask all ranks of a tree the same; no rank did anything where the cache has no such call."""
    state = checker.ranks_state
    ranks, asked = state.world.tree(tree), Ask(what, tuple(key), rid, pages)
    living = state.living(ranks)
    said = [f"{name}={value}" for name, value in asked._asdict().items() if value and name != "what"]
    checker.announce(
        f"ranks_ask(ranks {', '.join(map(str, living))}: {what} {' '.join(said)}".rstrip() + ")", "ranks_ask"
    )
    calls = {}
    try:
        for rank in living:
            calls[rank] = turns_of(rank, checker.adapter.ranks_ask(rank, asked))
        traces, unread = together(calls, [rank for rank in ranks if rank not in living])
    except OddAnswer as error:
        raise checker.broken("PORT-03", str(error)) from error
    except NotImplementedError as error:
        if what in checker.answered_asks:
            raise checker.raised(error, "the call, which it has answered before,") from error
        if what in OWED:
            raise  # a method without a body: said of the adapter, not of the cache
        checker.history[-1] += " → no such call"
        checker.declined.add(what)
        return Together((), _views(checker), ())
    except BaseException as error:
        raise checker.raised(error, "the call") from error
    raised = next((one for one in traces if one.ended == RAISED), None)
    if raised is not None:
        raise checker.broken("PORT-01", f"on rank {raised.rank} the call raised {raised.why}")
    if what == "match":
        for one in traces:
            if one.ended == RETURNED and len(decided(one.decisions, "match", "device") or ()) != 1:
                raise checker.broken("PORT-03", f"rank {one.rank} named more than one prefix, or none, that was found")
    checker.answered_asks.add(what)
    answer = Together(tuple(traces), _views(checker), tuple(unread))
    checker.history[-1] += f" → {told(answer)}"
    _judge(checker, RankAsk(asked, ranks), answer)
    return answer


def turns_of(rank: int, value: Turns) -> Turns:
    """What a rank was asked, if it is a generator; raises :class:`OddAnswer` for anything else."""
    if not issubclass(type(value), Generator):
        raise OddAnswer(f"rank {rank} answered a {type_name(value)}, not a generator of what it enters")
    return value


def told(answer: Together) -> str:
    """What ranks decided, as a reader wants it: once, where all decided the same."""
    said = [
        ", ".join(map(decision_text, one.decisions)) or "nothing" if one.ended == RETURNED else one.ended
        for one in answer.traces
    ]
    if len(set(said)) == 1:
        return said[0]
    return "; ".join(f"rank {one.rank}: {text}" for one, text in zip(answer.traces, said, strict=True))


def decision_text(one: Decision) -> str:
    """A decision as a reader wants it."""
    return f"{one.kind} {one.of} {[''.join(f'/{page}' for page in prefix) or '/' for prefix in one.prefixes]}"


def finish_copies(checker: Checker, tree: int = 0) -> None:
    """All copies of a tree end on all its ranks, and are acknowledged."""
    state = checker.ranks_state
    agreed = state.trees[tree]
    for rank in state.world.tree(tree):
        for page in agreed.writing:
            if page not in checker.ranks_state.own[rank].wrote:
                local(checker, Local(rank, "wrote", page))
        for page in agreed.loading:
            if page not in checker.ranks_state.own[rank].loaded:
                local(checker, Local(rank, "loaded", page))
    ask(checker, "acks", tree=tree)


def cached(checker: Checker, key: Prefix, tree: int = 0) -> None:
    """Insert a key, and see it copied to the host of every rank."""
    ask(checker, "insert", key, tree=tree)
    finish_copies(checker, tree)


def ended_here(checker: Checker, rank: int, what: str, pages: Sequence[Prefix]) -> None:
    """Copies of these pages, ``wrote`` or ``loaded``, end on a rank, those left out that have ended with others."""
    for page in pages:
        if page not in getattr(checker.ranks_state.own[rank], what):
            local(checker, Local(rank, what, page))


def found(
    checker: Checker,
    rid: int,
    boundaries: Sequence[Sequence[int]],
    states: Sequence[Sequence[int]] | None = None,
    tree: int = 0,
) -> None:
    """The storage of each rank answers for a prefetch, if it has begun, one after the other; then all note it.

    ``states``: where there are states, the boundaries that each rank's storage has one for; if not said, those that can
    be restored.
    """
    fetch = agreed(checker, tree).fetches.get(rid)
    if fetch is not None and fetch.hit is None:
        stated = (states or boundaries) if fetch.state else ((),) * len(boundaries)
        for rank, *mine in zip(checker.ranks_state.world.tree(tree), boundaries, stated, strict=False):
            there, its = (tuple([page for page in some if page <= len(fetch.granted)]) for some in mine)
            local(checker, Local(rank, "found", rid=rid, boundaries=there, states=its))
    ask(checker, "hit", rid=rid, tree=tree)


def read(checker: Checker, rid: int, progress: Sequence[tuple[int, ...]], tree: int = 0) -> None:
    """Each rank has read so many pages of a prefetch that goes on, so many of the window, and so many states, or all
    that there are; what is not said is none.
    """
    fetch = agreed(checker, tree).fetches.get(rid)
    if fetch is None or fetch.hit is None:
        return
    most = (fetch.hit, checker.ranks_state.world.window if fetch.window else 0, int(fetch.state))
    for rank, mine in zip(checker.ranks_state.world.tree(tree), progress, strict=False):
        pages, window, state = map(min, (*mine, 0, 0)[:3], most)
        local(checker, Local(rank, "read", rid=rid, pages=pages, window=window, state=state))


def failed(checker: Checker, rank: int, rid: int) -> None:
    """The reading of a prefetch ends early on a rank, if it goes on."""
    if rid in agreed(checker, checker.ranks_state.tree_of(rank)).fetches:
        local(checker, Local(rank, "failed", rid=rid))


def pinch(checker: Checker, rank: int, left: int, states: int | None = None) -> None:
    """Others occupy the host of a rank until so much of it is left, and so many entries for states, or as much as is
    free there; of states nothing, if they are not spoken of.
    """
    seen, world = checker.ranks_state.seen[rank], checker.ranks_state.world
    free = world.host_pages if seen is None else seen.host_free
    entries = 0 if seen is None or seen.states is None or states is None else seen.states.free
    taken = max(0, min(world.host_pages - left, free))
    state = max(0, min(world.state_slots - (states or 0), entries))
    local(checker, Local(rank, "pinch", pages=taken, state=state))


def lose(checker: Checker, rank: int, what: str, key: Prefix = (), pages: int = 0) -> bool:
    """A rank is gone; the others are asked something all the same, then it is back, and all go on together, or begin
    anew where nobody comes back.

    ``False`` where ranks can't be lost.
    """
    tree = checker.ranks_state.tree_of(rank)
    if not local(checker, Local(rank, "die")):
        return False
    ask(checker, what, key, pages=pages, tree=tree)
    if not local(checker, Local(rank, "restart")):
        world = checker.ranks_state.world
        return start(checker, world.name, **({"state_slots": world.state_slots} if world.state_slots else {}))
    ask(checker, "rejoin", tree=tree)
    return True


def agreed(checker: Checker, tree: int = 0) -> Agreed:
    """What the ranks of a tree have under way."""
    return checker.ranks_state.trees[tree]


def settle(checker: Checker) -> None:
    """End everything that is under way: nothing may be left."""
    for tree in range(len(checker.ranks_state.world.trees)):
        if not checker.ranks_state.seen and not checker.history:
            return
        for rid in list(agreed(checker, tree).fetches):
            ask(checker, "abort", rid=rid, tree=tree)
        finish_copies(checker, tree)
        ask(checker, "evict", pages=checker.ranks_state.world.pages, tree=tree)


def _views(checker: Checker) -> Views:
    """A look at each rank that is there."""
    state = checker.ranks_state
    if "ranks_view" not in checker.capabilities:
        return (None,) * len(state.world.ranks)
    last = state.seen or (None,) * len(state.own)
    views = [_view(checker, rank) if state.own[rank].alive else None for rank in state.own]
    return tuple(
        [was if was == view else view for was, view in zip(last, views, strict=True)]
    )  # one that is known by itself


def _view(checker: Checker, rank: int) -> RankView | None:
    """A look at one rank; ``None`` where a call on it has not ended."""
    view = checker.look("ranks_view", rank)
    if view is None:
        return None
    stated = checker.ranks_state.world.state_slots > 0 and "rank_states" in checker.capabilities
    states = _states(checker, rank) if stated else None
    if stated and states is None:
        return None
    if not issubclass(type(view), RankView):
        raise checker.broken("PORT-03", f"expected a RankView, got a {type_name(view)}")
    with checker.reading(f"a look at rank {rank} with fields of the promised types"):
        if view.states is not None:
            raise TypeError("its states are put there by the suite")
        return RankView(
            prefixes_of(view.device),
            prefixes_of(view.host),
            prefixes_of(view.writing),
            prefixes_of(view.loading),
            tuple(
                (number_of(rid), prefixes_of(held), number_of(window))
                for rid, held, window in sequence_of(view.reading)
            ),
            prefixes_of(view.window),
            number_of(view.device_free),
            number_of(view.host_free),
            number_of(view.window_free),
            states,
        )


def _states(checker: Checker, rank: int) -> StatesView | None:
    """A look at the states of one rank; ``None`` where a call on it has not ended."""
    view = checker.look("ranks_states", rank)
    if view is None:
        return None
    if not issubclass(type(view), StatesView):
        raise checker.broken("PORT-03", f"expected a StatesView, got a {type_name(view)}")
    with checker.reading(f"a look at the states of rank {rank} with fields of the promised types"):
        return StatesView(
            prefixes_of(view.cached),
            tuple((number_of(rid), prefix_of(place)) for rid, place in sequence_of(view.held)),
            number_of(view.free),
        )


def _judge(checker: Checker, call: RankCall, answer: Together | Views) -> None:
    """A call was answered: what is known of the ranks follows, and the step is judged; then that of each rank."""
    before = checker.ranks_state
    checker.ranks_state = then = checker.ranks_after(before, call, answer)
    checker.answered(call, answer, before)
    lift = checker.rank_lift
    if lift is None or lift.world != then.world:
        lift = checker.rank_lift = Lift(then.world, checker.config, checker.profile, checker.names)
    for one in lifted(lift, before, call, answer, then):
        checker.lifted(one)
